"""Exercises of notebook 07: a softer target, a price of brevity.

Knows two formulas. Knows nothing of how an answer is run or shown.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.exercises.exercise import Exercise, Mistake

# --- a smoothed target -------------------------------------------------------------


def smoothed(right: int, vocab_size: int, epsilon: float) -> Tensor:
    """The smoothed target distribution "v"."""
    hard = F.one_hot(torch.tensor(right), vocab_size)
    return (1 - epsilon) * hard + epsilon / vocab_size


def _spread(right, vocab_size, at_right, elsewhere):
    target = torch.full((vocab_size,), float(elsewhere))
    target[right] = at_right
    return target


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
            lambda r, v, e: _spread(r, v, 1 - e, e / v),
            "It adds up to a little less than 1.",
            "The crumbs go to *all* tokens. Is the right one among them?",
        ),
        Mistake(
            "shared by the others only",
            lambda r, v, e: _spread(r, v, 1 - e, e / (v - 1)),
            "It adds up to 1, but you cut the crumbs into v − 1 pieces.",
            "In the formula everyone gets one, the right token too.",
        ),
        Mistake(
            "epsilon for everyone",
            lambda r, v, e: _spread(r, v, 1 - e, e),
            "Each wrong token gets all of epsilon: too much by far.",
            "Epsilon is *shared* by the vocabulary.",
        ),
        Mistake(
            "nothing is taken away",
            lambda r, v, e: _spread(r, v, 1 + e / v, e / v),
            "Crumbs for all, but nobody paid for them: it adds up to more than 1.",
            "From whom is epsilon taken?",
        ),
        Mistake(
            "the hard target",
            lambda r, v, e: _spread(r, v, 1.0, 0.0),
            "That is the target without any smoothing.",
            "With epsilon 0 you would be right.",
        ),
    ),
    "Fill a vector with the crumb. Then think about one entry.",
)


# --- the price of brevity ----------------------------------------------------------


def brevity(lengths: list[int], reference_lengths: list[int]) -> float:
    """BLEU's brevity penalty (Papineni et al. 2002, section 2.2.2)."""
    return min(1.0, math.exp(1 - sum(reference_lengths) / sum(lengths)))


BREVITY = Exercise(
    "translation.bleu_brevity",
    "Gives BLEU's first factor, a number, from the lengths of all outputs and of their "
    "references, two lists. It stops those who write only what they are sure of.",
    ("lengths", "reference_lengths"),
    brevity,
    lambda generator: [
        ([4, 9, 3], [6, 8, 7]),
        ([8, 7], [5, 9]),
        ([12, 3, 5], [10, 9, 4]),
    ],
    (
        Mistake(
            "outputs and references exchanged",
            lambda c, r: brevity(r, c),
            "Short outputs go free and long ones pay.",
            "Which of r and c belongs to the output?",
        ),
        Mistake(
            "long outputs are rewarded",
            lambda c, r: math.exp(1 - sum(r) / sum(c)),
            "An output that is too long gets a factor above 1.",
            "How large may the factor be at most?",
        ),
        Mistake(
            "long outputs pay too",
            lambda c, r: math.exp(-abs(1 - sum(r) / sum(c))),
            "Those who say too much pay here as well. Their n-grams are punished "
            "already, by the shares p.",
            "The formula has a min in it.",
        ),
        Mistake(
            "a plain ratio",
            lambda c, r: min(1.0, sum(c) / sum(r)),
            "The right direction, another curve.",
            "An exponential is missing.",
        ),
        Mistake(
            "a mean of sentences",
            lambda c, r: (
                sum(brevity([a], [b]) for a, b in zip(c, r, strict=True)) / len(c)
            ),
            "One long output cannot make up for a short one in your version.",
            "BLEU belongs to a whole corpus: add up the lengths first.",
        ),
        Mistake(
            "the first sentence only",
            lambda c, r: brevity(c[:1], r[:1]),
            "You looked at a single sentence of several.",
            "BLEU belongs to a whole corpus.",
        ),
    ),
    "Two sums, one division, one exponential, one min.",
)


EXERCISES = (SMOOTHED, BREVITY)
