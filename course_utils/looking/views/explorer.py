"""Show the attention maps of one forward pass, to explore, and a picture of one.

Knows what the explorer's script reads. Knows nothing of models.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from course_utils.looking.views.maps import Maps
from course_utils.looking.views.page import (
    HINT,
    compressed,
    show_view,
    weight_codes,
)


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

    recording: what `recording.record` gave, or {layer name: weights "1 h q k"}, of any
    type and device. A model of `transformers`, loaded with
    attn_implementation="eager" and run with output_attentions=True, goes in as
    {f"layer.{i}": weights for i, weights in enumerate(outputs.attentions)}.
    tokens: the text of the positions that attend (the target, with an encoder).
    source: the text that an encoder read, or the memory of a lone cross-attention.
    title: the finding, as a sentence. part ("encoder", "decoder", "cross" or "self";
    default: the last), layer and head (indices from 0) are shown first and in the
    picture.

    Raises TypeError for arguments of another type, ValueError for tokens that do not
    fit the weights, weights of more than one text or outside 0 to 1, a part, layer or
    head that is not there, and for more than a page can hold.
    """
    maps = Maps(recording, tokens, source, title)
    maps.choose(part, layer, head)
    second = int(maps.source is not None)
    sides = {"encoder": [second, second], "cross": [0, second]}
    parts = []
    for name, layers in maps.parts.items():
        codes = np.stack([weight_codes(layer) for layer in layers.values()])
        parts.append(
            {
                "name": name,
                "layers": list(layers),
                "shape": list(codes.shape),
                "tokens": sides.get(name, [0, 0]),
                "map": compressed(codes),
            }
        )
    tokens = [maps.tokens, maps.source or []]
    data = {"title": title, "at": maps.at, "tokens": tokens, "parts": parts}
    show_view("explorer", data, f"{maps.sentence} {HINT}")
    maps.show_picture()
