"""The look of all figures, and how one is displayed: as a PNG with words beside it.

Knows colors, the typeface and alt texts. Knows nothing of what is plotted.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from IPython import get_ipython
from IPython.display import display
from matplotlib import font_manager, rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import AutoLocator, FixedLocator, LogLocator, NullFormatter
from PIL import Image

# The palette of Okabe and Ito, which is safe for color-blind readers, and three more.
ROLES = {
    "query": "#0072B2",
    "key": "#E69F00",
    "value": "#009E73",
    "weight": "#CC79A7",  # scores and weights
    "context": "#56B4E9",
    "position": "#F0E442",
    "mask": "#999999",
    "residual": "#333333",  # the residual stream: input, residual, output
    "feedforward": "#8C6D46",  # feed-forward layers and norms
    "mistake": "#D55E00",  # a wrong version, a bug, a warning
}
INK, SOFT = "#24303B", "#5C6873"  # titles and words; axes and what stands back
HIDDEN = {"facecolor": "#F1F1F1", "edgecolor": "#B5B5B5", "hatch": "/////"}
_PURPLES = ["#FFFFFF", "#EBCBDC", ROLES["weight"], "#8A3F6B", "#4A1638"]
WEIGHTS = LinearSegmentedColormap.from_list("weights", _PURPLES)
_SLATE = LinearSegmentedColormap.from_list("slate", ["#34506B", "#6D8FAD", "#BCCDDB"])
_DPI = 200  # dots per inch, twice as many as those at which a figure is shown
_look = dict.fromkeys(("axes.labelcolor", "xtick.color", "ytick.color"), SOFT)
_look |= dict.fromkeys(("axes.titlecolor", "text.color"), INK)
try:
    import fontpkg_fira_sans
except ImportError:
    _look["font.family"] = "DejaVu Sans"  # matplotlib's own
else:
    for _face in ("Regular", "Bold"):
        _file = fontpkg_fira_sans.ROOT / "files" / f"FiraSans-{_face}.ttf"
        font_manager.fontManager.addfont(_file)
styled = rc_context(_look, fname=Path(__file__).with_name("lesson.mplstyle"))


def colors_of(labels: Iterable[str], roles: Mapping[str, str] | None) -> dict[str, Any]:
    """{label: color}: that of its role, or a shade of slate, from dark to light."""
    roles = {role: role for role in ROLES} | dict(roles or {})
    named = {label: ROLES[roles[label]] for label in labels if label in roles}
    rest = [label for label in labels if label not in named]
    shades = np.linspace(0, 1, len(rest)) if len(rest) > 1 else [0.4]
    return named | dict(zip(rest, map(_SLATE, shades), strict=False))


def dark(color: Any) -> np.ndarray:
    """A color as ink: dark enough to be read on white."""
    rgb = np.array(to_rgb(color))
    return rgb * min(1, 0.42 / (rgb @ (0.3, 0.59, 0.11) + 1e-9))


def literal(word: Any) -> str:
    """A word that matplotlib shall neither typeset as a formula nor leave out."""
    text = str(word).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def number(value: float, small: bool = False) -> str:
    """Two decimals, of a `small` number three; "≈ 0" is not quite 0."""
    text = f"{value:,.0f}"
    if abs(value) < 100:
        decimals = 3 if small and abs(value) < 0.1 else 2
        text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    if small and value and text in ("0", "-0"):
        return "≈ 0"
    return "0" if text == "-0" else text.replace("-", "−")


def panel(
    labels: Sequence[str], title: str, size: Sequence[float] = (5.8, 3.0)
) -> tuple[Figure, Axes]:
    """A figure with one panel, whose axes are named."""
    figure, [axis] = panels(1, size)
    axis.set(xlabel=literal(labels[0]), ylabel=literal(labels[1]))
    axis.set_title(literal(title), size=11, pad=14)
    return figure, axis


def panels(
    count: int, size: Sequence[float], columns: int = 0, **options: bool
) -> tuple[Figure, list]:
    """A figure with `count` panels, up to five in a row, four in a row beyond that."""
    columns = columns or (count if count <= 5 else 4)
    rows = math.ceil(count / columns)
    size = (size[0] * columns, size[1] * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def make_logarithmic(axis: Axes, letter: str) -> None:
    """Plain numbers at 1, 2 and 5 of each decade, where there are at most three."""
    axis.set(**{f"{letter}scale": "log"})
    scale = getattr(axis, f"{letter}axis")
    low, high = scale.get_view_interval()
    if low >= 0.001 and high < 1_000_000 and high < 1000 * low:
        scale.set_major_locator(LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(lambda number, _: f"{number:,g}")
        scale.set_minor_formatter(NullFormatter())


def name_ends(axis: Axes, names: Sequence[tuple]) -> None:
    """Write names (label, y, color) right of the axes, at the height of y and apart."""
    to_height = axis.transData + axis.transAxes.inverted()
    x, gap = axis.get_xlim()[1], 0.2 / axis.figure.get_figheight()
    heights = [to_height.transform((x, y))[1] for _, y, _ in names]
    lowest = -1.0
    for i, index in enumerate(np.argsort(heights, kind="stable")):
        label, _, color = names[index]
        highest = 1.05 - gap * (len(names) - 1 - i)  # leaves room for those above
        lowest = max(lowest + gap, min(heights[index], highest))
        style = {"transform": axis.transAxes, "va": "center", "color": dark(color)}
        axis.text(1.015, lowest, literal(label), **style)


def legend_below(figure: Figure, least: int = 2) -> None:
    """The names of the kinds, where there are several, in as many columns as fit."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    kinds = dict(zip(labels, handles, strict=True))
    for columns in (4, 3, 2, 1) if len(kinds) >= least else ():
        style = {"loc": "outside lower left", "ncols": columns}
        legend = figure.legend(kinds.values(), kinds.keys(), **style)
        if legend.get_window_extent().width <= figure.bbox.width or columns == 1:
            return
        legend.remove()


