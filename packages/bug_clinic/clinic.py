"""Programs with one hidden bug, and ways to ask them: a blind round of debugging.

Knows `patient`, its bugs and how a round is scored; `use` says who draws the losses. A
bug is one piece of the program's text and what stands there instead.
"""

import ast
import functools
import inspect
import math
import random
import types

import torch
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook

from bug_clinic import patient
from bug_clinic.patient import WORDS

FLOOR = math.log(2) / 2  # every other label is a fair coin
STEPS = 120
SOURCE = inspect.getsource(patient)
PARTS = ("ids_of", "batch_of", "may_look", "weights_of", "attend", "block", "logits_of")
PARTS += ("loss_of", "fit", "evaluate", "write")
POINTS, READING, WRONG = 10, 2, 3  # a round begins with 10; what a look and a miss cost

BUGS = {  # name: (part, healthy text, what stands there instead)
    "no end": ("ids_of", ", EOS]", "]"),
    "not shifted": ("batch_of", "ids[:, 1:]\n", "ids[:, :-1]\n"),
    "shifted twice": ("batch_of", "ids[:, :-1], ids[:, 1:]", "ids[:, :-2], ids[:, 2:]"),
    "peeks": ("may_look", ".tril()", ".tril(1)"),
    "closed rows": ("may_look", "[:, None, None, :]", "[:, None, :, None]"),
    "masked too late": (
        "weights_of",
        "scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)",
        "scores.softmax(dim=-1).masked_fill(~mask, 0.0)",
    ),
    "heads interleaved": (
        "attend",
        'rearrange(context, "b h t d -> b t (h d)")',
        "context.reshape(x.shape)",
    ),
    "no residual": ("block", "x = x + attend", "x = attend"),
    "restless": ("block", "0.1, layer.training", "0.1"),
    "no places": ("logits_of", "x = x + model.places", "x + model.places"),
    "one layer": (
        "logits_of",
        "x = block(layer, x, mask)\n    return model.head(model.norm(x))",
        "out = block(layer, x, mask)\n    return model.head(model.norm(out))",
    ),
    "softmax twice": ("loss_of", "(logits.mT", "(logits.softmax(dim=-1).mT"),
    "padding counted": ("loss_of", "losses[counted].mean()", "losses.mean()"),
    "old gradients": ("fit", "        optimizer.zero_grad()\n", ""),
    "vanishing rate": ("fit", '["lr"] = RATE * (', '["lr"] *= ('),
    "frozen body": ("fit", "Adam(model.parameters())", "Adam(model.head.parameters())"),
    "still training": ("evaluate", "    model.eval()\n", ""),
    "first row": ("write", "(model, ids)[:, -1]", "(model, ids)[:, 0]"),
}

_hooks = {"draw": lambda *_, **__: None, "remember": lambda *_: None}


def use(**hooks):
    """Name who draws a case's losses, and who keeps its score.

    draw(series, axes, lines=, alt=, roles=): series {name: losses}, axes two labels.
    remember(case, points): called when a case is solved.
    """
    if unknown := hooks.keys() - _hooks.keys():
        raise TypeError(f"hand over draw or remember, got {', '.join(unknown)}")
    _hooks.update(hooks)


