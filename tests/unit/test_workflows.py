"""What the workflows run is there, and tests are skipped only where something lacks.

`make` only prints what it would do.
"""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from tools.notebook_rules import ROOT

JOBS = {
    f"{path.stem}/{name}": job
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
}


@pytest.mark.parametrize("name", JOBS)
def test_what_a_job_runs_is_there(name):
    lines = "\n".join(step.get("run", "") for step in JOBS[name]["steps"])
    for path in re.findall(r"[\w.]+/[\w./]+", lines):
        assert (ROOT / path).exists(), path
    if ".ci/run" in lines:
        lines += (ROOT / ".ci" / "run").read_text("utf-8")
    if shutil.which("make") is None:
        pytest.skip("this machine has no make")
    for words in re.findall(r"^\s*make (.*)", lines, re.MULTILINE):
        command = ["make", "--dry-run", *words.split()]
        plain = os.environ | {"LC_ALL": "C"}
        done = subprocess.run(
            command, cwd=ROOT, env=plain, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "Nothing to be done" not in done.stdout, words


# A skip that asks nothing of the machine: as a mark, or as a line of a test itself.
ANYWHERE = (
    r"^ {0,4}pytest\.(?:skip|xfail)\(|pytest\.mark\.(?:skip|xfail)\b|skipif\(\s*True"
)


def test_no_test_is_skipped_on_every_machine():
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(ANYWHERE, path.read_text("utf-8"), re.MULTILINE)
        assert not found, f"{path.name}: {found[0]}"
