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
    near,
    not_plain,
    note,
    same,
    settled,
)
from named_mistakes.describing import describe
from named_mistakes.exercise import Exercise
from named_mistakes.limit import TimeIsUp
from named_mistakes.report import Report
from named_mistakes.running import (
    gradient,
    is_stub,
    isolated,
    own_line,
    run,
)

FURTHER = 2  # other draws of the cases, in which an answer must equal a mistake


def _cases(exercise, seed):
    return exercise.cases(torch.Generator().manual_seed(seed))


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
    sentences = [_message(error)]
    if isinstance(error, RecursionError):
        sentences = ["It calls itself without end: nothing stops the recursion."]
    elif not line:
        sentences.append(f"It is called with ({', '.join(exercise.takes)}).")
    sentences += _ending(exercise, arguments)
    return Report("error", title, tuple(filter(None, sentences)), line)


def _message(error):
    try:
        text = str(error).strip().split("\nException raised")[0]
    except Exception:
        return ""
    return text if len(text) <= 400 else text[:400] + " …"


def _endless(exercise, function, outcome, arguments):
    title = f"{exercise.name}: it does not come to an end"
    message = (
        f"Stopped at this line, after {exercise.seconds} seconds of computing. Which "
        "condition should end the loop, and what makes it come true?"
    )
    lines = (message, *_ending(exercise, arguments))
    return Report("error", title, lines, own_line(function, outcome.error))


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
    lines = (exercise.statement,)
    return Report("not tried", f"{exercise.name}: not tried yet", lines)


def _known(exercise, function, cases, outcomes, expected, seed):
    """The known mistake that gives the same result in every case, or None.

    An answer may equal a mistake in these cases by chance, so it has to in others, too.
    """
    for mistake in exercise.mistakes:
        theirs = [run(mistake.function, case) for case in cases]
        values = zip(theirs, expected, strict=True)
        wrong = any(not o.error and not same(o.value, e) for o, e in values)
        if wrong and all(map(_agree, outcomes, theirs)):
            more = [
                case
                for further in range(1, FURTHER + 1)
                for case in _cases(exercise, FURTHER * seed + further + 1_000)
            ]
            for case in more:
                mine = run(function, case, exercise.seconds)
                if not _agree(mine, run(mistake.function, case)):
                    return None
            return mistake
    return None


def _agree(mine, other):
    """Whether two outcomes are errors, or equal results."""
    if mine.error or other.error:
        return bool(mine.error and other.error)
    return same(mine.value, other.value)


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
    cases = _cases(exercise, seed)
    outcomes = []
    for place, case in enumerate(cases):
        outcomes.append(run(function, case, exercise.seconds))
        if isinstance(outcomes[-1].error, TimeIsUp):
            report = _endless(exercise, function, outcomes[-1], case)
            return dataclasses.replace(report, case=place)
    if _is_empty(outcomes[0]):
        return _not_tried(exercise)
    report = _judge(exercise, function, cases, outcomes, seed)
    printed = outcomes[0].printed.strip()
    if not printed:
        return report
    shortened = printed if len(printed) <= 200 else printed[:200] + " …"
    lines = (*report.lines, f"Your function printed: {shortened}")
    return dataclasses.replace(report, lines=lines)


def _is_empty(outcome):
    """Whether it only raises NotImplementedError or returns NotImplemented."""
    bare = type(outcome.error) is NotImplementedError and not outcome.error.args
    return bare or outcome.value is NotImplemented


def _expected_outcome(exercise, case):
    """The outcome of the reference, called in the same way as the answer."""
    outcome = run(exercise.reference, case)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def _judge(exercise, function, cases, outcomes, seed):
    references = [_expected_outcome(exercise, case) for case in cases]
    expected = [reference.value for reference in references]
    for place, case in enumerate(cases):
        changed = outcomes[place].changed(case, exercise.takes)
        changed -= references[place].changed(case, exercise.takes)
        if changed:
            report = _changed(exercise, sorted(changed), case)
            return dataclasses.replace(report, case=place)
    if report := _remembering(exercise, function, outcomes, seed):
        return report
    differences = [
        outcome.error or _difference_beyond_tolerance(exercise, outcome.value, right)
        for outcome, right in zip(outcomes, expected, strict=True)
    ]
    if not any(differences):
        return _right(exercise, function, cases, outcomes, expected)
    place = next(i for i, what in enumerate(differences) if what)
    if mistake := _known(exercise, function, cases, outcomes, expected, seed):
        lines = (mistake.hint, f"hint({exercise.name!r}) says more.")
        title = f"{exercise.name}: {mistake.name}"
        return Report("mistake", title, lines, mistake=mistake.name, case=place)
    if exercise.predicts:
        return _wrong_guess(exercise, outcomes[place], expected[place])
    if outcomes[place].error:
        report = _error_report(exercise, function, outcomes[place], cases[place])
    else:
        lines = (differences[place], *_ending(exercise, cases[place]), _more(exercise))
        report = Report("different", f"{exercise.name}: not yet", lines)
    return dataclasses.replace(report, case=place)


