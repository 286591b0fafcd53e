"""Cut rows of token ids into training batches, each a pure function of (seed, step).

Knows token ids and labels. Knows nothing of text, files, tokenizers or models.

A batch object is called with a step. It has no position of its own, so resuming a
training needs no sampler state: step s belongs to epoch s // steps_per_epoch, and each
epoch has its own order, drawn once from (seed, epoch). Iterating over the object
instead yields every row exactly once, in the given order, as an evaluation needs it.

The rows come first; all other arguments are given by name. Each function raises
TypeError for an argument of the wrong type and ValueError for a wrong value: no rows,
an empty row, a negative id, an id that marks padding, a row longer than max_length, or
fewer rows than a batch needs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from course_utils.shapes import (
    IGNORED,
    check_callable,
    check_index,
    check_integer,
    check_positive,
    check_type,
    describe,
)

# Rows are sorted by length within pools of this many batches, then cut into batches:
# little padding, and each epoch still brings other rows together.
POOL_BATCHES = 50
ARRAYS = Sequence | Tensor | np.ndarray  # what can hold rows or integers

Row = Sequence[int] | Int64[Tensor, "_"] | Int64[np.ndarray, "_"]
Rows = Sequence[Row]
Ids = list[Int64[Tensor, "_"]]
Language = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b t"]]
Translation = tuple[Int64[Tensor, "b s"], Int64[Tensor, "b t"], Int64[Tensor, "b t"]]
WordLabels = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b"], Int64[Tensor, "b"]]
TextLabels = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b"]]


@runtime_checkable
class PaddingId(Protocol):
    """Anything that has the id of the padding token, for example a `Tokenizer`."""

    pad_id: int


@runtime_checkable
class SpecialIds(PaddingId, Protocol):
    """Anything that has the ids of the special tokens, for example a `Tokenizer`."""

    bos_id: int
    eos_id: int


# --- batch objects -------------------------------------------------------------------


class PackedBatches:
    """Windows of one long stream of token ids: eos, text, eos, text, eos, ...

    `batches(step)` -> (inputs "b t", labels "b t") with t = length. The labels are the
    next tokens of the inputs, so the last label of a text is eos. There is no padding.
    An epoch cuts the stream into adjacent windows, beginning at an offset drawn for
    that epoch, and deals them in random order. Windows that do not fill a batch are
    left out of that epoch. A window may begin in the middle of a text.
    """

    def __init__(
        self,
        stream: Int64[Tensor, "n"],
        *,
        batch_size: int,
        length: int,
        seed: int = 0,
    ):
        """length: tokens per window.

        Raises ValueError for a stream that is too short for a single batch.
        """
        _check_sizes(batch_size, seed)
        check_positive(length=length)
        self.stream = _integers("stream", stream)
        _check_enough("stream", len(self.stream), batch_size, length)
        self.batch_size = int(batch_size)
        self.length = int(length)
        self.seed = int(seed)
        # One window fewer than fits, so that every offset has the same number.
        self.num_windows = (len(self.stream) - self.length) // self.length
        self.steps_per_epoch = self.num_windows // self.batch_size
        self._drawn = (-1, torch.empty(0, dtype=torch.int64))

    def __call__(self, step: int) -> Language:
        """The batch of this step (from 0). Raises unless step is an integer >= 0."""
        check_integer(0, step=step)
        epoch, place = divmod(int(step), self.steps_per_epoch)
        first = place * self.batch_size
        starts = self._starts(epoch)[first : first + self.batch_size]
        return self._windows(starts, self.length)

    def __iter__(self) -> Iterator[Language]:
        """Every token of every text once as a label; the last batches are smaller."""
        labels = len(self.stream) - 1
        starts = torch.arange(0, labels - self.length + 1, self.length)
        for some in starts.split(self.batch_size):
            yield self._windows(some, self.length)
        if rest := labels % self.length:
            yield self._windows(torch.tensor([labels - rest]), rest)

    def _starts(self, epoch: int) -> Int64[Tensor, "w"]:
        """Where the windows of an epoch begin, in the order in which they are dealt."""
        drawn = self._drawn
        if drawn[0] != epoch:
            draw = np.random.default_rng([self.seed, epoch])
            offset = int(draw.integers(self.length))
            windows = draw.permutation(self.num_windows)
            drawn = (epoch, torch.from_numpy(windows * self.length + offset))
            self._drawn = drawn
        return drawn[1]

    def _windows(self, starts: Int64[Tensor, "b"], length: int) -> Language:
        tokens = self.stream[starts[:, None] + torch.arange(length + 1)]
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class RowBatches:
    """Batches of whole rows; `batches(step)` holds batch_size rows of similar length.

    An epoch deals every row at most once, in random order. Rows that do not fill a
    batch are left out of that epoch.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        batch_size: int,
        rows: Callable[[Sequence[int]], tuple[Tensor, ...]],
        seed: int = 0,
    ):
        """lengths: of each row. rows: makes the batch of the rows with these indices.

        Raises ValueError for a batch_size above the number of rows.
        """
        _check_sizes(batch_size, seed)
        check_callable(rows=rows)
        self._lengths = _integers("lengths", lengths).numpy()
        self.num_rows = len(self._lengths)
        if batch_size > self.num_rows:
            raise ValueError(
                f"batch_size={batch_size} exceeds the number of rows, {self.num_rows}"
            )
        self.batch_size = int(batch_size)
        self.seed = int(seed)
        self.steps_per_epoch = self.num_rows // self.batch_size
        self._rows = rows
        self._drawn = (-1, np.empty((0, 0), dtype=np.int64))

    def __call__(self, step: int) -> tuple[Tensor, ...]:
        """The batch of this step (from 0). Raises unless step is an integer >= 0."""
        check_integer(0, step=step)
        epoch, place = divmod(int(step), self.steps_per_epoch)
        return self._rows(self._dealt(epoch)[place].tolist())

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Every row once, in the given order; the last batch may be smaller."""
        for start in range(0, self.num_rows, self.batch_size):
            stop = min(start + self.batch_size, self.num_rows)
            yield self._rows(range(start, stop))

    def rows(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """The batch of exactly these rows, in this order.

        Raises ValueError for no indices, or one that is not in [0, num_rows).
        """
        check_type(Sequence, indices=indices)
        if not len(indices):
            raise ValueError("indices is empty, at least one row is needed")
        for place, index in enumerate(indices):
            name = f"indices[{place}]"
            check_index(self.num_rows, "num_rows", **{name: index})
        return self._rows(indices)

    def _dealt(self, epoch: int) -> Int64[np.ndarray, "steps b"]:
        """The row indices of each batch of an epoch, in the order of the steps."""
        drawn = self._drawn
        if drawn[0] != epoch:
            draw = np.random.default_rng([self.seed, epoch])
            count = self.steps_per_epoch * self.batch_size
            order = draw.permutation(self.num_rows)[:count]
            size = POOL_BATCHES * self.batch_size
            for start in range(0, count, size):
                pool = order[start : start + size]
                by_length = np.argsort(self._lengths[pool], kind="stable")
                order[start : start + size] = pool[by_length]
            batches = order.reshape(self.steps_per_epoch, self.batch_size)
            drawn = (epoch, batches[draw.permutation(self.steps_per_epoch)])
            self._drawn = drawn
        return drawn[1]


# --- batches for each kind of model --------------------------------------------------


def packed_batches(
    rows: Rows, *, batch_size: int, length: int, special: SpecialIds, seed: int = 0
) -> PackedBatches:
    """Pack rows of token ids into one stream for a decoder-only model.

    rows: the token ids of each text. length: tokens per window. special: a Tokenizer,
    or anything else with its eos_id. See `PackedBatches` for the batches.
    Raises ValueError where the rows are too short for a single batch.
    """
    _check_sizes(batch_size, seed)
    check_positive(length=length)
    _check_special(special, "eos_id")
    eos = torch.tensor([int(special.eos_id)])
    pieces = [eos]
    for index, row in enumerate(_sequence("rows", rows)):
        pieces += [_integers(f"rows[{index}]", row), eos]
    stream = torch.cat(pieces)
    _check_enough("rows", len(stream), batch_size, length)
    return PackedBatches(stream, batch_size=batch_size, length=length, seed=seed)


def padded_batches(
    rows: Rows,
    *,
    batch_size: int,
    special: SpecialIds,
    max_length: int | None = None,
    multiple: int = 1,
    seed: int = 0,
) -> RowBatches:
    """Batches of whole texts for a decoder-only model (see `RowBatches`).

    `batches(step)` -> (inputs "b t", labels "b t") with t = longest row + 1, rounded up
    to a `multiple`. The inputs are bos + row, then pad; the labels are row + eos, then
    IGNORED. A machine that prepares itself for each new length, as CPUs do in bfloat16,
    is faster with few of them.

    rows: the token ids of each text. special: a Tokenizer, or anything else with
    pad_id, bos_id and eos_id. max_length: the positions of the model; a row with its
    bos must fit, and no batch is rounded up beyond it.
    """
    _check_sizes(batch_size, seed, max_length)
    check_positive(multiple=multiple)
    _check_special(special, "pad_id", "bos_id", "eos_id")
    _check_padding(special)
    pad_id = int(special.pad_id)
    ids = [
        _row(f"rows[{index}]", row, pad_id, max_length, added=1)
        for index, row in enumerate(_sequence("rows", rows))
    ]

    def batch(indices: Sequence[int]) -> Language:
        some = [ids[index] for index in indices]
        longest = max(len(row) for row in some) + 1
        rounded = math.ceil(longest / multiple) * multiple
        return _shifted(some, special, min(rounded, max_length or rounded))

    lengths = [len(row) for row in ids]
    return RowBatches(lengths, batch_size=batch_size, rows=batch, seed=seed)


def pair_batches(
    pairs: Sequence[tuple[Row, Row]],
    *,
    batch_size: int,
    special: SpecialIds,
    max_length: int | None = None,
    seed: int = 0,
) -> RowBatches:
    """Batches of (source ids, target ids) for an encoder-decoder (see `RowBatches`).

    `batches(step)` -> (source "b s", target "b t", labels "b t"). The source is padded
    with pad; the target is bos + target ids, then pad; the labels are target ids + eos,
    then IGNORED.

    special: a Tokenizer, or anything else with pad_id, bos_id and eos_id. max_length:
    the positions of the model; a source, and a target with its bos, must fit.
    """
    _check_sizes(batch_size, seed, max_length)
    _check_special(special, "pad_id", "bos_id", "eos_id")
    _check_padding(special)
    pad_id = int(special.pad_id)
    sources = []
    targets = []
    for index, pair in enumerate(_sequence("pairs", pairs)):
        name = f"pairs[{index}]"
        if not _is_tuple(pair, 2):
            raise _wrong_tuple(name, "(source ids, target ids)", pair)
        sources.append(_row(f"{name}[0]", pair[0], pad_id, max_length))
        targets.append(_row(f"{name}[1]", pair[1], pad_id, max_length, added=1))

    def batch(indices: Sequence[int]) -> Translation:
        source = _padded([sources[index] for index in indices], pad_id)
        target, labels = _shifted([targets[index] for index in indices], special)
        return source, target, labels

    both = zip(sources, targets, strict=True)
    lengths = [len(source) + len(target) for source, target in both]
    return RowBatches(lengths, batch_size=batch_size, rows=batch, seed=seed)


def labelled_batches(
    rows: Sequence[tuple],
    *,
    batch_size: int,
    special: PaddingId,
    max_length: int | None = None,
    seed: int = 0,
) -> RowBatches:
    """Batches of labelled texts for a classifier (see `RowBatches`).

    rows: (ids, position, label) each, for a label of the word at that position, or
    (ids, label) each, for a label of the text. Labels are integers >= 0.
    `batches(step)` -> (ids "b t", positions "b", labels "b"), or (ids, labels). The ids
    are padded with pad.

    special: a Tokenizer, or anything else with its pad_id. max_length: the positions of
    the model; a row must fit.
    Raises ValueError for rows of both kinds, or a position outside its text.
    """
    _check_sizes(batch_size, seed, max_length)
    _check_special(special, "pad_id")
    pad_id = int(special.pad_id)
    has_position = not _is_tuple(_sequence("rows", rows)[0], 2)
    expected = "(ids, position, label)" if has_position else "(ids, label)"
    texts = []
    numbers = []
    for index, row in enumerate(rows):
        name = f"rows[{index}]"
        if not _is_tuple(row, 3 if has_position else 2):
            raise _wrong_tuple(name, expected, row)
        ids = _row(f"{name}[0]", row[0], pad_id, max_length)
        if has_position:
            check_index(len(ids), "number of ids", **{f"position {name}[1]": row[1]})
        check_integer(0, **{f"label {name}[{len(row) - 1}]": row[-1]})
        texts.append(ids)
        numbers.append([int(number) for number in row[1:]])
    columns = torch.tensor(numbers).unbind(dim=1)

    def batch(indices: Sequence[int]) -> WordLabels | TextLabels:
        chosen = list(indices)
        ids = _padded([texts[index] for index in chosen], pad_id)
        return ids, *(column[chosen] for column in columns)

    lengths = [len(text) for text in texts]
    return RowBatches(lengths, batch_size=batch_size, rows=batch, seed=seed)


def _padded(rows: Ids, filler: int, length: int = 0) -> Int64[Tensor, "b t"]:
    """The rows, filled up to the longest of them, or to a length above it."""
    filled = pad_sequence(rows, batch_first=True, padding_value=filler)
    missing = max(0, length - filled.shape[1])
    return F.pad(filled, (0, missing), value=filler)


def _shifted(rows: Ids, special: SpecialIds, length: int = 0) -> Language:
    bos = torch.tensor([int(special.bos_id)])
    eos = torch.tensor([int(special.eos_id)])
    inputs = [torch.cat([bos, row]) for row in rows]
    labels = [torch.cat([row, eos]) for row in rows]
    pad_id = int(special.pad_id)
    return _padded(inputs, pad_id, length), _padded(labels, IGNORED, length)


# --- checks --------------------------------------------------------------------------


def _check_sizes(batch_size: object, seed: object, max_length: object = None) -> None:
    check_positive(batch_size=batch_size)
    if max_length is not None:
        check_positive(max_length=max_length)
    check_integer(0, seed=seed)


def _sequence(name: str, rows: object) -> Sequence:
    """The rows themselves, if they are a sequence that holds at least one."""
    if isinstance(rows, str | bytes) or not isinstance(rows, ARRAYS):
        raise TypeError(f"{name} must be a sequence of rows, got {describe(rows)}")
    if not isinstance(rows, Sequence) and not rows.ndim:
        raise TypeError(f"{name} must be a sequence of rows, got a single number")
    if not len(rows):
        raise ValueError(f"{name} is empty, at least one row is needed")
    return rows


def _is_tuple(row: object, size: int) -> bool:
    return isinstance(row, tuple | list) and len(row) == size


def _wrong_tuple(name: str, expected: str, row: object) -> Exception:
    kind = ValueError if isinstance(row, tuple | list) else TypeError
    return kind(f"{name} must be {expected}, got {describe(row)}")


def _row(
    name: str, row: object, pad_id: int, max_length: int | None, added: int = 0
) -> Int64[Tensor, "_"]:
    """One row of token ids; with `added` special tokens it must fit in max_length."""
    ids = _integers(name, row)
    if (ids == pad_id).any():
        raise ValueError(f"{name} holds pad_id={pad_id}, which marks padding")
    if max_length is not None and len(ids) + added > max_length:
        raise ValueError(
            f"{name} takes {len(ids) + added} positions, more than "
            f"max_length={max_length}"
        )
    return ids


def _integers(name: str, values: object) -> Int64[Tensor, "n"]:
    """A sequence of integers >= 0, at least one, as a tensor."""
    if isinstance(values, str | bytes) or not isinstance(values, ARRAYS):
        raise TypeError(
            f"{name} must be a sequence of integers, got {describe(values)}"
        )
    if isinstance(values, Sequence):
        integers = _tensor_of(name, values)
    else:
        if str(values.dtype).removeprefix("torch.") != "int64":
            raise TypeError(f"{name} must be int64, got {values.dtype}")
        if values.ndim != 1:
            shape = tuple(values.shape)
            raise ValueError(f"{name} must have one axis, got shape {shape}")
        integers = values.cpu() if isinstance(values, Tensor) else torch.tensor(values)
    if not len(integers):
        raise ValueError(f"{name} is empty, at least one integer is needed")
    if (least := int(integers.min())) < 0:
        raise ValueError(f"{name} must hold integers >= 0, got {least}")
    return integers


def _tensor_of(name: str, values: Sequence) -> Int64[Tensor, "n"]:
    kinds = set(map(type, values))  # a few types, where values are many
    wrong = [kind for kind in kinds if kind is bool or not issubclass(kind, Integral)]
    if wrong:
        place = next(i for i, value in enumerate(values) if type(value) in wrong)
        value = describe(values[place])
        raise TypeError(f"{name}[{place}] must be an integer, got {value}")
    try:
        return torch.tensor(list(values), dtype=torch.int64)
    except (OverflowError, RuntimeError, ValueError):
        raise ValueError(f"{name} must hold integers below 2**63") from None


def _check_enough(name: str, count: int, batch_size: int, length: int) -> None:
    """Raise unless an epoch of windows at any offset holds a whole batch."""
    needed = (batch_size + 1) * length
    if count < needed:
        raise ValueError(
            f"{name} must hold at least (batch_size + 1) * length = {needed} tokens, "
            f"eos included, got {count}"
        )


def _check_special(special: object, *names: str) -> None:
    for name in names:
        if not hasattr(special, name):
            raise TypeError(
                f"special must have {name}, as a Tokenizer has, got {describe(special)}"
            )
        check_integer(0, **{f"special.{name}": getattr(special, name)})


def _check_padding(special: SpecialIds) -> None:
    """Raise where the ids of bos or eos would be taken for padding."""
    if special.pad_id == special.eos_id:
        raise ValueError(
            f"pad_id and eos_id are both {special.eos_id}: padding needs its own "
            "token, or the model never learns to stop"
        )
    if special.pad_id == special.bos_id:
        raise ValueError(
            f"pad_id and bos_id are both {special.bos_id}: padding needs its own "
            "token, or the model does not see where a text begins"
        )
