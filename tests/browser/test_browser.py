"""Views as a person meets them: in Chromium, with no network."""

import time
from pathlib import Path

import nbformat
import pytest
import torch
from bertviz import head_view, model_view

from course_utils.looking.views import (
    NAMED,
    show_attention,
    show_bertviz,
    show_comparison,
    show_query,
    show_rotation,
    show_sampling,
    show_scale,
)
from tests.support.browser_page import browser, exported, jupyterlab, notebook, watched
from tests.support.browser_views import (
    BERTVIZ,
    OURS,
    nudge,
    serious,
    use_all,
    view_kind,
    walk_by_tab,
)
from tests.support.every_view import (
    ENGLISH,
    HEADS,
    KINDS,
    LAYERS,
    SOURCE,
    SPANISH,
    TARGET,
    bertviz_page,
    random_weights,
    show_every_kind,
    translation,
)
from tests.support.hostile import HOSTILE
from tests.support.view_data import (
    changes,
    numbers,
    payload,
    stored_outputs,
    strong_changes,
)
from tests.support.view_data import strong_weights as strong
from tools.working_copies import QUIET_LAB

pytestmark = pytest.mark.slow

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def displayed():
    with stored_outputs() as outputs:
        yield outputs


@pytest.fixture(scope="module")
def every():
    """One view of each kind, as stored."""
    with stored_outputs() as outputs:
        show_every_kind()
    return outputs


def keep_picture(page, name):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def keep_views(page, name):
    """A picture of the page, and one of each view."""
    keep_picture(page, name)
    for i, view in enumerate(page.locator(f"{OURS}, {BERTVIZ}").all()):
        view.screenshot(path=SCREENSHOTS / f"{name}-{i}.png")


@pytest.fixture
def explored(chromium, displayed, tmp_path):
    """A page with three views: two different ones and a copy of the second."""
    weights = translation()
    show_attention(weights, SPANISH, ENGLISH, title="Random heads.", layer=1)
    for _ in range(2):
        alone = {"": weights["blocks.0.attention"]}
        show_attention(alone, SPANISH, title="A lone layer.")
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        yield page, weights


def plain(text):
    return text.replace("\u2068", "").replace("\u2069", "")


def view(page, index):
    return page.locator(".course-view").nth(index)


def test_it_draws_and_reacts_to_the_mouse(explored):
    page, weights = explored
    assert page.locator(".course-view").count() == 3
    assert page.locator("img").count() == 3, "each view leaves a picture"
    first, cross = view(page, 0), weights["blocks.1.cross_attention"][0, 0]
    lines = first.locator("line")
    assert lines.count() == strong(cross)
    first.get_by_role("button", name="roja").hover()
    assert lines.count() == SOURCE
    opacities = lines.evaluate_all("n => n.map(x => +x.getAttribute('stroke-opacity'))")
    expected = cross[3].sort(descending=True).values.clamp(min=0.02)
    assert opacities == pytest.approx(expected.tolist(), abs=0.003)
    best = ENGLISH[cross[3].argmax()].strip()
    text = plain(first.get_by_role("status").inner_text())
    assert text.startswith("“roja") and f"looks at “{best}" in text
    first.locator(".keys").get_by_role("button", name="house").hover()
    assert lines.count() == TARGET
    assert "is looked at by" in first.get_by_role("status").inner_text()
    page.mouse.move(0, 0)
    assert lines.count() == strong(cross)


def assert_cells_say(page, grid, numbers, before=": "):
    """The mouse on a cell of a grid "target source": its words and its number."""
    box, status = grid.bounding_box(), page.get_by_role("status").first
    for q, k in ((0, 0), (4, 6), (2, 5)):
        x = box["x"] + (k + 0.5) * box["width"] / SOURCE
        page.mouse.move(x, box["y"] + (q + 0.5) * box["height"] / TARGET)
        text = plain(status.inner_text())
        assert text.startswith(f"“{SPANISH[q].strip()}” → “{ENGLISH[k].strip()}”: ")
        stated = text.split(before)[1].replace("−", "-").replace("<0.01", "0")
        assert float(stated) == pytest.approx(float(numbers[q, k]), abs=0.0075)


