"""Show attention, and small demonstrations: a still picture, and a view to explore.

Draws the still, and hands numbers and strings to `attention_views`. The views know
nothing of the course.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from IPython.display import display
from jaxtyping import Float
from torch import Tensor

from attention_views import compressed, explorer_html, short, view_html, weight_codes
from attention_views.bertviz_page import offline
from attention_views.page import LEVELS
from course_utils.looking.maps import Maps, attention_parts, check_total, thinned
from course_utils.looking.plots import arrows, bars, curves, heatmap
from course_utils.looking.token_texts import token_texts

HINT = "Run this cell, or trust the notebook, to explore all layers and heads."
SLIDERS = "Run this cell, or trust the notebook, to move the sliders."
MOST_NUMBERS = 200_000  # of queries and keys in one page
NAMED = 16  # so many candidates of a next token are shown by name


def _display(html: str, sentence: str) -> None:
    display({"text/html": html, "text/plain": f"{sentence} {HINT}"}, raw=True)


def _show(name: str, data: dict[str, Any], sentence: str, hint: str = HINT) -> None:
    """Display a view, and a sentence where no script may run."""
    html = view_html(name, data, f"{sentence} {hint}")
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
    weights themselves: a tuple with one tensor "1 h q k" per layer, a dict {layer name:
    weights}, a tensor or an array (`attentions.layer_weights`).
    tokens: the text of the positions that attend (the target, with an encoder): strings
    or a tokenizer's encoding (`token_texts.token_texts`). Where a cache holds the keys,
    the tokens of all keys; the queries are the last of them.
    source: the text that an encoder read, or the memory of a lone cross-attention.
    title: the finding, as a sentence. part ("encoder", "decoder", "cross" or "self";
    default: the last), layer and head (indices from 0) are shown first and in the
    picture. Layers with other numbers of heads are parts: "self, 4 heads".

    Raises TypeError for arguments of another type, ValueError for tokens that do not
    fit the weights, a missing source, weights of more than one text or outside 0 to 1,
    no weights, a part, layer or head that is not there, and for more than a page can
    hold.
    """
    maps = Maps(recording, tokens, source, title)
    check_total(maps)
    maps.choose(part, layer, head)
    html = explorer_html(
        maps.parts,
        maps.texts,
        title=title,
        sentence=f"{maps.sentence} {HINT}",
        sides=maps.sides,
        at=maps.at,
    )
    _display(html, maps.sentence)
    maps.show_picture()


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
    """Show one attention map as a picture alone, with nothing to explore.

    Arguments and errors as in `show_attention`, of models of any size.
    """
    maps = Maps(recording, tokens, source, title)
    maps.choose(part, layer, head)
    maps.show_picture()


def show_bertviz(page: Any, sentence: str) -> None:
    """Show a view of bertviz, made self-contained.

    page: what bertviz's `head_view` or `model_view` give with html_action="return".
    Source: Vig 2019, "A Multiscale Visualization of Attention".
    """
    _display(offline(page.data, sentence), sentence)


# --- two recordings ------------------------------------------------------------------


