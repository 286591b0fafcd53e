"""Two exercises of notebook 01: hear only directions, and look an animal up.

Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.attention import attend
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def _cosine_inputs(generator):
    def one(temperature, *sizes):
        queries, keys, values = (normal(generator, *size) for size in sizes)
        return 3 * queries, keys, values, temperature

    lone_query, keys, values, _ = one(0.2, (1, 3), (4, 3), (4, 2))
    return [
        one(0.1, (3, 7), (5, 7), (5, 4)),
        one(0.5, (6, 2), (3, 2), (3, 5)),
        (100 * lone_query, keys, values, 0.2),
    ]


def _unit(x):
    return F.normalize(x, dim=-1)


def _column_unit(x):
    return F.normalize(x, dim=0)


def _frobenius_unit(x):
    return x / x.norm()


def _by_squares(x):
    return x / x.square().sum(dim=-1, keepdim=True)


def _mix(scores, values):
    return scores.softmax(dim=-1) @ values


def cosine_attention(
    queries: Tensor, keys: Tensor, values: Tensor, temperature: float
) -> Tensor:
    """Attention that hears only directions, "q e"."""
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    return (cosines / temperature).softmax(dim=-1) @ values


COSINE = Exercise(
    name="attention.cosine",
    statement="Gives the context “q e”; scores are the cosines of queries “q d” and "
    "keys “k d”, divided by the temperature. The length of a vector no longer counts.",
    takes=("queries", "keys", "values", "temperature"),
    reference=cosine_attention,
    cases=_cosine_inputs,
    mistakes=(
        Mistake(
            name="lengths still count",
            function=lambda q, k, v, t: _mix(q @ k.T / t, v),
            hint="Make a query twice as long: your answer changes. A cosine would not.",
            more="A cosine is the dot product of two vectors of length 1.",
        ),
        Mistake(
            name="only the queries have length 1",
            function=lambda q, k, v, t: _mix(_unit(q) @ k.T / t, v),
            hint="The length of a query is gone. That of a key still counts.",
            more="Both sides of a cosine are divided by their lengths.",
        ),
        Mistake(
            name="only the keys have length 1",
            function=lambda q, k, v, t: _mix(q @ _unit(k).T / t, v),
            hint="The length of a key is gone. That of a query still counts.",
            more="Both sides of the product need length 1.",
        ),
        Mistake(
            name="divided by the root of d, too",
            function=lambda q, k, v, t: _mix(
                _unit(q) @ _unit(k).T / t / q.shape[-1] ** 0.5, v
            ),
            hint="The cosines and the temperature are right, but then there is an "
            "extra division. A cosine does not grow with d.",
            more="If you called the `attention` of section 4: it divides by √d inside.",
        ),
        Mistake(
            name="multiplied by the temperature",
            function=lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T * t, v),
            hint="A low temperature should be *cold*: one key takes nearly all.",
            more="What makes 0.9 and 0.8 differ more: times 0.1, or divided by 0.1?",
        ),
        Mistake(
            name="no temperature",
            function=lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T, v),
            hint="Cosines from −1 to 1 leave softmax lukewarm. Does a different "
            "temperature change your weights?",
            more="Where does the temperature appear in section 3?",
        ),
        Mistake(
            name="columns of length 1",
            function=lambda q, k, v, t: _mix(
                _column_unit(q) @ _column_unit(k).T / t, v
            ),
            hint="You give each *column* length 1. Whose length should be 1?",
            more="One query is one row: its length sums over the last axis.",
        ),
        Mistake(
            name="divided by the squared lengths",
            function=lambda q, k, v, t: _mix(_by_squares(q) @ _by_squares(k).T / t, v),
            hint="A vector of length 2 gets length 1/2 in your version. What is "
            "missing after the sum of squares?",
            more="The length of a vector is the root of the sum of its squares.",
        ),
        Mistake(
            name="one length for the whole matrix",
            function=lambda q, k, v, t: _mix(
                _frobenius_unit(q) @ _frobenius_unit(k).T / t, v
            ),
            hint="You divide all rows of a matrix by one number, so a long query is "
            "still longer than the others. How many lengths do three queries have?",
            more="A norm without dim runs over everything. Which axis runs along a "
            "vector?",
        ),
        Mistake(
            name="scaled dot products in place of cosines",
            function=lambda q, k, v, t: _mix(q @ k.T / q.shape[-1] ** 0.5 / t, v),
            hint="These are the scores of section 4, divided by the temperature. Does "
            "a long key still get more?",
            more="A cosine is the dot product of two vectors of length 1.",
        ),
        Mistake(
            name="the softmax runs over the queries",
            function=lambda q, k, v, t: (_unit(q) @ _unit(k).T / t).softmax(dim=0) @ v,
            hint="The scores are right. Along which axis do your weights add up to 1?",
            more="Rows ask: each query shares its weight among the keys.",
        ),
        Mistake(
            name="the temperature comes after the softmax",
            function=lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T, v) / t,
            hint="The weights of a query should add up to 1. What do yours add up to?",
            more="Look at the formula of section 3: what is divided by T there?",
        ),
        Mistake(
            name="the values have length 1, too",
            function=lambda q, k, v, t: _mix(_unit(q) @ _unit(k).T / t, _unit(v)),
            hint="The weights are right. Which vectors does a cosine compare?",
            more="Values are mixed as they are: no score looks at them.",
        ),
    ),
    hint=(
        "A cosine is the dot product of two vectors of length 1.",
        "F.normalize(x, dim=-1) gives every row the length 1. Do it to both sides.",
        "Divide their product by the temperature: these are the scores. Softmax and "
        "mixture are as before.",
    ),
)


# --- look up -----------------------------------------------------------------------


def _lists(generator):
    def one(items):
        asked, *others = torch.randperm(8, generator=generator).tolist()
        colors = torch.randperm(8, generator=generator)[:items]
        if asked not in colors:
            colors[-1] = asked
        return asked, torch.tensor(others[:items]), colors

    asked, animals, colors = one(3)
    again = [(asked, animals.flip(0), colors), (asked, animals, colors.roll(1))]
    again.append((colors[colors != asked][0].item(), animals, colors))
    return [(asked, animals, colors), one(5), one(6), one(1), *again]


def _one_hot(ids):
    return F.one_hot(ids, 8).to(torch.get_default_dtype())


def _answer(color, keys, values, cold=100):
    query = cold * _one_hot(torch.tensor([color]))
    return attend(query, _one_hot(keys), values)[0]


def look_up(color: int, animals: Tensor, colors: Tensor) -> Tensor:
    """Which animal has this color? Nearly its one-hot vector, "8"."""
    query = 100 * F.one_hot(torch.tensor([color]), 8)  # cold: a long query
    keys, values = F.one_hot(colors, 8), F.one_hot(animals, 8)
    made = [x.to(torch.get_default_dtype()) for x in (query, keys, values)]
    return attend(*made)[0]


LOOK_UP = Exercise(
    name="attention.look_up",
    statement="Gives the context “8”, within 0.01 of the one-hot vector of the animal "
    "that has this color id, for ids of animals “k” and colors “k”. No training: you "
    "choose what asks, what answers and what comes back.",
    takes=("color", "animals", "colors"),
    reference=look_up,
    cases=_lists,
    mistakes=(
        Mistake(
            name="too warm",
            function=lambda color, a, c: _answer(color, c, _one_hot(a), cold=1),
            hint="The right animal leads, but all the others are in the mixture too. "
            "Is a lead of 1 cold enough?",
            more="Section 3: which number makes a softmax cold? Equal one-hots score "
            "1, others 0.",
        ),
        Mistake(
            name="ten times is not cold enough",
            function=lambda color, a, c: _answer(color, c, _one_hot(a), cold=10),
            hint="Nearly. The root of 8 divides your 10, and a lead of 3.5 leaves a "
            "few percent to each of the others.",
            more="Within 0.01 of the one-hot vector: try a much larger factor.",
        ),
        Mistake(
            name="only the root of 8 is undone",
            function=lambda color, a, c: _answer(color, c, _one_hot(a), cold=8**0.5),
            hint="The division inside is undone, so the lead is 1. How much does a "
            "lead of 1 leave to the others?",
            more="Within 0.01 of the one-hot vector: try a much larger factor.",
        ),
        Mistake(
            name="the animals answer, the colors come back",
            function=lambda color, a, c: _answer(color, a, _one_hot(c)),
            hint="You compare the color with *animals*. What should it be compared "
            "with?",
            more="Keys are what the query is compared with; values are what comes "
            "back.",
        ),
        Mistake(
            name="the color comes back",
            function=lambda color, a, c: _answer(color, c, _one_hot(c)),
            hint="The lookup works. Yet what you hand over is the color that was asked "
            "for.",
            more="Keys and values need not be the same thing. What do you want to "
            "know?",
        ),
        Mistake(
            name="the color is compared with animals",
            function=lambda color, a, c: _answer(color, a, _one_hot(a)),
            hint="Animals come back, but a color was compared with animals.",
            more="The keys are one-hot vectors of the same kind of thing as the query.",
        ),
        Mistake(
            name="the place instead of the animal",
            function=lambda color, a, c: _answer(color, c, torch.eye(len(c))),
            hint="These are the weights: *where* the animal is. Which animal is it?",
            more="One product is missing: weights times values.",
        ),
        Mistake(
            name="one row in place of a vector",
            function=lambda color, a, c: _answer(color, c, _one_hot(a))[None],
            hint="The numbers are right. Attention answers a table of queries, and "
            "your table has one row.",
            more="The context of one query is one vector: take row 0.",
        ),
        Mistake(
            name="too warm, and one row in place of a vector",
            function=lambda color, a, c: _answer(color, c, _one_hot(a), cold=1)[None],
            hint="The right animal leads, in a table of one row. But all the others "
            "are in the mixture too: is a lead of 1 cold enough?",
            more="Take row 0. And section 3: which number makes a softmax cold?",
        ),
    ),
    hint=(
        "Three lines: what asks, what is compared with it, what comes back.",
        "The query comes from the color, the keys from the colors, the values from the "
        "animals, each of them one-hot.",
        "Equal one-hot vectors have a score of 1, different ones 0: that is warm. "
        "What made a softmax cold in section 3? Make the query long.",
    ),
    tolerance=0.01,
)


EXERCISES = (COSINE, LOOK_UP)
