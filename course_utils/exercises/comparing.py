"""Where do two results differ first? Knows tensors, numbers and tuples of them."""

from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # wide: rounding is no mistake


def sizes(shape: tuple[int, ...]) -> str:
    """(2, 3) -> 2×3, () -> one number."""
    return "×".join(map(str, shape)) or "one number"


def describe(value: Any) -> str:
    """An argument in a few letters."""
    return sizes(value.shape) if isinstance(value, Tensor) else repr(value)


def same(mine: Any, wanted: Any) -> bool:
    """Equal up to rounding; float32 and float64 may meet."""
    if isinstance(mine, Tensor) and isinstance(wanted, Tensor):
        both = mine.is_floating_point() and wanted.is_floating_point()
        mine = mine.to(wanted.dtype) if both else mine
    return difference(mine, wanted) is None


def difference(mine: Any, wanted: Any) -> str | None:
    """The first difference in words, or None: type, shape, dtype, device, NaN, entry"""
    if isinstance(wanted, tuple):
        return _tuple_difference(mine, wanted)
    if isinstance(wanted, Tensor):
        return _type_difference(mine, wanted) or _entry_difference(mine, wanted)
    if isinstance(mine, Tensor | np.ndarray | np.generic) and np.prod(mine.shape) == 1:
        mine = mine.item()
    if not isinstance(mine, Number):
        return f"It returns {_kind(mine)}; a number is wanted."
    if abs(mine - wanted) <= CLOSE["atol"] + CLOSE["rtol"] * abs(wanted):
        return None
    return f"It gives {mine:.6g}; {wanted:.6g} is wanted."


def _kind(value: Any) -> str:
    if value is None:
        return "None (is a `return` missing?)"
    if value is Ellipsis:
        return "`...` (your lines go there)"
    if isinstance(value, np.ndarray):
        return "a NumPy array (no gradient passes through it)"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return "a tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}"


def _tuple_difference(mine, wanted):
    if not isinstance(mine, tuple | list):
        return f"It returns {_kind(mine)}; {len(wanted)} results are wanted."
    if len(mine) != len(wanted):
        return f"It returns {len(mine)} results; {len(wanted)} are wanted."
    for number, pair in enumerate(zip(mine, wanted, strict=True)):
        if found := difference(*pair):
            return f"Result {number}: {found}"
    return None


def _type_difference(mine, wanted):
    if not isinstance(mine, Tensor):
        return f"It returns {_kind(mine)}; a tensor is wanted."
    if mine.shape != wanted.shape:
        return f"Its shape is {sizes(mine.shape)}; {sizes(wanted.shape)} is wanted."
    if mine.dtype != wanted.dtype:
        return f"Its dtype is {mine.dtype}; {wanted.dtype} is wanted."
    if mine.device != wanted.device:
        return f"It is on the device {mine.device}; {wanted.device} is wanted."
    return None


def _entry_difference(mine, wanted):
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
    show = str if isinstance(right, bool) else "{:.6g}".format
    return f"Entry {index} is {show(yours)}; {show(right)} is wanted."
