"""Train one of the shipped models again.

Knows which model was trained on what, and how. `data` (of tinystories, the others learn
a world) and `limit` are as in `course_utils.data.hub.load_texts`.

    python -m tools.train_shipped tinystories --data stories.txt --out folder
"""

import argparse
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from course_utils import config as configs
from course_utils import models, pretrained
from course_utils.data.batches import (
    RowBatches,
    packed_batches,
    padded_batches,
    pair_batches,
)
from course_utils.data.hub import load_pairs, load_texts
from course_utils.data.splits import split_pairs
from course_utils.tokenizer import Tokenizer, train_bpe, train_words
from course_utils.training.loop import History, train
from course_utils.training.losses import label_loss, translation_loss
from known_worlds.senses import labels, usage

# What each of them returns: the model, its tokenizer, and the history of its training.
Trained = tuple[nn.Module, Tokenizer, History]
Watch = Callable[[nn.Module, Tokenizer], object]


def tinystories(
    data: str = "roneneldan/TinyStories",
    steps: int = 3000,
    limit: int | None = None,
    watch: Watch | None = None,
) -> Trained:
    """The language model of the TinyStories: 3.7 million parameters.

    watch: is called after every 10 steps, with the model as it then is.
    """
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
        steps=steps, learning_rate=6e-3, schedule="linear", optimizer="muon"
    )
    model = models.LlamaLM(shape)
    looking = _looking(watch, tokenizer, 10)
    return model, tokenizer, train(model, batches, config, **looking)


def stories(steps: int = 6000, limit: int = 20_000) -> Trained:
    """The language model of the story world, whose lowest possible loss is known.

    Its embeddings are initialised with std 1, and the output matrix is not tied to
    them. In three of four pairs of smaller models that made names be copied about 100
    steps earlier, in the fourth no earlier: see the lab notes of notebook 13.
    """
    texts = load_texts("stories", limit=limit)
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
    config = configs.TrainConfig(steps=steps, learning_rate=6e-3, optimizer="muon")
    return model, tokenizer, train(model, batches, config)


def gpt(steps: int = 2200, limit: int = 20_000) -> Trained:
    """The GPT-style model of the story world that notebook 11 runs by hand.

    Only its matrices are trained: biases stay 0 and norms' scales 1, so six matrices
    are the whole model. Its embeddings start at std 0.2, ten times GPT-2's, so that
    words that occur in the same places, such as names, differ from the first step.
    """
    texts = load_texts("stories", limit=limit)
    tokenizer = train_words(texts)
    torch.manual_seed(0)
    stack = configs.StackConfig(
        d_model=128,
        num_heads=4,
        num_layers=3,
        d_ff=512,
        max_length=224,
        activation="gelu",
        positions="learned",
    )
    shape = configs.DecoderConfig(vocab_size=tokenizer.vocab_size, stack=stack)
    model = models.DecoderLM(shape)
    nn.init.normal_(model.tokens.weight, std=0.2)
    for weight in model.parameters():
        weight.requires_grad_(weight.ndim == 2)
    batches = padded_batches(
        tokenizer.encode_batch(texts), batch_size=8, max_length=224, special=tokenizer
    )
    config = configs.TrainConfig(
        steps=steps, learning_rate=6e-3, schedule="linear", optimizer="muon"
    )
    return model, tokenizer, train(model, batches, config)


def translator(steps: int = 2000, limit: int = 60_000) -> Trained:
    """The translator from English to Spanish, trained on the phrase world."""
    pairs = load_pairs("phrases", limit=limit)
    tokenizer = train_words([text for pair in pairs for text in pair])
    stack = configs.StackConfig(
        d_model=128, num_heads=4, num_layers=3, d_ff=512, max_length=48
    )
    return _train_translator(pairs, tokenizer, stack, 64, steps)


