"""`make diff`: a page of what changed in notebooks, and of nothing else."""

import base64
import io
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.support import notebook_diff
from tests.support.notebook_changes import Cell, changes, in_order
from tests.support.notebook_rules import ROOT, shortened
from tests.support.pictures import picture_difference, pixels

NAME = "notebooks/01_words.ipynb"
WIDE, HIGH = 60, 40
IDENTITY = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
UNCHANGED = "This sentence stays as it was."


def run_git(folder, *words):
    subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True)


def commit(folder):
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--message", "Change notebooks")


def png(*points, size=(WIDE, HIGH)):
    """A white picture in base64 with a black square of 2 by 2 at each point."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for x, y in points:
        draw.rectangle((x, y, x + 1, y + 1), fill="black")
    file = io.BytesIO()
    image.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def text(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source, *outputs):
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": list(outputs),
        "source": source,
    }


def printed(words, name="stdout"):
    return {"output_type": "stream", "name": name, "text": words}


def shown(data, **metadata):
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def drawn(picture, alt):
    data = {"image/png": picture, "text/plain": alt}
    return shown(data, **{"image/png": {"alt": alt}})


def cells():
    """The cells of a small notebook, in its first version."""
    return [
        text("# A title of several words"),
        text(UNCHANGED),
        code("print('three words here')", printed("three words here\n")),
        text("Between the two code cells stands this text."),
        code("show(the_picture)", drawn(png((10, 20)), "A dot on the left.")),
        text("At the end there is a summary of it all."),
    ]


def write(folder, changed, name=NAME):
    """Store a notebook; its cells are numbered as `make refresh` numbers them."""
    for place, cell in enumerate(changed, start=1):
        cell["id"] = f"{Path(name).name[:2]}-{place:03d}"
    notebook = {"cells": changed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / name).write_text(json.dumps(notebook, indent=1), "utf-8")


@pytest.fixture
def house(tmp_path):
    """A repository with one committed notebook."""
    if shutil.which("git") is None:
        pytest.skip("this machine has no git")
    (tmp_path / "notebooks").mkdir()
    (tmp_path / ".gitignore").write_text("/build/\n")
    write(tmp_path, cells())
    run_git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


@pytest.fixture
def diff(house, capsys):
    """Run the command, return the page and what was printed; no page is None."""

    def run(*arguments):
        notebook_diff.main(list(arguments), root=house)
        file = house / notebook_diff.PAGE
        page = file.read_text("utf-8") if file.exists() else None
        said = capsys.readouterr()
        assert said.err == ""
        return page, said.out

    return run


def plain(page):
    """What a reader sees of the page, without its tags."""
    return unescape(re.sub(r"<[^>]*>", "", page))


def names(page):
    """The headings of the changed cells."""
    return [unescape(name) for name in re.findall("<h3>(.*?)</h3>", page)]


def images(page):
    """(address, alt text) of every image on the page."""
    found = re.findall(r'<img src="([^"]*)" alt="([^"]*)">', page)
    assert len(found) == page.count("<img")
    return [(address, unescape(alt)) for address, alt in found]


# --- cells -------------------------------------------------------------------------


def test_changed_text_is_shown_and_nothing_else(house, diff):
    changed = cells()
    changed[0]["source"] = "# A title of seven words"
    write(house, changed)
    page, said = diff("01")
    assert names(page) == ["01-001: changed"]
    assert "- # A title of several words" in plain(page)
    assert "+ # A title of seven words" in plain(page)
    assert "<mark>seven</mark>" in page
    assert UNCHANGED not in page and not images(page)
    assert said.splitlines() == [
        "01_words.ipynb: cells: 1 changed; pictures: none changed",
        str(house / notebook_diff.PAGE),
    ]


def test_a_code_cell_is_named_as_the_tests_name_it(house, diff):
    changed = cells()
    changed[4]["source"] = "show(the_picture, again)"
    write(house, changed)
    page, _ = diff("01")
    assert names(page) == ["In [2] 01-005: changed"]


def test_renumbered_cells_are_paired_by_their_sources(house, diff):
    changed = cells()
    changed.insert(1, text("Something else came in."))
    changed[3]["source"] = "print('four words here')"
    del changed[6]
    write(house, changed)
    page, said = diff("01")
    assert names(page) == [
        "01-002: added",
        "In [1] 01-004: changed",
        "01-006: removed",
    ]
    assert "Its old name is In [1] 01-003." in plain(page)
    assert "+ Something else came in." in plain(page)
    assert "- At the end there is a summary of it all." in plain(page)
    assert "cells: 1 added, 1 changed, 1 removed" in said


def test_a_moved_cell_is_said_in_words(house, diff):
    changed = cells()
    changed.insert(4, changed.pop(1))
    write(house, changed)
    page, said = diff("01")
    assert names(page) == ["01-005: moved"]
    assert "It was cell 2 of the notebook, now it is cell 5." in plain(page)
    assert "cells: 1 moved" in said


def test_a_cell_can_be_moved_and_changed(house, diff):
    changed = cells()
    changed.insert(5, changed.pop(0))
    changed[5]["source"] += " more"
    write(house, changed)
    page, _ = diff("01")
    assert names(page) == ["01-006: changed and moved"]


def test_text_and_code_of_the_same_words_are_two_cells():
    sources = ("text", "code")
    old, new = (Cell("a", 1, kind, "the same", [], {}) for kind in sources)
    assert [change.kind for change in changes([old], [new])] == ["removed", "added"]


def test_the_fewest_cells_count_as_moved():
    assert in_order([3, 0, 1, 2]) == [0, 1, 2]
    assert in_order([1, 2, 3, 0]) == [1, 2, 3]
    assert in_order([]) == []


def test_tags_and_other_metadata_are_said_in_a_line(house, diff):
    changed = cells()
    changed[2]["metadata"] = {"tags": ["timing", "<b>"]}
    write(house, changed)
    page, _ = diff("01")
    assert names(page) == ["In [1] 01-003: changed"]
    assert 'tags: none before, ["timing", "<b>"] now.' in plain(page)
    assert "The source is unchanged." in page


def test_sources_and_outputs_are_escaped(house, diff):
    hostile = "<script>alert('&amp;')</script>"
    changed = cells()
    changed[2]["source"] = hostile
    changed[5]["source"] = f"{hostile}\nThe last line."
    write(house, changed)
    commit(house)
    changed[0]["source"] = hostile
    changed[2]["metadata"]["tags"] = [hostile]
    changed[2]["outputs"] = [printed(hostile)]
    changed[4]["outputs"] = [drawn(png((1, 1)), f'"{hostile}')]
    changed[5]["source"] += hostile
    write(house, changed)
    page, _ = diff("01")
    assert "<script" not in page
    # Two changed sources, an unchanged one, an unchanged line, a tag, what was
    # printed, and an alt text.
    assert plain(page).count(hostile) == 7
    assert f'New picture: "{hostile}' in [alt for _, alt in images(page)]


# --- outputs -----------------------------------------------------------------------


def test_outputs_are_compared_as_text(house, diff):
    before = cells()
    before[2]["outputs"] = [
        printed("one\n"),
        printed("two\n"),
        {"output_type": "error", "ename": "E", "evalue": "old", "traceback": []},
        shown({"text/html": "<b>" + 300 * "A" + "</b>old"}),
    ]
    write(house, before)
    commit(house)
    after = cells()
    after[2]["outputs"] = [
        printed("one\nthree\n"),
        {"output_type": "error", "ename": "E", "evalue": "new", "traceback": []},
        shown({"text/html": "<b>" + 300 * "B" + "</b>new"}),
    ]
    write(house, after)
    page, said = diff("01")
    seen = plain(page)
    for line in ("  one", "- two", "+ three", "- E: old", "+ E: new"):
        assert f"\n{line}" in seen.replace("stdout", "\n")
    assert "Output 1: stdout" in seen and "Output 2: error" in seen
    assert "- <b>…</b>old" in seen and "+ <b>…</b>new" in seen
    assert "pictures: none changed" in said


def test_pieces_of_a_stream_are_one_output(house, diff):
    changed = cells()
    changed[2]["outputs"] = [printed("three "), printed("words here\n")]
    write(house, changed)
    page, said = diff("01")
    assert page is None and "Nothing changed in notebook 01 since HEAD." in said


def test_a_difference_in_a_picture_of_html_is_said(house, diff):
    before = cells()
    before[2]["outputs"] = [shown({"text/html": 300 * "A"})]
    write(house, before)
    commit(house)
    before[2]["outputs"] = [shown({"text/html": 300 * "B"})]
    write(house, before)
    page, _ = diff("01")
    assert "in a long run of letters" in page and "AAA" not in page


def test_a_long_line_is_broken_where_it_differs(house, diff):
    before = cells()
    script = "".join(f"let x{n} = {n};" for n in range(400))
    before[2]["outputs"] = [shown({"text/html": script})]
    write(house, before)
    commit(house)
    before[2]["outputs"] = [shown({"text/html": script.replace("= 77;", "= 78;")})]
    write(house, before)
    page, _ = diff("01")
    assert "- let x77 = 77;" in plain(page) and "+ let x77 = 78;" in plain(page)
    assert "let x80" not in page


def test_other_metadata_of_an_output_is_a_diff(house, diff):
    before = cells()
    before[4]["outputs"][0]["metadata"]["image/png"]["words"] = ["left", "right"]
    write(house, before)
    commit(house)
    before[4]["outputs"][0]["metadata"]["image/png"]["words"] = ["left", "wrong"]
    write(house, before)
    page, said = diff("01")
    assert "Output: metadata" in page
    assert '-    "right"' in plain(page) and '+    "wrong"' in plain(page)
    assert "alt text</h4>" not in page and "pictures: none changed" in said


def test_outputs_in_another_order_are_said(house, diff):
    before = cells()
    before[2]["outputs"] = [printed("a"), shown({"text/plain": "b"})]
    write(house, before)
    commit(house)
    before[2]["outputs"].reverse()
    write(house, before)
    page, _ = diff("01")
    assert "The outputs are the same in another order." in page


# --- pictures ----------------------------------------------------------------------


def test_pictures_stand_side_by_side_with_their_difference(house, diff):
    old, new = png((10, 20)), png((10, 20), (30, 8))
    changed = cells()
    changed[4]["outputs"] = [drawn(new, "Two dots.")]
    write(house, changed)
    page, said = diff("01")
    (first, second, third) = images(page)
    assert first == (
        f"data:image/png;base64,{old}",
        "Old picture: A dot on the left.",
    )
    assert second == (f"data:image/png;base64,{new}", "New picture: Two dots.")
    sentence = (
        "Pixels that differ: 4 of 2,400. The largest difference, 255 of 255, lies "
        "30 pixels from the left and 8 from the top."
    )
    assert sentence in plain(page) and sentence in third[1]
    assert "- A dot on the left." in plain(page) and "+ Two dots." in plain(page)
    assert page.count("Two dots.</span>") == 1, "the text/plain repeats the alt text"
    assert "pictures: 1" in said
    dark = pixels(third[0].split(",")[1]).mean(axis=2) < 255
    assert dark.sum() == 4 and dark[8:10, 30:32].all()


def test_a_changed_alt_text_stands_beside_its_picture(house, diff):
    changed = cells()
    changed[4]["outputs"] = [drawn(png((10, 20)), "A dot on the right.")]
    write(house, changed)
    page, said = diff("01")
    assert [alt for _, alt in images(page)] == ["The picture: A dot on the right."]
    assert "pictures: none changed" in said


def test_a_picture_that_came_is_paired_with_no_other(house, diff):
    changed = cells()
    changed[4]["outputs"].insert(0, drawn(png((1, 1)), "A dot above."))
    write(house, changed)
    page, said = diff("01")
    assert [alt for _, alt in images(page)] == ["New picture: A dot above."]
    assert "pictures: 1" in said


def test_a_faint_difference_can_be_seen():
    old = Image.new("RGB", (WIDE, HIGH), "white")
    new = old.copy()
    new.putpixel((5, 6), (255, 254, 255))
    new.putpixel((7, 6), (0, 0, 0))
    stored = []
    for image in (old, new):
        file = io.BytesIO()
        image.save(file, "PNG")
        stored.append(base64.b64encode(file.getvalue()).decode())
    difference, _ = picture_difference(*stored)
    drawn_pixels = pixels(difference)
    assert drawn_pixels[6, 5].max() < 200 and drawn_pixels[6, 7].max() == 0
    assert drawn_pixels[0, 0].min() == 255


def test_pictures_of_two_sizes_are_compared():
    larger = png((10, 20), (65, 3), size=(WIDE + 10, HIGH))
    difference, said = picture_difference(png((10, 20)), larger)
    assert "The size is 70 × 40 pixels, it was 60 × 40 pixels;" in said
    assert "differ: 4 of 2,800" in said and "lies 65 pixels" in said
    assert pixels(difference).shape == (HIGH, WIDE + 10, 3)


def test_the_same_pixels_in_another_file_are_said():
    stored = png((10, 20))
    file = io.BytesIO()
    Image.fromarray(pixels(stored).astype("uint8")).save(file, "PNG", compress_level=0)
    other = base64.b64encode(file.getvalue()).decode()
    assert other != stored
    assert picture_difference(stored, other) == (
        None,
        "All pixels are the same, only the files differ.",
    )


def test_drawings_in_svg_are_shown(house, diff):
    before = cells()
    before[4]["outputs"] = [shown({"image/svg+xml": "<svg>old</svg>"})]
    write(house, before)
    commit(house)
    before[4]["outputs"] = [shown({"image/svg+xml": "<svg>new</svg>"})]
    write(house, before)
    page, said = diff("01")
    start = "data:image/svg+xml;base64,"
    stored = [address.removeprefix(start) for address, _ in images(page)]
    assert [base64.b64decode(one) for one in stored] == [
        b"<svg>old</svg>",
        b"<svg>new</svg>",
    ]
    assert "pictures: 1" in said


# --- notebooks and commits ---------------------------------------------------------


def test_an_earlier_commit_can_be_named(house, diff):
    changed = cells()
    changed[0]["source"] = "# A title of seven words"
    write(house, changed)
    commit(house)
    assert diff("01")[0] is None
    page, _ = diff("01", "--against", "HEAD~1")
    assert "since HEAD~1" in page and names(page) == ["01-001: changed"]


def test_nothing_changed_is_said_and_an_old_page_goes(house, diff):
    changed = cells()
    changed[0]["source"] = "# Another title"
    write(house, changed)
    assert diff()[0] is not None
    write(house, cells())
    page, said = diff()
    assert page is None
    assert said == "Nothing changed in the notebooks since HEAD.\n"


def test_all_changed_notebooks_stand_on_one_page(house, diff):
    write(house, cells(), "notebooks/02_more.ipynb")
    write(house, [text("Quite another thing.")], "notebooks/03_gone.ipynb")
    write(house, [text("This remains.")], "notebooks/04_same.ipynb")
    commit(house)
    (house / "notebooks/03_gone.ipynb").unlink()
    changed = cells()
    changed[0]["source"] = "# A title of seven words"
    write(house, changed)
    write(house, changed, "notebooks/02_more.ipynb")
    page, said = diff()
    assert names(page) == ["01-001: changed", "02-001: changed", "03-001: removed"]
    assert [line[:2] for line in said.splitlines()[:-1]] == ["01", "02", "03"]
    assert "03_gone.ipynb: Removed notebook; cells: 1 removed" in said
    assert names(diff("02")[0]) == ["02-001: changed"]


def test_a_new_notebook_is_called_new(house, diff):
    write(house, [text("Fresh.")], "notebooks/02_fresh.ipynb")
    page, said = diff("02")
    assert "<p>New notebook.</p>" in page and names(page) == ["02-001: added"]
    assert said.startswith("02_fresh.ipynb: New notebook; cells: 1 added")
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=house, capture_output=True, text=True
    )
    assert status.stdout == "?? notebooks/02_fresh.ipynb\n", "the index is left alone"


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_renamed_notebook_is_compared_with_its_old_name(house, diff, is_committed):
    changed = cells()
    changed[0]["source"] = "# A title of seven words"
    (house / NAME).unlink()
    write(house, changed, "notebooks/02_words.ipynb")
    against = "HEAD"
    if is_committed:
        commit(house)
        against = "HEAD~1"
    page, said = diff("02", "--against", against)
    assert names(page) == ["02-001: changed"]
    assert f"Renamed, the old name is {NAME}." in plain(page)
    assert "02_words.ipynb: Renamed" in said


def test_metadata_of_the_notebook_is_a_diff(house, diff):
    notebook = json.loads((house / NAME).read_text("utf-8"))
    notebook["metadata"] = {"language_info": {"name": "python"}}
    (house / NAME).write_text(json.dumps(notebook), "utf-8")
    page, _ = diff("01")
    assert "Metadata of the notebook" in page and names(page) == []
    assert '+    "name": "python"' in plain(page)


def test_make_passes_its_words_on():
    if shutil.which("make") is None:
        pytest.skip("this machine has no make")
    # Another make may have started this one: then it names the folder it works in.
    command = ["make", "--no-print-directory", "--dry-run", "diff"]
    told = {"cwd": ROOT, "capture_output": True, "text": True, "check": True}
    ends = {
        (): "-m tests.support.notebook_diff",
        ("NB=01",): "-m tests.support.notebook_diff 01",
        ("AGAINST=a b",): "-m tests.support.notebook_diff --against 'a b'",
    }
    for words, end in ends.items():
        done = subprocess.run([*command, *words], **told)
        assert " ".join(done.stdout.split()).endswith(end)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (
            ["--against", "no-such"],
            "AGAINST='no-such' must be a commit, branch or tag of this repository",
        ),
        (
            ["7"],
            "NB='7' must name exactly one notebook, it names 0; there are 01",
        ),
    ],
)
def test_a_wrong_argument_is_one_sentence(house, arguments, said):
    with pytest.raises(SystemExit) as stopped:
        notebook_diff.main(arguments, root=house)
    assert stopped.value.code == said


def test_a_notebook_with_conflicts_is_named(house):
    (house / NAME).write_text("<<<<<<< HEAD\n{}")
    with pytest.raises(SystemExit, match=f"{NAME} must be a notebook in JSON"):
        notebook_diff.main(["01"], root=house)


def test_the_page_needs_nothing_beside_itself(house, diff):
    changed = cells()
    changed[4]["outputs"] = [drawn(png((1, 1)), "Another dot.")]
    write(house, changed)
    page, _ = diff("01")
    assert all(address.startswith("data:") for address, _ in images(page))
    assert not re.search(r"https?:|<link|<script|url\(", shortened(page))
