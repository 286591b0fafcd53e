"""No notebook tells an answer above its question's run; each early one is noticed."""

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS
from tests.support.spoilers import spoilers

QUESTION = "## 1 · Waves\n\n*Predict.* How many waves will the curve show?"
DEFINED = 'def my_waves(length, width):\n    """Waves."""\n\n\n'


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_no_answer_stands_above_its_run(number):
    expect_none(spoilers(NOTEBOOKS[number]))


def text(source):
    return {"cell_type": "markdown", "id": "t", "metadata": {}, "source": source}


def code(source, folded=False):
    metadata = {"jupyter": {"source_hidden": True}} if folded else {}
    cell = {"cell_type": "code", "id": "c", "metadata": metadata, "source": source}
    return cell | {"outputs": ["something"]}


EARLY = {
    "alt in the call": ([code("plots.curves(x, axes, alt='Two waves.')")], "alt text"),
    "alt in a variable": ([code("alt = 'Two waves.'\nplots.curves(x)")], "alt text"),
    "a title": (
        [text(QUESTION), code("plots.curves(x, axes, 'waves, twice')")],
        "'twice' of 'waves, twice'",
    ),
    "a title in a variable": (
        [text(QUESTION), code("title = 'waves, twice'\nplots.curves(x, axes, title)")],
        "'twice' of 'waves, twice'",
    ),
    "a title of a head": (
        [text(QUESTION), code("plots.attention_map(w, q, k, title=['it fades'])")],
        "'fades'",
    ),
    "a number in a title": (
        [text(QUESTION), code("plots.bars(x, y, axes, title='3 waves')")],
        "'3' of '3 waves'",
    ),
    "a title of a view": (
        [text(QUESTION), code("show_rotation(title='It turns.')")],
        "'turns'",
    ),
    "an assert below the figure": (
        [text(QUESTION), code("plots.curves(x, axes, 'waves')\nassert count == 2")],
        "asserts the answer",
    ),
    "asserts in a loop": (
        [text(QUESTION), code("plots.curves(x, axes)\nfor y in x:\n    assert y > 0")],
        "asserts the answer",
    ),
    "an assert after a silent cell": (
        [text(QUESTION), code("x = 1") | {"outputs": []}, code("assert x\nprint(x)")],
        "asserts the answer",
    ),
    "our solution": (
        [
            code(DEFINED + "check('a.waves', my_waves)"),
            text("Ours:"),
            code("def waves(length, width):\n    return 2"),
        ],
        "prints the solution of a.waves",
    ),
    "our class": (
        [
            code("class Mine:\n    def go(self, x): pass\n\ncheck('a.go', Mine)"),
            code("class Ours:\n    def go(self, x):\n        return x"),
        ],
        "prints the solution of a.go",
    ),
    "the number asked for": (
        [
            code("guess = None\ncheck('llama.hidden', guess)"),
            text("The same number of weights: 2,048."),
        ],
        "tells the answer of llama.hidden",
    ),
}


@pytest.mark.parametrize("kind", EARLY)
def test_an_early_answer_is_reported(kind):
    cells, message = EARLY[kind]
    reported = list(spoilers({"cells": cells}))
    assert len(reported) == 1 and message in reported[0]


LATE = {
    "an assert in a folded cell": [
        text(QUESTION),
        code("plots.curves(x, axes, 'waves')"),
        code("assert count == 2", folded=True),
    ],
    "a title without a question": [text("Look."), code("plots.curves(x, axes, 'up')")],
    "a folded solution": [
        code(DEFINED + "check('a.waves', my_waves)"),
        code("def waves(length, width):\n    return 2", folded=True),
    ],
    "another function": [
        code(DEFINED + "check('a.waves', my_waves)"),
        code("def particles(count):\n    return 2"),
    ],
    "the number, one section on": [
        code("guess = None\ncheck('llama.hidden', guess)"),
        text("## 2 · Width\n\nThe same number of weights: 2,048."),
    ],
}


@pytest.mark.parametrize("kind", LATE)
def test_what_stands_in_its_place_is_no_spoiler(kind):
    expect_none(spoilers({"cells": LATE[kind]}))
