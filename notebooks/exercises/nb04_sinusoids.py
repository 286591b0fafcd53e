"""Exercises of notebook 04: the table of sinusoids, and one of its pairs.

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


# --- the table ---------------------------------------------------------------------


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


def sinusoids(length: int, d_model: int) -> Tensor:
    """Sine and cosine of each pair's angle, side by side: "t m"."""
    speeds = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(length)[:, None] * speeds
    table = torch.stack([angles.sin(), angles.cos()], dim=-1)
    return table.reshape(length, d_model)


SINUSOIDS = Exercise(
    "positions.sinusoids",
    "Gives the table “t m” for a length and an even d_model: sine and cosine of one "
    "angle side by side, so that one rotation moves every position.",
    ("length", "d_model"),
    sinusoids,
    lambda generator: [(40, 6), (23, 10), (1, 4)],
    (
        Mistake(
            "the cosine has a clock of its own",
            _own_clocks,
            "Row 0 is right. Further out, does sine² + cosine² of a pair still give 1?",
            "A pair has *one* angle. Which number goes into the exponent of column 1?",
        ),
        Mistake(
            "the pairs are numbered from 1",
            lambda length, width: _table(length, (2 * _hands(width) + 2) / width),
            "Each pair turns evenly, but the fastest is missing. Row 1 should begin "
            "with the sine of 1.",
            "What is i for the first pair of columns?",
        ),
        Mistake(
            "sines in one half, cosines in the other",
            lambda length, width: torch.cat(
                _turned(_hands(2 * length), 10_000 ** (-2 * _hands(width) / width)), -1
            ),
            "The right numbers, but in the wrong columns. Where does the formula put "
            "the cosine of pair 0?",
            "Sine, cosine, sine, cosine, … torch.stack makes pairs, flatten lays them "
            "in a row.",
        ),
        Mistake(
            "the exponent grows half as fast",
            lambda length, width: _table(length, _hands(width) / width),
            "Pair 0 is right, all others are too fast: your exponent grows half as "
            "fast as it should.",
            "A column number goes into the exponent. In which column does pair i "
            "start?",
        ),
        Mistake(
            "the slowest pair is too slow",
            lambda length, width: _table(
                length, _hands(width) / max(width // 2 - 1, 1)
            ),
            "You spread the frequencies from 1 to 1/10,000, both ends included. The "
            "formula stops one pair earlier.",
            "What is 2i divided by in the exponent?",
        ),
        Mistake(
            "the pairs get faster and faster",
            lambda length, width: _table(length, -2 * _hands(width) / width),
            "Pair 0 is right. The next one should turn less, but yours turns more.",
            "Look at the sign in the exponent.",
        ),
        Mistake(
            "all pairs have one frequency",
            lambda length, width: _table(length, 0 * _hands(width)),
            "Every pair turns one radian per position. A whole-number division (//) in "
            "the exponent gives 0 for all of them.",
            "2i / m is a fraction between 0 and 1.",
        ),
        Mistake(
            "all pairs but the first have the lowest frequency",
            lambda length, width: _table(length, _hands(width).clamp(max=1)),
            "All pairs but the first turn alike, by 1/10,000 per position. If you "
            "divide with //: what is −2 // 6 in Python?",
            "2i / m is a fraction between 0 and 1. Which division operator keeps it?",
        ),
        Mistake(
            "a logarithm to base 10 under exp",
            lambda length, width: _table(
                length, 2 * _hands(width) / width / math.log(10)
            ),
            "Pair 0 is right, the others are too fast. What undoes exp is the natural "
            "logarithm, not the one to base 10.",
            "10,000 is exp(9.21), not exp(4).",
        ),
        Mistake(
            "the cosine comes first",
            lambda length, width: (
                sinusoidal_positions(length, width).unflatten(-1, (-1, 2)).flip(-1)
            ).flatten(-2),
            "Row 0 should begin with 0, 1. Yours begins with 1, 0.",
            "Even columns are 0, 2, 4, … Which of the two functions do they hold?",
        ),
        Mistake(
            "positions are numbered from 1",
            lambda length, width: sinusoidal_positions(length + 1, width)[1:],
            "Your row 0 is everyone else's row 1.",
            "Before the first step no pair has turned.",
        ),
        Mistake(
            "the exponent grows twice as fast",
            lambda length, width: _table(length, 4 * _hands(width) / width),
            "Pair 0 is right, all others are too slow. How large is the exponent of "
            "your last pair?",
            "2i already is a column number, 0, 2, 4, … What is it divided by?",
        ),
        Mistake(
            "each column counts as a pair",
            _column_clocks,
            "Columns 0 and 1 hold the sine and the cosine of two different angles in "
            "your table.",
            "Which i belongs to column 0, which to column 1, which to column 2?",
        ),
        Mistake(
            "sines in all columns",
            _sines_only,
            "Row 0 is 0 everywhere in your table. What is the cosine of 0?",
            "Even columns hold one function of the angle, odd columns the other one.",
        ),
    ),
    (
        "First the frequencies, one per pair.",
        "Positions times frequencies gives all angles, “t pairs”.",
        "Stack sines and cosines along a new last axis, so that they stand in pairs.",
        "Then flatten the last two axes into columns.",
    ),
    shared=sinusoidal_positions,
)


# --- one hand ----------------------------------------------------------------------


def hand_angle(position: int, hand: int, d_model: int) -> float:
    """The angle in radians, read from the table; right for less than half a turn."""
    row = sinusoidal_positions(position + 1, d_model)[-1]
    return math.atan2(row[2 * hand], row[2 * hand + 1])


def hand() -> float:
    """Position times frequency, which is 10,000^(-2i / m) for pair i of width m."""
    return 30 * 10_000 ** (-2 * 4 / 16)


HAND = Exercise(
    "positions.hand",
    "Wants a number: by how many radians has pair 4 of a table of width 16 turned at "
    "position 30? The slow pairs are what tells far positions apart.",
    (),
    hand,
    lambda generator: [()],
    (
        Mistake(
            "the frequency of pair 8",
            lambda: 30 * 10_000 ** (-16 / 16),
            "Too slow. Is the exponent of pair i −2i/m or −4i/m?",
            "Width 16 has only pairs 0 to 7. Count the columns before pair 4.",
        ),
        Mistake(
            "i instead of 2i",
            lambda: 30 * 10_000 ** (-4 / 16),
            "Too fast: that is the frequency of pair 2.",
            "The exponent holds the number of the pair's first *column*.",
        ),
        Mistake(
            "the pair before",
            lambda: 30 * 10_000 ** (-6 / 16),
            "That is pair 3: the fourth one, if you count from 1.",
            "Pair 0 has the frequency 1, so pair 1 is the second.",
        ),
        Mistake(
            "the pair behind",
            lambda: 30 * 10_000 ** (-10 / 16),
            "That is pair 5. How many pairs come before pair 4?",
            "Pair 0 has the frequency 1. From there it is four equal steps down.",
        ),
        Mistake(
            "degrees",
            lambda: math.degrees(hand_angle(30, 4, 16)),
            "The correct angle, but in a different unit.",
            "A whole turn is 2π radians.",
        ),
        Mistake(
            "degrees, to two decimals",
            lambda: round(math.degrees(hand_angle(30, 4, 16)), 2),
            "Your number is the correct angle, but in degrees. Which unit is asked "
            "for?",
            "A whole turn is 2π radians.",
        ),
        Mistake(
            "one position's worth",
            lambda: hand_angle(1, 4, 16),
            "That is its frequency, the turn per position.",
            "How many steps has it made since position 0?",
        ),
        Mistake(
            "the sine of the angle",
            lambda: math.sin(hand_angle(30, 4, 16)),
            "That is the number in the table. Which angle has this sine?",
            "The angle itself was asked for: frequency times position.",
        ),
        Mistake(
            "the cosine of the angle",
            lambda: math.cos(hand_angle(30, 4, 16)),
            "That is a number in the table. Which angle has this cosine?",
            "The angle itself was asked for: frequency times position.",
        ),
        Mistake(
            "the exponent without its minus",
            lambda: 30 * 10_000 ** (8 / 16),
            "That pair would turn faster than pair 0. Do frequencies grow or fall from "
            "pair to pair?",
            "Look at the sign in the exponent.",
        ),
        Mistake(
            "the frequency of pair 0",
            lambda: 30.0,
            "That pair turns one radian per position. Which pair does so?",
            "Pair 4 has a frequency below 1: put 4 into the formula.",
        ),
    ),
    (
        "An angle is frequency times position.",
        "What is 2i/m here?",
        "What is 10,000 to that power? Its reciprocal is the frequency.",
    ),
    predicts=True,
)


EXERCISES = (SINUSOIDS, HAND)
