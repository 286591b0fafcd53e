"""What is slow is read from a file, and the file from a measurement."""

import os
import re
import subprocess
import sys

from tests.support import slow_tests
from tests.support.notebook_rules import ROOT


def test_a_measurement_is_written_and_read():
    tests = {"a.py::one": 1.0, "a.py::two": 0.9, "b.py::three": 5.0, "c.py::four": 20.0}
    text = slow_tests.written(tests, {"a.py": 0.1, "b.py": 2.0, "c.py": 1.9})
    assert slow_tests.read_slow(text) == {"a.py::one", "b.py", "c.py::four"}
    listed = [line for line in text.splitlines() if not line.startswith("#")]
    assert listed == ["   20.0  c.py::four", "    2.0  b.py", "    1.0  a.py::one"]


def test_what_the_file_names_is_marked(request):
    listed = slow_tests.read_slow(slow_tests.FILE.read_text("utf-8"))
    assert listed, "make measure writes it"
    for name in listed:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), f"{name}: run make measure"
        if function:
            assert f"def {function}(" in (ROOT / path).read_text("utf-8"), name
    for item in request.session.items:
        name = slow_tests.function_of(item.nodeid)
        slow = name in listed or name.split("::")[0] in listed
        assert slow == bool(item.get_closest_marker("slow")), name


def test_the_parameters_of_a_test_belong_together():
    assert slow_tests.function_of("a.py::test_b[x::y[3]]") == "a.py::test_b"


def test_tests_have_the_same_names_in_every_process():
    """Two processes that share the tests must agree; sets have no fixed order."""
    listed = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "--verbose", "tests"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        listed.append(re.findall(r"<Function (.*)>", done.stdout))
    assert len(listed[0]) > 1000
    assert listed[0] == listed[1]
