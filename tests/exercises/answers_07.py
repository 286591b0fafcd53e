"""Answers to the exercises of notebook 07: right in many styles, and wrong twice."""

import math

import nb07_cross_attention
import torch
from torch.nn import functional as F


def cross_by_hand(x, memory, w_q, w_k, w_v, mask):
    scores = (x @ w_q) @ (memory @ w_k).mT / w_q.shape[1] ** 0.5
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return weights @ (memory @ w_v)


def cross_by_rows(x, memory, w_q, w_k, w_v, mask):
    rows = []
    for asks, told, real in zip(x, memory, mask, strict=True):
        told = told[real[0]]
        scores = torch.einsum("td, sd -> ts", asks @ w_q, told @ w_k)
        rows.append((scores / math.sqrt(w_q.shape[1])).softmax(dim=-1) @ (told @ w_v))
    return torch.stack(rows)


def cross_by_kernel(x, memory, w_q, w_k, w_v, mask):
    queries, keys, values = x @ w_q, memory @ w_k, memory @ w_v
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def smoothed_by_lines(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] += 1 - epsilon
    return target


def smoothed_by_torch(right, vocab_size, epsilon):
    """The gradient of a smoothed loss knows the target."""
    scores = torch.zeros(1, vocab_size, requires_grad=True)
    loss = F.cross_entropy(scores, torch.tensor([right]), label_smoothing=epsilon)
    (gradient,) = torch.autograd.grad(loss, scores)
    return 1 / vocab_size - gradient[0]


def loss_by_library(scores, target, pad_id):
    flat = scores[:, :-1].flatten(0, 1), target[:, 1:].flatten()
    return F.cross_entropy(*flat, ignore_index=pad_id)


def loss_by_loops(scores, target, pad_id):
    surprises = []
    for row, ids in zip(scores.log_softmax(dim=-1), target.tolist(), strict=True):
        for position, wanted in enumerate(ids[1:]):
            if wanted != pad_id:
                surprises.append(-row[position, wanted])
    return sum(surprises) / len(surprises)


def loss_by_weights(scores, target, pad_id):
    labels = target[:, 1:, None]
    surprise = -scores.log_softmax(-1)[:, :-1].gather(-1, labels)
    real = labels != pad_id
    return (surprise * real).sum() / real.sum()


RIGHT_ANSWERS = {
    "translation.cross_attention": [
        cross_by_hand,
        cross_by_rows,
        cross_by_kernel,
        nb07_cross_attention.cross_attention,
    ],
    "translation.smoothed": [
        smoothed_by_lines,
        smoothed_by_torch,
        lambda right, v, e: torch.eye(v)[right] * (1 - e) + e / v,
        lambda right, v, e: torch.lerp(torch.eye(v)[right], torch.ones(v) / v, e),
    ],
    "translation.loss": [loss_by_library, loss_by_loops, loss_by_weights],
}


def self_attention_without_mask(x, memory, w_q, w_k, w_v, mask):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


DOUBLE_MISTAKES = {
    "translation.cross_attention": [self_attention_without_mask],
    "translation.smoothed": [
        lambda right, v, e: torch.eye(v)[right] + e,
        lambda right, v, e: torch.eye(v)[right] + e / (v - 1),
    ],
    "translation.loss": [
        lambda s, t, pad: F.cross_entropy(s.flatten(0, 1), t.flatten()),
        lambda s, t, pad: F.cross_entropy(s[:, 1:].mT, t[:, :-1]),
    ],
}
