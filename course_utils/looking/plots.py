"""Draw arrays as figures: heat maps, attention maps, curves, bars and arrows.

Knows colors, axes and alt texts. Knows nothing of models.

One call draws one figure and displays it as a small PNG. `alt` is one sentence that
says what the figure shows; without it the running cell's metadata is asked
(`descriptions.cell_alt`), then the words in the figure serve. `roles` gives a label the
color of its role in the drawings: `roles={"loss": "mistake"}`; it may name labels of
other figures too. Arrays are tensors of any type and device, NumPy arrays or lists.

Every function raises ValueError for shapes and labels that do not fit together and for
numbers that would silently not be drawn (NaN, a number <= 0 on a logarithmic axis).
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from IPython.display import display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import (
    AutoLocator,
    FixedLocator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)
from PIL import Image

from course_utils.looking.descriptions import cell_alt, drawn_words

Words = Iterable[Any]
Named = Mapping[str, Any]
Pair = Sequence[str]

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
_CYCLE = ("residual", "context", "key", "weight", "value", "query", "feedforward")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_PURPLES = ["#FFFFFF", "#EBCBDC", ROLES["weight"], "#8A3F6B", "#4A1638"]
_WEIGHTS = LinearSegmentedColormap.from_list("weights", _PURPLES)
_MARKERS = ("o", "s", "^", "D", "v", "P")
_INK = "#222222"
_DPI = 200  # dots per inch, twice as many as those at which a figure is shown
_MIDDLE = {"ha": "center", "va": "center"}
_styled = rc_context(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "legend.frameon": False,
    }
)


@_styled
def show(figure: Figure, alt: str | None = None) -> None:
    """Display a figure as a PNG; `alt` is its alt text and its plain text.

    The words and numbers that were drawn stand beside the picture, in its metadata.
    """
    drawn = BytesIO()
    figure.set_dpi(_DPI)
    with warnings.catch_warnings():  # a letter that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.draw_without_rendering()
        for axis in figure.axes:  # the ticks of this layout: another has others
            if isinstance(axis.yaxis.get_major_locator(), AutoLocator):
                axis.yaxis.set_major_locator(FixedLocator(axis.get_yticks()))
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


@_styled
def heatmap(
    values: Any,
    axes: Pair = ("", ""),
    rows: Words | None = None,
    columns: Words | None = None,
    signed: bool = False,
    numbers: bool = False,
    alt: str | None = None,
) -> None:
    """Draw a matrix, or several with as many rows side by side: {title: matrix}.

    `axes` names what runs (down the rows, along the columns). All matrices have one
    color scale; it starts at 0, or is centered on 0 when `signed`. A single matrix of
    up to 100 cells shows its numbers; with `numbers`, several show theirs too.
    """
    named = values if isinstance(values, Mapping) else {"": values}
    matrices = {title: _array(one, "values", 2) for title, one in named.items()}
    heights = {len(matrix) for matrix in matrices.values()}
    if len(heights) > 1:
        raise ValueError(f"values must have equally many rows, got {sorted(heights)}")
    columns = [_labels("columns", columns, one.shape[1]) for one in matrices.values()]
    rows = _labels("rows", rows, heights.pop())
    figure, _ = _matrices(matrices.items(), rows, columns, axes, signed, numbers)
    show(figure, alt)


@_styled
def attention_map(
    weights: Any,
    queries: Words,
    keys: Words,
    title: str | Sequence[str] = "",
    mask: Any = None,
    marks: Iterable[Sequence[int]] = (),
    alt: str | None = None,
) -> None:
    """Draw the weights of one head, "q k", or of several side by side, "h q k".

    One row per query, one column per key; `title` is a string for one head, a list of
    strings for several. Cells where `mask` ("q k", bool, True = may look) is False are
    hatched, and in the color of a mistake if a weight leaks there. `marks` frames the
    cells (query, key) that one expects, such as a known alignment.
    """
    heads = _array(weights, "weights")
    if heads.ndim == 2:
        heads, titles = heads[None], [title]
    else:
        titles = title or [f"head {h}" for h in range(len(heads))]
    shape = heads.shape[1:]
    rows = _labels("queries", queries, shape[0])
    columns = [_labels("keys", keys, shape[1])] * len(heads)
    mask = torch.as_tensor(True if mask is None else mask, device="cpu")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool (True = may look), got {mask.dtype}")
    hidden = ~np.broadcast_to(mask.numpy(), shape)
    titled = list(zip(titles, heads, strict=True))
    figure, drawn = _matrices(titled, rows, columns, ("query position", "key position"))
    hatched = {"edgecolor": ROLES["mask"], "hatch": "////"}
    for axis, head in zip(drawn, heads, strict=True):
        leaks = hidden & (head > 0)
        _frame(axis, np.argwhere(hidden & ~leaks), facecolor="#E4E4E4", **hatched)
        _frame(axis, np.argwhere(leaks), 2.5, facecolor=ROLES["mistake"])
        _frame(axis, marks, fill=False, edgecolor=ROLES["key"], linewidth=2)
    show(figure, alt)


@_styled
def equation(
    parts: Iterable[Any],
    rows: Words = (),
    columns: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw matrices with their numbers, and signs between them, as one equation.

    A part is a sign ("·", "=", "→") or (name, array, role); a vector is drawn as one
    row. `rows` labels the rows of the first matrix, `columns`, {name: labels}, the
    columns of the matrices with these names.
    """
    parts = [part if isinstance(part, str) else _part(*part) for part in parts]
    matrices = [part for part in parts if not isinstance(part, str)]
    first = matrices[0][1]
    height = max(len(matrix) for _, matrix, _ in matrices)
    words = _labels("rows", rows, len(first)) if rows else []
    widths = {name: matrix.shape[1] for name, matrix, _ in matrices}
    below = {
        name: _labels(f"columns[{name!r}]", labels, widths[name])
        for name, labels in (columns or {}).items()
    }
    spaced = [item for part in parts for item in (part, "")][:-1]
    widths = [
        0.4 * len(part) + 0.2 if isinstance(part, str) else part[1].shape[1]
        for part in spaced
    ]
    margin = 0.4 + 0.2 * max((len(word) for word in words), default=0)
    total = sum(widths) + margin + 0.4
    lengths = [len(word) for labels in below.values() for word in labels]
    bottom = 0.2 + 0.24 * max(lengths, default=0)
    size = (min(0.5, 7.4 / total) * total, 0.3 * (height + 1.2 + bottom))
    figure = Figure(figsize=size)
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(-margin, total - margin), ylim=(height + bottom, -1.2))
    axis.axis("off")
    left = 0.0
    for part, width in zip(spaced, widths, strict=True):
        if isinstance(part, str):
            axis.text(left + width / 2, height / 2, part, size=18, **_MIDDLE)
        else:
            name, matrix, color = part
            top = (height - len(matrix)) / 2
            axis.text(left + width / 2, top - 0.3, name, ha="center", weight="bold")
            _draw_numbers(axis, matrix, color, (left, top))
            for c, label in enumerate(below.get(name, ())):
                place = (left + c + 0.5, top + len(matrix) + 0.2)
                axis.text(*place, label, rotation=90, size=8, ha="center", va="top")
        left += width
    top = (height - len(first)) / 2
    for r, word in enumerate(words):
        axis.text(-0.15, top + r + 0.5, word, ha="right", va="center")
    show(figure, alt)


