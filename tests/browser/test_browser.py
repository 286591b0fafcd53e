"""Views as a person meets them: in Chromium, with no network."""

import math
import time
from pathlib import Path

import nbformat
import pytest
import torch
from bertviz import head_view, model_view

from course_utils.views import (
    show_attention,
    show_bertviz,
    show_comparison,
    show_query,
    show_rotation,
    show_sampling,
)
from course_utils.views.frames import show_frames
from course_utils.views.sampling import NAMED
from tests.support.browser_views import (
    BERTVIZ,
    OURS,
    glowing,
    nudge,
    plain,
    serious,
    status_of,
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
from tests.support.view_data import GLOWS, changes, numbers, payload, stored_outputs
from tools.browser_page import browser, exported, jupyterlab, notebook, watched
from tools.working_copies import QUIET_LAB

pytestmark = pytest.mark.slow

COUNT = sum(KINDS.values())

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def displayed():
    with stored_outputs(script=True) as outputs:
        yield outputs


@pytest.fixture(scope="module")
def every():
    """One view of each kind, as stored."""
    with stored_outputs(script=True) as outputs:
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


def view(page, index):
    return page.locator(".course-view").nth(index)


def test_the_words_that_a_word_looks_at_glow(explored):
    page, weights = explored
    assert page.locator(".course-view").count() == 3
    first, cross = view(page, 0), weights["blocks.1.cross_attention"][0, 0]
    target, source = first.locator(".chips").all()
    best = int(cross.argmax()) // SOURCE
    assert target.locator(".chosen").inner_text() == SPANISH[best], "the strongest link"
    target.get_by_role("button", name="roja").hover()
    shown = [plain(text) for text in source.locator("small").all_inner_texts()]
    assert shown == [f"{w:.2f}" if w >= GLOWS else "" for w in cross[3].tolist()]
    text = status_of(first)()
    assert text.startswith(f"“roja” looks at “{ENGLISH[cross[3].argmax()].strip()}” ")
    source.get_by_role("button", name="house").hover()
    assert glowing(first) == int((cross[:, 2] >= GLOWS).sum())
    assert "is looked at by" in status_of(first)()
    page.mouse.move(0, 0)
    assert first.locator(".chosen").inner_text() == SPANISH[best]
    alone, own = view(page, 1), weights["blocks.0.attention"][0, 0]
    alone.get_by_role("radio", name="is looked at by").check()
    alone.get_by_role("button", name="casa").click()
    assert glowing(alone) == int((own[:, 2] >= GLOWS).sum())
    assert alone.locator(".hidden").count() == 2, "it is hidden from the words before"


def assert_cells_say(page, view, numbers, before=": weight "):
    """The mouse on a cell of the map "target source": its words and its number."""
    box = view.locator(".grid canvas").bounding_box()
    for q, k in ((0, 0), (4, 6), (2, 5)):
        x = box["x"] + (k + 0.5) * box["width"] / SOURCE
        page.mouse.move(x, box["y"] + (q + 0.5) * box["height"] / TARGET)
        text = status_of(view)()
        assert text.startswith(f"“{SPANISH[q].strip()}” → “{ENGLISH[k].strip()}”: ")
        stated = text.split(before)[1].replace("−", "-").replace("<0.01", "0")
        assert float(stated) == pytest.approx(float(numbers[q, k]), abs=0.0075)


def test_layers_and_parts_change_by_click(explored):
    page, weights = explored
    first = view(page, 0)
    assert_cells_say(page, first, weights["blocks.1.cross_attention"][0, 0])
    first.get_by_role("button", name="layer 2, head 1").click()
    assert_cells_say(page, first, weights["blocks.2.cross_attention"][0, 1])
    first.get_by_role("radio", name="decoder").check()
    first.get_by_role("button", name="casa").hover()
    assert first.locator(".hidden").count() == 2, "the third token sees three"


RUN_AGAIN = """(newer) => {
    for (const one of document.querySelectorAll(".jp-OutputArea script")) {
        const again = document.createElement("script");
        const old = one.textContent;
        again.textContent = old.replace(/listen\\(".{8}/, (all) => all + newer);
        document.body.append(again);
    }
}"""


def test_views_do_not_disturb_each_other(explored):
    page, _ = explored
    before = [view(page, i).inner_html() for i in range(3)]
    view(page, 1).get_by_role("button", name="layer 0, head 1").click()
    view(page, 1).get_by_role("button", name="roja").first.hover()
    after = [view(page, i).inner_html() for i in range(3)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]
    for newer in ("", "a newer version"):
        page.evaluate(RUN_AGAIN, newer)
        assert [view(page, i).inner_html() for i in range(3)] == after


@pytest.mark.parametrize("alive", [True, False])
def test_a_still_stands_only_where_the_view_does_not_live(
    chromium, every, tmp_path, alive
):
    """Without the script, which is what stands in every other notebook of a page."""
    outputs = every[0 if alive else 2 : 18]
    with watched(chromium, exported(outputs, tmp_path / "page.html")) as page:
        stills = page.locator("img")
        assert stills.count() == len(outputs) // 2
        page.locator(OURS).first.wait_for()
        assert page.locator("img:visible").count() == (0 if alive else 8)
        assert page.get_by_text("trust the notebook").count() == (0 if alive else 8)


def test_a_view_that_cannot_be_drawn_keeps_its_sentence_and_its_still(
    chromium, every, tmp_path
):
    broken = [({**every[0][0]}, {}), every[1], *every[2:4]]
    html = broken[0][0]["text/html"]
    broken[0][0]["text/html"] = html.replace('"map":"', '"map":"AAAA')
    with watched(chromium, exported(broken, tmp_path / "p.html"), errors=1) as page:
        page.locator(".comparison, .wall").first.wait_for()
        assert page.locator("img:visible").count() == 1
        assert page.get_by_text("trust the notebook").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_can_be_used_in_a_page(chromium, every, tmp_path, theme):
    with watched(chromium, exported(every, tmp_path / "p.html", theme)) as page:
        assert use_all(page) == KINDS
        stops = {view_kind(v): walk_by_tab(page, v) for v in page.locator(OURS).all()}
        sliders = {"sampling": 3, "rotation": 3, "query": 2}
        assert stops == {"explorer": 5, "comparison": 6, "frames": 2} | sliders
        for summary in page.locator("summary").all():
            summary.click()
        page.locator(".chip").nth(2).focus()
        keep_views(page, f"page-{theme}")
        assert serious(page) == []


def test_views_of_every_kind_do_not_disturb_each_other(chromium, every, tmp_path):
    with watched(chromium, exported(every, tmp_path / "page.html")) as page:
        views = page.locator(f"{OURS}, {BERTVIZ}").all()
        before = [one.inner_html() for one in views]
        for index, view in enumerate(views):
            nudge(page, view.locator("select, input:not([type=radio]), :checked").first)
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
    show_rotation(title=HOSTILE[2])
    for view in (head_view, model_view):
        page = view([weights[""]], HOSTILE, html_action="return")
        show_bertviz(page, HOSTILE[1])
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        for view in page.locator(".explorer").all():
            assert same_texts(view.locator(".chip bdi"), HOSTILE)
        named = page.locator(".pieces .bars").all()
        assert same_texts(named[1].locator("bdi"), HOSTILE[count // 2 - 5 :][:16])
        assert same_texts(named[3].locator("bdi"), HOSTILE)
        assert page.locator(".pieces .plane text").count() == count
        heads, model = page.locator(BERTVIZ).all()
        texts = heads.locator("#left text").all_text_contents()
        assert texts[:20] == HOSTILE[:20] and len(texts) == count
        model.locator("g > rect:last-child").first.click()
        texts = model.locator("text.token").all_text_contents()
        assert texts[:20] == HOSTILE[:20] and len(texts) == 2 * count
        for button in page.locator(".chip").all()[::5]:
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


PIXELS = """(canvas) => [...canvas.getContext("2d").getImageData(
    0, 0, canvas.width, canvas.height).data]"""


def test_a_comparison_shows_before_after_and_the_change(chromium, displayed, tmp_path):
    before, after = translation(), translation(1)
    show_comparison(before, after, SPANISH, ENGLISH, title="It learned.", layer=1)
    part = payload(displayed[0][0]["text/html"])["parts"][1]
    levels = changes(part)
    sides = (numbers(part["map"]).reshape(2, *part["shape"]) - 1).clamp(min=0)
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        one = view(page, 0)
        assert_cells_say(page, one, levels[1, 0] / 240, "change ")
        colors = torch.tensor(one.locator(".grid canvas").evaluate(PIXELS))
        red, _, blue, _ = colors.reshape(-1, 4).T
        large = levels[1, 0].flatten().abs() > 24
        assert ((red > blue) == (levels[1, 0].flatten() > 0))[large].all()
        one.get_by_role("button", name="layer 2, head 1").click()
        for name, maps in (("before", sides[0]), ("after", sides[1])):
            one.get_by_role("radio", name=name).check()
            one.locator(".chip").nth(3).hover()
            best = ENGLISH[int(maps[2, 1, 3].argmax())].strip()
            assert status_of(one)().startswith(f"“roja” looks at “{best}” ")
            assert "attention weight" in one.locator(".scale").inner_text()
        one.locator("summary").click()
        cells = one.locator("td").all_inner_texts()
        largest = sides[1][2, 1].max() / 240
        assert plain(cells[3]) == f"{largest:.2f}" and cells[4][0] in "+−"


def test_dark_is_much_in_maps_and_a_chip_glows_in_any_theme(chromium, every, tmp_path):
    with watched(chromium, exported(every, tmp_path / "page.html")) as page:
        one = view(page, 0)
        chip = one.locator(".chip:has(small:not(:empty)) bdi").first
        tint = "chip => getComputedStyle(chip).backgroundColor"
        light, map_ = chip.evaluate(tint), one.locator(".grid canvas").evaluate(PIXELS)
        page.evaluate("document.body.dataset.jpThemeLight = false")
        page.wait_for_timeout(300)
        assert chip.evaluate(tint) != light
        assert one.locator(".grid canvas").evaluate(PIXELS) == map_


def test_frames_are_scrubbed_on_the_picture_and_are_numbers(
    chromium, displayed, tmp_path
):
    weights = random_weights(4, TARGET, TARGET)[0]
    captions = [f"layer {i}" for i in range(4)]
    show_frames(weights, captions, title="It moves.", rows=SPANISH, columns=SPANISH)
    with watched(chromium, exported(displayed, tmp_path / "page.html")) as page:
        box = page.locator(".stage").bounding_box()
        x, y = box["x"] + 10, box["y"] + 40
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 2.2 * box["width"] / 4, y, steps=5)
        assert page.get_by_role("status").inner_text() == "layer 2"
        page.mouse.up()
        page.mouse.move(x, y)
        assert page.get_by_role("status").inner_text() == "layer 2"
        for place in (2, 3):
            pixels = page.locator("canvas").evaluate(PIXELS)
            pixels = torch.tensor(pixels).reshape(-1, 4)
            frame = weights[place].flatten()
            hidden = frame == 0
            assert (pixels[hidden, 3] == 0).all() and (pixels[~hidden, 3] == 255).all()
            assert pixels[~hidden, :3].sum(-1).argmin() == frame[~hidden].argmax()
            page.locator(".bar input").press("End")
            assert page.get_by_role("status").inner_text() == captions[-1]


def test_nothing_is_wider_than_a_phone(chromium, every, displayed, tmp_path):
    many = {"": random_weights(12, 20, 20)}
    show_attention(many, [f"word{i}" for i in range(20)], title="Many heads.")
    address = exported([*every[:18], *displayed], tmp_path / "page.html")
    with watched(chromium, address, viewport={"width": 360, "height": 700}) as page:
        page.locator(".title").nth(9).wait_for()
        keep_views(page, "phone")
        for one in page.locator(OURS).all():
            assert one.evaluate("one => one.scrollWidth <= one.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        keep_views(page, "phone")


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
        sampling.locator("input").first.press("Home")  # temperature 0.1
        scores = torch.linspace(0, -6, 50, dtype=torch.float64).mul(100).round() / 100
        assert f" {(scores / 0.1).softmax(0)[0]:.3f} of" in status.inner_text()
        query.locator("svg").scroll_into_view_if_needed()
        plane, status = query.locator("svg").bounding_box(), query.get_by_role("status")
        before = status.inner_text()
        touch = {"buttons": 1, "clientX": plane["x"], "clientY": plane["y"]}
        query.locator("svg").dispatch_event("pointerdown", touch)
        assert status.inner_text() == before  # a thumb may begin to scroll there
        page.mouse.move(plane["x"] + 150, plane["y"] + 150)
        page.mouse.down()
        page.mouse.move(plane["x"] + 290, plane["y"] + 150)
        page.mouse.up()
        assert status.inner_text() != before
        assert query.locator(".slider span").all_inner_texts() == ["0°", "4"]
        cat = math.exp(4) / (math.exp(4) + math.exp(0) + math.exp(-0.6 * 4))
        assert status.inner_text() == f"“\u2068cat\u2069” gets {cat:.2f}."


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
        page.locator(".wall button").nth(heads - 1).wait_for()
        assert time.perf_counter() - began < 10, "it hangs"
        took = page.evaluate(
            """() => { const one = document.querySelectorAll(".chip");
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
            output.locator("img").nth(COUNT - 3).wait_for()  # bertviz has none
            assert output.locator("img:visible").count() == COUNT - 2
            keep_picture(page, "jupyterlab-untrusted")
            assert output.locator("line, input, .course-view button").count() == 0
            text = output.first.inner_text()
            assert text.count("trust the notebook") == COUNT
        jupyter("trust", "page.ipynb")
        with watched(chromium, address) as page:
            page.locator(BERTVIZ).nth(1).wait_for()
            page.locator(IDLE).first.wait_for()  # its keys are bound
            assert page.locator(".jp-OutputArea img:visible").count() == 0
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


TELL = """from lesson_plots import plots, style

style.display = lambda data, metadata, raw: print("alt:", data["text/plain"])
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
