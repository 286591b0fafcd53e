"""The course in JupyterLab, as `make lab` opens it: links, closing, the originals."""

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest

from tools.browser_page import browser, jupyterlab, notebook, watched
from tools.working_copies import BUTTONS, QUIET_LAB, READ_ONLY, lay_copies

pytestmark = pytest.mark.slow
expect = pytest.importorskip("playwright.sync_api").expect
expect.set_options(timeout=60_000)  # a busy machine draws a long notebook slowly

ROOT = Path(__file__).resolve().parents[2]
PANEL = ".jp-Document:visible"
SCROLLER = f"{PANEL} .jp-WindowedPanel-outer"
TAB = ".lm-DockPanel-tabBar .lm-TabBar-tab"
DEPTH = """(element) => element.getBoundingClientRect().top
    - element.closest('.jp-WindowedPanel-outer').getBoundingClientRect().top"""


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course in a folder of its own, with fresh working copies."""
    folder = tmp_path_factory.mktemp("course")
    for name in ("notebooks", "images"):
        shutil.copytree(ROOT / name, folder / name)
    lay_copies(folder)
    return folder


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def opened(course, chromium):
    """A function that opens a file of the course: its page."""
    size = {"width": 1400, "height": 900}
    options = [*QUIET_LAB, *READ_ONLY]
    with jupyterlab(course, options) as (address, _):
        yield lambda path: watched(
            chromium, f"{address}{path}?token=x&reset", viewport=size
        )


def cells_of(page, path):
    """The ids of the cells of a notebook, once all of them are on the page."""
    page.locator(f"{TAB}.jp-mod-current", has_text=path.name).wait_for()
    ids = [cell["id"] for cell in json.loads(path.read_text("utf-8"))["cells"]]
    expect(page.locator(f"{PANEL} .jp-Cell:visible")).to_have_count(len(ids))
    return ids


@pytest.mark.parametrize("source", ["book/you_may_have_read.md", "11_backbone.ipynb"])
def test_a_link_shows_its_section_at_the_first_click(course, opened, source):
    with opened(f"work/{source}") as page:
        own = page.locator(PANEL).get_attribute("id")
        links = page.locator(f"#{own} a[href*='#cell-id=']")
        links.first.wait_for()
        for link in links.all()[::3]:
            page.locator(TAB, has_text=Path(source).name).click()
            address = urlsplit(link.get_attribute("href"))
            link.click()
            ids = cells_of(page, course / "work" / Path(address.path).name)
            index = ids.index(address.fragment.removeprefix("cell-id="))
            section = page.locator(f"{PANEL} [data-windowed-list-index='{index}']")
            assert -1 < section.evaluate(DEPTH) < 200, address.fragment


def close(page):
    """Close the file in front, which must not ask anything."""
    tabs = page.locator(TAB)
    before = tabs.count()
    page.locator(f"{TAB}.jp-mod-current .lm-TabBar-tabCloseIcon").click()
    expect(page.locator(".jp-Dialog")).to_have_count(0)
    if before > 1:
        expect(tabs).to_have_count(before - 1)


def test_a_copy_that_was_only_read_closes_without_a_question(course, opened):
    with opened("work/02_multi_head_attention.ipynb") as page:
        page.get_by_text("(ipykernel) | Idle").wait_for()
        cells_of(page, course / "work" / "02_multi_head_attention.ipynb")
        page.locator(SCROLLER).evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
        last = page.locator(f"{PANEL} .jp-Cell").last
        assert last.evaluate(DEPTH) > 300, "nothing empty follows"
        close(page)


def test_an_original_leads_to_the_copy_and_stays_as_it_is(course, opened):
    path = course / "notebooks" / "01_attention.ipynb"
    before = path.read_bytes()
    with opened("notebooks/01_attention.ipynb") as page:
        page.get_by_text("(ipykernel) | Idle").wait_for()
        page.get_by_role("link", name="work/01_attention.ipynb").click()
        cells_of(page, course / "work" / "01_attention.ipynb")
        page.get_by_text("(ipykernel) | Idle").wait_for()
    with opened("notebooks/01_attention.ipynb") as page:
        page.get_by_text("(ipykernel) | Idle").wait_for()
        page.locator(f"{PANEL} .jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        page.locator(f"{TAB}.jp-mod-dirty").wait_for()
        page.keyboard.press("Control+s")
        page.get_by_text("is read-only. Use").wait_for()
    assert path.read_bytes() == before


CHECKS = f"""import os
from named_mistakes import check, use
use({str(ROOT / "notebooks" / "exercises")!r})
check("attention.context", lambda weights, values: weights @ values)
check("attention.weights", lambda scores: scores / missing)
from course_utils import ask
ask(lambda text: print("backwards:", text[::-1], 1 / len(text)), "cat")
del os.environ[{next(iter(BUTTONS))!r}]
check("attention.scores", lambda queries, keys: queries)"""


def test_a_verdict_has_buttons_where_the_lab_asks_for_them(
    chromium, tmp_path, monkeypatch
):
    monkeypatch.setenv(*next(iter(BUTTONS.items())))
    nbformat.write(notebook([], CHECKS), tmp_path / "page.ipynb")
    with jupyterlab(tmp_path) as (address, _):
        with watched(chromium, f"{address}page.ipynb?token=x") as page:
            page.get_by_text("(ipykernel) | Idle").wait_for()
            page.locator(".cm-content").first.click()
            page.keyboard.press("Shift+Enter")
            page.get_by_text("attention.scores: ").last.wait_for()
            buttons = page.locator(".jupyter-button")
            all_of_them = ["Solution", "Hint (1 of 3)", "Case", "Solution"]
            expect(buttons).to_have_text(all_of_them)
            page.get_by_text("backwards: tac").wait_for()
            page.get_by_placeholder("cat").fill("mouse")
            page.get_by_text("backwards: esuom").wait_for()
            page.get_by_placeholder("cat").fill("")
            page.get_by_text("division by zero").wait_for()
            buttons.nth(1).focus()
            for count, key in enumerate(["Enter", "Space"], 1):
                page.keyboard.press(key)
                page.get_by_text(f"attention.weights: hint {count} of 3").wait_for()
                expect(buttons.nth(1)).to_have_text(f"Hint ({count + 1} of 3)")
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.get_by_text("scores = tensor").wait_for()
            page.keyboard.press("Control+s")
            expect(page.locator(f"{TAB}.jp-mod-dirty")).to_have_count(0)
        shutil.copy(tmp_path / "page.ipynb", tmp_path / "again.ipynb")
        with watched(chromium, f"{address}again.ipynb?token=x", errors=3) as page:
            lost = page.get_by_text("Error displaying widget")
            expect(lost).to_have_count(3)
            assert not any(one.is_visible() for one in lost.all())
