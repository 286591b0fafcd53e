"""One page with every figure and drawing of the course, for whoever reviews them.

`make figures`. Knows stored outputs and images. Knows nothing of what they show.
"""

from html import escape
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
SHEET = ROOT / "_build" / "figures.html"
STYLE = """
:root { color-scheme: light dark; font: 13px system-ui, sans-serif; }
main { display: flex; flex-wrap: wrap; gap: 24px; align-items: flex-start; }
figure { margin: 0; max-width: 480px; }
h2 { width: 100%; margin: 24px 0 0; }
img { max-width: 100%; }
"""


def figures(path: Path) -> list[tuple[str, str, str]]:
    """(place, source, alt text) of each picture that a notebook stores."""
    found = []
    for place, cell in enumerate(nbformat.read(path, as_version=4).cells):
        for output in cell.get("outputs", []):
            picture = output.get("data", {}).get("image/png")
            if picture:
                alt = output["metadata"].get("image/png", {}).get("alt", "")
                source = f"data:image/png;base64,{picture}"
                found.append((f"cell {place}", source, alt))
    return found


def sheet() -> str:
    """The page: a heading for each notebook, and one for the drawings."""
    groups = {
        path.stem: figures(path) for path in sorted(ROOT.glob("notebooks/*.ipynb"))
    }
    drawings = sorted((ROOT / "images").iterdir())
    groups["drawings"] = [(path.name, path.as_uri(), "") for path in drawings]
    lines = [f"<!DOCTYPE html><title>Figures</title><style>{STYLE}</style><main>"]
    for name, pictures in groups.items():
        lines.append(f"<h2>{name}</h2>")
        for place, source, alt in pictures:
            image = f'<img src="{source}" alt="">'
            text = f"<figcaption>{place}: {escape(alt)}</figcaption>"
            lines.append(f"<figure>{image}{text}</figure>")
    return "\n".join(lines)


if __name__ == "__main__":
    SHEET.parent.mkdir(exist_ok=True)
    SHEET.write_text(sheet(), encoding="utf-8")
    print(SHEET)
