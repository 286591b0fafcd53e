"""Judge a learner's answer: compare it with the reference and the known mistakes.

Knows exercises and reports. Knows nothing of a session.
"""

import dataclasses
from collections.abc import Callable
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
    same_gradient,
)
from named_mistakes.describing import describe
from named_mistakes.exercise import Exercise, Mistake
from named_mistakes.limit import TimeIsUp
from named_mistakes.report import Report
from named_mistakes.running import Outcome, gradients, is_stub, isolated, own_line, run

FURTHER = 2  # other draws of the cases, in which an answer must equal a mistake
CUT = (
    "But a model cannot learn through it: `.item()`, `.detach()`, `.data`, NumPy and "
    "`torch.no_grad()` cut the graph, and a change in place (`+=`) can break it."
)
BENT = (
    "But training would go another way: somewhere a part of the graph is cut, as by "
    "`.detach()` or `torch.no_grad()`, or a rounding or a limit has no slope."
)
NOT_FINITE = (
    "But one step of training, and every weight is nan. 0 · ∞ makes it so: an "
    "overflow that comes out right, a root of 0, −∞ minus −∞."
)


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


def _alike(error, other):
    """Whether two calls stopped for the same reason."""
    return type(error) is type(other) and _message(error) == _message(other)


def _message(error):
    try:
        text = str(error).strip().split("\nException raised")[0]
    except Exception:
        return ""
    return text if len(text) <= 400 else text[:400] + " …"


