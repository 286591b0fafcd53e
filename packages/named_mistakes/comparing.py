"""Find the first difference between the result of an answer and the expected one.

Knows tensors, numbers, strings and containers. Knows nothing of exercises.

A list is accepted for a tuple and the reverse, and a tensor or an array of numbers for
a list of numbers. Where an integer is expected, the number must be equal to it (150.0
equals 150); where a float is expected, equal up to rounding, whatever float type holds
it: `note` says where another one does. Infinity equals only an infinity of the same
sign, and NaN only NaN.
"""

import math
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
        mine = _unwrapped(mine)
        expected = _unwrapped(expected)
    except Exception:  # a strange object must not stop the check
        return False
    return difference(mine, expected) is None


def near(mine: Any, expected: Any, tolerance: float) -> bool:
    """Whether two floating tensors of one shape differ nowhere by more than this.

    Or two real numbers, which are not bool; where one is wanted, a tensor of one number
    counts as that number, as in `difference`.
    """
    if _is_real(expected):
        return _near_numbers(_bare(mine), expected, tolerance)
    if not _matching_tensors(mine, expected):
        return False
    return bool(_near_entries(mine, expected, tolerance).all())


def settled(mine: Any, expected: Any, tolerance: float) -> Any:
    """The same tensor, with the expected entries where it is near enough to them.

    So that `difference` names an entry that is too far off. Anything else comes back as
    it is.
    """
    if not _matching_tensors(mine, expected):
        return mine
    close_enough = _near_entries(mine, expected, tolerance)
    return torch.where(close_enough, expected.detach().to(mine.dtype), mine.detach())


def _matching_tensors(mine, expected):
    """Whether both are floating tensors of one shape on one device."""
    if not (isinstance(mine, Tensor) and isinstance(expected, Tensor)):
        return False
    if mine.shape != expected.shape or not _both_floating(mine, expected):
        return False
    return mine.device == expected.device


def _near_entries(mine, expected, tolerance):
    gap = mine.detach().to(expected.dtype) - expected.detach()
    return gap.abs() <= tolerance  # NaN is never near


def _near_numbers(mine, expected, tolerance):
    if not _is_real(mine):
        return False
    try:
        gap = abs(float(mine) - float(expected))
    except OverflowError:  # an integer that no float can hold
        return False
    return gap <= tolerance * (1 + 1e-9)  # 0.55 − 0.5 is a little more than 0.05


def not_plain(mine: Any) -> str | None:
    """A sentence on a number, or on one in a list, that is still a tensor, or None."""
    entries = mine if isinstance(mine, tuple | list) else [mine]
    if not any(isinstance(entry, Tensor) for entry in entries):
        return None
    return (
        "The value is right, but it is still a tensor; a plain number is wanted: "
        "`.item()`. A number that is kept as a tensor may keep its graph in memory."
    )


def comparable(value: Any) -> bool:
    """Whether it consists of plain tensors, numbers, texts and containers."""
    if isinstance(value, Tensor):
        special = value.is_meta or value.is_nested or value.is_quantized
        known = type(value) in (Tensor, torch.nn.Parameter)
        return known and value.layout == torch.strided and not special
    if isinstance(value, Mapping):
        return all(map(comparable, value.values()))
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(comparable, value))
    return isinstance(value, Number | str | bytes | None)


def difference(mine: Any, expected: Any) -> str | None:
    """Describe the first difference in type, shape, dtype, device or value, or None.

    Never raises: an object that cannot be compared is different.
    """
    try:
        return _difference(mine, expected)
    except Exception as error:  # a strange object must not stop the check
        return f"It returns {kind(mine)}, not comparable ({type(error).__name__})."


def direction(mine: Any, expected: Any) -> str:
    """A sentence on a wrong guess that does not tell the value."""
    guess, right = _bare(mine), _bare(expected)
    if isinstance(right, bool | str | None):
        return "That is not it."
    if _is_real(right):
        if not _is_real(guess):
            return f"You give {kind(mine)}; a number is wanted."
        return f"It is {'more' if right > guess else 'less'} than {brief(guess)}."
    expected_parts, parts = _as_list(expected), _as_list(mine)
    if expected_parts is None or parts is None or len(parts) != len(expected_parts):
        return f"You give {kind(mine)}; {kind(expected)} is wanted."
    right_ones = sum(map(same, parts, expected_parts))
    return f"{right_ones} of the {len(parts)} are right."


def _is_real(value):
    """Whether it is a number on the line: no truth value, no NaN."""
    plain = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    return plain and value == value


