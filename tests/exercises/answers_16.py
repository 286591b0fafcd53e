"""Right answers to the exercises of notebook 16, each unlike the reference."""

import math

import torch
from torch.nn import functional as F


def leak_by_shortening(logits, ids, vocab_size):
    full = logits(ids)
    lengths = range(1, ids.shape[1])
    parts = [torch.allclose(logits(ids[:, :n]), full[:, :n]) for n in lengths]
    return not all(parts)


def deaf_by_chance(logits, source, target, vocab_size):
    before = logits(source, target)
    for _ in range(5):
        other = torch.randint(0, vocab_size, source.shape)
        if (logits(other, target) - before).norm() > 1e-4:
            return False
    return True


def dead_by_autograd(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss(model), parameters, allow_unused=True)
    pairs = zip(names, gradients, strict=True)
    return tuple(n for n, g in pairs if g is None or (g == 0).all())


def judged_by_one_hot(loss, labels, vocab_size):
    sure = 50 * F.one_hot(labels.relu(), vocab_size).to(torch.get_default_dtype())
    if abs(loss(sure, labels).item()) > 1e-3:
        return True
    return abs(loss(sure * 0, labels).item() - math.log(vocab_size)) > 1e-3


def missing_by_bincount(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for step in range(steps):
        labels = batches(step)[1]
        counts += torch.bincount(labels[labels >= 0], minlength=vocab_size)
    return (counts == 0).nonzero().flatten()


RIGHT_ANSWERS = {
    "clinic.misjudges": [judged_by_one_hot],
    "clinic.never_a_label": [missing_by_bincount],
    "clinic.leaks_future": [leak_by_shortening],
    "clinic.ignores_source": [deaf_by_chance],
    "clinic.dead_parameters": [dead_by_autograd],
    "clinic.cannot_memorize": [
        lambda losses_of, batches: torch.tensor(
            losses_of(lambda _: batches(0))[-1] > 0.3
        )
    ],
}
