"""How fast a page writes, in Chromium: `python -m tools.page_speed FOLDER [plain]`.

Writes the shipped storyteller and a random model of 15 million weights into FOLDER,
unless they are there from another version, and prints tokens a second of the renderer's
CPU time. plain: without WebAssembly. Two versions can be compared in turns on one
machine; nothing else can.
"""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attention_views import living
from course_utils import pretrained
from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.page import share_page
from tools.browser_page import browser, watched

PLAIN = "delete globalThis.WebAssembly;"
SEEN = """new MutationObserver(() => {
    if (document.querySelector(".token[style]:not(.yours)"))
        globalThis.seen ??= performance.now();
}).observe(document, { subtree: true, childList: true });"""
STEPS = """(count) => {
    const caches = model.newCache();
    for (let i = 0; i < count; i++)
        model.step((7 * i) % data.config.vocab_size, i, caches);
}"""
STORIES = """async (count) => {
    let tokens = 0;
    for (let i = 0; i < count; i++) {
        dials.seed = i;
        story.given([], story.first);
        await story.write();
        tokens += story.ids.length - story.first;
    }
    return tokens; }"""
LARGE = {"vocab_size": 32_000, "d_model": 288, "num_heads": 6, "num_layers": 6}


def large_page(path: Path) -> None:
    """Write the page of a random model of 15 million weights, which is not trained."""
    model = LlamaLM(LlamaConfig(**LARGE, d_ff=768, max_length=256))
    weights = {
        name.removesuffix(".weight"): weight.detach().numpy()
        for name, weight in model.named_parameters()
    }
    tokens = [f" w{i}".encode() for i in range(model.config.vocab_size)]
    words = {"tokens": tokens, "special": {0: "<end>"}, "merges": None, "unknown": 1}
    texts = {"title": "15M", "opening": " w5 w6", "start_id": 0, "end_id": 0}
    living.MOST_WEIGHTS = 10**9
    page = living.living_page(asdict(model.config), weights, words, **texts)
    path.write_text(page, "utf-8")


def measure(chromium: Any, path: Path, stories: int, plain: bool) -> str:
    """One line about the page at `path`."""
    with watched(chromium, "about:blank") as page:
        page.add_init_script((PLAIN if plain else "") + SEEN)
        page.goto(path.as_uri())
        client = page.context.new_cdp_session(page)
        client.send("Performance.enable")

        def spent() -> float:
            metrics = client.send("Performance.getMetrics")["metrics"]
            return next(one["value"] for one in metrics if one["name"] == "ProcessTime")

        page.locator("[aria-busy]").first.wait_for(state="detached")
        began = spent()
        tokens = page.evaluate(STORIES, stories)
        middle = spent()
        page.evaluate(STEPS, 200)
        end = spent()
        return (
            f"{path.stem}: {path.stat().st_size:,} bytes; words after "
            f"{page.evaluate('seen'):.0f} ms; tokens per CPU-second: page "
            f"{tokens / (middle - began):.0f}, model alone {200 / (end - middle):.0f}"
        )


def main(folder: Path, plain: bool) -> None:
    """Measure both pages."""
    small, large = folder / "storyteller.html", folder / "15M.html"
    if not small.exists():
        share_page(*pretrained.load("tinystories"), small)
        large_page(large)
    with browser() as chromium:
        print(measure(chromium, small, 8, plain))
        print(measure(chromium, large, 1, plain))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), "plain" in sys.argv)
