"""Set-up, pins, working copies: what the two commands stand on."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_utils import workshop

ROOT = Path(__file__).resolve().parents[2]
LINES = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
PINS = [Requirement(line) for line in LINES if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def applies(requirement, extras=()):
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras))


def declared():
    groups = PROJECT["optional-dependencies"].values()
    lines = PROJECT["dependencies"] + [line for group in groups for line in group]
    return [Requirement(line) for line in lines]


def needed():
    """Names of everything that the declared packages need here, at any depth."""
    waiting = [(r.name, tuple(sorted(r.extras))) for r in declared()]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for line in importlib.metadata.requires(name) or []:
            other = Requirement(line)
            if applies(other, extras):
                waiting.append(
                    (canonicalize_name(other.name), tuple(sorted(other.extras)))
                )
    return {canonicalize_name(name) for name, _ in seen}


def test_every_version_is_pinned_and_installed():
    for pin in PINS:
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), (
            f"{pin} is not a plain pin"
        )
        if applies(pin):
            installed = importlib.metadata.version(pin.name).split("+")[0]
            assert installed in pin.specifier, f"{pin} is pinned, {installed} is here"


def test_pins_hold_all_that_is_needed_and_nothing_else():
    pinned = {canonicalize_name(pin.name) for pin in PINS if applies(pin)}
    assert len(pinned) == len([pin for pin in PINS if applies(pin)]), "pinned twice"
    everything = needed() | {canonicalize_name(r.name) for r in declared()}
    machine = re.compile(
        "nvidia|triton|cuda"
    )  # torch brings its own, where it needs them
    assert {name for name in everything if not machine.match(name)} == pinned


def test_pins_lie_in_the_declared_ranges():
    pins = {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in PINS}
    for requirement in declared():
        assert pins[canonicalize_name(requirement.name)] in requirement.specifier


def test_pins_are_for_every_machine():
    local = "+" + "cpu"
    assert not any(local in line for line in LINES)
    assert not any(line.startswith("-") for line in LINES), "options hold indexes"
    for name in ("pexpect", "ptyprocess"):
        assert [str(pin.marker) for pin in PINS if pin.name == name] == [
            'sys_platform != "win32"'
        ]
    elsewhere = re.compile("nvidia|triton|cuda|appnope|pywin|uvloop")
    assert not any(elsewhere.match(pin.name) for pin in PINS)


def test_the_package_is_found_from_any_folder(tmp_path):
    command = [
        sys.executable,
        "-c",
        "import course_utils as c; print(c.__file__)",
    ]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).parent.parent == ROOT


# --- working copies ----------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
    """A course of two notebooks."""
    from nbformat.v4 import new_code_cell, new_notebook, new_output, writes

    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here", "01_attention"):
        cell = new_code_cell("6 * 7", execution_count=1, metadata={"alt": ["A bär."]})
        cell.outputs = [new_output("stream", text="the answer")]
        text = writes(new_notebook(cells=[cell]))
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_working_copy_has_no_outputs_and_all_else(house):
    original = json.loads((house / "notebooks" / "01_attention.ipynb").read_text())
    copy, _ = (
        json.loads(path.read_text("utf-8")) for path in workshop.lay_copies(house)
    )
    assert copy["cells"][0]["outputs"] == [] != original["cells"][0]["outputs"]
    assert copy["cells"][0]["execution_count"] is None
    assert copy["cells"][0]["source"] == original["cells"][0]["source"] == ["6 * 7"]
    assert copy["cells"][0]["metadata"] == {"alt": ["A bär."]}
    assert copy["metadata"] == original["metadata"]


def test_copies_are_laid_once_and_never_over_an_edit(house):
    assert len(workshop.lay_copies(house)) == 2
    edited = house / "work" / "01_attention.ipynb"
    edited.write_text("my answers")
    (house / "work" / "00_start_here.ipynb").unlink()
    assert [path.name for path in workshop.lay_copies(house)] == ["00_start_here.ipynb"]
    assert edited.read_text() == "my answers"
    assert sorted(path.name for path in (house / "work").iterdir()) == [
        "00_start_here.ipynb",
        "01_attention.ipynb",
    ]


def test_reset_brings_one_back_and_loses_nothing(house):
    workshop.lay_copies(house)
    for path in (house / "work").iterdir():
        path.write_text("my answers")
    for count in (1, 2):
        kept = workshop.reset_copy("01", house)
        assert kept.name == f"01_attention.old-{count}.ipynb"
        assert kept.read_text() == "my answers"
        assert workshop.reset_copy("01", house) is None, "nothing was edited"
        (house / "work" / "01_attention.ipynb").write_text("my answers")
    assert (house / "work" / "00_start_here.ipynb").read_text() == "my answers"


@pytest.mark.parametrize("number", ["", "0", "77", "*"])
def test_an_unclear_notebook_number_is_named(house, number):
    with pytest.raises(ValueError, match="must name exactly one notebook"):
        workshop.reset_copy(number, house)
    assert not (house / "work").exists()


def test_refresh_leaves_a_notebook_that_fails_as_it_was(tmp_path):
    from nbformat.v4 import new_code_cell, new_notebook, writes

    path = tmp_path / "90_fails.ipynb"
    path.write_text(writes(new_notebook(cells=[new_code_cell("1 / 0")])))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"(?s)90_fails.*left as it was.*ZeroDivision"):
        workshop.refresh(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["90_fails.ipynb"]


def test_refresh_keeps_measured_times_while_their_cell_is_unchanged(tmp_path):
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    path = tmp_path / "90_times.ipynb"
    tags = {"tags": ["timing", "nbval-ignore-output"]}
    source = "import time\nprint(time.perf_counter_ns())"
    book = new_notebook(cells=[new_code_cell(source, metadata=tags)])
    nbformat.write(book, path)
    workshop.refresh(path)
    first = path.read_bytes()
    workshop.refresh(path)
    assert path.read_bytes() == first
    book = nbformat.read(path, as_version=4)
    book.cells[0].source += " "
    nbformat.write(book, path)
    workshop.refresh(path)
    assert nbformat.read(path, 4).cells[0].outputs != book.cells[0].outputs


def test_streams_are_merged(tmp_path):
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    path = tmp_path / "90_streams.ipynb"
    source = "print('a')\ndisplay(7)\nprint('b')"
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), path)
    workshop.refresh(path)
    outputs = nbformat.read(path, as_version=4).cells[0].outputs
    assert [output.get("text") for output in outputs] == ["a\nb\n", None]


ALTS = """\
from course_utils.looking import plots
plots.curves({"loss": [2, 1]}, ("step", "nats"))
plots.arrows({"q": (1, 1)}, alt="Given in the call.")
plots.equation([("Q", [[7]], "query")])
"""


def test_figures_get_the_alt_texts_that_their_cell_keeps(tmp_path):
    """The kernel is sent the cell's metadata, as JupyterLab sends it."""
    import nbformat
    from nbformat.v4 import new_code_cell, new_notebook

    path = tmp_path / "90_alts.ipynb"
    kept = {"alt": ["It falls.", "unused", "A seven."]}
    cells = [new_code_cell(ALTS, metadata=kept), new_code_cell(ALTS)]
    nbformat.write(new_notebook(cells=cells), path)
    workshop.refresh(path)
    notebook = nbformat.read(path, as_version=4)
    alts = [
        [output["metadata"]["image/png"]["alt"] for output in cell.outputs]
        for cell in notebook.cells
    ]
    assert alts[0] == ["It falls.", "Given in the call.", "A seven."]
    assert alts[1][2] == "A figure with these words: Q | 7"
    assert notebook.cells[0].metadata.alt == kept["alt"]
    assert notebook.metadata.made_with == workshop.fingerprint()


