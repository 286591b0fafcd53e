"""The exercise of notebook 14 on top-p, the nucleus of a distribution.

Knows the shared chooser. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.decoding import next_token_probabilities
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normalized, scores_of


def top_p(scores: Tensor, p: float) -> Tensor:
    """The fewest likeliest tokens that reach p, the one that crosses included."""
    ranked, tokens = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    before = ranked.cumsum(dim=-1) - ranked
    ranked = ranked * (before < p)
    masked = torch.zeros_like(scores).scatter(-1, tokens, ranked)
    return masked / masked.sum(dim=-1, keepdim=True)


def the_courses(scores: Tensor, p: float) -> Tensor:
    """What `course_utils.decoding` gives."""
    return next_token_probabilities(scores, top_p=p)


def _ranked(scores):
    return scores.softmax(-1).sort(-1, descending=True)


def _back(scores, which):
    """Cut the ranked tokens where `which` is False; rescaled, in the old order."""
    ranked, tokens = _ranked(scores)
    return normalized(torch.zeros_like(scores).scatter(-1, tokens, ranked * which))


def _before(scores):
    ranked = _ranked(scores).values
    return ranked.cumsum(-1) - ranked


def _without_crosser(scores, p):
    return _ranked(scores).values.cumsum(-1) <= p


def _at_least_one(scores, p):
    which = _without_crosser(scores, p)
    which[:, 0] = True
    return _back(scores, which)


def _unsorted(scores, p):
    chances = scores.softmax(-1)
    return normalized(chances * (chances.cumsum(-1) - chances < p))


def _one_more(scores, p):
    which = F.pad(_before(scores)[:, :-1], (1, 0)) < p
    return _back(scores, which)


def _gathered(scores, p):
    ranked, tokens = _ranked(scores)
    return normalized((ranked * (_before(scores) < p)).gather(-1, tokens))


def _each_or_best(scores, p):
    chances = scores.softmax(-1)
    best = chances == chances.amax(-1, keepdim=True)
    return normalized(chances * ((chances >= 1 - p) | best))


def _from_the_least(scores, p):
    """Ranked from the least likely up."""
    ranked, tokens = scores.softmax(-1).sort(-1)
    ranked = ranked * (ranked.cumsum(-1) - ranked < p)
    return normalized(torch.zeros_like(scores).scatter(-1, tokens, ranked))


def _softmax_twice(scores, p):
    cut = scores.softmax(-1).masked_fill(top_p(scores, p) == 0, -torch.inf)
    return cut.softmax(-1)


TOP_P = Exercise(
    "generation.top_p",
    "Gives the probabilities “b v” for scores “b v”: the fewest likeliest tokens that "
    "reach p, the one that crosses included, share 1. It follows the model's doubt.",
    ("scores", "p"),
    top_p,
    lambda generator: [
        (scores_of(generator, 2, 7), 0.7),
        (scores_of(generator, 2, 9), 0.45),
        (scores_of(generator, 1, 9), 0.9),
        (torch.zeros(1, 4), 0.5),
    ],
    (
        Mistake(
            "the token that crosses is dropped",
            lambda scores, p: _back(scores, _without_crosser(scores, p)),
            "What you keep stays below p. Where the best alone passes p, nothing is "
            "left: 0 / 0.",
            "Ask what was reached *before* a token came, not with it.",
        ),
        Mistake(
            "one token too many where p is reached exactly",
            lambda scores, p: _back(scores, _before(scores) <= p),
            "Four equal tokens and p = 0.5: two of them reach it, and you keep three.",
            "A token stays if what came *before* it is still below p.",
        ),
        Mistake(
            "the token that crosses is dropped, and zeros where none is left",
            lambda scores, p: _back(scores, _without_crosser(scores, p)).nan_to_num(),
            "What you keep stays below p. Where the best token alone passes p, a row "
            "of zeros is left.",
            "Ask what was reached *before* a token came, not with it.",
        ),
        Mistake(
            "the token that crosses is dropped, except the first",
            _at_least_one,
            "No row is empty, but a row of several tokens is still one short of p.",
            "Saving the best one hides the fault. Which sum should be below p?",
        ),
        Mistake(
            "one too many",
            _one_more,
            "You keep the token that crosses, and the one after it.",
            "Shifting and subtracting both look one place back. One of the two is "
            "enough.",
        ),
        Mistake(
            "each token against 1 − p",
            lambda scores, p: normalized(
                scores.softmax(-1) * (scores.softmax(-1) > 1 - p)
            ),
            "You ask each token alone whether it exceeds 1 − p. Where all are small, "
            "none is left.",
            "Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            "each token against 1 − p, and always the best",
            _each_or_best,
            "You ask each token alone whether it reaches 1 − p, and save the best "
            "where none does.",
            "Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            "each token against p",
            lambda scores, p: normalized(
                scores.softmax(-1) * (scores.softmax(-1) >= p)
            ),
            "You ask each token alone whether it reaches p. Where no token is that "
            "likely, none is left.",
            "Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            "the least likely come first",
            _from_the_least,
            "You start adding up at the least likely token, so you keep the tail.",
            "In which order does `sort` give its values, unless it is told otherwise?",
        ),
        Mistake(
            "softmax twice",
            _softmax_twice,
            "The right tokens, but nearly equal shares: you take the softmax of a "
            "softmax.",
            "After a softmax, rescale by a division.",
        ),
        Mistake(
            "only the best",
            lambda scores, p: _back(scores, _before(scores) <= 0),
            "A single token has it all: that is greedy, whatever p is.",
            "Add the ranked shares up. How many places until the sum reaches p?",
        ),
        Mistake(
            "cut in the unsorted order",
            _unsorted,
            "You start adding up at token 0. The fewest tokens that reach p are the "
            "likeliest ones.",
            "Rank first, then cut, and put back at the end.",
        ),
        Mistake(
            "it does not sum to 1",
            lambda scores, p: scores.softmax(-1) * (top_p(scores, p) > 0),
            "The right tokens, but their shares still count those that are gone.",
            "Divide each row by what is left in it.",
        ),
        Mistake(
            "ranked, not in the order of the vocabulary",
            lambda scores, p: top_p(scores, p).sort(-1, descending=True).values,
            "Your columns are places in the ranking. Column v must be token v.",
            "`sort` also says which token stood at each place. Send the shares there.",
        ),
        Mistake(
            "put back by the wrong permutation",
            _gathered,
            "You read at the tokens' numbers; you should write there.",
            "`gather` takes from an index, `scatter` sends to it. Which one undoes a "
            "sort?",
        ),
    ),
    "Sort the shares, add up what comes before each, cut where that has reached p, "
    "send the rest back to its columns, rescale.",
    shared=the_courses,
)


EXERCISES = (TOP_P,)
