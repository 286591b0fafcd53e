"""Show a list of frames as one view with a slider, and some of them as a still.

Draws the still, and hands numbers and strings to `attention_views`.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from attention_views import frames_html, kind_of
from course_utils.checks import check_type
from course_utils.views.display import display_view
from lesson_plots import plots, style

HINT = "Run this cell, or trust the notebook, to move the slider."
STILL = 4  # so many frames stand in the still
COLORS = 48  # of a figure that is a frame: a third of the bytes, and nobody sees it


def show_frames(
    frames: Iterable[Any],
    captions: Iterable[Any],
    axis: str = "layer",
    *,
    title: str,
    rows: Iterable[Any] = (),
    columns: Iterable[Any] = (),
    axes: Sequence[str] = ("", ""),
    signed: bool = False,
    mask: Any = None,
    roles: Mapping[str, str] | None = None,
) -> None:
    """Show frames one at a time, to scrub and to play, and four of them as a picture.

    frames: all of one kind: matrices "row column", of which `rows` and `columns` are
    the labels; points {label: (x, y)}; bars {label: length}; texts; or figures of
    matplotlib. captions: one a frame, all different. axis: what the slider moves
    along: "layer", "step", "position". title: the finding, as a sentence. mask: of
    attention maps, as in `plots.attention_map`. axes, signed and roles: as in
    `plots.heatmap`, `points` and `bars`.

    Raises ValueError for frames that differ in kind or size, or do not fit the labels.
    """
    check_type(Iterable, frames=frames, captions=captions)
    frames = [_serializable(frame) for frame in frames]
    captions, rows, columns = (list(map(str, c)) for c in (captions, rows, columns))
    labels = list(frames[0]) if frames and isinstance(frames[0], dict) else []
    known = style.colors_of(labels, roles)
    named = {label for label in labels if label in {**style.ROLES, **(roles or {})}}
    colors = {label: to_hex(known[label]) for label in named}  # the rest is slate
    alt = f"{title} From “{captions[0]}” to “{captions[-1]}”." if captions else title
    html = frames_html(
        frames,
        captions,
        axis,
        title=title,
        sentence=f"{alt} {HINT}",
        rows=rows,
        columns=columns,
        axes=axes,
        signed=signed,
        mask=mask,
        colors=colors,
        shared=True,
        pictured=True,
    )
    display_view(html, alt, HINT)
    indices = np.linspace(0, len(frames) - 1, min(STILL, len(frames))).round()
    chosen = {captions[int(i)]: frames[int(i)] for i in indices}
    kind = kind_of(frames[0])
    if kind == "map" and tuple(axes) == ("query position", "key position"):
        maps = np.stack(list(chosen.values()))
        sides = (rows or range(maps.shape[1]), columns or range(maps.shape[2]))
        plots.attention_map(maps, *sides, list(chosen), mask, alt=alt)
    elif kind == "map":
        rows, columns = rows or None, columns or None
        plots.heatmap(chosen, axes, rows, columns, signed=signed, alt=alt)
    elif kind == "bars":
        lengths = {name: list(frame.values()) for name, frame in chosen.items()}
        plots.bars(labels, lengths, axes, alt=alt)
    elif kind == "text":
        style.show(_stacked_texts(chosen), alt)
    else:
        style.show(_small_multiples(chosen, kind, axes, roles), alt)


def _serializable(frame: Any) -> Any:
    """A frame without torch and matplotlib."""
    if isinstance(frame, Figure):
        drawn, small = BytesIO(), BytesIO()
        frame.savefig(drawn, format="png", dpi=100)
        picture = Image.open(drawn).convert("RGB").quantize(COLORS)
        picture.save(small, format="png", optimize=True)
        return small.getvalue()
    if isinstance(frame, Mapping):
        return {str(label): _serializable(value) for label, value in frame.items()}
    if isinstance(frame, str):
        return frame
    numbers = torch.as_tensor(frame, device="cpu").detach().double()
    return numbers.numpy() if numbers.ndim else numbers.item()


@style.styled
def _small_multiples(
    chosen: dict[str, Any], kind: str, axes: Sequence[str], roles: Any
) -> Figure:
    """Points or pictures side by side, on the same axes."""
    figure, panels = style.panels(len(chosen), (2.3, 2.2), sharex=True, sharey=True)
    for panel, (caption, frame) in zip(panels, chosen.items(), strict=True):
        panel.set_title(style.literal(caption))
        panel.set(xlabel=style.literal(axes[0]), xticks=[], yticks=[])
        if kind == "picture":
            panel.imshow(Image.open(BytesIO(frame)))
            continue
        for label, color in style.colors_of(frame, roles).items():
            panel.plot(*frame[label], "o", color=color)
            near = {"xytext": (4, 3), "textcoords": "offset points", "size": 8}
            panel.annotate(style.literal(label), frame[label], **near)
        panel.margins(0.15)
    panels[0].set_ylabel(style.literal(axes[1]))
    return figure


@style.styled
def _stacked_texts(texts: dict[str, str]) -> Figure:
    wrapped = {caption: textwrap.wrap(text, 84) for caption, text in texts.items()}
    lines = sum(len(text) + 1.7 for text in wrapped.values())
    figure = Figure(figsize=(5.8, 0.17 * lines + 0.1))
    top = lines
    for caption, text in wrapped.items():
        for string, weight in ((caption, "bold"), ("\n".join(text), "normal")):
            look = {"va": "top", "linespacing": 1.3, "weight": weight}
            figure.text(0.02, top / (lines + 0.5), style.literal(string), **look)
            top -= 1
        top -= len(text) - 0.3
    return figure
