"""Stored pictures: their pixels, and what tells two of them apart.

Knows PNGs in base64. Knows nothing of notebooks.
"""

import base64
import io

import numpy as np
from PIL import Image

FAINTEST = 64  # of 255: how dark the smallest difference is drawn, so that it is seen


def pixels(png):
    """Colors from 0 to 255 on a white page, as an array: height, width, 3."""
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGBA")
    page = Image.new("RGBA", image.size, "white")
    return np.asarray(Image.alpha_composite(page, image).convert("RGB"), dtype=float)


def picture_difference(old, new):
    """A PNG that is dark where two pictures differ, and what differs in words.

    Returns None in place of the PNG if all pixels are the same.
    """
    before, after = pixels(old), pixels(new)
    said = []
    if before.shape != after.shape:
        said.append(
            f"The size is {_size(after)}, it was {_size(before)}; where only one "
            "picture has pixels, they are compared with white."
        )
        before, after = enlarged(before, after), enlarged(after, before)
    distance = np.abs(before - after).max(axis=2)
    largest = int(distance.max())
    if largest == 0:
        said.append("All pixels are the same, only the files differ.")
        return None, " ".join(said)
    row, column = np.unravel_index(distance.argmax(), distance.shape)
    said.append(
        f"Pixels that differ: {np.count_nonzero(distance):,} of {distance.size:,}. "
        f"The largest difference, {largest} of 255, lies {column} pixels from the left "
        f"and {row} from the top."
    )
    return _png(drawn_difference(distance)), " ".join(said)


def drawn_difference(distance):
    """Grey levels, "y x": white where nothing differs, the largest difference black."""
    stretched = FAINTEST + (255 - FAINTEST) * distance / max(distance.max(), 1)
    return 255 - np.where(distance > 0, stretched, 0)


def _size(image):
    height, width, _ = image.shape
    return f"{width} × {height} pixels"


def enlarged(image, other):
    """The image with white at its right and bottom, where only the other reaches."""
    height = max(0, other.shape[0] - image.shape[0])
    width = max(0, other.shape[1] - image.shape[1])
    return np.pad(image, ((0, height), (0, width), (0, 0)), constant_values=255)


def _png(grey):
    file = io.BytesIO()
    Image.fromarray(grey.round().astype(np.uint8)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
