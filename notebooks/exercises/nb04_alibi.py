"""An exercise of notebook 04: ALiBi, a penalty for each step of distance.

Knows the shared function. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from course_utils.positions import alibi_bias
from named_mistakes import Exercise, Mistake


def _rates(num_heads):
    heads = torch.arange(1, num_heads + 1, dtype=torch.get_default_dtype())
    return 2.0 ** (-8.0 * heads / num_heads)


def _ahead(query_length, key_length):
    """How far a key stands to the right of a query, "q k"."""
    queries = torch.arange(query_length) + key_length - query_length
    return torch.arange(key_length) - queries[:, None]


def _bias(rates, distance):
    return -rates[:, None, None] * distance


def alibi(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """Minus the slope of a head times |q - k|, "h q k"; queries stand at the end."""
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    distances = (queries[:, None] - torch.arange(key_length)).abs()
    return -rates[:, None, None] * distances


ALIBI = Exercise(
    name="positions.alibi",
    statement="Gives the bias “h q k”: minus the slope of the head times |q − k|. "
    "Queries are the last query_length of the key_length positions, as when a model "
    "writes.",
    takes=("num_heads", "query_length", "key_length"),
    reference=alibi,
    cases=lambda generator: [
        *[(3, 5, 5), (4, 2, 7), (6, 1, 3), (3, 2, 5)],
        *[(4, 5, 5), (3, 2, 7)],  # two of three are as before
    ],
    mistakes=(
        Mistake(
            name="a reward for distance",
            function=lambda h, q, k: -alibi_bias(h, q, k),
            hint="Far keys win here. A penalty makes a score smaller.",
            more="No entry of the bias is above 0.",
        ),
        Mistake(
            name="the slopes begin with 1",
            function=lambda h, q, k: _bias(
                2 ** (8 / h) * _rates(h), _ahead(q, k).abs()
            ),
            hint="Every slope is one step too steep. The last head should have 1/256.",
            more="In the exponent the first head counts as 1, not as 0.",
        ),
        Mistake(
            name="one slope for all heads",
            function=lambda h, q, k: alibi_bias(h, q, k)[:1].expand(h, -1, -1),
            hint="All heads look equally far. Then why have several?",
            more="A slope for each head: a vector “h”, and two more axes for q and k.",
        ),
        Mistake(
            name="slopes that do not know how many heads there are",
            function=lambda h, q, k: _bias(_rates(8).repeat(h)[:h], _ahead(q, k).abs()),
            hint="1/2, 1/4, 1/8, … is right for eight heads. Here there are not eight.",
            more="The last of H heads has 1/256, whatever H is.",
        ),
        Mistake(
            name="queries are counted from 0",
            function=lambda h, q, k: alibi_bias(h, k, k)[:, :q],
            hint="Right where there are as many queries as keys. Otherwise your "
            "queries stand at the beginning.",
            more="Seven keys, two queries: the queries are at positions 5 and 6.",
        ),
        Mistake(
            name="the future gets a reward",
            function=lambda h, q, k: _bias(_rates(h), -_ahead(q, k)),
            hint="The past is right. To the right of the query your bias is above 0, "
            "which a causal mask would hide.",
            more="A distance has no sign.",
        ),
        Mistake(
            name="the mask is in it",
            function=lambda h, q, k: alibi_bias(h, q, k).masked_fill(
                _ahead(q, k) > 0, -torch.inf
            ),
            hint="The biases are right. Hiding is the mask's work, and an encoder has "
            "no causal mask.",
            more="Keep the two apart: a key to the right costs as much as one to the "
            "left.",
        ),
        Mistake(
            name="the queries stand one position too early",
            function=lambda h, q, k: _bias(_rates(h), (_ahead(q, k) + 1).abs()),
            hint="In your version a word is one step away from itself. Which position "
            "does the last query have?",
            more="Seven keys, two queries: the queries are at positions 5 and 6.",
        ),
        Mistake(
            name="keys ahead cost nothing",
            function=lambda h, q, k: _bias(_rates(h), -_ahead(q, k).clamp(max=0)),
            hint="To the right of the query your bias is 0 everywhere. How far away is "
            "a key two steps ahead?",
            more="|q − k| counts steps in both directions.",
        ),
        Mistake(
            name="the queries stand one position too late",
            function=lambda h, q, k: _bias(_rates(h), (_ahead(q, k) - 1).abs()),
            hint="In your version the last query comes after the last key. Which "
            "position should it have?",
            more="Seven keys, two queries: the queries are at positions 5 and 6.",
        ),
        Mistake(
            name="the slopes grow from head to head",
            function=lambda h, q, k: alibi_bias(h, q, k).flip(0),
            hint="All slopes are there, but in reverse order. Which head should be the "
            "steepest?",
            more="The exponent of head h is −8(h + 1)/H. Does it grow or fall with h?",
        ),
        Mistake(
            name="the exponent is not divided by the number of heads",
            function=lambda h, q, k: _bias(_rates(h) ** h, _ahead(q, k).abs()),
            hint="The first head already has the slope 1/256, and the others have next "
            "to none.",
            more="The last of H heads has 1/256. What is the denominator of the "
            "exponent?",
        ),
        Mistake(
            name="the distance is squared",
            function=lambda h, q, k: _bias(_rates(h), _ahead(q, k).square()),
            hint="Neighbors are right. A key two steps away should cost twice as much "
            "as a neighbor. What does it cost here?",
            more="Which function removes a sign and changes nothing else?",
        ),
    ),
    hint=(
        "First the slopes “h”: they fall by the same factor from head to head, down to "
        "1/256.",
        "Then the distances “q k”; the queries are the last of the key positions.",
        "Their product “h q k” needs two new axes for the slopes, and a sign.",
    ),
    shared=alibi_bias,
)


EXERCISES = (ALIBI,)
