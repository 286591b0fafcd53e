"""An exercise of notebook 04: a relative bias, one learned number per distance.

Knows indices into a table. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def _back(query_length, key_length):
    """How many positions a key lies behind a query, "q k"; negative if ahead."""
    queries = torch.arange(query_length) + key_length - query_length
    return queries[:, None] - torch.arange(key_length)


def _columns(table, back):
    """The columns at these distances, those too far from the last one: "h q k"."""
    return table[:, back.clamp(0, table.shape[1] - 1)]


def relative_bias(table: Tensor, query_length: int, key_length: int) -> Tensor:
    """From the table "h d" to the bias "h q k"; the queries are the last positions."""
    queries = torch.arange(key_length - query_length, key_length)
    back = queries[:, None] - torch.arange(key_length)
    return table[:, back.clamp(0, table.shape[1] - 1)]


def _nothing_far(table, query_length, key_length):
    back = _back(query_length, key_length)
    return _columns(table, back).masked_fill(back >= table.shape[1], 0.0)


def _nothing_ahead(table, query_length, key_length):
    back = _back(query_length, key_length)
    return _columns(table, back).masked_fill(back < 0, 0.0)


def _none_ahead(table, query_length, key_length):
    back = _back(query_length, key_length)
    return _columns(table, back).masked_fill(back < 0, -torch.inf)


def _none_far(table, query_length, key_length):
    back = _back(query_length, key_length)
    return _columns(table, back).masked_fill(back >= table.shape[1], -torch.inf)


def _tables(generator):
    plain = normal(generator, 3, 4)
    one_head = normal(generator, 1, 3)
    silent_head = normal(generator, 2, 5)
    silent_head[0] = 0.0
    steep = 300 * normal(generator, 4, 3)
    one_column = normal(generator, 2, 1)
    return [
        (plain, 7, 7),
        (one_head, 2, 6),
        (silent_head, 4, 9),
        (steep, 1, 5),
        (one_column, 3, 4),
        (plain, 3, 3),
    ]


RELATIVE = Exercise(
    "positions.relative",
    "Gives the bias “h q k” from a learned table “h d”: column d is for d positions "
    "back, the last one for all further, column 0 for keys ahead. Queries are the last "
    "query_length of the key_length positions.",
    ("table", "query_length", "key_length"),
    relative_bias,
    _tables,
    (
        Mistake(
            "queries are counted from 0",
            lambda t, q, k: relative_bias(t, k, k)[:, :q],
            "Right where there are as many queries as keys. Otherwise your queries "
            "stand at the beginning.",
            "Six keys, two queries: these two are the positions 4 and 5.",
        ),
        Mistake(
            "ahead and back are swapped",
            lambda t, q, k: _columns(t, -_back(q, k)),
            "Your bias changes with keys to the right of the query, and all that lie "
            "behind it get column 0.",
            "How far back is the key? Position of the query minus position of the key.",
        ),
        Mistake(
            "a key ahead counts as one that is as far back",
            lambda t, q, k: _columns(t, _back(q, k).abs()),
            "The past is right. A key two positions ahead gets the bias of one two "
            "positions back.",
            "Clamp the distance from below, too, instead of dropping its sign.",
        ),
        Mistake(
            "a negative distance counts from the end of the table",
            lambda t, q, k: t[:, _back(q, k).clamp(max=t.shape[1] - 1) % t.shape[1]],
            "The past is right. Keys ahead get the last columns, because index −1 is "
            "the last entry in Python.",
            "The smallest column is 0: the distance needs a lower limit as well.",
        ),
        Mistake(
            "far distances begin again with column 0",
            lambda t, q, k: t[:, _back(q, k).clamp(min=0) % t.shape[1]],
            "Near keys are right. A key just beyond the table gets the bias of the "
            "query itself.",
            "No remainder: everything too far shares *one* column. Which?",
        ),
        Mistake(
            "no bias for far keys",
            _nothing_far,
            "Near keys are right. Keys beyond the table get 0, as if nothing had been "
            "learned for them.",
            "The last column serves all that is further back.",
        ),
        Mistake(
            "far keys are hidden",
            _none_far,
            "Near keys are right. You hide the far ones; hiding is the work of a mask.",
            "A far key gets a number, too: that of the last column.",
        ),
        Mistake(
            "one column too near",
            lambda t, q, k: _columns(t, _back(q, k) - 1),
            "The query itself and the key before it get the same number.",
            "Column 0 is for distance 0: the distance *is* the number of the column.",
        ),
        Mistake(
            "one column too far",
            lambda t, q, k: _columns(t, _back(q, k) + 1),
            "The query itself gets the bias of the key before it. How far is a word "
            "from itself?",
            "Column 0 is for distance 0: the distance *is* the number of the column.",
        ),
        Mistake(
            "no bias for keys ahead",
            _nothing_ahead,
            "The past is right. Keys ahead get 0, as if nothing had been learned for "
            "them.",
            "The exercise says which column serves the keys ahead.",
        ),
        Mistake(
            "keys ahead are hidden",
            _none_ahead,
            "The past is right. You hide the keys ahead; hiding is the work of a mask.",
            "A key ahead gets a number, too: that of which column?",
        ),
        Mistake(
            "the last column is never used",
            lambda t, q, k: t[:, _back(q, k).clamp(max=t.shape[1] - 2).clamp(min=0)],
            "Near keys are right. Far keys get the last column but one.",
            "A table with four columns: what is the number of the last one?",
        ),
    ),
    (
        "Where do the queries stand? They are the last of key_length positions.",
        "Query position minus key position, for all pairs at once, is a table “q k” of "
        "distances back.",
        "Some are negative, some too large: limit them at both ends (torch.clamp).",
        "An axis indexed with a table of numbers is replaced by that table’s axes.",
    ),
    trains=True,
)


EXERCISES = (RELATIVE,)
