"""Cut token ids into training batches, each a pure function of (seed, step).
Knows nothing of text, files, tokenizers or models.

Every batch object is called with a step and never remembers anything, so a resumed
training needs no sampler state. Step s belongs to epoch s // steps_per_epoch; each
epoch has its own order, drawn from (seed, epoch). Iterating over the object instead
yields everything exactly once, in the order given: what an evaluation needs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_utils.shapes import IGNORED, check_positive, check_whole

# Texts are sorted by length within pools of this many batches, then cut: little
# padding, and yet each epoch brings other neighbors together.
POOL_BATCHES = 50

Rows = Sequence[Sequence[int]]
Ids = list[Int64[Tensor, "_"]]
Language = tuple[Int64[Tensor, "b t"], Int64[Tensor, "b t"]]
Translation = tuple[Int64[Tensor, "b s"], Int64[Tensor, "b t"], Int64[Tensor, "b t"]]


@runtime_checkable
class SpecialIds(Protocol):
    """Anything that names the special tokens, a `Tokenizer` for example."""

    pad_id: int
    bos_id: int
    eos_id: int


class PackedBatches:
    """Windows of one long stream: eos, text, eos, text, eos, ...

    `batches(step)` -> (inputs, labels), both "b t" with t = length: labels are the
    inputs' next tokens, so the last label of a text is eos. There is no padding.
    An epoch cuts the stream into neighboring windows, starting at an offset drawn
    for that epoch, and deals them in a drawn order; what fills no whole batch waits
    for another epoch. A window may begin in the middle of a text.
    """

    def __init__(self, stream: Int64[Tensor, "n"], batch: int, length: int, seed: int):
        self.stream, self.batch_size = stream, batch
        self.length, self.seed = length, seed
        # One window fewer than fits, so that every offset has as many windows.
        self.num_windows = (len(stream) - length) // length
        self.steps_per_epoch = self.num_windows // batch

    def __call__(self, step: int) -> Language:
        check_whole(0, step=step)
        epoch, place = divmod(step, self.steps_per_epoch)
        draw = np.random.default_rng([self.seed, epoch])
        offset = int(draw.integers(self.length))
        windows = draw.permutation(self.num_windows)
        windows = windows[place * self.batch_size : (place + 1) * self.batch_size]
        starts = torch.from_numpy(windows * self.length + offset)
        return self._windows(starts, self.length)

    def __iter__(self) -> Iterator[Language]:
        """Every token of every text once as a label; the last batches are smaller."""
        labels = len(self.stream) - 1
        starts = torch.arange(0, labels - self.length + 1, self.length)
        for some in starts.split(self.batch_size):
            yield self._windows(some, self.length)
        if rest := labels % self.length:
            yield self._windows(torch.tensor([labels - rest]), rest)

    def _windows(self, starts: Int64[Tensor, "b"], length: int) -> Language:
        tokens = self.stream[starts[:, None] + torch.arange(length + 1)]
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class RowBatches:
    """One text or pair per row, from its very beginning.

    An epoch deals every row once, each batch of rows of similar length; what fills no
    whole batch waits for another epoch. `rows(indices)` is the batch of these rows.
    Raises ValueError for a batch_size above the number of rows.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        seed: int,
        rows: Callable | None = None,
    ):
        check_positive(batch_size=batch_size)
        check_whole(0, seed=seed)
        if batch_size > len(lengths):
            raise ValueError(f"batch_size={batch_size} exceeds {len(lengths)} rows")
        self.batch_size, self.seed = batch_size, seed
        if rows is not None:  # without it a subclass has a method of this name
            self.rows = rows
        self.steps_per_epoch = len(lengths) // batch_size
        self._lengths = np.array(lengths)

    def __call__(self, step: int) -> tuple[Tensor, ...]:
        check_whole(0, step=step)
        epoch, place = divmod(step, self.steps_per_epoch)
        draw = np.random.default_rng([self.seed, epoch])
        order = draw.permutation(len(self._lengths))
        order = order[: self.steps_per_epoch * self.batch_size]
        place = int(draw.permutation(self.steps_per_epoch)[place])
        place_in_pool = place % POOL_BATCHES
        start = (place - place_in_pool) * self.batch_size
        pool = order[start : start + POOL_BATCHES * self.batch_size]
        pool = pool[np.argsort(self._lengths[pool], kind="stable")]
        start = place_in_pool * self.batch_size
        return self.rows(pool[start : start + self.batch_size].tolist())

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        """Every row once, in the order given; the last batch may be smaller."""
        count = len(self._lengths)
        for start in range(0, count, self.batch_size):
            yield self.rows(range(start, min(start + self.batch_size, count)))


