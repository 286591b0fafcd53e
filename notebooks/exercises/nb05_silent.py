"""An exercise of notebook 05: a test that asks whether the road of a block is free.

Knows small blocks, healthy and sick. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def road_is_free(block: nn.Module, x: Tensor) -> bool:
    """Does x arrive untouched, in training mode, when both branches add nothing?"""
    for layer in (block.attention.to_output, block.feedforward.down):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return torch.equal(block.train()(x), x)


def _linear(generator, width):
    layer = nn.Linear(width, width, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(normal(generator, *parameter.shape))
    return layer


class _Attention(nn.Module):
    """Every word looks at all words alike."""

    def __init__(self, generator, width):
        super().__init__()
        self.to_output = _linear(generator, width)

    def forward(self, x):
        return self.to_output(x.mean(dim=1, keepdim=True)).expand_as(x)


class _FeedForward(nn.Module):
    """An activation function and a matrix."""

    def __init__(self, generator, width):
        super().__init__()
        self.down = _linear(generator, width)

    def forward(self, x):
        return self.down(x.relu())


class _Suspect(nn.Module):
    """A small block. What stands on its road: nothing, "dropout" or a "norm"?"""

    def __init__(self, generator, width, road):
        super().__init__()
        self.attention = _Attention(generator, width)
        self.feedforward = _FeedForward(generator, width)
        self.dropout, self.road = nn.Dropout(0.5), road

    def forward(self, x):
        for branch in (self.attention, self.feedforward):
            y = branch(F.layer_norm(x, x.shape[-1:]))
            x = self.dropout(x + y) if self.road == "dropout" else x + self.dropout(y)
        return F.layer_norm(x, x.shape[-1:]) if self.road == "norm" else x


def _silence(*layers, biases=True):
    for layer in layers:
        nn.init.zeros_(layer.weight)
        if biases:
            nn.init.zeros_(layer.bias)


def _ends(block):
    return block.attention.to_output, block.feedforward.down


def _suspects(generator):
    roads = None, "dropout", "dropout", "norm", None, None, None, "norm"
    blocks = [_Suspect(generator, 6, road) for road in roads]
    blocks[2].eval()
    for layer in _ends(blocks[4]):
        nn.init.zeros_(layer.bias)
    _silence(blocks[5].feedforward.down)  # one branch is silent from the start
    _silence(blocks[6].attention.to_output)
    cases = []
    for block in blocks:
        x = normal(generator, 2, 5, 6)
        x[0, 0] = 0.0  # dropout and a norm leave a word of zeros as it is
        cases.append((block, x))
    # Behind a norm the mean of a word is 0; in one of the two cases it is so before.
    cases[3][1].sub_(cases[3][1].mean(dim=-1, keepdim=True))
    return cases


def _verdict(prepare):
    """The test with another way to make a block ready for it."""

    def test(block, x):
        prepare(block)
        return torch.equal(block(x), x)

    return test


def _same_mean(block, x):
    _silence(*_ends(block.train()))
    return bool(torch.isclose(block(x).mean(), x.mean(), atol=1e-6))


def _same_twice(block, x):
    _silence(*_ends(block.train()))
    return torch.equal(block(x), block(x))


SILENT = Exercise(
    name="blocks.silent",
    statement="Gives True if x comes out of a block untouched, in training mode, once "
    "both branches are silent. No error shows that dropout stands on the road.",
    takes=("block", "x"),
    reference=road_is_free,
    cases=_suspects,
    mistakes=(
        Mistake(
            name="every block passes",
            function=lambda block, x: block(x).shape == x.shape,
            hint="Sick blocks pass your test just like healthy ones. A shape, or one "
            "number of many, cannot tell them apart.",
            more="What comes out must be x itself, number by number.",
        ),
        Mistake(
            name="the mode is left as it was found",
            function=_verdict(lambda block: _silence(*_ends(block))),
            hint="One of these blocks was handed over ready for use. In that mode "
            "dropout sleeps.",
            more="Set the mode for your test yourself.",
        ),
        Mistake(
            name="dropout sleeps during the test",
            function=_verdict(lambda block: _silence(*_ends(block.eval()))),
            hint="A block with dropout on the road passes. When does dropout do "
            "nothing?",
            more="There are two modes, and dropout works in one of them.",
        ),
        Mistake(
            name="one branch still speaks",
            function=_verdict(
                lambda block: _silence(block.train().attention.to_output)
            ),
            hint="Healthy blocks fail here, because one branch still adds something.",
            more="There are two branches. Which layer is the last one of each?",
        ),
        Mistake(
            name="the biases still speak",
            function=_verdict(
                lambda block: _silence(*_ends(block.train()), biases=False)
            ),
            hint="A layer whose weights are all 0 still says something, if it has a "
            "bias.",
            more="Each layer has two tensors.",
        ),
        Mistake(
            name="upside down",
            function=lambda block, x: not road_is_free(block, x),
            hint="Healthy blocks get False, sick ones True.",
            more="Read the question again: is the road *free*?",
        ),
        Mistake(
            name="attention still speaks",
            function=_verdict(lambda block: _silence(block.train().feedforward.down)),
            hint="Healthy blocks fail here, because attention still adds something.",
            more="There are two branches. Which layer is the last one of each?",
        ),
        Mistake(
            name="no block passes",
            function=lambda block, x: False,
            hint="Healthy blocks fail your test just like sick ones. Are both branches "
            "of *this* block silent, and what do you compare with what?",
            more="Put zeros into both last layers, weights and biases. Then compare "
            "numbers.",
        ),
        Mistake(
            name="only the mean is compared",
            function=_same_mean,
            hint="A block with a norm on its road passes. Two different tensors may "
            "have the same mean.",
            more="What comes out must be x itself, number by number.",
        ),
        Mistake(
            name="two calls are compared",
            function=_same_twice,
            hint="A block with a norm on its road passes: both calls give the same "
            "result, but not x.",
            more="What should the result be compared with?",
        ),
    ),
    hint=(
        "When does a branch add nothing, whatever it reads? Look at its last layer.",
        "Put zeros into the last layer of each branch, switch to training mode, "
        "then compare.",
    ),
)


EXERCISES = (SILENT,)
