"""An exercise of notebook 13: clipping.

Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def clip(gradients: list[Tensor], most: float) -> list[Tensor]:
    """Scale all gradients together so that their common length is at most `most`."""
    length = sum(g.square().sum() for g in gradients).sqrt()
    return [g * (most / length).clamp(max=1.0) for g in gradients]


def _gradients(generator):
    def one(size, most, *shapes):
        return [size * normal(generator, *shape) for shape in shapes], most

    usual = one(1.0, 1.5, (3, 5), (7,)), one(0.01, 1.0, (2, 3), (4,), (1,))
    below = _of_length(1.7, generator), 2.0  # above 1, and so is its square
    above = _of_length(0.6, generator), 0.5  # its square is not
    return [*usual, one(0.0, 1.0, (2, 3), (4,)), below, above]


def _of_length(length, generator):
    """A large tensor and a small one, which have this length together."""
    large, small = normal(generator, 3, 5), normal(generator, 7)
    fractions = 0.9, 0.19**0.5
    pairs = zip((large, small), fractions, strict=True)
    return [length * part * g / g.norm() for g, part in pairs]


def _scaled(length):
    """Clipping by another idea of the common length."""
    return lambda gradients, most: [
        g * (most / length(gradients)).clamp(max=1.0) for g in gradients
    ]


def _lengths(gradients):
    return torch.stack([g.norm() for g in gradients])


def _by_directions(gradients, most):
    length = _lengths(gradients).norm()
    return [g / length * length.clamp(max=most) for g in gradients]


CLIP = Exercise(
    name="training.clip",
    statement="Gives a list of new gradients for a list of tensors: all scaled down "
    "together if their common length is above most. One odd batch can no longer throw "
    "the model.",
    takes=("gradients", "most"),
    reference=clip,
    cases=_gradients,
    mistakes=(
        Mistake(
            name="each number for itself",
            function=lambda gradients, most: [g.clamp(-most, most) for g in gradients],
            hint="30 and 4 would become equal: the direction has turned.",
            more="All numbers of all tensors are multiplied by the same factor.",
        ),
        Mistake(
            name="each tensor for itself",
            function=lambda gradients, most: [
                g * (most / g.norm()).clamp(max=1.0) for g in gradients
            ],
            hint="Within a tensor the direction stays, but a layer with long gradients "
            "loses more than the others.",
            more="One length for all of them together, as if they were one long "
            "vector.",
        ),
        Mistake(
            name="small ones grow",
            function=lambda gradients, most: [
                g * (most / _lengths(gradients).norm()) for g in gradients
            ],
            hint="A short gradient is lengthened. When should nothing be done?",
            more="The factor should never be above 1.",
        ),
        Mistake(
            name="small ones grow, and only zeros stay",
            function=lambda gradients, most: [
                g * (most / (_lengths(gradients).norm() + 1e-12)) for g in gradients
            ],
            hint="A short gradient is lengthened, unless it is 0. When should nothing "
            "be done?",
            more="Your factor can be above 1. Which factors are wanted?",
        ),
        Mistake(
            name="lengths added up",
            function=_scaled(lambda gradients: _lengths(gradients).sum()),
            hint="Two sides of 3 and 4 have a diagonal of 5, not of 7.",
            more="Add up squares, over all tensors, before you take a root.",
        ),
        Mistake(
            name="squares forgotten",
            function=_scaled(lambda gradients: sum(g.abs().sum() for g in gradients)),
            hint="You add up sizes. A length adds up squares.",
            more="Pythagoras, with more than two numbers.",
        ),
        Mistake(
            name="the root is missing",
            function=_scaled(
                lambda gradients: sum(g.square().sum() for g in gradients)
            ),
            hint="That is the *square* of the length.",
            more="One more function between the sum and the comparison.",
        ),
        Mistake(
            name="the square is compared",
            function=lambda gradients, most: [
                g * most / _lengths(gradients).norm()
                if _lengths(gradients).square().sum() > most
                else g
                for g in gradients
            ],
            hint="The factor is right. But you use the square of the length to decide "
            "whether to apply it.",
            more="Compare the quantity that `most` limits: the length itself.",
        ),
        Mistake(
            name="short tensors are left as they are",
            function=lambda gradients, most: [
                g * most / _lengths(gradients).norm() if g.norm() > most else g
                for g in gradients
            ],
            hint="The common length sets your factor. But each tensor decides for "
            "itself whether it is scaled, so the direction turns.",
            more="One factor, for all tensors alike.",
        ),
        Mistake(
            name="cut to length 1",
            function=lambda gradients, most: [
                g / _lengths(gradients).norm()
                if _lengths(gradients).norm() > most
                else g
                for g in gradients
            ],
            hint="Whatever is too long is cut to length 1. How long may it be?",
            more="One argument is missing from your factor.",
        ),
        Mistake(
            name="0 divided by 0",
            function=_by_directions,
            hint="You divide each gradient by the common length. What do you get if "
            "all gradients are 0?",
            more="Compute the factor first and cap it at 1. Then multiply once.",
        ),
    ),
    hint="First one number: the length of all gradients as one long vector. Then a "
    "factor.",
)


EXERCISES = (CLIP,)
