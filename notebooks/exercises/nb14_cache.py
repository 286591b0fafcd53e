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
    key: Float[Tensor, "b g 1 d"],
    value: Float[Tensor, "b g 1 d"],
    keys: Float[Tensor, "b g t d"],
    values: Float[Tensor, "b g t d"],
    cos: Float[Tensor, "max d"],
    sin: Float[Tensor, "max d"],
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one new token, at position t, with t kept positions and itself.

    The kept keys are turned already. Keys and values are kept for the next token.
    """
    here = slice(keys.shape[-2], keys.shape[-2] + 1)
    query, key = (rotate(one, cos[here], sin[here]) for one in (query, key))
    keys = torch.cat([keys, key], dim=-2)
    values = torch.cat([values, value], dim=-2)
    size = query.shape[1] // keys.shape[1]  # heads that share a key
    shared = (kept.repeat_interleave(size, 1) for kept in (keys, values))
    return attend(query, *shared), keys, values


def _cases(generator):
    """Five kept positions, none at all, three; then two heads share each key."""

    def normal(*shape):
        made = torch.randn(shape, generator=generator)
        return made.to(torch.get_default_dtype())

    table = rotary_table(11, 8, base=30.0)
    cases = []
    for b, h, g, t in ((2, 3, 3, 5), (2, 3, 3, 0), (1, 2, 2, 3), (2, 4, 2, 3)):
        new = [normal(b, heads, 1, 8) for heads in (h, g, g)]
        cases.append((*new, normal(b, g, t, 8), normal(b, g, t, 8), *table))
    return cases


def _looking(query, keys, values):
    """The context, where heads may share a key and a value."""
    size = query.shape[1] // keys.shape[1]
    return attend(query, *(kept.repeat_interleave(size, 1) for kept in (keys, values)))


def _at(place, given):
    """The right step, as if `place` were the new token's position."""
    q, k, v, keys, values, cos, sin = given
    q, k = (rotate(one, cos[place, None], sin[place, None]) for one in (q, k))
    return _joined(q, k, v, keys, values)


def _joined(q, k, v, keys, values, *_):
    """Everything but the rotation."""
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    return _looking(q, keys, values), keys, values


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
    return _looking(q, keys, values), keys, values


def _values_too(q, k, v, keys, values, cos, sin):
    turned = (rotate(one, *_here(keys, cos, sin)) for one in (q, k, v))
    return _joined(*turned, keys, values)


def _in_front(q, k, v, keys, values, cos, sin):
    q, k = (rotate(one, *_here(keys, cos, sin)) for one in (q, k))
    keys, values = torch.cat([k, keys], -2), torch.cat([values, v], -2)
    return _looking(q, keys, values), keys, values


def _both_in_front(*given):
    context, keys, values = cached_step(*given)
    return context, keys.roll(1, dims=-2), values.roll(1, dims=-2)


def _not_itself(q, k, v, keys, values, cos, sin):
    _, new_keys, new_values = cached_step(q, k, v, keys, values, cos, sin)
    q = rotate(q, *_here(keys, cos, sin))
    return _looking(q, keys, values), new_keys, new_values


def _row_before(q, k, v, keys, values, cos, sin):
    """By a slice, which is empty where nothing is kept."""
    here = slice(keys.shape[-2] - 1, keys.shape[-2])
    q, k = (rotate(one, cos[here], sin[here]) for one in (q, k))
    keys, values = torch.cat([keys, k], -2), torch.cat([values, v], -2)
    return (
        F.scaled_dot_product_attention(q, keys, values, enable_gqa=True),
        keys,
        values,
    )


def _alone(q, k, v, keys, values, cos, sin):
    return _at(keys.shape[-2], (q, k, v, keys[:, :, :0], values[:, :, :0], cos, sin))


def _first_key_only(*given):
    _, keys, values = cached_step(*given)
    size = given[0].shape[1] // values.shape[1]
    return values[:, :, :1].repeat_interleave(size, dim=1), keys, values


def _kept_for_each_head(*given):
    context, keys, values = cached_step(*given)
    size = given[0].shape[1] // keys.shape[1]
    return context, *(kept.repeat_interleave(size, dim=1) for kept in (keys, values))


