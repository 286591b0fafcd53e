"""Exercise of notebook 06: the general score.

Knows the shared layers. Knows nothing of how an answer is run or shown.
"""

from torch import Tensor
from torch.func import functional_call

from course_utils.recurrent import GeneralScore
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def _both(generator, b, q, k, m, *weights):
    return normal(generator, b, q, m), normal(generator, b, k, m), *weights


# --- general -----------------------------------------------------------------------


def general_scores(queries: Tensor, keys: Tensor, w: Tensor) -> Tensor:
    """The keys through W, then every query with every key: "b q k"."""
    return queries @ (keys @ w.T).transpose(1, 2)


def scores_of_the_layer(queries: Tensor, keys: Tensor, w: Tensor) -> Tensor:
    """Scores "b q k" of `GeneralScore` with this matrix."""
    return functional_call(GeneralScore(len(w)), {"to_keys.weight": w}, (queries, keys))


def _general_cases(generator):
    sizes = [(2, 3, 5, 6), (1, 4, 2, 7), (3, 1, 1, 4)]
    weights = (normal(generator, m, m) for *_, m in sizes)
    return [_both(generator, *size, w) for size, w in zip(sizes, weights, strict=True)]


GENERAL = Exercise(
    "recurrent.general_scores",
    "Gives scores s · W h, “b q k”, for queries s “b q m”, keys h “b k m” and W “m m”. "
    "The matrix lets states be compared whose entries mean different things.",
    ("queries", "keys", "W"),
    general_scores,
    _general_cases,
    (
        Mistake(
            "W is left out",
            lambda q, k, w: q @ k.mT,
            "That is the dot score: it needs both sides to speak the same language.",
            "Each key goes through W before it meets a query.",
        ),
        Mistake(
            "W the other way around",
            lambda q, k, w: q @ w.T @ k.mT,
            "W translates, but from queries to keys. Which side does it belong on?",
            "Keys lie in rows. For a column h it is W h; what is it for a row?",
        ),
        Mistake(
            "both sides go through W",
            lambda q, k, w: (q @ w.T) @ (k @ w.T).mT,
            "Now both are translated, and again they share no language.",
            "Only one side needs the dictionary. Which one, in s · W h?",
        ),
        Mistake(
            "rows ask and columns answer, exchanged",
            lambda q, k, w: (k @ w.T) @ q.mT,
            "The right numbers, but the table lies on its side: a row belongs to a "
            "query.",
            "Start from the queries and turn the keys.",
        ),
        Mistake(
            "scaled",
            lambda q, k, w: q @ w @ k.mT / q.shape[-1] ** 0.5,
            "Every score is too small by the same factor.",
            "There was no scale in 2015, and a learned W can do its own scaling.",
        ),
        Mistake(
            "a softmax too many",
            lambda q, k, w: (q @ w @ k.mT).softmax(dim=-1),
            "Your rows add up to 1: these are weights already.",
            "Which of the two is asked for, scores or weights?",
        ),
    ),
    "Two products: first the keys through W, then every query with every key.",
    shared=scores_of_the_layer,
)


EXERCISES = (GENERAL,)
