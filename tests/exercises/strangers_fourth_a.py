"""Answers of a stranger, written from the prompts alone."""

from functools import reduce

import torch
from torch import nn
from torch.nn import functional as F

from course_utils.attention import attend, attention_scores
from course_utils.positions import rotary_table, rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 01


@wrong(
    "attention.scores",
    "A slip of precedence: d ** 1 / 2 is half the width, not its root.",
    "d = 16: divided by 8 instead of 4; at d = 4 nothing shows",
)
def p_scores_half_width(queries, keys):
    d = queries.shape[-1]
    return queries @ keys.mT / (d**1 / 2)


@wrong(
    "attention.scores",
    "Divides by the root of the number of keys instead of the width.",
    "d = 4 and 9 keys: divided by 3 instead of 2",
)
def p_scores_root_of_length(queries, keys):
    return torch.einsum("...qd,...kd->...qk", queries, keys) / keys.shape[-2] ** 0.5


@right("attention.scores", "products of all pairs, summed over the width")
def p_scores_by_pairs(queries, keys):
    width = queries.shape[-1]
    products = queries.unsqueeze(-2) * keys.unsqueeze(-3)
    return products.sum(dim=-1) * width**-0.5


@wrong(
    "attention.weights",
    "Subtracts the largest score of all rows, so that a far lower row is 0 / 0.",
    "[[0., 0.], [1000., 1000.]]: nan in the first row",
)
def p_weights_one_peak_for_all(scores):
    powers = (scores - scores.max()).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "Sums along axis 1, which is the last one only without a batch.",
    'a batch, "b q k": the columns sum to 1 instead of the rows',
)
def p_weights_sum_axis_one(scores):
    powers = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return powers / powers.sum(dim=1, keepdim=True)


@right("attention.weights", "exp of the distance to the peak, by its share of the sum")
def p_weights_share(scores):
    peak = scores.detach().sort(dim=-1).values[..., -1:]
    powers = torch.exp(scores - peak)
    total = powers.sum(dim=-1)
    return powers * total.reciprocal().unsqueeze(-1)


@wrong(
    "attention.context",
    "Uses the weights transposed: what a key gives instead of what a query takes.",
    "q = k = 2, weights [[1, 0], [1, 0]]: the second row is 0",
)
def p_context_transposed(weights, values):
    return torch.einsum("...kq,...ke->...qe", weights, values)


@wrong(
    "attention.context",
    "A tensordot, which pairs every text with every other one of the batch.",
    "two texts: the shape is (2, q, 2, e)",
)
def p_context_tensordot(weights, values):
    return torch.tensordot(weights, values, dims=([-1], [-2]))


@right("attention.context", "each value times its weight, summed over the keys")
def p_context_by_sum(weights, values):
    portions = weights.unsqueeze(-1) * values.unsqueeze(-3)
    return portions.sum(dim=-2)


@wrong(
    "attention.cosine",
    "Divides by the norm of the whole matrix, not of each vector.",
    "two queries of unequal length",
)
def p_cosine_norm_of_matrix(queries, keys, values, temperature):
    cosines = (queries / queries.norm()) @ (keys / keys.norm()).T
    return torch.softmax(cosines / temperature, dim=-1) @ values


@wrong(
    "attention.cosine",
    "Keeps the root of the width beside the temperature.",
    "d = 4, temperature 1: all cosines are halved",
)
def p_cosine_scaled_twice(queries, keys, values, temperature):
    queries = F.normalize(queries, dim=-1)
    keys = F.normalize(keys, dim=-1)
    scores = attention_scores(queries, keys) / temperature
    return scores.softmax(dim=-1) @ values


@right("attention.cosine", "attend without a scale, the temperature in the queries")
def p_cosine_by_attend(queries, keys, values, temperature):
    directions = F.normalize(queries, dim=-1) / temperature
    return attend(directions, F.normalize(keys, dim=-1), values, scale=1.0)


@wrong(
    "attention.gradient",
    "Only the weight of the same score moves; the other slopes are forgotten.",
    "gradients of ones: the result should be 0",
)
def p_gradient_own_slope_only(weights, gradients):
    return weights * (1 - weights) * gradients


@wrong(
    "attention.gradient",
    "The sum runs over all queries instead of each row.",
    "two queries; with a single one nothing shows",
)
def p_gradient_sum_of_all(weights, gradients):
    return weights * (gradients - (weights * gradients).sum())


