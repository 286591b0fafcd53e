"""Answers of a stranger, written from the prompts alone."""

import functools
import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 01 · attention


@right("attention.scores", "einsum, and the queries are divided before the product")
def scores_by_einsum(queries, keys):
    scaled = queries / math.sqrt(queries.shape[-1])
    return torch.einsum("...qd,...kd->...qk", scaled, keys)


@right("attention.scores", "a broadcast product, summed over the last axis")
def scores_by_broadcast(queries, keys):
    width = keys.size(-1)
    pairs = queries.unsqueeze(-2) * keys.unsqueeze(-3)
    return pairs.sum(-1) * width**-0.5


@wrong(
    "attention.scores",
    "The products are not scaled by the root of the width.",
    "queries [[2, 0, 0, 0]], keys [[3, 0, 0, 0]]: 6 in place of 3",
)
def scores_unscaled(queries, keys):
    return queries @ keys.transpose(-1, -2)


@wrong(
    "attention.scores",
    "Divided by the width itself and not by its root.",
    "queries [[2, 0, 0, 0]], keys [[3, 0, 0, 0]]: 1.5 in place of 3",
)
def scores_by_width(queries, keys):
    return queries @ keys.transpose(-1, -2) / keys.shape[-1]


@wrong(
    "attention.scores",
    "The root is taken of the number of keys, not of the width of a key.",
    "three keys of width 4: divided by 1.73 and not by 2",
)
def scores_by_root_of_keys(queries, keys):
    return queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-2])


@wrong(
    "attention.scores",
    "The first two axes are swapped, which are the last two only without a batch.",
    "queries of shape 2 3 4, keys of shape 2 5 4",
)
def scores_first_axes_swapped(queries, keys):
    return queries @ keys.transpose(0, 1) / math.sqrt(queries.shape[-1])


@wrong(
    "attention.scores",
    "Keys ask and queries answer: the result is transposed.",
    "queries of shape 3 4, keys of shape 5 4: shape 5 3",
)
def scores_transposed(queries, keys):
    return keys @ queries.transpose(-1, -2) / math.sqrt(queries.shape[-1])


@right("attention.weights", "the largest score of each row is found by sorting")
def weights_by_sorting(scores):
    largest = scores.sort(dim=-1).values[..., -1:]
    powers = torch.exp(scores - largest)
    return powers / powers.sum(-1, keepdim=True)


@right("attention.weights", "works in place on a clone of its own")
def weights_in_place(scores):
    own = scores.clone()
    own -= own.amax(dim=-1, keepdim=True)
    own.exp_()
    own /= own.sum(dim=-1, keepdim=True)
    return own


@wrong(
    "attention.weights",
    "Nothing is subtracted before exp, so large scores overflow.",
    "scores [[1000, 999]]: inf / inf gives nan",
)
def weights_without_subtraction(scores):
    powers = torch.exp(scores)
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "One maximum of the whole tensor is subtracted; a row far below it becomes 0 / 0.",
    "scores [[1000, 999], [0, 1]]: the second row is nan",
)
def weights_minus_global_maximum(scores):
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The mean is subtracted, and a single score far above it still overflows.",
    "scores [[0, 0, 0, 4000]]: exp(3000) is inf",
)
def weights_minus_mean(scores):
    powers = torch.exp(scores - scores.mean(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The weights are summed over the queries and not over the keys.",
    "scores [[0, 1], [2, 5]]: the columns add up to 1, the rows do not",
)
def weights_along_queries(scores):
    powers = torch.exp(scores - scores.amax(dim=-2, keepdim=True))
    return powers / powers.sum(dim=-2, keepdim=True)


@wrong(
    "attention.weights",
    "The powers are divided by the sum of all of them, over all rows.",
    "scores [[0, 1], [2, 5]]: a row adds up to less than 1",
)
def weights_of_the_whole(scores):
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return powers / powers.sum()


@wrong(
    "attention.weights",
    "Axis 1 is the last one only when there is no batch.",
    "scores of shape 2 3 4: the sums run over the queries",
)
def weights_along_axis_one(scores):
    powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)


@wrong(
    "attention.weights",
    "Scores beyond 50 are clipped, so that their differences are lost.",
    "scores [[1000, 999]]: 0.5 and 0.5",
)
def weights_of_clipped_scores(scores):
    powers = torch.exp(scores.clamp(-50, 50))
    return powers / powers.sum(dim=-1, keepdim=True)


@right("attention.context", "products of single entries, summed by hand")
def context_by_broadcast(weights, values):
    return (weights.unsqueeze(-1) * values.unsqueeze(-3)).sum(dim=-2)


@right("attention.context", "einsum with an ellipsis")
def context_by_einsum(weights, values):
    return torch.einsum("...qk,...ke->...qe", weights, values)


@wrong(
    "attention.context",
    "The weights are transposed: each key mixes over the queries.",
    "weights [[0.9, 0.1], [0.5, 0.5]], values [[1], [0]]: 0.9 and 0.1",
)
def context_weights_transposed(weights, values):
    return weights.transpose(-1, -2) @ values


@wrong(
    "attention.context",
    "The pattern is written for exactly one axis in front.",
    "weights of shape 3 4 and values of shape 4 2: einsum stops with an error",
)
def context_for_three_axes_only(weights, values):
    return torch.einsum("bqk,bke->bqe", weights, values)


@wrong(
    "attention.context",
    "The mixture is divided by the number of keys once more.",
    "weights [[1, 0]], values [[4], [2]]: 2 in place of 4",
)
def context_mean_of_mixture(weights, values):
    return weights @ values / weights.shape[-1]


@wrong(
    "attention.context",
    "The value with the largest weight is taken; there is no mixture.",
    "weights [[0.6, 0.4]], values [[1], [0]]: 1 in place of 0.6",
)
def context_of_the_largest(weights, values):
    best = F.one_hot(weights.argmax(dim=-1), weights.shape[-1])
    return best.to(values.dtype) @ values


@right("attention.cosine", "the scores are divided by both lengths after the product")
def cosine_divided_later(queries, keys, values, temperature):
    products = queries @ keys.T
    lengths = queries.norm(dim=-1)[:, None] * keys.norm(dim=-1)[None, :]
    return torch.softmax(products / lengths / temperature, dim=-1) @ values


@right("attention.cosine", "query by query in a loop")
def cosine_by_loop(queries, keys, values, temperature):
    rows = []
    for query in queries:
        cosines = F.cosine_similarity(query.unsqueeze(0), keys, dim=-1)
        weights = F.softmax(cosines / temperature, dim=0)
        rows.append((weights.unsqueeze(-1) * values).sum(dim=0))
    return torch.stack(rows)


@wrong(
    "attention.cosine",
    "Only the keys get length 1; a long query is still sharper than a short one.",
    "query [[10, 0]], keys [[1, 0], [0, 1]], temperature 1",
)
def cosine_of_keys_only(queries, keys, values, temperature):
    unit = F.normalize(keys, dim=-1)
    return torch.softmax(queries @ unit.T / temperature, dim=-1) @ values


@wrong(
    "attention.cosine",
    "The scores are multiplied by the temperature.",
    "any scores with temperature 0.1: the weights are nearly equal",
)
def cosine_times_temperature(queries, keys, values, temperature):
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    return torch.softmax(cosines * temperature, dim=-1) @ values


@wrong(
    "attention.cosine",
    "The queries are normalized along axis 0: each column and not each query.",
    "queries [[3, 0], [4, 1]]: the first becomes (0.6, 0) and not (1, 0)",
)
def cosine_normalized_columns(queries, keys, values, temperature):
    cosines = F.normalize(queries, dim=0) @ F.normalize(keys).T
    return torch.softmax(cosines / temperature, dim=-1) @ values


@wrong(
    "attention.cosine",
    "The cosines are divided by the root of the width as well.",
    "width 4, temperature 1: scores half as large as the cosines",
)
def cosine_scaled_twice(queries, keys, values, temperature):
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    scores = cosines / math.sqrt(queries.shape[-1])
    return torch.softmax(scores / temperature, dim=-1) @ values


@wrong(
    "attention.cosine",
    "Divided by the squared lengths, the square root is forgotten.",
    "query [[2, 0]], key [[2, 0]]: 0.25 in place of a cosine of 1",
)
def cosine_by_squared_lengths(queries, keys, values, temperature):
    units = queries / (queries**2).sum(dim=-1, keepdim=True)
    others = keys / (keys**2).sum(dim=-1, keepdim=True)
    return torch.softmax(units @ others.T / temperature, dim=-1) @ values


@right("attention.gradient", "the two slopes multiplied out, einsum for the row sum")
def gradient_multiplied_out(weights, gradients):
    shared = torch.einsum("...k,...k->...", weights, gradients)
    return weights * gradients - weights * shared[..., None]


@right("attention.gradient", "with the whole matrix of slopes of each row")
def gradient_by_jacobian(weights, gradients):
    slopes = torch.diag_embed(weights)
    slopes = slopes - weights.unsqueeze(-1) * weights.unsqueeze(-2)
    return (slopes @ gradients.unsqueeze(-1)).squeeze(-1)


@wrong(
    "attention.gradient",
    "Only a weight's own score is seen, not the scores of the other keys.",
    "weights [[0.5, 0.5]], gradients [[1, 0]]: 0.25 and 0 in place of 0.25 and -0.25",
)
def gradient_own_score_only(weights, gradients):
    return gradients * weights * (1 - weights)


@wrong(
    "attention.gradient",
    "The mean of the gradients is subtracted, and not their weighted mean.",
    "weights [[0.9, 0.1]], gradients [[1, 0]]",
)
def gradient_minus_plain_mean(weights, gradients):
    return weights * (gradients - gradients.mean(dim=-1, keepdim=True))


@wrong(
    "attention.gradient",
    "The sum runs over everything and not over each row by itself.",
    "weights [[0.9, 0.1], [0.5, 0.5]], gradients [[1, 0], [0, 2]]",
)
def gradient_sum_over_all(weights, gradients):
    return weights * (gradients - (weights * gradients).sum())


@wrong(
    "attention.gradient",
    "The factor of the weight in front is lost.",
    "weights [[0.5, 0.5]], gradients [[1, 0]]: 0.5 in place of 0.25",
)
def gradient_without_weight(weights, gradients):
    return gradients - (weights * gradients).sum(dim=-1, keepdim=True)


@wrong(
    "attention.gradient",
    "The sign is turned round: the mean minus the gradient.",
    "weights [[0.5, 0.5]], gradients [[1, 0]]: -0.25 and 0.25",
)
def gradient_of_wrong_sign(weights, gradients):
    return weights * ((weights * gradients).sum(-1, keepdim=True) - gradients)


