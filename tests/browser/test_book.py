"""The book: all notebooks are in it, links lead somewhere, figures are told.

And in Chromium, with no network: its views are alive, equations drawn, words found.
"""

import importlib.util
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.support.browser_views import BERTVIZ, OURS, found, serious, use_all
from tools.browser_page import browser, watched

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
SOURCE, BUILT = ROOT / "notebooks" / "book", ROOT / "_build" / "html"


def chapters():
    toc = yaml.safe_load((SOURCE / "_toc.yml").read_text("utf-8"))
    parts = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [toc["root"], *parts]


def test_all_pages_are_chapters_and_the_notebooks_are_in_reading_order():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    names = [f"notebooks/{path.stem}" for path in notebooks]
    assert [name for name in chapters() if "/book/" not in name] == names
    pages = {f"notebooks/book/{path.stem}" for path in SOURCE.glob("*.md")}
    assert pages == {*chapters()} - {*names}


def test_alt_texts_reach_the_book():
    spec = importlib.util.spec_from_file_location("alt", SOURCE / "alt_texts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    figure = {"metadata": {"image/png": {"alt": "a curve"}}}
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [{}, figure]},
        {"cell_type": "code", "metadata": {}, "outputs": [{"metadata": {}}]},
        {"cell_type": "markdown", "metadata": {}, "source": ["![two\n", "lines](x)"]},
    ]
    result = json.loads(module.with_alt_texts(json.dumps({"cells": cells})))["cells"]
    assert result[0]["metadata"] == {"mystnb": {"image": {"alt": "a curve"}}}
    assert result[1]["metadata"] == {}
    assert result[2]["source"] == "![two lines](x)"


class Page(HTMLParser):
    """Links, images and the ids of one page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.images, self.names = [], [], set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.names |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "img":
            self.images.append(given)
        kind = {"a": "href", "link": "href", "script": "src", "img": "src"}.get(tag)
        if given.get(kind):
            self.links.append((tag, given[kind]))


@pytest.fixture(scope="module")
def pages():
    if not (BUILT / "index.html").is_file():
        pytest.skip("the book is not built: run `make book` first")
    paths = [p for p in BUILT.rglob("*.html") if "_static" not in p.parts]
    return {path.resolve(): Page(path) for path in paths}


def test_the_built_book_holds_every_chapter(pages):
    built = {path.relative_to(BUILT).with_suffix("").as_posix() for path in pages}
    assert set(chapters()) <= built


def test_links_lead_to_pages_and_places(pages):
    dead = []
    for path, page in pages.items():
        for _, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not to.exists() or (
                to in pages and place and place not in pages[to].names
            ):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_pages_load_nothing_from_outside(pages):
    for path, page in pages.items():
        loaded = [one for tag, one in page.links if tag != "a" and urlsplit(one).netloc]
        assert loaded == [], path.name


def test_figures_have_alt_texts(pages):
    for path, page in pages.items():
        for image in page.images:
            alt = image.get("alt", "")
            named = re.search(r"\.(png|svg)$", alt)
            assert alt and not named, f"{path.name}: {image.get('src')}"


@pytest.fixture(scope="module")
def chromium(pages):
    with browser() as started:
        yield started


def with_views(pages):
    """The pages of the book that hold a view, in the order of their names."""
    marks = ('<div class="course-view ', '<div id="bertviz-', "<div id='bertviz-")
    return [
        path
        for path in sorted(pages)
        if any(mark in path.read_text("utf-8") for mark in marks)
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_views_of_the_book_can_be_used(pages, chromium, theme):
    used = {}
    for path in with_views(pages):
        with watched(chromium, path.as_uri(), color_scheme=theme) as page:
            page.locator(f"html[data-theme={theme}]").wait_for()
            held = use_all(page) if theme == "light" else {}
            used |= {kind: used.get(kind, 0) + count for kind, count in held.items()}
            views = page.locator(f"{OURS}, {BERTVIZ}")
            views.first.wait_for()
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            for i, view in enumerate(views.all()):
                name = f"book-{theme}-{path.stem}-{i}.png"
                view.screenshot(path=SCREENSHOTS / name)
            assert serious(page) == [], path.name
            still = ".output:has(.pictured) + .image-reference:visible"
            assert page.locator(still).count() == 0, "it stands twice"
            assert "to explore all layers" not in page.locator("main").inner_text()
    assert theme == "dark" or {"explorer", "bertviz model"} <= set(used)


def test_equations_are_drawn_from_local_files(pages, chromium):
    path = BUILT / "notebooks" / "01_attention.html"
    with watched(chromium, path.as_uri()) as page:
        page.locator(".math mjx-container").first.wait_for(state="attached")
        page.wait_for_function(
            "[...document.querySelectorAll('.math')].every((one) => "
            "one.querySelector('mjx-container'))"
        )
        assert page.locator("mjx-merror").count() == 0
        drawn = page.locator(".math mjx-math:visible").first.bounding_box()
        assert drawn["width"] > 10 and drawn["height"] > 5
        scripts = page.evaluate("[...document.scripts].map((one) => one.src)")
        mathjax = [one for one in scripts if "mathjax" in one]
        assert mathjax and all(one.startswith("file://") for one in mathjax)


def test_search_and_navigation_work_offline(pages, chromium):
    start = BUILT / "notebooks" / "00_start_here.html"
    with watched(chromium, start.as_uri()) as page:
        page.keyboard.press("Control+k")
        field = page.locator("#pst-search-dialog input")
        field.fill("softmax")
        field.press("Enter")
        results = page.locator("#search-results li a")
        results.first.wait_for()
        titles = results.all_inner_texts()
        assert any("Attention" in title for title in titles), titles
        page.get_by_role("link", name="01 · Attention").last.click()
        assert "01 · Attention" in page.locator("h1").first.inner_text()
        page.locator("a.right-next").first.click()
        assert "02" in page.locator("h1").first.inner_text()
        page.locator(".bd-sidebar a", has_text="Glossary").first.click()
        assert "Glossary" in page.locator("h1").first.inner_text()


def test_an_excerpt_of_the_search_shows_the_text_around_a_word(pages, chromium):
    text = (BUILT / "notebooks" / "04_positions.html").read_text("utf-8")
    with watched(chromium, (BUILT / "search.html").as_uri()) as page:
        summary = "(html) => Search.makeSearchSummary(html, ['rotari'], '').textContent"
        excerpt = page.evaluate(summary, text)
        whole = page.evaluate("(html) => Search.htmlToText(html)", text)
    assert "rotary positions" in excerpt and ".ipynb" not in excerpt
    assert "\\" not in whole  # no TeX


@pytest.mark.parametrize("width", [360, 1400])
def test_axe_finds_nothing_on_a_page(pages, chromium, width):
    for name in ("book/front", "01_attention", "12_llama", "15_looking_inside"):
        path = BUILT / "notebooks" / f"{name}.html"
        size = {"width": width, "height": 900}
        with watched(chromium, path.as_uri(), viewport=size) as page:
            page.locator("html[data-theme]").wait_for()
            assert found(page, "body") == [], name
            assert page.evaluate("document.documentElement.scrollWidth") == width
