"""Answers to the exercises of notebook 06: right in many styles, and wrong twice."""

import math

import torch
from torch import nn
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
    from_queries = F.linear(queries, w).unsqueeze(2)
    from_keys = F.linear(keys, u).unsqueeze(1)
    return F.linear(torch.tanh(from_queries + from_keys), v[None]).squeeze(-1)


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


def gru_by_linear(x, state, w, u, b):
    mine, old = F.linear(x, w, b), F.linear(state, u)
    r_in, z_in, new_in = torch.tensor_split(mine, 3, dim=1)
    r_old, z_old, new_old = torch.tensor_split(old, 3, dim=1)
    r = 1 / (1 + torch.exp(-(r_in + r_old)))
    z = 1 / (1 + torch.exp(-(z_in + z_old)))
    return torch.lerp(torch.tanh(new_in + r * new_old), state, z)


def gru_by_the_cell(x, state, w, u, b):
    cell = nn.GRUCell(x.shape[1], state.shape[1])
    weights = {"weight_ih": w, "weight_hh": u, "bias_ih": b, "bias_hh": 0 * b}
    return torch.func.functional_call(cell, weights, (x, state))


RIGHT_ANSWERS = {
    "recurrent.gru_step": [
        gru_by_linear,
        gru_by_the_cell,
    ],
    "recurrent.general_scores": [
        lambda q, k, w: torch.einsum("bqm, mn, bkn -> bqk", q, w, k),
        general_by_loops,
    ],
    "recurrent.additive_scores": [
        additive_by_loops,
        additive_by_linear,
    ],
    "recurrent.context_step": [step_by_kernel, step_by_rows],
    "recurrent.gate": [
        math.exp(math.log(0.5) / 100),
        torch.tensor(0.5).pow(0.01),
        0.9931,
    ],
}


def unmasked_and_in_the_wrong_order(state, memory, mask, w):
    weights = torch.einsum("bm, bkm -> bk", state, memory).softmax(dim=-1)
    context = torch.einsum("bk, bkm -> bm", weights, memory)
    return torch.tanh(torch.cat([state, context], dim=1) @ w.T)


def turned_round_and_never_reset(x, state, w, u, b):
    mine, old = (x @ w.T + b).chunk(3, dim=1), (state @ u.T).chunk(3, dim=1)
    z = (mine[1] + old[1]).sigmoid()
    return (1 - z) * state + z * (mine[2] + old[2]).tanh()


def other_order_and_no_bias(x, state, w, u, b):
    mine, old = (x @ w.T).chunk(3, dim=1), (state @ u.T).chunk(3, dim=1)
    z, r = (mine[0] + old[0]).sigmoid(), (mine[1] + old[1]).sigmoid()
    return z * state + (1 - z) * (mine[2] + r * old[2]).tanh()


DOUBLE_MISTAKES = {
    "recurrent.gru_step": [turned_round_and_never_reset, other_order_and_no_bias],
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
