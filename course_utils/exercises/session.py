"""What the notebooks call: check, hint, solution and progress.

Knows every exercise and the last report on each. Knows nothing of how one is judged.
"""

import difflib
import inspect
from typing import Any

from course_utils.exercises.banks import find_banks
from course_utils.exercises.checking import examine
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.report import Report
from course_utils.shapes import check_type, shown

BANKS = find_banks()
BANK = {exercise.name: exercise for bank in BANKS.values() for exercise in bank}
_last: dict[str, Report] = {}


def find(name: str) -> Exercise:
    """Return the exercise of this name.

    Raises TypeError unless name is a string, and ValueError, with similar names, if
    there is no such exercise.
    """
    check_type(str, name=name)
    if name in BANK:
        return BANK[name]
    similar = difflib.get_close_matches(name, BANK, cutoff=0.4)
    if similar:
        advice = f"did you mean {' or '.join(similar)}?"
    else:
        advice = "progress() lists the names of all exercises"
    raise ValueError(f"unknown exercise {shown(name)}; {advice}")


def check(name: str, answer: Any) -> None:
    """Show whether an answer is right and, if it is not, which mistake it makes.

    answer: a function; for an exercise that asks for a prediction, the value itself.
    Raises TypeError or ValueError for an unknown name, never for a wrong answer.
    """
    report = examine(find(name), answer)
    _last[name] = report
    report.show()


def hint(name: str) -> None:
    """Show more about the mistake that the last check named, or how to begin."""
    exercise = find(name)
    last = _last.get(name)
    text = exercise.hint
    for mistake in exercise.mistakes:
        if last and last.mistake == mistake.name:
            text = mistake.more
    lines = (text, f"solution({name!r}) shows how the course does it.")
    Report("hint", name, lines).show()


def solution(name: str) -> None:
    """Show the source of the function or layer that the course itself uses."""
    exercise = find(name)
    source = inspect.unwrap(exercise.shared or exercise.reference)
    title = f"{name}: {source.__module__}.{source.__qualname__}"
    Report("solution", title, code=inspect.getsource(source).rstrip()).show()


def progress(notebook: str | None = None) -> None:
    """Show which exercises are right: in one notebook, progress("01"), or in all.

    Raises ValueError for a notebook that has no exercises.
    """
    if notebook is not None and notebook not in tuple(BANKS):
        numbers = ", ".join(BANKS)
        raise ValueError(
            f"notebook must be the number of one with exercises ({numbers}), as a "
            f"string; got {shown(notebook)}"
        )
    rows = []
    statuses = []
    for number in [notebook] if notebook else BANKS:
        for place, exercise in enumerate(BANKS[number]):
            report = _last.get(exercise.name)
            statuses.append(report.status if report else "not tried")
            sign = {"right": "✓", "not tried": "○"}.get(statuses[-1], "✗")
            margin = number if place == 0 else "  "
            rows.append(f"{margin}  {sign} {exercise.name}")
    where = f"{notebook}: " if notebook else ""
    title = f"{where}{statuses.count('right')} of {len(statuses)} right"
    Report("progress", title, code="\n".join(rows)).show()
