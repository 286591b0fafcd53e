"""What a session remembers and shows: check, hint, case, solution and progress."""

import inspect
import json
import re
from pathlib import Path

import pytest
import torch

from named_mistakes import (
    Exercise,
    case,
    check,
    examine,
    hint,
    memory,
    progress,
    session,
    solution,
)
from named_mistakes.pasting import pasteable
from tests.support.bank import BANK, BANKS

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
pytestmark = pytest.mark.usefixtures("fresh_session", "remembering")


def test_check_hint_and_progress_remember(capsys):
    progress()
    assert capsys.readouterr().out.startswith(f"= 0 of {len(BANK)} right\n")
    first, second, *_ = BANK["attention.weights"].steps
    for _ in range(2):  # before a try it says only how to begin
        hint("attention.weights")
        out = capsys.readouterr().out
        assert first in out and second not in out
    wrong = BANK["attention.weights"].mistakes[0]
    check("attention.weights", wrong.function)
    assert capsys.readouterr().out.startswith(f"✗ attention.weights: {wrong.name}\n")
    steps = [wrong.more, *BANK["attention.weights"].steps]
    for place in (0, 1, 2, 3, 3):
        hint("attention.weights")
        out = capsys.readouterr().out
        assert f"hint {place + 1} of 4\n  {steps[place]}\n" in out
    check("backbone.forward", BANK["backbone.forward"].stages[2][1])
    hint("backbone.forward")
    assert "hint 2 of " in capsys.readouterr().out, "it begins where the answer is"
    check("attention.weights", torch.nn.Softmax(dim=-1))
    assert capsys.readouterr().out.startswith("✓ attention.weights: right\n")
    progress()
    out = capsys.readouterr().out
    assert out.startswith(f"= 1 of {len(BANK)} right\n")
    assert re.search(r"^    01_attention.ipynb  +1 +– +3$", out, re.MULTILINE)


def test_progress_is_reported_by_notebook(capsys):
    check("attention.weights", torch.nn.Softmax(dim=-1))
    check("attention.context", torch.add)
    capsys.readouterr()
    progress("01")
    assert capsys.readouterr().out == (
        "= 01: 1 of 4 right\n"
        "    exercise             tries\n"
        "    ○ attention.scores       –\n"
        "    ✓ attention.weights      1\n"
        "    ✗ attention.context      1\n"
        "    ○ attention.look_up      –\n"
    )
    progress("more")
    assert "○ attention.cosine" in capsys.readouterr().out
    for same in (1, "1", "01_attention"):
        progress(same)
        assert capsys.readouterr().out.startswith("= 01: 1 of 4 right")


@pytest.mark.parametrize(
    "name, got",
    [(None, "None"), (torch.softmax, "a function"), (torch.ones(30, 30), "30×30")],
)
def test_what_is_not_a_name_is_described_in_one_line(name, got):
    with pytest.raises(TypeError, match=f"must be a string, got {got}$"):
        check(name, torch.softmax)


@pytest.mark.parametrize("number", BANKS)
def test_progress_goes_in_the_order_of_the_notebook(number, capsys):
    progress(number)
    names = re.findall(r"[○✓✗] (\S+)", capsys.readouterr().out)
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    source = "".join(line for cell in cells for line in cell["source"])
    assert names == re.findall(r'^check\("([\w.]+)"', source, re.MULTILINE)


def test_what_was_right_stays_right(capsys):
    check("attention.weights", torch.nn.Softmax(dim=-1))
    check("attention.weights", lambda scores: scores)
    capsys.readouterr()
    progress("01")
    assert "✓ attention.weights" in capsys.readouterr().out


@pytest.fixture
def working_copies(tmp_path):
    """A folder whose pyproject.toml says that progress is kept in it."""
    settings = f'banks = "{NOTEBOOKS}/exercises"\nprogress = "progress.json"\n'
    (tmp_path / "pyproject.toml").write_text(f"[tool.named_mistakes]\n{settings}")


@pytest.mark.usefixtures("working_copies")
def test_two_kernels_add_to_what_is_remembered(monkeypatch, tmp_path):
    check("attention.weights", torch.nn.Softmax(dim=-1))
    assert len(list(tmp_path.iterdir())) == 1  # it writes in working copies only
    monkeypatch.chdir(tmp_path)
    wrong = BANK["attention.scores"].mistakes[0]
    kernels = {}, {}
    for kernel in (0, 1, 0, 1):
        monkeypatch.setattr(memory, "_entries", kernels[kernel])
        check("attention.scores", wrong.function)
        check("attention.context", torch.matmul)
    check("attention.context", torch.add)
    monkeypatch.setattr(memory, "_entries", {})
    assert memory.remembered() == {
        "attention.scores": {"right": False, "tries": 4, "mistakes": {wrong.name: 4}},
        "attention.context": {"right": True, "tries": 1, "mistakes": {}},
    }
    stored = json.loads((tmp_path / "progress.json").read_text())
    assert stored == {"version": 2, "exercises": memory.remembered()}
    assert len(list(tmp_path.iterdir())) == 2, "nothing unfinished, nothing put aside"


