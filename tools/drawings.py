"""Give the drawings of the course its typeface: the letters that each of them uses.

`python -m tools.drawings`, after a drawing was added or its words changed.
"""

import re
from html import unescape
from pathlib import Path

from attention_views.typeface import font_face

IMAGES = Path(__file__).parents[1] / "images"
RULE = re.compile(r"<style>@font-face.*?</style>\n?", re.DOTALL)
FAMILY = "Fira Sans, Verdana, sans-serif"


def with_typeface(drawing: str) -> str:
    """The drawing with a style rule that carries its letters."""
    drawing = RULE.sub("", drawing)
    drawing = drawing.replace("DejaVu Sans, Verdana, sans-serif", FAMILY)
    words = unescape("".join(re.findall(r">([^<]*)<", drawing)))
    letters = "".join(sorted({*words, " "} - {"\n"}))
    rule = f"<style>{font_face(letters, 'Fira Sans').strip()}</style>\n"
    head, body = drawing.split("\n", 1)
    return f"{head}\n{rule}{body}"


if __name__ == "__main__":
    for path in sorted(IMAGES.glob("*.svg")):
        drawing = path.read_text("utf-8")
        if drawing != (better := with_typeface(drawing)):
            path.write_text(better, encoding="utf-8", newline="\n")
