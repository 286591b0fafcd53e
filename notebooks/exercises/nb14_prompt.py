"""Exercises of notebook 14: several rows that end apart, and a prompt read at once.

Knows the shared attention and decoding. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from course_utils.attention import attend
from course_utils.decoding import greedy
from named_mistakes import Exercise, Mistake

# --- several rows --------------------------------------------------------------------


def write_rows(
    step: Callable, ids: Tensor, most: int, stop_id: int, pad_id: int
) -> Tensor:
    """Greedy for each row up to its own stop_id; a row that has ended takes pads."""
    going = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(dim=-1)
        new[~going] = pad_id
        ids = torch.cat([ids, new[:, None]], dim=1)
        going = going & (new != stop_id)
        if not going.any():
            break
    return ids


def the_courses(
    step: Callable, ids: Tensor, most: int, stop_id: int, pad_id: int
) -> Tensor:
    """What `course_utils.decoding` gives."""
    return greedy(step, ids, most, stop_id, pad_id)


def _scripted(prompt, plan, noise):
    """A step that says plan[row, turn], whatever the noise of the other scores.

    It knows a row by its prompt, so it may be asked for some of the rows alone.
    """
    length, turns = prompt.shape[1], plan.shape[1]

    def step(ids):
        turn = ids.shape[1] - length
        if turn < 0:
            raise ValueError("step reads whole rows, from their first id on")
        if turn == turns:
            raise ValueError(f"step is called {turns + 1} times: what ends the loop?")
        begins = ids[:, None, :length] == prompt
        rows = begins.all(dim=2).long().argmax(dim=1)
        best = plan[rows, turn, None]
        return noise[rows, turn].scatter(1, best, 2.0)  # no draw could be sure of it

    return step


def _row_cases(generator):
    """Rows that end apart, one that never ends, one alone, and stops in the prompt.

    One row ends at once, and one prompt is a lone stop_id.
    """
    stop_id, pad_id, most = 2, 1, 8
    cases = []
    for ends, length in (((4, 2, 5), 3), ((3, None), 3), ((0, 2), 3), ((2,), 1)):
        rows = len(ends)
        plan = torch.randint(3, 11, (rows, most + 1), generator=generator)
        for row, end in enumerate(ends):
            if end is not None:
                plan[row, end] = stop_id
        noise = torch.rand(rows, most + 1, 11, generator=generator)
        noise = noise.to(torch.get_default_dtype())
        prompt = torch.randint(3, 11, (rows, length), generator=generator)
        prompt[:, -1] = torch.arange(3, 3 + rows)  # no two are equal
        prompt[:, 0] = stop_id
        step = _scripted(prompt, plan, noise)
        cases.append((step, prompt, most, stop_id, pad_id))
    return cases


def _rows(step, ids, most, going, ended, take):
    """The loop, with three choices: who starts, when to break, what a row takes."""
    for _ in range(most):
        new = step(ids).argmax(dim=-1)
        taken, going = take(new, going)
        ids = torch.cat([ids, taken[:, None]], dim=1)
        if ended(new, going):
            break
    return ids


def _everybody(ids):
    return torch.ones(len(ids), dtype=torch.bool)


def _all_at_once(step, ids, most, stop_id, pad_id):
    return _rows(
        step,
        ids,
        most,
        _everybody(ids),
        lambda new, going: (new == stop_id).all(),
        lambda new, going: (new, going),
    )


def _any_ends_all(step, ids, most, stop_id, pad_id):
    return _rows(
        step,
        ids,
        most,
        _everybody(ids),
        lambda new, going: (new == stop_id).any(),
        lambda new, going: (new, going),
    )


def _write_on(step, ids, most, stop_id, pad_id):
    return _rows(
        step,
        ids,
        most,
        _everybody(ids),
        lambda new, going: not going.any(),
        lambda new, going: (new, going & (new != stop_id)),
    )


def _wakes_up(step, ids, most, stop_id, pad_id):
    """An ended row is padded for one step, and then goes on."""
    never = _everybody(ids)
    ends = ~never
    for _ in range(most):
        new = step(ids).argmax(dim=-1).masked_fill(ends, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ends = new == stop_id
        never = never & ~ends
        if not never.any():
            break
    return ids


def _remembered_for_one_step(step, ids, most, stop_id, pad_id):
    """Which rows have ended is asked of the newest tokens alone."""

    def take(new, going):
        taken = new.masked_fill(~going, pad_id)
        return taken, taken != stop_id

    return _rows(
        step, ids, most, _everybody(ids), lambda new, going: not going.any(), take
    )


def _stop_is_padded(step, ids, most, stop_id, pad_id):
    def take(new, going):
        going = going & (new != stop_id)
        return new.masked_fill(~going, pad_id), going

    return _rows(
        step, ids, most, _everybody(ids), lambda new, going: not going.any(), take
    )


def _stops_for_pads(step, ids, most, stop_id, pad_id):
    return write_rows(step, ids, most, stop_id, stop_id)


def _prompt_counts(step, ids, most, stop_id, pad_id):
    going = ~(ids == stop_id).any(1)

    def take(new, going):
        return new.masked_fill(~going, pad_id), going & (new != stop_id)

    return _rows(step, ids, most, going, lambda new, going: not going.any(), take)


def _never_early(step, ids, most, stop_id, pad_id):
    def take(new, going):
        return new.masked_fill(~going, pad_id), going & (new != stop_id)

    return _rows(step, ids, most, _everybody(ids), lambda new, going: False, take)


def _full_row_counts(step, ids, most, stop_id, pad_id):
    for _ in range(most):
        ended = (ids == stop_id).any(dim=1)
        if ended.all():
            break
        new = step(ids).argmax(dim=-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
    return ids


def _pads_and_waits(step, ids, most, stop_id, pad_id):
    def take(new, going):
        return new.masked_fill(~going, pad_id), going & (new != stop_id)

    return _rows(
        step,
        ids,
        most,
        _everybody(ids),
        lambda new, going: (new == stop_id).all(),
        take,
    )


def _last_id_counts(step, ids, most, stop_id, pad_id):
    """As if a prompt that ends in stop_id had ended."""
    going = ids[:, -1] != stop_id

    def take(new, going):
        return new.masked_fill(~going, pad_id), going & (new != stop_id)

    if not going.any():
        return ids
    return _rows(step, ids, most, going, lambda new, going: not going.any(), take)


def _last_stop_is_dropped(step, ids, most, stop_id, pad_id):
    """The loop is left before the token is appended that ends the last row."""
    rows = write_rows(step, ids, most, stop_id, pad_id)
    written = rows[:, ids.shape[1] :]
    all_ended = (written == stop_id).any(dim=1).all()
    return rows[:, :-1] if all_ended else rows


ROWS = Exercise(
    name="generation.rows",
    statement="Gives “b n” for a prompt “b t”: the likeliest token, up to `most` "
    "times. A row keeps its stop_id, then takes pad_id; it ends when all rows have.",
    takes=("step", "ids", "most", "stop_id", "pad_id"),
    reference=write_rows,
    cases=_row_cases,
    mistakes=(
        Mistake(
            name="all rows must stop in the same step",
            function=_all_at_once,
            hint="Rows stop at different steps. You wait for one at which all of them "
            "stop.",
            more="Remember from step to step which rows still go on.",
        ),
        Mistake(
            name="the first row to stop ends all",
            function=_any_ends_all,
            hint="One row has ended, and the others are cut off in the middle.",
            more="Is one ended row a reason to leave the loop?",
        ),
        Mistake(
            name="ended rows write on",
            function=_write_on,
            hint="A row goes on after its stop_id with tokens of the next story.",
            more="What should be appended to a row that ended in an earlier step?",
        ),
        Mistake(
            name="an ended row wakes up",
            function=_wakes_up,
            hint="A row takes one pad_id after its stop_id, and then it keeps writing.",
            more="Once ended, a row stays so: look at more than its last token.",
        ),
        Mistake(
            name="an end is remembered for one step",
            function=_remembered_for_one_step,
            hint="Your truth values are made anew in each step, so an ended row takes "
            "one pad_id and keeps writing. What has to be kept from the step before?",
            more="Join what you knew with what is new. An ended row never goes on.",
        ),
        Mistake(
            name="the stop id becomes padding",
            function=_stop_is_padded,
            hint="No row shows its stop_id: you pad it away in the step that brings "
            "it.",
            more="Which comes first, appending the token or crossing out the row?",
        ),
        Mistake(
            name="filled up with stop_id",
            function=_stops_for_pads,
            hint="An ended row repeats stop_id. After the first one, it should take "
            "pad_id.",
            more="Two ids are given. Which of them is the filler?",
        ),
        Mistake(
            name="a stop id in the prompt counts",
            function=_prompt_counts,
            hint="Your rows end before they begin: their prompts start with that id.",
            more="Look at the new tokens alone.",
        ),
        Mistake(
            name="nothing is written",
            function=_full_row_counts,
            hint="Your rows end before they begin. These prompts hold a stop_id: does "
            "it count?",
            more="Only a *new* stop_id ends a row.",
        ),
        Mistake(
            name="a prompt that ends in stop_id counts",
            function=_last_id_counts,
            hint="A prompt may be a lone eos. Your row has ended before its first "
            "token.",
            more="Only a *new* stop_id ends a row: what does your loop know before it "
            "begins?",
        ),
        Mistake(
            name="the last stop_id is left out",
            function=_last_stop_is_dropped,
            hint="You leave the loop before the last stop_id is appended.",
            more="The order is: choose, append, then ask whether all have ended.",
        ),
        Mistake(
            name="`most` counts the prompt",
            function=lambda step, ids, most, *rest: write_rows(
                step, ids, most - ids.shape[1], *rest
            ),
            hint="The row that does not end is too short, by as many ids as the prompt "
            "has.",
            more="`most` is the number of *new* tokens.",
        ),
        Mistake(
            name="the prompt is left out",
            function=lambda step, ids, *rest: write_rows(step, ids, *rest)[
                :, ids.shape[1] :
            ],
            hint="What is written is right. The whole text begins with the prompt.",
            more="Give back all columns, the given ones in front.",
        ),
        Mistake(
            name="it always writes `most` tokens",
            function=_never_early,
            hint="All rows have ended, and you keep appending columns of padding.",
            more="When has every row ended?",
        ),
        Mistake(
            name="ended rows are padded, but all must stop in the same step",
            function=_pads_and_waits,
            hint="The padding is right. But rows stop at different steps, and you wait "
            "for one at which all of them stop.",
            more="You know which rows have ended. Leave the loop when all have, at "
            "whatever step.",
        ),
    ),
    hint=(
        "Keep one truth value per row: does it still go on?",
        "In each step: choose, replace what ended rows would take, append, update the "
        "truth values, leave the loop if none is left.",
    ),
    shared=the_courses,
)


# --- a prompt read at once -----------------------------------------------------------


def prefill(
    queries: Float[Tensor, "b h n d"],
    keys: Float[Tensor, "b h n d"],
    values: Float[Tensor, "b h n d"],
    old_keys: Float[Tensor, "b h t d"],
    old_values: Float[Tensor, "b h t d"],
) -> Float[Tensor, "b h n d"]:
    """Attention of n new positions behind t kept ones; each sees what is not later."""
    new, old = queries.shape[-2], old_keys.shape[-2]
    mask = torch.ones(new, old + new, dtype=torch.bool).tril(old)
    keys = torch.cat([old_keys, keys], dim=-2)
    values = torch.cat([old_values, values], dim=-2)
    return attend(queries, keys, values, mask)


def _chunks(generator):
    """Four behind five, four at the very beginning, one behind three."""
    cases = []
    for b, h, n, t in ((2, 3, 4, 5), (2, 3, 4, 0), (1, 2, 1, 3)):
        shapes = [(b, h, n, 8)] * 3 + [(b, h, t, 8)] * 2
        made = [torch.randn(shape, generator=generator) for shape in shapes]
        cases.append(tuple(x.to(torch.get_default_dtype()) for x in made))
    return cases


def _masked(given, shift):
    """The right keys and values, under a triangle of another place."""
    q, k, v, old_k, old_v = given
    k, v = torch.cat([old_k, k], -2), torch.cat([old_v, v], -2)
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(shift)
    return attend(q, k, v, mask)


def _hidden_by_infinity(q, k, v, old_k, old_v):
    """No token sees itself; one that sees none gets 0 / 0."""
    k, v = torch.cat([old_k, k], -2), torch.cat([old_v, v], -2)
    scores = q @ k.mT / q.shape[-1] ** 0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(old_k.shape[-2])
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def _behind(q, k, v, old_k, old_v):
    new = q.shape[-2]
    mask = torch.ones(new, new + old_k.shape[-2], dtype=torch.bool)
    mask = mask.tril(old_k.shape[-2])
    return attend(q, torch.cat([k, old_k], -2), torch.cat([v, old_v], -2), mask)


def _itself_and_the_cached(q, k, v, old_k, old_v):
    """New tokens that do not see each other."""
    new, old = q.shape[-2], old_k.shape[-2]
    cached, own = torch.ones(new, old), torch.eye(new)
    mask = torch.cat([cached, own], 1).bool()
    return attend(q, torch.cat([old_k, k], -2), torch.cat([old_v, v], -2), mask)


PREFILL = Exercise(
    name="generation.prefill",
    statement="Gives the context “b h n d” of n new tokens behind t kept ones: "
    "queries, keys and values “b h n d”, all turned already. This is how a prompt is "
    "read at once.",
    takes=("queries", "keys", "values", "old_keys", "old_values"),
    reference=prefill,
    cases=_chunks,
    mistakes=(
        Mistake(
            name="the triangle starts at the first key",
            function=lambda *given: _masked(given, 0),
            hint="Your first new token sees only key 0. `is_causal=True` does the "
            "same.",
            more="New token 0 stands at position t, so it may see t + 1 keys.",
        ),
        Mistake(
            name="no mask",
            function=lambda *given: _masked(
                given, given[0].shape[-2] + given[3].shape[-2]
            ),
            hint="The last new token is right; the others see tokens that come after "
            "them.",
            more="One new token needs no mask. Several do.",
        ),
        Mistake(
            name="no scale",
            function=lambda q, k, v, old_k, old_v: _masked(
                (q * q.shape[-1] ** 0.5, k, v, old_k, old_v), old_k.shape[-2]
            ),
            hint="The mask is right. One division is missing between the scores and "
            "the softmax.",
            more="`attend` of the package does it. By hand: divide by the root of d.",
        ),
        Mistake(
            name="divided by d, not by its root",
            function=lambda q, k, v, old_k, old_v: _masked(
                (q / q.shape[-1] ** 0.5, k, v, old_k, old_v), old_k.shape[-2]
            ),
            hint="The mask is right. The softmax is too flat: how does the spread of a "
            "score grow with d?",
            more="`attend` of the package does it. By hand: divide once, by a root.",
        ),
        Mistake(
            name="the triangle is moved by the number of new ones",
            function=lambda *given: _masked(given, given[0].shape[-2]),
            hint="You move the triangle by n. How many keys stand in front of the new "
            "ones?",
            more="New token 0 stands at position t, whatever n is.",
        ),
        Mistake(
            name="only the kept ones are seen",
            function=lambda q, k, v, old_k, old_v: F.scaled_dot_product_attention(
                q, old_k, old_v
            ),
            hint="Your new tokens see neither each other nor themselves.",
            more="Append the new keys and values first, then attend.",
        ),
        Mistake(
            name="the new ones do not see each other",
            function=_itself_and_the_cached,
            hint="Each new token sees the kept ones and itself. May it see the new "
            "ones before it?",
            more="New token i comes after i other new ones.",
        ),
        Mistake(
            name="one key too few",
            function=lambda *given: _masked(given, given[3].shape[-2] - 1),
            hint="No new token sees itself.",
            more="What is the position of the first new token, counted from 0?",
        ),
        Mistake(
            name="one key too few, and nan where none is left",
            function=_hidden_by_infinity,
            hint="No new token sees itself, and with nothing kept the first sees none.",
            more="What is the position of the first new token, counted from 0?",
        ),
        Mistake(
            name="one key too many",
            function=lambda *given: _masked(given, given[3].shape[-2] + 1),
            hint="Each new token sees its successor.",
            more="What is the position of the first new token, counted from 0?",
        ),
        Mistake(
            name="the kept ones are left out",
            function=lambda q, k, v, *old: _masked(
                (q, k, v, *(x[:, :, :0] for x in old)), 0
            ),
            hint="The new tokens see only each other: what came before is lost.",
            more="Which keys come before the new ones, and in which order?",
        ),
        Mistake(
            name="the new ones in front",
            function=_behind,
            hint="Your new keys stand in front of the old ones, and the mask hides "
            "different ones than you think.",
            more="The order of `cat` is the order of the text.",
        ),
    ),
    hint=(
        "Append the new keys and values to the kept ones.",
        "Row i of the mask belongs to position t + i: it may see t + i + 1 keys.",
    ),
)


EXERCISES = (ROWS, PREFILL)
