"""Show the attention maps of one forward pass, to explore, and a picture of one.

Knows what the explorer's script reads. Knows nothing of models.
"""

from typing import Any

import numpy as np

from course_utils.looking.views.maps import Maps, check_total
from course_utils.looking.views.page import (
    HINT,
    compressed,
    show_view,
    weight_codes,
)


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
    parts = []
    for name, layers in maps.parts.items():
        codes = np.stack([weight_codes(layer) for layer in layers.values()])
        parts.append(
            {
                "name": name,
                "layers": list(layers),
                "shape": list(codes.shape),
                "tokens": list(maps.sides[name]),
                "map": compressed(codes),
            }
        )
    data = {"title": title, "at": maps.at, "tokens": maps.texts, "parts": parts}
    show_view("explorer", data, f"{maps.sentence} {HINT}")
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
