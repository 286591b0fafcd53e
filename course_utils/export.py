"""A LlamaLM as a folder that `transformers` opens: it writes the files.

Here stand the names that it gives to settings and weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from course_utils.checks import check_same, check_type
from course_utils.models import LlamaLM
from course_utils.tokenizer import Tokenizer
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
    check_type(LlamaLM, model=model)
    folder = Path(folder).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"folder must be new or empty, got {folder}")
    if tokenizer is not None:
        sizes = tokenizer.vocab_size, model.config.vocab_size
        check_same("tokenizer and model: vocab_size", *sizes)
    with _without_bars():
        to_transformers(model, tokenizer).save_pretrained(folder)
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


def to_transformers(model: LlamaLM, tokenizer: Tokenizer | None = None) -> Any:
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
    theirs.load_state_dict({their_name(name): weights[name] for name in weights})
    if tokenizer is not None:
        theirs.generation_config.update(
            bos_token_id=_beginning(model, tokenizer),
            max_new_tokens=min(256, model.config.max_length - 1),
        )
    return theirs


def their_name(name: str) -> str:
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
