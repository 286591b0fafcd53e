"""Recorded runs: a record is what its script gave, and nothing else enters a notebook.

The mechanism is tried on a small project of its own.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from course_utils import records
from course_utils.records import load_record, load_script
from tests.support.notebook_code import NOTEBOOKS, code_cells
from tools import record as tool
from tools.notebook_rules import ROOT

FOLDER = ROOT / records.FOLDER
SCRIPTS = {path.stem for path in FOLDER.glob("nb[0-9][0-9]_*.py")}
RECORDS = {path.stem for path in FOLDER.glob("*.json")}
# One long run each, which no notebook repeats; one left weights that are run there.
LONG = {"nb08_pieces", "nb08_spanish", "nb13_checkpoints"}
# Their tables stand in the lab notes, and a notebook quotes a sentence.
NOTED = {"nb12_cache", "nb13_recipe", "nb13_documents", "nb17_optimum"}


def check_record(name, root=ROOT):
    """The record, whose script and points are as they were when it was made."""
    record = load_record(name, root)
    again = f"run `make record NB={name[2:4]}`, with CONFIRM=1 if nothing can differ"
    assert record.script == tool.script_checksum(name, root), f"{name}.py: {again}"
    points = [result["point"] for result in record.results]
    assert points == load_script(name, root).POINTS, f"{name}.json: {again}"
    return record


# --- the records of the course -------------------------------------------------------


def test_each_script_has_its_record_and_each_record_its_script():
    assert SCRIPTS == RECORDS != set()
    assert {name[2:4] for name in RECORDS} <= set(NOTEBOOKS)


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_record_is_what_its_script_gave(name):
    record = check_record(name)
    if name in LONG:
        return
    seeds = {result["point"]["seed"] for result in record.results}
    assert seeds == set(record.seeds) and len(seeds) >= 3


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_its_notebook_says_that_it_is_recorded_and_runs_a_point(name):
    if name in NOTED:
        notes = (ROOT / "notebooks" / "book" / "lab_notes.md").read_text("utf-8")
        assert f"The record `{name}` ({load_record(name)})" in " ".join(notes.split())
        return
    cells = code_cells(name[2:4])
    assert any(str(load_record(name)) in str(outputs) for _, outputs in cells)
    code = "\n".join(source for source, _ in cells)
    if name == "nb08_spanish":
        assert 'pretrained.load("spanish")' in code
    if name in LONG:
        return
    script = re.search(rf"^(\w+) = load_script\(.{name}.\)$", code, re.MULTILINE)[1]
    assert re.search(rf"\b{script}\.run\(", code)


# --- how a record is made ------------------------------------------------------------

SCRIPT = '''"""Two seeds at two sizes."""

POINTS = [{"size": size, "seed": seed} for seed in (0, 1) for size in (3, 4)]
SEEDS = (0, 1)


def run(size, seed):
    return {"loss": size / 2 + seed, "words": 7, "says": ["one", "two"]}
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small project with a record."""
    folder = tmp_path_factory.mktemp("project")
    place = folder / records.FOLDER
    place.mkdir(parents=True)
    (place / "nb90_toy.py").write_text(SCRIPT)
    tool.make_record("nb90_toy", folder)
    return folder


@pytest.fixture
def project(made, tmp_path):
    """A copy of that project, to be changed."""
    return shutil.copytree(made, tmp_path / "project")


def path_of(project, name="nb90_toy.json"):
    return project / records.FOLDER / name


def test_a_record_holds_what_was_asked_of_it(made):
    record = check_record("nb90_toy", made)
    line = r"recorded: \w+ seconds? on two cores, \d{4}-\d\d-\d\d, torch [\d.]+"
    assert re.fullmatch(line, str(record))
    numbers = {"loss": 3.0, "words": 7, "says": ["one", "two"]}
    assert record.numbers(size=4, seed=1) == numbers
    assert record.seeds == [0, 1] and len(record.results) == 4
    assert set(record.versions) == {"python", "torch", "numpy", "platform", "cpu"}
    with pytest.raises(ValueError, match=r"recorded one such as .*'size': 3.*got .* 9"):
        record.numbers(size=9, seed=0)


