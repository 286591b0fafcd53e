"""Small interactive demonstrations with sliders, each with a computed figure.

Knows a few formulas and what the script reads. Knows nothing of models.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from course_utils.looking.plots import arrows, bars, curves
from course_utils.looking.token_texts import token_texts
from course_utils.looking.views.page import short, show_view
from course_utils.shapes import (
    check_divisible,
    check_greater,
    check_integer,
    check_positive,
    check_tensor,
    check_text,
    check_type,
    shown,
)

NAMED = 16  # this many candidates are shown by name
_HINT = "Run this cell, or trust the notebook, to move the sliders."


def show_sampling(
    scores: Float[Tensor, "v"], tokens: Sequence[str], *, title: str
) -> None:
    """Temperature, top-k and top-p, in this order, on one next-token distribution.

    scores: the logits of every token; tokens: their texts. The 16 best are named.
    Raises TypeError or ValueError for scores that are not one finite number per token.
    """
    check_text(title=title)
    tokens = token_texts(tokens)
    check_tensor("scores", scores, ("vocabulary",))
    if len(scores) != len(tokens):
        raise ValueError(
            f"scores must be one number for each of {len(tokens)} tokens, got "
            f"{len(scores)}"
        )
    scores = scores.detach().cpu().double()
    if not scores.isfinite().all():
        raise ValueError("scores must be finite, got NaN or infinity")
    best, order = scores.sort(descending=True, stable=True)
    names = [tokens[i] for i in order[:NAMED].tolist()]
    shares = {f"temperature {t}": (best / t).softmax(0)[:NAMED] for t in (0.5, 1, 2)}
    first = shares["temperature 1"][0]
    alt = f"{title} At temperature 1 the best token has probability {first:.2f}."
    data = {"tokens": names, "scores": _hundredths(best - best[0])}
    _show("sampling", data, title, alt)
    labels = [short(name, 8) for name in names[:8]]
    heights = {name: share[:8] for name, share in shares.items()}
    bars(labels, heights, ("next token", "probability"), alt=alt)


def show_scale(*, title: str, num_keys: int = 8, seed: int = 0) -> None:
    """Weights over random keys for head widths 1 to 1024, with 1/√d and without.

    The sliders move one query; the picture is the mean over 200 queries. Source:
    Vaswani et al. 2017, section 3.2.1. Raises TypeError or ValueError unless num_keys
    is an integer >= 1 and seed one >= 0.
    """
    check_text(title=title)
    check_positive(num_keys=num_keys)
    check_integer(0, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    shape = (num_keys + 1, 1024)
    query, *keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    widths = [2**i for i in range(11)]
    scores = [torch.stack(keys)[:, :d] @ query[:d] for d in widths]
    largest = _mean_largest_weights(num_keys, widths, generator)
    ends = [f"{heights[-1]:.2f}" for _, heights in largest.values()]
    alt = f"{title} At d = 1024 the largest weight is {ends[0]} without the scale and "
    alt += f"{ends[1]} with it, on average."
    _show("scale", {"scores": [_hundredths(one) for one in scores]}, title, alt)
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

    Source: Vaswani et al. 2017, section 3.5. Raises TypeError or ValueError unless
    d_model is even and base a number > 1.
    """
    check_text(title=title)
    check_positive(d_model=d_model)
    check_divisible("d_model", d_model, "the width of a pair", 2)
    check_greater(1, base=base)
    positions = torch.arange(0, 29.05, 0.1, dtype=torch.float64)
    alt = f"{title} The sine of each pair is a wave, slower than the one before."
    _show("rotation", {"width": d_model, "base": base}, title, alt)
    waves = {}
    for i in range(min(4, d_model // 2)):
        sines = torch.sin(positions * base ** (-2 * i / d_model))
        waves[f"pair {i}"] = (positions, sines)
    curves(waves, ("position", "sine"), alt=alt)


def show_query(keys: Mapping[str, Sequence], *, title: str) -> None:
    """Drag a query among keys {name: (x, y)} of the plane and watch the weights.

    Raises TypeError or ValueError unless there is at least one key and every key has
    two finite coordinates.
    """
    check_text(title=title)
    check_type(Mapping, keys=keys)
    if not keys:
        raise ValueError("keys must hold at least one key, got none")
    names = token_texts(list(keys), "keys")
    places = [_place(name, point) for name, point in keys.items()]
    labels = _labels(names)
    alt = f"{title} The keys are {', '.join(labels)}; the query points up to the right."
    _show("query", {"names": names, "keys": places}, title, alt)
    roles = {label: "key" for label in labels} | {"query": "query"}
    ends = dict(zip(labels, places, strict=True)) | {"query": (0.5, 0.75**0.5)}
    arrows(ends, roles=roles, alt=alt)


def _labels(names: list[str]) -> list[str]:
    """Short labels for the picture; one that is taken already gets a number."""
    labels: list[str] = []
    for name in names:
        label = short(name)
        number = 2
        while label in (*labels, "query"):
            label = f"{short(name)} ({number})"
            number += 1
        labels.append(label)
    return labels


def _place(name: str, point: Any) -> list[float]:
    """The coordinates of a key, checked."""
    key = f"keys[{name!r}]"
    try:
        place = [float(number) for number in point]
    except (TypeError, ValueError):
        raise TypeError(
            f"{key} must be two finite numbers (x, y), got {shown(point)}"
        ) from None
    if len(place) != 2 or not all(math.isfinite(number) for number in place):
        raise ValueError(f"{key} must be two finite numbers (x, y), got {place}")
    return place


def _hundredths(scores: Tensor) -> list[int]:
    return scores.mul(100).round().long().tolist()


def _show(piece: str, data: dict[str, Any], title: str, alt: str) -> None:
    show_view("pieces", {"piece": piece, "title": title, **data}, f"{alt} {_HINT}")
