"""An exercise of notebook 07: a softer target.

Knows one formula. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake


def smoothed(right: int, vocab_size: int, epsilon: float) -> Tensor:
    """The smoothed target distribution "v"."""
    hard = F.one_hot(torch.tensor(right), vocab_size)
    return (1 - epsilon) * hard + epsilon / vocab_size


def _distribution(right, vocab_size, at_right, elsewhere):
    target = torch.full((vocab_size,), float(elsewhere))
    target[right] = at_right
    return target


def _normalized(right, vocab_size, epsilon):
    target = _distribution(right, vocab_size, 1.0, epsilon / vocab_size)
    return target / target.sum()


SMOOTHED = Exercise(
    "translation.smoothed",
    "Gives the smoothed target, a vector “v”, from the id of the right token, "
    "vocab_size and epsilon. It is what keeps the scores from growing without end.",
    ("right", "vocab_size", "epsilon"),
    smoothed,
    lambda generator: [(3, 7, 0.1), (0, 5, 0.3), (4, 11, 0.2)],
    (
        Mistake(
            "the right token gets no crumb",
            lambda r, v, e: _distribution(r, v, 1 - e, e / v),
            "It adds up to a little less than 1.",
            "The crumbs go to *all* tokens. Is the right one among them?",
        ),
        Mistake(
            "shared by the others only",
            lambda r, v, e: _distribution(r, v, 1 - e, e / (v - 1)),
            "It adds up to 1, but you cut the crumbs into v − 1 pieces.",
            "In the formula every token gets a crumb, the right one too.",
        ),
        Mistake(
            "epsilon for everyone",
            lambda r, v, e: _distribution(r, v, 1 - e, e),
            "Each wrong token gets all of epsilon: far too much.",
            "Epsilon is *shared* by the vocabulary.",
        ),
        Mistake(
            "nothing is taken away",
            lambda r, v, e: _distribution(r, v, 1 + e / v, e / v),
            "All tokens get a share, and the right one keeps its own: the sum exceeds "
            "1.",
            "From whom is epsilon taken?",
        ),
        Mistake(
            "the hard target",
            lambda r, v, e: _distribution(r, v, 1.0, 0.0),
            "That is the target without any smoothing.",
            "With epsilon 0 you would be right.",
        ),
        Mistake(
            "epsilon is not divided by v",
            lambda r, v, e: _distribution(r, v, 1.0, e),
            "Every token gets all of epsilon, also the right one: it adds up to far "
            "more than 1.",
            "What everyone gets has to add up to epsilon. How many are there?",
        ),
        Mistake(
            "epsilon and 1 − epsilon exchanged",
            lambda r, v, e: smoothed(r, v, 1 - e),
            "With a small epsilon your target is nearly even. Which of the two parts "
            "is the large one?",
            "Epsilon is the part that is shared out; the right token keeps the rest.",
        ),
        Mistake(
            "divided by the sum at the end",
            _normalized,
            "It adds up to 1 because you divide by the sum, and that makes each crumb "
            "too small. From which token should epsilon be taken instead?",
            "The formula adds up to 1 by itself: a share of 1 − epsilon and one of "
            "epsilon.",
        ),
        Mistake(
            "epsilon is added, then divided by the sum",
            lambda r, v, e: _distribution(r, v, (1 + e / v) / (1 + e), e / v / (1 + e)),
            "You add all the crumbs to a whole 1, then divide by 1 + epsilon. Where "
            "does epsilon come from in the formula?",
            "The right token gives epsilon away first. Then there is nothing to "
            "divide by.",
        ),
        Mistake(
            "epsilon is taken away only",
            lambda r, v, e: _distribution(r, v, 1 - e, 0.0),
            "It adds up to 1 − epsilon. Where has epsilon gone?",
            "What the right token gives away is shared by all tokens.",
        ),
        Mistake(
            "the right token keeps 1",
            lambda r, v, e: _distribution(r, v, 1.0, e / v),
            "The others are right. All together they add up to more than 1: how much "
            "should the right token have?",
            "It gives epsilon away, and gets one crumb back.",
        ),
        Mistake(
            "crumbs of epsilon / (v − 1) for all",
            lambda r, v, e: _distribution(r, v, 1 - e + e / (v - 1), e / (v - 1)),
            "Every token gets a crumb, as it should, but it adds up to more than 1. "
            "Into how many pieces do you cut epsilon?",
            "As many pieces as tokens.",
        ),
        Mistake(
            "1 − epsilon / v for the right token",
            lambda r, v, e: _distribution(r, v, 1 - e / v, e / v),
            "The others are right. The right token gives away no more than one crumb.",
            "It gives away all of epsilon, and gets one crumb back.",
        ),
    ),
    "Fill a vector with the crumb. Then think about one entry.",
)


EXERCISES = (SMOOTHED,)
