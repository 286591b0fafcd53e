"""The small models that ship with the course: load one, or train it again.

Knows which model was trained on what, and how. Knows nothing of notebooks.

    python -m course_utils.pretrained tinystories --data stories.txt --out folder
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save_file
from torch import nn

from course_utils import config as configs
from course_utils import models
from course_utils.data.batches import (
    labelled_batches,
    packed_batches,
    padded_batches,
    pair_batches,
)
from course_utils.data.hub import load_pairs, load_texts
from course_utils.shapes import check_integer, check_positive, check_type, shown
from course_utils.tokenizer import Tokenizer, train_bpe, train_words
from course_utils.training.loop import History, train
from course_utils.training.losses import class_loss, next_token_loss, translation_loss
from known_worlds.senses import labels, usage

FOLDER = Path(__file__).parent / "weights"
CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
WEIGHTS = "model.safetensors"
SENSES_BATCH = 64
KINDS = {
    "LlamaLM": (models.LlamaLM, configs.LlamaConfig),
    "DecoderLM": (models.DecoderLM, configs.DecoderConfig),
    "Classifier": (models.Classifier, configs.ClassifierConfig),
    "EncoderDecoder": (models.EncoderDecoder, configs.EncoderDecoderConfig),
}


@dataclass
class Recipe:
    """What one training needs: a new model, its tokenizer, batches, and a config."""

    model: nn.Module
    tokenizer: Tokenizer
    batches: Callable
    config: configs.TrainConfig
    loss: Callable = next_token_loss

    def run(self, checkpoints: str | Path | None = None, **watch) -> History:
        """Train the model and return the history of the run.

        checkpoints: a folder for the state of the run, written every 200 steps; a run
        that was stopped continues from it. watch: arguments of `train`, such
        as evaluate and evaluate_every. Raises as `train`.
        """
        config = self.config
        if checkpoints is not None:
            config = replace(config, checkpoint_every=200)
            watch["checkpoints"] = checkpoints
        return train(self.model, self.batches, config, loss=self.loss, **watch)


def _muon(
    steps: int, learning_rate: float = 4e-3, label_smoothing: float = 0.0
) -> configs.TrainConfig:
    return configs.TrainConfig(
        steps=steps,
        learning_rate=learning_rate,
        label_smoothing=label_smoothing,
        optimizer="muon",
    )


def tinystories(
    data: str = "roneneldan/TinyStories", steps: int = 3000, limit: int | None = None
) -> Recipe:
    """The language model of the TinyStories: 3.7 million parameters.

    data and limit: as in `data.hub.load_texts`. Raises as `load_texts`, and TypeError
    or ValueError for steps below 1 or texts too short for one batch.
    """
    check_positive(steps=steps)  # before any data are loaded
    texts = load_texts(data, limit=limit)
    tokenizer = train_bpe(texts, 2048)
    torch.manual_seed(0)
    shape = configs.LlamaConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=256,
        num_heads=4,
        num_layers=4,
        d_ff=688,
        max_length=320,
    )
    batches = packed_batches(
        tokenizer.encode_batch(texts), batch_size=16, length=320, special=tokenizer
    )
    config = configs.TrainConfig(
        steps=steps,
        learning_rate=6e-3,
        warmup_steps=min(100, steps),
        schedule="linear",
        optimizer="muon",
    )
    return Recipe(models.LlamaLM(shape), tokenizer, batches, config)


def stories(
    data: str = "stories", steps: int = 6000, limit: int | None = 20_000
) -> Recipe:
    """The language model of the story world, whose lowest possible loss is known.

    Its embeddings are initialised with std 1, and the output matrix is not tied to
    them. With small initial embeddings the component that all names share grows faster
    than the differences between names, and the model learns much later to copy a name.

    data and limit: as in `data.hub.load_texts`. Raises as `load_texts`, and TypeError
    or ValueError for steps below 1 or too few texts for one batch.
    """
    check_positive(steps=steps)  # before any data are loaded
    texts = load_texts(data, limit=limit)
    tokenizer = train_words(texts)
    torch.manual_seed(0)
    shape = configs.LlamaConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=128,
        num_heads=4,
        num_layers=4,
        d_ff=384,
        tied=False,
    )
    model = models.LlamaLM(shape)
    nn.init.normal_(model.tokens.weight)
    batches = padded_batches(
        tokenizer.encode_batch(texts), batch_size=8, max_length=256, special=tokenizer
    )
    return Recipe(model, tokenizer, batches, _muon(steps, 6e-3))


def translator(
    data: str = "phrases", steps: int = 2000, limit: int | None = 60_000
) -> Recipe:
    """The translator from English to Spanish, trained on the phrase world.

    data and limit: as in `data.hub.load_pairs`. Raises as `load_pairs`, and TypeError
    or ValueError for steps below 1 or too few pairs for one batch.
    """
    check_positive(steps=steps)  # before any data are loaded
    pairs = load_pairs(data, limit=limit)
    tokenizer = train_words([text for pair in pairs for text in pair])
    torch.manual_seed(0)
    stack = configs.StackConfig(
        d_model=128, num_heads=4, num_layers=3, d_ff=512, max_length=48
    )
    shape = configs.EncoderDecoderConfig(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        encoder=stack,
        decoder=stack,
        share_weights=True,
    )
    model = models.EncoderDecoder(shape)
    ids = [(tokenizer.encode(one), tokenizer.encode(other)) for one, other in pairs]
    batches = pair_batches(ids, batch_size=64, max_length=48, special=tokenizer)
    config = _muon(steps, label_smoothing=0.1)
    return Recipe(model, tokenizer, batches, config, translation_loss)


def senses(data: str = "senses", steps: int = 700, limit: int | None = 8000) -> Recipe:
    """The classifier of the sense world: which sense a word has in its sentence.

    data: "senses" only. limit: how many sentences to train on, at least one batch.
    Raises TypeError or ValueError for other data, steps below 1 or a smaller limit.
    """
    check_positive(steps=steps)
    if data != "senses":
        raise ValueError(f"data must be 'senses', got {shown(data)}")
    check_integer(SENSES_BATCH, limit=limit)
    usages = [usage(index) for index in range(limit)]
    tokenizer = train_words([one.text for one in usages])
    torch.manual_seed(0)
    stack = configs.StackConfig(
        d_model=64, num_heads=4, num_layers=2, d_ff=128, max_length=32
    )
    size = configs.ClassifierConfig(
        vocab_size=tokenizer.vocab_size, num_classes=len(labels()), stack=stack
    )
    model = models.Classifier(size)
    rows = [(tokenizer.encode(one.text), one.position, one.label) for one in usages]
    batches = labelled_batches(
        rows, batch_size=SENSES_BATCH, max_length=32, special=tokenizer
    )
    config = configs.TrainConfig(
        steps=steps, learning_rate=3e-3, warmup_steps=min(100, steps)
    )
    return Recipe(model, tokenizer, batches, config, class_loss)


RECIPES = {one.__name__: one for one in (tinystories, stories, translator, senses)}


def save(
    model: nn.Module,
    tokenizer: Tokenizer,
    folder: str | Path,
    dtype: torch.dtype | None = None,
) -> None:
    """Write config.json, tokenizer.json and model.safetensors, for `load`.

    dtype: the type in which the weights are stored; None keeps the type of each. The
    command above stores the shipped models in torch.bfloat16, which halves their size
    and rounds every weight to 8 significant bits.

    Raises TypeError for a model that is not one of this package, another tokenizer or
    a dtype that is not floating point, ValueError for a tokenizer whose vocabulary is
    not that of the model, or a folder that is a file; nothing is written then.
    """
    kind = type(model).__name__
    if not any(type(model) is model_class for model_class, _ in KINDS.values()):
        known = ", ".join(KINDS)
        raise TypeError(f"model must be one of {known}; got {shown(model)}")
    check_type(Tokenizer, tokenizer=tokenizer)
    for name, size in vars(model.config).items():
        if name.endswith("vocab_size") and size != tokenizer.vocab_size:
            raise ValueError(
                f"tokenizer must have the vocabulary of the model, {name}={size}, got "
                f"{tokenizer.vocab_size} tokens"
            )
    check_type(str | Path, folder=folder)
    if dtype is not None:
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype must be a torch.dtype, got {shown(dtype)}")
        if not dtype.is_floating_point:
            raise TypeError(f"dtype must be a floating-point type, got {dtype}")
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"folder must not be a file, got {shown(str(folder))}")
    folder.mkdir(parents=True, exist_ok=True)
    content = {"kind": kind, "config": asdict(model.config)}
    (folder / CONFIG).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    tokenizer.save(folder / TOKENIZER)
    state = model.state_dict()
    tensors = {}
    for names in _names_of_weights(model):  # a shared matrix is stored once
        tensors[names[0]] = state[names[0]].detach().to("cpu", dtype).contiguous()
    save_file(tensors, folder / WEIGHTS)


def _names_of_weights(model: nn.Module) -> list[list[str]]:
    """The names of each parameter; one that several modules share has several."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        names.setdefault(weight, []).append(name)
    return list(names.values())


