"""Hand a trained LlamaLM to the rest of the field, and take one back.

Knows the names that `transformers` gives to files, settings and weights. Knows nothing
of training; does not need `transformers` itself.
"""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer

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


def export_llama(
    model: LlamaLM, folder: str | Path, tokenizer: Tokenizer | None = None
) -> None:
    """Write config.json and model.safetensors (and tokenizer.json) for `transformers`.

    The weights keep their precision. Compare logits after every export: a setting that
    is missing or misnamed loads silently as its default.
    """
    folder, config = Path(folder), model.config
    folder.mkdir(parents=True, exist_ok=True)
    settings = {theirs: getattr(config, ours) for theirs, ours in SETTINGS.items()}
    rope = {"rope_type": "default", "rope_theta": config.rope_base}  # since version 5
    settings |= {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "head_dim": config.d_model // config.num_heads,
        "attention_bias": False,
        "mlp_bias": False,
        "rope_parameters": rope,
        "torch_dtype": str(model.tokens.weight.dtype).removeprefix("torch."),
    }
    if tokenizer is not None:
        names = ("bos", "eos", "pad")
        settings |= {f"{n}_token_id": getattr(tokenizer, f"{n}_id") for n in names}
        path = folder / "tokenizer.json"
        tokenizer.save(path)  # theirs is the part of it without our roles
        backend = json.loads(path.read_text("utf-8"))["tokenizer"]
        path.write_text(json.dumps(backend, ensure_ascii=False), "utf-8")
    (folder / "config.json").write_text(json.dumps(settings, indent=1) + "\n")
    state, names = model.state_dict(), _names(config)
    tensors = {theirs: state[ours].cpu().contiguous() for ours, theirs in names.items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def import_llama(folder: str | Path) -> LlamaLM:
    """A LlamaLM from a folder in the layout of `transformers`; in eval mode.

    Raises ValueError for another kind of model, a scaled RoPE, or weights that do not
    fit the settings.
    """
    folder = Path(folder)
    settings = json.loads((folder / "config.json").read_text())
    rope = settings.get("rope_parameters") or {"rope_type": "default"}
    settings = {"rope_theta": rope.get("rope_theta")} | settings
    kind = settings["model_type"], rope["rope_type"]
    if kind != ("llama", "default") or settings["rope_theta"] is None:
        raise ValueError(f"{folder} must hold a llama with plain RoPE, it holds {kind}")
    given = {ours: settings[theirs] for theirs, ours in SETTINGS.items()}
    config = LlamaConfig(**given)
    tensors, names = load_file(folder / "model.safetensors"), _names(config)
    if strange := set(tensors) ^ set(names.values()):
        raise ValueError(f"{folder} does not fit its config: {sorted(strange)}")
    state: dict[str, Tensor] = {ours: tensors[name] for ours, name in names.items()}
    if config.tied:
        state["head.weight"] = state["tokens.weight"]
    model = LlamaLM(config).to(state["tokens.weight"].dtype)
    model.load_state_dict(state)
    return model.eval()


def _names(config: LlamaConfig) -> dict[str, str]:
    """Our name -> theirs, for every matrix that is stored: a tied one once."""
    names = {f"{o}.weight": f"{t}.weight" for o, t in OUTSIDE.items()}
    if config.tied:
        del names["head.weight"]
    for i in range(config.num_layers):
        for ours, theirs in INSIDE.items():
            names[f"blocks.{i}.{ours}.weight"] = f"model.layers.{i}.{theirs}.weight"
    return names
