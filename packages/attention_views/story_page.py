"""Write a story and the attention of its words as one HTML file.

Knows HTML, colors and what must be escaped. Knows nothing of models and tokenizers.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from attention_views.page import short

WINDOW = 20  # words in the map
CELL = 24  # size of a cell of the map, and the margin for its labels, in pixels
MARGIN = 110
LABEL = 12  # characters of a word in a label
_CSS = Path(__file__).with_suffix(".css").read_text("utf-8")
_PAGE = Path(__file__).with_suffix(".html").read_text("utf-8")


def story_panel(
    title: str, words: Sequence[str], weights: Any, chosen: int, footer: str = ""
) -> str:
    """One block of HTML: the story, then a map of the words up to `chosen`.

    words: the pieces of the story; joined they give its text. weights: "q k", how much
    word q looked at word k, with zeros for later words. The story is tinted by the row
    of the word number `chosen`, the map shows the last 20 words up to it. All strings
    are escaped.

    Raises ValueError for weights that are not one row and one column per word.
    """
    weights = np.asarray(weights, dtype=np.float64)
    count = len(words)
    if weights.shape != (count, count):
        raise ValueError(
            f"weights must have one row and one column per word, {count} of each, got "
            f"the shape {weights.shape}"
        )
    name = f"“{_label(words[chosen])}”"
    return (
        f"<style>\n{_CSS}</style>\n"
        f'<section class="story-page" aria-label="{escape(title)}">\n'
        f"<h1>{escape(title)}</h1>\n<p>{_story(words, weights[chosen], chosen)}</p>\n"
        f'<p class="small">What {name} looked at is tinted in the story. The map below '
        f"has a row for each of the last {WINDOW} words up to it. The darkness of a "
        f"cell is the square root of its weight, relative to the darkest cell.</p>\n"
        f'{_map(words, weights, chosen)}\n<p class="small">{escape(footer)}</p>\n'
        "</section>"
    )


def save_page(path: str | Path, title: str, panel: str) -> None:
    """Write a panel as one self-contained HTML file, without scripts."""
    page = _PAGE.format(title=escape(title), panel=panel)
    Path(path).write_text(page, encoding="utf-8", newline="\n")


def _label(word: str) -> str:
    return escape(short(word, LABEL))


def _story(words: list[str], row: np.ndarray, chosen: int) -> str:
    tints = (row / max(row.max(), 1e-9) * 0.8).tolist()
    pieces = []
    for place, (word, tint) in enumerate(zip(words, tints, strict=True)):
        space = word[: len(word) - len(word.lstrip())]
        text = escape(word.lstrip())
        if tint >= 0.05:
            text = f'<mark style="--share: {tint:.2f}">{text}</mark>'
        pieces.append(space + (f"<b>{text}</b>" if place == chosen else text))
    return "".join(pieces)


def _map(words: list[str], weights: np.ndarray, chosen: int) -> str:
    first = max(0, chosen + 1 - WINDOW)
    part = weights[first : chosen + 1, first : chosen + 1]
    tints = np.sqrt(part / max(part.max(), 1e-9))  # so that faint ones show
    names = words[first : chosen + 1]
    best = _label(words[int(weights[chosen].argmax())])
    alt = f"A triangle of cells. “{_label(words[chosen])}” looked most at “{best}”."
    size = MARGIN + CELL * len(names)
    drawn = []
    for q, row in enumerate(tints.tolist()):
        place = MARGIN + CELL * q
        label = _label(names[q])
        middle = place + CELL * 0.7
        drawn.append(f'<text x="{MARGIN - 8}" y="{middle:.0f}" text-anchor="end">')
        drawn.append(f'{label}</text><text transform="translate({middle:.0f} ')
        drawn.append(f'{MARGIN - 8}) rotate(-90)">{label}</text>\n')
        for k, tint in enumerate(row[: q + 1]):
            drawn.append(f'<rect x="{MARGIN + CELL * k}" y="{place}" width="{CELL}" ')
            drawn.append(f'height="{CELL}" fill-opacity="{tint:.2f}"/>')
    head = f'<svg viewBox="0 0 {size} {size}" role="img" aria-label="{alt}">\n'
    return f"{head}{''.join(drawn)}</svg>"
