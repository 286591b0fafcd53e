"""Exercises of notebook 13: the learning rate's schedule, and clipping.

Knows the shared schedule. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from course_utils.config import TrainConfig
from course_utils.training.optimizers import learning_rate_at
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

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
            "the climb is a step early",
            _after(_glide, lambda step, warmup: min((step + 1) / warmup, 1)),
            "The peak is reached at step warmup − 1 already, as if steps counted "
            "from 0.",
            "Steps are counted from 1. Which share of the peak has step 1?",
        ),
        Mistake(
            "a warm-up of 0 is taken for one of 1",
            lambda s, steps, w, peak: learning_rate(s, steps, max(w, 1), peak),
            "Right where there is a warm-up. With 0 your first step stands at the "
            "peak. Whose last step would that be?",
            "With a warm-up of 0 the first step is on its way down already.",
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
            "the peak comes twice",
            _after(lambda s, n, w, peak: _half_cosine((s - w - 1) / (n - w), peak)),
            "Step warmup is at the peak, and so is the next one.",
            "How much of the way down is done at step warmup + 1: none, or one part?",
        ),
        Mistake(
            "the rate gets negative",
            _after(
                lambda s, n, w, peak: peak * math.cos(math.pi * (s - w) / (n - w + 1))
            ),
            "From the middle of the way on, your steps go uphill.",
            "The cosine runs from 1 to −1. From where to where should the rate run?",
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
            "Within a tensor the direction stays, but a layer of long gradients loses "
            "more than others.",
            "One length for all of them together, as if they were one long vector.",
        ),
        Mistake(
            "small ones grow",
            lambda gradients, most: [
                g * (most / _lengths(gradients).norm()) for g in gradients
            ],
            "A short gradient is lengthened. When is nothing to be done?",
            "A factor above 1 is not wanted.",
        ),
        Mistake(
            "small ones grow, and only zeros stay",
            lambda gradients, most: [
                g * (most / (_lengths(gradients).norm() + 1e-12)) for g in gradients
            ],
            "A short gradient is lengthened, unless it is 0. When is nothing to be "
            "done?",
            "Your factor may be above 1. Which factors are wanted?",
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
            "the square is compared",
            lambda gradients, most: [
                g * most / _lengths(gradients).norm()
                if _lengths(gradients).square().sum() > most
                else g
                for g in gradients
            ],
            "The factor is right. But you decide by the square of the length whether "
            "to use it.",
            "Compare what may be at most `most`: the length itself.",
        ),
        Mistake(
            "short tensors are left as they are",
            lambda gradients, most: [
                g * most / _lengths(gradients).norm() if g.norm() > most else g
                for g in gradients
            ],
            "The common length sets your factor. But each tensor decides for itself "
            "whether it is scaled, so the direction turns.",
            "One factor, for all tensors alike.",
        ),
        Mistake(
            "cut to length 1",
            lambda gradients, most: [
                g / _lengths(gradients).norm()
                if _lengths(gradients).norm() > most
                else g
                for g in gradients
            ],
            "What is too long gets the length 1. How long may it be?",
            "One argument is missing in your factor.",
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
