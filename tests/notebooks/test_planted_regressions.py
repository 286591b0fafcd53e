"""Tests of the tests: each kind of regression, planted, is caught; sound ones pass."""

import base64
import copy
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import SimpleNamespace
from zlib import compress

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from attention_views import page
from nbval_strict import cells, plugin
from nbval_strict.figures import figure_problems
from nbval_strict.plugin import expect_none, quiet_variables
from tests.support import course_notebooks
from tools.mirror_data import trained_model
from tools.notebook_environment import PATH
from tools.notebook_rules import ROOT, problems, style, style_problems
from tools.refresh import refresh

pytestmark = pytest.mark.slow
DRAW = """\
import numpy as np
from matplotlib.figure import Figure
from lesson_plots import plots
def draw(alt, bend=1.0, point=3, title="keeps a share", label="w (1 - w)", number=8):
    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    x = np.linspace(0, 6, 200)
    axes.plot(x, np.sin(x * bend))
    axes.plot([point], [0], "o", markersize=1.5)  # one tile alone
    axes.set(title=title, xlabel=label)
    axes.text(1, 0, str(number))
    plots.show(figure, alt)
def shade(shift):
    from matplotlib.colors import LinearSegmentedColormap
    figure = Figure(figsize=(4, 3))
    ends = [(1, 1, 1), (0.6, 0.6, 0.6), (0.2 + shift, 0.2, 0.2)]
    colors = LinearSegmentedColormap.from_list("ours", ends)
    figure.subplots().imshow(np.diag([4, 1, 1]), cmap=colors)
    plots.show(figure, "Cells.")"""
HTML = "from IPython.display import HTML\nHTML('<b>{}</b>')"
SVG = "from IPython.display import SVG\nSVG('<svg><text>{}</text></svg>')"
WARNING = "import warnings\nwarnings.warn('sta' + 'le')\n1"
OPEN = "import urllib.request\nurllib.request.urlopen({!r}, timeout=5).status"
LONG = "HTML('<p>' + 'some words ' * 2000 + '{} more' + ' and words' * 2000)"
ADVICE = r"(.|\n)*If this is meant: make refresh NB=9"

