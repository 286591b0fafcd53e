"""Judge, views and plugin: each is installed alone, and its README's lines run there.

The lines of the course's own rooms run in the course.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "packages"
# package -> what its lines print, and what they must not import
ALONE = {
    "attention_views": ("", "torch matplotlib"),
    "named_mistakes": (r"✗ mean: a sum\n  It grows with the length\.", "transformers"),
}
CODE = (".py", ".js", ".css", ".html", ".wasm", ".typed")
ROOMS = {
    "known_worlds": r"Sleepy Ben|\w+ .*\n.* \[\(0, \d\).*\n.*less than 0\.4",
    "lesson_plots": "",
    "bug_clinic": r"loss: training 0\.38.*\n(.*\n)*.*✓ mended, 9",
}


def install(name, folder):
    """What a wheel of this package brings, and nothing else: no network is asked."""
    source, target = folder / "source", folder / "installed"
    built = shutil.ignore_patterns("build", "*.egg-info")  # what an earlier pip left
    shutil.copytree(PACKAGES / name, source, ignore=built)
    code = {p.relative_to(source) for p in source.rglob("*.*") if p.suffix in CODE}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-index", "--no-build-isolation", "--target", target, source]
    subprocess.run(command, check=True)
    assert not {path for path in code if not (target / name / path).exists()}
    return target


def run(source, folder, path, *foreign):
    """In an empty folder, with only `path` besides what a registry has."""
    code = (
        "import sys\n"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
        f"sys.path.insert(0, {str(path)!r})\n{source}\n"
        f"bad = {{'course_utils', *{foreign!r}}} & {{*sys.modules}}\n"
        "assert not bad, bad"
    )
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of_readme(name, language="python"):
    page = (PACKAGES / name / "README.md").read_text("utf-8")
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page):
        assert (PACKAGES / name / picture).stat().st_size < 40_000
    return re.search(rf"```{language}\n(.*?)```", page, re.DOTALL)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALONE)
def test_the_lines_of_a_readme_run_where_only_it_is_installed(name, tmp_path):
    expected, foreign = ALONE[name]
    target = install(name, tmp_path)
    [licence] = target.glob("*.dist-info/licenses/LICENSE")
    assert licence.read_text("utf-8") in (ROOT / "LICENSE").read_text("utf-8")
    source = lines_of_readme(name)
    printed = run(source, tmp_path / "empty", target, *foreign.split())
    assert re.search(expected, printed), printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOMS)
def test_the_lines_of_a_rooms_readme_run(name, tmp_path):
    printed = run(lines_of_readme(name), tmp_path / "empty", PACKAGES)
    assert re.search(ROOMS[name], printed), printed


def test_the_course_alone_imports_no_package():
    code = "import sys, course_utils\n"
    code += f"assert not {{*{[*ALONE, *ROOMS]!r}, 'nbval_strict'}} & {{*sys.modules}}"
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
    target = install("nbval_strict", tmp_path)
    (tmp_path / "pyproject.toml").write_text(lines_of_readme("nbval_strict", "toml"))
    output = {"output_type": "stream", "name": "stdout", "text": "5\n"}
    (tmp_path / "clean.ipynb").write_text(notebook("print(2 + 3)", output))
    (tmp_path / "other.ipynb").write_text(notebook("print(2 + 4)", output))
    loud = "import sys\nprint(5)\nprint('oh', file=sys.stderr)"
    (tmp_path / "loud.ipynb").write_text(notebook(loud, output))
    left = "print(5)\nopen('left.txt', 'w').close()"
    (tmp_path / "leaves.ipynb").write_text(notebook(left, output))
    (tmp_path / "draws.ipynb").write_text(notebook(DRAW))
    reaches = "import socket\nprint(5)\ntry:\n    socket.gethostbyname('a.example')\n"
    reaches += "except OSError:\n    pass"
    (tmp_path / "reaches.ipynb").write_text(notebook(reaches, output))
    environ = {**os.environ, "PYTHONPATH": str(target)}
    command = [sys.executable, "-m", "pytest", "-q", *tmp_path.glob("*.ipynb")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    failed = set(re.findall(r"FAILED (\w+)\.ipynb::(In|leftovers)", done.stdout))
    assert failed == {
        ("other", "In"),
        ("loud", "In"),
        ("leaves", "leftovers"),
        ("reaches", "leftovers"),
        ("draws", "In"),
    }, done.stdout
    assert "tries to reach a.example: " in done.stdout and "-5" in done.stdout
