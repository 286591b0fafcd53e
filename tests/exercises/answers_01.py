"""Right answers of many styles to the exercises of notebook 01."""

import math

import torch
from torch.nn import functional as F

from course_utils.attention import attend


def scores_by_loops(queries, keys):
    """Every pair by itself."""
    queries, lead = queries.flatten(0, -3), queries.shape[:-2]
    keys = keys.flatten(0, -3)
    root = math.sqrt(queries.shape[-1])
    rows = [
        [torch.stack([(q * k).sum() / root for k in some]) for q in asking]
        for asking, some in zip(queries, keys, strict=True)
    ]
    stacked = torch.stack([torch.stack(row) for row in rows])
    return stacked.reshape(*lead, *stacked.shape[1:])


def scores_any(queries, keys):
    if queries.ndim == 2:
        return scores_by_loops(queries[None], keys[None])[0]
    return scores_by_loops(queries, keys)


def weights_by_loops(scores):
    result = torch.zeros_like(scores)
    flat, out = scores.reshape(-1, scores.shape[-1]), result.view(-1, scores.shape[-1])
    for row, place in zip(flat, out, strict=True):
        powers = [math.exp(s - row.max()) for s in row]
        for i, power in enumerate(powers):
            place[i] = power / sum(powers)
    return result


def gradient_by_loops(weights, gradients):
    result = torch.zeros_like(weights)
    flat = [part.reshape(-1, part.shape[-1]) for part in (weights, gradients, result)]
    for w, g, out in zip(*flat, strict=True):
        for j in range(len(w)):
            for k in range(len(w)):
                slope = w[k] * (1 - w[k]) if j == k else -w[k] * w[j]
                out[j] += g[k] * slope
    return result


def gradient_by_autograd(weights, gradients):
    with torch.enable_grad():
        scores = (weights + 1e-300).log().detach().requires_grad_()
        (gradient,) = torch.autograd.grad(scores.softmax(dim=-1), scores, gradients)
    return gradient


def cosine_by_lengths(queries, keys, values, temperature):
    queries = queries / queries.norm(dim=-1, keepdim=True)
    keys = keys / keys.norm(dim=-1, keepdim=True)
    return torch.softmax(queries @ keys.T / temperature, -1) @ values


def cosine_by_pairs(queries, keys, values, temperature):
    cosines = F.cosine_similarity(queries[:, None], keys[None], dim=-1)
    return torch.einsum("qk,ke->qe", (cosines / temperature).softmax(1), values)


def look_up_with_twenty(color, animals, colors):
    """Another length of the query: nearly the same, within the tolerance."""
    hot = torch.eye(8)
    return attend(20 * hot[[color]], hot[colors], hot[animals])[0]


def look_up_with_ten(color, animals, colors):
    """Too warm for the tolerance."""
    hot = torch.eye(8)
    return attend(10 * hot[[color]], hot[colors], hot[animals])[0]


def look_up_by_hand(color, animals, colors):
    result = torch.zeros(8)
    result[animals[colors.tolist().index(color)]] = 1
    return result


def warm_and_exchanged(color, animals, colors):
    hot = torch.eye(8)
    return (hot[color] @ hot[animals].T).softmax(dim=-1) @ hot[colors]


RIGHT_ANSWERS = {
    "attention.scores": [
        scores_any,
        lambda q, k: q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)),
    ],
    "attention.weights": [
        weights_by_loops,
        lambda s: F.softmax(s, dim=s.ndim - 1),
    ],
    "attention.context": [
        torch.matmul,
        lambda w, v: (w[..., None] * v[..., None, :, :]).sum(dim=-2),
    ],
    "attention.gradient": [
        gradient_by_loops,
        gradient_by_autograd,
    ],
    "attention.cosine": [cosine_by_lengths, cosine_by_pairs],
    "attention.look_up": [
        look_up_by_hand,
        look_up_with_twenty,
    ],
}
DOUBLE_MISTAKES = {
    "attention.scores": [
        lambda q, k: k @ q.transpose(-2, -1),  # exchanged, and no scale
        lambda q, k: q @ k.transpose(-2, -1) * q.shape[-1],  # multiplied, no root
    ],
    "attention.weights": [
        lambda s: s.exp() / s.exp().sum(dim=-2, keepdim=True),  # columns that overflow
        lambda s: (s - s.max()).softmax(dim=-2) / 2,
    ],
    "attention.context": [
        lambda w, v: w.transpose(-2, -1) * v,
        lambda w, v: w.transpose(-2, -1).round() @ v,
    ],
    "attention.gradient": [
        lambda w, g: w.square() * g,  # only one factor, and twice
        lambda w, g: w * (1 - w) * (g - g.mean(-1, keepdim=True)),
    ],
    "attention.cosine": [
        lambda q, k, v, t: (q @ k.T).softmax(dim=-1) @ v,  # lengths, no temperature
        lambda q, k, v, t: (F.normalize(q, dim=0) @ k.T * t).softmax(dim=-1) @ v,
    ],
    "attention.look_up": [
        warm_and_exchanged,
        look_up_with_ten,
    ],
}
