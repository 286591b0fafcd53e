"""The living page in Chromium, without network: it computes what PyTorch computes."""

import copy
import math
import random
from pathlib import Path

import nbformat
import pytest
import torch

from attention_views.living import quantized
from course_utils import pretrained
from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy, next_token_probabilities
from course_utils.intervening import intervene, zero_ablation
from course_utils.models import LlamaLM
from course_utils.page import share_page, show_story
from course_utils.recording import record
from course_utils.tokenizer import train_bpe, train_words
from known_worlds.stories import story
from tests.browser.test_browser import SCREENSHOTS
from tests.support.browser_views import serious
from tests.support.hostile import HOSTILE
from tests.support.view_data import stored_outputs
from tools.browser_page import browser, jupyterlab, notebook, watched

pytestmark = pytest.mark.slow

STORIES = [story(index).text for index in range(700)]
OPENING = "Once upon a time, there was a little girl named Lily."
STEPS = """({ ids, silenced }) => {
    const caches = model.newCache();
    const off = new Set(silenced);
    const seen = ids.map((id, i) => model.step(id, i, caches, off));
    const plain = (arrays) => arrays.map((one) => Array.from(one));
    const { logits, weights, streams } = seen.at(-1);
    model.free(caches);
    return { logits: Array.from(logits), weights: weights.map(plain),
             lens: plain(streams.map((one) => model.read(one))) };
}"""


@pytest.fixture(scope="module")
def chromium():
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def teller():
    return pretrained.load("tinystories")


@pytest.fixture(scope="module")
def address(teller, tmp_path_factory):
    path = share_page(*teller, tmp_path_factory.mktemp("living") / "storyteller.html")
    assert path.stat().st_size < 5_500_000
    return path.as_uri()


@pytest.fixture
def page(chromium, address):
    with watched(chromium, address) as opened:
        written(opened)
        yield opened


def written(page):
    """Wait until nothing is being written."""
    page.locator("[aria-busy]").first.wait_for(state="detached")


def rounded(model):
    """The model with the weights that its page has."""
    twin = copy.deepcopy(model).eval()
    for weight in twin.parameters():
        if weight.ndim == 2:
            integers, scales = quantized(weight.detach().numpy())
            weight.data = torch.from_numpy(integers * scales[:, None])
    return twin


def assert_the_same(page, model, ids, silenced=()):
    """Logits, maps and logit lens of the last position are those of PyTorch."""
    keys = [f"{layer}.{head}" for layer, head in silenced]
    ours = page.evaluate(STEPS, {"ids": ids, "silenced": keys})
    changes = {
        f"blocks.{layer}.attention.attend": zero_ablation(heads=head)
        for layer, head in silenced
    }
    with torch.no_grad(), intervene(model, changes), record(model) as seen:
        logits = model(torch.tensor([ids]))[0, -1]
    depth = range(model.config.num_layers)
    streams = torch.stack([seen[f"blocks.{layer}"][0, -1] for layer in depth])
    with torch.no_grad():
        lens = model.head(model.norm(streams))
    maps = [seen.weights()[f"blocks.{layer}.attention"][0, :, -1] for layer in depth]
    for name, theirs, within in (
        ("logits", logits, 1e-3),
        ("lens", lens, 1e-3),
        ("weights", torch.stack(maps), 1e-4),
    ):
        torch.testing.assert_close(
            torch.tensor(ours[name]), theirs, atol=within, rtol=0, msg=name
        )


def some_texts():
    """Stories, hostile tokens, and letters from everywhere: one thousand texts."""
    draw = random.Random(0)
    hostile = [text for text in HOSTILE if text.isascii() or "\ud83d" not in text]
    alphabets = [range(32, 127), range(160, 592), range(0x400, 0x460), range(9, 14)]
    alphabets += [range(0x5D0, 0x5EB), range(0x1E00, 0x1F00), range(0x2000, 0x2070)]
    alphabets += [range(0x4E00, 0x4F00), range(0x1F600, 0x1F650), range(0x300, 0x340)]
    letters = [chr(code) for alphabet in alphabets for code in alphabet] + [" "] * 600
    noise = ["".join(draw.choices(letters, k=draw.randrange(60))) for _ in range(1000)]
    mixed = [a + b for a, b in zip(hostile, reversed(hostile), strict=True)]
    return [*hostile, *mixed, *STORIES, *noise][:1000]


def test_its_ids_are_those_of_the_tokenizer(page, teller):
    texts = some_texts()
    assert len(texts) == 1000
    ids = page.evaluate("(texts) => texts.map((text) => tokenizer.encode(text))", texts)
    assert ids == teller[1].encode_batch(texts)
    read = """(all) => all.map((ids) => {
        const read = tokenizer.reader();
        return ids.map((id) => read(id)).join(""); })"""
    assert page.evaluate(read, ids) == texts
    names = page.evaluate("tokenizer.tokens.map((_, id) => tokenizer.name(id))")
    assert names == teller[1].tokens(range(teller[1].vocab_size))


