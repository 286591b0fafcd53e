"""Record runs that are longer than a notebook may take, and load what was recorded.

Knows scripts, the numbers that they give, and checksums. Knows nothing of models, data
or what the numbers mean.

A recorded run is two files in `notebooks/records/`, found by their name:

    nb17_scaling.py     the script: `POINTS`, a list of dictionaries; `SEEDS`; and
                        `run(**point)`, which gives {name: number} for one point
    nb17_scaling.json   the record: what `run` gave for each point, how long it took,
                        where and when, and checksums of all that had a part in it

`make record NB=17` writes the record. A notebook draws it, and runs a point itself.
After a change that cannot matter, `make record NB=17 CONFIRM=1` runs one point and,
where its numbers are as recorded, keeps the record with the new checksums.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import multiprocessing
import os
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date
from numbers import Real
from pathlib import Path
from types import ModuleType

import torch
from tqdm import tqdm

from course_utils.shapes import check_callable, check_positive, check_type, shown

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("notebooks") / "records"  # in the project
CORES = 2  # as many as CI has, so that the minutes of two records compare
THREADS = 1  # of each point: small models gain nothing from more
DIGITS = 16  # of a checksum, in base 16
NEAR = 0.02  # by such a share may a number differ that is confirmed

Point = dict[str, int | float | str]
Numbers = dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a script gave for each of its points, and how that came about.

    date: of the run. seconds: what it took in all. cores: so many points ran at a time,
    each on so many threads. versions: of Python, torch, NumPy and the machine. seeds:
    those of the script. files: {path in the project: checksum} of the script, of every
    module of the project that it imported and of every file that it opened there.
    results: for each point a dictionary of "point", "numbers" and "seconds".
    confirmed: when a point gave its numbers again, and the files were read anew.
    """

    date: str
    seconds: float
    cores: int
    threads: int
    versions: dict[str, str]
    seeds: list[int]
    files: dict[str, str]
    results: list[dict]
    confirmed: str = ""

    def numbers(self, **point: int | float | str) -> Numbers:
        """What the script gave for one point, {name: number}.

        Raises ValueError for a point that was not recorded.
        """
        for result in self.results:
            if result["point"] == point:
                return dict(result["numbers"])
        known = self.results[0]["point"]
        raise ValueError(f"point must be a recorded one such as {known}, got {point}")

    def __str__(self) -> str:
        """The line that a notebook shows: "recorded: 14 minutes on two cores, …"."""
        return (
            f"recorded: {_time(self.seconds)} on {_count(self.cores, 'core')}, "
            f"{self.date}, torch {self.versions['torch']}"
        )


def _time(seconds: float) -> str:
    if seconds < 90:
        return _count(round(seconds), "second")
    return _count(round(seconds / 60), "minute")


def _count(number: int, unit: str) -> str:
    word = {1: "one", 2: "two"}.get(number, str(number))
    return f"{word} {unit}{'' if number == 1 else 's'}"


# --- what a notebook calls -----------------------------------------------------------


def load_script(name: str, root: Path = ROOT) -> ModuleType:
    """The script `NAME.py` as a module, such as "nb17_scaling": its functions, POINTS.

    root: of the project. Raises TypeError unless name is a string, FileNotFoundError
    where there is no such script, ValueError for another kind of name; and TypeError or
    ValueError for a script without POINTS, SEEDS or run.
    """
    path = _path(name, root, ".py")
    if not path.is_file():
        raise FileNotFoundError(
            f"name must be a script in {FOLDER.as_posix()}, there is no {path.name}"
        )
    spec = importlib.util.spec_from_file_location(name, path)
    script = importlib.util.module_from_spec(spec)
    sys.modules[name] = script
    try:
        spec.loader.exec_module(script)
        _check_script(script)
    except BaseException:
        del sys.modules[name]
        raise
    return script


def load_record(name: str, root: Path = ROOT) -> Record:
    """The record `NAME.json`, such as "nb17_scaling".

    Print it, so that a reader sees that the numbers are recorded. A script or module
    that was edited since then is no reason to raise here: `check_record` asks for that.

    root: of the project. Raises TypeError unless name is a string, FileNotFoundError
    where there is no such record, ValueError for another kind of name, or a file that
    is not as `make_record` wrote it.
    """
    path = _path(name, root, ".json")
    command = f"make record NB={name[2:4]}"
    if not path.is_file():
        raise FileNotFoundError(
            f"name must be a record in {FOLDER.as_posix()}, there is no {path.name}: "
            f"`{command}` makes it"
        )
    try:
        content = json.loads(path.read_text("utf-8"))
        kept = content.pop("checksum")
        record = Record(**content)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError(f"{path.name} is not a record: run `{command}`") from None
    if kept != _checksum_of_content(content):
        raise ValueError(
            f"{path.name} is not as the script left it: its checksum is {kept}, "
            f"expected {_checksum_of_content(content)}; run `{command}`"
        )
    return record


