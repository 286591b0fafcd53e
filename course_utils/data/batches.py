"""Cut token ids into training batches, each a pure function of (seed, step).
Knows nothing of text, files, tokenizers or models.

Every batch object is called with a step and never remembers anything, so a resumed
training needs no sampler state. Step s belongs to epoch s // steps_per_epoch; each
epoch has its own order, drawn from (seed, epoch). Iterating over the object instead
yields everything exactly once, in the order given: what an evaluation needs.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_utils.shapes import check_positive

# The label of a padded position; cross_entropy leaves it out by default.
IGNORE_INDEX = -100
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
        epoch, place = divmod(_checked_step(step), self.steps_per_epoch)
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
    """What PaddedBatches and PairBatches share: an epoch deals every row once, each
    batch of rows of similar length; what fills no whole batch waits for another
    epoch."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int):
        self.batch_size, self.seed = batch_size, seed
        self.steps_per_epoch = len(lengths) // batch_size
        self._lengths = np.array(lengths)

    def __call__(self, step: int) -> tuple[Tensor, ...]:
        epoch, place = divmod(_checked_step(step), self.steps_per_epoch)
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

    def rows(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """The batch made of exactly these rows."""
        raise NotImplementedError


class PaddedBatches(RowBatches):
    """One text per row, from its very beginning.

    `batches(step)` -> (inputs, labels), both "b t" with t = longest text + 1:
    inputs are bos + text, then pad; labels are text + eos, then IGNORE_INDEX.
    """

    def __init__(self, texts: Ids, batch_size: int, seed: int, special: SpecialIds):
        super().__init__([len(text) for text in texts], batch_size, seed)
        self.texts, self.special = texts, special

    def rows(self, indices: Sequence[int]) -> Language:
        return _shifted([self.texts[index] for index in indices], self.special)


class PairBatches(RowBatches):
    """One pair of source and target per row.

    `batches(step)` -> (source "b s", target_in "b t", labels "b t"): source is
    padded with pad; target_in is bos + target, then pad; labels are target + eos,
    then IGNORE_INDEX.
    """

    def __init__(
        self,
        sources: Ids,
        targets: Ids,
        batch_size: int,
        seed: int,
        special: SpecialIds,
    ):
        pairs = zip(sources, targets, strict=True)
        lengths = [len(source) + len(target) for source, target in pairs]
        super().__init__(lengths, batch_size, seed)
        self.sources, self.targets, self.special = sources, targets, special

    def rows(self, indices: Sequence[int]) -> Translation:
        sources = [self.sources[index] for index in indices]
        targets = [self.targets[index] for index in indices]
        padded = _padded(sources, self.special.pad_id)
        return padded, *_shifted(targets, self.special)


def packed_batches(
    texts: Rows, batch_size: int, length: int, seed: int, special: SpecialIds
) -> PackedBatches:
    """Pack token ids into one stream for a decoder-only model (see PackedBatches).

    `length` is in tokens. Raises ValueError for no texts, an empty text, or a
    stream too short for a single batch.
    """
    check_positive(batch_size=batch_size, length=length)
    eos = torch.tensor([special.eos_id])
    pieces = [eos]
    for text in _tensors(texts, "texts"):
        pieces += [text, eos]
    batches = PackedBatches(torch.cat(pieces), batch_size, length, _checked_seed(seed))
    if batches.steps_per_epoch < 1:
        raise ValueError(
            f"batch_size={batch_size} windows of length={length} need at least "
            f"{(batch_size + 1) * length} tokens, the texts hold {len(batches.stream)}"
        )
    return batches


def padded_batches(
    texts: Rows,
    batch_size: int,
    seed: int,
    special: SpecialIds,
    max_length: int | None = None,
) -> PaddedBatches:
    """Batches of whole texts for a decoder-only model (see PaddedBatches).

    Raises ValueError for no texts, an empty text, batch_size above the number of
    texts, or a text that with its bos does not fit into max_length positions.
    """
    _check_special(special)
    ids = _tensors(texts, "texts")
    _check_fit(ids, "text", 1, max_length)
    _check_enough(batch_size, len(ids), "texts")
    return PaddedBatches(ids, batch_size, _checked_seed(seed), special)


def pair_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    batch_size: int,
    seed: int,
    special: SpecialIds,
    max_length: int | None = None,
) -> PairBatches:
    """Batches of (source ids, target ids) for an encoder-decoder (see PairBatches).

    Raises ValueError for no pairs, an empty side, batch_size above the number of
    pairs, or a side (the target with its bos) longer than max_length positions.
    """
    _check_special(special)
    for index, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"pairs[{index}] must be (source, target), not {pair!r}")
    sources = _tensors([source for source, _ in pairs], "sources")
    targets = _tensors([target for _, target in pairs], "targets")
    _check_fit(sources, "source", 0, max_length)
    _check_fit(targets, "target", 1, max_length)
    _check_enough(batch_size, len(pairs), "pairs")
    return PairBatches(sources, targets, batch_size, _checked_seed(seed), special)


def _padded(rows: Ids, filler: int) -> Int64[Tensor, "b t"]:
    return pad_sequence(rows, batch_first=True, padding_value=filler)


def _shifted(rows: Ids, special: SpecialIds) -> Language:
    bos, eos = torch.tensor([special.bos_id]), torch.tensor([special.eos_id])
    inputs = _padded([torch.cat([bos, row]) for row in rows], special.pad_id)
    return inputs, _padded([torch.cat([row, eos]) for row in rows], IGNORE_INDEX)


def _tensors(rows: Rows, name: str) -> Ids:
    if not len(rows):
        raise ValueError(f"{name} is empty: there is nothing to make batches of")
    tensors = []
    for index, row in enumerate(rows):
        if isinstance(row, str):
            raise TypeError(f"{name}[{index}] must hold token ids, not text")
        ids = torch.as_tensor(row)
        if not len(ids):
            raise ValueError(f"{name}[{index}] holds no tokens")
        if ids.dtype != torch.int64:
            raise TypeError(f"{name}[{index}] must hold integers, not {ids.dtype}")
        tensors.append(ids)
    return tensors


def _checked_step(step: int) -> int:
    if not isinstance(step, int) or step < 0:
        raise ValueError(f"step must be a whole number of at least 0, got {step!r}")
    return step


def _checked_seed(seed: int) -> int:
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed!r}")
    return seed


def _check_special(special: SpecialIds) -> None:
    if special.pad_id == special.eos_id:
        raise ValueError(
            f"pad_id and eos_id are both {special.eos_id}: padding needs its own "
            "token, or the model never learns to stop"
        )


def _check_fit(rows: Ids, what: str, added: int, max_length: int | None) -> None:
    for index, row in enumerate(rows):
        if max_length is not None and len(row) + added > max_length:
            raise ValueError(
                f"{what} {index} takes {len(row) + added} positions, more than "
                f"max_length={max_length}"
            )


def _check_enough(batch_size: int, count: int, name: str) -> None:
    check_positive(batch_size=batch_size)
    if batch_size > count:
        raise ValueError(f"batch_size={batch_size} is more than the {count} {name}")
