"""Exercises of notebook 15: two numbers for a map.

Knows weights. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import causal_weights, normal

# --- entropy -----------------------------------------------------------------------


def entropy(weights: Float[Tensor, "*lead q k"]) -> Float[Tensor, "*lead q"]:
    """Nats per row of "... q k"; a weight of 0 adds nothing."""
    logarithms = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return -(weights * logarithms).sum(dim=-1)


def _log(weights):
    return weights.clamp(min=1e-30).log()


def _uneven(generator, *shape):
    """Rows in which some keys get less than a hundredth."""
    return (4 * normal(generator, *shape)).softmax(dim=-1)


ENTROPY = Exercise(
    "inside.entropy",
    "Gives one number per query, “… q”, for weights “… q k”: the entropy of its row in "
    "nats. It says how many keys share, whichever they are.",
    ("weights",),
    entropy,
    lambda generator: [
        (causal_weights(generator, 5, 5),),
        (torch.rand(3, 7, generator=generator).softmax(-1),),
        (causal_weights(generator, 2, 3, 4, 4),),
        (_uneven(generator, 4, 9),),
    ],
    (
        Mistake(
            "0 times infinity",
            lambda weights: -(weights * weights.log()).sum(-1),
            "A causal row holds exact zeros, and the logarithm of 0 is −∞. 0 · ∞ is no "
            "number.",
            "A key that gets nothing adds nothing. Look at torch.special.entr, or keep "
            "the logarithm finite.",
        ),
        Mistake(
            "bits, not nats",
            lambda weights: entropy(weights) / math.log(2),
            "Right up to one factor, the same everywhere. Which logarithm gives nats?",
            "Two equal keys should give ln 2 = 0.69, not 1.",
        ),
        Mistake(
            "a share of the largest entropy",
            lambda weights: entropy(weights) / math.log(weights.shape[-1]),
            "Your numbers lie between 0 and 1, however many keys there are. By what do "
            "you divide, and who asked for it?",
            "Four equal keys should give ln 4 = 1.39, not 1.",
        ),
        Mistake(
            "the sign is missing",
            lambda weights: -entropy(weights),
            "A number of keys in play cannot be less than one, so no row is below 0.",
            "The logarithm of a share is negative.",
        ),
        Mistake(
            "summed over the queries",
            lambda weights: torch.special.entr(weights).sum(-2),
            "You add down the columns: one number per key.",
            "Which axis disappears when each *query* keeps one number?",
        ),
        Mistake(
            "a mean over the keys",
            lambda weights: torch.special.entr(weights).mean(-1),
            "Divided by the number of keys, a longer text looks sharper.",
            "The shares are the weights of the mean already. Only add.",
        ),
        Mistake(
            "the number of keys itself",
            lambda weights: entropy(weights).exp(),
            "That is how many keys are in play. One step less is asked.",
            "A row that looks at one key only has entropy 0.",
        ),
        Mistake(
            "the surprise, not its mean",
            lambda weights: -_log(weights).mean(-1),
            "All keys count alike in your mean, those that get nothing as well.",
            "Each −ln w counts as much as its key gets.",
        ),
        Mistake(
            "a row with a zero gets entropy 0",
            lambda weights: -(weights * weights.log()).sum(-1).nan_to_num(0.0),
            "One key without weight, and the whole row is 0. Its other keys have some.",
            "Repair the one product that is not a number, before you add up.",
        ),
        Mistake(
            "the weights are taken for scores",
            lambda weights: entropy(weights.softmax(-1)),
            "A row that looks at one key only is not 0. Did the weights pass through "
            "one more softmax?",
            "The weights are probabilities already: each row adds up to 1.",
        ),
    ),
    "Per row: each weight times its logarithm, added up, with the sign turned. What "
    "of a weight that is 0?",
)


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
    "token before, without the first query. Half of an induction head does just this.",
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
            "You read above the diagonal. In a causal map nothing stands there.",
            "Rows ask. Is k one more or one less than q?",
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
            "it matter to you whether that weight is 0.9 or 0.3?",
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
    "The weights meant lie on one diagonal; which one? Then a mean over texts and "
    "queries.",
)


EXERCISES = (ENTROPY, LOOK_BACK)
