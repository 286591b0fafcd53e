"""The attention weights of every layer, from whatever a model gave.

Knows recordings, the outputs of `transformers`, and dicts, lists and arrays of weights.
Knows nothing of models, tokens and pictures.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils.looking.recording import Recording
from course_utils.shapes import describe

# Where an output of transformers keeps weights, a tuple with one tensor per layer.
FIELDS = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")


def layer_weights(recording: Any) -> dict[str, Tensor]:
    """Name of a layer -> its weights "h q k", on the CPU and in float64.

    recording: what `record` gave; the output of a `transformers` model; its
    `attentions`, a tuple with one tensor per layer; a dict {name: weights}; or the
    weights of one layer. Weights are tensors or NumPy arrays "h q k" or "1 h q k".
    Layers without a name are called "layer.0", "layer.1", …; those of an output
    "attentions.0", "cross_attentions.0", … A layer that is None is left out.
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
    return weights


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
    if isinstance(weights, np.ndarray):  # a copy: torch takes no reversed arrays
        weights = torch.from_numpy(np.array(weights, order="C"))
    if not isinstance(weights, Tensor):
        raise TypeError(
            f"recording: the weights of {layer!r} must be a tensor or an array, got "
            f"{describe(weights)}; after `generate`, run the model over its text"
        )
    if weights.ndim == 4 and len(weights) == 1:
        weights = weights[0]
    if weights.ndim != 3:
        raise ValueError(
            f"recording: the weights of {layer!r} must be of one text, (head, query, "
            f"key) or (1, head, query, key), got {tuple(weights.shape)}"
        )
    return weights.detach().cpu().double()
