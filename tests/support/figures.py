"""Compare the figures of a cell: pixels, the words drawn in them, alt texts.

Where the stored figure was made by the same platform, versions and kind of CPU, every
pixel must be the same; elsewhere a tolerance holds, and the report says so. The words
and numbers that `plots` stores beside a figure are compared everywhere.
"""

import difflib
import os
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support.notebook_rules import ROOT, alt_text, words
from tests.support.pictures import drawn_difference, enlarged, pixels
from tests.support.printed import same_but_for_last_digits

WHOLE_RMS, TILE_RMS, TILE = 2.0, 20.0, 32  # grey levels of 255; tiles of 32 pixels
FOLDER = Path(os.environ.get("COURSE_DIFFERENCES", ROOT / "build" / "differences"))


def figures(outputs):
    return [out for out in outputs if "image/png" in out.get("data", {})]


def unlike(stored, now):
    """What tells two fingerprints apart, in words; "" if nothing does."""
    if not stored:
        return "nothing says what made the stored one"
    names = [name for name in now if now[name] != stored.get(name)]
    return ", ".join(f"{name} {now[name]}, not {stored.get(name)}" for name in names)


def figure_problems(computed, stored, other, name):
    """Everything wrong with the figures of a cell, one sentence each.

    `other` tells how this machine differs from the one that made the stored figures, ""
    if it does not; `name` begins the names of the pictures that show a difference.
    """
    computed, stored = figures(computed), figures(stored)
    if len(computed) != len(stored):
        yield f"{len(computed)} figures instead of {len(stored)}"
    pairs = zip(computed, stored, strict=False)
    for number, (new, old) in enumerate(pairs, start=1):
        before, after = (
            pixels(old["data"]["image/png"]),
            pixels(new["data"]["image/png"]),
        )
        if what := pixel_difference(before, after, other):
            place = show_difference(before, after, f"{name}_figure_{number}")
            yield f"figure {number} differs: {what}\nold, new, difference: {place}"
        same = same_but_for_last_digits if other else str.__eq__
        if not same(words(old), words(new)):
            told = word_difference(words(old).split(" | "), words(new).split(" | "))
            yield f"figure {number} draws other words: - stored, + now\n{told}"
        if alt_text(new) != alt_text(old):
            yield (
                f"the alt text of figure {number} differs: - stored, + now\n"
                f"-{alt_text(old)}\n+{alt_text(new)}"
            )


def word_difference(old, new):
    lines = difflib.unified_diff(old, new, lineterm="", n=1)
    return "\n".join(list(lines)[2:])  # without two names of files


def pixel_difference(old, new, other=""):
    """What tells two pictures apart, in words, or None.

    By tolerance: a changed curve moves many pixels a little way or a few pixels far.
    The first shows in the root mean square over the figure, the second in that of its
    worst tile.
    """
    if old.shape != new.shape:
        return f"size {new.shape[1::-1]} instead of {old.shape[1::-1]}"
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
    whole, worst = float(squares.mean() ** 0.5), float(tiles.max() ** 0.5)
    if whole <= WHOLE_RMS and worst <= TILE_RMS:
        return None
    row, column = np.unravel_index(tiles.argmax(), tiles.shape)
    return (
        f"RMS {whole:.1f} over the figure (limit {WHOLE_RMS:.0f}), {worst:.1f} in the "
        f"worst tile (limit {TILE_RMS:.0f}), {TILE * column} pixels from the left and "
        f"{TILE * row} from the top; by tolerance, because here is {other}"
    )


def tile_means(squares):
    """The mean of each tile; what is beyond the edge counts as no difference."""
    high, wide = (-(-side // TILE) * TILE for side in squares.shape)
    padded = np.zeros((high, wide))
    padded[: squares.shape[0], : squares.shape[1]] = squares
    tiles = padded.reshape(high // TILE, TILE, wide // TILE, TILE)
    return tiles.mean(axis=(1, 3))


def show_difference(old, new, name):
    """Write old, new and their difference side by side; the path of the PNG."""
    old, new = enlarged(old, new), enlarged(new, old)
    grey = drawn_difference(np.abs(old - new).max(axis=2))
    difference = np.repeat(grey[:, :, None], 3, axis=2)
    line = np.full((len(old), 4, 3), 128.0)
    page = np.concatenate([old, line, new, line, difference], axis=1)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.png"
    Image.fromarray(page.astype(np.uint8)).save(path)
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
