"""Exercises of notebook 02: cut into heads, put together again, a whole layer.

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
    name="heads.split",
    statement="Gives “b h t d” from x “b t (h d)”: each head owns some columns and "
    "sees every position. Cut along the wrong axis it runs all the same, and learns "
    "worse.",
    takes=("x", "num_heads"),
    reference=split,
    cases=_projected,
    mistakes=(
        Mistake(
            name="reshaped without transposing",
            function=lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
            hint="The shape is right, but head 0 got the first *positions*, not the "
            "first columns.",
            more="A reshape never moves a number past another. Cut the last axis in "
            "two first, then swap two axes.",
        ),
        Mistake(
            name="heads still behind the positions",
            function=_pieces,
            hint="The cut is right. The heads come third; where should they be?",
            more="“b t h d” should become “b h t d”: swap two axes.",
        ),
        Mistake(
            name="a head takes every h-th column",
            function=lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
            hint="The heads are interleaved like cards. In “(h d)” the head index "
            "changes slowly.",
            more="Cut the last axis into (heads, width), in this order.",
        ),
        Mistake(
            name="positions and columns exchanged",
            function=lambda x, h: rearrange(x, "b t (h d) -> b h d t", h=h),
            hint="One swap too many: within a head, positions are rows.",
            more="From “b t h d” to “b h t d” two axes change places; the last one "
            "stays.",
        ),
        Mistake(
            name="cut as many pieces as a head is wide",
            function=lambda x, h: _pieces(x, x.shape[-1] // h).transpose(1, 2),
            hint="You have as many heads as a head should have columns.",
            more="Two numbers multiply to the width. Which of them is num_heads?",
        ),
        Mistake(
            name="exchanged first, then cut",
            function=lambda x, h: x.transpose(1, 2).reshape(len(x), h, x.shape[1], -1),
            hint="The shape is right, but each row of a head holds columns at several "
            "positions. Which comes first, the cut or the swap?",
            more="Cut the last axis while it still holds the columns.",
        ),
        Mistake(
            name="heads in front of the batch",
            function=lambda x, h: rearrange(x, "b t (h d) -> h b t d", h=h),
            hint="The cut is right. The heads come first; where should they be?",
            more="A sentence keeps its heads together: the batch stays in front.",
        ),
    ),
    hint=(
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
    name="heads.merge",
    statement="Gives “b q (h d)” from context “b h q d”: the way back, so that the "
    "output projection sees all heads of a position.",
    takes=("context",),
    reference=merge,
    cases=_contexts,
    mistakes=(
        Mistake(
            name="reshaped without transposing",
            function=lambda x: x.reshape(len(x), x.shape[2], -1),
            hint="The shape is right, but each of your rows holds many positions of a "
            "head.",
            more="A reshape joins neighbors. Which two axes must be neighbors before "
            "it?",
        ),
        Mistake(
            name="the wrong two axes change places",
            function=lambda x: x.transpose(2, 3).reshape(len(x), x.shape[2], -1),
            hint="You swap positions and columns. Each of your rows still holds many "
            "positions.",
            more="Which axis has to be next to the columns before you reshape?",
        ),
        Mistake(
            name="the heads are added up",
            function=lambda x: x.sum(dim=1),
            hint="Once they are added up, nothing can tell which head said what.",
            more="Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            name="the heads are averaged",
            function=lambda x: x.mean(dim=1),
            hint="An average is what several heads should avoid: see section 1.",
            more="Heads go side by side: the width of the result is h times d.",
        ),
        Mistake(
            name="the heads are interleaved",
            function=lambda x: rearrange(x, "b h q d -> b q (d h)"),
            hint="Split would not undo this: the columns of a head are not neighbors.",
            more="In “(h d)” the head index changes slowly: all columns of head 0 come "
            "first.",
        ),
        Mistake(
            name="merged into a longer sentence",
            function=lambda x: rearrange(x, "b h q d -> b (h q) d"),
            hint="Your sentence became h times as long. The *width* should grow.",
            more="Which axis do the heads have to be next to before you reshape?",
        ),
        Mistake(
            name="joined first, then exchanged",
            function=lambda x: x.reshape(len(x), -1, x.shape[2]).transpose(1, 2),
            hint="The shape is right, but heads and columns were not neighbors when "
            "you joined them. Which comes first?",
            more="A reshape joins neighbors. Bring heads and columns together before "
            "it.",
        ),
    ),
    hint=(
        "Do the steps of split backwards.",
        "The last step of split swapped two axes. Swap them again: (b, q, h, d).",
        "Now `reshape` joins the last two axes into one that is h·d wide.",
    ),
    trains=True,
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
    name="heads.layer",
    statement="Gives the output “b t o” of a whole layer without biases: words x “b t "
    "m” look at each other by w_q and w_k “m (h d)”, w_v “m (h e)”, w_o “(h e) o”. You "
    "will meet it in every block.",
    takes=("x", "w_q", "w_k", "w_v", "w_o", "num_heads"),
    reference=multi_head,
    cases=_sentences,
    mistakes=(
        Mistake(
            name="scaled by the width of all heads together",
            function=_variant(scale=lambda x, w_q: w_q.shape[1]),
            hint="Everything is right but the scale. Over how many numbers does one "
            "dot product sum?",
            more="Each head compares its own d columns, not all h · d.",
        ),
        Mistake(
            name="scaled by the width of the words",
            function=_variant(scale=lambda x, w_q: x.shape[-1]),
            hint="You divide by the root of the width of x. No rows of x are compared "
            "here.",
            more="The scale belongs to the queries: how wide are they within a head?",
        ),
        Mistake(
            name="scaled by the width of the values",
            function=_scaled_by_values,
            hint="You divide by the root of the width of a value. Values take no part "
            "in a score.",
            more="Over how many numbers does the dot product of a query and a key sum?",
        ),
        Mistake(
            name="not scaled",
            function=_variant(scale=lambda x, w_q: 1),
            hint="One division is missing between the scores and the softmax.",
            more="Look at the formula of section 2: what are the scores divided by?",
        ),
        Mistake(
            name="the softmax runs over the queries",
            function=_variant(axis=-2),
            hint="Your weights add up to 1 along the wrong axis: the queries compete.",
            more="Scores are “b h q k”. Each query shares its weight among the keys.",
        ),
        Mistake(
            name="a single head",
            function=lambda x, w_q, w_k, w_v, w_o, h: multi_head(
                x, w_q, w_k, w_v, w_o, 1
            ),
            hint="That is one wide head. Where does num_heads come in?",
            more="Cut queries, keys and values into heads before they meet.",
        ),
        Mistake(
            name="cut and joined without transposing",
            function=_variant(cut=_torn, join=_glued),
            hint="Your heads share out the *words*: see the bug of section 10.",
            more="Cut the last axis first, then bring the heads forward; and back "
            "again.",
        ),
        Mistake(
            name="joined without transposing",
            function=_variant(join=_glued),
            hint="The heads are right. In your rows, positions and heads are mixed up.",
            more="Before you join, heads and width must be neighbors: “b q h e”.",
        ),
        Mistake(
            name="joined with the width before the head",
            function=_variant(
                join=lambda context: rearrange(context, "b h q d -> b q (d h)")
            ),
            hint="The heads are right. In your rows the first numbers of all heads "
            "come side by side, then all the second ones.",
            more="The rows of w_o are “(h e)”: all numbers of head 0 come first.",
        ),
        Mistake(
            name="a head takes every h-th column",
            function=_variant(
                cut=lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
                join=lambda context: rearrange(context, "b h q d -> b q (d h)"),
            ),
            hint="Your heads are dealt out like cards. In “(h d)” the head index "
            "changes slowly.",
            more="Head 0 owns the first d columns of w_q, head 1 the next d.",
        ),
        Mistake(
            name="the last product is missing",
            function=lambda x, w_q, w_k, w_v, w_o, h: _variant()(
                x, w_q, w_k, w_v, torch.eye(len(w_o), dtype=x.dtype), h
            ),
            hint="The contexts stand side by side, and nothing has combined them yet.",
            more="Which of the four matrices have you not used?",
        ),
        Mistake(
            name="a causal mask",
            function=_variant(
                hide=lambda scores: scores.masked_fill(_future(scores), -torch.inf)
            ),
            hint="Your first word sees only itself. Did anybody ask for a mask?",
            more="Words look at each other in both directions here: no mask, no "
            "is_causal.",
        ),
        Mistake(
            name="one head with the scale of several",
            function=lambda x, w_q, w_k, w_v, w_o, h: multi_head(
                x, w_q * h**0.5, w_k, w_v, w_o, 1
            ),
            hint="num_heads changes only your scale. All columns still meet in one dot "
            "product.",
            more="Cut queries, keys and values into heads, so that each has scores of "
            "its own.",
        ),
        Mistake(
            name="scaled by the width of the words over the heads",
            function=_scaled_by_words,
            hint="You divide by the root of m / h. Here the heads need not add up to "
            "the width of x.",
            more="The scale belongs to the queries: how wide are they within a head?",
        ),
        Mistake(
            name="divided by d, not by its root",
            function=lambda x, w_q, w_k, w_v, w_o, h: multi_head(
                x, w_q / (w_q.shape[1] // h) ** 0.5, w_k, w_v, w_o, h
            ),
            hint="Scaled, but too much or twice: your scores are nearly equal. What is "
            "the standard deviation of a sum of d products?",
            more="One division by the root of d. `attend` and PyTorch's function have "
            "it inside.",
        ),
        Mistake(
            name="cut without transposing",
            function=_variant(cut=_torn),
            hint="The joining is right, but your heads share out the *words*: see the "
            "bug of section 10.",
            more="Cut the last axis first, then bring the heads forward.",
        ),
        Mistake(
            name="the heads of a word look at each other",
            function=_variant(cut=_all_torn, join=lambda context: context.flatten(2)),
            hint="Your scores are “b t h h”: within each word, heads are compared with "
            "heads. Who should be compared with whom?",
            more="Before the product the positions must be second to last: “b h t d”.",
        ),
        Mistake(
            name="the softmax runs over the heads",
            function=lambda x, q, k, v, o, n: (
                merge(
                    (
                        split(x @ q, n) @ split(x @ k, n).mT / (q.shape[1] // n) ** 0.5
                    ).softmax(dim=1)
                    @ split(x @ v, n)
                )
                @ o
            ),
            hint="The weights of the heads add up to 1 for each pair of words. Among "
            "whom should a query share itself out?",
            more="“b h q k”: the softmax runs over k, the last axis.",
        ),
    ),
    hint=(
        "Three products, then cut into heads: write `split` and `merge` as above.",
        "In each head: scores, divided by a root; softmax over the keys; times values.",
        "The root is that of d, the width of one head: the last size of your queries.",
        "Join the heads, then one more product.",
    ),
    trains=True,
)


EXERCISES = (SPLIT, MERGE, LAYER)
