"""Views as a person meets them: in Chromium, with no network."""

import os
import time
from pathlib import Path

import pytest
import torch

import course_utils.plots
from course_utils.config import DecoderConfig, StackConfig
from course_utils.models import DecoderLM
from course_utils.recording import record
from course_utils.views import bertviz_offline, pieces
from course_utils.views import page as views_page
from course_utils.views.explorer import show_attention
from course_utils.views.neurons import show_neurons
from tests.browser_page import browser, exported, watched
from tests.hostile import HOSTILE

HEADS, LAYERS, SOURCE, TARGET = 2, 3, 7, 5
SCREENSHOTS = Path(__file__).resolve().parent.parent / "build" / "screenshots"


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture
def shown(monkeypatch):
    """What a notebook would store: a list of (data, metadata)."""
    outputs = []

    def keep(data, metadata=None, raw=False):
        outputs.append((data, metadata or {}))

    monkeypatch.setattr(views_page, "display", keep)
    monkeypatch.setattr(bertviz_offline, "display", keep)
    monkeypatch.setattr(course_utils.plots, "display", keep)
    return outputs


def keep_picture(page, name):
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def random_weights(heads, queries, keys):
    scores = 3 * torch.randn(1, heads, queries, keys, dtype=torch.float64)
    if queries == keys:
        scores = scores.masked_fill(torch.ones(queries, keys).triu(1).bool(), -1e9)
    return scores.softmax(-1)


def translation():
    torch.manual_seed(0)
    weights = {}
    for layer in range(LAYERS):
        crossed = random_weights(HEADS, TARGET, SOURCE)
        weights[f"blocks.{layer}.attention"] = random_weights(HEADS, TARGET, TARGET)
        weights[f"blocks.{layer}.cross_attention"] = crossed
    return weights


SPANISH = ["<bos>", "la", " casa", " roja", "."]
ENGLISH = ["the", " red", " house", " is", " here", ".", "<eos>"]


def strong(weights):
    """Links drawn before a token is chosen: weights that round to 0.04 and more."""
    return int((views_page.weight_codes(weights) - 1 >= 0.04 * 240).sum())


@pytest.fixture
def explored(chromium, shown, tmp_path):
    """A page with three views: two different ones and a copy of the second."""
    weights = translation()
    show_attention(weights, SPANISH, ENGLISH, title="Random heads.", layer=1)
    for _ in range(2):
        alone = {"": weights["blocks.0.attention"]}
        show_attention(alone, SPANISH, title="A lone layer.")
    with watched(chromium, exported(shown, tmp_path / "page.html")) as page:
        yield page, weights


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
    said = first.get_by_role("status").inner_text().replace("\u2068", "")
    assert said.startswith("“roja") and f"looks at “{best}" in said
    first.locator(".keys").get_by_role("button", name="house").hover()
    assert lines.count() == TARGET
    assert "is looked at by" in first.get_by_role("status").inner_text()
    page.mouse.move(0, 0)
    assert lines.count() == strong(cross)


def test_a_cell_of_the_matrix_says_its_weight(explored):
    page, weights = explored
    first = view(page, 0)
    canvas = first.get_by_role("img", name="weights")
    box = canvas.bounding_box()
    for q, k in ((0, 0), (4, 6), (2, 5)):
        x = box["x"] + (k + 0.5) * box["width"] / SOURCE
        page.mouse.move(x, box["y"] + (q + 0.5) * box["height"] / TARGET)
        weight = float(weights["blocks.1.cross_attention"][0, 0, q, k])
        said = first.get_by_role("status").inner_text()
        said = said.replace("\u2068", "").replace("\u2069", "")
        stated = said.split(": ")[1].replace("<0.01", "0")
        assert float(stated) == pytest.approx(weight, abs=0.0075)
        names = f"“{SPANISH[q].strip()}” → “{ENGLISH[k].strip()}”"
        assert said.startswith(names)


