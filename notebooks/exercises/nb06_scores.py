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
    name="recurrent.general_scores",
    statement="Gives scores s · W h, “b q k”, for queries s “b q m”, keys h “b k m” "
    "and W “m m”. The matrix lets states be compared whose entries mean different "
    "things.",
    takes=("queries", "keys", "W"),
    reference=general_scores,
    cases=_general_cases,
    mistakes=(
        Mistake(
            name="W is left out",
            function=lambda q, k, w: q @ k.mT,
            hint="That is the dot score: it needs both sides to speak the same "
            "language.",
            more="Each key goes through W before it meets a query.",
        ),
        Mistake(
            name="W the other way around",
            function=lambda q, k, w: q @ w.T @ k.mT,
            hint="W translates, but from queries to keys. Which side does it belong "
            "on?",
            more="Keys lie in rows. For a column h it is W h; what is it for a row?",
        ),
        Mistake(
            name="both sides go through W",
            function=lambda q, k, w: (q @ w.T) @ (k @ w.T).mT,
            hint="Now both are translated, and again they share no language.",
            more="Only one side needs the dictionary. Which one, in s · W h?",
        ),
        Mistake(
            name="rows ask and columns answer, exchanged",
            function=lambda q, k, w: (k @ w.T) @ q.mT,
            hint="The right numbers, but the table lies on its side: a row belongs to "
            "a query.",
            more="Start from the queries and turn the keys.",
        ),
        Mistake(
            name="scaled",
            function=lambda q, k, w: q @ w @ k.mT / q.shape[-1] ** 0.5,
            hint="Every score is too small by the same factor.",
            more="There was no scale in 2015, and a learned W can do its own scaling.",
        ),
        Mistake(
            name="a softmax too many",
            function=lambda q, k, w: (q @ w @ k.mT).softmax(dim=-1),
            hint="Your rows add up to 1: these are weights already.",
            more="Which of the two is asked for, scores or weights?",
        ),
    ),
    hint=(
        "Take one query and one key: q · (W k). Which of the two meets W?",
        "Two products: first the keys through W, then every query with every key.",
    ),
    shared=scores_of_the_layer,
    trains=True,
)


EXERCISES = (GENERAL,)