def test_the_line_says_how_long_it_took(made):
    fields = vars(load_record("nb90_toy", made))
    lengths = {1.2: "one second", 80.0: "80 seconds", 840.0: "14 minutes"}
    for seconds, words in lengths.items():
        record = records.Record(**fields | {"seconds": seconds})
        assert str(record).startswith(f"recorded: {words} on two cores, ")


def test_a_changed_script_makes_its_record_stale_until_a_run_confirms_it(project):
    script = path_of(project, "nb90_toy.py")
    script.write_text(SCRIPT + "# changed\n")
    load_record("nb90_toy", project)  # a reader who edits still sees the record
    with pytest.raises(AssertionError, match=r"^nb90_toy.py: run `make record NB=90"):
        check_record("nb90_toy", project)
    tool.confirm_record("nb90_toy", project)
    assert check_record("nb90_toy", project).confirmed
    before = path_of(project).read_bytes()
    changes = {
        ("size / 2", "size / 3"): r"loss of .* is 1\.0, recorded 1\.5",
        ("7", "8"): "words of .* is 8, recorded 7",
    }
    for change, message in changes.items():
        script.write_text(SCRIPT.replace(*change))
        del sys.modules["nb90_toy"]
        with pytest.raises(ValueError, match=message):
            tool.confirm_record("nb90_toy", project)
    assert path_of(project).read_bytes() == before


def test_what_no_script_gave_is_refused(project):
    content = json.loads(path_of(project).read_text())
    changed = {"seconds": 1.0}, {"results": content["results"][1:]}
    texts = [json.dumps(content | change) for change in changed]
    for text in (*texts, "", "[]", '{"checksum": "0"}', '"text"'):
        path_of(project).write_text(text)
        words = r"^nb90_toy.json is not as its script left it.*make record NB=90"
        with pytest.raises(ValueError, match=words):
            load_record("nb90_toy", project)


def test_a_missing_point_is_noticed(project):
    content = json.loads(path_of(project).read_text())
    del content["checksum"], content["results"][-1]
    content["checksum"] = records.checksum(json.dumps(content, sort_keys=True))
    path_of(project).write_text(json.dumps(content))
    with pytest.raises(AssertionError, match=r"^nb90_toy.json: run `make record NB=90"):
        check_record("nb90_toy", project)


def test_missing_files_are_named(project):
    path_of(project).unlink()
    with pytest.raises(FileNotFoundError, match=r"nb90_toy.json"):
        load_record("nb90_toy", project)
    with pytest.raises(FileNotFoundError, match=r"nb90_other.py"):
        load_script("nb90_other", project)


def test_an_unknown_notebook_is_refused(capsys):
    with pytest.raises(SystemExit):
        tool.main(["99"])
    assert "NB=99 must have a script in" in capsys.readouterr().err


@pytest.mark.slow
def test_a_script_that_fails_leaves_the_record(project):
    before = path_of(project).read_bytes()
    script = SCRIPT.replace("+ seed", "+ float('nan')")
    path_of(project, "nb90_toy.py").write_text(script)
    message = r"loss of {'size': \d, 'seed': \d} must be a finite number, got nan"
    with pytest.raises(ValueError, match=message):
        tool.make_record("nb90_toy", project)
    assert path_of(project).read_bytes() == before


MAKE = """
import signal
from pathlib import Path
from tools import record

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job
    record.ROOT = Path.cwd()
    record.make_record.__defaults__ = (record.ROOT,)
    record.main(["90"])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_loses_nothing(project, stop):
    before = path_of(project).read_bytes()
    script = SCRIPT.replace(
        "    return",
        "    if size == 4 and seed == 1:\n"
        "        import pathlib, time\n"
        "        pathlib.Path('begun').touch()\n"
        "        time.sleep(60)\n"
        "    return",
    )
    path_of(project, "nb90_toy.py").write_text(script)
    (project / "make.py").write_text(MAKE)
    process = subprocess.Popen(
        [sys.executable, "make.py"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    limit = time.monotonic() + 60
    while not (project / "begun").exists():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    time.sleep(1)  # the other process is done with its points, and waits
    os.killpg(process.pid, stop)
    printed, _ = process.communicate(timeout=50)
    assert process.returncode != 0
    assert path_of(project).read_bytes() == before
    if stop == signal.SIGINT:
        assert printed == "stopped: the record is as it was\n"