@right("attention.look_up", "its own softmax, with a query long enough to be sharp")
def look_up_sharp(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double() * 100
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    weights = torch.softmax(query @ keys.T / math.sqrt(8), dim=-1)
    return (weights @ values).squeeze(0)


@right("attention.look_up", "a column of the keys in place of a query, keys are long")
def look_up_by_column(color, animals, colors):
    keys = 60.0 * F.one_hot(colors, 8).double()
    weights = torch.softmax(keys[:, color], dim=0)
    return F.one_hot(animals, 8).double().T @ weights


@wrong(
    "attention.look_up",
    "One-hot vectors as they are give scores of 0.35 and 0: hardly a choice.",
    "animals [0, 1, 2], colors [3, 4, 5], color 4: 0.42 for animal 1",
)
def look_up_warm(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    weights = torch.softmax(query @ keys.T / math.sqrt(8), dim=-1)
    return (weights @ values)[0]


@wrong(
    "attention.look_up",
    "Keys and values are swapped: it looks among the animals and returns a color.",
    "animals [0, 1, 2], colors [3, 4, 5], color 4: a mixture of the colors",
)
def look_up_roles_swapped(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double() * 100
    keys = F.one_hot(animals, 8).double()
    values = F.one_hot(colors, 8).double()
    weights = torch.softmax(query @ keys.T / math.sqrt(8), dim=-1)
    return (weights @ values)[0]


@wrong(
    "attention.look_up",
    "The axis of the single query is left: one row of 8 and not 8 numbers.",
    "animals [0, 1, 2], colors [3, 4, 5], color 4: shape 1 8",
)
def look_up_one_row(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double() * 100
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    weights = torch.softmax(query @ keys.T / math.sqrt(8), dim=-1)
    return weights @ values


@wrong(
    "attention.look_up",
    "The values are the colors too, so that the color itself comes back.",
    "animals [0, 1, 2], colors [3, 4, 5], color 4: one-hot of 4",
)
def look_up_color_itself(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double() * 100
    keys = F.one_hot(colors, 8).double()
    weights = torch.softmax(query @ keys.T / math.sqrt(8), dim=-1)
    return (weights @ keys)[0]


@wrong(
    "attention.look_up",
    "The weights come back: which place on the list, not which animal.",
    "animals [5, 1, 2], colors [3, 4, 5], color 3: three numbers",
)
def look_up_weights_returned(color, animals, colors):
    assert len(animals) == len(colors)
    query = F.one_hot(torch.tensor(color), 8).double() * 100
    keys = F.one_hot(colors, 8).double()
    return torch.softmax(keys @ query / math.sqrt(8), dim=-1)


# 02 · heads


@right("heads.split", "the columns of each head are cut out and stacked")
def split_by_slices(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@right("heads.split", "unflatten and permute")
def split_by_unflatten(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).permute(0, 2, 1, 3)


@wrong(
    "heads.split",
    "Reshaped at once, so that a head gets whole rows and not its columns.",
    "x = arange(12).reshape(1, 3, 4), 2 heads: head 0 gets 0 1 2 3 4 5",
)
def split_without_transpose(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)


@wrong(
    "heads.split",
    "The columns are cut as (d h): head 0 gets every second column.",
    "x = arange(12).reshape(1, 3, 4), 2 heads: head 0 gets 0, 2, 4, …",
)
def split_columns_interleaved(x, num_heads):
    batch, length, width = x.shape
    parts = x.reshape(batch, length, width // num_heads, num_heads)
    return parts.permute(0, 3, 1, 2)


@wrong(
    "heads.split",
    "The heads stay behind the positions.",
    "x of shape 1 3 4, 2 heads: shape 1 3 2 2",
)
def split_not_moved(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads)


@wrong(
    "heads.split",
    "The number of heads is taken for the width of a head.",
    "x of shape 1 3 6, 2 heads: three heads of width 2",
)
def split_into_widths(x, num_heads):
    batch, length, _ = x.shape
    return x.reshape(batch, length, -1, num_heads).transpose(1, 2)


@right("heads.merge", "the heads are put side by side by cat")
def merge_by_cat(context):
    return torch.cat(context.unbind(dim=1), dim=-1)


@right("heads.merge", "swapaxes, then the last two axes flattened")
def merge_by_flatten(context):
    return context.swapaxes(-3, -2).flatten(start_dim=-2)


@wrong(
    "heads.merge",
    "Reshaped without moving the heads behind the positions first.",
    "context = arange(12).reshape(1, 2, 3, 2): row 0 is 0 1 2 3",
)
def merge_without_transpose(context):
    batch, heads, length, width = context.shape
    return context.reshape(batch, length, heads * width)


@wrong(
    "heads.merge",
    "Merged as (d h): the columns of the heads alternate.",
    "context = arange(12).reshape(1, 2, 3, 2): row 0 is 0 6 1 7",
)
def merge_columns_interleaved(context):
    batch, heads, length, width = context.shape
    return context.permute(0, 2, 3, 1).reshape(batch, length, width * heads)


@wrong(
    "heads.merge",
    "view cannot merge what transpose has moved: it stops with an error.",
    "context of shape 1 2 3 2",
)
def merge_by_view(context):
    batch, heads, length, width = context.shape
    return context.transpose(1, 2).view(batch, length, heads * width)


@wrong(
    "heads.merge",
    "The heads are added up in place of put side by side.",
    "context of shape 1 2 3 2: width 2 and not 4",
)
def merge_by_sum(context):
    return context.sum(dim=1)


@right("heads.count", "counted layer by layer")
def count_layer_by_layer(d_model, num_heads, head_dim):
    inner = num_heads * head_dim
    numbers = 0
    for into, out in 3 * [(d_model, inner)] + [(inner, d_model)]:
        numbers += (into + 1) * out
    return numbers


@right("heads.count", "the formula with the common part taken out")
def count_in_one_line(d_model, num_heads, head_dim):
    return num_heads * head_dim * (4 * d_model + 3) + d_model


@wrong(
    "heads.count",
    "Takes it for granted that heads times width is the width of the model.",
    "d_model 8, 2 heads of width 3: 288 in place of 218",
)
def count_for_usual_heads(d_model, num_heads, head_dim):
    assert num_heads and head_dim
    return 4 * (d_model * d_model + d_model)


@wrong(
    "heads.count",
    "The biases are not counted.",
    "d_model 8, 2 heads of width 3: 192 in place of 218",
)
def count_without_biases(d_model, num_heads, head_dim):
    return 4 * d_model * num_heads * head_dim


@wrong(
    "heads.count",
    "The bias of the last layer has the width of the model, not of all heads.",
    "d_model 8, 2 heads of width 3: 216 in place of 218",
)
def count_output_bias_of_heads(d_model, num_heads, head_dim):
    inner = num_heads * head_dim
    return 4 * (d_model * inner + inner)


@wrong(
    "heads.count",
    "The layer after the merge is forgotten.",
    "d_model 8, 2 heads of width 3: 162 in place of 218",
)
def count_without_output(d_model, num_heads, head_dim):
    return 3 * (d_model + 1) * num_heads * head_dim


@right("heads.layer", "head after head in a loop, each by its own columns")
def layer_head_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    total = 0
    parts = [matrix.chunk(num_heads, dim=1) for matrix in (w_q, w_k, w_v)]
    for q, k, v, o in zip(*parts, w_o.chunk(num_heads, dim=0), strict=True):
        scores = (x @ q) @ (x @ k).transpose(-1, -2) / math.sqrt(q.shape[1])
        total = total + torch.softmax(scores, dim=-1) @ (x @ v) @ o
    return total


@right("heads.layer", "matrices cut first, everything by einsum")
def layer_by_einsum(x, w_q, w_k, w_v, w_o, num_heads):
    queries = torch.einsum("btm,mhd->bhtd", x, w_q.unflatten(1, (num_heads, -1)))
    keys = torch.einsum("btm,mhd->bhtd", x, w_k.unflatten(1, (num_heads, -1)))
    values = torch.einsum("btm,mhe->bhte", x, w_v.unflatten(1, (num_heads, -1)))
    scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys)
    weights = (scores * queries.shape[-1] ** -0.5).softmax(dim=-1)
    back = w_o.unflatten(0, (num_heads, -1))
    return torch.einsum("bhqk,bhke,heo->bqo", weights, values, back)


def cut(x, num_heads):
    """Heads to the front, for the answers about the layer."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "heads.layer",
    "Scaled by the width of all heads together and not by the width of one.",
    "two heads of width 4: divided by 2.83 and not by 2",
)
def layer_scaled_by_all(x, w_q, w_k, w_v, w_o, num_heads):
    queries = cut(x @ w_q, num_heads)
    keys = cut(x @ w_k, num_heads)
    values = cut(x @ w_v, num_heads)
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(w_q.shape[1])
    context = torch.softmax(scores, dim=-1) @ values
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "The values are cut into the width of the queries, which they need not have.",
    "two heads, queries of width 4, values of width 3: an error",
)
def layer_one_width_for_all(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    width = w_q.shape[1] // num_heads
    shape = (batch, length, num_heads, width)
    queries = (x @ w_q).reshape(shape).transpose(1, 2)
    keys = (x @ w_k).reshape(shape).transpose(1, 2)
    values = (x @ w_v).reshape(shape).transpose(1, 2)
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context.transpose(1, 2).reshape(batch, length, -1) @ w_o


@wrong(
    "heads.layer",
    "Merged without moving the heads back behind the positions.",
    "two heads, three positions: the rows are mixed",
)
def layer_merged_as_it_lies(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    queries = cut(x @ w_q, num_heads)
    keys = cut(x @ w_k, num_heads)
    values = cut(x @ w_v, num_heads)
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    context = torch.softmax(scores, dim=-1) @ values
    return context.reshape(batch, length, -1) @ w_o


@wrong(
    "heads.layer",
    "One wide head: the number of heads is never used for the scores.",
    "two heads: other weights than those of two softmaxes",
)
def layer_of_one_head(x, w_q, w_k, w_v, w_o, num_heads):
    width = w_q.shape[1] // num_heads
    scores = (x @ w_q) @ (x @ w_k).transpose(-1, -2) / math.sqrt(width)
    return torch.softmax(scores, dim=-1) @ (x @ w_v) @ w_o


@wrong(
    "heads.layer",
    "A causal mask that nobody asked for.",
    "two heads, three positions: the first word sees only itself",
)
def layer_causal(x, w_q, w_k, w_v, w_o, num_heads):
    queries = cut(x @ w_q, num_heads)
    keys = cut(x @ w_k, num_heads)
    values = cut(x @ w_v, num_heads)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return context.transpose(1, 2).flatten(2) @ w_o


# 03 · masks


@right("masks.convert", "booleans and numbers in one line")
def convert_by_case(theirs):
    hidden = theirs if theirs.dtype == torch.bool else torch.isneginf(theirs)
    return hidden.logical_not()


@right("masks.convert", "booleans are made to numbers and compared with minus infinity")
def convert_by_numbers(theirs):
    if theirs.dtype == torch.bool:
        prices = torch.zeros(theirs.shape).masked_fill(theirs, -math.inf)
    else:
        prices = theirs
    return prices > -math.inf


@wrong(
    "masks.convert",
    "The numbers are forgotten: ~ does not take them.",
    "theirs [[0., -inf]]: an error",
)
def convert_booleans_only(theirs):
    return ~theirs


@wrong(
    "masks.convert",
    "The mask comes back upside down, as it came.",
    "theirs [[False, True]]: True at the hidden word",
)
def convert_to_bool_only(theirs):
    return theirs.bool()


@wrong(
    "masks.convert",
    "For numbers the hidden places are marked and not the open ones.",
    "theirs [[0., -inf]]: False, True",
)
def convert_numbers_inverted(theirs):
    if theirs.dtype == torch.bool:
        return ~theirs
    return theirs == -math.inf


@wrong(
    "masks.convert",
    "The booleans are not turned round, only the numbers are read.",
    "theirs [[False, True]]: comes back unchanged",
)
def convert_numbers_only(theirs):
    if theirs.is_floating_point():
        return theirs == 0
    return theirs


@wrong(
    "masks.convert",
    "The mask is transposed on the way.",
    "theirs = ones(3, 3).triu(1).bool(): open above the diagonal",
)
def convert_transposed(theirs):
    return (theirs == 0).transpose(-1, -2)


@right("masks.window", "the difference of two lower triangles")
def window_by_triangles(length, width):
    past = torch.ones(length, length, dtype=torch.bool).tril()
    return past & ~past.tril(-width)


@right("masks.window", "row by row in plain Python")
def window_by_rows(length, width):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        mask[query, max(0, query - width + 1) : query + 1] = True
    return mask


@wrong(
    "masks.window",
    "One word too many: itself and `width` words before it.",
    "length 4, width 2: the last word sees three words",
)
def window_one_too_wide(length, width):
    steps = torch.arange(length)
    back = steps[:, None] - steps[None, :]
    return (back >= 0) & (back <= width)


@wrong(
    "masks.window",
    "The window is open to both sides: the future is seen.",
    "length 4, width 2: word 0 sees word 1",
)
def window_to_both_sides(length, width):
    steps = torch.arange(length)
    return (steps[:, None] - steps[None, :]).abs() < width


@wrong(
    "masks.window",
    "Queries and keys are swapped: each word sees the words after it.",
    "length 4, width 2: word 0 sees words 0 and 1",
)
def window_transposed(length, width):
    steps = torch.arange(length)
    ahead = steps[None, :] - steps[:, None]
    return (ahead >= 0) & (ahead < width)


@wrong(
    "masks.window",
    "A negative beginning of the slice counts from the end: early rows are empty.",
    "length 4, width 3: row 0 has no True",
)
def window_with_negative_slice(length, width):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for query in range(length):
        mask[query, query - width + 1 : query + 1] = True
    return mask


@wrong(
    "masks.window",
    "The word itself is left out.",
    "length 4, width 2: the diagonal is False",
)
def window_without_itself(length, width):
    steps = torch.arange(length)
    back = steps[:, None] - steps[None, :]
    return (back > 0) & (back <= width)


right("masks.two_new", "a triangle moved five columns to the right")(
    torch.ones(2, 7, dtype=torch.bool).tril(diagonal=5)
)


wrong(
    "masks.two_new",
    "The triangle begins at the left: the kept words are hidden.",
    "row 0 sees only key 0",
)(torch.ones(2, 7).tril().bool())


wrong(
    "masks.two_new",
    "The first new word sees the second one, its future.",
    "row 0, key 6 must be False",
)(torch.ones(2, 7).bool())


wrong(
    "masks.two_new",
    "The new words do not see themselves.",
    "row 0, key 5 and row 1, key 6 must be True",
)(torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool())


wrong(
    "masks.two_new",
    "Only the keys of the new words are in the mask.",
    "two columns in place of seven",
)(torch.tensor([[1, 0], [1, 1]]).bool())


@right("masks.shift", "narrow in place of slices")
def shift_by_narrow(ids):
    count = ids.shape[1] - 1
    return ids.narrow(1, 0, count), ids.narrow(1, 1, count)


@right("masks.shift", "all windows of two, then taken apart")
def shift_by_unfold(ids):
    pairs = ids.unfold(1, 2, 1)
    return pairs[..., 0], pairs[..., 1]


@wrong(
    "masks.shift",
    "Inputs and labels are swapped.",
    "ids [[1, 2, 3]]: inputs 2 3, labels 1 2",
)
def shift_swapped(ids):
    return ids[:, 1:], ids[:, :-1]


@wrong(
    "masks.shift",
    "Sentences are cut off and not words.",
    "ids [[1, 2, 3], [4, 5, 6]]: one sentence of three words",
)
def shift_along_sentences(ids):
    return ids[:-1], ids[1:]


@wrong(
    "masks.shift",
    "The labels are rolled: the last word is to predict the first.",
    "ids [[1, 2, 3]]: labels 2 3 1",
)
def shift_by_roll(ids):
    return ids, ids.roll(-1, dims=1)


@wrong(
    "masks.shift",
    "The labels are the inputs: nothing is shifted.",
    "ids [[1, 2, 3]]: labels 1 2",
)
def shift_of_nothing(ids):
    return ids[:, :-1], ids[:, :-1]


@wrong(
    "masks.shift",
    "The labels lie two steps ahead.",
    "ids [[1, 2, 3, 4]]: inputs 1 2, labels 3 4",
)
def shift_by_two(ids):
    return ids[:, :-2], ids[:, 2:]


@right("masks.causal", "a cumulative sum of the unit matrix")
def causal_by_sum(length):
    return torch.eye(length).cumsum(dim=0) > 0


@right("masks.causal", "the upper triangle is filled with False")
def causal_by_indices(length):
    mask = torch.ones(length, length, dtype=torch.bool)
    rows, columns = torch.triu_indices(length, length, offset=1)
    mask[rows, columns] = False
    return mask


@wrong(
    "masks.causal",
    "Upside down: True where the future is.",
    "length 3: True above the diagonal",
)
def causal_upside_down(length):
    return torch.ones(length, length).triu(1).bool()


@wrong(
    "masks.causal",
    "A word does not see itself, the first one nothing at all.",
    "length 3: the diagonal is False",
)
def causal_without_diagonal(length):
    return torch.ones(length, length).tril(-1).bool()


@wrong(
    "masks.causal",
    "Numbers and not booleans.",
    "length 3: a tensor of floats",
)
def causal_of_numbers(length):
    return torch.tril(torch.ones(length, length))


@wrong(
    "masks.causal",
    "One word of the future is open.",
    "length 3: word 0 sees word 1",
)
def causal_one_ahead(length):
    steps = torch.arange(length)
    return steps[None, :] <= steps[:, None] + 1


@wrong(
    "masks.causal",
    "Queries and keys are swapped: the past is hidden.",
    "length 3: word 2 sees only itself",
)
def causal_transposed(length):
    steps = torch.arange(length)
    return steps[:, None] <= steps[None, :]


@right("masks.padding", "reshape, and not equal by arithmetic")
def padding_by_reshape(ids, pad_id):
    batch, length = ids.shape
    return ((ids - pad_id) != 0).reshape(batch, 1, 1, length)


@right("masks.padding", "ones, with the padding filled by False")
def padding_by_filling(ids, pad_id):
    mask = torch.ones(ids.shape, dtype=torch.bool)
    mask[ids == pad_id] = False
    return mask.unsqueeze(1).unsqueeze(1)


@wrong(
    "masks.padding",
    "Upside down: True at padding.",
    "ids [[5, 6, 0]], pad 0: only the padding is open",
)
def padding_upside_down(ids, pad_id):
    return (ids == pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "Real words are taken to have ids above that of padding.",
    "ids [[1, 5, 3]], pad 3: the word 1 is hidden",
)
def padding_by_greater(ids, pad_id):
    return (ids > pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "The padding hides as a query and not as a key.",
    "ids [[5, 6, 0]], pad 0: shape 1 1 3 1",
)
def padding_of_queries(ids, pad_id):
    return (ids != pad_id)[:, None, :, None]


@wrong(
    "masks.padding",
    "No axes for heads and queries: it meets the wrong axes of the scores.",
    "ids of shape 2 3: the mask has shape 2 3",
)
def padding_without_axes(ids, pad_id):
    return ids != pad_id


@wrong(
    "masks.padding",
    "Padding is taken to be 0 always.",
    "ids [[0, 5, 3]], pad 3: the word 0 is hidden, the padding is not",
)
def padding_of_zero(ids, pad_id):
    assert pad_id is not None
    return ids.bool()[:, None, None, :]


@right("masks.join", "De Morgan: hidden where one of the two hides")
def join_by_de_morgan(first, second):
    return ~(~first | ~second)


@right("masks.join", "a product of booleans")
def join_by_product(first, second):
    return first * second


@wrong(
    "masks.join",
    "Open where one of the two masks allows it.",
    "first [True, False], second [False, False]: True at 0",
)
def join_by_or(first, second):
    return first | second


@wrong(
    "masks.join",
    "True where the two masks agree, also where both hide.",
    "first [False], second [False]: True",
)
def join_by_equality(first, second):
    return first == second


@wrong(
    "masks.join",
    "Writes into the first mask, which is the caller's and may be too small.",
    "first of shape 3 3, second of shape 2 1 1 3: an error",
)
def join_in_place(first, second):
    first &= second
    return first


@wrong(
    "masks.join",
    "A sum of numbers: True where at least one allows, and no boolean.",
    "first [True], second [True]: 2",
)
def join_by_sum(first, second):
    return first.int() + second.int()


@wrong(
    "masks.join",
    "`and` asks for one truth value of a whole tensor.",
    "masks with more than one entry: an error",
)
def join_by_python_and(first, second):
    return first and second


@right("masks.weights", "exp of the difference to the largest open score, no infinity")
def masked_weights_by_exp(scores, mask):
    open_scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    powers = (scores - open_scores.amax(dim=-1, keepdim=True)).clamp(max=0).exp()
    powers = powers * mask
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1)


@right("masks.weights", "softmax of all, nan in empty rows replaced by zeros")
def masked_weights_nan_to_num(scores, mask):
    hidden = torch.where(mask, scores, torch.tensor(-math.inf, dtype=scores.dtype))
    return torch.nan_to_num(torch.softmax(hidden, dim=-1), nan=0.0)


@wrong(
    "masks.weights",
    "A row with nothing to look at becomes nan.",
    "scores [[1., 2.]], mask [[False, False]]",
)
def masked_weights_with_nan(scores, mask):
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1)


@wrong(
    "masks.weights",
    "A huge finite number: an empty row gets equal weights and not 0.",
    "scores [[1., 2.]], mask [[False, False]]: 0.5 and 0.5",
)
def masked_weights_finite(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@wrong(
    "masks.weights",
    "Hidden weights are set to 0 after the softmax: the row adds up to less than 1.",
    "scores [[0., 0.]], mask [[True, False]]: 0.5 and 0",
)
def masked_weights_cut_later(scores, mask):
    return scores.softmax(dim=-1).masked_fill(~mask, 0)


@wrong(
    "masks.weights",
    "The mask is upside down: the open words are hidden.",
    "scores [[0., 1.]], mask [[True, False]]: 0 and 1",
)
def masked_weights_upside_down(scores, mask):
    weights = scores.masked_fill(mask, -math.inf).softmax(dim=-1)
    return weights.nan_to_num(0)


@wrong(
    "masks.weights",
    "Hidden scores become 0, which is a score like any other.",
    "scores [[2., 1.]], mask [[True, False]]: 0.88 and 0.12",
)
def masked_weights_zero_scores(scores, mask):
    return (scores * mask).softmax(dim=-1)


@wrong(
    "masks.weights",
    "A small number in the denominator, and exp of scores of any size.",
    "scores [[1000., 999.]], mask [[True, True]]: nan",
)
def masked_weights_overflow(scores, mask):
    powers = scores.exp() * mask
    return powers / (powers.sum(dim=-1, keepdim=True) + 1e-12)


# 04 · positions


@right("positions.sinusoids", "NumPy in double precision, then a tensor of float32")
def sinusoids_by_numpy(length, d_model):
    table = np.zeros((length, d_model))
    times = np.arange(length)
    for pair in range(d_model // 2):
        angles = times / 10000 ** (2 * pair / d_model)
        table[:, 2 * pair] = np.sin(angles)
        table[:, 2 * pair + 1] = np.cos(angles)
    return torch.tensor(table, dtype=torch.float32)


@right("positions.sinusoids", "a stack of both, flattened at the end")
def sinusoids_by_stack(length, d_model):
    pairs = torch.arange(d_model // 2, dtype=torch.float64)
    speeds = torch.exp(-2 * pairs / d_model * math.log(10000))
    angles = torch.outer(torch.arange(length, dtype=torch.float64), speeds)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


@right("positions.sinusoids", "imaginary and real part of complex numbers, doubles")
def sinusoids_by_complex_numbers(length, d_model):
    pairs = torch.arange(d_model // 2).double()
    angles = torch.arange(length).double()[:, None] * 10000 ** (-2 * pairs / d_model)
    turns = torch.polar(torch.ones_like(angles), angles)
    return torch.stack((turns.imag, turns.real), dim=2).reshape(length, d_model)


def angles_of(length, d_model, power):
    """Angles "t i" in doubles, for the wrong answers about the table."""
    pairs = torch.arange(d_model // 2).double()
    return torch.arange(length).double()[:, None] * 10000.0 ** (-power * pairs)


@wrong(
    "positions.sinusoids",
    "All sines stand on the left and all cosines on the right.",
    "length 3, width 4: column 1 is the slow sine and not the cosine of pair 0",
)
def sinusoids_in_halves(length, d_model):
    angles = angles_of(length, d_model, 2 / d_model)
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


@wrong(
    "positions.sinusoids",
    "The 2 in the exponent is forgotten: the pairs slow down too little.",
    "length 3, width 4: pair 1 turns by 0.1 and not by 0.01",
)
def sinusoids_without_two(length, d_model):
    angles = angles_of(length, d_model, 1 / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


@wrong(
    "positions.sinusoids",
    "Each column has a frequency of its own; the cosine is not of the same angle.",
    "length 3, width 4: column 1 turns by 0.1 and not by 1",
)
def sinusoids_column_by_column(length, d_model):
    columns = torch.arange(d_model).double()
    times = torch.arange(length).double()[:, None]
    angles = times * 10000 ** (-columns / d_model)
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos()).float()


@wrong(
    "positions.sinusoids",
    "The positions begin at 1.",
    "length 3, width 4: row 0 has 0.84 and not 0 in column 0",
)
def sinusoids_from_one(length, d_model):
    angles = angles_of(length + 1, d_model, 2 / d_model)[1:]
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


@wrong(
    "positions.sinusoids",
    "Cosine in the even columns and sine in the odd ones.",
    "length 3, width 4: row 0 is 1 0 1 0",
)
def sinusoids_cosine_first(length, d_model):
    angles = angles_of(length, d_model, 2 / d_model)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1).float()


@wrong(
    "positions.sinusoids",
    "The sign of the exponent is lost: later pairs turn faster and faster.",
    "length 3, width 4: pair 1 turns by 100 and not by 0.01",
)
def sinusoids_faster_and_faster(length, d_model):
    angles = angles_of(length, d_model, -2 / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


right("positions.hand", "the formula and not the number")(30 * 10000 ** (-2 * 4 / 16))


wrong(
    "positions.hand",
    "The 2 in the exponent is forgotten.",
    "3.0 in place of 0.3",
)(30 * 10000 ** (-4 / 16))


wrong(
    "positions.hand",
    "Degrees and not radians.",
    "17.2 in place of 0.3",
)(math.degrees(0.3))


wrong(
    "positions.hand",
    "The sine of the angle and not the angle.",
    "0.2955 in place of 0.3",
)(math.sin(0.3))


wrong(
    "positions.hand",
    "The pairs are counted from 1: this is pair 3.",
    "0.949 in place of 0.3",
)(30 * 10000 ** (-6 / 16))


wrong(
    "positions.hand",
    "The frequency alone, one step and not thirty.",
    "0.01 in place of 0.3",
)(0.01)


@right("positions.step", "complex numbers, multiplied by a turn")
def step_by_complex_numbers(row, steps):
    width = row.shape[-1]
    pairs = torch.arange(width // 2, dtype=torch.float64)
    angles = steps * 10000 ** (-2 * pairs / width)
    hands = torch.complex(row[1::2].double(), row[0::2].double())
    moved = hands * torch.polar(torch.ones_like(angles), angles)
    return torch.stack([moved.imag, moved.real], dim=-1).flatten().to(row.dtype)


@right("positions.step", "the angle of each pair is read from the row by atan2")
def step_by_angles(row, steps):
    later = torch.empty_like(row)
    for pair in range(len(row) // 2):
        angle = math.atan2(row[2 * pair].item(), row[2 * pair + 1].item())
        angle += steps * 10000 ** (-2 * pair / len(row))
        later[2 * pair] = math.sin(angle)
        later[2 * pair + 1] = math.cos(angle)
    return later


@wrong(
    "positions.step",
    "The hands turn backward: the row stands `steps` positions before.",
    "row of position 5, 2 steps: the row of position 3",
)
def step_backward(row, steps):
    width = row.shape[-1]
    angles = steps * 10000 ** (-torch.arange(0, width, 2).double() / width)
    sine = row[0::2] * angles.cos() - row[1::2] * angles.sin()
    cosine = row[1::2] * angles.cos() + row[0::2] * angles.sin()
    return torch.stack([sine, cosine], dim=-1).flatten().to(row.dtype)


@wrong(
    "positions.step",
    "The position is read from the first sine, which comes round after six steps.",
    "row of position 5, 2 steps: arcsin gives -1.28",
)
def step_by_arcsin(row, steps):
    width = row.shape[-1]
    position = torch.asin(row[0].double().clamp(-1, 1)) + steps
    angles = position * 10000 ** (-torch.arange(0, width, 2).double() / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten().to(row.dtype)


@wrong(
    "positions.step",
    "The row is taken for halves and not for pairs side by side.",
    "row of position 5 with width 4: sine of pair 0 is turned with sine of pair 1",
)
def step_in_halves(row, steps):
    width = row.shape[-1]
    angles = steps * 10000 ** (-torch.arange(0, width, 2).double() / width)
    sine, cosine = row.chunk(2)
    later = sine * angles.cos() + cosine * angles.sin()
    other = cosine * angles.cos() - sine * angles.sin()
    return torch.cat([later, other]).to(row.dtype)


@wrong(
    "positions.step",
    "The row of `steps` itself is added; rows of positions do not add up.",
    "row of position 5, 2 steps: entries larger than 1",
)
def step_by_addition(row, steps):
    width = row.shape[-1]
    angles = steps * 10000 ** (-torch.arange(0, width, 2).double() / width)
    return row + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten().to(row)


@wrong(
    "positions.step",
    "All pairs turn as fast as the first one.",
    "row of position 5 with width 4, 2 steps: pair 1 turns by 2 and not by 0.02",
)
def step_of_one_speed(row, steps):
    sine, cosine = row[0::2], row[1::2]
    later = sine * math.cos(steps) + cosine * math.sin(steps)
    other = cosine * math.cos(steps) - sine * math.sin(steps)
    return torch.stack([later, other], dim=-1).flatten()


def turn_pairs(x, times):
    """Turn neighboring columns of "… t d" by the angles of these times."""
    width = x.shape[-1]
    speeds = 10000 ** (-torch.arange(0, width, 2).double() / width)
    angles = (times.double()[:, None] * speeds).to(x.dtype)
    left, right_column = x[..., 0::2], x[..., 1::2]
    turned = [
        left * angles.cos() - right_column * angles.sin(),
        left * angles.sin() + right_column * angles.cos(),
    ]
    return torch.stack(turned, dim=-1).flatten(-2)


@right("positions.rotary", "complex numbers of neighboring columns; values as they are")
def rotary_by_complex_numbers(queries, keys, values):
    length, width = queries.shape[-2:]
    speeds = 10000 ** (-torch.arange(0, width, 2).double() / width)
    angles = torch.outer(torch.arange(length).double(), speeds)
    turns = torch.polar(torch.ones_like(angles), angles)
    ready = []
    for x in (queries, keys):
        hands = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        ready.append(torch.view_as_real(hands * turns).flatten(-2).to(x.dtype))
    return ready[0], ready[1], values


@right("positions.rotary", "sine and cosine of neighboring columns")
def rotary_by_pairs(queries, keys, values):
    times = torch.arange(queries.shape[-2])
    return turn_pairs(queries, times), turn_pairs(keys, times), values


@wrong(
    "positions.rotary",
    "The values are turned too; they are mixed and must stay as they are.",
    "values of ones with two positions: those of position 1 have changed",
)
def rotary_values_too(queries, keys, values):
    times = torch.arange(queries.shape[-2])
    return tuple(turn_pairs(x, times) for x in (queries, keys, values))


@wrong(
    "positions.rotary",
    "Only the queries are turned: the scores depend on the place of the query alone.",
    "keys of ones with two positions: they come back unchanged",
)
def rotary_queries_only(queries, keys, values):
    return turn_pairs(queries, torch.arange(queries.shape[-2])), keys, values


@wrong(
    "positions.rotary",
    "The keys turn the other way: scores depend on the sum of the two positions.",
    "the same vector as query 1 and key 1: their product has changed",
)
def rotary_keys_backward(queries, keys, values):
    times = torch.arange(queries.shape[-2])
    return turn_pairs(queries, times), turn_pairs(keys, -times), values


@wrong(
    "positions.rotary",
    "The angles grow with the heads and not with the positions.",
    "one head with two positions: nothing is turned",
)
def rotary_along_heads(queries, keys, values):
    times = torch.arange(queries.shape[1])
    ready = []
    for x in (queries, keys):
        ready.append(turn_pairs(x.transpose(1, 2), times).transpose(1, 2))
    return ready[0], ready[1], values


@wrong(
    "positions.rotary",
    "The angles are taken for the width of all heads and not of one.",
    "two heads of width 4: pair 1 turns by 0.1 and not by 0.01",
)
def rotary_width_of_all_heads(queries, keys, values):
    heads, length, width = queries.shape[1:]
    columns = torch.arange(0, width, 2).double()
    speeds = 10000 ** (-columns / (heads * width))
    angles = (torch.arange(length).double()[:, None] * speeds).to(queries.dtype)
    ready = []
    for x in (queries, keys):
        a, b = x[..., 0::2], x[..., 1::2]
        c = a * angles.cos() - b * angles.sin()
        d = a * angles.sin() + b * angles.cos()
        ready.append(torch.stack([c, d], dim=-1).flatten(-2))
    return ready[0], ready[1], values


@right("positions.alibi", "a distance, not a difference: keys ahead cost as well")
def alibi_of_distances(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 / num_heads * torch.arange(1, num_heads + 1))
    asking = torch.arange(key_length)[key_length - query_length :]
    distance = (asking[:, None] - torch.arange(key_length)).abs()
    return -rates[:, None, None] * distance


@right("positions.alibi", "the last rows of the whole square, keys ahead get a bonus")
def alibi_cut_from_square(num_heads, query_length, key_length):
    steps = torch.arange(key_length)
    square = (steps[None, :] - steps[:, None]).float()
    bias = []
    for head in range(num_heads):
        bias.append(square * 2 ** (-8 * (head + 1) / num_heads))
    return torch.stack(bias)[:, key_length - query_length :]


@wrong(
    "positions.alibi",
    "The queries are counted from 0, as if they were the first positions.",
    "4 heads, 1 query, 3 keys: the last word is nearest to key 0",
)
def alibi_first_positions(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    back = torch.arange(query_length)[:, None] - torch.arange(key_length)
    return -rates[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "A plus in place of the minus: far words are favored.",
    "4 heads, 1 query, 3 keys: the bias of key 0 is +0.5 in head 0",
)
def alibi_with_plus(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    asking = torch.arange(key_length - query_length, key_length)
    back = asking[:, None] - torch.arange(key_length)
    return rates[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "The rates begin at head 0 with 2 to the power of 0.",
    "4 heads, 1 query, 3 keys: -1 in place of -0.25 one step back in head 0",
)
def alibi_rates_from_one(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(num_heads) / num_heads)
    asking = torch.arange(key_length - query_length, key_length)
    back = asking[:, None] - torch.arange(key_length)
    return -rates[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "The rates of eight heads, whatever the number of heads.",
    "4 heads, 1 query, 3 keys: -0.5 in place of -0.25 one step back in head 0",
)
def alibi_rates_of_eight(num_heads, query_length, key_length):
    rates = 0.5 ** torch.arange(1.0, num_heads + 1)
    asking = torch.arange(key_length - query_length, key_length)
    back = asking[:, None] - torch.arange(key_length)
    return -rates[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "The shift of the queries is one too small.",
    "4 heads, 1 query, 3 keys: the last word is one step from itself",
)
def alibi_one_step_off(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    asking = torch.arange(query_length) + key_length - query_length - 1
    back = asking[:, None] - torch.arange(key_length)
    return -rates[:, None, None] * back.abs()


@right("positions.relative", "query by query, with Python numbers")
def relative_by_loops(table, query_length, key_length):
    bias = table.new_zeros(table.shape[0], query_length, key_length)
    for query in range(query_length):
        for key in range(key_length):
            back = key_length - query_length + query - key
            bias[:, query, key] = table[:, min(max(back, 0), table.shape[1] - 1)]
    return bias


@right("positions.relative", "one-hot columns times the table")
def relative_by_one_hot(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length).unsqueeze(1)
    back = torch.relu(asking - torch.arange(key_length))
    back = torch.minimum(back, torch.tensor(table.shape[1] - 1))
    chosen = F.one_hot(back, table.shape[1]).to(table.dtype)
    return torch.einsum("hd,qkd->hqk", table, chosen)


@wrong(
    "positions.relative",
    "Keys ahead get the bias of their distance and not column 0.",
    "table [[0, 1, 2]], 2 queries, 2 keys: 1 for query 0 and key 1",
)
def relative_both_sides(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length)
    back = (asking[:, None] - torch.arange(key_length)).abs()
    return table[:, back.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Negative distances count from the end of the table.",
    "table [[0, 1, 2]], 2 queries, 2 keys: 2 for query 0 and key 1",
)
def relative_from_the_end(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length)
    back = asking[:, None] - torch.arange(key_length)
    return table[:, back.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Distances beyond the table are not held at its last column.",
    "table [[0, 1]], 1 query, 4 keys: an error",
)
def relative_beyond_the_table(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length)
    back = asking[:, None] - torch.arange(key_length)
    return table[:, back.clamp(min=0)]


@wrong(
    "positions.relative",
    "The queries are taken for the first positions.",
    "table [[0, 1, 2]], 1 query, 3 keys: 0 0 0 in place of 2 1 0",
)
def relative_first_positions(table, query_length, key_length):
    back = torch.arange(query_length)[:, None] - torch.arange(key_length)
    return table[:, back.clamp(0, table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "The distances run forward: key minus query.",
    "table [[0, 1, 2]], 1 query, 3 keys: 0 0 0 in place of 2 1 0",
)
def relative_forward(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length)
    ahead = torch.arange(key_length) - asking[:, None]
    return table[:, ahead.clamp(0, table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Everything further back gets no bias in place of the last column.",
    "table [[0, 1, 2]], 1 query, 5 keys: 0 and not 2 four steps back",
)
def relative_zero_when_far(table, query_length, key_length):
    asking = torch.arange(key_length - query_length, key_length)
    back = (asking[:, None] - torch.arange(key_length)).clamp(min=0)
    bias = table[:, back.clamp(max=table.shape[1] - 1)]
    return bias.masked_fill(back >= table.shape[1], 0)


# 05 · blocks


@right("blocks.layer_norm", "centered first, then divided by the root mean square")
def layer_norm_in_two_steps(x, scale, shift, eps):
    centered = x - x.mean(dim=-1, keepdim=True)
    squares = (centered * centered).mean(dim=-1, keepdim=True)
    return centered * torch.rsqrt(squares + eps) * scale + shift


@right("blocks.layer_norm", "var_mean in one call, addcmul at the end")
def layer_norm_by_var_mean(x, scale, shift, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(shift, (x - mean) / (variance + eps) ** 0.5, scale)


@wrong(
    "blocks.layer_norm",
    "The variance divides by the width minus one.",
    "x [[1., 3.]]: 0.71 in place of 1",
)
def layer_norm_unbiased(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    return scale * (x - mean) / torch.sqrt(x.var(-1, keepdim=True) + eps) + shift


@wrong(
    "blocks.layer_norm",
    "eps is added to the spread and not to the variance under the root.",
    "x [[0.001, 0.003]], eps 1e-5: 0.99 in place of 0.30",
)
def layer_norm_eps_outside(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.std(dim=-1, keepdim=True, correction=0)
    return scale * (x - mean) / (spread + eps) + shift


@wrong(
    "blocks.layer_norm",
    "One mean and one variance for all words together.",
    "x [[1., 3.], [10., 30.]]: the words do not have mean 0",
)
def layer_norm_of_everything(x, scale, shift, eps):
    variance = x.var(correction=0)
    return scale * (x - x.mean()) / torch.sqrt(variance + eps) + shift


@wrong(
    "blocks.layer_norm",
    "eps is left out: a word with one number everywhere becomes nan.",
    "x [[2., 2.]]: 0 / 0",
)
def layer_norm_without_eps(x, scale, shift, eps):
    assert eps >= 0
    mean = x.mean(dim=-1, keepdim=True)
    return scale * (x - mean) / x.std(-1, keepdim=True, correction=0) + shift


@wrong(
    "blocks.layer_norm",
    "Mean of the squares minus square of the mean: large numbers lose all digits.",
    "x [[10000., 10001., 10002.]] in float32: the variance is 0 or 8",
)
def layer_norm_by_moments(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x**2).mean(dim=-1, keepdim=True) - mean**2
    return scale * (x - mean) / torch.sqrt(variance.clamp(min=0) + eps) + shift


@wrong(
    "blocks.layer_norm",
    "The mean is not subtracted: this is a norm by the mean square.",
    "x [[1., 3.]]: 0.45 and 1.34",
)
def layer_norm_without_mean(x, scale, shift, eps):
    squares = x.pow(2).mean(dim=-1, keepdim=True)
    return scale * x * torch.rsqrt(squares + eps) + shift


right("blocks.norm_sees", "a guess: only one number of a word gets through")((0, 0, 1))


wrong(
    "blocks.norm_sees",
    "One norm over the whole sentence: every change reaches all seven words.",
    "a norm for each word leaves the other six alone",
)((7, 7, 7))


wrong(
    "blocks.norm_sees",
    "Each change of a word is taken to show in it; a norm hides shift and size.",
    "the same number added everywhere does not pass",
)((1, 1, 1))


@right("blocks.block", "the branches get names of their own")
def block_with_names(x, norm1, attention, norm2, feedforward, dropout):
    seen = x + dropout(attention(norm1(x)))
    thought = dropout(feedforward(norm2(seen)))
    return seen + thought


@right("blocks.block", "both branches in one loop")
def block_by_loop(x, norm1, attention, norm2, feedforward, dropout):
    for norm, layer in ((norm1, attention), (norm2, feedforward)):
        x = torch.add(x, dropout(layer(norm(x))))
    return x


@wrong(
    "blocks.block",
    "Post-norm: the norms stand on the road, after the plus signs.",
    "norms that double, layers that return 0: x does not pass",
)
def block_post_norm(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x + dropout(attention(x)))
    return norm2(x + dropout(feedforward(x)))


@wrong(
    "blocks.block",
    "The second branch begins at the old x: the two run side by side.",
    "attention that adds 1, feed-forward that doubles",
)
def block_parallel(x, norm1, attention, norm2, feedforward, dropout):
    first = dropout(attention(norm1(x)))
    second = dropout(feedforward(norm2(x)))
    return x + first + second


@wrong(
    "blocks.block",
    "Dropout stands on the road.",
    "a dropout that returns 0: nothing of x is left",
)
def block_dropout_on_road(x, norm1, attention, norm2, feedforward, dropout):
    x = dropout(x + attention(norm1(x)))
    return dropout(x + feedforward(norm2(x)))


@wrong(
    "blocks.block",
    "The first norm is used in both branches.",
    "a second norm that triples",
)
def block_norm_used_twice(x, norm1, attention, norm2, feedforward, dropout):
    assert norm2 is not None
    x = x + dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm1(x)))


@wrong(
    "blocks.block",
    "The second branch has no dropout.",
    "a dropout that returns 0: the feed-forward is still added",
)
def block_half_dropout(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return x + feedforward(norm2(x))


@wrong(
    "blocks.block",
    "The normed x goes along the road and not x itself.",
    "norms that double, layers that return 0: four times x",
)
def block_normed_road(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x)
    x = x + dropout(attention(x))
    x = norm2(x)
    return x + dropout(feedforward(x))


@wrong(
    "blocks.block",
    "Written in place: the caller's x changes too.",
    "compare x before and after the call",
)
def block_in_place(x, norm1, attention, norm2, feedforward, dropout):
    x += dropout(attention(norm1(x)))
    x += dropout(feedforward(norm2(x)))
    return x


@right("blocks.silent", "nn.init for weights and biases, bool of all entries")
def silent_by_init(block, x):
    for layer in (block.attention.to_output, block.feedforward.down):
        for parameter in layer.parameters():
            torch.nn.init.zeros_(parameter)
    return bool((block.train()(x) == x).all())


@right("blocks.silent", "in place under no_grad, one tensor after the other")
def silent_under_no_grad(block, x):
    before = x.clone()
    block.train()
    with torch.no_grad():
        block.attention.to_output.weight.fill_(0)
        block.attention.to_output.bias.fill_(0)
        block.feedforward.down.weight.mul_(0)
        block.feedforward.down.bias.mul_(0)
        after = block(x)
    return torch.equal(before, after)


@wrong(
    "blocks.silent",
    "Tested in evaluation mode, where dropout on the road does nothing.",
    "a block with dropout on the road: True",
)
def silent_in_evaluation(block, x):
    block.eval()
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "The mode is left as it comes, and the block may come in evaluation mode.",
    "a block in evaluation mode with dropout on the road: True",
)
def silent_in_any_mode(block, x):
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "The biases are left: the branches still add something.",
    "a pre-norm block with biases other than 0: False",
)
def silent_with_biases(block, x):
    block.train()
    with torch.no_grad():
        block.attention.to_output.weight.zero_()
        block.feedforward.down.weight.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Only attention is made silent.",
    "a pre-norm block: False",
)
def silent_attention_only(block, x):
    block.train()
    with torch.no_grad():
        block.attention.to_output.weight.zero_()
        block.attention.to_output.bias.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "All dropouts are switched off first, so that none on the road is found.",
    "a block with dropout on the road: True",
)
def silent_without_dropout(block, x):
    block.train()
    for module in block.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Only the shapes are compared.",
    "a post-norm block: True",
)
def silent_by_shape(block, x):
    block.train()
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
    return block(x).shape == x.shape


@right("blocks.stack", "a fold over the list")
def stack_by_fold(x, blocks, norm):
    return norm(functools.reduce(lambda stream, block: block(stream), blocks, x))


@right("blocks.stack", "the norm is one more step at the end of the list")
def stack_with_norm_in_list(x, blocks, norm):
    stream = x
    for step in [*blocks, norm]:
        stream = step(stream)
    return stream


@wrong(
    "blocks.stack",
    "The final norm is missing.",
    "two blocks that add 1, a norm that doubles: 2 from x = 0 and not 4",
)
def stack_without_norm(x, blocks, norm):
    assert norm is not None
    for block in blocks:
        x = block(x)
    return x


@wrong(
    "blocks.stack",
    "The norm stands behind every block, on the road.",
    "two blocks that add 1, a norm that doubles: 6 from x = 0 and not 4",
)
def stack_norm_each_time(x, blocks, norm):
    for block in blocks:
        x = norm(block(x))
    return x


@wrong(
    "blocks.stack",
    "The norm comes before the blocks and not at the end.",
    "two blocks that add 1, a norm that doubles: 2 from x = 0 and not 4",
)
def stack_norm_first(x, blocks, norm):
    x = norm(x)
    for block in blocks:
        x = block(x)
    return x


@wrong(
    "blocks.stack",
    "Each block gets the first x: only the last block counts.",
    "two blocks that add 1, a norm that doubles: 2 from x = 0 and not 4",
)
def stack_from_first_x(x, blocks, norm):
    y = x
    for block in blocks:
        y = block(x)
    return norm(y)


@wrong(
    "blocks.stack",
    "A road around each block, though the blocks have theirs inside.",
    "x = 1, one block that adds 1: 3 and not 2 before the norm",
)
def stack_with_second_road(x, blocks, norm):
    for block in blocks:
        x = x + block(x)
    return norm(x)


@wrong(
    "blocks.stack",
    "The blocks are taken from the last to the first.",
    "one block that adds 1, then one that doubles",
)
def stack_in_reverse(x, blocks, norm):
    for block in reversed(blocks):
        x = block(x)
    return norm(x)


# 06 · recurrent


@right("recurrent.gru_step", "three slices and a step toward the candidate by lerp")
def gru_step_by_lerp(x, state, W, U, b):
    m = state.shape[1]
    reset = torch.sigmoid(x @ W[:m].T + state @ U[:m].T + b[:m])
    update = torch.sigmoid(x @ W[m : 2 * m].T + state @ U[m : 2 * m].T + b[m : 2 * m])
    new = torch.tanh(x @ W[2 * m :].T + b[2 * m :] + reset * (state @ U[2 * m :].T))
    return torch.lerp(new, state, update)


@right("recurrent.gru_step", "F.linear and the function of PyTorch's own formula")
def gru_step_by_linear(x, state, W, U, b):
    from_x = F.linear(x, W, b).unflatten(1, (3, -1))
    from_state = torch.einsum("bm,gnm->bgn", state, U.unflatten(0, (3, -1)))
    gates = (from_x + from_state)[:, :2].sigmoid()
    new = (from_x[:, 2] + gates[:, 0] * from_state[:, 2]).tanh()
    return new + gates[:, 1] * (state - new)


@wrong(
    "recurrent.gru_step",
    "The update gate is the share of the candidate and not of the old state.",
    "b large at z: the old state must stay, and it goes",
)
def gru_step_shares_swapped(x, state, W, U, b):
    w = (x @ W.T + b).chunk(3, dim=-1)
    u = (state @ U.T).chunk(3, dim=-1)
    reset = torch.sigmoid(w[0] + u[0])
    update = torch.sigmoid(w[1] + u[1])
    new = torch.tanh(w[2] + reset * u[2])
    return (1 - update) * state + update * new


@wrong(
    "recurrent.gru_step",
    "The reset gate multiplies the state before U, as in the paper and not here.",
    "state [[1., 1.]] with U_h = [[1, 2], [3, 4]]",
)
def gru_step_reset_before(x, state, W, U, b):
    m = state.shape[-1]
    w = (x @ W.T + b).chunk(3, dim=-1)
    reset = torch.sigmoid(w[0] + state @ U[:m].T)
    update = torch.sigmoid(w[1] + state @ U[m : 2 * m].T)
    new = torch.tanh(w[2] + (reset * state) @ U[2 * m :].T)
    return update * state + (1 - update) * new


@wrong(
    "recurrent.gru_step",
    "The order of the gates is z, r, h.",
    "b large at r alone: the state stays as it is",
)
def gru_step_other_order(x, state, W, U, b):
    w = (x @ W.T + b).chunk(3, dim=-1)
    u = (state @ U.T).chunk(3, dim=-1)
    update = torch.sigmoid(w[0] + u[0])
    reset = torch.sigmoid(w[1] + u[1])
    new = torch.tanh(w[2] + reset * u[2])
    return update * state + (1 - update) * new


@wrong(
    "recurrent.gru_step",
    "The reset gate multiplies the bias of the candidate too.",
    "b_h = 1, x = 0, state = 0: tanh(0.5) and not tanh(1) in the candidate",
)
def gru_step_bias_reset(x, state, W, U, b):
    w = (x @ W.T).chunk(3, dim=-1)
    u = (state @ U.T + b).chunk(3, dim=-1)
    reset = torch.sigmoid(w[0] + u[0])
    update = torch.sigmoid(w[1] + u[1])
    new = torch.tanh(w[2] + reset * u[2])
    return update * state + (1 - update) * new


@wrong(
    "recurrent.gru_step",
    "The reset gate takes no part in the candidate.",
    "b very negative at r: the candidate still sees the old state",
)
def gru_step_without_reset(x, state, W, U, b):
    total = x @ W.T + state @ U.T + b
    _, update, new = total.chunk(3, dim=-1)
    update = torch.sigmoid(update)
    return update * state + (1 - update) * torch.tanh(new)


@wrong(
    "recurrent.gru_step",
    "The candidate is squeezed by a sigmoid: it can never be negative.",
    "b very negative at z and h: about 0 and not -1",
)
def gru_step_sigmoid_candidate(x, state, W, U, b):
    w = (x @ W.T + b).chunk(3, dim=-1)
    u = (state @ U.T).chunk(3, dim=-1)
    reset = torch.sigmoid(w[0] + u[0])
    update = torch.sigmoid(w[1] + u[1])
    new = torch.sigmoid(w[2] + reset * u[2])
    return update * state + (1 - update) * new


@right("recurrent.general_scores", "einsum over all three at once")
def general_by_einsum(queries, keys, W):
    return torch.einsum("bqm,mn,bkn->bqk", queries, W, keys)


@right("recurrent.general_scores", "the matrix goes to the queries' side")
def general_from_the_left(queries, keys, W):
    return torch.bmm(queries @ W, keys.mT)


@wrong(
    "recurrent.general_scores",
    "W s · h: the matrix turns the queries and not the keys.",
    "s = (1, 0), h = (0, 1), W = [[0, 1], [0, 0]]: 0 in place of 1",
)
def general_matrix_transposed(queries, keys, W):
    return (queries @ W.T) @ keys.transpose(1, 2)


@wrong(
    "recurrent.general_scores",
    "Scaled by the root of the width, which this score is not.",
    "width 4: half of each score",
)
def general_scaled(queries, keys, W):
    products = torch.einsum("bqm,mn,bkn->bqk", queries, W, keys)
    return products / math.sqrt(queries.shape[-1])


@wrong(
    "recurrent.general_scores",
    "W is multiplied to both sides.",
    "s = h = (1, 0), W = 2 I: 4 in place of 2",
)
def general_matrix_twice(queries, keys, W):
    return (queries @ W.T) @ (keys @ W.T).transpose(1, 2)


@wrong(
    "recurrent.general_scores",
    "The axes come out as keys by queries.",
    "two queries and three keys: shape b 3 2",
)
def general_keys_by_queries(queries, keys, W):
    return keys @ W.T @ queries.transpose(1, 2)


@right("recurrent.additive_scores", "einsum for the three products, broadcast between")
def additive_by_einsum(queries, keys, W, U, v):
    asked = torch.einsum("mn,bqn->bqm", W, queries).unsqueeze(2)
    found = torch.einsum("mn,bkn->bkm", U, keys).unsqueeze(1)
    return torch.einsum("bqkm,m->bqk", torch.tanh(asked + found), v)


@right("recurrent.additive_scores", "one key after the other, joined at the end")
def additive_key_by_key(queries, keys, W, U, v):
    asked = F.linear(queries, W)
    columns = []
    for key in keys.unbind(dim=1):
        columns.append(torch.tanh(asked + F.linear(key, U).unsqueeze(1)) @ v)
    return torch.stack(columns, dim=-1)


@wrong(
    "recurrent.additive_scores",
    "W and U are multiplied from the wrong side, which is their transpose.",
    "W = [[0, 1], [0, 0]], s = (0, 1): 0 in place of tanh(1) in the first entry",
)
def additive_transposed(queries, keys, W, U, v):
    total = (queries @ W).unsqueeze(2) + (keys @ U).unsqueeze(1)
    return torch.tanh(total) @ v


@wrong(
    "recurrent.additive_scores",
    "W goes to the keys and U to the queries.",
    "W = I, U = 0, s = 0, h = 1: tanh(1) and not 0",
)
def additive_matrices_swapped(queries, keys, W, U, v):
    total = (queries @ U.T).unsqueeze(2) + (keys @ W.T).unsqueeze(1)
    return torch.tanh(total) @ v


@wrong(
    "recurrent.additive_scores",
    "tanh is taken of each part and not of the sum.",
    "W = U = I, s = h = (1, 0), v = (1, 0): 1.52 in place of 0.96",
)
def additive_two_tanh(queries, keys, W, U, v):
    asked = torch.tanh(queries @ W.T).unsqueeze(2)
    found = torch.tanh(keys @ U.T).unsqueeze(1)
    return (asked + found) @ v


@wrong(
    "recurrent.additive_scores",
    "There is no tanh: the score is a plain sum.",
    "W = U = I, s = h = (1, 0), v = (1, 0): 2 in place of 0.96",
)
def additive_without_tanh(queries, keys, W, U, v):
    total = (queries @ W.T).unsqueeze(2) + (keys @ U.T).unsqueeze(1)
    return total @ v


@wrong(
    "recurrent.additive_scores",
    "The axes come out as keys by queries.",
    "two queries and three keys: shape b 3 2",
)
def additive_keys_by_queries(queries, keys, W, U, v):
    total = (queries @ W.T).unsqueeze(1) + (keys @ U.T).unsqueeze(2)
    return torch.tanh(total) @ v


@wrong(
    "recurrent.additive_scores",
    "Query i is added to key i only: no pairs are made.",
    "two queries and two keys: shape b 2 in place of b 2 2",
)
def additive_without_pairs(queries, keys, W, U, v):
    return torch.tanh(queries @ W.T + keys @ U.T) @ v


@right("recurrent.context_step", "einsum, and the two halves of W by themselves")
def context_step_by_halves(state, memory, mask, W):
    m = state.shape[1]
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = torch.where(mask, scores, -math.inf).softmax(dim=1)
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(context @ W[:, :m].T + state @ W[:, m:].T)


@right("recurrent.context_step", "sentence by sentence, real words cut out")
def context_step_by_loop(state, memory, mask, W):
    rows = []
    for s, words, real in zip(state, memory, mask, strict=True):
        kept = words[real]
        context = torch.softmax(kept @ s, dim=0) @ kept
        rows.append(torch.tanh(W @ torch.cat((context, s))))
    return torch.stack(rows)


def step_of(state, memory, mask, W, joined):
    """The step with another order or end, for the wrong answers."""
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1)
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1)
    context = (weights.unsqueeze(1) @ memory).squeeze(1)
    return joined(context, state) @ W.T


@wrong(
    "recurrent.context_step",
    "State and context are joined in the other order.",
    "W = [I, 0]: tanh of the state and not of the context",
)
def context_step_state_first(state, memory, mask, W):
    def joined(context, own):
        return torch.cat([own, context], dim=-1)

    return torch.tanh(step_of(state, memory, mask, W, joined))


@wrong(
    "recurrent.context_step",
    "The tanh is forgotten.",
    "W = [2 I, 0], memory of ones: 2 in place of 0.96",
)
def context_step_without_tanh(state, memory, mask, W):
    def joined(context, own):
        return torch.cat([context, own], dim=-1)

    return step_of(state, memory, mask, W, joined)


@wrong(
    "recurrent.context_step",
    "The mask is not used: padding gets weight.",
    "memory [[[1, 0], [9, 9]]], mask [[True, False]]",
)
def context_step_without_mask(state, memory, mask, W):
    assert mask.dtype == torch.bool
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1)
    context = (scores.softmax(dim=-1).unsqueeze(1) @ memory).squeeze(1)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "The mask is upside down: only padding is read.",
    "memory [[[1, 0], [9, 9]]], mask [[True, False]]",
)
def context_step_mask_upside_down(state, memory, mask, W):
    def joined(context, own):
        return torch.cat([context, own], dim=-1)

    return torch.tanh(step_of(state, memory, ~mask, W, joined))


@wrong(
    "recurrent.context_step",
    "Padding gets weight 0 after the softmax: the other weights do not add up to 1.",
    "memory [[[1, 0], [1, 0]]], mask [[True, False]]: half of the context",
)
def context_step_weights_cut(state, memory, mask, W):
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1)
    weights = scores.softmax(dim=-1) * mask
    context = (weights.unsqueeze(1) @ memory).squeeze(1)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Scores of padding become 0, which beats a negative score.",
    "state [[-1, 0]], memory [[[1, 0], [9, 9]]], mask [[True, False]]",
)
def context_step_zero_scores(state, memory, mask, W):
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1) * mask
    context = (scores.softmax(dim=-1).unsqueeze(1) @ memory).squeeze(1)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Softmax along the sentences of the batch and not along the words.",
    "two sentences: the weights of a sentence do not add up to 1",
)
def context_step_softmax_over_batch(state, memory, mask, W):
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1)
    weights = scores.masked_fill(~mask, -1e9).softmax(dim=0)
    context = (weights.unsqueeze(1) @ memory).squeeze(1)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


right("recurrent.gate", "through the logarithm, not rounded")(
    math.exp(-math.log(2) / 100)
)


right("recurrent.gate", "rounded to the four decimals that are asked for")(0.9931)


wrong(
    "recurrent.gate",
    "A straight line: each step takes a hundredth of the half.",
    "0.995 ** 100 = 0.606",
)(0.995)


wrong(
    "recurrent.gate",
    "exp(-1/100) leaves 1/e and not one half.",
    "0.99 ** 100 = 0.366",
)(0.99)


wrong(
    "recurrent.gate",
    "The share that is lost in a step and not the gate.",
    "0.0069 ** 100 is nothing",
)(round(1 - 0.5**0.01, 4))


wrong(
    "recurrent.gate",
    "One half is left after one step, not after a hundred.",
    "0.5 ** 100 is nothing",
)(0.5)


wrong(
    "recurrent.gate",
    "The root is taken for 99 steps: one step is not counted.",
    "0.9930 in place of 0.9931",
)(round(0.5 ** (1 / 99), 4))


# 07 · translation


@right("translation.cross_attention", "sentence by sentence, real words cut out")
def cross_by_sentence(x, memory, W_q, W_k, W_v, mask):
    rows = []
    for target, source, real in zip(x, memory, mask, strict=True):
        kept = source[real[0]]
        scores = (target @ W_q) @ (kept @ W_k).T / W_q.shape[1] ** 0.5
        rows.append(scores.softmax(dim=-1) @ (kept @ W_v))
    return torch.stack(rows)


@right("translation.cross_attention", "PyTorch's own attention with a boolean mask")
def cross_by_torch(x, memory, W_q, W_k, W_v, mask):
    queries, keys, values = x @ W_q, memory @ W_k, memory @ W_v
    return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def one_head(queries, keys, values, mask):
    """Attention of one head, for the wrong answers."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-1])
    return scores.masked_fill(~mask, -1e30).softmax(dim=-1) @ values


@wrong(
    "translation.cross_attention",
    "The values come from x: nothing of the source gets through.",
    "t = s = 3: the context does not change with the memory's values",
)
def cross_values_of_x(x, memory, W_q, W_k, W_v, mask):
    return one_head(x @ W_q, memory @ W_k, x @ W_v, mask)


@wrong(
    "translation.cross_attention",
    "The memory asks and x answers.",
    "t = 2, s = 3: shape b 3 d, or an error of the mask",
)
def cross_turned_round(x, memory, W_q, W_k, W_v, mask):
    scores = (memory @ W_q) @ (x @ W_k).transpose(1, 2) / math.sqrt(W_q.shape[1])
    scores = scores.masked_fill(~mask.transpose(1, 2), -1e30)
    return scores.softmax(dim=-1) @ (x @ W_v)


@wrong(
    "translation.cross_attention",
    "Self-attention: all three products take x.",
    "t = s = 3: another memory gives the same context",
)
def cross_self_attention(x, memory, W_q, W_k, W_v, mask):
    assert memory.shape[0] == x.shape[0]
    return one_head(x @ W_q, x @ W_k, x @ W_v, mask)


@wrong(
    "translation.cross_attention",
    "The padding of the source is not hidden.",
    "one sentence of two words and one padding: the padding gets weight",
)
def cross_without_mask(x, memory, W_q, W_k, W_v, mask):
    return one_head(x @ W_q, memory @ W_k, memory @ W_v, torch.ones_like(mask))


@wrong(
    "translation.cross_attention",
    "A causal mask as well: target word 0 sees source word 0 only.",
    "t = s = 3 without padding: row 0 is the value of source word 0",
)
def cross_causal(x, memory, W_q, W_k, W_v, mask):
    past = torch.ones(x.shape[1], memory.shape[1]).tril().bool()
    return one_head(x @ W_q, memory @ W_k, memory @ W_v, mask & past)


@wrong(
    "translation.cross_attention",
    "The keys are used as values.",
    "W_k = 0: the context is 0 and not the mean of the values",
)
def cross_keys_as_values(x, memory, W_q, W_k, W_v, mask):
    assert W_v.shape[0] == memory.shape[-1]
    return one_head(x @ W_q, memory @ W_k, memory @ W_k, mask)


@right("translation.smoothed", "one-hot, moved toward the mean")
def smoothed_by_one_hot(right, vocab_size, epsilon):
    sure = F.one_hot(torch.tensor(right), vocab_size).float()
    return sure + epsilon * (1 / vocab_size - sure)


@right("translation.smoothed", "a plain list, then a tensor")
def smoothed_by_list(right, vocab_size, epsilon):
    target = []
    for token in range(vocab_size):
        target.append((1 - epsilon) * (token == right) + epsilon / vocab_size)
    return torch.tensor(target)


@wrong(
    "translation.smoothed",
    "Spread over the other tokens only; the right one gets its part too.",
    "right 0 of 4, epsilon 0.2: 0.8 in place of 0.85",
)
def smoothed_over_the_others(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / (vocab_size - 1))
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "The right token loses its own small part: the sum is below 1.",
    "right 0 of 4, epsilon 0.2: 0.8 in place of 0.85, sum 0.95",
)
def smoothed_sum_below_one(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "Nothing is taken from the right token: the sum is above 1.",
    "right 0 of 4, epsilon 0.2: 1.05, sum 1.2",
)
def smoothed_sum_above_one(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] += 1
    return target


@wrong(
    "translation.smoothed",
    "epsilon and its rest are swapped: nearly everything is spread.",
    "right 0 of 4, epsilon 0.2: 0.4 in place of 0.85",
)
def smoothed_shares_swapped(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), (1 - epsilon) / vocab_size)
    target[right] += epsilon
    return target


@wrong(
    "translation.smoothed",
    "Each token gets the whole epsilon.",
    "right 0 of 4, epsilon 0.2: sum 1.6",
)
def smoothed_whole_epsilon(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), float(epsilon))
    target[right] += 1 - epsilon
    return target


@right("translation.loss", "log-probabilities gathered, the real ones cut out")
def loss_by_gather(scores, target, pad_id):
    labels = target[:, 1:]
    logs = torch.log_softmax(scores[:, :-1], dim=-1)
    picked = logs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -picked[labels != pad_id].mean()


@right("translation.loss", "cross_entropy with the classes on axis 1 and ignore_index")
def loss_by_ignore_index(scores, target, pad_id):
    logits = scores.transpose(1, 2)[..., :-1]
    return F.cross_entropy(logits, target[:, 1:], ignore_index=pad_id)


@wrong(
    "translation.loss",
    "Nothing is shifted: each position is to predict its own token.",
    "scores that name the next token surely: a large loss",
)
def loss_not_shifted(scores, target, pad_id):
    return F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=pad_id)


@wrong(
    "translation.loss",
    "Padding counts like a word.",
    "target [[1, 5, 2, 0, 0]], pad 0: a mean over four and not over two",
)
def loss_with_padding(scores, target, pad_id):
    assert pad_id is not None
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), target[:, 1:].flatten())


