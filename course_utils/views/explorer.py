"""Weights and tokens in, a map of attention to explore out, and a picture of it.

Knows how attention layers are named and what they look at. Knows nothing of models:
a recording is handed in.
"""

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from course_utils.plots import attention_map
from course_utils.views.page import (
    characters,
    short,
    show_view,
    texts,
    weight_codes,
)

MOST_TOKENS, MOST_WEIGHTS = 160, 2_400_000  # 12 layers of 12 heads over 128 tokens


def show_attention(
    recording: Any,
    tokens: Iterable[str],
    source: Iterable[str] | None = None,
    *,
    title: str,
    part: str = "",
    layer: int = 0,
    head: int = 0,
) -> None:
    """Show every attention map of one recorded forward pass, and a picture of one.

    recording: what `recording.record` gave, or {layer name: weights "1 h q k"}.
    tokens: the text of the positions that attend (the target, with an encoder).
    source: the text that an encoder read, or the memory of a lone cross-attention.
    title: the finding, as a sentence. part ("encoder", "decoder", "cross" or "self";
    default: the last), layer and head, from 0, are shown first and in the picture.

    Raises ValueError for tokens that do not fit the weights, more than one text, a
    part, layer or head that is not there, and for more than a page can hold;
    TypeError for tokens that are not strings.
    """
    weights = recording.weights() if hasattr(recording, "weights") else recording
    tokens = texts(tokens, "tokens")
    source = None if source is None else texts(source, "source")
    if not title.strip():
        raise ValueError("title must say in a sentence what the map shows, it is empty")
    parts = gather(weights, source is not None)
    _check_size(parts)
    part = part or list(parts)[-1]
    if part not in parts:
        raise ValueError(f"part must be one of {', '.join(parts)}, got {part!r}")
    sides = {name: _sides(name, tokens, source) for name in parts}
    for name, layers in parts.items():
        _check_tokens(name, layers, sides[name])
    chosen = _chosen(parts[part], layer, head)
    labels = [[short(token) for token in side] for side in sides[part]]
    place = f"{part} attention, layer {layer}, head {head}"
    sentence = f"{title} {strongest(weight_codes(chosen), labels)} ({place})."
    data = {
        "title": title,
        "at": [list(parts).index(part), layer, head],
        "tokens": [tokens, source or []],
        "parts": [_packed(name, layers) for name, layers in parts.items()],
    }
    hint = " Run this cell, or trust the notebook, to explore all layers and heads."
    show_view("explorer", data, sentence + hint)
    _picture(chosen, labels, sentence, place)


def gather(weights: Mapping[str, Tensor], crossed: bool) -> dict[str, dict]:
    """{part: {layer: weights "h q k"}}, the parts and layers as the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    """
    found: dict[str, dict] = {}
    for name, layer in weights.items():
        if layer.ndim != 4 or layer.shape[0] != 1:
            raise ValueError(
                f"weights of {name!r} must be of one text, (1, head, query, key): "
                f"got the shape {tuple(layer.shape)}; record one text at a time"
            )
        number = re.search(r"\d+", name)
        part = found.setdefault(re.sub(r"\d+", "", name), {})
        part[number[0] if number else str(len(part))] = layer[0]
    if not found:
        raise ValueError("recording holds no attention weights: did the model run?")
    named = {}
    for name, layers in found.items():
        if len({tuple(layer.shape) for layer in layers.values()}) > 1:
            raise ValueError(f"layers of {name!r} differ in shape: show them apart")
        named[_part_name(name, len(found) == 1, crossed)] = layers
    if len(named) < len(found):
        raise ValueError(f"parts of one kind cannot share a view: {', '.join(found)}")
    return named


def strongest(codes: np.ndarray, labels: Sequence[Sequence[str]]) -> str:
    """The strongest link of a map "q k" as a sentence without its full stop."""
    q, k = np.unravel_index(codes.argmax(), codes.shape)
    weight = max(int(codes[q, k]) - 1, 0) / 240
    return (
        f"The strongest link goes from “{labels[0][q]}” to “{labels[1][k]}”, "
        f"weight {weight:.2f}"
    )


def _part_name(name: str, alone: bool, crossed: bool) -> str:
    if "cross" in name or (alone and crossed and "encoder" not in name):
        return "cross"
    if "encoder" in name:
        return "encoder"
    return "decoder" if crossed else "self"


def _sides(name: str, tokens: list, source: list | None) -> tuple[list, list]:
    second = tokens if source is None else source
    return (
        second if name == "encoder" else tokens,
        second if name in ("encoder", "cross") else tokens,
    )


def _check_tokens(name: str, layers: dict, sides: tuple) -> None:
    _, *wanted = next(iter(layers.values())).shape
    given = [len(side) for side in sides]
    if wanted != given:
        raise ValueError(
            f"{name} attention has {wanted[0]} queries and {wanted[1]} keys, so it "
            f"needs as many tokens; got {given[0]} and {given[1]}"
        )


def _check_size(parts: dict) -> None:
    layers = [layer for part in parts.values() for layer in part.values()]
    total = sum(layer.numel() for layer in layers)
    longest = max(max(layer.shape[1:]) for layer in layers)
    if longest > MOST_TOKENS:
        raise ValueError(
            f"a view shows up to {MOST_TOKENS} tokens, got {longest}: cut the text"
        )
    if total > MOST_WEIGHTS:
        raise ValueError(
            f"a view holds up to {MOST_WEIGHTS:,} weights, got {total:,}: cut the "
            "text, or hand in fewer layers as {name: weights}"
        )


def _chosen(layers: dict, layer: int, head: int) -> Tensor:
    maps = list(layers.values())
    asked = (("layer", layer, len(maps)), ("head", head, len(maps[0])))
    for name, given, count in asked:
        if not 0 <= given < count:
            raise ValueError(f"{name} must be from 0 to {count - 1}, got {given}")
    return maps[layer][head].detach().cpu().double()


def _packed(name: str, layers: dict) -> dict[str, Any]:
    codes = np.stack([weight_codes(layer) for layer in layers.values()])
    tokens = {"encoder": [1, 1], "cross": [0, 1]}.get(name, [0, 0])
    return {
        "name": name,
        "layers": list(layers),
        "shape": list(codes.shape),
        "tokens": tokens,
        "map": characters(codes),
    }


def _picture(weights: Tensor, labels: Sequence, alt: str, title: str) -> None:
    """The same map as a PNG. Of long texts only some tokens are labeled."""
    thin = [
        [word if i % (1 + len(side) // 40) == 0 else "" for i, word in enumerate(side)]
        for side in labels
    ]
    with warnings.catch_warnings():  # a sign that the font lacks is drawn as a box
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        attention_map(weights, *thin, alt, title, mask=weights > 0)