class Program:
    """The small GPT of `patient`: Program(loss_of=mine) exchanges a part for yours.

    Its parts are attributes. All draws are fixed, numbers have 64 bits.
    """

    def __init__(self, source=SOURCE, **parts):
        self.source = source
        exec(compile(source, "patient", "exec"), vars(self))
        for name, part in parts.items():
            if name not in PARTS or not isinstance(part, types.FunctionType):
                known = ", ".join(PARTS)
                raise TypeError(f"hand over a function for one of {known}, got {name}")
            space = dict(part.__globals__)
            closed = part.__defaults__, part.__closure__
            setattr(self, name, types.FunctionType(part.__code__, space, name, *closed))
        for name in parts:  # a new part calls the others of this program
            getattr(self, name).__globals__.update(vars(self))

    def new_model(self):
        """A model with fresh weights, the same at each call."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # other types draw other numbers
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                return self.Model()
        finally:
            torch.set_default_dtype(before)

    def train(self, batches=None, steps=STEPS):
        """A trained model, and the loss of each step."""
        model = self.new_model()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            losses = self.fit(model, batches or self.tales, steps)
        return model, losses

    def text(self, model, seed=0):
        """A tale that the model writes."""
        try:
            ids = self.write(model, torch.Generator().manual_seed(seed))
        except RuntimeError:
            return "(stops: its probabilities are nan)"
        return " ".join(WORDS[i] for i in ids)

    @functools.cached_property
    def trained(self):
        """(model, losses) of one whole training."""
        return self.train()


@functools.cache
def healthy():
    """The program without a bug."""
    return Program()


# --- instruments: each gives what it reads of a program as text -----------------------


def _one_batch(program):
    """Can it learn one tale by heart?"""
    row = program.ids_of(["the", "dog", "ran", "because", "it", "was", "happy"])
    loss = program.train(lambda step: program.batch_of([row]), 60)[1][-1]
    return f"loss after 60 steps on one tale: {loss:.3f}"


def _data(program):
    """What does it read, and what is it asked?"""
    inputs, labels = program.tales(0, 2)
    rows = {"inputs": inputs, "labels": labels}
    names = {
        name: [WORDS[i] if i >= 0 else "–" for i in r[0]] for name, r in rows.items()
    }
    return "\n".join(f"{name} {' '.join(words)}" for name, words in names.items())


def _known_losses(program):
    """Does the loss give the two numbers that are known beforehand?"""
    labels = patient.tales(0)[1]
    sure = 50.0 * F.one_hot(labels.clamp(min=0), len(WORDS)).double()
    zeros, right = (program.loss_of(x, labels).item() for x in (0 * sure, sure))
    return f"logits of zeros cost {zeros:.2f}, sure and right ones {right:.2f}"


@torch.no_grad()
def _future(program):
    """Do earlier logits move when the last word changes?"""
    ids = patient.tales(0)[0][:1, :8]
    other = torch.cat([ids[:, :-1], 1 + ids[:, -1:] % (len(WORDS) - 1)], dim=1)
    model = program.new_model().eval()
    gap = program.logits_of(model, ids) - program.logits_of(model, other)
    gaps = gap.abs().amax(dim=(0, 2))[:-1].max()
    return f"earlier logits move by {gaps:.4f} when the last word changes"


@torch.no_grad()
def _twice(program):
    """Does it give the same answer twice?"""
    model, batch = program.trained[0], patient.tales(10**6)
    first, second = (program.evaluate(model.train(), *batch) for _ in range(2))
    logits, again = (program.logits_of(model.eval(), batch[0]) for _ in range(2))
    gap = (logits - again).abs().max()
    return (
        f"losses differ by {abs(first - second):.4f}, logits in eval mode by {gap:.4f}"
    )


def _unmoved(program):
    """Which weights does training not reach?"""
    before, after = program.new_model(), program.train(steps=1)[0]
    pairs = zip(before.named_parameters(), after.parameters(), strict=True)
    still = [name.rpartition(".")[0] for (name, old), new in pairs if old.equal(new)]
    return (
        f"not moved by the first step: {', '.join(dict.fromkeys(still)) or 'nothing'}"
    )


def _steps(program):
    """How large are the rate and the gradient, step by step?"""
    rows = []

    def look(optimizer, *_):
        (group,) = optimizer.param_groups
        squares = [p.grad.square().sum() for p in group["params"] if p.grad is not None]
        rows.append((group["lr"], sum(squares).item() ** 0.5))

    hook = register_optimizer_step_pre_hook(look)
    try:
        program.train()
    finally:
        hook.remove()
    picked = [(step, *rows[step]) for step in (0, 20, 60, 119)]
    return "; ".join(f"step {s}: rate {r:.5f}, gradient {n:.2f}" for s, r, n in picked)


@torch.no_grad()
def _predictions(program):
    """What does it expect after each word of a real tale?"""
    words = ["the", "cat", "sat", "because", "it", "was", "tired"]
    ids = torch.tensor([[patient.BOS, *map(WORDS.index, words)]])
    chances = program.logits_of(program.trained[0].eval(), ids)[0].softmax(dim=-1)
    best = [f"{WORDS[row.argmax()]} {row.max():.2f}" for row in chances]
    read = ["<bos>", *words]
    return ", ".join(f"{w} → {guess}" for w, guess in zip(read, best, strict=True))


def _loop(program):
    """Does its loop write what ours writes with the same model?"""
    model, ours = program.trained[0], Program(program.source, write=patient.write)
    return f"its loop: {program.text(model)[:40]} | ours: {ours.text(model)[:40]}"


# --- a round --------------------------------------------------------------------------


def _trace(program):
    """Numbers that tell what a program does: of its data, its steps, its tales."""
    rows = [program.ids_of(patient.tale(random.Random(seed))) for seed in range(5)]
    inputs, labels = program.batch_of(rows)
    model, losses = program.train(steps=12)
    logits = program.logits_of(program.new_model().eval(), inputs)
    noise = torch.linspace(-3, 3, logits.numel()).view(logits.shape).sin()
    evaluated = [program.evaluate(model.train(), inputs, labels) for _ in range(2)]
    tales = [program.write(model, torch.Generator().manual_seed(s)) for s in range(4)]
    parts = [inputs, labels, logits[labels >= 0], program.loss_of(noise, labels)]
    parts += [losses, evaluated, *tales]
    return [torch.as_tensor(part).detach().double().flatten() for part in parts]


@functools.cache
def _healthy_trace():
    return _trace(healthy())


def behaves(program):
    """Does a program do what the healthy one does, up to rounding?"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            pairs = list(zip(_trace(program), _healthy_trace(), strict=True))
        except Exception as error:  # whatever a repair does
            print(f"it stops with {type(error).__name__}: {error}")
            return False
    return all(a.shape == b.shape and torch.allclose(a, b, 0, 1e-6) for a, b in pairs)


