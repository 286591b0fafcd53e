"""An exercise of notebook 08: a price of brevity.

Knows one formula. Knows nothing of how an answer is run or shown.
"""

import math

from named_mistakes import Exercise, Mistake


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
        ([2, 3], [6, 5]),  # less than half of the references
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
            "The right direction, but a different curve.",
            "An exponential is missing.",
        ),
        Mistake(
            "a mean of sentences",
            lambda c, r: (
                sum(brevity([a], [b]) for a, b in zip(c, r, strict=True)) / len(c)
            ),
            "One long output cannot make up for a short one in your version.",
            "BLEU is computed over a whole corpus: add up the lengths first.",
        ),
        Mistake(
            "free where the output is short, above 1 where it is long",
            lambda c, r: max(1.0, math.exp(1 - sum(r) / sum(c))),
            "Short outputs go free, and long ones get a factor above 1.",
            "The factor is 1 at most. For which outputs is it 1?",
        ),
        Mistake(
            "the sign turned",
            lambda c, r: min(1.0, math.exp(sum(r) / sum(c) - 1)),
            "Your exponent is above 0 for short outputs, and they go free.",
            "What is the exponent of an output half as long as its reference?",
        ),
        Mistake(
            "c over r in the exponent",
            lambda c, r: 1.0 if sum(c) >= sum(r) else math.exp(1 - sum(c) / sum(r)),
            "Long outputs go free, as they should. Short ones get a factor above 1.",
            "Which of the two lengths goes in the denominator?",
        ),
        Mistake(
            "a mean of ratios",
            lambda c, r: min(
                1.0,
                math.exp(1 - sum(b / a for a, b in zip(c, r, strict=True)) / len(c)),
            ),
            "You divide for each sentence and average the ratios. A sentence of two "
            "words weighs as much as one of twenty.",
            "BLEU is computed over a whole corpus: add up the lengths first.",
        ),
        Mistake(
            "the first sentence only",
            lambda c, r: brevity(c[:1], r[:1]),
            "You looked at a single sentence of several.",
            "BLEU is computed over a whole corpus.",
        ),
        Mistake(
            "each output is cut to its reference",
            lambda c, r: brevity(list(map(min, c, r)), r),
            "You count an output only up to the length of its reference. Can a long "
            "output then make up for a short one?",
            "Add up the lengths as they are. Then compare the two sums.",
        ),
        Mistake(
            "a whole-number division",
            lambda c, r: min(1.0, math.exp(1 - sum(r) // sum(c))),
            "Outputs that are a little too short go free in your version. What does "
            "Python give for 21 // 16?",
            "Which division operator keeps the fraction?",
        ),
    ),
    "Two sums, one division, one exponential, one min.",
)


EXERCISES = (BREVITY,)
