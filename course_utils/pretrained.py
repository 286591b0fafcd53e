"""The small models that ship with the course: open one, or make it again.

Knows which model was trained on what, and how. Knows nothing of notebooks.

    python -m course_utils.pretrained tinystories --data stories.txt --out folder
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from course_utils import config as configs
from course_utils import models, training
from course_utils.data.batches import packed_batches, padded_batches, pair_batches
from course_utils.data.hub import load_pairs, load_texts
from course_utils.data.labelled import labelled_batches
from course_utils.data.senses import labels, usage
from course_utils.tokenizer import Tokenizer, train_bpe, train_words
from course_utils.training import class_loss, next_token_loss, translation_loss

FOLDER = Path(__file__).parent / "weights"
KINDS = {
    "LlamaLM": (models.LlamaLM, configs.LlamaConfig),
    "DecoderLM": (models.DecoderLM, configs.DecoderConfig),
    "Classifier": (models.Classifier, configs.ClassifierConfig),
    "EncoderDecoder": (models.EncoderDecoder, configs.EncoderDecoderConfig),
}


@dataclass
class Recipe:
    """All that one training needs."""

    model: nn.Module
    tokenizer: Tokenizer
    batches: Callable
    config: configs.TrainConfig
    loss: Callable = next_token_loss

    def run(self, checkpoints: str | Path | None = None, **watch) -> training.History:
        """Train the model; `watch` is handed to `train` (evaluate, evaluate_every).

        checkpoints: a folder that keeps the state every 200 steps.
        """
        config = self.config
        if checkpoints is not None:
            config = replace(config, checkpoint_every=200)
            watch["checkpoints"] = checkpoints
        return training.train(self.model, self.batches, config, loss=self.loss, **watch)


def _muon(steps: int, rate: float = 4e-3, **more: float) -> configs.TrainConfig:
    return configs.TrainConfig(steps, rate, optimizer="muon", **more)


def tinystories(
    data: str = "roneneldan/TinyStories", steps: int = 3000, limit: int | None = None
) -> Recipe:
    """The storyteller: 2.2 million parameters on real TinyStories."""
    texts = load_texts(data, limit=limit)
    tokenizer = train_bpe(texts, 2048)
    torch.manual_seed(0)
    shape = configs.LlamaConfig(tokenizer.vocab_size, 192, 6, 6, 4, 512, max_length=320)
    batches = packed_batches(tokenizer.encode_all(texts), 8, 320, 0, tokenizer)
    return Recipe(models.LlamaLM(shape), tokenizer, batches, _muon(steps))


def stories(
    data: str = "stories", steps: int = 6000, limit: int | None = 20_000
) -> Recipe:
    """The story world's own storyteller, whose perfect loss is known.

    Its embeddings start far apart (std 1, an output matrix of its own): from a start
    near zero the part that all names share outgrows what tells one from another, and
    the model learns to copy a name much later.
    """
    texts = load_texts(data, limit=limit)
    tokenizer = train_words(texts)
    torch.manual_seed(0)
    shape = configs.LlamaConfig(tokenizer.vocab_size, 128, 4, 4, 4, 384, tied=False)
    model = models.LlamaLM(shape)
    nn.init.normal_(model.tokens.weight)
    batches = padded_batches(tokenizer.encode_all(texts), 8, 0, tokenizer, 256)
    return Recipe(model, tokenizer, batches, _muon(steps, 6e-3))


def translator(
    data: str = "phrases", steps: int = 2000, limit: int | None = 60_000
) -> Recipe:
    """English to Spanish in the phrase world."""
    pairs = load_pairs(data, limit=limit)
    tokenizer = train_words([text for pair in pairs for text in pair])
    torch.manual_seed(0)
    stack = configs.StackConfig(128, 4, 3, 512, max_length=48)
    sizes = [tokenizer.vocab_size] * 2
    shape = configs.EncoderDecoderConfig(*sizes, stack, stack, share_weights=True)
    model = models.EncoderDecoder(shape)
    ids = [(tokenizer.encode(one), tokenizer.encode(other)) for one, other in pairs]
    batches = pair_batches(ids, 64, 0, tokenizer, max_length=48)
    config = _muon(steps, label_smoothing=0.1)
    return Recipe(model, tokenizer, batches, config, translation_loss)


def senses(data: str = "senses", steps: int = 700, limit: int | None = 8000) -> Recipe:
    """The sense of a word: an encoder, read at that word; from its own world only."""
    if data != "senses" or limit is None:
        raise ValueError(f"senses needs its world and a limit, got {data!r}, {limit}")
    usages = [usage(index) for index in range(limit)]
    tokenizer = train_words([one.text for one in usages])
    torch.manual_seed(0)
    stack = configs.StackConfig(64, 4, 2, 128, max_length=32)
    size = configs.ClassifierConfig(tokenizer.vocab_size, len(labels()), stack)
    model = models.Classifier(size)
    rows = [(tokenizer.encode(one.text), one.position, one.label) for one in usages]
    batches = labelled_batches(rows, 64, 0, tokenizer.pad_id, max_length=32)
    config = configs.TrainConfig(steps, 3e-3)
    return Recipe(model, tokenizer, batches, config, class_loss)


RECIPES = {one.__name__: one for one in (tinystories, stories, translator, senses)}


def save(model: nn.Module, tokenizer: Tokenizer, folder: str | Path) -> None:
    """Write config.json, tokenizer.json and model.safetensors (bfloat16)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"kind": type(model).__name__, "config": asdict(model.config)}
    (folder / "config.json").write_text(json.dumps(content, indent=1) + "\n")
    tokenizer.save(folder / "tokenizer.json")
    tensors, seen = {}, set()
    for name, weight in model.state_dict().items():
        if weight.data_ptr() not in seen:  # shared matrices are stored once
            seen.add(weight.data_ptr())
            tensors[name] = weight.detach().cpu().to(torch.bfloat16).contiguous()
    save_file(tensors, folder / "model.safetensors")


def load(name: str | Path) -> tuple[nn.Module, Tokenizer]:
    """A shipped model by name, or a folder that `save` wrote; in eval mode.

    The weights, stored in bfloat16, come in PyTorch's default precision.

    Raises ValueError for a name that does not ship and a folder that holds no model.
    """
    folder = FOLDER / name if str(name) in RECIPES else Path(name)
    if not (folder / "config.json").is_file():
        known = f"one of {', '.join(RECIPES)}, or a folder with a saved model"
        raise ValueError(f"name must be {known}; got {str(name)!r}")
    content = json.loads((folder / "config.json").read_text())
    model_class, config_class = KINDS[content["kind"]]
    fields = {
        key: configs.StackConfig(**value) if isinstance(value, dict) else value
        for key, value in content["config"].items()
    }
    model = model_class(config_class(**fields))
    tensors = load_file(folder / "model.safetensors")
    wide = {key: value.float() for key, value in tensors.items()}
    missing, unexpected = model.load_state_dict(wide, strict=False)
    loaded = {model.get_parameter(key).data_ptr() for key in wide}
    lost = [n for n in missing if model.get_parameter(n).data_ptr() not in loaded]
    if lost or unexpected:
        raise ValueError(f"{folder} does not fit its config: {lost + unexpected}")
    return model.eval(), Tokenizer.load(folder / "tokenizer.json")


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
    save(recipe.model, recipe.tokenizer, given.out)


if __name__ == "__main__":
    main()
