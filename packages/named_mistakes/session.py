"""What the notebooks call: check, hint, case, solution and progress.

Knows every exercise, what was tried and what was right. Knows nothing of how an answer
is judged.
"""

import difflib
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from named_mistakes.banks import exercises, find_banks, parts, places
from named_mistakes.buttons import show_with_buttons
from named_mistakes.checking import examine
from named_mistakes.describing import describe
from named_mistakes.exercise import Exercise
from named_mistakes.keeping import keep, kept, kept_folder
from named_mistakes.memory import keep_score, remember, remembered  # noqa: F401 (16)
from named_mistakes.pasting import pasteable
from named_mistakes.report import Report
from named_mistakes.running import isolated

MISSING = object()
LONGEST = 1_000  # characters of an argument that are shown
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
    advice = 'progress("01") lists those of 01'
    if similar:
        advice = f"did you mean {' or '.join(similar)}?"
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
    if report.status == "right" and (problem := keep(exercise, answer)):
        report = replace(report, lines=(*report.lines, problem))
    before = _last.get(name)
    if before is None or before.mistake != report.mistake:
        _steps[name] = 0
    _steps[name] = max(_steps[name], report.step)
    _last[name] = report
    if report.status != "not tried":
        remember(name, report.status == "right", report.mistake)
    buttons = {"Hint": _hint, "Case": _case, "Solution": _solution}
    if report.status == "right":  # a right answer needs no help
        buttons = {"Solution": _solution}
    elif not exercise.takes:
        del buttons["Case"]

    def label(kind: str) -> str:
        steps, place = _next_step(exercise)
        return f"Hint ({place + 1} of {len(steps)})" if kind == "Hint" else kind

    asks = {kind: partial(ask, exercise) for kind, ask in buttons.items()}
    show_with_buttons(report, asks, label)


def hint(name: str) -> None:
    """Show one step more at each call; before the first try, only how to begin."""
    _hint(find(name)).show()


def _hint(exercise: Exercise) -> Report:
    name = exercise.name
    steps, place = _next_step(exercise)
    _steps[name] = place + 1
    lines = [steps[place]]
    if not _tried(name):
        lines.append("Try it; after that there is more.")
    elif place + 1 == len(steps):
        lines.append(f"That is all; solution({name!r}) shows an answer.")
    return Report("hint", f"{name}: hint {place + 1} of {len(steps)}", tuple(lines))


def _next_step(exercise: Exercise) -> tuple[list[str], int]:
    """All steps of a hint, and the place of the next one."""
    last = _last.get(exercise.name)
    more = [one.more for one in exercise.mistakes if last and last.mistake == one.name]
    steps = [*more, *exercise.steps]
    end = len(steps) if _tried(exercise.name) else 1
    return steps, min(_steps.get(exercise.name, 0), end - 1)


def _tried(name: str) -> bool:
    return name in _last and _last[name].status != "not tried"


def case(name: str) -> tuple:
    """The arguments on which the last answer differed, or the first ones of a check.

    They are made anew at each call, so they may be changed. Raises as `find`.
    """
    exercise = find(name)
    last = _last.get(name)
    with isolated():
        cases = exercise.cases(torch.Generator().manual_seed(0))
    return cases[last.case if last else 0]


def _case(exercise: Exercise) -> Report:
    pairs = zip(exercise.takes, case(exercise.name), strict=True)
    code = "\n".join(f"{name} = {value!r}"[:LONGEST] for name, value in pairs)
    line = f"case({exercise.name!r}) gives them whole, as a tuple."
    return Report("case", f"{exercise.name}: the arguments", (line,), code)


def solution(name: str) -> None:
    """Show a short right answer: after a try, or when asked a second time."""
    _solution(find(name)).show()


def _solution(exercise: Exercise) -> Report:
    name = exercise.name
    if not _tried(name) and name not in _asked:
        _asked.add(name)
        lines = ("Try first: `check` and `hint` lead on. Asked again, this shows it.",)
        return Report("solution", f"{name}: not tried yet", lines)
    code = pasteable(exercise.reference)
    return Report("solution", f"{name}: a short answer", code=code)


def progress(notebook: str | int | None = None) -> None:
    """Show what is right, tried and open: in one notebook, progress("01"), or in all.

    What was right once stays right. In a working copy it is remembered in
    `work/progress.json`, whichever kernel asks.

    Raises ValueError for a notebook that has no exercises.
    """
    books, entries = _checked(), remembered()
    names = [name for some in books.values() for name in some]
    signs = {name: _sign(entries.get(name)) for name in names}
    if notebook is None:
        where, table = "", _by_notebook(books, signs)
    else:
        number, names = _named(notebook, books)
        signs = {name: signs[name] for name in names}
        where, table = f"{number}: ", _by_exercise(signs, entries)
    title = f"{where}{list(signs.values()).count('✓')} of {len(signs)} right"
    lines = _whose([name for name in parts() if name in signs], entries)
    Report("progress", title, tuple(lines), table=tuple(table)).show()


def _whose(names: list[str], entries: dict[str, dict]) -> Iterator[str]:
    """Sentences on whose these parts are; none outside working copies."""
    if not names or kept_folder() is None:
        return
    found = {name: kept(find(name)) for name in names}
    mine = [name for name in names if found[name][0]]
    others = [name for name in names if name not in mine]
    yield f"{len(mine)} of {len(names)} parts are yours."
    if mine:
        yield f"Yours: {', '.join(mine)}."
    if others:
        yield f"The course's so far: {', '.join(others)}."
    yield from filter(None, (why for _, why in found.values()))
    again = [n for n in others if _sign(entries.get(n)) == "✓" and not found[n][1]]
    if again:
        yield f"Right before answers were kept, so check again: {', '.join(again)}."


def _sign(entry: dict | None) -> str:
    return "✓" if entry and entry.get("right") else "✗" if entry else "○"


def _by_notebook(books: dict[str, list[str]], signs: dict[str, str]) -> Iterator:
    yield "notebook", "right", "tried", "open"
    for book, names in books.items():
        own = [signs[name] for name in names]
        yield book, *(str(own.count(sign) or "–") for sign in "✓✗○")


def _by_exercise(signs: dict[str, str], entries: dict[str, dict]) -> Iterator:
    yield "exercise", "tries"
    for name, sign in signs.items():
        yield f"{sign} {name}", str(entries.get(name, {}).get("tries", "–"))
    kinds = {name.partition(".")[0] for name in signs}
    for name, entry in sorted(entries.items()):
        if "points" in entry and name.partition(".")[0] in kinds:
            yield f"{entry['points']:2} points: {name}", ""


def _named(notebook: str | int, books: dict[str, list[str]]) -> tuple[str, list[str]]:
    """The number of a notebook, and its exercises."""
    numbered = {book.partition("_")[0]: names for book, names in books.items()}
    number = str(notebook).partition("_")[0].zfill(2)
    if number not in numbered:
        raise ValueError(
            "notebook must be the number of one with exercises "
            f"({', '.join(numbered)}), got {notebook!r:.60}"
        )
    return number, numbered[number]


def _checked() -> dict[str, list[str]]:
    """The exercises of each notebook, in its order; without any, of each bank."""
    known, books = exercises(), {}
    for path in sorted(places()["banks"].parent.glob("*.ipynb")):
        names = re.findall(r'"check\(\\"([\w.]+)', path.read_text("utf-8"))
        books[path.name] = [name for name in dict.fromkeys(names) if name in known]
    banks = {n: [one.name for one in bank] for n, bank in find_banks().items()}
    return {book: names for book, names in books.items() if names} or banks
