"""An exercise of notebook 13: a stream of stories, cut into rows.

Knows the shared batches. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch import Tensor

from course_utils.data.batches import packed_batches
from named_mistakes import Exercise, Mistake


def blocks(
    rows: Sequence[Sequence[int]], length: int, eos_id: int
) -> tuple[Tensor, Tensor]:
    """The whole windows of one long stream, inputs and labels, each "b t"."""
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    count = (len(stream) - 1) // length
    inputs = torch.tensor(stream[: count * length]).view(count, length)
    labels = torch.tensor(stream[1 : count * length + 1]).view(count, length)
    return inputs, labels


def windows_of_the_course(
    rows: Sequence[Sequence[int]], length: int, eos_id: int
) -> tuple[Tensor, Tensor]:
    """The whole windows of the shared stream, inputs and labels, each "b t"."""
    special = SimpleNamespace(pad_id=0, bos_id=1, eos_id=eos_id)
    packed = packed_batches(rows, batch_size=1, length=length, special=special)
    full = [pair for pair in packed if pair[0].shape[1] == length]
    inputs, labels = zip(*full, strict=True)
    return torch.cat(inputs), torch.cat(labels)


def _rows(generator):
    def one(eos_id, length, *sizes):
        draw = {"generator": generator}
        return (
            [torch.randint(10, 99, (n,), **draw).tolist() for n in sizes],
            length,
            eos_id,
        )

    full = one(4, 3, 3, 3)  # windows without labels would fill the stream exactly
    rows, length, eos_id = one(2, 5, 7, 1, 9, 4)
    again = [
        (rows, 4, eos_id),
        (rows, length, 5),
        (rows[::-1], length, eos_id),
    ]  # two of three are as before
    return [(rows, length, eos_id), one(3, 4, 6, 5), full, *again]


def _stream(rows, eos_id, first=True, between=True):
    end = [eos_id] if between else []
    stream = [token for row in rows for token in [*row, *end]]
    return torch.tensor([eos_id] * first + stream)


def _windows(stream, length):
    count = (len(stream) - 1) // length
    inputs, labels = stream[:-1], stream[1:]
    return tuple(x[: count * length].view(count, length) for x in (inputs, labels))


def _from(stream_of):
    return lambda rows, length, eos_id: _windows(stream_of(rows, eos_id), length)


def _apart(rows, length, eos_id):
    stream = _stream(rows, eos_id)
    count = len(stream) // (length + 1)
    cut = stream[: count * (length + 1)].view(count, length + 1)
    return cut[:, :-1], cut[:, 1:]


def _overlapping(rows, length, eos_id):
    cut = _stream(rows, eos_id).unfold(0, length + 1, 1)
    return cut[:, :-1], cut[:, 1:]


def _equal(rows, length, eos_id):
    inputs, _ = blocks(rows, length, eos_id)
    return inputs, inputs


def _rolled(rows, length, eos_id):
    inputs, _ = blocks(rows, length, eos_id)
    return inputs, inputs.roll(-1, dims=1)


def _rolled_flat(rows, length, eos_id):
    inputs, _ = blocks(rows, length, eos_id)
    return inputs, inputs.flatten().roll(-1).view(inputs.shape)


def _one_too_many(rows, length, eos_id):
    stream = _stream(rows, eos_id)
    return _windows(torch.cat([stream, torch.tensor([eos_id])]), length)


def _without_last(rows, length, eos_id):
    """As if the stream had no last end, or a window needed a token behind it."""
    return _windows(_stream(rows, eos_id)[:-1], length)


def _row_by_row(rows, length, eos_id):
    """Whole windows of every row between its two ends."""
    cut = [_windows(_stream([row], eos_id), length) for row in rows]
    inputs, labels = zip(*cut, strict=True)
    return torch.cat(inputs), torch.cat(labels)


PACK = Exercise(
    name="training.blocks",
    statement="Gives inputs and labels, both “b t”, from rows of ids: one stream (an "
    "end first and after each row) in windows side by side, each place labeled with "
    "what follows. What fills no window is left out.",
    takes=("rows", "length", "eos_id"),
    reference=blocks,
    cases=_rows,
    mistakes=(
        Mistake(
            name="no end between the stories",
            function=_from(lambda rows, eos: _stream(rows, eos, between=False)),
            hint="One story runs into the next, and nothing ever says stop.",
            more="After every row, one more token belongs in the stream.",
        ),
        Mistake(
            name="the stream begins without an end",
            function=_from(lambda rows, eos: _stream(rows, eos, first=False)),
            hint="The first word of the first story is never a label: nothing comes "
            "before it.",
            more="An end says “something new begins”. The first story is new as well.",
        ),
        Mistake(
            name="no end anywhere",
            function=_from(
                lambda rows, eos: _stream(rows, eos, first=False, between=False)
            ),
            hint="One argument is unused. How would a reader know where a story stops?",
            more="The stream holds an end before the first row and one after each row.",
        ),
        Mistake(
            name="one end behind all stories",
            function=_from(
                lambda rows, eos: torch.cat(
                    [_stream(rows, eos, between=False), torch.tensor([eos])]
                )
            ),
            hint="Your stream starts and stops with an end, but has none between two "
            "stories.",
            more="An end belongs after *each* row.",
        ),
        Mistake(
            name="the last end of the stream is never a label",
            function=_without_last,
            hint="Right, unless the stream ends just where a window does: then your "
            "last window is left out. Is the last end in your stream, and may it be a "
            "label?",
            more="An end follows *each* row. And a window needs length + 1 tokens, not "
            "more.",
        ),
        Mistake(
            name="each row is cut by itself",
            function=_row_by_row,
            hint="You leave the rest of every row out. May a window go on into the "
            "next row?",
            more="First one long stream of all rows, then windows.",
        ),
        Mistake(
            name="inputs and labels exchanged",
            function=lambda *given: blocks(*given)[::-1],
            hint="Your labels hold what comes *before* each input. What is the model "
            "to guess?",
            more="Of the two, it is the inputs that begin with the first token of the "
            "stream.",
        ),
        Mistake(
            name="labels equal inputs",
            function=_equal,
            hint="The model would learn to repeat what it has just read.",
            more="Both come from the same stream. One begins a token later.",
        ),
        Mistake(
            name="labels rolled within a window",
            function=_rolled,
            hint="The last place of each window is labeled with the window's own first "
            "token. What follows it in the stream?",
            more="Shift the whole stream by one, and cut afterwards.",
        ),
        Mistake(
            name="the inputs are rolled as a whole",
            function=_rolled_flat,
            hint="`roll` goes in a circle: your very last label is the very first "
            "token. Which token follows the last input in the stream?",
            more="Take the labels from the stream, one token later, not from the "
            "inputs.",
        ),
        Mistake(
            name="a label behind the end of the stream",
            function=_one_too_many,
            hint="Nothing follows the last end, so it has no label. You made one up.",
            more="The last token of the stream is a label, never an input.",
        ),
        Mistake(
            name="a label is lost at each border",
            function=_apart,
            hint="Each window is cut out first, then shifted: the first token of the "
            "next one is never a label.",
            more="Shift the whole stream first. Then cut both.",
        ),
        Mistake(
            name="windows overlap",
            function=_overlapping,
            hint="Each token is a label many times. With windows side by side, it "
            "would be only once.",
            more="How far apart are the beginnings of two windows?",
        ),
    ),
    hint=(
        "Write down a stream of ten ids, and the inputs and labels of its first "
        "two windows of length 3.",
        "Three steps: a long list, the same list one token later, and both in rows.",
    ),
    shared=windows_of_the_course,
)


EXERCISES = (PACK,)
