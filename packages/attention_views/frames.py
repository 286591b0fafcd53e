"""A list of frames, to scrub through: maps, points, bars, texts or pictures.

Knows what the script of the frames reads. Knows nothing of models.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attention_views.page import compressed, view_html

STEPS = 1000  # positions are whole numbers from 0 to this


def frames_html(
    frames: Sequence[Any],
    captions: Sequence[str],
    axis: str = "layer",
    *,
    title: str,
    sentence: str = "",
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    axes: Sequence[str] = ("", ""),
    signed: bool = False,
    mask: Any = None,
    colors: Mapping[str, str] | None = None,
    **how: bool,
) -> str:
    """The HTML of a view with a slider: one frame at a time, played or scrubbed.

    frames: all of one kind. Matrices "row column" (with the labels `rows` and
    `columns`, colored from 0 or, if `signed`, around 0; a value that is not 0 where
    `mask`, "row column", is False is colored as a mistake); points {label: (x, y)};
    bars {label: length}; texts; or PNG files as bytes. captions: one a frame; axis:
    what the slider moves along. axes: what runs along (rows, columns) or (x, y).
    colors: {label: color} of points and bars. sentence: what stands there where no
    script runs. how: shared and pictured, see `view_html`.

    Raises ValueError for frames that differ in kind, size or labels, for numbers that
    are not finite, and for captions that are not one a frame or not different.
    """
    if not 0 < len(frames) == len(captions) == len({*captions}):
        raise ValueError(
            f"captions must be one for each of {len(frames)} frames, at least one and "
            f"all different, got {list(captions)}"
        )
    kind = kind_of(frames[0])
    different = {kind_of(frame) for frame in frames} - {kind}
    if different:
        raise ValueError(f"frames must be of one kind, got {kind} and {min(different)}")
    data = {"title": title, "axis": axis, "captions": list(captions), "kind": kind}
    data |= {"axes": list(axes), "rows": list(rows), "columns": list(columns)}
    if kind == "map":
        maps = np.stack(list(map(_finite, frames)))
        data |= _maps(maps, rows, columns, signed, mask)
    elif kind in ("points", "bars"):
        labels = list(frames[0])
        if any(list(frame) != labels for frame in frames):
            raise ValueError("frames must have the same labels, in the same order")
        data["labels"] = labels
        data["colors"] = [(colors or {}).get(label, "") for label in labels]
        numbers = [[_finite(frame[label]) for label in labels] for frame in frames]
        data |= _normalized(np.array(numbers))
    elif kind == "picture":
        data["frames"] = [b64encode(frame).decode() for frame in frames]
    else:
        data["frames"] = list(frames)
    return view_html("frames", data, sentence or title, **how)


def kind_of(frame: Any) -> str:
    """What a frame is: "text", "picture", "bars", "points" or "map"."""
    if isinstance(frame, str):
        return "text"
    if isinstance(frame, bytes):
        return "picture"
    if isinstance(frame, Mapping):
        first = next(iter(frame.values()), 0.0)
        return "points" if np.ndim(first) else "bars"
    return "map"


def _finite(values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("frames must hold finite numbers")
    return array


def _maps(
    maps: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    signed: bool,
    mask: Any,
) -> dict[str, Any]:
    """Codes of one byte: 0 for an exact 0; else 1 to 241, and 121 is 0 if `signed`.

    255 is what leaks.
    """
    if maps.min() < 0 and not signed:
        raise ValueError("frames must be >= 0, or drawn with signed=True")
    _, height, width = maps.shape
    if (len(rows) or height, len(columns) or width) != (height, width):
        raise ValueError(
            f"rows and columns must fit the matrices of {height} × {width}, got "
            f"{len(rows)} and {len(columns)} labels"
        )
    limit = np.abs(maps).max() or 1.0
    scaled = (maps / limit + 1) / 2 if signed else maps / limit
    codes = np.where(maps == 0, 121 if signed else 0, _rounded(scaled * 240) + 1)
    if mask is not None:
        codes[~np.asarray(mask) & (maps != 0)] = 255
    return {
        "shape": list(maps.shape),
        "map": compressed(codes),
        "limit": float(f"{limit:.3g}"),
        "signed": signed,
    }


def _normalized(numbers: np.ndarray) -> dict[str, Any]:
    """Bars "frame label" on a scale that holds 0; points "frame label xy" on two."""
    low, high = numbers.min((0, 1)), numbers.max((0, 1))
    if numbers.ndim == 2:
        low, high = np.minimum(low, 0), np.maximum(high, 0)
    span = np.where(high > low, high - low, 1)
    return {
        "frames": _rounded((numbers - low) / span * STEPS).tolist(),
        "low": [float(f"{n:.3g}") for n in np.atleast_1d(low)],
        "high": [float(f"{n:.3g}") for n in np.atleast_1d(low + span)],
    }


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """Rounded, exact halves down: it does not hang on a last bit."""
    return np.floor(numbers + 0.5 - 1e-4).astype(np.int64)
