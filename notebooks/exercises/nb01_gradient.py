"""An exercise of notebook 01: the gradient of a softmax row.

Knows tensors. Knows nothing of how an answer is run or shown.
"""

from torch import Tensor

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def through_softmax(weights: Tensor, gradients: Tensor) -> Tensor:
    """Each weight times what its gradient has above the mixture of its row."""
    mixture = (weights * gradients).sum(dim=-1, keepdim=True)
    return weights * (gradients - mixture)


def _rows(generator):
    def one(*shape, std=1.0):
        weights = (std * normal(generator, *shape)).softmax(dim=-1)
        return weights, 3 * normal(generator, *shape)

    _, loud = one(2, 4)
    loud[0] = 0
    saturated, _ = one(2, 4, std=200.0)
    return [one(1, 4), one(3, 5), one(2, 3, 5), (saturated, 100 * loud)]


GRADIENT = Exercise(
    "attention.gradient",
    "Gives the gradients of the scores “… q k” for the weights “… q k” that softmax "
    "made of them and the gradients of these weights “… q k”. Each score moves all "
    "weights of its row.",
    ("weights", "gradients"),
    through_softmax,
    _rows,
    (
        Mistake(
            "only the slope of a weight by its own score",
            lambda weights, gradients: weights * (1 - weights) * gradients,
            "You follow each score to its own weight. When one score rises, what "
            "happens to the other weights of the row?",
            "Add the terms for k ≠ j: each is gradient k times the slope −w_k w_j.",
        ),
        Mistake(
            "the slope by another score has a plus",
            lambda weights, gradients: (
                weights
                * (
                    gradients * (1 - 2 * weights)
                    + (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            "When one score rises, the other weights of its row fall. In your sum they "
            "rise.",
            "The slope of weight k by score j is −w_k w_j where k and j differ.",
        ),
        Mistake(
            "nothing is subtracted",
            lambda weights, gradients: weights * gradients,
            "If all gradients of a row are equal, no score matters, since the weights "
            "add up to 1. Your result is not 0 there.",
            "What all weights of the row have in common has to go: their mixture.",
        ),
        Mistake(
            "the plain mean is subtracted",
            lambda weights, gradients: (
                weights * (gradients - gradients.mean(dim=-1, keepdim=True))
            ),
            "You subtract a mean in which every key counts equally. Do they in "
            "softmax?",
            "Weighted: each gradient times its weight, then the sum over the keys.",
        ),
        Mistake(
            "the factor in front is missing",
            lambda weights, gradients: (
                gradients - (weights * gradients).sum(dim=-1, keepdim=True)
            ),
            "The difference is right. Yet a weight of 0 hardly moves with its score.",
            "Both slopes contain w_j. Where is it in yours?",
        ),
        Mistake(
            "the whole sum is subtracted from each product",
            lambda weights, gradients: (
                weights * gradients - (weights * gradients).sum(dim=-1, keepdim=True)
            ),
            "The first product is right. Then you subtract the same number from every "
            "product of the row. Should it be the same, whatever the weight of the "
            "score?",
            "Write the term for k down: gradient k times −w_k w_j. Which factor is "
            "not in your sum?",
        ),
        Mistake(
            "the sign is turned round",
            lambda weights, gradients: (
                weights * ((weights * gradients).sum(dim=-1, keepdim=True) - gradients)
            ),
            "Every number has the wrong sign. A higher score makes its own weight "
            "larger, not smaller.",
            "The slope by its own score, w (1 − w), is positive.",
        ),
        Mistake(
            "the sum runs over the queries",
            lambda weights, gradients: (
                weights * (gradients - (weights * gradients).sum(dim=-2, keepdim=True))
            ),
            "You add up over the queries. Does the score of one query move the "
            "weights of another?",
            "One row is one softmax: the sum runs along the last axis.",
        ),
        Mistake(
            "the weights are multiplied twice",
            lambda weights, gradients: (
                weights
                * (gradients - (weights**2 * gradients).sum(dim=-1, keepdim=True))
            ),
            "In the sum, each term has one factor w too many.",
            "Σ g_k · (−w_k w_j): w_j does not depend on k, so it leaves the sum.",
        ),
        Mistake(
            "one sum for all rows",
            lambda weights, gradients: (
                weights * (gradients - (weights * gradients).sum())
            ),
            "Right for a single row. With several rows, each is changed by the "
            "gradients of the others.",
            "A sum without dim runs over everything. One row is one softmax.",
        ),
        Mistake(
            "its own weight is subtracted twice",
            lambda weights, gradients: (
                weights
                * (
                    gradients * (1 - weights)
                    - (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            "The slope w (1 − w) is there, and your sum over the other weights is "
            "there. Does that sum leave out j itself?",
            "Write the terms of three keys down: one with w (1 − w), two without.",
        ),
        Mistake(
            "only the slopes of the other weights",
            lambda weights, gradients: (
                weights
                * (
                    weights * gradients
                    - (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            "You follow each score to the other weights. Does it move its own, too?",
            "The term for k = j has the other slope, w (1 − w).",
        ),
        Mistake(
            "the mixture is added",
            lambda weights, gradients: (
                weights * (gradients + (weights * gradients).sum(dim=-1, keepdim=True))
            ),
            "If all gradients of a row are equal, no score matters, and the result is "
            "0. What is yours there?",
            "What sign does the slope of a weight by another score have?",
        ),
        Mistake(
            "the mixture is divided by the number of keys",
            lambda weights, gradients: (
                weights * (gradients - (weights * gradients).mean(dim=-1, keepdim=True))
            ),
            "You take the mean of weights times gradients. Is there a division by the "
            "number of keys in the chain rule?",
            "The weights add up to 1: their sum is an average already.",
        ),
    ),
    (
        "Write the sum for three keys on paper: three terms, one of them with the "
        "slope w (1 − w).",
        "w_j (1 − w_j) = w_j − w_j w_j. So every term, also that of j itself, has a "
        "part −w_k w_j, and w_j g_j is left over.",
        "Take w_j out of all terms. What is left is g_j minus a sum that is the same "
        "for every j.",
    ),
)


EXERCISES = (GRADIENT,)
