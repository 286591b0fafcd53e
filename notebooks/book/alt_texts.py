"""Sphinx extension: give the figures of a notebook the alt texts stored with them.

Knows the JSON of notebooks. Knows nothing of what the figures show.
"""

import json
import re
from pathlib import Path


def with_alt_texts(text: str) -> str:
    """A notebook's JSON in which each cell names the alt text of its figure to MyST-NB.

    The alt text stands in the metadata of the output, {"image/png": {"alt": …}};
    MyST-NB looks for it in the metadata of the cell. A cell has one figure. The alt
    texts of drawings, which run over several lines, are put on one.
    """
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            source = "".join(cell["source"])
            cell["source"] = re.sub(
                r"!\[[^\]]*\]\(", lambda alt: alt[0].replace("\n", " "), source
            )
        for output in cell.get("outputs", []):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if alt:
                cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
    return json.dumps(notebook)


def _read(app, name: str, source: list[str]) -> None:
    if Path(app.env.doc2path(name)).suffix == ".ipynb":
        source[0] = with_alt_texts(source[0])


def setup(app) -> dict[str, bool]:
    """What Sphinx calls: mend each notebook when it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
