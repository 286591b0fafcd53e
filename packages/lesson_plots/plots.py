"""Draw arrays as figures: heat maps, attention maps, curves, bars and arrows.

Knows axes and labels. Knows nothing of models; colors and alt texts are in `style`.

One call displays one figure. `alt` says in one sentence what it shows; without it the
cell's metadata is asked, then the words in the figure. `roles={"loss": "mistake"}`
gives a label the color of a role. Arrays are tensors, NumPy arrays or lists.

All raise ValueError for labels that do not fit and numbers that cannot be drawn.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from lesson_plots import style
from lesson_plots.style import INK, ROLES, SOFT, literal, show, styled

Words = Iterable[Any]
Named = Mapping[str, Any]
Pair = Sequence[str]

_RUNS = re.compile("(seed|round|run) [0-9]+")  # runs of one kind: dots of one color
_MIDDLE = {"ha": "center", "va": "center"}
_LINE = {"color": SOFT, "linewidth": 1.2, "linestyle": ":", "zorder": 4}


@styled
def heatmap(
    values: Any,
    axes: Pair = ("", ""),
    rows: Words | None = None,
    columns: Words | None = None,
    signed: bool = False,
    numbers: bool = False,
    scale: str = "",
    mask: Any = None,
    alt: str | None = None,
) -> None:
    """Draw a matrix, or several with as many rows side by side: {title: matrix}.

    `axes` names what runs (down the rows, along the columns). One color scale, named
    `scale`, starts at 0, or is centered on 0 when `signed`. Up to 100 cells, or with
    `numbers` more, show numbers instead; masks (True = may look) hatch what is hidden,
    as `mask` does in matrices of numbers.
    """
    named = values if isinstance(values, Mapping) else {"": values}
    types = {str(getattr(x, "dtype", "")) for x in named.values()}
    masks = types <= {"bool", "torch.bool"}
    matrices = {title: _array(x, "values", 2) for title, x in named.items()}
    heights = {len(matrix) for matrix in matrices.values()}
    if len(heights) > 1:
        raise ValueError(f"values must have equally many rows, got {sorted(heights)}")
    drawn = {title: 0 * x if masks else x for title, x in matrices.items()}
    numbers = numbers or masks  # then there is no scale
    figure, panels = _matrices(drawn, axes, rows, columns, scale, signed, numbers)
    for panel, matrix in zip(panels, matrices.values(), strict=True):
        if mask is not None:
            _frame(panel, np.argwhere(~np.asarray(mask)), **style.HIDDEN)
        if masks:
            _frame(panel, np.argwhere(matrix == 0), **style.HIDDEN)
            _frame(panel, np.argwhere(matrix), fill=False, ec=SOFT, linewidth=0.4)
    show(figure, alt)


@styled
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

    `title`: a string for one head, a list for several. Cells where `mask` ("q k", bool,
    True = may look) is False are hatched, or colored as a mistake if a weight leaks
    there. Without a mask, later keys are hatched if no query looks at one. `marks`
    frames cells (query, key), such as a known alignment.
    """
    heads = _array(weights, "weights")
    titles = title or [f"head {h}" for h in range(len(heads))]
    if heads.ndim == 2:
        heads, titles = heads[None], [title]
    shape = heads.shape[1:]
    if mask is None:
        causal = shape[0] == shape[1] and not np.triu(heads, 1).any()
        mask = np.tri(*shape) > 0 if causal else True
    mask = torch.as_tensor(mask, device="cpu")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool (True = may look), got {mask.dtype}")
    hidden = ~np.broadcast_to(mask.numpy(), shape)
    titled = dict(zip(titles, heads, strict=True))
    axes = ("query position", "key position")
    figure, panels = _matrices(titled, axes, queries, keys, "weight")
    for panel, head in zip(panels, heads, strict=True):
        leaks = hidden & (head > 0)
        _frame(panel, np.argwhere(hidden & ~leaks), **style.HIDDEN)
        _frame(panel, np.argwhere(leaks), 2.5, facecolor=ROLES["mistake"])
        _frame(panel, marks, fill=False, edgecolor=ROLES["key"], linewidth=2)
    show(figure, alt)


