"""One view as HTML: its data, and the script and style that all views of a page share.

Knows how numbers, weights and strings get into a page safely.
"""

import json
import re
import zlib
from base64 import b64decode, b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from attention_views.typeface import font_face

VIEWS = ("explorer", "frames", "pieces")  # each a script and a style in this folder
LEVELS = 240  # a number with many divisors, so that 1/2, 1/3, 1/4, … are exact levels
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")  # ends a script, or no UTF-8
_SCRIPT = re.compile("\n<script data-attention-views=.*?</script>", re.DOTALL)
_COMPRESSED = re.compile(r'"map":"([A-Za-z0-9+/]+=*)"')


def weight_codes(weights: Any, name: str = "weights") -> np.ndarray:
    """Weights from 0 to 1 as integers: 0 for an exact 0, n + 1 for n / 240.

    Rounded in float64, with exact halves rounded down, so that they do not depend on a
    last bit that differs between processors. Stored outputs should therefore be made
    from weights in float64.
    Raises ValueError for numbers outside 0 to 1, NaN included; `name` is used in the
    message.
    """
    weights = np.asarray(weights, dtype=np.float64)
    wrong = ~((weights >= 0) & (weights <= 1 + 1e-5))
    if wrong.any():
        raise ValueError(
            f"{name} must be numbers from 0 to 1, got {weights[wrong].flat[0]:.6g}"
        )
    rounded = np.floor(weights * LEVELS + 0.5 - 1e-4).astype(np.int64) + 1
    return np.where(weights == 0, 0, rounded)


def compressed(codes: np.ndarray) -> str:
    """Integers from 0 to 255 as text: one byte each, through zlib, in base64.

    Another build of zlib may give other bytes, which inflate to the same numbers.
    """
    return b64encode(zlib.compress(codes.astype(np.uint8).tobytes(), 9)).decode()


def inflated(html: str) -> str:
    """What a view's HTML shows: without the script of the page, and with a checksum of
    its numbers in place of each compressed text.

    Two views that show the same give the same, whichever zlib and which version of the
    script they were written with.
    """

    def checksum(match: re.Match) -> str:
        numbers = zlib.decompress(b64decode(match[1]))
        return f'"map":"{sha256(numbers).hexdigest()}"'

    return _COMPRESSED.sub(checksum, _SCRIPT.sub("", html))


def short(token: str, length: int = 14) -> str:
    """A token as a label for pictures and sentences: printable, truncated."""
    text = "".join(c if c.isprintable() else " " for c in token[: 4 * length])
    text = " ".join(text.split()) or "␣"
    return text if len(text) <= length else f"{text[: length - 1]}…"


def view_html(
    name: str,
    data: dict[str, Any],
    sentence: str,
    *,
    shared: bool = False,
    pictured: bool = False,
) -> str:
    """The HTML of one view: a sentence, its data, and the script that draws the view.

    name: `<name>.js` and `<name>.css` are in this folder. data: what `<name>.js` reads;
    the same data give the same HTML. shared: leave out the script, because another
    view of the page brings it, or `page_script`. pictured: the next output is a picture
    of the view, which is hidden while the view lives.
    """
    payload = safe_json(data)
    mark = f"v{sha256((name + inflated(payload)).encode()).hexdigest()[:12]}"
    classes = f"course-view {name} {mark}{' pictured' * pictured}"
    view = (
        f'<div class="{classes}"><p>{escape(sentence)}</p></div>\n'
        f'<script>(globalThis.attentionViewsQueue ??= []).push(["{mark}", "{name}",\n'
        f"{payload}\n]);</script>"
    )
    return view if shared else f"{view}\n{page_script()}"


@cache
def page_script() -> str:
    """The script and the style of all views, once for a page; twice does no harm.

    Views that were written before it and after it are drawn. Another version on the
    same page leaves the views that are drawn alone, their style included.
    """
    script = lines_of("kit.js")
    style = lines_of("kit.css")
    for name in VIEWS:
        script += f"{{\n{lines_of(f'{name}.js')}}}\n"  # its `const`s are its own
        style += lines_of(f"{name}.css")
    version = sha256((script + style).encode()).hexdigest()[:8]
    style += font_face()
    style = style.replace(".course-view", f'.course-view[data-ready="{version}"]')
    return (
        f'<script data-attention-views="{version}">(() => {{\n{script}'
        f'listen("{version}", {safe_json(style)});\n}})();</script>'
    )


def safe_json(data: Any) -> str:
    """JSON that neither ends the script around it nor says anything to HTML."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def lines_of(name: str) -> str:
    """A script or style without indents and comments; no string may hold these."""
    text = files("attention_views").joinpath(name).read_text("utf-8")
    return re.sub(r"^ *(//.*\n)?", "", text, flags=re.MULTILINE)
