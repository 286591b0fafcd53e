"""The attention weights of one forward pass, whatever gave them, part by part.

Knows recordings, outputs of `transformers`, arrays, and how attention layers are named.
"""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils.checks import describe
from course_utils.recording import Recording

NUMBER = re.compile("[0-9]+")
# Where an output of transformers keeps weights, a tuple with one tensor per layer.
FIELDS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


def attention_parts(recording: Any, crossed: bool) -> dict[str, dict[str, Tensor]]:
    """The parts of one recording, in the order in which the model ran them.

    crossed: is there a second text? It tells what a lone attention layer looks at.
    """
    weights = {
        layer: _checked_weights(array, layer)
        for layer, array in _layers(recording).items()
        if array is not None
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
        part = _kind_of_attention(stem, len(stems) == 1, crossed)
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
        return {f"layer.{index}": array for index, array in enumerate(recording)}
    if not any(hasattr(recording, field) for field in FIELDS):
        return recording or {}
    return {
        f"{field}.{index}": array
        for field in FIELDS
        for index, array in enumerate(getattr(recording, field, None) or ())
    }


def _checked_weights(weights: Any, layer: str) -> Tensor:
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


def _layer_labels(names: list[str]) -> list[str]:
    """One label per name, for names that are equal up to their numbers."""
    numbers = [NUMBER.findall(name) for name in names]
    varying = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
    if varying:
        return [".".join(numbers) for numbers in zip(*varying, strict=True)]
    return [row[-1] if row else "0" for row in numbers]  # a single layer


def _kind_of_attention(name: str, is_only: bool, crossed: bool) -> str:
    of_bart = "decoder" in name and "encoder_attn" in name
    if of_bart or "cross" in name or "EncDecAttention" in name:  # the last is T5's
        return "cross"
    if "encoder" in name:
        return "encoder"
    if crossed:
        return "cross" if is_only else "decoder"
    return "self"
