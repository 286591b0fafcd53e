"""The command that judges a function of any file, and what it says of famous code."""

import importlib.metadata
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from named_mistakes import command
from named_mistakes.session import find
from tools.notebook_rules import ROOT

PAGE = (ROOT / "notebooks" / "book" / "dialects.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`" in line
]
LINES = Path(__file__).with_name("dialects.jsonl").read_text("utf-8").splitlines()
DIALECTS = [json.loads(line) for line in LINES]
LAYERS = """
import sys, subprocess
import torch

def right(scores, mask):
    return scores.masked_fill(~mask, float("-inf")).softmax(-1).nan_to_num()

def even(scores, mask):
    return scores.masked_fill(~mask, -1e30).softmax(-1)

def swapped(mask, scores):
    return right(scores, mask)

def talks(scores, mask):
    print("hello")
    return right(scores, mask)

def leaves(scores, mask):
    sys.exit(3)

def writes(scores, mask):
    scores[(~mask).expand(scores.shape)] = float("-inf")
    return scores.softmax(-1).nan_to_num()

class Softmax(torch.nn.Module):
    def forward(self, scores, mask):
        return right(scores, mask)

depth = 3
"""


@pytest.mark.parametrize("row, asked", list(zip(ROWS, DIALECTS, strict=False)))
def test_the_page_says_what_installed_code_does(row, asked):
    _, where, verdict, _ = row
    report = command.judge(find(asked["exercise"]), asked["target"], asked["call"])
    assert report.title == f"{asked['exercise']}: {verdict}", report.text
    found = command.load(asked["target"])
    package = asked["target"].split(".")[0].split(":")[0]
    said = re.search(rf"{package} ([\d.]+\d)", PAGE)[1]
    installed = importlib.metadata.version(package).split("+")[0]
    if not inspect.isbuiltin(found) and installed == said:
        (file, line), name = re.search(r"`(.*):(\d+)`", where).groups(), found.__name__
        there = inspect.getsourcefile(found), inspect.getsourcelines(found)[1]
        assert there[0].endswith(file) and there[1] == int(line), there
        assert name in where or name in asked["target"]


def test_each_row_of_installed_code_is_run():
    dated = [row for row in ROWS if "@" in row[1] or "the same" in " ".join(row[:2])]
    assert len(ROWS) - len(dated) == len(DIALECTS) >= 12


@pytest.fixture
def layers(tmp_path):
    (tmp_path / "layers.py").write_text(LAYERS)
    return tmp_path / "layers.py"


@pytest.mark.parametrize(
    "name, call, status, words",
    [
        ("right", None, "right", "right"),
        ("even", None, "variant", "a known variant: an empty row is even"),
        ("swapped", "f(mask, scores)", "right", "right"),
        ("Softmax", "f()(scores, mask)", "right", "right"),
        ("Softmax.forward", "f(None, scores, mask)", "right", "right"),
        ("talks", None, "right", "hello"),
        ("leaves", None, "error", "SystemExit"),
        ("writes", None, "changed", "in place"),
        ("right", "f(mask)", "error", "TypeError"),
    ],
)
def test_a_function_of_a_file_is_judged(layers, name, call, status, words):
    report = command.judge(find("masks.weights"), f"{layers}:{name}", call)
    assert report.status == status and words in report.text, report.text
    assert "hint(" not in report.text


@pytest.mark.parametrize(
    "target, call, words",
    [
        ("layers.py:rihgt", None, "has no 'rihgt'; did you mean right"),
        ("layers.py:Softmax", None, "Softmax is a class: say how to call it"),
        ("layers.py:depth", None, "this is of type int"),
        ("layers.py:right", "f(scores,", "--call: "),
        ("layers.py", None, "name a function as FILE.py:FUNCTION"),
        ("none.py:f", None, "there is no file"),
        ("stops.py:f", None, "does not import: ModuleNotFoundError"),
        ("leaves.py:f", None, "does not import: SystemExit"),
        ("broken.py:f", None, "does not import: SyntaxError"),
    ],
)
def test_what_cannot_be_judged_is_said_in_a_sentence(layers, target, call, words):
    files = {
        "stops": "import nothing_of_this_name",
        "leaves": "exit(1)",
        "broken": "f(",
    }
    for name, text in files.items():
        (layers.parent / f"{name}.py").write_text(text)
    with pytest.raises(command.RefusedError) as refused:
        command.judge(find("masks.weights"), str(layers.parent / target), call)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def run(*arguments, cwd=ROOT):
    words = [sys.executable, "-m", "named_mistakes.command", *map(str, arguments)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True)


@pytest.mark.slow
def test_the_command_says_it_by_its_exit_status_and_leaves_nothing_running(layers):
    wrong = run("try", "masks.weights", f"{layers}:even", "--json")
    assert wrong.returncode == 1 and json.loads(wrong.stdout)["status"] == "variant"
    endless = layers.with_name("endless.py")
    started = "[sys.executable, '-c', 'import time; time.sleep(999)', 'a mark']"
    endless.write_text(
        f"import subprocess, sys\nsubprocess.Popen({started})\nwhile 1: 0"
    )
    late = run("try", "masks.weights", f"{endless}:f", "--seconds", 12)
    assert late.returncode == 2 and "has no end in 12 seconds" in late.stderr
    marks = [
        p
        for p in psutil.process_iter(["cmdline"])
        if "a mark" in (p.info["cmdline"] or ())
    ]
    assert not [p for p in marks if p.status() != psutil.STATUS_ZOMBIE]
    alone = run("try", "masks.weights", f"{layers}:right", cwd=layers.parent)
    assert alone.returncode == 2 and "--banks FOLDER" in alone.stderr
    unknown = run("try", "masks.wieghts", f"{layers}:right")
    assert unknown.returncode == 2 and "did you mean masks.weights" in unknown.stderr
