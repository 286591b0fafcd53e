"""Compare the figures of a cell: pixels, the words drawn in them, alt texts.

Where the stored figure was made by the same platform, versions and kind of CPU, every
pixel must be the same; elsewhere a tolerance holds, and the report says so. The words
and numbers that its metadata hold ("words") are compared everywhere.
"""

import base64
import difflib
import io

import numpy as np
from PIL import Image

from nbval_strict.printed import same_but_for_last_digits

OVERALL_RMS, TILE_RMS, TILE = 2.0, 20.0, 32  # grey levels of 255; tiles of 32 pixels


def alt_text(output):
    """The alt text of a PNG output, where JupyterLab and nbconvert look for it."""
    metadata = output.get("metadata", {})
    own = metadata.get("image/png", {})
    return str(own.get("alt") or metadata.get("alt") or "").strip()


def words(output):
    """The words and numbers drawn in a PNG output, where its metadata hold them."""
    return output.get("metadata", {}).get("image/png", {}).get("words", "")


def figures(outputs):
    return [out for out in outputs if "image/png" in out.get("data", {})]


def figure_problems(computed, stored, other, name, folder):
    """Everything wrong with the figures of a cell, one sentence each.

    `other` tells how this machine differs from the one that made the stored figures, ""
    if it does not; `name` begins the names of the pictures in `folder` that show a
    difference.
    """
    computed, stored = figures(computed), figures(stored)
    if len(computed) != len(stored):
        yield f"{len(computed)} figures instead of {len(stored)}"
    pairs = zip(computed, stored, strict=False)
    for number, (new, old) in enumerate(pairs, start=1):
        before, after = (pixels(one["data"]["image/png"]) for one in (old, new))
        if before.shape != after.shape:
            yield f"figure {number} has another size"
        elif what := pixel_difference(before, after, other):
            path = folder / f"{name}_figure_{number}.png"
            place = show_difference(before, after, path)
            yield f"figure {number} differs: {what}\nold, new, difference: {place}"
        same = same_but_for_last_digits if other else str.__eq__
        if not same(words(old), words(new)):
            lines = word_difference(words(old).split(" | "), words(new).split(" | "))
            yield f"figure {number} draws other words: - stored, + now\n{lines}"
        if alt_text(new) != alt_text(old):
            yield (
                f"the alt text of figure {number} differs: - stored, + now\n"
                f"-{alt_text(old)}\n+{alt_text(new)}"
            )


def word_difference(old, new):
    lines = difflib.unified_diff(old, new, lineterm="", n=1)
    return "\n".join(list(lines)[2:])  # without two names of files


def pixel_difference(old, new, other=""):
    """What tells two pictures of one size apart, in words, or None.

    By tolerance: a changed curve moves many pixels a little way or a few pixels far.
    The first shows in the root mean square over the figure, the second in that of its
    worst tile.
    """
    gaps = np.abs(old - new).max(axis=2)
    changed = int((gaps > 0).sum())
    if not changed:
        return None
    if not other:
        row, column = np.unravel_index(gaps.argmax(), gaps.shape)
        return (
            f"{changed} of {gaps.size} pixels (limit 0, because the same platform, "
            f"versions and CPU made the stored one), most, by {gaps.max():.0f} of 255, "
            f"at {column} pixels from the left and {row} from the top"
        )
    squares = ((old - new) ** 2).mean(axis=2)
    tiles = tile_means(squares)
    overall, worst = float(squares.mean() ** 0.5), float(tiles.max() ** 0.5)
    if overall <= OVERALL_RMS and worst <= TILE_RMS:
        return None
    row, column = np.unravel_index(tiles.argmax(), tiles.shape)
    return (
        f"RMS {overall:.1f} over the figure (limit {OVERALL_RMS:.0f}), {worst:.1f} in "
        f"the worst tile (limit {TILE_RMS:.0f}), {TILE * column} pixels from the left "
        f"and {TILE * row} from the top; by tolerance, because here is {other}"
    )


def tile_means(squares):
    """The mean of each tile; what is beyond the edge counts as no difference."""
    for axis, side in enumerate(squares.shape):
        squares = np.add.reduceat(squares, np.arange(0, side, TILE), axis)
    return squares / TILE**2


def show_difference(old, new, path):
    """Write old, new and, in black, where they differ, side by side; the path."""
    differ = (old != new).any(axis=2, keepdims=True)
    difference = np.where(differ, 0.0, 255.0).repeat(3, axis=2)
    line = np.full((len(old), 4, 3), 128.0)
    page = np.concatenate([old, line, new, line, difference], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(page.astype(np.uint8)).save(path)
    return path


def pixels(png):
    """Colors from 0 to 255 on a white page, as an array: height, width, 3."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")
    page = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(page, image).convert("RGB"), dtype=float)
