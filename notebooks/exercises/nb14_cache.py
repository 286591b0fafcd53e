"""Exercises of notebook 14: one step with a cache, and what it saves.

Knows the shared attention and rotation. Knows nothing of how an answer is run or shown.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from course_utils.attention import attend
from course_utils.positions import rotary_table, rotate
from named_mistakes import Exercise, Mistake


def cached_step(
    query: Float[Tensor, "b h 1 d"],
    key: Float[Tensor, "b h 1 d"],
    value: Float[Tensor, "b h 1 d"],
    keys: Float[Tensor, "b h t d"],
    values: Float[Tensor, "b h t d"],
    cos: Float[Tensor, "max d"],
    sin: Float[Tensor, "max d"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one new token, at position t, with t kept positions and itself.

    The kept keys are turned already; the new query and key are not. Returns the
    context "b h 1 d", and keys and values "b h (t + 1) d" for the next token.
    """
    here = slice(keys.shape[-2], keys.shape[-2] + 1)
    query, key = (rotate(one, cos[here], sin[here]) for one in (query, key))
    keys = torch.cat([keys, key], dim=-2)
    values = torch.cat([values, value], dim=-2)
    return attend(query, keys, values), keys, values


def _cases(generator):
    """Five kept positions, then none at all, then two."""

    def normal(*shape):
        made = torch.randn(shape, generator=generator)
        return made.to(torch.get_default_dtype())

    table = rotary_table(11, 8, base=30.0)
    cases = []
    for b, h, t in ((2, 3, 5), (2, 3, 0), (1, 2, 3)):
        new = [normal(b, h, 1, 8) for _ in range(3)]
        cases.append((*new, normal(b, h, t, 8), normal(b, h, t, 8), *table))
    return cases


def _at(place, given):
    """The right step, as if `place` were the new token's position."""
    q, k, v, keys, values, cos, sin = given
    q, k = (rotate(one, cos[place, None], sin[place, None]) for one in (q, k))
    return _joined(q, k, v, keys, values)


def _joined(q, k, v, keys, values, *_):
    """Everything but the rotation."""
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    return attend(q, keys, values), keys, values


def _here(keys, cos, sin):
    at = keys.shape[-2]
    return cos[at, None], sin[at, None]


def _key_as_it_comes(q, k, v, keys, values, cos, sin):
    return _joined(rotate(q, *_here(keys, cos, sin)), k, v, keys, values)


def _query_as_it_comes(q, k, v, keys, values, cos, sin):
    return _joined(q, rotate(k, *_here(keys, cos, sin)), v, keys, values)


def _unscaled(q, *rest):
    return cached_step(q * q.shape[-1] ** 0.5, *rest)


def _key_stored_unrotated(*given):
    """The right context; the new key is kept without its turn."""
    context, _, values = cached_step(*given)
    return context, torch.cat([given[3], given[1]], -2), values


def _turned_again(q, k, v, keys, values, cos, sin):
    length = keys.shape[-2] + 1
    q = rotate(q, *_here(keys, cos, sin))
    keys = rotate(torch.cat([keys, k], -2), cos[:length], sin[:length])
    values = torch.cat([values, v], -2)
    return attend(q, keys, values), keys, values


def _values_too(q, k, v, keys, values, cos, sin):
    turned = (rotate(one, *_here(keys, cos, sin)) for one in (q, k, v))
    return _joined(*turned, keys, values)


def _in_front(q, k, v, keys, values, cos, sin):
    q, k = (rotate(one, *_here(keys, cos, sin)) for one in (q, k))
    keys, values = torch.cat([k, keys], -2), torch.cat([values, v], -2)
    return attend(q, keys, values), keys, values


def _both_in_front(*given):
    context, keys, values = cached_step(*given)
    return context, keys.roll(1, dims=-2), values.roll(1, dims=-2)


def _not_itself(q, k, v, keys, values, cos, sin):
    _, new_keys, new_values = cached_step(q, k, v, keys, values, cos, sin)
    q = rotate(q, *_here(keys, cos, sin))
    return attend(q, keys, values), new_keys, new_values


def _row_before(q, k, v, keys, values, cos, sin):
    """By a slice, which is empty where nothing is kept."""
    here = slice(keys.shape[-2] - 1, keys.shape[-2])
    q, k = (rotate(one, cos[here], sin[here]) for one in (q, k))
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    return F.scaled_dot_product_attention(q, keys, values), keys, values


def _alone(q, k, v, keys, values, cos, sin):
    return _at(keys.shape[-2], (q, k, v, keys[:, :, :0], values[:, :, :0], cos, sin))


def _first_key_only(*given):
    _, keys, values = cached_step(*given)
    return values[:, :, :1].clone(), keys, values


