"""Show attention, and small demonstrations: a still picture, and a view to explore.

Draws the still, and hands numbers and strings to `attention_views`. The views know
nothing of the course.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from IPython.display import display
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

from attention_views import explorer_html, page_script, short, view_html
from attention_views.bertviz_page import offline
from course_utils.looking.maps import Maps
from course_utils.looking.token_texts import token_texts
from course_utils.shapes import check_integer, check_same, check_type, describe
from lesson_plots.plots import arrows, bars
from lesson_plots.style import ROLES, SOFT, number, running_cell, show, styled

HINT = "Run this cell, or trust the notebook, to explore all layers and heads."
SLIDERS = "Run this cell, or trust the notebook, to move the sliders."
IN_A_NOTEBOOK = {"shared": True, "pictured": True}
NAMED = 16  # so many candidates of a next token are shown by name


_shown: dict[str, str] = {}  # cell that has shown a view -> the message of its last run


def display_view(html: str, sentence: str, hint: str = HINT) -> None:
    """Display a view of ours, with the script of the page where that may be missing.

    The first view of a kernel brings it for all, so does the first of a cell that is
    run again, and every view where each output is a page: on Colab, outside a kernel.
    """
    message, cell = running_cell()
    alone = not message or "google.colab" in sys.modules
    if alone or not _shown or _shown.get(cell, message) != message:
        html += f"\n{page_script()}"
    _shown[cell] = message
    display({"text/html": html, "text/plain": f"{sentence} {hint}"}, raw=True)


def show_attention(
    recording: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show every attention map of one forward pass, and a picture of one.

    recording: what `recording.record` gave, or the output of a model of `transformers`,
    loaded with attn_implementation="eager" and run with output_attentions=True; or the
    weights of one text: a tuple with one tensor "1 h q k" per layer, a dict {layer
    name: weights}, a tensor or an array.
    tokens: the text of the positions that attend (the target, with an encoder): strings
    or a tokenizer's encoding. source: the text that an encoder read.
    title: the finding, as a sentence. part ("encoder", "decoder", "cross" or "self";
    default: the last), layer and head (indices from 0) are shown first and in the
    picture.

    Raises ValueError for weights or tokens that do not fit, and for more than a page
    can hold.
    """
    _show(Maps([recording], tokens, source, title, (part, layer, head)), title)