def test_layers_change_by_click_and_by_keyboard(explored):
    page, weights = explored
    first = view(page, 0)
    lines = first.locator("line")
    cross = [weights[f"blocks.{i}.cross_attention"][0] for i in range(LAYERS)]
    assert first.locator(".overview button").count() == LAYERS * HEADS
    first.get_by_role("button", name="layer 2, head 1").click()
    assert lines.count() == strong(cross[2][1])
    layer = first.locator("select").nth(1)
    assert layer.input_value() == "2"
    layer.focus()
    page.keyboard.press("ArrowUp")
    assert lines.count() == strong(cross[1][1])
    first.locator(".queries button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "casa" in first.get_by_role("status").inner_text()
    assert lines.count() == SOURCE
    page.keyboard.press("Escape")
    assert lines.count() == strong(cross[1][1])
    first.locator("select").first.select_option("decoder")
    masked = weights["blocks.0.attention"][0, 0]
    assert lines.count() == strong(masked)
    first.get_by_role("button", name="casa").first.hover()
    assert lines.count() == 3, "the third token sees three"


def test_views_do_not_disturb_each_other(explored):
    page, _ = explored
    before = [view(page, i).inner_html() for i in range(3)]
    view(page, 1).get_by_role("button", name="layer 0, head 1").click()
    view(page, 1).get_by_role("button", name="roja").first.hover()
    after = [view(page, i).inner_html() for i in range(3)]
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium, shown, tmp_path, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    show_attention(translation(), SPANISH, ENGLISH, title="Random heads.", layer=1)
    pieces.show_sampling(torch.randn(50), list(map(str, range(50))), title="One leads.")
    pieces.show_query({"a": (1, 0), "b": (0, 1)}, title="It turns.")
    path = tmp_path / "page.html"
    html = "".join(data["text/html"] for data, _ in shown[::2])
    head = f'<!DOCTYPE html><html lang="en" data-theme="{theme}"><title>t</title>'
    path.write_text(f"{head}<main><h1>t</h1>{html}</main>", encoding="utf-8")
    with watched(chromium, path.as_uri(), color_scheme=theme) as page:
        page.locator("summary").click()
        page.locator(".queries button").nth(2).focus()
        keep_picture(page, f"explorer-{theme}")
        found = axe.Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert serious == []


def test_hostile_tokens_are_text(chromium, shown, tmp_path):
    count = len(HOSTILE)
    weights = {"": torch.ones(count, count).tril().expand(1, 1, -1, -1) / count}
    show_attention(weights, HOSTILE, title=HOSTILE[1])
    with watched(chromium, exported(shown, tmp_path / "page.html")) as page:
        assert page.evaluate("document.hacked") is None
        texts = page.locator(".queries button").all_text_contents()
        signs = {"\n": "⏎", "\t\r\n": "⇥\r⏎", "   ": "␣␣␣", "": "∅"}
        read = [signs.get(token, token) for token in HOSTILE]
        for given, expected in zip(texts, read, strict=True):
            assert given == expected or given.strip("␣") == expected.strip()
        for button in page.locator(".queries button").all()[::5]:
            button.hover()
        page.locator("summary").click()
        assert page.evaluate("document.hacked") is None
        assert page.locator(".title").text_content() == HOSTILE[1]
        inside = page.locator(".course-view :is(img, script, b, style)")
        assert inside.count() == 0
        keep_picture(page, "explorer-hostile")


def test_bertviz_draws_and_reacts_offline(chromium, shown, tmp_path):
    show_bertviz = bertviz_offline.show_bertviz
    weights = translation()
    show_bertviz(weights, SPANISH, ENGLISH, title="Random heads.")
    show_bertviz(weights, SPANISH, ENGLISH, title="Random heads.", view="model")
    alone = {"": torch.eye(len(HOSTILE))[None, None].double()}
    show_bertviz(alone, HOSTILE, title=HOSTILE[1])
    with watched(chromium, exported(shown, tmp_path / "page.html")) as page:
        heads, model, hostile = page.locator("div[id^=bertviz]").all()
        assert heads.locator("line").count() > TARGET
        before = heads.inner_html()
        heads.locator("#layer").select_option("2")
        after = heads.inner_html()
        assert after != before
        heads.locator("#left text").nth(1).hover()
        assert heads.inner_html() != after
        assert model.locator("line").count() > LAYERS * HEADS
        texts = hostile.locator("#left text").all_text_contents()
        assert texts[:20] == HOSTILE[:20]
        assert page.evaluate("document.hacked") is None
        for one in (heads, model):
            box, svg = one.bounding_box(), one.locator("svg").first.bounding_box()
            assert svg["height"] <= box["height"] and svg["width"] > 300
        keep_picture(page, "bertviz")


def test_neurons_and_pieces_follow(chromium, shown, tmp_path):
    torch.manual_seed(0)
    model = DecoderLM(DecoderConfig(11, StackConfig(8, HEADS, LAYERS, 16))).double()
    with torch.no_grad(), record(model) as seen:
        model(torch.tensor([[4, 5, 6]]))
    show_neurons(seen, HOSTILE[1:4], title="A sum of products.")
    pieces.show_sampling(torch.randn(50), [*HOSTILE, *"abcdefghi"], title="One leads.")
    pieces.show_scale(title="Wide heads saturate.")
    pieces.show_rotation(title="A shift is a turn.")
    pieces.show_query({HOSTILE[1]: (1, 0), "b": (0, 1)}, title="It turns.")
    with watched(chromium, exported(shown, tmp_path / "page.html")) as page:
        views = page.locator(".course-view")
        assert views.count() == 5
        neurons = views.first
        assert neurons.locator("tr").count() == 4
        assert neurons.locator(".cells").first.locator("i").count() == 4
        before = neurons.inner_text()
        assert "hidden" not in before
        neurons.locator("select").last.select_option("0")
        assert neurons.inner_text().count("hidden") == 2
        weights = neurons.locator("tr td:last-child").all_text_contents()
        assert weights == ["1.00", "0", "0"]
        for index in range(1, 5):
            said = views.nth(index).get_by_role("status")
            for i in range(views.nth(index).locator("input").count()):
                words = said.inner_text()
                drawn = views.nth(index).inner_html()
                views.nth(index).locator("input").nth(i).focus()
                for _ in range(2):
                    page.keyboard.press("ArrowLeft")
                now = views.nth(index).inner_html()
                assert (said.inner_text(), now) != (words, drawn)
                views.nth(index).locator("input").nth(i).press("End")
        kept = views.nth(1).get_by_role("status").inner_text()
        assert kept.startswith("50 of 50 tokens stay")
        views.nth(1).locator("input").nth(1).press("Home")
        assert views.nth(1).get_by_role("status").inner_text().startswith("1 of 50")
        views.nth(4).locator("svg").scroll_into_view_if_needed()
        plane = views.nth(4).locator("svg").bounding_box()
        said = views.nth(4).get_by_role("status").inner_text()
        page.mouse.move(plane["x"] + 150, plane["y"] + 150)
        page.mouse.down()
        page.mouse.move(plane["x"] + 290, plane["y"] + 150)
        page.mouse.up()
        assert views.nth(4).get_by_role("status").inner_text() != said
        assert page.evaluate("document.hacked") is None
        keep_picture(page, "neurons-and-pieces")


def test_a_large_view_opens_soon_and_stays_fluid(chromium, shown, tmp_path):
    patience = float(os.environ.get("COURSE_PATIENCE", "1"))
    torch.manual_seed(0)
    weights = {f"blocks.{i}": random_weights(12, 128, 128) for i in range(12)}
    show_attention(weights, [f"token{i}" for i in range(128)], title="Large.")
    path = tmp_path / "page.html"
    html = shown[0][0]["text/html"]
    path.write_text(f"<!DOCTYPE html><meta charset=utf-8>{html}", encoding="utf-8")
    began = time.perf_counter()
    with watched(chromium, path.as_uri()) as page:
        page.locator(".overview button").nth(143).wait_for()
        assert time.perf_counter() - began < 2 * patience
        took = page.evaluate(
            """() => { const one = document.querySelectorAll(".queries button");
            const began = performance.now();
            for (let i = 0; i < 20; i++) one[i + 50].onpointerenter();
            return (performance.now() - began) / 20; }"""
        )
        assert took < 50 * patience, "milliseconds for one hover"
        keep_picture(page, "explorer-large")
