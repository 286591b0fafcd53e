"""The parts of an exercise. Knows nothing of running or showing one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people often write, with two hints.

    function: takes the arguments of the exercise; on at least one of the cases its
    result differs from that of the reference and from that of every other mistake.
    hint: part of the report on a check. more: what `hint` adds to it.
    """

    name: str
    function: Callable[..., Any]
    hint: str
    more: str


@dataclass(frozen=True)
class Exercise:
    """A task whose answer is a function or, with `predicts`, a value.

    statement: what the function returns, what it takes (with shapes), why it matters.
    takes: the names of the arguments. reference: the right answer.
    cases: takes a torch.Generator, returns the tuples of arguments that a check tries.
    hint: shown before the last check has named a known mistake.
    shared: the function or class whose source `solution` shows, if this is not the
    reference. seconds: an answer that computes for longer is stopped; only an exercise
    that trains needs more.

    Results may be tensors, numbers, strings, booleans, None, and tuples, lists, dicts
    and sets of these. Arguments may also be layers and functions. An answer may change
    an argument in place only if the reference does.
    """

    name: str
    statement: str
    takes: tuple[str, ...]
    reference: Callable[..., Any]
    cases: Callable[..., list[tuple]]
    mistakes: tuple[Mistake, ...]
    hint: str
    shared: Callable[..., Any] | None = None
    predicts: bool = False
    seconds: int = 3
