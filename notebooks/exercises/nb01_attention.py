"""Exercises of notebook 01: scores, weights, context.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import math
from math import isqrt

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.attention import attention_scores, attention_weights
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- scores ------------------------------------------------------------------------


def scores_of_pairs(queries: Tensor, keys: Tensor) -> Tensor:
    """Every query times every key, scaled: "… q k"."""
    return queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5


def _pairs(generator):
    shapes = ((3, 7), (5, 7)), ((2, 3, 4, 7), (2, 3, 5, 7)), ((1, 12), (4, 12))
    cases = [tuple(normal(generator, *s) for s in pair) for pair in shapes]
    lone_query, loud_keys = cases[2]
    loud_keys *= 100
    loud_keys[0] = 0
    return [*cases[:2], (lone_query, loud_keys)]


def _products(queries, keys):
    return queries @ keys.transpose(-2, -1)


def _model_width(queries, keys):
    heads = queries.shape[1] if queries.ndim == 4 else 1
    return _products(queries, keys) / (heads * queries.shape[-1]) ** 0.5


SCORES = Exercise(
    name="attention.scores",
    statement="Gives the scores “… q k” for queries “… q d” and keys “… k d”, scaled: "
    "these are what softmax turns into weights.",
    takes=("queries", "keys"),
    reference=scores_of_pairs,
    cases=_pairs,
    mistakes=(
        Mistake(
            name="no scale",
            function=_products,
            hint="The products are right. What becomes of their spread when d grows?",
            more="A sum of d products has d times the variance of one product. What "
            "brings the standard deviation back to 1?",
        ),
        Mistake(
            name="divided by d, not by its root",
            function=lambda queries, keys: _products(queries, keys) / queries.shape[-1],
            hint="Scaled, but too much: these scores are nearly equal, whatever the "
            "query asks.",
            more="The variance of a sum of d products is d. What is its standard "
            "deviation?",
        ),
        Mistake(
            name="divided by half of d",
            function=lambda queries, keys: (
                _products(queries, keys) / (queries.shape[-1] / 2)
            ),
            hint="You divide by d / 2. What does Python compute first in d ** 1 / 2?",
            more="A power is computed before a division: use parentheses, or write the "
            "exponent as 0.5.",
        ),
        Mistake(
            name="the root is rounded down",
            function=lambda queries, keys: (
                _products(queries, keys) / isqrt(queries.shape[-1])
            ),
            hint="Right for a width of 16 or 64. What number do you divide by for d = "
            "7, and for d = 8?",
            more="isqrt and int cut off everything after the decimal point. Does a "
            "scale have to be a whole number?",
        ),
        Mistake(
            name="multiplied by the root",
            function=lambda queries, keys: (
                _products(queries, keys) * queries.shape[-1] ** 0.5
            ),
            hint="Your scale makes large scores larger. Should softmax get hot or "
            "cold?",
            more="The scale undoes a growth with d. Does it multiply or divide?",
        ),
        Mistake(
            name="the root of the whole model's width",
            function=_model_width,
            hint="Right for one head, too small for several. Over how many numbers "
            "does one dot product run here?",
            more="Heads do not share a dot product. Only the last axis is summed.",
        ),
        Mistake(
            name="the root of the number of keys",
            function=lambda queries, keys: (
                _products(queries, keys) / keys.shape[-2] ** 0.5
            ),
            hint="You scale by how many keys there are. Does a dot product get longer "
            "when you add one more key?",
            more="Look at the shape “k d”: which of the two axes disappears in the "
            "product?",
        ),
        Mistake(
            name="keys ask, queries answer",
            function=lambda queries, keys: attention_scores(keys, queries),
            hint="Rows and columns are swapped: rows ask, columns answer.",
            more="The result is “k q”. Which factor's rows become the rows of a "
            "product?",
        ),
        Mistake(
            name="the root of axis 1",
            function=lambda queries, keys: (
                _products(queries, keys) / queries.shape[1] ** 0.5
            ),
            hint="Right for a single table of queries. What does axis 1 count in a "
            "batch?",
            more="Whatever axes come first, the width comes last: count from the end.",
        ),
        Mistake(
            name="the root of the number of queries",
            function=lambda queries, keys: (
                _products(queries, keys) / queries.shape[-2] ** 0.5
            ),
            hint="You scale by how many queries there are. Does a dot product get "
            "longer when one more word asks?",
            more="“q d” and “k d”: over which of the axes does one score sum?",
        ),
        Mistake(
            name="softmax is taken already",
            function=lambda queries, keys: scores_of_pairs(queries, keys).softmax(
                dim=-1
            ),
            hint="Each of your rows adds up to 1. Which of the three steps is asked "
            "for?",
            more="A score may be negative or large. Softmax is the next step.",
        ),
        Mistake(
            name="`.T` turns every axis around",
            function=lambda queries, keys: queries @ keys.T / queries.shape[-1] ** 0.5,
            hint="Right for one table of keys. What does `.T` do with a batch of them?",
            more="Only the last two axes change places. Which method takes two axes?",
        ),
        Mistake(
            name="keys ask, and no scale",
            function=lambda queries, keys: keys @ queries.mT,
            hint="Rows ask, columns answer: yours are swapped. And what becomes of the "
            "spread when d grows?",
            more="First the order: which factor's rows become the rows of a product? "
            "Then one division.",
        ),
        Mistake(
            name="no scale, and softmax is taken already",
            function=lambda queries, keys: _products(queries, keys).softmax(dim=-1),
            hint="Each of your rows adds up to 1: softmax is the next step, not this "
            "one. And what becomes of the spread of the products when d grows?",
            more="Without the softmax, the products are right. They lack their scale.",
        ),
    ),
    hint=(
        "The score of one query and one key is a dot product.",
        "All of them at once are one matrix product. Its second factor must have the "
        "width d first: swap its last two axes, whatever axes come before them.",
        "Then one division, by the root of the number of products in each sum.",
    ),
    shared=attention_scores,
    trains=True,
)


# --- weights -----------------------------------------------------------------------


def normalized_powers(scores: Tensor) -> Tensor:
    """Powers of what each score lies below the highest of its row, made to sum to 1."""
    powers = (scores - scores.max(dim=-1, keepdim=True).values).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def _hot_scores(generator):
    def hot(*shape):
        scores = normal(generator, *shape)
        scores[..., 0, :] += 1000
        scores[..., 1, :] -= 1000
        scores[..., 2, 0] += 1500
        return scores

    level = torch.zeros(2, 3, dtype=torch.get_default_dtype())
    cases = [(hot(3, 5),), (hot(2, 3, 5),), (normal(generator, 1, 4),), (level,)]
    all_low = normal(generator, 1, 4) - 1000
    one_low = normal(generator, 3, 16)
    one_low[1, 0] -= 1000  # the other scores are near the mean, far above the minimum
    one_low[2] += 1500
    return [*cases, (all_low,), (one_low,)]


def _without_maximum(scores):
    return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


def _powers(scores):
    return (scores - scores.amax(dim=-1, keepdim=True)).exp()


def _global_powers(scores):
    return (scores - scores.max()).exp()


def _global_maximum(scores):
    return _without_maximum(scores - scores.max())


def _largest_size(scores):
    return _without_maximum(scores - scores.abs().amax(dim=-1, keepdim=True))


WEIGHTS = Exercise(
    name="attention.weights",
    statement="Gives weights “… q k” for scores “… q k”: shares of each query over its "
    "keys, for scores of any size. One overflow makes NaN of a whole training run.",
    takes=("scores",),
    reference=normalized_powers,
    cases=_hot_scores,
    mistakes=(
        Mistake(
            name="the softmax runs over the queries",
            function=lambda scores: scores.softmax(dim=-2),
            hint="Your columns add up to 1. Who hands out shares: a key or a query?",
            more="Add your weights up along the last axis. Each row should give 1.",
        ),
        Mistake(
            name="the softmax runs over dim=1",
            function=lambda scores: scores.softmax(dim=1),
            hint="Right for one sentence, wrong for a batch of them. What is axis 1 "
            "then?",
            more="Count the axis from the end: whatever axes come first, keys are "
            "last.",
        ),
        Mistake(
            name="the softmax runs over dim=0",
            function=lambda scores: scores.softmax(dim=0),
            hint="Axis 0 holds queries in one case and sentences in another, but never "
            "keys.",
            more="The scores are “… q k”. Which index, counted from the end, is k?",
        ),
        Mistake(
            name="e to the 1000 overflows",
            function=_without_maximum,
            hint="Fine for small scores. Yet e¹⁰⁰⁰ is infinite, and infinity divided "
            "by infinity is not a number.",
            more="Only differences count. What may you subtract from a row, so that "
            "its largest score becomes 0?",
            also=(lambda s: s.exp() / (s.exp().sum(dim=-1, keepdim=True) + 1e-9),),
        ),
        Mistake(
            name="one maximum for the whole table",
            function=_global_maximum,
            hint="No row overflows. But look at a row far below the largest score: 0 / "
            "0.",
            more="Each row is a softmax of its own, so each needs a maximum of its "
            "own. keepdim=True helps.",
        ),
        Mistake(
            name="shares of the scores themselves",
            function=lambda scores: scores / scores.sum(dim=-1, keepdim=True),
            hint="Each row adds up to 1, but shares can be negative. What makes any "
            "number positive?",
            more="Take powers first, then divide by their sum.",
        ),
        Mistake(
            name="one sum for the whole table",
            function=lambda scores: _powers(scores) / _powers(scores).sum(),
            hint="All your weights together add up to 1. What should each single row "
            "add up to?",
            more="A sum without dim runs over everything. Each query hands out shares "
            "of its own.",
        ),
        Mistake(
            name="the sum runs over dim=1",
            function=lambda scores: (
                _powers(scores) / _powers(scores).sum(dim=1, keepdim=True)
            ),
            hint="Right for one sentence. In a batch your maximum is taken over the "
            "keys, and your sum runs over another axis.",
            more="Whatever axes come first, keys are last: count the axis from the "
            "end.",
        ),
        Mistake(
            name="the mean is subtracted, not the maximum",
            function=lambda scores: _without_maximum(
                scores - scores.mean(dim=-1, keepdim=True)
            ),
            hint="Differences are kept, and most rows are right. But one score that is "
            "1000 above the mean of its row still overflows.",
            more="After the subtraction no score of the row may be above 0. Which "
            "number do you have to subtract?",
        ),
        Mistake(
            name="the largest size is subtracted, not the maximum",
            function=_largest_size,
            hint="From a row around −1000 you subtract +1000. What is left of its "
            "powers?",
            more="The largest score of a row can lie below 0. Should it lose its sign?",
        ),
        Mistake(
            name="large scores are cut off",
            function=lambda scores: _without_maximum(scores.clamp(max=80)),
            hint="No power overflows, but scores of 1000 and 1001 become equal. How "
            "can they get smaller and keep their difference?",
            more="Subtract from a whole row, so that its largest score becomes 0.",
        ),
        Mistake(
            name="large and low scores are cut off",
            function=lambda scores: _without_maximum(scores.clamp(-80, 80)),
            hint="You get no NaN, but rows around 1000 and around −1000 hand out equal "
            "shares. How can you shift a row and keep its differences?",
            more="Subtract the same number from each score of a row. Which one?",
        ),
        Mistake(
            name="the minimum is subtracted, not the maximum",
            function=lambda scores: _without_maximum(
                scores - scores.amin(-1, keepdim=True)
            ),
            hint="Differences are kept, and the lowest score is 0 now. What becomes of "
            "a score that is 1000 above it?",
            more="After the subtraction no score of the row may be above 0. Which "
            "score has to become 0?",
        ),
        Mistake(
            name="the maximum of each column is subtracted",
            function=lambda scores: _without_maximum(
                scores - scores.amax(-2, keepdim=True)
            ),
            hint="Each key has a different number subtracted. What happens to the "
            "differences within a row?",
            more="Each row is a softmax of its own: its maximum is taken over its "
            "keys.",
        ),
        Mistake(
            name="a fixed number is subtracted",
            function=lambda scores: _without_maximum(scores - 1000),
            hint="Scores around 1000 are right. What is left of a row around 0?",
            more="The number may be different for each row. Which one fits a row?",
        ),
        Mistake(
            name="the maximum is subtracted in the numerator only",
            function=lambda scores: (
                _powers(scores) / scores.exp().sum(dim=-1, keepdim=True)
            ),
            hint="You subtract the maximum in the numerator but not in the "
            "denominator. Does the common factor still cancel?",
            more="Compute the powers once, and use the same ones in numerator and "
            "denominator.",
        ),
        Mistake(
            name="one sum for the whole table, and e to the 1000 overflows",
            function=lambda scores: scores.exp() / scores.exp().sum(),
            hint="Powers and a sum, good. But your sum runs over all rows, and e¹⁰⁰⁰ "
            "is infinite. First the sum: what should each row add up to?",
            more="dim=-1 and keepdim=True make a sum for each row. Then: what may you "
            "subtract from a row before you take powers?",
        ),
        Mistake(
            name="one maximum and one sum for the whole table",
            function=lambda scores: (
                _global_powers(scores) / _global_powers(scores).sum()
            ),
            hint="No power overflows. But all rows share one maximum and one sum: how "
            "many softmaxes does the table hold?",
            more="Each row has a maximum and a sum of its own: both need dim and "
            "keepdim.",
        ),
        Mistake(
            name="an axis is lost",
            function=lambda scores: _powers(scores) / _powers(scores).sum(dim=-1),
            hint="A sum or a maximum over the last axis takes this axis away. What is "
            "left is lined up with columns, not with rows.",
            more="An argument of sum and amax keeps the axis, with size 1.",
        ),
        Mistake(
            name="powers of 2",
            function=lambda scores: normalized_powers(scores * math.log(2)),
            hint="The rows add up to 1, but a score that is higher by 1 should weigh e "
            "times as much, not twice.",
            more="torch.exp, or x.exp(): powers of e.",
        ),
    ),
    hint=(
        "Three steps per row. Begin with the second: powers of e.",
        "A common factor cancels, so you may subtract the same number from a row.",
        "Subtract the maximum of the row, take powers, divide by their sum.",
    ),
    shared=attention_weights,
)


# --- context -----------------------------------------------------------------------


def context(weights: Tensor, values: Tensor) -> Tensor:
    """A mixture of the values for each query: "… q e"."""
    return weights @ values


def _weights_and_values(generator):
    shapes = ((5, 5), (5, 5)), ((3, 5), (5, 7)), ((2, 3, 5), (2, 5, 7))
    made = [[normal(generator, *s) for s in pair] for pair in shapes]
    cases = [(scores.softmax(dim=-1), values) for scores, values in made]
    lone_text = normal(generator, 1, 2, 4).softmax(dim=-1)
    loud = 100 * normal(generator, 1, 4, 3)
    loud[:, 0] = 0
    return [*cases, (lone_text, loud)]


CONTEXT = Exercise(
    name="attention.context",
    statement="Gives the context “… q e”, a mixture of values for each query, from "
    "weights “… q k” and values “… k e”. It is all that attention hands on.",
    takes=("weights", "values"),
    reference=context,
    cases=_weights_and_values,
    mistakes=(
        Mistake(
            name="weights times values, entry by entry",
            function=lambda weights, values: weights * values,
            hint="The star multiplies entry by entry, and only works where the sizes "
            "happen to agree. Nothing is mixed yet.",
            more="One number of the context is a *sum* over all keys. Which product "
            "sums?",
        ),
        Mistake(
            name="weights transposed",
            function=lambda weights, values: weights.transpose(-2, -1) @ values,
            hint="You mix along the queries: each row of your result is what one key "
            "gave away.",
            more="“q k, k e -> q e”: the axes that meet are already neighbors.",
        ),
        Mistake(
            name="each text meets the values of all texts",
            function=lambda weights, values: torch.tensordot(
                weights, values, ([-1], [-2])
            ),
            hint="Right for one text. For a batch your result has a second batch axis: "
            "the weights of a text also mix the values of the others.",
            more="tensordot pairs everything in front of the axes that it sums over. "
            "Which product goes through a batch text by text?",
        ),
        Mistake(
            name="the plain average of the values",
            function=lambda weights, values: values.mean(-2, keepdim=True).expand(
                *weights.shape[:-1], values.shape[-1]
            ),
            hint="Every query gets the same result. Your weights are not used.",
            more="Weighted: each value times its weight, then the sum over the keys.",
        ),
        Mistake(
            name="only the best value",
            function=lambda weights, values: (
                F.one_hot(weights.argmax(-1), weights.shape[-1]).to(values) @ values
            ),
            hint="A hard dictionary: the winner takes all. What about the other "
            "shares?",
            more="Do not choose. Every value goes in, times its weight.",
        ),
        Mistake(
            name="divided by the number of keys once more",
            function=lambda weights, values: weights @ values / weights.shape[-1],
            hint="The mixture is right, and then it is made smaller. What do the "
            "weights of one query add up to?",
            more="Weights that add up to 1 are an average already.",
        ),
        Mistake(
            name="a softmax of the weights",
            function=lambda weights, values: weights.softmax(dim=-1) @ values,
            hint="The weights are shares already. A second softmax makes them nearly "
            "equal.",
            more="What does one row of the weights add up to, before you touch it?",
        ),
        Mistake(
            name="values times weights",
            function=lambda weights, values: values @ weights,
            hint="The factors are in the wrong order, which only works where the sizes "
            "happen to agree. Which axis does your product sum over?",
            more="“q k, k e -> q e”: k is the last axis of one factor and the first of "
            "the other.",
        ),
        Mistake(
            name="values transposed",
            function=lambda weights, values: weights @ values.transpose(-2, -1),
            hint="You sum over the width of the values, which only works where the "
            "sizes happen to agree. What should the sum run over?",
            more="The keys of “q d, k d” had to be transposed. Do the values of “q k, "
            "k e”?",
        ),
        Mistake(
            name="divided by the root of the width",
            function=lambda weights, values: weights @ values / values.shape[-1] ** 0.5,
            hint="The mixture is right, and then it is divided by a root. Which of the "
            "three steps does the scaling?",
            more="Weights that add up to 1 are an average already.",
        ),
    ),
    hint=(
        "Begin with one query: multiply each value by its weight and add up.",
        "For all queries at once this is a product that sums over k.",
        "“… q k” and “… k e” already have k where a matrix product wants it.",
    ),
    trains=True,
)


EXERCISES = (SCORES, WEIGHTS, CONTEXT)
