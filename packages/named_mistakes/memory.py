"""What is remembered of the answers, by the kernel and in the file of working copies.

Knows names and counts. Knows nothing of exercises. The file of version 2 holds
{"version": 2, "exercises": {name: entry}}; the entry of an exercise is {"right": true,
"tries": 4, "mistakes": {"a sum": 2}}, that of a game {"points": 7}, its best score.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from named_mistakes.banks import places

_entries: dict[str, dict] = {}  # what this kernel knows


def remember(name: str, right: bool, mistake: str | None) -> None:
    """Count a try, and the mistake that was named, until it is right."""
    entry = {"right": False, "tries": 0, "mistakes": {}} | remembered().get(name, {})
    if entry["right"]:
        return
    made = entry["mistakes"]
    if mistake:
        made = made | {mistake: made.get(mistake, 0) + 1}
    _keep(name, {"right": right, "tries": entry["tries"] + 1, "mistakes": made})


def keep_score(name: str, points: int) -> None:
    """Remember the best score of a game, such as "clinic.case 3"."""
    _keep(name, {"points": points})


def remembered() -> dict[str, dict]:
    """{name: entry}, from any kernel."""
    stored: dict[str, dict] = {}
    with contextlib.suppress(OSError):
        stored, _ = _read(_file())
    return _larger(stored, _entries)


def _keep(name: str, entry: dict) -> None:
    """Remember an entry, in a working copy on disk: other kernels ask, too."""
    _entries[name] = _larger(_entries.get(name, {}), entry)
    path = _file()
    if path is None:
        return
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    with contextlib.suppress(OSError):  # a full or read-only disk must not stop a check
        stored, whole = _read(path)
        entries = {"version": 2, "exercises": _larger(stored, _entries)}
        unfinished.write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
        if not whole:
            path.replace(path.with_suffix(".old.json"))
        unfinished.replace(path)


def _read(path: Path | None) -> tuple[dict[str, dict], bool]:
    """The entries of a file, and whether it holds nothing else.

    It may be broken, of a later version or of the first, which was {name: whether it is
    right, or points}.
    """
    if path is None or not path.exists():
        return {}, True
    try:
        stored = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}, False
    match stored:
        case {"version": 2, "exercises": dict(new), **rest}:
            old = rest
        case dict() if "version" not in stored:
            new, old = {}, stored
        case _:
            return {}, False
    entries = _larger(*({n: _entry(part[n]) for n in part} for part in (old, new)))
    entries = {name: entry for name, entry in entries.items() if entry}
    return entries, entries == new and not old


def _entry(value: Any) -> dict:
    """The entry that somebody's value is, or an empty one."""
    match value:
        case bool(right):
            return {"right": right, "tries": 1, "mistakes": {}}
        case int(points) | {"points": int(points)}:
            return {"points": points}
        case {"right": bool(right), "tries": int(tries), "mistakes": dict(made)}:
            if all(isinstance(count, int) for count in made.values()):
                return {"right": right, "tries": tries, "mistakes": made}
    return {}


def _larger(one: Any, other: Any) -> Any:
    """Two accounts as one, each count at its larger value.

    So it does not matter which kernel writes first, or what is read twice.
    """
    if not isinstance(one, dict):
        return max(one, other)
    shared = {name: _larger(one[name], other[name]) for name in one.keys() & other}
    return one | other | shared


def _file() -> Path | None:
    """Where tries are remembered: only for a notebook in the folder of that file."""
    path = places().get("progress")
    return path if path is not None and path.parent == Path.cwd() else None