def _shared_in_turn(q, k, v, keys, values, cos, sin):
    _, keys, values = cached_step(q, k, v, keys, values, cos, sin)
    times = q.shape[1] // keys.shape[1]
    q = rotate(q, *(table[keys.shape[-2] - 1, None] for table in (cos, sin)))
    return attend(q, *(x.repeat(1, times, 1, 1) for x in (keys, values))), keys, values


CACHE = Exercise(
    name="generation.cache",
    statement="Gives context “b h 1 d”, keys and values “b g (t + 1) d” from one "
    "token's query, key, value and t kept keys and values, g heads of them: h / g "
    "query heads in a row share one. A position is computed once, for good.",
    takes=("query", "key", "value", "keys", "values", "cos", "sin"),
    reference=cached_step,
    cases=_cases,
    mistakes=(
        Mistake(
            name="turned as at position 0, or not at all",
            function=lambda *given: _at(0, given),
            hint="Row 0 of the tables turns nothing, and nothing is turned in your "
            "step. Which position is the new token at?",
            more="The cache knows how long the text is. Which axis of keys says so?",
        ),
        Mistake(
            name="one position too far",
            function=lambda *given: _at(given[3].shape[-2] + 1, given),
            hint="With t positions kept the next one is not t + 1.",
            more="Positions count from 0. Where does the very first token stand?",
        ),
        Mistake(
            name="one position too early",
            function=lambda *given: _at(given[3].shape[-2] - 1, given),
            hint="With t positions kept you turn by the row of the last one.",
            more="Positions count from 0, so t kept ones end at t − 1. Which one is "
            "free?",
        ),
        Mistake(
            name="one position too early, by a slice",
            function=_row_before,
            hint="Your slice of the tables ends before the new position, and is empty "
            "at the very beginning.",
            more="With t positions kept, the new one is number t. A slice includes its "
            "start.",
        ),
        Mistake(
            name="a causal mask that starts at the first key",
            function=_first_key_only,
            hint="Your query sees only the first key. `is_causal=True` lines the "
            "triangle up with key 0.",
            more="One new token may see all that is kept, and itself. What is there to "
            "hide?",
        ),
        Mistake(
            name="the new key is not turned",
            function=_key_as_it_comes,
            hint="The query knows where it stands, the new key does not.",
            more="A score depends on the distance only if *both* are turned.",
        ),
        Mistake(
            name="the new query is not turned",
            function=_query_as_it_comes,
            hint="The new key knows where it stands, the query does not.",
            more="Both are new, and both stand at the same position.",
        ),
        Mistake(
            name="turned by the last row of the tables",
            function=lambda *given: _at(len(given[5]) - 1, given),
            hint="The tables are longer than the text. You take their last row.",
            more="Which row is that of the new token, if t tokens are kept?",
        ),
        Mistake(
            name="no scale",
            function=_unscaled,
            hint="What you keep is right. One division is missing between the scores "
            "and the softmax.",
            more="`attend` of the package does it. By hand: divide by the root of d.",
        ),
        Mistake(
            name="keys and values exchanged at the end",
            function=lambda *given: (
                cached_step(*given)[0],
                *cached_step(*given)[:0:-1],
            ),
            hint="The context is right. In which order do you return the other two?",
            more="Context, then keys, then values.",
        ),
        Mistake(
            name="the new key is kept as it came",
            function=_key_stored_unrotated,
            hint="The context is right. The next token will meet a key that is not "
            "turned.",
            more="Keep the keys that you have attended with.",
        ),
        Mistake(
            name="old keys are turned again",
            function=_turned_again,
            hint="The kept keys were turned when they came. You turn them a little "
            "further with each token.",
            more="Turn first, then append: only what is new needs turning.",
        ),
        Mistake(
            name="values are turned too",
            function=_values_too,
            hint="Positions decide where to look. Should they change what is fetched?",
            more="Values take no part in the scores. Leave them as they come.",
        ),
        Mistake(
            name="keys in front, values behind",
            function=_in_front,
            hint="Your new key stands in front and its value at the end: the shares go "
            "to the wrong words.",
            more="Key number i and value number i must belong to the same token.",
        ),
        Mistake(
            name="the new one is kept in front",
            function=_both_in_front,
            hint="The context is right: a sum does not mind the order. But what you "
            "keep runs backward.",
            more="The order of `cat` is the order of the text. Who came last?",
        ),
        Mistake(
            name="the new token does not see itself",
            function=_not_itself,
            hint="You ask only the old positions. The first token would have none to "
            "ask.",
            more="Append first, then attend.",
        ),
        Mistake(
            name="the old ones are dropped",
            function=_alone,
            hint="You return what is new and forget what was kept. The next token "
            "would be alone.",
            more="What was kept comes along, in the sum and in what you return.",
        ),
        Mistake(
            name="nothing is kept",
            function=lambda *given: (cached_step(*given)[0], *given[3:5]),
            hint="The context is right, but the next token will find the old cache.",
            more="Return the *longer* keys and values.",
        ),
        Mistake(
            name="kept once for each query head",
            function=_kept_for_each_head,
            hint="The context is right. You keep the copies, too, and the cache is as "
            "large as without shared keys.",
            more="Append first, then repeat for the scores alone.",
        ),
        Mistake(
            name="keys are dealt out in turn",
            function=_shared_in_turn,
            hint="What you keep is right. Your query heads 0 and 1 read different "
            "keys, and they should share one.",
            more="`repeat` gives 0, 1, 0, 1. Which function gives 0, 0, 1, 1?",
        ),
        Mistake(
            name="values are not kept",
            function=lambda *given: (*cached_step(*given)[:2], given[4]),
            hint="Keys grow, values do not: at the next token there are more keys than "
            "values.",
            more="Whatever happens to the keys' length happens to the values' length.",
        ),
    ),
    hint=(
        "Which argument tells at which position the new token stands?",
        "Five lines: which position is it, turn query and key, append key and value, "
        "repeat them for the query heads, attend without a mask.",
    ),
)


