"""The legend of axes, and the checks that turn nonsense into one clear sentence.

Knows what a tensor of ids or a mask looks like. Knows nothing of layers.

    b  batch                 h  head              m  model width (d_model)
    q  query position        g  key-value head    n  memory width (d_memory)
    k  key position          d  head width        f  feed-forward width
    t  position, when q = k  v  vocabulary        s  source position

Every signature of the package spells its tensors with these letters, for example
`Float[Tensor, "b h q d"]`. In the tests the annotations are executed.
"""

import math

import torch
from torch import Tensor

IGNORED = -100  # label of a position that is not counted: padding, a given prompt


def check_whole(least: int, /, **numbers: object) -> None:
    """Raise ValueError unless every named number is whole and at least `least`."""
    for name, number in numbers.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < least:
            wanted = f"a whole number of at least {least}"
            raise ValueError(f"{name} must be {wanted}, got {number!r}")


def check_positive(**sizes: object) -> None:
    """Raise ValueError unless every named size is a whole number of at least 1."""
    check_whole(1, **sizes)


def check_above(low: float | int, /, **numbers: float | int) -> None:
    """Raise ValueError unless every named number is finite and exceeds `low`."""
    for name, number in numbers.items():
        if not low < number < math.inf:
            raise ValueError(f"{name} must exceed {low} and be finite, got {number!r}")


def check_between(
    low: float | int, high: float | int, /, **numbers: float | int
) -> None:
    """Raise ValueError unless every named number lies in [low, high]."""
    for name, number in numbers.items():
        if not low <= number <= high:
            raise ValueError(f"{name} must lie between {low} and {high}, got {number}")


def check_equal(what: str, one: object, other: object) -> None:
    """Raise ValueError unless both are equal; `what` says what they are."""
    if one != other:
        raise ValueError(f"{what} must be equal, got {one} and {other}")


def check_divides(whole_name: str, whole: int, parts_name: str, parts: int) -> None:
    """Raise ValueError unless `parts` equal shares make up `whole`."""
    if whole % parts:
        shares = f"{parts_name}={parts} equal parts"
        raise ValueError(f"{whole_name}={whole} must divide into {shares}, it does not")


def check_fraction(**rates: float) -> None:
    """Raise ValueError unless every named rate lies in [0, 1)."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} must be at least 0 and below 1, got {rate!r}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_ids(ids: Tensor, vocab_size: int | None, name: str = "ids") -> None:
    """Raise unless `ids` is a non-empty int64 "b t" tensor of ids below vocab_size.

    TypeError for another type or dtype, ValueError for another shape or a stray id.
    None: the vocabulary is not known here.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(ids).__name__}")
    if ids.dtype != torch.int64:
        raise TypeError(f"{name} must be int64 token ids, got {ids.dtype}")
    if ids.ndim != 2 or 0 in ids.shape:
        wanted = "a shape (batch, positions) with at least one of each"
        raise ValueError(f"{name} must have {wanted}, got {tuple(ids.shape)}")
    low, high = ids.aminmax()
    if vocab_size is not None and (low < 0 or high >= vocab_size):
        top = f"vocab_size - 1 = {vocab_size - 1}"
        stray = int(low if low < 0 else high)
        raise ValueError(f"{name} must lie between 0 and {top}, got {stray}")


def check_mask(mask: Tensor, shape: tuple[int, ...], name: str = "mask") -> None:
    """Raise unless `mask` is bool (True = may look) and broadcasts to `shape`.

    TypeError for another type or dtype, ValueError for a shape that does not fit.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be bool (True = may look), got {mask.dtype}")
    pairs = zip(mask.shape[::-1], shape[::-1], strict=False)
    if mask.ndim > len(shape) or any(have not in (1, want) for have, want in pairs):
        wanted = f"(batch, heads, query, key) = {tuple(shape)}"
        raise ValueError(f"{name} must broadcast to {wanted}, got {tuple(mask.shape)}")
