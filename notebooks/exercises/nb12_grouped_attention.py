"""Exercise of notebook 12: the whole attention of LLaMA, from given matrices.

Knows the shared layer. Knows nothing of how an answer is run or shown.
"""

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from course_utils.attention import GroupedQueryAttention
from course_utils.masks import causal_mask
from course_utils.positions import rotary_table, rotate
from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal


def grouped_attention(
    x: Float[Tensor, "b t m"],
    to_queries: Float[Tensor, "m m"],
    to_keys: Float[Tensor, "n m"],
    to_values: Float[Tensor, "n m"],
    to_output: Float[Tensor, "m m"],
    table: tuple[Float[Tensor, "t d"], Float[Tensor, "t d"]],
    num_heads: int,
) -> Float[Tensor, "b t m"]:
    """Project, cut into heads, turn, repeat keys and values, attend, project back."""
    width = len(to_queries) // num_heads
    queries, keys, values = (
        rearrange(F.linear(x, weight), "b t (h d) -> b h t d", d=width)
        for weight in (to_queries, to_keys, to_values)
    )
    queries, keys = rotate(queries, *table), rotate(keys, *table)
    share = num_heads // keys.shape[1]
    keys, values = (part.repeat_interleave(share, 1) for part in (keys, values))
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return F.linear(rearrange(context, "b h t d -> b t (h d)"), to_output)


def output_of_the_layer(x, to_queries, to_keys, to_values, to_output, table, num_heads):
    """The shared layer with these weights."""
    width = len(to_queries) // num_heads
    groups = len(to_keys) // width
    layer = GroupedQueryAttention(len(to_queries), num_heads, groups)
    weights = {
        "to_queries.weight": to_queries,
        "to_keys.weight": to_keys,
        "to_values.weight": to_values,
        "to_output.weight": to_output,
    }
    return functional_call(layer, weights, (x, table), {"causal": True})


def _inputs(generator):
    def one(b, t, heads, groups, width):
        m = heads * width
        shapes = (m, m), (groups * width, m), (groups * width, m), (m, m)
        weights = (normal(generator, *shape) / m**0.5 for shape in shapes)
        cosines, sines = rotary_table(t, width)
        kind = torch.get_default_dtype()
        table = cosines.to(kind), sines.to(kind)
        return 2 * normal(generator, b, t, m), *weights, table, heads

    return [one(2, 5, 6, 3, 4), one(1, 7, 4, 1, 6), one(3, 1, 2, 2, 8)]


# --- the mistakes: the same steps, one of them wrong ---------------------------------


def _neighbors(x, cosines, sines):
    """Turn the pairs (0, 1), (2, 3), … in place of (i, i + d/2)."""
    order = torch.arange(x.shape[-1]).view(2, -1).T.flatten()
    return rotate(x[..., order.argsort()], cosines, sines)[..., order]


def _in_turn(x, share):
    return x.repeat(1, share, 1, 1)


def _own_set(x, share):
    return repeat(x, "b g t d -> b (g share) t d", share=share)


def _scaled(queries, keys, values, mask, scale):
    scores = queries @ keys.transpose(-1, -2) * scale
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values


def _masked_late(queries, keys, values, mask, scale):
    weights = (queries @ keys.transpose(-1, -2) * scale).softmax(-1)
    return weights * mask @ values


def _project(context, weight):
    return context @ weight.T


def _cut(x, width):
    return rearrange(x, "b t (h d) -> b h t d", d=width)


def _cut_in_place(x, width):
    """The right shape, with the axes of the heads and the positions mixed up."""
    return x.reshape(len(x), -1, x.shape[1], width)


def _attention(
    turned=("queries", "keys"),
    turn=rotate,
    lend=_own_set,
    cut=_cut,
    mask_of=causal_mask,
    attend=_scaled,
    scale=lambda d, m: d**-0.5,
    joined="b h t d -> b t (h d)",
    project=_project,
):
    """The forward pass, with some of its steps replaced."""

    def answer(x, to_queries, to_keys, to_values, to_output, table, num_heads):
        width = len(to_queries) // num_heads
        matrices = {"queries": to_queries, "keys": to_keys, "values": to_values}
        parts = {}
        for role, weight in matrices.items():
            part = cut(x @ weight.T, width)
            parts[role] = turn(part, *table) if role in turned else part
        queries, keys, values = parts.values()
        share = num_heads // keys.shape[1]
        keys, values = lend(keys, share), lend(values, share)
        mask = mask_of(x.shape[1])
        factor = scale(width, len(to_queries))
        context = attend(queries, keys, values, mask, factor)
        if joined is None:
            context = context.reshape(x.shape)
        else:
            context = rearrange(context, joined)
        return project(context, to_output)

    return answer


