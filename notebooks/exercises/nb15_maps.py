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
    name="inside.look_back",
    statement="Gives one number per head, “h”, for weights “b h q k”: the mean weight "
    "on the token before, without the first query. An induction head builds on such a "
    "head.",
    takes=("weights",),
    reference=look_back,
    cases=lambda generator: [
        (torch.rand(2, 3, 5, 5, generator=generator).softmax(-1),),
        (causal_weights(generator, 4, 2, 7, 7),),
    ],
    mistakes=(
        Mistake(
            name="the token itself",
            function=lambda weights: weights.diagonal(0, -2, -1).mean(dim=(0, 2)),
            hint="You read the diagonal: there a token looks at itself.",
            more="Row q, and one column to the left.",
        ),
        Mistake(
            name="the token itself, without the first query",
            function=lambda weights: weights.diagonal(0, -2, -1)[..., 1:].mean(
                dim=(0, 2)
            ),
            hint="The right queries, but you read where a token looks at itself.",
            more="Row q, and one column to the left.",
        ),
        Mistake(
            name="the token after",
            function=lambda weights: weights.diagonal(1, -2, -1).mean(dim=(0, 2)),
            hint="You read above the diagonal. A causal map has nothing there.",
            more="Rows are queries. Is k one more or one less than q?",
        ),
        Mistake(
            name="all tokens before",
            function=lambda weights: weights[:, :, 1:].tril().sum(-1).mean(dim=(0, 2)),
            hint="You add up the weights on all earlier tokens. Only the one directly "
            "before counts.",
            more="One weight per query: that of the key q − 1.",
        ),
        Mistake(
            name="how often it has the largest weight",
            function=_fraction_of_largest,
            hint="You count the queries whose largest weight is on the token before. "
            "Does it matter whether that weight is 0.9 or 0.3?",
            more="Nothing is chosen: read the weights themselves, and take their mean.",
        ),
        Mistake(
            name="the first query looks at the last key",
            function=_wrapped,
            hint="For q = 0 the index q − 1 is −1, and that is the *last* key.",
            more="The first query has no token before. Start with the second.",
        ),
        Mistake(
            name="the first query counts as 0",
            function=lambda weights: (
                _below(weights).sum(dim=(0, 2)) / weights[:, 0, 0].numel()
            ),
            hint="The right sum, divided by too many. How many queries have a token "
            "before?",
            more="Leave the first query out of the count as well.",
        ),
        Mistake(
            name="one number for all heads",
            function=lambda weights: _below(weights).mean(),
            hint="You average over the heads too, and the one that looks back is lost.",
            more="Which of the axes b, h, q stays?",
        ),
        Mistake(
            name="summed over the texts",
            function=lambda weights: _below(weights).mean(dim=2).sum(dim=0),
            hint="With two texts your shares can be above 1.",
            more="The mean runs over the batch as well.",
        ),
    ),
    hint="The weights you need lie on one diagonal; which one? Then a mean over texts "
    "and queries.",
)


EXERCISES = (LOOK_BACK,)
