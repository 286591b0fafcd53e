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


def same(mine: Any, wanted: Any) -> bool:
    """Whether two results are equal up to rounding, whatever type holds the numbers.

    Unlike in `difference`, a tensor without axes equals the Python number in it.
    """
    try:
        mine = _unwrapped(mine)
        wanted = _unwrapped(wanted)
    except Exception:  # a strange object must not stop the check
        return False
    return difference(mine, wanted) is None


def near(mine: Any, wanted: Any, tolerance: float) -> bool:
    """Whether two floating tensors of one shape differ nowhere by more than this.

    Or two real numbers, which are not bool; where one is wanted, a tensor of one number
    counts as that number, as in `difference`.
    """
    if _is_real(wanted):
        return _near_numbers(_bare(mine), wanted, tolerance)
    return _alike(mine, wanted) and bool(_near_entries(mine, wanted, tolerance).all())


def settled(mine: Any, wanted: Any, tolerance: float) -> Any:
    """The same tensor, with the wanted entries where it is near enough to them.

    So that `difference` names an entry that is too far off. Anything else comes back as
    it is.
    """
    if not _alike(mine, wanted):
        return mine
    kept = _near_entries(mine, wanted, tolerance)
    return torch.where(kept, wanted.detach().to(mine.dtype), mine.detach())


def _alike(mine, wanted):
    """Whether both are floating tensors of one shape on one device."""
    if not (isinstance(mine, Tensor) and isinstance(wanted, Tensor)):
        return False
    if mine.shape != wanted.shape or not _both_floating(mine, wanted):
        return False
    return mine.device == wanted.device


def _near_entries(mine, wanted, tolerance):
    gap = mine.detach().to(wanted.dtype) - wanted.detach()
    return gap.abs() <= tolerance  # NaN is never near


def _near_numbers(mine, wanted, tolerance):
    if not _is_real(mine):
        return False
    try:
        gap = abs(float(mine) - float(wanted))
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


def difference(mine: Any, wanted: Any) -> str | None:
    """Describe the first difference in type, shape, dtype, device or value, or None.

    Never raises: an object that cannot be compared is different.
    """
    try:
        return _difference(mine, wanted)
    except Exception as error:  # a strange object must not stop the check
        return f"It returns {kind(mine)}, not comparable ({type(error).__name__})."


def direction(mine: Any, wanted: Any) -> str:
    """A sentence on a wrong guess that does not tell the value."""
    guess, right = _bare(mine), _bare(wanted)
    if isinstance(right, bool | str | None):
        return "That is not it."
    if _is_real(right):
        if not _is_real(guess):
            return f"You give {kind(mine)}; a number is wanted."
        return f"It is {'more' if right > guess else 'less'} than {brief(guess)}."
    wanted_parts, parts = _as_list(wanted), _as_list(mine)
    if wanted_parts is None or parts is None or len(parts) != len(wanted_parts):
        return f"You give {kind(mine)}; {kind(wanted)} is wanted."
    right_ones = sum(map(same, parts, wanted_parts))
    return f"{right_ones} of the {len(parts)} are right."


def _is_real(value):
    """Whether it is a number on the line: no truth value, no NaN."""
    plain = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    return plain and value == value


def note(mine: Any, wanted: Any) -> str | None:
    """A sentence on right numbers that are held in another float type, or None."""
    if isinstance(wanted, tuple | list) and isinstance(mine, tuple | list):
        found = (note(*pair) for pair in zip(mine, wanted, strict=False))
        return next(filter(None, found), None)
    if not (isinstance(mine, Tensor) and isinstance(wanted, Tensor)):
        return None
    if mine.dtype == wanted.dtype or not _both_floating(mine, wanted):
        return None
    return (
        f"Its numbers are {mine.dtype}, the course's are {wanted.dtype}: right, but "
        "two types in one sum can surprise."
    )


def _both_floating(mine, wanted):
    return mine.is_floating_point() and wanted.is_floating_point()