# kind -> (the source whose outputs are stored, the source that is run, what is said)
PLANTED = {
    "number": ("2 + 3", "2 + 4", "mismatch 'text/plain'"),
    "negative number": ("-0.5", "-0.6", r"\n--0\.5\n\+-0\.6\n"),
    "figure": ("draw('a wave')", "draw('a wave', bend=1.1)", "figure 1 differs"),
    "alt text": ("draw('a wave')", "draw('a curve')", r"\n-a wave\n\+a curve"),
    "no figure": ("draw('a wave')", "print()", "output fields"),
    "two figures": ("draw('a'); draw('b')", "draw('a')", "dissimilar number"),
    "HTML": (HTML.format(1), HTML.format(2), "mismatch 'text/html'"),
    "SVG": (SVG.format(1), SVG.format(2), "mismatch 'image/svg.xml'"),
    "stream": ("print('yes')", "print('no')", "mismatch 'stdout'"),
    "missing output": ("print('yes')", "yes = 1", "Missing output fields"),
    "stored outputs deleted": (
        "yes = 1",
        "print('yes'); 1",
        r"stored outputs are gone.*\nstdout \| text/plain\nIf this is meant: make "
        "refresh NB=90",
    ),
    "second output": ("print('yes')", "print('yes')\n2", "Unexpected output fields"),
    "order": (
        "print(1); draw('a')",
        "draw('a'); print(1)",
        f"in another order{ADVICE}",
    ),
    "exception": ("1 / 1", "1 / 0", "ZeroDivisionError"),
    "warning": ("1", WARNING, f"stale{ADVICE}"),
    "a word of a long line": (
        LONG.format("seven"),
        LONG.format("eleven"),
        r"now\n-…[a-z ]{60,}seven [a-z ]{50,}…\n\+…[a-z ]{60,}eleven [a-z ]{50,}…",
    ),
    "one long line more": (
        f"{LONG.format(1)}",
        f"display({LONG.format(1)}); {LONG.format(2)}",
        "dissimilar number",
    ),
    "network": ("1", OPEN.format("http://example.com/"), "run without a network"),
    # changes of a picture that no tolerance sees
    "1e-4 of a curve": ("draw('a')", "draw('a', bend=1.0001)", "figure 1 differs"),
    "dark half of the colors": (
        "shade(0)",
        "shade(0.1)",
        r"figure 1 differs: \d+ of \d+ pixels \(limit 0",
    ),
}
PICTURE_WORDS = {  # what is written in a picture is compared on every machine
    "letter of a title": (
        "draw('a')",
        "draw('a', title='keeps a shore')",
        r"draws other words: - stored, \+ now\n(.*\n)*-keeps a share\n\+keeps a shore",
    ),
    "sign in a label": (
        "draw('a')",
        "draw('a', label='w (1 + w)')",
        r"-w \(1 - w\)\n\+w \(1 \+ w\)",
    ),
    "8 drawn as 3": ("draw('a')", "draw('a', number=3)", r"-8\n\+3"),
}
PLANTED |= PICTURE_WORDS
PLANTED |= {  # these must pass
    "a stream in pieces": (
        "print(1); draw('a'); print(2)",
        "import sys\nprint(1); sys.stdout.flush(); draw('a'); print(2)",
        None,
    ),
    "hidden by ;": ("7;", "7;", None),
    "a result": ("7", "7", None),
    "last result": ("_ + 1", "_ + 1", None),
}
ELSEWHERE = PICTURE_WORDS | {  # made on another machine: compared by tolerance
    "last digit": ("print('loss', 0.1234)", "print('loss', 0.1235)", None),
    "narrower": ("print(f'{10.0:8.2f} x')", "print(f'{9.99:6.2f} x')", None),
    "number": ("print('rate', 0.1)", "print('rate', 0.2)", "mismatch 'stdout'"),
    "count": ("print(100, 'right')", "print(103, 'right')", "mismatch 'stdout'"),
    "word": ("print('best: a', 0.12)", "print('best: b', 0.12)", "mismatch 'stdout'"),
    "another number": ("[0.5, 0.5]", "[0.5, 0.5, 0.5]", "mismatch 'text/plain'"),
    "figure": ("draw('a')", "draw('a', bend=1.1)", "because here is bits"),
    "point": ("draw('a')", "draw('a', point=3.3)", r"worst tile \(limit 20\)"),
    "1e-4 of a curve": ("draw('a')", "draw('a', bend=1.0001)", None),
}
TRAINED = {  # made on another machine, by a long training
    "trained": ("print('loss', 0.12)", "print('loss', 0.5)", None),
    "trained, silent": ("print(1)", "one = 1", f"another order{ADVICE}"),
    "trained, exception": ("1 / 1", "1 / 0", "ZeroDivisionError"),
    "trained, figure": ("draw('a')", "draw('a', bend=1.1)", None),
}
IGNORED = {
    "ignored, stored outputs deleted": (
        "one = 1",
        "print(1)",
        r"stored outputs are gone.*\nstdout\nIf this is meant: make refresh NB=91",
    ),
    "ignored": ("print(1)", "print(2)", None),
    "ignored, silent": ("print(1)", "one = 1", f"other kinds of output{ADVICE}"),
    "ignored, warning": ("1", WARNING, f"stale{ADVICE}"),
}
BOOKS = {
    "90_planted": (PLANTED, []),
    "91_ignored": (IGNORED, ["nbval-ignore-output"]),
    "92_elsewhere": (ELSEWHERE, []),
    "95_trained": (TRAINED, ["trained"]),
}

