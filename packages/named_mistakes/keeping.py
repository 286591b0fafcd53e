"""Keep what `check` found right in files that can be read, loaded and used.

Knows exercises, the judge and the folder of what is kept. Knows nothing of a session.
"""

import contextlib
import functools
import os
import re
import sys
import textwrap
from collections.abc import Callable
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
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)")  # by Windows
_loaded: dict[Path, tuple] = {}  # what the file was; its function, why it is left aside


def keep(exercise: Exercise, answer: Callable) -> str:
    """Write a right answer down; return "", or a sentence on why it cannot be.

    Only in working copies, and only where `SWITCH` is set. The file replaces an older
    one if it is right by itself in float32 and float64.
    """
    folder = kept_folder()
    if folder is None or exercise.predicts or SWITCH not in os.environ:
        return ""
    path = folder / file_name(exercise.name)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    heading = textwrap.wrap(f"{exercise.name}: {exercise.statement}", 86)
    try:
        lines = [*(f"# {line}" for line in heading), "", self_contained(answer)]
        if path.exists() and path.read_text("utf-8") == "\n".join(lines):
            return ""
        folder.mkdir(exist_ok=True)
        unfinished.write_text("\n".join(lines), "utf-8")
        for dtype in (torch.float32, torch.float64):
            if problem := _judged(exercise, unfinished, dtype)[1]:
                cure = "make new tensors in the dtype of its arguments"
                raise NotPortableError(f"in {str(dtype)[6:]} {problem}; {cure}")
        unfinished.replace(path)
    except OSError as error:
        return f"Not kept: {folder.name} cannot be written ({error.strerror})."
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
    folder = kept_folder()
    if folder is None:
        return None, ""
    path = folder / file_name(exercise.name)
    try:
        now = path.stat()
    except OSError:
        return None, ""
    state = now.st_mtime_ns, now.st_size, now.st_ino
    if path not in _loaded or _loaded[path][0] != state:
        function, why = _judged(exercise, path, torch.get_default_dtype())
        if why:
            cure = f'check("{exercise.name}", …) replaces it'
            why = f"{folder.name}/{path.name} is left aside: {why}; {cure}."
        _loaded[path] = state, None if why else function, why
    return _loaded[path][1:]


def kept_folder() -> Path | None:
    """Where answers are kept: only for a notebook in the folder above."""
    return _folder(os.getcwd())


@functools.cache
def _folder(here: str) -> Path | None:
    with contextlib.suppress(FileNotFoundError):
        path = places().get("kept")
        return path if path is not None and path.parent == Path(here) else None
    return None


def file_name(name: str) -> str:
    """The file of an exercise, on every system; two names never share one."""
    safe = re.sub(r"[^a-z0-9._-]", lambda sign: f"%{ord(sign[0]):x}%", name)
    return RESERVED.sub(r"%\1%", safe, count=1) + ".py"


def _judged(exercise: Exercise, path: Path, dtype: torch.dtype):
    """(the function of a file, what is wrong with it or "")."""
    with isolated():
        torch.set_default_dtype(dtype)
        outcome = run(_execute, (path,), SECONDS)
        if outcome.error:
            return None, f"it stops with {type(outcome.error).__name__}"
        report = examine(exercise, outcome.value)
    problem = report.title.removeprefix(f"{exercise.name}: ")
    right = report.status == "right"
    return outcome.value, "" if right else f"it is not right: {problem}"


def _execute(path: Path) -> Callable:
    module = ModuleType(f"{path.parent.name}.{path.stem}")
    sys.modules[module.__name__] = module  # a dataclass looks for it
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    return getattr(module, module.__all__[0])
