"""Answers of a stranger, written from the prompts alone."""

import math
from functools import reduce

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# What the notebooks hand to their readers.


def attention(queries, keys, values):
    scores = queries @ keys.transpose(-2, -1)
    scores = scores / queries.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ values, weights


def rotary_angles(length, head_dim):
    frequencies = 10_000 ** (-torch.arange(0, head_dim, 2) / head_dim)
    return torch.outer(torch.arange(float(length)), frequencies)


def turn(x, angles):
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    turned = [first * cos - second * sin, first * sin + second * cos]
    return torch.cat(turned, dim=-1)


# 01


@wrong(
    "attention.scores",
    "The products are not divided by the root of the width.",
    "width 4: every score comes twice as large",
)
def scores_unscaled(queries, keys):
    return torch.einsum("...qd,...kd->...qk", queries, keys)


@wrong(
    "attention.scores",
    "Divided by the width itself, the root is forgotten.",
    "width 4: every score comes half as large",
)
def scores_without_root(queries, keys):
    return queries @ keys.transpose(-1, -2) / queries.shape[-1]


@wrong(
    "attention.scores",
    "Divided by the root of the number of keys, not of the width.",
    "3 keys of width 4: divided by 1.73 and not by 2",
)
def scores_by_number_of_keys(queries, keys):
    return queries @ keys.transpose(-1, -2) / math.sqrt(keys.shape[-2])


@right("attention.scores", "every query meets every key by broadcasting, then a sum")
def scores_by_broadcasting(queries, keys):
    width = queries.shape[-1]
    products = queries.unsqueeze(-2) * keys.unsqueeze(-3)
    return products.sum(dim=-1) / math.sqrt(width)


@right("attention.scores", "the fourth root goes to each side, one key column a step")
def scores_column_by_column(queries, keys):
    root = queries.shape[-1] ** 0.25
    columns = []
    for key in (keys / root).unbind(dim=-2):
        columns.append((queries / root * key.unsqueeze(-2)).sum(dim=-1))
    return torch.stack(columns, dim=-1)


@wrong(
    "attention.weights",
    "Nothing is subtracted before exp.",
    "scores 1000 and 0: inf / inf is nan",
)
def weights_overflowing(scores):
    powers = scores.exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The largest score of the whole tensor is subtracted, not that of the row.",
    "rows (0, 0) and (1000, 0): the first row underflows to 0 / 0",
)
def weights_by_global_maximum(scores):
    powers = (scores - scores.max()).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The shares are taken over the queries.",
    "any scores with two queries: columns and not rows add up to 1",
)
def weights_over_queries(scores):
    powers = (scores - scores.amax(dim=-2, keepdim=True)).exp()
    return powers / powers.sum(dim=-2, keepdim=True)


@wrong(
    "attention.weights",
    "The largest score is subtracted in place, from the caller's tensor.",
    "any scores whose row has another maximum than 0: they are changed afterwards",
)
def weights_in_place(scores):
    scores -= scores.amax(dim=-1, keepdim=True)
    powers = scores.exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The mean of the row is subtracted, which leaves large differences large.",
    "scores (2000, 0): exp(1000) is inf, the weight nan",
)
def weights_minus_mean(scores):
    powers = (scores - scores.mean(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@right("attention.weights", "one key at a time, with a running maximum and total")
def weights_online(scores):
    top = scores[..., 0]
    total = torch.ones_like(top)
    for score in scores[..., 1:].unbind(dim=-1):
        higher = torch.maximum(top, score)
        total = total * (top - higher).exp() + (score - higher).exp()
        top = higher
    return (scores - top[..., None]).exp() / total[..., None]


@right("attention.weights", "the maximum from a sort, the division in the exponent")
def weights_in_the_exponent(scores):
    moved = scores - scores.sort(dim=-1).values[..., -1:]
    return (moved - moved.exp().sum(dim=-1, keepdim=True).log()).exp()


@wrong(
    "attention.context",
    "A softmax is taken of the weights, which are shares already.",
    "weights (1, 0): mixed 0.73 to 0.27",
)
def context_softmax_again(weights, values):
    return weights.softmax(dim=-1) @ values


@wrong(
    "attention.context",
    "The mean over the keys in place of the sum.",
    "two keys: half of the context",
)
def context_as_mean(weights, values):
    products = weights.unsqueeze(-1) * values.unsqueeze(-3)
    return products.mean(dim=-2)


@wrong(
    "attention.context",
    "Each query takes the one value with the largest weight.",
    "weights (0.6, 0.4): the first value, unmixed",
)
def context_of_the_largest(weights, values):
    chosen = F.one_hot(weights.argmax(dim=-1), weights.shape[-1])
    return chosen.to(values.dtype) @ values


@right("attention.context", "a sum over the keys, one outer product for each")
def context_key_by_key(weights, values):
    context = torch.zeros_like(weights[..., :1] * values[..., :1, :])
    for key in range(values.shape[-2]):
        share = weights[..., :, key].unsqueeze(-1)
        context = context + share * values[..., key, :].unsqueeze(-2)
    return context


@wrong(
    "attention.cosine",
    "The cosines are multiplied by the temperature.",
    "temperature 0.1: the weights get warm and not cold",
)
def cosine_times_temperature(queries, keys, values, temperature):
    cosines = F.normalize(queries, dim=-1) @ F.normalize(keys, dim=-1).T
    return (cosines * temperature).softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "Only the keys get length 1, a long query still sharpens.",
    "a query of length 10: scores up to 10 / temperature",
)
def cosine_of_keys_only(queries, keys, values, temperature):
    directions = keys / keys.norm(dim=-1, keepdim=True)
    return (queries @ directions.T / temperature).softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "The queries are divided by the temperature before they are normalized.",
    "any temperature other than 1: it has no effect",
)
def cosine_temperature_lost(queries, keys, values, temperature):
    queries = F.normalize(queries / temperature, dim=-1)
    keys = F.normalize(keys, dim=-1)
    return (queries @ keys.T).softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "Divided by the squared lengths, the root is forgotten.",
    "a query and a key of length 2 in one direction: cosine 1/4",
)
def cosine_without_root(queries, keys, values, temperature):
    queries = queries / (queries**2).sum(dim=-1, keepdim=True)
    keys = keys / (keys**2).sum(dim=-1, keepdim=True)
    return (queries @ keys.T / temperature).softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "The cosines are divided by the root of the width as well.",
    "width 4: the temperature is doubled",
)
def cosine_scaled_too(queries, keys, values, temperature):
    queries = F.normalize(queries, dim=-1)
    keys = F.normalize(keys, dim=-1)
    context, _ = attention(queries / temperature, keys, values)
    return context


