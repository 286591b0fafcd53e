"""The parts of an exercise. Knows nothing of running or showing one."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer that people often write, with two hints.

    function: takes the arguments of the exercise; on at least one of the cases its
    result differs from that of the reference and from that of every other mistake.
    hint: part of the report on a check. more: what `hint` adds to it. also: what the
    same mistake gives in answers that stop at a stage of the exercise, or with another
    constant. variant: where others mean it so and it is no error, what follows from it.
    """

    name: str
    function: Callable[..., Any]
    hint: str
    more: str
    also: tuple[Callable[..., Any], ...] = ()
    variant: str = ""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """A task whose answer is a function or, with `predicts`, a value.

    statement: what it gives and takes, and why. takes: the names of the arguments.
    reference: a short right answer, which `solution` shows. cases: takes a
    torch.Generator, returns the tuples of arguments that a check tries. hint: steps, a
    string has one in each sentence. shared: a function that gives the same for the same
    arguments, if there is one: a test holds the reference to it. trains: an answer that
    cuts or bends the gradient of an argument is wrong; the names of these arguments, or
    True for all that hold floating-point tensors, also in lists and dicts.
    seconds: of computing, after which an answer is stopped. tolerance: how far a real
    number may lie from the reference's; 0 means equal up to rounding. plain: a tensor
    is wrong where the reference gives a number. stages: for a long answer, (name,
    function) of what it gives if it stops there, in order; a check then says how far it
    is right.
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
    trains: bool | tuple[str, ...] = False
    seconds: int = 3
    tolerance: float = 0.0
    plain: bool = False
    stages: tuple[tuple[str, Callable[..., Any]], ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps of the hint."""
        if isinstance(self.hint, str):
            return tuple(re.split(r"(?<=[.?!]) (?=[A-Z])", self.hint))
        return self.hint