@right("attention.gradient", "all slopes as a matrix, times the gradients")
def p_gradient_by_matrix(weights, gradients):
    slopes = torch.diag_embed(weights) - weights[..., :, None] * weights[..., None, :]
    return (slopes @ gradients.unsqueeze(-1)).squeeze(-1)


@wrong(
    "attention.look_up",
    "Ten times is not sharp enough: the root of the width takes most of it away.",
    "eight colors: the weight is 0.83",
)
def p_look_up_too_soft(color, animals, colors):
    queries = F.one_hot(torch.tensor([color]), 8).double() * 10
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    return attend(queries, keys, values)[0]


@wrong(
    "attention.look_up",
    "Keys and values as before: finds the color of an animal.",
    "color 2, animals [2, 5], colors [4, 2]: gives 4 instead of 5",
)
def p_look_up_animals_as_keys(color, animals, colors):
    queries = F.one_hot(torch.tensor([color]), 8).double() * 100
    keys = F.one_hot(animals, 8).double()
    values = F.one_hot(colors, 8).double()
    return attend(queries, keys, values)[0]


@right("attention.look_up", "the root and the factor both in the keys")
def p_look_up_sharp_keys(color, animals, colors):
    wanted = F.one_hot(torch.tensor(color), 8).double()
    labels = F.one_hot(colors, 8).double() * 100
    context = attend(wanted.unsqueeze(0), labels, F.one_hot(animals, 8).double())
    return context.squeeze(0)


# 02


@wrong(
    "heads.split",
    "Reshapes straight to the wanted shape, so that heads are made of words.",
    "two words and two heads",
)
def p_split_one_reshape(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)


