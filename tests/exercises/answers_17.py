"""Right answers to the exercises of notebook 17, each unlike the reference."""

import numpy as np
import torch


def parameters_by_heads(config):
    m, head = config.d_model, config.d_model // config.num_heads
    attention = 2 * m * head * (config.num_heads + config.num_kv_heads)
    total = m * (config.vocab_size + 1)
    for _ in range(config.num_layers):
        total += attention + m * (2 + 3 * config.d_ff)
    if not config.tied:
        total += m * config.vocab_size
    return total


def mean_by_average(losses, labels):
    counts = [(part != -100).sum().item() for part in labels]
    return np.average(np.nan_to_num(losses.numpy()), weights=counts)


def update_by_logsumexp(top, total, mixed, scores, values):
    new = torch.cat([top, scores], -1).max(-1, keepdim=True).values
    both = torch.cat([top + total.log(), scores], -1).logsumexp(-1, keepdim=True)
    old = mixed * torch.exp(top) / torch.exp(new)
    return new, torch.exp(both - new), old + torch.exp(scores - new) @ values


RIGHT_ANSWERS = {
    "scaling.parameters": [parameters_by_heads],
    "scaling.flops": [lambda n, layers, m, t, d: 6 * n * d + 12 * layers * t * m * d],
    "scaling.online_softmax": [update_by_logsumexp],
    "scaling.mean_over_ranks": [mean_by_average],
}
