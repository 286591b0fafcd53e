"""Where do two results differ first? Knows tensors, numbers, texts, lists.

A list stands for a tuple and the reverse; a tensor or an array of numbers stands for a
list of numbers. Equal is what is equal up to rounding.
"""

from collections import deque
from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils.exercises.describing import brief, kind, sizes

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # wide: rounding is no mistake


def same(mine: Any, wanted: Any) -> bool:
    """Equal up to rounding; float32 and float64 may meet."""
    if isinstance(mine, Tensor) and isinstance(wanted, Tensor):
        both = mine.is_floating_point() and wanted.is_floating_point()
        mine = mine.to(wanted.dtype) if both else mine
    return difference(mine, wanted) is None


def difference(mine: Any, wanted: Any) -> str | None:
    """The first difference in words, or None: type, shape, dtype, device, NaN, place"""
    try:
        return _difference(mine, wanted)
    except Exception as error:  # a strange object must not stop the check
        return f"It returns {kind(mine)}, not comparable ({type(error).__name__})."


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
    """The number in a tensor or an array that holds only one."""
    arrays = Tensor | np.ndarray | np.generic
    one = isinstance(value, arrays) and np.prod(value.shape) == 1
    return value.item() if one else value


def _equal(mine, wanted):
    """Is one number, text, None or other single thing as good as the other?"""
    if isinstance(wanted, Number):
        if not isinstance(mine, Number):
            return False
        both_nan = mine != mine and wanted != wanted
        near = mine == wanted or abs(mine - wanted) <= (
            CLOSE["atol"] + CLOSE["rtol"] * abs(wanted)
        )
        return bool(both_nan or near)
    return bool(mine is wanted or mine == wanted)


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
    return f"It gives {brief(mine)}; {_wants(wanted)}"


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


# --- what holds several ------------------------------------------------------------


def _plain(value):
    """Only numbers, texts and None inside, at any depth?"""
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
    """The entries of whatever may stand for a list, or None."""
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
    """Of one thing inside a list or a dict."""
    if isinstance(wanted, Tensor | Mapping | tuple | list | set | frozenset):
        found = _difference(mine, wanted)
        return found and f"{place}: {found}"
    mine = _bare(mine)
    return (
        None if _equal(mine, wanted) else f"{place} is {brief(mine)}; {_wants(wanted)}"
    )


def _hidden(key):
    """Tensors are no good as keys: two equal ones are two keys."""
    return _bare(key) if isinstance(key, Tensor) else key


def _dict_difference(mine, wanted):
    if not isinstance(mine, Mapping):
        return f"It returns {kind(mine)}; a dict is wanted."
    mine = {_hidden(key): value for key, value in mine.items()}
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
    if mine.dtype != wanted.dtype:
        return f"Its dtype is {mine.dtype}; {wanted.dtype} is wanted."
    if mine.device != wanted.device:
        return f"It is on the device {mine.device}; {wanted.device} is wanted."
    return None


def _tensor_difference(mine, wanted):
    mine, wanted = mine.detach().resolve_conj(), wanted.detach()
    lost = (mine.isnan() & ~wanted.isnan()).nonzero()
    if len(lost):
        index = lost[0].tolist()
        value = wanted[tuple(index)].item()
        return f"Entry {index} is NaN; {value:.4g} is wanted."
    if wanted.is_floating_point():
        wrong = (~torch.isclose(mine, wanted, equal_nan=True, **CLOSE)).nonzero()
    else:
        wrong = (mine != wanted).nonzero()
    if not len(wrong):
        return None
    index = wrong[0].tolist()
    yours, right = mine[tuple(index)].item(), wanted[tuple(index)].item()
    if not index:
        return f"It gives {brief(yours)}; {_wants(right)}"
    return f"Entry {index} is {brief(yours)}; {_wants(right)}"
