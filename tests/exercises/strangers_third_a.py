"""Answers of a stranger, written from the prompts alone."""

import math
from functools import reduce

import torch
from torch import nn
from torch.nn import functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 01 · attention


@wrong(
    "attention.scores",
    "Divides by the width itself, the root is forgotten.",
    "d = 4: half of what is wanted",
)
def a_scores_no_root(queries, keys):
    return queries @ keys.mT / queries.shape[-1]


@wrong(
    "attention.scores",
    "Takes the root of the number of keys in place of the width.",
    "d = 4 and 9 keys: divided by 3 in place of 2",
)
def a_scores_number_of_keys(queries, keys):
    return torch.einsum("...qd,...kd->...qk", queries, keys) / math.sqrt(keys.shape[-2])


@right("attention.scores", "the mean of the products, times the root of the width")
def a_scores_by_mean(queries, keys):
    products = queries.unsqueeze(-2) * keys.unsqueeze(-3)
    return products.mean(dim=-1) * math.sqrt(queries.shape[-1])


@wrong(
    "attention.weights",
    "Subtracts the largest score of the whole tensor, so that a low row underflows.",
    "rows (0, 1) and (-2000, -2001): 0/0 in the second",
)
def a_weights_one_maximum(scores):
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "Subtracts the largest absolute value of a row in place of the largest score.",
    "row (-1000, -1001): exp(-2000) is 0, so 0/0",
)
def a_weights_largest_size(scores):
    largest = scores.abs().amax(dim=-1, keepdim=True)
    powers = torch.exp(scores - largest)
    return powers / powers.sum(dim=-1, keepdim=True)


@right("attention.weights", "1 / sum of exp(s_j - s_k): nothing is subtracted first")
def a_weights_by_differences(scores):
    differences = scores.unsqueeze(-2) - scores.unsqueeze(-1)
    return 1 / differences.exp().sum(dim=-1)


@wrong(
    "attention.context",
    "Applies softmax again to weights that are shares already.",
    "weights (1, 0): 0.73 of the first value",
)
def a_context_softmax_again(weights, values):
    return weights.softmax(dim=-1) @ values


@wrong(
    "attention.context",
    "Hands on only the value with the largest weight, no mixture.",
    "weights (0.6, 0.4), values 1 and 2: 1 in place of 1.4",
)
def a_context_winner(weights, values):
    winners = F.one_hot(weights.argmax(dim=-1), weights.shape[-1])
    return winners.to(values.dtype) @ values


@right("attention.context", "a loop over the keys that adds one share after another")
def a_context_by_keys(weights, values):
    context = 0
    for k in range(values.shape[-2]):
        context = context + weights[..., :, k : k + 1] * values[..., k : k + 1, :]
    return context


@wrong(
    "attention.cosine",
    "Divides by the product of the squared lengths, the root is forgotten.",
    "q = k = (2, 0): 4/16 in place of 1",
)
def a_cosine_squares(queries, keys, values, temperature):
    sizes = queries.square().sum(-1)[:, None] * keys.square().sum(-1)[None, :]
    cosines = queries @ keys.T / sizes
    return (cosines / temperature).softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "Divides the queries by the temperature before their length is taken away.",
    "any temperature other than 1: it has no effect",
)
def a_cosine_temperature_lost(queries, keys, values, temperature):
    cosines = F.normalize(queries / temperature, dim=-1) @ F.normalize(keys, dim=-1).T
    return cosines.softmax(dim=-1) @ values


@right("attention.cosine", "unit vectors through F.scaled_dot_product_attention")
def a_cosine_fused(queries, keys, values, temperature):
    queries = queries / torch.linalg.vector_norm(queries, dim=-1, keepdim=True)
    keys = keys / torch.linalg.vector_norm(keys, dim=-1, keepdim=True)
    batches = queries[None, None], keys[None, None], values[None, None]
    scale = 1 / float(temperature)
    return F.scaled_dot_product_attention(*batches, scale=scale)[0, 0]


