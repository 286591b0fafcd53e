"""Find the exercises: every `nbNN_topic.py` in `notebooks/exercises/`, without a list.

Knows where the files lie. Knows nothing of how an answer is run or shown.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from named_mistakes.exercise import Exercise

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "exercises"


def load_bank(path: Path) -> ModuleType:
    """The bank in this file as a module that is named like the file, loaded once."""
    name = path.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def find_banks(folder: Path = FOLDER) -> dict[str, list[Exercise]]:
    """The exercises of each notebook, {"01": [...]}, in the order of the files' names.

    Raises FileNotFoundError for a folder without banks.
    """
    banks: dict[str, list[Exercise]] = {}
    for path in sorted(folder.glob("nb[0-9][0-9]_*.py")):
        number = path.name[2:4]
        banks.setdefault(number, []).extend(load_bank(path).EXERCISES)
    if not banks:
        raise FileNotFoundError(
            f"no exercises (nbNN_topic.py) in {folder}: the course runs from its own "
            "folder, where notebooks/ stands beside course_utils/"
        )
    return banks