def show_comparison(
    before: Any,
    after: Any,
    tokens: Any,
    source: Any = None,
    *,
    title: str,
    tokens_after: Any = None,
    source_after: Any = None,
    names: tuple[str, str] = ("before", "after"),
    part: str = "",
    layer: int | tuple[int, int] = 0,
    head: int | tuple[int, int] = 0,
) -> None:
    """Show the maps of two recordings and their difference, and a picture of that.

    before, after: what a model looked at before and after training, or in two texts of
    the same length; or one recording twice, to compare two of its heads. Both are given
    as to `show_attention`, and have the same layers, heads and sizes.
    tokens, source, title, part: as there. tokens_after, source_after: those of `after`,
    unless they are the same. names: what the two are called in the view.
    layer, head: what is shown first; a pair chooses for each recording: head=(0, 3).

    The difference is after minus before, from -1 to 1, in colors centered on 0.

    Raises TypeError and ValueError as `show_attention`, and ValueError for
    recordings that differ in shape.
    """
    names = [short(name) for name in names]
    first = Maps(before, tokens, source, title, ("before", "tokens", "source"))
    called = ["after", "tokens", "source"]
    if tokens_after is None:
        tokens_after = first.tokens
    else:
        called[1] = "tokens_after"
    if source_after is None:
        source_after = first.source
    else:
        called[2] = "source_after"
    second = Maps(after, tokens_after, source_after, title, tuple(called))
    _check_alike(first, second)
    check_total(first, second)
    layers = _pair("layer", layer)
    heads = _pair("head", head)
    first.choose(part, layers[0], heads[0])
    second.choose(part, layers[1], heads[1])
    sentence = _sentence(first, second, names)
    _show("comparison", _data(first, second, names), sentence)
    change = (_levels(second) - _levels(first)) / LEVELS
    queries, keys = (thinned(side) for side in _labels(first, second))
    heatmap(
        {f"{names[1]} − {names[0]}": change},
        ("query position", "key position"),
        queries,
        keys,
        signed=True,
        alt=sentence,
    )


def _data(first: Maps, second: Maps, names: list[str]) -> dict[str, Any]:
    """What the script reads. A part's map is "side layer head query key"."""
    parts = []
    for part in first.parts:
        sides = [list(maps.parts[part].values()) for maps in (first, second)]
        codes = np.stack([weight_codes(np.stack(side)) for side in sides])
        parts.append(
            {
                "name": part,
                "layers": _joined(first.parts[part], second.parts[part]),
                "shape": list(codes.shape[1:]),
                "tokens": list(first.sides[part]),
                "map": compressed(codes),
            }
        )
    texts = zip(first.texts, second.texts, strict=True)
    return {
        "title": first.title,
        "names": names,
        "at": [first.at[0], first.at[1:], second.at[1:]],
        "tokens": [_joined(*both) for both in texts],
        "parts": parts,
    }


def _sentence(first: Maps, second: Maps, names: list[str]) -> str:
    """The title, the largest change and its place."""
    place = first.place
    if second.place != place:
        place = f"{names[0]}: {first.place}; {names[1]}: {second.place}"
    before = _levels(first)
    after = _levels(second)
    size = np.abs(after - before)
    if not size.any():
        return f"{first.title} Nothing changed ({place})."
    q, k = np.unravel_index(size.argmax(), size.shape)
    queries, keys = _labels(first, second)
    return (
        f"{first.title} The largest change is from “{queries[q]}” to “{keys[k]}”: "
        f"{names[0]} {before[q, k] / LEVELS:.2f}, "
        f"{names[1]} {after[q, k] / LEVELS:.2f} ({place})."
    )


def _levels(maps: Maps) -> np.ndarray:
    """The chosen weights, rounded, as integers from 0 to LEVELS."""
    return (weight_codes(maps.chosen) - 1).clip(0)


def _labels(first: Maps, second: Maps) -> list[list[str]]:
    """The labels of the chosen queries and keys."""
    sides = zip(first.labels, second.labels, strict=True)
    return [_joined(*both) for both in sides]


def _joined(before: Any, after: Any) -> list[str]:
    """One text where both are the same, else both of them."""
    return [
        one if one == other else f"{one} / {other}"
        for one, other in zip(before, after, strict=True)
    ]


def _pair(name: str, value: Any) -> tuple[Any, Any]:
    """One value for each recording."""
    if not isinstance(value, tuple | list):
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be a number or two, got {len(value)}")
    return value[0], value[1]


def _check_alike(first: Maps, second: Maps) -> None:
    """Raise ValueError unless both have the same parts, of the same shapes."""
    shapes = []
    for maps in (first, second):
        held = {}
        for part, layers in maps.parts.items():
            held[part] = (len(layers), *next(iter(layers.values())).shape)
        shapes.append(held)
    if shapes[0] != shapes[1]:
        raise ValueError(
            "before and after must have the same shapes (layer, head, query, key), got "
            f"{_written(shapes[0])} and {_written(shapes[1])}"
        )


