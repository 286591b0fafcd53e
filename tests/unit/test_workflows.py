"""What the workflows run is there, and tests are skipped only where something lacks.

`make` only prints what it would do.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from tools.notebook_rules import ROOT

JOBS = {
    f"{path.stem}/{name}": job
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
}
BROKEN = """<testsuites><testsuite>
<testcase classname="notebooks.01_attention.ipynb" name="rules"/>
<testcase classname="notebooks.01_attention.ipynb" name="In [3] 01-009">
<failure message="mismatch">0.5 0.6</failure></testcase>
<testcase classname="notebooks.01_attention.ipynb" name="In [4] 01-012">
<failure message="later"/></testcase>
<testcase classname="notebooks.02_multi_head_attention.ipynb" name="In [1] 02-003"/>
<testcase classname="notebooks.03_masks.ipynb" name="In [7] 03-020"><error>no
module</error></testcase></testsuite></testsuites>"""
PASSED = (
    '<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>'
)


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


@pytest.mark.parametrize(
    "report, names",
    [
        (BROKEN, ["01_attention.ipynb: In [3] 01-009", "03_masks.ipynb: In [7]"]),
        (PASSED, []),
        ("", ["was not written"]),  # it broke before the notebooks: no success
    ],
)
def test_the_newest_versions_name_the_first_broken_cells(tmp_path, report, names):
    path = tmp_path / "report.xml"
    if report:
        path.write_text(report)
    command = [sys.executable, "tools/first_broken.py", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert bool(done.returncode) == bool(names)
    assert all(name in done.stderr for name in names)
    assert "In [4] 01-012" not in done.stderr and "02_multi" not in done.stderr


# A skip that asks nothing of the machine: as a mark, or as a line of a test itself.
ANYWHERE = (
    r"^ {0,4}pytest\.(?:skip|xfail)\(|pytest\.mark\.(?:skip|xfail)\b|skipif\(\s*True"
)


def test_no_test_is_skipped_on_every_machine():
    for path in (ROOT / "tests").rglob("*.py"):
        found = re.findall(ANYWHERE, path.read_text("utf-8"), re.MULTILINE)
        assert not found, f"{path.name}: {found[0]}"