def test_traces_of_the_run_are_removed():
    text = {"output_type": "stream", "name": "stdout", "text": "a"}
    result = {"output_type": "execute_result", "execution_count": 9, "data": {}}
    error = {"output_type": "error", "traceback": ["line 1"], "evalue": "no"}
    outputs = [text, result, error]
    cell = {"cell_type": "code", "outputs": outputs, "id": "x", "execution_count": 5}
    cell["metadata"] = {"tags": ["timing"], "collapsed": True, "alt": [], "name": "x"}
    notebook = {"cells": [{"cell_type": "markdown", "metadata": {}}, cell]}
    workshop.normalise(notebook, "07")
    assert [c["id"] for c in notebook["cells"]] == ["07-001", "07-002"]
    assert cell["metadata"] == {"tags": ["timing"]}
    cell["metadata"]["jupyter"] = {"source_hidden": True}
    workshop.normalise(notebook, "07")
    assert cell["metadata"]["tags"] == ["hide-input", "timing"], "folded in the book"
    assert cell["execution_count"] == cell["outputs"][1]["execution_count"] == 1
    assert [o.get("text") for o in cell["outputs"]] == ["a", None, None]
    assert cell["outputs"][2]["traceback"] == []
    json.dumps(notebook)


# --- JupyterLab --------------------------------------------------------------------


def test_lab_opens_a_browser_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    at_desk = workshop.lab_command({"DISPLAY": ":0"}, contained=False)
    assert "--no-browser" not in at_desk and "--allow-root" in at_desk
    over_ssh = {"DISPLAY": ":0", "SSH_CONNECTION": "a b"}
    assert "--no-browser" in workshop.lab_command(over_ssh, contained=False)
    assert "--no-browser" in workshop.lab_command({}, contained=False)
    boxed = workshop.lab_command({"DISPLAY": ":0"}, contained=True)
    assert "--ServerApp.ip=0.0.0.0" in boxed and "--no-browser" in boxed
    assert not any("0.0.0.0" in word for word in at_desk)


