"""Run a learner's answer safely and judge it. Knows nothing of a session."""

import contextlib
import copy
import dis
import inspect
import io
import linecache
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils.exercises.comparing import describe, difference, same
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.report import Report

IDLE = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP"}


@dataclass(frozen=True)
class Outcome:
    """What one call gave, said and did to its arguments."""

    value: Any = None
    error: BaseException | None = None
    printed: str = ""
    changed: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def _home(function):
    """The code in which the learner wrote, or None for built-ins."""
    function = inspect.unwrap(getattr(function, "func", function))
    for part in (function, getattr(type(function), "forward", None)):
        if hasattr(part, "__code__"):
            return part.__code__
    return None


def _is_stub(function):
    """Only a docstring, `pass`, `...` or `return None`."""
    code = _home(function)
    if code is None:
        return False
    steps = list(dis.get_instructions(code))
    values = {step.argval for step in steps if step.opname.endswith("CONST")}
    idle = {step.opname for step in steps} <= IDLE
    return idle and values - {code.co_consts[0]} <= {None, ...}


def _share(value, argument):
    tensors = value if isinstance(value, tuple | list) else [value]
    if not isinstance(argument, Tensor):
        return False
    place = argument.untyped_storage().data_ptr()
    return any(
        isinstance(part, Tensor)
        and part.device == argument.device
        and part.untyped_storage().data_ptr() == place
        for part in tensors
    )


def run(function: Callable, arguments: tuple, names: tuple[str, ...]) -> Outcome:
    """Call with copies; nothing printed, warned or drawn at random gets out."""
    given = copy.deepcopy(arguments)
    heard, value, error = io.StringIO(), None, None
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(contextlib.redirect_stdout(heard))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        try:
            value = function(*given)
        except (Exception, SystemExit) as caught:
            error = caught
    both = list(zip(names, arguments, given, strict=True))
    changed = tuple(n for n, old, new in both if difference(new, old) and _tensor(old))
    shared = tuple(name for name, _, new in both if _share(value, new))
    return Outcome(value, error, heard.getvalue(), changed, shared)


def _tensor(value):
    return isinstance(value, Tensor)


def _asked(exercise, arguments):
    pairs = zip(exercise.takes, arguments, strict=True)
    return ", ".join(f"{name} {describe(value)}" for name, value in pairs)


def _own_line(function, error):
    """The learner's line where it stopped: "line 3: …", or nothing."""
    code, found = _home(function), ""
    step = error.__traceback__
    while code and step:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            text = linecache.getline(code.co_filename, step.tb_lineno).strip()
            found = f"line {step.tb_lineno}: {text}"
        step = step.tb_next
    return found


def _error_report(exercise, function, outcome, arguments):
    error, line = outcome.error, _own_line(function, outcome.error)
    title = f"{exercise.name}: your function stops with {type(error).__name__}"
    said = [str(error).strip().split("\nException raised")[0]]
    if isinstance(error, RecursionError):
        said = ["It calls itself without end: nothing stops the recursion."]
    elif not line:
        said.append(f"It is called with ({', '.join(exercise.takes)}).")
    said.append(f"Asked with {_asked(exercise, arguments)}.")
    return Report("error", title, tuple(filter(None, said)), line)


def _refused(exercise, answer):
    """A report on what is no answer yet, or None."""
    untried = answer is None or answer is Ellipsis or answer is NotImplemented
    if untried or (callable(answer) and not exercise.predicts and _is_stub(answer)):
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
    """The known mistake that does the same in every case, or None."""
    for mistake in exercise.mistakes:
        theirs = [run(mistake.function, case, exercise.takes) for case in cases]
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
    """The verdict on an answer; the same for every seed, up to the numbers shown."""
    if refused := _refused(exercise, answer):
        return refused
    function = (lambda: answer) if exercise.predicts else answer
    cases = exercise.cases(torch.Generator().manual_seed(seed))
    outcomes = [run(function, case, exercise.takes) for case in cases]
    empty = (NotImplementedError, NotImplementedError())
    first = outcomes[0]
    if first.value is NotImplemented or (
        type(first.error) is empty[0] and first.error.args == empty[1].args
    ):
        return _not_tried(exercise)
    report = _judge(exercise, function, cases, outcomes)
    printed = first.printed.strip()
    if not printed:
        return report
    kept = printed if len(printed) <= 200 else printed[:200] + " …"
    lines = (*report.lines, f"Your function printed: {kept}")
    return Report(report.status, report.title, lines, report.code, report.mistake)


def _judge(exercise, function, cases, outcomes):
    wanted = [exercise.reference(*case) for case in cases]
    triples = list(zip(cases, outcomes, wanted, strict=True))
    for case, outcome, _ in triples:
        if outcome.changed:
            return _changed(exercise, outcome, case)
    found = [
        outcome.error or difference(outcome.value, right)
        for _, outcome, right in triples
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
    asked = f"Asked with {_asked(exercise, cases[place])}." if exercise.takes else ""
    lines = tuple(filter(None, (found[place], asked)))
    return Report("different", f"{exercise.name}: not yet", lines)


def _changed(exercise, outcome, case):
    names = " and ".join(outcome.changed)
    said = (
        f"Whoever called it still needs {names}. Make a new tensor: methods that end "
        "in _ and assignments to a slice write into the old one."
    )
    title = f"{exercise.name}: it changes {names} in place"
    return Report("changed", title, (said, f"Asked with {_asked(exercise, case)}."))


def _right(exercise, cases, outcomes):
    asked = dict.fromkeys(_asked(exercise, case) for case in cases if exercise.takes)
    lines = [f"Tried with {'; '.join(asked)}."] if asked else []
    if shared := sorted({name for o in outcomes for name in o.shared}):
        lines.append(
            f"The result shares memory with {' and '.join(shared)}: right and cheap, "
            "as long as nobody writes into either."
        )
    loose = (o.value for o in outcomes if _tensor(o.value))
    if not all(value.is_contiguous() for value in loose):
        lines.append("The result is not contiguous: `reshape` works, `view` may not.")
    return Report("right", f"{exercise.name}: right", tuple(lines))
