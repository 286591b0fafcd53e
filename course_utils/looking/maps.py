"""Every attention map of one forward pass, with the right tokens on its axes.

Knows how attention layers are named and what they look at. Knows nothing of models:
the weights are handed in. Knows nothing of pages.
"""

import re
from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from attention_views import short, weight_codes
from course_utils.looking.attentions import layer_weights
from course_utils.looking.plots import attention_map
from course_utils.looking.token_texts import token_texts

MOST_TOKENS = 160
MOST_WEIGHTS = 2_400_000  # 12 layers of 12 heads over 128 tokens
NUMBER = re.compile("[0-9]+")
NAMES = ("recording", "tokens", "source")


class Maps:
    """parts: {part: {layer label: weights "h q k"}}, the layers of a part of one shape;
    kinds: {part: kind}; texts: lists of tokens; sides: {part: (queries, keys)}, places
    in `texts`.

    A kind is "encoder", "decoder", "cross", or "self" where there is one text only. It
    names its part, unless its layers differ in their number of heads: "self, 4 heads".
    The label of a layer is the number in which its name differs from the others of its
    kind, or several such numbers: "1.0" of "stage1.blocks.0".
    """

    def __init__(
        self,
        recording: Any,
        tokens: Any,
        source: Any,
        title: str,
        names: tuple[str, str, str] = NAMES,
    ):
        """Arguments and errors as in `views.show_attention`.

        names: what recording, tokens and source are called in messages.
        """
        self.names = names
        self.tokens = token_texts(tokens, names[1])
        self.source = None if source is None else token_texts(source, names[2])
        self.title = title
        self.kinds, self.parts = attention_parts(
            recording, self.source is not None, names[0]
        )
        if self.source is None and "cross" in self.kinds.values():
            raise ValueError(
                f"{names[2]} must be the tokens that cross attention looks at, got None"
            )
        self.texts = [self.tokens, self.source or []]
        self.sides = {part: self._sides(part) for part in self.parts}
        self._check_sizes()

    def choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        if part == "":
            part = list(self.parts)[-1]
        if part not in self.parts:
            raise ValueError(
                f"part must be one of {', '.join(self.parts)}; got {part!r}"
            )
        layers = self.parts[part]
        if not 0 <= layer < len(layers):
            raise ValueError(f"layer must be in [0, layers={len(layers)}), got {layer}")
        label = list(layers)[layer]
        heads = len(layers[label])
        if not 0 <= head < heads:
            raise ValueError(f"head must be in [0, heads={heads}), got {head}")
        self.at = [list(self.parts).index(part), int(layer), int(head)]
        self.chosen = layers[label][head]
        self.labels = [
            [short(token) for token in self.texts[side]] for side in self.sides[part]
        ]
        self.place = f"{self.kinds[part]} attention, layer {label}, head {head}"
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

    def _sides(self, part: str) -> tuple[int, int]:
        """Which of the texts queries and keys are, as places in `texts`."""
        second = 0 if self.source is None else 1
        kind = self.kinds[part]
        queries = second if kind == "encoder" else 0
        keys = second if kind in ("encoder", "cross") else 0
        layers = list(self.parts[part].values())
        count = layers[0].shape[1]
        text = self.texts[keys]
        # A cache holds the keys of earlier steps: the queries are the last tokens.
        behind_cache = kind != "cross" and count < layers[0].shape[2] == len(text)
        if behind_cache and not any(_looks_ahead(layer) for layer in layers):
            self.texts.append(text[-count:])
            queries = len(self.texts) - 1
        return queries, keys

    def _check_sizes(self) -> None:
        for part, layers in self.parts.items():
            _, *expected = next(iter(layers.values())).shape
            given = [len(self.texts[side]) for side in self.sides[part]]
            if expected != given:
                raise ValueError(
                    f"{self.names[1]} and {self.names[2]} must fit the weights: "
                    f"{self.kinds[part]} attention has {expected[0]} queries and "
                    f"{expected[1]} keys, got {given[0]} and {given[1]} tokens"
                )
            if max(expected) > MOST_TOKENS:
                raise ValueError(
                    f"a view shows up to {MOST_TOKENS} tokens, got {max(expected)}: "
                    "shorten the text"
                )