CACHE = Exercise(
    "generation.cache",
    "Gives context “b h 1 d”, keys and values “b h (t + 1) d” from one token's query, "
    "key, value and t kept keys and values: a position is computed once, for good.",
    ("query", "key", "value", "keys", "values", "cos", "sin"),
    cached_step,
    _cases,
    (
        Mistake(
            "turned as at position 0, or not at all",
            lambda *given: _at(0, given),
            "Row 0 of the tables turns nothing, and nothing is turned in your step. "
            "Which position is the new token at?",
            "The cache knows how long the text is. Which axis of keys says so?",
        ),
        Mistake(
            "one position too far",
            lambda *given: _at(given[3].shape[-2] + 1, given),
            "With t positions kept the next one is not t + 1.",
            "Positions count from 0. Where does the very first token stand?",
        ),
        Mistake(
            "one position too early",
            lambda *given: _at(given[3].shape[-2] - 1, given),
            "With t positions kept you turn by the row of the last one.",
            "Positions count from 0, so t kept ones end at t − 1. Which one is free?",
        ),
        Mistake(
            "one position too early, by a slice",
            _row_before,
            "Your slice of the tables ends before the new position, and is empty at "
            "the very beginning.",
            "With t positions kept, the new one is number t. A slice includes its "
            "start.",
        ),
        Mistake(
            "a causal mask that starts at the first key",
            _first_key_only,
            "Your query sees only the first key. `is_causal=True` lines the triangle "
            "up with key 0.",
            "One new token may see all that is kept, and itself. What is there to "
            "hide?",
        ),
        Mistake(
            "the new key is not turned",
            _key_as_it_comes,
            "The query knows where it stands, the new key does not.",
            "A score depends on the distance only if *both* are turned.",
        ),
        Mistake(
            "the new query is not turned",
            _query_as_it_comes,
            "The new key knows where it stands, the query does not.",
            "Both are new, and both stand at the same position.",
        ),
        Mistake(
            "turned by the last row of the tables",
            lambda *given: _at(len(given[5]) - 1, given),
            "The tables are longer than the text. You take their last row.",
            "Which row is that of the new token, if t tokens are kept?",
        ),
        Mistake(
            "no scale",
            _unscaled,
            "What you keep is right. One division is missing between the scores and "
            "the softmax.",
            "`attend` of the package does it. By hand: divide by the root of d.",
        ),
        Mistake(
            "keys and values exchanged at the end",
            lambda *given: (cached_step(*given)[0], *cached_step(*given)[:0:-1]),
            "The context is right. In which order do you return the other two?",
            "Context, then keys, then values.",
        ),
        Mistake(
            "the new key is kept as it came",
            _key_stored_unrotated,
            "The context is right. The next token will meet a key that is not turned.",
            "Keep the keys that you have attended with.",
        ),
        Mistake(
            "old keys are turned again",
            _turned_again,
            "The kept keys were turned when they came. You turn them a little further "
            "with each token.",
            "Turn first, then append: only what is new needs turning.",
        ),
        Mistake(
            "values are turned too",
            _values_too,
            "Positions decide where to look. Should they change what is fetched?",
            "Values take no part in the scores. Leave them as they come.",
        ),
        Mistake(
            "keys in front, values behind",
            _in_front,
            "Your new key stands in front and its value at the end: the shares go to "
            "the wrong words.",
            "Key number i and value number i must belong to the same token.",
        ),
        Mistake(
            "the new one is kept in front",
            _both_in_front,
            "The context is right: a sum does not mind the order. But what you keep "
            "runs backward.",
            "The order of `cat` is the order of the text. Who came last?",
        ),
        Mistake(
            "the new token does not see itself",
            _not_itself,
            "You ask only the old positions. The first token would have none to ask.",
            "Append first, then attend.",
        ),
        Mistake(
            "the old ones are dropped",
            _alone,
            "You return what is new and forget what was kept. The next token would be "
            "alone.",
            "What was kept comes along, in the sum and in what you return.",
        ),
        Mistake(
            "nothing is kept",
            lambda *given: (cached_step(*given)[0], *given[3:5]),
            "The context is right, but the next token will find the old cache.",
            "Return the *longer* keys and values.",
        ),
        Mistake(
            "values are not kept",
            lambda *given: (*cached_step(*given)[:2], given[4]),
            "Keys grow, values do not: at the next token there are more keys than "
            "values.",
            "Whatever happens to the keys' length happens to the values' length.",
        ),
    ),
    "Four lines: which position is it, turn query and key, append key and value, "
    "attend without a mask.",
)


# --- what it saves -----------------------------------------------------------------


def keys_computed(tokens: int = 150) -> tuple[int, int]:
    """Key vectors of one head: without a cache and with it, from one id on."""
    return sum(range(1, tokens + 1)), tokens


COMPUTED = Exercise(
    "generation.computed",
    "Wants two numbers: the key vectors that one head computes while 150 tokens are "
    "written after a lone eos, without a cache and with it. This is what you pay for.",
    (),
    keys_computed,
    lambda generator: [()],
    (
        Mistake(
            "a square, not a triangle",
            lambda: (150 * 150, 150),
            "You read 150 ids for each token. How many are there when the first is "
            "written?",
            "The text grows by one id per token: 1, then 2, then 3. Add up.",
        ),
        Mistake(
            "as if nothing were read twice",
            lambda: (150, 150),
            "Without a cache nothing is kept. How many ids does the second call read?",
            "The text grows by one id per token, and each call reads all of it.",
        ),
        Mistake(
            "one call with the cache, not all",
            lambda: (sum(range(1, 151)), 1),
            "That is one call with the cache. There are more.",
            "Each of the calls feeds one id.",
        ),
        Mistake(
            "the wrong way around",
            lambda: (150, sum(range(1, 151))),
            "First without, then with a cache. Does a cache make more work?",
            "Which of the two remembers what it has computed?",
        ),
        Mistake(
            "eos is forgotten",
            lambda: (sum(range(150)), 149),
            "You begin with a call that reads nothing.",
            "Before the first token is written there is one id: eos.",
        ),
        Mistake(
            "the first call reads nothing",
            lambda: (sum(range(150)), 150),
            "Your calls without a cache read 0, 1, 2, … ids. What does the first one "
            "predict from?",
            "Before the first token is written there is one id: eos.",
        ),
        Mistake(
            "the last token is read as well",
            lambda: (sum(range(1, 152)), 151),
            "In the end there are 151 ids. Who asks what follows the last one?",
            "There are as many calls as written tokens. What does the last call read?",
        ),
    ),
    "Write down for the first three tokens how many ids each call reads.",
    predicts=True,
)


EXERCISES = (CACHE, COMPUTED)
