"""Train three models that separate possible causes of what `nb12_changes.py` found.

Each is a model of that script with one thing changed. Data, steps, rates and seeds are
those of its short trainings.

`make record NB=12` runs every point and writes `nb12_controls.json`.
"""

import itertools

import torch

from course_utils.config import TrainConfig
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train
from course_utils.training.records import load_script

changes = load_script("nb12_changes")
openings = changes.openings

MODELS = {  # each name, and the model of nb12_changes.py that it begins from
    "LLaMA, larger start": "LLaMA",
    "no SwiGLU, no biases": "no SwiGLU",
    "untied, no decay": "untied",
}
STEPS = 100
RATES = changes.RATES[STEPS]
SEEDS = changes.SEEDS
POINTS = [
    {"model": model, "rate": rate, "seed": seed}
    for seed, model, rate in itertools.product(SEEDS, MODELS, RATES)
]


def model_of(name):
    """An untrained model."""
    model = changes.model_of(MODELS[name])
    for block in model.blocks:
        feedforward = block.feedforward
        if name == "LLaMA, larger start":
            with torch.no_grad():
                feedforward.gate.weight.mul_(changes.LARGER_START)
                feedforward.up.weight.mul_(changes.LARGER_START)
        if name == "no SwiGLU, no biases":
            feedforward.up.bias = None
            feedforward.down.bias = None
    return model


def run(model, rate, seed):
    """Train one model; its loss in nats per word on two held-out splits."""
    torch.manual_seed(seed)
    trained = model_of(model)
    decay = {"weight_decay": 0.0} if model == "untied, no decay" else {}
    recipe = TrainConfig(
        steps=STEPS,
        learning_rate=rate,
        optimizer="muon",
        precision="float32",
        seed=seed,
        **decay,
    )
    train(trained, openings.batches("train"), recipe)
    count = openings.HELD_OUT // 50
    return {
        split: mean_loss(trained, openings.batches(split, 50), count)
        for split in ("validation", "test")
    }
