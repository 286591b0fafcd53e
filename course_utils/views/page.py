"""One view as HTML that needs nothing else: its script, its style, its numbers.

Knows how numbers and strings get into a page safely. Knows nothing of attention.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from IPython.display import display

LEVELS = 240  # so many divisors that the rows 1/2, 1/3, 1/4, … fall on whole levels
HINT = "Run this cell, or trust the notebook, to explore all layers and heads."
_SKIPPED = {38, 60, 62, 92, 173, *range(127, 161)}  # & < > \ and what is invisible
_ALPHABET = np.array([c for c in range(35, 400) if c not in _SKIPPED][:256], "<u4")
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")  # ends a script, or no UTF-8
_STRINGS = re.compile(r'("[^"\n]*"|`[^`]*`)')


def weight_codes(weights: Any) -> np.ndarray:
    """Weights from 0 to 1 as whole numbers: 0 for an exact 0, n + 1 for n / 240.

    Rounded in float64 with a small lean to the lower side, so that exact halves do
    not turn on a last bit that differs between processors. Stored outputs want
    weights computed in float64 too.
    Raises ValueError for numbers outside 0 to 1, NaN included.
    """
    weights = torch.as_tensor(weights).detach().cpu().double().numpy()
    if not ((weights >= 0) & (weights <= 1 + 1e-5)).all():
        raise ValueError("weights must be numbers from 0 to 1")
    rounded = np.floor(weights * LEVELS + 0.5 - 1e-4).astype(np.int64) + 1
    return np.where(weights == 0, 0, rounded)


def characters(codes: np.ndarray) -> str:
    """Whole numbers from 0 to 255 as one character each, small ones as ASCII."""
    return _ALPHABET[codes.ravel()].tobytes().decode("utf-32-le")


def packed(text: str, most: int = 50_000) -> list[str]:
    """Fewer bytes by byte pairs: a rare "a" moves away and stands for a frequent "bc".

    The first string is what is left, the others are its rules "abc", in the order in
    which the script undoes them. Beyond `most` characters nothing is done.
    """
    rules: list[str] = []
    signs = [" ", "!", *(c for c in _ALPHABET.view("<U1") if c < "\x7f")]
    signs = sorted(signs, key=text.count) if len(text) <= most else []
    for place, sign in enumerate(signs[:60]):
        moved = text.replace(sign, chr(400 + place))
        pairs = Counter(map("".join, pairwise(moved)))
        pair = max(sorted(pairs), key=pairs.__getitem__, default="")
        if pairs[pair] < text.count(sign) + 12:
            break
        rules[:0] = [sign + pair] + [chr(400 + place) + sign] * (sign in text)
        text = moved.replace(pair, sign)
    return [text, *rules]


def short(token: str, length: int = 14) -> str:
    """A token as a label for pictures and sentences: printable, its end cut off."""
    text = "".join(c if c.isprintable() else " " for c in token[: 4 * length])
    text = " ".join(text.split()) or "␣"
    return text if len(text) <= length else f"{text[: length - 1]}…"


def texts(tokens: Iterable[str], name: str) -> list[str]:
    """The tokens as a list. Raises TypeError unless they are strings."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a list of strings, got one string")
    tokens = list(tokens)
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{name} must be strings, got {type(token).__name__}")
    return tokens


def show_view(name: str, data: dict[str, Any], sentence: str) -> None:
    """Display the view `name`; where no script may run, `sentence` stands there.

    data: what `<name>.js` reads. The same data give the same HTML, id included.
    """
    html = view_html(name, data, sentence)
    display({"text/html": html, "text/plain": sentence}, raw=True)


def view_html(name: str, data: dict[str, Any], sentence: str) -> str:
    """The HTML of one view: a sentence, and the script that puts it in its place."""
    payload = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    payload = _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", payload)
    script = _small_script(_source("kit.js") + _source(f"{name}.js"))
    style = _small_style(_source("kit.css") + _source(f"{name}.css"))
    mark = f"v{sha256((name + payload).encode()).hexdigest()[:12]}"
    return (
        f'<div class="course-view {name} {mark}"><p>{escape(sentence)}</p></div>\n'
        f"<style>{style}</style>\n<script>(()=>{{{script}\n"
        f"const data={payload};\n"
        f'for(const root of document.querySelectorAll(".{mark}:not([data-ready])"))'
        f"open(root,data,start)}})()</script>"
    )


def _source(name: str) -> str:
    return files("course_utils.views").joinpath(name).read_text("utf-8")


def _small_script(source: str) -> str:
    """Leave out comments on lines of their own and blanks that mean nothing."""
    source = re.sub(r"^\s*//.*\n", "", source, flags=re.MULTILINE)
    parts = _STRINGS.split(source)
    for i in range(0, len(parts), 2):
        part = re.sub(r"\s*([^\w\s$])\s*", r"\1", re.sub(r"\s+", " ", parts[i]))
        parts[i] = re.sub(r"\((\w+)\)=>", r"\1=>", part.replace(";}", "}"))
    return "".join(parts)


def _small_style(source: str) -> str:
    small = re.sub(r"\s*([{};,])\s*|(?<=:)\s+", r"\1", source).strip()
    return small.replace(";}", "}")
