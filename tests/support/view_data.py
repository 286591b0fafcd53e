"""What a view holds, read back from its HTML. Knows nothing of browsers."""

import base64
import json
import re
import zlib
from contextlib import contextmanager

import pytest
import torch

from course_utils import page
from course_utils.views import attention
from course_utils.views import display as displaying
from lesson_plots import style

GLOWS = 4.8 / 240  # a token glows from this weight or change on


@contextmanager
def stored_outputs(script=False):
    """What a cell would store: a list of (data, metadata), filled meanwhile.

    script: does its first view bring the script?
    """
    outputs = []

    def keep(data, metadata=None, raw=False):
        outputs.append((data, metadata or {}))

    with pytest.MonkeyPatch.context() as patch:
        for module in (attention, displaying, style, page):
            patch.setattr(module, "display", keep)
        patch.setattr(displaying, "_shown", {} if script else {"a cell": "a run"})
        patch.setattr(displaying, "running_cell", lambda: ("a run", "a cell"))
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
