"""Exercises of notebook 13: the learning rate's schedule, and clipping.

Knows the shared schedule. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from course_utils.config import TrainConfig
from course_utils.exercises.drawing import normal
from course_utils.exercises.exercise import Exercise, Mistake
from course_utils.training.optimizers import learning_rate_at

# --- the learning rate -------------------------------------------------------------


def learning_rate(step: int, steps: int, warmup: int, peak: float) -> float:
    """A straight line up to the peak, then half a cosine."""
    if step < warmup:
        return peak * step / warmup
    done = (step - warmup) / (steps - warmup + 1)
    return peak * (1 + math.cos(math.pi * done)) / 2


def rate_of_the_course(step: int, steps: int, warmup: int, peak: float) -> float:
    """The shared schedule."""
    return learning_rate_at(
        step, TrainConfig(steps=steps, learning_rate=peak, warmup_steps=warmup)
    )


def _moments(generator):
    peak = 1 + round(torch.rand((), generator=generator).item(), 2)
    long = [(step, 20, 5, peak) for step in (1, 5, 6, 13, 20)]
    no_climb = [(1, 8, 0, peak), (8, 8, 0, peak)]
    return [*long, (3, 30, 9, peak), (30, 30, 9, peak), *no_climb]


def _half_cosine(done, peak):
    return peak * (1 + math.cos(math.pi * done)) / 2


def _after(bend, early=None):
    """A schedule with a right warm-up (or another) and `bend` afterwards."""

    def rate(step, steps, warmup, peak):
        climb = early or (lambda step, warmup: step / warmup)
        if step <= warmup:
            return peak * climb(step, warmup)
        return bend(step, steps, warmup, peak)

    return rate


def _glide(step, steps, warmup, peak):
    return _half_cosine((step - warmup) / (steps - warmup + 1), peak)


RATE = Exercise(
    "training.learning_rate",
    "Gives the rate at a step, counted from 1: a straight climb to the peak at step "
    "warmup (with 0, none), then half a cosine that would reach 0 one step after the "
    "last.",
    ("step", "steps", "warmup", "peak"),
    learning_rate,
    _moments,
    (
        Mistake(
            "the first step stands still",
            lambda s, steps, w, peak: (
                learning_rate(s - 1, steps, w, peak) if s > 1 else 0.0
            ),
            "Everything comes a step late, and a batch at rate 0 is read in vain.",
            "Steps are counted from 1: at step `warmup` the peak is reached.",
        ),
        Mistake(
            "the climb begins with a rate of 0",
            _after(_glide, lambda step, warmup: (step - 1) / warmup),
            "The batch of step 1 is read in vain, and the peak is missed.",
            "Steps are counted from 1. Which share of the peak has step `warmup`?",
        ),
        Mistake(
            "no warm-up",
            _after(_glide, lambda step, warmup: 1.0),
            "It begins at the peak, where the optimizer knows least.",
            "Until step `warmup` the rate is a share of the peak. Which?",
        ),
        Mistake(
            "the cosine begins at the first step",
            _after(lambda s, n, w, peak: _half_cosine(s / (n + 1), peak)),
            "After the peak the rate falls with a jump. Where does the cosine start?",
            "Count from the end of the warm-up, and up to what is left of the steps.",
        ),
        Mistake(
            "the last step stands still",
            _after(lambda s, n, w, peak: _half_cosine((s - w) / (n - w), peak)),
            "The last batch has the rate 0: computed in vain.",
            "0 is to be reached one step *after* the last.",
        ),
        Mistake(
            "twice too high",
            _after(lambda *given: 2 * _glide(*given)),
            "After the warm-up the rate jumps to twice the peak.",
            "1 + cos runs from 2 to 0. From where to where should it run?",
        ),
        Mistake(
            "straight down",
            _after(lambda s, n, w, peak: peak * (1 - (s - w) / (n - w + 1))),
            "Right at the top and at the end, wrong between: it falls like a ramp.",
            "Half a cosine stays up for a while and lands softly.",
        ),
        Mistake(
            "a quarter of a cosine",
            _after(
                lambda s, n, w, peak: (
                    peak * math.cos(math.pi / 2 * (s - w) / (n - w + 1))
                )
            ),
            "It falls fastest at the very end. Should it not land softly?",
            "From 0 to π the cosine runs from 1 to −1. That is half of its wave.",
        ),
    ),
    "Two cases: up to `warmup` a share of the peak; after it, how much of the way down "
    "is done, from 0 to 1?",
    shared=rate_of_the_course,
)


# --- clipping ----------------------------------------------------------------------


def clip(gradients: list[Tensor], most: float) -> list[Tensor]:
    """Scale all gradients together so that their common length is at most `most`."""
    length = sum(g.square().sum() for g in gradients).sqrt()
    return [g * (most / length).clamp(max=1.0) for g in gradients]


def _gradients(generator):
    def one(size, most, *shapes):
        return [size * normal(generator, *shape) for shape in shapes], most

    usual = one(1.0, 1.5, (3, 5), (7,)), one(0.01, 1.0, (2, 3), (4,), (1,))
    return [*usual, one(0.0, 1.0, (2, 3), (4,))]


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
    "training.clip",
    "Gives a list of new gradients for a list of tensors: all scaled down together if "
    "their common length is above most. One odd batch can no longer throw the model.",
    ("gradients", "most"),
    clip,
    _gradients,
    (
        Mistake(
            "each number for itself",
            lambda gradients, most: [g.clamp(-most, most) for g in gradients],
            "30 and 4 would become equal: the direction has turned.",
            "All numbers of all tensors are multiplied by the same factor.",
        ),
        Mistake(
            "each tensor for itself",
            lambda gradients, most: [
                g * (most / g.norm()).clamp(max=1.0) for g in gradients
            ],
            "Within a tensor the direction stays, but a loud layer loses more than a "
            "quiet one.",
            "One length for all of them together, as if they were one long vector.",
        ),
        Mistake(
            "small ones grow",
            lambda gradients, most: [
                g * (most / _lengths(gradients).norm()) for g in gradients
            ],
            "A calm batch is made as loud as an odd one. When is nothing to be done?",
            "A factor above 1 is not wanted.",
        ),
        Mistake(
            "lengths added up",
            _scaled(lambda gradients: _lengths(gradients).sum()),
            "Two sides of 3 and 4 have a diagonal of 5, not of 7.",
            "Add up squares, over all tensors, before you take a root.",
        ),
        Mistake(
            "squares forgotten",
            _scaled(lambda gradients: sum(g.abs().sum() for g in gradients)),
            "You add up sizes. A length adds up squares.",
            "Pythagoras, with more than two numbers.",
        ),
        Mistake(
            "the root is missing",
            _scaled(lambda gradients: sum(g.square().sum() for g in gradients)),
            "That is the *square* of the length.",
            "One more function between the sum and the comparison.",
        ),
        Mistake(
            "0 divided by 0",
            _by_directions,
            "You divide each gradient by the common length. What do you get if all "
            "gradients are 0?",
            "Compute the factor first and hold it at 1. Then multiply once.",
        ),
    ),
    "First one number: the length of all gradients as one long vector. Then a factor.",
)


EXERCISES = (RATE, CLIP)
