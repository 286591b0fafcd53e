"""A slow test says so, and what is usual is written down."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.support import slow_tests
from tools.notebook_rules import ROOT

SPINS = """\
import time, pytest
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
@pytest.mark.parametrize("part", (1, 2))
def test_in_parts(part):
    spin(3.2)
def test_quick():
    spin(0.2)
@pytest.mark.slow
def test_marked():
    spin(6.2)
"""


def pytest_on(*arguments, **environ):
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.long
def test_what_is_slow_and_not_marked_is_named(tmp_path):
    (tmp_path / "test_spins.py").write_text(SPINS)
    printed = pytest_on(str(tmp_path))
    assert "4 passed" in printed and printed.count("mark it slow") == 1
    assert "test_spins.py::test_in_parts takes 6." in printed


def test_what_is_usual_is_written_and_read():
    functions = {"test_a.py::test_one": 1.04, "test_a.py::test_two": 0.02}
    cells = {"01_attention.ipynb": {"01-003": 4.26}}
    before = {"test_b.py": {"test_three": 2.0}, "01_attention.ipynb": {"01-009": 9.0}}
    text = slow_tests.written(functions, cells, before)
    assert json.loads(text) == {
        "01_attention.ipynb": {"01-003": 4.3},
        "test_a.py": {"test_one": 1.0},
        "test_b.py": {"test_three": 2.0},
    }


@pytest.mark.long
def test_tests_have_the_same_names_in_every_process():
    """Two processes that share the tests must agree; sets have no fixed order."""
    listed = []
    for seed in ("1", "2"):
        printed = pytest_on("--collect-only", "--verbose", "tests", PYTHONHASHSEED=seed)
        listed.append(re.findall(r"<Function (.*)>", printed))
    assert len(listed[0]) > 1000
    assert listed[0] == listed[1]