@wrong(
    "attention.gradient",
    "Only the slope of a weight by its own score, the other weights do not move.",
    "weights (0.5, 0.5), gradients (1, 1): 0.25 in place of 0",
)
def a_gradient_own_score(weights, gradients):
    return gradients * weights * (1 - weights)


@wrong(
    "attention.gradient",
    "Subtracts the plain mean of the gradients, not the one weighted by the weights.",
    "weights (0.9, 0.1), gradients (1, 0): 0.45 in place of 0.09",
)
def a_gradient_plain_mean(weights, gradients):
    return weights * (gradients - gradients.mean(dim=-1, keepdim=True))


@right("attention.gradient", "the whole matrix of slopes, times the gradients")
def a_gradient_by_matrix(weights, gradients):
    pairs = weights.unsqueeze(-1) * weights.unsqueeze(-2)
    slopes = torch.diag_embed(weights) - pairs
    return torch.einsum("...j,...jk->...k", gradients, slopes)


@wrong(
    "attention.look_up",
    "One-hot vectors as they are: the scores are too small for a sharp softmax.",
    "seven keys: the right animal gets about 0.19",
)
def a_look_up_soft(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    return ((query @ keys.T / 8**0.5).softmax(dim=-1) @ values)[0]


@wrong(
    "attention.look_up",
    "Still the first task: compares with the animals and hands back colors.",
    "animals (0, 1), colors (1, 2), color 1: the one-hot of 2, not of 0",
)
def a_look_up_unreversed(color, animals, colors):
    query = 1000 * F.one_hot(torch.tensor([color]), 8).double()
    keys = F.one_hot(animals, 8).double()
    values = F.one_hot(colors, 8).double()
    return ((query @ keys.T / 8**0.5).softmax(dim=-1) @ values)[0]


@right(
    "attention.look_up",
    "the query punishes all other colors: 0 for its own, else -1000",
)
def a_look_up_by_penalty(color, animals, colors):
    query = F.one_hot(torch.tensor([color]), 8).double() - 1
    keys = 3000 * F.one_hot(colors, 8).double()
    weights = torch.softmax(query @ keys.mT / 8**0.5, dim=-1)
    return torch.einsum("qk,ke->e", weights, F.one_hot(animals, 8).double())


# 02 · heads


@wrong(
    "heads.split",
    "Reshapes straight to b h t d, so that a head owns some positions.",
    "t = 2, h = 2: head 0 gets all of position 0",
)
def a_split_positions(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)


@wrong(
    "heads.split",
    "Reads the columns as (d h): each head gets every h-th column.",
    "4 columns, 2 heads: head 0 gets columns 0 and 2",
)
def a_split_every_other(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, width // num_heads, num_heads).permute(0, 3, 1, 2)


@right("heads.split", "transposed first: then the columns are cut as rows")
def a_split_transposed_first(x, num_heads):
    batch, length, width = x.shape
    columns = x.transpose(1, 2)
    heads = columns.reshape(batch, num_heads, width // num_heads, length)
    return heads.transpose(2, 3)


@wrong(
    "heads.merge",
    "Reshapes without moving the heads beside d.",
    "h = 2, q = 2: row 0 holds both positions of head 0",
)
def a_merge_no_transpose(context):
    batch, heads, length, width = context.shape
    return context.reshape(batch, length, heads * width)


@wrong(
    "heads.merge",
    "Merges as (d h): the columns of the heads alternate.",
    "h = d = 2: columns 0 and 1 are the first ones of both heads",
)
def a_merge_alternating(context):
    return context.permute(0, 2, 3, 1).flatten(2)


@right("heads.merge", "the heads side by side, one after another, with torch.cat")
def a_merge_by_cat(context):
    return torch.cat(context.unbind(dim=1), dim=-1)


@wrong(
    "heads.count",
    "Ignores head_dim and takes d = m / h for granted.",
    "m = 64, h = 3, d = 10: 16640 in place of 7834",
)
def a_count_usual_width(d_model, num_heads, head_dim):
    return 4 * (d_model * d_model + d_model)


@wrong(
    "heads.count",
    "Gives the output projection a bias of width h d, as the other three.",
    "m = 64, h = 3, d = 10: 7800 in place of 7834",
)
def a_count_output_bias(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    return 4 * (d_model * width + width)


@right("heads.count", "builds the four layers on the meta device and counts")
def a_count_by_building(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    sizes = [(d_model, width)] * 3 + [(width, d_model)]
    layers = [nn.Linear(*size, device="meta") for size in sizes]
    return sum(p.numel() for layer in layers for p in layer.parameters())


@wrong(
    "heads.layer",
    "Scales by the width of all heads together in place of one head's.",
    "two heads: the scores are too small by the root of 2",
)
def a_layer_scale_of_all(x, w_q, w_k, w_v, w_o, num_heads):
    queries = (x @ w_q).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    keys = (x @ w_k).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    values = (x @ w_v).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    scores = queries @ keys.mT / w_q.shape[-1] ** 0.5
    context = scores.softmax(dim=-1) @ values
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "Softmax runs over the queries: the shares of a query do not sum to 1.",
    "any x with different words",
)
def a_layer_softmax_queries(x, w_q, w_k, w_v, w_o, num_heads):
    queries = (x @ w_q).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    keys = (x @ w_k).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    values = (x @ w_v).unflatten(-1, (num_heads, -1)).transpose(1, 2)
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    context = scores.softmax(dim=-2) @ values
    return context.transpose(1, 2).flatten(2) @ w_o


@right("heads.layer", "one head after another, each adds its part through its rows")
def a_layer_sum_of_heads(x, w_q, w_k, w_v, w_o, num_heads):
    output = 0
    parts = (w_q.chunk(num_heads, 1), w_k.chunk(num_heads, 1), w_v.chunk(num_heads, 1))
    for q, k, v, o in zip(*parts, w_o.chunk(num_heads, 0), strict=True):
        bilinear = q @ k.T / q.shape[1] ** 0.5
        scores = torch.einsum("bim,mn,bjn->bij", x, bilinear, x)
        output = output + scores.softmax(dim=-1) @ (x @ (v @ o))
    return output


# 03 · masks


@wrong(
    "masks.convert",
    "Every number other than 0 counts as hidden.",
    "-0.5 in a mask of numbers: closed, though the weight is only smaller",
)
def a_convert_any_number(theirs):
    return ~theirs.bool()


@wrong(
    "masks.convert",
    "Does not turn booleans around, takes True for 'may look'.",
    "a mask of booleans comes back as it was",
)
def a_convert_not_turned(theirs):
    if theirs.dtype == torch.bool:
        return theirs.clone()
    return theirs > -torch.inf


@right("masks.convert", "a place is open if e to its number is above 0; True = -inf")
def a_convert_by_exp(theirs):
    if theirs.dtype == torch.bool:
        added = torch.zeros(theirs.shape).masked_fill(theirs, -torch.inf)
    else:
        added = theirs
    return added.double().exp() > 0


@wrong(
    "masks.window",
    "One too many: the word itself and `width` words before it.",
    "width 1: a word also sees its left neighbor",
)
def a_window_one_more(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() & ones.triu(-width)


@wrong(
    "masks.window",
    "The window opens to both sides, the future too.",
    "width 2: word 0 sees word 1",
)
def a_window_both_sides(length, width):
    places = torch.arange(length)
    return (places[:, None] - places[None, :]).abs() < width


@right("masks.window", "a causal mask without the causal mask that ends before it")
def a_window_by_xor(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return torch.logical_xor(ones.tril(0), ones.tril(-width))


wrong(
    "masks.two_new",
    "Counts the queries from 0, as if they were the first words.",
    "the first new word would see only the first key",
)(torch.tensor([[1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]).bool())

wrong(
    "masks.two_new",
    "A word may not look at itself.",
    "the first new word is key 5, and its place is 0",
)(torch.tensor([[1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 0]]).bool())

right("masks.two_new", "the last two rows of a causal mask of seven")(
    torch.ones(7, 7).tril()[-2:] > 0
)


@wrong(
    "masks.shift",
    "Inputs and labels are the same words: the model has only to copy.",
    "ids 1 2 3: labels 1 2 in place of 2 3",
)
def a_shift_not_at_all(ids):
    return ids[:, :-1], ids[:, :-1]


@wrong(
    "masks.shift",
    "Inputs and labels are exchanged: the word before is predicted.",
    "ids 1 2 3: inputs 2 3, labels 1 2",
)
def a_shift_backward(ids):
    return ids[:, 1:], ids[:, :-1]


@right("masks.shift", "index_select with two ranges of places")
def a_shift_by_index(ids):
    places = torch.arange(1, ids.shape[1], device=ids.device)
    return ids.index_select(1, places - 1), ids.index_select(1, places)


@wrong(
    "masks.causal",
    "A word does not see itself.",
    "length 1: False",
)
def a_causal_strict(length):
    places = torch.arange(length)
    return places[None, :] < places[:, None]


@wrong(
    "masks.causal",
    "The upper triangle: each word sees itself and the future.",
    "row 0 is all True",
)
def a_causal_upper(length):
    return torch.ones(length, length).triu().bool()


@right("masks.causal", "the identity, summed up down the rows")
def a_causal_by_cumsum(length):
    return torch.eye(length, dtype=torch.long).cumsum(dim=0) == 1


@wrong(
    "masks.padding",
    "Takes 0 for the padding, whatever pad_id says.",
    "pad_id 9: the nines stay open",
)
def a_padding_zero(ids, pad_id):
    return (ids != 0)[:, None, None, :]


@wrong(
    "masks.padding",
    "Compares the wrong way: True at padding.",
    "the words are hidden, the padding is open",
)
def a_padding_reversed(ids, pad_id):
    return (ids == pad_id)[:, None, None, :]


@right("masks.padding", "word by word in nested Python lists")
def a_padding_by_lists(ids, pad_id):
    rows = ids.tolist()
    return torch.tensor([[[[word != pad_id for word in row]]] for row in rows])


@wrong(
    "masks.join",
    "Allows what at least one of the two allows.",
    "True and False: True",
)
def a_join_either(first, second):
    return first | second


@wrong(
    "masks.join",
    "True where the two agree, also where both forbid.",
    "False and False: True",
)
def a_join_agreement(first, second):
    return first == second


@right("masks.join", "hidden where one of the two hides, turned around")
def a_join_by_de_morgan(first, second):
    return ~torch.logical_or(~first, ~second)


@wrong(
    "masks.weights",
    "Zeros after the softmax: the rest of a row does not sum to 1.",
    "scores 0 and 0, one hidden: 0.5 in place of 1",
)
def a_weights_not_renewed(scores, mask):
    return scores.softmax(dim=-1) * mask


@wrong(
    "masks.weights",
    "A finite number in place of -inf: an empty row becomes even, not 0.",
    "a row with nothing to look at, two keys: 0.5 and 0.5",
)
def a_weights_empty_even(scores, mask):
    return scores.masked_fill(~mask, -1e9).softmax(dim=-1)


@right("masks.weights", "exp and sum over the open places, an empty sum counts as 1")
def a_weights_open_only(scores, mask):
    largest = scores.where(mask, -torch.inf).amax(dim=-1, keepdim=True)
    powers = torch.where(mask, scores - largest, -torch.inf).exp()
    total = powers.sum(dim=-1, keepdim=True)
    return powers / total.where(total > 0, 1.0)


# 04 · positions


@wrong(
    "positions.sinusoids",
    "The cosine column counts as a pair of its own and gets another frequency.",
    "width 2, position 1: cos(0.01) in place of cos(1)",
)
def a_sinusoids_column_frequency(length, d_model):
    columns = torch.arange(d_model)
    frequencies = 10_000.0 ** (-columns / d_model)
    angles = torch.arange(length)[:, None] * frequencies
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


@wrong(
    "positions.sinusoids",
    "Positions count from 1.",
    "row 0: sin(1), cos(1) in place of 0, 1",
)
def a_sinusoids_from_one(length, d_model):
    frequencies = 10_000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.outer(torch.arange(1.0, length + 1), frequencies)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@right("positions.sinusoids", "number by number; a cosine is the sine a quarter later")
def a_sinusoids_by_math(length, d_model):
    table = torch.zeros(length, d_model)
    for t in range(length):
        for column in range(d_model):
            pair, odd = divmod(column, 2)
            angle = t / 10_000 ** (2 * pair / d_model)
            table[t, column] = math.sin(angle + odd * math.pi / 2)
    return table


wrong(
    "positions.hand",
    "Takes i/m as the exponent in place of 2i/m.",
    "30 times 10000^(-4/16) is 3",
)(3.0)

wrong(
    "positions.hand",
    "The angle in degrees.",
    "0.3 radians are 17.19 degrees",
)(17.19)

right("positions.hand", "30 / 100")(30 * 10_000 ** (-8 / 16))


@wrong(
    "positions.step",
    "Turns the wrong way round: the row that stands before.",
    "row 0, one step: sin(-1) in column 0",
)
def a_step_back(row, steps):
    sines, cosines = row[0::2], row[1::2]
    m = row.shape[-1]
    angles = steps * 10_000.0 ** (-torch.arange(0, m, 2, dtype=row.dtype) / m)
    earlier = sines * angles.cos() - cosines * angles.sin()
    same = cosines * angles.cos() + sines * angles.sin()
    return torch.stack([earlier, same], dim=-1).flatten()


@wrong(
    "positions.step",
    "Adds the row of position `steps`, as if rows were added like positions.",
    "row 0, no step: (0, 2) in place of (0, 1)",
)
def a_step_added(row, steps):
    m = row.shape[-1]
    angles = steps * 10_000.0 ** (-torch.arange(0, m, 2, dtype=row.dtype) / m)
    return row + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()


@right("positions.step", "reads the angles off with atan2 and moves them on")
def a_step_by_angles(row, steps):
    pairs = row.double().reshape(-1, 2)
    later = torch.atan2(pairs[:, 0], pairs[:, 1])
    m = row.shape[-1]
    later = later + steps * 10_000.0 ** (-torch.arange(0, m, 2).double() / m)
    return torch.stack([later.sin(), later.cos()], dim=1).reshape(m).to(row.dtype)


def turned_by(x, sign=1.0, factor=2.0):
    """Pairs (i, i + d/2) of "b h t d", turned as complex numbers."""
    length, width = x.shape[-2:]
    pairs = torch.arange(width // 2, dtype=torch.float64)
    frequencies = 10_000.0 ** (-factor * pairs / width)
    angles = sign * torch.arange(length).double()[:, None] * frequencies
    first, second = x.double().split(width // 2, dim=-1)
    numbers = torch.complex(first, second) * torch.exp(1j * angles)
    return torch.cat([numbers.real, numbers.imag], dim=-1).to(x.dtype)


@wrong(
    "positions.rotary",
    "Turns the keys back, so that the score depends on the sum of the positions.",
    "position 1: the key stands at the angle -1",
)
def a_rotary_keys_back(queries, keys, values):
    return turned_by(queries), turned_by(keys, sign=-1.0), values


@wrong(
    "positions.rotary",
    "The frequencies have i/d as exponent in place of 2i/d.",
    "d = 4, pair 1: 0.1 radians per position in place of 0.01",
)
def a_rotary_frequency(queries, keys, values):
    return turned_by(queries, factor=1.0), turned_by(keys, factor=1.0), values


@right("positions.rotary", "complex numbers made of the halves, values untouched")
def a_rotary_complex(queries, keys, values):
    return turned_by(queries), turned_by(keys), values


@wrong(
    "positions.alibi",
    "The slopes start with head 0 at 1, heads count from 0 in the exponent.",
    "4 heads: the first slope is 1 in place of 1/4",
)
def a_alibi_slope_from_zero(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8 * torch.arange(num_heads) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return -slopes[:, None, None] * distance


@wrong(
    "positions.alibi",
    "Keys ahead of the query cost nothing.",
    "2 queries, 2 keys: 0 in place of -slope at (0, 1)",
)
def a_alibi_future_free(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).clamp(min=0)
    return -slopes[:, None, None] * distance


@right("positions.alibi", "three loops; the slopes by repeated multiplication")
def a_alibi_by_loops(num_heads, query_length, key_length):
    ratio = 2.0 ** (-8 / num_heads)
    bias = torch.zeros(num_heads, query_length, key_length)
    slope = 1.0
    for h in range(num_heads):
        slope = slope * ratio
        for i in range(query_length):
            place = i + key_length - query_length
            for k in range(key_length):
                bias[h, i, k] = -slope * abs(place - k)
    return bias


@wrong(
    "positions.relative",
    "Keys ahead get the column of their distance, as if they stood behind.",
    "2 queries, 2 keys: column 1 at (0, 1) in place of column 0",
)
def a_relative_both_sides(table, query_length, key_length):
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return table[:, distance.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Keys further back than the table reaches get 0, not the last column.",
    "table with 2 columns, distance 2: 0",
)
def a_relative_far_is_zero(table, query_length, key_length):
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).clamp(min=0)
    last = table.shape[1] - 1
    return table[:, distance.clamp(max=last)] * (distance <= last)


@right("positions.relative", "each key row is cut out of one long prepared row")
def a_relative_by_slices(table, query_length, key_length):
    ahead = table[:, :1].expand(-1, key_length)
    further = table[:, -1:].expand(-1, key_length)
    line = torch.cat([further, table.flip(1), ahead], dim=1)
    zero = key_length + table.shape[1] - 1
    rows = []
    for place in range(key_length - query_length, key_length):
        rows.append(line[:, zero - place : zero - place + key_length])
    return torch.stack(rows, dim=1)


# 05 · blocks


@wrong(
    "blocks.layer_norm",
    "The variance divides by m - 1, as torch.var does unasked.",
    "width 2: everything is smaller by the root of 2",
)
def a_layer_norm_unbiased(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = x.var(dim=-1, keepdim=True)
    return scale * (x - mean) / torch.sqrt(variance + eps) + shift


@wrong(
    "blocks.layer_norm",
    "Shifts first and scales the shift too.",
    "scale 2 and shift 1: the shift arrives as 2",
)
def a_layer_norm_shift_first(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return scale * ((x - mean) / torch.sqrt(variance + eps) + shift)


@right("blocks.layer_norm", "the divisor is the hypotenuse of the spread and root eps")
def a_layer_norm_hypot(x, scale, shift, eps):
    centered = x - x.mean(dim=-1, keepdim=True)
    lengths = torch.linalg.vector_norm(centered, dim=-1, keepdim=True)
    spread = lengths / x.shape[-1] ** 0.5
    divisor = torch.hypot(spread, torch.full_like(spread, eps**0.5))
    return torch.addcmul(shift, scale, centered / divisor)


wrong(
    "blocks.norm_sees",
    "Thinks that the norm takes the sign away with the size.",
    "(b): cat is turned around and comes out turned around",
)((0, 0, 1))

wrong(
    "blocks.norm_sees",
    "Thinks that every change of cat's numbers is seen, the common 100 too.",
    "(a): the mean takes the 100 away",
)((1, 1, 1))

right("blocks.norm_sees", "the mean hides (a), nothing hides (b) and (c)")((0, 1, 1))


@wrong(
    "blocks.block",
    "The norm stands on the road: the branch is added to the normed stream.",
    "silent branches: norm2(norm1(x)) in place of x",
)
def a_block_norm_on_road(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x)
    x = x + dropout(attention(x))
    x = norm2(x)
    return x + dropout(feedforward(x))


@wrong(
    "blocks.block",
    "The feed-forward reads the block's input, not what attention has added.",
    "any attention that is not silent",
)
def a_block_parallel(x, norm1, attention, norm2, feedforward, dropout):
    first = dropout(attention(norm1(x)))
    second = dropout(feedforward(norm2(x)))
    return x + first + second


@right("blocks.block", "a loop over the two branches with torch.add")
def a_block_by_loop(x, norm1, attention, norm2, feedforward, dropout):
    stream = x
    for norm, layer in ((norm1, attention), (norm2, feedforward)):
        stream = torch.add(dropout(layer(norm(stream))), stream)
    return stream


@wrong(
    "blocks.silent",
    "Tests in evaluation mode, where dropout does nothing.",
    "a block with dropout on the road: True",
)
def a_silent_eval(block, x):
    block.eval()
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            for parameter in layer.parameters():
                parameter.zero_()
        return torch.equal(block(x), x)


@wrong(
    "blocks.silent",
    "Silences the weights only, the biases still speak.",
    "a good block whose biases are not 0: False",
)
def a_silent_weights_only(block, x):
    block.train()
    nn.init.zeros_(block.attention.to_output.weight)
    nn.init.zeros_(block.feedforward.down.weight)
    with torch.no_grad():
        return torch.equal(block(x), x)


@right("blocks.silent", "loads zeros as the state, and looks for a changed number")
def a_silent_by_state(block, x):
    for layer in (block.attention.to_output, block.feedforward.down):
        state = layer.state_dict()
        zeros = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        layer.load_state_dict(zeros)
    block.train(True)
    kept = x.clone()
    return not bool((block(x) != kept).any())


@wrong(
    "blocks.stack",
    "The final norm comes after each block, on the road.",
    "two blocks: the second reads a normed stream",
)
def a_stack_norm_each(x, blocks, norm):
    for block in blocks:
        x = norm(block(x))
    return x


@wrong(
    "blocks.stack",
    "Adds x once more around each block, which has its plus inside.",
    "a block that adds nothing: x doubles before the norm",
)
def a_stack_added_twice(x, blocks, norm):
    for block in blocks:
        x = x + block(x)
    return norm(x)


@right("blocks.stack", "a fold over the blocks with the norm as the last of them")
def a_stack_by_reduce(x, blocks, norm):
    def apply(stream, layer):
        return layer(stream)

    return reduce(apply, [*blocks, norm], x)


# 06 · recurrent


@wrong(
    "recurrent.gru_step",
    "The reset gate multiplies the state before U_h, as in the paper of 2014.",
    "m = 2 and a U_h that mixes the entries",
)
def a_gru_step_reset_before(x, state, W, U, b):
    w_r, w_z, w_h = W.chunk(3)
    u_r, u_z, u_h = U.chunk(3)
    b_r, b_z, b_h = b.chunk(3)
    r = torch.sigmoid(x @ w_r.T + state @ u_r.T + b_r)
    z = torch.sigmoid(x @ w_z.T + state @ u_z.T + b_z)
    candidate = torch.tanh(x @ w_h.T + b_h + (r * state) @ u_h.T)
    return z * state + (1 - z) * candidate


@wrong(
    "recurrent.gru_step",
    "The reset gate multiplies the bias of the candidate, too.",
    "b_h not 0: the candidate gets only a share of it",
)
def a_gru_step_reset_bias(x, state, W, U, b):
    w_r, w_z, w_h = W.chunk(3)
    u_r, u_z, u_h = U.chunk(3)
    b_r, b_z, b_h = b.chunk(3)
    r = torch.sigmoid(x @ w_r.T + state @ u_r.T + b_r)
    z = torch.sigmoid(x @ w_z.T + state @ u_z.T + b_z)
    candidate = torch.tanh(x @ w_h.T + r * (state @ u_h.T + b_h))
    return z * state + (1 - z) * candidate


@right("recurrent.gru_step", "torch.gru_cell with a second bias of zeros")
def a_gru_step_by_cell(x, state, W, U, b):
    return torch.gru_cell(x, state, W, U, b, torch.zeros_like(b))


@wrong(
    "recurrent.general_scores",
    "W multiplies the query, not the key: (W s) · h.",
    "a W that is not symmetric",
)
def a_general_other_side(queries, keys, W):
    return torch.einsum("nm,bqm,bkn->bqk", W, queries, keys)


@wrong(
    "recurrent.general_scores",
    "Divides by the root of the width, out of habit.",
    "m = 4: half of what is wanted",
)
def a_general_scaled(queries, keys, W):
    return queries @ W @ keys.mT / queries.shape[-1] ** 0.5


@right("recurrent.general_scores", "F.bilinear over all pairs")
def a_general_by_bilinear(queries, keys, W):
    batch, q, m = queries.shape
    k = keys.shape[1]
    left = queries[:, :, None, :].expand(batch, q, k, m).contiguous()
    pairs = keys[:, None, :, :].expand(batch, q, k, m).contiguous()
    return F.bilinear(left, pairs, W[None]).squeeze(-1)


@wrong(
    "recurrent.additive_scores",
    "Takes the tanh of each side alone and adds afterwards.",
    "W s = U h = 1, v = 1: 1.52 in place of 0.96",
)
def a_additive_two_tanh(queries, keys, W, U, v):
    left = torch.tanh(queries @ W.T) @ v
    right_side = torch.tanh(keys @ U.T) @ v
    return left[:, :, None] + right_side[:, None, :]


@wrong(
    "recurrent.additive_scores",
    "Multiplies with W and U without turning them: s W in place of W s.",
    "a W that is not symmetric",
)
def a_additive_not_turned(queries, keys, W, U, v):
    sums = (queries @ W)[:, :, None, :] + (keys @ U)[:, None, :, :]
    return torch.tanh(sums) @ v


@right("recurrent.additive_scores", "query by query; [W U] as one matrix on [s; h]")
def a_additive_by_query(queries, keys, W, U, v):
    both = torch.cat([W, U], dim=1)
    columns = []
    for s in queries.unbind(dim=1):
        joined = torch.cat([s[:, None, :].expand_as(keys), keys], dim=-1)
        columns.append(torch.tanh(F.linear(joined, both)).mul(v).sum(dim=-1))
    return torch.stack(columns, dim=1)


@wrong(
    "recurrent.context_step",
    "Hides after the softmax: padding takes its share of the weights away.",
    "one of two words is padding: the weights do not sum to 1",
)
def a_context_step_late_mask(state, memory, mask, W):
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = scores.softmax(dim=-1) * mask
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Hidden scores become 0, which is a score like any other.",
    "one real word with the score 0 and one of padding: half of it is looked at",
)
def a_context_step_zero_scores(state, memory, mask, W):
    scores = torch.einsum("bm,bkm->bk", state, memory) * mask
    context = torch.einsum("bk,bkm->bm", scores.softmax(dim=-1), memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@right("recurrent.context_step", "sentence by sentence, with its real words only")
def a_context_step_by_sentence(state, memory, mask, W):
    for_context, for_state = W.chunk(2, dim=1)
    rows = []
    for s, words, real in zip(state, memory, mask, strict=True):
        kept = words[real]
        context = (kept @ s).softmax(dim=0) @ kept
        rows.append(torch.tanh(for_context @ context + for_state @ s))
    return torch.stack(rows)


wrong(
    "recurrent.gate",
    "Shares the loss evenly: 1 - 0.5/100, as if steps were added.",
    "0.995 to the power of 100 is 0.606",
)(0.995)

wrong(
    "recurrent.gate",
    "Gives the share of the candidate, 1 - z.",
    "z is 0.9931",
)(0.0069)

right("recurrent.gate", "e to the power of -ln 2 / 100")(
    round(math.exp(-math.log(2) / 100), 4)
)
