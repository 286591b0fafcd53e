"""An exercise of notebook 01: attention that hears only directions.

Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.exercises.exercise import Exercise, Mistake


def _normal(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.get_default_dtype())


def _cosine_inputs(generator):
    def one(temperature, *sizes):
        queries, keys, values = (_normal(generator, *size) for size in sizes)
        return 3 * queries, keys, values, temperature

    return [one(0.1, (3, 7), (5, 7), (5, 4)), one(0.5, (6, 2), (3, 2), (3, 5))]


def _unit(x):
    return F.normalize(x, dim=-1)


def _column_unit(x):
    return F.normalize(x, dim=0)


def _mix(scores, values):
    return scores.softmax(dim=-1) @ values


def cosine_attention(
    queries: Tensor, keys: Tensor, values: Tensor, temperature: float
) -> Tensor:
    """Attention that hears only directions, "q e"."""
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    return (cosines / temperature).softmax(dim=-1) @ values


COSINE = Exercise(
    "attention.cosine",
    "Gives the context “q e”; scores are the cosines of queries “q d” and keys “k d”, "
    "divided by the temperature. A long vector no longer shouts.",
    ("queries", "keys", "values", "temperature"),
    cosine_attention,
    _cosine_inputs,
    (
        Mistake(
            "lengths still count",
            lambda q, k, v, t: _mix(q @ k.T / t, v),
            "Make a query twice as long: your answer changes. A cosine would not.",
            "A cosine is the dot product of two vectors of length 1.",
        ),
        Mistake(
            "only the queries have length 1",
            lambda q, k, v, t: _mix(_unit(q) @ k.T / t, v),
            "The length of a query is gone. That of a key still counts.",
            "Both sides of a cosine are divided by their lengths.",
        ),
        Mistake(
            "only the keys have length 1",
            lambda q, k, v, t: _mix(q @ _unit(k).T / t, v),
            "The length of a key is gone. That of a query still counts.",
            "Both sides of the product need the length 1.",
        ),
        Mistake(
            "multiplied by the temperature",
            lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T * t, v),
            "A low temperature should be *cold*: one key takes nearly all.",
            "What makes 0.9 and 0.8 differ more: times 0.1, or divided by 0.1?",
        ),
        Mistake(
            "no temperature",
            lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T, v),
            "Cosines from −1 to 1 leave softmax lukewarm. One argument is unused.",
            "Where does the temperature stand in section 3?",
        ),
        Mistake(
            "columns of length 1",
            lambda q, k, v, t: _mix(_column_unit(q) @ _column_unit(k).T / t, v),
            "You give each *column* the length 1. Whose length should it be?",
            "One query is one row: its length sums over the last axis.",
        ),
    ),
    "F.normalize(x, dim=-1) gives vectors of length 1. Their product is a cosine.",
)


EXERCISES = (COSINE,)
