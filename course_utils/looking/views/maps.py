"""Every attention map of one forward pass, with the right tokens on its axes.

Knows how attention layers are named and what they look at. Knows nothing of models:
a recording is handed in. Knows nothing of pages.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils.looking.plots import attention_map
from course_utils.looking.views.page import short, texts, weight_codes
from course_utils.shapes import check_choice, check_index, check_text, check_type, shown

MOST_TOKENS = 160
MOST_WEIGHTS = 2_400_000  # 12 layers of 12 heads over 128 tokens
NUMBER = re.compile("[0-9]+")


class Maps:
    """parts: {part: {layer label: weights "h q k"}}; sides: {part: (queries, keys)}.

    A part is "encoder", "decoder", "cross", or "self" where there is one text only. The
    label of a layer is the number in which its name differs from the others of its
    part, or several such numbers: "1.0" of "stage1.blocks.0".
    """

    def __init__(
        self,
        recording: Any,
        tokens: Iterable[str],
        source: Iterable[str] | None,
        title: str,
    ):
        """Arguments and errors as in `explorer.show_attention`."""
        self.tokens = texts(tokens, "tokens")
        self.source = None if source is None else texts(source, "source")
        check_text(title=title)
        self.title = title
        self.parts = _gather(weights_of(recording), self.source is not None)
        self.sides = {name: self._sides(name) for name in self.parts}
        self._check_sizes()

    def choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        if part == "":
            part = list(self.parts)[-1]
        check_choice("part", part, tuple(self.parts))
        layers = self.parts[part]
        check_index(len(layers), "layers", layer=layer)
        label = list(layers)[layer]
        check_index(len(layers[label]), "heads", head=head)
        self.at = [list(self.parts).index(part), int(layer), int(head)]
        self.chosen = layers[label][head]
        self.labels = [[short(token) for token in side] for side in self.sides[part]]
        self.place = f"{part} attention, layer {label}, head {head}"
        self.sentence = f"{self.title} {self._strongest()} ({self.place})."

    def show_picture(self) -> None:
        """Show the chosen map as a PNG; of long texts only some tokens are labeled."""
        queries, keys = (_thinned(side) for side in self.labels)
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

    def _sides(self, name: str) -> tuple[list[str], list[str]]:
        second = self.tokens if self.source is None else self.source
        return (
            second if name == "encoder" else self.tokens,
            second if name in ("encoder", "cross") else self.tokens,
        )

    def _check_sizes(self) -> None:
        total = 0
        for name, layers in self.parts.items():
            _, *expected = next(iter(layers.values())).shape
            given = [len(side) for side in self.sides[name]]
            if expected != given:
                raise ValueError(
                    f"tokens and source must fit the weights: {name} attention has "
                    f"{expected[0]} queries and {expected[1]} keys, got {given[0]} and "
                    f"{given[1]} tokens"
                )
            if max(expected) > MOST_TOKENS:
                raise ValueError(
                    f"a view shows up to {MOST_TOKENS} tokens, got {max(expected)}: "
                    "shorten the text"
                )
            total += sum(layer.numel() for layer in layers.values())
        if total > MOST_WEIGHTS:
            raise ValueError(
                f"a view shows up to {MOST_WEIGHTS:,} weights, got {total:,}: shorten "
                "the text, or hand in fewer layers as {name: weights}"
            )


def weights_of(recording: Any) -> dict[str, Tensor]:
    """The attention weights "1 h q k" by name, on the CPU and in float64.

    Raises TypeError for anything but a recording or {name: weights}, ValueError where
    there are none, or for weights of several texts or outside 0 to 1.
    """
    held = recording
    if callable(getattr(recording, "weights", None)):
        held = recording.weights()
    if isinstance(held, tuple | list):
        raise TypeError(
            "recording must be what `record` gave or a dict {name: weights}, got a "
            f"{type(held).__name__}; hand in {{f'layer.{{i}}': weights for i, weights "
            "in enumerate(attentions)}"
        )
    if not isinstance(held, Mapping):
        raise TypeError(
            "recording must be what `record` gave or a dict {name: weights}, got "
            f"{shown(held)}"
        )
    if not held:
        raise ValueError(
            "recording holds no attention weights: run the model inside `with "
            "record(model)`; a model of transformers gives its weights as "
            "outputs.attentions (output_attentions=True, attn_implementation='eager')"
        )
    return {name: _checked(name, weights) for name, weights in held.items()}


def _checked(name: Any, weights: Any) -> Tensor:
    if not isinstance(name, str):
        raise TypeError(f"recording: a layer name must be a str, got {shown(name)}")
    if isinstance(weights, np.ndarray):
        weights = torch.tensor(weights)
    what = f"recording: the weights of {name!r}"
    check_type(Tensor, **{what: weights})
    if weights.ndim != 4 or len(weights) != 1 or 0 in weights.shape:
        raise ValueError(
            f"{what} must be of one text, (1, head, query, key), got "
            f"{tuple(weights.shape)}; record one text at a time"
        )
    weights = weights.detach().cpu().double()
    weight_codes(weights, what)
    return weights


def _gather(weights: dict[str, Tensor], crossed: bool) -> dict[str, dict[str, Tensor]]:
    """Layers by part, both in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    """
    names: dict[str, list[str]] = {}
    for name in weights:
        names.setdefault(NUMBER.sub("#", name), []).append(name)
    parts = {}
    for stem, members in names.items():
        layers = [weights[name][0] for name in members]
        if len({tuple(layer.shape) for layer in layers}) > 1:
            raise ValueError(
                f"recording: the layers {stem!r} differ in shape; show them one by one"
            )
        part = _part_name(stem, len(names) == 1, crossed)
        if part in parts:
            raise ValueError(
                f"recording: {' and '.join(names)} cannot share a view; hand in one of "
                "them as {name: weights}"
            )
        parts[part] = dict(zip(_layer_labels(members), layers, strict=True))
    return parts


def _layer_labels(names: list[str]) -> list[str]:
    """One label per name, for names that are equal up to their numbers."""
    numbers = [NUMBER.findall(name) for name in names]
    varying = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if varying:
        return [".".join(parts) for parts in zip(*varying, strict=True)]
    return [found[-1] if found else "0" for found in numbers]  # a single layer


def _part_name(name: str, alone: bool, crossed: bool) -> str:
    if "cross" in name or (alone and crossed and "encoder" not in name):
        return "cross"
    if "encoder" in name:
        return "encoder"
    return "decoder" if crossed else "self"


def _thinned(words: list[str]) -> list[str]:
    """At most some 40 of the words, evenly spaced; the others become empty."""
    step = 1 + len(words) // 40
    return [word if place % step == 0 else "" for place, word in enumerate(words)]
