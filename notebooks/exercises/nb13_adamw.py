"""Exercises of notebook 13: the update of AdamW, and the learning rate of a step.

Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- the update --------------------------------------------------------------------


def adamw(
    weight: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    step: int,
    rate: float,
    betas: tuple[float, float],
    eps: float,
    decay: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loshchilov & Hutter 2019, algorithm 2, where the rate scales the decay, too."""
    mean = betas[0] * mean + (1 - betas[0]) * gradient
    square = betas[1] * square + (1 - betas[1]) * gradient**2
    average = mean / (1 - betas[0] ** step)
    usual = (square / (1 - betas[1] ** step)).sqrt()
    weight = (1 - rate * decay) * weight - rate * average / (usual + eps)
    return weight, mean, square


def _moments(generator):
    """A usual step, a first one, and steps that differ in a single argument."""
    weight, gradient, mean = (normal(generator, 3, 5) for _ in range(3))
    usual = weight, gradient, 0.2 * mean, mean**2 + 0.1, 3, 0.3, (0.9, 0.95), 1e-8, 0.2
    first = normal(generator, 7), 0.01 * normal(generator, 7), *torch.zeros(2, 7)
    others = [(4, 30), (5, 0.1), (6, (0.8, 0.99)), (7, 0.5), (8, 0.0)]
    others += [(place, usual[place] + 1) for place in range(4)]
    changed = [(*usual[:p], value, *usual[p + 1 :]) for p, value in others]
    return [usual, (*first, 1, 0.1, (0.9, 0.999), 1e-3, 0.1), *changed]


def _raw(weight, gradient, mean, square, step, rate, betas, eps, decay):
    """The moments as they are, although they began at 0."""
    _, mean, square = adamw(
        weight, gradient, mean, square, step, rate, betas, eps, decay
    )
    weight = (1 - rate * decay) * weight - rate * mean / (square.sqrt() + eps)
    return weight, mean, square


def _corrected(weight, gradient, mean, square, step, rate, betas, eps, decay):
    weight, mean, square = adamw(
        weight, gradient, mean, square, step, rate, betas, eps, decay
    )
    return weight, mean / (1 - betas[0] ** step), square / (1 - betas[1] ** step)


def _in_the_gradient(weight, gradient, *rest):
    return adamw(weight, gradient + rest[-1] * weight, *rest[:-1], 0.0)


def _stepped(move):
    """The usual moments, and a weight from (weight, average, square, *options)."""

    def answer(weight, gradient, mean, square, step, rate, betas, eps, decay):
        given = weight, gradient, mean, square, step, rate, betas, eps, decay
        _, mean, square = adamw(*given)
        average, usual = mean / (1 - betas[0] ** step), square / (1 - betas[1] ** step)
        return move(weight, average, usual, rate, eps, decay), mean, square

    return answer


def _sums(weight, gradient, mean, square, step, rate, betas, eps, decay):
    """The new gradient at full weight."""
    scaled = gradient / (1 - betas[0]), gradient / (1 - betas[1]) ** 0.5
    rest = step, rate, betas, eps, decay
    _, mean, _ = adamw(weight, scaled[0], mean, square, *rest)
    _, _, square = adamw(weight, scaled[1], mean, square, *rest)
    average, usual = mean / (1 - betas[0] ** step), square / (1 - betas[1] ** step)
    return _moved(weight, average, usual, rate, eps, decay), mean, square


def _moved(weight, average, usual, rate, eps, decay):
    return (1 - rate * decay) * weight - rate * average / (usual.sqrt() + eps)


