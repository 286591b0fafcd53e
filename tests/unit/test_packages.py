"""Each package stands alone: the lines of its README run without the course."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "packages"
# package -> what its lines print, and what they must not import
EXAMPLES = {
    "known_worlds": (
        r"Sleepy Ben|\w+ .*\n.* \[\(0, \d\).*\n.*less than 0\.4",
        "torch numpy",
    ),
    "attention_views": ("", "torch matplotlib"),
    "lesson_plots": ("", "transformers"),
    "bug_clinic": (r"loss: training 0\.38.*\n(.*\n)*.*✓ mended, 9", "transformers"),
    "named_mistakes": (r"✗ mean: a sum\n  It grows with the length\.", "transformers"),
}


def run(source, folder, *modules):
    """In an empty folder, with only `packages` on the path and no installed course."""
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        f"sys.path.insert(0, {str(PACKAGES)!r})\n{source}\n"
        f"bad = {{'course_utils', *{modules!r}}} & {{*sys.modules}}\n"
        "assert not bad, bad"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_lines_of_a_readme_run_alone(name, tmp_path):
    page = (PACKAGES / name / "README.md").read_text("utf-8")
    source = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    expected, foreign = EXAMPLES[name]
    printed = run(source, tmp_path, *foreign.split())
    assert re.search(expected, printed), printed
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page):
        assert (PACKAGES / name / picture).stat().st_size < 40_000


def test_the_course_alone_imports_no_package(tmp_path):
    run("", tmp_path)
    code = "import sys, course_utils\n"
    code += f"assert not {{*{sorted(EXAMPLES)!r}, 'nbval_strict'}} & {{*sys.modules}}"
    subprocess.run([sys.executable, "-c", code], check=True)


def notebook(source, *outputs):
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "execution_count": 1}
    cell |= {"source": source, "outputs": list(outputs)}
    return json.dumps(
        {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    )


DRAW = """\
from matplotlib.figure import Figure
figure = Figure(figsize=(2, 2))
figure.subplots().plot([1, 2])
figure"""


@pytest.mark.slow
def test_five_lines_turn_the_plugin_on_in_an_empty_project(tmp_path):
    page = (PACKAGES / "nbval_strict" / "README.md").read_text("utf-8")
    lines = re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "pyproject.toml").write_text(lines)
    output = {"output_type": "stream", "name": "stdout", "text": "5\n"}
    (tmp_path / "clean.ipynb").write_text(notebook("print(2 + 3)", output))
    (tmp_path / "other.ipynb").write_text(notebook("print(2 + 4)", output))
    loud = "import sys\nprint(5)\nprint('oh', file=sys.stderr)"
    (tmp_path / "loud.ipynb").write_text(notebook(loud, output))
    left = "print(5)\nopen('left.txt', 'w').close()"
    (tmp_path / "leaves.ipynb").write_text(notebook(left, output))
    (tmp_path / "draws.ipynb").write_text(notebook(DRAW))
    environ = {**os.environ, "PYTHONPATH": str(PACKAGES)}
    command = [sys.executable, "-m", "pytest", "-q"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    failed = set(re.findall(r"FAILED (\w+)\.ipynb::(In|leftovers)", done.stdout))
    assert failed == {
        ("other", "In"),
        ("loud", "In"),
        ("leaves", "leftovers"),
        ("draws", "In"),
    }, done.stdout
    assert "tries to reach" not in done.stdout and "-5" in done.stdout
