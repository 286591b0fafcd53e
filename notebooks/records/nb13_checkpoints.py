"""One opening on the way to the shipped storyteller, after 10 to 1,000 of 3,000 steps.

DATA=train.txt make record NB=13 reads that file instead of the hub's stories.
"""

import os

import torch

from course_utils.decoding import CachedStep, greedy
from tools.train_shipped import tinystories

DATA = os.environ.get("DATA", "roneneldan/TinyStories")
STORIES = 13_241  # as many as the shipped model has read
SEEDS = (0,)
POINTS = [{"steps": 1000}]
LOOK = (10, 30, 100, 300, 1000)
OPENING = "One day, a little girl named Lily"


class EnoughError(Exception):
    """The last step to look at is done."""


def run(steps: int) -> dict:
    """After each step of LOOK: how the opening goes on, "text 30", and "loss 30"."""
    results = {}
    done = 0

    def watch(model, tokenizer) -> None:
        nonlocal done
        done += 10
        if done in LOOK:
            results[f"text {done}"] = write(model, tokenizer)
            print(results, flush=True)
        if done == steps:
            raise EnoughError

    try:
        tinystories(DATA, limit=STORIES, watch=watch)
    except EnoughError as stop:
        losses = stop.history.losses
    for step in LOOK:
        nearest = losses[max(0, step - 10) : step]
        results[f"loss {step}"] = sum(nearest) / len(nearest)
    return results


def write(model, tokenizer, length: int = 40) -> str:
    """The opening and the likeliest `length` tokens after it."""
    ids = torch.tensor([[tokenizer.bos_id, *tokenizer.encode(OPENING)]])
    stop = {"stop_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    text = greedy(CachedStep(model), ids, length, **stop)
    return tokenizer.decode(text[0])
