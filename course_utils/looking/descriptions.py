"""What stands for a figure where it cannot be seen: its alt text and its words.

Knows drawn figures and the cell that is being run. Knows nothing of what is plotted.
"""

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

_counted = {"message": "", "figures": 0}  # how many figures the running cell has shown


def cell_alt() -> str:
    """The alt text that the running cell keeps for its next figure, or "".

    A cell's metadata may hold `alt`, a list with one alt text per figure, so that the
    code above a figure does not tell what the figure will show. JupyterLab, `make
    refresh` and the tests send the metadata with the code; another front end may not.
    """
    request = _request()
    alts = request.get("metadata", {}).get("alt", [])
    message = request.get("header", {}).get("msg_id", "")
    if message != _counted["message"]:
        _counted.update(message=message, figures=0)
    place = _counted["figures"]
    _counted["figures"] = place + 1
    return alts[place] if place < len(alts) else ""


def _request() -> dict:
    """The message that asked the kernel to run this cell; {} outside a kernel."""
    from IPython import get_ipython

    kernel = getattr(get_ipython(), "kernel", None)
    return kernel.get_parent("shell") if kernel else {}


def drawn_words(figure: Figure) -> list[str]:
    """Each word and number that a figure shows, after it was drawn.

    Titles, names of axes, ticks, legends, numbers in cells: in the order in which
    matplotlib keeps them.
    """
    hidden = {text for axes in figure.axes for text in _not_drawn(axes.xaxis)}
    hidden |= {text for axes in figure.axes for text in _not_drawn(axes.yaxis)}
    return [
        text.get_text().strip()
        for text in figure.findobj(Text)
        if text not in hidden and text.get_visible() and text.get_text().strip()
    ]


def _not_drawn(axis: Axis) -> list[Text]:
    """The texts of an axis that stay unseen: all of them, or ticks beyond its ends."""
    if not axis.axes.axison:
        return axis.findobj(Text)
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    beyond = [tick for tick in ticks if not low <= tick.get_loc() <= high]
    return [text for tick in beyond for text in tick.findobj(Text)]
