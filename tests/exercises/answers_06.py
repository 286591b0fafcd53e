"""Answers to the exercises of notebook 06: right in many styles, and wrong twice."""

import math

import nb06_scores
import torch
from torch.nn import functional as F


def general_by_loops(queries, keys, w):
    rows = [
        [[(query @ (w @ key)).item() for key in some] for query in several]
        for several, some in zip(queries, keys, strict=True)
    ]
    return torch.tensor(rows)


def additive_by_loops(queries, keys, w, u, v):
    scores = queries.new_zeros(*queries.shape[:2], keys.shape[1])
    for b, q, k in torch.cartesian_prod(*map(torch.arange, scores.shape)).tolist():
        scores[b, q, k] = v @ torch.tanh(w @ queries[b, q] + u @ keys[b, k])
    return scores


def additive_by_linear(queries, keys, w, u, v):
    asked = F.linear(queries, w).unsqueeze(2)
    told = F.linear(keys, u).unsqueeze(1)
    return F.linear(torch.tanh(asked + told), v[None]).squeeze(-1)


def step_by_lines(state, memory, mask, w):
    scores = (memory @ state[:, :, None])[:, :, 0]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    context = (weights[:, None] @ memory)[:, 0]
    return torch.tanh(torch.cat([context, state], dim=1) @ w.T)


def step_by_kernel(state, memory, mask, w):
    context = F.scaled_dot_product_attention(
        state[:, None], memory, memory, mask[:, None], scale=1.0
    )
    return F.linear(torch.cat([context, state[:, None]], -1), w).tanh().squeeze(1)


def step_by_rows(state, memory, mask, w):
    rows = []
    for s, h, real in zip(state, memory, mask, strict=True):
        words = h[real]
        weights = torch.softmax(words @ s, dim=0)
        rows.append(torch.tanh(w @ torch.hstack([weights @ words, s])))
    return torch.stack(rows)


RIGHT_ANSWERS = {
    "recurrent.general_scores": [
        lambda queries, keys, w: queries @ w @ keys.mT,
        lambda q, k, w: torch.einsum("bqm, mn, bkn -> bqk", q, w, k),
        lambda q, k, w: torch.bmm(q, F.linear(k, w).transpose(1, 2)),
        general_by_loops,
        nb06_scores.general_scores,
    ],
    "recurrent.additive_scores": [
        additive_by_loops,
        additive_by_linear,
        lambda q, k, w, u, v: ((q @ w.T)[:, :, None] + (k @ u.T)[:, None]).tanh() @ v,
        lambda q, k, w, u, v: torch.einsum(
            "bqkm, m -> bqk", ((k @ u.T)[:, None] + (q @ w.T)[:, :, None]).tanh(), v
        ),
    ],
    "recurrent.context_step": [step_by_lines, step_by_kernel, step_by_rows],
    "recurrent.gate": [
        0.5**0.01,
        math.exp(math.log(0.5) / 100),
        torch.tensor(0.5).pow(0.01),
        0.9931,
    ],
}


def unmasked_and_in_the_wrong_order(state, memory, mask, w):
    weights = torch.einsum("bm, bkm -> bk", state, memory).softmax(dim=-1)
    context = torch.einsum("bk, bkm -> bm", weights, memory)
    return torch.tanh(torch.cat([state, context], dim=1) @ w.T)


DOUBLE_MISTAKES = {
    "recurrent.general_scores": [
        lambda q, k, w: q @ w.T @ k.mT / q.shape[-1] ** 0.5,
        lambda q, k, w: k @ q.mT,
    ],
    "recurrent.additive_scores": [
        lambda q, k, w, u, v: ((q @ u.T)[:, :, None] + (k @ w.T)[:, None]) @ v,
        lambda q, k, w, u, v: ((q @ w.T)[:, :, None] * (k @ u.T)[:, None]) @ v,
    ],
    "recurrent.context_step": [
        unmasked_and_in_the_wrong_order,
        lambda s, h, mask, w: torch.cat([h.mean(dim=1), s], dim=1) @ w.T,
    ],
}