def test_its_logits_maps_and_lens_are_those_of_pytorch(page, teller):
    model, tokenizer = rounded(teller[0]), teller[1]
    for text in STORIES[:20]:
        ids = [tokenizer.eos_id, *tokenizer.encode(text)][:200]
        assert_the_same(page, model, ids)


def test_without_webassembly_it_writes_the_same(chromium, address, page, tmp_path):
    assert page.evaluate("kernels.isFast")
    html = Path(address.removeprefix("file://")).read_text("utf-8")
    strict = tmp_path / "strict.html"
    strict.write_text(html.replace("'wasm-unsafe-eval'", ""), "utf-8")
    with watched(chromium, strict.as_uri()) as other:
        for _ in range(3):
            written(other)
            assert other.evaluate("story.ids") == page.evaluate("story.ids")
            for one in (page, other):
                one.get_by_role("button", name="Roll again").click()
            written(page)
        assert not other.evaluate("kernels.isFast")


def test_it_writes_what_greedy_writes(page, teller):
    model, tokenizer = rounded(teller[0]), teller[1]
    prompt = [tokenizer.eos_id, *tokenizer.encode(OPENING)]
    expected = greedy(CachedStep(model), torch.tensor([prompt]), 200)[0].tolist()
    ids = page.evaluate(
        """(ids) => {
            const caches = model.newCache(), count = ids.length + 200;
            for (let i = 0; ids.length < count; i++) {
                const { logits } = model.step(ids[i], i, caches);
                if (i + 1 === ids.length)
                    ids.push(distribution(logits, { temperature: 0 }).ids[0]);
            }
            return ids; }""",
        prompt,
    )
    assert ids == expected


DRAWS = """([logits, dials]) => {
    const { ids, chances } = distribution(Float32Array.from(logits), dials);
    return logits.map((_, id) => chances[ids.indexOf(id)] ?? 0); }"""


def test_it_draws_from_what_decoding_draws_from(page):
    scores = torch.randn(40, generator=torch.Generator().manual_seed(0))
    for temperature, k, p in ((0.5, 40, 1.0), (1.3, 40, 0.6), (1.0, 9, 0.8)):
        dials = {"temperature": temperature, "topK": k, "topP": p}
        drawn = torch.tensor(page.evaluate(DRAWS, [scores.tolist(), dials]))
        expected = next_token_probabilities(scores[None], temperature, k, p)[0]
        torch.testing.assert_close(drawn, expected, atol=1e-6, rtol=0)
    scores = torch.randn(300, generator=torch.Generator().manual_seed(1)).round()
    for k in (1, 2, 128, 129, 300):  # few different scores, so many are equal
        best = page.evaluate("([s, k]) => likeliest(s, k)", [scores.tolist(), k])
        assert best == scores.sort(descending=True, stable=True)[1][:k].tolist()
    bits = page.evaluate("surprise(Float32Array.of(0, -110), 1)")
    assert bits == pytest.approx(110 / math.log(2)), "far below what float32 holds"
    throws = """new Set([1, 2, 3].flatMap((seed) =>
        Array.from({ length: 3000 }, (_, position) => dice(seed, position))))"""
    assert page.evaluate(f"({throws}).size") == 9000, "no throw comes twice"


@pytest.mark.parametrize("heads", [[(2, 3)], [(0, 1), (3, 0)]])
def test_a_silenced_head_is_that_of_intervene(page, teller, heads):
    model, tokenizer = rounded(teller[0]), teller[1]
    ids = [tokenizer.eos_id, *tokenizer.encode(STORIES[3])][:60]
    assert_the_same(page, model, ids, heads)


def test_a_model_of_another_shape_and_words_as_tokens(chromium, tmp_path):
    texts = STORIES[:50]
    sizes = {"d_model": 24, "num_heads": 4, "num_layers": 3, "d_ff": 37}
    for trained, groups in ((train_words(texts), 1), (train_bpe(texts, 300), 2)):
        torch.manual_seed(0)
        shape = {**sizes, "tied": False, "num_kv_heads": groups, "max_length": 40}
        config = LlamaConfig(vocab_size=trained.vocab_size, rope_base=500.0, **shape)
        model = LlamaLM(config).eval()
        for weight in model.parameters():
            weight.data *= 3
        path = share_page(model, trained, tmp_path / "own.html", opening="One day")
        with watched(chromium, path.as_uri()) as page:
            written(page)
            ids = trained.encode(f"{texts[0]} Zanzibar")
            encode = "(text) => tokenizer.encode(text)"
            assert page.evaluate(encode, f"{texts[0]} Zanzibar") == ids
            assert_the_same(page, rounded(model), ids[:40])
            status = page.locator("article [role=status]").inner_text()
            assert status.startswith("40 tokens") or "tokens" in status


