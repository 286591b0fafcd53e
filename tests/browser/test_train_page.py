"""The page that trains, in Chromium and without network, in the hands of a reader.

What it computes is compared with PyTorch in tests/unit/test_training_page.py.
"""

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from course_utils import page as pages
from tests.browser.test_browser import SCREENSHOTS
from tests.support import notebook_code
from tests.support.browser_views import serious
from tests.support.hostile import HOSTILE
from tools.browser_page import PATIENCE, browser, watched

pytestmark = pytest.mark.slow

LONG = 400_000 * PATIENCE  # milliseconds
SANDBOX = '<iframe sandbox="allow-scripts" src="train.html" height="900">'
OLD = "delete globalThis.Worker; delete globalThis.WebAssembly;"


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """The page, with 50 steps in place of 450."""
    path = pages.train_page(tmp_path_factory.mktemp("training") / "train.html")
    html = path.read_text("utf-8")
    assert html.count("STEPS = 450") == 1
    path.write_text(html.replace("STEPS = 450", "STEPS = 50"), encoding="utf-8")
    return path.as_uri()


def in_state(page, state):
    page.locator(f"body[data-state={state}]").wait_for(timeout=LONG)
    page.locator(".story:not([aria-busy])").first.wait_for(state="attached")


@pytest.fixture(scope="module")
def page(chromium, address):
    """The page after one run; the tests below use it one after another."""
    with watched(chromium, address) as opened:
        in_state_ready = opened.locator("body[data-state=ready]")
        in_state_ready.wait_for(timeout=LONG)
        assert opened.locator("#after").is_hidden(), "nothing is trained yet"
        opened.get_by_role("button", name="Start").press("Enter")
        in_state(opened, "done")
        yield opened


def test_its_weights_load_into_notebook_00_and_have_the_loss_that_it_says(
    page, tmp_path
):
    with page.expect_download() as download:
        page.get_by_role("button", name="Save these weights").click()
    assert download.value.suggested_filename == "my_decoder.safetensors"
    path = tmp_path / "my_decoder.safetensors"
    download.value.save_as(path)
    words = page.evaluate("tokenizer.words")
    known = {"WIDTH": 64, "HEADS": 4, "LAYERS": 2, "LENGTH": 192, "vocabulary": words}
    known |= {"id_of": {word: i for i, word in enumerate(words)}, "PLOTS": pages.PLOTS}
    names = notebook_code.built("00", **known)
    model = names["Decoder"]()
    model.load_state_dict(load_file(path))
    held = names["windows"](names["words_of"](pages.HELD))
    with torch.no_grad():
        scores = model(held[:, :-1])
    loss = F.cross_entropy(scores.flatten(0, 1), held[:, 1:].flatten()).item()
    said = page.locator("#said").inner_text()
    assert f"{len(held)} stretches" in said and f"loss is {loss:.2f}" in said
    assert page.evaluate("now().looks.at(-1).held") == pytest.approx(loss, abs=1e-4)
    lines = page.locator("#chart text").all_text_contents()
    assert {"blind guess 6.68", "bigram 2.11", "floor 0.42"} < {*lines}


def test_the_slider_turns_back_the_text_and_what_is_inside(page):
    slider = page.locator("#back")
    seen = []
    for key in ("End", "Home", "End"):
        slider.press(key)
        page.locator(".story:not([aria-busy])").wait_for()
        about = page.locator("#map-canvas").get_attribute("aria-label")
        likely = page.locator("#next .word").all_inner_texts()
        seen.append((page.locator(".story").inner_text(), about, likely))
        assert page.locator("#inside-when").inner_text() == (
            "Inside, before the first step"
            if key == "Home"
            else "Inside, after 50 steps"
        )
    assert seen[0] == seen[2] and all(a != b for a, b in zip(*seen[:2], strict=True))
    weights = page.evaluate("story.seen.slice(0, 9).map((one) => one.weights[1][0])")
    assert [len(row) for row in weights] == list(range(1, 10))
    assert [sum(row) for row in weights] == pytest.approx([1] * 9, abs=1e-5)


