"""Exercises of notebook 02: cut into heads, put together again, count.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

from einops import rearrange
from torch import Tensor

from course_utils.attention import MultiHeadAttention, split_heads
from course_utils.exercises.drawing import normal
from course_utils.exercises.exercise import Exercise, Mistake

# --- split -------------------------------------------------------------------------


def split(x: Tensor, num_heads: int) -> Tensor:
    """From "b t (h d)" to "b h t d"."""
    batch, length, width = x.shape
    parts = x.reshape(batch, length, num_heads, width // num_heads)
    return parts.transpose(1, 2)


def _projected(generator):
    return [(normal(generator, 2, 3, 20), 5), (normal(generator, 1, 7, 6), 2)]


def _pieces(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1)


SPLIT = Exercise(
    "heads.split",
    "Gives “b h t d” from x “b t (h d)”: each head owns some columns and sees every "
    "position. Cut along the wrong axis it runs all the same, and learns little.",
    ("x", "num_heads"),
    split,
    _projected,
    (
        Mistake(
            "reshaped without transposing",
            lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            "The shape is right, but head 0 got the first *positions*, not the first "
            "columns.",
            "A reshape never moves a number past another. Cut the last axis in two "
            "first, then exchange two axes.",
        ),
        Mistake(
            "heads still behind the positions",
            _pieces,
            "Well cut. The heads stand third; where should they stand?",
            "“b t h d” wants to become “b h t d”: exchange two axes.",
        ),
        Mistake(
            "a head takes every h-th column",
            lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
            "The heads are interleaved like cards. In “(h d)” the head runs slowly.",
            "Cut the last axis into (heads, width), in this order.",
        ),
        Mistake(
            "positions and columns exchanged",
            lambda x, h: rearrange(x, "b t (h d) -> b h d t", h=h),
            "One exchange too many: within a head, positions are rows.",
            "From “b t h d” to “b h t d” two axes change places; the last one stays.",
        ),
        Mistake(
            "cut as many pieces as a head is wide",
            lambda x, h: _pieces(x, x.shape[-1] // h).transpose(1, 2),
            "You have as many heads as a head should have columns.",
            "Two numbers multiply to the width. Which of them is num_heads?",
        ),
    ),
    "Two steps: cut the last axis in two, then bring the heads forward.",
    shared=split_heads,
    trains=True,
)


# --- merge -------------------------------------------------------------------------


def merge(context: Tensor) -> Tensor:
    """From "b h q d" to "b q (h d)"."""
    batch, heads, length, width = context.shape
    return context.transpose(1, 2).reshape(batch, length, heads * width)


MERGE = Exercise(
    "heads.merge",
    "Gives “b q (h d)” from context “b h q d”: the way back, so that the output "
    "projection sees all heads of a position.",
    ("context",),
    merge,
    lambda g: [(normal(g, 2, 5, 3, 4),), (normal(g, 1, 2, 7, 3),)],
    (
        Mistake(
            "reshaped without transposing",
            lambda x: x.reshape(len(x), x.shape[2], -1),
            "The shape is right, but a row of yours holds many positions of a head.",
            "A reshape joins neighbors. Which two axes must be neighbors before it?",
        ),
        Mistake(
            "the heads are added up",
            lambda x: x.sum(dim=1),
            "Added up, nobody can tell any more which head said what.",
            "Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            "the heads are averaged",
            lambda x: x.mean(dim=1),
            "An average is what heads were to avoid: see section 1.",
            "Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            "the heads are interleaved",
            lambda x: rearrange(x, "b h q d -> b q (d h)"),
            "Split would not undo this: the columns of a head are no neighbors.",
            "In “(h d)” the head runs slowly: all columns of head 0 come first.",
        ),
        Mistake(
            "merged into a longer sentence",
            lambda x: rearrange(x, "b h q d -> b (h q) d"),
            "Your sentence got h times as long. The *width* should grow.",
            "Which axis do the heads have to stand beside before you reshape?",
        ),
    ),
    "The steps of split, backwards: first exchange, then join the last two axes.",
    trains=True,
)


# --- count -------------------------------------------------------------------------


def count(d_model: int, num_heads: int, head_dim: int) -> int:
    """Parameters of a multi-head layer, biases included."""
    layer = MultiHeadAttention(d_model, num_heads, head_dim=head_dim)
    return sum(parameter.numel() for parameter in layer.parameters())


def _four(m, w):
    return 4 * m * w + 3 * w + m


COUNT = Exercise(
    "heads.count",
    "Gives the number of parameters, biases included, of a layer with this d_model, "
    "num_heads and head_dim. So you know what a layer costs before you build it.",
    ("d_model", "num_heads", "head_dim"),
    count,
    lambda generator: [(64, 3, 10), (12, 2, 5), (30, 7, 4)],
    (
        Mistake(
            "biases forgotten",
            lambda m, h, d: 4 * m * h * d,
            "All four matrices are there. What else does nn.Linear hold?",
            "Each of the four layers adds one number per *output*.",
        ),
        Mistake(
            "the output projection forgotten",
            lambda m, h, d: 3 * (m * h * d + h * d),
            "Queries, keys and values are there. Who brings the heads to d_model?",
            "W_o goes from num_heads · head_dim to d_model, and has a bias.",
        ),
        Mistake(
            "head_dim ignored",
            lambda m, h, d: _four(m, m),
            "Right for the standard layer. Here the heads need not add up to d_model.",
            "The projections are num_heads · head_dim wide.",
        ),
        Mistake(
            "one head only",
            lambda m, h, d: _four(m, d),
            "That is a layer with a single head.",
            "Side by side, the heads are num_heads · head_dim wide.",
        ),
        Mistake(
            "the last bias has the width of the heads",
            lambda m, h, d: 4 * (m * h * d + h * d),
            "The matrices are right, one bias is not. What comes out of W_o?",
            "A bias is as long as the *output* of its layer.",
        ),
    ),
    "Four nn.Linear: three from d_model to num_heads · head_dim, one back. Each holds "
    "in · out + out numbers.",
)


EXERCISES = (SPLIT, MERGE, COUNT)