def _difference(mine, wanted):
    if isinstance(wanted, tuple) and not _plain(wanted):
        return _results_difference(mine, wanted)
    if isinstance(wanted, Tensor):
        return _type_difference(mine, wanted) or _tensor_difference(mine, wanted)
    if isinstance(wanted, tuple | list):
        return _list_difference(mine, wanted)
    if isinstance(wanted, Mapping):
        return _dict_difference(mine, wanted)
    if isinstance(wanted, set | frozenset):
        return _set_difference(mine, wanted)
    if isinstance(wanted, str | bytes):
        return _text_difference(mine, wanted)
    return _leaf_difference(mine, wanted)


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


def _equal(mine, wanted):
    """Whether a number, a string, None or another single object equals another one."""
    if isinstance(wanted, Number):
        return isinstance(mine, Number) and _equal_numbers(mine, wanted)
    return bool(mine is wanted or mine == wanted)


def _equal_numbers(mine, wanted):
    """An integer exactly, another number up to rounding."""
    if mine == wanted:
        return True
    if isinstance(wanted, Integral):
        return False
    if mine != mine or wanted != wanted:  # NaN
        return bool(mine != mine and wanted != wanted)
    try:
        gap = abs(complex(mine) - complex(wanted))
        allowed = CLOSE_NUMBER["atol"] + CLOSE_NUMBER["rtol"] * abs(complex(wanted))
    except OverflowError:  # an integer that no float can hold
        return False
    return math.isfinite(gap) and gap <= allowed


def _leaf_difference(mine, wanted):
    if not isinstance(wanted, Number):
        same_thing = _equal(mine, wanted)
        return None if same_thing else f"It gives {brief(mine)}; {_wants(wanted)}"
    mine = _bare(mine)
    if not isinstance(mine, Number):
        what = f"{wanted}" if isinstance(wanted, bool) else "a number"
        return f"It returns {kind(mine)}; {what} is wanted."
    if _equal(mine, wanted):
        return None
    return f"It gives {_told_apart(mine, wanted)}; {_wants(wanted)}"


def _told_apart(mine, wanted):
    """A number that differs from `wanted`, with enough digits to see that it does."""
    text = brief(mine)
    return repr(mine) if text == brief(wanted) else text


def _wants(wanted):
    return f"{brief(wanted)} is wanted."


def _text_difference(mine, wanted):
    if not isinstance(mine, str if isinstance(wanted, str) else bytes):
        return f"It returns {kind(mine)}; {kind(wanted)} is wanted: {brief(wanted)}."
    if mine == wanted:
        return None
    pairs = enumerate(zip(mine, wanted, strict=False))
    place = next((i for i, (a, b) in pairs if a != b), None)
    if max(len(mine), len(wanted)) <= 24:
        return f"It gives {brief(mine)}; {_wants(wanted)}"
    if place is None:
        return f"It has {len(mine)} characters; {len(wanted)} are wanted."
    here = slice(max(0, place - 8), place + 12)
    return (
        f"Character {place} is {mine[place : place + 1]!r} in “…{mine[here]}…”; "
        f"{wanted[place : place + 1]!r} is wanted, as in “…{wanted[here]}…”."
    )


# --- containers --------------------------------------------------------------------


def _plain(value):
    """Whether it holds only numbers, strings and None, at any depth."""
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return not isinstance(value, Tensor | Mapping | np.ndarray)


def _results_difference(mine, wanted):
    if not isinstance(mine, tuple | list):
        return f"It returns {kind(mine)}; {len(wanted)} results are wanted."
    if len(mine) != len(wanted):
        return f"It returns {len(mine)} results; {len(wanted)} are wanted."
    for number, pair in enumerate(zip(mine, wanted, strict=True)):
        if found := _difference(*pair):
            return f"Result {number}: {found}"
    return None


def _as_list(value):
    """The entries of a value that is accepted as a list, or None."""
    if isinstance(value, tuple | list | range | deque):
        return list(value)
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        return value.tolist()
    return None


def _list_difference(mine, wanted, index=()):
    entries = _as_list(mine)
    place = f"Entry {_place(index)}" if index else "It"
    if entries is None:
        verb = "is" if index else "returns"
        return f"{place} {verb} {kind(mine)}; {kind(wanted)} is wanted."
    for number, (one, right) in enumerate(zip(entries, wanted, strict=False)):
        if found := _entry_difference(one, right, (*index, number)):
            break
    else:
        found = None
    if len(entries) == len(wanted):
        return found
    said = f"{place} has {_entries(len(entries))}; {len(wanted)} wanted."
    return f"{said} {found}" if found else said


