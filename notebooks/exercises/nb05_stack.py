"""Exercises of notebook 05: a stack of blocks.

Knows small layers. Knows nothing of how an answer is run or shown.
"""

import functools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import Part, normal

# --- the stack ---------------------------------------------------------------------


def stack(x: Tensor, blocks: list[nn.Module], norm: nn.Module) -> Tensor:
    """Block after block, and one norm at the end, "b t m"."""
    for block in blocks:
        x = block(x)
    return norm(x)


def _block(generator, width):
    widen, narrow = normal(generator, 2, width, width + 3)
    return Part(lambda x: x + torch.tanh(x @ widen) @ narrow.T)


def _stacks(generator):
    cases = []
    for (batch, length, width), depth in (((2, 5, 6), 3), ((1, 4, 8), 2)):
        blocks = [_block(generator, width) for _ in range(depth)]
        x, scale = normal(generator, batch, length, width), normal(generator, width)
        cases.append((x, blocks, Part(functools.partial(_norm, scale=scale))))
    return cases


def _norm(x, scale):
    return F.layer_norm(x, scale.shape, scale)


def _sum(x, blocks, norm):
    return norm(sum(block(x) for block in blocks))


def _norm_after_each(x, blocks, norm):
    for one in blocks:
        x = norm(one(x))
    return x


def _norm_before_each(x, blocks, norm):
    for one in blocks:
        x = one(norm(x))
    return x


def _pre_norm_again(x, blocks, norm):
    for one in blocks:
        x = x + one(norm(x))
    return norm(x)


def _second_road(x, blocks, norm):
    for one in blocks:
        x = x + one(x)
    return norm(x)


STACK = Exercise(
    name="blocks.stack",
    statement="Gives “b t m” for x “b t m”, a list of pre-norm blocks and a norm: each "
    "block reads what the last one wrote, or it learns nothing.",
    takes=("x", "blocks", "norm"),
    reference=stack,
    cases=_stacks,
    mistakes=(
        Mistake(
            name="each block reads the embedding",
            function=lambda x, blocks, norm: norm(blocks[-1](x)),
            hint="Only the last block has a say; the others are computed and thrown "
            "away.",
            more="What one block returns must be what the next one receives.",
        ),
        Mistake(
            name="all read the embedding, then a sum",
            function=_sum,
            hint="Every block has a say, but they stand side by side: none builds on "
            "another.",
            more="One after the other: the depth of a stack is the number of *steps*.",
        ),
        Mistake(
            name="the final norm is forgotten",
            function=lambda x, blocks, norm: stack(x, blocks, nn.Identity()),
            hint="Well stacked. But the road of pre-norm blocks was never normed.",
            more="One argument is unused.",
        ),
        Mistake(
            name="a norm after every block",
            function=_norm_after_each,
            hint="The road meets the norm again and again. That is the price of "
            "post-norm.",
            more="The norm comes once, at the end of the road.",
        ),
        Mistake(
            name="normed before the first block",
            function=lambda x, blocks, norm: stack(norm(x), blocks, nn.Identity()),
            hint="The norm is at the wrong end of the road: the sums come after it.",
            more="Who adds to the road after the last block?",
        ),
        Mistake(
            name="a second road around each block",
            function=_second_road,
            hint="Every block has its own plus inside. Your plus adds the whole road "
            "again at each step.",
            more="The block gives back the whole road, not only its contribution.",
        ),
        Mistake(
            name="the first block, again and again",
            function=lambda x, blocks, norm: stack(x, [blocks[0]] * len(blocks), norm),
            hint="The right number of steps, but all with the weights of the first "
            "block.",
            more="Let the loop run over the blocks, not over their number.",
        ),
        Mistake(
            name="`return` inside the loop",
            function=lambda x, blocks, norm: norm(blocks[0](x)),
            hint="Only the first block runs, and then the norm. A `return` ends the "
            "loop at once.",
            more="Move `return` to the left, after the loop.",
        ),
        Mistake(
            name="`return` inside the loop, without the norm",
            function=lambda x, blocks, norm: blocks[0](x),
            hint="Only the first block runs. A `return` ends the loop at once.",
            more="Move `return` to the left, after the loop, and give it the norm.",
        ),
        Mistake(
            name="the last block first",
            function=lambda x, blocks, norm: stack(x, blocks[::-1], norm),
            hint="All blocks, in the wrong order. x enters at blocks[0].",
            more="norm(b2(b1(b0(x)))) reads from the inside out.",
        ),
        Mistake(
            name="a norm before every block",
            function=_norm_before_each,
            hint="Each block reads a normed road, and the road after the last block "
            "was never normed.",
            more="A pre-norm block has its norms inside. Where does the road need one "
            "more?",
        ),
        Mistake(
            name="a second road around each block, and a norm on its branch",
            function=_pre_norm_again,
            hint="You write pre-norm around each block. These blocks are pre-norm "
            "inside, with a plus of their own.",
            more="The block gives back the whole road, not only its contribution.",
        ),
        Mistake(
            name="normed at both ends",
            function=lambda x, blocks, norm: stack(norm(x), blocks, norm),
            hint="The norm at the end is right. But you also norm what the first block "
            "reads.",
            more="The norm comes once. At which end of the road?",
        ),
        Mistake(
            name="a norm after every block, and once more at the end",
            function=lambda x, blocks, norm: norm(_norm_after_each(x, blocks, norm)),
            hint="The norm at the end is right. In the loop it meets the road again "
            "and again.",
            more="The norm comes once, after the loop.",
        ),
        Mistake(
            name="the last block is left out",
            function=lambda x, blocks, norm: stack(x, blocks[:-1], norm),
            hint="One block too few: the last one has no say.",
            more="Let the loop run over the blocks themselves, not over numbers.",
        ),
    ),
    hint=(
        "What does the second block read: x, or what the first block gave?",
        "A loop of one line, and one line after it.",
    ),
    trains=True,
)


EXERCISES = (STACK,)
