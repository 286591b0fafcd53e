"""An exercise of notebook 04: the table of cosines and sines for rotary positions.

Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake


def rotary_table(
    length: int, head_dim: int, start: int, base: float
) -> tuple[Tensor, Tensor]:
    """Cosines and sines "t d"; columns i and i + d/2 are a pair and share an angle."""
    positions = torch.arange(start, start + length)
    frequencies = base ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.outer(positions, frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def _sizes(generator):
    """Positions from 0 and from later, and one argument changed at a time."""
    start = int(torch.randint(5, 9, (), generator=generator))
    usual = 5, 6, start, 10_000.0
    others = [(0, 9), (1, 10), (2, 0), (3, 50.0)]
    cases = [(*usual[:p], value, *usual[p + 1 :]) for p, value in others]
    return [usual, *cases, (1, 8, start, 100.0), (3, 2, start + 9, 10_000.0)]


def _tables(angles):
    return angles.cos(), angles.sin()


def _turned(arrange=lambda angles: angles.repeat(1, 2), speeds=None, since=0):
    """The tables with another order of columns, other frequencies or positions."""

    def answer(length, head_dim, start, base):
        pairs = torch.arange(head_dim // 2, dtype=torch.get_default_dtype())
        rates = base ** (-2 * pairs / head_dim)
        if speeds is not None:
            rates = speeds(pairs, head_dim, base)
        positions = torch.arange(start + since, start + since + length).to(rates)
        return _tables(arrange(torch.outer(positions, rates)))

    return answer


def _each_column(length, head_dim, start, base):
    columns = torch.arange(head_dim, dtype=torch.get_default_dtype())
    positions = torch.arange(start, start + length).to(columns)
    return _tables(torch.outer(positions, base ** (-columns / head_dim)))


TABLE = Exercise(
    name="positions.rotary_table",
    statement="Gives two tables, cosines and sines “t d”, for length positions from "
    "start on. Columns i and i + d/2 hold the angle of pair i, with this base; d is "
    "head_dim. Computed once, it serves all layers and heads.",
    takes=("length", "head_dim", "start", "base"),
    reference=rotary_table,
    cases=_sizes,
    mistakes=(
        Mistake(
            name="start is forgotten",
            function=lambda length, head_dim, start, base: rotary_table(
                length, head_dim, 0, base
            ),
            hint="Right for a text from its beginning. Row 0 is to stand at position "
            "`start`.",
            more="torch.arange takes a first number, too.",
        ),
        Mistake(
            name="the rows up to start, too",
            function=lambda length, head_dim, start, base: rotary_table(
                start + length, head_dim, 0, base
            ),
            hint="You give the rows of all positions from 0 on: too many.",
            more="A continued text needs only the rows of its new words.",
        ),
        Mistake(
            name="each angle twice in a row",
            function=_turned(lambda angles: angles.repeat_interleave(2, dim=1)),
            variant="Weights that were trained with the other pairs cannot use it.",
            hint="Columns 0 and 1 share an angle. That fits pairs of neighbors.",
            more="Here the partner of column i is half a width away.",
        ),
        Mistake(
            name="half as wide",
            function=_turned(lambda angles: angles),
            hint="One column per pair. But a head has two columns per pair, and each "
            "is multiplied.",
            more="The second half of the columns repeats the first.",
        ),
        Mistake(
            name="a frequency per column",
            function=_each_column,
            hint="The two columns of a pair turn at different speeds, so lengths "
            "change.",
            more="d/2 frequencies, each of them used in two columns.",
        ),
        Mistake(
            name="frequencies of i/d, not of 2i/d",
            function=_turned(
                speeds=lambda pairs, head_dim, base: base ** (-pairs / head_dim)
            ),
            hint="Pair 0 is right, the others turn too fast.",
            more="The exponent runs from 0 to nearly −1, in steps of 2/d.",
        ),
        Mistake(
            name="slower pairs turn faster",
            function=_turned(
                speeds=lambda pairs, head_dim, base: base ** (2 * pairs / head_dim)
            ),
            hint="Pair 0 is right. Each next pair should be slower, not faster.",
            more="Look at the sign of the exponent.",
        ),
        Mistake(
            name="always the base 10,000",
            function=lambda length, head_dim, start, base: rotary_table(
                length, head_dim, start, 10_000.0
            ),
            hint="Right for the usual base. Models for long texts take larger ones.",
            more="One argument is not used.",
        ),
        Mistake(
            name="positions counted from 1",
            function=_turned(since=1),
            hint="Every row is turned one position too far.",
            more="Which angle belongs to position 0?",
        ),
        Mistake(
            name="sines before cosines",
            function=lambda *given: rotary_table(*given)[::-1],
            hint="Both tables are right. In which order are they wanted?",
            more="At position 0 nothing turns: the first table begins with ones.",
        ),
    ),
    hint=(
        "Begin with the angles, one row per position and one column per pair.",
        "The frequency of pair i is base^(−2i/d); torch.outer multiplies each position "
        "with each frequency.",
        "Put the angles twice side by side, then take cosines and sines.",
    ),
)


EXERCISES = (TABLE,)
