"""Keep what `check` found right in files that can be read, loaded and used.

Knows exercises, the judge and the folder of what is kept. Knows nothing of a session.
"""

import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

import torch

from named_mistakes.banks import places
from named_mistakes.checking import examine
from named_mistakes.exercise import Exercise
from named_mistakes.running import isolated, run
from named_mistakes.writing import NotPortableError, self_contained

SWITCH = "NAMED_MISTAKES_KEEP"  # set by whoever opens JupyterLab for learners
SECONDS = 3  # of computing, in which a file must be read
RESERVED = {"con", "prn", "aux", "nul"} | {
    f"{p}{n}" for p in ("com", "lpt") for n in range(10)
}
_loaded: dict[Path, tuple] = {}  # what the file was, its function, why it is left aside


def keep(exercise: Exercise, answer: Callable) -> str:
    """Write a right answer down; return "", or a sentence that says why it cannot be.

    Only in working copies, and only where `SWITCH` is set. The file replaces an older
    one if it is right by itself in float32 and float64.
    """
    path = _path(exercise.name)
    if path is None or exercise.predicts or SWITCH not in os.environ:
        return ""
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    try:
        text = f"{_heading(exercise)}\n{self_contained(answer)}"
        if path.exists() and path.read_text("utf-8") == text:
            return ""
        path.parent.mkdir(exist_ok=True)
        unfinished.write_text(text, "utf-8")
        for dtype in (torch.float32, torch.float64):
            _, problem = _judged(exercise, unfinished, dtype)
            if problem:
                cure = "make new tensors in the dtype of its arguments"
                raise NotPortableError(f"in {str(dtype)[6:]} {problem}; {cure}")
        unfinished.replace(path)
    except OSError as error:
        return f"Not kept: {path.parent.name} cannot be written ({error.strerror})."
    except NotPortableError as reason:
        return f"Not kept: {reason}."
    except Exception as error:  # a strange object must not stop a check
        return f"Not kept: its source cannot be written down ({type(error).__name__})."
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return ""


def kept(exercise: Exercise) -> tuple[Callable | None, str]:
    """(the learner's function, ""); or None, with why a file is left aside, if any.

    A file is read and judged when this process meets it, and again when it changes.
    """
    path = _path(exercise.name)
    try:
        now = path and path.stat()
    except OSError:
        now = None
    if now is None:
        return None, ""
    state = now.st_mtime_ns, now.st_size, now.st_ino
    if path not in _loaded or _loaded[path][0] != state:
        function, problem = _judged(exercise, path, torch.get_default_dtype())
        cure = f'check("{exercise.name}", …) replaces it'
        why = f"{path.parent.name}/{path.name} is left aside: {problem}; {cure}."
        _loaded[path] = state, None if problem else function, why if problem else ""
    return _loaded[path][1:]


def keeps() -> bool:
    """Whether this is a working copy, so that answers can be kept."""
    return _folder(os.getcwd()) is not None


def file_name(name: str) -> str:
    """The file of an exercise, on every system; two names never share one."""
    safe = re.sub(r"[^a-z0-9._-]", lambda c: f"%{ord(c[0]):x}%", name)
    if safe.partition(".")[0] in RESERVED:
        safe = f"%{ord(safe[0]):x}%{safe[1:]}"
    return f"{safe}.py"


def _path(name: str) -> Path | None:
    folder = _folder(os.getcwd())
    return folder and folder / file_name(name)


@cache
def _folder(here: str) -> Path | None:
    """Where answers are kept: only for a notebook in the folder above."""
    try:
        path = places().get("kept")
    except FileNotFoundError:
        return None
    return path if path is not None and path.parent == Path(here) else None


def _heading(exercise: Exercise) -> str:
    lines = textwrap.wrap(f"{exercise.name}: {exercise.statement}", 86)
    return "".join(f"# {line}\n" for line in lines)


def _judged(exercise: Exercise, path: Path, dtype: torch.dtype):
    """(the function of a file, what is wrong with it or "")."""
    with isolated():
        torch.set_default_dtype(dtype)
        outcome = run(_execute, (path,), SECONDS)
        if outcome.error:
            kind, text = (
                type(outcome.error).__name__,
                f"{outcome.error}".partition("\n"),
            )
            return None, f"it stops with {kind}" + f" ({text[0]})" * bool(text[0])
        report = examine(exercise, outcome.value)
    problem = report.title.removeprefix(f"{exercise.name}: ")
    return (
        outcome.value,
        "" if report.status == "right" else f"it is not right: {problem}",
    )


def _execute(path: Path) -> Callable:
    module = ModuleType(f"{path.parent.name}.{path.stem}")
    sys.modules[module.__name__] = module  # a dataclass looks for it
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return getattr(module, module.__all__[0])
