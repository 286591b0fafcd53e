"""Exercises of notebook 04: what turns. A step in the table, and rotary.

Knows the shared functions. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor

from course_utils.positions import rotary_table, rotate, sinusoidal_positions
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- a step ------------------------------------------------------------------------


def step_on(row: Tensor, steps: int) -> Tensor:
    """The row of the sinusoidal table that stands `steps` positions after `row`, "m".

    Source: the addition formulas; Vaswani et al. 2017, section 3.5.
    """
    sines, cosines = row.unflatten(-1, (-1, 2)).unbind(-1)
    sine, cosine = sinusoidal_positions(steps + 1, len(row))[-1].view(-1, 2).unbind(-1)
    moved = [sines * cosine + cosines * sine, cosines * cosine - sines * sine]
    return torch.stack(moved, dim=-1).flatten()


def _row(place, width):
    """A row of the table, at any place, also between two positions."""
    width = torch.arange(0, width, 2, dtype=torch.get_default_dtype()) / width
    angles = place * 10_000.0**-width
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


def _rows(generator):
    near = int(torch.randint(20, 90, (), generator=generator))
    far = int(torch.randint(300, 900, (), generator=generator))
    return [
        (_row(near, 6), 5),
        (_row(near, 10), 3),
        (_row(far, 8), 4),
        (_row(16.5, 6), 2),  # sine and cosine of pair 0 lie below 0
        (_row(far, 2), 0),
    ]


def _back(row, steps):
    flipped = row.unflatten(-1, (-1, 2)).flip(-1).flatten()
    return step_on(flipped, steps).unflatten(-1, (-1, 2)).flip(-1).flatten()


def _fast(row, steps):
    first, second = row.unflatten(-1, (-1, 2)).unbind(-1)
    sine, cosine = math.sin(steps), math.cos(steps)
    moved = [first * cosine + second * sine, second * cosine - first * sine]
    return torch.stack(moved, dim=-1).flatten()


def _from_the_sine(row, steps):
    sines, _ = row.unflatten(-1, (-1, 2)).unbind(-1)
    angles = sines.clamp(-1, 1).asin() + steps * _speeds(row)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


def _speeds(row):
    return 10_000 ** (-torch.arange(0, len(row), 2, dtype=row.dtype) / len(row))


def _from_the_cosine(row, steps):
    _, cosines = row.unflatten(-1, (-1, 2)).unbind(-1)
    angles = cosines.clamp(-1, 1).acos() + steps * _speeds(row)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


def _from_the_quotient(row, steps):
    sines, cosines = row.unflatten(-1, (-1, 2)).unbind(-1)
    angles = (sines / cosines).atan() + steps * _speeds(row)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


def _one_after_the_other(row, steps):
    sines, cosines = row.unflatten(-1, (-1, 2)).unbind(-1)
    angles = steps * _speeds(row)
    sines = sines * angles.cos() + cosines * angles.sin()
    cosines = cosines * angles.cos() - sines * angles.sin()
    return torch.stack([sines, cosines], dim=-1).flatten()


def _two_plus(row, steps):
    sines, cosines = row.unflatten(-1, (-1, 2)).unbind(-1)
    sine, cosine = (steps * _speeds(row)).sin(), (steps * _speeds(row)).cos()
    moved = [sines * cosine + cosines * sine, cosines * cosine + sines * sine]
    return torch.stack(moved, dim=-1).flatten()


def _from_the_first_sine(row, steps):
    return _row(row[0].clamp(-1, 1).asin() + steps, len(row))


def _from_the_first_pair(row, steps):
    return _row(torch.atan2(row[0], row[1]) + steps, len(row))


def _by_halves(row, steps):
    pairs = row.unflatten(-1, (2, -1)).transpose(0, 1).flatten()
    return step_on(pairs, steps).unflatten(-1, (-1, 2)).transpose(0, 1).flatten()


STEP = Exercise(
    "positions.step",
    "Gives the row “m” that stands so many steps after a row “m” of the table. "
    "Where the row stood is not told: one rotation serves everywhere.",
    ("row", "steps"),
    step_on,
    _rows,
    (
        Mistake(
            "turned back",
            _back,
            "You arrive that many positions earlier, not later. In a pair the sine "
            "comes first.",
            "Compare with the formula in section 4: where is the minus sign?",
        ),
        Mistake(
            "the row with the number `steps`",
            lambda row, steps: sinusoidal_positions(steps + 1, len(row))[-1],
            "That is where you arrive if you start at position 0.",
            "The row that you were given says where each pair stands now. Use it.",
        ),
        Mistake(
            "rows are added",
            lambda row, steps: row + sinusoidal_positions(steps + 1, len(row))[-1],
            "Your pairs have changed their length. Angles add up, sines do not.",
            "The sine of a sum needs both the sine and the cosine: four products.",
        ),
        Mistake(
            "every pair turns as far as pair 0",
            _fast,
            "Pair 0 is right. Do the slower pairs turn by the same angle?",
            "Each pair has a 2×2 block of its own, with its frequency.",
        ),
        Mistake(
            "pairs of the two halves",
            _by_halves,
            "Column 0 and the first column of the second half belong to different "
            "pairs.",
            "In this table a pair is two *neighboring* columns.",
        ),
        Mistake(
            "the columns are rolled",
            lambda row, steps: row.roll(steps),
            "You moved the numbers to other columns. Positions run down the table, "
            "columns are pairs.",
            "Every pair stays in its columns and turns there.",
        ),
        Mistake(
            "the angle from the sine alone",
            _from_the_sine,
            "Right for pairs that point up on the dial. But two angles can have the "
            "same sine.",
            "You need no angle: the sum formulas take sine and cosine as they are.",
        ),
        Mistake(
            "the position is read from the sine of pair 0",
            _from_the_first_sine,
            "Right as long as pair 0 is in its first quarter turn. It comes back "
            "around every 6.3 positions.",
            "You need no position. Each pair can turn by itself, wherever it stands.",
        ),
        Mistake(
            "the position is read from pair 0",
            _from_the_first_pair,
            "Right up to position 3, half a turn of pair 0. After that its angle no "
            "longer tells how many turns it has made.",
            "You need no position. Each pair can turn by itself, wherever it stands.",
        ),
        Mistake(
            "the angle from the cosine alone",
            _from_the_cosine,
            "Right for pairs on the right half of the dial. But two angles can have "
            "the same cosine.",
            "You need no angle: the sum formulas take sine and cosine as they are.",
        ),
        Mistake(
            "the angle from sine divided by cosine",
            _from_the_quotient,
            "Right for pairs in the upper half of the dial. But opposite angles have "
            "the same quotient.",
            "torch.atan2 takes both numbers. But you need no angle: look at the sum "
            "formulas.",
        ),
        Mistake(
            "the cosines are made from the new sines",
            _one_after_the_other,
            "The sines are right. What do the cosines read: the old sines, or the "
            "ones you just wrote?",
            "Compute both from the old numbers, and only then put them into a row.",
        ),
        Mistake(
            "a plus in both sums",
            _two_plus,
            "The sines are right, but the pairs have changed their length. What is the "
            "cosine of a sum?",
            "One of the four products is subtracted.",
        ),
    ),
    (
        "A row is a line of pairs, (sine, cosine), one frequency after the other.",
        "Each pair turns by `steps` times its frequency.",
        "Section 4 has a matrix that moves every row by a number of steps.",
    ),
)


# --- rotary ------------------------------------------------------------------------


def turn_rows(x: Tensor) -> Tensor:
    """Turn each row of "b h t d" by the angle of its position, counted from 0."""
    return rotate(x, *rotary_table(*x.shape[-2:]))


def rotary(
    queries: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All three as attention wants them: only what is compared knows its position."""
    cos, sin = rotary_table(*queries.shape[-2:])
    return rotate(queries, cos, sin), rotate(keys, cos, sin), values