def _written(shapes: dict[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{part} {shape}" for part, shape in shapes.items())


# --- queries and keys ----------------------------------------------------------------


def show_neurons(
    recording: Any,
    tokens: Any,
    *,
    title: str,
    layer: int = 0,
    head: int = 0,
    query: int = -1,
) -> None:
    """Show how each score of self-attention is computed, and a picture of the map.

    recording: what `recording.record` gave for a model with one kind of attention.
    tokens: as in `show_attention`. layer, head and query (-1: the last token)
    are shown first. Queries and keys are those that were multiplied: after the rotary
    positions, with keys repeated for each head.

    Raises TypeError and ValueError as `show_attention`, and ValueError for
    weights without the queries and keys behind them, more than one kind of attention,
    numbers that are not finite, or more numbers than a page can hold.

    Source: Vig 2019, section 2.3.
    """
    _, parts = attention_parts(recording, crossed=False)
    if list(parts) != ["self"]:
        held = ", ".join(parts)
        raise ValueError(f"recording must hold self-attention alone, got {held}")
    maps = Maps(recording, tokens, None, title)
    check_total(maps)
    maps.choose("self", layer, head)
    count = len(maps.tokens)
    if not -count <= query < count:
        raise ValueError(f"query must be in [{-count}, {count}), got {query}")
    named = {point: _stacked(recording, point) for point in ("queries", "keys")}
    scores = _stacked(recording, "scores")
    weights = _stacked(recording, "weights")
    if named["keys"].numel() > MOST_NUMBERS:
        raise ValueError(
            f"a view shows up to {MOST_NUMBERS:,} numbers of the keys, got "
            f"{named['keys'].numel():,}: shorten the text"
        )
    for point, values in named.items():
        if not values.isfinite().all():
            raise ValueError(
                f"recording: the {point} must be finite, got NaN or infinity"
            )
    finite = scores.clamp(-1e6, 1e6).mul(100).round().long()
    data = {
        "title": title,
        "at": [maps.at[1], maps.at[2], int(query) % count],
        "tokens": maps.tokens,
        "layers": list(maps.parts["self"]),
        "shape": list(named["keys"].shape),
        "scale": f" / √{named['keys'].shape[-1]}",
        "scores": finite.flatten().tolist(),
        "weights": compressed(weight_codes(weights)),
        **{point: compressed(_signed(values)) for point, values in named.items()},
    }
    _show("neurons", data, maps.sentence)
    maps.show_picture()


def _stacked(recording: Any, point: str) -> torch.Tensor:
    """What passed one point of each attention layer: "layer h t d" or "layer h q k"."""
    ending = f"attend.{point}"
    found = []
    if isinstance(recording, Mapping):
        found = [
            value[0].detach().cpu().double()
            for name, value in recording.items()
            if name == ending or name.endswith(f".{ending}")
        ]
    if not found:
        raise ValueError(
            f"recording must be what `record` gave: it holds no {point}, which a dict "
            "of weights does not have; `show_attention` shows the weights alone"
        )
    return torch.stack(found)


def _signed(values: torch.Tensor) -> np.ndarray:
    """Numbers divided by the largest of their head, from -1 to 1, as 0 to 240."""
    most = values.abs().amax((-2, -1), keepdim=True).clamp(min=1e-12)
    return (values / most * 120 + 120.5 - 1e-4).floor().long().numpy()


# --- small demonstrations ------------------------------------------------------------


def show_sampling(
    scores: Float[Tensor, "v"], tokens: Sequence[str], *, title: str
) -> None:
    """Temperature, top-k and top-p, in this order, on one next-token distribution.

    scores: the logits of every token; tokens: their texts. The 16 best are named.
    Raises ValueError for scores that are not one number per token.
    """
    tokens = token_texts(tokens)
    if scores.shape != (len(tokens),):
        raise ValueError(
            f"scores must be one number for each of {len(tokens)} tokens, got the "
            f"shape {tuple(scores.shape)}"
        )
    scores = scores.detach().cpu().double()
    best, order = scores.sort(descending=True, stable=True)
    names = [tokens[i] for i in order[:NAMED].tolist()]
    shares = {f"temperature {t}": (best / t).softmax(0)[:NAMED] for t in (0.5, 1, 2)}
    first = shares["temperature 1"][0]
    alt = f"{title} At temperature 1 the best token has probability {first:.2f}."
    data = {"tokens": names, "scores": _hundredths(best - best[0])}
    _show_piece("sampling", data, title, alt)
    labels = [short(name, 8) for name in names[:8]]
    heights = {name: share[:8] for name, share in shares.items()}
    bars(labels, heights, ("next token", "probability"), alt=alt)


def show_scale(*, title: str, num_keys: int = 8, seed: int = 0) -> None:
    """Weights over random keys for head widths 1 to 1024, with 1/√d and without.

    The sliders move one query; the picture is the mean over 200 queries. Source:
    Vaswani et al. 2017, section 3.2.1.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (num_keys + 1, 1024)
    query, *keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    widths = [2**i for i in range(11)]
    scores = [torch.stack(keys)[:, :d] @ query[:d] for d in widths]
    largest = _mean_largest_weights(num_keys, widths, generator)
    ends = [f"{heights[-1]:.2f}" for _, heights in largest.values()]
    alt = f"{title} At d = 1024 the largest weight is {ends[0]} without the scale and "
    alt += f"{ends[1]} with it, on average."
    _show_piece("scale", {"scores": [_hundredths(one) for one in scores]}, title, alt)
    labels = ("head width d", "largest weight, mean of 200")
    lines = {"equal shares": 1 / num_keys}
    curves(largest, labels, log="x", lines=lines, alt=alt)


def _mean_largest_weights(
    num_keys: int, widths: list[int], generator: torch.Generator
) -> dict[str, tuple[list[int], list[float]]]:
    """The largest of num_keys weights, mean over 200 random queries, by width."""
    made = {"generator": generator, "dtype": torch.float64}
    products = torch.randn((200, num_keys, widths[-1]), **made)
    products *= torch.randn((200, 1, widths[-1]), **made)
    means = {"no scale": [], "times 1/√d": []}
    for width in widths:
        scores = products[..., :width].sum(dim=-1)
        for name, one in (("no scale", scores), ("times 1/√d", scores * width**-0.5)):
            means[name].append(float(one.softmax(dim=-1).amax(dim=-1).mean()))
    return {name: (widths, heights) for name, heights in means.items()}


def show_rotation(*, title: str, d_model: int = 16, base: float = 10000.0) -> None:
    """A pair of columns of the sinusoids as the hand of a clock, and its shift.

    Source: Vaswani et al. 2017, section 3.5. Raises ValueError unless d_model is even.
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even, got {d_model}")
    positions = torch.arange(0, 29.05, 0.1, dtype=torch.float64)
    alt = f"{title} The sine of each pair is a wave, slower than the one before."
    _show_piece("rotation", {"width": d_model, "base": base}, title, alt)
    waves = {}
    for i in range(min(4, d_model // 2)):
        sines = torch.sin(positions * base ** (-2 * i / d_model))
        waves[f"pair {i}"] = (positions, sines)
    curves(waves, ("position", "sine"), alt=alt)


def show_query(keys: Mapping[str, Sequence], *, title: str) -> None:
    """Drag a query among keys {name: (x, y)} of the plane and watch the weights."""
    names = token_texts(list(keys), "keys")
    places = [[float(x), float(y)] for x, y in keys.values()]
    labels = [short(name) for name in names]
    alt = f"{title} The keys are {', '.join(labels)}; the query points up to the right."
    _show_piece("query", {"names": names, "keys": places}, title, alt)
    roles = {label: "key" for label in labels} | {"query": "query"}
    ends = dict(zip(labels, places, strict=True)) | {"query": (0.5, 0.75**0.5)}
    arrows(ends, roles=roles, alt=alt)


def _hundredths(scores: Tensor) -> list[int]:
    return scores.mul(100).round().long().tolist()


def _show_piece(piece: str, data: dict[str, Any], title: str, alt: str) -> None:
    _show("pieces", {"piece": piece, "title": title, **data}, alt, SLIDERS)
