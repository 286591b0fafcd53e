"""Load what was recorded of runs that are longer than a notebook may take.

Knows scripts and the numbers that they gave. Knows nothing of what the numbers mean.

A recorded run is two files in `notebooks/records/`:

    nb17_scaling.py     the script: `POINTS`, a list of dictionaries; `SEEDS`; and
                        `run(**point)`, which gives {name: number} for one point
    nb17_scaling.json   the record, which `make record NB=17` writes (`tools/record.py`)
"""

import hashlib
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path("notebooks") / "records"  # in the project

Numbers = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a script gave for each of its points, and how that came about.

    cores: so many points ran at a time. script: a checksum of its text. results: for
    each point its "point", "numbers" and "seconds". confirmed: when one last did again.
    """

    date: str
    seconds: float
    cores: int
    threads: int
    versions: dict[str, str]
    seeds: list[int]
    commit: str
    script: str
    results: list[dict]
    confirmed: str = ""

    def numbers(self, **point: int | float | str) -> Numbers:
        """What the script gave for one point, {name: number}."""
        for result in self.results:
            if result["point"] == point:
                return dict(result["numbers"])
        known = self.results[0]["point"]
        raise ValueError(f"point must be a recorded one such as {known}, got {point}")

    def __str__(self) -> str:
        """The line that a notebook shows: "recorded: 14 minutes on two cores, …"."""
        duration = _count(round(self.seconds / 60), "minute")
        if self.seconds < 90:
            duration = _count(round(self.seconds), "second")
        return (
            f"recorded: {duration} on {_count(self.cores, 'core')}, {self.date}, "
            f"torch {self.versions['torch']}"
        )


def _count(number: int, unit: str) -> str:
    word = {1: "one", 2: "two"}.get(number, str(number))
    return f"{word} {unit}{'' if number == 1 else 's'}"


def load_script(name: str, root: Path = ROOT) -> ModuleType:
    """The script `NAME.py` as a module, with its functions and POINTS."""
    spec = importlib.util.spec_from_file_location(name, root / FOLDER / f"{name}.py")
    assert spec and spec.loader  # every path of a .py file has both
    script = importlib.util.module_from_spec(spec)
    sys.modules[name] = script
    spec.loader.exec_module(script)
    return script


def load_record(name: str, root: Path = ROOT) -> Record:
    """The record `NAME.json`. Print it: a reader should see that it is recorded."""
    text = (root / FOLDER / f"{name}.json").read_text("utf-8")
    try:
        content = json.loads(text)
        fits = content.pop("checksum") == checksum(json.dumps(content, sort_keys=True))
        record = Record(**content)
    except (AttributeError, KeyError, TypeError, ValueError):
        fits = False
    if not fits:
        command = f"make record NB={name[2:4]}"
        raise ValueError(f"{name}.json is not as its script left it: run `{command}`")
    return record


def checksum(text: str) -> str:
    """The first digits of a text's SHA-256, in base 16."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
