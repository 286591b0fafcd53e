"""Write a LlamaLM as a folder that `transformers` opens, and read such a folder.

Knows the names that `transformers` gives to files, settings and weights. Knows nothing
of training, and does not need `transformers` itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.shapes import (
    check_divisible,
    check_greater,
    check_positive,
    check_type,
    shown,
)
from course_utils.text.tokenizer import Tokenizer

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
    "max_position_embeddings",
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
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CONFIG = "config.json"
WEIGHTS = "model.safetensors"


# --- export --------------------------------------------------------------------------


def export_llama(
    model: LlamaLM, folder: str | Path, tokenizer: Tokenizer | None = None
) -> None:
    """Write config.json and model.safetensors for `transformers`.

    With a tokenizer also tokenizer.json and tokenizer_config.json, so that
    `AutoTokenizer` knows the four special tokens, and treats their names inside a text
    as ordinary text. The weights keep their type. Compare logits after every export: a
    setting that is missing or misnamed is silently replaced by its default.

    Raises TypeError unless model is a LlamaLM and tokenizer a Tokenizer, ValueError for
    a tokenizer whose vocabulary is not that of the model, or a folder that is a file;
    nothing is written then.
    """
    check_type(LlamaLM, model=model)
    check_type(str | Path, folder=folder)
    if tokenizer is not None:
        check_type(Tokenizer, tokenizer=tokenizer)
        if tokenizer.vocab_size != model.config.vocab_size:
            raise ValueError(
                f"tokenizer must have the vocabulary of the model, vocab_size="
                f"{model.config.vocab_size}, got {tokenizer.vocab_size} tokens"
            )
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must not be a file, got {shown(str(folder))}")
    folder.mkdir(parents=True, exist_ok=True)
    settings = _settings(model)
    if tokenizer is not None:
        settings["pad_token_id"] = tokenizer.pad_id
        settings["bos_token_id"] = tokenizer.bos_id
        settings["eos_token_id"] = tokenizer.eos_id
        _write_tokenizer(tokenizer, folder, model.config.max_length)
    _write_json(settings, folder / CONFIG)
    state = model.state_dict()
    names = _names(model.config)
    tensors = {theirs: state[ours].cpu().contiguous() for ours, theirs in names}
    save_file(tensors, folder / WEIGHTS, {"format": "pt"})


def _settings(model: LlamaLM) -> dict[str, Any]:
    config = model.config
    settings = {theirs: getattr(config, ours) for theirs, ours in SETTINGS.items()}
    return settings | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "head_dim": config.d_model // config.num_heads,
        "attention_bias": False,
        "mlp_bias": False,
        # Version 5 of transformers reads this, version 4 the `rope_theta` above.
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_base},
        "torch_dtype": str(model.tokens.weight.dtype).removeprefix("torch."),
    }


def _write_tokenizer(tokenizer: Tokenizer, folder: Path, max_length: int) -> None:
    path = folder / "tokenizer.json"
    tokenizer.save(path)  # their file is one part of ours
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content["tokenizer"], ensure_ascii=False), "utf-8")
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{role}_token": token for role, token in content["special"].items()},
        "split_special_tokens": True,  # "<eos>" inside a text is ordinary text
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_length,
    }
    _write_json(settings, folder / "tokenizer_config.json")


def _write_json(content: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", "utf-8")


# --- import --------------------------------------------------------------------------


def import_llama(folder: str | Path) -> LlamaLM:
    """A LlamaLM from a folder in the layout of `transformers`; in eval mode.

    The weights keep their type. Settings that are missing have the values that
    `transformers.LlamaConfig` gives them (version 5.23): num_key_value_heads is
    num_attention_heads, rms_norm_eps 1e-6, tie_word_embeddings false, rope_theta
    10,000, hidden_act "silu", and no biases.

    Raises ValueError for a folder without config.json or model.safetensors, another
    kind of model, a scaled RoPE or any other setting that a LlamaLM does not have, and
    for weights that do not fit the settings.
    """
    check_type(str | Path, folder=folder)
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise ValueError(f"folder must contain {name}, {_missing(folder, name)}")
    config = _read_config(folder / CONFIG)
    tensors = _read_weights(folder / WEIGHTS)
    state = {}
    for ours, theirs in _names(config):
        if theirs not in tensors:
            raise ValueError(f"{WEIGHTS}: the tensor {theirs!r} is missing")
        state[ours] = tensors.pop(theirs)
    if tensors:
        raise ValueError(f"{WEIGHTS}: unexpected tensor {_first(tensors)}")
    if config.tied:
        state["head.weight"] = state["tokens.weight"]
    _check_shapes(config, state)
    model = LlamaLM(config).to(state["tokens.weight"].dtype)
    model.load_state_dict(state)
    return model.eval()


def _missing(folder: Path, name: str) -> str:
    if (folder / f"{name}.index.json").is_file():
        return "and weights in several files are not supported"
    return f"got {shown(str(folder))}"


def _first(tensors: dict[str, Tensor]) -> str:
    name = min(tensors)
    return (
        f"{name!r} and {len(tensors) - 1} more"
        if tensors.keys() - {name}
        else f"{name!r}"
    )


def _read_config(path: Path) -> LlamaConfig:
    try:
        settings = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{CONFIG} is not valid JSON: {error}") from None
    if not isinstance(settings, dict):
        raise ValueError(f"{CONFIG} must hold an object, got {shown(settings)}")
    try:
        return _config(settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG}: {error}") from None


def _config(settings: dict[str, Any]) -> LlamaConfig:
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


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{WEIGHTS} is not a valid safetensors file: {error}"
        ) from None
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise ValueError(
                f"{WEIGHTS}: {name!r} must be of a floating-point type of 16 bits or "
                f"more, got {tensor.dtype}"
            )
    return tensors


def _check_shapes(config: LlamaConfig, state: dict[str, Tensor]) -> None:
    with torch.device("meta"):  # shapes without memory
        expected = LlamaLM(config).state_dict()
    for ours, theirs in _names(config):
        wanted = tuple(expected[ours].shape)
        shape = tuple(state[ours].shape)
        if shape != wanted:
            raise ValueError(
                f"{WEIGHTS}: {theirs!r} must have shape {wanted}, got {shape}"
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
