"""Exercises of notebook 14: top-k and min-p.

Knows the shared chooser. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils.decoding import next_token_probabilities
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normalized, scores_of


def _keep(scores, which):
    """Only these, rescaled."""
    return normalized(scores.softmax(-1) * which)


# --- top-k -------------------------------------------------------------------------


def top_k(scores: Tensor, k: int) -> Tensor:
    """The k likeliest tokens of each row share 1."""
    chances = scores.softmax(dim=-1)
    places = chances.topk(k, dim=-1).indices
    masked = torch.zeros_like(chances).scatter(-1, places, chances.gather(-1, places))
    return masked / masked.sum(dim=-1, keepdim=True)


def the_courses(scores: Tensor, k: int) -> Tensor:
    """What `course_utils.decoding` gives."""
    return next_token_probabilities(scores, top_k=k)


def _is_top(scores, k):
    places = scores.argsort(descending=True).argsort()
    return places < k


TOP_K = Exercise(
    name="generation.top_k",
    statement="Gives the probabilities “b v” to draw from for scores “b v”: the k "
    "likeliest tokens of each row share 1. Without it, absurd tokens get drawn.",
    takes=("scores", "k"),
    reference=top_k,
    cases=lambda generator: [
        (scores_of(generator, 2, 7), 3),
        (scores_of(generator, 2, 9), 1),
        (scores_of(generator, 1, 7), 7),
        (scores_of(generator, 2, 7).log_softmax(-1), 3),  # row 1 has the lowest line
    ],
    mistakes=(
        Mistake(
            name="one too many",
            function=lambda scores, k: _keep(scores, _is_top(scores, k + 1)),
            hint="Count the entries above 0 in one of your rows: k + 1.",
            more="With k = 1 a single token must be left. Which comparison lets two "
            "pass?",
        ),
        Mistake(
            name="one too few",
            function=lambda scores, k: _keep(scores, _is_top(scores, k - 1)),
            hint="Count the entries above 0 in one of your rows: k − 1.",
            more="The token at place k is one of the k. Should the comparison be "
            "strict?",
        ),
        Mistake(
            name="one too few, and zeros where none is left",
            function=lambda scores, k: _keep(
                scores, _is_top(scores, k - 1)
            ).nan_to_num(),
            hint="With k = 1 your rows are all 0. How many tokens should be left then?",
            more="The token at place k is one of the k. Should the comparison be "
            "strict?",
        ),
        Mistake(
            name="the first row decides for all",
            function=lambda scores, k: _keep(scores, _is_top(scores[:1], k)),
            hint="Row 0 is right. In the others you keep what was likely in row 0.",
            more="Every row has its own best tokens. Where did the batch axis get "
            "lost?",
        ),
        Mistake(
            name="the line of the first row for all",
            function=lambda scores, k: _keep(
                scores, scores >= scores[0].topk(k).values[-1]
            ),
            hint="Row 0 is right. In the others the number of tokens you keep is not "
            "k.",
            more="Each row has a line of its own: its k-th score. Keep the batch axis.",
        ),
        Mistake(
            name="one line for all rows, the lowest",
            function=lambda scores, k: _keep(
                scores, scores >= scores.topk(k).values.min()
            ),
            hint="The row whose scores lie lowest is right. In the others you keep "
            "more than k tokens.",
            more="Each row has a k-th score of its own. Keep an axis of size 1 for it.",
        ),
        Mistake(
            name="one ranking for the whole batch",
            function=lambda scores, k: _keep(
                scores, _is_top(scores.flatten(), k).view_as(scores)
            ),
            hint="You rank all rows together: a row whose scores lie low gets nothing.",
            more="Sort along the last axis, so that each row has k winners.",
        ),
        Mistake(
            name="a score of 0 is not cut",
            function=lambda scores, k: (scores * _is_top(scores, k)).softmax(-1),
            hint="You set the other scores to 0 and softmax. What is e⁰?",
            more="e to the power of which score is exactly 0? Or cut after the "
            "softmax.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda scores, k: (
                scores.softmax(-1).masked_fill(~_is_top(scores, k), -torch.inf)
            ).softmax(-1),
            hint="The right tokens, but nearly equal shares: you take the softmax of a "
            "softmax.",
            more="After a softmax, rescale by a division.",
        ),
        Mistake(
            name="softmax twice, and a share of 0 is not cut",
            function=lambda scores, k: (
                scores.softmax(-1) * _is_top(scores, k)
            ).softmax(-1),
            hint="You set the other shares to 0 and softmax once more. What is e⁰?",
            more="After a softmax, rescale by a division.",
        ),
        Mistake(
            name="an order is taken for ranks",
            function=lambda scores, k: _keep(
                scores, scores.argsort(descending=True) < k
            ),
            hint="argsort says which token stands at place r. You read it as the place "
            "of token r.",
            more="Use the first k entries as places in the row.",
        ),
        Mistake(
            name="it does not sum to 1",
            function=lambda scores, k: scores.softmax(-1) * _is_top(scores, k),
            hint="The right tokens, but their shares still count those that are gone.",
            more="Divide each row by what is left in it.",
        ),
        Mistake(
            name="ranked, not in the order of the vocabulary",
            function=lambda scores, k: (
                top_k(scores, k).sort(-1, descending=True).values
            ),
            hint="Your columns are places in the ranking. Column v must be token v.",
            more="topk and sort also say where each value stood. `scatter` puts it "
            "back.",
        ),
    ),
    hint=(
        "Do one row by hand: five shares and k = 2. What becomes of the other "
        "three, and what do the two add up to?",
        "Softmax, find the k largest of each row, make the others 0, rescale.",
    ),
    shared=the_courses,
)


# --- min-p -------------------------------------------------------------------------


def min_p_probabilities(scores: Float[Tensor, "b v"], min_p: float) -> Tensor:
    """The tokens with at least `min_p` times the probability of the best, rescaled.

    Source: Nguyen et al. 2024.
    """
    chances = scores.softmax(-1)
    line = min_p * chances.amax(-1, keepdim=True)
    masked = chances.masked_fill(chances < line, 0)
    return masked / masked.sum(-1, keepdim=True)


def _raised(generator, rows, vocab):
    """Scores of both signs, but above 0 at the best of each row."""
    return scores_of(generator, rows, vocab) + 2


MIN_P = Exercise(
    name="generation.min_p",
    statement="Gives the probabilities “b v” for scores “b v”: tokens with at least "
    "min_p times the probability of their row's best share 1. It needs no sort.",
    takes=("scores", "min_p"),
    reference=min_p_probabilities,
    cases=lambda generator: [
        (_raised(generator, 2, 7), 0.25),
        (_raised(generator, 2, 9), 1.0),
        (_raised(generator, 1, 9), 0.4),
        (_raised(generator, 2, 7).flip(0), 0.25),  # the certain row first
    ],
    mistakes=(
        Mistake(
            name="an absolute line",
            function=lambda scores, min_p: _keep(scores, scores.softmax(-1) >= min_p),
            hint="You ask whether p ≥ min_p. A row full of doubt may have no such "
            "token.",
            more="The line moves with the row: it is a share *of the best token's* "
            "share.",
        ),
        Mistake(
            name="an absolute line, and zeros where none is left",
            function=lambda scores, min_p: _keep(
                scores, scores.softmax(-1) >= min_p
            ).nan_to_num(),
            hint="You ask whether p ≥ min_p, and a row in which no token is that "
            "likely gets zeros.",
            more="The line moves with the row: min_p is a share of the largest "
            "probability.",
        ),
        Mistake(
            name="the best of the whole batch",
            function=lambda scores, min_p: _keep(
                scores, scores.softmax(-1) >= min_p * scores.softmax(-1).max()
            ),
            hint="One certain row sets the line for all rows.",
            more="The maximum belongs to a row: along the last axis, with "
            "keepdim=True.",
        ),
        Mistake(
            name="the best of the batch, and zeros where none is left",
            function=lambda scores, min_p: _keep(
                scores, scores.softmax(-1) >= min_p * scores.softmax(-1).max()
            ).nan_to_num(),
            hint="One certain row sets the line for all, and other rows are left with "
            "zeros.",
            more="The maximum belongs to a row: along the last axis, with "
            "keepdim=True.",
        ),
        Mistake(
            name="the line of the first row for all",
            function=lambda scores, min_p: _keep(
                scores, scores.softmax(-1) >= min_p * scores[0].softmax(-1).max()
            ),
            hint="Row 0 is right. The others are cut at the line of row 0.",
            more="The maximum belongs to a row: along the last axis, with "
            "keepdim=True.",
        ),
        Mistake(
            name="min_p below the best",
            function=lambda scores, min_p: _keep(
                scores,
                scores.softmax(-1) >= scores.softmax(-1).amax(-1, True) - min_p,
            ),
            hint="You subtract min_p from the best share. With min_p = 1 everything "
            "stays.",
            more="min_p *times* the best: a line in proportion.",
        ),
        Mistake(
            name="a score of 0 is not cut",
            function=lambda scores, min_p: (
                scores * (min_p_probabilities(scores, min_p) > 0)
            ).softmax(-1),
            hint="You set the other scores to 0 and softmax. What is e⁰?",
            more="e to the power of which score is exactly 0? Or cut after the "
            "softmax.",
        ),
        Mistake(
            name="softmax twice",
            function=lambda scores, min_p: (
                scores.softmax(-1).masked_fill(
                    min_p_probabilities(scores, min_p) == 0, -torch.inf
                )
            ).softmax(-1),
            hint="The right tokens, but nearly equal shares: you take the softmax of a "
            "softmax.",
            more="After a softmax, rescale by a division.",
        ),
        Mistake(
            name="more than, not at least",
            function=lambda scores, min_p: _keep(
                scores,
                scores.softmax(-1) > min_p * scores.softmax(-1).amax(-1, keepdim=True),
            ),
            hint="With min_p = 1 the best token itself is cut, and 0 / 0 is left.",
            more="“At least” includes the line itself.",
        ),
        Mistake(
            name="scores are compared, not probabilities",
            function=lambda scores, min_p: _keep(
                scores, scores >= min_p * scores.amax(-1, keepdim=True)
            ),
            hint="A score can be negative, and half a score is not half a probability.",
            more="First softmax, then the line.",
        ),
        Mistake(
            name="it does not sum to 1",
            function=lambda scores, min_p: (
                scores.softmax(-1) * (min_p_probabilities(scores, min_p) > 0)
            ),
            hint="The right tokens, but their shares still count those that are gone.",
            more="Divide each row by what is left in it.",
        ),
    ),
    hint="Softmax, the maximum of each row, a comparison, rescale. No sort is needed.",
)


EXERCISES = (TOP_K, MIN_P)
