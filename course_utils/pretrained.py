"""The small models that ship with the course, and folders with a model of its kinds.

Knows the kinds of models and three files. Knows nothing of training: the shipped models
are made by `tools/train_shipped.py`.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_file
from torch import nn

from course_utils import config as configs
from course_utils import models
from course_utils.checks import check_choice
from course_utils.tokenizer import Tokenizer

FOLDER = Path(__file__).parent / "weights"
SHIPPED = ("tinystories", "stories", "gpt", "translator", "spanish", "senses")
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
KINDS = {
    "LlamaLM": (models.LlamaLM, configs.LlamaConfig),
    "DecoderLM": (models.DecoderLM, configs.DecoderConfig),
    "Classifier": (models.Classifier, configs.ClassifierConfig),
    "EncoderDecoder": (models.EncoderDecoder, configs.EncoderDecoderConfig),
}


def save(
    model: nn.Module,
    tokenizer: Tokenizer,
    folder: str | Path,
    dtype: torch.dtype | None = None,
) -> None:
    """Write config.json, tokenizer.json and model.safetensors, for `load`.

    dtype: the type in which the weights are stored; None keeps the type of each.
    """
    kind = type(model).__name__
    check_choice("kind of model", kind, tuple(KINDS))
    for name, size in vars(model.config).items():
        if name.endswith("vocab_size") and size != tokenizer.vocab_size:
            raise ValueError(
                f"tokenizer must have the vocabulary of the model, {name}={size}, got "
                f"{tokenizer.vocab_size} tokens"
            )
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config: Any = model.config
    content = {"kind": kind, "config": asdict(config)}
    (folder / CONFIG).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    tokenizer.save(folder / TOKENIZER)
    tensors = {  # a shared matrix is stored once
        name: weight.detach().to("cpu", dtype).contiguous()
        for name, weight in model.named_parameters()
    }
    save_file(tensors, folder / WEIGHTS)


def load(name: str | Path) -> tuple[nn.Module, Tokenizer]:
    """A shipped model by name, or from a folder that `save` wrote; in eval mode.

    The weights have PyTorch's default type, whatever the type in which they are stored.
    """
    folder = Path(name)
    if str(name) in SHIPPED:
        if (folder / CONFIG).is_file():
            here = (
                f"load('./{name}') opens the folder; rename it to get the shipped one"
            )
            raise ValueError(f"{name!r} is a shipped model and a folder here: {here}")
        folder = FOLDER / name
    for file in (CONFIG, TOKENIZER, WEIGHTS):
        if not (folder / file).is_file():
            raise ValueError(
                f"name must be one of {', '.join(SHIPPED)}, or a folder with a saved "
                f"model; got {str(name)!r}, which has no {file}"
            )
    try:
        content = json.loads((folder / CONFIG).read_text("utf-8"))
        model_class, config_class = KINDS[content["kind"]]
        fields = {
            key: configs.StackConfig(**value) if isinstance(value, dict) else value
            for key, value in content["config"].items()
        }
        with torch.random.fork_rng(devices=[]):  # the random weights are replaced
            model = model_class(config_class(**fields))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        known = ", ".join(KINDS)
        raise ValueError(
            f"{CONFIG} must hold a kind ({known}) and its config, got {error!r}"
        ) from None
    try:
        load_model(model, folder / WEIGHTS)
    except (RuntimeError, SafetensorError) as error:
        reason = str(error).strip().split("\n")[-1].strip()[:200]
        raise ValueError(f"{WEIGHTS} is not valid for {CONFIG}: {reason}") from None
    return model.eval(), Tokenizer.load(folder / TOKENIZER)
