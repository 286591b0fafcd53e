"""Answers to the exercises of notebook 16: right in many styles, and wrong twice."""

import math
from itertools import chain

import torch
from torch.nn import functional as F

from course_utils.looking.diagnostics import (
    dead_parameters,
)


def leak_by_random_endings(logits, ids, vocab_size):
    leaks = []
    for cut in range(1, ids.shape[1]):
        later = torch.arange(ids.shape[1]) >= cut
        step = torch.randint(1, vocab_size, ids.shape)
        other = torch.where(later, (ids + step) % vocab_size, ids)
        moved = (logits(ids) - logits(other))[:, :cut].abs().max()
        leaks.append(moved > 1e-6)
    return torch.stack(leaks).any()


def leak_by_shortening(logits, ids, vocab_size):
    full = logits(ids)
    lengths = range(1, ids.shape[1])
    parts = [torch.allclose(logits(ids[:, :n]), full[:, :n]) for n in lengths]
    return not all(parts)


def order_by_index(outputs, ids):
    turned = [*range(ids.shape[1] - 2, -1, -1), ids.shape[1] - 1]
    return torch.allclose(outputs(ids)[:, -1], outputs(ids[:, turned])[:, -1])


def order_by_rows(outputs, ids):
    for row in ids:
        turned = torch.tensor([[*row.tolist()[-2::-1], row[-1].item()]])
        gap = outputs(row[None])[0, -1] - outputs(turned)[0, -1]
        if gap.norm() > 1e-4:
            return False
    return True


def deaf_by_chance(logits, source, target, vocab_size):
    before = logits(source, target)
    for _ in range(5):
        other = torch.randint(0, vocab_size, source.shape)
        if (logits(other, target) - before).norm() > 1e-4:
            return False
    return True


def deaf_by_words(logits, source, target, vocab_size):
    moved = 0.0
    for place in range(source.shape[1]):
        other = source.clone()
        other[:, place] = vocab_size - 1 - other[:, place]
        other[:, place] += (other[:, place] == source[:, place]).long()
        moved += (logits(other, target) - logits(source, target)).abs().sum().item()
    return moved < 1e-4


def dead_by_autograd(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss(model), parameters, allow_unused=True)
    pairs = zip(names, gradients, strict=True)
    return tuple(n for n, g in pairs if g is None or (g == 0).all())


def memory_in_two_steps(losses_of, batches):
    one = batches(0)

    def always(step):
        return one

    losses = losses_of(always)
    return not losses[-1] <= 0.3


def judged_by_list(loss, labels, vocab_size):
    flat = torch.zeros(*labels.shape, vocab_size)
    sure = flat.clone()
    for row in range(labels.shape[0]):
        for place in range(labels.shape[1]):
            sure[row, place, labels[row, place]] = 50.0
    losses = torch.stack([loss(flat, labels), loss(sure, labels)])
    expected = torch.tensor([math.log(vocab_size), 0.0])
    return not torch.allclose(losses, expected, rtol=0, atol=1e-3)


def judged_by_one_hot(loss, labels, vocab_size):
    sure = 50 * F.one_hot(labels, vocab_size).to(torch.get_default_dtype())
    if abs(loss(sure, labels).item()) > 1e-3:
        return True
    return abs(loss(sure * 0, labels).item() - math.log(vocab_size)) > 1e-3


def missing_by_bincount(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for step in range(steps):
        labels = batches(step)[1]
        counts += torch.bincount(labels[labels >= 0], minlength=vocab_size)
    return (counts == 0).nonzero().flatten()


def missing_by_sets(batches, steps, vocab_size):
    rows = chain.from_iterable(batches(step)[1].tolist() for step in range(steps))
    return sorted(set(range(vocab_size)) - set(chain.from_iterable(rows)))


RIGHT_ANSWERS = {
    "clinic.misjudges": [judged_by_list, judged_by_one_hot],
    "clinic.never_a_label": [missing_by_bincount, missing_by_sets],
    "clinic.leaks_future": [
        leak_by_random_endings,
        leak_by_shortening,
    ],
    "clinic.order_blind": [
        order_by_index,
        order_by_rows,
    ],
    "clinic.ignores_source": [
        deaf_by_chance,
        deaf_by_words,
    ],
    "clinic.dead_parameters": [
        dead_by_autograd,
        lambda model, loss: dead_parameters(model, lambda: loss(model)),
    ],
    "clinic.cannot_memorize": [
        memory_in_two_steps,
        lambda losses_of, batches: torch.tensor(
            losses_of(lambda _: batches(0))[-1] > 0.3
        ),
    ],
    "clinic.rings": [(True, False, True), [1, 0, 1], torch.tensor([1, 0, 1]).bool()],
}


def last_word_changed_and_first_output_watched(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    return not torch.allclose(logits(ids)[:, 0], logits(other)[:, 0])


def everything_turned_and_compared(outputs, ids):
    return torch.allclose(outputs(ids), outputs(ids.flip(1)))


def both_texts_changed_and_upside_down(logits, source, target, vocab_size):
    others = ((x + 1) % vocab_size for x in (source, target))
    return not torch.allclose(logits(source, target), logits(*others))


def one_zero_and_no_none(model, loss):
    loss(model).backward()
    some = [(n, p.grad) for n, p in model.named_parameters() if p.grad is not None]
    return [name for name, gradient in some if not gradient.all()]


def zeros_in_bits_only(loss, labels, vocab_size):
    flat = torch.zeros(*labels.shape, vocab_size)
    return abs(loss(flat, labels).item() - math.log2(vocab_size)) > 1e-3


def inputs_of_the_first_batch(batches, steps, vocab_size):
    return sorted(set(range(vocab_size)) - set(batches(0)[0].flatten().tolist()))


DOUBLE_MISTAKES = {
    "clinic.misjudges": [zeros_in_bits_only],
    "clinic.never_a_label": [inputs_of_the_first_batch],
    "clinic.leaks_future": [
        last_word_changed_and_first_output_watched,
        lambda *given: not last_word_changed_and_first_output_watched(*given),
    ],
    "clinic.order_blind": [
        everything_turned_and_compared,
        lambda outputs, ids: not torch.allclose(outputs(ids), outputs(ids.flip(0))),
    ],
    "clinic.ignores_source": [both_texts_changed_and_upside_down],
    "clinic.dead_parameters": [one_zero_and_no_none],
    "clinic.cannot_memorize": [
        lambda losses_of, batches: losses_of(batches)[0] > 0.3,
        lambda losses_of, batches: losses_of(batches)[-1] <= 0.3,
    ],
}
