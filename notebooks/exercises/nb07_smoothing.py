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


def _without_padding(right, vocab_size, epsilon):
    """Nothing for padding, the first id that is not the right one."""
    target = _distribution(right, vocab_size, 1 - epsilon, epsilon / (vocab_size - 2))
    target[int(right == 0)] = 0.0
    return target


def _normalized(right, vocab_size, epsilon):
    target = _distribution(right, vocab_size, 1.0, epsilon / vocab_size)
    return target / target.sum()


SMOOTHED = Exercise(
    name="translation.smoothed",
    statement="Gives the smoothed target, a vector “v”, from the id of the right "
    "token, vocab_size and epsilon. It is what keeps the scores from growing without "
    "end.",
    takes=("right", "vocab_size", "epsilon"),
    reference=smoothed,
    cases=lambda generator: [
        *[(3, 7, 0.1), (0, 5, 0.3), (4, 11, 0.2)],
        *[(1, 7, 0.1), (3, 11, 0.1), (3, 7, 0.3)],  # two of three are as before
    ],
    mistakes=(
        Mistake(
            name="the right token gets no share",
            function=lambda r, v, e: _distribution(r, v, 1 - e, e / v),
            hint="It adds up to a little less than 1.",
            more="Epsilon is shared by *all* tokens. Is the right one among them?",
        ),
        Mistake(
            name="shared by the others only",
            function=lambda r, v, e: _distribution(r, v, 1 - e, e / (v - 1)),
            hint="It adds up to 1, but you share epsilon among v − 1 tokens.",
            more="In the formula every token gets a share, the right one too.",
        ),
        Mistake(
            name="shared by all but the right token and padding",
            variant="A little more for each: epsilon / (v − 2), and padding gets none.",
            function=_without_padding,
            hint="It adds up to 1, but you share epsilon among v − 2 tokens.",
            more="In the formula every token gets a share.",
        ),
        Mistake(
            name="epsilon for everyone",
            function=lambda r, v, e: _distribution(r, v, 1 - e, e),
            hint="Each wrong token gets all of epsilon: far too much.",
            more="Epsilon is *shared* by the vocabulary.",
        ),
        Mistake(
            name="nothing is taken away",
            function=lambda r, v, e: _distribution(r, v, 1 + e / v, e / v),
            hint="All tokens get a share, and the right one keeps its own: the sum "
            "exceeds 1.",
            more="From whom is epsilon taken?",
        ),
        Mistake(
            name="the hard target",
            function=lambda r, v, e: _distribution(r, v, 1.0, 0.0),
            hint="That is the target without any smoothing.",
            more="With epsilon 0 you would be right.",
        ),
        Mistake(
            name="epsilon is not divided by v",
            function=lambda r, v, e: _distribution(r, v, 1.0, e),
            hint="Every token gets all of epsilon, also the right one: it adds up to "
            "far more than 1.",
            more="What everyone gets has to add up to epsilon. How many are there?",
        ),
        Mistake(
            name="epsilon and 1 − epsilon exchanged",
            function=lambda r, v, e: smoothed(r, v, 1 - e),
            hint="With a small epsilon your target is nearly even. Which of the two "
            "parts is the large one?",
            more="Epsilon is the part that is shared out; the right token keeps the "
            "rest.",
        ),
        Mistake(
            name="divided by the sum at the end",
            function=_normalized,
            hint="It adds up to 1 because you divide by the sum, and that makes each "
            "share too small. From which token should epsilon be taken instead?",
            more="The formula adds up to 1 by itself: a share of 1 − epsilon and one "
            "of epsilon.",
        ),
        Mistake(
            name="epsilon is added, then divided by the sum",
            function=lambda r, v, e: _distribution(
                r, v, (1 + e / v) / (1 + e), e / v / (1 + e)
            ),
            hint="You add all the shares to a whole 1, then divide by 1 + epsilon. "
            "Where does epsilon come from in the formula?",
            more="The right token gives epsilon away first. Then there is nothing to "
            "divide by.",
        ),
        Mistake(
            name="epsilon is taken away only",
            function=lambda r, v, e: _distribution(r, v, 1 - e, 0.0),
            hint="It adds up to 1 − epsilon. Where has epsilon gone?",
            more="What the right token gives away is shared by all tokens.",
        ),
        Mistake(
            name="the right token keeps 1",
            function=lambda r, v, e: _distribution(r, v, 1.0, e / v),
            hint="The others are right. All together they add up to more than 1: how "
            "much should the right token have?",
            more="It gives epsilon away, and gets one share of it back.",
        ),
        Mistake(
            name="shares of epsilon / (v − 1) for all",
            function=lambda r, v, e: _distribution(
                r, v, 1 - e + e / (v - 1), e / (v - 1)
            ),
            hint="Every token gets a share, as it should, but it adds up to more than "
            "1. Among how many tokens do you share epsilon?",
            more="Among all v of them.",
        ),
        Mistake(
            name="1 − epsilon / v for the right token",
            function=lambda r, v, e: _distribution(r, v, 1 - e / v, e / v),
            hint="The others are right. The right token gives away no more than one "
            "share.",
            more="It gives away all of epsilon, and gets one share back.",
        ),
    ),
    hint="What does every wrong token get? Fill a vector with that. Then think about "
    "one entry.",
)


EXERCISES = (SMOOTHED,)
