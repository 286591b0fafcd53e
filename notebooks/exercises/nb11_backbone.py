"""Exercises of notebook 11: heads out of one product, the first loss, weights.

Knows the shared decoder. Knows nothing of how an answer is run or shown.
"""

import math

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
    "backbone.heads_from_qkv",
    "Gives one tensor “three b h t d” (queries, keys, values) from the fused product "
    "“b t (three h d)”. One large product is faster than three.",
    ("fused", "num_heads"),
    heads_from_qkv,
    _fused,
    (
        Mistake(
            "the heads come first, then the three roles",
            _cut("b t (h three d) -> three b h t d"),
            "You cut into heads first. Some published models do; here the middle "
            "*third* of the columns holds the keys.",
            "In a pattern, the first name in parentheses varies slowest.",
        ),
        Mistake(
            "every third column",
            _cut("b t (h d three) -> three b h t d"),
            "Your queries are columns 0, 3, 6, …: dealt out like cards.",
            "The roles lie in three solid blocks. Which name varies slowest?",
        ),
        Mistake(
            "a head takes every h-th column",
            _cut("b t (three d h) -> three b h t d"),
            "The three roles are right. Within one, a head owns neighboring columns.",
            "Swap the last two names within the parentheses.",
        ),
        Mistake(
            "heads still behind the positions",
            _cut("b t (three h d) -> three b t h d"),
            "The cut is right, but attention wants each head by itself, with its "
            "positions.",
            "“b t h d” wants to become “b h t d”.",
        ),
        Mistake(
            "cut, and no axis moved",
            lambda x, h: x.reshape(*x.shape[:2], 3, h, -1),
            "The cut is right: “b t three h d”. Which axis comes first in the result, "
            "and which two change places after that?",
            "permute or rearrange moves axes; a reshape does not.",
        ),
        Mistake(
            "reshaped without transposing",
            lambda x, h: x.reshape(3, len(x), h, x.shape[1], -1),
            "The shape is right, but a reshape never moves a number past another.",
            "First just cut the last axis into three named axes. Then permute.",
        ),
        Mistake(
            "the roles are right, the heads are reshaped without transposing",
            lambda x, h: torch.stack(
                [part.reshape(len(x), h, x.shape[1], -1) for part in x.chunk(3, dim=-1)]
            ),
            "Your three roles are right. Within one, a reshape gives a head the "
            "columns of other positions.",
            "First cut the last axis: “b t h d”. Then exchange two axes.",
        ),
        Mistake(
            "positions and columns exchanged",
            _cut("b t (three h d) -> three b h d t"),
            "Those are the heads transposed: within a head, positions are rows.",
            "The last two names of the result should be t and d.",
        ),
        Mistake(
            "keys before queries",
            lambda x, h: heads_from_qkv(x, h)[[1, 0, 2]],
            "Your first result is the middle third of the columns. What lies first in "
            "the fused product?",
            "Queries, keys, values: in this order in the columns and in the result.",
        ),
        Mistake(
            "the three roles behind the batch",
            _cut("b t (three h d) -> b three h t d"),
            "The cut is right, but the first index of your result selects a text, not "
            "a role.",
            "queries, keys, values = result should work: the roles come first.",
        ),
    ),
    "Cut the last axis into three names: role, head, width of a head. Then bring the "
    "roles to the front, and the heads before the positions.",
)


# --- the first loss ----------------------------------------------------------------


def first_loss() -> float:
    """An even guess costs ln V; noise of variance s² adds s² / 2."""
    return math.log(2981) + 1.5**2 / 2


BIRTH = Exercise(
    "backbone.first_loss",
    "Wants a number: the first loss in nats by the formula, for 2,981 tokens and "
    "logits that are noise with standard deviation 1.5.",
    (),
    first_loss,
    lambda generator: [()],
    (
        Mistake(
            "ln V alone",
            lambda: math.log(2981),
            "That is the price of knowing nothing. This model is sure of something, "
            "and wrong.",
            "Noise in the logits costs extra: look at the parabola.",
        ),
        Mistake(
            "the whole variance",
            lambda: math.log(2981) + 1.5**2,
            "The extra price is too high, by a factor.",
            "Read the formula aloud once more: how much of the variance?",
        ),
        Mistake(
            "half the standard deviation",
            lambda: math.log(2981) + 1.5 / 2,
            "The curve over σ is a parabola, yours is a line.",
            "Standard deviation 1.5: what is the variance?",
        ),
        Mistake(
            "the standard deviation itself",
            lambda: math.log(2981) + 1.5,
            "You add the standard deviation as it is. The curve over σ is a parabola.",
            "Read the formula aloud once more: which power of σ, and how much of it?",
        ),
        Mistake(
            "below ln V",
            lambda: math.log(2981) - 1.5**2 / 2,
            "The best model of random labels is the even one. Can noise beat it?",
            "Look at the sign.",
        ),
        Mistake(
            "bits for nats",
            lambda: math.log2(2981) + 1.5**2 / 2,
            "Which logarithm gives nats?",
            "`math.log`, not `math.log2`.",
        ),
        Mistake(
            "nothing to pay",
            lambda: 0.0,
            "0 is the loss of a model that is sure and right, every time.",
            "Which share of the probability does each of 2,981 equal tokens get?",
        ),
        Mistake(
            "one nat",
            lambda: 1.0,
            "A loss of 1 is an even guess among e tokens, about three. There are "
            "2,981.",
            "Begin with the price of an even guess among all tokens.",
        ),
    ),
    "Two parts: what an even guess among all tokens costs, and what noise adds.",
    predicts=True,
)