def spanish(
    data: str = "sentence-transformers/parallel-sentences-tatoeba",
    steps: int = 10_000,
    limit: int | None = None,
    watch: Watch | None = None,
) -> Trained:
    """The translator from English to Spanish, trained on sentences of Tatoeba.

    watch: is called after every 20 steps, with the model as it then is.
    """
    pairs = load_pairs(data, limit=limit)
    learn, _ = split_pairs(pair for pair in pairs if len(pair[0].split()) <= 10)
    tokenizer = train_bpe([text for pair in learn for text in pair], 4000)
    stack = configs.StackConfig(
        d_model=128, num_heads=4, num_layers=3, d_ff=512, max_length=64, dropout=0.1
    )
    return _train_translator(learn, tokenizer, stack, 48, steps, watch)


def _train_translator(pairs, tokenizer, stack, batch_size, steps, watch=None):
    """Two stacks alike, one matrix for both embeddings and the output."""
    torch.manual_seed(0)
    shape = configs.EncoderDecoderConfig(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        encoder=stack,
        decoder=stack,
        share_weights=True,
    )
    model = models.EncoderDecoder(shape)
    ids = [(tokenizer.encode(one), tokenizer.encode(other)) for one, other in pairs]
    batches = pair_batches(
        ids, batch_size=batch_size, max_length=stack.max_length, special=tokenizer
    )
    config = configs.TrainConfig(
        steps=steps, learning_rate=4e-3, label_smoothing=0.1, optimizer="muon"
    )
    looking = _looking(watch, tokenizer, 20)
    history = train(model, batches, config, loss=translation_loss, **looking)
    return model, tokenizer, history


def _looking(watch: Watch | None, tokenizer: Tokenizer, every: int) -> dict:
    """The arguments of `train` that call `watch` after every so many steps."""
    if watch is None:
        return {}
    return {
        "evaluate": lambda model: watch(model, tokenizer) or 0.0,
        "evaluate_every": every,
    }


def sense_batches(usages: list, tokenizer: Tokenizer, batch_size: int) -> RowBatches:
    """`batches(step)` -> padded ids "b t", positions "b" and labels "b"."""
    texts = [torch.tensor(tokenizer.encode(one.text)) for one in usages]
    numbers = torch.tensor([[one.position, one.label] for one in usages])

    def rows(indices: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        ids = [texts[index] for index in indices]
        padded = pad_sequence(ids, batch_first=True, padding_value=tokenizer.pad_id)
        return padded, *numbers[list(indices)].unbind(1)

    return RowBatches(list(map(len, texts)), batch_size=batch_size, rows=rows)


def class_loss(model: nn.Module, batch: Sequence[Tensor], smoothing: float) -> Tensor:
    """Nats per row of a classifier on (ids "b t", positions "b", labels "b")."""
    *inputs, labels = batch
    return label_loss(model(*inputs)[:, None], labels[:, None], smoothing)


def senses(steps: int = 700, limit: int = 8000) -> Trained:
    """The classifier of the sense world: which sense a word has in its sentence."""
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
    batches = sense_batches(usages, tokenizer, batch_size=64)
    config = configs.TrainConfig(
        steps=steps, learning_rate=3e-3, warmup_steps=min(100, steps)
    )
    return model, tokenizer, train(model, batches, config, loss=class_loss)


ALL = (tinystories, stories, gpt, translator, spanish, senses)
RECIPES = {one.__name__: one for one in ALL}


def main() -> None:
    """Train one of the shipped models again."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--data", help="a name on the hub, or a file")
    parser.add_argument("--limit", type=int, help="only the first texts or pairs")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", required=True, help="where the model goes")
    given = vars(parser.parse_args())
    name, folder = given.pop("name"), given.pop("out")
    options = {key: given[key] for key in given if given[key]}
    model, tokenizer, _ = RECIPES[name](**options)
    pretrained.save(model, tokenizer, folder, torch.bfloat16)


if __name__ == "__main__":
    main()
