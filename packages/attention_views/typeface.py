"""The letters of Fira Sans that a page needs, inside the page.

Knows fonts. Without the packages fontpkg-fira-sans and fonttools a page gets none, and
takes a typeface of the system.
"""

from base64 import b64encode
from functools import cache
from io import BytesIO

LATIN = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]))
SIGNS = "–—‘’“”…→←↑↓√−≤≥∞≈⏎␣"


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


if __name__ == "__main__":
    print(font_face(), end="")
