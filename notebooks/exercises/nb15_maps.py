"""Exercises of notebook 15: one number for a map.

Knows weights. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import causal_weights

# --- one token back ----------------------------------------------------------------


def look_back(weights: Float[Tensor, "b h t t"]) -> Float[Tensor, "h"]:
    """Mean weight on the token before, per head; the first query has none."""
    q = torch.arange(1, weights.shape[-2])
    return weights[:, :, q, q - 1].mean(dim=(0, 2))


def _wrapped(weights):
    q = torch.arange(weights.shape[-2])
    return weights[:, :, q, q - 1].mean(dim=(0, 2))


def _below(weights):
    return weights.diagonal(-1, -2, -1)


def _fraction_of_largest(weights):
    largest = weights[:, :, 1:].argmax(dim=-1)
    before = torch.arange(weights.shape[-1] - 1)
    return (largest == before).to(weights.dtype).mean(dim=(0, 2))


LOOK_BACK = Exercise(
    "inside.look_back",
    "Gives one number per head, “h”, for weights “b h q k”: the mean weight on the "
    "token before, without the first query. An induction head builds on such a head.",
    ("weights",),
    look_back,
    lambda generator: [
        (torch.rand(2, 3, 5, 5, generator=generator).softmax(-1),),
        (causal_weights(generator, 4, 2, 7, 7),),
    ],
    (
        Mistake(
            "the token itself",
            lambda weights: weights.diagonal(0, -2, -1).mean(dim=(0, 2)),
            "You read the diagonal: there a token looks at itself.",
            "Row q, and one column to the left.",
        ),
        Mistake(
            "the token itself, without the first query",
            lambda weights: weights.diagonal(0, -2, -1)[..., 1:].mean(dim=(0, 2)),
            "The right queries, but you read where a token looks at itself.",
            "Row q, and one column to the left.",
        ),
        Mistake(
            "the token after",
            lambda weights: weights.diagonal(1, -2, -1).mean(dim=(0, 2)),
            "You read above the diagonal. A causal map has nothing there.",
            "Rows are queries. Is k one more or one less than q?",
        ),
        Mistake(
            "all tokens before",
            lambda weights: weights[:, :, 1:].tril().sum(-1).mean(dim=(0, 2)),
            "You add up the weights on all earlier tokens. Only the one directly "
            "before counts.",
            "One weight per query: that of the key q − 1.",
        ),
        Mistake(
            "how often it has the largest weight",
            _fraction_of_largest,
            "You count the queries whose largest weight is on the token before. Does "
            "it matter whether that weight is 0.9 or 0.3?",
            "Nothing is chosen: read the weights themselves, and take their mean.",
        ),
        Mistake(
            "the first query looks at the last key",
            _wrapped,
            "For q = 0 the index q − 1 is −1, and that is the *last* key.",
            "The first query has no token before. Start with the second.",
        ),
        Mistake(
            "the first query counts as 0",
            lambda weights: _below(weights).sum(dim=(0, 2)) / weights[:, 0, 0].numel(),
            "The right sum, divided by too many. How many queries have a token before?",
            "Leave the first query out of the count as well.",
        ),
        Mistake(
            "one number for all heads",
            lambda weights: _below(weights).mean(),
            "You average over the heads too, and the one that looks back is lost.",
            "Which of the axes b, h, q stays?",
        ),
        Mistake(
            "summed over the texts",
            lambda weights: _below(weights).mean(dim=2).sum(dim=0),
            "With two texts your shares can be above 1.",
            "The mean runs over the batch as well.",
        ),
    ),
    "The weights you need lie on one diagonal; which one? Then a mean over texts and "
    "queries.",
)


EXERCISES = (LOOK_BACK,)
