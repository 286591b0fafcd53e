"""Right answers to the exercises of notebook 08, each unlike the reference."""

import torch


def beam_by_two_races(totals, log_probs):
    width = len(totals)
    some, tokens = (log_probs + totals.unsqueeze(1)).topk(width, dim=1)
    best, places = some.reshape(-1).sort(descending=True)
    best, places = best[:width], places[:width]
    return places // width, tokens.reshape(-1)[places], best


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
    "translation.beam": [beam_by_two_races],
    "translation.bleu_brevity": [
        lambda c, r: torch.tensor(1 - sum(r) / sum(c)).exp().clamp(max=1)
    ],
    "translation.bleu_clipped": [clipped_by_crossing_out],
}