# --- how many weights? -------------------------------------------------------------


def count_weights(
    vocab_size: int, length: int, d_model: int, blocks: int, d_ff: int
) -> int:
    """Numbers in all matrices of a decoder with learned positions and tied ends.

    Biases and norms, which notebook 11 leaves out, are not matrices.
    """
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
    "backbone.count_weights",
    "Gives the number of weights in all matrices of this model, from the size of the "
    "vocabulary, the length, m, the number of blocks and f. Where do the millions sit?",
    ("vocab_size", "length", "d_model", "blocks", "d_ff"),
    count_weights,
    lambda generator: [(40, 12, 8, 2, 20), (50, 7, 6, 3, 10), (31, 5, 4, 1, 9)],
    (
        Mistake(
            "the ends counted twice",
            lambda *sizes: _sum(*sizes, ends=2),
            "You gave the head a matrix of its own. Which one does it use here?",
            "Tied: E stands at both ends, and is stored once.",
        ),
        Mistake(
            "positions forgotten",
            lambda v, t, m, n, f: _sum(v, 0, m, n, f),
            "One table of the first line is missing.",
            "Which matrix has one row per place in the text?",
        ),
        Mistake(
            "tokens forgotten",
            lambda v, t, m, n, f: _sum(0, t, m, n, f),
            "One of the two tables of the first line is missing.",
            "Which matrix has one row per token of the vocabulary?",
        ),
        Mistake(
            "the feed-forward of one block only",
            lambda v, t, m, n, f: _sum(v, t, m, n, f) - (n - 1) * 2 * m * f,
            "The matrices of attention are there for each block. And the feed-forward?",
            "Everything in a block is counted once per block. Are parentheses missing?",
        ),
        Mistake(
            "the tables in every block",
            lambda v, t, m, n, f: n * _sum(v, t, m, 1, f),
            "You count the tables of tokens and positions for each block.",
            "Only E and P are there once for all blocks.",
        ),
        Mistake(
            "one block only",
            lambda v, t, m, n, f: _sum(v, t, m, 1, f),
            "Each block has matrices of its own.",
            "Only E and P are there once for all blocks.",
        ),
        Mistake(
            "Q, K and V counted as one",
            lambda *sizes: _sum(*sizes, square=2),
            "The fused matrix is wider than it is high.",
            "W_qkv maps m numbers to how many?",
        ),
        Mistake(
            "the output projection forgotten",
            lambda *sizes: _sum(*sizes, square=3),
            "Queries, keys and values are there. Who writes to the stream?",
            "W_o comes after the heads, m by m.",
        ),
        Mistake(
            "the way back from f forgotten",
            lambda v, t, m, n, f: _sum(v, t, m, n, f) - n * m * f,
            "The feed-forward goes out to f. And back?",
            "W_1 is m by f. What is W_2?",
        ),
        Mistake(
            "a gate in the feed-forward network",
            lambda v, t, m, n, f: _sum(v, t, m, n, f) + n * m * f,
            "You count three matrices in the feed-forward network. The third would be "
            "a gate, which this model does not have.",
            "Print the names that new_weights returns: how many belong to the "
            "feed-forward?",
        ),
        Mistake(
            "the blocks only",
            lambda v, t, m, n, f: _sum(0, 0, m, n, f),
            "The blocks are right. What turns ids and positions into vectors?",
            "E has a row per token, P a row per position.",
        ),
        Mistake(
            "f taken for four times m",
            lambda v, t, m, n, f: _sum(v, t, m, n, 4 * m),
            "Four times m is a habit. One argument is unused.",
            "The feed-forward is f wide, whatever m is.",
        ),
        Mistake(
            "biases and norms counted",
            lambda v, t, m, n, f: _sum(v, t, m, n, f) + n * (9 * m + f) + 2 * m,
            "Right for a layer with biases and norms that have learned a scale and a "
            "shift. new_weights makes neither.",
            "Print the names that new_weights returns: each is a matrix.",
        ),
    ),
    "E, P, and then per block: W_qkv, W_o, W_1, W_2. Rows times columns each.",
)


EXERCISES = (HEADS, BIRTH, COUNT)