def check_total(*recordings: Maps) -> None:
    """Raise ValueError for more weights than a page can hold."""
    total = 0
    for maps in recordings:
        for layers in maps.parts.values():
            total += sum(layer.numel() for layer in layers.values())
    if total > MOST_WEIGHTS:
        raise ValueError(
            f"a view shows up to {MOST_WEIGHTS:,} weights, got {total:,}: shorten "
            "the text, or hand in fewer layers as {name: weights}"
        )


def attention_parts(
    recording: Any, crossed: bool, name: str = "recording"
) -> tuple[dict[str, str], dict[str, dict[str, Tensor]]]:
    """`kinds` and `parts` of `Maps`, in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    Raises as `layer_weights`, and ValueError for layers that do not fit together.
    """
    weights = layer_weights(recording, name)
    stems: dict[str, list[str]] = {}
    for layer in weights:
        stems.setdefault(NUMBER.sub("#", layer), []).append(layer)
    kinds: dict[str, str] = {}
    parts: dict[str, dict[str, Tensor]] = {}
    for stem, members in stems.items():
        kind = _kind(stem, len(stems) == 1, crossed)
        if kind in kinds.values():
            raise ValueError(
                f"{name}: {' and '.join(stems)} cannot share a view; hand in one of "
                "them as {name: weights}"
            )
        layers = [weights[member] for member in members]
        layers = _same_keys(layers, kind, f"{name}: the layers {stem!r}")
        labelled = dict(zip(_layer_labels(members), layers, strict=True))
        for part, same in _by_heads(kind, labelled).items():
            kinds[part] = kind
            parts[part] = same
    return kinds, parts


def thinned(words: list[str]) -> list[str]:
    """At most some 40 of the words, evenly spaced; the others become empty."""
    step = 1 + len(words) // 40
    return [word if place % step == 0 else "" for place, word in enumerate(words)]


def _same_keys(layers: list[Tensor], kind: str, what: str) -> list[Tensor]:
    """The layers with as many keys each: a key that a window dropped has weight 0.

    A cache drops the oldest keys of a layer with a window, so that it has the last.
    """
    sizes = sorted({tuple(layer.shape[1:]) for layer in layers})
    if len(sizes) == 1:
        return layers
    as_many_queries = len({queries for queries, _ in sizes}) == 1
    windows = kind != "cross" and not any(_looks_ahead(layer) for layer in layers)
    if not (as_many_queries and windows):
        raise ValueError(
            f"{what} differ in shape, (query, key) is {sizes[0]} and {sizes[-1]}, and "
            "not because a window dropped the oldest keys; show them one by one"
        )
    most = max(keys for _, keys in sizes)
    return [F.pad(layer, (most - layer.shape[2], 0)) for layer in layers]


def _looks_ahead(layer: Tensor) -> bool:
    """Whether a query has weight on a later key, if the last of both are the same."""
    _, queries, keys = layer.shape
    return bool(layer.triu(keys - queries + 1).any())


def _by_heads(kind: str, layers: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The layers in parts with one number of heads each."""
    counts = {len(layer) for layer in layers.values()}
    if len(counts) == 1:
        return {kind: layers}
    parts: dict[str, dict[str, Tensor]] = {}
    for label, layer in layers.items():
        heads = "1 head" if len(layer) == 1 else f"{len(layer)} heads"
        parts.setdefault(f"{kind}, {heads}", {})[label] = layer
    return parts


def _layer_labels(names: list[str]) -> list[str]:
    """One label per name, for names that are equal up to their numbers."""
    numbers = [NUMBER.findall(name) for name in names]
    varying = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if varying:
        return [".".join(parts) for parts in zip(*varying, strict=True)]
    return [found[-1] if found else "0" for found in numbers]  # a single layer


def _kind(name: str, alone: bool, crossed: bool) -> str:
    if "cross" in name or "EncDecAttention" in name:  # the second is T5's name
        return "cross"
    if "decoder" in name and "encoder_attn" in name:  # BART's
        return "cross"
    if "encoder" in name:
        return "encoder"
    if crossed:
        return "cross" if alone else "decoder"
    return "self"