@styled
def show(figure: Figure, alt: str | None = None) -> None:
    """Display a figure as a PNG; `alt` and the words drawn stand in its metadata."""
    drawn = BytesIO()
    figure.set_dpi(_DPI)
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.draw_without_rendering()
        for axis in figure.axes:  # the ticks of this layout: another has others
            if isinstance(axis.yaxis.get_major_locator(), AutoLocator):
                axis.yaxis.set_major_locator(FixedLocator(axis.get_yticks()))
        figure.set_layout_engine("none")  # it is laid out
        figure.savefig(drawn, format="png", dpi=_DPI)
    words = " | ".join(drawn_words(figure))
    stored = cell_alt()  # asked for each figure, so that it counts them all
    alt = alt or stored or f"A figure with these words: {words}"
    small = BytesIO()
    palette = Image.open(drawn).convert("RGB").quantize(dither=Image.Dither.NONE)
    palette.save(small, format="png", optimize=True)
    data = {"image/png": small.getvalue(), "text/plain": alt}
    # Shown at half its size, a picture is sharp on a screen with fine pixels, too.
    size = {"width": palette.width // 2, "height": palette.height // 2}
    about = {"alt": alt, "words": words, **size}
    display(data, metadata={"image/png": about}, raw=True)


_counted = {"message": "", "figures": 0}  # how many figures the running cell has shown


def cell_alt() -> str:
    """The alt text that the running cell keeps for its next figure, or "".

    A cell's metadata may hold `alt`, a list with one alt text per figure, so that the
    code does not tell what the figure will show. Some front ends do not send it.
    """
    alts = _request().get("metadata", {}).get("alt", [])
    message, _ = running_cell()
    if message != _counted["message"]:
        _counted.update(message=message, figures=0)
    index = _counted["figures"]
    _counted["figures"] = index + 1
    return alts[index] if index < len(alts) else ""


def running_cell() -> tuple[str, str]:
    """The message that runs the cell, new at each run, and the cell's id or code.

    Two times "" outside a kernel.
    """
    request = _request()
    code = request.get("content", {}).get("code", "")
    name = request.get("metadata", {}).get("cellId", code)
    return request.get("header", {}).get("msg_id", ""), name


def _request() -> dict:
    """The message that asked the kernel to run this cell; {} outside a kernel."""
    kernel = getattr(get_ipython(), "kernel", None)
    return kernel.get_parent("shell") if kernel else {}


def drawn_words(figure: Figure) -> list[str]:
    """Each word and number that a figure shows, in the order of matplotlib."""
    hidden = {text for axes in figure.axes for text in _invisible_texts(axes.xaxis)}
    hidden |= {text for axes in figure.axes for text in _invisible_texts(axes.yaxis)}
    return [
        text.get_text().strip()
        for text in figure.findobj(Text)
        if text not in hidden and text.get_visible() and text.get_text().strip()
    ]


def _invisible_texts(axis: Axis) -> list[Text]:
    """The texts of an axis that stay unseen: all of them, or ticks beyond its ends."""
    if not (axis.axes.axison and axis.get_visible()):
        return axis.findobj(Text)
    low, high = sorted(axis.get_view_interval())
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    beyond = [tick for tick in ticks if not low <= tick.get_loc() <= high]
    return [text for tick in beyond for text in tick.findobj(Text)]
