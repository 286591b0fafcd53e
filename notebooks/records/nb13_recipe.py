"""Take one part after another out of a training, and see what the loss says.

The data are the openings of stories from `nb17_scaling.py`. Every model is two layers
of width 64, and trains for 400 steps of 8 openings; none is read twice.

`make record NB=13` runs every point and writes `nb13_recipe.json`.
"""

import itertools
import math

import torch

from course_utils.config import LlamaConfig, TrainConfig
from course_utils.models import LlamaLM
from course_utils.records import load_script
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train

STEPS = 400
USUAL = {
    "optimizer": "muon",
    "schedule": "linear",
    "warmup_steps": 40,
    "clip_norm": 1.0,
    "precision": "float32",
}
CHANGES = {  # each differs from the usual training in one thing
    "usual": {},
    "AdamW": {"optimizer": "adamw"},
    "half a cosine": {"schedule": "cosine"},
    "no decay": {"schedule": "constant"},
    "no warm-up": {"warmup_steps": 0},
    "no clipping": {"clip_norm": math.inf},
    "momentum 0.9": {"momentum": 0.9},
    "bfloat16": {"precision": "bfloat16"},
    "8 heads": {"heads": 8},
    "2 heads": {"heads": 2},
}
RATES = dict.fromkeys(
    CHANGES, (0.01, 0.02, 0.04, 0.08)
)  # the best within, not at an end
RATES["AdamW"] = (0.02, 0.04, 0.08, 0.16)
RATES["no decay"] = (0.0025, 0.005, 0.01, 0.02)
SEEDS = (0, 1, 2, 3, 4)
POINTS = [
    {"change": change, "rate": rate, "seed": seed}
    for seed, change in itertools.product(SEEDS, CHANGES)
    for rate in RATES[change]
]

openings = load_script("nb17_scaling")


def model_of(heads):
    """An untrained model."""
    config = LlamaConfig(
        vocab_size=len(openings.vocabulary()) + 1,
        d_model=64,
        num_heads=heads,
        num_layers=2,
        d_ff=192,
        max_length=64,
    )
    return LlamaLM(config)


def run(change, rate, seed):
    """Train one model; its loss in nats per word on two held-out splits."""
    parts = USUAL | {"heads": 4} | CHANGES[change]
    torch.manual_seed(seed)
    model = model_of(parts.pop("heads"))
    config = TrainConfig(steps=STEPS, learning_rate=rate, seed=seed, **parts)
    train(model, openings.batches("train"), config)
    count = openings.HELD_OUT // 50
    return {
        split: mean_loss(model, openings.batches(split, 50), count)
        for split in ("validation", "test")
    }
