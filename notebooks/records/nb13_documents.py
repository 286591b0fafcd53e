"""Pack four openings of stories into each row, with and without a document mask.

The data are the openings of stories from `nb17_scaling.py`. Every training takes the
same 400 steps of 8 openings, in two rows; none is read twice. A model is measured on
new openings, each in a row of its own, and packed as in its training.

`make record NB=13` runs every point and writes `nb13_documents.json`.
"""

import itertools

import torch
from torch.nn.utils.rnn import pad_sequence

from course_utils.checks import IGNORED
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.models import LlamaLM
from course_utils.records import load_script
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from course_utils.training.losses import label_loss

STEPS = 400
ROWS = 2  # in one step
PER_ROW = 4  # openings
RATES = {  # of each mask: the best within, not at an end
    "causal": (0.005, 0.01, 0.02, 0.04),
    "causal and document": (0.01, 0.02, 0.04, 0.08),
}
SEEDS = (0, 1, 2)
POINTS = [
    {"mask": mask, "rate": rate, "seed": seed}
    for seed, mask in itertools.product(SEEDS, RATES)
    for rate in RATES[mask]
]

openings = load_script("nb17_scaling")


def packed(split):
    """step -> (inputs "b t", labels "b t"): four openings per row, each behind a 0.

    No label says 0: each word is predicted as often as in a row of its own.
    """

    def batch(step):
        inputs = []
        labels = []
        for row in range(ROWS):
            first = openings.STARTS[split] + (step * ROWS + row) * PER_ROW
            ids = [openings.ids_of(index) for index in range(first, first + PER_ROW)]
            inputs.append(torch.tensor([i for one in ids for i in one[:-1]]))
            labels.append(torch.tensor([i for one in ids for i in one[1:]]))
        return pad_sequence(inputs, True), pad_sequence(labels, True, IGNORED)

    return batch


def document_mask(ids, first_id=0):
    """A mask "b 1 q k", True = may look: at positions of the same text only."""
    text = (ids == first_id).cumsum(dim=1)
    return (text[:, :, None] == text[:, None, :])[:, None]


def loss_with(mask):
    """The loss for `train`, under one of two masks; the model itself is causal."""

    def loss(model, batch, smoothing):
        inputs, labels = batch
        seen = document_mask(inputs) if mask == "causal and document" else None
        return label_loss(model(inputs, seen), labels, smoothing)

    return loss


def model_of():
    """An untrained model."""
    config = LlamaConfig(
        vocab_size=len(openings.vocabulary()) + 1,
        d_model=64,
        num_heads=4,
        num_layers=2,
        d_ff=192,
        max_length=256,
    )
    return LlamaLM(config)


def run(mask, rate, seed):
    """Train one model; its losses in nats per word on new openings.

    "validation" and "test": each in a row of its own. "packed": those of the test,
    packed and masked as in the training.
    """
    torch.manual_seed(seed)
    model = model_of()
    config = TrainConfig(
        steps=STEPS,
        learning_rate=rate,
        warmup_steps=STEPS // 10,
        schedule="linear",
        optimizer="muon",
        precision="float32",
        seed=seed,
    )
    loss = loss_with(mask)
    train(model, packed("train"), config, loss=loss)
    count = openings.HELD_OUT // 50
    numbers = {
        split: mean_loss(model, openings.batches(split, 50), count)
        for split in ("validation", "test")
    }
    count = openings.HELD_OUT // (ROWS * PER_ROW)
    return numbers | {"packed": mean_loss(model, packed("test"), count, loss)}
