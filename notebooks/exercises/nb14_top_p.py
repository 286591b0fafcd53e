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
    name="generation.top_p",
    statement="Gives the probabilities “b v” for scores “b v”: the fewest likeliest "
    "tokens that reach p, the one that crosses included, share 1. It follows the "
    "model's doubt.",
    takes=("scores", "p"),
    reference=top_p,
    cases=lambda generator: [
        (scores_of(generator, 2, 7), 0.7),
        (scores_of(generator, 2, 9), 0.45),
        (scores_of(generator, 1, 9), 0.9),
        (torch.tensor([[2.0, 1, 1]]).log(), 0.5),  # a half and two quarters
    ],
    mistakes=(
        Mistake(
            name="the token that crosses is dropped",
            function=lambda scores, p: _back(scores, _without_crosser(scores, p)),
            hint="What you keep stays below p. Where the best alone passes p, nothing "
            "is left: 0 / 0.",
            more="Ask what was reached *before* a token came, not with it.",
        ),
        Mistake(
            name="one token too many where p is reached exactly",
            function=lambda scores, p: _back(scores, _before(scores) <= p),
            hint="A half and two quarters, and p = 0.5: the first token reaches it, "
            "and you keep more.",
            more="A token stays if what came *before* it is still below p.",
        ),
        Mistake(
            name="the token that crosses is dropped, and zeros where none is left",
            function=lambda scores, p: _back(
                scores, _without_crosser(scores, p)
            ).nan_to_num(),
            hint="What you keep stays below p. Where the best token alone passes p, a "
            "row of zeros is left.",
            more="Ask what was reached *before* a token came, not with it.",
        ),
        Mistake(
            name="the token that crosses is dropped, except the first",
            function=_at_least_one,
            hint="No row is empty, but a row of several tokens is still one short of "
            "p.",
            more="Saving the best one hides the fault. Which sum should be below p?",
        ),
        Mistake(
            name="one too many",
            function=_one_more,
            hint="You keep the token that crosses, and the one after it.",
            more="Shifting and subtracting both look one place back. One of the two is "
            "enough.",
        ),
        Mistake(
            name="each token against 1 − p",
            function=lambda scores, p: normalized(
                scores.softmax(-1) * (scores.softmax(-1) > 1 - p)
            ),
            hint="You ask each token alone whether it exceeds 1 − p. Where all are "
            "small, none is left.",
            more="Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            name="each token against 1 − p, and always the best",
            function=_each_or_best,
            hint="You ask each token alone whether it reaches 1 − p, and save the best "
            "where none does.",
            more="Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            name="each token against p",
            function=lambda scores, p: normalized(
                scores.softmax(-1) * (scores.softmax(-1) >= p)
            ),
            hint="You ask each token alone whether it reaches p. Where no token is "
            "that likely, none is left.",
            more="Top-p looks at sums: how much do the likelier tokens hold together?",
        ),
        Mistake(
            name="the least likely come first",
            function=_from_the_least,
            hint="You start adding up at the least likely token, so you keep the tail.",
            more="In which order does `sort` give its values, unless it is told "
            "otherwise?",
        ),
        Mistake(
            name="softmax twice",
            function=_softmax_twice,
            hint="The right tokens, but nearly equal shares: you take the softmax of a "
            "softmax.",
            more="After a softmax, rescale by a division.",
        ),
        Mistake(
            name="only the best",
            function=lambda scores, p: _back(scores, _before(scores) <= 0),
            hint="A single token has it all: that is greedy, whatever p is.",
            more="Add the ranked shares up. How many places until the sum reaches p?",
        ),
        Mistake(
            name="cut in the unsorted order",
            function=_unsorted,
            hint="You start adding up at token 0. The fewest tokens that reach p are "
            "the likeliest ones.",
            more="Rank first, then cut, and put back at the end.",
        ),
        Mistake(
            name="it does not sum to 1",
            function=lambda scores, p: scores.softmax(-1) * (top_p(scores, p) > 0),
            hint="The right tokens, but their shares still count those that are gone.",
            more="Divide each row by what is left in it.",
        ),
        Mistake(
            name="ranked, not in the order of the vocabulary",
            function=lambda scores, p: (
                top_p(scores, p).sort(-1, descending=True).values
            ),
            hint="Your columns are places in the ranking. Column v must be token v.",
            more="`sort` also says which token stood at each place. Send the shares "
            "there.",
        ),
        Mistake(
            name="put back by the wrong permutation",
            function=_gathered,
            hint="You read at the tokens' numbers; you should write there.",
            more="`gather` takes from an index, `scatter` sends to it. Which one "
            "undoes a sort?",
        ),
    ),
    hint=(
        "Do one row by hand: the shares 0.5, 0.3, 0.2 and p = 0.6. How many stay?",
        "Sort the shares, add up what comes before each, cut where that has "
        "reached p, send the rest back to its columns, rescale.",
    ),
    shared=the_courses,
)


EXERCISES = (TOP_P,)