def _difference_beyond_tolerance(exercise, mine, expected):
    """The first difference that is more than the exercise tolerates, or None."""
    if exercise.tolerance:
        if near(mine, expected, exercise.tolerance):
            return None
        mine = settled(mine, expected, exercise.tolerance)
    return difference(mine, expected) or (not_plain(mine) if exercise.plain else None)


def _more(exercise):
    return f"hint({exercise.name!r}) helps on; case({exercise.name!r}) gives the case."


def _remembering(exercise, function, outcomes, seed):
    """The report on a function whose second answer to a case differs, or None."""
    if exercise.predicts:
        return None
    for place, case in enumerate(_cases(exercise, seed)):
        again = run(function, case, exercise.seconds)
        if isinstance(again.error, TimeIsUp):
            report = _endless(exercise, function, again, case)
            return dataclasses.replace(report, case=place)
        first = outcomes[place]
        if not comparable(first.value) or _agree(first, again):
            continue
        title = f"{exercise.name}: it remembers an earlier call"
        message = (
            "Asked the same twice, it answers differently the second time. Something "
            "is kept from call to call: a default argument that is changed, a global "
            "name, an attribute."
        )
        return Report("changed", title, (message, *_ending(exercise, case)), case=place)
    return None


def _wrong_guess(exercise, outcome, expected):
    """What is said of a prediction: a direction or a thought, never the answer."""
    title = f"{exercise.name}: not yet"
    if outcome.error:
        return Report("different", title, ("That is not a value.",))
    return Report(
        "different", title, (direction(outcome.value, expected), _help(exercise))
    )


def _help(exercise):
    return f"hint({exercise.name!r}) helps on."


def _changed(exercise, changed, case):
    names = " and ".join(changed)
    values = dict(zip(exercise.takes, case, strict=True))
    message = f"The caller still needs {names}. It writes into the old one."
    if any(isinstance(values[name], Tensor) for name in changed):
        message += (
            " Make a new tensor: methods that end in _, `+=` and its kin, and "
            "assignments to a slice change the old one."
        )
    else:
        message += " Work on a copy."
    title = f"{exercise.name}: it changes {names} in place"
    return Report("changed", title, (message, *_ending(exercise, case)))


def _right(exercise, function, cases, outcomes, expected):
    asked = dict.fromkeys(_asked(exercise, case) for case in cases if exercise.takes)
    lines = [f"Tried with {'; '.join(asked)}."] if asked else []
    if problem := _gradient_difference(exercise, function, cases, outcomes):
        if exercise.trains:
            title = f"{exercise.name}: {problem}"
            more = (
                "The numbers are right, but no model learns through them. `.item()`, "
                "`.detach()`, `.data`, NumPy and `torch.no_grad()` cut the graph; a "
                "change in place (`+=`) can break it, and 0 · ∞ makes it nan."
            )
            return Report("different", title, (more, _help(exercise)))
        lines.append(f"Right numbers, but {problem}; no training runs through it here.")
    values = (outcome.value for outcome in outcomes)
    notes = (note(*pair) for pair in zip(values, expected, strict=True))
    lines += [sentence for sentence in notes if sentence][:1]
    return Report("right", f"{exercise.name}: right", tuple(lines))


def _gradient_difference(exercise, function, cases, outcomes):
    """What is wrong with the gradient of right numbers, or None.

    None also for half precision, whose gradients are too rough to compare.
    """
    for case, outcome in zip(cases, outcomes, strict=True):
        if isinstance(outcome.value, Tensor) and outcome.value.dtype in HALF:
            continue
        right = gradient(exercise.reference, case, exercise.seconds)
        if right is None:
            continue
        mine = gradient(function, case, exercise.seconds)
        if mine is None:
            return "no gradient passes through it"
        if not same(mine, right):
            return "its gradient is another one"
    return None
