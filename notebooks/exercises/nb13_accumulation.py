"""An exercise of notebook 13: one step from a batch that comes in parts.

Knows the shared loss. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from course_utils.checks import IGNORED
from named_mistakes import Exercise, Mistake


def accumulated(model: nn.Module, optimizer: Optimizer, batches: Iterable) -> list:
    """One step per batch, whose parts come one after the other; the loss of each."""
    losses = []
    for parts in batches:
        counted = sum((labels != -100).sum().item() for _, labels in parts)
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            logits = model(inputs).flatten(0, 1)
            loss = F.cross_entropy(logits, labels.flatten(), reduction="sum") / counted
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


class _Narrow(nn.Sequential):
    """A model whose memory holds the graph of one part of four rows, and no more."""

    waiting = 0  # parts that went forward, and not yet backward

    def forward(self, ids):
        if len(ids) > 4:
            raise MemoryError(f"{len(ids)} rows at once; there is room for 4")
        logits = super().forward(ids)
        if logits.requires_grad:
            if self.waiting:
                raise MemoryError("an earlier part still waits for its backward()")
            self.waiting = 1
            logits.register_hook(self._done)
        return logits

    def _done(self, gradient):
        self.waiting = 0


def _in_parts(generator):
    """A small model, its optimizer, and batches in parts with unequal padding."""
    model = _Narrow(nn.Embedding(7, 5), nn.Linear(5, 7, bias=False))
    model.to(torch.get_default_dtype())
    for weight in model.parameters():
        weight.data = torch.randn(weight.shape, generator=generator).to(weight)

    def part(rows, *lengths):
        ids = torch.randint(7, (rows, 6), generator=generator)
        labels = ids[:, 1:].clone()
        for row, length in enumerate(lengths):
            labels[row, length:] = IGNORED
        return ids[:, :-1], labels

    batches = [
        [part(3), part(2, 1, 2), part(1, 4)],
        [part(2, 2)],
        [part(1, 1), part(4, 5, 3), part(1, 0)],  # the last one is all padding
    ]
    return [(model, SGD(model.parameters(), lr=1.0), batches)]


def _loop(
    part_loss: Callable, *, empties: str = "batch", steps: str = "batch"
) -> Callable:
    """Training in parts, with another idea of one of its lines.

    part_loss: (sum, labels of the part, all parts) -> what is backpropagated and added.
    empties, steps: whether that happens once a "batch", once a "part", or "never".
    """

    def loop(model, optimizer, batches):
        losses = []
        for parts in batches:
            if empties == "batch":
                optimizer.zero_grad()
            total = 0.0
            for inputs, labels in parts:
                if empties == "part":
                    optimizer.zero_grad()
                logits = model(inputs).flatten(0, 1)
                added = F.cross_entropy(logits, labels.flatten(), reduction="sum")
                loss = part_loss(added, labels, parts)
                loss.backward()
                total += loss.item()
                if steps == "part":
                    optimizer.step()
            if steps == "batch":
                optimizer.step()
            losses.append(total)
        return losses

    return loop


def _mean_of_means_reported(model, optimizer, batches):
    """The right steps; reported is the plain mean of the parts' own losses."""
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        means = []
        for inputs, labels in parts:
            logits = model(inputs).flatten(0, 1)
            added = F.cross_entropy(logits, labels.flatten(), reduction="sum")
            _right(added, labels, parts).backward()
            means.append((added / _counted(labels)).item())
        optimizer.step()
        losses.append(sum(means) / len(means))
    return losses


def _reported(report, part_loss):
    """Training with this loss of a part; reported is what `report` makes of the batch.

    report: (sum of each part, the parts) -> number.
    """

    def loop(model, optimizer, batches):
        losses = []
        for parts in batches:
            optimizer.zero_grad()
            sums = []
            for inputs, labels in parts:
                logits = model(inputs).flatten(0, 1)
                added = F.cross_entropy(logits, labels.flatten(), reduction="sum")
                part_loss(added, labels, parts).backward()
                sums.append(added.item())
            optimizer.step()
            losses.append(report(sums, parts))
        return losses

    return loop


def _total_count(parts):
    return sum(_counted(labels) for _, labels in parts).item()


def _mean_reported_of_sums(model, optimizer, batches):
    """Reported is the mean over the labels; the gradient is that of the sum."""
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            logits = model(inputs).flatten(0, 1)
            added = F.cross_entropy(logits, labels.flatten(), reduction="sum")
            added.backward()
            total += _right(added, labels, parts).item()
        optimizer.step()
        losses.append(total)
    return losses


def _places(parts):
    return sum(labels.numel() for _, labels in parts)


def _counted(labels):
    return (labels != IGNORED).sum()


def _counted_of(parts):
    return sum(_counted(labels) for _, labels in parts)


def _right(added, labels, parts):
    return added / _counted_of(parts)


def _joined(model, optimizer, batches):
    joined = [
        [tuple(torch.cat(column) for column in zip(*parts, strict=True))]
        for parts in batches
    ]
    return accumulated(model, optimizer, joined)