# --- in the hands of a reader ----------------------------------------------------


def write(page, opening):
    page.get_by_label("Who is it about?").fill(opening)
    page.get_by_role("button", name="Write").click()
    written(page)
    return page.locator(".story").first.inner_text()


def test_a_hero_or_an_opening_begins_the_story(page):
    assert page.locator(".story").inner_text().startswith(OPENING)
    for typed, hero in {
        "Priya": "girl named Priya",
        "Mary Ann": "girl named Mary Ann",
        "dragon": "dragon",
        "a robot named Zog": "robot named Zog",
    }.items():
        begun = f"Once upon a time, there was a little {hero}."
        assert page.evaluate("openingOf", typed) == begun
    for typed in ("The sun went down", "Tom and Lily", "I ran.", "a b c d e"):
        assert page.evaluate("openingOf", typed) == typed
    begun = "Once upon a time, there was a little dragon."
    assert write(page, " dragon ").startswith(begun)
    text = write(page, "The sun, a cat and I")
    assert text.startswith("The sun, a cat and I") and len(text) > 60
    again = write(page, "The sun, a cat and I")
    assert again == text, "the same dice"
    page.get_by_role("button", name="Roll again").click()
    written(page)
    assert page.locator(".story").inner_text() != text


def test_what_is_typed_stays_text(page):
    for place in range(0, len(HOSTILE) - 1, 8):
        typed = "".join(HOSTILE[place : place + 8]).replace("x" * 10_000, "xx")
        write(page, typed + ".")
        page.locator(".token:visible").nth(2).click()
        assert page.evaluate("document.hacked") is None
        assert page.locator("main img, main svg, main script, main style").count() == 0


def test_a_dial_acts_on_the_bars_and_the_story_at_once(page):
    page.locator(".token").nth(20).click()
    bar = page.locator("li .bar").first
    drawn = "(bar) => +bar.style.getPropertyValue('--drawn')"
    before, text = bar.evaluate(drawn), page.locator(".story").inner_text()
    page.get_by_label("Temperature").focus()
    for _ in range(14):
        page.keyboard.press("ArrowLeft")
    assert page.locator("#temperature-now").inner_text() == "0.00"
    assert before < 1 == bar.evaluate(drawn)
    written(page)
    assert page.locator(".story").inner_text() != text


BARS = """(buttons) => buttons.map((one) => [+one.id.slice(5), ...["--model", "--drawn"]
    .map((name) => +one.querySelector(".bar").style.getPropertyValue(name))])"""
TURN = """(values) => { for (const id in values) {
    place(id).value = values[id]; place(id).dispatchEvent(new Event("input")); } }"""


def test_the_bars_are_what_pytorch_gives_and_decoding_draws_from(page, teller):
    page.locator(".token:visible").nth(30).click()
    for temperature, step, p in ((0.5, 3, 1.0), (1.3, 3, 0.6), (1.3, 8, 0.25)):
        page.evaluate(TURN, {"temperature": temperature, "topK": step, "topP": p})
        written(page)
        ids = page.evaluate("story.ids.slice(0, asked.i)")
        with torch.no_grad():
            logits = rounded(teller[0])(torch.tensor([ids]))[:, -1]
        k = 2**step if step < 8 else None
        drawn = next_token_probabilities(logits, temperature, k, p)[0]
        bars = page.locator("#likely button").evaluate_all(BARS)
        assert sum(bar[2] for bar in bars) == pytest.approx(1, abs=1e-5)
        for id, model, filled in bars:
            assert model == pytest.approx(logits.softmax(-1)[0, id].item(), abs=1e-4)
            assert filled == pytest.approx(drawn[id].item(), abs=1e-4)


MARKED = "(token) => +token.style.getPropertyValue('--surprise')"


def test_a_word_is_asked_and_another_road_is_taken(page, teller):
    words = page.locator(".token:visible").all_inner_texts()
    page.locator(".token:visible").nth(30).click()
    panel = page.get_by_role("region", name="One word")
    assert words[30] in panel.locator("h2").inner_text()
    layers = panel.locator("table th").all_inner_texts()
    assert layers == [f"layer {i}" for i in range(teller[0].config.num_layers)]
    other = panel.locator("li button[aria-pressed=false]").first
    word = other.locator(".word").inner_text()
    other.click()
    written(page)
    now = page.locator(".token:visible").all_inner_texts()
    assert now[:30] == words[:30] and now[30] == word.lstrip("…")
    assert panel.locator("li [aria-pressed=true] .word").inner_text() == word
    ids = page.evaluate("story.ids.slice(0, asked.i + 1)")
    with torch.no_grad():
        logits = rounded(teller[0])(torch.tensor([ids]))[0, -2]
    bits = -logits.log_softmax(-1)[ids[-1]].item() / math.log(2)
    assert f"{bits:.1f} bits" in panel.get_by_role("status").inner_text()
    marked = page.locator(".chosen").evaluate(MARKED)
    assert marked == pytest.approx(min(1, bits / 7), abs=0.01)


