"""pytest plugin for `-n 2 --dist loadfile --no-loadscope-reorder`.

A notebook, and a file of tests, runs in one process; the longest come first. What the
workers collect under `SHARED` reaches the process that reports. Knows xdist and names.
Knows nothing of what runs.
"""

import json

import pytest

SHARED = {}  # subject -> {name: what a worker found}


def shared(subject):
    """A dictionary whose entries reach the process that reports."""
    return SHARED.setdefault(subject, {})


def usual_seconds(config):
    """{file: {cell or test function: CPU-seconds}}: what the ini option names."""
    name = config.getini("nbval_usual")
    path = config.rootpath / name
    return json.loads(path.read_text("utf-8")) if name and path.exists() else {}


def is_worker(config):
    return hasattr(config, "workerinput")


def pytest_addoption(parser):
    parser.addini("nbval_usual", "a JSON file with the usual CPU-seconds", default="")


def pytest_collection_modifyitems(config, items):
    usual = usual_seconds(config)

    def seconds(item):
        return sum(usual.get(item.path.name, {}).values())

    items.sort(key=seconds, reverse=True)  # stable: the items of a file stay together


def pytest_sessionfinish(session):
    if is_worker(session.config):
        session.config.workeroutput["course"] = json.dumps(SHARED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for subject, entries in json.loads(node.workeroutput.get("course", "{}")).items():
        here = shared(subject)
        for name, value in entries.items():
            here[name] = (
                here.get(name, 0) + value if isinstance(value, float) else value
            )