# A cell of the notebook that leaves traces -> what is said of it.
SWALLOWED = "try:\n    {}\nexcept OSError:\n    pass"
TRACES = {
    "a page": (
        SWALLOWED.format("urlopen('http://page.example/')"),
        "tries to reach page.example: ",
    ),
    "an encrypted page": (
        SWALLOWED.format("urlopen('https://safe.example/')"),
        "tries to reach safe.example: ",
    ),
    "a socket": (
        SWALLOWED.format("socket.create_connection(('192.0.2.1', 8080))"),
        "tries to reach 192.0.2.1: ",
    ),
    "a name": (
        SWALLOWED.format("socket.gethostbyname('name.example')"),
        "tries to reach name.example: ",
    ),
    "a child": (
        "code = \"import socket; socket.create_connection(('child.example', 80))\"\n"
        "done = subprocess.run([sys.executable, '-c', code], capture_output=True)",
        "tries to reach child.example: ",
    ),
    "a file beside it": (
        "size = Path('left.txt').write_text('left')",
        "leaves left.txt behind: write into a `tempfile",
    ),
    "a file of another language": (
        "import torch\ntorch.save(torch.zeros(1), 'left.pt')",
        "leaves left.pt behind",
    ),
    "a file of a child": (
        "code = \"open('child.txt', 'w')\"\n"
        "done = subprocess.run([sys.executable, '-c', code])",
        "leaves child.txt behind",
    ),
    "an empty folder": ("Path('empty').mkdir()", "leaves empty behind"),
    "a file at home": (
        "size = (Path.home() / 'notes.txt').write_text('left')",
        "leaves ~/notes.txt behind",
    ),
    "a temporary file": (
        "with tempfile.NamedTemporaryFile(prefix='left', delete=False): pass",
        "leaves the temporary file left",
    ),
}
TIDY = [
    "with tempfile.TemporaryDirectory() as folder:\n"
    "    size = (Path(folder) / 'one.txt').write_text('one')",
    "folder = tempfile.TemporaryDirectory()\n"
    "size = (Path(folder.name) / 'until the kernel ends.txt').write_text('one')",
    "Path('short.txt').touch()\nPath('short.txt').unlink()",
    "Path('runs').mkdir()\nPath('runs/checkpoint').touch()",
    "found = Path('known.txt').read_text()",
    "with open(os.devnull, 'w') as file:\n    size = file.write('nothing')",
    "with socket.create_server(('127.0.0.1', 0)) as server:\n"
    "    socket.create_connection(('localhost', server.getsockname()[1])).close()",
    "name = socket.getfqdn()",
]
TRACED_IMPORTS = """\
import os, socket, subprocess, sys, tempfile
from pathlib import Path
from urllib.request import urlopen"""


def write_notebook(path, sources, tags=()):
    cells = []
    for count, source in enumerate(sources, start=1):
        cell = new_code_cell(source, execution_count=count)
        cell.id, cell.metadata.tags = f"{path.name[:2]}-{count:03d}", list(tags)
        cells.append(cell)
    nbformat.write(new_notebook(cells=cells), path)


