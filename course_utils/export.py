"""Write a LlamaLM as a folder that `transformers` opens, and read such a folder.

Knows which files such a folder holds. Knows nothing of training, and does not need
`transformers` itself.
"""

from functools import reduce
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from course_utils.config import LlamaConfig
from course_utils.llama_folder import (
    CONFIG,
    WEIGHTS,
    config_of,
    read_state,
    settings_of,
    tensors_of,
)
from course_utils.models import LlamaLM
from course_utils.shapes import check_type, shown
from course_utils.text.tokenizer import Tokenizer
from course_utils.text.tokenizer_folder import (
    TOKENIZER,
    has_tokenizer,
    read_settings,
    read_tokenizer,
    write_settings,
    write_tokenizer,
)


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
    kind = str(model.tokens.weight.dtype).removeprefix("torch.")
    settings = settings_of(model.config) | {"torch_dtype": kind}
    if tokenizer is not None:
        settings["pad_token_id"] = tokenizer.pad_id
        settings["bos_token_id"] = tokenizer.bos_id
        settings["eos_token_id"] = tokenizer.eos_id
        write_tokenizer(tokenizer, folder, model.config.max_length)
    write_settings(settings, folder / CONFIG)
    save_file(tensors_of(model), folder / WEIGHTS, {"format": "pt"})


def _filled(config: LlamaConfig, state: dict[str, Tensor]) -> LlamaLM:
    """A LlamaLM on the CPU with a copy of these weights, in the widest of their types.

    No random numbers are drawn.
    """
    widest = reduce(torch.promote_types, {weight.dtype for weight in state.values()})
    with torch.device("meta"):
        model = LlamaLM(config)
    model = model.to(widest).to_empty(device="cpu")
    if config.tied:
        model.head.weight = model.tokens.weight
    model.load_state_dict(state)
    return model.eval()


def import_llama(folder: str | Path) -> tuple[LlamaLM, Tokenizer | None]:
    """A LlamaLM on the CPU, in eval mode, and its tokenizer, from a folder of the hub.

    Settings: those of a plain LLaMA (see `llama_folder.config_of`). Weights: from
    model.safetensors or pytorch_model.bin, whole or in several files (see
    `llama_folder.read_state`); they keep their type, and where types are mixed the
    model has the widest. Tokenizer: from tokenizer.json (see
    `tokenizer_folder.read_tokenizer`), None for a folder without one.

    Raises TypeError unless folder is a string or a path. Raises ValueError for a folder
    without config.json or weights, another kind of model, a scaled RoPE or any other
    setting that a LlamaLM does not have, for weights that do not fit the settings, and
    for a tokenizer that cannot be read or that has more ids than the model.
    """
    check_type(str | Path, folder=folder)
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise ValueError(f"folder must contain {CONFIG}, got {shown(str(folder))}")
    settings = read_settings(folder / CONFIG)
    try:
        config = config_of(settings)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG}: {error}") from None
    tokenizer = read_tokenizer(folder) if has_tokenizer(folder) else None
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"{TOKENIZER} has ids up to {tokenizer.vocab_size - 1}, but {CONFIG} says "
            f"vocab_size={config.vocab_size}"
        )
    return _filled(config, read_state(folder, config)), tokenizer
