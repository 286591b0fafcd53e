"""Right answers to the exercises of notebook 17, each unlike the reference."""

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence


def parameters_by_heads(config):
    m, head = config.d_model, config.d_model // config.num_heads
    attention = 2 * m * head * (config.num_heads + config.num_kv_heads)
    total = m * (config.vocab_size + 1)
    for _ in range(config.num_layers):
        total += attention + m * (2 + 3 * config.d_ff)
    if not config.tied:
        total += m * config.vocab_size
    return total


def activations_by_tensors(rows, length, width, hidden):
    sizes = [(rows, length, width)] + 4 * [(rows, length, hidden)]
    made = [torch.empty(size, dtype=torch.bfloat16) for size in sizes]
    return sum(x.numel() * x.element_size() for x in made)


def mean_by_average(losses, labels):
    counts = [(part != -100).sum().item() for part in labels]
    return np.average(np.nan_to_num(losses.numpy()), weights=counts)


def power_by_covariance(compute, losses):
    both = torch.stack([compute.log(), losses.log()]).cov()
    return -both[0, 1] / both[0, 0]


def padding_by_tensors(lengths, size):
    batches = torch.tensor(lengths).split(size)
    padded = [pad_sequence([torch.ones(n) for n in batch]) for batch in batches]
    return 1 - sum(x.sum() for x in padded) / sum(x.numel() for x in padded)


def rows_by_mask(batch, rank, count):
    return batch[torch.arange(len(batch)) % count == rank]


RIGHT_ANSWERS = {
    "scaling.parameters": [parameters_by_heads],
    "scaling.flops": [lambda n, layers, m, t, d: 6 * n * d + 12 * layers * t * m * d],
    "scaling.bytes": [torch.tensor(16)],
    "scaling.activations": [activations_by_tensors],
    "scaling.mean_over_ranks": [mean_by_average],
    "scaling.days": [
        lambda n, d, many, fast, s: 6 * n * d / (many * fast * s * 24 * 3600)
    ],
    "scaling.power": [power_by_covariance],
    "scaling.halving": [lambda b: torch.tensor(2.0).pow(1 / b)],
    "scaling.padding": [padding_by_tensors],
    "scaling.rows_of_rank": [rows_by_mask],
    "scaling.per_process": [lambda n, many, sharded: 16 * n / many**sharded],
}
