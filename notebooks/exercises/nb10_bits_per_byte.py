"""Exercises of notebook 10: what a byte of text costs, in bits.

Knows the package's bits per byte. Knows nothing of how an answer is run or shown.
"""

import math
from collections.abc import Sequence

import torch

from course_utils.metrics import bits_per_byte
from named_mistakes import Exercise, Mistake

TEXTS = [
    "The cat sat.",
    "Con mèo nằm bên bếp lò vì nó mệt.",
    "Кошка лежала у печки, потому что устала, и дети прибежали.",
]


def bits_of_all(
    nats: Sequence[float], counts: Sequence[int], texts: Sequence[str]
) -> float:
    """Bits per byte of several texts together, from the mean loss of each."""
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    num_bytes = sum(len(text.encode()) for text in texts)
    return total / math.log(2) / num_bytes


def bits_of_the_course(
    nats: Sequence[float], counts: Sequence[int], texts: Sequence[str]
) -> float:
    """The same by `course_utils.metrics`."""
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    size = sum(len(text.encode()) for text in texts)
    return bits_per_byte(total / sum(counts), sum(counts), size)


def _measured(generator):
    def one(texts):
        drawn = torch.rand(len(texts), generator=generator).tolist()
        nats = [round(1 + place + part, 2) for place, part in enumerate(drawn)]
        return nats, [5 + 9 * place for place in range(len(texts))], texts

    return [one(TEXTS), one(TEXTS[:2])]


def _num_bytes(texts):
    return sum(len(text.encode()) for text in texts)


def _mean(values):
    values = list(values)
    return sum(values) / len(values)


def _weighed_by_tokens(nats, counts, texts):
    triples = zip(nats, counts, texts, strict=True)
    parts = [n * bits_of_all([loss], [n], [text]) for loss, n, text in triples]
    return sum(parts) / sum(counts)


BITS = Exercise(
    "tokens.bits_per_byte",
    "Gives the bits per byte of some texts together, from the mean loss of each in "
    "nats per token and its number of tokens. This compares tokenizers.",
    ("nats", "counts", "texts"),
    bits_of_all,
    _measured,
    (
        Mistake(
            "tokens for bytes",
            lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts) * _num_bytes(texts) / sum(counts)
            ),
            "These are bits per *token*: short pieces look good, bytes most of all.",
            "What do two tokenizers have in common on the same text?",
        ),
        Mistake(
            "characters for bytes",
            lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts)
                * _num_bytes(texts)
                / sum(map(len, texts))
            ),
            "`len(text)` counts characters. One of these texts is Vietnamese.",
            "Turn each text into bytes before you ask for its length.",
        ),
        Mistake(
            "nats for bits",
            lambda nats, counts, texts: bits_of_all(nats, counts, texts) * math.log(2),
            "Right, in another unit: nats per byte.",
            "A bit is the surprise of a fair coin: ln 2 nats.",
        ),
        Mistake(
            "turned into bits the wrong way",
            lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts) * math.log(2) ** 2
            ),
            "A bit is less than a nat. Should the number grow or shrink?",
            "1 nat is 1.44 bits. Multiply or divide by ln 2?",
        ),
        Mistake(
            "the numbers of tokens are not used",
            lambda nats, counts, texts: (
                sum(nats) / math.log(2) / sum(len(text.encode()) for text in texts)
            ),
            "You add up the mean losses, as if each text had one token.",
            "A text's mean loss times its number of tokens gives all of its nats.",
        ),
        Mistake(
            "the texts' own values are added up",
            lambda nats, counts, texts: sum(
                bits_of_all(*([part] for part in one))
                for one in zip(nats, counts, texts, strict=True)
            ),
            "Your number grows with each further text. Should a price per byte?",
            "First add up all nats and all bytes. Divide once, at the end.",
        ),
        Mistake(
            "bits per bit",
            lambda nats, counts, texts: bits_of_all(nats, counts, texts) / 8,
            "You divide by the number of bits in the texts.",
            "How many bytes do the texts contain? Do not count a byte as 8 here.",
        ),
        Mistake(
            "the mean of the texts' own values",
            lambda nats, counts, texts: _mean(
                bits_of_all(*([part] for part in one))
                for one in zip(nats, counts, texts, strict=True)
            ),
            "Each text has the same say, however short it is.",
            "First add up all nats and all bytes. Divide once, at the end.",
        ),
        Mistake(
            "the texts' own values, weighed by their tokens",
            _weighed_by_tokens,
            "You weight each text by its number of tokens. A value *per byte* is a "
            "mean over what?",
            "First add up the nats of all texts, then their bytes. Divide once.",
        ),
        Mistake(
            "the mean of the losses",
            lambda nats, counts, texts: bits_per_byte(
                _mean(nats), sum(counts), _num_bytes(texts)
            ),
            "A loss over five tokens weighs as much as one over many.",
            "A text's mean loss times its number of tokens gives all of its nats.",
        ),
    ),
    "How many nats does each text cost in all? Add them up, turn them into bits, and "
    "spread them over all the bytes.",
    shared=bits_of_the_course,
)


EXERCISES = (BITS,)