@right("attention.cosine", "lengths and products all come from one Gram matrix")
def cosine_by_gram_matrix(queries, keys, values, temperature):
    everyone = torch.cat([queries, keys])
    gram = everyone @ everyone.T
    lengths = gram.diagonal().sqrt()
    cosines = (gram / torch.outer(lengths, lengths))[: len(queries), len(queries) :]
    powers = ((cosines - cosines.amax(dim=1, keepdim=True)) / temperature).exp()
    return torch.einsum("qk,ke->qe", powers, values) / powers.sum(dim=1)[:, None]


@right("attention.cosine", "two loops, each cosine from three dot products")
def cosine_by_loops(queries, keys, values, temperature):
    rows = []
    for query in queries:
        cosines = [(query @ k) / (query @ query * (k @ k)).sqrt() for k in keys]
        shares = torch.stack(cosines).div(temperature).softmax(dim=0)
        rows.append(
            sum(share * value for share, value in zip(shares, values, strict=True))
        )
    return torch.stack(rows)


@wrong(
    "attention.gradient",
    "Only the slope by the own score; the other weights are left out.",
    "weights (0.5, 0.5), gradients (1, 0): (0.25, 0) and not (0.25, -0.25)",
)
def gradient_own_slope(weights, gradients):
    return gradients * weights * (1 - weights)


@wrong(
    "attention.gradient",
    "The plain mean of the gradients is taken off, not the weighted one.",
    "weights (0.9, 0.1), gradients (1, 0): (0.45, -0.05) and not (0.09, -0.09)",
)
def gradient_plain_mean(weights, gradients):
    return weights * (gradients - gradients.mean(dim=-1, keepdim=True))


@wrong(
    "attention.gradient",
    "The sum runs over all rows and not over the keys of one.",
    "two rows: each gets the other's sum as well",
)
def gradient_sum_of_all(weights, gradients):
    return weights * (gradients - (weights * gradients).sum())


@wrong(
    "attention.gradient",
    "The minus of the slope by other scores is lost.",
    "weights (0.5, 0.5), gradients (1, 0): (0.25, 0.25) and not (0.25, -0.25)",
)
def gradient_without_minus(weights, gradients):
    own = weights * (1 - weights) * gradients
    total = (weights * gradients).sum(dim=-1, keepdim=True)
    return own + weights * (total - weights * gradients)


@right("attention.gradient", "the whole Jacobian of each row, then a product with it")
def gradient_by_jacobian(weights, gradients):
    outer = torch.einsum("...j,...k->...jk", weights, weights)
    jacobian = torch.diag_embed(weights) - outer
    return (jacobian @ gradients.unsqueeze(-1)).squeeze(-1)


@right("attention.gradient", "by the differences of gradients, all pairs at once")
def gradient_by_pairs(weights, gradients):
    differences = gradients.unsqueeze(-1) - gradients.unsqueeze(-2)
    return torch.einsum("...j,...k,...jk->...j", weights, weights, differences)


