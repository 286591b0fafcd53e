"""A notebook is one sitting whose opening says how long, as is the first afternoon."""

import re

import pytest

from tests.support.notebook_code import NOTEBOOKS, texts
from tools.notebook_rules import ROOT, joined, minutes

PAGE = (ROOT / "notebooks" / "book" / "first_afternoon.md").read_text("utf-8")
STOPS = re.findall(r"^\| \d \| .*?\(\.\./(\d\d)_\S+?\) \| (\d+) \|", PAGE, re.M)
LONGER = {"13": 120, "15": 120}
HERE = re.compile(r"^\*First afternoon, (\d) of (\d)\.\*", re.M)


@pytest.mark.parametrize("number", [n for n in NOTEBOOKS if n.isdigit()])
def test_the_opening_says_how_long_the_notebook_takes(number):
    need = minutes(NOTEBOOKS[number]["cells"])
    assert need < LONGER.get(number, 90) + 2.5, "more than one sitting"
    stated = re.search(r"\*\*It takes\*\*\s+about\s+(\d+)", "\n".join(texts(number)))
    assert abs(int(stated[1]) - need) <= 2.6, f"about {5 * round(need / 5)} minutes"


def stop_of(number):
    """The cells of a stop: the opening, and the sections up to the mark."""
    cells = []
    for cell in NOTEBOOKS[number]["cells"]:
        text = joined(cell["source"])
        mark = HERE.search(text) if cell["cell_type"] == "markdown" else None
        if mark:
            before = {"cell_type": "markdown", "source": text[: mark.start()]}
            return [*cells, before], mark
        cells.append(cell)
    raise AssertionError(f"notebook {number} has no mark of the first afternoon")


def test_the_first_afternoon_leads_from_stop_to_stop_in_two_and_a_half_hours():
    total = 0
    for place, (number, stated) in enumerate(STOPS):
        cells, mark = stop_of(number)
        assert mark.groups() == (str(place + 1), str(len(STOPS)))
        after = mark.string[mark.end() :].split("\n\n")[0]
        following = [*(number for number, _ in STOPS), "01"][place + 1]
        assert f"({following}_" in after, "it leads elsewhere"
        total += minutes(cells)
        assert abs(minutes(cells) - int(stated)) <= 2.6, number
    assert len(STOPS) == 6 and total <= 150
