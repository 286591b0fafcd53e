"""The names of the axes, and the checks that answer a wrong argument in one sentence.

Knows numbers, tensors of token ids and masks. Knows nothing of layers.

    b  batch                 h  head              m  model width (d_model)
    q  query position        g  key-value head    n  memory width (d_memory)
    k  key position          d  head width        f  feed-forward width
    t  position, when q = k  v  vocabulary        s  source position

Every signature of the package writes its tensors with these letters, for example
`Float[Tensor, "b h q d"]`. The tests execute the annotations.

Each check raises TypeError for a value of the wrong type and ValueError for a wrong
value or shape. The message names the argument, what was expected and what came.
"""

import math
from collections.abc import Sized
from numbers import Integral, Real
from types import UnionType
from typing import get_args

import torch
from torch import Tensor

IGNORED = -100  # label of a position that is not counted: padding, a given prompt


# --- numbers and choices -------------------------------------------------------------


def check_integer(least: int, /, **numbers: object) -> None:
    """Raise unless every named value is an integer >= `least` (bool does not count)."""
    for name, number in numbers.items():
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, got {describe(number)}")
        if number < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {number}")


def check_positive(**sizes: object) -> None:
    """Raise unless every named size is an integer >= 1."""
    check_integer(1, **sizes)


def check_index(size: int, size_name: str, /, **indices: object) -> None:
    """Raise unless every named index is an integer in [0, size)."""
    for name, index in indices.items():
        if not isinstance(index, Integral) or isinstance(index, bool):
            raise TypeError(f"{name} must be an integer, got {describe(index)}")
        if not 0 <= index < size:
            raise ValueError(f"{name} must be in [0, {size_name}={size}), got {index}")


def check_number(**numbers: object) -> None:
    """Raise unless every named value is a real number and not NaN."""
    for name, number in numbers.items():
        if not isinstance(number, Real) or isinstance(number, bool):
            raise TypeError(f"{name} must be a number, got {describe(number)}")
        if math.isnan(number):
            raise ValueError(f"{name} must be a number, got nan")


def check_greater(low: float | int, /, **numbers: object) -> None:
    """Raise unless every named number is finite and > `low`."""
    check_number(**numbers)
    for name, number in numbers.items():
        if not low < number < math.inf:
            raise ValueError(f"{name} must be a finite number > {low}, got {number}")


def check_range(low: float | int, high: float | int, /, **numbers: object) -> None:
    """Raise unless every named number is in [low, high]."""
    check_number(**numbers)
    for name, number in numbers.items():
        if not low <= number <= high:
            raise ValueError(f"{name} must be in [{low}, {high}], got {number}")


def check_rate(**rates: object) -> None:
    """Raise unless every named rate is in [0, 1)."""
    check_number(**rates)
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} must be in [0, 1), got {rate}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {known}; got {describe(value)}")


def check_same(what: str, one: object, other: object) -> None:
    """Raise unless both are equal; `what` names them: "source and target batch"."""
    if one != other:
        raise ValueError(f"{what} must be equal, got {one} and {other}")


def check_divisible(name: str, number: int, by_name: str, by: int) -> None:
    """Raise unless `number` is a multiple of `by`."""
    if number % by:
        raise ValueError(f"{name}={number} is not divisible by {by_name}={by}")


# --- types ---------------------------------------------------------------------------


def check_type(expected: type | UnionType, /, **values: object) -> None:
    """Raise TypeError unless every named value is an instance of `expected`."""
    for name, value in values.items():
        if not isinstance(value, expected):
            kinds = " or ".join(
                kind.__name__ for kind in get_args(expected) or [expected]
            )
            raise TypeError(f"{name} must be of type {kinds}, got {describe(value)}")


def describe(value: object) -> str:
    """A value as an error message shows it: short, with its type if that helps."""
    if value is None or isinstance(value, bool):
        return str(value)
    kind = type(value).__name__
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:60] + "…")
    if isinstance(value, Real):
        return f"{value} ({kind})"
    if isinstance(value, Sized) and not isinstance(value, type):
        return f"a {kind} of length {len(value)}"
    return kind


