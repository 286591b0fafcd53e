"""Exercises of notebook 16: what trains, and what learns one batch by heart.

Knows `diagnostics` and toys to try it on. Knows nothing of how an answer is run or
shown.
"""

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_utils import diagnostics
from named_mistakes import Exercise, Mistake


class _Patchwork(nn.Module):
    """Parameters of every kind: used, used in part, unused, without effect."""

    def __init__(self, generator):
        super().__init__()
        self.words, self.forgotten = nn.Embedding(7, 3), nn.Linear(3, 2)
        self.silenced, self.balance = nn.Linear(3, 5, bias=False), nn.Linear(2, 1)
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)

    def forward(self, ids):
        x = self.words(ids)
        pull = self.balance.weight @ x.new_tensor([1.0, -1.0]) + self.balance.bias
        return x.square().mean() + 0 * self.silenced(x).sum() + pull.sum()


class _Stepped(nn.Linear):
    """A layer that still holds the gradients of an earlier step, as do its copies."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        for parameter in self.parameters():
            parameter.grad = torch.ones_like(parameter)

    def __deepcopy__(self, memo):
        copied = _Stepped(self.in_features, self.out_features)
        copied.load_state_dict(self.state_dict())
        return copied


def _drawn(layer, generator, low=-1.0, high=1.0):
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, low, high, generator=generator)
    return layer


def _models_and_losses(generator):
    def loss(model):
        return model(torch.tensor([[1, 4], [2, 4]]))

    def of_line(model):
        return model(torch.eye(3)[:2]).square().sum()

    def of_squares(model):  # each gradient of it is below 0
        return model.weight.square().sum()

    line = _drawn(nn.Linear(3, 4), generator, low=0.5)
    return [
        (_Patchwork(generator), loss),
        (line, lambda m: of_line(m) + m.weight.sum()),
        (_drawn(_Stepped(3, 2), generator, high=-0.5), of_squares),
        (_drawn(nn.Linear(2, 3), generator), lambda m: 1e-9 * m.weight.sum()),
    ]


def dead(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> list[str]:
    """Names of the parameters that loss(model) does not depend on, in their order."""
    model.zero_grad()
    loss(model).backward()
    weights = model.named_parameters()
    return [name for name, w in weights if w.grad is None or not w.grad.any()]


def the_courses(model: nn.Module, loss: Callable[[nn.Module], Tensor]) -> list[str]:
    """What `course_utils.diagnostics` gives."""
    return diagnostics.dead_parameters(model, lambda: loss(model))


def _with_old_gradients(model, loss):
    loss(model).backward()
    weights = model.named_parameters()
    return [name for name, w in weights if w.grad is None or not w.grad.any()]


def _named(is_dead):
    """An instrument from a rule for one gradient, which may be None."""

    def instrument(model, loss):
        model.zero_grad()
        loss(model).backward()
        return [name for name, p in model.named_parameters() if is_dead(p.grad)]

    return instrument


DEAD = Exercise(
    name="clinic.dead_parameters",
    statement="Gives the names in model.named_parameters() that get no gradient from "
    "loss(model), or a gradient that is all 0, in order. What they hold is never "
    "trained.",
    takes=("model", "loss"),
    reference=dead,
    cases=_models_and_losses,
    mistakes=(
        Mistake(
            name="a gradient of zeros counts as life",
            function=_named(lambda g: g is None),
            hint="You find what the loss never used. What did it use, but multiply by "
            "0?",
            more="Parameters can be dead in two ways: no gradient, or a gradient of "
            "nothing but zeros.",
        ),
        Mistake(
            name="no gradient counts as life",
            function=_named(lambda g: g is not None and not g.any()),
            hint="You find gradients that are all zeros. What about parameters that "
            "have no gradient?",
            more=".grad is None where backward never reached.",
        ),
        Mistake(
            name="a single zero is taken for death",
            function=_named(lambda g: g is None or not g.all()),
            hint="An embedding's gradient is 0 for words that are not in the batch. "
            "Yet it is alive.",
            more="How many entries have to be 0 before nothing is learned?",
        ),
        Mistake(
            name="plus and minus cancel",
            function=_named(lambda g: g is None or g.sum() == 0),
            hint="A gradient of 1 and −1 moves two weights, and you call it dead.",
            more="Signs cancel in a sum. Check every entry on its own.",
        ),
        Mistake(
            name="a small sum of the gradient is taken for none",
            function=_named(lambda g: g is None or g.sum().abs() < 1e-6),
            hint="Plus and minus cancel in your sum, and a tiny gradient that is not 0 "
            "counts as none. What should you ask of every single entry?",
            more="Look at the entries, not at their sum, and compare with 0 itself.",
        ),
        Mistake(
            name="a small gradient is taken for none",
            function=_named(lambda g: g is None or g.abs().max() < 1e-6),
            hint="A gradient that is tiny but not 0 is still a gradient, and Adam "
            "turns it into a full step.",
            more="Compare with 0 itself.",
        ),
        Mistake(
            name="an old gradient counts as life",
            function=_with_old_gradients,
            hint="A model that was trained before still holds the gradients of that "
            "step.",
            more="Empty the gradients before you call backward.",
        ),
        Mistake(
            name="the living are listed",
            function=_named(lambda g: g is not None and bool(g.any())),
            hint="Everything is found, but reported the wrong way around: name the "
            "dead.",
            more="Turn the condition around.",
        ),
    ),
    hint="Empty old gradients, compute the loss, call backward. Then look at the .grad "
    "of every named parameter.",
    shared=the_courses,
)


Batches = Callable[[int], tuple[Tensor, Tensor]]


def cannot_memorize(losses_of: Callable[[Batches], list], batches: Batches) -> bool:
    """Is the last loss above 0.3 when every step shows the batch of step 0?"""
    return losses_of(lambda step: batches(0))[-1] > 0.3


def _learns(rate, forgets=False, easy=False):
    """A toy training of 30 steps: the loss falls with each time a batch comes back."""

    def losses_of(batches):
        seen, losses = Counter(), []
        for step in range(30):
            inputs, labels = batches(step)
            batch = "any" if easy else str([inputs.tolist(), labels.tolist()])
            losses.append(2.6 * rate ** seen[batch])
            seen[batch] += 1
        return losses[:25] + losses[:5] if forgets else losses

    return losses_of


def _given(*losses):
    """A toy training with these losses, whatever it is shown."""
    return lambda batches: list(losses)


def _trainings(generator):
    data = torch.randint(100, (30, 2, 6), generator=generator)

    def batches(step):
        return data[step, :, :-1], data[step, :, 1:]

    kinds = _learns(0.7), _learns(0.9), _learns(0.99)
    kinds += _learns(0.8, forgets=True), _learns(0.7, easy=True)
    kinds += tuple(_given(*[2.6] * 29, last) for last in (0.3, 0.31, 0.6))
    kinds += _given(*[0.1] * 30), _given(*[0.1] * 29, 2.6)
    only_step_0 = str([part.tolist() for part in batches(0)])

    def learns_no_other(batches):
        """The batch of step 0 is learned at once, and no other."""
        texts = [str([part.tolist() for part in batches(step)]) for step in range(30)]
        return [2.6, *(0.01 if batch == only_step_0 else 2.6 for batch in texts[1:])]

    return [(losses_of, batches) for losses_of in (*kinds, learns_no_other)]


def _last(losses_of, batches):
    return losses_of(lambda step: batches(0))


MEMORY = Exercise(
    name="clinic.cannot_memorize",
    statement="losses_of(batches) trains on batches(step) and gives its losses. Gives "
    "True if the last loss is above 0.3 though every step shows the batch of step 0. "
    "It is the quickest test of a new model.",
    takes=("losses_of", "batches"),
    reference=cannot_memorize,
    cases=_trainings,
    mistakes=(
        Mistake(
            name="every step shows another batch",
            function=lambda losses_of, batches: losses_of(batches)[-1] > 0.3,
            hint="A healthy model is called sick: no model can know how new coins "
            "fall.",
            more="Hand over a function that gives the same batch, whatever the step.",
        ),
        Mistake(
            name="the first loss decides",
            function=lambda losses_of, batches: _last(losses_of, batches)[0] > 0.3,
            hint="Before the first step no model has learned anything.",
            more="At which end of the list is the model that has seen the batch often?",
        ),
        Mistake(
            name="the mean loss decides",
            function=lambda losses_of, batches: (
                sum(_last(losses_of, batches)) / 30 > 0.3
            ),
            hint="A model that learns slowly but gets there is called sick.",
            more="The beginning of a training is not its result.",
        ),
        Mistake(
            name="the best loss decides",
            function=lambda losses_of, batches: min(_last(losses_of, batches)) > 0.3,
            hint="A training that learned and fell apart again is called healthy.",
            more="What does the model know when the training is over?",
        ),
        Mistake(
            name="any fall of the loss is enough",
            function=lambda losses_of, batches: (
                _last(losses_of, batches)[-1] >= _last(losses_of, batches)[0]
            ),
            hint="A loss that fell a little and stayed there passes as well. Is that "
            "enough for one batch?",
            more="A batch that is known by heart costs nearly nothing: compare with "
            "0.3.",
        ),
        Mistake(
            name="a last loss of just 0.3 is called sick",
            function=lambda losses_of, batches: _last(losses_of, batches)[-1] >= 0.3,
            hint="Everything is right except at one number, the threshold itself.",
            more="Is 0.3 above 0.3?",
        ),
        Mistake(
            name="one loss above 0.3 is enough",
            function=lambda losses_of, batches: max(_last(losses_of, batches)) > 0.3,
            hint="You look at all losses. At the start of a training every model has a "
            "large one.",
            more="What does the model know when the training is over?",
        ),
        Mistake(
            name="upside down",
            function=lambda losses_of, batches: _last(losses_of, batches)[-1] < 0.3,
            hint="Everything is found, but reported the wrong way around: True means "
            "sick.",
            more="Read the name of the function again.",
        ),
        Mistake(
            name="healthy and sick exchanged",
            function=lambda losses_of, batches: _last(losses_of, batches)[-1] <= 0.3,
            hint="Every verdict is the opposite of the right one: True means sick.",
            more="Read the name of the function again.",
        ),
    ),
    hint="A function of the step may ignore the step. Which loss do you look at?",
)


EXERCISES = (DEAD, MEMORY)
