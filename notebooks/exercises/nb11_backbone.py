"""Exercises of notebook 11: heads out of one product, a count of weights.

Knows the shared decoder. Knows nothing of how an answer is run or shown.
"""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from course_utils.config import DecoderConfig, StackConfig
from course_utils.models import DecoderLM
from named_mistakes import Exercise, Mistake

# --- heads out of one product ------------------------------------------------------


def heads_from_qkv(
    fused: Float[Tensor, "b t n"], num_heads: int
) -> Float[Tensor, "three b h t d"]:
    """Queries, keys and values, one after the other, each cut into heads."""
    return rearrange(fused, "b t (three h d) -> three b h t d", three=3, h=num_heads)


def _fused(generator):
    dtype = torch.get_default_dtype()
    shapes = ((2, 5, 84), 4), ((1, 7, 30), 2)
    return [
        (torch.randn(shape, generator=generator, dtype=dtype), heads)
        for shape, heads in shapes
    ]


def _cut(pattern):
    return lambda x, h: rearrange(x, pattern, three=3, h=h)


HEADS = Exercise(
    name="backbone.heads_from_qkv",
    statement="Gives one tensor “three b h t d” (queries, keys, values) from the fused "
    "product “b t (three h d)”. One large product is faster than three.",
    takes=("fused", "num_heads"),
    reference=heads_from_qkv,
    cases=_fused,
    mistakes=(
        Mistake(
            name="the heads come first, then the three roles",
            function=_cut("b t (h three d) -> three b h t d"),
            hint="You cut into heads first. Some published models do; here the middle "
            "*third* of the columns holds the keys.",
            more="In a pattern, the first name in parentheses varies slowest.",
        ),
        Mistake(
            name="every third column",
            function=_cut("b t (h d three) -> three b h t d"),
            hint="Your queries are columns 0, 3, 6, …: dealt out like cards.",
            more="The roles lie in three solid blocks. Which name varies slowest?",
        ),
        Mistake(
            name="a head takes every h-th column",
            function=_cut("b t (three d h) -> three b h t d"),
            hint="The three roles are right. Within one, a head owns neighboring "
            "columns.",
            more="Swap the last two names within the parentheses.",
        ),
        Mistake(
            name="heads still behind the positions",
            function=_cut("b t (three h d) -> three b t h d"),
            hint="The cut is right, but attention wants each head by itself, with its "
            "positions.",
            more="“b t h d” wants to become “b h t d”.",
        ),
        Mistake(
            name="cut, and no axis moved",
            function=lambda x, h: x.reshape(*x.shape[:2], 3, h, -1),
            hint="The cut is right: “b t three h d”. Which axis comes first in the "
            "result, and which two change places after that?",
            more="permute or rearrange moves axes; a reshape does not.",
        ),
        Mistake(
            name="reshaped without transposing",
            function=lambda x, h: x.reshape(3, len(x), h, x.shape[1], -1),
            hint="The shape is right, but a reshape never moves a number past another.",
            more="First just cut the last axis into three named axes. Then permute.",
        ),
        Mistake(
            name="the roles are right, the heads are reshaped without transposing",
            function=lambda x, h: torch.stack(
                [part.reshape(len(x), h, x.shape[1], -1) for part in x.chunk(3, dim=-1)]
            ),
            hint="Your three roles are right. Within one, a reshape gives a head the "
            "columns of other positions.",
            more="First cut the last axis: “b t h d”. Then exchange two axes.",
        ),
        Mistake(
            name="positions and columns exchanged",
            function=_cut("b t (three h d) -> three b h d t"),
            hint="Those are the heads transposed: within a head, positions are rows.",
            more="The last two names of the result should be t and d.",
        ),
        Mistake(
            name="keys before queries",
            function=lambda x, h: heads_from_qkv(x, h)[[1, 0, 2]],
            hint="Your first result is the middle third of the columns. What lies "
            "first in the fused product?",
            more="Queries, keys, values: in this order in the columns and in the "
            "result.",
        ),
        Mistake(
            name="the three roles behind the batch",
            function=_cut("b t (three h d) -> b three h t d"),
            hint="The cut is right, but the first index of your result selects a text, "
            "not a role.",
            more="queries, keys, values = result should work: the roles come first.",
        ),
    ),
    hint="Cut the last axis into three names: role, head, width of a head. Then bring "
    "the roles to the front, and the heads before the positions.",
    trains=True,
)


# --- how many weights? -------------------------------------------------------------


def count_weights(
    vocab_size: int, length: int, d_model: int, blocks: int, d_ff: int
) -> int:
    """Two tables, and four matrices in each block; the head is the first table."""
    tables = (vocab_size + length) * d_model
    block = d_model * 3 * d_model + d_model**2 + 2 * d_model * d_ff
    return tables + blocks * block


