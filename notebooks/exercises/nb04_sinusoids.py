"""An exercise of notebook 04: the table of sinusoids.

Knows the shared table. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from course_utils.positions import sinusoidal_positions
from named_mistakes import Exercise, Mistake


def _hands(width):
    return torch.arange(width // 2, dtype=torch.get_default_dtype())


def _interleaved(sines, cosines):
    return torch.stack([sines, cosines], dim=-1).flatten(-2)


def _turned(positions, speeds):
    """Sines and cosines of every pair at every position, each "t pairs"."""
    angles = torch.outer(positions, speeds)
    return angles.sin(), angles.cos()


def _table(length, exponents):
    positions = torch.arange(length, dtype=exponents.dtype)
    return _interleaved(*_turned(positions, 10_000**-exponents))


def _own_clocks(length, width):
    positions, columns = _hands(2 * length), 2 * _hands(width)
    sines, _ = _turned(positions, 10_000 ** (-columns / width))
    _, cosines = _turned(positions, 10_000 ** (-(columns + 1) / width))
    return _interleaved(sines, cosines)


def _column_clocks(length, width):
    positions, columns = _hands(2 * length), 2 * _hands(width)
    sines, _ = _turned(positions, 10_000 ** (-2 * columns / width))
    _, cosines = _turned(positions, 10_000 ** (-2 * (columns + 1) / width))
    return _interleaved(sines, cosines)


def _sines_only(length, width):
    sines, _ = _turned(_hands(2 * length), 10_000 ** (-2 * _hands(width) / width))
    return _interleaved(sines, sines)


def _halves(length, width, steps):
    """Sines, then cosines; the frequencies reach a ten-thousandth after `steps`."""
    return torch.cat(
        _turned(_hands(2 * length), 10_000 ** (-_hands(width) / steps)), -1
    )


def sinusoids(length: int, d_model: int) -> Tensor:
    """Sine and cosine of each pair's angle, side by side: "t m"."""
    speeds = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(length)[:, None] * speeds
    table = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return table.reshape(length, d_model)


SINUSOIDS = Exercise(
    name="positions.sinusoids",
    statement="Gives the table “t m” for a length and an even d_model: sine and cosine "
    "of one angle side by side, so that one rotation moves every position.",
    takes=("length", "d_model"),
    reference=sinusoids,
    cases=lambda generator: [(40, 6), (23, 10), (1, 4), (40, 10)],
    mistakes=(
        Mistake(
            name="the cosine has a clock of its own",
            function=_own_clocks,
            hint="Row 0 is right. Further out, does sine² + cosine² of a pair still "
            "give 1?",
            more="A pair has *one* angle. Which number goes into the exponent of "
            "column 1?",
        ),
        Mistake(
            name="the pairs are numbered from 1",
            function=lambda length, width: _table(
                length, (2 * _hands(width) + 2) / width
            ),
            hint="Each pair turns evenly, but the fastest is missing. Row 1 should "
            "begin with the sine of 1.",
            more="What is i for the first pair of columns?",
        ),
        Mistake(
            name="sines in one half, cosines in the other",
            variant="Weights that were trained with the other order cannot use it.",
            function=lambda length, width: _halves(length, width, width // 2),
            also=(lambda length, width: _halves(length, width, width // 2 - 1),),
            hint="The right numbers, but in the wrong columns. Where does the formula "
            "put the cosine of pair 0?",
            more="Sine, cosine, sine, cosine, … torch.stack makes pairs, flatten lays "
            "them in a row.",
        ),
        Mistake(
            name="the exponent grows half as fast",
            function=lambda length, width: _table(length, _hands(width) / width),
            hint="Pair 0 is right, all others are too fast: your exponent grows half "
            "as fast as it should.",
            more="A column number goes into the exponent. In which column does pair i "
            "start?",
        ),
        Mistake(
            name="the slowest pair is too slow",
            function=lambda length, width: _table(
                length, _hands(width) / max(width // 2 - 1, 1)
            ),
            hint="You spread the frequencies from 1 to 1/10,000, both ends included. "
            "The formula stops one pair earlier.",
            more="What is 2i divided by in the exponent?",
        ),
        Mistake(
            name="the pairs get faster and faster",
            function=lambda length, width: _table(length, -2 * _hands(width) / width),
            hint="Pair 0 is right. The next one should turn less, but yours turns "
            "more.",
            more="Look at the sign in the exponent.",
        ),
        Mistake(
            name="all pairs have one frequency",
            function=lambda length, width: _table(length, 0 * _hands(width)),
            hint="Every pair turns one radian per position. A whole-number division "
            "(//) in the exponent gives 0 for all of them.",
            more="2i / m is a fraction between 0 and 1.",
        ),
        Mistake(
            name="all pairs but the first have the lowest frequency",
            function=lambda length, width: _table(length, _hands(width).clamp(max=1)),
            hint="All pairs but the first turn alike, by 1/10,000 per position. If you "
            "divide with //: what is −2 // 6 in Python?",
            more="2i / m is a fraction between 0 and 1. Which division operator keeps "
            "it?",
        ),
        Mistake(
            name="a logarithm to base 10 under exp",
            function=lambda length, width: _table(
                length, 2 * _hands(width) / width / math.log(10)
            ),
            hint="Pair 0 is right, the others are too fast. What undoes exp is the "
            "natural logarithm, not the one to base 10.",
            more="10,000 is exp(9.21), not exp(4).",
        ),
        Mistake(
            name="the cosine comes first",
            function=lambda length, width: (
                sinusoidal_positions(length, width).unflatten(-1, (-1, 2)).flip(-1)
            ).flatten(-2),
            hint="Row 0 should begin with 0, 1. Yours begins with 1, 0.",
            more="Even columns are 0, 2, 4, … Which of the two functions do they hold?",
        ),
        Mistake(
            name="positions are numbered from 1",
            function=lambda length, width: sinusoidal_positions(length + 1, width)[1:],
            hint="Your row 0 is everyone else's row 1.",
            more="Before the first step no pair has turned.",
        ),
        Mistake(
            name="the exponent grows twice as fast",
            function=lambda length, width: _table(length, 4 * _hands(width) / width),
            hint="Pair 0 is right, all others are too slow. How large is the exponent "
            "of your last pair?",
            more="2i already is a column number, 0, 2, 4, … What is it divided by?",
        ),
        Mistake(
            name="each column counts as a pair",
            function=_column_clocks,
            hint="Columns 0 and 1 hold the sine and the cosine of two different angles "
            "in your table.",
            more="Which i belongs to column 0, which to column 1, which to column 2?",
        ),
        Mistake(
            name="sines in all columns",
            function=_sines_only,
            hint="Row 0 is 0 everywhere in your table. What is the cosine of 0?",
            more="Even columns hold one function of the angle, odd columns the other "
            "one.",
        ),
    ),
    hint=(
        "First the frequencies, one per pair.",
        "Positions times frequencies gives all angles, “t pairs”.",
        "Stack sines and cosines along a new last axis, so that they stand in pairs.",
        "Then flatten the last two axes into columns.",
    ),
    shared=sinusoidal_positions,
)


EXERCISES = (SINUSOIDS,)
