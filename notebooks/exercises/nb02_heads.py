"""Exercises of notebook 02: cut into heads, put together again, count, a whole layer.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Callable

import torch
from einops import rearrange
from torch import Tensor

from course_utils.attention import split_heads
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

# --- split -------------------------------------------------------------------------


def split(x: Tensor, num_heads: int) -> Tensor:
    """From "b t (h d)" to "b h t d"."""
    batch, length, width = x.shape
    parts = x.reshape(batch, length, num_heads, width // num_heads)
    return parts.transpose(1, 2)


def _projected(generator):
    one_column = normal(generator, 2, 3, 4), 4
    several = (normal(generator, 2, 3, 20), 5), (normal(generator, 1, 7, 6), 2)
    return [*several, one_column]


def _pieces(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1)


SPLIT = Exercise(
    "heads.split",
    "Gives “b h t d” from x “b t (h d)”: each head owns some columns and sees every "
    "position. Cut along the wrong axis it runs all the same, and learns worse.",
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
            "first, then swap two axes.",
        ),
        Mistake(
            "heads still behind the positions",
            _pieces,
            "The cut is right. The heads come third; where should they be?",
            "“b t h d” should become “b h t d”: swap two axes.",
        ),
        Mistake(
            "a head takes every h-th column",
            lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
            "The heads are interleaved like cards. In “(h d)” the head index changes "
            "slowly.",
            "Cut the last axis into (heads, width), in this order.",
        ),
        Mistake(
            "positions and columns exchanged",
            lambda x, h: rearrange(x, "b t (h d) -> b h d t", h=h),
            "One swap too many: within a head, positions are rows.",
            "From “b t h d” to “b h t d” two axes change places; the last one stays.",
        ),
        Mistake(
            "cut as many pieces as a head is wide",
            lambda x, h: _pieces(x, x.shape[-1] // h).transpose(1, 2),
            "You have as many heads as a head should have columns.",
            "Two numbers multiply to the width. Which of them is num_heads?",
        ),
        Mistake(
            "exchanged first, then cut",
            lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
            "The shape is right, but each row of a head holds columns at several "
            "positions. Which comes first, the cut or the swap?",
            "Cut the last axis while it still holds the columns.",
        ),
        Mistake(
            "heads in front of the batch",
            lambda x, h: rearrange(x, "b t (h d) -> h b t d", h=h),
            "The cut is right. The heads come first; where should they be?",
            "A sentence keeps its heads together: the batch stays in front.",
        ),
    ),
    (
        "You have three axes, (b, t, h·d), and want four. Which of the three is cut?",
        "`reshape` cuts the last axis in two: first the heads, then the width of each.",
        "Now you have (b, t, h, d). One swap of two axes brings the heads forward.",
    ),
    shared=split_heads,
    trains=True,
)


# --- merge -------------------------------------------------------------------------


def merge(context: Tensor) -> Tensor:
    """From "b h q d" to "b q (h d)"."""
    batch, heads, length, width = context.shape
    return context.transpose(1, 2).reshape(batch, length, heads * width)


def _contexts(generator):
    one_head = normal(generator, 3, 1, 2, 4)
    several = normal(generator, 2, 5, 3, 4), normal(generator, 1, 2, 7, 3)
    return [(context,) for context in (*several, one_head)]


MERGE = Exercise(
    "heads.merge",
    "Gives “b q (h d)” from context “b h q d”: the way back, so that the output "
    "projection sees all heads of a position.",
    ("context",),
    merge,
    _contexts,
    (
        Mistake(
            "reshaped without transposing",
            lambda x: x.reshape(len(x), x.shape[2], -1),
            "The shape is right, but each of your rows holds many positions of a head.",
            "A reshape joins neighbors. Which two axes must be neighbors before it?",
        ),
        Mistake(
            "the wrong two axes change places",
            lambda x: x.transpose(2, 3).reshape(len(x), x.shape[2], -1),
            "You swap positions and columns. Each of your rows still holds many "
            "positions.",
            "Which axis has to be next to the columns before you reshape?",
        ),
        Mistake(
            "the heads are added up",
            lambda x: x.sum(dim=1),
            "Once they are added up, nothing can tell which head said what.",
            "Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            "the heads are averaged",
            lambda x: x.mean(dim=1),
            "An average is what several heads should avoid: see section 1.",
            "Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            "the heads are interleaved",
            lambda x: rearrange(x, "b h q d -> b q (d h)"),
            "Split would not undo this: the columns of a head are not neighbors.",
            "In “(h d)” the head index changes slowly: all columns of head 0 come "
            "first.",
        ),
        Mistake(
            "merged into a longer sentence",
            lambda x: rearrange(x, "b h q d -> b (h q) d"),
            "Your sentence became h times as long. The *width* should grow.",
            "Which axis do the heads have to be next to before you reshape?",
        ),
        Mistake(
            "joined first, then exchanged",
            lambda x: x.reshape(len(x), -1, x.shape[2]).transpose(1, 2),
            "The shape is right, but heads and columns were not neighbors when you "
            "joined them. Which comes first?",
            "A reshape joins neighbors. Bring heads and columns together before it.",
        ),
    ),
    (
        "Do the steps of split backwards.",
        "The last step of split swapped two axes. Swap them again: (b, q, h, d).",
        "Now `reshape` joins the last two axes into one that is h·d wide.",
    ),
    trains=True,
)


# --- count -------------------------------------------------------------------------


def count(d_model: int, num_heads: int, head_dim: int) -> int:
    """Parameters of a multi-head layer, biases included."""
    width = num_heads * head_dim
    three_inward = 3 * (d_model * width + width)
    return three_inward + width * d_model + d_model


def _four(m, w):
    return 4 * m * w + 3 * w + m


COUNT = Exercise(
    "heads.count",
    "Gives the number of parameters, biases included, of a layer with this d_model, "
    "num_heads and head_dim. So you know what a layer costs before you build it.",
    ("d_model", "num_heads", "head_dim"),
    count,
    lambda generator: [(64, 3, 10), (12, 2, 5), (30, 7, 4), (5, 1, 1)],
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
            "Queries, keys and values are there. What leads back to d_model?",
            "W_o goes from num_heads · head_dim to d_model, and has a bias.",
        ),
        Mistake(
            "head_dim ignored",
            lambda m, h, d: _four(m, m),
            "Right for the standard layer. Here the heads need not add up to d_model.",
            "The projections are num_heads · head_dim wide.",
        ),
        Mistake(
            "head_dim is computed from d_model",
            lambda m, h, d: _four(m, m // h * h),
            "You divide d_model by the number of heads. One of the three arguments is "
            "not used then.",
            "Here the heads need not add up to d_model: head_dim says how wide one is.",
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
        Mistake(
            "an output bias for each head",
            lambda m, h, d: 4 * m * h * d + 3 * h * d + h * m,
            "The matrices are right. How many biases does the output projection have?",
            "W_o is one nn.Linear for all heads together, with one bias.",
        ),
        Mistake(
            "the output bias forgotten",
            lambda m, h, d: 4 * m * h * d + 3 * h * d,
            "Four matrices and three biases. Which layer has none in your count?",
            "Each of the four layers adds one number per *output*.",
        ),
        Mistake(
            "every bias has the width of the model",
            lambda m, h, d: 4 * m * h * d + 4 * m,
            "The matrices are right. What comes out of the projections of queries, "
            "keys and values?",
            "A bias is as long as the *output* of its layer.",
        ),
        Mistake(
            "the output matrix reads one head only",
            lambda m, h, d: 3 * (m * h * d + h * d) + d * m + m,
            "Queries, keys and values are right. How many heads does the output "
            "projection read?",
            "W_o takes all heads side by side, not one after the other.",
        ),
        Mistake(
            "a square output matrix",
            lambda m, h, d: 3 * (m * h * d + h * d) + m * m + m,
            "Queries, keys and values are right. What goes into the output projection?",
            "W_o takes all heads side by side and gives d_model numbers.",
        ),
    ),
    (
        "The layer holds four nn.Linear. How many numbers does one have, with its "
        "bias?",
        "in · out for the matrix, and out for the bias.",
        "Three lead from d_model to num_heads · head_dim, the fourth leads back.",
    ),
)


# --- layer -------------------------------------------------------------------------


def multi_head(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, num_heads: int
) -> Tensor:
    """From "b t m" to "b t o", by several heads and no biases."""
    queries = split(x @ w_q, num_heads)
    keys = split(x @ w_k, num_heads)
    values = split(x @ w_v, num_heads)
    scores = queries @ keys.transpose(-2, -1) / queries.shape[-1] ** 0.5
    context = scores.softmax(dim=-1) @ values
    return merge(context) @ w_o


def _sentences(generator):
    """Sentences with four matrices: (m, h · d, h · e, o) and the number of heads."""

    def made(shape, query_width, value_width, out_width, num_heads):
        m = shape[-1]
        widths = (m, query_width), (m, query_width), (m, value_width)
        matrices = [normal(generator, *sizes) / 2 for sizes in widths]
        back = normal(generator, value_width, out_width)
        return [normal(generator, *shape), *matrices, back, num_heads]

    free = made((2, 3, 10), 20, 15, 7, 5)
    usual = made((1, 7, 6), 6, 6, 6, 2)
    empty_word = made((2, 4, 6), 6, 6, 6, 3)
    empty_word[0][1, 2] = 0.0
    loud_word = made((1, 5, 6), 4, 6, 6, 2)
    loud_word[0][0, 1] *= 60.0
    return [tuple(case) for case in (free, usual, empty_word, loud_word)]


def _variant(
    cut=split, join=merge, scale=None, axis=-1, hide=lambda scores: scores
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int], Tensor]:
    """The layer with one part exchanged; scale: from (x, w_q, heads) to a divisor."""

    def layer(x, w_q, w_k, w_v, w_o, num_heads):
        queries, keys, values = (cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
        divisor = queries.shape[-1] if scale is None else scale(x, w_q)
        scores = queries @ keys.transpose(-2, -1) / divisor**0.5
        return join(hide(scores).softmax(dim=axis) @ values) @ w_o

    return layer


def _future(scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


def _torn(x, num_heads):
    return x.reshape(len(x), num_heads, x.shape[1], -1)


def _glued(context):
    return context.reshape(len(context), context.shape[2], -1)


def _all_torn(x, num_heads):
    return x.reshape(*x.shape[:2], num_heads, -1)


def _scaled_by_values(x, w_q, w_k, w_v, w_o, num_heads):
    stretch = (w_q.shape[1] / w_v.shape[1]) ** 0.5
    return multi_head(x, w_q * stretch, w_k, w_v, w_o, num_heads)


def _scaled_by_words(x, w_q, w_k, w_v, w_o, num_heads):
    stretch = (w_q.shape[1] // num_heads / (x.shape[-1] // num_heads)) ** 0.5
    return multi_head(x, w_q * stretch, w_k, w_v, w_o, num_heads)


LAYER = Exercise(
    "heads.layer",
    "Gives the output “b t o” of a whole layer without biases: words x “b t m” look at "
    "each other by w_q and w_k “m (h d)”, w_v “m (h e)”, w_o “(h e) o”. You will meet "
    "it in every block.",
    ("x", "w_q", "w_k", "w_v", "w_o", "num_heads"),
    multi_head,
    _sentences,
    (
        Mistake(
            "scaled by the width of all heads together",
            _variant(scale=lambda x, w_q: w_q.shape[1]),
            "Everything is right but the scale. Over how many numbers does one dot "
            "product sum?",
            "Each head compares its own d columns, not all h · d.",
        ),
        Mistake(
            "scaled by the width of the words",
            _variant(scale=lambda x, w_q: x.shape[-1]),
            "You divide by the root of the width of x. No rows of x are compared here.",
            "The scale belongs to the queries: how wide are they within a head?",
        ),
        Mistake(
            "scaled by the width of the values",
            _scaled_by_values,
            "You divide by the root of the width of a value. Values take no part in a "
            "score.",
            "Over how many numbers does the dot product of a query and a key sum?",
        ),
        Mistake(
            "not scaled",
            _variant(scale=lambda x, w_q: 1),
            "One division is missing between the scores and the softmax.",
            "Look at the formula of section 2: what are the scores divided by?",
        ),
        Mistake(
            "the softmax runs over the queries",
            _variant(axis=-2),
            "Your weights add up to 1 along the wrong axis: the queries compete.",
            "Scores are “b h q k”. Each query shares its weight among the keys.",
        ),
        Mistake(
            "a single head",
            lambda x, w_q, w_k, w_v, w_o, h: multi_head(x, w_q, w_k, w_v, w_o, 1),
            "That is one wide head. Where does num_heads come in?",
            "Cut queries, keys and values into heads before they meet.",
        ),
        Mistake(
            "cut and joined without transposing",
            _variant(cut=_torn, join=_glued),
            "Your heads share out the *words*: see the bug of section 10.",
            "Cut the last axis first, then bring the heads forward; and back again.",
        ),
        Mistake(
            "joined without transposing",
            _variant(join=_glued),
            "The heads are right. In your rows, positions and heads are mixed up.",
            "Before you join, heads and width must be neighbors: “b q h e”.",
        ),
        Mistake(
            "joined with the width before the head",
            _variant(join=lambda context: rearrange(context, "b h q d -> b q (d h)")),
            "The heads are right. In your rows the first numbers of all heads come "
            "side by side, then all the second ones.",
            "The rows of w_o are “(h e)”: all numbers of head 0 come first.",
        ),
        Mistake(
            "a head takes every h-th column",
            _variant(
                cut=lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
                join=lambda context: rearrange(context, "b h q d -> b q (d h)"),
            ),
            "Your heads are dealt out like cards. In “(h d)” the head index changes "
            "slowly.",
            "Head 0 owns the first d columns of w_q, head 1 the next d.",
        ),
        Mistake(
            "the last product is missing",
            lambda x, w_q, w_k, w_v, w_o, h: _variant()(
                x, w_q, w_k, w_v, torch.eye(len(w_o), dtype=x.dtype), h
            ),
            "The contexts stand side by side, and nothing has combined them yet.",
            "Which of the four matrices have you not used?",
        ),
        Mistake(
            "a causal mask",
            _variant(
                hide=lambda scores: scores.masked_fill(_future(scores), -torch.inf)
            ),
            "Your first word sees only itself. Did anybody ask for a mask?",
            "Words look at each other in both directions here: no mask, no is_causal.",
        ),
        Mistake(
            "one head with the scale of several",
            lambda x, w_q, w_k, w_v, w_o, h: multi_head(
                x, w_q * h**0.5, w_k, w_v, w_o, 1
            ),
            "num_heads changes only your scale. All columns still meet in one dot "
            "product.",
            "Cut queries, keys and values into heads, so that each has scores of its "
            "own.",
        ),
        Mistake(
            "scaled by the width of the words over the heads",
            _scaled_by_words,
            "You divide by the root of m / h. Here the heads need not add up to the "
            "width of x.",
            "The scale belongs to the queries: how wide are they within a head?",
        ),
        Mistake(
            "divided by d, not by its root",
            lambda x, w_q, w_k, w_v, w_o, h: multi_head(
                x, w_q / (w_q.shape[1] // h) ** 0.5, w_k, w_v, w_o, h
            ),
            "Scaled, but too much or twice: your scores are nearly equal. What is the "
            "standard deviation of a sum of d products?",
            "One division by the root of d. `attend` and PyTorch's function have it "
            "inside.",
        ),
        Mistake(
            "cut without transposing",
            _variant(cut=_torn),
            "The joining is right, but your heads share out the *words*: see the bug "
            "of section 10.",
            "Cut the last axis first, then bring the heads forward.",
        ),
        Mistake(
            "the heads of a word look at each other",
            _variant(cut=_all_torn, join=lambda context: context.flatten(2)),
            "Your scores are “b t h h”: within each word, heads are compared with "
            "heads. Who should be compared with whom?",
            "Before the product the positions must be second to last: “b h t d”.",
        ),
    ),
    (
        "Three products, then cut into heads: write `split` and `merge` as above.",
        "In each head: scores, divided by a root; softmax over the keys; times values.",
        "The root is that of d, the width of one head: the last size of your queries.",
        "Join the heads, then one more product.",
    ),
    trains=True,
)


EXERCISES = (SPLIT, MERGE, COUNT, LAYER)