@wrong(
    "heads.split",
    "Takes the width for (d h): a head gets every h-th column.",
    "one word 0 1 2 3, two heads: 0 2 and 1 3",
)
def p_split_heads_inside(x, num_heads):
    batch, length, width = x.shape
    parts = x.reshape(batch, length, width // num_heads, num_heads)
    return parts.transpose(2, 3).transpose(1, 2)


@right("heads.split", "columns first, then cut, then back")
def p_split_columns(x, num_heads):
    batch, length, width = x.shape
    columns = x.transpose(1, 2).reshape(batch, num_heads, width // num_heads, length)
    return columns.transpose(2, 3)


@wrong(
    "heads.merge",
    "Forgets the transpose: words of one head are laid side by side.",
    "two heads, two words",
)
def p_merge_no_transpose(context):
    batch, heads, length, width = context.shape
    return context.reshape(batch, length, heads * width)


@wrong(
    "heads.merge",
    "Swaps heads to the end: (d h) instead of (h d).",
    "two heads of width 2: the columns come as 0 2 1 3",
)
def p_merge_heads_inside(context):
    batch, heads, length, width = context.shape
    swapped = context.transpose(1, 3).transpose(1, 2)
    return swapped.reshape(batch, length, width * heads)


@right("heads.merge", "columns under each other, then turned")
def p_merge_columns(context):
    batch, heads, length, width = context.shape
    columns = context.transpose(2, 3).reshape(batch, heads * width, length)
    return columns.transpose(1, 2)


@wrong(
    "heads.count",
    "Counts four biases of width d_model, as if the heads filled it.",
    "d_model 8, 2 heads of width 3: 32 biases instead of 26",
)
def p_count_biases_of_model(d_model, num_heads, head_dim):
    return 4 * d_model * num_heads * head_dim + 4 * d_model


@wrong(
    "heads.count",
    "The output matrix reads one head instead of all of them.",
    "two heads",
)
def p_count_output_of_one_head(d_model, num_heads, head_dim):
    projections = 3 * num_heads * (d_model * head_dim + head_dim)
    return projections + head_dim * d_model + d_model


@right("heads.count", "builds the four layers without memory and counts")
def p_count_by_building(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    layers = [nn.Linear(d_model, width, device="meta") for _ in range(3)]
    layers.append(nn.Linear(width, d_model, device="meta"))
    return sum(part.numel() for layer in layers for part in layer.parameters())


def p_cut(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@wrong(
    "heads.layer",
    "Scales by the width of the values instead of the queries.",
    "d = 4, e = 9",
)
def p_layer_root_of_values(x, w_q, w_k, w_v, w_o, num_heads):
    queries, keys, values = (p_cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scores = queries @ keys.mT / values.shape[-1] ** 0.5
    context = scores.softmax(dim=-1) @ values
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "Merges as (e h), though the rows of the last matrix are (h e).",
    "two heads of width 2",
)
def p_layer_merged_inside_out(x, w_q, w_k, w_v, w_o, num_heads):
    queries, keys, values = (p_cut(x @ w, num_heads) for w in (w_q, w_k, w_v))
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    context = scores.softmax(dim=-1) @ values
    return context.permute(0, 2, 3, 1).flatten(2) @ w_o


@right("heads.layer", "one head after the other, their outputs summed")
def p_layer_head_by_head(x, w_q, w_k, w_v, w_o, num_heads):
    per_head = zip(
        w_q.chunk(num_heads, dim=1),
        w_k.chunk(num_heads, dim=1),
        w_v.chunk(num_heads, dim=1),
        w_o.chunk(num_heads, dim=0),
        strict=True,
    )
    outputs = []
    for to_q, to_k, to_v, to_out in per_head:
        scores = (x @ to_q) @ (x @ to_k).mT / to_q.shape[1] ** 0.5
        outputs.append(scores.softmax(dim=-1) @ (x @ to_v) @ to_out)
    return torch.stack(outputs).sum(dim=0)


# 03


@wrong(
    "masks.convert",
    "Takes every number but 0 for hidden; a finite one only shifts the score.",
    "[[0., 0.5]]: the second key may be seen",
)
def p_convert_only_zero_is_seen(theirs):
    return ~theirs.bool()


@wrong(
    "masks.convert",
    "Leaves booleans as they are, though theirs says True where it hides.",
    "[[False, True], [False, False]]",
)
def p_convert_booleans_kept(theirs):
    if theirs.dtype == torch.bool:
        return theirs.clone()
    return theirs > -torch.inf


@right("masks.convert", "a number hides where its exp leaves nothing of a weight")
def p_convert_by_exp(theirs):
    if theirs.dtype == torch.bool:
        return theirs.logical_not()
    return theirs.exp() > 0


@wrong(
    "masks.window",
    "One word too many: itself and width words before it.",
    "length 3, width 1",
)
def p_window_one_more(length, width):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return (back >= 0) & (back <= width)


@wrong(
    "masks.window",
    "A window to both sides: it shows later words as well.",
    "length 3, width 2",
)
def p_window_both_sides(length, width):
    places = torch.arange(length)
    return (places[:, None] - places).abs() < width


@right("masks.window", "causal, without what a causal mask further back shows")
def p_window_by_difference(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() ^ ones.tril(diagonal=-width)


wrong("masks.two_new", "The new words see the five old ones but not themselves.", "")(
    torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool()
)
wrong("masks.two_new", "Counts the new words as the first and the second.", "")(
    torch.tensor([[1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]).bool()
)
right("masks.two_new", "only the last word is hidden, from the last but one")(
    torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()
)


@wrong(
    "masks.shift",
    "Rolls the inputs: the last label is the first word again.",
    "[[1, 2, 3]]: labels 2 1 instead of 2 3",
)
def p_shift_rolled(ids):
    inputs = ids[:, :-1]
    return inputs, inputs.roll(-1, dims=1)


@wrong(
    "masks.shift",
    "Cuts along the batch instead of the words.",
    "two texts",
)
def p_shift_batch(ids):
    return ids[:-1], ids[1:]


@right("masks.shift", "two narrow views of one length")
def p_shift_narrow(ids):
    length = ids.shape[1] - 1
    return ids.narrow(1, 0, length), ids.narrow(1, 1, length)


@wrong(
    "masks.causal",
    "Hides each word from itself.",
    "length 1: False",
)
def p_causal_not_itself(length):
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal=-1)


@wrong(
    "masks.causal",
    "Rows and columns exchanged: only the future is seen.",
    "length 2",
)
def p_causal_exchanged(length):
    places = torch.arange(length)
    return places[:, None] <= places[None, :]


@right("masks.causal", "the diagonal, summed downward")
def p_causal_by_cumsum(length):
    return torch.eye(length).cumsum(dim=0).bool()


@wrong(
    "masks.padding",
    "Takes the padding id for the smallest of all.",
    "pad_id = 3, ids [[1, 3]]; with pad_id = 0 nothing shows",
)
def p_padding_greater(ids, pad_id):
    return (ids > pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "Hides the queries that are padding instead of the keys.",
    "any: the shape is b 1 q 1",
)
def p_padding_queries(ids, pad_id):
    return (ids != pad_id)[:, None, :, None]


@right("masks.padding", "a reshape of what differs")
def p_padding_reshaped(ids, pad_id):
    batch, length = ids.shape
    return torch.ne(ids, pad_id).reshape(batch, 1, 1, length)


@wrong(
    "masks.join",
    "Adds the masks: one that allows it is enough.",
    "True and False",
)
def p_join_sum(first, second):
    return first + second


@wrong(
    "masks.join",
    "True where both agree, also where both forbid.",
    "False and False",
)
def p_join_agree(first, second):
    return first == second


@right("masks.join", "not hidden by either")
def p_join_de_morgan(first, second):
    return ~(~first | ~second)


@wrong(
    "masks.weights",
    "Adds -inf and mends the nan of empty rows, but their gradients stay nan.",
    "a row with nothing to look at: weights 0, gradients nan",
)
def p_masked_weights_mended(scores, mask):
    hidden = torch.zeros_like(scores).masked_fill(~mask, -torch.inf)
    return torch.softmax(scores + hidden, dim=-1).nan_to_num(0.0)


@wrong(
    "masks.weights",
    "Hides after the softmax: what is left does not sum to 1.",
    "scores [[0., 0.]], mask [[True, False]]: 0.5 instead of 1",
)
def p_masked_weights_too_late(scores, mask):
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


@right("masks.weights", "by hand: hidden differences are 0 before exp, and cut after")
def p_masked_weights_by_hand(scores, mask):
    lowest = torch.finfo(scores.dtype).min
    peak = scores.detach().masked_fill(~mask, lowest).amax(dim=-1, keepdim=True)
    differences = (scores - peak).masked_fill(~mask, 0.0)
    powers = differences.exp().masked_fill(~mask, 0.0)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.masked_fill(total == 0, 1.0)


# 04


@wrong(
    "positions.sinusoids",
    "Each column has its own angle; a cosine should share that of its sine.",
    "length 2, d_model 4: cos(0.1) in column 1 instead of cos(1)",
)
def p_sinusoids_angle_per_column(length, d_model):
    places = torch.arange(length, dtype=torch.float64)
    columns = torch.arange(d_model, dtype=torch.float64)
    angles = torch.outer(places, 10_000.0 ** (-columns / d_model))
    table = torch.where(columns % 2 == 0, angles.sin(), angles.cos())
    return table.to(torch.get_default_dtype())


@wrong(
    "positions.sinusoids",
    "Spreads the pairs so that the last one turns by 1 / 10000 exactly.",
    "d_model 4: the second pair turns by 0.0001 instead of 0.01; d_model 2 is right",
)
def p_sinusoids_spread_to_the_end(length, d_model):
    half = d_model // 2
    places = torch.arange(length, dtype=torch.float64)
    pairs = torch.arange(half, dtype=torch.float64)
    angles = torch.outer(places, 10_000.0 ** (-pairs / max(half - 1, 1)))
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return table.to(torch.get_default_dtype())


@right("positions.sinusoids", "complex numbers on the unit circle")
def p_sinusoids_complex(length, d_model):
    places = torch.arange(length, dtype=torch.float64)
    speeds = 10_000.0 ** -(torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angles = torch.outer(places, speeds)
    circle = torch.view_as_real(torch.polar(torch.ones_like(angles), angles))
    return circle.flip(-1).flatten(1).to(torch.get_default_dtype())


wrong("positions.hand", "the pair over the width, without the 2", "")(3.0)
wrong("positions.hand", "in degrees, as the sliders have it", "")(17.1887)
right("positions.hand", "30 times 10000 to the power of -8/16")(0.3)


def p_speeds(width):
    return 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


@wrong(
    "positions.step",
    "Turns the wrong way: the row `steps` positions earlier.",
    "steps = 5; steps = 0 is right",
)
def p_step_backward(row, steps):
    angles = (steps * p_speeds(row.shape[0])).to(row.dtype)
    sines, cosines = row[0::2], row[1::2]
    later_sines = sines * angles.cos() - cosines * angles.sin()
    later_cosines = cosines * angles.cos() + sines * angles.sin()
    return torch.stack([later_sines, later_cosines], dim=-1).flatten()


@wrong(
    "positions.step",
    "Reads the position off the first pair, which has gone full circle after 3.",
    "position 10; positions 0 to 3 are right",
)
def p_step_position_from_first_pair(row, steps):
    position = torch.atan2(row[0], row[1])
    angles = (position + steps) * p_speeds(row.shape[0]).to(row.dtype)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


@right("positions.step", "each pair a complex number, times another one")
def p_step_complex(row, steps):
    angles = steps * p_speeds(row.shape[0])
    turn = torch.complex(angles.cos().to(row.dtype), angles.sin().to(row.dtype))
    later = torch.complex(row[1::2], row[0::2]) * turn
    return torch.stack([later.imag, later.real], dim=1).reshape(-1)


@wrong(
    "positions.rotary",
    "Keys and values in the order 0 1 0 1 instead of 0 0 1 1.",
    "4 heads of queries, 2 of keys; with one or equally many nothing shows",
)
def p_rotary_tiled(queries, keys, values):
    cos, sin = rotary_table(*queries.shape[-2:], dtype=queries.dtype)
    share = queries.shape[1] // keys.shape[1]
    queries = rotate(queries, cos, sin)
    keys = rotate(keys, cos, sin).repeat(1, share, 1, 1)
    return queries, keys, values.repeat(1, share, 1, 1)


@wrong(
    "positions.rotary",
    "Takes the heads for the positions.",
    "head 1 at position 0 is turned, head 0 at position 1 is not",
)
def p_rotary_heads_as_positions(queries, keys, values):
    heads, width = queries.shape[1], queries.shape[-1]
    share = heads // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    cos, sin = rotary_table(heads, width, dtype=queries.dtype)
    queries = rotate(queries.transpose(1, 2), cos, sin).transpose(1, 2)
    keys = rotate(keys.transpose(1, 2), cos, sin).transpose(1, 2)
    return queries, keys, values


@right("positions.rotary", "both halves turned by hand, heads picked by their number")
def p_rotary_by_halves(queries, keys, values):
    length, width = queries.shape[-2:]
    places = torch.arange(length, dtype=torch.float64)
    angles = torch.outer(places, p_speeds(width))
    cos, sin = angles.cos().to(queries.dtype), angles.sin().to(queries.dtype)

    def turned(x):
        first, second = x[..., : width // 2], x[..., width // 2 :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    group = torch.arange(queries.shape[1]) // (queries.shape[1] // keys.shape[1])
    return turned(queries), turned(keys)[:, group], values[:, group]


@wrong(
    "positions.alibi",
    "Keys ahead of the query cost nothing.",
    "2 queries, 2 keys: the first query looks at the second key",
)
def p_alibi_back_only(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).clamp(min=0)
    return -slopes[:, None, None] * distance


@wrong(
    "positions.alibi",
    "Slopes 1/2, 1/4, 1/8, ... for any number of heads.",
    "4 heads: the first slope is 1/4; with 8 heads nothing shows",
)
def p_alibi_slopes_of_eight(num_heads, query_length, key_length):
    slopes = 0.5 ** torch.arange(1, num_heads + 1)
    queries = torch.arange(query_length) + (key_length - query_length)
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return -slopes[:, None, None] * distance


@right("positions.alibi", "the square bias of all positions, its last rows")
def p_alibi_last_rows(num_heads, query_length, key_length):
    exponents = torch.arange(1, num_heads + 1, dtype=torch.float64) * 8 / num_heads
    places = torch.arange(key_length, dtype=torch.float64)
    costs = torch.maximum(places[:, None] - places, places - places[:, None])
    bias = -torch.einsum("h,qk->hqk", torch.exp2(-exponents), costs)
    return bias[:, key_length - query_length :].to(torch.get_default_dtype())


@wrong(
    "positions.relative",
    "Takes the distance on both sides: keys ahead should get column 0.",
    "2 queries, 2 keys: the first query looks at the second key",
)
def p_relative_both_sides(table, query_length, key_length):
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return table[:, distance.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Counts the queries from 0, though they are the last positions.",
    "1 query, 3 keys; with equal lengths nothing shows",
)
def p_relative_queries_first(table, query_length, key_length):
    distance = torch.arange(query_length)[:, None] - torch.arange(key_length)
    return table[:, distance.clamp(0, table.shape[1] - 1)]


@right("positions.relative", "one-hot distances, times the table")
def p_relative_one_hot(table, query_length, key_length):
    columns = table.shape[1]
    queries = torch.arange(query_length) + (key_length - query_length)
    back = queries.unsqueeze(1) - torch.arange(key_length).unsqueeze(0)
    chosen = F.one_hot(back.clamp(min=0, max=columns - 1), columns).to(table.dtype)
    return torch.einsum("hd,qkd->hqk", table, chosen)


# 05


@wrong(
    "blocks.layer_norm",
    "The mean of squares less the square of the mean cancels for large numbers.",
    "float32, numbers about 10000: the variance is far off, even negative",
)
def p_layer_norm_cancels(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x * x).mean(dim=-1, keepdim=True) - mean * mean
    return (x - mean) / torch.sqrt(variance + eps) * scale + shift


@wrong(
    "blocks.layer_norm",
    "Adds eps to the deviation instead of the variance.",
    "numbers about 0.001 with eps = 1e-5",
)
def p_layer_norm_eps_outside(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    deviation = (x - mean).square().mean(dim=-1, keepdim=True).sqrt()
    return (x - mean) / (deviation + eps) * scale + shift


@right("blocks.layer_norm", "the length of the centered word, by way of a dot product")
def p_layer_norm_dot(x, scale, shift, eps):
    width = x.shape[-1]
    centered = x - x.sum(dim=-1, keepdim=True) / width
    centered = centered - centered.mean(dim=-1, keepdim=True)  # what rounding left
    variance = torch.einsum("...m,...m->...", centered, centered) / width
    return torch.rsqrt(variance + eps).unsqueeze(-1) * centered * scale + shift


# The box with the three changes is not in the prompt, so no right answer: but the norm
# treats each word alone, and a change to one word never changes seven.
wrong("blocks.norm_sees", "as if all words shared mean and variance", "")((7, 7, 7))
wrong("blocks.norm_sees", "the last change is thought to reach all words", "")(
    (0, 0, 7)
)


@wrong(
    "blocks.block",
    "Takes the first norm twice.",
    "norms that differ in scale; fresh ones are alike",
)
def p_block_first_norm_twice(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm1(x)))


@wrong(
    "blocks.block",
    "Both branches start from the same x, the second does not see the first.",
    "any attention that adds something",
)
def p_block_parallel(x, norm1, attention, norm2, feedforward, dropout):
    looked = dropout(attention(norm1(x)))
    thought = dropout(feedforward(norm2(x)))
    return x + looked + thought


@right("blocks.block", "a loop over the two branches")
def p_block_loop(x, norm1, attention, norm2, feedforward, dropout):
    road = x
    for norm, branch in ((norm1, attention), (norm2, feedforward)):
        road = torch.add(road, dropout(branch(norm(road))))
    return road


@wrong(
    "blocks.silent",
    "Switches dropout off for the test: dropout on the road goes unseen.",
    "a block that drops out x itself",
)
def p_silent_eval(block, x):
    block.eval()
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
        return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Forgets the biases, which the branches still add.",
    "our own block: False",
)
def p_silent_biases_left(block, x):
    block.train()
    nn.init.zeros_(block.attention.to_output.weight)
    nn.init.zeros_(block.feedforward.down.weight)
    return torch.equal(block(x), x)


@right("blocks.silent", "all parameters of both layers, and x kept aside")
def p_silent_all_parameters(block, x):
    before = x.detach().clone()
    layers = nn.ModuleList([block.attention.to_output, block.feedforward.down])
    for parameter in layers.parameters():
        nn.init.zeros_(parameter)
    block.train()
    with torch.no_grad():
        after = block(x.detach().clone())
    return after.shape == before.shape and bool((after == before).all())


@wrong(
    "blocks.stack",
    "Norms after each block, not only at the end of the road.",
    "two blocks",
)
def p_stack_norm_each(x, blocks, norm):
    for block in blocks:
        x = norm(block(x))
    return x


@wrong(
    "blocks.stack",
    "Every block gets the first x, so only the last one counts.",
    "two blocks; with one nothing shows",
)
def p_stack_last_block_only(x, blocks, norm):
    out = x
    for block in blocks:
        out = block(x)
    return norm(out)


@right("blocks.stack", "a fold over the list")
def p_stack_fold(x, blocks, norm):
    return norm(reduce(lambda road, block: block(road), blocks, x))
