"""The attention weights of every layer, from whatever a model gave.

Knows recordings, the outputs of `transformers`, and dicts, lists and arrays of weights.
Knows nothing of models, tokens and pictures.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_utils.looking.recording import Recording
from course_utils.shapes import describe

# Where an output of transformers keeps weights, and how its layers are called here.
FIELDS = {
    "attentions": "layer",
    "encoder_attentions": "encoder",
    "decoder_attentions": "decoder",
    "cross_attentions": "cross",
}
ADVICE = (
    'load a model of transformers with attn_implementation="eager", run it with '
    "output_attentions=True, and hand in its output"
)


def layer_weights(recording: Any, name: str = "recording") -> dict[str, Tensor]:
    """Name of a layer -> its weights "h q k", on the CPU and in float64.

    recording: what `record` gave; the output of a `transformers` model; its
    `attentions`, a tuple with one tensor per layer; a dict {name: weights, or a list of
    them}; or the weights of one layer. Weights are tensors or NumPy arrays "h q k" or
    "1 h q k". Layers without a name are called "layer.0", "layer.1", …; those of an
    encoder-decoder "encoder.0", "decoder.0", "cross.0". A layer that is None, as a
    hybrid model gives for a layer without attention, is left out, and the others keep
    their numbers. `name` is used in messages.

    Raises TypeError for anything else. Raises ValueError where there are no weights,
    for weights of several texts, outside 0 to 1, or of each step of `generate`.
    """
    held = {}
    for layer, weights in _layers(recording, name):
        if layer in held:
            raise ValueError(f"{name} holds two layers called {layer!r}; rename one")
        if weights is not None:
            held[layer] = _checked(weights, f"{name}: the weights of {layer!r}")
    if held:
        return held
    if isinstance(recording, Recording) and recording:
        raise ValueError(
            f"{name} holds no attention weights: the model has no attention layer of "
            f"the course; {ADVICE}"
        )
    raise ValueError(
        f"{name} holds no attention weights: {ADVICE}; run a model of the course "
        "inside `with record(model)`"
    )


def _layers(recording: Any, name: str) -> list[tuple[str, Any]]:
    """Pairs (name of a layer, its weights or None), not yet checked."""
    if recording is None:
        return []
    if isinstance(recording, Recording):
        return list(recording.weights().items())
    if isinstance(recording, Tensor | np.ndarray):
        return [("layer.0", recording)]
    if isinstance(recording, tuple | list):
        return _numbered(recording, "layer", name)
    fields = _output_fields(recording)
    if fields:
        groups = {FIELDS[field]: layers for field, layers in fields.items()}
    elif isinstance(recording, Mapping):
        groups = recording
    else:
        raise TypeError(
            f"{name} must be what `record` gave, the output of a model of "
            "transformers, or weights as a tensor, an array, a list or a dict, got "
            f"{describe(recording)}"
        )
    layers = []
    for key, value in groups.items():
        if not isinstance(key, str):
            raise TypeError(f"{name}: a layer name must be a str, got {describe(key)}")
        if isinstance(value, tuple | list):
            layers += _numbered(value, key, name)
        else:
            layers.append((key, value))
    return layers


def _output_fields(recording: Any) -> dict[str, Any]:
    """What an output of transformers holds under the names of FIELDS, None included."""
    if isinstance(recording, Mapping):
        fields = {field: recording[field] for field in FIELDS if field in recording}
        if fields:
            return fields
    return {
        field: getattr(recording, field)
        for field in FIELDS
        if hasattr(recording, field)
    }


def _numbered(layers: Any, stem: str, name: str) -> list[tuple[str, Any]]:
    """The layers of a list, named by their places in it."""
    named = []
    for place, weights in enumerate(layers):
        if isinstance(weights, tuple | list):
            if any(isinstance(part, Tensor | np.ndarray) for part in weights):
                raise ValueError(
                    f"{name} holds weights for each step, as `generate` gives them: "
                    "run the model once more over the whole text, outputs.sequences "
                    "(as decoder_input_ids if it has an encoder), and hand in that "
                    "output"
                )
            if all(part is None for part in weights):
                weights = None
        named.append((f"{stem}.{place}", weights))
    return named


def _checked(weights: Any, what: str) -> Tensor:
    if isinstance(weights, np.ndarray):
        weights = _tensor(weights, what)
    if weights.is_complex():
        raise TypeError(f"{what} must be real numbers, got {weights.dtype}")
    if weights.ndim == 4 and len(weights) == 1:
        weights = weights[0]
    if weights.ndim != 3 or weights.numel() == 0:
        raise ValueError(
            f"{what} must be of one text, (head, query, key) or (1, head, query, key), "
            f"got {tuple(weights.shape)}; of a batch hand in one row, [layer[0] for "
            "layer in attentions]"
        )
    weights = weights.detach().cpu().double()
    outside = ~((weights >= 0) & (weights <= 1 + 1e-5))
    if outside.any():
        stray = weights[outside][0].item()
        dropout = "; dropout may do this: call model.eval()" if stray > 1 else ""
        raise ValueError(f"{what} must be from 0 to 1, got {stray:.6g}{dropout}")
    return weights


def _tensor(weights: np.ndarray, what: str) -> Tensor:
    if not np.iscomplexobj(weights):
        try:  # a copy: torch takes no read-only and no reversed arrays
            return torch.from_numpy(np.array(weights, dtype=np.float64, order="C"))
        except (TypeError, ValueError):
            pass
    raise TypeError(f"{what} must be real numbers, got an array of {weights.dtype}")
