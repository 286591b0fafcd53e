"""Right answers to the exercises of notebook 07, each unlike the reference."""

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


def smoothed_by_torch(right, vocab_size, epsilon):
    """The gradient of a smoothed loss knows the target."""
    scores = torch.zeros(1, vocab_size, requires_grad=True)
    loss = F.cross_entropy(scores, torch.tensor([right]), label_smoothing=epsilon)
    (gradient,) = torch.autograd.grad(loss, scores)
    return 1 / vocab_size - gradient[0]


def loss_by_weights(scores, target, pad_id):
    labels = target[:, 1:, None]
    surprise = -scores.log_softmax(-1)[:, :-1].gather(-1, labels)
    real = labels != pad_id
    return (surprise * real).sum() / real.sum()


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
    "translation.cross_attention": [cross_by_rows],
    "translation.smoothed": [smoothed_by_torch],
    "translation.loss": [loss_by_weights],
    "translation.greedy": [greedy_by_lists],
}
