"""`--changed`: what a notebook opens is written down, and a change of it is noticed."""

import os
import re
import subprocess
import sys

import pytest

from nbval_strict.plugin import quiet_variables
from tests.support import changed_notebooks as changed
from tools.notebook_environment import ROOT

PROGRAM = """
import os, subprocess, sys
sys.path.insert(0, "project")
import helper
open("project/data.txt").close()
os.listdir("project/banks")
child = "open('project/read by a child.txt').close()"
subprocess.run([sys.executable, "-c", child], check=True)
open("elsewhere.txt", "w").close()
"""


def test_files_folders_and_children_are_written_down(tmp_path):
    project = tmp_path / "project"
    (project / "banks").mkdir(parents=True)
    for name in ("helper.py", "data.txt", "read by a child.txt", "unread.txt"):
        (project / name).touch()
    record = tmp_path / "record"
    environ = {**os.environ, **quiet_variables(tmp_path)}
    environ |= {"NBVAL_OPENED": str(record), "NBVAL_ROOT": str(project)}
    subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environ, check=True
    )
    lines = record.read_text().splitlines()
    opened = {os.path.relpath(line, project) for line in lines}
    opened = {name for name in opened if not name.startswith("__pycache__")}
    assert opened == {"helper.py", "data.txt", "banks", "read by a child.txt"}


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """A project of a few files, and the record of a notebook that opened some."""
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    monkeypatch.setattr(changed, "ALWAYS", ("pins.txt",))
    for name in ("pins.txt", "own.ipynb", "read.py", "other.py", "banks/one.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    cached = tmp_path / "__pycache__" / f"read.{sys.implementation.cache_tag}.pyc"
    opened = [str(cached), str(tmp_path / "banks"), str(tmp_path / "gone.txt")]
    opened += [str(tmp_path / ".venv" / "lib.py"), str(tmp_path / "runs" / "note")]
    paths = changed.needed(tmp_path / "own.ipynb", opened)
    stored = changed.state_of(paths)
    names = "pins.txt own.ipynb read.py banks gone.txt"
    assert set(stored["files"]) == set(names.split())
    assert changed.is_unchanged(stored)
    return stored


@pytest.mark.parametrize(
    "name", ["own.ipynb", "pins.txt", "read.py", "gone.txt", "banks/new.py"]
)
def test_a_change_is_noticed_where_it_matters(stored, tmp_path, name):
    for other in ("banks/one.py", "other.py", "runs/note"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_text("another content")
    assert changed.is_unchanged(stored)
    (tmp_path / name).write_text("another content")
    assert not changed.is_unchanged(stored)


def test_other_surroundings_are_noticed(stored, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", "worlds")
    assert changed.surroundings().endswith("worlds")
    monkeypatch.setattr(changed, "data_fingerprint", lambda: "1234abcd")
    assert changed.surroundings().endswith("1234abcd")


@pytest.mark.long
def test_a_notebook_that_passed_is_left_out(tmp_path):
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={tmp_path / 'cache'}"]

    def run(*more):
        given = {"cwd": ROOT, "capture_output": True, "text": True}
        return subprocess.run([*command, *more], **given)

    def left_out():
        done = run("--changed", "--collect-only", "notebooks")
        return re.findall(r"unchanged since they passed: (.*)", done.stdout)

    assert left_out() == []
    assert run("notebooks/05_block.ipynb").returncode == 0
    assert left_out() == ["05"]