def _entries(count):
    return f"{count} entry" if count == 1 else f"{count} entries"


def _place(index):
    return str(index[0]) if len(index) == 1 else str(list(index))


def _entry_difference(mine, wanted, index):
    if isinstance(wanted, tuple | list):
        return _list_difference(mine, wanted, index)
    return _inner_difference(f"Entry {_place(index)}", mine, wanted)


def _inner_difference(place, mine, wanted):
    """The difference of one value inside a list or a dict; `place` names it."""
    if isinstance(wanted, Tensor | Mapping | tuple | list | set | frozenset):
        found = _difference(mine, wanted)
        return found and f"{place}: {found}"
    mine = _bare(mine)
    if _equal(mine, wanted):
        return None
    return f"{place} is {_told_apart(mine, wanted)}; {_wants(wanted)}"


def _as_key(key):
    """The number in a tensor, since equal tensors are two different keys."""
    return _bare(key) if isinstance(key, Tensor) else key


def _dict_difference(mine, wanted):
    if not isinstance(mine, Mapping):
        return f"It returns {kind(mine)}; a dict is wanted."
    mine = {_as_key(key): value for key, value in mine.items()}
    for key, right in wanted.items():
        if key not in mine:
            return f"Key {brief(key)} is missing; it has {_keys(mine)}."
        if found := _inner_difference(f"Key {brief(key)}", mine[key], right):
            return found
    if more := [key for key in mine if key not in wanted]:
        rest = f" (and {len(more) - 1} more)" if more[1:] else ""
        return f"Key {brief(more[0])}{rest} is not wanted."
    return None


def _keys(mine):
    return f"the keys {brief(list(mine))}" if mine else "no keys at all"


def _set_difference(mine, wanted):
    if not isinstance(mine, set | frozenset):
        return f"It returns {kind(mine)}; a set is wanted."
    mine = {_as_key(entry) for entry in mine}
    if missing := sorted(wanted - mine, key=repr):
        return f"{brief(missing[0])} is missing."
    if more := sorted(mine - wanted, key=repr):
        return f"{brief(more[0])} is not wanted."
    return None


# --- tensors -----------------------------------------------------------------------


def _type_difference(mine, wanted):
    if not isinstance(mine, Tensor):
        return f"It returns {kind(mine)}; a tensor is wanted."
    if mine.shape != wanted.shape:
        return f"Its shape is {sizes(mine.shape)}; {sizes(wanted.shape)} is wanted."
    if mine.dtype != wanted.dtype and not _both_floating(mine, wanted):
        return f"Its dtype is {mine.dtype}; {wanted.dtype} is wanted."
    if mine.device != wanted.device:
        return f"It is on the device {mine.device}; {wanted.device} is wanted."
    return None


def _tensor_difference(mine, wanted):
    mine = mine.detach().resolve_conj()
    wanted = wanted.detach().resolve_conj()
    close = CLOSE
    if _both_floating(mine, wanted):
        close = CLOSE_IN_HALF if mine.dtype in HALF else CLOSE
        mine = mine.to(wanted.dtype)
    lost = (mine.isnan() & ~wanted.isnan()).nonzero()
    if len(lost):
        index = lost[0].tolist()
        value = wanted[tuple(index)].item()
        return f"Entry {index} is NaN; {value:.4g} is wanted."
    if wanted.is_floating_point() or wanted.is_complex():
        wrong = (~torch.isclose(mine, wanted, equal_nan=True, **close)).nonzero()
    else:
        wrong = (mine != wanted).nonzero()
    if not len(wrong):
        return None
    index = wrong[0].tolist()
    yours = mine[tuple(index)].item()
    right = wanted[tuple(index)].item()
    if not index:
        return f"It gives {brief(yours)}; {_wants(right)}"
    return f"Entry {index} is {brief(yours)}; {_wants(right)}"