def check_record(name: str, root: Path = ROOT) -> Record:
    """The record, if all that made it is as it was: script, modules, data, points.

    Raises as `load_script` and `load_record`, and ValueError for a file that differs or
    is gone, or points that are not those of the script.
    """
    record = load_record(name, root)
    script = load_script(name, root)
    command = f"make record NB={name[2:4]}"
    changed = [
        path for path, kept in record.files.items() if _checksum(root / path) != kept
    ]
    if changed:
        raise ValueError(
            f"{', '.join(changed)} changed since {name}.json was recorded: "
            f"run `{command}`, or add CONFIRM=1 if that cannot matter"
        )
    if [result["point"] for result in record.results] != script.POINTS:
        raise ValueError(
            f"{name}.json must hold the {len(script.POINTS)} points of its script, got "
            f"{len(record.results)} that are not the same: run `{command}`"
        )
    return record


def _checksum(path: Path) -> str:
    """The first digits of a file's SHA-256, "" where there is none.

    Line ends count as "\\n", so that it is the same in every checkout.
    """
    if not path.is_file():
        return ""
    content = path.read_bytes().replace(b"\r\n", b"\n")
    return hashlib.sha256(content).hexdigest()[:DIGITS]


# --- recording -----------------------------------------------------------------------


def make_record(name: str, root: Path = ROOT, cores: int = CORES) -> Path:
    """Run every point of a script, write its record, and return the record's path.

    cores: so many points run at a time, each in a process of its own on one thread. The
    file is replaced at the end by one rename, so an interrupted run changes nothing.
    A person at a terminal sees how many points are done, and the time that is left.

    root: of the project. Raises as `load_script`; for cores below 1; for a `run` that
    does not give {name: finite number}; and for a file that changed meanwhile.
    """
    check_positive(cores=cores)
    path = _path(name, root, ".json")
    script = load_script(name, root)
    started = time.perf_counter()
    results: list[dict] = [{} for _ in script.POINTS]
    files: dict[str, str] = {}
    context = multiprocessing.get_context("spawn")
    quiet = not sys.stderr.isatty()
    others = set(multiprocessing.active_children())
    with (
        ProcessPoolExecutor(cores, context, _watch_files) as pool,
        tqdm(total=len(results), desc=name, unit="point", disable=quiet) as bar,
    ):
        with _ignored_by_children(signal.SIGINT):
            waiting = {
                pool.submit(_run_point, name, root, place): place
                for place in range(len(results))
            }
        try:
            for done in as_completed(waiting):
                results[waiting[done]], used = done.result()
                _merge(files, used)
                bar.update()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise
    record = Record(
        date=date.today().isoformat(),
        seconds=round(time.perf_counter() - started, 1),
        cores=int(cores),
        threads=THREADS,
        versions=_versions(),
        seeds=list(script.SEEDS),
        files=dict(sorted(files.items())),
        results=results,
    )
    return _write(path, asdict(record))


def confirm_record(name: str, root: Path = ROOT) -> Path:
    """Run the first point again; if its numbers are as recorded, renew the checksums.

    Raises ValueError where a number differs from the recorded one by more than `NEAR`.
    """
    record = load_record(name, root)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context, _watch_files) as pool:
        result, used = pool.submit(_run_point, name, root, 0).result()
    for quantity, recorded in record.numbers(**result["point"]).items():
        now = result["numbers"][quantity]
        if not math.isclose(now, recorded, rel_tol=NEAR):
            raise ValueError(
                f"{quantity} of {result['point']} is {now}, recorded {recorded}: "
                f"run `make record NB={name[2:4]}`"
            )
    known = {path: _checksum(root / path) for path in record.files}
    files = {path: found for path, found in (known | used).items() if found}
    content = asdict(record) | {"files": dict(sorted(files.items()))}
    content["confirmed"] = date.today().isoformat()
    return _write(_path(name, root, ".json"), content)


def _write(path: Path, content: dict) -> Path:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(_as_text(content), encoding="utf-8", newline="\n")
    unfinished.replace(path)
    return path


@contextmanager
def _ignored_by_children(number: signal.Signals) -> Iterator[None]:
    """Processes that start here ignore a signal, so that this one alone answers it."""
    own = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, own)


_opened: set[Path] = set()  # files of the project that this process has opened


