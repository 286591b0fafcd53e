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
    name="positions.step",
    statement="Gives the row “m” that stands so many steps after a row “m” of the "
    "table. Where the row stood is not told: one rotation serves everywhere.",
    takes=("row", "steps"),
    reference=step_on,
    cases=_rows,
    mistakes=(
        Mistake(
            name="turned back",
            function=_back,
            hint="You arrive that many positions earlier, not later. In a pair the "
            "sine comes first.",
            more="Compare with the formula in section 4: where is the minus sign?",
        ),
        Mistake(
            name="the row with the number `steps`",
            function=lambda row, steps: sinusoidal_positions(steps + 1, len(row))[-1],
            hint="That is where you arrive if you start at position 0.",
            more="The row that you were given says where each pair stands now. Use it.",
        ),
        Mistake(
            name="rows are added",
            function=lambda row, steps: (
                row + sinusoidal_positions(steps + 1, len(row))[-1]
            ),
            hint="Your pairs have changed their length. Angles add up, sines do not.",
            more="The sine of a sum needs both the sine and the cosine: four products.",
        ),
        Mistake(
            name="every pair turns as far as pair 0",
            function=_fast,
            hint="Pair 0 is right. Do the slower pairs turn by the same angle?",
            more="Each pair has a 2×2 block of its own, with its frequency.",
        ),
        Mistake(
            name="pairs of the two halves",
            function=_by_halves,
            hint="Column 0 and the first column of the second half belong to different "
            "pairs.",
            more="In this table a pair is two *neighboring* columns.",
        ),
        Mistake(
            name="the columns are rolled",
            function=lambda row, steps: row.roll(steps),
            hint="You moved the numbers to other columns. Positions run down the "
            "table, columns are pairs.",
            more="Every pair stays in its columns and turns there.",
        ),
        Mistake(
            name="the angle from the sine alone",
            function=_from_the_sine,
            hint="Right for pairs that point up on the dial. But two angles can have "
            "the same sine.",
            more="You need no angle: the sum formulas take sine and cosine as they "
            "are.",
        ),
        Mistake(
            name="the position is read from the sine of pair 0",
            function=_from_the_first_sine,
            hint="Right as long as pair 0 is in its first quarter turn. It comes back "
            "around every 6.3 positions.",
            more="You need no position. Each pair can turn by itself, wherever it "
            "stands.",
        ),
        Mistake(
            name="the position is read from pair 0",
            function=_from_the_first_pair,
            hint="Right up to position 3, half a turn of pair 0. After that its angle "
            "no longer tells how many turns it has made.",
            more="You need no position. Each pair can turn by itself, wherever it "
            "stands.",
        ),
        Mistake(
            name="the angle from the cosine alone",
            function=_from_the_cosine,
            hint="Right for pairs on the right half of the dial. But two angles can "
            "have the same cosine.",
            more="You need no angle: the sum formulas take sine and cosine as they "
            "are.",
        ),
        Mistake(
            name="the angle from sine divided by cosine",
            function=_from_the_quotient,
            hint="Right for pairs in the upper half of the dial. But opposite angles "
            "have the same quotient.",
            more="torch.atan2 takes both numbers. But you need no angle: look at the "
            "sum formulas.",
        ),
        Mistake(
            name="the cosines are made from the new sines",
            function=_one_after_the_other,
            hint="The sines are right. What do the cosines read: the old sines, or the "
            "ones you just wrote?",
            more="Compute both from the old numbers, and only then put them into a "
            "row.",
        ),
        Mistake(
            name="a plus in both sums",
            function=_two_plus,
            hint="The sines are right, but the pairs have changed their length. What "
            "is the cosine of a sum?",
            more="One of the four products is subtracted.",
        ),
    ),
    hint=(
        "A row is a line of pairs, (sine, cosine), one frequency after the other.",
        "Each pair turns by `steps` times its frequency.",
        "Section 4 has a matrix that moves every row by a number of steps.",
    ),
)


# --- rotary ------------------------------------------------------------------------


