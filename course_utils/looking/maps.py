"""Every attention map of one forward pass, with the right tokens on its axes.

Knows recordings, outputs of `transformers`, arrays of weights, and how attention layers
are named. Knows nothing of pages.
"""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attention_views import short, weight_codes
from attention_views.explorer import same_layers
from attention_views.page import LEVELS
from course_utils.looking.recording import Recording
from course_utils.looking.token_texts import token_texts
from course_utils.shapes import check_choice, check_index, describe
from lesson_plots.plots import attention_map, heatmap

MOST_TOKENS = 160
MOST_WEIGHTS = 2_400_000  # 12 layers of 12 heads over 128 tokens
NUMBER = re.compile("[0-9]+")
# Part -> its queries and keys: 0 for the tokens, 1 for the source.
SIDES = {"encoder": (1, 1), "decoder": (0, 0), "cross": (0, 1), "self": (0, 0)}
# Where an output of transformers keeps weights, a tuple with one tensor per layer.
FIELDS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


class Maps:
    """The maps of one recording, or of two that are compared, and one that is chosen.

    recordings: for each {part: {layer label: weights "h q k"}}; texts: the tokens and
    those of the source; sides: {part: (queries, keys)}, places in `texts`; at: part,
    layer and head that are chosen, as indices; sentence: title and finding.

    A part is "encoder", "decoder", "cross", or "self" where there is one text only. The
    label of a layer is the number, or numbers, in which names of its part differ.
    """

    def __init__(
        self, recordings: list, tokens: Any, source: Any, title: str, at: tuple
    ):
        """at: part, layer and head; the others and errors as in `views`."""
        alone = source is None
        self.texts = [token_texts(tokens)]
        self.texts.append([] if alone else token_texts(source, "source"))
        self.recordings = [attention_parts(one, not alone) for one in recordings]
        self.sides = dict.fromkeys(SIDES, (0, 0)) if alone else SIDES
        self._check_tokens(alone)
        same_layers(*self.recordings)
        self._choose(*at)
        self.sentence = f"{title} {self._finding()} ({self.place})."

    def _check_tokens(self, alone: bool) -> None:
        parts = self.recordings[0]
        if alone and "cross" in parts:
            raise ValueError(
                "source must be the tokens that cross attention looks at, got None"
            )
        for part, layers in parts.items():
            _, queries, keys = next(iter(layers.values())).shape
            q, k = (len(self.texts[side]) for side in self.sides[part])
            if (queries, keys) != (q, k):
                raise ValueError(
                    f"tokens and source must fit the weights: {part} attention has "
                    f"{queries} queries and {keys} keys, got {q} and {k} tokens"
                )
            if max(q, k) > MOST_TOKENS:
                most = f"a view shows up to {MOST_TOKENS} tokens, got {max(q, k)}"
                raise ValueError(f"{most}: shorten the text")

    def _choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        names = tuple(self.recordings[0])
        part = part or names[-1]
        check_choice("part", part, names)
        labels = list(self.recordings[0][part])
        check_index(len(labels), "layers", layer=layer)
        label = labels[layer]
        check_index(len(self.recordings[0][part][label]), "heads", head=head)
        self.at = [names.index(part), int(layer), int(head)]
        self.chosen = [one[part][label][head] for one in self.recordings]
        self.labels = [
            [short(token) for token in self.texts[side]] for side in self.sides[part]
        ]
        self.place = f"{part} attention, layer {label}, head {head}"

    def check_total(self) -> None:
        """Raise ValueError for more weights than a page can hold."""
        parts = [layers for one in self.recordings for layers in one.values()]
        total = sum(weights.numel() for layers in parts for weights in layers.values())
        if total > MOST_WEIGHTS:
            raise ValueError(
                f"a view shows up to {MOST_WEIGHTS:,} weights, got {total:,}: shorten "
                "the text, or hand in fewer layers as {name: weights}"
            )

    def show_picture(self) -> None:
        """Show the chosen map, or what changed in it, as a PNG."""
        queries, keys = (_thinned(side) for side in self.labels)
        if len(self.chosen) == 1:
            seen = self.chosen[0]
            attention_map(
                seen, queries, keys, self.place, mask=seen > 0, alt=self.sentence
            )
            return
        before, after = self._levels()
        changed = {"after − before": (after - before) / LEVELS}
        axes = ("query position", "key position")
        mask = (self.chosen[0] > 0) | (self.chosen[1] > 0)
        heatmap(changed, axes, queries, keys, signed=True, mask=mask, alt=self.sentence)

    def _levels(self) -> list[np.ndarray]:
        """The chosen weights, rounded, as integers from 0 to LEVELS."""
        return [(weight_codes(chosen) - 1).clip(0) for chosen in self.chosen]

    def _finding(self) -> str:
        """Where the strongest link is, or the largest change."""
        first, *others = self._levels()
        if others:
            size, begins = np.abs(others[0] - first), "The largest change is"
            if not size.any():
                return "Nothing changed"
        else:
            size, begins = first, "The strongest link goes"
            free = (weight_codes(self.chosen[0]) > 0).sum(1, keepdims=True) > 1
            if free.any():  # a single key gets all anyway
                size = np.where(free, first, -1)
        q, k = np.unravel_index(size.argmax(), size.shape)
        found = f"{begins} from “{self.labels[0][q]}” to “{self.labels[1][k]}”"
        weights = [f"{levels[q, k] / LEVELS:.2f}" for levels in (first, *others)]
        if others:
            return f"{found}: before {weights[0]}, after {weights[1]}"
        return f"{found}, weight {weights[0]}"


