"""What a view holds, read back from its HTML. Knows nothing of browsers."""

import base64
import json
import re
import zlib

import torch

from course_utils.looking.views.page import weight_codes

FAINT = 0.04 * 240  # the explorer draws weaker links only of a chosen token


def payload(html):
    """The data of a view, read back from its HTML or from its script."""
    return json.loads(re.search(r"^const data = (.*);$", html, re.MULTILINE)[1])


def numbers(text):
    """What was compressed into a text."""
    return torch.tensor(list(zlib.decompress(base64.b64decode(text))))


def decoded(part):
    """Codes and weights of one part of an explorer, "layer h q k"."""
    codes = numbers(part["map"]).reshape(part["shape"])
    return codes, (codes - 1).clamp(min=0).double() / 240


def strong(codes):
    """Links drawn before a token is chosen: weights that round to 0.04 and more."""
    return int((codes - 1 >= FAINT).sum())


def strong_weights(weights):
    return strong(weight_codes(weights))