def _table(x: Tensor, start: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines for the rows of "b h t d" from position `start` on."""
    cos, sin = rotary_table(start + x.shape[-2], x.shape[-1], base)
    return cos[start:], sin[start:]


def turn_rows(x: Tensor, start: int, base: float) -> Tensor:
    """Turn each row of "b h t d" by the angle of its position."""
    return rotate(x, *_table(x, start, base))


def rotary(
    queries: Tensor, keys: Tensor, values: Tensor, start: int, base: float
) -> tuple[Tensor, Tensor, Tensor]:
    """All three as attention wants them: only what is compared knows its position."""
    length, head_dim = queries.shape[-2:]
    cos, sin = rotary_table(start + length, head_dim, base)
    cos, sin = cos[start:], sin[start:]
    return rotate(queries, cos, sin), rotate(keys, cos, sin), values


def _both(turn):
    """The exercise with another way to turn queries and keys."""
    return lambda q, k, v, *at: (turn(q, *at), turn(k, *at), v)


def _neighbors(x, *at):
    x = x.unflatten(-1, (-1, 2)).transpose(-2, -1).flatten(-2)
    return turn_rows(x, *at).unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


def _mixed_angles(x, *at):
    halves = (table[:, : x.shape[-1] // 2] for table in _table(x, *at))
    return rotate(x, *(half.repeat_interleave(2, dim=-1) for half in halves))


def _other_way(x, *at):
    cos, sin = _table(x, *at)
    return rotate(x, cos, -sin)


def _keys_back(queries, keys, values, *at):
    return turn_rows(queries, *at), _other_way(keys, *at), values


def _one_after_the_other_half(x, *at):
    first, second = x.chunk(2, dim=-1)
    cos, sin = (table.chunk(2, dim=-1)[0] for table in _table(x, *at))
    first = first * cos - second * sin
    return torch.cat([first, first * sin + second * cos], dim=-1)


def _all_plus(x, *at):
    cos, sin = _table(x, *at)
    return x * cos + x.roll(x.shape[-1] // 2, dims=-1) * sin


def _repeated(queries, keys, values, *at):
    times = queries.shape[1] // keys.shape[1]
    keys = turn_rows(keys, *at).repeat_interleave(times, dim=1)
    return turn_rows(queries, *at), keys, values.repeat_interleave(times, dim=1)


def _repeated_in_turn(queries, keys, values, *at):
    times = queries.shape[1] // keys.shape[1]
    keys = turn_rows(keys, *at).repeat(1, times, 1, 1)
    return turn_rows(queries, *at), keys, values.repeat(1, times, 1, 1)


def _by_heads(x, *at):
    return turn_rows(x.transpose(1, 2), *at).transpose(1, 2)


def _by_heads_and_repeated(queries, keys, values, *at):
    times = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(times, dim=1)
    values = values.repeat_interleave(times, dim=1)
    return _by_heads(queries, *at), _by_heads(keys, *at), values


def _one_speed(x, *at):
    tables = (table[:, :1].expand(-1, x.shape[-1]) for table in _table(x, *at))
    return rotate(x, *tables)


def _speeds_of_width(x, wider, start, base):
    """Turn by the first frequencies of a width that is larger than that of a head."""
    tables = rotary_table(start + x.shape[-2], wider, base)
    halves = (table[start:, : x.shape[-1] // 2] for table in tables)
    return rotate(x, *(torch.cat([half, half], dim=-1) for half in halves))


def _wide_speeds(x, *at):
    return _speeds_of_width(x, x.shape[1] * x.shape[-1], *at)


def _added(x, start, base):
    return x + sinusoidal_positions(start + x.shape[-2], x.shape[-1], base)[start:]


def _silent(keys):
    """The same with a key of zeros."""
    keys[0, 0, 2] = 0.0
    return keys


def _positioned(generator):
    """From position 0 and from a later one, with the usual base and with others."""
    few = [normal(generator, 2, 3, 7, 6) for _ in range(3)]
    grouped = [normal(generator, 1, heads, 12, 8) for heads in (4, 2, 2)]
    loud, quiet, values = (normal(generator, 2, 1, 5, 4) for _ in range(3))
    one = [normal(generator, 1, 2, 1, 6) for _ in range(3)]
    return [
        (*few, 0, 10_000.0),
        (*grouped, 4, 10_000.0),
        (200 * loud, _silent(quiet), values, 0, 100.0),
        (*one, 9, 10_000.0),
        (*few, 2, 500.0),
    ]


ROTARY = Exercise(
    name="positions.rotary",
    statement="Gives queries, keys, values (“b h t d”, positions from `start` on; keys "
    "and values may have fewer heads) as rotary attention wants them, pairs "
    "(i, i + d/2) and this base: a score then depends on two positions only through "
    "their distance.",
    takes=("queries", "keys", "values", "start", "base"),
    reference=rotary,
    cases=_positioned,
    mistakes=(
        Mistake(
            name="values turned too",
            function=lambda *given: tuple(turn_rows(x, *given[3:]) for x in given[:3]),
            hint="Shift the sentence by ten positions: your contexts change, though "
            "nothing was said differently.",
            more="Two of the three meet in a dot product. What happens to the third?",
        ),
        Mistake(
            name="only the queries turned",
            function=lambda q, k, v, *at: (turn_rows(q, *at), k, v),
            hint="Your scores depend on where the query stands, not on the distance.",
            more="A distance needs two ends, and each must know where it stands.",
        ),
        Mistake(
            name="pairs of neighbors",
            function=_both(_neighbors),
            variant="Weights that were trained with the other pairs cannot use it.",
            hint="A valid rotation, but of the pairs (0, 1), (2, 3), …",
            more="The partner of column i is half a width away: x.chunk(2, dim=-1).",
        ),
        Mistake(
            name="angles for neighbors, pairs of halves",
            function=_both(_mixed_angles),
            hint="Lengths change: the two columns of a pair are turned by different "
            "angles.",
            more="Columns i and i + d/2 share an angle. What order are your angles in?",
        ),
        Mistake(
            name="turned the other way",
            function=_both(_other_way),
            hint="As long as all turn the same way, the scores are right. But a cache "
            "or a checkpoint turned our way could not be mixed with yours.",
            more="Counterclockwise, as in school. Which of the two products is "
            "subtracted?",
        ),
        Mistake(
            name="keys turned back",
            function=_keys_back,
            hint="Queries are right. With keys turned the other way, a score depends "
            "on the *sum* of the two positions.",
            more="The dot product already takes the difference: turn both the same "
            "way.",
        ),
        Mistake(
            name="one frequency for all pairs",
            function=_both(_one_speed),
            hint="All pairs complete a turn together after 6.3 positions: 0 and 6 look "
            "alike.",
            more="Pair i turns by base^(−2i/d) per position, with d the width of a "
            "head.",
        ),
        Mistake(
            name="positions are numbered from 1",
            function=_both(lambda x, start, base: turn_rows(x, start + 1, base)),
            hint="The scores survive, since only distances count. Still, the first row "
            "stands at `start`, and not behind it.",
            more="Which angle belongs to position 0?",
        ),
        Mistake(
            name="the head's number taken for the position",
            function=_both(_by_heads),
            hint="All words in a head are turned alike, so their order is as invisible "
            "as before.",
            more="“b h t d”: positions run along the second-to-last axis.",
        ),
        Mistake(
            name="the table is added",
            function=_both(_added),
            hint="Adding a table is for the input. Rotary adds nothing: each pair "
            "keeps its length.",
            more="Four products per pair, as in the matrix of section 4.",
        ),
        Mistake(
            name="the frequencies of all heads together",
            function=_both(_wide_speeds),
            hint="Pair 0 is right, the others are too fast: you spread the frequencies "
            "over the width of all heads.",
            more="Each head has the same d/2 frequencies. d is the last axis.",
        ),
        Mistake(
            name="i in place of 2i in the exponent",
            function=_both(lambda x, *at: _speeds_of_width(x, 2 * x.shape[-1], *at)),
            hint="Pair 0 is right, the others are too fast. How small is the exponent "
            "of your last pair?",
            more="The exponent of pair i is −2i/d: it runs nearly to −1.",
        ),
        Mistake(
            name="only the keys turned",
            function=lambda q, k, v, *at: (q, turn_rows(k, *at), v),
            hint="Your scores depend on where the key stands, not on the distance.",
            more="A distance needs two ends, and each must know where it stands.",
        ),
        Mistake(
            name="the second half is made from the new first half",
            function=_both(_one_after_the_other_half),
            hint="The first half of the columns is right. What does the second half "
            "read: the old first half, or the one you just wrote?",
            more="Compute both from the old halves, and only then join them.",
        ),
        Mistake(
            name="no product is subtracted",
            function=_both(_all_plus),
            hint="Your pairs change their length. In a turn one of the four products "
            "is subtracted.",
            more="In `turn`, where is the minus sign?",
        ),
        Mistake(
            name="keys and values repeated for all heads",
            function=_repeated,
            hint="The turning is right. You also repeated keys and values, so that "
            "each query head has its own. What should stay as it was?",
            more="Each of the three keeps the shape that it came with.",
        ),
        Mistake(
            name="keys and values repeated in turn",
            function=_repeated_in_turn,
            hint="The turning is right. You also repeated keys and values, and dealt "
            "them out: query heads 0 and 1 get different ones. What should stay as it "
            "was?",
            more="Nothing needs to be repeated: each of the three keeps its shape.",
        ),
        Mistake(
            name="the head's number taken for the position, and keys repeated",
            function=_by_heads_and_repeated,
            hint="All words in a head are turned alike, and keys and values now have "
            "more heads. Along which axis do positions run?",
            more="“b h t d”: positions are the second-to-last axis, and each of the "
            "three keeps its shape.",
        ),
        Mistake(
            name="`start` is left out",
            function=_both(lambda x, start, base: turn_rows(x, 0, base)),
            hint="Right from position 0. With a cache the first of your rows may be "
            "the hundredth of the text.",
            more="The positions are start, start + 1, and so on.",
        ),
        Mistake(
            name="`base` is left out",
            function=_both(lambda x, start, base: turn_rows(x, start, 10_000.0)),
            hint="Right for a base of 10,000. Llama 3 has 500,000.",
            more="Hand `base` on to whatever makes the frequencies.",
        ),
    ),
    hint=(
        "Write one function that turns “b h t d” by the angles of its positions.",
        "The angles need the length and the width of a head: the last two axes. Their "
        "positions begin at `start`.",
        "Then decide which of the three to hand to it: which ones meet in a dot "
        "product?",
    ),
    trains=True,
)


EXERCISES = (STEP, ROTARY)