ADAMW = Exercise(
    name="training.adamw",
    statement="Gives the new weight, mean and square of one step of AdamW (tensors of "
    "one shape; step counts from 1; betas is a pair). One rate then serves weights "
    "whose gradients differ a thousandfold.",
    takes=(
        *("weight", "gradient", "mean", "square", "step"),
        *("rate", "betas", "eps", "decay"),
    ),
    reference=adamw,
    cases=_moments,
    mistakes=(
        Mistake(
            name="the start at 0 is not corrected",
            function=_raw,
            hint="Both averages begin at 0. In the first steps they are far too small, "
            "and not by the same factor.",
            more="Which factor makes the average of a constant right from the first "
            "step on? It depends on `step`.",
        ),
        Mistake(
            name="the corrected averages are kept",
            function=_corrected,
            hint="The new weight is right. But what you hand on would be corrected "
            "again in the next step.",
            more="Give the corrected averages names of their own: they serve one step.",
        ),
        Mistake(
            name="decay in the gradient",
            function=_in_the_gradient,
            hint="That is Adam with an L2 penalty. The decay, too, is divided by the "
            "usual size, so weights with large gradients hardly shrink.",
            more="The W of AdamW: the weight shrinks by itself, and the averages never "
            "hear of it.",
        ),
        Mistake(
            name="decay without the rate",
            function=_stepped(
                lambda w, a, u, rate, eps, decay: (
                    (1 - decay) * w - rate * a / (u.sqrt() + eps)
                )
            ),
            hint="Your weight shrinks by the whole `decay` in each step, however small "
            "the rate has become.",
            more="In the formula two letters stand together in front of the weight.",
        ),
        Mistake(
            name="shrunk after the move",
            function=_stepped(
                lambda w, a, u, rate, eps, decay: (
                    (1 - rate * decay) * (w - rate * a / (u.sqrt() + eps))
                )
            ),
            hint="You shrink the move along with the weight.",
            more="First the old weight shrinks, then it moves.",
        ),
        Mistake(
            name="no decay",
            function=lambda *given: adamw(*given[:-1], 0.0),
            hint="The averages are right, and so is the move. Which argument is not "
            "used?",
            more="Each step also shrinks the weight a little.",
        ),
        Mistake(
            name="eps under the root",
            function=_stepped(
                lambda w, a, u, rate, eps, decay: (
                    (1 - rate * decay) * w - rate * a / (u + eps).sqrt()
                )
            ),
            hint="Right where eps is tiny. Is it added to the square, or to the size?",
            more="The root comes first.",
        ),
        Mistake(
            name="the root is missing",
            function=_stepped(
                lambda w, a, u, rate, eps, decay: (
                    (1 - rate * decay) * w - rate * a / (u + eps)
                )
            ),
            hint="You divide by a square. Gradients ten times as large would then move "
            "the weight a tenth as far.",
            more="One more function turns the average square into a usual size.",
        ),
        Mistake(
            name="the betas are exchanged",
            function=lambda *given: adamw(*given[:6], given[6][::-1], *given[7:]),
            hint="Each average forgets at the speed of the other.",
            more="The first of the pair belongs to the mean.",
        ),
        Mistake(
            name="the step counts from 0",
            function=lambda *given: adamw(*given[:4], given[4] + 1, *given[5:]),
            hint="The averages are right; your correction is that of the next step.",
            more="The first step already has the number 1: take it as it comes.",
        ),
        Mistake(
            name="the new gradient counts in full",
            function=_sums,
            hint="Averages of a gradient that is always 1 should go towards 1. Where "
            "do yours go?",
            more="What the old average keeps, and what the new gradient adds, make 1 "
            "together.",
        ),
        Mistake(
            name="uphill",
            function=lambda weight, gradient, mean, *rest: [
                sign * one
                for sign, one in zip(
                    (1, -1, 1),
                    adamw(weight, -gradient, -mean, *rest),
                    strict=True,
                )
            ],
            hint="The averages are right. But your weight goes where the loss grows.",
            more="One sign between the weight and the move.",
        ),
    ),
    hint=(
        "Three lines of formulas stand above. Begin with the two averages: they are "
        "what you hand on.",
        "Then give the corrected ones names of their own: each divided by 1 minus a "
        "power of its beta.",
        "The weight comes last: shrunk by rate times decay, minus rate times the one "
        "corrected average over the root of the other plus eps.",
    ),
)


# --- the rate ----------------------------------------------------------------------


def rate_at(step: int, steps: int, peak: float, warmup: int) -> float:
    """Up along a line, then down along half a cosine, to 0 one step after the last."""
    if step < warmup:
        return peak * step / warmup
    done = (step - warmup) / (steps - warmup + 1)
    return peak * (1 + math.cos(math.pi * done)) / 2


def _steps(generator):
    """The way of one run, and one argument changed at a time."""
    warmup = int(torch.randint(15, 25, (), generator=generator))
    run = 100, 0.02, warmup
    cases = [(step, *run) for step in (1, 10, warmup, 60, 100)]
    cases += [(60, 200, *run[1:]), (60, 100, 0.5, warmup), (60, 100, 0.02, 50)]
    return [*cases, (10, 100, 0.02, 0), (5, 5, 0.1, 5), (1, 1, 0.1, 0)]


