"""pytest plugin: which tests are slow, decided by a measurement that is written down.

`make measure` runs `tests/` one test after the other and writes `tests/slow.txt`.
A test function is slow if its runs take SLOW_TEST seconds or more together; a file is
slow as a whole if its fixtures alone take SLOW_SETUP seconds or more, because whichever
test comes first has to wait for them. `make check` leaves out what is marked `slow`.
"""

import collections
import os
import platform
from datetime import date

import pytest

from tests.support.notebook_environment import ROOT

FILE = ROOT / "tests" / "slow.txt"
SLOW_TEST = 1.0
SLOW_SETUP = 2.0
_tests = collections.Counter()
_setups = collections.Counter()


def function_of(nodeid):
    """tests/unit/test_a.py::test_b[3] -> tests/unit/test_a.py::test_b"""
    return nodeid.split("[")[0]


def read_slow(text):
    """The names in a written measurement: of files, and of functions in files."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split(maxsplit=1)[1] for line in lines}


def written(tests, setups):
    """A measurement as text: what is slow, the slowest first."""
    slow = {file: s for file, s in setups.items() if s >= SLOW_SETUP}
    for name, seconds in tests.items():
        if seconds >= SLOW_TEST and name.split("::")[0] not in slow:
            slow[name] = seconds
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    lines = [
        "# What `make check` leaves out, with the seconds that `make measure` found on",
        f"# {date.today()} with Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, {threads} threads.",
        "# A line without :: is a file whose fixtures take that long.",
        *(
            f"{slow[name]:7.1f}  {name}"
            for name in sorted(slow, key=lambda n: -slow[n])
        ),
    ]
    return "\n".join(lines) + "\n"


# --- hooks -------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--measure", action="store_true", help="write tests/slow.txt anew")


def pytest_collection_modifyitems(items):
    slow = read_slow(FILE.read_text("utf-8")) if FILE.exists() else set()
    for item in items:
        name = function_of(item.nodeid)
        if name in slow or name.split("::")[0] in slow:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_logreport(report):
    name = function_of(report.nodeid)
    _tests[name] += report.duration
    if report.when == "setup":
        _setups[name.split("::")[0]] += report.duration


def pytest_sessionfinish(session):
    if session.config.option.measure:
        FILE.write_text(written(_tests, _setups), encoding="utf-8")
