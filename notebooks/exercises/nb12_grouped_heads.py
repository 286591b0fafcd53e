"""Exercises of notebook 12: keys that are lent, their cache, a verdict on seeds.

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


def same_sign(ours: Tensor, others: Tensor) -> bool:
    """Whether all paired differences point the same way."""
    return bool((ours < others).all() or (ours > others).all())


PAIRS = (
    ([1.0, 2.0, 3.0, 4.0, 5.0], [1.2, 2.2, 3.2, 4.2, 5.2]),  # lower, not apart
    ([1.3, 2.3, 3.3, 4.3], [1.0, 2.0, 3.0, 4.0]),  # higher, not apart
    ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),  # apart
    ([1.0, 2.0, 3.0, 4.0, 9.0], [2.0, 3.0, 4.0, 5.0, 8.0]),  # four of five
    ([1.0, 4.0, 2.0, 3.0], [3.5, 2.5, 4.5, 1.5]),  # lower only when sorted
    ([1.0, 2.0, 3.0, 4.0], [1.0, 2.2, 3.2, 4.2]),  # lower, but for a tie
    ([1.4, 2.3, 3.0, 4.2], [1.1, 2.1, 3.0, 4.1]),  # higher, but for a tie
    ([1.5, 2.5, 3.5], [1.5, 2.5, 3.5]),  # nothing but ties
)


def _losses(generator):
    cases = []
    for pair in PAIRS:
        order = torch.randperm(len(pair[0]), generator=generator)
        both = torch.tensor(pair, dtype=torch.get_default_dtype())[:, order]
        cases.append(tuple(both + torch.rand(1, generator=generator).to(both)))
    return cases


def _nowhere_or_everywhere(test):
    """A rule that takes "nowhere" for the other direction."""
    return lambda ours, others: bool(
        test(ours, others).all() or not test(ours, others).any()
    )


def _either(test):
    """A rule that asks in both directions."""
    return lambda ours, others: bool(test(ours, others) or test(others, ours))


SIGN = Exercise(
    name="llama.same_sign",
    statement="Gives True if the losses ours and others, one per seed, differ in the "
    "same direction for every seed. Pairs take the luck out that both runs shared.",
    takes=("ours", "others"),
    reference=same_sign,
    cases=_losses,
    mistakes=(
        Mistake(
            name="only lower counts",
            function=lambda ours, others: bool((ours < others).all()),
            hint="A change that hurts every seed is a verdict as well.",
            more="There are two directions. You ask about one.",
        ),
        Mistake(
            name="only higher counts",
            function=lambda ours, others: bool((ours > others).all()),
            hint="A change that helps every seed is a verdict as well.",
            more="There are two directions. You ask about one of them.",
        ),
        Mistake(
            name="no pairs",
            function=_either(lambda a, b: a.max() < b.min()),
            hint="You compare every loss with every other: all seeds in one heap.",
            more="Compare seed 0 with seed 0, seed 1 with seed 1.",
        ),
        Mistake(
            name="one is enough",
            function=_either(lambda a, b: (a < b).any()),
            hint="This is True for nearly any two models. For *how many* seeds should "
            "the sign agree?",
            more="any or all?",
        ),
        Mistake(
            name="the majority decides",
            function=_either(lambda a, b: 2 * (a < b).sum() > len(a)),
            hint="Four of five is not every seed.",
            more="A single seed that points the other way is enough for False.",
        ),
        Mistake(
            name="a tie counts",
            function=_either(lambda a, b: (a <= b).all()),
            hint="Two equal losses show no difference, in either direction.",
            more="Should a difference of 0 agree with every sign?",
        ),
        Mistake(
            name="a tie counts as lower",
            function=_nowhere_or_everywhere(torch.gt),
            hint="You treat “nowhere higher” as “lower”. What else could it be?",
            more="Ask about both directions: is it lower everywhere?",
        ),
        Mistake(
            name="a tie counts as higher",
            function=_nowhere_or_everywhere(torch.lt),
            hint="You treat “nowhere lower” as “higher”. What else could it be?",
            more="Ask about both directions: is it higher everywhere?",
        ),
        Mistake(
            name="one sign for all, and 0 is taken for a sign",
            function=lambda ours, others: len((ours - others).sign().unique()) == 1,
            hint="Where no seed shows a difference, you find a single sign. In which "
            "direction does it point?",
            more="sign has three values. Which of them are directions?",
        ),
        Mistake(
            name="sorted first",
            function=_either(lambda a, b: (a.sort().values < b.sort().values).all()),
            hint="Once sorted, the losses no longer stand beside their partners.",
            more="Leave the order alone: place 3 of both belongs to seed 3.",
        ),
    ),
    hint="Two comparisons, one per direction, each of which must hold everywhere.",
)


EXERCISES = (LEND, CACHE, SIGN)
