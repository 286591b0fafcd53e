"""Print the typeface of pages, or give SVG drawings, named here, their letters."""

import sys
from pathlib import Path

from attention_views.typeface import font_face, with_typeface

for path in map(Path, sys.argv[1:]):
    drawing = with_typeface(path.read_text("utf-8"))
    path.write_text(drawing, encoding="utf-8", newline="\n")
if not sys.argv[1:]:
    print(font_face(), end="")