# --- tensors -------------------------------------------------------------------------


def check_tensor(name: str, value: object, **axes: int | None) -> None:
    """Raise unless `value` is a tensor with these axes, not empty.

    axes: their lengths, or None where any will do: `batch=8, length=None`.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {describe(value)}")
    shape = tuple(value.shape)
    sizes = [size or actual for size, actual in zip(axes.values(), shape, strict=False)]
    if len(shape) != len(axes) or tuple(sizes) != shape or 0 in shape:
        labels = [f"{axis}={size}" if size else axis for axis, size in axes.items()]
        text = f"({', '.join(labels)}{',' if len(labels) == 1 else ''})"
        raise ValueError(f"{name} must have shape {text}, got {shape}")


def values_are_at_hand(tensor: Tensor) -> bool:
    """Whether reading the numbers of a tensor costs nothing.

    Not on an accelerator, where the program would wait until all earlier work is done,
    and not while `torch.compile` traces it.
    """
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def check_ids(ids: object, vocab_size: int | None, name: str = "ids") -> None:
    """Raise unless `ids` is an int64 tensor "b t", not empty, of ids in the vocabulary.

    vocab_size None: the vocabulary is not known here. The ids themselves are looked at
    on the CPU only (`values_are_at_hand`); on CUDA the embedding stops the program.
    """
    check_tensor(name, ids, batch=None, length=None)
    if ids.dtype != torch.int64:
        raise TypeError(f"{name} must be int64 token ids, got {ids.dtype}")
    if vocab_size is not None and values_are_at_hand(ids):
        check_bounds(ids, 0, vocab_size, name, "vocab_size")


def check_bounds(ids: Tensor, low: int, high: int, name: str, high_name: str) -> None:
    """Raise ValueError unless every number of a CPU tensor is in [low, high)."""
    least, most = ids.min().item(), ids.max().item()
    if least < low or most >= high:
        stray = least if least < low else most
        raise ValueError(f"{name} must be in [{low}, {high_name}={high}), got {stray}")


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless `mask` is bool (True = may look) and says who looks at whom.

    It has the axes "q k", or as many axes as the scores, whose `shape` is given, and
    broadcasts to them.
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool (True = may look), got {mask.dtype}")
    fits = mask.ndim in (2, len(shape))
    pairs = zip(mask.shape[::-1], shape[::-1], strict=False)
    if not fits or not all(size in (1, expected) for size, expected in pairs):
        axes = "(batch, heads, query, key)" if len(shape) == 4 else "the scores"
        expected = f"(query, key) or broadcast to {axes} = {tuple(shape)}"
        raise ValueError(f"mask must have shape {expected}, got {tuple(mask.shape)}")


def check_mask_of(ids: Tensor, mask: Tensor, heads: int, keys: int) -> None:
    """Raise unless a model that is given ids "b t" can use the mask, as `check_mask`.

    A mask "b k" that only hides one id (padding) would be read as "q k".
    """
    check_mask(mask, (len(ids), heads, ids.shape[1], keys))
    hides = mask.shape == ids.shape and values_are_at_hand(ids) and not mask.all()
    if hides and torch.equal(mask, ids != ids[~mask][0]):
        raise ValueError(
            "mask must say who looks at whom, (query, key), but it is a mask of "
            "padding, (batch, key): give it as mask[:, None, None, :]"
        )


class SequenceTooLongError(ValueError):
    """More positions than a model's max_length."""


def check_length(max_length: int, start: int, length: int) -> None:
    """Raise unless `length` positions from `start` on are below max_length."""
    if start < 0:
        raise ValueError(f"start must be >= 0, got {start}")
    if start + length > max_length:
        raise SequenceTooLongError(
            f"sequence too long: it ends at position {start + length - 1}, but "
            f"max_length={max_length}"
        )
