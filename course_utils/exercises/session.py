"""What the notebooks call: check, hint, solution, progress. Remembers this session."""

import difflib
import inspect
from typing import Any

from course_utils.exercises import (
    attention,
    backbone,
    blocks,
    budget,
    bytewise,
    checkups,
    clinic,
    cosine,
    encoding,
    distances,
    generation,
    heads,
    inside,
    llama,
    looking_back,
    masked,
    masks,
    next_token,
    norms,
    positions,
    recurrent,
    scaling,
    senses,
    sharing,
    softening,
    silent,
    stacks,
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
    "11": (llama,),
    "12": (training,),
    "13": (generation,),
    "14": (inside,),
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


def progress() -> None:
    """The table of all exercises and where you stand."""
    fresh = Report("not tried", "")
    states = {name: _last.get(name, fresh).status for name in BANK}
    signs = {"right": "✓", "not tried": "○"}
    rows = [f"{signs.get(state, '✗')} {name}" for name, state in states.items()]
    done = sum(state == "right" for state in states.values())
    Report("progress", f"{done} of {len(BANK)}", code="\n".join(rows)).show()