@wrong(
    "attention.look_up",
    "Plain one-hot vectors: scores of 0.35 and 0 leave the weights nearly equal.",
    "four items: the right animal gets 0.32",
)
def look_up_soft(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    context, _ = attention(query, keys, values)
    return context[0]


@wrong(
    "attention.look_up",
    "Keys and values are swapped: asks for the animal with this id, gets a color.",
    "color 2, animals (5, 2), colors (2, 7): the vector of 7 and not of 5",
)
def look_up_swapped(color, animals, colors):
    query = 100 * F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(animals, 8).double()
    values = F.one_hot(colors, 8).double()
    context, _ = attention(query, keys, values)
    return context[0]


@wrong(
    "attention.look_up",
    "Sharpened by 10 only, of which the root of 8 takes its part.",
    "eight items: the right animal gets 0.83",
)
def look_up_too_warm(color, animals, colors):
    query = 10 * F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    context, _ = attention(query, keys, values)
    return context[0]


@wrong(
    "attention.look_up",
    "The values are the colors: it returns what was asked.",
    "color 2: the vector of 2, whatever the animal",
)
def look_up_echo(color, animals, colors):
    one_hot = F.one_hot(colors, 8).double()
    query = 100 * F.one_hot(torch.tensor([color]), 8).double()
    context, _ = attention(query, one_hot, one_hot)
    return context[0]


@right("attention.look_up", "all other colors are pushed away, the asked one gets 0")
def look_up_by_pushing(color, animals, colors):
    query = 1 - F.one_hot(torch.tensor(color), 8).double()
    keys = -200 * F.one_hot(colors, 8).double()
    context, _ = attention(query[None], keys, F.one_hot(animals, 8).double())
    return context.squeeze(0)


@right("attention.look_up", "asks for all eight colors at once and takes one row")
def look_up_all_colors(color, animals, colors):
    questions = 1000 * torch.eye(8).double()
    keys = F.one_hot(colors, 8).double()
    return attention(questions, keys, F.one_hot(animals, 8).double())[0][color]


# 02


@wrong(
    "heads.split",
    "Reshaped in one go, so that a head gets some positions and all columns.",
    "two heads, two positions: head 0 is position 0",
)
def split_without_transpose(x, num_heads):
    b, t, width = x.shape
    return x.reshape(b, num_heads, t, width // num_heads)


@wrong(
    "heads.split",
    "The head is the inner axis: every second column goes to head 0.",
    "width 4, two heads: head 0 gets columns 0 and 2",
)
def split_inner_heads(x, num_heads):
    b, t, width = x.shape
    return x.reshape(b, t, width // num_heads, num_heads).permute(0, 3, 1, 2)


@wrong(
    "heads.split",
    "The heads are not brought forward.",
    'any x: the result is "b t h d"',
)
def split_not_forward(x, num_heads):
    b, t, width = x.shape
    return x.reshape(b, t, num_heads, width // num_heads)


@right("heads.split", "columns first: transposed, cut, and transposed back")
def split_columns_first(x, num_heads):
    b, t, width = x.shape
    columns = x.transpose(1, 2).reshape(b, num_heads, width // num_heads, t)
    return columns.transpose(2, 3)


@wrong(
    "heads.merge",
    "Reshaped without bringing the positions forward.",
    "two heads, two positions: row 0 is head 0 at both positions",
)
def merge_without_transpose(context):
    b, h, q, d = context.shape
    return context.reshape(b, q, h * d)


@wrong(
    "heads.merge",
    "The heads are interleaved, (d h) and not (h d).",
    "two heads of width 2: the middle columns are swapped",
)
def merge_interleaved(context):
    b, h, q, d = context.shape
    return context.permute(0, 2, 3, 1).reshape(b, q, d * h)


@wrong(
    "heads.merge",
    "The wrong two axes are swapped before the reshape.",
    "two heads, two positions: a row mixes positions",
)
def merge_last_axes(context):
    b, h, q, d = context.shape
    return context.transpose(2, 3).reshape(b, q, h * d)


@right("heads.merge", "columns first: the positions go to the end and come back")
def merge_columns_first(context):
    b, h, q, d = context.shape
    return context.transpose(2, 3).reshape(b, h * d, q).transpose(1, 2)


@wrong(
    "heads.count",
    "The output's bias is counted with the width of the heads.",
    "d_model 64, 3 heads of 10: 30 biases in place of 64",
)
def count_four_alike(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    return 4 * (d_model * width + width)


@wrong(
    "heads.count",
    "The biases are left out.",
    "any sizes: 3 h d + m too few",
)
def count_without_biases(d_model, num_heads, head_dim):
    return 4 * d_model * num_heads * head_dim


@wrong(
    "heads.count",
    "Takes h times d for m, head_dim is not looked at.",
    "d_model 64, 3 heads of 10: that of 64 columns",
)
def count_of_standard_layer(d_model, num_heads, head_dim):
    return 4 * d_model * (d_model + 1)


@wrong(
    "heads.count",
    "A full output matrix with its bias for each head.",
    "2 heads: one bias of width m too many",
)
def count_output_bias_each(d_model, num_heads, head_dim):
    one = 3 * (d_model + 1) * head_dim + (head_dim + 1) * d_model
    return num_heads * one


@right("heads.count", "builds the four layers without memory and counts their numbers")
def count_by_building(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    layers = [nn.Linear(d_model, width, device="meta") for _ in range(3)]
    layers.append(nn.Linear(width, d_model, device="meta"))
    return sum(p.numel() for layer in layers for p in layer.parameters())


@right("heads.count", "factored: four matrices of one more row each, less a corner")
def count_factored(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    return (4 * width + 1) * (d_model + 1) - width - 1


def _heads(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _whole_layer(x, w_q, w_k, w_v, num_heads, scale, axis):
    queries, keys, values = (_heads(x @ w, num_heads) for w in (w_q, w_k, w_v))
    weights = (queries @ keys.mT / scale).softmax(dim=axis)
    return weights @ values


@wrong(
    "heads.layer",
    "Scaled by the width of all heads together.",
    "two heads of width 2: divided by 2 and not by the root of 2",
)
def layer_scaled_by_width(x, w_q, w_k, w_v, w_o, num_heads):
    scale = w_q.shape[-1] ** 0.5
    context = _whole_layer(x, w_q, w_k, w_v, num_heads, scale, -1)
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "The heads are merged without bringing the positions forward.",
    "two heads, two positions: the second half of a row is another position",
)
def layer_merged_wrong(x, w_q, w_k, w_v, w_o, num_heads):
    scale = (w_q.shape[-1] // num_heads) ** 0.5
    context = _whole_layer(x, w_q, w_k, w_v, num_heads, scale, -1)
    return context.reshape(*x.shape[:2], -1) @ w_o


@wrong(
    "heads.layer",
    "Softmax over the queries.",
    "any x with two words: the shares of a query do not add up to 1",
)
def layer_softmax_of_queries(x, w_q, w_k, w_v, w_o, num_heads):
    scale = (w_q.shape[-1] // num_heads) ** 0.5
    context = _whole_layer(x, w_q, w_k, w_v, num_heads, scale, -2)
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "Scaled by the width of the values.",
    "d = 4, e = 9: divided by 3 and not by 2",
)
def layer_scaled_by_values(x, w_q, w_k, w_v, w_o, num_heads):
    scale = (w_v.shape[-1] // num_heads) ** 0.5
    context = _whole_layer(x, w_q, w_k, w_v, num_heads, scale, -1)
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "One attention over the full width, the heads are never cut.",
    "two heads: both halves of the context share one row of weights",
)
def layer_one_head(x, w_q, w_k, w_v, w_o, num_heads):
    scale = (w_q.shape[-1] // num_heads) ** 0.5
    context = _whole_layer(x, w_q, w_k, w_v, 1, scale, -1)
    return context.transpose(1, 2).flatten(2) @ w_o


@right("heads.layer", "a sum over heads, each with one matrix QK and one matrix OV")
def layer_by_two_matrices(x, w_q, w_k, w_v, w_o, num_heads):
    d = w_q.shape[1] // num_heads
    e = w_v.shape[1] // num_heads
    output = 0
    for head in range(num_heads):
        look = slice(head * d, (head + 1) * d)
        pass_on = slice(head * e, (head + 1) * e)
        qk = w_q[:, look] @ w_k[:, look].T
        ov = w_v[:, pass_on] @ w_o[pass_on]
        scores = torch.einsum("bqm,mn,bkn->bqk", x, qk, x) / math.sqrt(d)
        output = output + scores.softmax(dim=-1) @ x @ ov
    return output


@right("heads.layer", "PyTorch's fused function on chunks, joined by cat")
def layer_by_chunks(x, w_q, w_k, w_v, w_o, num_heads):
    cut = [(x @ w).chunk(num_heads, dim=-1) for w in (w_q, w_k, w_v)]
    heads = [F.scaled_dot_product_attention(*parts) for parts in zip(*cut, strict=True)]
    return F.linear(torch.cat(heads, dim=-1), w_o.T)


# 03


@wrong(
    "masks.convert",
    "Booleans are handed on as they are.",
    "(True, False): (True, False) and not (False, True)",
)
def convert_booleans_kept(theirs):
    if theirs.dtype == torch.bool:
        return theirs.clone()
    return theirs != -torch.inf


@wrong(
    "masks.convert",
    "Of numbers only 0 lets a word look, a mild penalty hides it.",
    "(0, -1.5, -inf): (True, False, False)",
)
def convert_zero_only(theirs):
    if theirs.dtype == torch.bool:
        return ~theirs
    return theirs == 0


@wrong(
    "masks.convert",
    "Of numbers the hidden places are returned: upside down, booleans are right.",
    "(0, -inf) as numbers gives (False, True)",
)
def convert_numbers_upside_down(theirs):
    if theirs.dtype == torch.bool:
        return torch.logical_not(theirs)
    return torch.isneginf(theirs)


@wrong(
    "masks.convert",
    "Numbers above 0 are taken for permission, so 0 hides.",
    "(0, -inf): (False, False)",
)
def convert_positive_only(theirs):
    if theirs.dtype == torch.bool:
        return ~theirs
    return theirs > 0


@right("masks.convert", "booleans become numbers first, then one rule serves both")
def convert_by_way_of_numbers(theirs):
    if theirs.dtype == torch.bool:
        theirs = torch.zeros(theirs.shape).masked_fill(theirs, -math.inf)
    return torch.isneginf(theirs).logical_not()


@wrong(
    "masks.window",
    "One word too many: itself and width words before it.",
    "length 3, width 1: row 1 sees word 0",
)
def window_too_wide(length, width):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return (back >= 0) & (back <= width)


@wrong(
    "masks.window",
    "The window opens to both sides.",
    "length 3, width 2: word 0 sees word 1",
)
def window_both_sides(length, width):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return back.abs() < width


@wrong(
    "masks.window",
    "Only the past is cut off, the future stays open.",
    "length 3, width 1: word 0 sees words 1 and 2",
)
def window_future_open(length, width):
    return torch.ones(length, length).triu(1 - width).bool()


@wrong(
    "masks.window",
    "The word itself is not counted in, nor seen.",
    "length 3, width 2: row 1 sees word 0 only",
)
def window_without_itself(length, width):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return (back > 0) & (back < width)


@right("masks.window", "one diagonal after another is laid in")
def window_by_diagonals(length, width):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for back in range(min(length, width)):
        mask = mask | torch.ones(length - back).diag(-back).bool()
    return mask


@right("masks.window", "a triangle less the triangle further back")
def window_by_difference(length, width):
    seen = torch.ones(length, length).tril()
    return seen.ne(seen.tril(-width))


wrong(
    "masks.two_new",
    "A causal mask of two rows, as if the queries were the first two words.",
    "row 0 sees word 0 only",
)(torch.ones(2, 7).tril().bool())
wrong(
    "masks.two_new",
    "The first new word sees the second.",
    "row 0 ends in True",
)(torch.ones(2, 7).bool())
wrong(
    "masks.two_new",
    "The new words do not see themselves.",
    "row 0 has five True, row 1 six",
)(torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool())
wrong(
    "masks.two_new",
    "Each new word sees the kept ones and itself, not the other new one.",
    "row 1 has False at word 5",
)(torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 0, 1]]).bool())
right("masks.two_new", "the last two rows of the mask of seven words")(
    torch.ones(7, 7).tril()[5:].bool()
)


@wrong(
    "masks.shift",
    "Inputs and labels are swapped.",
    "ids (1, 2, 3): inputs (2, 3), labels (1, 2)",
)
def shift_swapped(ids):
    return ids[:, 1:], ids[:, :-1]


@wrong(
    "masks.shift",
    "The label is the word itself.",
    "ids (1, 2, 3): labels (1, 2)",
)
def shift_not_at_all(ids):
    return ids[:, :-1], ids[:, :-1].clone()


@wrong(
    "masks.shift",
    "The rows are moved and not the columns.",
    "two texts: the second becomes the label of the first",
)
def shift_of_rows(ids):
    return ids[:-1], ids[1:]


@wrong(
    "masks.shift",
    "Rolled the wrong way: the label is the word before.",
    "ids (1, 2, 3): labels (3, 1)",
)
def shift_rolled_back(ids):
    return ids[:, :-1], ids.roll(1, dims=1)[:, :-1]


@right("masks.shift", "two overlapping windows of t - 1 words")
def shift_by_windows(ids):
    inputs, labels = ids.unfold(1, ids.shape[1] - 1, 1).unbind(dim=1)
    return inputs, labels


@wrong(
    "masks.causal",
    "Upside down: each word sees the future.",
    "length 2: row 0 sees word 1, row 1 does not see word 0",
)
def causal_future(length):
    return torch.ones(length, length, dtype=torch.bool).triu()


@wrong(
    "masks.causal",
    "A word does not see itself.",
    "length 2: row 0 is empty",
)
def causal_without_itself(length):
    places = torch.arange(length)
    return places[None, :] < places[:, None]


@wrong(
    "masks.causal",
    "One word of the future is open.",
    "length 2: row 0 sees word 1",
)
def causal_one_ahead(length):
    return torch.ones(length, length, dtype=torch.bool).tril(1)


@wrong(
    "masks.causal",
    "Numbers, not booleans.",
    "length 2: ((1.0, 0.0), (1.0, 1.0))",
)
def causal_of_numbers(length):
    return torch.tril(torch.ones(length, length))


@right("masks.causal", "running sums down the columns of the identity matrix")
def causal_by_running_sums(length):
    return torch.eye(length, dtype=torch.int64).cumsum(dim=0) == 1


@wrong(
    "masks.padding",
    "True where padding stands.",
    "ids (5, 0), padding 0: (False, True)",
)
def padding_upside_down(ids, pad_id):
    return (ids == pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "The axis of the queries: padding does not look, but it is looked at.",
    'any ids: the shape is "b 1 k 1"',
)
def padding_of_queries(ids, pad_id):
    return (ids != pad_id)[:, None, :, None]


@wrong(
    "masks.padding",
    "Padding is taken to be 0, whatever pad_id says.",
    "ids (5, 3), pad_id 3: (True, True)",
)
def padding_is_zero(ids, pad_id):
    return ids.bool()[:, None, None, :]


@wrong(
    "masks.padding",
    "All ids up to pad_id are hidden, as if padding were the lowest.",
    "ids (1, 3), pad_id 3: (False, False) and not (True, False)",
)
def padding_and_below(ids, pad_id):
    return (ids > pad_id).unsqueeze(1).unsqueeze(1)


@right("masks.padding", "row by row from Python lists")
def padding_from_lists(ids, pad_id):
    rows = [[[[word != pad_id for word in row]]] for row in ids.tolist()]
    return torch.tensor(rows, dtype=torch.bool, device=ids.device)


@wrong(
    "masks.join",
    "May look where one of the two allows it.",
    "True and False: True",
)
def join_by_or(first, second):
    return first | second


@wrong(
    "masks.join",
    "May look where the two agree, also where both forbid.",
    "False and False: True",
)
def join_where_equal(first, second):
    return first == second


@wrong(
    "masks.join",
    "Numbers 0 and 1 come back, not booleans.",
    "True and True: 1.0",
)
def join_of_numbers(first, second):
    return first.float() * second.float()


@wrong(
    "masks.join",
    "The first mask is overwritten.",
    "two masks of one shape: the first has changed afterwards",
)
def join_in_place(first, second):
    first, second = torch.broadcast_tensors(first, second)
    if first.is_contiguous():
        return first.logical_and_(second)
    return first & second


@right("masks.join", "where the first allows it the second decides")
def join_by_where(first, second):
    return torch.where(first, second, torch.zeros_like(second))


@right("masks.join", "the smaller of two numbers, made boolean again")
def join_by_minimum(first, second):
    return torch.minimum(first.byte(), second.byte()).bool()


@wrong(
    "masks.weights",
    "Filled with -inf, and nothing done about empty rows.",
    "a row with nothing to look at: nan",
)
def hidden_infinite(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)


@wrong(
    "masks.weights",
    "The lowest number is filled in and never cleared.",
    "a row of three with nothing to look at: 1/3 each",
)
def hidden_lowest(scores, mask):
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)


@wrong(
    "masks.weights",
    "Softmax over all keys, the hidden weights are cleared afterwards.",
    "scores (0, 0), one hidden: (0.5, 0) and not (1, 0)",
)
def hidden_afterwards(scores, mask):
    return scores.softmax(dim=-1) * mask


@wrong(
    "masks.weights",
    "Hidden scores are set to 0, which is a score like any other.",
    "scores (0, 5), the second hidden: (0.5, 0) and not (1, 0)",
)
def hidden_score_zero(scores, mask):
    return (scores * mask).softmax(dim=-1).masked_fill(~mask, 0.0)


@wrong(
    "masks.weights",
    "Cleared after the softmax and rescaled by a sum that may be too small.",
    "scores (0, 50), the second hidden: nearly 0 and not 1",
)
def hidden_rescaled(scores, mask):
    weights = scores.softmax(dim=-1) * mask
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


@right("masks.weights", "from exp and sum; an empty row divides 0 by 1")
def hidden_by_exp(scores, mask):
    seen = torch.where(mask, scores, -torch.inf)
    top = seen.amax(dim=-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    powers = (seen - top).exp()
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1)


@right("masks.weights", "one more key that all may see, only where a row is empty")
def hidden_with_a_sink(scores, mask):
    mask = mask.expand(scores.shape)
    empty = mask.logical_not().all(dim=-1, keepdim=True)
    sink = torch.zeros_like(scores[..., :1]).masked_fill(~empty, -torch.inf)
    seen = scores.masked_fill(~mask, -torch.inf)
    return torch.cat([seen, sink], dim=-1).softmax(dim=-1)[..., :-1]


# 04


def _table(positions, frequencies):
    angles = torch.outer(positions.double(), frequencies.double())
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@wrong(
    "positions.sinusoids",
    "All sines first, then all cosines.",
    "length 2, width 4: columns 1 and 2 are swapped",
)
def sinusoids_in_halves(length, d_model):
    frequencies = 10_000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    angles = torch.outer(torch.arange(length).double(), frequencies)
    return torch.cat([angles.sin(), angles.cos()], dim=1)


@wrong(
    "positions.sinusoids",
    "The exponent has i where 2i belongs.",
    "width 4: pair 1 turns by 0.1 and not by 0.01",
)
def sinusoids_too_fast(length, d_model):
    pairs = torch.arange(d_model // 2).double()
    return _table(torch.arange(length), 10_000.0 ** (-pairs / d_model))


@wrong(
    "positions.sinusoids",
    "Every column has a frequency of its own, also within a pair.",
    "width 4: column 1 is cos(0.1 t) and not cos(t)",
)
def sinusoids_by_column(length, d_model):
    frequencies = 10_000.0 ** (-torch.arange(d_model).double() / d_model)
    angles = torch.outer(torch.arange(length).double(), frequencies)
    even = torch.arange(d_model) % 2 == 0
    return torch.where(even, angles.sin(), angles.cos())


@wrong(
    "positions.sinusoids",
    "Positions count from 1.",
    "row 0 is that of position 1",
)
def sinusoids_from_one(length, d_model):
    exponents = -torch.arange(0, d_model, 2).double() / d_model
    return _table(torch.arange(1, length + 1), 10_000.0**exponents)


@wrong(
    "positions.sinusoids",
    "The cosine stands before the sine.",
    "row 0 is (1, 0, 1, 0)",
)
def sinusoids_cosine_first(length, d_model):
    frequencies = 10_000.0 ** (-torch.arange(0, d_model, 2).double() / d_model)
    angles = torch.outer(torch.arange(length).double(), frequencies)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(1)


@right("positions.sinusoids", "imaginary and real parts of numbers on the unit circle")
def sinusoids_on_the_circle(length, d_model):
    steps = np.arange(0, d_model, 2) / d_model
    hands = np.exp(1j * np.outer(np.arange(length), 10_000.0**-steps))
    table = np.empty((length, d_model))
    table[:, 0::2] = hands.imag
    table[:, 1::2] = hands.real
    return torch.from_numpy(table)


@right("positions.sinusoids", "a cosine is a sine a quarter turn on; number by number")
def sinusoids_by_quarter_turn(length, d_model):
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for t in range(length):
        for column in range(d_model):
            pair, is_cosine = divmod(column, 2)
            angle = t / 10_000 ** (2 * pair / d_model)
            table[t, column] = math.sin(angle + is_cosine * math.pi / 2)
    return table


wrong(
    "positions.hand", "The exponent has i where 2i belongs.", "30 · 10000^(-4/16) = 3"
)(3.0)
wrong("positions.hand", "In degrees.", "0.3 radians are 17.19 degrees")(
    math.degrees(0.3)
)
wrong(
    "positions.hand", "Pairs are counted from 1.", "30 · 10000^(-6/16), the pair before"
)(30 * 10_000 ** (-6 / 16))
wrong("positions.hand", "The frequency, the turn of one position.", "0.01")(0.01)
wrong("positions.hand", "The entry of the table.", "sin 0.3")(math.sin(0.3))
right("positions.hand", "30 · 10000^(-8/16) = 30 / 100")(30 / 100)


def _angles_of(row, steps):
    width = row.shape[-1]
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    return steps * 10_000.0**-exponents


@wrong(
    "positions.step",
    "Turned the other way: the row so many steps before.",
    "row 0, one step: sin(-1) in column 0",
)
def step_backward(row, steps):
    angles = _angles_of(row, steps)
    sin, cos = row[0::2], row[1::2]
    earlier = [
        sin * angles.cos() - cos * angles.sin(),
        cos * angles.cos() + sin * angles.sin(),
    ]
    return torch.stack(earlier, dim=-1).flatten().to(row.dtype)


@wrong(
    "positions.step",
    "The row of position `steps` is added, as if places added up like numbers.",
    "row 0, one step: column 1 is 1 + cos 1",
)
def step_added(row, steps):
    angles = _angles_of(row, steps)
    added = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()
    return row + added.to(row.dtype)


@wrong(
    "positions.step",
    "Pairs are taken from the two halves of the row.",
    "width 4: columns 0 and 2 are turned together",
)
def step_of_halves(row, steps):
    angles = _angles_of(row, steps)
    sin, cos = row.chunk(2)
    later = [
        sin * angles.cos() + cos * angles.sin(),
        cos * angles.cos() - sin * angles.sin(),
    ]
    return torch.cat(later).to(row.dtype)


@wrong(
    "positions.step",
    "Every pair turns by the same angle, one radian per step.",
    "width 4, one step: pair 1 turns by 1 and not by 0.01",
)
def step_of_one_speed(row, steps):
    sin, cos = row[0::2], row[1::2]
    later = [
        sin * math.cos(steps) + cos * math.sin(steps),
        cos * math.cos(steps) - sin * math.sin(steps),
    ]
    return torch.stack(later, dim=-1).flatten()


@right("positions.step", "pairs as complex numbers, cosine real, times one of length 1")
def step_by_complex(row, steps):
    angles = _angles_of(row, steps)
    hands = torch.complex(row[1::2].double(), row[0::2].double())
    hands = hands * torch.polar(torch.ones_like(angles), angles)
    return torch.stack([hands.imag, hands.real], dim=-1).flatten().to(row.dtype)


@right("positions.step", "the matrix of one step, to the power of steps")
def step_by_matrix_power(row, steps):
    angles = _angles_of(row, 1)
    blocks = []
    for angle in angles.tolist():
        sin, cos = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64))
    one_step = torch.block_diag(*blocks)
    later = torch.linalg.matrix_power(one_step, steps) @ row.double()
    return later.to(row.dtype)


@wrong(
    "positions.rotary",
    "The values are turned as well.",
    "values (1, 0) at position 1: (0.54, 0.84)",
)
def rotary_of_all_three(queries, keys, values):
    angles = rotary_angles(queries.shape[-2], queries.shape[-1])
    return turn(queries, angles), turn(keys, angles), turn(values, angles)


@wrong(
    "positions.rotary",
    "Only the queries are turned.",
    "a key at position 1 comes back as it was",
)
def rotary_of_queries(queries, keys, values):
    angles = rotary_angles(queries.shape[-2], queries.shape[-1])
    return turn(queries, angles), keys, values


@wrong(
    "positions.rotary",
    "The keys are turned the other way: scores depend on the sum of two places.",
    "key (1, 0) at position 1: (0.54, -0.84)",
)
def rotary_keys_backward(queries, keys, values):
    angles = rotary_angles(queries.shape[-2], queries.shape[-1])
    return turn(queries, angles), turn(keys, -angles), values


@wrong(
    "positions.rotary",
    "Neighboring columns are paired, as in the sinusoids.",
    "width 4: columns 0 and 1 are turned together",
)
def rotary_of_neighbors(queries, keys, values):
    angles = rotary_angles(queries.shape[-2], queries.shape[-1])
    cos, sin = angles.cos(), angles.sin()
    turned = []
    for x in (queries, keys):
        even, odd = x[..., 0::2], x[..., 1::2]
        pairs = [even * cos - odd * sin, even * sin + odd * cos]
        turned.append(torch.stack(pairs, dim=-1).flatten(-2))
    return *turned, values


@wrong(
    "positions.rotary",
    "Positions count from 1.",
    "the vectors at position 0 are turned, too",
)
def rotary_from_one(queries, keys, values):
    length, width = queries.shape[-2:]
    angles = rotary_angles(length + 1, width)[1:]
    return turn(queries, angles), turn(keys, angles), values


@right("positions.rotary", "halves as real and imaginary parts, one complex product")
def rotary_by_complex(queries, keys, values):
    length, width = queries.shape[-2:]
    exponents = torch.arange(0, width, 2, dtype=queries.dtype) / width
    places = torch.arange(length, dtype=queries.dtype)
    angles = torch.outer(places, 10_000.0**-exponents)
    circle = torch.polar(torch.ones_like(angles), angles)
    both = torch.stack([queries, keys])
    turned = torch.complex(*both.tensor_split(2, dim=-1)) * circle
    queries, keys = torch.cat([turned.real, turned.imag], dim=-1)
    return queries, keys, values


@right("positions.rotary", "x cos + (the halves swapped, one negated) sin, by roll")
def rotary_by_roll(queries, keys, values):
    length, width = queries.shape[-2:]
    angles = rotary_angles(length, width).repeat(1, 2)
    sign = torch.ones(width).index_fill(0, torch.arange(width // 2), -1)
    turned = []
    for x in (queries, keys):
        swapped = x.roll(width // 2, dims=-1) * sign
        turned.append(x * angles.cos() + swapped * angles.sin())
    return turned[0], turned[1], values


def _slopes(num_heads):
    return 2.0 ** (-8 * torch.arange(1, num_heads + 1).double() / num_heads)


@wrong(
    "positions.alibi",
    "The queries are taken for the first positions.",
    "1 query, 3 keys: 0 at the oldest key and not at the newest",
)
def alibi_first_words(num_heads, query_length, key_length):
    back = torch.arange(query_length)[:, None] - torch.arange(key_length)
    return -_slopes(num_heads)[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "A reward for distance: the minus is lost.",
    "all numbers are positive",
)
def alibi_reward(num_heads, query_length, key_length):
    places = torch.arange(key_length)
    back = places[-query_length:, None] - places
    return _slopes(num_heads)[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "The heads count from 0, so the first slope is 1.",
    "8 heads: head 0 pays 1 a step and not 1/2",
)
def alibi_heads_from_zero(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8 * torch.arange(num_heads).double() / num_heads)
    places = torch.arange(key_length)
    back = places[-query_length:, None] - places
    return -slopes[:, None, None] * back.abs()


@wrong(
    "positions.alibi",
    "Without the absolute value: keys ahead of the query get a bonus.",
    "2 queries, 2 keys: query 0 adds to key 1",
)
def alibi_bonus_ahead(num_heads, query_length, key_length):
    places = torch.arange(key_length)
    back = places[-query_length:, None] - places
    return -_slopes(num_heads)[:, None, None] * back


@wrong(
    "positions.alibi",
    "Slopes 1/2, 1/4, 1/8 … for any number of heads.",
    "4 heads: head 0 pays 1/2 a step and not 1/4",
)
def alibi_of_eight_heads(num_heads, query_length, key_length):
    slopes = 0.5 ** torch.arange(1, num_heads + 1).double()
    places = torch.arange(key_length)
    back = places[-query_length:, None] - places
    return -slopes[:, None, None] * back.abs()


@right("positions.alibi", "an outer product in numpy, of slopes and differences")
def alibi_by_numpy(num_heads, query_length, key_length):
    heads = np.arange(1, num_heads + 1)
    keys = np.arange(key_length)
    queries = np.arange(key_length - query_length, key_length)
    distances = np.abs(np.subtract.outer(queries, keys))
    return torch.from_numpy(
        np.multiply.outer(-(2.0 ** (-8 * heads / num_heads)), distances)
    )


@right("positions.alibi", "later place less earlier place, number by number")
def alibi_by_loops(num_heads, query_length, key_length):
    start = key_length - query_length
    bias = torch.empty(num_heads, query_length, key_length, dtype=torch.float64)
    for head in range(num_heads):
        slope = 1 / 256 ** ((head + 1) / num_heads)
        for query in range(query_length):
            for key in range(key_length):
                later = max(start + query, key)
                earlier = min(start + query, key)
                bias[head, query, key] = slope * (earlier - later)
    return bias


@wrong(
    "positions.relative",
    "The queries are taken for the first positions.",
    "1 query, 3 keys: column 0 everywhere",
)
def relative_first_words(table, query_length, key_length):
    back = torch.arange(query_length)[:, None] - torch.arange(key_length)
    return table[:, back.clamp(0, table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Keys ahead are treated like keys as far back.",
    "2 queries, 2 keys: query 0 gives key 1 column 1 and not column 0",
)
def relative_both_sides(table, query_length, key_length):
    places = torch.arange(key_length)
    back = (places[-query_length:, None] - places).abs()
    return table[:, back.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "What lies further back than the table gets no bias.",
    "2 columns, 3 keys: 0 for two positions back and not the last column",
)
def relative_ends(table, query_length, key_length):
    places = torch.arange(key_length)
    back = (places[-query_length:, None] - places).clamp(min=0)
    last = table.shape[1] - 1
    return table[:, back.clamp(max=last)].masked_fill(back > last, 0.0)


@wrong(
    "positions.relative",
    "Key minus query: the past gets column 0, the future the others.",
    "1 query, 3 keys: column 0 everywhere; 2 queries, 2 keys: rows swapped",
)
def relative_ahead(table, query_length, key_length):
    places = torch.arange(key_length)
    ahead = places - places[-query_length:, None]
    return table[:, ahead.clamp(0, table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Distances beyond the table begin again at column 0.",
    "2 columns, 3 keys: column 0 for two positions back",
)
def relative_modulo(table, query_length, key_length):
    places = torch.arange(key_length)
    back = (places[-query_length:, None] - places).clamp(min=0)
    return table[:, back % table.shape[1]]


@right("positions.relative", "one line of all distances, of which rows are windows")
def relative_by_windows(table, query_length, key_length):
    last = table.shape[1] - 1
    offsets = range(key_length - 1, -key_length, -1)
    line = [table[:, min(max(offset, 0), last)] for offset in offsets]
    rows = torch.stack(line, dim=1).unfold(1, key_length, 1).flip(1)
    return rows[:, key_length - query_length :]


# 05


@wrong(
    "blocks.layer_norm",
    "The variance is divided by m - 1.",
    "(0, 2): 0.71 in place of 1",
)
def layer_norm_unbiased(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True)
    return scale * (x - mean) / (variance + eps).sqrt() + shift


@wrong(
    "blocks.layer_norm",
    "eps is added to the spread, outside of the root.",
    "a word of small numbers: too large; spread 0.001, eps 1e-5: 0.99 and not 0.30",
)
def layer_norm_eps_outside(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.var(dim=-1, keepdim=True, unbiased=False).sqrt()
    return scale * (x - mean) / (spread + eps) + shift


@wrong(
    "blocks.layer_norm",
    "One mean and one variance for all words together.",
    "words (0, 2) and (100, 102): the first is not around 0",
)
def layer_norm_of_everything(x, scale, shift, eps):
    variance = x.var(unbiased=False)
    return scale * (x - x.mean()) / (variance + eps).sqrt() + shift


@wrong(
    "blocks.layer_norm",
    "Divided by the variance, the root is forgotten.",
    "(0, 20): 0.1 in place of 1",
)
def layer_norm_without_root(x, scale, shift, eps):
    centered = x - x.mean(dim=-1, keepdim=True)
    variance = (centered**2).mean(dim=-1, keepdim=True)
    return scale * centered / (variance + eps) + shift


@wrong(
    "blocks.layer_norm",
    "The mean stays in: only divided by the spread.",
    "(10, 12): around 11 and not around 0",
)
def layer_norm_not_centered(x, scale, shift, eps):
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return scale * x / (variance + eps).sqrt() + shift


@wrong(
    "blocks.layer_norm",
    "Shifted first, then scaled.",
    "scale 2, shift 1: everything 1 too large",
)
def layer_norm_shift_first(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return scale * ((x - mean) / (variance + eps).sqrt() + shift)


@wrong(
    "blocks.layer_norm",
    "Mean of squares minus square of the mean, which cancels for large numbers.",
    "(1e9, 1e9 + 2): the variance is rounded away",
)
def layer_norm_cancelling(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x**2).mean(dim=-1, keepdim=True) - mean**2).clamp(min=0)
    return scale * (x - mean) / (variance + eps).sqrt() + shift


@right("blocks.layer_norm", "the root of variance and eps as a hypotenuse")
def layer_norm_by_hypotenuse(x, scale, shift, eps):
    width = x.shape[-1]
    centered = x - torch.einsum("...m->...", x).div(width).unsqueeze(-1)
    spread = torch.linalg.vector_norm(centered, dim=-1, keepdim=True) / width**0.5
    floor = torch.full_like(spread, eps**0.5)
    return torch.addcmul(shift, centered / torch.hypot(spread, floor), scale)


wrong(
    "blocks.norm_sees",
    "A mean that grows is thought to pass the norm.",
    "(a): the mean of the word is taken off",
)((1, 1, 1))
wrong(
    "blocks.norm_sees",
    "A change of sign is taken for a change of size.",
    "(b): the direction turns, the numbers change sign",
)((0, 0, 1))
wrong(
    "blocks.norm_sees",
    "The norm is thought to take away any growth.",
    "(c): one number that grows changes the direction",
)((0, 1, 0))
wrong(
    "blocks.norm_sees",
    "The seven words are thought to share one mean and variance.",
    "(b) and (c): each word has its own",
)((7, 7, 7))
wrong(
    "blocks.norm_sees",
    "One number that grows is thought to reach the words around.",
    "(c): the norm of cat reaches no other word",
)((0, 1, 7))
right("blocks.norm_sees", "worked out: only the mean is lost")((0, 1, 1))


@wrong(
    "blocks.block",
    "Post-norm: the norms stand after the plus, on the road.",
    "silent branches: norm2(norm1(x)) and not x",
)
def block_post_norm(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x + dropout(attention(x)))
    return norm2(x + dropout(feedforward(x)))


@wrong(
    "blocks.block",
    "Dropout stands behind the plus, on the road.",
    "silent branches: dropout(dropout(x)) and not x",
)
def block_dropout_on_road(x, norm1, attention, norm2, feedforward, dropout):
    x = dropout(x + attention(norm1(x)))
    return dropout(x + feedforward(norm2(x)))


@wrong(
    "blocks.block",
    "The feed-forward reads the x from before the attention.",
    "any attention that adds something: the feed-forward does not see it",
)
def block_parallel(x, norm1, attention, norm2, feedforward, dropout):
    attended = dropout(attention(norm1(x)))
    return x + attended + dropout(feedforward(norm2(x)))


@wrong(
    "blocks.block",
    "The road goes through the norm: the normed x is added.",
    "silent branches: norm2(norm1(x)) and not x",
)
def block_normed_road(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x)
    x = x + dropout(attention(x))
    x = norm2(x)
    return x + dropout(feedforward(x))


@wrong(
    "blocks.block",
    "Adds in place, into the caller's x.",
    "any attention that adds something: x has changed afterwards",
)
def block_in_place(x, norm1, attention, norm2, feedforward, dropout):
    x += dropout(attention(norm1(x)))
    x += dropout(feedforward(norm2(x)))
    return x


@wrong(
    "blocks.block",
    "No dropout behind the feed-forward.",
    "a dropout that halves: the second branch comes whole",
)
def block_one_dropout(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return x + feedforward(norm2(x))


@right("blocks.block", "folds the two branches into the stream")
def block_by_reduce(x, norm1, attention, norm2, feedforward, dropout):
    def add_branch(stream, branch):
        norm, layer = branch
        return torch.add(stream, dropout(layer(norm(stream))))

    return reduce(add_branch, [(norm1, attention), (norm2, feedforward)], x)


@right("blocks.block", "the contributions are collected and summed with x at the end")
def block_by_contributions(x, norm1, attention, norm2, feedforward, dropout):
    parts = [x]
    for norm, layer in ((norm1, attention), (norm2, feedforward)):
        parts.append(dropout(layer(norm(sum(parts)))))
    return sum(parts)


@wrong(
    "blocks.silent",
    "Tested in eval mode, in which dropout lets everything pass.",
    "a block with dropout on the road: True",
)
@torch.no_grad()
def silent_in_eval(block, x):
    block.eval()
    for layer in (block.attention.to_output, block.feedforward.down):
        layer.weight.zero_()
        layer.bias.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "The biases are left as they are.",
    "the notebook's block: False, the biases are added",
)
@torch.no_grad()
def silent_but_biases(block, x):
    block.train()
    block.attention.to_output.weight.zero_()
    block.feedforward.down.weight.zero_()
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Only the branch of the attention is silenced.",
    "the notebook's block: False, the feed-forward adds",
)
@torch.no_grad()
def silent_one_branch(block, x):
    block.train()
    nn.init.zeros_(block.attention.to_output.weight)
    nn.init.zeros_(block.attention.to_output.bias)
    return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Compares the means, which dropout keeps on average.",
    "a block with dropout on the road, x all 0 in the mean: often True",
)
@torch.no_grad()
def silent_by_size(block, x):
    block.train()
    for layer in (block.attention.to_output, block.feedforward.down):
        layer.weight.zero_()
        layer.bias.zero_()
    return bool((block(x).mean() - x.mean()).abs() < 0.5)


@right("blocks.silent", "a state with zeros is loaded, then no number may differ")
def silent_by_state(block, x):
    last = ("attention.to_output.", "feedforward.down.")
    state = block.state_dict()
    for name, numbers in state.items():
        if name.startswith(last):
            state[name] = torch.zeros_like(numbers)
    block.load_state_dict(state)
    block.train()
    return int((block(x) != x).sum()) == 0


@wrong(
    "blocks.stack",
    "The final norm is forgotten.",
    "any blocks: the stream comes out at its full size",
)
def stack_without_norm(x, blocks, norm):
    for block in blocks:
        x = block(x)
    return x


@wrong(
    "blocks.stack",
    "The norm follows every block.",
    "two blocks: the second reads a normed stream",
)
def stack_norm_each_time(x, blocks, norm):
    for block in blocks:
        x = norm(block(x))
    return x


@wrong(
    "blocks.stack",
    "Every block reads the first x, the last one's result counts.",
    "two blocks: the first has no effect",
)
def stack_from_the_start(x, blocks, norm):
    for block in blocks:
        output = block(x)
    return norm(output)


@wrong(
    "blocks.stack",
    "The last block comes first.",
    "two different blocks: in the other order",
)
def stack_from_the_top(x, blocks, norm):
    return norm(reduce(lambda stream, block: block(stream), reversed(blocks), x))


@wrong(
    "blocks.stack",
    "The norm stands before the blocks.",
    "two blocks: the stream they read is normed, the result is not",
)
def stack_norm_first(x, blocks, norm):
    x = norm(x)
    for block in blocks:
        x = block(x)
    return x


@wrong(
    "blocks.stack",
    "Block outputs are added to x once more.",
    "a block that adds f: the norm gets 2x + f and not x + f",
)
def stack_residual_again(x, blocks, norm):
    for block in blocks:
        x = x + block(x)
    return norm(x)


@wrong(
    "blocks.stack",
    "The blocks are taken out of the caller's list.",
    "any list: it is empty afterwards",
)
def stack_emptying(x, blocks, norm):
    while len(blocks) > 0:
        x = blocks.pop(0)(x)
    return norm(x)


@right("blocks.stack", "by recursion: the first block, then the stack of the others")
def stack_by_recursion(x, blocks, norm):
    if len(blocks) == 0:
        return norm(x)
    return stack_by_recursion(blocks[0](x), blocks[1:], norm)
