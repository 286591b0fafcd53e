"""A LlamaLM as a folder that `transformers` opens, and such a folder as a LlamaLM.

Knows the names that `transformers` gives to settings and weights; it writes and reads
the files. Knows nothing of training.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM
from course_utils.tokenizer import ROLES, Tokenizer, from_backend

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
CARD = "README.md"
MADE_BY = 'exported by the course "From Attention to Stories"'  # known by an export
TOLERANCE = 1e-4  # of the largest logit: what rounding in another order may change
SAMPLES = ("Once upon a time, a cat said: “I'm tired!”", "Two  spaces,\n\nbàn ăn, 🙂")


# --- export --------------------------------------------------------------------------


def export_llama(
    model: LlamaLM,
    folder: str | Path,
    tokenizer: Tokenizer | None = None,
    *,
    begin_id: int | None = None,
    trained_on: str | None = None,
) -> None:
    """Write a folder that `transformers` opens: settings, weights and a model card.

    With a tokenizer also its files, and generation_config.json. The names of special
    tokens inside a text are ordinary text there too, nothing is added to a text, and
    `generate()` without a prompt begins a text. The weights keep their type.

    begin_id: the token after which a text begins: eos_id after a training with
    `packed_batches`, bos_id after one with `padded_batches`. None takes that one
    of the two after which the model predicts the next token with the lower entropy.
    trained_on: what the model card says about the training data.

    The folder is written beside its place, opened again by `transformers` and by
    `import_llama`, which must give the same logits, tokens and greedy text, and renamed
    at the end. An earlier export in its place, known by its card, is replaced.

    Raises ValueError for a tokenizer of another vocabulary size than the model's,
    weights that are not finite, or a folder that holds other files than an export, and
    RuntimeError if the written folder opens as something else. Nothing is left then.
    """
    vocab_size = model.config.vocab_size
    if tokenizer is not None and tokenizer.vocab_size != vocab_size:
        raise ValueError(
            f"tokenizer must have the vocabulary of the model, vocab_size="
            f"{vocab_size}, got {tokenizer.vocab_size} tokens"
        )
    for name, weight in model.state_dict().items():
        if not weight.isfinite().all():
            raise ValueError(f"model must have finite weights, {name!r} has others")
    folder = Path(folder).resolve()
    if folder.exists() and any(folder.iterdir()) and not _is_export(folder):
        raise ValueError(f"folder must be new or an earlier export, got {folder}")
    theirs = _as_theirs(model)
    if tokenizer is not None:
        if begin_id is None:
            begin_id = _more_certain(model, tokenizer.bos_id, tokenizer.eos_id)
        _set_generation(theirs, tokenizer, begin_id, model.config.max_length)
    with _written_beside(folder) as made, _quiet():
        theirs.save_pretrained(made)
        if tokenizer is not None:
            _their_tokenizer(tokenizer, model.config.max_length).save_pretrained(made)
        card = _card(model, folder.name, tokenizer is not None, trained_on)
        (made / CARD).write_text(card, "utf-8")
        _check_reading(model, tokenizer, made)


def _is_export(folder: Path) -> bool:
    card = folder / CARD
    return card.is_file() and MADE_BY in card.read_text("utf-8", errors="replace")


@contextmanager
def _written_beside(folder: Path) -> Iterator[Path]:
    """A new folder that takes the place of `folder` unless an error comes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=folder.parent) as work:
        made = Path(work) / "new"
        made.mkdir()
        yield made
        if folder.exists():
            folder.rename(Path(work) / "old")
        made.rename(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar and no advice of transformers."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _as_theirs(model: LlamaLM) -> Any:
    """The same model as a LlamaForCausalLM of `transformers`, on the CPU."""
    import transformers

    settings = {
        theirs: getattr(model.config, ours) for theirs, ours in SETTINGS.items()
    }
    rope = {"rope_type": "default", "rope_theta": float(model.config.rope_base)}
    config = transformers.LlamaConfig(**settings, rope_parameters=rope)
    with torch.device("meta"):
        theirs = transformers.LlamaForCausalLM(config)
    state = {
        _their_name(name): weight.detach().to("cpu", copy=True)
        for name, weight in model.state_dict().items()
    }
    theirs.load_state_dict(state, assign=True, strict=False)
    theirs.tie_weights()
    theirs.model.rotary_emb = type(theirs.model.rotary_emb)(config)
    return theirs.eval()


def _their_name(name: str) -> str:
    """ "blocks.0.attention.to_keys.weight" -> "model.layers.0.self_attn.k_proj…"."""
    path = name.removesuffix(".weight")
    if not path.startswith("blocks."):
        return f"{NAMES[path]}.weight"
    _, layer, inside = path.split(".", 2)
    return f"model.layers.{layer}.{NAMES[inside]}.weight"


def _more_certain(model: LlamaLM, *ids: int) -> int:
    """The id after which the next token has the lowest entropy."""
    with torch.no_grad():
        device = model.tokens.weight.device
        logits = model(torch.tensor(ids, device=device)[:, None])[:, 0].float()
    entropies = torch.special.entr(logits.softmax(-1)).sum(-1)
    return ids[int(entropies.argmin())]


def _set_generation(
    theirs: Any, tokenizer: Tokenizer, begin: int, longest: int
) -> None:
    """What `generate` does when it is told nothing else; it calls `begin` bos."""
    theirs.generation_config.update(
        bos_token_id=int(begin),
        eos_token_id=tokenizer.eos_id,
        pad_token_id=tokenizer.pad_id,
        # As many as in a pipeline of transformers, but no more than fit.
        max_new_tokens=min(256, max(1, longest - 1)),
    )
    for role in ("pad", "bos", "eos"):
        setattr(theirs.config, f"{role}_token_id", getattr(tokenizer, f"{role}_id"))


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


def _card(
    model: LlamaLM, name: str, has_tokenizer: bool, trained_on: str | None
) -> str:
    """The model card: what can be read off the model, and what the caller says."""
    config = model.config
    count = sum(weight.numel() for weight in model.parameters())
    open_it = f'AutoModelForCausalLM.from_pretrained("{name}")'
    if has_tokenizer:
        open_it = f'pipeline("text-generation", model="{name}")("")'
    return f"""---
library_name: transformers
pipeline_tag: text-generation
---

# {name}

A language model of the LLaMA architecture, {MADE_BY}:
{count:,} parameters, {config.num_layers} layers of width {config.d_model},
{config.num_heads} query heads over {config.num_kv_heads} key-value heads,
{config.vocab_size:,} tokens, texts of up to {config.max_length:,} tokens.

Training data: {trained_on or "not named when this model was exported."}

```python
from transformers import AutoModelForCausalLM, pipeline

{open_it}
```
"""


def _check_reading(model: LlamaLM, tokenizer: Tokenizer | None, folder: Path) -> None:
    """Raise RuntimeError unless the folder holds this model and this tokenizer."""
    import transformers

    back, words = import_llama(folder)
    single = _copy(model.config, model.state_dict()).float()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    ).eval()
    length = min(64, model.config.max_length)
    ids = torch.arange(length, device="cpu")[None] * 7 % model.config.vocab_size
    with torch.no_grad():
        expected = single(ids)
        gaps = [theirs(ids).logits - expected, back.float()(ids) - expected]
    gap = max(float(one.abs().max()) for one in gaps)
    if not gap <= TOLERANCE * float(expected.abs().max()):
        raise RuntimeError(f"the export opens as another model: logits differ by {gap}")
    if tokenizer is None:
        return
    there = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    for text in (*SAMPLES, " ".join(tokenizer.special.values())):
        ids = tokenizer.encode(text)
        same = words.encode(text) == ids == there.encode(text, add_special_tokens=False)
        back = there.decode(ids, skip_special_tokens=True)
        if not same or back != tokenizer.decode(ids):
            raise RuntimeError(f"transformers encodes {text!r} in another way")
    if model.config.max_length > 1:
        most = min(8, model.config.max_length - 1)
        with torch.no_grad():
            ids = theirs.generate(max_new_tokens=most, do_sample=False)
            logits = single(ids[:, :-1])
        chosen = logits.gather(-1, ids[:, 1:, None])[..., 0]
        missed = float((logits.amax(-1) - chosen).max())
        if missed > TOLERANCE * float(logits.abs().max()):
            raise RuntimeError("transformers writes another greedy text")


