"""Every attention map of one forward pass, with the right tokens on its axes.

Knows how attention layers are named and what they look at. Knows nothing of models:
a recording is handed in. Knows nothing of pages.
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from course_utils.plots import attention_map
from course_utils.views.page import short, texts, weight_codes

MOST_TOKENS, MOST_WEIGHTS = 160, 2_400_000  # 12 layers of 12 heads over 128 tokens


class Maps:
    """parts: {part: {layer: weights "h q k"}}; sides: {part: (queries, keys)}.

    A part is "encoder", "decoder", "cross", or "self" where there is one text only.
    """

    def __init__(
        self,
        recording: Any,
        tokens: Iterable[str],
        source: Iterable[str] | None,
        title: str,
    ):
        """Arguments and errors as in `explorer.show_attention`."""
        weights = recording.weights() if hasattr(recording, "weights") else recording
        self.tokens = texts(tokens, "tokens")
        self.source = None if source is None else texts(source, "source")
        if not title.strip():
            raise ValueError("title must say in a sentence what is shown, it is empty")
        self.title = title
        self.parts = _gather(weights, self.source is not None)
        self.sides = {name: self._sides(name) for name in self.parts}
        self._check()

    def choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        part = part or list(self.parts)[-1]
        if part not in self.parts:
            raise ValueError(
                f"part must be one of {', '.join(self.parts)}, got {part!r}"
            )
        maps = list(self.parts[part].values())
        asked = (("layer", layer, len(maps)), ("head", head, len(maps[0])))
        for name, given, count in asked:
            if not 0 <= given < count:
                raise ValueError(f"{name} must be from 0 to {count - 1}, got {given}")
        self.at = [list(self.parts).index(part), layer, head]
        self.chosen = maps[layer][head].detach().cpu().double()
        self.labels = [[short(token) for token in side] for side in self.sides[part]]
        self.place = f"{part} attention, layer {layer}, head {head}"
        self.sentence = f"{self.title} {self._strongest()} ({self.place})."

    def show_picture(self) -> None:
        """The chosen map as a PNG. Of long texts only some tokens are labeled."""
        thin = [list(side) for side in self.labels]
        for side in thin:
            step = 1 + len(side) // 40
            side[:] = [word if i % step == 0 else "" for i, word in enumerate(side)]
        mask = self.chosen > 0
        attention_map(self.chosen, *thin, self.sentence, self.place, mask=mask)

    def _strongest(self) -> str:
        codes = weight_codes(self.chosen)
        free = (codes > 0).sum(1, keepdims=True) > 1  # a single key gets all anyway
        codes *= free | ~free.any()
        q, k = np.unravel_index(codes.argmax(), codes.shape)
        weight = max(int(codes[q, k]) - 1, 0) / 240
        return (
            f"The strongest link goes from “{self.labels[0][q]}” to "
            f"“{self.labels[1][k]}”, weight {weight:.2f}"
        )

    def _sides(self, name: str) -> tuple[list, list]:
        second = self.tokens if self.source is None else self.source
        return (
            second if name == "encoder" else self.tokens,
            second if name in ("encoder", "cross") else self.tokens,
        )

    def _check(self) -> None:
        total = 0
        for name, layers in self.parts.items():
            _, *wanted = next(iter(layers.values())).shape
            given = [len(side) for side in self.sides[name]]
            if wanted != given:
                raise ValueError(
                    f"{name} attention has {wanted[0]} queries and {wanted[1]} keys, "
                    f"so it needs as many tokens; got {given[0]} and {given[1]}"
                )
            if max(wanted) > MOST_TOKENS:
                raise ValueError(
                    f"a view shows up to {MOST_TOKENS} tokens, got {max(wanted)}: "
                    "cut the text"
                )
            total += sum(layer.numel() for layer in layers.values())
        if total > MOST_WEIGHTS:
            raise ValueError(
                f"a view holds up to {MOST_WEIGHTS:,} weights, got {total:,}: cut the "
                "text, or hand in fewer layers as {name: weights}"
            )


def _gather(weights: dict[str, Tensor], crossed: bool) -> dict[str, dict]:
    """Layers by part, both in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    """
    found: dict[str, dict] = {}
    for name, layer in weights.items():
        if layer.ndim != 4 or layer.shape[0] != 1:
            raise ValueError(
                f"weights of {name!r} must be of one text, (1, head, query, key): "
                f"got the shape {tuple(layer.shape)}; record one text at a time"
            )
        number = re.search(r"\d+", name)
        part = found.setdefault(re.sub(r"\d+", "", name), {})
        part[number[0] if number else str(len(part))] = layer[0]
    if not found:
        raise ValueError("recording holds no attention weights: did the model run?")
    named = {}
    for name, layers in found.items():
        if len({tuple(layer.shape) for layer in layers.values()}) > 1:
            raise ValueError(f"layers of {name!r} differ in shape: show them apart")
        named[_part_name(name, len(found) == 1, crossed)] = layers
    if len(named) < len(found):
        raise ValueError(f"parts of one kind cannot share a view: {', '.join(found)}")
    return named


def _part_name(name: str, alone: bool, crossed: bool) -> str:
    if "cross" in name or (alone and crossed and "encoder" not in name):
        return "cross"
    if "encoder" in name:
        return "encoder"
    return "decoder" if crossed else "self"
