"""Show two recordings side by side, with what changed from one to the other.

Knows what the script of the comparison reads. Knows nothing of models.
"""

from typing import Any

import numpy as np

from course_utils.looking.plots import heatmap
from course_utils.looking.views.maps import Maps, check_total, thinned
from course_utils.looking.views.page import (
    HINT,
    LEVELS,
    compressed,
    short,
    show_view,
    weight_codes,
)
from course_utils.shapes import check_text, check_type


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
    as to `explorer.show_attention`, and have the same layers, heads and sizes.
    tokens, source, title, part: as there. tokens_after, source_after: those of `after`,
    unless they are the same. names: what the two are called in the view.
    layer, head: what is shown first; a pair chooses for each recording: head=(0, 3).

    The difference is after minus before, from -1 to 1, in colors centered on 0.

    Raises TypeError and ValueError as `explorer.show_attention`, and ValueError for
    recordings that differ in shape.
    """
    names = _checked_names(names)
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
    show_view("comparison", _data(first, second, names), f"{sentence} {HINT}")
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


def _checked_names(names: Any) -> list[str]:
    check_type(tuple | list, names=names)
    if len(names) != 2:
        raise ValueError(f"names must be two words, got {len(names)}")
    check_text(**{"names[0]": names[0], "names[1]": names[1]})
    return [short(name) for name in names]


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
