"""A small training run to be killed: python kill_run.py FOLDER OPTIMIZER PAUSE.

It waits PAUSE seconds before each step, so that whoever kills it need not be quick.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from course_utils.config import DecoderConfig, StackConfig, TrainConfig
from course_utils.models import DecoderLM
from course_utils.training.loop import train

STEPS = 24


def make_model():
    torch.manual_seed(7)
    stack = StackConfig(
        d_model=24,
        num_heads=3,
        num_layers=2,
        d_ff=40,
        max_length=16,
        dropout=0.2,
        positions="learned",
    )
    return DecoderLM(DecoderConfig(vocab_size=11, stack=stack))


def batches(step):
    """Sorted random ids: easy to learn something, quick to make."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(3, 11, (4, 9), generator=generator).sort(-1).values
    return ids[:, :-1], ids[:, 1:]


def run(folder, optimizer="adamw", pause=0.0):
    """The run of these tests, resumed from whatever is in the folder."""

    def slow_batches(step):
        time.sleep(pause)
        return batches(step)

    config = TrainConfig(
        steps=STEPS,
        learning_rate=3e-3,
        warmup_steps=5,
        optimizer=optimizer,
        precision="float32",
        checkpoint_every=2,
    )
    return train(make_model(), slow_batches, config, checkpoints=folder)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], float(sys.argv[3]))
