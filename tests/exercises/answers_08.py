"""Answers to the exercises of notebook 08: right in many styles, and wrong twice."""

import math

import torch


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


def clipped_by_loop(output, references, n):
    runs = [tuple(output[i : i + n]) for i in range(max(0, len(output) - n + 1))]
    hits = 0
    for run in set(runs):
        most = 0
        for words in references:
            there = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
            most = max(most, there.count(run))
        hits += min(runs.count(run), most)
    return hits, len(runs)


def clipped_by_crossing_out(output, references, n):
    def runs(words):
        return list(zip(*[words[i:] for i in range(n)], strict=False))

    left = {}
    for words in references:
        there = runs(words)
        for run in there:
            left[run] = max(left.get(run, 0), there.count(run))
    hits = 0
    for run in runs(output):
        if left.get(run, 0) > 0:
            left[run] -= 1
            hits += 1
    return [hits, len(runs(output))]


RIGHT_ANSWERS = {
    "translation.beam": [
        beam_by_sorting,
        beam_by_two_races,
    ],
    "translation.choice": [choice_by_loop, choice_by_tensor],
    "translation.bleu_brevity": [
        brevity_by_cases,
        lambda c, r: torch.tensor(1 - sum(r) / sum(c)).exp().clamp(max=1),
    ],
    "translation.bleu_clipped": [
        clipped_by_loop,
        clipped_by_crossing_out,
    ],
}


DOUBLE_MISTAKES = {
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
    "translation.bleu_clipped": [
        lambda output, references, n: (len(set(output)), len(output) + 1),
        lambda output, references, n: (len(output) - n, len(references[-1])),
    ],
}
