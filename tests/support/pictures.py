"""Stored pictures: their pixels, and where two of them differ.

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


def drawn_difference(distance):
    """Grey levels, "y x": white where nothing differs, the largest difference black."""
    stretched = FAINTEST + (255 - FAINTEST) * distance / max(distance.max(), 1)
    return 255 - np.where(distance > 0, stretched, 0)


def enlarged(image, other):
    """The image with white at its right and bottom, where only the other reaches."""
    height = max(0, other.shape[0] - image.shape[0])
    width = max(0, other.shape[1] - image.shape[1])
    return np.pad(image, ((0, height), (0, width), (0, 0)), constant_values=255)
