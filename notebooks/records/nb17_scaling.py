"""Train models of four widths on the openings of stories, for three numbers of steps.

The data are the first three sentences of generated stories
(`packages/known_worlds/stories.txt`), about 40 words each. No model reads an opening
twice. The lowest loss that any model can have on them is known exactly: `floor`.

`make record NB=17` runs every point and writes `nb17_scaling.json`.
"""

import functools
import itertools

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from course_utils.checks import IGNORED
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.models import LlamaLM
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from known_worlds.stories import story

HEADS = {8: 2, 16: 4, 32: 4, 64: 4}  # of each width
STEPS = (200, 400, 800)
RATES = {  # of each width: the best one stands between two others
    8: (0.02, 0.04, 0.08, 0.16, 0.32),
    16: (0.01, 0.02, 0.04, 0.08, 0.16),
    32: (0.01, 0.02, 0.04, 0.08, 0.16),
    64: (0.01, 0.02, 0.04, 0.08, 0.16),
}
SEEDS = (0, 1, 2)
POINTS = [
    {"width": width, "steps": steps, "rate": rate, "seed": seed}
    for seed, steps, width in itertools.product(SEEDS, STEPS, RATES)
    for rate in RATES[width]
]

BATCH = 8  # openings in one step
STARTS = {"train": 0, "validation": 10**9, "test": 2 * 10**9}  # indices of stories
HELD_OUT = 400  # openings to choose the rate on, and as many others to report on


@functools.cache
def opening(index):
    """The words of the first three sentences of a story, as a list."""
    told = story(index)
    length = sum(len(told.beats[beat]) for beat in ("hero", "looks", "likes"))
    ends = np.cumsum([len(word) for word in told.tokens])
    return told.tokens[: 1 + int(np.searchsorted(ends, length))]


@functools.cache
def vocabulary():
    """{word: id} of all words in the training openings; 0 stands before the first."""
    openings = (opening(index) for index in range(BATCH * max(STEPS)))
    words = sorted({word for words in openings for word in words})
    return {word: place for place, word in enumerate(words, start=1)}


def ids_of(index):
    """An opening as ids, with the 0 before it."""
    return [0, *(vocabulary()[word] for word in opening(index))]


def batches(split, size=BATCH):
    """step -> (inputs "b t", labels "b t") of the openings of one split."""

    def batch(step):
        first = STARTS[split] + step * size
        rows = [torch.tensor(ids_of(first + row)) for row in range(size)]
        inputs = pad_sequence([row[:-1] for row in rows], True)
        return inputs, pad_sequence([row[1:] for row in rows], True, IGNORED)

    return batch


def model_of(width):
    """An untrained model of this width."""
    config = LlamaConfig(
        vocab_size=len(vocabulary()) + 1,
        d_model=width,
        num_heads=HEADS[width],
        num_layers=2,
        d_ff=3 * width,
        max_length=64,
    )
    return LlamaLM(config)


def run(width, steps, rate, seed):
    """Train one model; its loss in nats per word on two held-out splits."""
    torch.manual_seed(seed)
    model = model_of(width)
    recipe = TrainConfig(
        steps=steps,
        learning_rate=rate,
        optimizer="muon",
        precision="float32",
        seed=seed,
    )
    train(model, batches("train"), recipe)
    return {
        split: mean_loss(model, batches(split, 50), HELD_OUT // 50)
        for split in ("validation", "test")
    }


def floor(split="test"):
    """The lowest loss possible on a held-out split, in nats per word, exactly."""
    costs = []
    for index in range(STARTS[split], STARTS[split] + HELD_OUT):
        costs += story(index).floor[: len(opening(index))]
    return sum(costs) / len(costs)


def table_losses(split="test"):
    """The losses of two tables of counts on a held-out split, in nats per word.

    "unigram" has counted the words of the longest training, "bigram" their pairs.
    """
    size = len(vocabulary()) + 1
    words = np.ones(size)
    pairs = np.zeros((size, size))
    for index in range(BATCH * max(STEPS)):
        ids = ids_of(index)
        np.add.at(words, ids[1:], 1)
        np.add.at(pairs, (ids[:-1], ids[1:]), 1)
    words /= words.sum()
    pairs += words  # one more pair after each word, so that none is impossible
    pairs /= pairs.sum(axis=1, keepdims=True)
    rows = [ids_of(STARTS[split] + index) for index in range(HELD_OUT)]
    before = np.concatenate([row[:-1] for row in rows])
    after = np.concatenate([row[1:] for row in rows])
    chances = {"unigram": words[after], "bigram": pairs[before, after]}
    return {name: float(-np.log(found).mean()) for name, found in chances.items()}
