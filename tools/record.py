"""`make record NB=17`: run the recorded experiments of a notebook, keep the numbers.

CONFIRM=1 runs one point again, after a change that should not matter. Knows scripts
and processes. Knows nothing of what the numbers mean.
"""

import argparse
import functools
import json
import math
import multiprocessing
import platform
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import numpy
import torch
from tqdm import tqdm

from course_utils.records import (
    FOLDER,
    ROOT,
    Record,
    checksum,
    load_record,
    load_script,
)

CORES = 2  # as many as CI has, so that the minutes of two records compare
THREADS = 1  # of each point: small models gain nothing from more
NEAR = 0.02  # by such a part may a number differ that is confirmed


def make_record(name: str, root: Path = ROOT) -> Path:
    """Run every point of a script, each in a process of `CORES`, and write the record.

    Raises ValueError for a `run` that gives other than finite numbers. If anything
    stops it, the earlier record stays as it is.
    """
    points = load_script(name, root).POINTS
    started = time.perf_counter()
    run = functools.partial(_run, name, root)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(CORES, context, _begin) as pool:  # it notices a killed one
        results = pool.map(run, range(len(points)))
        quiet = not sys.stderr.isatty()
        bar = tqdm(results, name, len(points), unit="point", disable=quiet)
        try:
            results = list(bar)
        except BaseException:  # Ctrl-C does not wait for points that run for minutes
            for child in multiprocessing.active_children():
                child.kill()
            raise
    record = Record(
        date=date.today().isoformat(),
        seconds=round(time.perf_counter() - started, 1),
        cores=min(CORES, len(points)),
        threads=THREADS,
        versions=_versions(),
        seeds=list(load_script(name, root).SEEDS),
        commit=_commit(root),
        script=script_checksum(name, root),
        results=results,
    )
    return _write(name, root, record)


def confirm_record(name: str, root: Path = ROOT) -> Path:
    """Run the first point again; if its numbers are as recorded, say so in the record.

    Raises ValueError where a number differs from the recorded one by more than `NEAR`.
    """
    record = load_record(name, root)
    result = _run(name, root, 0)
    for quantity, recorded in record.numbers(**result["point"]).items():
        now = result["numbers"][quantity]
        if not isinstance(recorded, int | float):
            continue  # a text may come out otherwise on another machine
        if not math.isclose(now, recorded, rel_tol=NEAR):
            raise ValueError(
                f"{quantity} of {result['point']} is {now}, recorded {recorded}: "
                f"run `make record NB={name[2:4]}`"
            )
    today = date.today().isoformat()
    same = replace(record, script=script_checksum(name, root), confirmed=today)
    return _write(name, root, same)


def _run(name: str, root: Path, place: int) -> dict:
    """One point: its result."""
    script = sys.modules.get(name) or load_script(name, root)
    point = script.POINTS[place]
    started = time.perf_counter()
    numbers = script.run(**point)
    seconds = round(time.perf_counter() - started, 2)
    for quantity, number in numbers.items():
        if not _is_result(number):
            raise ValueError(
                f"{quantity} of {point} must be a finite number, got {number}"
            )
    return {"point": point, "numbers": dict(numbers), "seconds": seconds}


def _is_result(value) -> bool:
    """Whether a value is a finite number, a text, or a list of texts."""
    if isinstance(value, int | float):
        return math.isfinite(value)
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(text, str) for text in value)
    )


def _begin() -> None:
    """In each process: Ctrl-C is answered by the one that started them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(THREADS)


def script_checksum(name: str, root: Path = ROOT) -> str:
    """By which a record knows the script that gave its numbers."""
    return checksum((root / FOLDER / f"{name}.py").read_text("utf-8"))


def _commit(root: Path) -> str:
    command = ["git", "rev-parse", "--short=10", "HEAD"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": numpy.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": torch.backends.cpu.get_cpu_capability(),
    }


def _write(name: str, root: Path, record: Record) -> Path:
    """JSON with one line for each result, so that a diff reads well."""
    content = asdict(record)
    results = content["results"]
    lines = ",\n  ".join(json.dumps(one, ensure_ascii=False) for one in results)
    head = {key: value for key, value in content.items() if key != "results"}
    head["checksum"] = checksum(json.dumps(content, sort_keys=True))
    text = json.dumps(head, indent=1).removesuffix("\n}")
    path = root / FOLDER / f"{name}.json"
    unfinished = path.with_suffix(".unfinished")
    text = f'{text},\n "results": [\n  {lines}\n ]\n}}\n'
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    unfinished.replace(path)
    return path


def main(arguments: list[str] | None = None) -> None:
    """The command line: the numbers of notebooks, such as 17; without any, all."""
    names = sorted(path.stem for path in (ROOT / FOLDER).glob("nb[0-9][0-9]_*.py"))
    parser = argparse.ArgumentParser(prog="make record")
    parser.add_argument("--confirm", action="store_true", help="run one point only")
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 17")
    options = parser.parse_args(arguments)
    if unknown := set(options.notebooks) - {name[2:4] for name in names}:
        parser.error(f"NB={min(unknown)} must have a script in {FOLDER}")
    try:
        for name in names:
            if not options.notebooks or name[2:4] in options.notebooks:
                confirm_record(name) if options.confirm else make_record(name)
                print(f"{name}: {load_record(name)}", flush=True)
    except KeyboardInterrupt:
        raise SystemExit("stopped: the record is as it was") from None
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
