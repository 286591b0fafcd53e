"""Find the exercises: every `nbNN_topic.py` in the folder of banks, without a list.

Knows where the files lie: README.md shows how a pyproject.toml names them. Knows
nothing of how an answer is run or shown.
"""

import functools
import importlib
import sys
import tomllib
from pathlib import Path

from named_mistakes.exercise import Exercise

_overrides: dict[str, Path] = {}


def use(banks: str | Path) -> None:
    """Take the exercises from this folder, whatever a pyproject.toml says."""
    _overrides["banks"] = Path(banks).resolve()
    find_banks.cache_clear()
    parts.cache_clear()


def places() -> dict[str, Path]:
    """The folder "banks" and, if they are named, "progress", "kept" and "parts".

    Raises FileNotFoundError where neither `use` nor a pyproject.toml names a folder.
    """
    if _overrides:
        return _overrides
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            tools = tomllib.loads(file.read_text("utf-8")).get("tool", {})
            if table := tools.get("named_mistakes"):
                return {name: folder / path for name, path in table.items()}
    raise FileNotFoundError(
        "no exercises here: work inside the folder of the course, or name the folder "
        "of the exercises: named_mistakes.use('folder')"
    )


@functools.cache
def find_banks() -> dict[str, list[Exercise]]:
    """The exercises of each notebook, {"01": [...]}, in the order of the files' names.

    Raises FileNotFoundError for a folder without banks.
    """
    folder = places()["banks"]
    sys.path.insert(0, str(folder))
    banks: dict[str, list[Exercise]] = {}
    for path in sorted(folder.glob("nb[0-9][0-9]_*.py")):
        known = sys.modules.get(path.stem)
        if known and Path(str(known.__file__)) != path:  # of another folder
            del sys.modules[path.stem]
        banks.setdefault(path.name[2:4], []).extend(
            importlib.import_module(path.stem).EXERCISES
        )
    if not banks:
        raise FileNotFoundError(f"no exercises (nbNN_topic.py) in {folder}")
    return banks


@functools.cache
def parts() -> dict[str, bool]:
    """{exercise: whether training calls it} of the answers that are used later."""
    path = places().get("parts")
    return tomllib.loads(path.read_text("utf-8")) if path else {}


def exercises() -> dict[str, Exercise]:
    """{name: exercise} of all banks."""
    return {one.name: one for bank in find_banks().values() for one in bank}
