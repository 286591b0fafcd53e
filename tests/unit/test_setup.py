"""Set-up, pins, working copies, refreshing: what the two commands stand on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook, new_output

from nbval_strict.fingerprint import fingerprint
from tools import refresh, working_copies

ROOT = Path(__file__).resolve().parents[2]
PINNED = ("requirements.txt", "requirements-dev.txt", "constraints.txt")


def test_the_package_is_found_from_any_folder(tmp_path):
    command = [sys.executable, "-c", "import course_utils as c; print(c.__file__)"]
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).parent.parent == ROOT


def test_the_make_commands_of_the_pages_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):", makefile, re.M)
    for name in ("README.md", "CONTRIBUTING.md", "notebooks/book/running.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        make = r"(?:`|^|^    |=3 )make\s+([a-z-]+)([^`\n]*)"
        for command, options in re.findall(make, text, re.M):
            assert command in targets, f"{name}: make {command}"
            for variable in re.findall(r"\b([A-Z]+)=", options):
                assert f"$({variable})" in makefile, f"{name}: {variable}"
        tasks = re.findall(r"-m tools\.working_copies ([a-z]+)", text)
        assert {*tasks} <= {"lab", "reset"}, f"{name}: {tasks}"


# --- working copies ----------------------------------------------------------------


@pytest.fixture
def house(tmp_path):
    """A course of two notebooks."""
    (tmp_path / "notebooks").mkdir()
    for name in ("00_start_here", "01_attention"):
        cell = new_code_cell("6 * 7", execution_count=1, metadata={"alt": ["A bär."]})
        cell.outputs = [new_output("stream", text="the answer")]
        nbformat.write(
            new_notebook(cells=[cell]), tmp_path / "notebooks" / f"{name}.ipynb"
        )
    return tmp_path


def test_a_working_copy_has_no_outputs_and_all_else(house):
    original = json.loads((house / "notebooks" / "00_start_here.ipynb").read_text())
    copy = json.loads(working_copies.lay_copies(house)[0].read_text("utf-8"))
    assert original["cells"][0]["outputs"] and original["cells"][0]["execution_count"]
    original["cells"][0] |= {"outputs": [], "execution_count": None}
    original["metadata"] |= working_copies.kernel_metadata()
    assert copy == original


def test_copies_are_laid_once_and_never_over_an_edit(house):
    assert len(working_copies.lay_copies(house)) == 2
    edited = house / "work" / "01_attention.ipynb"
    edited.write_text("my answers")
    (house / "work" / "00_start_here.ipynb").unlink()
    [laid] = working_copies.lay_copies(house)
    assert laid.name == "00_start_here.ipynb" and laid.exists()
    assert edited.read_text() == "my answers"
    assert {*(house / "work").iterdir()} == {laid, edited}


def test_reset_brings_one_back_and_loses_nothing(house):
    working_copies.lay_copies(house)
    for path in (house / "work").iterdir():
        path.write_text("my answers")
    for count in (1, 2):
        saved = working_copies.reset_copy("01", house)
        assert saved.name == f"01_attention.old-{count}.ipynb"
        assert saved.read_text() == "my answers"
        assert working_copies.reset_copy("01", house) is None, "nothing was edited"
        (house / "work" / "01_attention.ipynb").write_text("my answers")
    assert (house / "work" / "00_start_here.ipynb").read_text() == "my answers"


def test_an_unclear_notebook_number_is_named(house):
    for number in ("", "0", "77", "*"):
        with pytest.raises(ValueError, match="must name exactly one notebook"):
            working_copies.reset_copy(number, house)
    assert not (house / "work").exists()


def test_refresh_leaves_a_notebook_that_fails_as_it_was(tmp_path):
    path = tmp_path / "90_fails.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"(?s)90_fails.*left as it was.*ZeroDivision"):
        refresh.refresh(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["90_fails.ipynb"]


def test_refresh_keeps_measured_times_while_their_cell_is_unchanged(tmp_path):
    path = tmp_path / "90_times.ipynb"
    tags = {"tags": ["timing", "nbval-ignore-output"]}
    source = "import time\nprint(time.perf_counter_ns())"
    book = new_notebook(cells=[new_code_cell(source, metadata=tags)])
    nbformat.write(book, path)
    refresh.refresh(path)
    first = path.read_bytes()
    refresh.refresh(path)
    assert path.read_bytes() == first
    book = nbformat.read(path, as_version=4)
    book.cells[0].source += " "
    nbformat.write(book, path)
    refresh.refresh(path)
    assert nbformat.read(path, 4).cells[0].outputs != book.cells[0].outputs


def test_of_cells_that_other_data_decide_the_outputs_stay(tmp_path):
    path = tmp_path / "90_data.ipynb"
    old = [new_output("stream", text="old\n")]
    tags = ([], ["trained"], ["nbval-ignore-output"], ["trained"])
    cells = [new_code_cell("print(2)", metadata={"tags": names}) for names in tags]
    for cell in cells[:3]:  # the last is new
        cell.outputs = old
    nbformat.write(new_notebook(cells=cells), path)
    [note] = refresh.refresh(path, "abc", keep=True)
    assert note.endswith("because the data abc decide them: 90-002, 90-003")
    cells = nbformat.read(path, as_version=4).cells
    assert [c.outputs[0].text for c in cells] == ["2\n", "old\n", "old\n", "2\n"]


def test_a_text_cell_is_stored_without_a_run(tmp_path):
    path, module = tmp_path / "90_text.ipynb", tmp_path / "module.py"
    code = new_code_cell("1 / 0", id="90-001", execution_count=1)
    book = new_notebook(cells=[code], metadata={"made_with": {"data": "abc"}})
    refresh.normalize(book, "90")
    nbformat.write(book, path)
    module.write_text("x = 1")
    assert not refresh.store_text(path), "without git"
    git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=b"]
    for command in (["init"], ["add", "."], ["commit", "-m", "Begin"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    assert not refresh.store_text(path), "nothing has changed"
    text = {"cell_type": "markdown", "id": "f00", "metadata": {}, "source": "Before."}
    book.cells.insert(0, nbformat.from_dict(text))
    nbformat.write(book, path)
    assert refresh.store_text(path)
    stored = nbformat.read(path, as_version=4)
    assert [cell.id for cell in stored.cells] == ["90-002", "90-001"]
    assert stored.cells[1] == code and stored.metadata == book.metadata
    module.write_text("x = 2")
    assert not refresh.store_text(path), "code has changed"
    module.write_text("x = 1")
    stored.cells[1].source = "2 / 0"
    nbformat.write(stored, path)
    assert not refresh.store_text(path), "a code cell has changed"


ALTS = """\
from lesson_plots import plots
plots.curves({"loss": [2, 1]}, ("step", "nats"))
plots.arrows({"q": (1, 1)}, alt="Given in the call.")
plots.equation([("Q", [[7]], "query")])
"""


@pytest.mark.slow
def test_figures_get_the_alt_texts_that_their_cell_keeps(tmp_path):
    """The kernel is sent the cell's metadata, as JupyterLab sends it."""
    path = tmp_path / "90_alts.ipynb"
    cell_metadata = {"alt": ["It falls.", "unused", "A seven."]}
    merged = new_code_cell("print('a')\nprint('b', flush=True)\nprint('c')")
    cells = [new_code_cell(ALTS, metadata=cell_metadata), new_code_cell(ALTS), merged]
    nbformat.write(new_notebook(cells=cells), path)
    refresh.refresh(path, data="abc")
    notebook = nbformat.read(path, as_version=4)
    alts = [
        [output["metadata"]["image/png"]["alt"] for output in cell.outputs]
        for cell in notebook.cells[:2]
    ]
    assert alts[0] == ["It falls.", "Given in the call.", "A seven."]
    assert alts[1][2] == "A figure with these words: Q | 7"
    assert notebook.cells[0].metadata.alt == cell_metadata["alt"]
    assert [output.text for output in notebook.cells[2].outputs] == ["a\nb\nc\n"]
    assert notebook.metadata.made_with == fingerprint() | {"data": "abc"}


