"""The letters of Fira Sans that a page or a drawing needs, inside it.

Knows fonts. Without the packages fontpkg-fira-sans and fonttools a page gets none, and
takes a typeface of the system.

    python -m attention_views               the style rule for pages
    python -m attention_views images/*.svg  into each drawing, its own letters
"""

import re
from base64 import b64encode
from functools import cache
from html import unescape
from io import BytesIO

LATIN = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
SIGNS = "–—‘’“”…→←↑↓√−≤≥∞≈⏎␣"
RULE = re.compile(r"<style>@font-face.*?</style>\n?", re.DOTALL)


@cache
def font_face(letters: str = LATIN + SIGNS, family: str = "Course Sans") -> str:
    """A style rule that carries some letters of the typeface; "" without it."""
    try:
        import fontpkg_fira_sans
        from fontTools import subset
        from fontTools.ttLib import TTFont
    except ImportError:
        return ""
    path = fontpkg_fira_sans.ROOT / "files" / "FiraSans-Regular.ttf"
    font = TTFont(path, recalcTimestamp=False)  # the same letters, the same bytes
    options = subset.Options(hinting=False, drop_tables=["GDEF", "GPOS", "GSUB"])
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=letters)
    subsetter.subset(font)
    font.flavor = "woff"
    packed = BytesIO()
    font.save(packed)
    data = b64encode(packed.getvalue()).decode()
    source = f"url(data:font/woff;base64,{data}) format('woff')"
    return f"@font-face {{ font-family: '{family}'; src: {source}; }}\n"


def with_typeface(drawing: str) -> str:
    """An SVG drawing with a style rule that carries the letters of its words."""
    head, body = RULE.sub("", drawing).split("\n", 1)
    words = unescape("".join(re.findall(r">([^<]*)<", body)))
    letters = "".join(sorted({*words, " "} - {"\n"}))
    rule = f"<style>{font_face(letters, 'Fira Sans').strip()}</style>"
    return f"{head}\n{rule}\n{body}"
