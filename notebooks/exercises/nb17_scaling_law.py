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
    name="scaling.halving",
    statement="Gives the factor k in compute that halves the loss, from the exponent "
    "b: k^(−b) = 1/2. It turns an exponent into a bill.",
    takes=("b",),
    reference=halving,
    cases=_exponents,
    mistakes=(
        Mistake(
            name="a fraction of the compute",
            function=lambda b: 0.5 ** (1 / b),
            hint="Your k is below 1: does less compute give a lower loss?",
            more="Mind the minus in k^(−b).",
        ),
        Mistake(
            name="the exponent itself",
            function=lambda b: 2**b,
            hint="Put your k in: does k^(−b) give one half?",
            more="To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            name="half to the power b",
            function=lambda b: 0.5**b,
            hint="That is the share of the loss left by twice the compute. How much "
            "compute leaves half?",
            more="To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            name="as if the law were a line",
            function=lambda b: 2 / b,
            hint="Dividing by b undoes a multiplication. Here b is an exponent.",
            more="To undo “to the power b”, which power do you need?",
        ),
        Mistake(
            name="tenfold, not half",
            function=lambda b: 10 ** (1 / b),
            hint="This divides the loss by ten.",
            more="Which number stands on the right of the equation?",
        ),
        Mistake(
            name="e, not 2",
            function=lambda b: math.exp(1 / b),
            hint="This divides the loss by e, 2.7.",
            more="Which number stands on the right of the equation?",
        ),
    ),
    hint="Raise both sides of k^(−b) = 1/2 to a power that leaves k alone.",
)


EXERCISES = (HALVING,)
