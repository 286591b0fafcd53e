"""One query against every key, element by element: query, key, product, score, weight.

Knows the named points of the attention layers that a recording holds. Knows nothing
of models.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from course_utils.views.maps import Maps
from course_utils.views.page import HINT, characters, show_view, weight_codes

MOST_NUMBERS = 200_000


def show_neurons(
    recording: Any,
    tokens: Iterable[str],
    *,
    title: str,
    layer: int = 0,
    head: int = 0,
    query: int = -1,
) -> None:
    """Show how a score comes about in self-attention, and a picture of the map.

    recording: what `recording.record` gave for a model with one kind of attention.
    layer, head and query (-1: the last token) are shown first. Queries and keys are
    those that were multiplied: behind rotary positions, keys repeated for each head.

    Raises ValueError as `explorer.show_attention` does, for more than one kind of
    attention, and for more numbers than a page can hold.

    Source: Vig 2019, section 2.3.
    """
    maps = Maps(recording, tokens, None, title)
    if list(maps.parts) != ["self"]:
        held = ", ".join(maps.parts)
        raise ValueError(f"recording must hold self-attention alone, it holds {held}")
    maps.choose("self", layer, head)
    count = len(maps.tokens)
    if not -count <= query < count:
        raise ValueError(f"query must be from {-count} to {count - 1}, got {query}")
    named = {point: _stacked(recording, point) for point in ("queries", "keys")}
    scores, weights = _stacked(recording, "scores"), _stacked(recording, "weights")
    if named["keys"].numel() > MOST_NUMBERS:
        raise ValueError(f"keys hold more than {MOST_NUMBERS:,} numbers: cut the text")
    finite = scores.clamp(-1e6, 1e6).mul(100).round().long()
    data = {
        "title": title,
        "at": [layer, head, query % count],
        "tokens": maps.tokens,
        "layers": list(maps.parts["self"]),
        "shape": list(named["keys"].shape),
        "scale": f" / √{named['keys'].shape[-1]}",
        "scores": finite.flatten().tolist(),
        "weights": characters(weight_codes(weights)),
        **{point: characters(_signed(values)) for point, values in named.items()},
    }
    show_view("neurons", data, f"{maps.sentence} {HINT}")
    maps.show_picture()


def _stacked(recording: Any, point: str) -> torch.Tensor:
    """What passed one point of each attention layer: "layer h t d" or "layer h q k"."""
    ending = f"attend.{point}"
    found = [value[0] for name, value in recording.items() if name.endswith(ending)]
    return torch.stack(found).detach().cpu().double()


def _signed(values: torch.Tensor) -> np.ndarray:
    """-1 to 1, as shares of the largest number of each head, as 0 to 240."""
    most = values.abs().amax((-2, -1), keepdim=True).clamp(min=1e-12)
    return (values / most * 120 + 120.5 - 1e-4).floor().long().numpy()
