"""An exercise of notebook 11: can a model learn one batch by heart?

Knows gradient descent. Knows nothing of how an answer is run or shown.
"""

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam

from named_mistakes import Exercise, Mistake


def one_batch(
    model: nn.Module, inputs: Tensor, labels: Tensor, steps: int, rate: float
) -> tuple[float, float]:
    """The loss on one batch before the first step and after the last."""
    optimizer = SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
    return losses[0], after.item()


def _losses(
    model, inputs, labels, steps, rate, *, clear=True, reduction="mean", kind=SGD
):
    """All losses, one more than there are steps."""
    optimizer = kind(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps + 1):
        logits = model(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, labels.flatten(), reduction=reduction)
        losses.append(loss.item())
        if clear:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def _ends(losses):
    return losses[0], losses[-1]


class _AllButTheLast(nn.Module):
    """A model whose logits at the last position are thrown away."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids)[:, :-1]


def _uphill(model, inputs, labels, steps, rate):
    losses = []
    for _ in range(steps + 1):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight += rate * weight.grad
    return _ends(losses)


def _row_by_row(model, inputs, labels, steps, rate):
    before, _ = one_batch(model, inputs, labels, 1, 0.0)
    for _ in range(steps):
        for row, row_labels in zip(inputs, labels, strict=True):
            one_batch(model, row[None], row_labels[None], 1, rate)
    after, _ = one_batch(model, inputs, labels, 1, 0.0)
    return before, after


def _young(generator):
    """Three small models, each with a batch of its own."""
    cases = []
    for steps, rate in ((3, 0.5), (8, 0.5), (2, 12.0)):  # 12 is too fast: it rises
        model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7, bias=False))
        model.to(torch.get_default_dtype())
        for weight in model.parameters():
            weight.data = torch.randn(weight.shape, generator=generator).to(weight)
        ids = torch.randint(7, (2, 6), generator=generator)
        labels = ids[:, 1:].clone()  # not a view: what is changed can be named
        cases.append((model, ids[:, :-1].clone(), labels, steps, rate))
    return cases


ONE_BATCH = Exercise(
    name="backbone.one_batch",
    statement="Gives two numbers: the mean loss on one batch (inputs and labels “b t”) "
    "before the first and after the last of `steps` steps of plain gradient descent "
    "with this rate. A model that cannot learn one batch by heart has a bug.",
    takes=("model", "inputs", "labels", "steps", "rate"),
    reference=one_batch,
    cases=_young,
    mistakes=(
        Mistake(
            name="gradients that add up",
            function=lambda *case: _ends(_losses(*case, clear=False)),
            hint="Each step also uses the gradients of all earlier steps.",
            more="What does `backward` do with a gradient that is there already?",
        ),
        Mistake(
            name="measured before the last step",
            function=lambda *case: _ends(_losses(*case)[:-1]),
            hint="Your second number is the loss before the last step, not after it.",
            more="The loss of a loop is measured before it steps.",
        ),
        Mistake(
            name="measured after the first step",
            function=lambda *case: _ends(_losses(*case)[1:]),
            hint="Your first number comes one step too late.",
            more="Measure before you train.",
        ),
        Mistake(
            name="one step too many",
            function=lambda model, inputs, labels, steps, rate: _ends(
                _losses(model, inputs, labels, steps + 1, rate)
            ),
            hint="You take one step more than asked for.",
            more="How many losses belong to `steps` steps, if both ends are measured?",
        ),
        Mistake(
            name="the smallest loss",
            function=lambda *case: (_losses(*case)[0], min(_losses(*case))),
            hint="Right as long as the loss keeps falling. With too large a rate it "
            "rises.",
            more="The loss after the last step is asked for, whatever it is.",
        ),
        Mistake(
            name="the weights stay as they are",
            function=lambda *case: _losses(*case)[:1] * 2,
            hint="Both losses are the same: no step has changed the model.",
            more="In what order do zero_grad, backward and step come? Is one missing?",
        ),
        Mistake(
            name="labels that are the inputs",
            function=lambda model, inputs, labels, steps, rate: _ends(
                _losses(model, inputs, inputs, steps, rate)
            ),
            hint="You ask the model to repeat what it reads.",
            more="Which of the two tensors holds the next tokens?",
        ),
        Mistake(
            name="a sum in place of a mean",
            function=lambda *case: _ends(_losses(*case, reduction="sum")),
            hint="Your loss grows with the size of the batch, and so do your steps.",
            more="Is it the loss per token?",
        ),
        Mistake(
            name="the steps follow the sum of a row",
            function=lambda model, inputs, labels, steps, rate: one_batch(
                model, inputs, labels, steps, rate * inputs.shape[1]
            ),
            hint="Your first number is right, but each step is t times as long as it "
            "should be. Which loss do you take the gradient of?",
            more="The mean runs over all tokens of the batch, in the steps as well.",
        ),
        Mistake(
            name="uphill",
            function=_uphill,
            hint="The loss rises: you follow the gradient, not its opposite.",
            more="In which direction does the loss fall?",
        ),
        Mistake(
            name="shifted once more",
            function=lambda model, inputs, labels, steps, rate: _ends(
                _losses(_AllButTheLast(model), inputs, labels[:, 1:], steps, rate)
            ),
            hint="You ask for the token after the next, and leave one position out.",
            more="The labels are shifted already: inputs and labels have the same "
            "length.",
        ),
        Mistake(
            name="momentum",
            function=lambda *case: _ends(
                _losses(*case, kind=partial(SGD, momentum=0.9))
            ),
            hint="Your first step is right. Later steps also go on in the old "
            "direction.",
            more="Plain gradient descent has a rate and nothing else.",
        ),
        Mistake(
            name="Adam",
            function=lambda *case: _ends(_losses(*case, kind=Adam)),
            hint="Adam gives each weight a step size of its own. Plain gradient "
            "descent was asked for.",
            more="torch.optim.SGD has the plain rule.",
        ),
        Mistake(
            name="a step for each row",
            function=_row_by_row,
            hint="Your model takes a step after each row, so it takes several times as "
            "many steps. How many does a whole batch take?",
            more="One loss over all rows, one call of backward, one step.",
        ),
    ),
    hint="torch.optim.SGD with the model's parameters and the rate. In each of the "
    "steps: logits, F.cross_entropy with both flattened, zero_grad, backward, step. "
    "Then measure once more.",
    seconds=10,
    plain=True,
)


EXERCISES = (ONE_BATCH,)