@_styled
def curves(
    series: Named,
    axes: Pair,
    title: str = "",
    log: str = "",
    lines: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw {label: y} or {label: (x, y)} as lines; `log` is "", "x", "y" or "xy".

    `axes` labels (x, y). `lines` adds labeled horizontal lines, {label: height}: a
    known floor, a baseline. A NaN among y leaves a gap.
    """
    points = {label: _points(values, label, log) for label, values in series.items()}
    figure, [axis] = _panels(1, (5.0, 3.0))
    for i, (label, (x, y)) in enumerate(points.items()):
        marker = "o" if len(y) <= 12 else None
        dashes = _DASHES[i % len(_DASHES)]
        style = {"color": _pick(label, i, roles), "linestyle": dashes, "markersize": 4}
        axis.plot(x, y, marker=marker, label=_text(label), **style)
    axis.set_xscale("log" if "x" in log else "linear")
    axis.set_yscale("log" if "y" in log else "linear")
    if "x" not in log and all((x == x.round()).all() for x, _ in points.values()):
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))  # no step 2.5
    _finish(axis, axes, title, lines)
    for letter in log:
        _label_logarithmic({"x": axis.xaxis, "y": axis.yaxis}[letter])
    show(figure, alt)


@_styled
def points(
    series: Named,
    axes: Pair,
    title: str = "",
    texts: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw {label: (x, y)} as points without lines; each label has its own marker.

    `axes` labels (x, y). `texts` names points, {label: one text a point}; an empty text
    leaves a point without a name.
    """
    places = {label: _points(values, label, "") for label, values in series.items()}
    for label, (_, y) in places.items():
        _array(y, f"series[{label!r}]: y")
    figure, [axis] = _panels(1, (5.0, 3.4))
    for i, (label, (x, y)) in enumerate(places.items()):
        color = _pick(label, i, roles)
        marker = _MARKERS[i % len(_MARKERS)]
        axis.plot(x, y, marker, label=_text(label), color=color, markersize=6)
        if label in (texts or {}):
            words = _labels(f"texts[{label!r}]", texts[label], len(x))
            near = {"textcoords": "offset points", "xytext": (6, 3), "fontsize": 8}
            for word, *place in zip(words, x, y, strict=True):
                axis.annotate(word, place, **near)
    axis.margins(0.1)
    _finish(axis, axes, title, None)
    show(figure, alt)


@_styled
def bars(
    labels: Words,
    series: Named,
    axes: Pair,
    title: str = "",
    lines: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw one group of bars per label, with one bar per series, {name: heights}."""
    labels = [_text(label) for label in labels]
    heights = {name: _array(h, f"series[{name!r}]", 1) for name, h in series.items()}
    for name, numbers in heights.items():
        if len(numbers) != len(labels):
            raise ValueError(
                f"series[{name!r}] must fit {len(labels)} labels, got {len(numbers)}"
            )
    places = np.arange(len(labels))
    thick = 0.8 / len(series)
    width = np.clip(0.8 * len(labels) + 2, 3.5, 7)
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    axis = figure.subplots()
    for i, (name, numbers) in enumerate(heights.items()):
        middle = places + (i - (len(series) - 1) / 2) * thick
        color = _pick(name, i, roles)
        axis.bar(middle, numbers, thick * 0.92, label=_text(name), color=color)
    axis.set_xticks(places, labels)
    _finish(axis, axes, title, lines)
    show(figure, alt)


@_styled
def histograms(
    samples: Named,
    axis: str,
    limits: Sequence[float | int],
    role: str = "weight",
    alt: str | None = None,
) -> None:
    """Draw {title: numbers} as histograms side by side, all on the axis `limits`.

    Heights are fractions of a sample; numbers beyond the limits, infinity included, are
    counted at the edge.
    """
    low, high = limits
    numbers = {
        name: _array(np.clip(_numbers(sample), low, high), f"samples[{name!r}]").ravel()
        for name, sample in samples.items()
    }
    figure, panels = _panels(len(numbers), (1.5, 1.9), sharex=True, sharey=True)
    for panel, (name, sample) in zip(panels, numbers.items(), strict=True):
        weights = np.full(sample.size, 1 / sample.size)
        panel.hist(sample, 40, range=(low, high), weights=weights, color=ROLES[role])
        panel.set(title=_text(name), xlabel=_text(axis))
        panel.tick_params(left=panel.get_subplotspec().is_first_col())
    show(figure, alt)


@_styled
def arrows(
    vectors: Named,
    title: str = "",
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw vectors of the plane, {label: (x, y)}, as arrows from the origin."""
    ends = {label: _array(end, label, 1) for label, end in vectors.items()}
    figure, [axis] = _panels(1, (2.6, 3.4))
    reach = 1.3 * max(np.abs(end).max() for end in ends.values()) or 1.0
    for i, (label, (x, y)) in enumerate(ends.items()):
        shape = {"width": reach / 100, "head_width": reach / 20}
        shape |= {"length_includes_head": True, "color": _pick(label, i, roles)}
        axis.arrow(0, 0, x, y, **shape)
        side = "left" if x > reach / 4 else "right" if x < -reach / 4 else "center"
        axis.text(1.1 * x, 1.1 * y, _text(label), ha=side, va="center")
    axis.axhline(0, color="#DDDDDD", linewidth=1, zorder=0)
    axis.axvline(0, color="#DDDDDD", linewidth=1, zorder=0)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    axis.set_title(_text(title))
    show(figure, alt)


# --- arguments -----------------------------------------------------------------------


def _array(values: Any, name: str, ndim: int | None = None) -> np.ndarray:
    """The numbers as float64; a vector serves as a matrix of one row.

    Raises ValueError for NaN or infinity, which leave a hole, and for other axes.
    """
    array = _numbers(values)
    if ndim == 2 and array.ndim == 1:
        array = array[None]
    if not array.size or ndim not in (None, array.ndim):
        raise ValueError(f"{name} must have {ndim} axes, got the shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must hold finite numbers")
    return array


def _numbers(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        values = values.copy()  # torch takes no read-only and no reversed arrays
    # By way of torch, whose memory is aligned: else NumPy may round a last bit anew.
    return torch.as_tensor(values, device="cpu").detach().double().numpy()


def _points(values: Any, label: str, log: str) -> tuple[np.ndarray, np.ndarray]:
    """One line of `curves`: x and y. A tuple is (x, y), anything else y alone."""
    x, y = values if isinstance(values, tuple) else (range(len(values)), values)
    x, y = _array(list(x), f"series[{label!r}]: x", 1), _numbers(y)
    if np.isinf(y).any():
        raise ValueError(f"series[{label!r}]: y must be finite, or NaN for a gap")
    for axis, numbers in (("x", x), ("y", y)):
        if axis in log and np.nanmin(numbers) <= 0:
            raise ValueError(
                f"series[{label!r}]: {axis} must be > 0 on a logarithmic axis, got "
                f"{np.nanmin(numbers):.3g}"
            )
    return x, y


def _labels(name: str, words: Words | None, count: int) -> list[str] | None:
    """One label per cell; small matrices without labels are numbered from 0."""
    if words is None and count > 12:
        return None
    labels = [_text(word) for word in (range(count) if words is None else words)]
    if len(labels) != count:
        raise ValueError(
            f"{name} must hold one label for each of {count} cells, got {len(labels)}"
        )
    return labels


def _text(word: Any) -> str:
    """A word as matplotlib draws it literally, and shows it in a legend.

    A dollar sign would begin a formula, and a name that begins with "_" is left out.
    """
    text = str(word).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _part(name: str, values: Any, role: str) -> tuple[str, np.ndarray, str]:
    """One matrix of an equation: name, numbers and color."""
    return _text(name), _array(values, name, 2), ROLES[role]


def _pick(label: str, index: int, roles: Named | None) -> str:
    default = label if label in ROLES else _CYCLE[index % len(_CYCLE)]
    return ROLES[(roles or {}).get(label, default)]


# --- drawing -------------------------------------------------------------------------


def _number(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text.replace("-", "−")


def _panels(count: int, size: Sequence[float], **options: bool) -> tuple[Figure, list]:
    """A figure with `count` panels, up to five in a row, four in a row beyond that."""
    columns = count if count <= 5 else 4
    rows = math.ceil(count / columns)
    width = size[0] * columns + 0.8
    figure = Figure(figsize=(width, size[1] * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **options).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _matrices(
    titled: Iterable[tuple[str, np.ndarray]],
    rows: list[str] | None,
    columns: list[list[str] | None],
    axes: Pair,
    signed: bool = False,
    numbers: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Draw matrices with as many rows; return the figure and its axes."""
    titles, matrices = zip(*titled, strict=True)
    lowest = min(matrix.min() for matrix in matrices)
    if lowest < 0 and not signed:
        raise ValueError(
            f"values must be >= 0, or drawn by heatmap(signed=True), got {lowest:.3g}"
        )
    height, width = matrices[0].shape
    alone = len(matrices) == 1
    inches = {1: 5.5, 2: 2.7}.get(len(matrices), 1.5)  # for one matrix
    cell = min(0.52 if alone else 0.3, inches / max(width, height))
    if numbers and not alone:
        cell = 0.45
    size = [max(1.6, cell * width + 0.4), max(1.6, cell * height + 1)]
    figure, drawn = _panels(len(matrices), size)
    limit = max(np.abs(matrix).max() for matrix in matrices) or 1.0
    colors = {"cmap": "RdBu_r" if signed else _WEIGHTS, "vmin": -limit if signed else 0}
    panels = zip(drawn, titles, matrices, columns, strict=True)
    for axis, title, matrix, labels in panels:
        style = {"aspect": "auto", "interpolation": "nearest"}
        image = axis.imshow(matrix, vmax=limit, **colors, **style)
        axis.spines[:].set(visible=True, color="#DDDDDD")
        if numbers or (alone and matrix.size <= 100):
            for (r, c), value in np.ndenumerate(matrix):
                ink = "white" if abs(value) > 0.6 * limit else _INK
                axis.text(c, r, _number(value), color=ink, size=8, **_MIDDLE)
        first = axis.get_subplotspec().is_first_col()
        axis.set(title=_text(title), xlabel=_text(axes[1]))
        axis.set_ylabel(_text(axes[0]) if first else "", labelpad=8)
        if labels is not None:
            lines = [line for label in labels for line in label.split("\n")]
            too_long = 0.08 * max(map(len, lines)) > 0.9 * cell  # about, in inches
            turned = 90 if width > 3 and too_long else 0
            axis.set_xticks(np.arange(len(labels)), labels, rotation=turned)
        if rows is not None:
            axis.set_yticks(np.arange(height), rows)
        axis.tick_params(left=first, labelleft=first)
    figure.colorbar(image, ax=drawn, shrink=0.85)
    return figure, drawn


def _frame(axis: Axes, cells: Any, zorder: float = 4, **style: Any) -> None:
    for row, column in cells:
        corner = (column - 0.5, row - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, zorder=zorder, **style))


def _draw_numbers(axis: Axes, matrix: np.ndarray, color: str, corner: tuple) -> None:
    strength = 0.6 * np.abs(matrix) / (np.abs(matrix).max() or 1)
    left, top = corner
    for (r, c), value in np.ndenumerate(matrix):
        cell = (left + c, top + r)
        axis.add_patch(Rectangle(cell, 1, 1, fc=color, alpha=strength[r, c], lw=0))
        axis.add_patch(Rectangle(cell, 1, 1, fill=False, ec=color, lw=1))
        axis.text(cell[0] + 0.5, cell[1] + 0.5, _number(value), size=8, **_MIDDLE)


def _label_logarithmic(axis: Axis) -> None:
    """Plain numbers at 1, 2 and 5 of each decade, where there are at most three."""
    low, high = axis.get_view_interval()
    if low >= 0.001 and high < 1_000_000 and high < 1000 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda number, _: f"{number:,g}")
        axis.set_minor_formatter(NullFormatter())


def _legend_below(figure: Figure) -> None:
    """A legend of as many columns as fit, at most four."""
    for columns in (4, 3, 2, 1):
        legend = figure.legend(loc="outside lower center", ncols=columns)
        if legend.get_window_extent().width <= figure.bbox.width:
            return
        if columns > 1:
            legend.remove()


def _finish(axis: Axes, labels: Pair, title: str, lines: Named | None) -> None:
    for label, height in (lines or {}).items():
        height = float(height)
        axis.axhline(height, color=_INK, linewidth=1, linestyle=":")
        place = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": "bottom"}
        paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
        axis.text(1, height, _text(label), size=8, bbox=paper, **place)
    axis.set(xlabel=_text(labels[0]), ylabel=_text(labels[1]), title=_text(title))
    labels_drawn = len(axis.get_legend_handles_labels()[1])
    if labels_drawn > 1:
        if axis.patches or labels_drawn > 3:  # there is no room for a legend inside
            _legend_below(axis.figure)
        else:
            axis.legend()