OLD = '{"attention.weights": true, "attention.scores": false, "clinic.case 0": 7}'
EDITED = '{"attention.weights": true, "attention.context": null, "by.hand": "yes"}'
MIXED = (
    '{"version": 2, "exercises": {"attention.look_up": 0.5}, "attention.weights": true}'
)
BROKEN = ['{"version": 3}', "[]", "", "<<<<<<< HEAD", "[" * 10**5]


@pytest.mark.usefixtures("working_copies")
@pytest.mark.parametrize(
    "text, right",
    [(text, 2) for text in (OLD, EDITED, MIXED)] + [(text, 1) for text in BROKEN],
)
def test_whatever_the_file_holds_a_check_goes_on_and_nothing_is_lost(
    text, right, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    file, old = tmp_path / "progress.json", tmp_path / "progress.old.json"
    file.write_text(text)
    progress("01")
    check("attention.context", torch.matmul)
    monkeypatch.setattr(memory, "_entries", {})  # another kernel
    capsys.readouterr()
    progress("01")
    assert capsys.readouterr().out.startswith(f"= 01: {right} of 4 right\n")
    progress("16")
    assert ("7 points: clinic.case 0" in capsys.readouterr().out) == (text == OLD)
    assert old.read_text() == text and json.loads(file.read_text())["version"] == 2


@pytest.mark.parametrize("name", BANK)
def test_the_solution_is_a_short_right_answer(name, capsys):
    solution(name)
    assert "Try first" in capsys.readouterr().out
    solution(name)
    reference = inspect.unwrap(BANK[name].reference)
    source = inspect.getsource(reference)
    assert not reference.__name__.startswith(("_", "<")), "a name that can be read"
    assert len(source.splitlines()) <= 20 and '"""' in source
    assert f"    def {reference.__name__}(" in capsys.readouterr().out


FIRST = {bank[0].name for bank in BANKS.values()}  # the others at night


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.long] * (n not in FIRST)) for n in BANK],
)
def test_a_solution_can_be_pasted(name):
    space, reference = {}, inspect.unwrap(BANK[name].reference)
    exec(pasteable(reference), space)
    answer = space[reference.__name__]
    assert not inspect.get_annotations(answer)
    answer = answer() if BANK[name].predicts else answer
    assert examine(BANK[name], answer).status == "right"


def test_after_a_try_the_solution_needs_no_second_call(capsys):
    check("attention.weights", lambda scores: scores)
    capsys.readouterr()
    solution("attention.weights")
    assert "def normalized_powers(scores" in capsys.readouterr().out


FORBIDDEN = {  # by the prompts
    "attention.weights": "softmax",
    "heads.split": "rearrange",
    "heads.merge": "rearrange",
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_the_solution_keeps_to_the_prompt(name):
    assert FORBIDDEN[name] not in inspect.getsource(BANK[name].reference)


def test_the_case_that_differs_can_be_had():
    def first_rows_only(scores):
        return scores.softmax(-1) if scores.ndim == 2 else scores

    check("attention.weights", first_rows_only)
    (scores,) = case("attention.weights")
    assert scores.shape == (2, 3, 5)
    report = session._last["attention.weights"]
    assert "Asked with scores 2×3×5." in report.lines
    scores.zero_()
    assert case("attention.weights")[0].any()  # made anew


def test_the_case_is_the_one_that_the_report_shows(capsys):
    def overwrites_a_batch(scores):
        return (scores.sub_(0) if scores.ndim == 2 else scores.sub_(1)).softmax(-1)

    for answer, status in (
        (overwrites_a_batch, "changed"),
        (lambda s: s.softmax(dim=1), "mistake"),
    ):
        check("attention.weights", answer)
        report = session._last["attention.weights"]
        assert (report.status, report.case) == (status, 1), report.text
        assert case("attention.weights")[0].shape == (2, 3, 5)


def test_the_example_in_the_book_runs_and_its_mistake_is_named(capsys):
    page = Path(__file__).parents[2] / "notebooks" / "book" / "exercises.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    (expected,) = re.findall(r"```text\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names = {}
    exec(compile(code, page.name, "exec"), names)
    assert capsys.readouterr().out == expected
    exercise = names["exercise"]
    for right in (exercise.reference, lambda v: torch.stack([x.norm() for x in v])):
        assert examine(exercise, right).status == "right"
    (mistake,) = exercise.mistakes
    assert examine(exercise, mistake.function).mistake == mistake.name
    fields = set(re.findall(r"(\w+)=", code)) & {*Exercise.__dataclass_fields__}
    assert {"name", "statement", "cases", "mistakes", "hint"} <= fields
