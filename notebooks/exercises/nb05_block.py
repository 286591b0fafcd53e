"""Exercises of notebook 05: a block from its parts.

Knows the shared block. Knows nothing of how an answer is run or shown.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import Part, normal

# --- the block ---------------------------------------------------------------------


def _norm(generator, width):
    scale, shift = normal(generator, 2, width)
    return lambda x: F.layer_norm(x, scale.shape, scale, shift)


def _attention(generator, length, width):
    weights = normal(generator, length, length).softmax(dim=-1)
    matrix = normal(generator, width, width)
    return lambda x: weights @ x @ matrix


def _feedforward(generator, width):
    widen, narrow = normal(generator, 2, width, 2 * width + 1)
    return lambda x: (x @ widen).relu() @ narrow.T


def _dropout(generator, width):
    """Always the same third of the columns, so that two answers can be compared."""
    keep_mask = torch.randperm(width, generator=generator) % 3 > 0
    return lambda x: x * keep_mask * 1.5


def _parts(generator):
    cases = []
    for batch, length, width in ((2, 5, 6), (1, 4, 9)):
        x = 2 * normal(generator, batch, length, width) + 1
        norm1, norm2 = _norm(generator, width), _norm(generator, width)
        attention = _attention(generator, length, width)
        feedforward = _feedforward(generator, width)
        parts = norm1, attention, norm2, feedforward, _dropout(generator, width)
        cases.append((x, *map(Part, parts)))
    return cases


def block(
    x: Tensor,
    norm1: nn.Module,
    attention: nn.Module,
    norm2: nn.Module,
    feedforward: nn.Module,
    dropout: nn.Module,
) -> Tensor:
    """Norm, layer, dropout, plus; twice: "b t m"."""
    x = x + dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm2(x)))


def _post_norm(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x + dropout(attention(x)))
    return norm2(x + dropout(feedforward(x)))


def _normed_road(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x)
    x = norm2(x + dropout(attention(x)))
    return x + dropout(feedforward(x))


def _on_the_road(x, norm1, attention, norm2, feedforward, dropout):
    x = dropout(x + attention(norm1(x)))
    return dropout(x + feedforward(norm2(x)))


def _parallel(x, norm1, attention, norm2, feedforward, dropout):
    return x + dropout(attention(norm1(x))) + dropout(feedforward(norm2(x)))


def _no_road(x, norm1, attention, norm2, feedforward, dropout):
    return dropout(feedforward(norm2(dropout(attention(norm1(x))))))


def _half_a_road(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return dropout(feedforward(norm2(x)))


def _late_road(x, norm1, attention, norm2, feedforward, dropout):
    x = dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm2(x)))


def _old_road(x, norm1, attention, norm2, feedforward, dropout):
    middle = x + dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm2(middle)))


def _norm_behind(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(norm1(attention(x)))
    return x + dropout(norm2(feedforward(x)))


def _feedforward_first(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(feedforward(norm2(x)))
    return x + dropout(attention(norm1(x)))


def _first_dropout_only(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return x + feedforward(norm2(x))


def _second_dropout_only(x, norm1, attention, norm2, feedforward, dropout):
    x = x + attention(norm1(x))
    return x + dropout(feedforward(norm2(x)))


BLOCK = Exercise(
    name="blocks.block",
    statement="Gives “b t m”: a pre-norm block, put together from its parts, which are "
    "all functions “b t m” to “b t m”. The road from x to the result must stay free.",
    takes=("x", "norm1", "attention", "norm2", "feedforward", "dropout"),
    reference=block,
    cases=_parts,
    mistakes=(
        Mistake(
            name="post-norm",
            function=_post_norm,
            hint="A good block, but the one from the paper: the norm is on the road.",
            more="Pre-norm: which one reads the norm's output, the road or the branch?",
        ),
        Mistake(
            name="the road itself is normed",
            function=_normed_road,
            hint="The branch reads the norm's output, as it should. But so does the "
            "road: the old `x` is gone.",
            more="Give the normed vector no name, or a name other than x.",
        ),
        Mistake(
            name="dropout on the road",
            function=_on_the_road,
            hint="Your dropout hits what all the earlier blocks wrote. Section 5 "
            "counts what is left after 24 of them.",
            more="Dropout goes on only one side of the plus.",
        ),
        Mistake(
            name="the feed-forward reads the old x",
            function=_parallel,
            hint="Both branches read the same input. So the feed-forward cannot think "
            "about what attention has just brought in.",
            more="Two steps, one after the other: the second begins where the first "
            "ended.",
        ),
        Mistake(
            name="no road at all",
            function=_no_road,
            hint="Nothing is added to anything. After twelve such blocks, all words "
            "look the same.",
            more="You need a plus, twice.",
        ),
        Mistake(
            name="the road ends before the feed-forward",
            function=_half_a_road,
            hint="The first half is right. But the result holds only the second "
            "branch.",
            more="Both halves have the same form.",
        ),
        Mistake(
            name="no dropout",
            function=lambda x, n1, attention, n2, feedforward, dropout: block(
                x, n1, attention, n2, feedforward, nn.Identity()
            ),
            hint="One of your arguments is unused.",
            more="It goes just before each plus, on the branch.",
        ),
        Mistake(
            name="dropout on the first branch only",
            function=_first_dropout_only,
            hint="The first line is right. The second branch is added without dropout.",
            more="Both lines have the same form.",
        ),
        Mistake(
            name="dropout on the second branch only",
            function=_second_dropout_only,
            hint="The second line is right. The first branch is added without dropout.",
            more="Both lines have the same form.",
        ),
        Mistake(
            name="no norm",
            function=lambda x, n1, attention, n2, feedforward, dropout: block(
                x, nn.Identity(), attention, nn.Identity(), feedforward, dropout
            ),
            hint="The branches read the bare road. Its numbers grow from block to "
            "block.",
            more="Each branch begins with a norm of its own.",
        ),
        Mistake(
            name="one norm for both",
            function=lambda x, n1, attention, n2, feedforward, dropout: block(
                x, n1, attention, n1, feedforward, dropout
            ),
            hint="Both branches use the same norm. But each norm has learned its own "
            "scale.",
            more="One of your arguments is unused.",
        ),
        Mistake(
            name="the feed-forward first",
            function=_feedforward_first,
            hint="Both halves are right, but in the wrong order. Which one brings in "
            "the other words?",
            more="Attention first, then the feed-forward.",
        ),
        Mistake(
            name="the norm behind the layer",
            function=_norm_behind,
            hint="The norm is on the branch, but at its end: the layers read the bare "
            "road.",
            more="Pre-norm: the norm comes *before* the layer. Which call is the inner "
            "one?",
        ),
        Mistake(
            name="the second plus adds the old x",
            function=_old_road,
            hint="The feed-forward reads the right thing. But its output is added to "
            "the original x, so what attention said is lost from the road.",
            more="Two steps, one after the other: the second begins where the first "
            "ended.",
        ),
        Mistake(
            name="the road begins behind attention",
            function=_late_road,
            hint="The second half is right. In the first, nothing is added to x.",
            more="Both halves have the same form.",
        ),
    ),
    hint="The same thing twice: norm, layer, dropout, plus. Begin with the first line.",
    trains=True,
)


EXERCISES = (BLOCK,)