def test_a_cell_of_the_matrix_says_its_weight(explored):
    page, weights = explored
    canvas = view(page, 0).get_by_role("img", name="weights")
    assert_cells_say(page, canvas, weights["blocks.1.cross_attention"][0, 0])


def test_layers_and_parts_change_by_click(explored):
    page, weights = explored
    first = view(page, 0)
    lines = first.locator("line")
    first.get_by_role("button", name="layer 2, head 1").click()
    assert lines.count() == strong(weights["blocks.2.cross_attention"][0, 1])
    assert first.locator("select").nth(1).input_value() == "2"
    first.locator("select").first.select_option("decoder")
    assert lines.count() == strong(weights["blocks.0.attention"][0, 0])
    first.get_by_role("button", name="casa").first.hover()
    assert lines.count() == 3, "the third token sees three"


RUN_AGAIN = """() => {
    const again = document.createElement("script");
    again.textContent = [...document.scripts].at(-1).textContent;
    document.body.append(again);
}"""


def test_views_do_not_disturb_each_other(explored):
    page, _ = explored
    before = [view(page, i).inner_html() for i in range(3)]
    view(page, 1).get_by_role("button", name="layer 0, head 1").click()
    view(page, 1).get_by_role("button", name="roja").first.hover()
    after = [view(page, i).inner_html() for i in range(3)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
    page.evaluate(RUN_AGAIN)
    assert view(page, 1).inner_html() == after[1], "its copy leaves it alone"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_can_be_used_in_a_page(chromium, every, tmp_path, theme):
    with watched(chromium, exported(every, tmp_path / "p.html", theme)) as page:
        assert use_all(page) == KINDS
        stops = {view_kind(v): walk_by_tab(page, v) for v in page.locator(OURS).all()}
        sliders = {"sampling": 3, "scale": 1, "rotation": 3, "query": 2}
        assert stops == {"explorer": 7, "comparison": 9} | sliders
        for summary in page.locator("summary").all():
            summary.click()
        page.locator(".queries button").nth(2).focus()
        keep_views(page, f"page-{theme}")
        assert serious(page) == []


def test_views_of_every_kind_do_not_disturb_each_other(chromium, every, tmp_path):
    with watched(chromium, exported(every, tmp_path / "page.html")) as page:
        views = page.locator(f"{OURS}, {BERTVIZ}").all()
        before = [one.inner_html() for one in views]
        for index, view in enumerate(views):
            nudge(page, view.locator("select, input").first)
            after = [one.inner_html() for one in views]
            changed = [a != b for a, b in zip(before, after, strict=True)]
            assert changed == [i == index for i in range(len(views))]
            before = after


def displayed_text(token):
    """A token as a view writes it: what cannot be seen gets a sign."""
    text = token.replace("\n", "⏎").replace("\t", "⇥")
    return text if text.strip() else "␣" * len(text) or "∅"


def test_hostile_tokens_are_text(chromium, displayed, tmp_path):
    count = len(HOSTILE)
    assert count >= 30
    weights = {"": torch.ones(count, count).tril().expand(1, 1, -1, -1) / count}
    show_attention(weights, HOSTILE, title=HOSTILE[1])
    turned = weights[""].flip(-1)
    show_comparison(weights, turned, HOSTILE, title=HOSTILE[1])
    scores = torch.arange(float(NAMED), 0, -1)
    for first in (0, count // 2 - 5, count - NAMED):
        some = HOSTILE[first : first + NAMED]
        show_sampling(scores, some, title=HOSTILE[4])
    turn = torch.linspace(0, 6, count)
    places = torch.stack((turn.cos(), turn.sin()), 1).tolist()
    show_query(dict(zip(HOSTILE, places, strict=True)), title=HOSTILE[12])
    show_scale(title=HOSTILE[2])
    show_rotation(title=HOSTILE[2])
    for view in (head_view, model_view):
        page = view([weights[""]], HOSTILE, html_action="return")
        show_bertviz(page, HOSTILE[1])
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        for place in (".queries", ".keys"):
            assert same_texts(page.locator(f".explorer {place} bdi"), HOSTILE)
            assert same_texts(page.locator(f".comparison {place} bdi"), HOSTILE)
        named = page.locator(".pieces .bars").all()
        assert same_texts(named[1].locator("bdi"), HOSTILE[count // 2 - 5 :][:16])
        assert same_texts(named[3].locator("bdi"), HOSTILE)
        assert page.locator(".pieces text").count() == count
        heads, model = page.locator(BERTVIZ).all()
        texts = heads.locator("#left text").all_text_contents()
        assert texts[:20] == HOSTILE[:20] and len(texts) == count
        model.locator("g > rect:last-child").first.click()
        texts = model.locator("text.token").all_text_contents()
        assert texts[:20] == HOSTILE[:20] and len(texts) == 2 * count
        for button in page.locator(".queries button").all()[::5]:
            button.hover()
        for select in page.locator("select").all():
            select.select_option(index=0)
        for summary in page.locator("summary").all():
            summary.click()
        assert page.evaluate("document.hacked") is None
        assert page.locator(".title").first.text_content() == HOSTILE[1]
        inside = page.locator(f":is({OURS}, {BERTVIZ}) :is(img, script, b, style)")
        assert inside.count() == 0
        keep_views(page, "hostile")


def same_texts(places, tokens):
    """Equal but for blanks at the ends and half a pair, which the browser replaces."""

    def bare(text):
        return text.replace("\ud83d", "?").replace("\ufffd", "?").strip("␣ ")

    texts = [bare(one) for one in places.all_text_contents()]
    return texts == [bare(displayed_text(one)) for one in tokens]


@pytest.fixture
def compared(chromium, displayed, tmp_path):
    """A page with a comparison of the layers 1, and the page's data."""
    before, after = translation(), translation(1)
    show_comparison(before, after, SPANISH, ENGLISH, title="It learned.", layer=1)
    data = payload(displayed[0][0]["text/html"])
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        page.locator(".comparison .title").wait_for()
        yield page, data


def test_a_comparison_says_what_changed(compared):
    page, data = compared
    cross = data["parts"][1]
    assert cross["name"] == "cross"
    levels = changes(cross)[1, 0]
    grids = page.locator(".comparison .grid canvas")
    assert grids.count() == 3, "before, after and their difference"
    for grid in grids.all():
        assert_cells_say(page, grid, levels / 240, "change ")
    page.mouse.move(0, 0)
    page.locator(".queries").get_by_role("button", name="roja").hover()
    most = int(levels[3].abs().argmax())
    sign = "+" if levels[3, most] > 0 else "−"
    beginning = f"“roja” looks at “{ENGLISH[most].strip()}” {sign}"
    assert plain(page.get_by_role("status").inner_text()).startswith(beginning)
    assert page.locator("line").count() == int((levels[3] != 0).sum())


PIXELS = """(canvas) => [...canvas.getContext("2d").getImageData(
    0, 0, canvas.width, canvas.height).data]"""


def test_the_colors_of_a_change_are_centered_on_0(compared):
    page, data = compared
    levels = changes(data["parts"][1])[1, 0].flatten().tolist()
    drawn = page.locator(".comparison .grid canvas").last.evaluate(PIXELS)
    for place, level in enumerate(levels):
        red, _, blue, strength = drawn[4 * place : 4 * place + 4]
        assert strength == pytest.approx(255 * (abs(level) / 240) ** 0.5, abs=1)
        if strength > 20:
            assert (red > blue) == (level > 0)
    ramp = page.locator(".comparison .scale canvas").evaluate(PIXELS)
    strengths = ramp[3::4]
    assert len(strengths) == 201 and strengths[100] == 0
    assert strengths == pytest.approx(strengths[::-1], abs=1)
    assert ramp[2] > ramp[0] and ramp[-4] > ramp[-2], "blue for less, red for more"


def test_a_comparison_takes_any_two_heads(compared):
    page, data = compared
    one = page.locator(".comparison")
    part = data["parts"][1]
    lines, selects = one.locator("line"), one.locator("select")
    words = ("Layer before", "Head before", "Layer after", "Head after")
    labels = map(plain, one.locator("label").all_inner_texts()[1:])
    assert all(text.startswith(word) for text, word in zip(labels, words, strict=True))
    selects.nth(1).select_option("0")
    selects.nth(4).select_option("1")
    codes = (numbers(part["map"]).reshape(2, *part["shape"]) - 1).clamp(min=0)
    change = codes[1, 1, 1] - codes[0, 0, 0]
    assert lines.count() == strong_changes(change)
    pressed = one.locator(".overview button[aria-pressed=true]")
    assert pressed.count() == 0, "they are no head of both"
    one.get_by_role("button", name="layer 2, head 1").click()
    assert lines.count() == strong_changes(changes(part)[2, 1])
    assert [box.input_value() for box in selects.all()[1:]] == ["2", "1", "2", "1"]
    assert pressed.count() == 1
    one.locator("summary").click()
    cells = one.locator("td").all_inner_texts()
    size = changes(part)[2, 1].abs()
    assert plain(cells[4]).lstrip("+−") == f"{int(size.max()) / 240:.2f}"
    selects.first.select_option("0")
    assert lines.count() == strong_changes(changes(data["parts"][0])[0, 0])


def test_bertviz_draws_and_reacts_offline(chromium, displayed, tmp_path):
    weights = translation()
    for view in (head_view, model_view):
        show_bertviz(bertviz_page(view, weights), "Random heads.")
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        heads, model = page.locator("div[id^=bertviz]").all()
        assert heads.locator("line").count() > TARGET
        before = heads.inner_html()
        heads.locator("#layer").select_option("2")
        after = heads.inner_html()
        assert after != before
        heads.locator("#left text").nth(1).hover()
        assert heads.inner_html() != after
        assert model.locator("line").count() > LAYERS * HEADS
        for one in (heads, model):
            box, svg = one.bounding_box(), one.locator("svg").first.bounding_box()
            assert svg["height"] <= box["height"] and svg["width"] > 300
            assert svg["x"] + svg["width"] <= box["x"] + box["width"], "not cut off"


def test_pieces_say_what_holds(chromium, every, tmp_path):
    with watched(chromium, exported(every, tmp_path / "page.html")) as page:
        sampling, query = page.locator(".pieces").first, page.locator(".pieces").last
        status = sampling.get_by_role("status")
        assert status.inner_text().startswith("50 of 50 tokens stay")
        sampling.locator("input").nth(1).press("Home")
        assert status.inner_text().startswith("1 of 50")
        query.locator("svg").scroll_into_view_if_needed()
        plane, status = query.locator("svg").bounding_box(), query.get_by_role("status")
        before = status.inner_text()
        page.mouse.move(plane["x"] + 150, plane["y"] + 150)
        page.mouse.down()
        page.mouse.move(plane["x"] + 290, plane["y"] + 150)
        page.mouse.up()
        assert status.inner_text() != before and "cat" in status.inner_text()


def large_explorer(words):
    weights = {f"blocks.{i}": random_weights(12, 128, 128) for i in range(12)}
    show_attention(weights, words, title="Large.")


def large_comparison(words):
    before, after = ([random_weights(12, 128, 128) for _ in range(6)] for _ in range(2))
    show_comparison(before, after, words, title="Large.")


@pytest.mark.parametrize(
    "show, heads",
    [pytest.param(large_explorer, 144, marks=pytest.mark.long), (large_comparison, 72)],
)
def test_a_large_view_opens_soon_and_stays_fluid(
    chromium, displayed, tmp_path, show, heads
):
    show([f"token{i}" for i in range(128)])
    path = tmp_path / "page.html"
    html = displayed[0][0]["text/html"]
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8>{html}", encoding="utf-8")
    began = time.perf_counter()
    with watched(chromium, path.as_uri()) as page:
        page.locator(".overview button").nth(heads - 1).wait_for()
        assert time.perf_counter() - began < 10, "it hangs"
        took = page.evaluate(
            """() => { const one = document.querySelectorAll(".queries button");
            const began = performance.now();
            for (let i = 0; i < 20; i++) one[i + 50].onpointerenter();
            return (performance.now() - began) / 20; }"""
        )
        assert took < 250, "milliseconds for one hover: it hangs"
        keep_picture(page, show.__name__)


RUN = """from tests.support.every_view import show_every_kind
show_every_kind("After a run.")"""
IDLE = ".jp-Notebook-ExecutionIndicator[data-status=idle]"


def run_all(page):
    for name in ("Run", "Run All Cells"):
        page.get_by_role("menuitem", name=name, exact=True).click()


def test_jupyterlab_shows_them(chromium, every, tmp_path):
    nbformat.write(notebook(every, RUN), tmp_path / "page.ipynb")
    with jupyterlab(tmp_path) as (address, jupyter):
        address = f"{address}page.ipynb?token=x"
        with watched(chromium, address) as page:
            output = page.locator(".jp-OutputArea")
            output.locator("img").nth(len(KINDS) - 3).wait_for()  # bertviz has none
            keep_picture(page, "jupyterlab-untrusted")
            assert output.locator("line, input, .course-view select").count() == 0
            text = output.first.inner_text()
            assert text.count("trust the notebook") == len(KINDS)
        jupyter("trust", "page.ipynb")
        with watched(chromium, address) as page:
            page.locator(BERTVIZ).nth(1).wait_for()
            page.locator(IDLE).first.wait_for()  # its keys are bound
            assert use_all(page) == KINDS
            assert serious(page) == []
            keep_views(page, "jupyterlab-light")
            assert "trust" not in page.locator(".jp-OutputArea").first.inner_text()
            run_all(page)
            page.get_by_text("[1]:", exact=True).wait_for()
            page.get_by_text("After a run.", exact=True).first.wait_for()
            page.mouse.move(0, 0)
            assert use_all(page) == KINDS
            keep_picture(page, "jupyterlab-run")


TELL = """from course_utils.looking import plots

plots.display = lambda data, metadata, raw: print("alt:", data["text/plain"])
plots.arrows({"q": (1, 1)})
plots.arrows({"k": (1, 2)})"""


def test_jupyterlab_sends_the_alt_texts_and_folds_a_solution(chromium, tmp_path):
    book = notebook([], TELL)
    book.cells[0].metadata = {"alt": ["Up to the right.", "Steeper."]}
    book.cells.append(nbformat.v4.new_code_cell("# ours\nsecret = 1"))
    book.cells[1].metadata = {"jupyter": {"source_hidden": True}}
    nbformat.write(book, tmp_path / "page.ipynb")
    with (
        jupyterlab(tmp_path) as (address, _),
        watched(chromium, f"{address}page.ipynb?token=x") as page,
    ):
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
        run_all(page)
        page.get_by_text("alt: Steeper.").wait_for()
        text = page.locator(".jp-OutputArea").first.inner_text()
        assert text.split("\n")[:2] == ["alt: Up to the right.", "alt: Steeper."]
        assert page.get_by_text("secret").count() == 0
        keep_picture(page, "jupyterlab-folded")


@pytest.mark.parametrize("options, asks", [((), 1), (QUIET_LAB, 0)])
@pytest.mark.long
def test_jupyterlab_asks_nothing(chromium, tmp_path, options, asks):
    nbformat.write(notebook([], "1"), tmp_path / "page.ipynb")
    with (
        jupyterlab(tmp_path, options) as (address, _),
        watched(chromium, f"{address}page.ipynb?token=x") as page,
    ):
        page.locator(IDLE).wait_for()
        page.wait_for_timeout(3000)
        assert page.get_by_text("official Jupyter news").count() == asks