def gradient_difference(mine: Tensor | None, right: Tensor) -> tuple[str, str] | None:
    """What is wrong with the gradient of {}, and what it may come from, or None."""
    if mine is not None and same_gradient(mine, right):
        return None
    if mine is None or not mine.any():
        return "no gradient reaches {}", CUT
    if not mine.isfinite().all() and right.isfinite().all():
        return "the gradient of {} is nan", NOT_FINITE
    return "the gradient of {} is another one", BENT


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
        """A report; on a wrong answer, its last line names what to call."""
        if status in ("mistake", "variant"):
            lines += (f"hint({self.name!r}) says more.",)
        elif status != "right":
            lines += (f"hint({self.name!r}) helps on{self.gives_case()}.",)
        return Report(status, f"{self.name}: {title}", lines, case=place, **more)

    def asked(self, place: int) -> str:
        """The arguments of a case, in words."""
        pairs = zip(self.exercise.takes, self.cases[place], strict=True)
        return ", ".join(f"{name} {describe(value)}" for name, value in pairs)

    def gives_case(self) -> str:
        """The end of a line that names what to call."""
        call = f"case({self.name!r})"
        return f"; {call} gives the case" if self.exercise.takes else ""

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
        begun = int(place > 0)  # right in the first case: no need to say how to begin
        error = outcomes[place].error
        if report := self.known(outcomes, right, place):
            return report
        if self.exercise.predicts:
            guess = direction(outcomes[place].value, right[place].value)
            return self.say("different", "not yet", place, guess)
        if error:
            return dataclasses.replace(self.error(place, error), step=begun)
        lines = str(differences[place]), *self.ending(place)
        return self.say("different", "not yet", place, *lines, step=begun)

    def differs(self, mine: Outcome, right: Outcome) -> str | None:
        """The first difference that is more than the exercise tolerates, or None."""
        found = difference(mine.value, right.value, self.exercise.tolerance)
        return found or (not_plain(mine.value) if self.exercise.plain else None)

    def known(
        self, outcomes: list[Outcome], right: list[Outcome], place: int
    ) -> Report | None:
        """The report on a known mistake that explains the first cases, or None.

        Of several, the one that explains most. Where it does not explain all, no other
        may explain as many. An answer may equal a mistake in these cases by chance, so
        it has to in others. place: of the first wrong result.
        """
        found: dict[str, tuple[Mistake, Callable]] = {}
        most = 1
        for mistake in self.exercise.mistakes:
            for function in (mistake.function, *mistake.also):
                count = self.explained(outcomes, right, function)
                if count > most:
                    found, most = {}, count
                if count == most:
                    found.setdefault(mistake.name, (mistake, function))
        whole = most == len(outcomes)
        if not found or not (whole or len(found) == 1):
            return None
        mistake, function = next(iter(found.values()))
        for n in range(FURTHER):
            more = self.draw(FURTHER * self.seed + 1_001 + n)[:most]
            if not all(_agree(self.run(case), run(function, case)) for case in more):
                return None
        status, title, lines = "mistake", mistake.name, [mistake.hint]
        if mistake.variant:
            status, title = "variant", f"a known variant: {title}"
            lines.insert(0, mistake.variant)
        if not whole:
            then = self.asked(most)
            lines.append(f"First this; then more is wrong, as with {then}.")
        error = outcomes[place].error
        code = own_line(self.function, error) if error else ""
        named = {"mistake": mistake.name, "code": code}
        return self.say(status, title, place, *lines, **named)

    def explained(self, outcomes, right, function) -> int:
        """In how many of the first cases a mistake gives what the answer gives.

        0 unless that is wrong in one of them; where it is only an error, or nothing but
        True or False, that says too little about some of the cases.
        """
        count, wrong, stops = 0, False, False
        for case, mine, good in zip(self.cases, outcomes, right, strict=True):
            theirs = run(function, case)
            if not _agree(mine, theirs):
                break
            count += 1
            if theirs.error:
                stops |= not good.error and _alike(mine.error, theirs.error)
            else:
                wrong |= not same(theirs.value, good.value)
        whole = count == len(outcomes)
        telling = wrong and not isinstance(right[0].value, bool)
        return count if telling or (whole and (wrong or stops)) else 0

    def stage(self, outcomes: list[Outcome]) -> Report | None:
        """The report on an unfinished answer that is right up to a stage, or None."""
        names = [name for name, _ in self.exercise.stages] + ["the whole"]
        for place, (_, function) in enumerate(self.exercise.stages):
            theirs = [run(function, case) for case in self.cases]
            if all(map(_agree, outcomes, theirs)):
                title = f"right so far, {place + 1} of {len(names)}: {names[place]}"
                step = round((place + 1) / len(names) * len(self.exercise.steps))
                next_one = f"Next: {names[place + 1]}."
                return self.say("stage", title, 0, next_one, step=step)
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
        said = filter(None, [*lines, *self.ending(place)])
        return self.say("error", title, place, *said, code=line)

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
        if any(isinstance(given[name], torch.nn.Module) for name in names):
            advice = (
                "Leave a model as it was: its weights, its mode (train or eval), what "
                "requires_grad, and no hook of yours."
            )
        message = (
            f"The caller still needs {listed}. It writes into the old one. {advice}"
        )
        title = f"it changes {listed} in place"
        return self.say("changed", title, place, message, *self.ending(place))

    def right(self, outcomes: list[Outcome]) -> Report:
        """The report on right numbers, whose gradients may be wrong all the same."""
        problem, reason = self.gradient_problem(outcomes) or ("", "")
        if problem and self.exercise.trains:
            return self.say("different", problem, 0, f"The numbers are right. {reason}")
        lines = []
        if self.exercise.takes:
            asked = dict.fromkeys(map(self.asked, range(len(self.cases))))
            lines.append(f"Tried with {'; '.join(asked)}.")
        if problem:
            lines.append(
                f"Right numbers, but {problem}; no training runs through it here."
            )
        return self.say("right", "right", 0, *lines)

    def gradient_problem(self, outcomes: list[Outcome]) -> tuple[str, str] | None:
        """What is wrong with a gradient of right numbers, and what it may come from.

        None also for half precision, whose gradients are too rough to compare. Where
        no training runs through, only the first tensor counts.
        """
        trains, takes = self.exercise.trains, self.exercise.takes
        names = trains if isinstance(trains, tuple) else takes
        for case, outcome in zip(self.cases, outcomes, strict=True):
            if isinstance(outcome.value, Tensor) and outcome.value.dtype in HALF:
                continue
            call = case, self.exercise.seconds, [takes.index(name) for name in names]
            right = gradients(self.exercise.reference, *call)
            if right is None:
                continue
            mine = gradients(self.function, *call)
            if mine is None:
                return "no gradient passes through it", CUT
            for place in right if trains else list(right)[:1]:
                if problem := gradient_difference(mine.get(place), right[place]):
                    what, reason = problem
                    inside = "".join(f"[{key!r}]" for key in place[1:])
                    return what.format(takes[place[0]] + inside), reason
        return None
