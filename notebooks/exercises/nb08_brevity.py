"""An exercise of notebook 08: a price of brevity.

Knows one formula. Knows nothing of how an answer is run or shown.
"""

import math

from named_mistakes import Exercise, Mistake


def brevity(lengths: list[int], reference_lengths: list[int]) -> float:
    """BLEU's brevity penalty (Papineni et al. 2002, section 2.2.2)."""
    return min(1.0, math.exp(1 - sum(reference_lengths) / sum(lengths)))


BREVITY = Exercise(
    name="translation.bleu_brevity",
    statement="Gives BLEU's first factor, a number, from the lengths of all outputs "
    "and of their references, two lists. It stops those who write only what they are "
    "sure of.",
    takes=("lengths", "reference_lengths"),
    reference=brevity,
    cases=lambda generator: [
        ([4, 9, 3], [6, 8, 7]),
        ([8, 7], [5, 9]),
        ([12, 3, 5], [10, 9, 4]),
        ([2, 3], [6, 5]),  # less than half of the references
        ([2, 3], [4, 4]),  # one of the two is as before, here and in the next
        ([2, 1], [6, 5]),
    ],
    mistakes=(
        Mistake(
            name="outputs and references exchanged",
            function=lambda c, r: brevity(r, c),
            hint="Short outputs go free and long ones pay.",
            more="Which of r and c belongs to the output?",
        ),
        Mistake(
            name="long outputs are rewarded",
            function=lambda c, r: math.exp(1 - sum(r) / sum(c)),
            hint="An output that is too long gets a factor above 1.",
            more="How large may the factor be at most?",
        ),
        Mistake(
            name="long outputs pay too",
            function=lambda c, r: math.exp(-abs(1 - sum(r) / sum(c))),
            hint="Those who say too much pay here as well. Their n-grams are punished "
            "already, by the shares p.",
            more="The formula has a min in it.",
        ),
        Mistake(
            name="a plain ratio",
            function=lambda c, r: min(1.0, sum(c) / sum(r)),
            hint="The right direction, but a different curve.",
            more="An exponential is missing.",
        ),
        Mistake(
            name="a mean of sentences",
            function=lambda c, r: (
                sum(brevity([a], [b]) for a, b in zip(c, r, strict=True)) / len(c)
            ),
            hint="One long output cannot make up for a short one in your version.",
            more="BLEU is computed over a whole corpus: add up the lengths first.",
        ),
        Mistake(
            name="free where the output is short, above 1 where it is long",
            function=lambda c, r: max(1.0, math.exp(1 - sum(r) / sum(c))),
            hint="Short outputs go free, and long ones get a factor above 1.",
            more="The factor is 1 at most. For which outputs is it 1?",
        ),
        Mistake(
            name="the sign turned",
            function=lambda c, r: min(1.0, math.exp(sum(r) / sum(c) - 1)),
            hint="Your exponent is above 0 for short outputs, and they go free.",
            more="What is the exponent of an output half as long as its reference?",
        ),
        Mistake(
            name="c over r in the exponent",
            function=lambda c, r: (
                1.0 if sum(c) >= sum(r) else math.exp(1 - sum(c) / sum(r))
            ),
            hint="Long outputs go free, as they should. Short ones get a factor above "
            "1.",
            more="Which of the two lengths goes in the denominator?",
        ),
        Mistake(
            name="a mean of ratios",
            function=lambda c, r: min(
                1.0,
                math.exp(1 - sum(b / a for a, b in zip(c, r, strict=True)) / len(c)),
            ),
            hint="You divide for each sentence and average the ratios. A sentence of "
            "two words weighs as much as one of twenty.",
            more="BLEU is computed over a whole corpus: add up the lengths first.",
        ),
        Mistake(
            name="the first sentence only",
            function=lambda c, r: brevity(c[:1], r[:1]),
            hint="You looked at a single sentence of several.",
            more="BLEU is computed over a whole corpus.",
        ),
        Mistake(
            name="each output is cut to its reference",
            function=lambda c, r: brevity(list(map(min, c, r)), r),
            hint="You count an output only up to the length of its reference. Can a "
            "long output then make up for a short one?",
            more="Add up the lengths as they are. Then compare the two sums.",
        ),
        Mistake(
            name="a whole-number division",
            function=lambda c, r: min(1.0, math.exp(1 - sum(r) // sum(c))),
            hint="Outputs that are a little too short go free in your version. What "
            "does Python give for 21 // 16?",
            more="Which division operator keeps the fraction?",
        ),
    ),
    hint=(
        "Is it one penalty for the whole corpus, or one for each sentence? Then "
        "add up both kinds of lengths.",
        "Two sums, one division, one exponential, one min.",
    ),
)


EXERCISES = (BREVITY,)
