"""Recorded runs: a record is what its script gave, and nothing else enters a notebook.

The mechanism is tried on a small project of its own, whose script reads a file of data
and imports a module only while it runs.
"""

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from course_utils.training import records
from course_utils.training.records import check_record, load_record, load_script
from tests.support.notebook_code import code_cells
from tests.support.notebook_rules import ROOT

FOLDER = ROOT / records.FOLDER
SCRIPTS = {path.stem for path in FOLDER.glob("nb[0-9][0-9]_*.py")}
RECORDS = {path.stem for path in FOLDER.glob("*.json")}
NUMBERS = sorted(path.name[:2] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))

# --- the records of the course -------------------------------------------------------


def test_each_script_has_its_record_and_each_record_its_script():
    assert SCRIPTS == RECORDS != set()
    assert {name[2:4] for name in RECORDS} <= set(NUMBERS)


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_the_record_is_what_its_script_gave(name):
    record = check_record(name)
    seeds = {result["point"]["seed"] for result in record.results}
    assert seeds == set(record.seeds) and len(seeds) >= 3
    assert f"notebooks/records/{name}.py" in record.files


def shown_and_run(number, name):
    """Does a notebook show that line of the record, and run a point of the script?"""
    cells = code_cells(number)
    line = str(load_record(name))
    shown = any(line in str(output) for _, outputs in cells for output in outputs)
    script = None
    ran = False
    for source, _ in cells:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Assign):
                if ast.unparse(node.value) == f"load_script({name!r})":
                    script = ast.unparse(node.targets[0])
            elif isinstance(node, ast.Call):
                ran |= ast.unparse(node.func) == f"{script}.run"
    return shown, ran


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_its_notebook_says_that_it_is_recorded_and_runs_a_point(name):
    assert shown_and_run(name[2:4], name) == (True, True)


# What reads numbers from a file. `load_record` and the loaders of data remain.
READERS = re.compile(
    r"open|.*\.(open|read_text|read_bytes|fromfile|loadtxt|genfromtxt)"
    r"|(json|np|numpy|torch|pickle|toml|tomllib|yaml)\.load|load_file|csv\.\w+"
    r"|(\w+\.)?read_(csv|json|table|parquet|pickle)"
)
# A tokenizer that this cell itself has saved into a temporary folder.
ALLOWED = {("10", "read_text")}


