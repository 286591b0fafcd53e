"""What the notebooks call: check, hint, case, solution and progress.

Knows every exercise, what was tried and what was right. Knows nothing of how an answer
is judged.
"""

import contextlib
import difflib
import inspect
import json
from pathlib import Path
from typing import Any

import torch

from named_mistakes.banks import exercises, find_banks, places
from named_mistakes.checking import examine
from named_mistakes.describing import describe
from named_mistakes.exercise import Exercise
from named_mistakes.report import Report
from named_mistakes.running import isolated

MISSING = object()
_last: dict[str, Report] = {}
_steps: dict[str, int] = {}  # how many steps of a hint were shown
_asked: set[str] = set()  # for a solution, before a try


def find(name: str) -> Exercise:
    """Return the exercise of this name.

    Raises TypeError unless name is a string, and ValueError, with similar names, if
    there is no such exercise.
    """
    if not isinstance(name, str):
        raise TypeError(f"an exercise's name must be a string, got {describe(name)}")
    bank = exercises()
    if name in bank:
        return bank[name]
    similar = difflib.get_close_matches(name, bank, cutoff=0.4)
    advice = f"did you mean {' or '.join(similar)}?" if similar else "see progress()"
    raise ValueError(f"unknown exercise {name[:60]!r}; {advice}")


def check(name: Any, answer: Any = MISSING) -> None:
    """Show whether an answer is right and, if it is not, which mistake it makes.

    answer: a function; for an exercise that asks for a prediction, the value itself.
    Raises TypeError or ValueError for an unknown name or no answer, never for a wrong
    answer.
    """
    if isinstance(answer, str) and answer in exercises() and callable(name):
        raise TypeError(f"the name comes first: check({answer!r}, your_answer)")
    exercise = find(name)
    if answer is MISSING:
        raise TypeError(f"an answer is missing: check({name!r}, your_answer)")
    report = examine(exercise, answer)
    before = _last.get(name)
    if before is None or before.mistake != report.mistake:
        _steps[name] = 0
    _last[name] = report
    if report.status != "not tried":
        _keep(name, report.status == "right")
    report.show()


def hint(name: str) -> None:
    """Show one step more at each call; before the first try, only how to begin."""
    exercise = find(name)
    last = _last.get(name)
    steps = list(exercise.steps)
    tried = last is not None and last.status != "not tried"
    for mistake in exercise.mistakes:
        if last and last.mistake == mistake.name:
            steps.insert(0, mistake.more)
    if not tried:
        steps = steps[:1]
    place = min(_steps.get(name, 0), len(steps) - 1)
    _steps[name] = place + 1
    if place + 1 < len(steps):
        goes_on = "The next call goes on."
    elif tried:
        goes_on = f"That is all; solution({name!r}) shows an answer."
    else:
        goes_on = "Try it; after that there is more."
    Report("hint", name, (steps[place], goes_on)).show()


def case(name: str) -> tuple:
    """The arguments on which the last answer differed, or the first ones of a check.

    They are made anew at each call, so they may be changed. Raises as `find`.
    """
    exercise = find(name)
    last = _last.get(name)
    with isolated():
        cases = exercise.cases(torch.Generator().manual_seed(0))
    return cases[last.case if last else 0]


def solution(name: str) -> None:
    """Show a short right answer: after a try, or when asked a second time."""
    exercise = find(name)
    last = _last.get(name)
    if (last is None or last.status == "not tried") and name not in _asked:
        _asked.add(name)
        lines = ("Try first: `check` and `hint` lead on. A second call shows it.",)
        Report("solution", f"{name}: not tried yet", lines).show()
        return
    source = inspect.getsource(inspect.unwrap(exercise.reference)).rstrip()
    Report("solution", f"{name}: a short answer", code=source).show()


def progress(notebook: str | int | None = None) -> None:
    """Show which exercises are right: in one notebook, progress("01"), or in all.

    What was right once stays right. In a working copy it is remembered in
    `work/progress.json`, whichever kernel asks.

    Raises ValueError for a notebook that has no exercises.
    """
    number = "" if notebook is None else str(notebook).partition("_")[0].zfill(2)
    if number and number not in find_banks():
        known = ", ".join(find_banks())
        raise ValueError(
            f"notebook must be the number of one with exercises ({known}), got "
            f"{notebook!r:.60}"
        )
    tries = _tries()
    rows = []
    for bank in [number] if number else find_banks():
        for place, exercise in enumerate(_in_order(bank)):
            name = exercise.name
            sign = "✓" if tries.get(name) else "✗" if name in tries else "○"
            rows.append(f"{'  ' if place else bank}  {sign} {name}")
    right, count = sum("✓" in row for row in rows), len(rows)
    kinds = {row.split()[-1].partition(".")[0] for row in rows}
    for name, points in sorted(tries.items()):
        if type(points) is int and name.partition(".")[0] in kinds:
            rows.append(f"    {points:2} points: {name}")
    where = f"{number}: " if number else ""
    title = f"{where}{right} of {count} right"
    Report("progress", title, code="\n".join(rows)).show()


def _in_order(number: str) -> list[Exercise]:
    """The exercises of a notebook, in the order in which it checks them."""
    books = places()["banks"].parent.glob(f"{number}_*.ipynb")
    text = "".join(path.read_text("utf-8") for path in books)
    return sorted(
        find_banks()[number], key=lambda one: text.find(f'check(\\"{one.name}\\"')
    )


# --- what is remembered --------------------------------------------------------------

_right: dict[str, int] = {}


def _tries() -> dict[str, int]:
    """{name: whether it was ever right, or its best score}, from any kernel."""
    stored = {}
    with contextlib.suppress(OSError):
        stored = _stored(_file()) or {}
    tries = {name: right for name, right in stored.items() if isinstance(right, int)}
    return tries | {n: max(right, tries.get(n, False)) for n, right in _right.items()}


def _stored(path: Path | None) -> dict[str, Any] | None:
    """What the file holds; None if somebody's edit or merge has made it unreadable."""
    if path is None or not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


def keep_score(name: str, points: int) -> None:
    """Remember the best score of a game, such as "clinic.case 3", for `progress`."""
    _keep(name, points)


def _keep(name: str, right: int) -> None:
    """Remember a try, in a working copy on disk: other kernels ask, too."""
    _right[name] = max(right, _right.get(name, False))
    path = _file()
    if path is None:
        return
    unfinished = path.with_suffix(".unfinished")
    with contextlib.suppress(OSError):  # a full or read-only disk must not stop a check
        stored = _stored(path)
        if stored is None:
            path.replace(path.with_suffix(".old.json"))
        entries = (stored or {}) | _tries()
        unfinished.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
        unfinished.replace(path)


def _file() -> Path | None:
    """Where tries are remembered: only for a notebook in the folder of that file."""
    path = places().get("progress")
    return path if path is not None and path.parent == Path.cwd() else None