def judge(**parts):
    """Print whether the program with these parts behaves like the healthy one."""
    print("✓ solved" if behaves(Program(**parts)) else "not solved yet")


def instrument(reading):
    """A method that prints what it reads of the healthy program and of the patient."""

    @functools.cache
    def read(program):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return reading(program).replace("\n", "\n         ")

    @functools.wraps(reading)
    def ask(case):
        case.pay(1)
        print("healthy ", read(healthy()))
        print("patient ", read(case.program))
        print(f"({case.points} points left)")

    return ask


class Case:
    """A program with one hidden bug. A question costs one point, `read` costs two."""

    one_batch, data, known_losses = map(instrument, (_one_batch, _data, _known_losses))
    future, twice, unmoved = map(instrument, (_future, _twice, _unmoved))
    steps, predictions, loop = map(instrument, (_steps, _predictions, _loop))

    def __init__(self, number, bug):
        self.number, self.bug, self.points, self.solved = number, bug, POINTS, False
        part, old, new = BUGS[bug]
        self.program = Program(
            SOURCE.replace(_source(SOURCE, part), _bent(part, old, new))
        )

    def pay(self, points):
        """Take points away; a case that is solved costs nothing more."""
        self.points = max(0, self.points - points * (not self.solved))

    def symptoms(self):
        """What a colleague sees: the losses, and two tales that the model writes."""
        model, losses = self.program.trained
        end = sum(losses[-20:]) / 20
        series = {"healthy": healthy().trained[1]}
        if math.isfinite(end):
            series["patient"] = losses
        alt = f"Loss of 120 steps: healthy to the floor of 0.35, patient to {end:.2f}."
        look = {"lines": {"floor": FLOOR}, "alt": alt}
        look["roles"] = {"healthy": "value", "patient": "mistake"}
        _hooks["draw"](series, ("step", "loss, nats per word"), **look)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            batch = self.program.tales(10**6)
            new, again = (self.program.evaluate(model, *batch) for _ in range(2))
        print(f"loss: training {end:.3f}, new tales {new:.3f}, and again {again:.3f}")
        for seed in range(2):
            print("writes:", self.program.text(model, seed))

    def read(self, part):
        """Print one part of the patient, ready to be copied; it costs two points."""
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
        self.pay(READING)
        print(_source(self.program.source, part), f"\n({self.points} points left)")

    def repair(self, **parts):
        """Try one part of yours in the patient: case.repair(loss_of=my_loss)."""
        if len(parts) != 1:
            raise TypeError("hand over one part, as in case.repair(loss_of=my_loss)")
        mended = behaves(Program(self.program.source, **parts))
        if not mended:
            self.pay(WRONG)
            print(f"not mended ({self.points} points left)")
            return
        self.solved = True
        _hooks["remember"](f"clinic.case {self.number}", self.points)
        part = BUGS[self.bug][0]
        print(f"✓ mended, {self.points} of {POINTS} points: {self.bug}, in {part}")


def _source(source, part):
    """The text of one function."""
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", "") == part]
    return ast.get_source_segment(source, node)


def _bent(part, old, new):
    healthy_text = _source(SOURCE, part)
    if healthy_text.count(old) != 1:
        raise ValueError(f"{old!r} must stand once in {part}")
    return healthy_text.replace(old, new)


def new_case(number):
    """Deal a case: another bug for each number below the number of bugs."""
    if not isinstance(number, int):
        raise TypeError(f"number must be an integer, got {number!r:.60}")
    order = sorted(BUGS)
    random.Random(2380).shuffle(order)
    return Case(number, order[number % len(order)])