@styled
def equation(
    parts: Iterable[Any],
    rows: Words = (),
    columns: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw matrices with their numbers, and signs between them, as one equation.

    A part is a sign ("·", "=", "→") or (name, array, role). `rows` labels the rows of
    the first matrix, `columns`, {name: labels}, the columns of those matrices.
    """
    parts, columns, rows = list(parts), columns or {}, list(rows)
    named = [part for part in parts if not isinstance(part, str)]
    matrices = {name: _array(values, name, 2) for name, values, _ in named}
    height = max(map(len, matrices.values()))
    letters = [len(str(word)) for words in columns.values() for word in words]
    bottom = height + 0.2 + 0.24 * max(letters, default=0)
    margin = 0.4 + 0.2 * max((len(str(word)) for word in rows), default=0)
    figure = Figure()
    axis = figure.add_axes((0, 0, 1, 1))
    left = 0.0
    for part in parts:
        if isinstance(part, str):
            width = 0.4 * len(part) + 0.2
            axis.text(left + width / 2, height / 2, part, size=18, **_MIDDLE)
        else:
            name, _, role = part
            matrix = matrices[name]
            width, top = matrix.shape[1], (height - len(matrix)) / 2
            above = {"ha": "center", "weight": "bold"}
            axis.text(left + width / 2, top - 0.3, literal(name), **above)
            _draw_numbers(axis, matrix, ROLES[role], (left, top))
            words = columns.get(name, [""] * width)
            for c, word in zip(range(width), words, strict=True):
                look = {"rotation": 90, "size": 8.5, "ha": "center", "va": "top"}
                position = (left + c + 0.5, top + len(matrix) + 0.2)
                axis.text(*position, literal(word), **look)
            words = rows if rows and part is named[0] else [""] * len(matrix)
            for r, word in zip(range(len(matrix)), words, strict=True):
                position = (left - 0.15, top + r + 0.5)
                axis.text(*position, literal(word), ha="right", va="center")
        left += width + 0.2
    axis.set(xlim=(-margin, left), ylim=(bottom, -1.2))
    axis.axis("off")
    figure.set_size_inches(min(0.5 * (left + margin), 7.4), 0.3 * (bottom + 1.2))
    show(figure, alt)


@styled
def curves(
    series: Named,
    axes: Pair,
    title: str = "",
    log: str = "",
    lines: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
    uprights: Named | None = None,
) -> None:
    """Draw {label: y} or {label: (x, y)} as lines; `log` is "", "x", "y" or "xy".

    `axes` labels (x, y). `lines` adds horizontal lines, {label: height}, such as a
    baseline, and `uprights` vertical ones, {label: x}. A NaN among y leaves a gap.
    """
    if not isinstance(series, Mapping):
        got = type(series).__name__
        raise TypeError(f"series must be a dictionary {{label: numbers}}, got a {got}")
    points = {label: _points(values, label, log) for label, values in series.items()}
    figure, axis = style.panel(axes, title)
    colors, names = style.colors_of(points, roles), []
    for i, (label, (x, y)) in enumerate(points.items()):
        dashes = ("-", "--", "-.", ":")[i % 4 if len(points) > 2 else 0]
        look = {"linestyle": dashes, "marker": "o" if len(y) <= 12 else None}
        axis.plot(x, y, color=colors[label], **look)
        if len(points) > 1:
            names.append((label, y[np.isfinite(y)][-1], colors[label]))
    for label, height in (lines or {}).items():
        axis.axhline(float(height), **_LINE)
        names.append((label, float(height), SOFT))
    for label, x in (uprights or {}).items():
        axis.axvline(float(x), **_LINE)
        look = {"transform": axis.get_xaxis_transform(), "ha": "center"}
        axis.text(float(x), 1.02, literal(label), color=SOFT, **look)
    if all((x == x.round()).all() for x, _ in points.values()):
        axis.xaxis.set_major_locator(MaxNLocator("auto", integer=True))  # no step 2.5
    for letter in log:
        style.make_logarithmic(axis, letter)
    axis.grid(axis="y")
    style.name_ends(axis, names)
    show(figure, alt)


@styled
def points(
    series: Named,
    axes: Pair,
    title: str = "",
    texts: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw {label: (x, y)} as points; `texts` names them, {label: one text a point}."""
    figure, axis = style.panel(axes, title)
    colors = style.colors_of(series, roles)
    for i, (label, values) in enumerate(series.items()):
        x, y = _points(values, label, "")
        _array(y, f"series[{label!r}]: y")
        look = {"color": colors[label], "markersize": 7, "markeredgecolor": "white"}
        axis.plot(x, y, "os^DvP"[i % 6], label=literal(label), **look)
        words = (texts or {}).get(label, [""] * len(x))
        for word, *point in zip(words, x, y, strict=True):
            near = {"xytext": (6, 3), "textcoords": "offset points", "size": 8.5}
            axis.annotate(literal(word), point, **near)
    axis.margins(0.1)
    axis.grid()
    style.legend_below(figure)
    show(figure, alt)


@styled
def bars(
    labels: Words,
    series: Named,
    axes: Pair,
    title: str = "",
    lines: Named | None = None,
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw one group of lying bars per label, one bar per series, {name: lengths}.

    `axes` names (labels, lengths). Runs of one kind, "seed 0", "seed 1", are dots of
    one color, and "mean" beside them is a tick. `lines` adds named lines, {label:
    length}, such as a baseline.
    """
    labels = [literal(label) for label in labels]
    kind = {n: f"each {n.split()[0]}" if _RUNS.fullmatch(n) else n for n in series}
    kinds = list(dict.fromkeys(kind.values()))
    dots = kinds != list(series)
    written = not dots and len(labels) * len(kinds) <= 30
    rows = [name for name in kinds if not (dots and name == "mean")]
    colors = style.colors_of(kinds, roles)
    lines_high = sum(max(len(rows), 1 + label.count("\n")) for label in labels)
    size = (5.8, min(6, 0.9 + 0.17 * lines_high + 0.12 * len(labels)))
    figure, axis = style.panel(axes[::-1], title, size)
    for name, values in series.items():
        numbers = _array(values, f"series[{name!r}]", 1)
        if (count := len(numbers)) != len(labels):
            raise ValueError(f"series[{name!r}]: {len(labels)} labels, got {count}")
        look = {"color": colors[kind[name]], "label": literal(kind[name])}
        if kind[name] not in rows:
            size = {"markersize": 14, "markeredgewidth": 2, "zorder": 4}
            axis.plot(numbers, range(len(labels)), "|", **look, **size)
            continue
        height, index = 0.76 / len(rows), rows.index(kind[name])
        ys = np.arange(len(labels)) + (index - (len(rows) - 1) / 2) * height
        if kind[name] != name:
            axis.plot(numbers, ys, "o", alpha=0.7, zorder=3, **look)
            continue
        axis.barh(ys, numbers, 0.88 * height, zorder=2, **look)
        for y, number in zip(ys, numbers if written else (), strict=False):
            look = {"color": SOFT, "size": 8.5, "va": "center_baseline"}
            text = f" {style.number(number, small=True)} "
            axis.text(number, y, text, ha="left" if number >= 0 else "right", **look)
    for label, length in (lines or {}).items():
        axis.axvline(float(length), **_LINE)
        above = {"xytext": (0, 3), "textcoords": "offset points", "color": SOFT}
        top = (float(length), -0.5)
        axis.annotate(literal(label), top, ha="center", annotation_clip=False, **above)
    axis.set_yticks(range(len(labels)), labels, color=INK)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.spines["left"].set_visible(True)
    axis.spines["bottom"].set_visible(not written)
    axis.grid(axis="x")
    if written:  # no scale is needed
        axis.margins(x=0.1)
        axis.set_xticks([])
    style.legend_below(figure, least=1 if dots else 2)
    show(figure, alt)


@styled
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
    figure, panels = style.panels(len(samples), (1.5, 1.9), sharex=True, sharey=True)
    for panel, (name, sample) in zip(panels, samples.items(), strict=True):
        numbers = np.clip(_numbers(sample), *limits)
        numbers = _array(numbers, f"samples[{name!r}]").ravel()
        weights = np.full(numbers.size, 1 / numbers.size)
        panel.hist(numbers, 40, range=limits, weights=weights, color=ROLES[role])
        panel.set(xlabel=literal(axis), title=literal(name), yticks=[])
    show(figure, alt)


@styled
def arrows(
    vectors: Named,
    title: str = "",
    roles: Named | None = None,
    alt: str | None = None,
) -> None:
    """Draw vectors of the plane, {label: (x, y)}, as arrows from the origin."""
    ends = {label: _array(end, label, 1) for label, end in vectors.items()}
    colors = style.colors_of(ends, roles)
    corners = [*ends.values(), (0, 0)]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    reach = max(high - low) or 1.0
    size = (2.3 * (high - low) / reach + 1.2).tolist()
    figure, axis = style.panel(("", ""), title, size)
    for label, (x, y) in ends.items():
        shape = {"width": reach / 110, "head_width": reach / 22}
        axis.arrow(0, 0, x, y, length_includes_head=True, color=colors[label], **shape)
        beyond = 1 + 0.12 * reach / (math.hypot(x, y) or 1)
        look = {"color": style.dark(colors[label]), **_MIDDLE}
        axis.text(x * beyond, y * beyond, literal(label), **look)
    axis.plot(0, 0, "o", color=SOFT)
    (left, bottom), (right, top) = low - 0.25 * reach, high + 0.25 * reach
    axis.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axis.axis("off")
    show(figure, alt)


def _array(values: Any, name: str, ndim: int | None = None) -> np.ndarray:
    """The numbers as float64, none of them NaN or infinite; a vector as one row."""
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
    if len(x) != len(y):
        raise ValueError(f"series[{label!r}]: {len(x)} places, but {len(y)} values")
    if np.isinf(y).any() or np.isnan(y).all():
        raise ValueError(f"series[{label!r}]: y must be finite, or NaN for a gap")
    for axis, numbers in (("x", x), ("y", y)):
        if axis in log and np.nanmin(numbers) <= 0:
            what = f"series[{label!r}]: {axis} must be > 0 on a logarithmic axis"
            raise ValueError(f"{what}, got {np.nanmin(numbers):.3g}")
    return x, y


def _matrices(
    matrices: Mapping[str, np.ndarray],
    axes: Pair,
    rows: Words | None,
    columns: Words | None,
    scale: str = "",
    signed: bool = False,
    numbers: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Draw matrices with as many rows; return the figure and its axes."""
    shapes = {matrix.shape for matrix in matrices.values()}
    if any(len(shape) != 2 for shape in shapes):
        raise ValueError(f"a map has rows and columns only, got shape {min(shapes)}")
    lowest = min(matrix.min() for matrix in matrices.values())
    limit = max(np.abs(matrix).max() for matrix in matrices.values())
    if lowest < 0 and not signed:
        signs = "or drawn by heatmap(signed=True)"
        raise ValueError(f"values must be >= 0, {signs}, got {lowest:.3g}")
    count, (height, width) = len(matrices), next(iter(matrices.values())).shape
    numbers = numbers or (count == 1 and height * width <= 100)
    alike = len({matrix.shape for matrix in matrices.values()}) == 1
    low = count > 1 and alike and width > 2 * height  # one below another
    across = 1 if low else count
    cell = min(0.3, {1: 5.0, 2: 2.7}.get(across, 1.5) / max(width, height))
    cell = 0.44 if numbers and limit and max(width, height) <= 12 else cell
    limit = limit or 1.0
    wide = max(1.5, cell * width + 0.6, 0.065 * len(axes[1]) + 0.7)  # room for its name
    size = [wide, cell * height + (0.4 if low else 0.8)]
    figure, panels = style.panels(count, size, columns=int(low), sharex=low)
    cmap, vmin = ("RdBu_r", -limit) if signed else (style.WEIGHTS, 0)
    rows, columns = (x if x is None else [*x] for x in (rows, columns))
    for axis, (title, matrix) in zip(panels, matrices.items(), strict=True):
        image = axis.imshow(matrix, cmap, vmin=vmin, vmax=limit, aspect="auto")
        for (r, c), value in np.ndenumerate(matrix if numbers else []):
            if (text := style.number(value)) != "0":
                ink = "white" if abs(value) > 0.55 * limit else INK
                axis.text(c, r, text, color=ink, size=8.5, **_MIDDLE)
        axis.spines[:].set(visible=True, color="#D5DAE0")
        axis.set(title=literal(title))
        last = axis.get_subplotspec().is_last_row() or not low
        axis.set_xlabel(literal(axes[1]) if last else "")
        _name_cells(axis, "x", columns, matrix.shape[1], cell)
        _name_cells(axis, "y", rows, height, math.inf)
        axis.tick_params(labelleft=axis.get_subplotspec().is_first_col())
    panels[0].set_ylabel(literal(axes[0]), labelpad=8)
    if not numbers:
        bar = figure.colorbar(image, ax=panels, shrink=0.85, label=literal(scale))
        bar.outline.set_visible(False)
    return figure, panels


def _name_cells(axis: Axes, side: str, words: Any, count: int, room: float) -> None:
    """One label a cell, slanted where there is no room; some numbers of many cells."""
    scale = getattr(axis, f"{side}axis")
    if words is None and count > 12:
        scale.set_major_locator(MaxNLocator(8, integer=True))
        return
    labels = [literal(word) for word in (range(count) if words is None else words)]
    if len(labels) != count:
        raise ValueError(f"each of {count} cells needs a label, got {len(labels)}")
    longest = max(len(line) for label in labels for line in label.split("\n"))
    slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    crowded = 0.07 * longest > 0.9 * room  # a letter in inches, about
    scale.set_ticks(range(count), labels, **(slanted if crowded else {}))


def _frame(axis: Axes, cells: Any, zorder: float = 4, **look: Any) -> None:
    look = {"linewidth": 0, "zorder": zorder, **look}
    for row, column in cells:
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **look))


def _draw_numbers(axis: Axes, matrix: np.ndarray, color: str, corner: tuple) -> None:
    strength = 0.6 * np.abs(matrix) / (np.abs(matrix).max() or 1)
    for (r, c), value in np.ndenumerate(matrix):
        x, y = corner[0] + c, corner[1] + r
        fill = {"fc": color, "alpha": strength[r, c], "lw": 0}
        axis.add_patch(Rectangle((x, y), 1, 1, **fill))
        axis.add_patch(Rectangle((x, y), 1, 1, fill=False, ec=color, lw=1))
        axis.text(x + 0.5, y + 0.5, style.number(value), size=8.5, **_MIDDLE)