def note(mine: Any, expected: Any) -> str | None:
    """A sentence on right numbers that are held in another float type, or None."""
    if isinstance(expected, tuple | list) and isinstance(mine, tuple | list):
        notes = (note(*pair) for pair in zip(mine, expected, strict=False))
        return next(filter(None, notes), None)
    if not (isinstance(mine, Tensor) and isinstance(expected, Tensor)):
        return None
    if mine.dtype == expected.dtype or not _both_floating(mine, expected):
        return None
    return (
        f"Its numbers are {mine.dtype}, the course's are {expected.dtype}: right, but "
        "two types in one sum can surprise."
    )


def _both_floating(mine, expected):
    return mine.is_floating_point() and expected.is_floating_point()


def _difference(mine, expected):
    if isinstance(expected, tuple) and not _plain(expected):
        return _results_difference(mine, expected)
    if isinstance(expected, Tensor):
        return _type_difference(mine, expected) or _tensor_difference(mine, expected)
    if isinstance(expected, tuple | list):
        return _list_difference(mine, expected)
    if isinstance(expected, Mapping):
        return _dict_difference(mine, expected)
    if isinstance(expected, set | frozenset):
        return _set_difference(mine, expected)
    if isinstance(expected, str | bytes):
        return _text_difference(mine, expected)
    return _leaf_difference(mine, expected)


# --- one value ---------------------------------------------------------------------


def _bare(value):
    """The number in a tensor or an array of one element; any other value as it is."""
    arrays = Tensor | np.ndarray | np.generic
    one = isinstance(value, arrays) and np.prod(value.shape) == 1
    return value.item() if one and _has_data(value) else value


def _has_data(value):
    """Whether there are numbers to read: a tensor on the device "meta" has none."""
    return not isinstance(value, Tensor) or not value.is_meta


def _unwrapped(value):
    """Every tensor without axes as the number in it, also inside containers."""
    if isinstance(value, Tensor | np.generic) and not value.shape:
        return _bare(value)
    if type(value) in (tuple, list):
        return type(value)(_unwrapped(part) for part in value)
    if type(value) is dict:
        return {key: _unwrapped(part) for key, part in value.items()}
    return value


def _equal(mine, expected):
    """Whether a number, a string, None or another single object equals another one."""
    if isinstance(expected, Number):
        return isinstance(mine, Number) and _equal_numbers(mine, expected)
    return bool(mine is expected or mine == expected)


def _equal_numbers(mine, expected):
    """An integer exactly, another number up to rounding."""
    if mine == expected:
        return True
    if isinstance(expected, Integral):
        return False
    if mine != mine or expected != expected:  # NaN
        return bool(mine != mine and expected != expected)
    try:
        gap = abs(complex(mine) - complex(expected))
        allowed = CLOSE_NUMBER["atol"] + CLOSE_NUMBER["rtol"] * abs(complex(expected))
    except OverflowError:  # an integer that no float can hold
        return False
    return math.isfinite(gap) and gap <= allowed


def _leaf_difference(mine, expected):
    if not isinstance(expected, Number):
        if _equal(mine, expected):
            return None
        return f"It gives {brief(mine)}; {_expectation(expected)}"
    mine = _bare(mine)
    if not isinstance(mine, Number):
        what = f"{expected}" if isinstance(expected, bool) else "a number"
        return f"It returns {kind(mine)}; {what} is wanted."
    if _equal(mine, expected):
        return None
    return f"It gives {_distinguishable(mine, expected)}; {_expectation(expected)}"


def _distinguishable(mine, expected):
    """A number that differs from `expected`, with enough digits to see that it does."""
    text = brief(mine)
    return repr(mine) if text == brief(expected) else text


def _expectation(expected):
    return f"{brief(expected)} is wanted."


def _text_difference(mine, expected):
    if not isinstance(mine, str if isinstance(expected, str) else bytes):
        return (
            f"It returns {kind(mine)}; {kind(expected)} is wanted: {brief(expected)}."
        )
    if mine == expected:
        return None
    pairs = enumerate(zip(mine, expected, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), None)
    if max(len(mine), len(expected)) <= 24:
        return f"It gives {brief(mine)}; {_expectation(expected)}"
    if place is None:
        return f"It has {len(mine)} characters; {len(expected)} are wanted."
    here = slice(max(0, place - 8), place + 12)
    return (
        f"Character {place} is {mine[place : place + 1]!r} in “…{mine[here]}…”; "
        f"{expected[place : place + 1]!r} is wanted, as in “…{expected[here]}…”."
    )


# --- containers --------------------------------------------------------------------


def _plain(value):
    """Whether it holds only numbers, strings and None, at any depth."""
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return not isinstance(value, Tensor | Mapping | np.ndarray)


def _results_difference(mine, expected):
    if not isinstance(mine, tuple | list):
        return f"It returns {kind(mine)}; {len(expected)} results are wanted."
    if len(mine) != len(expected):
        return f"It returns {len(mine)} results; {len(expected)} are wanted."
    for number, pair in enumerate(zip(mine, expected, strict=True)):
        if inner := _difference(*pair):
            return f"Result {number}: {inner}"
    return None