# --- what it saves -----------------------------------------------------------------


def keys_computed(tokens: int = 150) -> tuple[int, int]:
    """Key vectors of one head: without a cache and with it, from one id on."""
    return sum(range(1, tokens + 1)), tokens


COMPUTED = Exercise(
    name="generation.computed",
    statement="Wants two numbers: the key vectors that one head computes while 150 "
    "tokens are written after a lone eos, without a cache and with it. This is what "
    "you pay for.",
    takes=(),
    reference=keys_computed,
    cases=lambda generator: [()],
    mistakes=(
        Mistake(
            name="a square, not a triangle",
            function=lambda: (150 * 150, 150),
            hint="You read 150 ids for each token. How many are there when the first "
            "is written?",
            more="The text grows by one id per token: 1, then 2, then 3. Add up.",
        ),
        Mistake(
            name="as if nothing were read twice",
            function=lambda: (150, 150),
            hint="Without a cache nothing is kept. How many ids does the second call "
            "read?",
            more="The text grows by one id per token, and each call reads all of it.",
        ),
        Mistake(
            name="one call with the cache, not all",
            function=lambda: (sum(range(1, 151)), 1),
            hint="That is one call with the cache. There are more.",
            more="Each of the calls feeds one id.",
        ),
        Mistake(
            name="the wrong way around",
            function=lambda: (150, sum(range(1, 151))),
            hint="First without, then with a cache. Does a cache make more work?",
            more="Which of the two remembers what it has computed?",
        ),
        Mistake(
            name="eos is forgotten",
            function=lambda: (sum(range(150)), 149),
            hint="You begin with a call that reads nothing.",
            more="Before the first token is written there is one id: eos.",
        ),
        Mistake(
            name="the first call reads nothing",
            function=lambda: (sum(range(150)), 150),
            hint="Your calls without a cache read 0, 1, 2, … ids. What does the first "
            "one predict from?",
            more="Before the first token is written there is one id: eos.",
        ),
        Mistake(
            name="the last token is read as well",
            function=lambda: (sum(range(1, 152)), 151),
            hint="In the end there are 151 ids. Who asks what follows the last one?",
            more="There are as many calls as written tokens. What does the last call "
            "read?",
        ),
    ),
    hint=(
        "Write down for the first three tokens how many ids each call reads.",
        "Without a cache each call reads the whole text so far: add up 1, 2, 3, …",
    ),
    predicts=True,
)


EXERCISES = (CACHE, COMPUTED)
