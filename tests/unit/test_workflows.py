"""What the workflows run is there: each line that calls `make` or a script.

`make` only prints what it would do; a stand-in for Python makes the report of a run.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from tests.support.first_broken import first_broken
from tests.support.notebook_rules import ROOT

JOBS = {
    f"{path.stem}/{name}": job
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items()
}
PYTHON = """\
#!/bin/sh
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  *"--junitxml="*) test -n "$REPORT" && printf '%s' "$REPORT" > build/newest.xml
                   exit 1 ;;
  *first_broken*) exec "$REAL_PYTHON" "$@" ;;
esac
"""
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


def test_actions_are_pinned_and_one_run_replaces_the_last():
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text("utf-8")
        assert yaml.safe_load(text)["concurrency"]["group"], path.name
        for action in re.findall(r"uses: (.*)", text):
            assert re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", action), action


def test_what_is_pinned_is_looked_after():
    found = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    actions, packages = found["updates"]
    assert actions["package-ecosystem"] == "github-actions"
    pinned = [*ROOT.glob("*.txt"), *ROOT.glob("[a-z]*/**/requirements.txt")]
    looked_after = {ROOT / name.strip("/") for name in packages["directories"]}
    assert looked_after == {path.parent for path in pinned}


@pytest.mark.parametrize(
    "report, code, names",
    [
        (BROKEN, 1, ["01_attention.ipynb: In [3] 01-009", "03_masks.ipynb: In [7]"]),
        (PASSED, 0, []),
        ("", 1, ["was not written"]),  # it broke before the notebooks: no success
    ],
)
def test_the_newest_versions_name_the_first_broken_cells(tmp_path, report, code, names):
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "tests" / "support").mkdir(parents=True)
    support = "tests/support/first_broken.py"
    shutil.copy(ROOT / support, tmp_path / support)
    (tmp_path / "stand-in").write_text(PYTHON)
    (tmp_path / "stand-in").chmod(0o755)
    variables = {"PYTHON": "./stand-in", "REAL_PYTHON": sys.executable}
    done = subprocess.run(
        ["bash", ".ci/newest"],
        cwd=tmp_path,
        env=os.environ | variables | {"REPORT": report},
        capture_output=True,
        text=True,
    )
    printed = done.stdout + done.stderr
    assert done.returncode == code, printed
    assert all(name in printed for name in names)
    assert "In [4] 01-012" not in printed and "02_multi" not in printed


def test_a_report_without_failures_names_nothing(tmp_path):
    (tmp_path / "report.xml").write_text(PASSED)
    assert first_broken(tmp_path / "report.xml") == []
