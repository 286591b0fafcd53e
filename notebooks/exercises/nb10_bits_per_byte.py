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

    nats, counts, texts = one(TEXTS[:2])
    again = [(nats[::-1], counts, texts), (nats, counts[::-1], texts)]
    again.append((nats, counts, [*texts[:-1], "another"]))
    return [one(TEXTS), (nats, counts, texts), *again]


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
    name="tokens.bits_per_byte",
    statement="Gives the bits per byte of some texts together, from the mean loss of "
    "each in nats per token and its number of tokens. This compares tokenizers.",
    takes=("nats", "counts", "texts"),
    reference=bits_of_all,
    cases=_measured,
    mistakes=(
        Mistake(
            name="tokens for bytes",
            function=lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts) * _num_bytes(texts) / sum(counts)
            ),
            hint="These are bits per *token*: short pieces look good, bytes most of "
            "all.",
            more="What do two tokenizers have in common on the same text?",
        ),
        Mistake(
            name="characters for bytes",
            function=lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts)
                * _num_bytes(texts)
                / sum(map(len, texts))
            ),
            hint="`len(text)` counts characters. One of these texts is Vietnamese.",
            more="Turn each text into bytes before you ask for its length.",
        ),
        Mistake(
            name="nats for bits",
            function=lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts) * math.log(2)
            ),
            hint="Right, in another unit: nats per byte.",
            more="A bit is the surprise of a fair coin: ln 2 nats.",
        ),
        Mistake(
            name="turned into bits the wrong way",
            function=lambda nats, counts, texts: (
                bits_of_all(nats, counts, texts) * math.log(2) ** 2
            ),
            hint="A bit is less than a nat. Should the number grow or shrink?",
            more="1 nat is 1.44 bits. Multiply or divide by ln 2?",
        ),
        Mistake(
            name="the numbers of tokens are not used",
            function=lambda nats, counts, texts: (
                sum(nats) / math.log(2) / sum(len(text.encode()) for text in texts)
            ),
            hint="You add up the mean losses, as if each text had one token.",
            more="A text's mean loss times its number of tokens gives all of its nats.",
        ),
        Mistake(
            name="the texts' own values are added up",
            function=lambda nats, counts, texts: sum(
                bits_of_all(*([part] for part in one))
                for one in zip(nats, counts, texts, strict=True)
            ),
            hint="Your number grows with each further text. Should a price per byte?",
            more="First add up all nats and all bytes. Divide once, at the end.",
        ),
        Mistake(
            name="bits per bit",
            function=lambda nats, counts, texts: bits_of_all(nats, counts, texts) / 8,
            hint="You divide by the number of bits in the texts.",
            more="How many bytes do the texts contain? Do not count a byte as 8 here.",
        ),
        Mistake(
            name="the mean of the texts' own values",
            function=lambda nats, counts, texts: _mean(
                bits_of_all(*([part] for part in one))
                for one in zip(nats, counts, texts, strict=True)
            ),
            hint="Each text has the same say, however short it is.",
            more="First add up all nats and all bytes. Divide once, at the end.",
        ),
        Mistake(
            name="the texts' own values, weighed by their tokens",
            function=_weighed_by_tokens,
            hint="You weight each text by its number of tokens. A value *per byte* is "
            "a mean over what?",
            more="First add up the nats of all texts, then their bytes. Divide once.",
        ),
        Mistake(
            name="the mean of the losses",
            function=lambda nats, counts, texts: bits_per_byte(
                _mean(nats), sum(counts), _num_bytes(texts)
            ),
            hint="A loss over five tokens weighs as much as one over many.",
            more="A text's mean loss times its number of tokens gives all of its nats.",
        ),
    ),
    hint="How many nats does each text cost in all? Add them up, turn them into bits, "
    "and spread them over all the bytes.",
    shared=bits_of_the_course,
)


EXERCISES = (BITS,)
