"""Cells, asserts, drawings, weights and signatures change only on purpose."""

import difflib
import json
import shutil

import pytest

from course_utils.norms import RMSNorm
from tests.support import stored
from tests.support.notebook_rules import ROOT

NOTEBOOK = "05_block.ipynb"


@pytest.mark.parametrize("name", stored.STORED)
def test_what_is_stored_is_what_is_there(name):
    before = (stored.FOLDER / name).read_text("utf-8").splitlines()
    now = stored.STORED[name]().splitlines()
    changed = list(difflib.unified_diff(before, now, "stored", "now", lineterm="", n=1))
    advice = "If this is meant, run `make accept`.\n"
    assert before == now, advice + "\n".join(changed[:40])


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A repository with one notebook, two drawings and a model, to break."""
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, tmp_path / "notebooks")
    shutil.copytree(ROOT / "images", tmp_path / "images")
    weights = "course_utils/weights/senses"
    shutil.copytree(ROOT / weights, tmp_path / weights)
    monkeypatch.setattr(stored, "ROOT", tmp_path)
    return tmp_path


def first(cells, kind, word=""):
    """The place of the first cell of a kind that holds a word."""
    return next(
        place
        for place, cell in enumerate(cells)
        if cell["cell_type"] == kind and word in "".join(cell["source"])
    )


def delete_text(cells):
    del cells[first(cells, "markdown", "## 2")]


def move_text(cells):
    place = first(cells, "markdown", "## 2")
    cells.insert(place + 3, cells.pop(place))


def move_code(cells):
    place = first(cells, "code", "class Block(")
    cells.insert(place + 2, cells.pop(place))


def delete_assert(cells):
    cell = cells[first(cells, "code", "\nassert ")]
    lines = "".join(cell["source"]).splitlines()
    cell["source"] = "\n".join(x for x in lines if not x.startswith("assert "))


def weaken_assert(cells):
    cell = cells[first(cells, "code", "\nassert ")]
    cell["source"] = "".join(cell["source"]).replace("\nassert ", "\nassert True or ")


def word_a_sentence(cells):
    cells[first(cells, "markdown", "## 2")]["source"][-1] += " And one word more."


def lay_out_anew(cells):
    cell = cells[first(cells, "code", "\nassert ")]
    cell["source"] = "".join(cell["source"]).replace("\nassert ", "\nassert  ")


@pytest.mark.parametrize(
    "change, notices",
    [
        (delete_text, True),
        (move_text, True),
        (move_code, True),
        (delete_assert, True),
        (weaken_assert, True),
        (word_a_sentence, False),
        (lay_out_anew, False),
    ],
)
def test_a_change_of_cells_is_noticed(house, change, notices):
    before = stored.cells_text()
    path = house / "notebooks" / NOTEBOOK
    notebook = json.loads(path.read_text("utf-8"))
    source = json.dumps(notebook)
    change(notebook["cells"])
    assert json.dumps(notebook) != source, "nothing was changed"
    path.write_text(json.dumps(notebook), "utf-8")
    assert (stored.cells_text() != before) == notices


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("images/01_one_word.svg", b"softmax", b"xamtfos"),
        ("course_utils/weights/senses/tokenizer.json", b"a", b"b"),
        ("course_utils/weights/senses/model.safetensors", b"\x00", b"\x01"),
    ],
)
def test_a_changed_drawing_or_model_is_noticed(house, name, old, new):
    before = stored.files_text()
    path = house / name
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))
    changed = set(stored.files_text().splitlines()) ^ set(before.splitlines())
    assert all(line.endswith(name) for line in changed) and len(changed) == 2


def test_other_line_endings_are_no_change(house):
    before = stored.files_text()
    path = house / "images" / "01_one_word.svg"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert stored.files_text() == before


def test_a_changed_default_is_noticed(monkeypatch):
    before = stored.signatures_text()
    plain = getattr(RMSNorm.__init__, "__wrapped__", RMSNorm.__init__)
    monkeypatch.setattr(plain, "__defaults__", (1e-6,))
    changed = set(stored.signatures_text().splitlines()) ^ set(before.splitlines())
    assert sorted(changed) == [
        "course_utils.norms.RMSNorm(d_model, eps=1e-05)",
        "course_utils.norms.RMSNorm(d_model, eps=1e-06)",
    ]
