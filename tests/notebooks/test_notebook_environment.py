"""The notebooks' surroundings: a mirror of the hub and nothing of the world outside."""

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from nbval_strict.plugin import quiet_variables
from tools.notebook_environment import ROOT

REFUSED = {
    "address": "import socket; s = socket.socket(); s.settimeout(9);"
    "s.connect(('192.0.2.1', 80))",
    "name": "import socket; socket.getaddrinfo('example.com', 80)",
    "old name": "import socket; socket.gethostbyname('example.com')",
    "likeness": "import socket; socket.getaddrinfo('localhost.example.com', 80)",
    "datagram": "import socket; u = socket.socket(type=socket.SOCK_DGRAM);"
    "u.sendto(b'1', ('192.0.2.1', 80))",
    "page": "import urllib.request as u; u.urlopen('http://example.com', timeout=9)",
    "library": "import httpx; httpx.get('http://example.com', trust_env=False)",
}


def run(code, environ):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True)


@pytest.mark.parametrize("way", REFUSED)
def test_every_way_out_is_closed(way, tmp_path):
    done = run(REFUSED[way], {**os.environ, **quiet_variables(tmp_path)})
    assert done.returncode == 1
    assert "the tests run without a network" in done.stderr


@pytest.mark.slow
def test_a_command_runs_beside_the_mirror_and_keeps_its_exit_code():
    code = "from os import environ as e; print(e['HF_ENDPOINT'], e['TQDM_DISABLE'])"
    command = ["-m", "tools.notebook_environment", sys.executable, "-c"]
    done = subprocess.run(
        [sys.executable, *command, f"{code};exit(3)"],
        cwd=ROOT,
        env={**os.environ, "COURSE_DATA": "worlds"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("http://127.0.0.1:") and done.stdout.endswith(" 1\n")


# --- which package a kernel imports --------------------------------------------------


@pytest.fixture(params=["copy", "worktree"])
def second_checkout(request, tmp_path):
    """Another checkout of the project whose package says of itself that it is one."""
    house = tmp_path / "second"
    if request.param == "worktree":
        add = ["git", "worktree", "add", "--quiet", "--detach", str(house)]
        if subprocess.run(add, cwd=ROOT, capture_output=True).returncode:
            pytest.skip("this folder is not a git clone")
    for name in ("course_utils", "packages", "tests", "tools", "notebooks/exercises"):
        shutil.copytree(ROOT / name, house / name, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", house)
    with (house / "course_utils" / "masks.py").open("a", encoding="utf-8") as file:
        file.write('\nCHECKOUT = "second"\n')
    yield house
    if request.param == "worktree":
        remove = ["git", "worktree", "remove", "--force", str(house)]
        subprocess.run(remove, cwd=ROOT, check=True, capture_output=True)


@pytest.mark.long
def test_a_kernel_imports_the_checkout_under_test(second_checkout):
    """The environment that runs it has this checkout installed."""
    source = "from course_utils import masks\n\nprint(masks.CHECKOUT)"
    stored = new_output("stream", name="stdout", text="second\n")
    cell = new_code_cell(source, execution_count=1, outputs=[stored])
    path = second_checkout / "notebooks" / "90_which.ipynb"
    nbformat.write(new_notebook(cells=[cell]), path)
    report = second_checkout / "report.xml"
    command = [sys.executable, "-m", "pytest", f"--junitxml={report}", str(path)]
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=second_checkout, env=environ, capture_output=True, text=True
    )
    cases = ElementTree.parse(report).iter("testcase")
    (case,) = [case for case in cases if case.get("name").startswith("In [1]")]
    assert list(case) == [], done.stdout