def _both(turn):
    """The exercise with another way to turn queries and keys."""
    return lambda queries, keys, values: (turn(queries), turn(keys), values)


def _neighbors(x):
    x = x.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)
    return turn_rows(x).unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


def _mixed_angles(x):
    tables = rotary_table(*x.shape[-2:])
    halves = (table[:, : x.shape[-1] // 2] for table in tables)
    return rotate(x, *(half.repeat_interleave(2, dim=-1) for half in halves))


def _other_way(x):
    cos, sin = rotary_table(*x.shape[-2:])
    return rotate(x, cos, -sin)


def _keys_back(queries, keys, values):
    return turn_rows(queries), _other_way(keys), values


def _one_after_the_other_half(x):
    first, second = x.chunk(2, dim=-1)
    cos, sin = (table.chunk(2, dim=-1)[0] for table in rotary_table(*x.shape[-2:]))
    first = first * cos - second * sin
    return torch.cat([first, first * sin + second * cos], dim=-1)


def _all_plus(x):
    cos, sin = rotary_table(*x.shape[-2:])
    return x * cos + x.roll(x.shape[-1] // 2, dims=-1) * sin


def _repeated(queries, keys, values):
    times = queries.shape[1] // keys.shape[1]
    keys = turn_rows(keys).repeat_interleave(times, dim=1)
    return turn_rows(queries), keys, values.repeat_interleave(times, dim=1)


def _repeated_in_turn(queries, keys, values):
    times = queries.shape[1] // keys.shape[1]
    keys = turn_rows(keys).repeat(1, times, 1, 1)
    return turn_rows(queries), keys, values.repeat(1, times, 1, 1)


def _by_heads(x):
    return turn_rows(x.transpose(1, 2)).transpose(1, 2)


def _by_heads_and_repeated(queries, keys, values):
    times = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(times, dim=1)
    values = values.repeat_interleave(times, dim=1)
    return _by_heads(queries), _by_heads(keys), values


def _one_speed(x):
    cos, sin = (
        table[:, :1].expand(-1, x.shape[-1]) for table in rotary_table(x.shape[-2], 2)
    )
    return rotate(x, cos, sin)


def _speeds_of_width(x, wider):
    """Turn by the first frequencies of a width that is larger than that of a head."""
    tables = rotary_table(x.shape[-2], wider)
    halves = (table[:, : x.shape[-1] // 2] for table in tables)
    return rotate(x, *(torch.cat([half, half], dim=-1) for half in halves))


def _wide_speeds(x):
    return _speeds_of_width(x, x.shape[1] * x.shape[-1])


def _from_one(x):
    cos, sin = rotary_table(x.shape[-2] + 1, x.shape[-1])
    return rotate(x, cos[1:], sin[1:])


def _silent(keys):
    """The same with a key of zeros."""
    keys[0, 0, 2] = 0.0
    return keys


ROTARY = Exercise(
    "positions.rotary",
    "Gives queries, keys, values (“b h t d”, positions from 0; keys and values may "
    "have fewer heads) as rotary attention wants them, pairs (i, i + d/2): a score "
    "then depends on two positions only through their distance.",
    ("queries", "keys", "values"),
    rotary,
    lambda g: [
        (normal(g, 2, 3, 7, 6), normal(g, 2, 3, 7, 6), normal(g, 2, 3, 7, 6)),
        (normal(g, 1, 4, 12, 8), normal(g, 1, 2, 12, 8), normal(g, 1, 2, 12, 8)),
        (
            200 * normal(g, 2, 1, 5, 4),
            _silent(normal(g, 2, 1, 5, 4)),
            normal(g, 2, 1, 5, 4),
        ),
        (normal(g, 1, 2, 1, 6), normal(g, 1, 2, 1, 6), normal(g, 1, 2, 1, 6)),
    ],
    (
        Mistake(
            "values turned too",
            lambda q, k, v: (turn_rows(q), turn_rows(k), turn_rows(v)),
            "Shift the sentence by ten positions: your contexts change, though "
            "nothing was said differently.",
            "Two of the three meet in a dot product. What happens to the third?",
        ),
        Mistake(
            "only the queries turned",
            lambda q, k, v: (turn_rows(q), k, v),
            "Your scores depend on where the query stands, not on the distance.",
            "A distance needs two ends, and each must know where it stands.",
        ),
        Mistake(
            "pairs of neighbors",
            _both(_neighbors),
            "A valid rotation, but of the pairs (0, 1), (2, 3), … Weights trained "
            "with other pairs could not use it.",
            "The partner of column i is half a width away: x.chunk(2, dim=-1).",
        ),
        Mistake(
            "angles for neighbors, pairs of halves",
            _both(_mixed_angles),
            "Lengths change: the two columns of a pair are turned by different angles.",
            "Columns i and i + d/2 share an angle. What order are your angles in?",
        ),
        Mistake(
            "turned the other way",
            _both(_other_way),
            "As long as all turn the same way, the scores are right. But a cache or a "
            "checkpoint turned our way could not be mixed with yours.",
            "Counterclockwise, as in school. Which of the two products is subtracted?",
        ),
        Mistake(
            "keys turned back",
            _keys_back,
            "Queries are right. With keys turned the other way, a score depends on the "
            "*sum* of the two positions.",
            "The dot product already takes the difference: turn both the same way.",
        ),
        Mistake(
            "one frequency for all pairs",
            _both(_one_speed),
            "All pairs complete a turn together after 6.3 positions: 0 and 6 look "
            "alike.",
            "Pair i turns by base^(−2i/d) per position, with d the width of a head.",
        ),
        Mistake(
            "positions are numbered from 1",
            _both(_from_one),
            "The scores survive, since only distances count. Still, the first row "
            "should not be turned.",
            "Which angle belongs to position 0?",
        ),
        Mistake(
            "the head's number taken for the position",
            _both(_by_heads),
            "All words in a head are turned alike, so their order is as invisible as "
            "before.",
            "“b h t d”: positions run along the second-to-last axis.",
        ),
        Mistake(
            "the table is added",
            _both(lambda x: x + sinusoidal_positions(*x.shape[-2:])),
            "Adding a table is for the input. Rotary adds nothing: each pair keeps "
            "its length.",
            "Four products per pair, as in the matrix of section 4.",
        ),
        Mistake(
            "the frequencies of all heads together",
            _both(_wide_speeds),
            "Pair 0 is right, the others are too fast: you spread the frequencies over "
            "the width of all heads.",
            "Each head has the same d/2 frequencies. d is the last axis.",
        ),
        Mistake(
            "i in place of 2i in the exponent",
            _both(lambda x: _speeds_of_width(x, 2 * x.shape[-1])),
            "Pair 0 is right, the others are too fast. How small is the exponent of "
            "your last pair?",
            "The exponent of pair i is −2i/d: it runs nearly to −1.",
        ),
        Mistake(
            "only the keys turned",
            lambda q, k, v: (q, turn_rows(k), v),
            "Your scores depend on where the key stands, not on the distance.",
            "A distance needs two ends, and each must know where it stands.",
        ),
        Mistake(
            "the second half is made from the new first half",
            _both(_one_after_the_other_half),
            "The first half of the columns is right. What does the second half read: "
            "the old first half, or the one you just wrote?",
            "Compute both from the old halves, and only then join them.",
        ),
        Mistake(
            "no product is subtracted",
            _both(_all_plus),
            "Your pairs change their length. In a turn one of the four products is "
            "subtracted.",
            "In `turn`, where is the minus sign?",
        ),
        Mistake(
            "keys and values repeated for all heads",
            _repeated,
            "The turning is right. You also repeated keys and values, so that each "
            "query head has its own. What should stay as it was?",
            "Each of the three keeps the shape that it came with.",
        ),
        Mistake(
            "keys and values repeated in turn",
            _repeated_in_turn,
            "The turning is right. You also repeated keys and values, and dealt them "
            "out: query heads 0 and 1 get different ones. What should stay as it was?",
            "Nothing needs to be repeated: each of the three keeps its shape.",
        ),
        Mistake(
            "the head's number taken for the position, and keys repeated",
            _by_heads_and_repeated,
            "All words in a head are turned alike, and keys and values now have more "
            "heads. Along which axis do positions run?",
            "“b h t d”: positions are the second-to-last axis, and each of the three "
            "keeps its shape.",
        ),
    ),
    (
        "Write one function that turns “b h t d” by the angles of its positions.",
        "The angles need the length and the width of a head: the last two axes.",
        "Then decide which of the three to hand to it: which ones meet in a dot "
        "product?",
    ),
)


EXERCISES = (STEP, ROTARY)
