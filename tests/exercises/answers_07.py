"""Answers to the exercises of notebook 07: right in many styles, and wrong twice."""

import math

import torch
from torch.nn import functional as F


def cross_by_rows(x, memory, w_q, w_k, w_v, mask):
    rows = []
    for asks, source, real in zip(x, memory, mask, strict=True):
        source = source[real[0]]
        scores = torch.einsum("td, sd -> ts", asks @ w_q, source @ w_k)
        rows.append((scores / math.sqrt(w_q.shape[1])).softmax(dim=-1) @ (source @ w_v))
    return torch.stack(rows)


def cross_by_kernel(x, memory, w_q, w_k, w_v, mask):
    queries, keys, values = x @ w_q, memory @ w_k, memory @ w_v
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def smoothed_by_torch(right, vocab_size, epsilon):
    """The gradient of a smoothed loss knows the target."""
    scores = torch.zeros(1, vocab_size, requires_grad=True)
    loss = F.cross_entropy(scores, torch.tensor([right]), label_smoothing=epsilon)
    (gradient,) = torch.autograd.grad(loss, scores)
    return 1 / vocab_size - gradient[0]


def loss_by_loops(scores, target, pad_id):
    surprises = []
    for row, ids in zip(scores.log_softmax(dim=-1), target.tolist(), strict=True):
        for position, label in enumerate(ids[1:]):
            if label != pad_id:
                surprises.append(-row[position, label])
    return sum(surprises) / len(surprises)


def loss_by_weights(scores, target, pad_id):
    labels = target[:, 1:, None]
    surprise = -scores.log_softmax(-1)[:, :-1].gather(-1, labels)
    real = labels != pad_id
    return (surprise * real).sum() / real.sum()


def greedy_into_a_full_table(model, begin, end_id, pad_id, limit):
    rows, given = begin.shape
    ids = torch.full((rows, given + limit), pad_id)
    ids[:, :given] = begin
    alive = torch.ones(rows, dtype=torch.bool)
    length = given
    while length < given + limit and alive.any():
        best = model(ids[:, :length])[:, -1].argmax(dim=-1)
        ids[alive, length] = best[alive]
        alive &= best != end_id
        length += 1
    return ids[:, :length]


def greedy_by_lists(model, begin, end_id, pad_id, limit):
    rows, ended = begin.tolist(), set()
    for _ in range(limit):
        scores = model(torch.tensor(rows))[:, -1].tolist()
        for number, row in enumerate(rows):
            best = max(range(len(scores[number])), key=scores[number].__getitem__)
            row.append(pad_id if number in ended else best)
            if row[-1] == end_id:
                ended.add(number)
        if len(ended) == len(rows):
            break
    return torch.tensor(rows)


RIGHT_ANSWERS = {
    "translation.cross_attention": [
        cross_by_rows,
        cross_by_kernel,
    ],
    "translation.smoothed": [
        smoothed_by_torch,
        lambda right, v, e: torch.lerp(torch.eye(v)[right], torch.ones(v) / v, e),
    ],
    "translation.loss": [loss_by_loops, loss_by_weights],
    "translation.greedy": [
        greedy_into_a_full_table,
        greedy_by_lists,
    ],
}


def self_attention_without_mask(x, memory, w_q, w_k, w_v, mask):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def greedy_that_never_looks_at_the_end(model, begin, end_id, pad_id, limit):
    ids = begin
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids[:, begin.shape[1] :]


def greedy_that_stops_first_and_drops_the_end(model, begin, end_id, pad_id, limit):
    ids = begin
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        if (best == end_id).any():
            break
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


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
    "translation.greedy": [
        greedy_that_never_looks_at_the_end,
        greedy_that_stops_first_and_drops_the_end,
    ],
}
