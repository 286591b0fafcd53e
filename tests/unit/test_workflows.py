"""The workflow files: each parses, and every line that Linux runs is run here.

What takes long is replaced by a stand-in: `make` only prints what it would do, and the
Python that makes an environment writes down what it was asked.
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

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FILES}
JOBS = {
    f"{name}/{job}": content
    for name, workflow in WORKFLOWS.items()
    for job, content in workflow["jobs"].items()
}
MAKE = """\
#!/bin/sh
echo "make $*" >> "$LOG"
exec "$REAL_MAKE" -n "$@"
"""
PYTHON = """\
#!/bin/sh
echo "python $*" >> "$LOG"
case "$*" in
  "-m venv --clear "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  *"--junitxml="*) printf '%s' "$REPORT" > build/newest.xml; exit 1 ;;
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
WHOLE = (
    '<testsuites><testsuite><testcase classname="a" name="b"/></testsuite></testsuites>'
)


def systems(job):
    """What a job runs on, with its matrix filled in."""
    matrix = job.get("strategy", {}).get("matrix", {})
    return matrix.get("system", [job["runs-on"]])


def run_lines(job):
    return [step["run"] for step in job["steps"] if "run" in step]


LINUX = sorted(
    {
        line
        for job in JOBS.values()
        if any(name.startswith("ubuntu") for name in systems(job))
        for line in run_lines(job)
    }
)


def test_the_systems_and_pythons_are_those_promised():
    assert JOBS["ci/linux"]["strategy"]["matrix"]["python"] == ["3.11", "3.14"]
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert 'requires-python = ">=3.11"' in project
    assert systems(JOBS["ci/elsewhere"]) == ["macos-latest", "windows-latest"]
    assert WORKFLOWS["newest"][True]["schedule"], "`on` is read as true"
    assert JOBS["book/book"]["if"] == "vars.PUBLISH_BOOK == 'true'"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_complete(name):
    job = JOBS[name]
    assert job["timeout-minutes"] <= 90
    assert job["steps"][0]["uses"].startswith("actions/checkout@")
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert "run" in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


@pytest.mark.parametrize("name", JOBS)
def test_what_a_job_names_is_there(name):
    named = re.findall(r"[\w.]+/[\w./]+", " ".join(run_lines(JOBS[name])))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_elsewhere_runs_what_make_check_runs_and_four_notebooks():
    lines = [" ".join(line.split()) for line in run_lines(JOBS["ci/elsewhere"])]
    (quick,) = [line for line in lines if line.endswith(" tests")]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert quick.removeprefix("python ") in makefile
    (books,) = [line for line in lines if "ipynb" in line]
    assert re.findall(r"notebooks/(\d\d)_", books) == ["01", "03", "06", "14"]


@pytest.fixture
def house(tmp_path):
    """A copy of what the lines need, and stand-ins for what takes long."""
    house = tmp_path / "house"
    house.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, house)
    shutil.copytree(ROOT / ".ci", house / ".ci")
    (house / "notebooks" / "book").mkdir(parents=True)
    pins = "notebooks/book/requirements.txt"
    shutil.copy(ROOT / pins, house / pins)
    (house / "tests" / "support").mkdir(parents=True)
    support = "tests/support/first_broken.py"
    shutil.copy(ROOT / support, house / support)
    stand_ins = house / "bin"
    stand_ins.mkdir()
    for name, text in {
        "make": MAKE,
        "python3": PYTHON,
        "chromium": "#!/bin/sh",
    }.items():
        (stand_ins / name).write_text(text)
        (stand_ins / name).chmod(0o755)
    return house


def run(house, line, report=WHOLE):
    """A line as Linux runs it: its end, what it printed, what it asked for."""
    if shutil.which("make") is None:
        pytest.skip("this machine has no make")
    log = house / "log"
    environ = os.environ | {
        "PATH": f"{house / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "LOG": str(log),
        "REAL_MAKE": shutil.which("make"),
        "REAL_PYTHON": sys.executable,
        "REPORT": report,
    }
    done = subprocess.run(
        ["bash", "-e", "-c", line],
        cwd=house,
        env=environ,
        capture_output=True,
        text=True,
    )
    asked = log.read_text().splitlines() if log.exists() else []
    return done.returncode, done.stdout + done.stderr, asked


@pytest.mark.parametrize("line", LINUX)
def test_each_line_of_linux_runs(house, line):
    code, said, asked = run(house, line)
    assert code == 0, said
    assert asked, "it asked for nothing"


def test_a_target_that_is_gone_is_noticed(house):
    (house / "Makefile").write_text("test:\n\techo all\n")
    code, said, _ = run(house, ".ci/run")
    assert code != 0 and "No rule to make target" in said


def test_ci_makes_the_book_and_runs_the_tests(house):
    _, _, asked = run(house, ".ci/run")
    assert asked == ["make book", "make test"]
    (house.parent / "shared" / "data").mkdir(parents=True)
    _, _, asked = run(house, ".ci/run")
    assert asked[2:] == ["make book", "make test", "make test-worlds"]


def test_the_newest_versions_name_the_first_broken_cell(house):
    code, said, asked = run(house, ".ci/newest", BROKEN)
    assert code != 0
    assert "01_attention.ipynb: In [3] 01-009: mismatch" in said
    assert "03_masks.ipynb: In [7] 03-020: no module" in said
    assert "In [4] 01-012" not in said and "02_multi" not in said
    assert any("--upgrade" in line for line in asked)
    assert any("pip list" in line for line in asked)


def test_a_run_that_broke_before_the_notebooks_is_no_success(house):
    script = PYTHON.replace(
        """printf '%s' "$REPORT" > build/newest.xml; exit 1""", "exit 1"
    )
    (house / "bin" / "python3").write_text(script)
    code, said, _ = run(house, ".ci/newest")
    assert code != 0 and "was not written" in said


def test_a_report_without_failures_names_nothing(tmp_path):
    (tmp_path / "report.xml").write_text(WHOLE)
    assert first_broken(tmp_path / "report.xml") == []