def _watch_files() -> None:
    """At the start of a process: its threads, and a list of what it opens."""
    torch.set_num_threads(THREADS)

    def hook(event: str, arguments: tuple) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            _opened.add(Path(os.fsdecode(arguments[0])).resolve())

    sys.addaudithook(hook)


def _run_point(name: str, root: Path, place: int) -> tuple[dict, dict[str, str]]:
    """One point, in such a process: its result, and the files that it rests on."""
    script = sys.modules.get(name) or load_script(name, root)
    point = script.POINTS[place]
    started = time.perf_counter()
    numbers = script.run(**point)
    seconds = round(time.perf_counter() - started, 2)
    _check_numbers(numbers, point)
    result = {"point": point, "numbers": dict(numbers), "seconds": seconds}
    return result, _files_used(_path(name, root, ".py"), root)


def _files_used(script: Path, root: Path) -> dict[str, str]:
    """Checksums of the script, of imported modules of the project, of opened files.

    Without this module, which only watches.
    """
    modules = [getattr(module, "__file__", None) for module in sys.modules.values()]
    paths = {Path(file).resolve() for file in modules if file}
    paths |= {path for path in _opened if path.suffix not in (".py", ".pyc")}
    paths.add(script.resolve())
    paths.discard(Path(__file__).resolve())
    root = root.resolve()
    places = (root / "course_utils", root / "notebooks")
    return {
        path.relative_to(root).as_posix(): _checksum(path)
        for path in sorted(paths)
        if any(path.is_relative_to(place) for place in places) and path.is_file()
    }


def _merge(files: dict[str, str], used: Mapping[str, str]) -> None:
    for path, found in used.items():
        if files.setdefault(path, found) != found:
            raise ValueError(f"{path} changed while it was recorded: run it again")


def _versions() -> dict[str, str]:
    import numpy

    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def _as_text(content: dict) -> str:
    """JSON with one line for each result, so that a diff reads well."""
    results = ",\n  ".join(json.dumps(result) for result in content["results"])
    head = {name: value for name, value in content.items() if name != "results"}
    head["checksum"] = _checksum_of_content(content)
    rest = json.dumps(head, indent=1).removesuffix("\n}")
    return f'{rest},\n "results": [\n  {results}\n ]\n}}\n'


def _checksum_of_content(content: dict) -> str:
    """Of everything in a record but this checksum."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


# --- checks --------------------------------------------------------------------------


def _path(name: object, root: object, suffix: str) -> Path:
    check_type(str, name=name)
    check_type(Path, root=root)
    if not re.fullmatch(r"nb\d\d_\w+", name):
        raise ValueError(f"name must be like 'nb17_scaling', got {shown(name)}")
    return root / FOLDER / f"{name}{suffix}"


def _check_script(script: ModuleType) -> None:
    name = script.__name__
    check_type(list, **{f"{name}.POINTS": getattr(script, "POINTS", None)})
    check_type(list | tuple, **{f"{name}.SEEDS": getattr(script, "SEEDS", None)})
    check_callable(**{f"{name}.run": getattr(script, "run", None)})
    for place, point in enumerate(script.POINTS):
        check_type(dict, **{f"{name}.POINTS[{place}]": point})
    if not script.POINTS:
        raise ValueError(f"{name}.POINTS must hold at least one point, got none")


def _check_numbers(numbers: object, point: Point) -> None:
    check_type(dict, **{f"what run gives for {point}": numbers})
    for name, number in numbers.items():
        plain = isinstance(number, Real) and not isinstance(number, bool)
        if not plain or not math.isfinite(number):
            raise ValueError(
                f"{name} of {point} must be a finite number, got {shown(number)}"
            )


# --- the command ---------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    """The command line: the numbers of notebooks, such as 17; without any, all."""
    names = sorted(path.stem for path in (ROOT / FOLDER).glob("nb[0-9][0-9]_*.py"))
    parser = argparse.ArgumentParser(prog="python -m course_utils.training.records")
    parser.add_argument("--confirm", action="store_true", help="run one point only")
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 17")
    options = parser.parse_args(arguments)
    given = options.notebooks
    for number in given:
        if not any(name[2:4] == number for name in names):
            known = ", ".join(names) or "none"
            parser.error(f"NB={number} must have a script in {FOLDER}; got {known}")
    try:
        for name in names:
            if not given or name[2:4] in given:
                confirm_record(name) if options.confirm else make_record(name)
                print(f"{name}: {load_record(name)}", flush=True)
    except KeyboardInterrupt:
        raise SystemExit("stopped: the record is as it was") from None
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
