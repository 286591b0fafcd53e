"""Numbers in sentences and alt texts are those of the cells beside them.

Those that no cell has (sizes of published models, what a reader works out, results of
recorded runs) stand in quoted_numbers.txt, a line for each notebook.
"""

from pathlib import Path

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS, texts
from tests.support.sentences import unsupported_numbers, wrong_units
from tools.notebook_rules import ROOT

LIST = Path(__file__).with_name("quoted_numbers.txt")
QUOTED = {
    line.split()[0]: set(line.split()[1:])
    for line in LIST.read_text("utf-8").splitlines()
}
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("notebooks/book/*.md")]


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_number_in_a_sentence_stands_in_a_cell_beside_it(number):
    quoted = QUOTED.get(number, set())
    expect_none(
        f"{cell}: no cell beside it gives {one}, after {before!r}; correct it, or add "
        f"it to {LIST.name}"
        for cell, one, before in unsupported_numbers(NOTEBOOKS[number])
        if one not in quoted
    )


def test_a_loss_is_in_nats_and_per_byte_in_bits():
    prose = [text for number in NOTEBOOKS for text in texts(number)]
    cells = [cell for notebook in NOTEBOOKS.values() for cell in notebook["cells"]]
    prose += [alt for cell in cells for alt in cell["metadata"].get("alt", ())]
    prose += [path.read_text("utf-8") for path in PAGES]
    expect_none(wrong for text in prose for wrong in wrong_units(text))