def run_pytest(folder, **environ):
    """Run the checks as `make test` does; return exit code, complaints and print."""
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    command += ["-o", f"nbval_differences={folder / 'differences'}"]
    command += ["-p", "no:cacheprovider", f"--junitxml={report}", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environ}, capture_output=True, text=True
    )
    assert report.exists(), done.stdout + done.stderr
    cases = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failures = [
            f.get("message", "") + (f.text or "") for f in case if f.tag != "skipped"
        ]
        book = case.get("classname").removesuffix(".ipynb")
        name = re.sub(r"^(In \[\d+\]) .*", r"\1", case.get("name"))  # without the id
        cases[book, name] = "\n".join(failures)
    return done.returncode, cases, done.stdout


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Store outputs of clean sources, swap in the planted ones, run the checks."""
    folder = tmp_path_factory.mktemp("books")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quiet_variables(folder, PATH).items():
            patch.setenv(name, value)
        for name, (table, tags) in BOOKS.items():
            path = folder / f"{name}.ipynb"
            write_notebook(path, [DRAW, *(clean for clean, *_ in table.values())], tags)
            assert refresh(path) == []
            first = path.read_bytes()
            if name == "91_ignored":
                assert refresh(path) == []
                assert path.read_bytes() == first, "refreshed twice, it differs"
    for name, (table, _) in BOOKS.items():
        notebook = nbformat.read(folder / f"{name}.ipynb", as_version=4)
        for cell, (_, run, _) in zip(notebook.cells[1:], table.values(), strict=True):
            cell.source = run
        if name in ("92_elsewhere", "95_trained"):
            notebook.metadata.made_with.bits = "another"
        nbformat.write(notebook, folder / f"{name}.ipynb")
    return run_pytest(folder, NBVAL_PATIENCE="0", COURSE_DATA="worlds")


def test_views_are_compared_by_their_numbers(monkeypatch):
    """Another build of zlib may compress them in another way."""
    codes = np.arange(200) % 7
    texts = []
    for level in (9, 1):
        deflate = lambda data, _, level=level: compress(data, level)  # noqa: E731
        monkeypatch.setattr(page.zlib, "compress", deflate)
        texts += [page.compressed(codes), page.compressed(codes[::-1])]
    outputs = [[{"data": {"text/html": f'{{"map":"{text}"}}'}}] for text in texts]
    hook = SimpleNamespace(pytest_nbval_html=course_notebooks.pytest_nbval_html)
    same, other, again, _ = [cells.comparable(one, hook) for one in outputs]
    assert outputs[0] != outputs[2] and same == again != other


def test_each_planted_regression_is_caught_and_nothing_else(outcome):
    code, cases, printed = outcome
    assert code == 1
    for book, (table, _) in BOOKS.items():
        for number, (kind, (_, _, expected)) in enumerate(table.items(), start=2):
            complaint = cases[book, f"In [{number}]"]
            if expected is None:
                assert not complaint, f"{kind}: {complaint}"
            else:
                assert re.search(expected, complaint), f"{kind}: {complaint!r}"
        assert cases[book, "rules"] == ""
        assert "more than 0" in cases[book, "budget"]
    assert "how it reads" in printed and "budgets" in printed


@pytest.fixture
def sound():
    """A notebook that keeps every rule."""
    cells = [new_markdown_cell("Words.", id="90-001")]
    for count in (1, 2):
        five = new_output("execute_result", {"text/plain": "5"}, execution_count=count)
        cells.append(new_code_cell("2 + 3", execution_count=count, outputs=[five]))
        cells[-1].id = f"90-00{count + 1}"
    return new_notebook(cells=cells)


def shows(kind, data, **metadata):
    return lambda c: c.outputs[0].update(
        data={"text/plain": "5", kind: data}, metadata={kind: metadata}
    )


def source(text):
    return lambda c: c.update(source=text)


def tags(*names):
    return lambda c: c.metadata.update(tags=list(names))


def put_error(cell):
    cell.outputs = [new_output("error", ename="E", evalue="", traceback=["at 1"])]


def put_stderr(cell):
    cell.outputs = [new_output("stream", name="stderr", text="UserWarning")]


SLASH = "/"
WORDS = {"words": "q | 7", "alt": "A figure with these words: q | 7"}
UNEXECUTED = "In [2] 90-003 was not executed in order"
IN_SOURCE = f"In [2] 90-003 holds a path of a machine: {SLASH}tmp/a/b-1.txt"
# kind -> (which cell of three, what is done to it, what is said)
RULES = {
    "unexecuted cell": (2, lambda c: c.update(execution_count=None), UNEXECUTED),
    "wrong order": (2, lambda c: c.update(execution_count=7), "in order"),
    "removed alt text": (2, shows("image/png", "x"), "alt text"),
    "lost alt text": (2, lambda c: c.metadata.update(alt=["A."]), "no figure has"),
    "words for an alt text": (2, shows("image/png", "x", **WORDS), "without alt text"),
    "HTML image": (2, shows("text/html", "<img src='a'>"), "alt"),
    "jpeg": (2, shows("image/jpeg", "x"), "nothing compares"),
    "address": (2, shows("text/plain", "<f at 0x7f12ab>"), "addr"),
    "in output": (2, shows("text/plain", f"'{SLASH}home/ann/a.py'"), "of a machine"),
    "path in source": (2, source(f"open('{SLASH}tmp/a/b-1.txt')"), IN_SOURCE),
    "this machine": (0, source(f"see {ROOT}"), "this machine"),
    "warning": (2, put_stderr, "stderr"),
    "traceback": (2, put_error, "traceback"),
    "exception": (2, put_error, "exactly if"),
    "no exception": (2, tags("raises-exception"), "exactly"),
    "skipped": (2, tags("nbval-skip"), "mean nothing"),
    "comment": (2, source("# NBVAL_SKIP\n1"), "comment"),
    "compared timing": (2, tags("timing"), "ignore-output"),
    "folded in the book only": (2, tags("hide-input"), "in the book alike"),
    "empty cell": (2, source("  "), "is empty"),
    "no alt": (
        0,
        source("![](../LICENSE)"),
        "text 90-001 shows ../LICENSE without alt",
    ),
    "img no alt": (0, source("<img src='../LICENSE'>"), "without alt"),
    "remote": (0, source("![a](https://a.b/c.svg)"), "not a local"),
    "lost": (0, source("![a](../images/none.svg)"), "not a local"),
    "repeated ids": (2, lambda c: c.update(id="90-001"), "id of their own"),
}


@pytest.mark.parametrize("kind", RULES)
def test_each_broken_rule_is_named(sound, kind):
    folder = ROOT / "notebooks"
    assert problems(sound, folder) == []
    index, plant, expected = RULES[kind]
    planted = copy.deepcopy(sound)
    plant(planted.cells[index])
    assert any(expected in what for what in problems(planted, folder))


def test_every_finding_is_reported():
    with pytest.raises(pytest.fail.Exception) as failure:
        expect_none(f"cell {number} is wrong" for number in range(3))
    assert str(failure.value) == "cell 0 is wrong\ncell 1 is wrong\ncell 2 is wrong"
    expect_none([])


STYLE = {
    "31 lines": (lambda n: n.cells[1].update(source="1\n" * 30 + "1"), "31 lines"),
    "89 columns": (lambda n: n.cells[1].update(source="1" * 89), "89 columns"),
    "three in a row": (lambda n: n.cells.append(n.cells[1]), "3 code cells"),
    "silent": (lambda n: n.cells[1].update(outputs=[]), "50%"),
}


@pytest.mark.parametrize("kind", STYLE)
def test_each_breach_of_style_is_named(sound, kind):
    assert list(style_problems(style(sound))) == []
    plant, expected = STYLE[kind]
    plant(sound)
    assert any(expected in what for what in style_problems(style(sound)))


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The run of a notebook that leaves traces, and of one that is tidy."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "known.txt").write_text("known")
    write_notebook(folder / "93_tidy.ipynb", [TRACED_IMPORTS, *TIDY])
    sources = [TRACED_IMPORTS, *(source for source, _ in TRACES.values())]
    write_notebook(folder / "94_leaves.ipynb", sources)
    _, cases, _ = run_pytest(folder)
    return cases


@pytest.mark.parametrize("kind", TRACES)
def test_each_trace_is_reported_with_its_cell(traced, kind):
    count = list(TRACES).index(kind) + 2
    assert traced["94_leaves", f"In [{count}]"] == "", "its cell hides it"
    lines = traced["94_leaves", "leftovers"].splitlines()
    cell = f"In [{count}] 94-{count:03d} "
    reported = [line[line.index(cell) :] for line in lines if cell in line]
    assert reported and all(TRACES[kind][1] in line for line in reported), lines


def test_a_tidy_notebook_leaves_no_trace(traced):
    reported = [text for (book, _), text in traced.items() if book == "93_tidy"]
    assert len(reported) == len(TIDY) + 4 and not any(reported), reported


def test_messages_say_which_cell_what_differs_and_what_to_do(outcome):
    _, cases, _ = outcome
    number, long, figure = (
        list(PLANTED).index(kind) + 2
        for kind in ("number", "one long line more", "figure")
    )
    message = cases["90_planted", f"In [{number}]"]
    assert f"90_planted.ipynb, In [{number}] 90-{number:03d}: " in message
    assert "\n-5\n+6\n" in message and "make refresh NB=90" in message
    assert "\x1b" not in message and "The cell:\n2 + 4" in message
    assert len(cases["90_planted", f"In [{long}]"]) < 4000, "nobody reads a whole view"
    drawn = cases["90_planted", f"In [{figure}]"]
    assert re.search(r"most, by \d+ of 255, at \d+ pixels from the left and \d+", drawn)
    drawn = cases["92_elsewhere", f"In [{list(ELSEWHERE).index('figure') + 2}]"]
    assert re.search(r"RMS [\d.]+ over the figure \(limit 2\), [\d.]+ in the", drawn)
    assert re.search(r"worst tile \(limit 20\), \d+ pixels from the left", drawn)
    assert re.search(r"slowest: 90-\d+ [\d.]+ s", cases["90_planted", "budget"])


def test_an_alt_text_alone_is_compared():
    """The alt text of an output stands in its metadata, which nbval does not read."""
    dot = io.BytesIO()
    Image.new("RGB", (2, 2)).save(dot, format="png")
    data = {"image/png": base64.b64encode(dot.getvalue()).decode()}
    old, new = ([{"data": data, "metadata": {"alt": alt}}] for alt in ("up", "down"))
    messages = list(figure_problems(new, old, "", "90", Path()))
    assert messages == ["the alt text of figure 1 differs: - stored, + now\n-up\n+down"]
    assert list(figure_problems(old, old, "", "90", Path())) == []


def test_a_changed_figure_is_written_beside_the_old_one(outcome):
    _, cases, printed = outcome
    cell = list(PLANTED).index("figure") + 2
    message = cases["90_planted", f"In [{cell}]"]
    path = Path(re.search(r"old, new, difference: (.*)", message)[1])
    assert path.name == f"90_planted_90-{cell:03d}_figure_1.png"
    pixels = np.asarray(Image.open(path))
    assert pixels.shape[:2] == (600, 3 * 800 + 2 * 4)
    old, new, difference = np.split(pixels[:, : 3 * 400], 3, axis=1)
    assert (old != new).any() and (difference != 255).any()
    assert re.search(
        r"92_elsewhere +compared by tolerance: bits .*, not another", printed
    )


def test_after_a_broken_cell_what_needs_its_names_is_one_line(tmp_path):
    sources = ["import nowhere\nx = 1", *["x + 1"] * 9, "1 / 0"]
    write_notebook(tmp_path / "90_breaks.ipynb", sources)
    _, cases, printed = run_pytest(tmp_path)
    broken = [name for (_, name), message in cases.items() if "Error" in message]
    assert broken == ["In [1]", "In [11]"], printed
    assert "9 skipped" in printed and printed.count("NameError") == 0


@pytest.mark.long
def test_cells_that_need_the_trained_model_run_where_it_is(tmp_path):
    write_notebook(tmp_path / "90_needs.ipynb", ["1 / 0"], ["trained-model"])
    _, cases, printed = run_pytest(tmp_path, COURSE_MODELS=str(tmp_path))
    assert "1 skipped" in printed and not cases["90_needs", "In [1]"]
    if trained_model():
        _, cases, _ = run_pytest(tmp_path)
        assert "ZeroDivisionError" in cases["90_needs", "In [1]"]


def test_memory_of_a_process_and_its_children_is_seen():
    child = "held = bytearray(300 * 2**20); sum(range(10**8))"
    run = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", run])
    watch = plugin.Watch(process.pid)
    process.wait()
    seconds, memory = watch.stop()
    assert memory > 0.29
    assert seconds > 0.5


@pytest.mark.long
def test_a_cell_that_hangs_is_stopped(tmp_path):
    write_notebook(tmp_path / "90_hangs.ipynb", ["import time\ntime.sleep(90)"])
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    command += ["--nbval-cell-timeout=5", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=80)
    assert "Timeout of 5 seconds exceeded" in done.stdout