def test_a_hero_is_taken_or_refused_in_a_sentence_and_a_head_is_silenced(page):
    def write(hero):
        page.get_by_label("Who is it about?").fill(hero)
        page.get_by_role("button", name="Write").click()
        page.locator(".story:not([aria-busy])").first.wait_for()
        return page.locator(".story").first.inner_text()

    text = write("Tom")
    assert "girl named Tom." in text and not page.locator("#refused").inner_text()
    assert write("Priya") == text
    assert "never met “Priya”" in page.locator("#refused").inner_text()
    for typed in HOSTILE[:20]:
        write(f"{typed[:200]} is.")
    assert page.evaluate("document.hacked") is None
    write("Tom")
    page.locator(".token:visible").nth(9).click()
    page.get_by_role("button", name="L1H2").click()
    page.get_by_role("button", name="Silence L1H2").click()
    page.locator(".story:not([aria-busy])").nth(1).wait_for()
    assert page.locator(".story").count() == 2
    page.keyboard.press("Escape")


def test_a_second_run_is_drawn_beside_the_first(page):
    page.get_by_label("Layers").press("Home")
    page.get_by_role("button", name="Train another").click()
    in_state(page, "running")
    page.get_by_role("button", name="Pause").click()
    steps = page.evaluate("now().losses.length")
    page.wait_for_timeout(500)
    assert page.evaluate("now().losses.length") <= steps + 2, "it stands still"
    page.get_by_role("button", name="Go on").click()
    in_state(page, "done")
    runs = page.locator("#runs li").all_inner_texts()
    assert [run.split(",")[0].split()[-2:] for run in runs] == [
        ["2", "layers"],
        ["0", "layers"],
    ]
    assert page.locator(".run").count() == 2 and page.locator(".run.old").count() == 1
    assert page.locator("#looks").is_hidden(), "no layer, no head"
    page.locator(".token:visible").nth(9).click()
    assert page.locator("#likely li").count() == 8


def test_texts_of_ones_own(page):
    page.get_by_text("Train it on texts of your own").click()
    page.get_by_label("Paste them here").fill("Too short.")
    page.get_by_role("button", name="Use these texts").click()
    assert "give it 2000 or more" in page.locator("#counted").inner_text()
    line = "Der Hund sieht die Katze. </script> Die Katze sieht den Hund nicht."
    page.get_by_label("Paste them here").fill(f"{line}\n\n" * 300)
    page.get_by_role("button", name="Use these texts").click()
    page.locator("body[data-state=ready]").wait_for()
    assert not any(
        "floor" in one for one in page.locator("#chart text").all_text_contents()
    )
    page.get_by_role("button", name="Start").click()
    in_state(page, "done")
    assert page.locator(".story").inner_text().startswith("Der Hund sieht die Katze")
    assert page.evaluate("now().looks.at(-1).held") < 1
    page.get_by_role("button", name="Back to the stories").click()
    page.locator("body[data-state=ready]").wait_for()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_axe_finds_nothing_and_nothing_is_cut_off(chromium, address, theme, width):
    with watched(chromium, address, color_scheme=theme) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("body[data-state=ready]").wait_for(timeout=LONG)
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for stage in ("ready", "done"):
            if stage == "done":
                page.get_by_role("button", name="Start").click()
                in_state(page, "done")
            assert serious(page, "body") == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            path = SCREENSHOTS / f"training-{theme}-{width}-{stage}.png"
            page.screenshot(path=path, full_page=True)


def test_it_trains_in_a_frame_and_where_workers_and_webassembly_are_refused(
    chromium, address
):
    frame = address.replace("train.html", "frame.html")
    with open(frame.removeprefix("file://"), "w") as file:
        file.write(SANDBOX)
    with watched(chromium, frame) as page:
        inside = page.frame_locator("iframe")
        inside.get_by_role("button", name="Start").click()
        inside.locator("#back[max='1']").wait_for(state="attached", timeout=LONG)
    with watched(chromium, "about:blank") as page:
        page.add_init_script(OLD)
        page.goto(address)
        page.get_by_role("button", name="Start").click()
        page.get_by_text("Step 2 of").wait_for(timeout=LONG)
        assert "no WebAssembly" in page.locator("#said").inner_text()
        page.get_by_role("button", name="Pause").click()
        page.get_by_text("Paused.").wait_for()
