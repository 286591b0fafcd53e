"""Numbers in sentences and alt texts are those of the cells beside them.

Those that no cell has (sizes of published models, what a reader works out, results of
recorded runs) stand in quoted_numbers.txt, a line for each notebook.
"""

import copy
import random
import re
from pathlib import Path

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS
from tests.support.notebook_rules import ROOT, joined
from tests.support.sentences import figures, swapped_alts, unsupported_numbers

LIST = Path(__file__).with_name("quoted_numbers.txt")
QUOTED = {
    line.split()[0]: set(line.split()[1:])
    for line in LIST.read_text("utf-8").splitlines()
}
DRAWINGS = re.compile(r"!\[([^\]]*)\]\(\.\./images/([^)\s]+)\)")
# Figures of cells whose alt text says little of what is drawn.
UNLIKE = {"06-026"}


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_number_in_a_sentence_stands_in_a_cell_beside_it(number):
    quoted = QUOTED.get(number, set())
    expect_none(
        f"{cell}: no cell beside it gives {one}, after {before!r}; correct it, or add "
        f"it to {LIST.name}"
        for cell, one, before in unsupported_numbers(NOTEBOOKS[number])
        if one not in quoted
    )


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_an_alt_text_fits_its_own_figure(number):
    swapped = set(swapped_alts(figures(NOTEBOOKS[number]))) - UNLIKE
    expect_none(f"{cell}: its alt text fits another figure better" for cell in swapped)


def drawings(number):
    """(file, alt text, words in the drawing) of each drawing that a notebook shows."""
    for cell in NOTEBOOKS[number]["cells"]:
        for alt, name in DRAWINGS.findall(joined(cell["source"])):
            svg = (ROOT / "images" / name).read_text("utf-8")
            yield name, alt, " ".join(re.findall(r">([^<>]+)<", svg))


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_a_drawing_is_of_its_notebook_and_fits_its_alt_text(number):
    pictures = list(drawings(number))
    for name, _, _ in pictures:
        assert name.startswith((f"{number}_", f"here_{number}.")), name
    expect_none(f"{name}: the alt text of another" for name in swapped_alts(pictures))


def altered(text, chance):
    """The text with another digit in one of its numbers."""
    places = [place for place, one in enumerate(text) if one.isdigit()]
    place = chance.choice(places)
    other = chance.choice([one for one in "0123456789" if one != text[place]])
    return text[:place] + other + text[place + 1 :]


def test_most_altered_numbers_are_noticed():
    """Of 200 decimals with one digit changed, how many still stand in a near cell?"""
    chance = random.Random(0)
    noticed = 0
    for _ in range(200):
        number = chance.choice(list(NOTEBOOKS))
        notebook = copy.deepcopy(NOTEBOOKS[number])
        texts = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        decimal = re.compile(r"(?<![\w.,#/-])\d+\.\d+(?![\w.-])")
        cell = chance.choice([c for c in texts if decimal.search(joined(c["source"]))])
        source = joined(cell["source"])
        match = chance.choice(list(decimal.finditer(source)))
        new = altered(match[0], chance)
        cell["source"] = source[: match.start()] + new + source[match.end() :]
        missing = {one for _, one, _ in unsupported_numbers(notebook)}
        noticed += not missing <= QUOTED.get(number, set())
    assert noticed > 140, noticed


def test_most_swapped_alt_texts_are_noticed():
    swaps = noticed = 0
    for notebook in NOTEBOOKS.values():
        pictures = list(figures(notebook))
        for place, (name, alt, about) in enumerate(pictures[1:]):
            before, other, drawn = pictures[place]
            changed = [*pictures[:place], (before, alt, drawn), (name, other, about)]
            changed += pictures[place + 2 :]
            swaps += 1
            noticed += bool(set(swapped_alts(changed)) - UNLIKE)
    assert noticed > 0.7 * swaps, (noticed, swaps)
