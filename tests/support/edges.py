"""Which cases at the edge each exercise lacks.

Knows the arguments of cases. Knows nothing of what an exercise means, so a lack is a
question to its author: would such a case part a right answer from a wrong one?
"""

import torch
from torch import Tensor

SPREAD = 100  # between the smallest and the largest number of an argument


def parts_of(value):
    """A value, and what lies in its lists, tuples and dicts."""
    yield value
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from parts_of(part)


def has_one_row(value):
    """A tensor or a list with a single row, text or batch."""
    if isinstance(value, Tensor):
        return value.ndim > 0 and len(value) == 1
    return isinstance(value, list | tuple | dict) and len(value) == 1


def has_nothing(value):
    """An empty row or list, or one with nothing to count in it: all 0 or False."""
    if isinstance(value, Tensor):
        rows = value.flatten(0, -2) if value.ndim > 1 else value[None]
        return value.ndim > 0 and (not value.numel() or not rows.any(dim=-1).all())
    return isinstance(value, list | tuple | dict) and not value


def has_spread(value):
    """Numbers that lie far apart."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return False
    finite = value[value.isfinite()]
    return finite.numel() > 1 and bool(finite.max() - finite.min() > SPREAD)


def fits(a, b):
    """Whether b goes into a without a rest."""
    return a % b == 0


EXACT_FITS = {  # exercise -> (arguments of a case) -> whether it fits exactly
    "masks.window": lambda length, width: length == width,
    "scaling.padding": lambda lengths, batch: fits(len(lengths), batch),
    "training.blocks": lambda rows, length, eos: fits(
        sum(len(row) + 1 for row in rows), length
    ),
    "generation.top_k": lambda scores, k: scores.shape[1] == k,
    "training.learning_rate": lambda step, steps, warmup, peak: step == warmup,
}
ANYWHERE = {
    "one row": has_one_row,
    "nothing to count": has_nothing,
    "large spread": has_spread,
}


def lacks(exercise):
    """The names of the edges at which no case of this exercise lies."""
    cases = exercise.cases(torch.Generator().manual_seed(0))
    values = [part for case in cases for value in case for part in parts_of(value)]
    tensors = [value for value in values if isinstance(value, Tensor)]
    found = []
    for name, is_there in ANYWHERE.items():
        asked = tensors if name == "large spread" else values
        asked = [x for x in asked if isinstance(x, Tensor | list | tuple | dict)]
        if asked and not any(map(is_there, asked)):
            found.append(name)
    fit = EXACT_FITS.get(exercise.name)
    if fit and not any(fit(*case) for case in cases):
        found.append("exact fit")
    return found
