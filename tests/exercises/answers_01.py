"""Right answers to the exercises of notebook 01, each unlike the reference."""

import math

import torch
from torch.nn import functional as F

from course_utils.attention import attend


def weights_by_loops(scores):
    result = torch.zeros_like(scores)
    flat, out = scores.reshape(-1, scores.shape[-1]), result.view(-1, scores.shape[-1])
    for row, place in zip(flat, out, strict=True):
        powers = [math.exp(s - row.max()) for s in row]
        for i, power in enumerate(powers):
            place[i] = power / sum(powers)
    return result


def gradient_by_autograd(weights, gradients):
    with torch.enable_grad():
        scores = (weights + 1e-300).log().detach().requires_grad_()
        (gradient,) = torch.autograd.grad(scores.softmax(dim=-1), scores, gradients)
    return gradient


def cosine_by_pairs(queries, keys, values, temperature):
    cosines = F.cosine_similarity(queries[:, None], keys[None], dim=-1)
    return torch.einsum("qk,ke->qe", (cosines / temperature).softmax(1), values)


def look_up_with_twenty(color, animals, colors):
    """Another length of the query: nearly the same, within the tolerance."""
    hot = torch.eye(8)
    return attend(20 * hot[[color]], hot[colors], hot[animals])[0]


def look_up_by_hand(color, animals, colors):
    result = torch.zeros(8)
    result[animals[colors.tolist().index(color)]] = 1
    return result


RIGHT_ANSWERS = {
    "attention.scores": [lambda q, k: (k / q.shape[-1] ** 0.5 @ q.mT).mT],
    "attention.weights": [weights_by_loops],
    "attention.context": [lambda w, v: (w[..., None] * v[..., None, :, :]).sum(dim=-2)],
    "attention.gradient": [gradient_by_autograd],
    "attention.cosine": [cosine_by_pairs],
    "attention.look_up": [look_up_by_hand, look_up_with_twenty],
}
