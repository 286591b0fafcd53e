"""Write one HTML file in which a small decoder learns from texts.

Knows ids and words. Knows nothing of PyTorch, nor of where the texts come from.
"""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from itertools import chain

from attention_views.living import file, filled, source
from attention_views.page import lines_of, safe_json
from attention_views.typeface import font_face

TRAINER = ("living/kernels.js", "training/decoder.js", "training/trainer.js")
PAGE = ("kit.js", "living/sampling.js", "living/page.js", "training/train.js")
STILL = file("still.png", "training")


def training_page(
    words: Sequence[str],
    train: Sequence[int],
    held: Sequence[int],
    *,
    title: str,
    hero: str,
    floor: float,
) -> str:
    """The HTML of a page in which a reader trains a decoder; it loads nothing.

    words: that of each id, at most 4,336; "<end>", which stands before each text, is
    one of them. train, held: the ids of the texts to learn from and of those to measure
    on. hero: an opening with a hero in braces, for the trained model. floor: the loss
    of a perfect model on the windows of `held`, in nats a word.
    """
    known = {"words": list(words), "trained": len(train), "hero": hero, "floor": floor}
    fields = {
        "title": escape(title),
        "style": font_face() + _joined("living/page.css", "training/train.css"),
        "known": safe_json(known),
        "stories": b64encode(zlib.compress(_packed([*train, *held]), 9)).decode(),
        "kernels": b64encode(file("kernels.wasm").read_bytes()).decode(),
        "trainer": _joined(*TRAINER),
        "script": _joined(*PAGE),
        "writing": source("writing.html"),
    }
    return filled(source("train.html", "training"), fields)


def _packed(ids: Sequence[int]) -> bytes:
    """One byte for an id below 240, two for others: small ids are the frequent ones."""
    pairs = (
        (id,) if id < 240 else (240 + (id - 240) // 256, (id - 240) % 256) for id in ids
    )
    return bytes(chain.from_iterable(pairs))


def _joined(*paths: str) -> str:
    return "\n".join(map(lines_of, paths))
