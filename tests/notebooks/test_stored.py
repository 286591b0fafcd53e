"""Cells, asserts, drawings, weights and signatures change only on purpose."""

import json
import shutil

import pytest

from course_utils.norms import RMSNorm
from tests.support import stored
from tests.support.notebook_rules import ROOT

NOTEBOOK = "05_block.ipynb"


@pytest.mark.parametrize("name", stored.STORED)
def test_what_is_stored_is_what_is_there(name):
    before = (stored.FOLDER / name).read_text("utf-8")
    said = stored.complaint(name, before, stored.STORED[name]())
    assert not said, said


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A repository with one notebook, drawings, a model and guides, to break."""
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / NOTEBOOK, tmp_path / "notebooks")
    shutil.copytree(ROOT / "images", tmp_path / "images")
    weights = "course_utils/weights/senses"
    shutil.copytree(ROOT / weights, tmp_path / weights)
    for name in (".ci", "notebooks/book"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
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


def reword_a_number(cells):
    cell = cells[first(cells, "markdown", "a factor of ten")]
    text = "".join(cell["source"])
    cell["source"] = text.replace("a factor of ten", "a factor of two")


def unfold(cells):
    folded = [cell for cell in cells if cell["metadata"].get("jupyter")]
    del folded[0]["metadata"]["jupyter"]


def turn_an_alt_text(cells):
    cell = next(cell for cell in cells if cell["metadata"].get("alt"))
    cell["metadata"]["alt"][0] = "The opposite."


@pytest.mark.parametrize(
    "change, notices",
    [
        (delete_text, "\n-text  "),
        (move_text, "\n+text  "),
        (move_code, "  class Block("),
        (delete_assert, "\n-      assert "),
        (weaken_assert, "\n+      assert True or "),
        (word_a_sentence, "\n+text  "),
        (reword_a_number, "\n+text  "),
        (unfold, "\n-fold  "),
        (turn_an_alt_text, "\n+      alt: The opposite."),
    ],
)
def test_a_change_of_cells_is_noticed(house, change, notices):
    before = stored.cells_text()
    path = house / "notebooks" / NOTEBOOK
    source = path.read_text("utf-8")
    alter(house, change)
    assert json.loads(path.read_text("utf-8")) != json.loads(source), "no change"
    said = stored.complaint("cells.txt", before, stored.cells_text())
    assert notices in said and bool(said) == bool(notices)
    assert not said or "make accept" in said


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("images/01_one_word.svg", b"softmax", b"xamtfos"),
        ("course_utils/weights/senses/tokenizer.json", b"a", b"b"),
        ("course_utils/weights/senses/model.safetensors", b"\x00", b"\x01"),
        ("README.md", b"minutes", b"seconds"),
        (".ci/run", b"make test", b"true"),
        ("notebooks/book/glossary.md", b"costs", b"earns"),
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


def alter(house, change):
    """Change the cells of the notebook in the house."""
    path = house / "notebooks" / NOTEBOOK
    notebook = json.loads(path.read_text("utf-8"))
    change(notebook["cells"])
    path.write_text(json.dumps(notebook), "utf-8")


def tell_a_number(cells):
    cells[first(cells, "markdown", "## 2")]["source"].append(" It ends at 8.39.")


def tell_a_known_number(cells):
    place = first(cells, "code", "assert")
    cells[place]["source"] = [*cells[place]["source"], "\nknown = 8.386"]
    later = [cell for cell in cells[place:] if cell["cell_type"] == "markdown"]
    later[0]["source"].append(" It ends at 8.39.")


def tell_a_number_in_an_alt(cells):
    cell = next(cell for cell in cells if cell["metadata"].get("alt"))
    cell["metadata"]["alt"][0] += " The largest is 0.7351."


@pytest.mark.parametrize(
    "change, notices",
    [
        (tell_a_number, ["text       8.39  after: "]),
        (tell_a_known_number, []),
        (tell_a_number_in_an_alt, ["alt      0.7351  after: "]),
    ],
)
def test_a_number_that_no_cell_gives_is_noticed(house, change, notices):
    before = stored.numbers_text().splitlines()
    alter(house, change)
    new = [line for line in stored.numbers_text().splitlines() if line not in before]
    assert [line[: line.index("after: ") + 7] for line in new] == notices


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
