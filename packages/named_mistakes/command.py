"""Judge a function of any file: named-mistakes try masks.weights layers.py:softmax.

Knows files, processes and how a verdict is printed. Knows nothing of how it is reached.
"""

import argparse
import contextlib
import dataclasses
import difflib
import importlib
import inspect
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from named_mistakes.banks import exercises, find_banks, use
from named_mistakes.checking import examine
from named_mistakes.exercise import Exercise
from named_mistakes.report import Report
from named_mistakes.session import find

SAYS = "Judge a function of any file by the exercises of a course."
EXAMPLE = "FILE.py:FUNCTION or module:FUNCTION, such as layers.py:softmax"
BANKS = "the folder of the exercises; in the course it is found"
CALL = "how to call f, if not with the exercise's arguments: 'f(scores, ~mask)[0]'"


class RefusedError(Exception):
    """A sentence about what cannot be judged."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit status is 0 for right, 1 for not, 2 for not judged."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser("named-mistakes", description=SAYS)
    commands = parser.add_subparsers(dest="command", required=True)
    asked = commands.add_parser("try", help="judge a function by an exercise")
    listed = commands.add_parser("list", help="the exercises, and what each takes")
    asked.add_argument("exercise")
    asked.add_argument("target", help=EXAMPLE)
    asked.add_argument("--call", help=CALL)
    asked.add_argument("--seconds", type=float, default=60.0, help="for all of it")
    asked.add_argument("--json", action="store_true", help="one line for a program")
    asked.add_argument("--inside", help=argparse.SUPPRESS)  # the file of the verdict
    for command in (asked, listed):
        command.add_argument("--banks", help=BANKS)
    options = parser.parse_args(arguments)
    try:
        if options.command == "list":
            find_exercises(options.banks)
            for exercise in exercises().values():
                takes = ", ".join(exercise.takes)
                print(f"{exercise.name}({takes}): {exercise.statement}")
            return 0
        if options.inside:
            find_exercises(options.banks)
            report = judge(_find(options.exercise), options.target, options.call)
            Path(options.inside).write_text(_as_json(report), "utf-8")
            os._exit(0)  # whatever the file has started
        report = in_a_process(arguments, options)
    except RefusedError as refused:
        print(f"named-mistakes: {refused}", file=sys.stderr)
        return 2
    print(_as_json(report) if options.json else report.text)
    return int(report.status != "right")


def find_exercises(banks: str | None) -> None:
    """Take the exercises of a folder, or those that a pyproject.toml names."""
    if banks:
        if not Path(banks).is_dir():
            raise RefusedError(f"--banks: there is no folder {banks}")
        use(banks)
        homes = Path(banks).resolve().parents
        sys.path += [str(one) for one in homes if (one / "pyproject.toml").is_file()]
    try:
        find_banks()
    except FileNotFoundError as error:
        advice = "fetch the folder notebooks/exercises of the course: --banks FOLDER"
        raise RefusedError(f"{str(error).split(':')[0]}; {advice}") from None
    except ImportError as error:
        raise RefusedError(
            f"the exercises need more than this folder: {error}"
        ) from None


def _find(name: str) -> Exercise:
    try:
        exercise = find(name)
    except ValueError as error:
        raise RefusedError(
            str(error).replace('progress("01") lists', "see the list:")
        ) from None
    if exercise.predicts:
        raise RefusedError(f"{name} asks for a number, not for a function")
    return exercise


def judge(exercise: Exercise, target: str, call: str | None = None) -> Report:
    """The verdict on a function of a file or module, with both hints of a mistake."""
    report = examine(exercise, adapt(load(target), exercise, call))
    more = [one.more for one in exercise.mistakes if one.name == report.mistake]
    lines = (line for line in report.lines if not line.startswith("hint("))
    return dataclasses.replace(report, lines=(*lines, *more))


def load(target: str) -> Any:
    """What FILE.py:NAME or module:NAME names; the name may have dots."""
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise RefusedError(f"name a function as {EXAMPLE}; got {target!r}")
    if where.endswith(".py") and not Path(where).is_file():
        raise RefusedError(f"there is no file {where}")
    try:
        found = _import(where)
    except BaseException as error:  # SystemExit, too
        kind = type(error).__name__
        raise RefusedError(
            f"{where} does not import: {kind}: {error}".rstrip(": ")
        ) from None
    for part in name.split("."):
        if not hasattr(found, part):
            similar = difflib.get_close_matches(part, dir(found), cutoff=0.5)
            advice = f"; did you mean {' or '.join(similar)}?" if similar else ""
            raise RefusedError(f"{where} has no {part!r}{advice}")
        found = getattr(found, part)
    return found


def _import(where: str) -> ModuleType:
    """A module by its name or its file; a file inside a package as a part of it."""
    if not where.endswith(".py"):
        return importlib.import_module(where)
    path = Path(where).resolve()
    name, folder = path.stem, path.parent
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
    sys.path.insert(0, str(folder))
    if "." in name:
        return importlib.import_module(name)
    loader = SourceFileLoader(f"judged_{name}", str(path))
    module = ModuleType(loader.name)
    module.__file__ = str(path)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def adapt(function: Callable, exercise: Exercise, call: str | None) -> Callable:
    """The function as the exercise calls it; `call` is an expression with its names."""
    takes = ", ".join(exercise.takes)
    if call is None:
        if inspect.isclass(function):
            how = f"--call 'f(…)({exercise.takes[0]})'"
            raise RefusedError(
                f"{function.__name__} is a class: say how to call it, {how}"
            )
        if not callable(function):
            kind = type(function).__name__
            raise RefusedError(f"a function is judged, and this is of type {kind}")
        return function
    try:
        known = {"f": function, "torch": torch, "math": math}
        return eval(f"lambda {takes}: {call}", known)
    except SyntaxError as error:
        raise RefusedError(f"--call: {error.msg} in {call!r}") from None


def in_a_process(arguments: list[str], options: argparse.Namespace) -> Report:
    """The verdict of a process of its own, which ends with all that it started."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "verdict.json"
        command = [sys.executable, "-m", "named_mistakes.command", *arguments]
        started = subprocess.Popen(
            [*command, "--inside", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = started.communicate(timeout=options.seconds)
        except subprocess.TimeoutExpired:
            late = f"{options.target} has no end in {options.seconds:g} seconds"
            raise RefusedError(late) from None
        finally:
            with contextlib.suppress(OSError, AttributeError):  # Windows has no groups
                os.killpg(started.pid, signal.SIGKILL)
            started.kill()
        if not file.exists():
            last = (said.strip().splitlines() or ["it ended without a verdict"])[-1]
            raise RefusedError(last.removeprefix("named-mistakes: "))
        return Report(**json.loads(file.read_text("utf-8")))


def _as_json(report: Report) -> str:
    return json.dumps(dataclasses.asdict(report), ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