# --- the Makefile ------------------------------------------------------------------

# In place of Python: answers as set-up expects, fills .venv at once, and installs for
# as many seconds as it is told.
BOOK_PINS = "notebooks/book/requirements.txt"
STAND_IN = """\
#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip --version") ;;
  *"pip install"*) touch .venv/half; echo install >> log
                   sleep "${SECONDS_TO_INSTALL:-0}"
                   test -z "$BROKEN" && mv .venv/half .venv/whole ;;
  *alive*) echo alive ;;
esac
"""


@pytest.fixture
def clone(tmp_path):
    """The files that set-up reads, and a stand-in for Python."""
    if shutil.which("make") is None:
        pytest.skip("this machine has no make")
    for name in ("Makefile", "pyproject.toml", "requirements.txt", BOOK_PINS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(0o755)
    return tmp_path


def make(folder, *words, **environ):
    command = ["make", "PYTHON=./stand-in", *words]
    environ = {**os.environ, **environ}
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300
    )


def kill_setup(folder, seconds, *words, **environ):
    """Start the set-up, and kill it with all its children."""
    process = subprocess.Popen(
        ["make", "setup", *words],
        cwd=folder,
        env={**os.environ, **environ},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(seconds)
    assert process.poll() is None, "it finished before it was killed"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stamps(folder):
    return sorted(path.name for path in (folder / ".venv").glob("ready-*"))


def test_help_lists_every_command(clone):
    listed = make(clone, "help").stdout
    for name in ("lab", "test", "test-all", "diff", "refresh", "reset"):
        assert re.search(rf"^{name} ", listed, re.MULTILINE), name


def test_old_python_is_named(clone):
    done = make(clone, "setup", "PYTHON=false")
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stdout
    assert not (clone / ".venv").exists()


def test_setup_runs_once_and_again_when_the_pins_change(clone):
    assert "Setting up" in make(clone, "setup").stdout
    first = stamps(clone)
    assert len(first) == 1
    assert "Setting up" not in make(clone, "setup").stdout
    (clone / ".venv" / "mine").touch()
    (clone / "requirements.txt").write_text("# another\n")
    assert "Setting up" in make(clone, "setup").stdout
    assert len(stamps(clone)) == 1 and stamps(clone) != first
    assert (clone / ".venv" / "mine").exists(), "a healthy environment is kept"
    assert (clone / "log").read_text().count("install") == 2


def test_setup_starts_over_when_its_python_is_gone(clone):
    make(clone, "setup")
    (clone / ".venv" / "bin" / "python").unlink()
    assert "Setting up" in make(clone, "setup").stdout
    assert (clone / ".venv" / "bin" / "python").exists()
    assert len(stamps(clone)) == 1


def test_setup_that_fails_leaves_no_stamp(clone):
    done = make(clone, "setup", BROKEN="1")
    assert done.returncode != 0 and "run the same command again" in done.stdout
    assert stamps(clone) == []
    assert make(clone, "setup").returncode == 0


def test_setup_killed_while_it_installs_begins_again(clone):
    kill_setup(clone, 1, "PYTHON=./stand-in", SECONDS_TO_INSTALL="60")
    assert (clone / ".venv" / "half").exists() and stamps(clone) == []
    (clone / ".venv" / "lib").mkdir()
    done = make(clone, "setup")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(stamps(clone)) == 1
    left = {path.name for path in (clone / ".venv").iterdir()}
    assert left == {"bin", "whole", *stamps(clone)}


def test_a_second_setup_does_not_disturb_the_first(clone):
    first = subprocess.Popen(
        ["make", "PYTHON=./stand-in", "setup"],
        cwd=clone,
        env={**os.environ, "SECONDS_TO_INSTALL": "3"},
        stdout=subprocess.DEVNULL,
    )
    while not (clone / ".venv" / "half").exists():
        assert first.poll() is None
        time.sleep(0.05)
    second = make(clone, "setup")
    assert second.returncode != 0 and f"process {first.pid}" in second.stdout
    assert first.wait() == 0
    assert (clone / ".venv" / "whole").exists() and len(stamps(clone)) == 1
    assert "Setting up" not in make(clone, "setup").stdout


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.5, 2, 4])
def test_a_real_environment_killed_while_it_is_made_is_repaired(clone, seconds):
    (clone / "requirements.txt").write_text("")
    for name in ("course_utils", "jupyterlab", "torch", "matplotlib"):
        (clone / name).mkdir()
        (clone / name / "__init__.py").touch()
    (clone / "matplotlib" / "pyplot.py").touch()
    kill_setup(clone, seconds, f"PYTHON={sys.executable}")
    done = make(clone, "setup", f"PYTHON={sys.executable}")
    assert done.returncode == 0, done.stdout + done.stderr
    check = [clone / ".venv" / "bin" / "python", "-m", "pip", "check"]
    assert subprocess.run(check, capture_output=True).returncode == 0
