"""Spend the same data in small steps and in large ones, at four learning rates each.

The data are the openings of stories from `nb17_scaling.py`, the models and the training
those of `nb13_recipe.py`. Every training reads the same 3,200 openings, each once: a
batch of 2 leaves 1,600 steps, a batch of 128 leaves 25.

`make record NB=13` runs every point and writes `nb13_sweep.json`.
"""

import itertools

import torch

from course_utils.config import TrainConfig
from course_utils.records import load_script
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train

READ = 3200  # openings
RATES = {  # of each batch size: the best within, not at an end
    2: (0.0025, 0.005, 0.01, 0.02),
    8: (0.01, 0.02, 0.04, 0.08),
    32: (0.02, 0.04, 0.08, 0.16),
    128: (0.04, 0.08, 0.16, 0.32),
}
SEEDS = (0, 1, 2)
POINTS = [
    {"size": size, "rate": rate, "seed": seed}
    for seed, size in itertools.product(SEEDS, RATES)
    for rate in RATES[size]
]

recipe = load_script("nb13_recipe")
openings = recipe.openings


def run(size, rate, seed):
    """Train one model; its loss in nats per word on two held-out splits."""
    torch.manual_seed(seed)
    model = recipe.model_of(heads=4)
    steps = READ // size
    usual = recipe.USUAL | {"warmup_steps": steps // 10}
    config = TrainConfig(steps=steps, learning_rate=rate, seed=seed, **usual)
    train(model, openings.batches("train", size), config)
    count = openings.HELD_OUT // 50
    return {
        split: mean_loss(model, openings.batches(split, 50), count)
        for split in ("validation", "test")
    }