# --- import --------------------------------------------------------------------------


def import_llama(folder: str | Path) -> tuple[LlamaLM, Tokenizer | None]:
    """A LlamaLM on the CPU, in eval mode, and its tokenizer, from a folder of the hub.

    `transformers` reads the files. The weights keep their type. The special tokens are
    those that the folder names; a missing bos or unk is eos, a missing pad is unk.
    None for a folder without a tokenizer.

    Raises ValueError for a folder that `transformers` cannot open, another kind of
    model, and any setting that a LlamaLM does not have, such as a scaled RoPE.
    """
    import transformers

    folder = Path(folder)
    options = {"local_files_only": True}
    try:
        settings = transformers.AutoConfig.from_pretrained(folder, **options)
        config = _our_config(settings)
        with _quiet():
            theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype="auto", output_loading_info=True, **options
            )
    except Exception as error:  # transformers raises errors of many types
        reason = str(error).strip().split("\n")[0][:200]
        raise ValueError(f"{folder} does not hold a plain LLaMA: {reason}") from error
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if report.get(kind):
            raise ValueError(f"{folder}: {kind} of weights: {sorted(report[kind])[0]}")
    weights = theirs.state_dict()
    with torch.device("meta"):
        names = LlamaLM(config).state_dict()
    model = _copy(config, {name: weights[_their_name(name)] for name in names})
    if not (folder / "tokenizer_config.json").is_file():
        return model, None
    auto = transformers.AutoTokenizer.from_pretrained(folder, **options)
    tokenizer = _our_tokenizer(auto)
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{folder}: the tokenizer has ids up to {tokenizer.vocab_size - 1}, but "
            f"the model has vocab_size={config.vocab_size}"
        )
    return model, tokenizer


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
    for name, (given, expected) in plain.items():
        if given != expected:
            raise ValueError(f"{name} must be {expected!r}, got {given!r}")
    settings = {ours: getattr(theirs, name) for name, ours in SETTINGS.items()}
    return LlamaConfig(**settings, rope_base=float(rope["rope_theta"]))


def _our_tokenizer(auto: Any) -> Tokenizer:
    end = auto.eos_token
    if end is None:
        raise ValueError("the tokenizer must name an eos_token")
    special = {"bos": auto.bos_token or end, "eos": end, "unk": auto.unk_token or end}
    pad = auto.pad_token
    usable = pad is not None and pad not in (special["bos"], end)
    special["pad"] = pad if usable else special["unk"]
    return from_backend(auto.backend_tokenizer, {role: special[role] for role in ROLES})


def _copy(config: LlamaConfig, state: dict[str, Tensor]) -> LlamaLM:
    """A LlamaLM on the CPU with a copy of these weights, without random numbers."""
    with torch.device("meta"):
        model = LlamaLM(replace(config, dropout=0.0))
    kinds = {weight.dtype for weight in state.values()}
    widest = max(kinds, key=lambda kind: torch.finfo(kind).bits)
    model = model.to(widest).to_empty(device="cpu")
    if config.tied:
        model.head.weight = model.tokens.weight
    model.load_state_dict(state)
    return model.eval()
