"""Train the same model on the same texts, cut by vocabularies of four sizes.

The data are the openings of stories from `nb17_scaling.py`, about 170 bytes each. A
step reads 8 whole openings, so after equally many steps every model has read the same
text, and sees each text from its beginning. No model reads an opening twice. The lowest
loss that any model can have on them is known exactly: `floor`.

Everything is computed in float64, so that other processors give the same digits.

`make record NB=10` runs every point and writes `nb10_vocabulary.json`.
"""

import functools
import itertools
import math
from contextlib import contextmanager

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from course_utils import bpe
from course_utils.checks import IGNORED
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.metrics import bits_per_byte
from course_utils.models import LlamaLM
from course_utils.records import load_script
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from known_worlds.stories import story

SIZES = (260, 320, 512, 872)  # without merges, ..., until no pair is left to merge
RATES = {  # of each size: the best one stands between two others
    260: (0.01, 0.02, 0.04),
    320: (0.01, 0.02, 0.04, 0.08),
    512: (0.01, 0.02, 0.04, 0.08),
    872: (0.01, 0.02, 0.04, 0.08),
}
SEEDS = (0, 1, 2)
POINTS = [
    {"size": size, "rate": rate, "seed": seed}
    for seed, size in itertools.product(SEEDS, SIZES)
    for rate in RATES[size]
]

STEPS = 400
BATCH = 8  # openings in one step
WIDTH = 48
START = 1  # the id before the first token, `<bos>`

openings = load_script("nb17_scaling")


def texts(split, count=openings.HELD_OUT):
    """The first openings of a split, as strings."""
    first = openings.STARTS[split]
    return ["".join(openings.opening(first + index)) for index in range(count)]


@functools.cache
def tokenizer(size):
    """The first merges of one long list, learned from all openings of the training."""
    if size == max(SIZES):
        return bpe.train(texts("train", STEPS * BATCH), size)
    merges = list(tokenizer(max(SIZES)).made)
    return bpe.BytePairs(merges[: size - SIZES[0]])


def batches(size, split, rows=BATCH):
    """step -> (inputs "b t", labels "b t") of the openings of one split."""
    encode = tokenizer(size).encode

    def batch(step):
        first = openings.STARTS[split] + step * rows
        found = ["".join(openings.opening(first + row)) for row in range(rows)]
        ids = [torch.tensor([START, *encode(text)]) for text in found]
        inputs = pad_sequence([row[:-1] for row in ids], True)
        return inputs, pad_sequence([row[1:] for row in ids], True, IGNORED)

    return batch


@contextmanager
def in_float64():
    """New tensors have this type, and afterwards the type that they had before."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def model_of(size):
    """An untrained model for this vocabulary."""
    config = LlamaConfig(
        vocab_size=size,
        d_model=WIDTH,
        num_heads=4,
        num_layers=2,
        d_ff=3 * WIDTH,
        max_length=256,
    )
    with in_float64():
        return LlamaLM(config)


@functools.cache
def trained(size, rate, seed):
    """A model after its training."""
    torch.manual_seed(seed)
    model = model_of(size)
    recipe = TrainConfig(
        steps=STEPS,
        learning_rate=rate,
        optimizer="muon",
        precision="float64",
        seed=seed,
    )
    train(model, batches(size, "train"), recipe)
    return model


def bits(size, nats, split):
    """The bits per byte of a loss in nats per token on a held-out split."""
    found = texts(split)
    num_tokens = sum(len(tokenizer(size).encode(text)) for text in found)
    return bits_per_byte(nats, num_tokens, sum(len(text.encode()) for text in found))


def run(size, rate, seed):
    """Train one model; its bits per byte on two held-out splits, and nats per token."""
    model = trained(size, rate, seed)
    count = openings.HELD_OUT // 50
    nats = {
        split: mean_loss(model, batches(size, split, 50), count)
        for split in ("validation", "test")
    }
    numbers = {split: bits(size, loss, split) for split, loss in nats.items()}
    return numbers | {"nats": nats["test"]}


def floor(split="test"):
    """The fewest bits per byte that are possible on a held-out split, exactly."""
    first = openings.STARTS[split]
    nats = 0
    for index in range(first, first + openings.HELD_OUT):
        nats += sum(story(index).floor[: len(openings.opening(index))])
    return nats / math.log(2) / sum(len(text.encode()) for text in texts(split))


def table_bits(size, split="test"):
    """The bits per byte of two tables of counts over the tokens of the training.

    "unigram" has counted the tokens, "bigram" the pairs of neighbors.
    """
    tokens = np.ones(size)
    pairs = np.zeros((size, size))
    for text in texts("train", STEPS * BATCH):
        ids = [START, *tokenizer(size).encode(text)]
        np.add.at(tokens, ids[1:], 1)
        np.add.at(pairs, (ids[:-1], ids[1:]), 1)
    tokens /= tokens.sum()
    pairs += tokens  # one more pair after each token, so that none is impossible
    pairs /= pairs.sum(axis=1, keepdims=True)
    rows = [[START, *tokenizer(size).encode(text)] for text in texts(split)]
    before = np.concatenate([row[:-1] for row in rows])
    after = np.concatenate([row[1:] for row in rows])
    found = {"unigram": tokens[after], "bigram": pairs[before, after]}
    return {
        name: bits(size, float(-np.log(chances).mean()), split)
        for name, chances in found.items()
    }
