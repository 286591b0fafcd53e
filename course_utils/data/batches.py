"""Cut rows of token ids into training batches, each a pure function of (seed, step).

Knows token ids and labels. Knows nothing of text, files, tokenizers or models.

Step s belongs to epoch s // steps_per_epoch, whose order is drawn from (seed, epoch).
Iterating yields every row exactly once, in the given order, as an evaluation needs it.

rows: sequences of token ids, int64 tensors or arrays. special: a Tokenizer, or anything
with the pad_id, bos_id and eos_id that a function needs. max_length: the positions of
the model; a row, with the bos that it gets, must fit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from course_utils.checks import IGNORED, check_integer, describe

# Rows are sorted by length within pools of this many batches, then cut into batches:
# little padding, and each epoch still brings other rows together.
POOL_BATCHES = 50

Row = Sequence[int] | Int64[Tensor, "_"] | Int64[np.ndarray, "_"]
Rows = Sequence[Row]
Ids = list[Int64[Tensor, "_"]]
Shifted = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b t"]]  # inputs, labels


class _Batches:
    """One order for each epoch: `_shuffle` draws it, `rows` makes one batch of it."""

    steps_per_epoch: int

    def __init__(self, batch_size: int, seed: int):
        check_integer(1, batch_size=batch_size)
        self.batch_size = batch_size
        self.seed = seed
        self._memo: tuple[int | None, Any] = (None, None)  # an epoch and its order

    def __call__(self, step: int) -> tuple[Tensor, ...]:
        """The batch of this step (from 0)."""
        epoch, index = divmod(step, self.steps_per_epoch)
        if self._memo[0] != epoch:
            self._memo = epoch, self._shuffle(np.random.default_rng([self.seed, epoch]))
        return self.rows(self._memo[1][index])


class PackedBatches(_Batches):
    """Windows of one long stream of token ids: eos, text, eos, text, eos, ...

    `batches(step)` -> (inputs "b t", labels "b t"), the next tokens, with t = length.
    An epoch cuts the stream into adjacent windows from an offset drawn for it, and
    yields them in random order; those that do not fill a batch are left out.
    """

    def __init__(
        self, stream: Int64[Tensor, "n"], *, batch_size: int, length: int, seed: int = 0
    ):
        super().__init__(batch_size, seed)
        check_integer(1, length=length)
        needed = (batch_size + 1) * length
        if len(stream) < needed:
            least = f"(batch_size + 1) * length = {needed} tokens, eos included"
            raise ValueError(f"rows must hold at least {least}, got {len(stream)}")
        self.stream = stream
        self.length = length
        # One window fewer than fits, so that every offset has the same number.
        self._num_windows = len(stream) // length - 1
        self.steps_per_epoch = self._num_windows // batch_size

    def __iter__(self) -> Iterator[Shifted]:
        """Every token of every text once as a label; the last batches are smaller."""
        labels = len(self.stream) - 1
        starts = torch.arange(0, labels - self.length + 1, self.length)
        for batch in starts.split(self.batch_size):
            yield self.rows(batch)
        if rest := labels % self.length:
            yield self.rows(torch.tensor([labels - rest]), rest)

    def rows(self, starts: Int64[Tensor, "b"], length: int | None = None) -> Shifted:
        """The windows that begin at these tokens of the stream."""
        offsets = torch.arange((length or self.length) + 1)
        tokens = self.stream[starts[:, None] + offsets]
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def _shuffle(self, rng: np.random.Generator) -> Int64[Tensor, "steps b"]:
        """Where the windows of each batch of an epoch begin."""
        offset = int(rng.integers(self.length))
        starts = rng.permutation(self._num_windows) * self.length + offset
        count = self.steps_per_epoch * self.batch_size
        return torch.from_numpy(starts[:count]).view(-1, self.batch_size)


class RowBatches(_Batches):
    """Batches of whole rows; `batches(step)` holds batch_size rows of similar length.

    An epoch yields every row at most once, in random order; rows that do not fill a
    batch are left out. `batches.rows(indices)` is the batch of these rows.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        batch_size: int,
        rows: Callable[[Sequence[int]], tuple[Tensor, ...]],
        seed: int = 0,
    ):
        """lengths: of each row. rows: makes the batch of rows with these indices."""
        super().__init__(batch_size, seed)
        if batch_size > len(lengths):
            raise ValueError(
                f"batch_size={batch_size} exceeds the number of rows, {len(lengths)}"
            )
        self.steps_per_epoch = len(lengths) // batch_size
        self.rows = rows
        self._lengths = np.asarray(lengths)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Every row once, in the given order; the last batch may be smaller."""
        indices = range(len(self._lengths))
        for start in indices[:: self.batch_size]:
            yield self.rows(indices[start : start + self.batch_size])

    def _shuffle(self, rng: np.random.Generator) -> list[list[int]]:
        """The row indices of each batch of an epoch, in the order of the steps."""
        count = self.steps_per_epoch * self.batch_size
        order = rng.permutation(len(self._lengths))[:count]
        size = POOL_BATCHES * self.batch_size
        for start in range(0, count, size):
            pool = order[start : start + size]
            by_length = np.argsort(self._lengths[pool], kind="stable")
            order[start : start + size] = pool[by_length]
        batches = order.reshape(self.steps_per_epoch, self.batch_size)
        return batches[rng.permutation(self.steps_per_epoch)].tolist()


def packed_batches(
    rows: Rows, *, batch_size: int, length: int, special: Any, seed: int = 0
) -> PackedBatches:
    """The `PackedBatches` of these texts, for a decoder-only model."""
    _check_special(special, "eos_id")
    eos = torch.tensor([special.eos_id])
    pieces = [eos]
    for index, row in enumerate(rows):
        pieces += [_ids(f"rows[{index}]", row), eos]
    stream = torch.cat(pieces)
    return PackedBatches(stream, batch_size=batch_size, length=length, seed=seed)


def padded_batches(
    rows: Rows,
    *,
    batch_size: int,
    special: Any,
    max_length: int | None = None,
    multiple: int = 1,
    seed: int = 0,
) -> RowBatches:
    """Batches of whole texts for a decoder-only model (see `RowBatches`).

    `batches(step)` -> inputs "b t", bos + row, then pad; and labels "b t", row + eos,
    then IGNORED; t is the longest row + 1, rounded up to a `multiple`: CPUs in bfloat16
    are faster with few different lengths.
    """
    _check_special(special, "pad_id", "bos_id", "eos_id")
    check_integer(1, multiple=multiple)
    texts = [
        _ids(f"rows[{index}]", row, special, max_length, added=1)
        for index, row in enumerate(rows)
    ]

    def batch(indices: Sequence[int]) -> Shifted:
        chosen = [texts[index] for index in indices]
        longest = max(map(len, chosen)) + 1
        rounded = math.ceil(longest / multiple) * multiple
        return _shifted(chosen, special, min(rounded, max_length or rounded))

    lengths = [len(text) for text in texts]
    return RowBatches(lengths, batch_size=batch_size, rows=batch, seed=seed)


def pair_batches(
    pairs: Sequence[tuple[Row, Row]],
    *,
    batch_size: int,
    special: Any,
    max_length: int | None = None,
    seed: int = 0,
) -> RowBatches:
    """Batches of (source ids, target ids) for an encoder-decoder (see `RowBatches`).

    `batches(step)` -> source "b s", padded; target "b t", bos + target ids, then pad;
    and labels "b t", target ids + eos, then IGNORED.
    """
    _check_special(special, "pad_id", "bos_id", "eos_id")
    sources = []
    targets = []
    for index, (source, target) in enumerate(pairs):
        name = f"pairs[{index}]"
        sources.append(_ids(f"{name}[0]", source, special, max_length))
        targets.append(_ids(f"{name}[1]", target, special, max_length, added=1))

    def batch(indices: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        source = _padded([sources[index] for index in indices], special.pad_id)
        target, labels = _shifted([targets[index] for index in indices], special)
        return source, target, labels

    lengths = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
    return RowBatches(lengths, batch_size=batch_size, rows=batch, seed=seed)


def _padded(rows: Ids, filler: int, length: int = 0) -> Int64[Tensor, "b t"]:
    """The rows, filled up to the longest of them, or to a length above it."""
    filled = pad_sequence(rows, batch_first=True, padding_value=filler)
    missing = max(0, length - filled.shape[1])
    return F.pad(filled, (0, missing), value=filler)


def _shifted(rows: Ids, special: Any, length: int = 0) -> Shifted:
    bos = torch.tensor([special.bos_id])
    eos = torch.tensor([special.eos_id])
    inputs = [torch.cat([bos, row]) for row in rows]
    labels = [torch.cat([row, eos]) for row in rows]
    return _padded(inputs, special.pad_id, length), _padded(labels, IGNORED, length)


def _ids(
    name: str,
    row: Row,
    special: Any = None,
    max_length: int | None = None,
    added: int = 0,
) -> Int64[Tensor, "_"]:
    """A row without padding, which with `added` special tokens fits in max_length."""
    ids = np.array(row.cpu().numpy() if isinstance(row, Tensor) else row)
    if not ids.size:
        raise ValueError(f"{name} is empty, at least one id is needed")
    if ids.dtype != np.int64:
        got = f"{describe(row)} of {ids.dtype}"
        raise TypeError(f"{name} must hold integers (int64), got {got}")
    if ids.ndim != 1:
        raise ValueError(f"{name} must have one axis, got shape {ids.shape}")
    if (least := ids.min()) < 0:
        raise ValueError(f"{name} must hold integers >= 0, got {least}")
    if special is not None and special.pad_id in ids:
        raise ValueError(f"{name} holds pad_id={special.pad_id}, which marks padding")
    if max_length is not None and len(ids) + added > max_length:
        length = len(ids) + added
        raise ValueError(f"{name} takes {length} positions of max_length={max_length}")
    return torch.from_numpy(ids)


def _check_special(special: Any, *names: str) -> None:
    """Raise for an id that is none, or that would be taken for padding."""
    for name in names:
        id = getattr(special, name, None)
        check_integer(0, **{f"special.{name}": id})
        if name != "pad_id" and "pad_id" in names and id == special.pad_id:
            both = f"pad_id and {name} are both {id}"
            raise ValueError(f"{both}: padding needs its own token")