@wrong(
    "translation.loss",
    "Padding adds nothing but is counted in the mean.",
    "target [[1, 5, 2, 0, 0]], pad 0: half of the loss",
)
def loss_divided_by_all(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(
        scores[:, :-1].transpose(1, 2),
        labels,
        ignore_index=pad_id,
        reduction="none",
    )
    return losses.mean()


@wrong(
    "translation.loss",
    "A mean of the sentences' means: short sentences count too much.",
    "a sentence of one token beside one of four, with unequal losses",
)
def loss_mean_of_means(scores, target, pad_id):
    means = []
    for rows, ids in zip(scores, target, strict=True):
        means.append(F.cross_entropy(rows[:-1], ids[1:], ignore_index=pad_id))
    return torch.stack(means).mean()


@wrong(
    "translation.loss",
    "The padding is looked up in the inputs and not in the labels.",
    "target [[1, 5, 2, 0]], pad 0: the first padding after the end counts",
)
def loss_mask_of_inputs(scores, target, pad_id):
    losses = F.cross_entropy(
        scores[:, :-1].transpose(1, 2), target[:, 1:], reduction="none"
    )
    return losses[target[:, :-1] != pad_id].mean()


@wrong(
    "translation.loss",
    "Shifted the wrong way: each position is to predict the token before it.",
    "scores that name the next token surely: a large loss",
)
def loss_shifted_backward(scores, target, pad_id):
    logits = scores[:, 1:].flatten(0, 1)
    return F.cross_entropy(logits, target[:, :-1].flatten(), ignore_index=pad_id)


@wrong(
    "translation.loss",
    "The sum of the losses and not their mean.",
    "target [[1, 5, 2]]: twice the loss",
)
def loss_summed(scores, target, pad_id):
    return F.cross_entropy(
        scores[:, :-1].flatten(0, 1),
        target[:, 1:].flatten(),
        ignore_index=pad_id,
        reduction="sum",
    )


@right("translation.greedy", "lists of new columns, open rows in a mask of numbers")
def greedy_by_columns(model, begin, end_id, pad_id, limit):
    ids = begin
    is_open = torch.ones(len(begin), dtype=torch.long, device=begin.device)
    for _ in range(limit):
        best = model(ids)[:, -1].max(dim=-1).indices
        column = best * is_open + pad_id * (1 - is_open)
        ids = torch.hstack((ids, column.unsqueeze(1)))
        is_open = is_open * (best != end_id).long()
        if is_open.sum() == 0:
            break
    return ids


@right("translation.greedy", "a while loop over a table made for the limit, then cut")
def greedy_in_a_table(model, begin, end_id, pad_id, limit):
    start = begin.shape[1]
    table = begin.new_full((begin.shape[0], start + limit), pad_id)
    table[:, :start] = begin
    active = begin.new_ones(begin.shape[0]).bool()
    filled = start
    while filled < start + limit and active.any():
        best = model(table[:, :filled])[:, -1].argmax(dim=-1)
        table[active, filled] = best[active]
        active = active & (best != end_id)
        filled += 1
    return table[:, :filled]


@wrong(
    "translation.greedy",
    "Rows that have ended go on writing.",
    "a row that ends first, while the other goes on: no padding behind the end",
)
def greedy_writes_on(model, begin, end_id, pad_id, limit):
    assert pad_id is not None
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
        if done.all():
            break
    return ids


@wrong(
    "translation.greedy",
    "The loop stops as soon as one row has ended.",
    "a row that ends first: the other is cut off",
)
def greedy_stops_at_first_end(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(done, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
        if done.any():
            break
    return ids


@wrong(
    "translation.greedy",
    "The loop stops only when all rows end in the same step.",
    "rows that end at different steps: padding is written up to the limit",
)
def greedy_ends_together(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(done, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
        if (best == end_id).all():
            break
    return ids


@wrong(
    "translation.greedy",
    "The end token itself is replaced by padding.",
    "a row that ends: it has no end token",
)
def greedy_loses_the_end(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1)
        done |= best == end_id
        ids = torch.cat([ids, best.masked_fill(done, pad_id)[:, None]], dim=1)
        if done.all():
            break
    return ids


@wrong(
    "translation.greedy",
    "Only the new tokens come back.",
    "begin [[1]]: the 1 is missing",
)
def greedy_only_new(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(done, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
        if done.all():
            break
    return ids[:, begin.shape[1] :]


@wrong(
    "translation.greedy",
    "The limit is taken for the length of the whole row, beginning included.",
    "begin of two ids, limit 3: one new token and not three",
)
def greedy_limit_of_length(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    while ids.shape[1] < limit and not done.all():
        best = model(ids)[:, -1].argmax(dim=-1).masked_fill(done, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
    return ids


@wrong(
    "translation.greedy",
    "The scores of the first position are read and not those of the last.",
    "begin [[1]]: each step writes the token that follows the 1",
)
def greedy_first_position(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        best = model(ids)[:, 0].argmax(dim=-1).masked_fill(done, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
        done |= best == end_id
        if done.all():
            break
    return ids


# 08 · beam and BLEU


@right("translation.beam", "sorted as a whole, then the first w")
def beam_by_sorting(totals, log_probs):
    width, tokens = log_probs.shape
    order = sorted(
        ((totals[p] + log_probs[p, t]).item(), -p, -t)
        for p in range(width)
        for t in range(tokens)
    )[::-1][:width]
    parents = torch.tensor([-entry[1] for entry in order])
    chosen = torch.tensor([-entry[2] for entry in order])
    return parents, chosen, totals[parents] + log_probs[parents, chosen]


@right("translation.beam", "topk of the flat sums, taken apart by unravel_index")
def beam_by_unravel(totals, log_probs):
    sums = log_probs + totals.unsqueeze(-1)
    best = sums.flatten().topk(len(totals))
    parents, tokens = torch.unravel_index(best.indices, sums.shape)
    return parents, tokens, best.values


@wrong(
    "translation.beam",
    "Each beginning keeps its own best token; they do not compete.",
    "totals [0, -9], log_probs [[-1, -1.1], [-1, -1.1]]: parent 1 survives",
)
def beam_each_its_own(totals, log_probs):
    best = log_probs.max(dim=-1)
    return torch.arange(len(totals)), best.indices, totals + best.values


@wrong(
    "translation.beam",
    "The totals so far do not count in the choice.",
    "totals [0, -9], log_probs [[-1, -1.1], [-0.5, -2]]: parent 1 comes first",
)
def beam_without_totals(totals, log_probs):
    width, count = log_probs.shape
    best = log_probs.flatten().topk(width)
    parents = best.indices // count
    return parents, best.indices % count, totals[parents] + best.values


@wrong(
    "translation.beam",
    "Divided by the number of beginnings and not by the number of tokens.",
    "2 beginnings and 3 tokens: flat place 3 becomes parent 1, token 1",
)
def beam_divided_by_width(totals, log_probs):
    width = len(totals)
    best = (totals[:, None] + log_probs).flatten().topk(width)
    return best.indices // width, best.indices % width, best.values


@wrong(
    "translation.beam",
    "The totals are added along the tokens and not along the beginnings.",
    "totals [0, -9], log_probs of shape 2 2: token 0 is favored",
)
def beam_totals_along_tokens(totals, log_probs):
    width, count = log_probs.shape
    columns = torch.arange(count) % width
    best = (totals[columns][None, :] + log_probs).flatten().topk(width)
    return best.indices // count, best.indices % count, best.values


@wrong(
    "translation.beam",
    "Only the new log-probabilities come back, without the totals.",
    "totals [-1, -2]: the new totals do not hold them",
)
def beam_new_totals_forgotten(totals, log_probs):
    width, count = log_probs.shape
    best = (totals[:, None] + log_probs).flatten().topk(width)
    parents, tokens = best.indices // count, best.indices % count
    return parents, tokens, log_probs[parents, tokens]


@wrong(
    "translation.beam",
    "Log-probabilities are multiplied where they must be added.",
    "totals [-1, -2], log_probs [[-1, -3], [-1, -3]]: the worst products win",
)
def beam_by_products(totals, log_probs):
    width, count = log_probs.shape
    best = (totals[:, None] * log_probs).flatten().topk(width)
    return best.indices // count, best.indices % count, best.values


@right("translation.choice", "NumPy")
def choice_by_numpy(log_probs, lengths, penalty):
    values = np.array(log_probs) / np.array(lengths, dtype=float) ** penalty
    number = int(values.argmax())
    return number, float(values[number])


@right("translation.choice", "a loop that keeps the best so far")
def choice_by_loop(log_probs, lengths, penalty):
    number, value = 0, -math.inf
    for i, (total, length) in enumerate(zip(log_probs, lengths, strict=True)):
        mean = total * length**-penalty
        if mean > value:
            number, value = i, mean
    return number, value


@wrong(
    "translation.choice",
    "The lengths do not count: the shortest text wins.",
    "log_probs [-2, -3], lengths [1, 4], penalty 1: 0 in place of 1",
)
def choice_without_lengths(log_probs, lengths, penalty):
    assert len(lengths) == len(log_probs)
    assert penalty is not None
    number = max(range(len(log_probs)), key=lambda i: log_probs[i])
    return number, log_probs[number]


@wrong(
    "translation.choice",
    "The plain mean, whatever the penalty.",
    "log_probs [-2, -3], lengths [1, 4], penalty 0: 1 in place of 0",
)
def choice_by_plain_mean(log_probs, lengths, penalty):
    assert penalty is not None
    values = [total / n for total, n in zip(log_probs, lengths, strict=True)]
    number = values.index(max(values))
    return number, values[number]


@wrong(
    "translation.choice",
    "Multiplied by the power of the length: long texts are punished twice.",
    "log_probs [-2, -3], lengths [1, 4], penalty 1: 0 in place of 1",
)
def choice_multiplied(log_probs, lengths, penalty):
    values = [a * n**penalty for a, n in zip(log_probs, lengths, strict=True)]
    number = values.index(max(values))
    return number, values[number]


@wrong(
    "translation.choice",
    "The smallest value is chosen, as if it were a loss.",
    "log_probs [-2, -3], lengths [1, 4], penalty 1: 0 in place of 1",
)
def choice_of_the_smallest(log_probs, lengths, penalty):
    values = [a / n**penalty for a, n in zip(log_probs, lengths, strict=True)]
    number = values.index(min(values))
    return number, values[number]


@wrong(
    "translation.choice",
    "The value comes back before the division by the length.",
    "log_probs [-2, -3], lengths [1, 4], penalty 1: -3 in place of -0.75",
)
def choice_value_undivided(log_probs, lengths, penalty):
    values = [a / n**penalty for a, n in zip(log_probs, lengths, strict=True)]
    number = values.index(max(values))
    return number, log_probs[number]


@right("translation.bleu_clipped", "hits are crossed off one by one")
def clipped_by_crossing_off(output, references, n):
    left = {}
    for reference in references:
        found = {}
        for i in range(len(reference) - n + 1):
            run = " ".join(reference[i : i + n])
            found[run] = found.get(run, 0) + 1
        for run, count in found.items():
            left[run] = max(left.get(run, 0), count)
    hits = 0
    total = 0
    for i in range(len(output) - n + 1):
        run = " ".join(output[i : i + n])
        total += 1
        if left.get(run, 0) > 0:
            left[run] -= 1
            hits += 1
    return hits, total


@right("translation.bleu_clipped", "counters, their union and intersection")
def clipped_by_counters(output, references, n):
    def runs(words):
        return Counter(zip(*(words[i:] for i in range(n)), strict=False))

    most = Counter()
    for reference in references:
        most |= runs(reference)
    mine = runs(output)
    return sum((mine & most).values()), sum(mine.values())


def runs_of(words, n):
    """All runs of n words, for the wrong answers."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@wrong(
    "translation.bleu_clipped",
    "Not clipped: a word counts as often as the output repeats it.",
    "output the the, references [[the, cat]], n 1: 2 hits in place of 1",
)
def clipped_not_at_all(output, references, n):
    known = {run for reference in references for run in runs_of(reference, n)}
    mine = runs_of(output, n)
    return sum(run in known for run in mine), len(mine)


@wrong(
    "translation.bleu_clipped",
    "Clipped at the sum over the references and not at the one with most.",
    "output the the, references [[the, cat], [the, dog]], n 1: 2 in place of 1",
)
def clipped_at_the_sum(output, references, n):
    known = Counter(run for reference in references for run in runs_of(reference, n))
    mine = Counter(runs_of(output, n))
    return sum((mine & known).values()), mine.total()


@wrong(
    "translation.bleu_clipped",
    "Only the first reference is read.",
    "output dog, references [[cat], [dog]], n 1: 0 in place of 1",
)
def clipped_by_first_reference(output, references, n):
    mine = Counter(runs_of(output, n))
    return (mine & Counter(runs_of(references[0], n))).total(), mine.total()


@wrong(
    "translation.bleu_clipped",
    "Sets: a run that occurs twice in both counts once.",
    "output the the, references [[the, the]], n 1: 1 of 1 in place of 2 of 2",
)
def clipped_by_sets(output, references, n):
    known = {run for reference in references for run in runs_of(reference, n)}
    mine = set(runs_of(output, n))
    return len(mine & known), len(mine)


@wrong(
    "translation.bleu_clipped",
    "All words are counted and not all runs.",
    "output a b c, n 2: 3 in place of 2",
)
def clipped_of_all_words(output, references, n):
    most = Counter()
    for reference in references:
        most |= Counter(runs_of(reference, n))
    return (Counter(runs_of(output, n)) & most).total(), len(output)


@wrong(
    "translation.bleu_clipped",
    "The number of runs is negative when the output is shorter than n - 1.",
    "output a, n 4: -2 in place of 0",
)
def clipped_negative_number(output, references, n):
    most = Counter()
    for reference in references:
        most |= Counter(runs_of(reference, n))
    hits = (Counter(runs_of(output, n)) & most).total()
    return hits, len(output) - n + 1


@wrong(
    "translation.bleu_clipped",
    "The hits of the references are added up.",
    "output dog, references [[dog], [dog]], n 1: 2 in place of 1",
)
def clipped_hits_added(output, references, n):
    mine = Counter(runs_of(output, n))
    hits = 0
    for reference in references:
        hits += (mine & Counter(runs_of(reference, n))).total()
    return hits, mine.total()


@wrong(
    "translation.bleu_clipped",
    "The last run is lost.",
    "output a b, references [[a, b]], n 2: 0 of 0 in place of 1 of 1",
)
def clipped_last_run_lost(output, references, n):
    most = Counter()
    for reference in references:
        most |= Counter(runs_of(reference, n))
    mine = Counter(tuple(output[i : i + n]) for i in range(len(output) - n))
    return (mine & most).total(), mine.total()


@right("translation.bleu_brevity", "the minimum is taken in the exponent")
def brevity_in_the_exponent(lengths, reference_lengths):
    if not any(lengths):
        return 0.0
    ratio = np.sum(reference_lengths) / np.sum(lengths)
    return float(np.exp(min(0.0, 1.0 - ratio)))


@right("translation.bleu_brevity", "two cases by if")
def brevity_by_cases(lengths, reference_lengths):
    c = sum(lengths)
    r = sum(reference_lengths)
    if c == 0:
        return 0.0
    if c >= r:
        return 1.0
    return math.e ** ((c - r) / c)


@wrong(
    "translation.bleu_brevity",
    "c and r are swapped: long outputs are punished.",
    "lengths [2], reference lengths [4]: 1 in place of 0.37",
)
def brevity_swapped(lengths, reference_lengths):
    return min(1.0, math.exp(1 - sum(lengths) / sum(reference_lengths)))


@wrong(
    "translation.bleu_brevity",
    "The minimum is forgotten: long outputs are rewarded.",
    "lengths [4], reference lengths [2]: 1.65 in place of 1",
)
def brevity_without_minimum(lengths, reference_lengths):
    return math.exp(1 - sum(reference_lengths) / sum(lengths))


@wrong(
    "translation.bleu_brevity",
    "The mean of the sentences' prices, and not one price of the sums.",
    "lengths [2, 6], reference lengths [4, 4]: 0.68 in place of 1",
)
def brevity_mean_of_prices(lengths, reference_lengths):
    prices = []
    for c, r in zip(lengths, reference_lengths, strict=True):
        prices.append(min(1.0, math.exp(1 - r / c)))
    return sum(prices) / len(prices)


@wrong(
    "translation.bleu_brevity",
    "The plain share of the lengths, without e.",
    "lengths [2], reference lengths [4]: 0.5 in place of 0.37",
)
def brevity_without_exp(lengths, reference_lengths):
    return min(1.0, sum(lengths) / sum(reference_lengths))


@wrong(
    "translation.bleu_brevity",
    "The price is turned round: short outputs get 1 and long ones a factor above 1.",
    "lengths [2], reference lengths [4]: 1 in place of 0.37",
)
def brevity_by_maximum(lengths, reference_lengths):
    return max(1.0, math.exp(1 - sum(reference_lengths) / sum(lengths)))


# 09 · senses


@right("senses.pick", "gather along the positions")
def pick_by_gather(vectors, positions):
    index = positions.reshape(-1, 1, 1).expand(-1, 1, vectors.shape[-1])
    return vectors.gather(1, index).squeeze(1)


@right("senses.pick", "all positions in one long row, counted through")
def pick_from_flat_rows(vectors, positions):
    batch, length, _ = vectors.shape
    return vectors.flatten(0, 1)[torch.arange(batch) * length + positions]


@wrong(
    "senses.pick",
    "Every position is picked in every row.",
    "2 sentences: shape 2 2 m in place of 2 m",
)
def pick_in_every_row(vectors, positions):
    return vectors[:, positions]


@wrong(
    "senses.pick",
    "The position of the first row is used in all rows.",
    "positions [0, 2]: row 1 gives position 0",
)
def pick_at_first_position(vectors, positions):
    return vectors[:, int(positions[0])]


@wrong(
    "senses.pick",
    "The positions pick sentences and not words.",
    "2 sentences, positions [0, 1]: shape 2 t m",
)
def pick_sentences(vectors, positions):
    return vectors[positions]


@wrong(
    "senses.pick",
    "The positions are counted from 1.",
    "positions [1, 2]: the vectors of 0 and 1",
)
def pick_one_before(vectors, positions):
    return vectors[torch.arange(len(vectors)), positions - 1]


@wrong(
    "senses.pick",
    "gather with an index of one column gives one number of each vector.",
    "2 sentences of width 3: shape 2 1 in place of 2 3",
)
def pick_first_number(vectors, positions):
    return vectors.gather(1, positions[:, None, None]).squeeze(1)


@wrong(
    "senses.pick",
    "The mean of the sentence and not the vector at the position.",
    "any positions: the same result",
)
def pick_the_mean(vectors, positions):
    assert len(positions) == len(vectors)
    return vectors.mean(dim=1)


@right("senses.strongest_clue", "the sum over heads, and a search in Python")
def strongest_by_search(weights, position):
    totals = weights.sum(dim=0)[position].tolist()
    return max(range(len(totals)), key=totals.__getitem__)


@right("senses.strongest_clue", "einsum with equal parts of all heads")
def strongest_by_einsum(weights, position):
    heads = weights.shape[0]
    parts = torch.full((heads,), 1 / heads, dtype=weights.dtype)
    row = torch.einsum("h,hk->k", parts, weights[:, position, :])
    return int(torch.topk(row, 1).indices)


@wrong(
    "senses.strongest_clue",
    "The largest weight of any head and not the largest mean.",
    "rows [0.9, 0.1, 0], [0, 0.7, 0.3], [0, 0.7, 0.3]: 0 in place of 1",
)
def strongest_of_one_head(weights, position):
    return weights[:, position].amax(dim=0).argmax().item()


@wrong(
    "senses.strongest_clue",
    "It reads who looks at the word, not what the word looks at.",
    "a map whose column differs from its row",
)
def strongest_looker(weights, position):
    return weights[:, :, position].mean(dim=0).argmax().item()


@wrong(
    "senses.strongest_clue",
    "The first head is taken for the position.",
    "position 1 with two heads: head 1 at all positions; position 2: an error",
)
def strongest_in_head(weights, position):
    return weights[position].mean(dim=0).argmax().item()


@wrong(
    "senses.strongest_clue",
    "Each head has one vote, whatever its weights.",
    "rows [0.51, 0.49], [0.51, 0.49], [0, 1]: 0 in place of 1",
)
def strongest_by_votes(weights, position):
    votes = weights[:, position].argmax(dim=-1)
    return torch.bincount(votes, minlength=weights.shape[-1]).argmax().item()


@wrong(
    "senses.strongest_clue",
    "A place among all heads and keys together, not a key position.",
    "two heads and three keys, largest in head 1: a number of 3 or more",
)
def strongest_flat_place(weights, position):
    return weights[:, position].argmax().item()


@wrong(
    "senses.strongest_clue",
    "The word itself is left out, though it may be the strongest.",
    "a row [0.1, 0.8, 0.1] at position 1: 0 in place of 1",
)
def strongest_but_itself(weights, position):
    row = weights[:, position].mean(dim=0)
    row[position] = -1
    return row.argmax().item()


right("senses.causal_share", "two senses of a word, and nothing to tell them apart")(
    1 / 2
)


wrong(
    "senses.causal_share",
    "One of 48 classes: but the word itself is seen, which leaves its senses.",
    "1 / 48 = 0.02",
)(1 / 48)


wrong(
    "senses.causal_share",
    "As good as the model that sees both sides.",
    "the clue on the right is hidden",
)(1.0)


wrong(
    "senses.causal_share",
    "Always wrong without the clue: but a guess is right now and then.",
    "0 of all",
)(0.0)


@right("senses.hide", "arithmetic with zeros and ones")
def hide_by_arithmetic(ids, chosen, mask_id):
    hidden = chosen.long()
    inputs = ids * (1 - hidden) + mask_id * hidden
    labels = ids * hidden - 100 * (1 - hidden)
    return inputs, labels


@right("senses.hide", "clones with places written by index")
def hide_by_index(ids, chosen, mask_id):
    inputs = ids.clone()
    labels = torch.full_like(ids, -100)
    places = chosen.nonzero(as_tuple=True)
    labels[places] = ids[places]
    inputs[places] = mask_id
    return inputs, labels


@wrong(
    "senses.hide",
    "Labels for all words, not for the hidden ones only.",
    "ids [[5, 6]], chosen [[True, False]]: labels 5 6 in place of 5 -100",
)
def hide_with_all_labels(ids, chosen, mask_id):
    return ids.masked_fill(chosen, mask_id), ids


@wrong(
    "senses.hide",
    "The ids are overwritten before the labels are read.",
    "ids [[5, 6]], chosen [[True, False]], mask 9: label 9, and ids have changed",
)
def hide_in_place(ids, chosen, mask_id):
    inputs = ids
    inputs[chosen] = mask_id
    labels = torch.full_like(ids, -100)
    labels[chosen] = ids[chosen]
    return inputs, labels


@wrong(
    "senses.hide",
    "The labels stand at the visible words.",
    "ids [[5, 6]], chosen [[True, False]]: labels -100 6",
)
def hide_labels_inverted(ids, chosen, mask_id):
    return ids.masked_fill(chosen, mask_id), ids.masked_fill(chosen, -100)


@wrong(
    "senses.hide",
    "The other labels are 0, which is a token and not left out.",
    "ids [[5, 6]], chosen [[True, False]]: labels 5 0",
)
def hide_with_zero_labels(ids, chosen, mask_id):
    return torch.where(chosen, mask_id, ids), ids * chosen


@wrong(
    "senses.hide",
    "The words that were not chosen are hidden.",
    "ids [[5, 6]], chosen [[True, False]], mask 9: inputs 5 9",
)
def hide_the_others(ids, chosen, mask_id):
    return torch.where(chosen, ids, mask_id), torch.where(chosen, ids, -100)


@wrong(
    "senses.hide",
    "Right values, but written into the caller's ids.",
    "ids [[5, 6]], chosen [[True, False]]: ids have changed after the call",
)
def hide_labels_first_in_place(ids, chosen, mask_id):
    labels = ids.masked_fill(~chosen, -100)
    ids[chosen] = mask_id
    return ids, labels


@right("senses.pool", "weights that add up to 1, then einsum")
def pool_by_weights(vectors, real):
    weights = real.to(vectors.dtype)
    weights = weights / weights.sum(dim=1, keepdim=True)
    return torch.einsum("bt,btm->bm", weights, vectors)


@right("senses.pool", "sentence by sentence")
def pool_by_loop(vectors, real):
    means = [row[kept].mean(dim=0) for row, kept in zip(vectors, real, strict=True)]
    return torch.stack(means)


@wrong(
    "senses.pool",
    "Padding is counted in the mean.",
    "vectors [[[2.], [8.]]], real [[True, False]]: 5 in place of 2",
)
def pool_of_everything(vectors, real):
    assert real.shape == vectors.shape[:2]
    return vectors.mean(dim=1)


@wrong(
    "senses.pool",
    "Padding becomes 0 but is still counted.",
    "vectors [[[2.], [8.]]], real [[True, False]]: 1 in place of 2",
)
def pool_of_zeros(vectors, real):
    return (vectors * real.unsqueeze(-1)).mean(dim=1)


@wrong(
    "senses.pool",
    "Divided by the number of real words in the whole batch.",
    "two sentences with one real word each: half of the mean",
)
def pool_counted_in_batch(vectors, real):
    return (vectors * real.unsqueeze(-1)).sum(dim=1) / real.sum()


@wrong(
    "senses.pool",
    "One mean of all real words in the batch, the sentences mixed.",
    "two sentences: shape m in place of b m",
)
def pool_of_the_batch(vectors, real):
    return vectors[real].mean(dim=0)


@wrong(
    "senses.pool",
    "A sum and not a mean.",
    "vectors [[[2.], [4.]]], real [[True, True]]: 6 in place of 3",
)
def pool_summed(vectors, real):
    return vectors.masked_fill(~real.unsqueeze(-1), 0).sum(dim=1)


@wrong(
    "senses.pool",
    "The mask is upside down: the mean of the padding.",
    "vectors [[[2.], [8.]]], real [[True, False]]: 8 in place of 2",
)
def pool_of_padding(vectors, real):
    kept = (~real).unsqueeze(-1)
    return (vectors * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)


# 11 · backbone


@right("backbone.heads_from_qkv", "role by role, then stacked")
def heads_role_by_role(fused, num_heads):
    roles = []
    for role in fused.chunk(3, dim=-1):
        roles.append(torch.stack(role.chunk(num_heads, dim=-1), dim=1))
    return torch.stack(roles)


@right("backbone.heads_from_qkv", "unflatten, then the axes moved one by one")
def heads_by_movedim(fused, num_heads):
    cut_up = fused.unflatten(-1, (3, num_heads, -1))
    return cut_up.movedim(2, 0).movedim(3, 2)


@wrong(
    "backbone.heads_from_qkv",
    "Cut as (h three d): the heads come first and the roles inside them.",
    "fused = arange(12).reshape(1, 1, 12), 2 heads: queries 0 1 6 7",
)
def heads_before_roles(fused, num_heads):
    cut_up = fused.unflatten(-1, (num_heads, 3, -1))
    return cut_up.permute(3, 0, 2, 1, 4)


@wrong(
    "backbone.heads_from_qkv",
    "Cut as (three d h): the columns of the heads alternate.",
    "fused = arange(12).reshape(1, 1, 12), 2 heads: head 0 of queries 0 2",
)
def heads_interleaved(fused, num_heads):
    width = fused.shape[-1] // (3 * num_heads)
    cut_up = fused.unflatten(-1, (3, width, num_heads))
    return cut_up.permute(2, 0, 4, 1, 3)


@wrong(
    "backbone.heads_from_qkv",
    "Reshaped at once without moving axes: rows and roles are mixed.",
    "fused = arange(24).reshape(1, 2, 12), 2 heads: keys begin at 8",
)
def heads_by_one_reshape(fused, num_heads):
    batch, length, width = fused.shape
    return fused.reshape(3, batch, num_heads, length, width // (3 * num_heads))


@wrong(
    "backbone.heads_from_qkv",
    "The heads stay behind the positions.",
    "2 positions, 3 heads: shape 3 b 2 3 d in place of 3 b 3 2 d",
)
def heads_behind_positions(fused, num_heads):
    return fused.unflatten(-1, (3, num_heads, -1)).permute(2, 0, 1, 3, 4)


@wrong(
    "backbone.heads_from_qkv",
    "The roles stay behind the batch.",
    "batch of 2: shape 2 3 h t d in place of 3 2 h t d",
)
def heads_roles_behind_batch(fused, num_heads):
    return fused.unflatten(-1, (3, num_heads, -1)).permute(0, 2, 3, 1, 4)


@wrong(
    "backbone.heads_from_qkv",
    "Keys and queries are swapped.",
    "fused = arange(12).reshape(1, 1, 12), 2 heads: the first role is 4 5 6 7",
)
def heads_keys_first(fused, num_heads):
    cut_up = fused.unflatten(-1, (3, num_heads, -1)).permute(2, 0, 3, 1, 4)
    return cut_up[[1, 0, 2]]


@right("backbone.next_token_loss", "logsumexp minus the logit of the next token")
def next_token_by_logsumexp(logits, ids):
    ahead = logits[:, :-1]
    named = torch.take_along_dim(ahead, ids[:, 1:, None], dim=-1)[..., 0]
    return (ahead.logsumexp(dim=-1) - named).mean()


@right("backbone.next_token_loss", "nll_loss, sentence by sentence, divided at the end")
def next_token_by_sentences(logits, ids):
    total = 0
    for rows, row in zip(logits, ids, strict=True):
        logs = F.log_softmax(rows[:-1], dim=-1)
        total = total + F.nll_loss(logs, row[1:], reduction="sum")
    return total / ids[:, 1:].numel()


@wrong(
    "backbone.next_token_loss",
    "Nothing is shifted: each position predicts itself.",
    "logits that name the next id surely: a large loss",
)
def next_token_not_shifted(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


@wrong(
    "backbone.next_token_loss",
    "Flattened before the shift: a row's end is to predict the next row's beginning.",
    "two rows: one comparison too many",
)
def next_token_across_rows(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:])


@wrong(
    "backbone.next_token_loss",
    "The logits are shifted and not the ids: it predicts the past.",
    "logits that name the next id surely: a large loss",
)
def next_token_of_the_past(logits, ids):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())


@wrong(
    "backbone.next_token_loss",
    "In bits and not in nats.",
    "two tokens with equal logits: 1 in place of 0.69",
)
def next_token_in_bits(logits, ids):
    logs = logits[:, :-1].transpose(1, 2)
    return F.cross_entropy(logs, ids[:, 1:]) / math.log(2)


@wrong(
    "backbone.next_token_loss",
    "Probabilities go into cross_entropy, which takes a softmax itself.",
    "sure logits: the loss stays far above 0",
)
def next_token_of_probabilities(logits, ids):
    probabilities = logits[:, :-1].softmax(dim=-1)
    return F.cross_entropy(probabilities.flatten(0, 1), ids[:, 1:].flatten())


@wrong(
    "backbone.next_token_loss",
    "The classes are brought to axis 1 by reshape, which mixes the numbers.",
    "two positions and three tokens with different logits",
)
def next_token_reshaped(logits, ids):
    ahead = logits[:, :-1]
    batch, length, tokens = ahead.shape
    return F.cross_entropy(ahead.reshape(batch, tokens, length), ids[:, 1:])


@wrong(
    "backbone.next_token_loss",
    "A sum and not a mean.",
    "three ids with equal logits: twice the loss",
)
def next_token_summed(logits, ids):
    flat = logits[:, :-1].flatten(0, 1)
    return F.cross_entropy(flat, ids[:, 1:].flatten(), reduction="sum")


right("backbone.first_loss", "half of the variance comes on top of the logarithm")(
    math.log(2981) + 1.5**2 / 2
)


wrong(
    "backbone.first_loss",
    "The logits' spread is forgotten; this holds for logits near 0.",
    "8.0 in place of 9.125",
)(math.log(2981))


wrong(
    "backbone.first_loss",
    "The standard deviation is added, not half of its square.",
    "9.5 in place of 9.125",
)(math.log(2981) + 1.5)


wrong(
    "backbone.first_loss",
    "The whole variance is added and not half of it.",
    "10.25 in place of 9.125",
)(math.log(2981) + 1.5**2)


wrong(
    "backbone.first_loss",
    "In bits and not in nats.",
    "11.5 in place of 9.125",
)(math.log2(2981))


wrong(
    "backbone.first_loss",
    "Half of the standard deviation, its square forgotten.",
    "8.75 in place of 9.125",
)(math.log(2981) + 1.5 / 2)


@right("backbone.one_batch", "steps + 1 losses, the first and the last of them")
def one_batch_all_losses(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for step in range(steps + 1):
        logits = model(inputs)
        flat = logits.reshape(-1, logits.shape[-1])
        loss = F.cross_entropy(flat, labels.reshape(-1))
        losses.append(loss.item())
        if step < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses[0], losses[-1]


@right("backbone.one_batch", "gradient descent by hand, without an optimizer")
def one_batch_by_hand(model, inputs, labels, steps, rate):
    def loss_now():
        logits = model(inputs)
        return F.cross_entropy(logits.reshape(labels.numel(), -1), labels.reshape(-1))

    before = loss_now().item()
    own = [p for p in model.parameters() if p.requires_grad]
    for _ in range(steps):
        gradients = torch.autograd.grad(loss_now(), own, allow_unused=True)
        with torch.no_grad():
            for parameter, gradient in zip(own, gradients, strict=True):
                if gradient is not None:
                    parameter -= rate * gradient
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "The last loss is that before the last step.",
    "steps 1: both losses are equal",
)
def one_batch_one_step_short(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


@wrong(
    "backbone.one_batch",
    "The gradients are never set back: they add up.",
    "steps 3: each step is larger than the one before",
)
def one_batch_gradients_kept(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    before = loss_now().item()
    for _ in range(steps):
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "The first loss is that after the first step.",
    "steps 2: the first loss is already lower",
)
def one_batch_first_too_late(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
    return losses[0], losses[-1]


@wrong(
    "backbone.one_batch",
    "Adam in place of plain gradient descent.",
    "steps 3, rate 0.1: another last loss",
)
def one_batch_by_adam(model, inputs, labels, steps, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    before = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "Labels are shifted once more, though they come ready.",
    "any batch: the loss of two steps ahead",
)
def one_batch_shifted_twice(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_now():
        logits = model(inputs)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())

    before = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "Momentum: not plain gradient descent.",
    "steps 3: the second step already differs",
)
def one_batch_with_momentum(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)

    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    before = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "Two tensors and not two floats.",
    "any batch: isinstance(answer[0], float) is False",
)
def one_batch_of_tensors(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    before = loss_now()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now()


@right("backbone.loss_by_position", "one column after the other")
def by_position_in_a_loop(logits, labels):
    losses = []
    for column in range(labels.shape[1]):
        losses.append(F.cross_entropy(logits[:, column], labels[:, column]))
    return torch.stack(losses)


@right("backbone.loss_by_position", "log-probabilities picked by three indices")
def by_position_by_index(logits, labels):
    batch, length = labels.shape
    rows = torch.arange(batch)[:, None]
    columns = torch.arange(length)[None, :]
    logs = logits - logits.logsumexp(dim=-1, keepdim=True)
    return -logs[rows, columns, labels].sum(dim=0) / batch


@wrong(
    "backbone.loss_by_position",
    "The mean of each row and not of each position.",
    "2 rows of 3: two numbers in place of three",
)
def by_position_of_rows(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.mean(dim=1)


@wrong(
    "backbone.loss_by_position",
    "The sum over the rows and not the mean.",
    "2 rows: twice the loss",
)
def by_position_summed(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.sum(dim=0)


@wrong(
    "backbone.loss_by_position",
    "The flat losses are folded by the wrong length: rows and positions are mixed.",
    "2 rows of 3: positions 0 and 1 of row 0 are averaged",
)
def by_position_folded_wrongly(logits, labels):
    batch, length = labels.shape
    flat = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return flat.reshape(length, batch).mean(dim=1)


@wrong(
    "backbone.loss_by_position",
    "One number for all positions.",
    "2 rows of 3: a single number",
)
def by_position_one_number(logits, labels):
    return F.cross_entropy(logits.transpose(1, 2), labels)


@wrong(
    "backbone.loss_by_position",
    "Shifted once more, though logits and labels already belong together.",
    "2 rows of 3: two numbers in place of three",
)
def by_position_shifted(logits, labels):
    losses = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none"
    )
    return losses.mean(dim=0)


@wrong(
    "backbone.loss_by_position",
    "The logarithm of the mean probability and not the mean of the logarithms.",
    "2 rows with probabilities 0.9 and 0.1: 0.69 in place of 1.20",
)
def by_position_log_of_mean(logits, labels):
    probabilities = logits.softmax(dim=-1)
    picked = probabilities.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -picked.mean(dim=0).log()


@right("backbone.count_weights", "part by part: biases, two norms a block, tied output")
def count_part_by_part(vocab_size, length, d_model, blocks, d_ff):
    norm = 2 * d_model
    attention = d_model * 3 * d_model + 3 * d_model + d_model * d_model + d_model
    feedforward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    tables = vocab_size * d_model + length * d_model
    return tables + blocks * (2 * norm + attention + feedforward) + norm


@wrong(
    "backbone.count_weights",
    "The table of positions is forgotten.",
    "vocab_size 10, length 6, d_model 4, 2 blocks, d_ff 16: 24 too few",
)
def count_without_positions(vocab_size, length, d_model, blocks, d_ff):
    block = 4 * d_model**2 + 9 * d_model + 2 * d_model * d_ff + d_ff
    assert length
    return vocab_size * d_model + blocks * block + 2 * d_model


@wrong(
    "backbone.count_weights",
    "One block is counted, however many there are.",
    "vocab_size 10, length 6, d_model 4, 2 blocks, d_ff 16: one block too few",
)
def count_one_block(vocab_size, length, d_model, blocks, d_ff):
    block = 4 * d_model**2 + 9 * d_model + 2 * d_model * d_ff + d_ff
    assert blocks
    return (vocab_size + length + 2) * d_model + block


@wrong(
    "backbone.count_weights",
    "The feed-forward is taken to be four times as wide as the model.",
    "vocab_size 10, length 6, d_model 4, 2 blocks, d_ff 8: too many",
)
def count_four_times_as_wide(vocab_size, length, d_model, blocks, d_ff):
    assert d_ff
    block = 12 * d_model**2 + 13 * d_model
    return (vocab_size + length + 2) * d_model + blocks * block


@wrong(
    "backbone.count_weights",
    "The matrices of attention and feed-forward only, no table of words.",
    "vocab_size 10, length 6, d_model 4, 2 blocks, d_ff 16",
)
def count_blocks_only(vocab_size, length, d_model, blocks, d_ff):
    assert vocab_size
    assert length
    return blocks * (4 * d_model**2 + 2 * d_model * d_ff)
