"""The course in JupyterLab, as `make lab` opens it: links, closing, the originals."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.browser_page import browser, jupyterlab, watched
from tools.working_copies import QUIET_LAB, READ_ONLY, lay_copies

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PANEL = ".jp-Document:visible"
IDLE = f"{PANEL} .jp-Notebook-ExecutionIndicator[data-status=idle]"
SCROLLER = f"{PANEL} .jp-WindowedPanel-outer"
TAB = ".lm-DockPanel-tabBar .lm-TabBar-tab"


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """The course in a folder of its own, with fresh working copies."""
    folder = tmp_path_factory.mktemp("course")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    shutil.copytree(ROOT / "images", folder / "images")
    lay_copies(folder)
    return folder


@pytest.fixture(scope="module")
def opened(course):
    """A function that opens a file of the course: its page."""
    size = {"width": 1400, "height": 900}
    with (
        browser() as chromium,
        jupyterlab(course, [*QUIET_LAB, *READ_ONLY]) as (address, _),
    ):
        yield lambda path: watched(
            chromium, f"{address}{path}?token=x&reset", viewport=size
        )


def index_of(course, name, cell):
    cells = json.loads((course / "work" / name).read_text("utf-8"))["cells"]
    return next(i for i, one in enumerate(cells) if one["id"] == cell)


@pytest.mark.parametrize(
    "source, step",
    [
        ("book/first_afternoon.md", 1),
        ("book/glossary.md", 20),
        ("01_attention.ipynb", 1),
        ("11_backbone.ipynb", 4),
    ],
)
def test_a_link_shows_its_section_at_the_first_click(course, opened, source, step):
    expect = pytest.importorskip("playwright.sync_api").expect
    with opened(f"work/{source}") as page:
        source_id = page.locator(PANEL).get_attribute("id")
        links = page.locator(f"#{source_id} a[href*='#cell-id=']")
        links.first.wait_for()
        for link in links.all()[::step]:
            page.locator(TAB, has_text=Path(source).name).click()
            address, _, cell = link.get_attribute("href").partition("#cell-id=")
            name = Path(address.partition("?")[0]).name
            link.click()
            page.locator(f"{TAB}.jp-mod-current", has_text=name).wait_for()
            page.locator(IDLE).wait_for()
            place = f"[data-windowed-list-index='{index_of(course, name, cell)}']"
            heading = page.locator(f"{PANEL} {place} :is(h1, h2, h3, h4)").first
            expect(heading).to_be_in_viewport()
