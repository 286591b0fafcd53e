"""Arrays in, figures out. Knows colors, axes and alt texts; knows nothing of models.

One call draws one figure and shows it as a small PNG. `alt` is one sentence that says
what one sees. `roles` gives a label the color of its role, as in the drawings:
`curves({"loss": losses}, alt, axes, roles={"loss": "mistake"})`. Arrays are tensors,
NumPy arrays or lists. Wrong shapes, labels and roles raise ValueError.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from IPython.display import display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from course_utils.shapes import check_choice

Words, Named, Pair = Iterable[str], Mapping[str, Any], tuple[str, str]

ROLES = {  # Okabe and Ito's palette, safe for color-blind readers, and three more
    "query": "#0072B2", "key": "#E69F00", "value": "#009E73",
    "weight": "#CC79A7",  # scores and weights
    "context": "#56B4E9", "position": "#F0E442", "mask": "#999999",
    "residual": "#333333",  # the stream of vectors: input, residual, output
    "feedforward": "#8C6D46",  # feed-forward layers and norms
    "mistake": "#D55E00",  # a wrong version, a bug, the thing to worry about
}  # fmt: skip
_CYCLE = ("residual", "context", "key", "weight", "value", "query", "feedforward")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_PURPLES = ["#FFFFFF", "#EBCBDC", ROLES["weight"], "#8A3F6B", "#4A1638"]
_WEIGHTS = LinearSegmentedColormap.from_list("weights", _PURPLES)
_INK = "#222222"
_MIDDLE = {"ha": "center", "va": "center"}
_styled = rc_context({
    "font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 10,
    "axes.spines.top": False, "axes.spines.right": False, "text.color": _INK,
    "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK,
    "figure.facecolor": "white", "savefig.facecolor": "white", "legend.frameon": False,
})  # fmt: skip


@_styled
def show(figure: Figure, alt: str) -> None:
    """Display a figure as a PNG; `alt` is its alt text and its plain text."""
    if not alt.strip():
        raise ValueError("alt must say what the figure shows, it is empty")
    drawn, small = BytesIO(), BytesIO()
    with warnings.catch_warnings():  # a letter that the font lacks is a small box
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure.savefig(drawn, format="png", dpi=100)
    figure.clear()
    palette = Image.open(drawn).convert("RGB").quantize(dither=Image.Dither.NONE)
    palette.save(small, format="png", optimize=True)
    data = {"image/png": small.getvalue(), "text/plain": alt}
    display(data, metadata={"image/png": {"alt": alt}}, raw=True)


@_styled
def heatmap(
    values: Any, alt: str, axes: Pair = ("", ""), rows: Words | None = None,
    columns: Words | None = None, signed: bool = False,
) -> None:  # fmt: skip
    """Draw a matrix, or several on one color scale side by side: {title: matrix}.

    `axes` names what runs (down the rows, along the columns). Colors start at 0, or
    are centered on 0 when `signed`. One matrix of up to 100 cells shows its numbers.
    """
    named = values if isinstance(values, Mapping) else {"": values}
    matrices = [_array(matrix, 2, name or "values") for name, matrix in named.items()]
    figure, _ = _matrices(list(named), matrices, axes, (rows, columns), signed)
    show(figure, alt)


@_styled
def attention_map(
    weights: Any, queries: Words, keys: Words, alt: str, title: str | Sequence = "",
    mask: Any = None, marks: Iterable[Sequence[int]] = (),
) -> None:  # fmt: skip
    """Draw the weights of one head, "q k", or of several side by side, "h q k".

    One row per query, one column per key; `title` is one title, or one per head.
    Cells where `mask` ("q k", True = may look) is False are hatched. `marks` frames
    the cells (query, key) that one expects, such as a known alignment.
    """
    heads = _array(weights, None, "weights")
    heads, title = (heads[None], [title]) if heads.ndim == 2 else (heads, title)
    titles = list(title) or [f"head {h}" for h in range(len(heads))]
    if heads.ndim != 3 or len(titles) != len(heads):
        came = f"got the shape {heads.shape} and {len(titles)} titles"
        raise ValueError(f"weights must be q k, or h q k with one title per h, {came}")
    axes, words = ("query position", "key position"), (list(queries), list(keys))
    seen = np.ones_like(heads[0]) if mask is None else _array(mask, 2, "mask")
    hidden = np.argwhere(np.broadcast_to(seen == 0, heads.shape[1:]))
    figure, drawn = _matrices(titles, list(np.where(seen == 0, 0, heads)), axes, words)
    for axis in drawn:
        _frame(axis, hidden, facecolor="#E4E4E4", edgecolor=ROLES["mask"], hatch="////")
        _frame(axis, marks, fill=False, edgecolor=ROLES["key"], linewidth=2)
    show(figure, alt)


@_styled
def equation(parts: Iterable[Any], alt: str, rows: Words = ()) -> None:
    """Draw matrices with their numbers, and signs between them, as one equation.

    A part is a sign ("·", "=", "→") or (name, array, role); a vector is drawn as one
    row. `rows` labels the rows of the first matrix.
    """
    parts = [p if isinstance(p, str) else (*p, _array(p[1], 2, p[0])) for p in parts]
    rows = list(rows)
    parts = [sign_or_part for p in parts for sign_or_part in (p, "")][:-1]
    widths = [
        0.4 * len(p) + 0.2 if isinstance(p, str) else p[-1].shape[1] for p in parts
    ]
    height = max(len(p[-1]) for p in parts if not isinstance(p, str))
    margin, left = 0.4 + 0.2 * max(map(len, rows), default=0), 0.0
    total = sum(widths) + margin + 0.4
    figure = Figure(figsize=(min(0.5, 7.4 / total) * total, 0.3 * (height + 1.4)))
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set(xlim=(-margin, total - margin), ylim=(height + 0.2, -1.2))
    axis.axis("off")
    for part, width in zip(parts, widths, strict=True):
        if isinstance(part, str):
            axis.text(left + width / 2, height / 2, part, size=18, **_MIDDLE)
        else:
            name, _, role, matrix = part
            top = (height - len(matrix)) / 2
            axis.text(left + width / 2, top - 0.3, name, ha="center", weight="bold")
            _draw_numbers(axis, matrix, _color(role), (left, top))
        left += width
    for r, word in enumerate(rows):
        axis.text(-0.15, r + 0.5, word, ha="right", va="center")
    show(figure, alt)


@_styled
def curves(
    series: Named, alt: str, axes: Pair, title: str = "", log: str = "",
    lines: Named | None = None, roles: Named | None = None,
) -> None:  # fmt: skip
    """Draw {label: y} or {label: (x, y)} as lines; `log` is "", "x", "y" or "xy".

    `axes` labels (x, y). `lines` adds labeled horizontal lines, {label: height}: a
    known floor, a baseline.
    """
    figure, [axis] = _panels(1, (5.0, 3.0))
    for i, (label, values) in enumerate(series.items()):
        x, y = values if isinstance(values, tuple) else (range(len(values)), values)
        line = _array(list(x), 1, label), _array(y, 1, label)
        style = {"label": label, "color": _pick(label, i, roles), "markersize": 4}
        style |= {"linestyle": _DASHES[i % len(_DASHES)]}
        axis.plot(*line, marker="o" if len(line[1]) <= 12 else None, **style)
    axis.set_xscale("log" if "x" in log else "linear")
    axis.set_yscale("log" if "y" in log else "linear")
    _finish(axis, axes, title, lines)
    show(figure, alt)


@_styled
def bars(
    labels: Words, series: Named, alt: str, axes: Pair, title: str = "",
    lines: Named | None = None, roles: Named | None = None,
) -> None:  # fmt: skip
    """Draw one group of bars per label, one bar in it per series {name: heights}."""
    labels = list(labels)
    places, thick = np.arange(len(labels)), 0.8 / len(series)
    width = np.clip(0.8 * len(labels) + 2, 3.5, 7)
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    axis = figure.subplots()
    for i, (name, heights) in enumerate(series.items()):
        middle = places + (i - (len(series) - 1) / 2) * thick
        style = {"label": name, "color": _pick(name, i, roles)}
        axis.bar(middle, _array(heights, 1, name), thick * 0.92, **style)
    axis.set_xticks(places, labels)
    _finish(axis, axes, title, lines)
    show(figure, alt)


@_styled
def histograms(
    samples: Named, alt: str, axis: str, limits: Sequence, role: str = "weight"
) -> None:
    """Draw {title: numbers} as histograms side by side, all on the axis `limits`.

    Heights are shares of a sample; numbers beyond the limits are counted at the edge.
    """
    figure, panels = _panels(len(samples), (1.5, 1.9), sharex=True, sharey=True)
    for panel, (name, sample) in zip(panels, samples.items(), strict=True):
        numbers = np.clip(_array(sample, None, name).ravel(), *limits)
        share = np.full(numbers.size, 1 / numbers.size)
        panel.hist(numbers, 40, range=limits, weights=share, color=_color(role))
        panel.set(title=name, xlabel=axis)
    show(figure, alt)


@_styled
def arrows(
    vectors: Named, alt: str, title: str = "", roles: Named | None = None
) -> None:
    """Draw vectors of the plane, {label: (x, y)}, as arrows from the origin."""
    figure, [axis] = _panels(1, (2.6, 3.4))
    ends = {label: _array(vector, 1, label) for label, vector in vectors.items()}
    reach = 1.3 * max(np.abs(end).max() for end in ends.values())
    for i, (label, (x, y)) in enumerate(ends.items()):
        style = {"color": _pick(label, i, roles), "width": reach / 100}
        style |= {"length_includes_head": True, "head_width": reach / 20}
        axis.arrow(0, 0, x, y, **style)
        side = "left" if x > reach / 4 else "right" if x < -reach / 4 else "center"
        axis.text(1.1 * x, 1.1 * y, label, ha=side, va="center")
    axis.axhline(0, color="#DDDDDD", linewidth=1, zorder=0)
    axis.axvline(0, color="#DDDDDD", linewidth=1, zorder=0)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", title=title)
    show(figure, alt)


def _array(values: Any, ndim: int | None, name: str) -> np.ndarray:
    array = torch.as_tensor(values).detach().cpu().double().numpy()
    array = array[None] if ndim == 2 and array.ndim == 1 else array
    if array.size == 0 or ndim not in (None, array.ndim):
        wanted = "numbers" if ndim is None else f"numbers along {ndim} axes"
        raise ValueError(f"{name} must hold {wanted}, its shape is {array.shape}")
    return array


def _color(role: str) -> str:
    check_choice("role", role, tuple(ROLES))
    return ROLES[role]


def _pick(label: str, index: int, roles: Named | None) -> str:
    default = label if label in ROLES else _CYCLE[index % len(_CYCLE)]
    return _color((roles or {}).get(label, default))


def _number(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text.replace("-", "−")


def _panels(count: int, size: Sequence[float], **share: bool) -> tuple[Figure, list]:
    columns = count if count <= 5 else 4
    rows = -(-count // columns)
    wide, high = size[0] * columns + 0.8, size[1] * rows
    figure = Figure(figsize=(wide, high), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, **share).flat)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def _matrices(
    titles: list, matrices: list, axes: Pair, words: tuple, signed: bool = False
) -> tuple[Figure, list[Axes]]:
    height, width = matrices[0].shape
    alone = len(matrices) == 1
    cell = min(0.52 if alone else 0.3, (5.5 if alone else 1.5) / max(width, height))
    size = [max(1.6, cell * width + 0.4), max(1.6, cell * height + 1)]
    figure, drawn = _panels(len(matrices), size)
    limit = max(np.abs(matrix).max() for matrix in matrices)
    lowest = min(matrix.min() for matrix in matrices)
    if lowest < 0 and not signed:
        raise ValueError(f"values must be >= 0 unless signed=True, got {lowest:.3g}")
    colors, bottom = ("RdBu_r", -limit) if signed else (_WEIGHTS, 0)
    style = {"cmap": colors, "vmin": bottom, "vmax": limit or 1, "aspect": "auto"}
    style |= {"interpolation": "nearest"}
    for axis, name, matrix in zip(drawn, titles, matrices, strict=True):
        image = axis.imshow(matrix, **style)
        axis.spines[:].set_visible(False)
        if alone and matrix.size <= 100:
            for (r, c), value in np.ndenumerate(matrix):
                ink = "white" if abs(value) > 0.6 * limit else _INK
                axis.text(c, r, _number(value), color=ink, size=8, **_MIDDLE)
        first = axis.get_subplotspec().is_first_col()
        axis.set(title=name, xlabel=axes[1], ylabel=axes[0] if first else "")
        turned = cell < 0.45 and width > 3
        _label(axis.set_xticks, words[1], width, rotation=90 if turned else 0)
        _label(axis.set_yticks, words[0], height)
        axis.tick_params(labelleft=first)
    figure.colorbar(image, ax=drawn, shrink=0.85)
    return figure, drawn


def _label(set_ticks: Any, words: Words | None, count: int, rotation: int = 0) -> None:
    """Write one label per cell; small matrices without labels are numbered from 0."""
    if words is None and count > 12:
        return
    words = range(count) if words is None else words
    words = [str(word).replace("$", r"\$") for word in words]
    if len(words) != count:
        raise ValueError(f"{count} cells need {count} labels, got {words}")
    set_ticks(np.arange(count), words, rotation=rotation)


def _frame(axis: Axes, cells: Any, **style: Any) -> None:
    for row, column in cells:
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, zorder=4, **style))


def _draw_numbers(axis: Axes, matrix: np.ndarray, color: str, corner: tuple) -> None:
    strength = 0.6 * np.abs(matrix) / (np.abs(matrix).max() or 1)
    for (r, c), value in np.ndenumerate(matrix):
        x, y = corner[0] + c, corner[1] + r
        axis.add_patch(Rectangle((x, y), 1, 1, fc=color, alpha=strength[r, c], lw=0))
        axis.add_patch(Rectangle((x, y), 1, 1, fill=False, ec=color, lw=1))
        axis.text(x + 0.5, y + 0.5, _number(value), size=8, **_MIDDLE)


def _finish(axis: Axes, labels: Pair, title: str, lines: Named | None) -> None:
    for label, height in (lines or {}).items():
        axis.axhline(height, color=_INK, linewidth=1, linestyle=":")
        place = {"transform": axis.get_yaxis_transform(), "ha": "right", "va": "bottom"}
        paper = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1}
        axis.text(1, height, label, size=8, bbox=paper, **place)
    axis.set(xlabel=labels[0], ylabel=labels[1], title=title)
    if len(axis.get_legend_handles_labels()[1]) > 1:
        if axis.patches:  # bars leave no room for it
            axis.figure.legend(loc="outside lower center", ncols=4)
        else:
            axis.legend()