def attention_parts(recording: Any, crossed: bool) -> dict[str, dict[str, Tensor]]:
    """The parts of one recording, in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    """
    weights = {
        layer: _of_one_text(given, layer)
        for layer, given in _layers(recording).items()
        if given is not None
    }
    if not weights:
        raise ValueError(
            "recording holds no attention weights: a model of transformers needs "
            'attn_implementation="eager" and output_attentions=True, one of the course '
            "`with record(model)`"
        )
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


def _layers(recording: Any) -> dict[str, Any]:
    """Name of a layer -> its weights or None, not yet checked."""
    if isinstance(recording, Recording):
        return recording.weights()
    if isinstance(recording, Tensor | np.ndarray):
        recording = [recording]
    if isinstance(recording, tuple | list):
        return {f"layer.{place}": given for place, given in enumerate(recording)}
    if not any(hasattr(recording, field) for field in FIELDS):
        return recording or {}
    return {
        f"{field}.{place}": given
        for field in FIELDS
        for place, given in enumerate(getattr(recording, field, None) or ())
    }


def _of_one_text(weights: Any, layer: str) -> Tensor:
    """Weights "h q k" or "1 h q k" as "h q k", on the CPU and in float64."""
    what = f"recording: the weights of {layer!r} must be"
    if isinstance(weights, np.ndarray):  # a copy: torch takes no reversed arrays
        weights = torch.from_numpy(np.array(weights, order="C"))
    if not isinstance(weights, Tensor):
        raise TypeError(
            f"{what} a tensor or an array, got {describe(weights)}; after `generate`, "
            "run the model over its text"
        )
    if weights.ndim == 4 and len(weights) == 1:
        weights = weights[0]
    if weights.ndim != 3:
        raise ValueError(
            f"{what} of one text, (head, query, key) or (1, head, query, key), got "
            f"{tuple(weights.shape)}"
        )
    weights = weights.detach().cpu().double()
    over_keys, over_queries = weights.sum(-1), weights.sum(-2)
    if (over_keys > 1.01).any() and ((over_queries - 1).abs() < 0.01).all():
        raise ValueError(f"{what} (head, query, key); here each key's weights sum to 1")
    return weights


def _thinned(words: list[str]) -> list[str]:
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
    of_bart = "decoder" in name and "encoder_attn" in name
    if of_bart or "cross" in name or "EncDecAttention" in name:  # the last is T5's
        return "cross"
    if "encoder" in name:
        return "encoder"
    if crossed:
        return "cross" if alone else "decoder"
    return "self"
