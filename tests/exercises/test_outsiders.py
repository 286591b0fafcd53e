"""Answers whose authors had not seen the banks are judged as they were before.

`outsiders.jsonl` has an answer a line: its exercise, what its author meant (`kind`,
`why`, `where` it shows), the `verdict` and the `mistake` that the judge must give, and
the source. `README.md` says where they come from. A right answer that is refused, or a
wrong one that passes, carries the reason as `undecided`.
"""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from named_mistakes import examine
from tests.support.bank import BANK, BANKS

ROOT = Path(__file__).parents[2]
LINES = Path(__file__).with_name("outsiders.jsonl").read_text("utf-8").splitlines()
NOTEBOOK = {exercise.name: nb for nb, bank in BANKS.items() for exercise in bank}
ANSWERS = defaultdict(list)
for line in LINES:
    ANSWERS[NOTEBOOK[json.loads(line)["exercise"]]].append(json.loads(line))


def complaints(answers):
    """The answers that are judged in another way than their lines say."""
    misjudged = []
    for answer in answers:
        names = {}
        exec(compile(answer["answer"], answer["name"], "exec"), names)
        report = examine(BANK[answer["exercise"]], names[answer["name"]])
        if (report.status, report.mistake) != (answer["verdict"], answer["mistake"]):
            misjudged.append(f"{answer['name']}: {answer['why']} Now {report.text}")
    return misjudged


def changed_notebooks():
    """The numbers of the banks that differ from the last commit."""
    changed = ["git", "diff", "--name-only", "HEAD", "--", "notebooks/exercises"]
    new = ["git", "ls-files", "--others", "--", "notebooks/exercises"]
    paths = []
    for command in (changed, new):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        paths += done.stdout.split()
    return {Path(path).name[2:4] for path in paths if path.endswith(".py")}


@pytest.mark.long
@pytest.mark.parametrize("number", BANKS)
def test_outside_answers_are_judged_as_before(number, float64):
    assert complaints(ANSWERS[number]) == []


def test_outside_answers_to_changed_banks_are_judged_as_before(float64):
    for number in changed_notebooks() & ANSWERS.keys():
        assert complaints(ANSWERS[number]) == []


def test_each_line_fits_the_banks():
    for answer in map(json.loads, LINES):
        known = {mistake.name for mistake in BANK[answer["exercise"]].mistakes}
        assert answer["mistake"] is None or answer["mistake"] in known, answer["name"]
        as_meant = (answer["kind"] == "right") == (answer["verdict"] == "right")
        assert as_meant or answer["undecided"], answer["name"]
