"""Judge a learner's answer: compare it with the reference and the known mistakes.

Knows exercises and reports. Knows nothing of a session.
"""

import dataclasses
from typing import Any

import torch
from torch import Tensor

from course_utils.exercises.comparing import difference, same
from course_utils.exercises.describing import describe
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.limit import TimeIsUp
from course_utils.exercises.report import Report
from course_utils.exercises.running import is_stub, isolated, own_line, run


def _asked(exercise, arguments):
    pairs = zip(exercise.takes, arguments, strict=True)
    return ", ".join(f"{name} {describe(value)}" for name, value in pairs)


def _ending(exercise, arguments):
    """A line that names the arguments of the call, if there are any."""
    return (f"Asked with {_asked(exercise, arguments)}.",) if exercise.takes else ()


def _error_report(exercise, function, outcome, arguments):
    error = outcome.error
    line = own_line(function, error)
    title = f"{exercise.name}: your function stops with {type(error).__name__}"
    said = [_message(error)]
    if isinstance(error, RecursionError):
        said = ["It calls itself without end: nothing stops the recursion."]
    elif not line:
        said.append(f"It is called with ({', '.join(exercise.takes)}).")
    said += _ending(exercise, arguments)
    return Report("error", title, tuple(filter(None, said)), line)


def _message(error):
    try:
        said = str(error).strip().split("\nException raised")[0]
    except Exception:
        return ""
    return said if len(said) <= 400 else said[:400] + " …"


def _endless(exercise, function, outcome, arguments):
    title = f"{exercise.name}: it does not come to an end"
    said = (
        f"Stopped at this line, after {exercise.seconds} seconds of computing. Which "
        "condition should end the loop, and what makes it come true?"
    )
    lines = (said, *_ending(exercise, arguments))
    return Report("error", title, lines, own_line(function, outcome.error))


def _refused(exercise, answer):
    """The report on something that is not an answer yet, or None."""
    untried = answer is None or answer is Ellipsis or answer is NotImplemented
    if untried or (callable(answer) and not exercise.predicts and is_stub(answer)):
        return _not_tried(exercise)
    if exercise.predicts == callable(answer):
        what = "the value itself" if exercise.predicts else "the function itself"
        said = f"Hand over {what}, as in check({exercise.name!r}, mine)."
        return Report("different", f"{exercise.name}: {what} is wanted", (said,))
    return None


def _not_tried(exercise):
    lines = (exercise.statement,)
    return Report("not tried", f"{exercise.name}: not tried yet", lines)


def _known(exercise, outcomes, cases, wanted):
    """The known mistake that gives the same result in every case, or None."""
    for mistake in exercise.mistakes:
        theirs = [run(mistake.function, case) for case in cases]
        agree = all(
            (mine.error and other.error)
            or (not mine.error and not other.error and same(mine.value, other.value))
            for mine, other in zip(outcomes, theirs, strict=True)
        )
        values = zip(theirs, wanted, strict=True)
        if agree and any(not o.error and not same(o.value, w) for o, w in values):
            return mistake
    return None


def examine(exercise: Exercise, answer: Any, seed: int = 0) -> Report:
    """Return the report on an answer.

    The verdict is the same for every seed; only the numbers that it shows differ. Every
    call runs on the CPU, with gradients on and from the same random states; afterwards
    the process is as before (see `running.isolated`).
    """
    with isolated():
        return _refused(exercise, answer) or _examined(exercise, answer, seed)


def _examined(exercise, answer, seed):
    function = (lambda: answer) if exercise.predicts else answer
    cases = exercise.cases(torch.Generator().manual_seed(seed))
    outcomes = []
    for case in cases:
        outcomes.append(run(function, case, exercise.seconds))
        if isinstance(outcomes[-1].error, TimeIsUp):
            return _endless(exercise, function, outcomes[-1], case)
    if _is_empty(outcomes[0]):
        return _not_tried(exercise)
    report = _judge(exercise, function, cases, outcomes)
    printed = outcomes[0].printed.strip()
    if not printed:
        return report
    kept = printed if len(printed) <= 200 else printed[:200] + " …"
    lines = (*report.lines, f"Your function printed: {kept}")
    return dataclasses.replace(report, lines=lines)


def _is_empty(outcome):
    """Whether it only raises NotImplementedError or returns NotImplemented."""
    bare = type(outcome.error) is NotImplementedError and not outcome.error.args
    return bare or outcome.value is NotImplemented


def _wanted(exercise, case):
    """The outcome of the reference, called in the same way as the answer."""
    outcome = run(exercise.reference, case)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _judge(exercise, function, cases, outcomes):
    references = [_wanted(exercise, case) for case in cases]
    wanted = [reference.value for reference in references]
    for case, outcome, reference in zip(cases, outcomes, references, strict=True):
        changed = outcome.changed(case, exercise.takes)
        if changed := changed - reference.changed(case, exercise.takes):
            return _changed(exercise, sorted(changed), case)
    found = [
        outcome.error or difference(outcome.value, right)
        for outcome, right in zip(outcomes, wanted, strict=True)
    ]
    if not any(found):
        return _right(exercise, cases, outcomes)
    if mistake := _known(exercise, outcomes, cases, wanted):
        lines = (mistake.hint, f"hint({exercise.name!r}) says more.")
        title = f"{exercise.name}: {mistake.name}"
        return Report("mistake", title, lines, mistake=mistake.name)
    place = next(i for i, what in enumerate(found) if what)
    if outcomes[place].error:
        return _error_report(exercise, function, outcomes[place], cases[place])
    lines = (found[place], *_ending(exercise, cases[place]))
    return Report("different", f"{exercise.name}: not yet", lines)


def _changed(exercise, changed, case):
    names = " and ".join(changed)
    values = dict(zip(exercise.takes, case, strict=True))
    said = (
        f"Whoever called it still needs {names}. Make a new tensor: methods that end "
        "in _ and assignments to a slice write into the old one."
    )
    if not any(isinstance(values[name], Tensor) for name in changed):
        said = f"Whoever called it still needs {names} as before: work on a copy."
    title = f"{exercise.name}: it changes {names} in place"
    return Report("changed", title, (said, *_ending(exercise, case)))


def _right(exercise, cases, outcomes):
    asked = dict.fromkeys(_asked(exercise, case) for case in cases if exercise.takes)
    lines = [f"Tried with {'; '.join(asked)}."] if asked else []
    if shared := sorted(set().union(*(o.shared(exercise.takes) for o in outcomes))):
        lines.append(
            f"The result shares memory with {' and '.join(shared)}: right and cheap, "
            "as long as nobody writes into either."
        )
    tensors = (o.value for o in outcomes if isinstance(o.value, Tensor))
    if not all(value.is_contiguous() for value in tensors):
        lines.append("The result is not contiguous: `reshape` works, `view` may not.")
    return Report("right", f"{exercise.name}: right", tuple(lines))
