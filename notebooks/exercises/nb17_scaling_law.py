"""Exercises of notebook 17: what a power law costs.

Knows nothing of models or of how an answer is run or shown.
"""

import math

import torch

from named_mistakes import Exercise, Mistake


def halving(b: float) -> float:
    """The factor in compute that halves a loss falling as compute^(−b)."""
    return 2 ** (1 / b)


def _exponents(generator):
    drawn = 0.05 + 0.4 * torch.rand(3, generator=generator, dtype=torch.float64)
    return [(b,) for b in drawn.tolist()]


HALVING = Exercise(
    "scaling.halving",
    "Gives the factor k in compute that halves the loss, from the exponent b: "
    "k^(−b) = 1/2. It turns an exponent into a bill.",
    ("b",),
    halving,
    _exponents,
    (
        Mistake(
            "a fraction of the compute",
            lambda b: 0.5 ** (1 / b),
            "Your k is below 1: does less compute give a lower loss?",
            "Mind the minus in k^(−b).",
        ),
        Mistake(
            "the exponent itself",
            lambda b: 2**b,
            "Put your k in: does k^(−b) give one half?",
            "To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            "half to the power b",
            lambda b: 0.5**b,
            "That is the share of the loss left by twice the compute. How much "
            "compute leaves half?",
            "To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            "as if the law were a line",
            lambda b: 2 / b,
            "Dividing by b undoes a multiplication. Here b is an exponent.",
            "To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            "tenfold, not half",
            lambda b: 10 ** (1 / b),
            "This divides the loss by ten.",
            "Which number stands on the right of the equation?",
        ),
        Mistake(
            "e, not 2",
            lambda b: math.exp(1 / b),
            "This divides the loss by e, 2.7.",
            "Which number stands on the right of the equation?",
        ),
    ),
    "Raise both sides of k^(−b) = 1/2 to a power that leaves k alone.",
)


EXERCISES = (HALVING,)
