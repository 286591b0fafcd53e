"""Exercises of notebook 06: general and additive scores.

Knows the shared layers. Knows nothing of how an answer is run or shown.
"""

from torch import Tensor
from torch.func import functional_call

from course_utils.recurrent import AdditiveScore, GeneralScore
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
            "That is the dot score: it needs both sides to speak one language.",
            "Each key goes through W before it meets a query.",
        ),
        Mistake(
            "W the other way around",
            lambda q, k, w: q @ w.T @ k.mT,
            "W translates, but from queries to keys. Which side does it stand at?",
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
            "Right numbers in a table lying on its side: a row belongs to a query.",
            "Start from the queries and turn the keys.",
        ),
        Mistake(
            "scaled",
            lambda q, k, w: q @ w @ k.mT / q.shape[-1] ** 0.5,
            "Every score is too small by the same factor.",
            "There was no scale in 2015, and a learned W can scale for itself.",
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


# --- additive ----------------------------------------------------------------------


def additive_scores(
    queries: Tensor, keys: Tensor, w: Tensor, u: Tensor, v: Tensor
) -> Tensor:
    """Every pair of a query and a key is added and bent, then weighed: "b q k"."""
    pairs = (queries @ w.T)[:, :, None] + (keys @ u.T)[:, None]
    return pairs.tanh() @ v


def scores_of_the_additive_layer(
    queries: Tensor, keys: Tensor, w: Tensor, u: Tensor, v: Tensor
) -> Tensor:
    """Scores "b q k" of `AdditiveScore` with these weights."""
    weights = {"to_queries.weight": w, "to_keys.weight": u}
    weights["to_score.weight"] = v[None]
    return functional_call(AdditiveScore(len(v)), weights, (queries, keys))


def _additive_cases(generator):
    def one(b, q, k, m):
        w, u = normal(generator, 2, m, m)
        return _both(generator, b, q, k, m, w, u, normal(generator, m))

    return [one(2, 3, 5, 6), one(1, 4, 2, 7), one(3, 1, 1, 4)]


def _pairs(q, k, w, u):
    """Both sides translated, with an axis for each other: "b q 1 m", "b 1 k m"."""
    return (q @ w.T)[:, :, None], (k @ u.T)[:, None]


def _sum(q, k, w, u):
    mine, other = _pairs(q, k, w, u)
    return mine + other


def _product(q, k, w, u):
    mine, other = _pairs(q, k, w, u)
    return mine * other


def _two_tanh(q, k, w, u):
    mine, other = _pairs(q, k, w, u)
    return mine.tanh() + other.tanh()


ADDITIVE = Exercise(
    "recurrent.additive_scores",
    "Gives scores v · tanh(W s + U h), “b q k”, for queries s “b q m”, keys h “b k m”, "
    "W and U “m m”, v “m”. Every query has to meet every key before the tanh.",
    ("queries", "keys", "W", "U", "v"),
    additive_scores,
    _additive_cases,
    (
        Mistake(
            "tanh forgotten",
            lambda q, k, w, u, v: _sum(q, k, w, u) @ v,
            "Without a bend a query adds the same number to all its scores, and "
            "softmax takes that away again.",
            "Which function stands between the sum and v?",
        ),
        Mistake(
            "v inside the tanh",
            lambda q, k, w, u, v: (_sum(q, k, w, u) @ v).tanh(),
            "You take tanh of the finished number: all your scores lie between −1 and "
            "1.",
            "In the formula tanh is taken of m numbers, and v weighs them afterwards.",
        ),
        Mistake(
            "product in place of the sum",
            lambda q, k, w, u, v: _product(q, k, w, u).tanh() @ v,
            "The two sides are multiplied. What does *additive* promise?",
            "Entry by entry, before the tanh: which sign stands in the formula?",
        ),
        Mistake(
            "each side has its own tanh",
            lambda q, k, w, u, v: _two_tanh(q, k, w, u) @ v,
            "Bent before they meet, the two sides can only be added up, never matched.",
            "One tanh, around both.",
        ),
        Mistake(
            "W and U exchanged",
            lambda q, k, w, u, v: _sum(q, k, u, w).tanh() @ v,
            "The queries went through the keys' matrix.",
            "W belongs to the states that ask, U to the memory.",
        ),
        Mistake(
            "v is left out",
            lambda q, k, w, u, v: _sum(q, k, w, u).tanh().sum(dim=-1),
            "You add up all m numbers as if each counted alike.",
            "Something learned says how much each of the m numbers counts.",
        ),
        Mistake(
            "a softmax too many",
            lambda q, k, w, u, v: (_sum(q, k, w, u).tanh() @ v).softmax(dim=-1),
            "Your rows add up to 1: these are weights already.",
            "Scores may have any sign and any sum.",
        ),
        Mistake(
            "rows ask and columns answer, exchanged",
            lambda q, k, w, u, v: (_sum(q, k, w, u).tanh() @ v).mT,
            "Right numbers in a table lying on its side: a row belongs to a query.",
            "Which of the two sides needs its new axis in the third place?",
        ),
        Mistake(
            "W and U the other way around",
            lambda q, k, w, u, v: _sum(q, k, w.T, u.T).tanh() @ v,
            "Both matrices are used, each on the right side, but transposed.",
            "Vectors lie in rows. For a column s it is W s; what is it for a row?",
        ),
        Mistake(
            "scaled",
            lambda q, k, w, u, v: _sum(q, k, w, u).tanh() @ v / len(v) ** 0.5,
            "Every score is too small by the same factor.",
            "The root belongs to dot products of 2017. The formula here has none.",
        ),
        Mistake(
            "sigmoid in place of tanh",
            lambda q, k, w, u, v: _sum(q, k, w, u).sigmoid() @ v,
            "What v weighs is never negative in your version.",
            "Both functions bend. Which of them stands in the formula?",
        ),
        Mistake(
            "one matrix for both sides",
            lambda q, k, w, u, v: _sum(q, k, w, w).tanh() @ v,
            "Queries and keys go through the same matrix. One argument is unused.",
            "W belongs to the states that ask. What belongs to the memory?",
        ),
        Mistake(
            "v inside the tanh, entry by entry",
            lambda q, k, w, u, v: (v * _sum(q, k, w, u)).tanh().sum(dim=-1),
            "You multiply by v first and bend afterwards, entry by entry. In which "
            "order does the formula do it?",
            "tanh of m numbers comes first. Then v weighs them.",
        ),
    ),
    "Give each side an axis of length 1 where the other side has its positions; then "
    "a plain + makes “b q k m”.",
    trains=True,
    shared=scores_of_the_additive_layer,
)


EXERCISES = (GENERAL, ADDITIVE)