def _falling(fall, climb=True):
    """The usual warm-up, if any, and another way down."""
    return lambda step, steps, peak, warmup: (
        peak * step / warmup
        if climb and step < warmup
        else peak * fall((step - warmup) / (steps - warmup + 1))
    )


def _wave(done):
    return (1 + math.cos(math.pi * done)) / 2


RATE = Exercise(
    name="training.rate",
    statement="Gives the learning rate of a step (from 1 to steps), a plain number: "
    "up to peak over warmup steps (0: none), then down along half a cosine, to 0 one "
    "step after the last. The last steps settle.",
    takes=("step", "steps", "peak", "warmup"),
    reference=rate_at,
    cases=_steps,
    plain=True,
    mistakes=(
        Mistake(
            name="a straight way down",
            function=_falling(lambda done: 1 - done),
            hint="The warm-up is right, and so are both ends. Your way down is a line.",
            more="The cosine of 0 is 1, that of π is −1. Which share of π is done?",
        ),
        Mistake(
            name="0 in the last step",
            function=lambda step, steps, peak, warmup: (
                peak * step / warmup
                if step < warmup
                else peak * _wave((step - warmup) / max(1, steps - warmup))
            ),
            hint="The last step of your run learns nothing: its rate is 0.",
            more="0 is reached one step *after* the last. By how many steps do you "
            "divide?",
        ),
        Mistake(
            name="no warm-up",
            function=lambda step, steps, peak, warmup: (
                peak
                if step < warmup
                else peak * _wave((step - warmup) / (steps - warmup + 1))
            ),
            hint="The way down is right. The first steps are as long as the longest.",
            more="What is step 1 of a warm-up of 20 worth? And step 10?",
        ),
        Mistake(
            name="the way down begins at step 0",
            function=lambda step, steps, peak, warmup: (
                peak * step / warmup
                if step < warmup
                else peak * _wave(step / (steps + 1))
            ),
            hint="After the warm-up the rate jumps down. Where should the cosine "
            "begin?",
            more="Count both from the end of the warm-up: the steps done, and those "
            "that there are.",
        ),
        Mistake(
            name="both at once",
            function=lambda step, steps, peak, warmup: (
                peak * min(1, step / max(1, warmup)) * _wave(step / (steps + 1))
            ),
            hint="Your cosine falls while the warm-up still climbs: the peak is never "
            "reached.",
            more="Two cases, one after the other: below the warm-up, and from there.",
        ),
        Mistake(
            name="a cosine below 0",
            function=_falling(lambda done: math.cos(math.pi * done)),
            hint="Halfway down your rate is 0, and then negative: the model climbs.",
            more="A cosine goes from 1 to −1. You need something from 1 to 0.",
        ),
        Mistake(
            name="a quarter of a wave",
            function=_falling(lambda done: math.cos(math.pi * done / 2)),
            hint="Yours falls to 0 as well, but steepest at the end. It should end "
            "level.",
            more="Half a wave, from crest to trough, lifted and halved.",
        ),
        Mistake(
            name="a whole wave",
            function=_falling(lambda done: _wave(2 * done)),
            hint="Your rate falls to 0 in the middle of the run and climbs again.",
            more="Half a wave is π, a whole one is 2π.",
        ),
        Mistake(
            name="twice the peak",
            function=_falling(lambda done: 2 * _wave(done)),
            hint="Where the way down begins, your rate is twice the peak.",
            more="1 + cos goes from 2 to 0. What brings it to 1?",
        ),
        Mistake(
            name="steps counted from 0",
            function=lambda step, *run: rate_at(step - 1, *run),
            hint="The first step of your warm-up does nothing. Each rate comes one "
            "step late.",
            more="Steps are numbered from 1 here: take the number as it is.",
        ),
    ),
    hint=(
        "Two cases: a step below `warmup`, and all others. The first is a line through "
        "0 that would be at the peak in step `warmup`.",
        "For the others say which share of the way down is done: 0 in step `warmup`, 1 "
        "in the step after the last.",
        "Half a cosine takes that share times π. Lift it above 0, and halve it.",
    ),
)


EXERCISES = (ADAMW, RATE)
