"""Judge a learner's answer: compare it with the reference and the known mistakes.

Knows exercises and reports. Knows nothing of a session.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from named_mistakes.comparing import (
    HALF,
    comparable,
    difference,
    direction,
    not_plain,
    same,
)
from named_mistakes.describing import describe
from named_mistakes.exercise import Exercise, Mistake
from named_mistakes.limit import TimeIsUp
from named_mistakes.report import Report
from named_mistakes.running import Outcome, gradient, is_stub, isolated, own_line, run

FURTHER = 2  # other draws of the cases, in which an answer must equal a mistake


def examine(exercise: Exercise, answer: Any, seed: int = 0) -> Report:
    """Return the report on an answer.

    The verdict is the same for every seed; only the numbers that it shows differ. Every
    call runs on the CPU, with gradients on and from the same random states; afterwards
    the process is as before (see `running.isolated`).
    """
    with isolated():
        return _refused(exercise, answer) or _Judge(exercise, answer, seed).report()


def _refused(exercise, answer):
    """The report on something that is not an answer yet, or None."""
    untried = answer is None or answer is Ellipsis or answer is NotImplemented
    if untried or (callable(answer) and not exercise.predicts and is_stub(answer)):
        return _not_tried(exercise)
    if exercise.predicts == callable(answer):
        what = "the value itself" if exercise.predicts else "the function itself"
        message = f"Hand over {what}, as in check({exercise.name!r}, mine)."
        return Report("different", f"{exercise.name}: {what} is wanted", (message,))
    return None


def _not_tried(exercise):
    title = f"{exercise.name}: not tried yet"
    return Report("not tried", title, (exercise.statement,))


def _agree(mine, other):
    """Whether two outcomes are errors, or equal results."""
    if mine.error or other.error:
        return bool(mine.error and other.error)
    return same(mine.value, other.value)


def _message(error):
    try:
        text = str(error).strip().split("\nException raised")[0]
    except Exception:
        return ""
    return text if len(text) <= 400 else text[:400] + " …"


class _Judge:
    """One answer to one exercise, and the cases on which it is tried."""

    def __init__(self, exercise: Exercise, answer: Any, seed: int):
        self.exercise = exercise
        self.name = exercise.name
        self.function = (lambda: answer) if exercise.predicts else answer
        self.seed = seed
        self.cases = self.draw(seed)

    def draw(self, seed: int) -> list[tuple]:
        return self.exercise.cases(torch.Generator().manual_seed(seed))

    def run(self, case: tuple) -> Outcome:
        return run(self.function, case, self.exercise.seconds)

    def say(self, status: str, title: str, place: int, *lines: str, **more) -> Report:
        return Report(status, f"{self.name}: {title}", lines, case=place, **more)

    def asked(self, place: int) -> str:
        """The arguments of a case, in words."""
        pairs = zip(self.exercise.takes, self.cases[place], strict=True)
        return ", ".join(f"{name} {describe(value)}" for name, value in pairs)

    def ending(self, place: int) -> tuple[str, ...]:
        """A line that names the arguments of the call, if there are any."""
        return (f"Asked with {self.asked(place)}.",) if self.exercise.takes else ()

    def report(self) -> Report:
        outcomes = []
        for place, case in enumerate(self.cases):
            outcomes.append(self.run(case))
            if isinstance(outcomes[-1].error, TimeIsUp):
                return self.error(place, outcomes[-1].error)
        first = outcomes[0]
        bare = type(first.error) is NotImplementedError and not first.error.args
        if bare or first.value is NotImplemented:
            return _not_tried(self.exercise)
        report = self.verdict(outcomes)
        if printed := first.printed.strip():
            shortened = printed if len(printed) <= 200 else printed[:200] + " …"
            lines = (*report.lines, f"Your function printed: {shortened}")
            return dataclasses.replace(report, lines=lines)
        return report

    def verdict(self, outcomes: list[Outcome]) -> Report:
        """The report on an answer that was run on every case."""
        right = [run(self.exercise.reference, case) for case in self.cases]
        for place, case in enumerate(self.cases):
            changed = outcomes[place].changed(case, self.exercise.takes)
            changed -= right[place].changed(case, self.exercise.takes)
            if changed:
                return self.changed(place, sorted(changed))
        if not self.exercise.predicts and (report := self.remembering(outcomes)):
            return report
        pairs = list(zip(outcomes, right, strict=True))
        differences = [mine.error or self.differs(mine, one) for mine, one in pairs]
        if not any(differences):
            return self.right(outcomes)
        if report := self.stage(outcomes):
            return report
        place = next(i for i, what in enumerate(differences) if what)
        if mistake := self.known(outcomes, right):
            lines = mistake.hint, f"hint({self.name!r}) says more."
            return self.say(
                "mistake", mistake.name, place, *lines, mistake=mistake.name
            )
        if self.exercise.predicts:
            guess = direction(outcomes[place].value, right[place].value)
            help_on = f"hint({self.name!r}) helps on."
            return self.say("different", "not yet", place, guess, help_on)
        if outcomes[place].error:
            return self.error(place, outcomes[place].error)
        help_on = f"hint({self.name!r}) helps on; case({self.name!r}) gives the case."
        lines = differences[place], *self.ending(place), help_on
        return self.say("different", "not yet", place, *lines)

    def differs(self, mine: Outcome, right: Outcome) -> str | None:
        """The first difference that is more than the exercise tolerates, or None."""
        found = difference(mine.value, right.value, self.exercise.tolerance)
        return found or (not_plain(mine.value) if self.exercise.plain else None)

    def known(self, outcomes: list[Outcome], right: list[Outcome]) -> Mistake | None:
        """The known mistake that gives the same result in every case, or None.

        An answer may equal a mistake in these cases by chance, so it has to in others.
        """
        mistakes = self.exercise.mistakes
        functions = [
            (m, function) for m in mistakes for function in (m.function, *m.also)
        ]
        for mistake, function in functions:
            theirs = [run(function, case) for case in self.cases]
            pairs = zip(theirs, right, strict=True)
            wrong = any(not o.error and not same(o.value, r.value) for o, r in pairs)
            if wrong and all(map(_agree, outcomes, theirs)):
                seeds = (FURTHER * self.seed + 1_001 + n for n in range(FURTHER))
                more = [case for seed in seeds for case in self.draw(seed)]
                theirs = (run(function, case) for case in more)
                return (
                    mistake if all(map(_agree, map(self.run, more), theirs)) else None
                )
        return None

    def stage(self, outcomes: list[Outcome]) -> Report | None:
        """The report on an unfinished answer that is right up to a stage, or None."""
        names = [name for name, _ in self.exercise.stages] + ["the whole"]
        for place, (_, function) in enumerate(self.exercise.stages):
            theirs = [run(function, case) for case in self.cases]
            if all(map(_agree, outcomes, theirs)):
                title = f"right so far, {place + 1} of {len(names)}: {names[place]}"
                return self.say("stage", title, 0, f"Next: {names[place + 1]}.")
        return None

    def remembering(self, outcomes: list[Outcome]) -> Report | None:
        """The report on a function whose second answer to a case differs, or None."""
        for place, case in enumerate(self.draw(self.seed)):
            again, first = self.run(case), outcomes[place]
            if isinstance(again.error, TimeIsUp):
                return self.error(place, again.error)
            if comparable(first.value) and not _agree(first, again):
                message = (
                    "Asked the same twice, it answers differently the second time. "
                    "Something is kept from call to call: a default argument that is "
                    "changed, a global name, an attribute."
                )
                lines = message, *self.ending(place)
                return self.say(
                    "changed", "it remembers an earlier call", place, *lines
                )
        return None

    def error(self, place: int, error: BaseException) -> Report:
        """The report on a call that stopped, or was stopped."""
        line = own_line(self.function, error)
        title = f"your function stops with {type(error).__name__}"
        lines = [_message(error)]
        if isinstance(error, TimeIsUp):
            title = "it does not come to an end"
            lines = [
                f"Stopped at this line, after {self.exercise.seconds} seconds of "
                "computing. Which condition should end the loop, and what makes it "
                "come true?"
            ]
        elif isinstance(error, RecursionError):
            lines = ["It calls itself without end: nothing stops the recursion."]
        elif not line:
            lines.append(f"It is called with ({', '.join(self.exercise.takes)}).")
        lines = filter(None, [*lines, *self.ending(place)])
        return self.say("error", title, place, *lines, code=line)

    def changed(self, place: int, names: list[str]) -> Report:
        """The report on arguments that were changed in place."""
        given = dict(zip(self.exercise.takes, self.cases[place], strict=True))
        listed = " and ".join(names)
        advice = "Work on a copy."
        if any(isinstance(given[name], Tensor) for name in names):
            advice = (
                "Make a new tensor: methods that end in _, `+=` and its kin, and "
                "assignments to a slice change the old one."
            )
        message = (
            f"The caller still needs {listed}. It writes into the old one. {advice}"
        )
        title = f"it changes {listed} in place"
        return self.say("changed", title, place, message, *self.ending(place))

    def right(self, outcomes: list[Outcome]) -> Report:
        """The report on right numbers, whose gradients may be wrong all the same."""
        problem = self.gradient_problem(outcomes)
        if problem and self.exercise.trains:
            more = (
                "The numbers are right, but no model learns through them. `.item()`, "
                "`.detach()`, `.data`, NumPy and `torch.no_grad()` cut the graph; a "
                "change in place (`+=`) can break it, and 0 · ∞ makes it nan."
            )
            help_on = f"hint({self.name!r}) helps on."
            return self.say("different", problem, 0, more, help_on)
        lines = []
        if self.exercise.takes:
            asked = dict.fromkeys(map(self.asked, range(len(self.cases))))
            lines.append(f"Tried with {'; '.join(asked)}.")
        if problem:
            lines.append(
                f"Right numbers, but {problem}; no training runs through it here."
            )
        return self.say("right", "right", 0, *lines)

    def gradient_problem(self, outcomes: list[Outcome]) -> str | None:
        """What is wrong with the gradient of right numbers, or None.

        None also for half precision, whose gradients are too rough to compare.
        """
        for case, outcome in zip(self.cases, outcomes, strict=True):
            if isinstance(outcome.value, Tensor) and outcome.value.dtype in HALF:
                continue
            right = gradient(self.exercise.reference, case, self.exercise.seconds)
            if right is None:
                continue
            mine = gradient(self.function, case, self.exercise.seconds)
            if mine is None:
                return "no gradient passes through it"
            if not same(mine, right):
                return "its gradient is another one"
        return None