def reading_calls(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if READERS.fullmatch(name):
                yield name.rpartition(".")[2]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_notebook_reads_no_numbers_but_records(number):
    found = {
        (number, call)
        for source, _ in code_cells(number)
        for call in reading_calls(source)
    }
    assert found - ALLOWED == set()


@pytest.mark.parametrize(
    "source",
    [
        "losses = json.loads(Path('losses.json').read_text())",
        "with open('losses.csv') as file: pass",
        "losses = np.load('losses.npy')",
        "table = pd.read_csv('losses.csv')",
        "(folder / 'losses.bin').read_bytes()",
        "weights = load_file('a.safetensors')",
    ],
)
def test_a_call_that_reads_a_file_is_seen(source):
    assert list(reading_calls(source))


# --- how a record is made ------------------------------------------------------------

SCRIPT = '''"""Two seeds at two sizes."""

from pathlib import Path

POINTS = [{"size": size, "seed": seed} for seed in (0, 1) for size in (3, 4)]
SEEDS = (0, 1)


def run(size, seed):
    if (size, seed) == (4, 1):
        from course_utils.config import TrainConfig

        TrainConfig(steps=size)
    words = Path(__file__).with_name("words.txt").read_text()
    return {"loss": 4 * size / len(words) + seed}
'''
PACKAGE = ("__init__", "config", "shapes", "training/__init__", "training/records")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small project, and what the command said that made its record."""
    folder = tmp_path_factory.mktemp("project")
    for name in PACKAGE:
        path = folder / "course_utils" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "course_utils" / f"{name}.py", path)
    place = folder / records.FOLDER
    place.mkdir(parents=True)
    (place / "nb90_toy.py").write_text(SCRIPT)
    (place / "words.txt").write_text("one two\n")
    return folder, command(folder)


def command(folder, **given):
    """`python -m course_utils.training.records 90` in that project, to its end."""
    words = [sys.executable, "-m", "course_utils.training.records", "90"]
    told = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": str(folder)}}
    return subprocess.run(words, **told, capture_output=True, text=True, **given)


@pytest.fixture
def project(made, tmp_path):
    """A copy of that project, to be changed."""
    return shutil.copytree(made[0], tmp_path / "project")


def path_of(project, name="nb90_toy.json"):
    return project / records.FOLDER / name


def test_a_record_holds_what_was_asked_of_it(made):
    folder, done = made
    assert done.returncode == 0 and done.stderr == "", done.stderr
    record = load_record("nb90_toy", folder)
    assert done.stdout == f"nb90_toy: {record}\n"
    assert re.fullmatch(
        r"recorded: \w+ seconds? on two cores, \d{4}-\d\d-\d\d, torch [\d.]+",
        str(record),
    )
    assert record.numbers(size=4, seed=1) == {"loss": 3.0}
    assert record.seeds == [0, 1] and len(record.results) == 4
    assert set(record.versions) == {"python", "torch", "numpy", "platform", "cpu"}
    assert all(result["seconds"] >= 0 for result in record.results)
    assert set(record.files) == {
        "course_utils/__init__.py",
        "course_utils/config.py",
        "course_utils/shapes.py",
        "course_utils/training/__init__.py",
        "notebooks/records/nb90_toy.py",
        "notebooks/records/words.txt",
    }


@pytest.mark.parametrize(
    "seconds, words", [(1.2, "one second"), (80.0, "80 seconds"), (840.0, "14 minutes")]
)
def test_the_line_says_how_long_it_took(made, seconds, words):
    fields = vars(load_record("nb90_toy", made[0])) | {"seconds": seconds}
    assert str(records.Record(**fields)).startswith(f"recorded: {words} on two cores, ")


def test_an_untouched_record_fits(project):
    check_record("nb90_toy", project)
    for path in project.rglob("*.py"):  # a checkout may end lines otherwise
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    check_record("nb90_toy", project)


@pytest.mark.parametrize(
    "changed",
    [
        "notebooks/records/nb90_toy.py",
        "course_utils/config.py",
        "course_utils/shapes.py",
        "notebooks/records/words.txt",
    ],
)
def test_a_changed_file_is_named(project, changed):
    with (project / changed).open("a") as file:
        file.write("# changed\n")
    load_record("nb90_toy", project)  # a reader who edits still sees the record
    with pytest.raises(ValueError, match=rf"^{changed} changed .*make record NB=90"):
        check_record("nb90_toy", project)


@pytest.mark.slow
def test_a_change_that_does_not_matter_is_confirmed_by_a_run(project):
    script = path_of(project, "nb90_toy.py")
    script.write_text(SCRIPT + "# changed\n")
    records.confirm_record("nb90_toy", project)
    assert check_record("nb90_toy", project).confirmed
    before = path_of(project).read_bytes()
    script.write_text(SCRIPT.replace("4 * size", "5 * size"))
    with pytest.raises(ValueError, match=r"loss of .* is 1\.875, recorded 1\.5"):
        records.confirm_record("nb90_toy", project)
    assert path_of(project).read_bytes() == before


def test_a_file_that_is_gone_is_named(project):
    path_of(project, "words.txt").unlink()
    with pytest.raises(ValueError, match=r"^notebooks/records/words.txt changed "):
        check_record("nb90_toy", project)


def edited(project, change, signed=False):
    """The record after a change; signed: with a checksum that fits the change."""
    path = path_of(project)
    content = json.loads(path.read_text())
    change(content)
    if signed:
        del content["checksum"]
        content["checksum"] = records._checksum_of_content(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["results"][0]["numbers"].update(loss=0.1),
        lambda content: content["results"].pop(),
        lambda content: content["files"].popitem(),
        lambda content: content.update(seconds=1.0),
    ],
)
def test_numbers_that_no_script_gave_are_refused(project, change):
    edited(project, change)
    with pytest.raises(
        ValueError, match=r"not as the script left it.*make record NB=90"
    ):
        load_record("nb90_toy", project)


def test_a_missing_point_is_noticed(project):
    edited(project, lambda content: content["results"].pop(), signed=True)
    with pytest.raises(
        ValueError, match=r"must hold the 4 points of its script, got 3"
    ):
        check_record("nb90_toy", project)


@pytest.mark.parametrize("content", ["", "[]", '{"checksum": "0"}', '"text"'])
def test_a_file_that_is_no_record_is_refused(project, content):
    path_of(project).write_text(content)
    with pytest.raises(ValueError, match=r"^nb90_toy.json is not a record: run `make "):
        load_record("nb90_toy", project)


def test_a_point_that_was_not_recorded_is_refused(made):
    record = load_record("nb90_toy", made[0])
    with pytest.raises(ValueError, match=r"recorded one such as .*'size': 3.*got .* 9"):
        record.numbers(size=9, seed=0)


def test_missing_files_are_named(project):
    path_of(project).unlink()
    with pytest.raises(
        FileNotFoundError, match=r"no nb90_toy.json: `make record NB=90`"
    ):
        load_record("nb90_toy", project)
    path_of(project, "nb90_toy.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"no nb90_toy.py"):
        load_script("nb90_toy", project)


def test_an_unknown_notebook_is_refused():
    done = subprocess.run(
        [sys.executable, "-m", "course_utils.training.records", "99"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert re.search(r"NB=99 must have a script in .*records; got nb", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("gives, wrong", [("float('nan')", "nan"), ("None", "None")])
def test_a_script_that_fails_leaves_the_record(project, gives, wrong):
    before = path_of(project).read_bytes()
    script = SCRIPT.replace("words) + seed", f"words) if seed == 0 else {gives}")
    path_of(project, "nb90_toy.py").write_text(script)
    done = command(project)
    assert done.returncode != 0
    said = rf"loss of {{'size': \d, 'seed': 1}} must be a finite number, got {wrong}"
    assert re.search(said, done.stderr), done.stderr
    assert path_of(project).read_bytes() == before


@pytest.mark.slow
def test_a_file_that_changes_meanwhile_is_named(project):
    before = path_of(project).read_bytes()
    script = SCRIPT.replace(
        "    return",
        '    with Path(__file__).with_name("words.txt").open("a") as file:\n'
        '        file.write("more")\n'
        "    return",
    )
    path_of(project, "nb90_toy.py").write_text(script)
    done = command(project)
    assert done.returncode != 0
    assert "words.txt changed while it was recorded: run it again" in done.stderr
    assert path_of(project).read_bytes() == before


def interrupted(project, stop):
    """Start the command, stop it when one point of four is not done; what it says."""
    script = SCRIPT.replace(
        "        TrainConfig(steps=size)",
        "        import time\n\n"
        '        Path(__file__).with_name("begun").touch()\n'
        "        time.sleep(60)",
    )
    path_of(project, "nb90_toy.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, "-m", "course_utils.training.records", "90"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    limit = time.monotonic() + 60
    while not path_of(project, "begun").exists():
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.1)
    time.sleep(1)  # the other process is done with its points, and waits
    os.killpg(process.pid, stop)
    said, _ = process.communicate(timeout=50)
    assert process.returncode != 0
    return said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_loses_nothing(project, stop):
    before = path_of(project).read_bytes()
    said = interrupted(project, stop)
    assert path_of(project).read_bytes() == before
    if stop == signal.SIGINT:
        assert said == "stopped: the record is as it was\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX systems")
def test_a_person_at_a_terminal_sees_the_time_that_is_left(project):
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    process = subprocess.Popen(
        [sys.executable, "-m", "course_utils.training.records", "90"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project), "TQDM_DISABLE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert process.wait() == 0
    assert re.search(rb"nb90_toy: .*4/4 \[\d\d:\d\d<\d\d:\d\d", said), said
