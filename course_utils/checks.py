"""The names of the axes, and the checks that answer a wrong argument in one sentence.

Knows numbers, tensors of token ids and masks.

    b  batch                 h  head              m  model width (d_model)
    q  query position        g  key-value head    n  memory width (d_memory)
    k  key position          d  head width        f  feed-forward width
    t  position, when q = k  v  vocabulary        s  source position

Signatures write tensors with these letters: `Float[Tensor, "b h q d"]`; tests execute
them. Each check raises TypeError or ValueError, which names the argument, what was
expected and what came.
"""

import difflib
from collections.abc import Iterable, Sized
from numbers import Integral, Real
from types import UnionType

import torch
from torch import Tensor, nn

IGNORED = -100  # label of a position that is not counted: padding, a given prompt


def check_integer(least: int, /, **numbers: object) -> None:
    """Raise unless every named value is an integer >= `least` (bool does not count)."""
    for name, number in numbers.items():
        if not isinstance(number, Integral) or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, got {describe(number)}")
        if number < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {number}")


def check_index(size: int, size_name: str, /, **indices: object) -> None:
    """Raise unless every named index is an integer in [0, size)."""
    for name, index in indices.items():
        if not isinstance(index, Integral) or isinstance(index, bool):
            raise TypeError(f"{name} must be an integer, got {describe(index)}")
        if index < 0 or not index < size:
            raise ValueError(f"{name} must be in [0, {size_name}={size}), got {index}")


def check_number(interval: str, /, **numbers: object) -> None:
    """Raise unless every named value is a number in an interval such as "[0, 1)"."""
    low, high = map(float, interval[1:-1].split(","))
    for name, number in numbers.items():
        if not isinstance(number, Real) or isinstance(number, bool):
            raise TypeError(f"{name} must be a number, got {describe(number)}")
        inside = number <= high and not number < low  # not for NaN
        at_open_end = interval[0] == "(" and number == low
        at_open_end |= interval[-1] == ")" and number == high
        if not inside or at_open_end:
            raise ValueError(f"{name} must be in {interval}, got {number}")


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


def check_type(expected: type | UnionType, /, **values: object) -> None:
    """Raise TypeError unless every named value is an instance of `expected`."""
    for name, value in values.items():
        if not isinstance(value, expected):
            kind = getattr(expected, "__name__", expected)
            raise TypeError(f"{name} must be of type {kind}, got {describe(value)}")


def check_eval(model: nn.Module) -> None:
    """Raise unless a model that is to write a text is in eval mode."""
    check_type(nn.Module, model=model)
    if model.training:
        raise ValueError("model must be in eval mode to write: call model.eval()")


def describe(value: object) -> str:
    """A value as an error message shows it: short, with its type."""
    kind = type(value).__name__
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype}"
    if value is None or isinstance(value, str | Real):
        return f"{value!r:.60} ({kind})"
    if isinstance(value, Sized) and not isinstance(value, type):
        return f"a {kind} of length {len(value)}"
    return kind


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar ones."""
    names = list(filter(None, known))
    siblings = [n for n in names if n.endswith(f".{name.rpartition('.')[2]}")]
    similar = difflib.get_close_matches(name, siblings or names, n=2, cutoff=0)
    return f"did you mean {' or '.join(map(repr, similar))}?"


def values_are_at_hand(tensor: Tensor) -> bool:
    """Reading numbers waits for an accelerator, and breaks a graph of torch.compile."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def check_ids(
    ids: object, size: int | None, name: str = "ids", size_name: str = "vocab_size"
) -> None:
    """Raise unless `ids` is an int64 tensor "b t", not empty, of numbers in [0, size).

    size None: it is not known here. Numbers are read where they are at hand.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {describe(ids)}")
    if ids.ndim != 2 or ids.numel() == 0:
        shape = tuple(ids.shape)
        raise ValueError(f"{name} must have shape (batch, length), got {shape}")
    if ids.dtype != torch.int64:
        raise TypeError(f"{name} must be int64 token ids, got {ids.dtype}")
    if size is not None and values_are_at_hand(ids):
        least, most = ids.min().item(), ids.max().item()
        if least < 0 or most >= size:
            stray = least if least < 0 else most
            raise ValueError(f"{name} must be in [0, {size_name}={size}), got {stray}")


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless `mask` is bool (True = may look) and "q k", or has as many axes as
    the scores, and broadcasts to their `shape`.
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
    """`check_mask`; and a mask "b k" that hides padding would be read as "q k"."""
    check_mask(mask, (len(ids), heads, ids.shape[1], keys))
    hides = mask.shape == ids.shape and values_are_at_hand(ids) and not mask.all()
    if hides and torch.equal(mask, ids != ids[~mask][0]):
        cure = "of padding: give it as mask[:, None, None, :]"
        raise ValueError(f"mask must be (query, key), but this is (batch, key), {cure}")


class SequenceTooLongError(ValueError):
    """More positions than a model's max_length."""


def check_length(max_length: int, start: int, length: int) -> None:
    """Raise unless `length` positions from `start` on are below max_length."""
    if start + length > max_length:
        last = f"it ends at position {start + length - 1}"
        raise SequenceTooLongError(f"sequence too long: {last}, but {max_length=}")
