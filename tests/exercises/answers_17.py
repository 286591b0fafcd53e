"""Answers to the exercises of notebook 17: right in many styles, and wrong twice."""

import math

import numpy as np
import torch
from nb17_budget import days
from nb17_ranks import bytes_per_process, rows_of_rank
from torch.nn.utils.rnn import pad_sequence

from course_utils.models import LlamaLM


def parameters_by_names(config):
    named = LlamaLM(config).named_parameters()
    return sum(math.prod(weight.shape) for _, weight in named)


def parameters_by_heads(config):
    m, head = config.d_model, config.d_model // config.num_heads
    attention = 2 * m * head * (config.num_heads + config.num_kv_heads)
    total = m * (config.vocab_size + 1)
    for _ in range(config.num_layers):
        total += attention + m * (2 + 3 * config.d_ff)
    if not config.tied:
        total += m * config.vocab_size
    return total


def flops_by_parts(matrices, layers, width, length, tokens):
    scores = contexts = 2 * width * length
    forward = 2 * matrices + layers * (scores + contexts)
    backward = 2 * forward
    return float(tokens * (forward + backward))


def activations_by_names(rows, length, width, hidden):
    widths = {"input": width, "gate": hidden, "up": hidden}
    widths |= {"silu": hidden, "product": hidden}
    return 16 // 8 * sum(widths.values()) * rows * length


def activations_by_tensors(rows, length, width, hidden):
    sizes = [(rows, length, width)] + 4 * [(rows, length, hidden)]
    made = [torch.empty(size, dtype=torch.bfloat16) for size in sizes]
    return sum(x.numel() * x.element_size() for x in made)


def activations_by_numpy(rows, length, width, hidden):
    return float(np.prod([2, rows, length]) * (width + hidden * 4))


def mean_by_loops(losses, labels):
    total = count = 0
    for loss, part in zip(losses, labels, strict=True):
        counted = sum(1 for label in part.flatten().tolist() if label != -100)
        if counted:
            total, count = total + loss * counted, count + counted
    return total / count


def mean_by_average(losses, labels):
    counts = [(part != -100).sum().item() for part in labels]
    return np.average(np.nan_to_num(losses.numpy()), weights=counts)


def mean_by_weights(losses, labels):
    counts = torch.tensor([(part >= 0).sum() for part in labels], dtype=losses.dtype)
    return (losses * counts / counts.sum()).nansum()


def days_by_steps(parameters, tokens, machines, speed, share):
    work = 6 * parameters * tokens
    seconds = work / speed / share / machines
    return seconds / 60 / 60 / 24


def power_by_numpy(compute, losses):
    return -np.polyfit(np.log(compute.numpy()), np.log(losses.numpy()), 1)[0]


def power_by_lstsq(compute, losses):
    ones = torch.ones_like(compute)
    table = torch.stack([compute.log10(), ones], dim=1).double()
    return -torch.linalg.lstsq(table, losses.log10().double()).solution[0]


def power_by_covariance(compute, losses):
    both = torch.stack([compute.log(), losses.log()]).cov()
    return -both[0, 1] / both[0, 0]


def padding_by_loops(lengths, size):
    real = padding = 0
    for start in range(0, len(lengths), size):
        longest = max(lengths[start : start + size])
        for length in lengths[start : start + size]:
            real, padding = real + length, padding + longest - length
    return padding / (real + padding)


def padding_by_tensors(lengths, size):
    batches = torch.tensor(lengths).split(size)
    padded = [pad_sequence([torch.ones(n) for n in batch]) for batch in batches]
    return 1 - sum(x.sum() for x in padded) / sum(x.numel() for x in padded)


def padding_by_chunks(lengths, size):
    chunks = np.split(np.array(lengths), range(size, len(lengths), size))
    paddings = sum((chunk.max() - chunk).sum() for chunk in chunks)
    return paddings / sum(chunk.max() * chunk.size for chunk in chunks)


def rows_by_loops(batch, rank, count):
    return torch.stack([row for i, row in enumerate(batch) if i % count == rank])


def rows_by_mask(batch, rank, count):
    return batch[torch.arange(len(batch)) % count == rank]


def memory_by_cases(parameters, processes, sharded):
    total = 4 * 4 * parameters
    if sharded:
        return total / processes
    return total


RIGHT_ANSWERS = {
    "scaling.parameters": [
        parameters_by_names,
        parameters_by_heads,
    ],
    "scaling.flops": [
        flops_by_parts,
        lambda n, layers, m, t, d: 6 * n * d + 12 * layers * t * m * d,
    ],
    "scaling.bytes": [16, 4 * 4.0, torch.tensor(16)],
    "scaling.activations": [
        activations_by_names,
        activations_by_tensors,
        activations_by_numpy,
    ],
    "scaling.mean_over_ranks": [
        mean_by_loops,
        mean_by_average,
        mean_by_weights,
    ],
    "scaling.days": [
        days_by_steps,
        lambda n, d, many, fast, s: 6 * n * d / (many * fast * s * 24 * 3600),
        days,
    ],
    "scaling.power": [power_by_numpy, power_by_lstsq, power_by_covariance],
    "scaling.halving": [
        lambda b: 0.5 ** (-1 / b),
        lambda b: math.exp(math.log(2) / b),
        lambda b: torch.tensor(2.0).pow(1 / b),
    ],
    "scaling.padding": [
        padding_by_loops,
        padding_by_tensors,
        padding_by_chunks,
    ],
    "scaling.rows_of_rank": [rows_by_loops, rows_by_mask, rows_of_rank],
    "scaling.per_process": [
        memory_by_cases,
        lambda n, many, sharded: 16 * n / many**sharded,
        bytes_per_process,
    ],
}


def no_heads_no_ties(config):
    m, f = config.d_model, config.d_ff
    block = 4 * m * m + 3 * m * f + 2 * m
    return config.num_layers * block + 2 * config.vocab_size * m + m


def padded_to_the_longest_for_each_word(lengths, size):
    return max(lengths) * len(lengths) / sum(lengths) - 1


DOUBLE_MISTAKES = {
    "scaling.parameters": [no_heads_no_ties],
    "scaling.flops": [lambda n, layers, m, t, d: 2 * n * d],
    "scaling.activations": [
        lambda rows, length, width, hidden: 4 * rows * length * 4 * hidden
    ],
    "scaling.mean_over_ranks": [
        lambda losses, labels: sum(
            loss * part.numel() for loss, part in zip(losses, labels, strict=True)
        )
    ],
    "scaling.days": [lambda n, d, many, fast, s: 2 * n * d / (many * fast) / 86_400],
    "scaling.power": [
        lambda compute, losses: np.polyfit(compute.numpy(), losses.numpy(), 1)[0]
    ],
    "scaling.halving": [lambda b: 0.1 ** (1 / b)],
    "scaling.padding": [padded_to_the_longest_for_each_word],
    "scaling.rows_of_rank": [
        lambda batch, rank, count: batch[: len(batch) // count * count][
            (rank - 1) % count :: count
        ]
    ],
    "scaling.per_process": [lambda n, many, sharded: 4 * n / many],
}
