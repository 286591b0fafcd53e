"""Every attention map of one forward pass, with the right tokens on its axes.

Knows how attention layers are named and what they look at. Knows nothing of models:
the weights are handed in. Knows nothing of pages.
"""

import re
from typing import Any

import numpy as np
from torch import Tensor

from attention_views import short, weight_codes
from course_utils.looking.attentions import layer_weights
from course_utils.looking.plots import attention_map
from course_utils.looking.token_texts import token_texts
from course_utils.shapes import check_choice, check_index

MOST_TOKENS = 160
MOST_WEIGHTS = 2_400_000  # 12 layers of 12 heads over 128 tokens
NUMBER = re.compile("[0-9]+")
# Part -> its queries and keys: 0 for the tokens, 1 for the source.
SIDES = {"encoder": (1, 1), "decoder": (0, 0), "cross": (0, 1), "self": (0, 0)}


class Maps:
    """parts: {part: {layer label: weights "h q k"}}, the layers of a part of one shape;
    texts: the tokens and those of the source; sides: {part: (queries, keys)}, places in
    `texts`.

    A part is "encoder", "decoder", "cross", or "self" where there is one text only. The
    label of a layer is the number in which its name differs from the others of its
    part, or several such numbers: "1.0" of "stage1.blocks.0".
    """

    def __init__(self, recording: Any, tokens: Any, source: Any, title: str):
        """Arguments and errors as in `views.show_attention`."""
        self.texts = [token_texts(tokens)]
        self.texts.append([] if source is None else token_texts(source, "source"))
        self.title = title
        self.parts = attention_parts(recording, source is not None)
        self.sides = SIDES
        if source is None:
            self.sides = dict.fromkeys(SIDES, (0, 0))
            if "cross" in self.parts:
                raise ValueError(
                    "source must be the tokens that cross attention looks at, got None"
                )
        for part, layers in self.parts.items():
            _, *expected = next(iter(layers.values())).shape
            given = [len(self.texts[side]) for side in self.sides[part]]
            if expected != given:
                raise ValueError(
                    f"tokens and source must fit the weights: {part} attention has "
                    f"{expected[0]} queries and {expected[1]} keys, got {given[0]} and "
                    f"{given[1]} tokens"
                )
            if max(expected) > MOST_TOKENS:
                raise ValueError(
                    f"a view shows up to {MOST_TOKENS} tokens, got {max(expected)}: "
                    "shorten the text"
                )

    def choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        names = tuple(self.parts)
        part = part or names[-1]
        check_choice("part", part, names)
        labels = list(self.parts[part])
        check_index(len(labels), "layers", layer=layer)
        maps = self.parts[part][labels[layer]]
        check_index(len(maps), "heads", head=head)
        self.at = [names.index(part), int(layer), int(head)]
        self.chosen = maps[head]
        self.labels = [
            [short(token) for token in self.texts[side]] for side in self.sides[part]
        ]
        self.place = f"{part} attention, layer {labels[layer]}, head {head}"
        self.sentence = f"{self.title} {self._strongest()} ({self.place})."

    def show_picture(self) -> None:
        """Show the chosen map as a PNG; of long texts only some tokens are labeled."""
        queries, keys = (thinned(side) for side in self.labels)
        mask = self.chosen > 0
        attention_map(
            self.chosen, queries, keys, self.place, mask=mask, alt=self.sentence
        )

    def _strongest(self) -> str:
        codes = weight_codes(self.chosen)
        free = (codes > 0).sum(1, keepdims=True) > 1  # a single key gets all anyway
        if free.any():
            codes = np.where(free, codes, 0)
        q, k = np.unravel_index(codes.argmax(), codes.shape)
        weight = max(int(codes[q, k]) - 1, 0) / 240
        return (
            f"The strongest link goes from “{self.labels[0][q]}” to "
            f"“{self.labels[1][k]}”, weight {weight:.2f}"
        )


def check_total(*recordings: Maps) -> None:
    """Raise ValueError for more weights than a page can hold."""
    parts = [layers for maps in recordings for layers in maps.parts.values()]
    total = sum(weights.numel() for layers in parts for weights in layers.values())
    if total > MOST_WEIGHTS:
        raise ValueError(
            f"a view shows up to {MOST_WEIGHTS:,} weights, got {total:,}: shorten "
            "the text, or hand in fewer layers as {name: weights}"
        )


def attention_parts(recording: Any, crossed: bool) -> dict[str, dict[str, Tensor]]:
    """`parts` of `Maps`, in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    Raises as `layer_weights`, and ValueError for layers that do not fit together.
    """
    weights = layer_weights(recording)
    stems: dict[str, list[str]] = {}
    for layer in weights:
        stems.setdefault(NUMBER.sub("#", layer), []).append(layer)
    parts: dict[str, dict[str, Tensor]] = {}
    for stem, names in stems.items():
        part = _part(stem, len(stems) == 1, crossed)
        layers = [weights[name] for name in names]
        if part in parts or len({layer.shape for layer in layers}) > 1:
            raise ValueError(
                f"recording: the layers of {part} attention, {stem!r}, must have one "
                "name up to numbers and one shape; show them one by one as {name: "
                "weights}"
            )
        parts[part] = dict(zip(_layer_labels(names), layers, strict=True))
    return parts


def thinned(words: list[str]) -> list[str]:
    """At most some 40 of the words, evenly spaced; the others become empty."""
    step = 1 + len(words) // 40
    return [word if place % step == 0 else "" for place, word in enumerate(words)]


def _layer_labels(names: list[str]) -> list[str]:
    """One label per name, for names that are equal up to their numbers."""
    numbers = [NUMBER.findall(name) for name in names]
    varying = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if varying:
        return [".".join(parts) for parts in zip(*varying, strict=True)]
    return [row[-1] if row else "0" for row in numbers]  # a single layer


def _part(name: str, alone: bool, crossed: bool) -> str:
    if "cross" in name or "EncDecAttention" in name:  # the second is T5's name
        return "cross"
    if "decoder" in name and "encoder_attn" in name:  # BART's
        return "cross"
    if "encoder" in name:
        return "encoder"
    if crossed:
        return "cross" if alone else "decoder"
    return "self"