def _as_list(value):
    """The entries of a value that is accepted as a list, or None."""
    if isinstance(value, tuple | list | range | deque):
        return list(value)
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        return value.tolist()
    return None


def _list_difference(mine, expected, index=()):
    entries = _as_list(mine)
    place = f"Entry {_place(index)}" if index else "It"
    if entries is None:
        verb = "is" if index else "returns"
        return f"{place} {verb} {kind(mine)}; {kind(expected)} is wanted."
    for number, (one, right) in enumerate(zip(entries, expected, strict=False)):
        if inner := _entry_difference(one, right, (*index, number)):
            break
    else:
        inner = None
    if len(entries) == len(expected):
        return inner
    sentence = f"{place} has {_entries(len(entries))}; {len(expected)} wanted."
    return f"{sentence} {inner}" if inner else sentence


def _entries(count):
    return f"{count} entry" if count == 1 else f"{count} entries"


def _place(index):
    return str(index[0]) if len(index) == 1 else str(list(index))


def _entry_difference(mine, expected, index):
    if isinstance(expected, tuple | list):
        return _list_difference(mine, expected, index)
    return _inner_difference(f"Entry {_place(index)}", mine, expected)


def _inner_difference(place, mine, expected):
    """The difference of one value inside a list or a dict; `place` names it."""
    if isinstance(expected, Tensor | Mapping | tuple | list | set | frozenset):
        inner = _difference(mine, expected)
        return inner and f"{place}: {inner}"
    mine = _bare(mine)
    if _equal(mine, expected):
        return None
    return f"{place} is {_distinguishable(mine, expected)}; {_expectation(expected)}"


def _as_key(key):
    """The number in a tensor, since equal tensors are two different keys."""
    return _bare(key) if isinstance(key, Tensor) else key


def _dict_difference(mine, expected):
    if not isinstance(mine, Mapping):
        return f"It returns {kind(mine)}; a dict is wanted."
    mine = {_as_key(key): value for key, value in mine.items()}
    for key, right in expected.items():
        if key not in mine:
            return f"Key {brief(key)} is missing; it has {_keys(mine)}."
        if inner := _inner_difference(f"Key {brief(key)}", mine[key], right):
            return inner
    if more := [key for key in mine if key not in expected]:
        rest = f" (and {len(more) - 1} more)" if more[1:] else ""
        return f"Key {brief(more[0])}{rest} is not wanted."
    return None


def _keys(mine):
    return f"the keys {brief(list(mine))}" if mine else "no keys at all"


def _set_difference(mine, expected):
    if not isinstance(mine, set | frozenset):
        return f"It returns {kind(mine)}; a set is wanted."
    mine = {_as_key(entry) for entry in mine}
    if missing := sorted(expected - mine, key=repr):
        return f"{brief(missing[0])} is missing."
    if more := sorted(mine - expected, key=repr):
        return f"{brief(more[0])} is not wanted."
    return None


# --- tensors -----------------------------------------------------------------------


def _type_difference(mine, expected):
    if not isinstance(mine, Tensor):
        return f"It returns {kind(mine)}; a tensor is wanted."
    if mine.shape != expected.shape:
        return f"Its shape is {sizes(mine.shape)}; {sizes(expected.shape)} is wanted."
    if mine.dtype != expected.dtype and not _both_floating(mine, expected):
        return f"Its dtype is {mine.dtype}; {expected.dtype} is wanted."
    if mine.device != expected.device:
        return f"It is on the device {mine.device}; {expected.device} is wanted."
    return None


def _tensor_difference(mine, expected):
    mine = mine.detach().resolve_conj()
    expected = expected.detach().resolve_conj()
    close = CLOSE
    if _both_floating(mine, expected):
        close = CLOSE_IN_HALF if mine.dtype in HALF else CLOSE
        mine = mine.to(expected.dtype)
    lost = (mine.isnan() & ~expected.isnan()).nonzero()
    if len(lost):
        index = lost[0].tolist()
        value = expected[tuple(index)].item()
        return f"Entry {index} is NaN; {value:.4g} is wanted."
    if expected.is_floating_point() or expected.is_complex():
        wrong = (~torch.isclose(mine, expected, equal_nan=True, **close)).nonzero()
    else:
        wrong = (mine != expected).nonzero()
    if not len(wrong):
        return None
    index = wrong[0].tolist()
    yours = mine[tuple(index)].item()
    right = expected[tuple(index)].item()
    if not index:
        return f"It gives {brief(yours)}; {_expectation(right)}"
    return f"Entry {index} is {brief(yours)}; {_expectation(right)}"
