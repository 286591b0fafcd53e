"""Right answers to the parts of a model that count through positions and columns."""

import math

import torch


def scores_by_loops(queries, keys):
    rows = []
    for query in queries.unbind(-2):
        row = [
            (query * key).sum(-1) / math.sqrt(key.shape[-1]) for key in keys.unbind(-2)
        ]
        rows.append(torch.stack(row, dim=-1))
    return torch.stack(rows, dim=-2)


def context_by_loops(weights, values):
    rows = []
    for row in weights.unbind(-2):
        places = range(values.shape[-2])
        rows.append(sum(row[..., k, None] * values[..., k, :] for k in places))
    return torch.stack(rows, dim=-2)


def rms_norm_by_loops(x, scale, eps):
    rows = []
    for row in x.flatten(0, 1):
        size = (sum(number**2 for number in row) / len(row) + eps) ** 0.5
        rows.append(
            torch.stack([s * n / size for s, n in zip(scale, row, strict=True)])
        )
    return torch.stack(rows).view(x.shape)


def rotary_by_loops(queries, keys, values, start, base):
    def turned(x):
        half, rows = x.shape[-1] // 2, []
        for place, row in enumerate(x.unbind(2), start):
            first, second = [], []
            for i in range(half):
                angle = place * base ** (-i / half)
                a, b, cos, sin = (
                    row[..., i],
                    row[..., half + i],
                    math.cos(angle),
                    math.sin(angle),
                )
                first.append(a * cos - b * sin)
                second.append(a * sin + b * cos)
            rows.append(torch.stack(first + second, dim=-1))
        return torch.stack(rows, dim=2)

    return turned(queries), turned(keys), values


def next_token_loss_by_loops(logits, ids):
    losses = []
    for row, labels in zip(logits, ids, strict=True):
        for scores, label in zip(row[:-1], labels[1:], strict=True):
            losses.append(scores.logsumexp(0) - scores[label])
    return sum(losses) / len(losses)


RIGHT_ANSWERS = {
    "attention.scores": [scores_by_loops],
    "attention.context": [context_by_loops],
    "llama.rms_norm": [rms_norm_by_loops],
    "positions.rotary": [rotary_by_loops],
    "backbone.next_token_loss": [next_token_loss_by_loops],
}
