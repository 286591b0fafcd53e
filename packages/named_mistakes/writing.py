"""Write a function down as a file of its own, with all that it needs.

Knows functions, cells and names. Knows nothing of exercises.

The file imports what can be imported, repeats the helper functions and classes of a
notebook, and holds its simple constants as they are now. `__all__` names the function.
"""

import ast
import dis
import inspect
import linecache
import math
import re
import sys
import textwrap
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

LONGEST = 2000  # characters of a constant
HOMES = "torch torch.nn.functional math einops typing itertools functools operator"
LAZY = "from __future__ import annotations"  # their names need no meaning
READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_CLASSDEREF"}
BUILT_IN = {one.__name__: one for one in (dict, frozenset, range, set, slice)}
IN_CONSTANTS = {"torch": torch, "re": re, "inf": math.inf, "nan": math.nan}


class NotPortableError(Exception):
    """What a file cannot hold, and the cure, in one sentence."""


def self_contained(function: Any) -> str:
    """The text of a file that defines the function.

    Raises NotPortableError for what a file cannot hold: a model, a large tensor, a
    function whose source is not known.
    """
    file = _File()
    name = getattr(function, "__name__", "")
    name = name if name.isidentifier() else "answer"
    try:
        file.define(name, function)
    except SyntaxError:  # `nonlocal`, or a method that calls super()
        cure = "move it to the left margin of a cell"
        raise NotPortableError(f"`{name}` is a part of something: {cure}") from None
    imports = "\n".join(sorted(file.imports))
    start = "\n\n".join(filter(None, [LAZY, imports, f'__all__ = ["{name}"]']))
    return "\n\n\n".join([start, *file.body]) + "\n"


class _File:
    """What a file imports and defines, and what each name in it means."""

    def __init__(self):
        self.imports: set[str] = set()
        self.body: list[str] = []
        self.meaning: dict[str, Any] = {}

    def define(self, name: str, value: Any) -> None:
        """Give a name its meaning, after all that this needs."""
        if self.meaning.get(name, self) is value:
            return
        self.take(name, value)
        first, cls = len(self.meaning) == 1, type(value)
        if line := _import_line(name, value):
            self.imports.add(line)
        elif isinstance(inspect.unwrap(value), FunctionType | type):
            self.repeat(name, value)
        elif cls.__module__ == "__main__" and getattr(value, "__dict__", None) == {}:
            self.define(cls.__name__, cls)  # an object without a state
            self.body.append(f"{name} = {cls.__name__}()")
        elif first:
            cure = "hand over a function that builds it or calls it"
            raise NotPortableError(f"it is no function but a {cls.__name__}: {cure}")
        else:
            self.body.append(f"{name} = {self.constant(name, value)}")

    def take(self, name: str, value: Any) -> None:
        if self.meaning.setdefault(name, value) is not value:
            two = f"`{name}` means two different things in it"
            raise NotPortableError(f"{two}: rename one of them")

    def repeat(self, name: str, value: Any) -> None:
        """Repeat the source of a function or a class, and define what it needs."""
        plain = inspect.unwrap(value)
        own, source = _source(plain)
        if own:
            self.take(own, value)
        known, needed = _known_to(plain), {*_reads(f"{LAZY}\n{source}")}
        for used in _reads(source):
            if used not in known or used in (own, name) or used.startswith("__"):
                continue
            if used in needed:
                self.define(used, known[used])
            elif line := _import_line(used, known[used]):  # in an annotation
                self.imports.add(line)
        self.body.append(source if own else f"{name} = {source}")
        if own and own != name:
            self.body.append(f"{name} = {own}")

    def constant(self, name: str, value: Any) -> str:
        """A constant as it is written, if reading it gives the same."""
        text = repr(value)
        if isinstance(value, torch.Tensor):
            text = f"torch.tensor({value.tolist()}, dtype={value.dtype})"
        try:
            read = eval(text, {"__builtins__": BUILT_IN} | IN_CONSTANTS)
            same = type(read) is type(value) and repr(read) == repr(value)
        except Exception:  # it has no source
            same = False
        if not same or len(text) > LONGEST:
            raise NotPortableError(
                f"`{name}` is a {type(value).__name__} from outside of the function: "
                f"make `{name}` an argument, or build it inside"
            )
        for used in IN_CONSTANTS.keys() & _reads(text):
            self.define(used, IN_CONSTANTS[used])
        return text


def _import_line(name: str, value: Any) -> str | None:
    """How a file imports an object under a name, or None."""
    if isinstance(value, ModuleType):
        renamed = f" as {name}" if name != value.__name__ else ""
        return f"import {value.__name__}{renamed}"
    home = getattr(value, "__module__", None) or ""
    if value is None or home == "__main__":
        return None
    names = [getattr(value, "__qualname__", None), getattr(value, "__name__", None)]
    for module in (*HOMES.split(), home.partition(".")[0], home):
        for own in filter(None, [*names, name]):
            if getattr(sys.modules.get(module), own, None) is value:
                return f"from {module} import {own}" + f" as {name}" * (own != name)
    return None


def _known_to(plain: Any) -> dict[str, Any]:
    """What the names in a function or class mean."""
    if not isinstance(plain, FunctionType):
        return vars(sys.modules[plain.__module__])
    return {**plain.__globals__, **inspect.getclosurevars(plain).nonlocals}


def _reads(source: str | CodeType) -> Iterator[str]:
    """The names that a source takes from outside itself, in its order."""
    code = compile(source, "", "exec") if isinstance(source, str) else source
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in READS)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _reads(inner)


def _source(plain: Any) -> tuple[str | None, str]:
    """(name, or None for a lambda; source) of a function or class."""
    code = getattr(plain, "__code__", None)
    methods = [one for one in vars(plain).values() if isinstance(one, FunctionType)]
    codes = [code] if code else [one.__code__ for one in methods]
    for file in dict.fromkeys(one.co_filename for one in codes):
        text, lambdas = "".join(linecache.getlines(file)), []
        for node in ast.walk(ast.parse(text)):
            marks = [node, *getattr(node, "decorator_list", ())]
            first = min(getattr(mark, "lineno", 0) for mark in marks)
            if code is not None and first != code.co_firstlineno:
                continue
            if getattr(node, "name", None) == plain.__name__:
                lines = text.splitlines()[first - 1 : getattr(node, "end_lineno", None)]
                return plain.__name__, textwrap.dedent("\n".join(lines))
            if isinstance(node, ast.Lambda) and plain.__name__ == "<lambda>":
                lambdas.append(f"({ast.get_source_segment(text, node)})")
        for one in lambdas:
            made = compile(one, "", "eval").co_consts[0]
            if len(lambdas) == 1 or (code and made.co_code == code.co_code):
                return None, one
    cure = "define it by `def` in a cell without %%magic"
    raise NotPortableError(f"the source of `{plain.__name__}` is not known: {cure}")
