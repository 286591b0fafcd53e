"""Show how one query meets every key: elements, products, scores and weights.

Knows the named points of the attention layers that a recording holds. Knows nothing
of models.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from course_utils.looking.views.maps import Maps, attention_parts, check_total
from course_utils.looking.views.page import HINT, compressed, show_view, weight_codes
from course_utils.shapes import check_integer

MOST_NUMBERS = 200_000


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
    tokens: as in `explorer.show_attention`. layer, head and query (-1: the last token)
    are shown first. Queries and keys are those that were multiplied: after the rotary
    positions, with keys repeated for each head.

    Raises TypeError and ValueError as `explorer.show_attention`, and ValueError for
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
    check_integer(-count, query=query)
    if query >= count:
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
    show_view("neurons", data, f"{maps.sentence} {HINT}")
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