def test_traces_of_the_run_are_removed():
    result = new_output("execute_result", execution_count=9)
    error = new_output("error", traceback=["line 1"], evalue="no")
    cell = new_code_cell(outputs=[new_output("stream", text="a"), result, error])
    cell.metadata = {"tags": ["timing"], "collapsed": True, "alt": [], "name": "x"}
    text = {"cell_type": "markdown", "metadata": {}}
    cells = [text, cell, text | {"id": "07-003"}, text | {"id": "07-003"}]
    notebook = {"cells": cells, "metadata": {}}
    refresh.normalize(notebook, "07")
    assert [c["id"][-1] for c in notebook["cells"]] == ["1", "2", "3", "4"]
    assert cell["metadata"] == {"tags": ["timing"]}
    cell["metadata"]["jupyter"] = {"source_hidden": True}
    refresh.normalize(notebook, "07")
    assert cell["metadata"]["tags"] == ["hide-input", "timing"], "folded in the book"
    assert cell["execution_count"] == cell["outputs"][1]["execution_count"] == 1
    assert [o.get("text") for o in cell["outputs"]] == ["a", None, None]
    assert cell["outputs"][2]["traceback"] == []
    json.dumps(notebook)


# --- JupyterLab --------------------------------------------------------------------


def test_lab_opens_a_browser_only_where_there_is_one(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    at_desk = working_copies.lab_command({"DISPLAY": ":0"}, contained=False)
    assert "--no-browser" not in at_desk and "--allow-root" in at_desk
    over_ssh = {"DISPLAY": ":0", "SSH_CONNECTION": "a b"}
    assert "--no-browser" in working_copies.lab_command(over_ssh, contained=False)
    assert "--no-browser" in working_copies.lab_command({}, contained=False)
    boxed = working_copies.lab_command({"DISPLAY": ":0"}, contained=True)
    assert "--ServerApp.ip=0.0.0.0" in boxed and "--no-browser" in boxed
    assert not any("0.0.0.0" in word for word in at_desk)


OPEN = "import pathlib, tools.working_copies as w; w.open_lab(pathlib.Path())"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C is sent otherwise there")
def test_a_cell_too_early_or_stopped_names_the_way_out(monkeypatch):
    monkeypatch.setenv(*next(iter(working_copies.STARTUP.items())))
    sources = ("Q @ K", "dir()", "import signal; signal.raise_signal(signal.SIGINT)")
    cells = [new_code_cell(source) for source in sources]
    notebook = new_notebook(cells=cells)
    NotebookClient(notebook, kernel_name="python3", allow_errors=True).execute()
    (error,), (names,), (stop,) = (cell.outputs for cell in cells)
    assert stop.traceback == ["Stopped. Run the cell again to begin anew."]
    assert error.ename == "NameError" and error.evalue == "name 'Q' is not defined"
    assert error.traceback[-1].endswith("Choose Run → Run All Above Selected Cell.")
    assert "_show" not in names.data["text/plain"]


def test_lab_prints_one_address_which_opens_the_first_notebook(house):
    (house / "images").mkdir()
    (house / "images" / "drawn.svg").write_text("<svg/>")
    environ = {k: v for k, v in os.environ.items() if "SSH" not in k}
    environ |= {"PYTHONPATH": str(ROOT), "DISPLAY": "", "BROWSER": "true"}
    given = {"cwd": house, "env": environ, "start_new_session": True, "text": True}
    lab = subprocess.Popen(
        [sys.executable, "-c", OPEN], stdout=subprocess.PIPE, **given
    )
    try:
        words, address = lab.stdout.readline(), lab.stdout.readline().strip()
        assert "://" not in words and "open" in words.lower()
        for name in ("work/00_start_here.ipynb", "images/drawn.svg"):
            here = address.replace("lab/tree/work/00_start_here.ipynb", f"files/{name}")
            with urllib.request.urlopen(here) as file:
                assert file.read() == (house / name).read_bytes()
        with urllib.request.urlopen(address) as page:
            assert page.status == 200 and "/lab/tree/work/" in page.url
        again = subprocess.run(
            [sys.executable, "-c", OPEN], timeout=60, stdout=subprocess.PIPE, **given
        )
        assert again.stdout.splitlines()[-1] == address, "a second call leads there"
        os.killpg(lab.pid, signal.SIGINT)
        assert lab.stdout.read() == "" and lab.wait(60) == 0
    finally:
        if lab.poll() is None:
            os.killpg(lab.pid, signal.SIGKILL)


def test_lab_says_why_it_did_not_start(house, monkeypatch, capsys):
    broken = [sys.executable, "-c", "import sys; sys.exit('no such port')"]
    monkeypatch.setattr(working_copies, "lab_command", lambda *_: broken)
    assert working_copies.open_lab(house) == 1
    assert "no such port" in capsys.readouterr().out


# --- the Makefile ------------------------------------------------------------------

# In place of Python: answers as set-up expects, fills .venv at once, and installs for
# as many seconds as it is told.
STAND_IN = """\
#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *"pip --version") ;;
  *"pip install"*) touch .venv/half; echo "$*" >> log
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
    for name in ("Makefile", "pyproject.toml", *PINNED):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "stand-in").write_text(STAND_IN)
    (tmp_path / "stand-in").chmod(0o755)
    return tmp_path


def start(folder, *words, **environ):
    """`make` in a process group of its own."""
    given = {"cwd": folder, "env": {**os.environ, **environ}, "start_new_session": True}
    command = ["make", "PYTHON=./stand-in", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **given)


def make(folder, *words, **environ):
    """The exit code of `make`, and what it printed."""
    process = start(folder, *words, **environ)
    printed, _ = process.communicate(timeout=300)
    return process.returncode, printed


def installs(folder):
    """What pip was asked to install, since the last time."""
    log = folder / "log"
    asked = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [re.search(r"requirements[\w.-]*|--editable", line)[0] for line in asked]


def test_old_python_is_named(clone):
    code, printed = make(clone, "setup", "PYTHON=false")
    assert code != 0 and "Python 3.11 or newer is needed" in printed
    assert not (clone / ".venv").exists()


def test_readers_and_tests_get_what_they_need_once(clone):
    make(clone, "lab")
    assert installs(clone) == ["requirements.txt", "--editable"]
    make(clone, "lab")
    assert installs(clone) == []
    make(clone, "setup")
    assert installs(clone) == ["requirements-dev.txt", "--editable"]
    make(clone, "lab")
    assert installs(clone) == [], "who tests can read as well"
    with (clone / "pyproject.toml").open("a") as file:
        file.write("# other options of pytest")
    make(clone, "setup")
    assert installs(clone) == []


def test_other_pins_are_installed_into_what_is_there(clone):
    make(clone, "setup")
    (clone / ".venv" / "mine").touch()
    for name in PINNED:
        (clone / name).write_text("# another\n")
        installs(clone)
        make(clone, "setup")
        assert installs(clone) == ["requirements-dev.txt", "--editable"]
    assert (clone / ".venv" / "mine").exists(), "a healthy environment is kept"


def test_setup_that_fails_is_not_taken_for_done(clone):
    code, printed = make(clone, "setup", BROKEN="1")
    assert code != 0 and "run the same command again" in printed
    assert not list((clone / ".venv").glob("*-ready-*"))
    assert make(clone, "setup")[0] == 0


def test_a_text_that_only_this_machines_run_bears_out_is_named():
    """Elsewhere a trained model tells of other heroes than Sue."""
    story = [{"output_type": "stream", "text": "loss 0.57: Sue and Lily met Tom."}]
    cells = [
        {"cell_type": "code", "source": "tell('Lily')", "outputs": story},
        {"cell_type": "markdown", "source": "Look: Lily met Sue, and 0.57 is low."},
    ]
    for cell, tags in zip(cells, (["trained"], []), strict=True):
        cell |= {"id": "00-001", "metadata": {"tags": tags}}
    [note] = refresh.told_by_luck(cells)
    assert note.endswith("only this run's output holds: 0.57, Sue")
    cells[0]["metadata"]["tags"] = []
    assert refresh.told_by_luck(cells) == []
