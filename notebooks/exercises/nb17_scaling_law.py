"""Exercises of notebook 17: a power law read both ways, and what padding costs.

Knows nothing of models or of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake


def _slope(x, y):
    """Of the least-squares line."""
    x = x - x.mean()
    return (x @ y / (x @ x)).item()


def _through_origin(compute, losses):
    """The line that must pass through 0: a is taken to be 1."""
    x, y = compute.log(), losses.log()
    return -(x @ y / (x @ x)).item()


def power(compute: Tensor, losses: Tensor) -> float:
    """The b of losses = a · compute^(−b), by least squares on the logarithms."""
    x = compute.log() - compute.log().mean()
    return -(x @ losses.log() / (x @ x)).item()


def _runs(generator):
    def one(count, b):
        kind = torch.get_default_dtype()
        compute = torch.rand(count, generator=generator, dtype=kind).mul(4).exp()
        noise = torch.randn(count, generator=generator, dtype=kind).mul(0.1).exp()
        compute = compute.sort().values
        return compute, 6 * compute**-b * noise

    return [one(5, 0.1), one(7, 0.4), one(6, -0.3)]


POWER = Exercise(
    "scaling.power",
    "Gives the exponent b, positive where losses fall, of losses = a · compute^(−b): "
    "two tensors “n”, and least squares on the logarithms. It says what more compute "
    "buys.",
    ("compute", "losses"),
    power,
    _runs,
    (
        Mistake(
            "no logarithms",
            lambda compute, losses: -_slope(compute, losses),
            "A line through the numbers themselves: its slope depends on their units.",
            "A power law is straight where both axes are logarithmic.",
        ),
        Mistake(
            "only the losses are logarithmic",
            lambda compute, losses: -_slope(compute, losses.log()),
            "That is the line of an exponential, which halves at equal distances.",
            "A power law is straight where both axes are logarithmic.",
        ),
        Mistake(
            "only the compute is logarithmic",
            lambda compute, losses: -_slope(compute.log(), losses),
            "Nats per tenfold compute: a slope, and not the exponent.",
            "A power law is straight where both axes are logarithmic.",
        ),
        Mistake(
            "the sign",
            lambda compute, losses: -power(compute, losses),
            "The line falls, so its slope is negative. And b?",
            "Where does the minus stand in the power law?",
        ),
        Mistake(
            "b without its sign",
            lambda compute, losses: abs(power(compute, losses)),
            "Right where losses fall. What is b where more compute makes them worse?",
            "Turn the sign of the slope, whichever it is.",
        ),
        Mistake(
            "axes exchanged",
            lambda compute, losses: -_slope(losses.log(), compute.log()),
            "You ask what compute a loss costs. Asked is what loss the compute buys.",
            "Which of the two do you choose, and which do you then measure?",
        ),
        Mistake(
            "fitted the other way around, then inverted",
            lambda compute, losses: -1 / _slope(losses.log(), compute.log()),
            "Without noise that is the same. Here your line makes the squares of the "
            "errors in compute least. Which of the two is measured with errors?",
            "Fit the losses to the compute: then no slope has to be inverted.",
        ),
        Mistake(
            "the height, not the slope",
            lambda compute, losses: (
                losses.log().mean() + power(compute, losses) * compute.log().mean()
            ).item(),
            "That is where the line stands, the logarithm of a, and not how it falls.",
            "polyfit gives the highest power first: the slope, then the height.",
        ),
        Mistake(
            "two bases",
            lambda compute, losses: power(compute, losses) * math.log(10),
            "The logarithms of the two axes have different bases.",
            "ln on both axes, or log10 on both.",
        ),
        Mistake(
            "through the origin",
            _through_origin,
            "Your line must pass through 0, as if a were 1. It cannot find its height.",
            "Take the mean from both logarithms first, or fit a line with a height.",
        ),
        Mistake(
            "only the ends count",
            lambda compute, losses: (
                -(
                    (losses[-1] / losses[0]).log() / (compute[-1] / compute[0]).log()
                ).item()
            ),
            "Two points decide, and all others were trained for nothing.",
            "Least squares hears every point.",
        ),
    ),
    "Take two logarithms. Then it is an ordinary line, and b is its slope without the "
    "sign.",
)


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
            "Below 1: with less compute you get a lower loss?",
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
            "That is what twice the compute leaves of the loss. Which compute leaves "
            "half of it?",
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


def padding_share(lengths: list[int], size: int) -> float:
    """The share of padding when each batch is padded to its own longest text."""
    places = 0
    for start in range(0, len(lengths), size):
        some = lengths[start : start + size]
        places += len(some) * max(some)
    return 1 - sum(lengths) / places


def _lengths(generator):
    def one(count, size):
        drawn = torch.randint(3, 40, (count,), generator=generator)
        return drawn.tolist(), size

    return [one(7, 3), one(12, 4)]


def _in_batches(lengths, size):
    return [lengths[start : start + size] for start in range(0, len(lengths), size)]


PADDING = Exercise(
    "scaling.padding",
    "Gives the share of places that hold padding, if texts of these lengths (a list) "
    "come in batches of this size, the last smaller, each padded to its longest. You "
    "pay for it in full.",
    ("lengths", "size"),
    padding_share,
    _lengths,
    (
        Mistake(
            "padded to the longest of all",
            lambda lengths, size: 1 - sum(lengths) / max(lengths) / len(lengths),
            "One long text makes every batch long. How long must a batch be?",
            "Each batch has a longest text of its own.",
        ),
        Mistake(
            "the last batch is taken for a full one",
            lambda lengths, size: (
                1
                - sum(lengths)
                / sum(size * max(some) for some in _in_batches(lengths, size))
            ),
            "Seven texts in threes: the last batch has one row. You pay for three.",
            "A batch has as many rows as it has texts.",
        ),
        Mistake(
            "sorted first",
            lambda lengths, size: padding_share(sorted(lengths), size),
            "You put texts of like length together. Here they stay in their order.",
            "Batch by batch, as the list has them.",
        ),
        Mistake(
            "the mean of the batches",
            lambda lengths, size: (
                sum(padding_share(some, size) for some in _in_batches(lengths, size))
                / len(_in_batches(lengths, size))
            ),
            "A batch of many places counts as much as one of few.",
            "Add up the places of all batches first, then divide once.",
        ),
        Mistake(
            "the share of words",
            lambda lengths, size: 1 - padding_share(lengths, size),
            "Right for what is not padding.",
            "All places are words or padding.",
        ),
        Mistake(
            "padding for each word",
            lambda lengths, size: 1 / (1 - padding_share(lengths, size)) - 1,
            "You divide by the words. A share of all places has another divisor.",
            "How many places do the batches have together?",
        ),
        Mistake(
            "the last batch is lost",
            lambda lengths, size: padding_share(
                lengths[: len(lengths) // size * size], size
            ),
            "Some texts fill no whole batch, and you left them out.",
            "The last batch may be smaller.",
        ),
    ),
    "Cut the list into batches. A batch has as many places as texts times its longest.",
)


EXERCISES = (POWER, HALVING, PADDING)