def show_map(
    recording: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show one map of `show_attention` as a picture alone, of models of any size."""
    check_type(str, title=title)
    Maps([recording], tokens, source, title, (part, layer, head)).show_picture()


def show_bertviz(page: Any, sentence: str) -> None:
    """Show a view of bertviz, made self-contained.

    page: what bertviz's `head_view` or `model_view` give with html_action="return".
    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    check_type(str, sentence=sentence)
    if not hasattr(page, "data"):
        made = 'what bertviz gives with html_action="return"'
        raise TypeError(f"page must be {made}, got {describe(page)}")
    data = {"text/html": offline(page.data, sentence)}
    display(data | {"text/plain": f"{sentence} {HINT}"}, raw=True)


def show_comparison(
    before: Any,
    after: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show the maps of two recordings and their difference, and a picture of that.

    before, after: two recordings with layers, heads and sizes that are the same; all
    else as in `show_attention`. The difference is after minus before, from -1 to 1.
    """
    _show(Maps([before, after], tokens, source, title, (part, layer, head)), title)


def _show(maps: Maps, title: str) -> None:
    check_type(str, title=title)
    maps.check_total()
    html = explorer_html(
        maps.recordings[0],
        maps.texts,
        after=maps.recordings[1] if maps.recordings[1:] else None,
        title=title,
        sentence=f"{maps.sentence} {HINT}",
        sides=maps.sides,
        at=maps.at,
        **IN_A_NOTEBOOK,
    )
    display_view(html, maps.sentence)
    maps.show_picture()


def show_sampling(
    scores: Float[Tensor, "v"], tokens: Sequence[str], *, title: str
) -> None:
    """Temperature, top-k and top-p, in this order, on one next-token distribution.

    scores: the logits of every token; tokens: their texts. The 16 best are named.
    """
    check_type(Tensor, scores=scores)
    tokens = token_texts(tokens)
    check_same("shape of scores and of tokens", tuple(scores.shape), (len(tokens),))
    scores = scores.detach().cpu().double()
    if scores.min() >= 0 and abs(scores.sum() - 1) < 1e-3:
        raise ValueError("scores must be logits, got probabilities: take their .log()")
    best, order = scores.sort(descending=True, stable=True)
    names = [tokens[i] for i in order[:NAMED].tolist()]
    heights = {f"temperature {t}": (best / t).softmax(0)[:8] for t in (0.5, 1, 2)}
    first = heights["temperature 1"][0]
    alt = f"{title} At temperature 1 the best token has probability {first:.2f}."
    data = {"tokens": names, "scores": _hundredths(best - best[0])}
    _show_piece("sampling", data, title, alt)
    labels = [short(name, 8) for name in names[:8]]
    bars(labels, heights, ("next token", "probability"), alt=alt)


def show_rotation(back: int = 0, *, title: str) -> None:
    """Clocks whose hands are the pairs of a query and a key, and the score they make.

    back: how many words back the query looks: where its hands meet those of the key.

    Source: Vaswani et al. 2017, section 3.5; Su et al. 2021, section 3.4.
    """
    check_integer(0, back=back)
    now = {"back": back, "position": 20, "distance": back + 6, "pairs": 4}
    ghosts = _ghosts(back, 4)
    alt = f"{title} Four dials; below them the score is highest at distance {back}, "
    alt += f"and nearly as high at its ghosts {', '.join(map(str, ghosts))}."
    _show_piece("rotation", {"base": 10000.0, **now}, title, alt)
    show(_dials(ghosts, **now), alt)


def _score(distance: Tensor, back: int, pairs: int) -> Tensor:
    """The cosines between the hands, "pair distance"."""
    speeds = 10000.0 ** (-torch.arange(pairs, dtype=torch.float64) / pairs)
    return torch.cos(torch.outer(speeds, distance - back))


def _ghosts(back: int, pairs: int) -> list[int]:
    """Distances to 63 at which a hill of the score is within 1 of its peak."""
    score = _score(torch.arange(-1, 65, dtype=torch.float64), back, pairs).sum(0)
    hill = (score[1:-1] > score[:-2]) & (score[1:-1] > score[2:])
    hill &= score[1:-1] > pairs - 1
    hill[back] = False
    return hill.nonzero().flatten().tolist()


@styled
def _dials(
    ghosts: list[int], back: int, position: int, distance: int, pairs: int
) -> Figure:
    """What the view shows first: a row of dials over the score."""
    figure = Figure(figsize=(5.8, 3.4), layout="constrained")
    rows = [[f"pair {i}" for i in range(pairs)], ["score"] * pairs]
    axes = figure.subplot_mosaic(rows, height_ratios=(1.15, 1))
    for i in range(pairs):
        dial, speed = axes[f"pair {i}"], 10000.0 ** (-i / pairs)
        dial.add_patch(Circle((0, 0), 1, fill=False, color=SOFT))
        for steps, color, length in (
            (position - distance, ROLES["key"], 0.9),
            (position - back, ROLES["query"], 0.65),
        ):
            end = (length * math.sin(steps * speed), length * math.cos(steps * speed))
            hand = {"arrowstyle": "->", "color": color, "lw": 2, "shrinkA": 0}
            dial.annotate("", end, (0, 0), arrowprops=hand)
        for tick in range(12):
            x, y = math.sin(tick * math.pi / 6), math.cos(tick * math.pi / 6)
            dial.plot((0.9 * x, x), (0.9 * y, y), color=SOFT, lw=0.8)
        turn = number(round(2 * math.pi / speed, 1 if i < 2 else 0))
        about = {"size": 9, "weight": "normal", "loc": "center"}
        dial.set_title(f"pair {i}\na turn every\n{turn} words", **about)
        dial.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
        dial.axis("off")
    score = axes["score"]
    x = torch.arange(0, 63.1, 0.25, dtype=torch.float64)
    score.plot(x, _score(x, back, pairs).sum(0), color=SOFT)
    for place in (back, *ghosts):
        height = _score(torch.tensor([float(place)]), back, pairs).sum().item()
        color = ROLES["weight" if place in ghosts else "query"]
        score.plot(place, height, "o", color=color)
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        score.annotate(str(place), (place, height), **above)
    score.margins(x=0.02, y=0.2)
    score.set(xlabel="distance", ylabel="score")
    return figure


def show_query(keys: Mapping[str, Sequence], *, title: str) -> None:
    """Drag a query among keys {name: (x, y)} of the plane and watch the weights."""
    check_type(Mapping, keys=keys)
    names = token_texts(list(keys), "keys")
    places = [[float(x), float(y)] for x, y in keys.values()]
    labels = [short(name) for name in names]
    alt = f"{title} The keys are {', '.join(labels)}; the query points up to the right."
    _show_piece("query", {"names": names, "keys": places}, title, alt)
    roles = {label: "key" for label in labels} | {"query": "query"}
    ends = dict(zip(labels, places, strict=True)) | {"query": (0.766, 0.643)}  # at 40°
    arrows(ends, roles=roles, alt=alt)


BILL = {"peak": 989e12, "share": 0.4, "held": 4096, "memory": 80}  # of one H100


def show_bill(
    bill: Callable, presets: Mapping[str, Mapping[str, float]], first: str
) -> None:
    """What training runs cost: sliders, and a bar of memory for each preset as a still.

    bill: the function of notebook 17, which the view repeats in its own language.
    presets: {name: {parameters, tokens, gpus, price}}; first: the one shown first.
    Sources: H100 data sheet; Kaplan et al. 2020, section 2.1; Rajbhandari et al. 2020,
    section 3.1; Korthikanti et al. 2022, section 4.1 (34 bytes a width and token).
    """
    parts = ("weights", "gradients", "averages", "activations")
    alt = "Gigabytes on each GPU as lying bars of weights, gradients, averages and "
    alt += f"activations beside a line at {BILL['memory']}, for {', '.join(presets)}; "
    alt += "each GPU holds a copy, or its part."
    names = [[name, dict(preset)] for name, preset in presets.items()]
    data = {**BILL, "presets": names, "first": list(presets).index(first)}
    _show_piece("bill", data, "The bill of a training run", alt)
    rows = {}
    for name, preset in presets.items():
        for held in ("a copy", "its part"):
            sums = bill(**preset, sharded=held == "its part")
            rows[f"{name}, {held}"] = [sums[part] for part in parts]
    show(_stacked(rows, parts), alt)


@styled
def _stacked(rows: dict[str, list[float]], parts: Sequence[str]) -> Figure:
    figure = Figure(figsize=(6.4, 0.34 * len(rows) + 1.1), layout="constrained")
    axis = figure.subplots()
    colors = [ROLES[role] for role in ("query", "key", "feedforward", "value")]
    most = 2.5 * BILL["memory"]
    for place, values in enumerate(rows.values()):
        ends = torch.tensor([0.0, *values]).cumsum(0).clamp(max=most).tolist()
        for start, end, color in zip(ends, ends[1:], colors, strict=False):
            axis.barh(place, end - start, left=start, color=color)
        total = sum(values)
        text = number(round(total, 1 if total < 10 else 0))
        text = f"→ {text}" if total > most else text  # a bar that is cut off
        axis.text(ends[-1] + 2, place, text, va="center", size=9)
    for color, part in zip(colors, parts, strict=True):
        axis.barh(0, 0, color=color, label=part)
    axis.axvline(BILL["memory"], color=ROLES["mistake"], lw=1.5)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set(xlim=(0, 1.12 * most), xlabel="GB on each GPU; the line is its 80")
    axis.invert_yaxis()
    figure.legend(loc="outside upper center", ncols=4)
    return figure


def _hundredths(scores: Tensor) -> list[int]:
    return scores.mul(100).round().long().tolist()


def _show_piece(piece: str, data: dict[str, Any], title: str, alt: str) -> None:
    check_type(str, title=title)
    data = {"piece": piece, "title": title, **data}
    html = view_html("pieces", data, f"{alt} {SLIDERS}", **IN_A_NOTEBOOK)
    display_view(html, alt, SLIDERS)
