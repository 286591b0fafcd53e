"""pytest plugin for `-n 2 --dist loadfile --no-loadscope-reorder`.

A notebook, and a file of tests, runs in one process; the longest come first. What the
workers collect under `SHARED` reaches the process that reports. Knows xdist and names.
Knows nothing of what runs.
"""

import json

import pytest

from tests.support.notebook_environment import ROOT

SECONDS = ROOT / "tests" / "seconds.json"  # usual CPU-seconds, written by --measure
SHARED = {}  # subject -> {name: what a worker found}


def shared(subject):
    """A dictionary whose entries reach the process that reports."""
    return SHARED.setdefault(subject, {})


def usual_seconds():
    """{file: {cell or test function: CPU-seconds}}, those above a tenth of a second."""
    return json.loads(SECONDS.read_text("utf-8")) if SECONDS.exists() else {}


def is_worker(config):
    return hasattr(config, "workerinput")


def pytest_collection_modifyitems(items):
    usual = usual_seconds()

    def seconds(item):
        return sum(usual.get(item.path.name, {}).values())

    items.sort(key=seconds, reverse=True)  # stable: the items of a file stay together


def pytest_sessionfinish(session):
    if is_worker(session.config):
        session.config.workeroutput["course"] = json.dumps(SHARED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for subject, found in json.loads(node.workeroutput.get("course", "{}")).items():
        here = shared(subject)
        for name, value in found.items():
            here[name] = (
                here.get(name, 0) + value if isinstance(value, float) else value
            )
