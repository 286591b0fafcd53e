"""Describe arguments and results briefly, for reports on a check.

Knows tensors, layers and Python values. Compares only an argument with its copy.
"""

import inspect
import reprlib
from collections.abc import Mapping
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LONG = 40  # a value with a repr up to this length is shown in full
FEW = 6  # numbers that are shown one by one


class _Brief(reprlib.Repr):
    """Like repr, but long values are truncated, and floats have six digits."""

    def __init__(self):
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 6
        self.maxstring = self.maxother = 60
        self.maxlevel = 3

    def repr_float(self, value, level):
        return f"{value:.6g}"

    def repr_Tensor(self, value, level):  # noqa: N802 (reprlib looks for this name)
        return describe(value)

    repr_Parameter = repr_Tensor  # noqa: N815
    repr_ndarray = repr_Tensor


_shorten = _Brief()


def brief(value: Any) -> str:
    """The repr of a value, truncated."""
    if isinstance(value, nn.Module):
        return describe(value)
    if isinstance(value, np.generic):
        value = value.item()
    return _shorten.repr(value)


def sizes(shape: tuple[int, ...]) -> str:
    """(2, 3) -> 2×3, () -> one number."""
    return "×".join(map(str, shape)) or "one number"


def describe(value: Any) -> str:
    """An argument in a few words: 2×3, [1, 2], 40 entries, a layer Linear."""
    if isinstance(value, Tensor | np.ndarray):
        return _tensor(value)
    if isinstance(value, nn.Module):
        return f"a layer {type(value).__name__}"
    if isinstance(value, torch.Generator):
        return "a generator"
    if isinstance(value, list | tuple | set | frozenset | Mapping):
        return _collection(value)
    if isinstance(value, type) or callable(value):
        return f"a {'class' if isinstance(value, type) else 'function'}"
    text = brief(value)
    return f"the {type(value).__name__}" if "\n" in text else text


def _tensor(value):
    """The shape; a single axis as its numbers, if they are few."""
    if value.ndim != 1 or (isinstance(value, Tensor) and value.is_meta):
        return sizes(value.shape)
    if len(value) > FEW:
        return f"{len(value)} numbers"
    return f"[{', '.join(f'{part:.3g}' for part in value.tolist())}]"


def _collection(value):
    parts = list(value.values()) if isinstance(value, Mapping) else list(value)
    if isinstance(value, list | tuple) and parts and {*map(type, parts)} == {str}:
        text = repr(" ".join(parts))  # words are read as a text
        return text if len(text) <= 2 * LONG else brief(value)
    simple = all(
        isinstance(p, Number | str | bytes | tuple | type(None)) for p in parts
    )
    if simple and len(text := repr(value)) <= LONG:
        return text
    if not isinstance(value, Mapping | set | frozenset) and 0 < len(parts) <= 3:
        left, right = "()" if isinstance(value, tuple) else "[]"
        return f"{left}{', '.join(map(describe, parts))}{right}"
    return f"{len(parts)} {'keys' if isinstance(value, Mapping) else 'entries'}"


def kind(value: Any) -> str:
    """The type of a result that should have been of another type."""
    if value is None:
        return "None (is a `return` missing?)"
    if value is Ellipsis:
        return "`...` (your lines go there)"
    if isinstance(value, np.ndarray):
        return "a NumPy array (no gradient passes through it)"
    if inspect.isgenerator(value) or isinstance(value, map | zip | filter):
        return f"a {type(value).__name__} (`list(...)` collects what it gives)"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, nn.Module):
        return describe(value)
    name = "tensor" if isinstance(value, Tensor) else type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _state(module):
    """What a caller finds again in a layer: weights, mode, how many hooks."""
    state = dict(module.named_parameters())
    for name, weight in module.named_parameters():
        state[name, "trains"] = weight.requires_grad
    for name, part in module.named_modules():
        hooks = len(part._forward_hooks), len(part._forward_pre_hooks)
        state[name, "mode"] = part.training, *hooks
    return state


def altered(old: Any, new: Any) -> bool:
    """Whether an argument was changed in place; looks into lists, dicts and layers."""
    if type(old) is not type(new):
        return True
    if isinstance(old, nn.Module):
        return altered(_state(old), _state(new))
    if isinstance(old, Tensor | np.ndarray):
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return True
        equal = (old == new) | ((old != old) & (new != new))  # or both NaN
        return not bool(equal.all())
    if isinstance(old, Mapping):
        if list(map(repr, old)) != list(map(repr, new)):
            return True
        return any(map(altered, old.values(), new.values()))
    if isinstance(old, list | tuple):
        return len(old) != len(new) or any(map(altered, old, new))
    if isinstance(old, Number | str | bytes | set | frozenset | type(None)):
        return old != new and old == old
    return False
