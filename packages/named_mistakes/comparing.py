"""Find the first difference between the result of an answer and the expected one.

Knows tensors, numbers, strings and containers. Knows nothing of exercises.

A list is accepted for a tuple and the reverse, and a tensor or an array of numbers for
a list of numbers. Where an integer is expected, the number must be equal to it (150.0
equals 150); where a float is expected, equal up to rounding, whatever float type holds
it. Infinity equals only an infinity of the same sign, and NaN only NaN.
"""

import contextlib
from collections import deque
from collections.abc import Mapping
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from named_mistakes.describing import brief, kind, sizes

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # generous: rounding is not a mistake
CLOSE_NUMBER = {"rtol": 5e-5, "atol": 1e-5}  # a number near 1 with four right decimals
CLOSE_IN_HALF = {"rtol": 2e-2, "atol": 1e-3}  # float16 has 11 bits, bfloat16 has 8
HALF = (torch.float16, torch.bfloat16)


def same(mine: Any, expected: Any) -> bool:
    """Whether two results are equal up to rounding, whatever type holds the numbers.

    Unlike in `difference`, a tensor without axes equals the Python number in it.
    """
    try:
        return _difference(_unwrapped(mine), _unwrapped(expected)) is None
    except Exception:  # a strange object must not stop the check
        return False


def same_gradient(mine: Tensor, expected: Tensor) -> bool:
    """Whether they are equal up to the rounding of sums, within a thousandth."""
    largest = expected.abs().max().item() if expected.numel() else 0.0
    close = {"rtol": 1e-3, "atol": max(CLOSE["atol"], 1e-3 * largest)}
    return torch.allclose(mine.to(expected.dtype), expected, equal_nan=True, **close)


def comparable(value: Any) -> bool:
    """Whether it consists of plain tensors, numbers, texts and containers."""
    if isinstance(value, Mapping):
        return all(map(comparable, value.values()))
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(comparable, value))
    if type(value) in (Tensor, torch.nn.Parameter):
        return value.layout == torch.strided and not (value.is_meta or value.is_nested)
    return isinstance(value, Number | str | bytes | None)


def difference(mine: Any, expected: Any, tolerance: float = 0.0) -> str | None:
    """Describe the first difference in type, shape, dtype or value, or None.

    tolerance: how far each float, also in a tensor or a list, may lie from the expected
    one.
    Never raises: an object that cannot be compared is different.
    """
    try:
        return _difference(mine, expected, tolerance)
    except Exception as error:  # a strange object must not stop the check
        return f"It returns {kind(mine)}, not comparable ({type(error).__name__})."


def not_plain(mine: Any) -> str | None:
    """A sentence on a number, or on one in a list, that is still a tensor, or None."""
    entries = mine if isinstance(mine, tuple | list) else [mine]
    if not any(isinstance(entry, Tensor) for entry in entries):
        return None
    return (
        "The value is right, but it is still a tensor; a plain number is wanted: "
        "`.item()`. A number that is kept as a tensor may keep its graph in memory."
    )


def direction(mine: Any, expected: Any) -> str:
    """A sentence on a wrong guess that does not tell the value."""
    with contextlib.suppress(Exception):  # a strange object must not stop the check
        guess, parts = _bare(mine), _as_list(mine)
        if isinstance(expected, Real) and isinstance(guess, Real):
            if guess != guess:
                return "It is nan, which is no number: somewhere 0/0, or ∞ − ∞."
            more = "more" if expected > guess else "less"
            return f"It is {more} than {brief(guess)}."
        listed = isinstance(expected, tuple | list)
        if listed and parts is not None and len(parts) == len(expected):
            right_ones = sum(map(same, parts, expected))
            return f"{right_ones} of the {len(parts)} are right."
    return f"You give {kind(mine)}; {kind(expected)} is wanted."


def _difference(mine, expected, tolerance=0.0):
    if isinstance(expected, Tensor):
        return _tensor_difference(mine, expected, tolerance)
    if isinstance(expected, tuple | list):
        return _list_difference(mine, expected, tolerance)
    if isinstance(expected, Mapping):
        return _dict_difference(mine, expected, tolerance)
    mine = _bare(mine)
    if isinstance(expected, Number) and not isinstance(mine, Number):
        what = "True or False" if isinstance(expected, bool) else "a number"
        return f"It returns {kind(mine)}; {what} is wanted."
    return _leaf_difference("It gives", mine, expected, tolerance)


