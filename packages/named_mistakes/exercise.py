"""The parts of an exercise. Knows nothing of running or showing one."""

import re
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
    `solution` shows its source, so it is short and keeps to what the prompt allows.
    cases: takes a torch.Generator, returns the tuples of arguments that a check tries.
    hint: steps, from how to begin to nearly all; a string has a step in each sentence.
    shared: the function of the course that gives the same for the same arguments, if
    there is one: a test holds the reference to it.
    trains: whether somebody trains through the result, so that an answer which cuts the
    gradient is wrong. seconds: an answer that computes for longer is stopped; only an
    exercise that trains needs more.

    Results may be tensors, numbers, strings, booleans, None, and tuples, lists and
    dicts of these. Arguments may also be layers and functions. An answer may change an
    argument in place only if the reference does.

    tolerance: how far a real number, or each entry of a tensor, may lie from the
    reference's, for a task that many results solve; the prompt states it. 0 means equal
    up to rounding.
    plain: the prompt asks for plain numbers, so that a tensor of one number is wrong.
    """

    name: str
    statement: str
    takes: tuple[str, ...]
    reference: Callable[..., Any]
    cases: Callable[..., list[tuple]]
    mistakes: tuple[Mistake, ...]
    hint: str | tuple[str, ...]
    shared: Callable[..., Any] | None = None
    predicts: bool = False
    trains: bool = False
    seconds: int = 3
    tolerance: float = 0.0
    plain: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of the hint."""
        if isinstance(self.hint, str):
            return tuple(re.split(r"(?<=[.?!]) (?=[A-Z])", self.hint))
        return self.hint
