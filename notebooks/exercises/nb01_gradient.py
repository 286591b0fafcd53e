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
    name="attention.gradient",
    statement="Gives the gradients of the scores “… q k” for the weights “… q k” that "
    "softmax made of them and the gradients of these weights “… q k”. Each score moves "
    "all weights of its row.",
    takes=("weights", "gradients"),
    reference=through_softmax,
    cases=_rows,
    mistakes=(
        Mistake(
            name="only the slope of a weight by its own score",
            function=lambda weights, gradients: weights * (1 - weights) * gradients,
            hint="You follow each score to its own weight. When one score rises, what "
            "happens to the other weights of the row?",
            more="Add the terms for k ≠ j: each is gradient k times the slope −w_k "
            "w_j.",
        ),
        Mistake(
            name="the slope by another score has a plus",
            function=lambda weights, gradients: (
                weights
                * (
                    gradients * (1 - 2 * weights)
                    + (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            hint="When one score rises, the other weights of its row fall. In your sum "
            "they rise.",
            more="The slope of weight k by score j is −w_k w_j where k and j differ.",
        ),
        Mistake(
            name="nothing is subtracted",
            function=lambda weights, gradients: weights * gradients,
            hint="If all gradients of a row are equal, no score matters, since the "
            "weights add up to 1. Your result is not 0 there.",
            more="What all weights of the row have in common has to go: their mixture.",
        ),
        Mistake(
            name="the plain mean is subtracted",
            function=lambda weights, gradients: (
                weights * (gradients - gradients.mean(dim=-1, keepdim=True))
            ),
            hint="You subtract a mean in which every key counts equally. Do they in "
            "softmax?",
            more="Weighted: each gradient times its weight, then the sum over the "
            "keys.",
        ),
        Mistake(
            name="the factor in front is missing",
            function=lambda weights, gradients: (
                gradients - (weights * gradients).sum(dim=-1, keepdim=True)
            ),
            hint="The difference is right. Yet a weight of 0 hardly moves with its "
            "score.",
            more="Both slopes contain w_j. Where is it in yours?",
        ),
        Mistake(
            name="the whole sum is subtracted from each product",
            function=lambda weights, gradients: (
                weights * gradients - (weights * gradients).sum(dim=-1, keepdim=True)
            ),
            hint="The first product is right. Then you subtract the same number from "
            "every product of the row. Should it be the same, whatever the weight of "
            "the score?",
            more="Write the term for k down: gradient k times −w_k w_j. Which factor "
            "is not in your sum?",
        ),
        Mistake(
            name="the sign is turned round",
            function=lambda weights, gradients: (
                weights * ((weights * gradients).sum(dim=-1, keepdim=True) - gradients)
            ),
            hint="Every number has the wrong sign. A higher score makes its own weight "
            "larger, not smaller.",
            more="The slope by its own score, w (1 − w), is positive.",
        ),
        Mistake(
            name="the sum runs over the queries",
            function=lambda weights, gradients: (
                weights * (gradients - (weights * gradients).sum(dim=-2, keepdim=True))
            ),
            hint="You add up over the queries. Does the score of one query move the "
            "weights of another?",
            more="One row is one softmax: the sum runs along the last axis.",
        ),
        Mistake(
            name="the weights are multiplied twice",
            function=lambda weights, gradients: (
                weights
                * (gradients - (weights**2 * gradients).sum(dim=-1, keepdim=True))
            ),
            hint="In the sum, each term has one factor w too many.",
            more="Σ g_k · (−w_k w_j): w_j does not depend on k, so it leaves the sum.",
        ),
        Mistake(
            name="one sum for all rows",
            function=lambda weights, gradients: (
                weights * (gradients - (weights * gradients).sum())
            ),
            hint="Right for a single row. With several rows, each is changed by the "
            "gradients of the others.",
            more="A sum without dim runs over everything. One row is one softmax.",
        ),
        Mistake(
            name="its own weight is subtracted twice",
            function=lambda weights, gradients: (
                weights
                * (
                    gradients * (1 - weights)
                    - (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            hint="The slope w (1 − w) is there, and your sum over the other weights is "
            "there. Does that sum leave out j itself?",
            more="Write the terms of three keys down: one with w (1 − w), two without.",
        ),
        Mistake(
            name="only the slopes of the other weights",
            function=lambda weights, gradients: (
                weights
                * (
                    weights * gradients
                    - (weights * gradients).sum(dim=-1, keepdim=True)
                )
            ),
            hint="You follow each score to the other weights. Does it move its own, "
            "too?",
            more="The term for k = j has the other slope, w (1 − w).",
        ),
        Mistake(
            name="the mixture is added",
            function=lambda weights, gradients: (
                weights * (gradients + (weights * gradients).sum(dim=-1, keepdim=True))
            ),
            hint="If all gradients of a row are equal, no score matters, and the "
            "result is 0. What is yours there?",
            more="What sign does the slope of a weight by another score have?",
        ),
        Mistake(
            name="the mixture is divided by the number of keys",
            function=lambda weights, gradients: (
                weights * (gradients - (weights * gradients).mean(dim=-1, keepdim=True))
            ),
            hint="You take the mean of weights times gradients. Is there a division by "
            "the number of keys in the chain rule?",
            more="The weights add up to 1: their sum is an average already.",
        ),
    ),
    hint=(
        "Write the sum for three keys on paper: three terms, one of them with the "
        "slope w (1 − w).",
        "w_j (1 − w_j) = w_j − w_j w_j. So every term, also that of j itself, has a "
        "part −w_k w_j, and w_j g_j is left over.",
        "Take w_j out of all terms. What is left is g_j minus a sum that is the same "
        "for every j.",
    ),
)


EXERCISES = (GRADIENT,)