def packed_batches(
    texts: Rows, batch_size: int, length: int, seed: int, special: SpecialIds
) -> PackedBatches:
    """Pack token ids into one stream for a decoder-only model (see PackedBatches).

    `length` is in tokens. Raises ValueError for no texts, an empty text, or a
    stream too short for a single batch.
    """
    check_positive(batch_size=batch_size, length=length)
    check_whole(0, seed=seed)
    eos = torch.tensor([special.eos_id])
    pieces = [eos]
    for text in _tensors(texts, "texts"):
        pieces += [text, eos]
    stream = torch.cat(pieces)
    needed = (batch_size + 1) * length  # or an epoch would hold no whole batch
    check_whole(needed, **{"number of tokens in texts": len(stream)})
    return PackedBatches(stream, batch_size, length, seed)


def padded_batches(
    texts: Rows,
    batch_size: int,
    seed: int,
    special: SpecialIds,
    max_length: int | None = None,
) -> RowBatches:
    """Batches of whole texts for a decoder-only model (see RowBatches).

    `batches(step)` -> (inputs, labels), both "b t" with t = longest text + 1:
    inputs are bos + text, then pad; labels are text + eos, then IGNORED.
    Raises ValueError for no texts, an empty text, batch_size above the number of
    texts, or a text that with its bos does not fit into max_length positions.
    """
    _check_special(special)
    ids = _tensors(texts, "texts", 1, max_length)

    def rows(indices: Sequence[int]) -> Language:
        return _shifted([ids[index] for index in indices], special)

    return RowBatches([len(text) for text in ids], batch_size, seed, rows)


def pair_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    seed: int,
    special: SpecialIds,
    max_length: int | None = None,
) -> RowBatches:
    """Batches of (source ids, target ids) for an encoder-decoder (see RowBatches).

    `batches(step)` -> (source "b s", target_in "b t", labels "b t"): source is
    padded with pad; target_in is bos + target, then pad; labels are target + eos,
    then IGNORED.
    Raises ValueError for no pairs, an empty side, batch_size above the number of
    pairs, or a side (the target with its bos) longer than max_length positions.
    """
    _check_special(special)
    for index, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"pairs[{index}] must be (source, target), not {pair!r}")
    sources = _tensors([source for source, _ in pairs], "sources", 0, max_length)
    targets = _tensors([target for _, target in pairs], "targets", 1, max_length)

    def rows(indices: Sequence[int]) -> Translation:
        source = _padded([sources[index] for index in indices], special.pad_id)
        return source, *_shifted([targets[index] for index in indices], special)

    lengths = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
    return RowBatches(lengths, batch_size, seed, rows)


def _padded(rows: Ids, filler: int) -> Int64[Tensor, "b t"]:
    return pad_sequence(rows, batch_first=True, padding_value=filler)


def _shifted(rows: Ids, special: SpecialIds) -> Language:
    bos, eos = torch.tensor([special.bos_id]), torch.tensor([special.eos_id])
    inputs = _padded([torch.cat([bos, row]) for row in rows], special.pad_id)
    return inputs, _padded([torch.cat([row, eos]) for row in rows], IGNORED)


def _tensors(
    rows: Rows, name: str, added: int = 0, max_length: int | None = None
) -> Ids:
    """One tensor per row; raises when a row and `added` tokens exceed max_length."""
    if not len(rows):
        raise ValueError(f"{name} is empty: there is nothing to make batches of")
    tensors = []
    for index, row in enumerate(rows):
        if not len(row):
            raise ValueError(f"{name}[{index}] holds no tokens")
        kind = str if isinstance(row, str) else torch.as_tensor(row).dtype
        if kind != torch.int64:
            raise TypeError(f"{name}[{index}] must hold whole numbers, not {kind}")
        if max_length is not None and len(row) + added > max_length:
            takes = f"{name}[{index}] takes {len(row) + added} positions"
            raise ValueError(f"{takes}, more than max_length={max_length}")
        tensors.append(torch.as_tensor(row))
    return tensors


def _check_special(special: SpecialIds) -> None:
    if special.pad_id == special.eos_id:
        raise ValueError(
            f"pad_id and eos_id are both {special.eos_id}: padding needs its own "
            "token, or the model never learns to stop"
        )
