"""An exercise of notebook 13: one step of training after the other.

Knows the shared loss. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer

from course_utils.checks import IGNORED
from course_utils.training.losses import label_loss
from named_mistakes import Exercise, Mistake


def steps(model: nn.Module, optimizer: Optimizer, batches: Iterable) -> list[float]:
    """One step per batch; the loss of each, measured before its step."""
    losses = []
    for inputs, labels in batches:
        logits = model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _young(generator):
    """A small model, its optimizer and four batches in which tokens return."""
    model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7, bias=False))
    model.to(torch.get_default_dtype())
    for weight in model.parameters():
        weight.data = torch.randn(weight.shape, generator=generator).to(weight)
    batches = []
    for _ in range(4):
        ids = torch.randint(7, (3, 6), generator=generator)
        labels = ids[:, 1:].clone()
        labels[1, 3:] = IGNORED
        batches.append((ids[:, :-1], labels))
    return [(model, SGD(model.parameters(), lr=1.0), batches)]


def _order(*parts: Callable) -> Callable:
    """A loop whose parts run in this order; each is handed (optimizer, loss)."""

    def loop(model, optimizer, batches):
        losses = []
        for inputs, labels in batches:
            loss = label_loss(model(inputs), labels, 0.0)
            for part in parts:
                part(optimizer, loss)
            losses.append(loss.item())
        return losses

    return loop


def _empty(optimizer, loss):
    optimizer.zero_grad()


def _back(optimizer, loss):
    loss.backward()


def _move(optimizer, loss):
    optimizer.step()


def _echo(model, optimizer, batches):
    return steps(model, optimizer, [(inputs, inputs) for inputs, _ in batches])


def _shifted(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = label_loss(model(inputs)[:, :-1], labels[:, 1:], 0.0)
        for part in (_empty, _back, _move):
            part(optimizer, loss)
        losses.append(loss.item())
    return losses


def _late(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        steps(model, optimizer, [(inputs, labels)])
        losses.append(label_loss(model(inputs), labels, 0.0).item())
    return losses


def _added(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        logits, targets = model(inputs).flatten(0, 1), labels.flatten()
        loss = F.cross_entropy(logits, targets, reduction="sum")
        for part in (_empty, _back, _move):
            part(optimizer, loss)
        losses.append(loss.item() / (labels != IGNORED).sum().item())
    return losses


def _by(loss_of):
    """Training with another idea of the loss, a function of logits and labels."""

    def loop(model, optimizer, batches):
        losses = []
        for inputs, labels in batches:
            loss = loss_of(model(inputs), labels)
            for part in (_empty, _back, _move):
                part(optimizer, loss)
            losses.append(loss.item())
        return losses

    return loop


def _sum_of_losses(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def _mean_over_places(logits, labels):
    return _sum_of_losses(logits, labels) / labels.numel()


STEP = Exercise(
    name="training.step",
    statement="Gives the losses, a list of plain floats, for batches of (inputs, "
    "labels), both “b t”: each the mean loss before its step, then the step. These "
    "lines are all of training.",
    takes=("model", "optimizer", "batches"),
    reference=steps,
    cases=_young,
    mistakes=(
        Mistake(
            name="old gradients are still there",
            function=_order(_back, _move),
            hint="The first two losses are right, the third is not: the second step "
            "went two ways at once.",
            more="backward *adds* to what is already in .grad. Who empties it?",
        ),
        Mistake(
            name="every loss is that of the first weights",
            function=_order(_empty, _back),
            hint="Your losses are those of a model that stands still. Has anything "
            "moved the weights before the second batch is read?",
            more="One call fills .grad, one reads it, one empties it: all three for "
            "each batch, in an order that makes sense.",
        ),
        Mistake(
            name="shifted twice",
            function=_shifted,
            hint="Your model learns the token after the next one. What do the labels "
            "of a batch already hold?",
            more="inputs[t] and labels[t] belong together: see section 1.",
        ),
        Mistake(
            name="inputs as labels",
            function=_echo,
            hint="The model learns to repeat the token it has just read.",
            more="A batch has two parts. You use one of them twice.",
        ),
        Mistake(
            name="measured after the step",
            function=_late,
            hint="The model has already seen each batch: its losses are one step too "
            "good.",
            more="The loss that gives the gradients is the one to keep.",
        ),
        Mistake(
            name="the sum for the mean",
            function=_by(_sum_of_losses),
            hint="A batch with more labels has a larger loss and makes longer steps.",
            more="F.cross_entropy takes the mean by itself.",
        ),
        Mistake(
            name="padding is counted",
            function=_by(_mean_over_places),
            hint="You divide by the number of places. Does a place with the label −100 "
            "add anything to the loss?",
            more="The mean is over the labels that are not −100.",
        ),
        Mistake(
            name="softmax twice",
            function=_by(
                lambda logits, labels: label_loss(logits.softmax(-1), labels, 0.0)
            ),
            hint="You hand over probabilities. What does F.cross_entropy take?",
            more="F.cross_entropy does the softmax itself. Give it the logits.",
        ),
        Mistake(
            name="steps of a sum",
            function=_added,
            hint="A batch with more labels makes longer steps. The mean would not.",
            more="Take the gradients of the loss that you report.",
        ),
    ),
    hint=(
        "Four calls belong to each batch. Which of them must come before `step`, "
        "and what must be empty before `backward`?",
        "For each batch: the loss, zero_grad, backward, step.",
    ),
    plain=True,
)


EXERCISES = (STEP,)
