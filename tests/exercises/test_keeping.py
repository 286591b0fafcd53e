"""What `check` found right is kept in a file, judged again, and used in its place."""

import linecache
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from course_utils import RMSNorm, mine, parts
from named_mistakes import check, keeping, memory, progress
from tests.support.all_parts import SETTINGS, STYLES, answers, in_a_process
from tests.support.bank import BANK
from tools.working_copies import KEEP

pytestmark = pytest.mark.usefixtures("fresh_session", "float64")
NORM = "llama.rms_norm"
RIGHT = """
import torch
from torch import Tensor
HALF = 0.5
def root(x): return x**HALF
def my_norm(x: Tensor, scale, eps):
    return scale * x / root((x * x).mean(-1, True) + eps)
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder `mine` of working copies."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(keeping.SWITCH, "1")
    return tmp_path / "mine"


@pytest.fixture
def cell(monkeypatch):
    """Run a source as IPython runs a cell; return what it defines."""
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)

    def run(source):
        name = f"ipykernel_1/{len(source)}{hash(source)}.py"
        linecache.cache[name] = len(source), None, source.splitlines(True), name
        exec(compile(source, name, "exec"), vars(notebook))
        return vars(notebook)

    return run


def test_a_right_answer_is_kept_with_what_it_needs(kept, cell, capsys):
    check(NORM, cell(RIGHT)["my_norm"])
    assert "Not kept" not in capsys.readouterr().out
    text = (kept / "llama.rms_norm.py").read_text("utf-8")
    assert text.startswith("# llama.rms_norm: Gives x “b t m”")
    assert "from torch import Tensor\n" in text and "HALF = 0.5\n" in text
    x, scale = torch.randn(2, 3, 4), torch.randn(4)
    assert mine[NORM].__code__.co_filename == str(kept / "llama.rms_norm.py")
    torch.testing.assert_close(
        mine[NORM](x, scale, 0.1), BANK[NORM].reference(x, scale, 0.1)
    )
    assert str(mine) == f"1 of {len(parts.parts())} parts are yours"
    assert [path.name for path in kept.iterdir()] == ["llama.rms_norm.py"]
    progress()
    assert "  Yours: llama.rms_norm.\n" in capsys.readouterr().out


def test_nothing_is_kept_elsewhere(kept, cell, monkeypatch, tmp_path):
    monkeypatch.delenv(keeping.SWITCH)
    check(NORM, cell(RIGHT)["my_norm"])
    monkeypatch.setenv(keeping.SWITCH, "1")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    check(NORM, cell(RIGHT)["my_norm"])
    assert not kept.exists() and mine[NORM] is BANK[NORM].reference
    assert KEEP.keys() == {keeping.SWITCH}, "`make lab` sets it"


NOT_PORTABLE = {
    "large = torch.ones(30, 30)\ndef f(*a): return my_norm(*a) * large[0, 0]": (
        "`large` is a Tensor from outside of the function: make `large` an argument"
    ),
    "def made(root):\n    return lambda *a: my_norm(*a) + 0 * root\nf = made(0.0)": (
        "`root` means two different things in it: rename one of them"
    ),
    "zero = torch.zeros((), dtype=torch.float64)\n"
    "def f(*a): return my_norm(*a) + torch.dot(zero[None], a[0][0, 0, :1])": (
        "in float32 it is not right"
    ),
    "class F:\n    def __init__(self): self.n = 1\n"
    "    def __call__(self, *a): return my_norm(*a)\nf = F()": "no function but a F",
    "exec('def f(*a): return my_norm(*a)')": "the source of `f` is not known",
}


@pytest.mark.parametrize("source", NOT_PORTABLE)
def test_what_cannot_be_kept_says_why_and_the_last_one_stays(
    source, kept, cell, capsys
):
    check(NORM, cell(RIGHT)["my_norm"])
    before = (kept / "llama.rms_norm.py").read_text()
    check(NORM, cell(source)["f"])
    assert NOT_PORTABLE[source] in capsys.readouterr().out
    check(NORM, lambda x, scale, eps: x)
    assert (kept / "llama.rms_norm.py").read_text() == before
    assert len([*kept.iterdir()]) == 1


LEFT_ASIDE = {
    b"my own <notes>": "it stops with SyntaxError",
    b"": "it stops with AttributeError",
    b"\xff\xfe\x00": "it stops with SyntaxError",
    b"while True: pass": "it stops with TimeIsUp",
    b"__all__ = ['f']\ndef f(x, scale, eps):\n    while True: pass": "an end",
    b"__all__ = ['f']\ndef f(x, scale): return x": "not right: your function stops",
    b"__all__ = ['f']\nf = 7": "it is not right: the function itself is wanted",
    b"raise SystemExit": "it stops with SystemExit",
}


@pytest.mark.parametrize("text", LEFT_ASIDE)
def test_a_file_that_is_no_answer_is_left_alone(text, kept, monkeypatch):
    monkeypatch.setattr(keeping, "SECONDS", 0.1)
    kept.mkdir()
    path = kept / "llama.rms_norm.py"
    path.write_bytes(text)
    with pytest.warns(UserWarning, match=f"norm.py is left aside.*{LEFT_ASIDE[text]}"):
        assert mine[NORM] is BANK[NORM].reference
    assert path.read_bytes() == text
    path.unlink()
    assert mine[NORM] is BANK[NORM].reference


def test_two_kernels_that_keep_at_once_leave_one_whole_file(kept, cell, monkeypatch):
    answers = [cell(RIGHT.replace("HALF", name))["my_norm"] for name in ("HALF", "R")]
    judged, pids = keeping._judged, iter((1, 2))

    def interrupted(exercise, path, dtype):
        if answers:
            assert keeping.keep(exercise, answers.pop()) == ""
        return judged(exercise, path, dtype)

    monkeypatch.setattr(keeping, "_judged", interrupted)
    monkeypatch.setattr(keeping.os, "getpid", lambda: next(pids))
    assert keeping.keep(BANK[NORM], answers.pop(0)) == ""
    assert [path.name for path in kept.iterdir()] == ["llama.rms_norm.py"]
    assert mine[NORM] is not BANK[NORM].reference


def test_a_folder_that_cannot_be_written_is_named(kept, cell, capsys):
    kept.write_text("a file")  # refused to root, too
    check(NORM, cell(RIGHT)["my_norm"])
    out = capsys.readouterr().out
    assert (
        out.startswith("✓") and "Not kept: mine cannot be written (File exists)." in out
    )
    assert mine[NORM] is BANK[NORM].reference


def test_names_of_files_do_for_every_system():
    names = ["aux.loss", "Aux.loss", "a:b", "a/b", "A.b", "a.b", "com1", "..", "a*b"]
    files = [keeping.file_name(name) for name in names]
    assert len({file.lower() for file in files}) == len(names)
    for file in files:
        assert not {*'<>:"/\\|?*'} & {*file} and file.endswith(".py")
        assert not keeping.RESERVED.match(file)
    assert keeping.file_name(NORM) == "llama.rms_norm.py"


def test_what_was_right_before_it_could_be_kept_is_asked_for_again(kept, capsys):
    memory.remember(NORM, True, None)
    progress("12")
    out = capsys.readouterr().out
    assert "0 of 3 parts are yours." in out
    assert f"Right before answers were kept, so check again: {NORM}." in out


def test_a_part_trains_if_it_is_exact_and_at_most_twice_as_slow(monkeypatch):
    clock, norm = [0.0], BANK[NORM].reference

    def slow(*given):
        clock[0] += 2.5
        return norm(*given)

    x, layer = torch.randn(2, 3, 4), RMSNorm(4)

    def loss(layer):
        clock[0] += 1
        return mine[NORM](x, layer.weight, layer.eps).square().sum()

    verdicts = {
        lambda x, scale, eps: x * norm(x, scale, eps) / x: "trains",
        lambda x, scale, eps: norm(
            x, scale.detach() + 0 * scale, eps
        ): "gives another loss",
        lambda x, scale, eps: norm(x, scale, 0.1): "gives another loss",
        lambda x, scale: x: "stops with TypeError in this model",
        slow: "3.5 times slower",
    }
    monkeypatch.setattr(parts, "time", SimpleNamespace(thread_time=lambda: clock[0]))
    for yours, verdict in verdicts.items():
        found = {BANK[NORM]: (yours, "")}
        monkeypatch.setattr(parts, "kept", lambda one, f=found: f.get(one, (None, "")))
        tried = mine.try_out(layer, loss)
        assert [*tried] == [NORM] and tried[NORM].startswith(verdict)
        trains = verdict == "trains"
        assert mine[NORM] is (yours if trains else norm)
        with torch.no_grad():
            assert mine[NORM] is yours, "it writes"
    mine.only_writes = {}


def test_only_a_part_can_be_asked_for():
    with pytest.raises(ValueError, match="part must be one of 'tokens"):
        mine["llama.hidden"]


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_all_parts_can_be_the_readers_own(style, tmp_path):
    assert "Not kept" not in in_a_process("answer_all", style, tmp_path)
    said = in_a_process("use", style, tmp_path)
    answered = {name for name, *_ in answers(style)} & parts.parts().keys()
    assert style == "outsiders" or answered == parts.parts().keys()
    assert f"{len(answered)} of {len(parts.parts())} parts are yours" in said
    assert "another loss" not in said and "stops with" not in said
    mine, the_packages = re.search(
        r"loss (\d\.\d{4})\d, the package's (.{6})", said
    ).groups()
    assert mine == the_packages
