"""What an exercise is made of. Knows nothing of running or showing one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """A wrong version that people really write, and two hints that lead on.

    function: takes what the exercise takes; it must differ from the reference on at
    least one of the cases, and from every other mistake.
    """

    name: str
    function: Callable[..., Any]
    hint: str
    more: str


@dataclass(frozen=True)
class Exercise:
    """A function (or, with `predicts`, a value) that the learner hands over.

    statement: what it gives, what it wants (shapes), why it matters.
    takes: the names of the arguments. reference: the right answer.
    cases: from a generator to the argument tuples that a check tries.
    hint: for who is lost before any known mistake. shared: whose source `solution`
    shows, where this is not the reference itself. seconds: of computing; an answer
    that takes longer does not come to an end. Only one that trains needs more.

    Wanted may be tensors, numbers, texts, True, None, and tuples, lists, dicts, sets of
    them. Arguments may be these, layers and functions; the answer may write into one
    only if the reference does.
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
