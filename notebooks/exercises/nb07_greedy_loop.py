"""An exercise of notebook 07: write several rows until each has ended.

Knows toys that say what they would write. Knows nothing of how an answer is run or
shown.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils import decoding
from named_mistakes import Exercise, Mistake

Model = Callable[[Tensor], Tensor]


def greedy(model: Model, begin: Tensor, end_id: int, pad_id: int, limit: int) -> Tensor:
    """Each row goes on to its end token, at most `limit` tokens; then it is padded."""
    ids = begin
    ended = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        best = best.masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == end_id)
        if ended.all():
            break
    return ids


def the_courses(
    model: Model, begin: Tensor, end_id: int, pad_id: int, limit: int
) -> Tensor:
    """What `course_utils.decoding` gives."""
    return decoding.greedy(
        lambda ids: model(ids)[:, -1], begin, limit, stop_id=end_id, pad_id=pad_id
    )


def _writer(texts, size, lost, noise):
    """A model that continues the text that begins so, and says `lost` if none does.

    A row gets the same scores alone and in any batch.
    """

    def model(ids):
        length = ids.shape[1]
        fits = (ids[:, None] == texts[:, :length]).cumprod(dim=-1)  # "b text t"
        matching = fits.argmax(dim=1)
        next_ids = texts[matching, torch.arange(1, length + 1)]
        next_ids = next_ids.where(fits.any(dim=1), lost)
        return 5 * F.one_hot(next_ids, size) + noise[:length]

    return model


def _cases(generator):
    """Rows of unlike length; an end token in begin; one row; all ends at once; padding
    in begin.

    A row would go on after its end token, if somebody let it. No two begin alike.
    """

    def one(begin, end_id, pad_id, lengths, limit):
        begin, size = torch.tensor(begin), 13
        ordinary = [i for i in range(6, size - 1) if i not in (end_id, pad_id)]
        shape = len(lengths), limit + 3
        picks = torch.randint(len(ordinary), shape, generator=generator)
        new = torch.tensor(ordinary)[picks]
        for row, length in zip(new, lengths, strict=True):
            if length <= limit:
                row[length - 1] = end_id
            row[-1] = end_id  # so that a loop without a limit ends, too
        texts = torch.cat([begin, new], dim=1)
        noise = torch.rand(texts.shape[1], size, generator=generator)
        noise = noise.to(torch.get_default_dtype())
        model = _writer(texts, size, size - 1, noise)
        return model, begin, end_id, pad_id, limit

    return [
        one([[3], [4], [5]], 2, 0, [3, 6, 1], 9),
        one([[4, 2], [5, 2]], 2, 1, [9, 2], 5),
        one([[0, 5]], 3, 1, [4], 7),
        one([[0, 4], [0, 5]], 1, 0, [4, 4], 4),
        one([[0]], 1, 0, [3], 6),
    ]


def _loop(
    choose=lambda best, ended, end_id, pad_id: best.masked_fill(ended, pad_id),
    over=lambda ended, best, end_id: ended.all(),
    keep=lambda ended, new: ended | new,
    seen=lambda ids: ids,
    place=-1,
):
    """The loop with another choice, another stop, another memory of what has ended."""

    def write(model, begin, end_id, pad_id, limit):
        ids, ended = begin, torch.zeros(len(begin), dtype=torch.bool)
        for _ in range(limit):
            best = model(seen(ids))[:, place].argmax(dim=-1)
            written = choose(best, ended, end_id, pad_id)
            ids = torch.cat([ids, written[:, None]], dim=1)
            ended = keep(ended, written == end_id)
            if over(ended, written, end_id):
                break
        return ids

    return write


def _end_swallowed(model, begin, end_id, pad_id, limit):
    ids, ended = begin, torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        ended = ended | (best == end_id)
        ids = torch.cat([ids, best.masked_fill(ended, pad_id)[:, None]], dim=1)
        if ended.all():
            break
    return ids


def _start_ends_it(model, begin, end_id, pad_id, limit):
    ids = begin
    for _ in range(limit):
        ended = (ids == end_id).any(dim=1)
        if ended.all():
            break
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


def _asks_too_early(model, begin, end_id, pad_id, limit):
    ids, ended = begin, torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        if ended.all():
            break
        ended = ended | (best == end_id)
    return ids


def _start_counts_at_once(model, begin, end_id, pad_id, limit):
    ids, ended = begin, (begin == end_id).any(dim=1)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == end_id)
        if ended.all():
            break
    return ids


def _stops_before_it_writes(model, begin, end_id, pad_id, limit):
    ids, ended = begin, torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        ended = ended | (best == end_id)
        if ended.all():
            break
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


def _newest_only(model, begin, end_id, pad_id, limit):
    ids, newest = begin, begin
    ended = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        newest = model(newest)[:, -1:].argmax(dim=-1)
        newest = newest.masked_fill(ended[:, None], pad_id)
        ids = torch.cat([ids, newest], dim=1)
        ended = ended | (newest[:, 0] == end_id)
        if ended.all():
            break
    return ids


def _newest_decides(model, begin, end_id, pad_id, limit):
    ids = begin
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        best = best.masked_fill(ids[:, -1] == end_id, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        if (best == end_id).all():
            break
    return ids


def _last_place_decides(model, begin, end_id, pad_id, limit):
    """Asks before each step whether the last token is an end, also that of begin."""
    ids = begin
    for _ in range(limit):
        ended = ids[:, -1] == end_id
        if ended.all():
            break
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


def _as_it_comes(best, ended, end_id, pad_id):
    return best


def _all_at_once(ended, best, end_id):
    return bool((best == end_id).all())


GREEDY = Exercise(
    name="translation.greedy",
    statement="Gives begin “b t” and what each row writes: the likeliest token, up to "
    "its end_id or limit new tokens; then pad_id while others go on. model: ids “b t” "
    "→ scores “b t v”. So every model writes.",
    takes=("model", "begin", "end_id", "pad_id", "limit"),
    reference=greedy,
    cases=_cases,
    mistakes=(
        Mistake(
            name="rows that have ended write on",
            function=_loop(choose=_as_it_comes),
            hint="You stop at the right time, but words follow the end tokens.",
            more="Whatever the model says of a row that has ended, one token only may "
            "be written there.",
        ),
        Mistake(
            name="all rows must end in the same step",
            function=_loop(choose=_as_it_comes, over=_all_at_once),
            hint="You stop only if every row says the end token *now*. Rows of "
            "different lengths hardly ever do.",
            more="Keep a bool per row that remembers whether it has ended.",
        ),
        Mistake(
            name="it waits until all rows end at once",
            function=_loop(over=_all_at_once),
            hint="Rows are padded correctly, but you stop only if every row writes the "
            "end token in the same step.",
            more="You have a bool per row that remembers. Check it instead of the "
            "newest tokens.",
        ),
        Mistake(
            name="the first end token stops all",
            function=_loop(over=lambda ended, best, end_id: ended.any()),
            hint="When one row has ended, the longer ones are cut off in the middle.",
            more="Is it `any` or `all` of the rows that you have to wait for?",
        ),
        Mistake(
            name="it goes on to the limit",
            function=_loop(over=lambda ended, best, end_id: False),
            hint="The words are right, but when all rows have ended you add columns "
            "that hold nothing but padding.",
            more="Each of those columns costs a call of the model. When may the loop "
            "stop?",
        ),
        Mistake(
            name="one column of padding too many",
            function=_asks_too_early,
            hint="When the last row has ended, your loop adds one more column of "
            "padding. Does your bool know of the new end tokens when you ask it?",
            more="Bring the bool up to date first. Then ask whether all rows have "
            "ended.",
        ),
        Mistake(
            name="ended for one step only",
            function=_loop(keep=lambda ended, new: new),
            hint="A row pads once and then wakes up again: your bool is overwritten.",
            more="A row that has ended stays ended. Combine the old bool with the new "
            "one.",
        ),
        Mistake(
            name="filled with the end token",
            function=_loop(
                choose=lambda best, ended, end_id, pad_id: best.masked_fill(
                    ended, end_id
                )
            ),
            hint="A row has one end token. Yours repeats it while the others write.",
            more="There is an argument for what fills the rest of a row.",
        ),
        Mistake(
            name="the end token is padded away",
            function=_end_swallowed,
            hint="Your rows lack their end token: padding stands in its place.",
            more="Choose with the bool of the step before. Bring it up to date "
            "afterwards.",
        ),
        Mistake(
            name="an end token at the start counts",
            function=_start_ends_it,
            hint="Some models begin with the very token that ends a text. Yours falls "
            "silent there.",
            more="Only *new* tokens can end a row.",
        ),
        Mistake(
            name="only the last token is read",
            function=_loop(seen=lambda ids: ids[:, -1:]),
            hint="The model gets one token at each step and does not know what comes "
            "before it.",
            more="It has no memory of its own. Hand it all the ids so far.",
        ),
        Mistake(
            name="the scores of the first position",
            function=_loop(place=0),
            hint="At every step you ask again what follows the first token.",
            more="Scores come for all positions. Which of them is about the next "
            "token?",
        ),
        Mistake(
            name="the limit is forgotten",
            function=lambda model, begin, end_id, pad_id, limit: greedy(
                model, begin, end_id, pad_id, 10 * limit
            ),
            hint="You wait for every row to end, and one of them goes past the limit. "
            "A model may never say end_id.",
            more="At most `limit` rounds: for _ in range(limit), with a break.",
        ),
        Mistake(
            name="one token beyond the limit",
            function=lambda model, begin, end_id, pad_id, limit: greedy(
                model, begin, end_id, pad_id, limit + 1
            ),
            hint="A row that never ends gets limit + 1 new tokens.",
            more="Is the comparison < or <=? Or is the limit tested after the token "
            "is written?",
        ),
        Mistake(
            name="begin counts against the limit",
            function=lambda model, begin, end_id, pad_id, limit: greedy(
                model, begin, end_id, pad_id, limit - begin.shape[1]
            ),
            hint="A row that reaches the limit is too short in your answer.",
            more="The limit is about *new* tokens.",
        ),
        Mistake(
            name="begin is left out",
            function=lambda model, begin, end_id, pad_id, limit: greedy(
                model, begin, end_id, pad_id, limit
            )[:, begin.shape[1] :],
            hint="All new tokens are there, but those that you were given are missing.",
            more="Start the ids with `begin` and return them whole.",
        ),
        Mistake(
            name="an end token in begin is followed by padding",
            function=_start_counts_at_once,
            hint="Some models begin with the very token that ends a text. Yours writes "
            "one token of padding there and stops.",
            more="Only *new* tokens can end a row: at the start none has ended.",
        ),
        Mistake(
            name="the last end token is left out",
            function=_stops_before_it_writes,
            hint="When the last row ends, your loop stops before it has appended that "
            "column to the ids.",
            more="A row keeps its end token. Write first, then ask whether all rows "
            "have ended.",
        ),
        Mistake(
            name="only the newest token decides",
            function=_newest_decides,
            hint="A row pads once and then writes words again: by then the newest "
            "token is padding, not the end token.",
            more="Keep a bool per row that remembers whether it has ended.",
        ),
        Mistake(
            name="only the last place decides, also in begin",
            function=_last_place_decides,
            hint="You look for an end token at the last place only. What is there "
            "after a row has been padded once, and before the first step?",
            more="Keep a bool per row: at the start no row has ended, and a row that "
            "has ended stays ended.",
        ),
        Mistake(
            name="the model gets the newest tokens only",
            function=_newest_only,
            hint="At the first step the model reads `begin`, later only one token. It "
            "does not know what comes before it.",
            more="It has no memory of its own. Hand it all the ids so far.",
        ),
    ),
    hint=(
        "Two things change from step to step: the ids so far, which begin with "
        "`begin`, and a bool per row that says whether it has ended.",
        "One step: ask the model, take the last position, its argmax; where a row has "
        "ended, write padding instead; append the column to the ids.",
        "Then bring the bool up to date, and leave the loop when all rows have ended.",
    ),
    shared=the_courses,
)


EXERCISES = (GREEDY,)
