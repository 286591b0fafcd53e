"""Exercises of notebook 16: an instrument that knows a number, and one that counts.

Knows losses and batches to try them on. Knows nothing of how an answer is run or shown.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake

Loss = Callable[[Tensor, Tensor], Tensor]
Batches = Callable[[int], tuple[Tensor, Tensor]]

# --- a number known beforehand -------------------------------------------------------

VOCAB = 11


def _right(logits, labels):
    return F.cross_entropy(logits.mT, labels)


def _twice(logits, labels):
    return _right(logits.softmax(dim=-1), labels)


def _in_bits(logits, labels):
    return _right(logits, labels) / math.log(2)


def _in_digits(logits, labels):
    return _right(logits, labels) / math.log(10)


def _summed(logits, labels):
    return F.cross_entropy(logits.mT, labels, reduction="sum")


def _smoothed(logits, labels):
    return F.cross_entropy(logits.mT, labels, label_smoothing=0.1)


def _one_label_less(logits, labels):
    return _summed(logits, labels) / (labels.numel() - 1)


def _next_but_one(logits, labels):
    return _right(logits[:, :-1], labels[:, 1:])


def _padding_counted(logits, labels):
    return _summed(logits, labels) / labels.numel()


def _losses(generator):
    labels = torch.stack([torch.randperm(VOCAB, generator=generator)[:5]] * 2)
    losses = _right, _twice, _in_bits, _in_digits, _summed, _smoothed, _next_but_one
    losses += (_one_label_less,)
    cases = [(loss, labels, VOCAB) for loss in losses]
    padded = labels.clone()
    padded[0, 3:] = -100  # what most batches hold
    cases += [(loss, padded, VOCAB) for loss in (_right, _twice, _padding_counted)]
    return [*cases, (_right, labels[:1, :2], VOCAB)]


def _judged(is_sick):
    """An instrument from a rule for two losses: of zeros, of confident logits."""

    def instrument(loss, labels, vocab_size):
        ids = labels.clamp(min=0)
        sure = 50.0 * F.one_hot(ids, vocab_size).to(torch.get_default_dtype())
        return bool(is_sick(loss(0 * sure, labels), loss(sure, labels), vocab_size))

    return instrument


def misjudges(loss: Loss, labels: Tensor, vocab_size: int) -> bool:
    """Does a loss miss ln V for logits of zeros, or 0 for confident, correct ones?"""
    zeros = torch.zeros(*labels.shape, vocab_size)
    sure = zeros.scatter(-1, labels[..., None].clamp(min=0), 50.0)  # -100 is no id
    of_zeros = loss(zeros, labels) - math.log(vocab_size)
    return bool(of_zeros.abs() > 1e-3 or loss(sure, labels).abs() > 1e-3)


KNOWN = Exercise(
    name="clinic.misjudges",
    statement="Gives True unless loss(logits, labels), “b t v” against “b t”, is ln V "
    "for logits of zeros and 0 for logits that are confident and correct (50 at the "
    "label, else 0), each to 0.001. Labels of −100 do not count.",
    takes=("loss", "labels", "vocab_size"),
    reference=misjudges,
    cases=_losses,
    mistakes=(
        Mistake(
            name="only logits of zeros are tried",
            function=_judged(lambda zeros, sure, v: (zeros - math.log(v)).abs() > 1e-3),
            hint="A loss with a second softmax goes unnoticed: it also gives ln V for "
            "zeros.",
            more="There is a second kind of logits whose loss you know without "
            "computing.",
        ),
        Mistake(
            name="only sure logits are tried",
            function=_judged(lambda zeros, sure, v: sure.abs() > 1e-3),
            hint="A loss in bits goes unnoticed: 0 bits are 0 nats.",
            more="What is the loss per word of a model that knows nothing?",
        ),
        Mistake(
            name="one right number is enough",
            function=_judged(
                lambda zeros, sure, v: (
                    (zeros - math.log(v)).abs() > 1e-3 and sure.abs() > 1e-3
                )
            ),
            hint="You require two wrong numbers. One is enough to make a loss sick.",
            more="Which word joins the two conditions: and, or?",
        ),
        Mistake(
            name="a loss that is too small passes",
            function=_judged(
                lambda zeros, sure, v: zeros - math.log(v) > 1e-3 or sure > 1e-3
            ),
            hint="You only catch a loss that is too large. What about one in decimal "
            "digits, which is smaller than ln V?",
            more="A miss in either direction is a miss: compare the size of the "
            "difference.",
        ),
        Mistake(
            name="every loss is called sick",
            function=lambda loss, labels, size: bool(
                _judged(lambda zeros, sure, v: (zeros - math.log(v)).abs() > 1e-3)(
                    loss, labels, size
                )
                or loss(1.0 * F.one_hot(labels.clamp(min=0), size), labels).abs() > 1e-3
            ),
            hint="A healthy loss gets True as well. Which of your two tests does it "
            "fail: that of zeros, or that of confident logits?",
            more="Zeros cost the logarithm of vocab_size. Softmax turns a lead of 50 "
            "into a probability of 1, and a lead of 1 does not.",
        ),
        Mistake(
            name="a miss of less than one half passes",
            function=_judged(
                lambda zeros, sure, v: (zeros - math.log(v)).abs() > 0.5 or sure > 0.5
            ),
            hint="A loss that divides by one label too few goes unnoticed. How exactly "
            "do you know the two numbers?",
            more="Forgive only rounding: 0.001 is more than enough.",
        ),
        Mistake(
            name="the logarithm to base 2",
            function=_judged(
                lambda zeros, sure, v: (
                    (zeros - math.log2(v)).abs() > 1e-3 or sure.abs() > 1e-3
                )
            ),
            hint="The loss in bits is called healthy, and the one in nats sick.",
            more="F.cross_entropy counts in nats, with the natural logarithm.",
        ),
        Mistake(
            name="a label of −100 is taken for an id",
            function=lambda loss, labels, size: misjudges(
                loss, F.one_hot(labels, size).argmax(-1), size
            ),
            hint="Some labels are −100: nothing is to be guessed there. Your logits "
            "ask for the place −100 of a row.",
            more="Any place will do where no label counts: labels.clamp(min=0).",
        ),
        Mistake(
            name="labels of its own",
            function=lambda loss, labels, size: misjudges(
                loss, torch.arange(size)[None], size
            ),
            hint="A loss that counts padding goes unnoticed, as there is none among "
            "the labels that you make up.",
            more="Use the labels that are handed in, with every −100 in them.",
        ),
        Mistake(
            name="upside down",
            function=lambda *given: not misjudges(*given),
            hint="Everything is found, but reported the wrong way around: True means "
            "sick.",
            more="A healthy loss should give False.",
        ),
    ),
    hint="Make logits of zeros, and compare their loss with math.log(vocab_size). Make "
    "logits with 50 at the label; −100 is no place in them, and any place will do. "
    "Compare their loss with 0. A miss in either is enough for an alarm.",
)

# --- a count over batches ------------------------------------------------------------


def never_a_label(batches: Batches, steps: int, vocab_size: int) -> list[int]:
    """The ids that are a label in none of the batches 0 … steps - 1, in order."""
    seen = set()
    for step in range(steps):
        seen |= set(batches(step)[1].flatten().tolist())
    return [id for id in range(vocab_size) if id not in seen]


def _texts(generator):
    """(batches, steps, vocab_size): rows end early, so that some labels are -100."""

    def batches_of(data, lengths):
        inputs, labels = data[..., :-1], data[..., 1:]
        ended = torch.arange(labels.shape[-1]) >= lengths[:, None, None]
        labels = labels.masked_fill(ended, -100)
        return lambda step: (inputs[step], labels[step])

    drawn = torch.stack([torch.randperm(9, generator=generator) for _ in range(8)])
    many = drawn.reshape(4, 2, 9)[:, :, :4] + 1  # id 0 stands in none of them
    many[:, :, 0] = 10  # a first token, which is never to be guessed
    first = many[:1].clone()
    first[0, :, 1:] = torch.tensor([[3, 4, 5], [5, 3, 4]])
    with_0 = torch.tensor([[[10, 7, 0, 1]], [[10, 0, 3, 7]]])
    ends = torch.tensor([2, 3, 1, 3])
    last_word = torch.tensor([[[10, 1, 2, 3]], [[10, 2, 1, 3]], [[10, 1, 1, 11]]])
    # id 11 is the last one of 12: counted with -100 or not at all, if the last batch is
    return [
        (batches_of(many, ends), 4, 12),
        (batches_of(first, torch.tensor([3])), 1, 12),
        (batches_of(last_word, torch.tensor([3, 1, 3])), 3, 12),
        (batches_of(with_0, torch.tensor([3, 2])), 2, 12),
    ]


def _counted(part, steps_of=range):
    """A count of the ids in one part of some batches."""

    def count(batches, steps, vocab_size):
        seen = set()
        for step in steps_of(steps):
            seen |= set(part(batches(step)).flatten().tolist())
        return [id for id in range(vocab_size) if id not in seen]

    return count


def _missing_in_one(batches, steps, vocab_size):
    missing = set()
    for step in range(steps):
        missing |= {*range(vocab_size)} - {*batches(step)[1].flatten().tolist()}
    return sorted(missing)


def _labels(batch):
    return batch[1]


COUNT = Exercise(
    name="clinic.never_a_label",
    statement="Gives the ids below vocab_size, in order, that are a label in none of "
    "batches(0) … batches(steps - 1), each (inputs, labels) “b t”; -100 is no label. "
    "What is never a label is never written.",
    takes=("batches", "steps", "vocab_size"),
    reference=never_a_label,
    cases=_texts,
    mistakes=(
        Mistake(
            name="the inputs are counted",
            function=_counted(lambda batch: batch[0]),
            hint="A token that is only ever read is missing from your list.",
            more="Which of the two tensors holds what the loss asks for?",
        ),
        Mistake(
            name="inputs count as well",
            function=_counted(torch.cat),
            hint="The first token of each text is read but never asked for.",
            more="Look at the labels alone.",
        ),
        Mistake(
            name="only the first batch is counted",
            function=_counted(_labels, lambda steps: range(1)),
            hint="What the first batch lacks may come in the second.",
            more="One batch is a sample. Go through all steps.",
        ),
        Mistake(
            name="only the last batch is counted",
            function=_counted(_labels, lambda steps: range(steps - 1, steps)),
            hint="Your count starts anew with each batch, or looks at the last one "
            "only.",
            more="Collect into a single set, made before the loop.",
        ),
        Mistake(
            name="the last batch is left out",
            function=_counted(_labels, lambda steps: range(steps - 1)),
            hint="An id that occurs in the last batch only is on your list.",
            more="range(steps) already ends with steps - 1.",
        ),
        Mistake(
            name="the first batch is left out",
            function=_counted(_labels, lambda steps: range(1, steps)),
            hint="An id that occurs in the first batch only is on your list.",
            more="With which number do the steps begin?",
        ),
        Mistake(
            name="id 0 is never counted",
            function=_counted(lambda batch: batch[1].clamp(min=0)[batch[1] > 0]),
            hint="A label of 0 is missing from your count. Which labels ask for "
            "nothing?",
            more="Only -100 is no label. 0 is an id like any other.",
        ),
        Mistake(
            name="missing in one batch is enough",
            function=_missing_in_one,
            hint="You list an id as soon as one batch lacks it. In how many of the "
            "batches must it be missing?",
            more="Collect the labels of all batches first. Ask once, at the end.",
        ),
        Mistake(
            name="the labels that occur are listed",
            function=lambda batches, steps, vocab_size: sorted(
                {*range(vocab_size)} - {*never_a_label(batches, steps, vocab_size)}
            ),
            hint="You list what is asked for. What is missing?",
            more="Begin with all ids, and take away those that you found.",
        ),
        Mistake(
            name="-100 counts from the end",
            function=lambda batches, steps, vocab_size: [
                id
                for id in never_a_label(batches, steps, vocab_size)
                if id != (-100) % vocab_size
            ],
            hint="A label of -100 was taken for an id. It says that nothing is asked "
            "here.",
            more="Leave out the negative labels before you count.",
        ),
        Mistake(
            name="-100 counts as id 0",
            function=_counted(lambda batch: batch[1].clamp(min=0)),
            hint="Padding makes id 0 a label in your count. A label of -100 says that "
            "nothing is asked here.",
            more="Leave the negative labels out; do not give them another id.",
        ),
    ),
    hint="Collect the labels of all steps in a set. Then go through range(vocab_size) "
    "and keep what is not in it.",
)


EXERCISES = (KNOWN, COUNT)
