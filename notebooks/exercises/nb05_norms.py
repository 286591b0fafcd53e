"""An exercise of notebook 05: a norm.

Knows the shared formula. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def layer_norm(x: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """What `nn.LayerNorm` computes, "... m".

    Source: Ba et al. 2016, section 3.
    """
    centered = x - x.mean(dim=-1, keepdim=True)
    variance = centered.square().mean(dim=-1, keepdim=True)
    return scale * centered / (variance + eps).sqrt() + shift


def _streams(generator):
    def one(eps, *shape):
        x = 3 * normal(generator, *shape) + 2
        scale, shift = normal(generator, 2, shape[-1])
        return x, scale, shift, eps

    quiet = one(0.1, 5, 6)
    quiet[0][1] = 4.0  # a word without any spread
    quiet[0][2] /= 10
    return [one(1e-5, 2, 3, 8), quiet]


def _normed(dims, unbiased=False):
    """The same, with mean and variance over these axes."""

    def norm(x, scale, shift, eps):
        axes = tuple(range(x.ndim))[dims]
        mean = x.mean(axes, keepdim=True)
        variance = x.var(axes, keepdim=True, unbiased=unbiased)
        return scale * (x - mean) / (variance + eps).sqrt() + shift

    return norm


def _variance(x):
    return x.var(-1, keepdim=True, unbiased=False)


def _centered(x):
    return x - x.mean(-1, keepdim=True)


def _by_the_sum(x, scale, shift, eps):
    squares = _centered(x).square().sum(-1, keepdim=True)
    return scale * _centered(x) / (squares + eps).sqrt() + shift


LAYER_NORM = Exercise(
    name="blocks.layer_norm",
    statement="Gives “… m” for x “… m”, scale “m”, shift “m” and a number eps: each "
    "word gets one size, whatever the layers before it have added up.",
    takes=("x", "scale", "shift", "eps"),
    reference=layer_norm,
    cases=_streams,
    mistakes=(
        Mistake(
            name="over the batch",
            function=_normed(slice(None, -1)),
            hint="Every column has mean 0 now. Should a word depend on its neighbors?",
            more="μ has an index t and no m: over which axis was it taken?",
        ),
        Mistake(
            name="over the whole sentence",
            function=_normed(slice(-2, None)),
            hint="One mean for all words of a sentence: a large word makes the others "
            "small.",
            more="Only the last axis. keepdim=True keeps a place for it.",
        ),
        Mistake(
            name="divided by m − 1",
            function=_normed(slice(-1, None), unbiased=True),
            hint="Nearly right: all numbers are a little too small. What does `var` "
            "divide by unless you tell it?",
            more="This variance is a plain average of squares, not an estimate.",
        ),
        Mistake(
            name="no eps",
            function=lambda x, scale, shift, eps: (
                scale * _centered(x) / _variance(x).sqrt() + shift
            ),
            hint="One word here has the same number everywhere. Its spread is 0, and 0 "
            "/ 0 is not a number.",
            more="One argument is unused.",
        ),
        Mistake(
            name="an eps of your own",
            function=lambda x, scale, shift, eps: layer_norm(x, scale, shift, 1e-5),
            hint="One case passes: its eps is 0.00001, which many people use. The "
            "other case has eps = 0.1.",
            more="eps is an argument: use the one you are given.",
        ),
        Mistake(
            name="eps outside the root",
            function=lambda x, scale, shift, eps: (
                scale * _centered(x) / (_variance(x).sqrt() + eps) + shift
            ),
            hint="With eps = 0.00001 the difference hardly shows. With 0.1, small "
            "words come out different.",
            more="Look at how far the root reaches in the formula.",
        ),
        Mistake(
            name="`std` as it comes, plus eps",
            function=lambda x, scale, shift, eps: (
                scale * _centered(x) / (x.std(-1, keepdim=True) + eps) + shift
            ),
            hint="Close. Two small things: what does `std` divide by, and how far does "
            "the root reach?",
            more="Begin with the variance: it has an argument `unbiased`, and eps "
            "joins it.",
        ),
        Mistake(
            name="the mean stays",
            function=lambda x, scale, shift, eps: (
                scale * x / (_variance(x) + eps).sqrt() + shift
            ),
            hint="Each word has spread 1, but its mean is still there.",
            more="Two things happen in the numerator of the fraction.",
        ),
        Mistake(
            name="divided by the variance",
            function=lambda x, scale, shift, eps: (
                scale * _centered(x) / (_variance(x) + eps) + shift
            ),
            hint="Make x ten times larger: your fraction gets ten times smaller.",
            more="A variance is a *squared* spread.",
        ),
        Mistake(
            name="scale and shift forgotten",
            function=lambda x, scale, shift, eps: (
                _centered(x) / (_variance(x) + eps).sqrt()
            ),
            hint="Well normed. Two arguments are unused.",
            more="What was learned comes last: a factor and an offset for each column.",
        ),
        Mistake(
            name="shifted before it is scaled",
            function=lambda x, scale, shift, eps: (
                scale * (_centered(x) / (_variance(x) + eps).sqrt() + shift)
            ),
            hint="Your shift gets scaled as well.",
            more="Where a word's number is exactly its mean, the result is the shift "
            "alone.",
        ),
        Mistake(
            name="divided by the root of the mean square",
            function=lambda x, scale, shift, eps: (
                scale * x / (x.square().mean(-1, keepdim=True) + eps).sqrt() + shift
            ),
            hint="No mean is subtracted anywhere: what all numbers of a word have in "
            "common stays.",
            more="Subtract the mean first. The variance is the mean square of what is "
            "left.",
        ),
        Mistake(
            name="the mean is subtracted above the line only",
            function=lambda x, scale, shift, eps: (
                scale * _centered(x) / (x.square().mean(-1, True) + eps).sqrt() + shift
            ),
            hint="In the numerator the mean is subtracted. For a word with mean 100, "
            "how large are the squares in the denominator?",
            more="A variance is the mean square of the differences from the mean.",
        ),
        Mistake(
            name="over everything",
            function=_normed(slice(None)),
            hint="One mean and one variance for all words of all sentences. Should a "
            "word depend on the others?",
            more="Only the last axis: mean and var take a dim, and keepdim=True keeps "
            "a place for it.",
        ),
        Mistake(
            name="scale forgotten",
            function=lambda x, scale, shift, eps: layer_norm(
                x, torch.ones_like(scale), shift, eps
            ),
            hint="Well normed and shifted. One argument is unused.",
            more="A learned factor for each column comes before the shift.",
        ),
        Mistake(
            name="shift forgotten",
            function=lambda x, scale, shift, eps: layer_norm(
                x, scale, torch.zeros_like(shift), eps
            ),
            hint="Well normed and scaled. One argument is unused.",
            more="A learned offset for each column comes last.",
        ),
        Mistake(
            name="over the positions",
            function=_normed(slice(-2, -1)),
            hint="Every column of a sentence has mean 0 now. Should a word depend on "
            "its neighbors?",
            more="μ has an index t and no m: over which axis was it taken?",
        ),
        Mistake(
            name="the squares are only added up",
            function=_by_the_sum,
            hint="The wider a word is, the smaller your numbers get. Is the variance "
            "of a word a sum or a mean?",
            more="Divide the sum of the squares by the width.",
        ),
    ),
    hint=(
        "Take one word, and write down the two numbers that LayerNorm needs of it.",
        "Mean and variance of each word, over the last axis; then the formula.",
    ),
    trains=True,
)


EXERCISES = (LAYER_NORM,)
