"""What a view holds, read back from its HTML. Knows nothing of browsers."""

import json
import re

import torch

from course_utils.looking.views.page import weight_codes

FAINT = 0.04 * 240  # the explorer draws weaker links only of a chosen token


def payload(html):
    """The data of a view, read back from its HTML or from its script."""
    return json.loads(re.search(r"^const data=(.*);$", html, re.MULTILINE)[1])


def numbers(text):
    """Characters to codes, by the alphabet as the script states it."""
    skipped = {38, 60, 62, 92, 173, *range(127, 161)}
    alphabet = [chr(c) for c in range(35, 600) if c not in skipped][:256]
    code = {character: i for i, character in enumerate(alphabet)}
    return torch.tensor([code[character] for character in text])


def unpacked(text, *rules):
    for sign, *pair in rules:
        text = text.replace(sign, "".join(pair))
    return text


def decoded(part):
    """Codes and weights of one part of an explorer, "layer h q k"."""
    codes = numbers(unpacked(*part["map"])).reshape(part["shape"])
    return codes, (codes - 1).clamp(min=0).double() / 240


def strong(codes):
    """Links drawn before a token is chosen: weights that round to 0.04 and more."""
    return int((codes - 1 >= FAINT).sum())


def strong_weights(weights):
    return strong(weight_codes(weights))
