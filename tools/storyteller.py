"""The pages that live: write them for the book, and take their pictures.

`make book` and `make stills`. The pictures are taken in Chromium, from the real pages.
"""

import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

from attention_views.training import STILL
from course_utils import pretrained
from course_utils.page import share_page, train_page

IMAGES = Path(__file__).parents[1] / "images"
ZOG = "Once upon a time, there was a little {robot named Zog}."
SIZE = {"width": 1040, "height": 900}
QUIET = "() => { for (const one of [story, twin]) if (one) one.turn = null; }"
MORE = "(count) => { while (count-- && (twin ?? story).advance()); compare(); }"
BEGIN = (
    "() => { story.given([], story.first); dials.seed = 6; story.text.ariaBusy = null }"
)


def write_page(path: Path) -> Path:
    """The shipped storyteller as a page; beside it those of 14 and 00."""
    train_page(path.with_name("training.html"))
    model, tokenizer = pretrained.load("tinystories")
    of_14 = path.with_name(f"14_{path.name}")
    share_page(model, tokenizer, of_14, opening=ZOG)
    return share_page(model, tokenizer, path)


def take_pictures() -> None:
    """Write images/storyteller.png and the moving images/storyteller.webp."""
    from tools.browser_page import browser, watched

    frames: list[Image.Image] = []
    lengths: list[int] = []
    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        address = write_page(Path(folder) / "page.html").as_uri()
        with watched(chromium, address, color_scheme="light") as page:
            page.set_viewport_size(SIZE)

            def keep(milliseconds: int) -> None:
                picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
                frames.append(picture)
                lengths.append(milliseconds)

            def grow(count: int, step: int) -> None:
                for _ in range(count // step):
                    page.evaluate(MORE, step)
                    keep(90)

            page.locator("[aria-busy]").first.wait_for(state="detached")
            page.evaluate(BEGIN)
            grow(150, 4)
            keep(900)
            page.locator(".token:visible").nth(44).click()
            keep(1800)
            page.locator("#head-1-0").click()
            page.mouse.move(0, 0)
            keep(1800)
            frames[-1].save(IMAGES / "storyteller.png", optimize=True)
            page.locator("#silence").click()
            page.evaluate(QUIET)
            page.evaluate("() => { twin.given([], twin.first); close(); }")
            grow(120, 4)
            keep(2500)
    small = [frame.resize((780, 675), Image.Resampling.LANCZOS) for frame in frames]
    small[0].save(
        IMAGES / "storyteller.webp",
        save_all=True,
        append_images=small[1:],
        duration=lengths,
        loop=0,
        quality=60,
        method=4,
    )


def take_still() -> None:
    """Train in the page, half a minute, and keep what it looks like in the end."""
    from tools.browser_page import browser, watched

    with tempfile.TemporaryDirectory() as folder, browser() as chromium:
        address = train_page(Path(folder) / "page.html").as_uri()
        with watched(chromium, address, color_scheme="light") as page:
            page.set_viewport_size(SIZE | {"width": 900})
            page.locator("#start").click()
            page.locator("body[data-state=done]").wait_for(timeout=600_000)
            page.locator(".story:not([aria-busy])").wait_for()
            page.locator("#own").evaluate("(own) => own.remove()")
            story = page.locator("article").bounding_box()
            assert story is not None
            high = story["y"] + story["height"] + 8
            clip = {"x": 30, "y": 20, "width": 840, "height": high - 20}
            taken = page.screenshot(full_page=True, clip=clip)
    picture = Image.open(BytesIO(taken)).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(str(STILL), optimize=True)


if __name__ == "__main__":
    if sys.argv[1] == "page":
        print(write_page(Path(sys.argv[2])))
    else:
        take_still()
        take_pictures()
