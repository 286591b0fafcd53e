"""What the notebooks call: check, hint, solution, progress. Remembers this session."""

import difflib
import inspect
from typing import Any

from course_utils.exercises import (
    ablated,
    attention,
    backbone,
    blocks,
    budget,
    bytewise,
    cached,
    checkups,
    clinic,
    cosine,
    distances,
    encoding,
    generation,
    grouped,
    heads,
    induction,
    inside,
    llama,
    looking_back,
    masked,
    masks,
    next_token,
    norms,
    nucleus,
    packing,
    positions,
    recurrent,
    scaling,
    senses,
    sharing,
    silent,
    softening,
    stacks,
    stepping,
    surprise,
    tokens,
    training,
    translating,
    translation,
    turning,
)
from course_utils.exercises.checking import examine
from course_utils.exercises.exercise import Exercise
from course_utils.exercises.report import Report

BANKS = {
    "01": (attention, cosine),
    "02": (heads,),
    "03": (masks, masked),
    "04": (positions, turning, distances),
    "05": (norms, blocks, stacks, silent),
    "06": (recurrent, looking_back),
    "07": (translation, softening, translating),
    "08": (senses,),
    "09": (tokens, encoding, bytewise),
    "10": (backbone, next_token),
    "11": (llama, grouped),
    "12": (surprise, packing, stepping, training),
    "13": (generation, nucleus, cached),
    "14": (inside, ablated, induction),
    "15": (clinic, checkups),
    "16": (budget, scaling, sharing),
}
BANK = {
    exercise.name: exercise
    for modules in BANKS.values()
    for module in modules
    for exercise in module.EXERCISES
}
_last: dict[str, Report] = {}


def find(name: str) -> Exercise:
    """The exercise of this name; ValueError with the nearest names if there is none."""
    if name in BANK:
        return BANK[name]
    near = difflib.get_close_matches(name, BANK, cutoff=0.4) or sorted(BANK)
    raise ValueError(f"no exercise is called {name!r}; near are {', '.join(near)}")


def check(name: str, answer: Any) -> None:
    """Say whether an answer is right, and if not, which mistake it makes."""
    report = examine(find(name), answer)
    _last[name] = report
    report.show()


def hint(name: str) -> None:
    """Say more: on the mistake that the last check named, else on how to begin."""
    exercise = find(name)
    last = _last.get(name)
    said = exercise.hint
    for mistake in exercise.mistakes:
        if last and last.mistake == mistake.name:
            said = mistake.more
    lines = (said, f"solution({name!r}) shows how the course does it.")
    Report("hint", name, lines).show()


def solution(name: str) -> None:
    """Show the source of the shared layer."""
    exercise = find(name)
    shown = inspect.unwrap(exercise.shared or exercise.reference)
    title = f"{name}: {shown.__module__}.{shown.__qualname__}"
    Report("solution", title, code=inspect.getsource(shown).rstrip()).show()


def progress(notebook: str | None = None) -> None:
    """Where you stand in one notebook, progress("01"), or in all of them, by notebook.

    Raises ValueError for a notebook that has no exercises.
    """
    if notebook is not None and notebook not in BANKS:
        raise ValueError(f"no exercises in {notebook!r}; there are {', '.join(BANKS)}")
    shown = [notebook] if notebook else list(BANKS)
    names = {nb: [e.name for bank in BANKS[nb] for e in bank.EXERCISES] for nb in shown}
    fresh = Report("not tried", "")
    rows, done = [], 0
    for number, some in names.items():
        states = [_last.get(name, fresh).status for name in some]
        done += states.count("right")
        for i, (state, name) in enumerate(zip(states, some, strict=True)):
            sign = {"right": "✓", "not tried": "○"}.get(state, "✗")
            rows.append(f"{number if i == 0 else '  '}  {sign} {name}")
    where = f"{notebook}: " if notebook else ""
    title = f"{where}{done} of {sum(map(len, names.values()))} right"
    Report("progress", title, code="\n".join(rows)).show()