def matrices_of_the_model(vocab_size, length, d_model, blocks, d_ff):
    """Those of the shared decoder; biases and norms are no matrices."""
    stack = StackConfig(
        d_model=d_model,
        num_heads=1,
        num_layers=blocks,
        d_ff=d_ff,
        max_length=length,
        positions="learned",
    )
    weights = DecoderLM(DecoderConfig(vocab_size=vocab_size, stack=stack)).parameters()
    return sum(weight.numel() for weight in weights if weight.ndim == 2)


def _sum(vocab_size, length, d_model, blocks, d_ff, *, square=4, ends=1):
    block = square * d_model**2 + 2 * d_model * d_ff
    return (ends * vocab_size + length) * d_model + blocks * block


COUNT = Exercise(
    name="backbone.count_weights",
    statement="Gives the number of weights in all matrices of this model, from the "
    "size of the vocabulary, the length, m, the number of blocks and f. Where do the "
    "millions sit?",
    takes=("vocab_size", "length", "d_model", "blocks", "d_ff"),
    reference=count_weights,
    cases=lambda generator: [
        *[(40, 12, 8, 2, 20), (50, 7, 6, 3, 10), (31, 5, 4, 1, 9)],
        *[(41, 12, 8, 2, 20), (40, 13, 8, 2, 20)],  # all but one are as before
        *[(40, 12, 6, 2, 20), (40, 12, 8, 3, 20), (40, 12, 8, 2, 21)],
    ],
    mistakes=(
        Mistake(
            name="the ends counted twice",
            function=lambda *sizes: _sum(*sizes, ends=2),
            hint="You gave the head a matrix of its own. Which one does it use here?",
            more="Tied: E stands at both ends, and is stored once.",
        ),
        Mistake(
            name="positions forgotten",
            function=lambda v, t, m, n, f: _sum(v, 0, m, n, f),
            hint="One table of the first line is missing.",
            more="Which matrix has one row per place in the text?",
        ),
        Mistake(
            name="tokens forgotten",
            function=lambda v, t, m, n, f: _sum(0, t, m, n, f),
            hint="One of the two tables of the first line is missing.",
            more="Which matrix has one row per token of the vocabulary?",
        ),
        Mistake(
            name="the feed-forward of one block only",
            function=lambda v, t, m, n, f: _sum(v, t, m, n, f) - (n - 1) * 2 * m * f,
            hint="The matrices of attention are there for each block. And the "
            "feed-forward?",
            more="Everything in a block is counted once per block. Are parentheses "
            "missing?",
        ),
        Mistake(
            name="the tables in every block",
            function=lambda v, t, m, n, f: n * _sum(v, t, m, 1, f),
            hint="You count the tables of tokens and positions for each block.",
            more="Only E and P are there once for all blocks.",
        ),
        Mistake(
            name="one block only",
            function=lambda v, t, m, n, f: _sum(v, t, m, 1, f),
            hint="Each block has matrices of its own.",
            more="Only E and P are there once for all blocks.",
        ),
        Mistake(
            name="Q, K and V counted as one",
            function=lambda *sizes: _sum(*sizes, square=2),
            hint="The fused matrix is wider than it is high.",
            more="W_qkv maps m numbers to how many?",
        ),
        Mistake(
            name="the output projection forgotten",
            function=lambda *sizes: _sum(*sizes, square=3),
            hint="Queries, keys and values are there. Who writes to the stream?",
            more="W_o comes after the heads, m by m.",
        ),
        Mistake(
            name="the way back from f forgotten",
            function=lambda v, t, m, n, f: _sum(v, t, m, n, f) - n * m * f,
            hint="The feed-forward goes out to f. And back?",
            more="W_1 is m by f. What is W_2?",
        ),
        Mistake(
            name="a gate in the feed-forward network",
            function=lambda v, t, m, n, f: _sum(v, t, m, n, f) + n * m * f,
            hint="You count three matrices in the feed-forward network. The third "
            "would be a gate, which this model does not have.",
            more="Print the names that new_weights returns: how many belong to the "
            "feed-forward?",
        ),
        Mistake(
            name="the blocks only",
            function=lambda v, t, m, n, f: _sum(0, 0, m, n, f),
            hint="The blocks are right. What turns ids and positions into vectors?",
            more="E has a row per token, P a row per position.",
        ),
        Mistake(
            name="f taken for four times m",
            function=lambda v, t, m, n, f: _sum(v, t, m, n, 4 * m),
            hint="Four times m is a habit. One argument is unused.",
            more="The feed-forward is f wide, whatever m is.",
        ),
        Mistake(
            name="biases and norms counted",
            function=lambda v, t, m, n, f: (
                _sum(v, t, m, n, f) + n * (9 * m + f) + 2 * m
            ),
            hint="Right for a layer with biases and norms that have learned a scale "
            "and a shift. new_weights makes neither.",
            more="Print the names that new_weights returns: each is a matrix.",
        ),
    ),
    hint="E, P, and then per block: W_qkv, W_o, W_1, W_2. Rows times columns each.",
    shared=matrices_of_the_model,
)


EXERCISES = (HEADS, COUNT)
