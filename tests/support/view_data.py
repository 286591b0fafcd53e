"""What a view holds, read back from its HTML. Knows nothing of browsers."""

import base64
import json
import re
import zlib
from contextlib import contextmanager

import pytest
import torch

from attention_views.page import weight_codes
from course_utils.looking import style, views

FAINT = 0.04 * 240  # the explorer draws weaker links only of a chosen token


@contextmanager
def stored_outputs():
    """What a cell would store: a list of (data, metadata), filled meanwhile.

    The first view of ours brings the script.
    """
    outputs = []

    def keep(data, metadata=None, raw=False):
        outputs.append((data, metadata or {}))

    with pytest.MonkeyPatch.context() as patch:
        for module in (views, style):
            patch.setattr(module, "display", keep)
        patch.setattr(views, "_shown", {})
        patch.setattr(views, "running_cell", lambda: ("a run", "a cell"))
        yield outputs


def payload(html):
    """The data of a view, read back from its HTML or from its script."""
    return json.loads(re.search(r"\.push\(\[.*\n(.*)\n\]\)", html)[1])


def numbers(text):
    """What was compressed into a text."""
    return torch.tensor(list(zlib.decompress(base64.b64decode(text))))


def decoded(part):
    """Codes and weights of one part of an explorer, "layer h q k"."""
    codes = numbers(part["map"]).reshape(part["shape"])
    return codes, (codes - 1).clamp(min=0).double() / 240


def changes(part):
    """Levels of a comparison's part, "layer h q k", from -240 to 240."""
    codes = numbers(part["map"]).reshape(2, *part["shape"])
    before, after = (codes - 1).clamp(min=0)
    return after - before


def strong(codes):
    """Links drawn before a token is chosen: weights that round to 0.04 and more."""
    return int((codes - 1 >= FAINT).sum())


def strong_weights(weights):
    return strong(weight_codes(weights))


def strong_changes(levels):
    """Changes drawn before a token is chosen."""
    return int((levels.abs() >= FAINT).sum())
