"""A small training for torchrun, with arguments RESULT [FOLDER [OPTIMIZER [STOP]]]."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from course_utils.checks import IGNORED
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.models import LlamaLM
from course_utils.training.evaluation import mean_loss
from course_utils.training.loop import train

STEPS, VOCAB = 8, 11


def make_model(dtype=torch.float64, seed=7):
    torch.manual_seed(seed)
    return LlamaLM(
        LlamaConfig(
            vocab_size=VOCAB,
            d_model=24,
            num_heads=4,
            num_kv_heads=2,
            num_layers=2,
            d_ff=40,
            max_length=16,
        )
    ).to(dtype)


def batches(step):
    """Five rows, so that ranks get unequally many, and rows of unequal lengths."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(3, VOCAB, (5, 10), generator=generator).sort(-1).values
    labels = ids[:, 1:].clone()
    for row in range(5):
        labels[row, 1 + 2 * row :] = IGNORED
    return ids[:, :-1], labels


def run(folder=None, optimizer="adamw", stop=None, model=None):
    """The run of these tests; somebody presses stop before step number `stop`."""

    def given(step):
        if step == stop:
            raise KeyboardInterrupt
        return batches(step)

    every = 0 if folder is None else 2
    config = TrainConfig(
        steps=STEPS,
        learning_rate=3e-3,
        warmup_steps=2,
        clip_norm=0.5,
        optimizer=optimizer,
        checkpoint_every=every,
    )
    return train(
        model or make_model(),
        given,
        config,
        evaluate=lambda model: mean_loss(model, batches, 2),
        evaluate_every=4,
        checkpoints=folder,
    )


if __name__ == "__main__":
    result, *more = sys.argv[1:]
    if len(more) == 3:
        more[2] = int(more[2])
    rank = int(os.environ["RANK"])
    # a rank that starts from other weights must be given those of rank 0
    try:
        history = run(*more, model=make_model(seed=7 + rank))
    except KeyboardInterrupt:
        sys.exit()
    seen = [history.losses, history.gradient_norms, history.tokens, history.evaluations]
    Path(f"{result}-{rank}.json").write_text(json.dumps(seen))
