"""What is asked of the notebooks together; each alone is run and compared by nbval."""

import json
import re
from pathlib import Path

import pytest

from nbval_strict.arithmetic import PINNED
from nbval_strict.plugin import expect_none
from tests.support.notebook_rules import ROOT, code_cells, joined, style, style_problems

PATHS = sorted((ROOT / "notebooks").rglob("*.ipynb"))
NOTEBOOKS = {path.stem: json.loads(path.read_text("utf-8")) for path in PATHS}
# How many cells may run without being compared: trainings and measured times.
IGNORED = {
    "00": 1,
    "07": 1,
    "08": 1,
    "09": 1,
    "10": 1,  # a real tokenizer, where there is one
    "12": 2,
    "13": 6,
    "14": 1,
    "17": 3,
}


def test_there_are_notebooks_and_all_are_in_reading_order():
    assert PATHS
    for path in PATHS:
        assert path.parent == ROOT / "notebooks"
        assert re.fullmatch(r"\d\d_[a-z0-9_]+", path.stem), path.name
    numbers = [path.name[:2] for path in PATHS]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_style(name):
    expect_none(style_problems(style(NOTEBOOKS[name])))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_outputs_are_stored_with_the_pinned_arithmetic(name):
    pinned = " ".join(f"{variable}={value}" for variable, value in PINNED.items())
    made_with = NOTEBOOKS[name]["metadata"].get("made_with", {})
    assert made_with.get("pinned") == pinned, "store them by `make refresh`, on x86-64"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_few_cells_are_ignored(name):
    ignored = [
        cell["id"]
        for cell in code_cells(NOTEBOOKS[name])
        if "nbval-ignore-output" in cell["metadata"].get("tags", [])
    ]
    allowed = IGNORED.get(name[:2], 0)
    assert len(ignored) == allowed, f"not compared: {ignored}; {allowed} may be so"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_lead_to_files(name):
    link = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
    dead = []
    for cell in NOTEBOOKS[name]["cells"]:
        if cell["cell_type"] == "markdown":
            for target in link.findall(joined(cell["source"])):
                local = not re.match(r"https?:|mailto:", target)
                if local and not (ROOT / "notebooks" / target).exists():
                    dead.append(f"{cell['id']} links to {target}, which is not there")
    expect_none(dead)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_cell_installs_or_reaches_for_the_shell(name):
    for cell in code_cells(NOTEBOOKS[name]):
        for line in joined(cell["source"]).splitlines():
            assert not re.match(r"\s*[!%]", line), line


def test_working_copies_are_not_tested(pytestconfig):
    assert pytestconfig.getini("testpaths") == ["tests", "notebooks"]
    assert not any(Path(path).is_relative_to(ROOT / "work") for path in PATHS)
    assert pytestconfig.option.nbval and not pytestconfig.option.nbval_lax