def load(name: str | Path) -> tuple[nn.Module, Tokenizer]:
    """A shipped model by name, or from a folder that `save` wrote; in eval mode.

    The weights have PyTorch's default type, whatever the type in which they are stored
    (bfloat16 for the shipped models).

    Raises TypeError unless name is a string or a path, ValueError for a name that does
    not ship, a folder without a model, and files that are damaged or do not fit.
    """
    check_type(str | Path, name=name)
    folder = FOLDER / name if str(name) in RECIPES else Path(name)
    for file in (CONFIG, TOKENIZER, WEIGHTS):
        if not (folder / file).is_file():
            raise ValueError(
                f"name must be one of {', '.join(RECIPES)}, or a folder with a saved "
                f"model; got {shown(str(name))}, which has no {file}"
            )
    model = _empty_model(folder / CONFIG)
    try:
        tensors = load_tensors((folder / WEIGHTS).read_bytes())
    except SafetensorError as error:
        raise ValueError(
            f"{WEIGHTS} is not a valid safetensors file: {error}"
        ) from None
    _fill(model, tensors)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    return model.eval(), tokenizer


def _empty_model(path: Path) -> nn.Module:
    """The model of a config.json, with random weights."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{CONFIG} is not valid JSON: {error}") from None
    if not isinstance(content, dict) or "kind" not in content:
        raise ValueError(
            f"{CONFIG} must have a 'kind', which `save` writes; export.import_llama "
            "loads a folder in the layout of transformers"
        )
    if content["kind"] not in tuple(KINDS):
        known = ", ".join(KINDS)
        raise ValueError(
            f"{CONFIG}: kind must be one of {known}; got {shown(content['kind'])}"
        )
    model_class, config_class = KINDS[content["kind"]]
    given = content.get("config")
    if not isinstance(given, dict):
        raise ValueError(f"{CONFIG}: config must be an object, got {shown(given)}")
    try:
        fields = {
            key: configs.StackConfig(**value) if isinstance(value, dict) else value
            for key, value in given.items()
        }
        return model_class(config_class(**fields))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{CONFIG}: config does not fit its kind: {error}") from None


def _fill(model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Copy the tensors into the model; a shared matrix is among them once."""
    expected = model.state_dict()
    for name in sorted(tensors.keys() - expected.keys()):
        raise ValueError(f"{WEIGHTS} does not fit {CONFIG}: unexpected {name!r}")
    for name, own in expected.items():
        if name in tensors and tensors[name].shape != own.shape:
            raise ValueError(
                f"{WEIGHTS} does not fit {CONFIG}: {name!r} must have shape "
                f"{tuple(own.shape)}, got {tuple(tensors[name].shape)}"
            )
    for names in _names_of_weights(model):
        if not any(name in tensors for name in names):
            name = names[0]
            raise ValueError(f"{WEIGHTS} does not fit {CONFIG}: {name!r} is missing")
    model.load_state_dict(tensors, strict=False)


def main() -> None:
    """Train one of the shipped models again."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--data", help="a world, a name on the hub, or a file")
    parser.add_argument("--limit", type=int, help="only the first texts or pairs")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", required=True, help="where the model goes")
    parser.add_argument("--checkpoints", help="a folder, to go on after a stop")
    given = parser.parse_args()
    options = {"data": given.data, "limit": given.limit, "steps": given.steps}
    options = {key: value for key, value in options.items() if value is not None}
    recipe = RECIPES[given.name](**options)
    recipe.run(given.checkpoints)
    save(recipe.model, recipe.tokenizer, given.out, torch.bfloat16)


if __name__ == "__main__":
    main()
