"""What is asked of the notebooks together; each alone is run and compared by nbval."""

import re

import pytest

from nbval_strict.arithmetic import PINNED
from nbval_strict.plugin import expect_none
from tests.support.bank import BANK, BANKS
from tests.support.notebook_code import NOTEBOOKS, code_cells
from tools.notebook_rules import ROOT, is_ignored, style, style_problems

# How many cells may run without being compared: trainings and measured times.
IGNORED = {"08": 1, "12": 2, "14": 2}
IGNORED |= {"10": 1, "11": 2}  # a real tokenizer, where there is one


def test_there_are_notebooks_and_all_are_in_reading_order():
    paths = list((ROOT / "notebooks").rglob("*.ipynb"))
    assert len(paths) == len(NOTEBOOKS) > 0, "two have the same number"
    for path in paths:
        assert path.parent == ROOT / "notebooks"
        assert re.fullmatch(r"\d\d_[a-z0-9_]+|more_practice", path.stem), path.name


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_style(name):
    expect_none(style_problems(style(NOTEBOOKS[name])))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_escape_became_another_character(name):
    cells = NOTEBOOKS[name]["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    assert not re.findall(r"[\x00-\x09\x0b-\x1f]", text), (
        "such as \\f of \\frac: a form feed"
    )


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_stored_with_the_pinned_arithmetic(name):
    pinned = " ".join(f"{variable}={value}" for variable, value in PINNED.items())
    made_with = NOTEBOOKS[name]["metadata"].get("made_with", {})
    assert made_with.get("pinned") == pinned, "store them by `make refresh`, on x86-64"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_few_cells_are_ignored(name):
    ignored = [c["id"] for c in NOTEBOOKS[name]["cells"] if is_ignored(c)]
    allowed = IGNORED.get(name, 0)
    assert len(ignored) == allowed, f"not compared: {ignored}; {allowed} may be so"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_cell_installs_or_reaches_for_the_shell(name):
    for source, _ in code_cells(name):
        assert not re.search(r"^\s*[!%].*", source, re.MULTILINE), source


@pytest.mark.parametrize("number", BANKS)
def test_each_exercise_is_asked_as_the_bank_asks_it_and_not_tried_yet(number):
    asked = set()
    known = {exercise.name for exercise in BANKS[number]}
    for source, outputs in code_cells(number) + code_cells("mo"):
        shown = "".join(str(output.get("data")) for output in outputs)
        for name, answer in re.findall(
            r"""check\(\s*["']([\w.]+)["'], (\w+)""", source
        ):
            if name not in known:
                continue
            asked.add(name)
            assert f"○ {name}: not tried yet" in shown
            if match := re.search(rf"^def {answer}\((.*?)\)", source, re.M | re.S):
                takes = re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", match[1])
                assert takes == list(BANK[name].takes), name
    assert asked == known


def test_working_copies_are_not_tested(pytestconfig):
    assert pytestconfig.getini("testpaths") == ["tests", "notebooks"]
    assert pytestconfig.option.nbval and not pytestconfig.option.nbval_lax


def test_more_practice_goes_in_the_order_of_the_course():
    names = re.findall(r'check\("([\w.]+)"', str(code_cells("mo")))
    number = {exercise.name: nb for nb, bank in BANKS.items() for exercise in bank}
    numbers = [number[name] for name in names]
    assert numbers and numbers == sorted(numbers)
