"""Every attention map of one forward pass, or of two that are compared, to explore.

Knows what the script of the explorer reads. Knows nothing of models.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_views.page import compressed, view_html, weight_codes

Parts = Mapping[str, Mapping[str, Any]]


def explorer_html(
    parts: Parts,
    texts: Sequence[Sequence[str]],
    *,
    after: Parts | None = None,
    title: str,
    sentence: str = "",
    sides: Mapping[str, tuple[int, int]] | None = None,
    at: Sequence[int] = (0, 0, 0),
    **page: bool,
) -> str:
    """The HTML of a view of all layers and heads.

    parts: {kind of attention: {name of a layer: weights "head query key"}}, from 0 to
    1; the layers of a part have one shape. texts: lists of tokens. after: the same as
    `parts` of a second forward pass, to be compared. sides: for each part which of the
    texts the queries and the keys are, by default the first. at: part, layer and head
    shown first. sentence, page: as in `view_html`.

    Raises ValueError for weights outside 0 to 1, tokens that do not fit them, or two
    passes with different layers.
    """
    recordings = [parts] if after is None else [parts, after]
    same_layers(*recordings)
    packed = []
    for name, layers in parts.items():
        codes = np.array(
            [[weight_codes(r[name][label]) for label in layers] for r in recordings]
        )
        _, *shape = codes.shape
        side = list((sides or {}).get(name, (0, 0)))
        lengths = [len(texts[index]) for index in side]
        if lengths != shape[2:]:
            raise ValueError(
                f"{name}: the weights have {shape[2]} queries and {shape[3]} keys, got "
                f"{lengths[0]} and {lengths[1]} tokens"
            )
        part = {"name": name, "layers": list(layers), "shape": shape, "tokens": side}
        packed.append({**part, "map": compressed(codes)})
    texts = [list(text) for text in texts]
    data = {"title": title, "at": list(at), "tokens": texts, "parts": packed}
    if after is not None:
        data["names"] = ["before", "after"]
    return view_html("explorer", data, sentence or title, **page)


def same_layers(*recordings: Parts) -> None:
    """Raise ValueError unless all have the same layers, of the same shapes."""
    first, *rest = [
        {
            f"{part} layer {label} {tuple(weights.shape)}"
            for part, layers in recording.items()
            for label, weights in layers.items()
        }
        for recording in recordings
    ]
    for layers in rest:
        if differing := first ^ layers:
            raise ValueError(
                "before and after must have the same layers and shapes (head, query, "
                f"key), only one of them has {min(differing)}"
            )
