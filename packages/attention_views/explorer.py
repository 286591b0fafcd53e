"""Every attention map of one forward pass, to explore.

Knows what the script of the explorer reads. Knows nothing of models.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_views.page import compressed, view_html, weight_codes


def explorer_html(
    parts: Mapping[str, Mapping[str, Any]],
    texts: Sequence[Sequence[str]],
    *,
    title: str,
    sentence: str = "",
    sides: Mapping[str, tuple[int, int]] | None = None,
    at: Sequence[int] = (0, 0, 0),
    shared: bool = False,
) -> str:
    """The HTML of a view of all layers and heads.

    parts: {kind of attention: {name of a layer: weights "head query key"}}, from 0 to
    1; the layers of a part have one shape. texts: lists of tokens. sides: for each part
    which of the texts the queries and the keys are, by default the first. at: part,
    layer and head shown first. sentence, shared: as in `view_html`.

    Raises ValueError for weights outside 0 to 1, or tokens that do not fit them.
    """
    sides = sides or {}
    held = []
    for name, layers in parts.items():
        codes = np.stack([weight_codes(layer) for layer in layers.values()])
        side = list(sides.get(name, (0, 0)))
        given = [len(texts[place]) for place in side]
        if given != list(codes.shape[2:]):
            raise ValueError(
                f"{name}: the weights have {codes.shape[2]} queries and "
                f"{codes.shape[3]} keys, got {given[0]} and {given[1]} tokens"
            )
        held.append(
            {
                "name": name,
                "layers": list(layers),
                "shape": list(codes.shape),
                "tokens": side,
                "map": compressed(codes),
            }
        )
    texts = [list(text) for text in texts]
    data = {"title": title, "at": list(at), "tokens": texts, "parts": held}
    return view_html("explorer", data, sentence or title, shared=shared)
