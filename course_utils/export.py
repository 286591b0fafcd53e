"""A LlamaLM as a folder that `transformers` opens, and such a folder as a LlamaLM.

Knows the names that `transformers` gives to settings and weights; it writes and reads
the files. Knows nothing of training.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from course_utils.checks import check_same, explained
from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer, from_transformers
from course_utils.training.evaluation import evaluating

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
}
NAMES = {  # ours -> theirs; a block's names stand below "blocks.0", "model.layers.0"
    "tokens": "model.embed_tokens",
    "norm": "model.norm",
    "head": "lm_head",
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


@explained
def export_llama(
    model: LlamaLM,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    trained_on: str | None = None,
) -> None:
    """Write a folder that `transformers` opens: settings, weights and a model card.

    With a tokenizer also its files; `generate()` without a prompt then begins a text.
    The weights keep their type. trained_on: what the card says about the training data.
    """
    folder = Path(folder).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"folder must be new or empty, got {folder}")
    if tokenizer is not None:
        sizes = tokenizer.vocab_size, model.config.vocab_size
        check_same("tokenizer and model: vocab_size", *sizes)
    with _without_bars():
        _as_theirs(model, tokenizer).save_pretrained(folder)
    if tokenizer is not None:
        _their_tokenizer(tokenizer, model.config.max_length).save_pretrained(folder)
    count = sum(weight.numel() for weight in model.parameters())
    card = f"""---
library_name: transformers
pipeline_tag: text-generation
---

# {folder.name}

A LLaMA of {count:,} parameters from the course "From Attention to Stories".

Training data: {trained_on or "not named when this model was exported."}

    AutoModelForCausalLM.from_pretrained("{folder.name}")
"""
    (folder / "README.md").write_text(card, "utf-8")


def _as_theirs(model: LlamaLM, tokenizer: Tokenizer | None) -> Any:
    """The same model as a LlamaForCausalLM of `transformers`, on the CPU."""
    import transformers

    settings = {name: getattr(model.config, ours) for name, ours in SETTINGS.items()}
    if tokenizer is not None:
        for role in ("pad", "bos", "eos"):
            settings[f"{role}_token_id"] = getattr(tokenizer, f"{role}_id")
    rope = {"rope_type": "default", "rope_theta": float(model.config.rope_base)}
    config = transformers.LlamaConfig(**settings, rope_parameters=rope)
    with torch.random.fork_rng(devices=[]):  # the random weights are replaced
        theirs = transformers.LlamaForCausalLM(config).to(model.tokens.weight.dtype)
    weights = model.state_dict()
    theirs.load_state_dict({_their_name(name): weights[name] for name in weights})
    if tokenizer is not None:
        theirs.generation_config.update(
            bos_token_id=_beginning(model, tokenizer),
            max_new_tokens=min(256, model.config.max_length - 1),
        )
    return theirs


def _their_name(name: str) -> str:
    """ "blocks.0.attention.to_keys.weight" -> "model.layers.0.self_attn.k_proj…"."""
    path = name.removesuffix(".weight")
    if not path.startswith("blocks."):
        return f"{NAMES[path]}.weight"
    _, layer, inside = path.split(".", 2)
    return f"model.layers.{layer}.{NAMES[inside]}.weight"


def _beginning(model: LlamaLM, tokenizer: Tokenizer) -> int:
    """The token after which a text begins: eos after training with `packed_batches`,
    bos with `padded_batches`: the one that leaves the next token less uncertain.
    """
    ids = torch.tensor([[tokenizer.bos_id], [tokenizer.eos_id]])
    with evaluating(model), torch.no_grad():
        logits = model(ids.to(model.tokens.weight.device))[:, 0].float()
    entropies = torch.special.entr(logits.softmax(-1)).sum(-1)
    return int(ids[entropies.argmin().item()])


def _their_tokenizer(tokenizer: Tokenizer, longest: int) -> Any:
    import transformers

    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend,
        **{f"{role}_token": token for role, token in tokenizer.special.items()},
        split_special_tokens=True,  # "<eos>" inside a text is ordinary text
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        padding_side="left",  # a batch of texts is continued at their ends
        model_max_length=longest,
    )


@explained
def import_llama(folder: str | Path) -> tuple[LlamaLM, Tokenizer | None]:
    """A LlamaLM on the CPU, in eval mode, and its tokenizer, from a folder of the hub.

    `transformers` reads the files. The weights keep their type. Tokens: as in
    `from_transformers`; None for a folder without a tokenizer.

    Raises ValueError for another kind of model, and any setting that a LlamaLM does not
    have, such as a scaled RoPE.
    """
    import transformers

    folder = Path(folder)
    local = {"local_files_only": True}
    try:
        config = _our_config(transformers.AutoConfig.from_pretrained(folder, **local))
        with _without_bars():
            theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype="auto", output_loading_info=True, **local
            )
    except Exception as error:  # transformers raises errors of many types
        reason = str(error).strip().split("\n")[0][:200]
        raise ValueError(f"{folder} does not hold a plain LLaMA: {reason}") from error
    for kind in ("missing_keys", "unexpected_keys"):
        if report[kind]:
            raise ValueError(f"{folder}: {kind} of weights: {sorted(report[kind])[0]}")
    with torch.random.fork_rng(devices=[]):  # the random weights are replaced
        model = LlamaLM(config).to(theirs.dtype).eval()
    weights = theirs.state_dict()
    ours = {name: weights[_their_name(name)] for name in model.state_dict()}
    model.load_state_dict(ours)
    if not (folder / "tokenizer_config.json").is_file():
        return model, None
    auto = transformers.AutoTokenizer.from_pretrained(folder, **local)
    return model, from_transformers(auto, new_pad=False)


@contextmanager
def _without_bars() -> Iterator[None]:
    """No progress bar of transformers for what takes a moment."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _our_config(theirs: Any) -> LlamaConfig:
    """The LlamaConfig of their settings. Raises ValueError for what it cannot say."""
    rope = theirs.rope_parameters
    plain = {
        "model_type": (theirs.model_type, "llama"),
        "hidden_act": (theirs.hidden_act, "silu"),
        "head_dim": (theirs.head_dim, theirs.hidden_size // theirs.num_attention_heads),
        "attention_bias": (theirs.attention_bias, False),
        "mlp_bias": (theirs.mlp_bias, False),
        "rope_type": (rope.get("rope_type", "default"), "default"),
        "partial_rotary_factor": (rope.get("partial_rotary_factor", 1.0), 1.0),
        "quantization_config": (getattr(theirs, "quantization_config", None), None),
    }
    for name, (actual, expected) in plain.items():
        if actual != expected:
            raise ValueError(f"{name} must be {expected!r}, got {actual!r}")
    settings = {ours: getattr(theirs, name) for name, ours in SETTINGS.items()}
    return LlamaConfig(**settings, rope_base=float(rope["rope_theta"]))
