"""Exercises of notebook 12: keys that are lent, their cache.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import torch
from einops import repeat
from jaxtyping import Float
from torch import Tensor

from named_mistakes import Exercise, Mistake


def repeat_keys(
    keys: Float[Tensor, "b g k d"], num_heads: int
) -> Float[Tensor, "b h k d"]:
    """Lend each set of keys to the neighboring heads of its group."""
    share = num_heads // keys.shape[1]
    return repeat(keys, "b g k d -> b (g share) k d", share=share)


def _sets(generator):
    shapes = ((2, 2, 5, 3), 6), ((1, 4, 3, 2), 4), ((3, 1, 7, 2), 5)
    kind = torch.get_default_dtype()
    return [
        (torch.randn(shape, generator=generator, dtype=kind), heads)
        for shape, heads in shapes
    ]


def _every(keys, heads):
    return keys.expand(-1, heads, -1, -1)


LEND = Exercise(
    name="llama.repeat_keys",
    statement="Gives “b h k d” from keys “b g k d”: neighboring query heads form a "
    "group and share a key-value head. In another order, loaded weights are silently "
    "wrong.",
    takes=("keys", "num_heads"),
    reference=repeat_keys,
    cases=_sets,
    mistakes=(
        Mistake(
            name="dealt in turn",
            function=lambda keys, heads: keys.repeat(1, heads // keys.shape[1], 1, 1),
            hint="The shape is right. Heads 0 and 1 read different sets, like cards "
            "dealt.",
            more="“(g share)”: the set varies slowly, its copies fast. `repeat` lines "
            "up whole copies of all sets; which method repeats each set in place?",
        ),
        Mistake(
            name="positions repeated",
            function=lambda keys, heads: keys.repeat_interleave(
                heads // keys.shape[1], 2
            ),
            hint="Your text got longer: each word appears several times.",
            more="Which axis holds the sets?",
        ),
        Mistake(
            name="positions repeated, then folded into heads",
            function=lambda keys, heads: keys.repeat_interleave(
                heads // keys.shape[1], 2
            ).reshape(len(keys), heads, *keys.shape[2:]),
            hint="The shape is right. But within each of your heads, a word appears "
            "several times.",
            more="Repeat the sets, not the positions. Which axis holds the sets?",
        ),
        Mistake(
            name="too many copies of each",
            function=lambda keys, heads: keys.repeat_interleave(heads, 1),
            hint="Each set was lent to num_heads heads. How many are in a group?",
            more="All groups together have num_heads heads.",
        ),
        Mistake(
            name="as many copies as there are sets",
            function=lambda keys, heads: keys.repeat_interleave(keys.shape[1], 1),
            hint="You copy each set as often as there are sets. How many heads share "
            "one?",
            more="There are num_heads copies in all: divide.",
        ),
        Mistake(
            name="all read the first set",
            function=lambda keys, heads: _every(keys[:, :1], heads),
            hint="Right for a single set. Here the others are never read.",
            more="Head h reads set number h divided by the size of a group, rounded "
            "down.",
        ),
        Mistake(
            name="all read the average",
            function=lambda keys, heads: _every(keys.mean(1, keepdim=True), heads),
            hint="Nothing should be mixed: a set is lent as it is.",
            more="Every number in the result is already in keys.",
        ),
    ),
    hint="How many heads share a set? Then repeat every set that many times, copies "
    "side by side.",
    trains=True,
)


def cache_of_a_token() -> int:
    """Bytes: a key and a value, per layer, per set, at 4 bytes a number."""
    layers, sets, head_dim = 16, 6, 64
    return 2 * layers * sets * head_dim * 4


CACHE = Exercise(
    name="llama.cache",
    statement="Wants the bytes of KV cache per token: 16 layers, 24 query heads of "
    "width 64, 6 key-value heads, 4 bytes per number. It bounds how long a text may "
    "get.",
    takes=(),
    reference=cache_of_a_token,
    cases=lambda generator: [()],
    mistakes=(
        Mistake(
            name="a set for each head",
            function=lambda: 2 * 16 * 24 * 64 * 4,
            hint="That is the cache without groups. What does a group of heads share?",
            more="Only sets are stored. Queries are asked once and forgotten.",
        ),
        Mistake(
            name="the heads of a group",
            function=lambda: 2 * 16 * 4 * 64 * 4,
            hint="Four heads share a set. How many sets are there?",
            more="It is one of the sizes that the statement gives.",
        ),
        Mistake(
            name="keys alone",
            function=lambda: 16 * 6 * 64 * 4,
            hint="That is half of it. What is stored besides the keys?",
            more="Which letter of Q, K, V is still missing?",
        ),
        Mistake(
            name="numbers, not bytes",
            function=lambda: 2 * 16 * 6 * 64,
            hint="You have counted numbers. How many bytes does each take?",
            more="The last of the sizes given is still unused.",
        ),
        Mistake(
            name="one layer",
            function=lambda: 2 * 6 * 64 * 4,
            hint="Right for one layer. Does the next one read the same keys?",
            more="Every layer has keys and values of its own.",
        ),
    ),
    hint="The equation of this section has five factors. One of the given sizes is not "
    "among them.",
    predicts=True,
)


EXERCISES = (LEND, CACHE)