LOOKED = "(token) => +token.style.getPropertyValue('--looked')"


def test_a_head_is_silenced_beside_the_old_story(page):
    text = page.locator(".story").inner_text()
    page.locator(".token:visible").nth(30).click()
    page.get_by_role("button", name="L2H3").click()
    weights = page.evaluate("[...story.seen[asked.i - 1].weights[2][3]]")
    expected = [weight / max(weights) for weight in weights]
    tints = page.locator(".token").evaluate_all(f"(all) => all.map({LOOKED})")
    assert tints[: len(weights)] == pytest.approx(expected, abs=1e-4)
    page.get_by_role("button", name="Silence L2H3").click()
    written(page)
    both = page.locator(".story").all_inner_texts()
    assert both[0] == text != both[1] and page.locator(".fork").count() == 1
    used = page.evaluate("kernels.top")
    page.get_by_role("button", name="Let L2H3 speak").click()
    assert page.locator(".story").count() == 1
    page.get_by_role("button", name="Silence L2H3").click()
    assert page.evaluate("kernels.top") == used, "the cache of the twin is used again"


def test_it_is_used_by_keys_alone(page):
    page.get_by_label("Who is it about?").focus()
    for _ in range(6):  # button, three dials, another button, the story
        page.keyboard.press("Tab")
    here = "document.activeElement.dataset.i"
    assert page.evaluate(here) == "1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate(here) == "2" and page.locator("#panel").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel h2").inner_text() == "Where it says a"
    page.keyboard.press("Escape")
    assert not page.locator("#panel").is_visible()
    assert page.evaluate(here) == "3"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_axe_finds_nothing_and_nothing_is_cut_off(chromium, address, theme, width):
    with watched(chromium, address, color_scheme=theme) as page:
        page.set_viewport_size({"width": width, "height": 900})
        written(page)
        stages = [
            lambda: None,
            lambda: page.locator(".token:visible").nth(30).click(),
            lambda: page.locator("#head-2-3").click(),
            lambda: page.locator("#silence").click(),
        ]
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for number, stage in enumerate(stages):
            stage()
            written(page)
            assert serious(page, "body") == []
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide == width
            page.screenshot(path=SCREENSHOTS / f"living-{theme}-{width}-{number}.png")


def test_it_writes_in_a_cell_of_jupyterlab(chromium, tmp_path, monkeypatch):
    tokenizer = train_bpe(STORIES[:50], 300)
    sizes = {"d_model": 16, "num_heads": 2, "num_layers": 1, "d_ff": 20}
    model = LlamaLM(LlamaConfig(vocab_size=tokenizer.vocab_size, **sizes)).eval()
    monkeypatch.chdir(tmp_path)
    with stored_outputs() as outputs:
        show_story(model, tokenizer)
    nbformat.write(notebook(outputs), tmp_path / "page.ipynb")
    assert (tmp_path / "page.ipynb").stat().st_size < 200_000
    with jupyterlab(tmp_path) as (address, jupyter):
        jupyter("trust", "page.ipynb")
        with watched(chromium, f"{address}page.ipynb?token=x") as page:
            frame = page.locator("iframe[title*=storyteller]")
            story = frame.content_frame.locator(".story")
            story.wait_for()
            addresses = [one.url for one in page.frames]
            assert not any("/lab" in one for one in addresses[1:]), (
                "JupyterLab in itself"
            )
            assert story.inner_text().startswith(OPENING)
            inside = frame.content_frame
            inside.locator("#opening").fill("One day, it")
            inside.locator("#opening").press("Enter")
            inside.locator(".story", has_text="One day, it").wait_for()
            inside.locator("#opening").fill("Then a cat")
            inside.get_by_role("button", name="Write").click()
            inside.locator(".story", has_text="Then a cat").wait_for()
            still = page.locator(".jp-OutputArea img")
            assert still.count() == 1 and not still.is_visible()
            tall = frame.bounding_box()["height"]
            assert tall < 0.8 * page.locator(".jp-Document").bounding_box()["height"]
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / "living-jupyterlab.png")
            with page.expect_popup() as opened:
                page.get_by_role("button", name="in a tab of its own").click()
            opened.value.locator(".story").wait_for()  # its scripts run
            opened.value.close()
            page.keyboard.press("Control+s")
            page.reload()  # a cell that is drawn later has its address sooner
            story.wait_for()