def _all_graphs(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        sums = [
            F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum")
            for x, y in parts
        ]
        loss = sum(sums) / _total_count(parts)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


ACCUMULATE = Exercise(
    name="training.accumulate",
    statement="Gives the loss of each batch, before its one step, as plain floats. A "
    "batch is a list of parts (inputs, labels), both “b t”, and each part must go "
    "through the model alone. The step must be that of the whole batch.",
    takes=("model", "optimizer", "batches"),
    reference=accumulated,
    cases=_in_parts,
    mistakes=(
        Mistake(
            name="the mean of the parts' means",
            function=_loop(
                lambda added, labels, parts: added / _counted(labels) / len(parts)
            ),
            hint="A part with few labels weighs as much as a part with many. In the "
            "whole batch, every label weighs the same.",
            more="Divide each sum by a number that is the same for all parts of the "
            "batch.",
        ),
        Mistake(
            name="the parts are joined again",
            function=_joined,
            hint="The right step, but the parts go through the model together. They "
            "came in parts because memory has no room for all of them.",
            more="One part at a time: forward, backward, then the next.",
        ),
        Mistake(
            name="every part's graph is kept",
            function=_all_graphs,
            hint="Each part goes through alone, and its graph stays in memory until "
            "the end of the batch. What frees it?",
            more="Call backward on each part before the next one is read.",
        ),
        Mistake(
            name="a part without labels makes nan",
            function=_loop(
                lambda added, labels, parts: (
                    added / _counted(labels) * _counted(labels) / _counted_of(parts)
                )
            ),
            hint="One part is all padding: the mean over its labels is 0/0, and nan "
            "times 0 is nan.",
            more="Add up sums, and divide by the labels of the whole batch.",
        ),
        Mistake(
            name="means added up",
            function=_loop(lambda added, labels, parts: added / _counted(labels)),
            hint="Three parts make a step about three times as long as the whole batch "
            "would.",
            more="backward *adds* gradients. What must each part be divided by before "
            "that?",
        ),
        Mistake(
            name="sums without a division",
            function=_loop(lambda added, labels, parts: added),
            hint="A larger batch makes a longer step. The mean over its labels would "
            "not.",
            more="How many labels count in the whole batch?",
        ),
        Mistake(
            name="padding is counted",
            function=_loop(lambda added, labels, parts: added / _places(parts)),
            hint="You divide by the number of places. Does a place with the label −100 "
            "add anything to the loss?",
            more="Count the labels that are not −100, over all parts.",
        ),
        Mistake(
            name="parts are weighed by their texts or places",
            function=_loop(
                lambda added, labels, parts: (
                    added / _counted(labels) * labels.numel() / _places(parts)
                )
            ),
            hint="You weigh each part by its size, so one that is half padding counts "
            "as much as a full one. What is the loss of a part a mean over?",
            more="Weigh each mean by the number of labels that it is a mean of.",
        ),
        Mistake(
            name="only the reported loss is divided",
            function=_mean_reported_of_sums,
            hint="You report a mean, but your gradients are those of a sum, so the "
            "step is many times too long. When do you divide?",
            more="backward has to see the number that you report, part by part.",
        ),
        Mistake(
            name="only the last part is left",
            function=_loop(_right, empties="part"),
            hint="The gradients of the earlier parts are gone before anyone used them.",
            more="How often may .grad be emptied between two steps?",
        ),
        Mistake(
            name="a step after every part",
            function=_loop(_right, steps="part"),
            hint="The second part meets a model that has already moved.",
            more="Collect first, move once.",
        ),
        Mistake(
            name="every part is a batch of its own",
            function=_loop(_right, empties="part", steps="part"),
            hint="Each part empties the gradients and steps: three small steps for "
            "one.",
            more="Which calls belong to a part, and which to the whole batch?",
        ),
        Mistake(
            name="only the reported loss weighs the parts alike",
            function=_mean_of_means_reported,
            hint="The model moves as it should. The number that you report is a "
            "different one.",
            more="Weigh the losses that you add up as you weigh their gradients.",
        ),
        Mistake(
            name="only the steps weigh the parts alike",
            function=_reported(
                lambda sums, parts: sum(sums) / _total_count(parts),
                lambda added, labels, parts: added / _counted(labels) / len(parts),
            ),
            hint="The first loss is right, the second is not: your report weighs the "
            "parts by their labels, and your gradients do not.",
            more="backward has to see each part with the weight that it has in the "
            "report.",
        ),
        Mistake(
            name="a sum is reported",
            function=_reported(lambda sums, parts: sum(sums), _right),
            hint="The model moves as it should. You report a sum over the labels.",
            more="The loss of a batch is a mean. Over how many labels?",
        ),
        Mistake(
            name="old gradients are still there",
            function=_loop(_right, empties="never"),
            hint="The first two losses are right, the third is not: the second step "
            "went two ways at once.",
            more="backward adds to what is already in .grad. Who empties it from batch "
            "to batch?",
        ),
        Mistake(
            name="every loss is that of the first weights",
            function=_loop(_right, steps="never"),
            hint="Your losses are those of a model that stands still. Has anything "
            "moved the weights before the second batch is read?",
            more="Gradients alone change nothing. Which call reads them, and how "
            "often?",
        ),
    ),
    hint="Two loops, one inside the other: over batches, and over the parts of a "
    "batch. Count the labels of the whole batch first. The inner loop only collects "
    "gradients; what happens once per batch belongs outside it.",
    plain=True,
)


EXERCISES = (ACCUMULATE,)
