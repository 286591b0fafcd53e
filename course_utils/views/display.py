"""Display a view: its HTML beside the sentence for whoever sees no HTML.

Knows the pages of `attention_views`. Knows nothing of what a view shows.
"""

import sys
from typing import Any

from IPython.display import display

from attention_views import page_script, view_html
from course_utils.checks import check_type
from lesson_plots.style import running_cell

HINT = "Run this cell, or trust the notebook, to explore all layers and heads."
SLIDERS = "Run this cell, or trust the notebook, to move the sliders."
IN_A_NOTEBOOK = {"shared": True, "pictured": True}

_shown: dict[str, str] = {}  # cell that has shown a view -> the message of its last run


def display_view(html: str, sentence: str, hint: str = HINT) -> None:
    """Display a view of ours, with the script of the page where that may be missing.

    The first view of a kernel brings it for all, so does the first of a cell that is
    run again, and every view where each output is a page: on Colab, outside a kernel.
    """
    message, cell = running_cell()
    standalone = not message or "google.colab" in sys.modules
    if standalone or not _shown or _shown.get(cell, message) != message:
        html += f"\n{page_script()}"
    _shown[cell] = message
    display({"text/html": html, "text/plain": f"{sentence} {hint}"}, raw=True)


def show_piece(piece: str, data: dict[str, Any], title: str, alt: str) -> None:
    """Display a demonstration of `attention_views`, named by its piece."""
    check_type(str, title=title)
    data = {"piece": piece, "title": title, **data}
    html = view_html("pieces", data, f"{alt} {SLIDERS}", **IN_A_NOTEBOOK)
    display_view(html, alt, SLIDERS)
