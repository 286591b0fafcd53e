"""Small pieces with sliders, each with the computed figure beside it.

Knows a few formulas and what the script reads. Knows nothing of models.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils.plots import arrows, bars, curves
from course_utils.positions import sinusoidal_positions
from course_utils.views.page import short, show_view, texts

NAMED = 16  # candidates that are shown by name
_HINT = "Run this cell, or trust the notebook, to move the sliders."


def show_sampling(
    scores: Float[Tensor, "v"], tokens: Sequence[str], *, title: str
) -> None:
    """Temperature, top-k and top-p, in this order, on one next-token distribution.

    scores: the logits of every token; tokens: their texts. The 16 best are named.
    Raises ValueError for scores that are not one finite number per token.
    """
    tokens = texts(tokens, "tokens")
    scores = scores.detach().cpu().double()
    if len(scores) != len(tokens) or not scores.isfinite().all():
        raise ValueError(
            f"scores must be one finite number for each of {len(tokens)} tokens, "
            f"got {len(scores)}"
        )
    best, order = scores.sort(descending=True, stable=True)
    names = [tokens[i] for i in order[:NAMED].tolist()]
    shares = {f"temperature {t}": (best / t).softmax(0)[:NAMED] for t in (0.5, 1, 2)}
    first = shares["temperature 1"][0]
    alt = f"{title} At temperature 1 the best token has probability {first:.2f}."
    data = {"tokens": names, "scores": _hundredths(best - best[0])}
    _show("sampling", data, title, alt)
    labels = [short(name, 8) for name in names[:8]]
    shown = {name: share[:8] for name, share in shares.items()}
    bars(labels, shown, alt, ("next token", "probability"))


def show_scale(*, title: str, num_keys: int = 8, seed: int = 0) -> None:
    """Weights over random keys for head widths 1 to 1024, with 1/√d and without.

    Source: Vaswani et al. 2017, section 3.2.1.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (num_keys + 1, 1024)
    query, *keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    widths = [2**i for i in range(11)]
    scores = [torch.stack(keys)[:, :d] @ query[:d] for d in widths]
    scaled = [one * d**-0.5 for one, d in zip(scores, widths, strict=True)]
    largest = {
        name: (widths, [float(one.softmax(0).max()) for one in several])
        for name, several in (("no scale", scores), ("times 1/√d", scaled))
    }
    ends = [f"{heights[-1]:.2f}" for _, heights in largest.values()]
    alt = f"{title} At d = 1024 the largest weight is {ends[0]} without the scale and "
    alt += f"{ends[1]} with it."
    _show("scale", {"scores": [_hundredths(one) for one in scores]}, title, alt)
    curves(largest, alt, ("head width d", "largest weight"), log="x")


def show_rotation(*, title: str, d_model: int = 16, base: float = 10000.0) -> None:
    """A pair of columns of the sinusoids as the hand of a clock, and its shift.

    Source: Vaswani et al. 2017, section 3.5.
    """
    table = sinusoidal_positions(30, d_model, base)
    alt = f"{title} The sine of each hand is a wave, slower than the one before."
    _show("rotation", {"width": d_model, "base": base}, title, alt)
    waves = {f"hand {i}": table[:, 2 * i] for i in range(min(4, d_model // 2))}
    curves(waves, alt, ("position", "sine"))


def show_query(keys: Mapping[str, Sequence], *, title: str) -> None:
    """Drag a query among keys {name: (x, y)} of the plane and watch the weights."""
    names, places = list(keys), [[float(x), float(y)] for x, y in keys.values()]
    alt = f"{title} The keys are {', '.join(short(name) for name in names)}; the query "
    alt += "points up to the right."
    _show("query", {"names": names, "keys": places}, title, alt)
    labels = [short(name) for name in names]
    roles = {label: "key" for label in labels} | {"query": "query"}
    ends = dict(zip(labels, places, strict=True)) | {"query": (0.5, 0.75**0.5)}
    arrows(ends, alt, roles=roles)


def _hundredths(scores: Tensor) -> list[int]:
    return scores.mul(100).round().long().tolist()


def _show(piece: str, data: dict[str, Any], title: str, alt: str) -> None:
    if not title.strip():
        raise ValueError("title must say in a sentence what is shown, it is empty")
    show_view("pieces", {"piece": piece, "title": title, **data}, f"{alt} {_HINT}")