ATTEND = Exercise(
    name="llama.grouped_attention",
    statement="Gives “b t m”: causal attention of x “b t m” with the weights “m m”, “n "
    "m”, “n m”, “m m” as nn.Linear holds them, rotary by the table (two “t d”). The "
    "attention of LLaMA.",
    takes=(
        "x",
        "to_queries",
        "to_keys",
        "to_values",
        "to_output",
        "table",
        "num_heads",
    ),
    reference=grouped_attention,
    cases=_inputs,
    mistakes=(
        Mistake(
            name="no causal mask",
            function=_attention(mask_of=lambda t: torch.ones(t, t, dtype=torch.bool)),
            hint="The last position is right. Each earlier one looks at words to come.",
            more="Position t may look at positions 0 to t: `is_causal=True`, or the "
            "mask of notebook 03.",
        ),
        Mistake(
            name="the mask is the wrong way around",
            function=_attention(mask_of=lambda t: causal_mask(t).T),
            hint="The first position looks at the whole text, the last one only at "
            "itself. What may position 0 look at?",
            more="True = may look. Row t of the mask allows columns 0 to t.",
        ),
        Mistake(
            name="later positions become 0 after the softmax",
            function=_attention(attend=_masked_late),
            hint="No position sees a later one, but the weights of position 0 do not "
            "add up to 1. Where has the rest gone?",
            more="Hide the scores before the softmax: it then shares 1 among the "
            "others.",
        ),
        Mistake(
            name="nothing is turned",
            function=_attention(turned=()),
            hint="Position 0 is right, the others are not: what depends on the "
            "position?",
            more="The table is still unused. Two of the three are turned by it.",
        ),
        Mistake(
            name="only the queries are turned",
            function=_attention(turned=("queries",)),
            hint="A score then depends on the place of the query, not on the distance.",
            more="A query and a key at the same place must be turned by the same "
            "angle.",
        ),
        Mistake(
            name="only the keys are turned",
            function=_attention(turned=("keys",)),
            hint="A score then depends on the place of the key, not on the distance.",
            more="The query has a place as well. Which angle belongs to it?",
        ),
        Mistake(
            name="the values are turned too",
            function=_attention(turned=("queries", "keys", "values")),
            hint="The scores are right, but what they mix was turned as well.",
            more="The turn should show up only in scores. Which of the three plays no "
            "part in a score?",
        ),
        Mistake(
            name="neighboring columns are turned as a pair",
            function=_attention(turn=_neighbors),
            hint="Lengths and distances are right, but different pairs are turned, as "
            "with the colleague of section 9.",
            more="`rotate` pairs column i with column i + d/2.",
        ),
        Mistake(
            name="keys and values dealt in turn",
            function=_attention(lend=_in_turn),
            hint="Heads 0 and 1 read different sets. Which heads form a group?",
            more="Neighboring heads share a set: see the exercise in section 5.",
        ),
        Mistake(
            name="the scores are not scaled",
            function=_attention(scale=lambda d, m: 1.0),
            hint="The softmax is too sharp from position 1 on.",
            more="By what does attention divide a score before the softmax?",
        ),
        Mistake(
            name="scaled by the width of the model",
            function=_attention(scale=lambda d, m: m**-0.5),
            hint="The softmax is too flat. How long is the vector that makes a score?",
            more="A head has d columns, not m.",
        ),
        Mistake(
            name="the scores are divided by d",
            function=_attention(scale=lambda d, m: 1 / d),
            hint="The softmax is too flat. A score is a sum of d products: how does "
            "its spread grow with d?",
            more="Scale once, by a root.",
        ),
        Mistake(
            name="cut into heads without moving an axis",
            function=_attention(cut=_cut_in_place),
            hint="The shape is right, but your heads hold different positions than you "
            "think.",
            more="First “b t (h d)” to “b t h d”, and only then exchange two axes.",
        ),
        Mistake(
            name="heads joined without moving their axis back",
            function=_attention(joined=None),
            hint="The shape is right, but numbers of different positions got mixed.",
            more="“b h t d” becomes “b t (h d)”: the heads go behind the positions "
            "first.",
        ),
        Mistake(
            name="heads joined in another order",
            function=_attention(joined="b h t d -> b t (d h)"),
            hint="Each head is right. The output matrix expects one head after the "
            "other.",
            more="In a pattern, the first name in parentheses varies slowest.",
        ),
        Mistake(
            name="no output projection",
            function=_attention(project=lambda context, weight: context),
            hint="The context is right, and to_output is unused.",
            more="One matrix is left. `F.linear(y, weight)` computes y @ weight.T.",
        ),
        Mistake(
            name="the output matrix is not transposed",
            function=_attention(project=torch.matmul),
            hint="Your last product runs because to_output is square. In which order "
            "does nn.Linear hold the axes of its weight?",
            more="nn.Linear holds “out in”. What did you do with the other three "
            "matrices?",
        ),
    ),
    hint=(
        "Project x three times, and cut each product into heads of width "
        "len(to_queries) // num_heads; keys and values have fewer of them.",
        "Turn queries and keys by `rotate(…, *table)`, then repeat each set of keys "
        "and values for the heads of its group.",
        "Attend causally, bring “b h t d” back to “b t (h d)”, project.",
    ),
    trains=("x", "to_queries", "to_keys", "to_values", "to_output"),
    shared=output_of_the_layer,
)


EXERCISES = (ATTEND,)
