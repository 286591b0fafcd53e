"""The stories that all are trained on, and the one measure by which all are judged."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from course_utils.data.batches import RowBatches, padded_batches
from course_utils.data.hub import load_texts
from course_utils.tokenizer import train_bpe

VOCABULARY = 2048
CONTEXT = 256
HELD_OUT = 300  # stories in each half of the validation stories
TOGETHER = 20  # stories scored at once
GENERATED = {"train": 13_000, "validation": 1_000}  # without a folder of real stories


class Stories:
    """Training batches and two halves of held-out stories, all of which fit CONTEXT.

    folder: with train.txt and valid.txt; None takes the story world of the course.
    """

    def __init__(self, folder: Path | None = None):
        if folder is None:
            train, held = (load_texts("stories", *one) for one in GENERATED.items())
        else:
            train = load_texts(str(folder / "train.txt"))
            held = load_texts(str(folder / "valid.txt"))
        self.tokenizer = train_bpe(train, VOCABULARY)
        rows = self.tokenizer.encode_batch(train)
        self.rows = [row for row in rows if fits(row)]
        encoded = self.tokenizer.encode_batch(held)
        pairs = [pair for pair in zip(encoded, held, strict=True) if fits(pair[0])]
        self.halves = {
            "choose": pairs[0::2][:HELD_OUT],
            "report": pairs[1::2][:HELD_OUT],
        }

    def batches(self, batch_size: int, multiple: int = 1) -> RowBatches:
        """step -> (inputs, labels): whole stories, each from its beginning.

        The length of a batch is that of its longest story, rounded up to a multiple.
        """
        return self._batches(self.rows, batch_size, multiple)

    def _batches(
        self, rows: list[list[int]], batch_size: int, multiple: int = 1
    ) -> RowBatches:
        return padded_batches(
            rows,
            batch_size=batch_size,
            max_length=CONTEXT,
            multiple=multiple,
            special=self.tokenizer,
        )

    @torch.no_grad()
    def bits_per_byte(self, score: Callable[[Tensor], Tensor], half: str) -> float:
        """Bits per byte over one half, each story read from its beginning.

        score: ids "b t" -> logits "b t v".
        """
        pairs = sorted(self.halves[half], key=lambda one: len(one[0]))
        nats = 0.0
        for first in range(0, len(pairs), TOGETHER):
            rows = [ids for ids, _ in pairs[first : first + TOGETHER]]
            inputs, labels = self._batches(rows, len(rows))(0)
            logits = score(inputs).float().flatten(0, 1)
            nats += F.cross_entropy(logits, labels.flatten(), reduction="sum").item()
        return nats / math.log(2) / sum(len(text.encode()) for _, text in pairs)


def fits(ids: list[int]) -> bool:
    """Whether a story and the token before it fit the context."""
    return len(ids) < CONTEXT
