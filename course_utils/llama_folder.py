"""Translate between a LLaMA as the Hugging Face hub has it and a LlamaLM.

Knows the names that `transformers` gives to settings and weights, and the files that
weights come in. Knows nothing of text, and does not need `transformers` itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.shapes import (
    check_divisible,
    check_greater,
    check_positive,
    check_range,
    check_type,
    shown,
)
from course_utils.tokenizer_folder import read_settings

SETTINGS = {  # theirs -> ours
    "vocab_size": "vocab_size",
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "max_position_embeddings": "max_length",
    "rms_norm_eps": "norm_eps",
    "tie_word_embeddings": "tied",
    "rope_theta": "rope_base",
}
REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
OUTSIDE = {
    "tokens": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
}
INSIDE = {
    "attention_norm": "input_layernorm",
    "attention.to_queries": "self_attn.q_proj",
    "attention.to_keys": "self_attn.k_proj",
    "attention.to_values": "self_attn.v_proj",
    "attention.to_output": "self_attn.o_proj",
    "feedforward_norm": "post_attention_layernorm",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.up": "mlp.up_proj",
    "feedforward.down": "mlp.down_proj",
}
LONGEST = 2**24  # positions: beyond any model, and the tables would fill the memory
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
PICKLED = "pytorch_model.bin"
# Buffers that early folders store; the angles of RoPE follow from rope_theta.
ANGLES = ".rotary_emb.inv_freq"


# --- settings ------------------------------------------------------------------------


def settings_of(config: LlamaConfig) -> dict[str, Any]:
    """What config.json says of a LlamaLM, for versions 4 and 5 of `transformers`.

    Raises TypeError unless config is a LlamaConfig.
    """
    check_type(LlamaConfig, config=config)
    settings = {theirs: getattr(config, ours) for theirs, ours in SETTINGS.items()}
    for name, value in settings.items():
        if isinstance(value, np.generic):  # which JSON cannot hold
            settings[name] = value.item()
    return settings | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "head_dim": config.d_model // config.num_heads,
        "attention_bias": False,
        "mlp_bias": False,
        # Version 5 of transformers reads this, version 4 the `rope_theta` above.
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
    }


def config_of(settings: dict[str, Any]) -> LlamaConfig:
    """The LlamaConfig of the settings in a config.json.

    Settings that are missing have the values that `transformers.LlamaConfig` gives them
    (version 5.23): num_key_value_heads is num_attention_heads, max_position_embeddings
    2048, rms_norm_eps 1e-6, tie_word_embeddings false, rope_theta 10,000, hidden_act
    "silu", and no biases.

    Raises TypeError or ValueError for another kind of model, a size that is missing, a
    scaled RoPE, or any other setting that a LlamaLM does not have.
    """
    check_type(dict, settings=settings)
    if settings.get("model_type") != "llama":
        came = shown(settings.get("model_type"))
        raise ValueError(f"model_type must be 'llama', got {came}")
    for name in REQUIRED:
        if name not in settings:
            raise ValueError(f"{name} is missing")
        check_positive(**{name: settings[name]})
    width = settings["hidden_size"]
    heads = settings["num_attention_heads"]
    check_divisible("hidden_size", width, "num_attention_heads", heads)
    if width // heads % 2:
        ratio = "hidden_size / num_attention_heads"
        raise ValueError(f"{ratio} must be even (rotary pairs), got {width // heads}")
    _check_fixed(settings, "hidden_act", "silu")
    _check_fixed(settings, "head_dim", width // heads)
    _check_fixed(settings, "attention_bias", False)
    _check_fixed(settings, "mlp_bias", False)
    _check_fixed(settings, "quantization_config", None)
    length = settings.get("max_position_embeddings", 2048)
    check_positive(max_position_embeddings=length)
    check_range(1, LONGEST, max_position_embeddings=length)
    kv_heads = settings.get("num_key_value_heads")
    if kv_heads is None:
        kv_heads = heads
    check_positive(num_key_value_heads=kv_heads)
    check_divisible("num_attention_heads", heads, "num_key_value_heads", kv_heads)
    tied = settings.get("tie_word_embeddings", False)
    check_type(bool, tie_word_embeddings=tied)
    eps = settings.get("rms_norm_eps", 1e-6)
    check_greater(0, rms_norm_eps=eps)
    theta = _rope_theta(settings)
    check_greater(1, rope_theta=theta)
    known = {
        "max_position_embeddings": length,
        "num_key_value_heads": kv_heads,
        "tie_word_embeddings": tied,
        "rms_norm_eps": float(eps),
        "rope_theta": float(theta),
    }
    given = {ours: (settings | known)[theirs] for theirs, ours in SETTINGS.items()}
    return LlamaConfig(**given)


def _check_fixed(settings: dict[str, Any], name: str, expected: object) -> None:
    """Raise unless a setting is missing, null or what a LlamaLM always has."""
    value = settings.get(name)
    if value is not None and value != expected:
        raise ValueError(f"{name} must be {json.dumps(expected)}, got {shown(value)}")


def _rope_theta(settings: dict[str, Any]) -> object:
    """The base of RoPE. Raises ValueError for a scaled or a partial one.

    Version 4 of transformers writes `rope_scaling`, which is null for plain RoPE, and
    version 5 `rope_parameters`. The first takes precedence, as in version 5.
    """
    _check_fixed(settings, "partial_rotary_factor", 1.0)
    chosen = {}
    for name in ("rope_parameters", "rope_scaling"):
        rope = settings.get(name)
        if rope is None:
            continue
        if not isinstance(rope, dict):
            raise ValueError(f"{name} must be an object or null, got {shown(rope)}")
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            raise ValueError(f"{name}: rope_type must be 'default', got {shown(kind)}")
        _check_fixed(rope, "partial_rotary_factor", 1.0)
        chosen = rope or chosen
    return chosen.get("rope_theta", settings.get("rope_theta", 10_000.0))


# --- weights -------------------------------------------------------------------------


def tensors_of(model: LlamaLM) -> dict[str, Tensor]:
    """The weights by the names that a folder has, on the CPU; a tied one only once.

    Raises TypeError unless model is a LlamaLM.
    """
    check_type(LlamaLM, model=model)
    state = model.state_dict()
    names = _names(model.config)
    return {theirs: state[ours].cpu().contiguous() for ours, theirs in names}


def read_state(folder: str | Path, config: LlamaConfig) -> dict[str, Tensor]:
    """The weights in a folder, as `LlamaLM(config).load_state_dict` takes them.

    They are read from model.safetensors, else from pytorch_model.bin (tensors only, no
    code is run), each whole or in several files with an index. Each keeps its type. A
    head stored beside a tied embedding must equal it. The angles of RoPE that early
    folders store are not read.

    Raises TypeError for an argument of the wrong type, ValueError for a folder without
    weights, files that are damaged, and tensors that do not fit the config.
    """
    check_type(str | Path, folder=folder)
    check_type(LlamaConfig, config=config)
    file, tensors = _read_weights(Path(folder))
    if config.tied:
        _tie(tensors, file)
    state = {}
    for ours, theirs in _names(config):
        if theirs not in tensors:
            raise ValueError(f"{file}: the tensor {theirs!r} is missing")
        state[ours] = tensors.pop(theirs)
    if tensors:
        raise ValueError(f"{file}: unexpected tensor {_first(tensors)}")
    _check_shapes(config, state, file)
    if config.tied:
        state["head.weight"] = state["tokens.weight"]
    return state


def _read_weights(folder: Path) -> tuple[str, dict[str, Tensor]]:
    """The file that was found, and the tensors by their names in it."""
    for name, read in ((WEIGHTS, _read_safetensors), (PICKLED, _read_pickled)):
        index = f"{name}.index.json"
        if (folder / name).is_file():
            return name, _checked_tensors(read(folder / name), name)
        if (folder / index).is_file():
            tensors = {}
            for shard, listed in _shards(folder, index).items():
                found = _checked_tensors(read(folder / shard), shard)
                for tensor in sorted(listed ^ found.keys()):
                    where = "is missing" if tensor in listed else f"is not in {index}"
                    raise ValueError(f"{shard}: the tensor {tensor!r} {where}")
                tensors |= found
            return index, tensors
    raise ValueError(
        f"folder must contain {WEIGHTS} or {PICKLED}, or the index of one in several "
        f"files, got {shown(str(folder))}"
    )


def _shards(folder: Path, index: str) -> dict[str, set[str]]:
    """The files that an index names, and the tensors that are in each."""
    places = read_settings(folder / index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{index}: weight_map must be an object, got {shown(places)}")
    shards = {}
    for tensor, shard in places.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise ValueError(
                f"{index}: weight_map must name files of the folder, got {shown(shard)}"
            )
        if not (folder / shard).is_file():
            raise ValueError(f"{index}: the file {shown(shard)} is missing")
        if not tensor.endswith(ANGLES):
            shards.setdefault(shard, set()).add(tensor)
    return shards


def _read_safetensors(path: Path) -> dict[str, Any]:
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path.name} is not a valid safetensors file: {error}"
        ) from None


def _read_pickled(path: Path) -> dict[str, Any]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a type that depends on where the file is damaged
        raise ValueError(
            f"{path.name} is not a file that torch.load reads with weights_only=True"
        ) from error
    if not isinstance(tensors, dict):
        raise ValueError(f"{path.name} must hold a dict, got {shown(tensors)}")
    return tensors


def _checked_tensors(tensors: dict[str, Any], file: str) -> dict[str, Tensor]:
    """The tensors without the angles of RoPE, each of a type that can be kept."""
    kept = {}
    for name, tensor in tensors.items():
        if str(name).endswith(ANGLES):
            continue
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{file}: {name!r} must be a tensor, got {shown(tensor)}")
        if tensor.dtype not in FLOATS:
            raise ValueError(
                f"{file}: {name!r} must be of a floating-point type of 16 bits or "
                f"more, got {tensor.dtype}"
            )
        kept[name] = tensor
    return kept


def _tie(tensors: dict[str, Tensor], file: str) -> None:
    """Leave only the embedding of an embedding and a head that are one matrix."""
    tokens = f"{OUTSIDE['tokens']}.weight"
    head = tensors.pop(f"{OUTSIDE['head']}.weight", None)
    if head is None:
        return
    matrix = tensors.setdefault(tokens, head)
    if head.shape != matrix.shape or not (head == matrix).all():
        raise ValueError(
            f"{file}: 'lm_head.weight' must equal {tokens!r} where "
            f"tie_word_embeddings is true, they differ"
        )


def _check_shapes(config: LlamaConfig, state: dict[str, Tensor], file: str) -> None:
    with torch.device("meta"):  # shapes without memory
        expected = LlamaLM(config).state_dict()
    for ours, theirs in _names(config):
        wanted = tuple(expected[ours].shape)
        shape = tuple(state[ours].shape)
        if shape != wanted:
            raise ValueError(
                f"{file}: {theirs!r} must have shape {wanted}, got {shape}"
            )


def _first(tensors: dict[str, Tensor]) -> str:
    name = min(tensors)
    return (
        f"{name!r} and {len(tensors) - 1} more"
        if tensors.keys() - {name}
        else f"{name!r}"
    )


def _names(config: LlamaConfig) -> Iterator[tuple[str, str]]:
    """(our name, their name) of every stored matrix; a tied one is stored once."""
    for ours, theirs in OUTSIDE.items():
        if ours != "head" or not config.tied:
            yield f"{ours}.weight", f"{theirs}.weight"
    for layer in range(config.num_layers):
        for ours, theirs in INSIDE.items():
            yield (
                f"blocks.{layer}.{ours}.weight",
                f"model.layers.{layer}.{theirs}.weight",
            )
