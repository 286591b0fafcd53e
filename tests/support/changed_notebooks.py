"""pytest plugin: `--changed` runs only the notebooks that a change can touch.

While a notebook runs, its kernel and the processes that it starts write down each file
and folder of the project that they open (`kernel_site/sitecustomize.py`). When all of
it passed, their checksums are kept in pytest's cache. As long as none of them differs,
and neither do the notebook itself, the pins, the test code and the Python that runs it,
`--changed` leaves the notebook out.
"""

import hashlib
import importlib.util
import platform
import sys
from pathlib import Path

import pytest

from nbval_strict.workers import is_worker, shared
from tools.mirror_data import data_fingerprint
from tools.notebook_environment import ROOT

ALWAYS = (
    "pyproject.toml",
    "requirements.txt",
    "requirements-dev.txt",
    "constraints.txt",
    "packages/nbval_strict",
    "tests/support",
    "tools",
)
CACHE_KEY = "course/notebooks"  # name in pytest's cache
_failed = set()
OPENED = shared("opened")  # notebook -> the files that its run opened
LEFT_OUT = shared("left out")


def surroundings():
    """What no file says, and what a notebook's outputs depend on all the same."""
    return f"{sys.version} {platform.platform()} {data_fingerprint()}"


def checksum(path):
    """Of a file's bytes, or of the names in a folder; None where there is nothing."""
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        content = "\n".join(n for n in names if n != "__pycache__").encode()
    elif path.is_file():
        content = path.read_bytes()
    else:
        return None
    return hashlib.sha256(content).hexdigest()


def needed(notebook, opened):
    """Every path of the project on which the result of a notebook rests."""
    paths = {notebook.resolve()}
    for name in ALWAYS:
        place = ROOT / name
        paths |= set(place.rglob("*.py")) if place.is_dir() else {place}
    for line in opened:
        path = Path(line)
        if path.parent.name == "__pycache__":
            path = Path(importlib.util.source_from_cache(str(path)))
        paths.add(path)
    return sorted(path for path in paths if path != ROOT and _belongs(path))


def _belongs(path):
    """Not what a run writes: caches, the environment, checkpoints, unfinished files."""
    written = {".venv", ".git", ".pytest_cache", "runs", "build", "_build", "work"}
    return path.is_relative_to(ROOT) and not written & {*path.relative_to(ROOT).parts}


def state_of(paths):
    sums = {str(path.relative_to(ROOT)): checksum(path) for path in paths}
    return {"surroundings": surroundings(), "files": sums}


def is_unchanged(stored):
    paths = [ROOT / name for name in stored["files"]]
    return state_of(paths) == stored


# --- hooks -------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption(
        "--changed",
        action="store_true",
        help="of the notebooks, only those that a change since they passed can touch",
    )


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix != ".ipynb" or not config.option.changed:
        return None
    stored = config.cache.get(CACHE_KEY, {}).get(str(collection_path.resolve()))
    if stored is None or not is_unchanged(stored):
        return None
    LEFT_OUT[collection_path.stem] = True
    return True


def pytest_nbval_opened(path, opened):
    OPENED[str(path)] = opened


def pytest_runtest_logreport(report):
    if report.failed or report.skipped:
        _failed.add(ROOT / report.nodeid.split("::")[0])


@pytest.hookimpl(trylast=True)  # after the workers have said what they opened
def pytest_sessionfinish(session):
    config = session.config
    if is_worker(config) or session.shouldstop or config.option.keyword:
        return
    if not OPENED or not hasattr(config, "cache"):  # pytest -p no:cacheprovider
        return
    known = config.cache.get(CACHE_KEY, {})
    for name, opened in OPENED.items():
        path = Path(name)
        known.pop(name, None)
        if path not in _failed and path.is_relative_to(ROOT):
            known[name] = state_of(needed(path, opened))
    config.cache.set(CACHE_KEY, known)


def pytest_terminal_summary(terminalreporter):
    if LEFT_OUT:
        names = ", ".join(sorted(name[:2] for name in LEFT_OUT))
        terminalreporter.write_line(f"unchanged since they passed: {names}")
