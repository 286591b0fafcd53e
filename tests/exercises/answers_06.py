"""Right answers to the exercises of notebook 06, each unlike the reference."""

import torch
from torch import nn


def step_by_rows(state, memory, mask, w):
    rows = []
    for s, h, real in zip(state, memory, mask, strict=True):
        words = h[real]
        weights = torch.softmax(words @ s, dim=0)
        rows.append(torch.tanh(w @ torch.hstack([weights @ words, s])))
    return torch.stack(rows)


def gru_by_the_cell(x, state, w, u, b):
    cell = nn.GRUCell(x.shape[1], state.shape[1])
    weights = {"weight_ih": w, "weight_hh": u, "bias_ih": b, "bias_hh": 0 * b}
    return torch.func.functional_call(cell, weights, (x, state))


RIGHT_ANSWERS = {
    "recurrent.gru_step": [gru_by_the_cell],
    "recurrent.general_scores": [
        lambda q, k, w: torch.einsum("bqm, mn, bkn -> bqk", q, w, k)
    ],
    "recurrent.context_step": [step_by_rows],
}
