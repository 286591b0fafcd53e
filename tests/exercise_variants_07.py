"""Answers to the exercises of notebook 07: right in many styles, and wrong twice."""

import math

import torch
from torch.nn import functional as F

from course_utils.exercises import translating, translation


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


def beam_by_sorting(totals, log_probs):
    texts = [
        (total + after, parent, token)
        for parent, total in enumerate(totals.tolist())
        for token, after in enumerate(log_probs[parent].tolist())
    ]
    best = sorted(texts, reverse=True)[: len(totals)]
    values, parents, tokens = zip(*best, strict=True)
    return torch.tensor(parents), torch.tensor(tokens), torch.tensor(values)


def beam_by_two_races(totals, log_probs):
    width = len(totals)
    some, tokens = (log_probs + totals.unsqueeze(1)).topk(width, dim=1)
    best, places = some.reshape(-1).sort(descending=True)
    best, places = best[:width], places[:width]
    return places // width, tokens.reshape(-1)[places], best


def beam_by_remainder(totals, log_probs):
    total = totals[:, None] + log_probs
    best, places = total.view(-1).topk(len(totals))
    parents = places.div(total.shape[1], rounding_mode="floor")
    return parents, places.remainder(total.shape[1]), best


def choice_by_loop(log_probs, lengths, penalty):
    winner, record = None, -math.inf
    for number, total in enumerate(log_probs):
        value = total * (6 / (5 + lengths[number])) ** penalty
        if value > record:
            winner, record = number, value
    return winner, record


def choice_by_tensor(log_probs, lengths, penalty):
    rule = ((5 + torch.tensor(lengths)) / 6) ** penalty
    best, place = (torch.tensor(log_probs) / rule).max(dim=0)
    return place, best


def brevity_by_cases(lengths, reference_lengths):
    c, r = sum(lengths), sum(reference_lengths)
    return 1.0 if c >= r else math.e ** (1 - r / c)


VARIANTS = {
    "translation.cross_attention": [
        cross_by_hand,
        cross_by_rows,
        cross_by_kernel,
        translation.cross_attention,
    ],
    "translation.smoothed": [
        smoothed_by_lines,
        smoothed_by_torch,
        lambda right, v, e: torch.eye(v)[right] * (1 - e) + e / v,
        lambda right, v, e: torch.lerp(torch.eye(v)[right], torch.ones(v) / v, e),
    ],
    "translation.loss": [loss_by_library, loss_by_loops, loss_by_weights],
    "translation.beam": [
        beam_by_sorting,
        beam_by_two_races,
        beam_by_remainder,
        translating.beam_step,
    ],
    "translation.choice": [choice_by_loop, choice_by_tensor, translating.choice],
    "translation.bleu_brevity": [
        brevity_by_cases,
        lambda c, r: math.exp(min(0, 1 - sum(r) / sum(c))),
        lambda c, r: torch.tensor(1 - sum(r) / sum(c)).exp().clamp(max=1),
    ],
}


def self_attention_without_mask(x, memory, w_q, w_k, w_v, mask):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


BOTH = {
    "translation.cross_attention": [self_attention_without_mask],
    "translation.smoothed": [
        lambda right, v, e: torch.eye(v)[right] + e,
        lambda right, v, e: torch.eye(v)[right] + e / (v - 1),
    ],
    "translation.loss": [
        lambda s, t, pad: F.cross_entropy(s.flatten(0, 1), t.flatten()),
        lambda s, t, pad: F.cross_entropy(s[:, 1:].mT, t[:, :-1]),
    ],
    "translation.beam": [
        lambda totals, log_probs: (
            torch.arange(len(totals)),
            log_probs.argmax(dim=1),
            log_probs.amax(dim=1),
        )
    ],
    "translation.choice": [
        lambda totals, lengths, penalty: (totals.index(min(totals)), min(totals)),
        lambda totals, lengths, penalty: (0, totals[0] * lengths[0] ** penalty),
    ],
    "translation.bleu_brevity": [
        lambda c, r: math.exp(1 - sum(c) / sum(r)),
        lambda c, r: sum(a / b for a, b in zip(c, r, strict=True)) / len(c),
    ],
}