# --- one value ---------------------------------------------------------------------


def _bare(value):
    """The number in a tensor or an array of one element; any other value as it is."""
    one = isinstance(value, Tensor | np.ndarray | np.generic)
    return value.item() if one and np.prod(value.shape) == 1 else value


def _unwrapped(value):
    """Every tensor without axes as the number in it, also inside lists."""
    if isinstance(value, Tensor | np.generic) and not value.shape:
        return value.tolist()
    if type(value) in (tuple, list):
        return type(value)(_unwrapped(part) for part in value)
    return value


def _equal(mine, expected, tolerance):
    """An integer exactly, another number up to rounding, anything else by ==."""
    if not isinstance(expected, Number) or isinstance(expected, Integral):
        return bool(mine == expected)
    close = CLOSE_NUMBER | {"atol": max(tolerance, CLOSE_NUMBER["atol"])}
    if not isinstance(mine, Number):
        return False
    return bool(np.isclose(complex(mine), complex(expected), equal_nan=True, **close))


def _leaf_difference(place, mine, expected, tolerance):
    """Of a number, a string or None; place: how the sentence on it begins."""
    mine = _bare(mine)
    if _equal(mine, expected, tolerance):
        return None
    text = brief(mine)
    text = repr(mine) if text == brief(expected) else text  # all digits, to see why
    return f"{place} {text}; {brief(expected)} is wanted."


# --- containers --------------------------------------------------------------------


def _as_list(value):
    """The entries of a value that is accepted as a list, or None."""
    if isinstance(value, tuple | list | range | deque):
        return list(value)
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        return value.tolist()
    return None


def _list_difference(mine, expected, tolerance):
    entries = _as_list(mine)
    if entries is None:
        return f"It returns {kind(mine)}; {kind(expected)} is wanted."
    several = isinstance(expected, tuple) and Tensor in map(type, expected)
    name = "Result" if several else "Entry"
    pairs = enumerate(zip(entries, expected, strict=False))
    parts = (_part_difference(f"{name} {i}", *pair, tolerance) for i, pair in pairs)
    first = next(filter(None, parts), None)
    if len(entries) == len(expected):
        return first
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    return f"It has {count}; {len(expected)} wanted. {first or ''}".rstrip()


def _part_difference(place, mine, expected, tolerance):
    """The difference of one value inside a list or a dict; `place` names it."""
    if isinstance(expected, Tensor | Mapping | tuple | list):
        inner = _difference(mine, expected, tolerance)
        return inner and f"{place}: {inner}"
    return _leaf_difference(f"{place} is", mine, expected, tolerance)


def _dict_difference(mine, expected, tolerance):
    if not isinstance(mine, Mapping):
        return f"It returns {kind(mine)}; a dict is wanted."
    for key, right in expected.items():
        if key not in mine:
            return f"Key {brief(key)} is missing; it has the keys {brief(list(mine))}."
        if inner := _part_difference(f"Key {brief(key)}", mine[key], right, tolerance):
            return inner
    more = [key for key in mine if key not in expected]
    return f"Key {brief(more[0])} is not wanted." if more else None


# --- tensors -----------------------------------------------------------------------


def _tensor_difference(mine, expected, tolerance):
    if not isinstance(mine, Tensor):
        return f"It returns {kind(mine)}; a tensor is wanted."
    if mine.shape != expected.shape:
        return f"Its shape is {sizes(mine.shape)}; {sizes(expected.shape)} is wanted."
    floating = mine.is_floating_point() and expected.is_floating_point()
    floating = floating or (mine.is_complex() and expected.is_complex())
    if mine.dtype != expected.dtype and not floating:
        return f"Its dtype is {mine.dtype}; {expected.dtype} is wanted."
    if floating:
        close = CLOSE_IN_HALF if mine.dtype in HALF else CLOSE
        close = close | {"atol": max(tolerance, close["atol"])}
        mine = mine.to(expected.dtype)
        wrong = ~torch.isclose(mine, expected, equal_nan=True, **close)
    else:
        wrong = mine != expected
    if not wrong.any():
        return None
    index = wrong.nonzero()[0].tolist()
    place = f"Entry {index} is" if index else "It gives"
    yours, right = mine[tuple(index)].item(), expected[tuple(index)].item()
    return f"{place} {brief(yours)}; {brief(right)} is wanted."
