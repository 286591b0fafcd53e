"""pytest plugin: `make measure` writes down what tests and cells usually take.

In CPU-seconds, by which the longest come first.
"""

import json
import os

import pytest

from nbval_strict.workers import is_worker, shared, usual_seconds

LEAST = 0.1  # what takes less is not written down
FUNCTIONS = shared("functions")  # "file::function" -> CPU-seconds
CELLS = shared("cells")


def function_of(item):
    return f"{item.path.name}::{item.originalname}"


def cpu_seconds():
    """Of this process and of those that it started and that have ended."""
    return sum(os.times()[:4])


def written(functions, cells, before):
    """What is usual, as JSON with a line for each file."""
    files = dict(before)
    files.update(cells)
    for name, seconds in functions.items():
        file, _, function = name.partition("::")
        files[file] = files.get(file, {}) | {function: seconds}
    lines = []
    for file in sorted(files):
        usual = {n: round(s, 1) for n, s in files[file].items() if s >= LEAST}
        if usual:
            lines.append(f"{json.dumps(file)}: {json.dumps(usual)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


# --- hooks -------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption("--measure", action="store_true", help="write tests/seconds.json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not isinstance(item, pytest.Function):
        return (yield)
    started = cpu_seconds()
    result = yield
    name = function_of(item)
    FUNCTIONS[name] = FUNCTIONS.get(name, 0.0) + cpu_seconds() - started
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    if session.config.option.measure and not is_worker(session.config):
        config = session.config
        text = written(FUNCTIONS, CELLS, usual_seconds(config))
        path = config.rootpath / config.getini("nbval_usual")
        path.write_text(text, encoding="utf-8")
