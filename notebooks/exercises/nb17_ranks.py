"""Exercises of notebook 17: the loss of several processes.

Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor

from course_utils.checks import IGNORED
from named_mistakes import Exercise, Mistake


def mean_over_ranks(losses: Tensor, labels: list[Tensor]) -> float:
    """The mean loss of all labels, from each rank's mean loss and its labels."""
    counts = torch.stack([(part != -100).sum() for part in labels])
    sums = (losses * counts)[counts > 0]  # the mean of no labels is nan
    return (sums.sum() / counts.sum()).item()


def _weighted(losses, weights):
    weights = torch.tensor(weights)
    return ((losses * weights).sum() / weights.sum()).item()


def _counts(labels):
    return [int((part != IGNORED).sum()) for part in labels]


def _pairs(labels):
    return zip(labels, _counts(labels), strict=True)


def _sum(losses, labels):
    """Of the losses of all labels; ranks without labels are left out."""
    return (losses.nan_to_num(0.0) * torch.tensor(_counts(labels))).sum().item()


def _parts(generator):
    kind = torch.get_default_dtype()

    def one(*ranks):
        """Each rank has (rows, length, labels that do not count)."""
        labels = []
        for rows, length, ignored in ranks:
            part = torch.randint(0, 90, (rows * length,), generator=generator)
            part[0] = 0  # an id like any other
            part[len(part) - ignored :] = IGNORED
            labels.append(part.view(rows, length))
        losses = 1 + 3 * torch.rand(len(ranks), generator=generator, dtype=kind)
        losses += torch.arange(len(ranks))
        silent = [rows * length == ignored for rows, length, ignored in ranks]
        return losses.masked_fill(torch.tensor(silent), torch.nan), labels

    return [
        one((2, 6, 1), (2, 9, 11)),
        one((3, 5, 0), (2, 8, 4), (2, 4, 5)),
        one((2, 4, 3)),
        one((2, 5, 4), (2, 3, 6), (1, 8, 0)),
    ]


MEAN = Exercise(
    name="scaling.mean_over_ranks",
    statement="Gives the loss that one process would report, from the mean loss of "
    "each rank (tensor “r”) and the labels of each rank (a list of tensors “b t”; −100 "
    "does not count). Otherwise two ranks train a different model than one process.",
    takes=("losses", "labels"),
    reference=mean_over_ranks,
    cases=_parts,
    mistakes=(
        Mistake(
            name="every rank weighs the same",
            function=lambda losses, labels: losses.mean().item(),
            hint="A rank with two labels counts as much as one with twenty.",
            more="Weight each loss by a number from its rank. Which one?",
        ),
        Mistake(
            name="every rank with labels weighs the same",
            function=lambda losses, labels: losses.nanmean().item(),
            hint="Ranks without labels are left out, as they should be. But two labels "
            "count as much as twenty.",
            more="Weight each loss by a number from its rank. Which one?",
        ),
        Mistake(
            name="weighed by rows",
            function=lambda losses, labels: _weighted(
                losses, [len(part) for part in labels]
            ),
            hint="Ranks with the same number of rows count the same. Are their rows "
            "equally long?",
            more="What is a mean loss averaged over? Weight by that.",
        ),
        Mistake(
            name="weighed by rows, and no labels cost 0",
            function=lambda losses, labels: _weighted(
                losses.nan_to_num(0.0), [len(part) for part in labels]
            ),
            hint="A rank without labels counts as a loss of 0, and the others are "
            "weighted by their rows.",
            more="What is a mean loss averaged over? Weight by that, and leave out "
            "ranks without labels.",
        ),
        Mistake(
            name="weighed by rows, where there are labels",
            function=lambda losses, labels: _weighted(
                losses.nan_to_num(0.0),
                [len(part) * (n > 0) for part, n in _pairs(labels)],
            ),
            hint="A rank without labels is left out. The others are weighted by their "
            "rows, long or short.",
            more="What is a mean loss averaged over? Weight by that.",
        ),
        Mistake(
            name="labels of 0 do not count",
            function=lambda losses, labels: _weighted(
                losses.nan_to_num(0.0), [int((part > 0).sum()) for part in labels]
            ),
            hint="Your counts leave out the labels that are 0. Which labels do not "
            "count?",
            more="Only −100 is no label. 0 is an id like any other.",
        ),
        Mistake(
            name="padding counts",
            function=lambda losses, labels: _weighted(
                losses, [part.numel() for part in labels]
            ),
            hint="You weight by all places. Some labels were left out of each rank's "
            "mean.",
            more="A label of −100 does not count.",
        ),
        Mistake(
            name="padding counts, where there are labels",
            function=lambda losses, labels: _weighted(
                losses.nan_to_num(0.0),
                [part.numel() * (n > 0) for part, n in _pairs(labels)],
            ),
            hint="A rank without labels is left out. The others are weighted by all "
            "their places, even padded ones.",
            more="A label of −100 does not count.",
        ),
        Mistake(
            name="padding counts, and no labels cost 0",
            function=lambda losses, labels: _weighted(
                losses.nan_to_num(0.0), [part.numel() for part in labels]
            ),
            hint="You weight by all places, and a rank without labels counts as a loss "
            "of 0. Over which labels does a rank take its mean?",
            more="A label of −100 does not count, and neither does a rank of nothing "
            "but −100.",
        ),
        Mistake(
            name="weighed by the padding",
            function=lambda losses, labels: _weighted(
                losses, [part.numel() - n + 1e-9 for part, n in _pairs(labels)]
            ),
            hint="You count the labels that do not count.",
            more="Turn the comparison with −100 around.",
        ),
        Mistake(
            name="the sum",
            function=lambda losses, labels: _sum(losses, labels),
            hint="That is the sum of the losses of all labels. A mean is wanted.",
            more="Divide by the number of all labels.",
        ),
        Mistake(
            name="divided by the ranks",
            function=lambda losses, labels: _sum(losses, labels) / len(labels),
            hint="You add up over labels, and divide by ranks.",
            more="After multiplying by the labels, how many things did you add up?",
        ),
        Mistake(
            name="times the number of ranks",
            function=lambda losses, labels: (
                len(labels) * mean_over_ranks(losses, labels)
            ),
            hint="Your result is too large by a factor: the number of ranks.",
            more="The shares n / Σn already add up to one.",
        ),
        Mistake(
            name="a rank without labels spoils the rest",
            function=lambda losses, labels: _weighted(losses, _counts(labels)),
            hint="A mean of no labels is nan. What is 0 · nan?",
            more="Leave out the ranks that have no label before you multiply.",
        ),
        Mistake(
            name="rank 0 alone",
            function=lambda losses, labels: losses[0].item(),
            hint="That is what rank 0 knows before it has heard the others.",
            more="Which argument is unused?",
        ),
    ),
    hint=(
        "Count the labels of each rank first, without those that are −100.",
        "Loss times label count is a sum over labels. The sums of all ranks can be "
        "added.",
    ),
)


EXERCISES = (MEAN,)
