"""Answers of a stranger, written from the prompts alone."""

from functools import reduce
from math import isqrt, pi

import torch
from torch import nn
from torch.nn import functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


def t_attention(queries, keys, values):
    """The attention of the section, its context and its weights."""
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ values, weights


def t_angles(length, head_dim):
    """The angle of each rotary pair at each position, in float64."""
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float64)
    positions = torch.arange(length, dtype=torch.float64)
    return torch.outer(positions, 10_000 ** (-pairs / head_dim))


def t_turn(x, angles):
    """Turn the pairs (i, i + d/2) of "... t d"."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def t_table(length, d_model):
    """The table of sinusoids in float64."""
    angles = t_angles(length, d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


# 01


@wrong(
    "attention.scores",
    "The root is rounded down to an integer.",
    "d = 8: divides by 2 instead of 2.83",
)
def t_scores_integer_root(queries, keys):
    return queries @ keys.transpose(-2, -1) / isqrt(queries.shape[-1])


@wrong(
    "attention.scores",
    "Takes the width from axis 1, which is the number of queries in a batch.",
    'queries "b q d" with q = 3 and d = 4: divided by the root of 3',
)
def t_scores_width_of_axis_one(queries, keys):
    d = queries.shape[1]
    return queries @ keys.transpose(-1, -2) / d**0.5


@right("attention.scores", "every query beside every key, then a sum")
def t_scores_by_pairs(queries, keys):
    pairs = queries.unsqueeze(-2) * keys.unsqueeze(-3)
    return pairs.sum(dim=-1) * queries.shape[-1] ** -0.5


@wrong(
    "attention.weights",
    "Subtracts the largest score of the whole tensor instead of that of each row.",
    "rows (0, 1) and (2000, 2001): the first row is 0 / 0",
)
def t_weights_one_maximum(scores):
    powers = (scores - scores.max()).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "Cuts large scores off instead of subtracting, so that they tie.",
    "(1000, 900): even shares instead of (1, 0)",
)
def t_weights_cut_off(scores):
    powers = scores.clamp(-80, 80).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@right("attention.weights", "the largest by topk, held constant")
def t_weights_by_topk(scores):
    largest = scores.topk(1, dim=-1).values.detach()
    powers = torch.exp(scores - largest)
    total = torch.einsum("...k -> ...", powers)
    return powers / total[..., None]


@wrong(
    "attention.context",
    "Sends the weights through a softmax once more.",
    "weights (1, 0): mixes both values",
)
def t_context_two_softmaxes(weights, values):
    return weights.softmax(dim=-1) @ values


@wrong(
    "attention.context",
    "Hands over only the value with the largest weight.",
    "weights (0.6, 0.4): the first value alone",
)
def t_context_of_the_best(weights, values):
    best = F.one_hot(weights.argmax(dim=-1), weights.shape[-1])
    return best.to(values.dtype) @ values


@right("attention.context", "each value times its share, then a sum over the keys")
def t_context_by_shares(weights, values):
    shares = weights[..., None] * values.unsqueeze(-3)
    return shares.sum(dim=-2)


@wrong(
    "attention.cosine",
    "Only the keys get the length 1, the queries keep theirs.",
    "a query of length 5: scores five times too large",
)
def t_cosine_long_queries(queries, keys, values, temperature):
    directions = F.normalize(keys, dim=-1)
    scores = queries @ directions.T / temperature
    return scores.softmax(dim=-1) @ values


@wrong(
    "attention.cosine",
    "Still divides by the root of d, besides the temperature.",
    "d = 4: scores half as large as wanted",
)
def t_cosine_scaled_too(queries, keys, values, temperature):
    queries = F.normalize(queries, dim=-1)
    keys = F.normalize(keys, dim=-1)
    scores = queries @ keys.T / queries.shape[-1] ** 0.5
    return (scores / temperature).softmax(dim=-1) @ values


@right("attention.cosine", "lengths by hand, the temperature in the exponent")
def t_cosine_by_hand(queries, keys, values, temperature):
    def direction(x):
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / length.clamp(min=1e-12)

    cosines = torch.einsum("qd, kd -> qk", direction(queries), direction(keys))
    logits = cosines / temperature
    weights = (logits - logits.logsumexp(dim=-1, keepdim=True)).exp()
    return torch.einsum("qk, ke -> qe", weights, values)


@wrong(
    "attention.gradient",
    "Counts the effect of a score on its own weight twice, in the second sum too.",
    "weights (0.5, 0.5), gradients (1, 0): 0 instead of 0.25 at the first",
)
def t_gradient_own_twice(weights, gradients):
    own = gradients * weights * (1 - weights)
    others = weights * (gradients * weights).sum(dim=-1, keepdim=True)
    return own - others


@wrong(
    "attention.gradient",
    "The sum over the row is not multiplied by the weight of the score.",
    "weights (0.5, 0.5), gradients (1, 0): (0, -0.5)",
)
def t_gradient_bare_sum(weights, gradients):
    products = weights * gradients
    return products - products.sum(dim=-1, keepdim=True)


@right("attention.gradient", "the whole table of slopes, then a product")
def t_gradient_by_jacobian(weights, gradients):
    slopes = torch.diag_embed(weights) - weights[..., None] * weights[..., None, :]
    return (slopes @ gradients[..., None]).squeeze(-1)


@wrong(
    "attention.look_up",
    "The values are the colors, so the color asked for comes back.",
    "color 2 of animal 5: one-hot of 2",
)
def t_look_up_hands_over_colors(color, animals, colors):
    table = F.one_hot(colors, 8).double()
    query = 100 * F.one_hot(torch.tensor([color]), 8).double()
    context, _ = t_attention(query, table, table)
    return context[0]


@wrong(
    "attention.look_up",
    "The query is not long enough: with a long list too much goes to the others.",
    "six items: 0.983 at the animal",
)
def t_look_up_too_warm(color, animals, colors):
    keys = F.one_hot(colors, 8).double()
    values = F.one_hot(animals, 8).double()
    query = 16 * F.one_hot(torch.tensor([color]), 8).double()
    context, _ = t_attention(query, keys, values)
    return context[0]


@right("attention.look_up", "all eight colors ask, the row of one is taken")
def t_look_up_all_ask(color, animals, colors):
    queries = torch.eye(8, dtype=torch.float64) * 300
    keys = (colors[:, None] == torch.arange(8)).double()
    values = (animals[:, None] == torch.arange(8)).double()
    context, _ = t_attention(queries, keys, values)
    return context[color]


# 02


@wrong(
    "heads.split",
    "Reshapes at once, so that a head owns some positions and not some columns.",
    "b = 1, t = 3, two heads of width 2: head 0 gets 0, 1, 2, 3, 10, 11",
)
def t_split_at_once(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, num_heads, length, width // num_heads)


@wrong(
    "heads.split",
    "Lets the head run fast and the width slowly.",
    "columns 0 to 3 and two heads: head 0 gets 0 and 2",
)
def t_split_fast_heads(x, num_heads):
    batch, length, width = x.shape
    cut = x.reshape(batch, length, width // num_heads, num_heads)
    return cut.transpose(2, 3).transpose(1, 2)


@right("heads.split", "columns to the front first, cut there")
def t_split_columns_first(x, num_heads):
    batch, length, width = x.shape
    columns = x.transpose(1, 2)
    cut = columns.reshape(batch, num_heads, width // num_heads, length)
    return cut.transpose(2, 3)


@wrong(
    "heads.merge",
    "Reshapes without moving the heads behind the positions.",
    "two heads and three positions: position 0 gets two positions of head 0",
)
def t_merge_at_once(context):
    batch, heads, length, width = context.shape
    return context.reshape(batch, length, heads * width)


@wrong(
    "heads.merge",
    "Puts the columns of the heads alternately: (d h) instead of (h d).",
    "heads (0, 1) and (2, 3): 0, 2, 1, 3",
)
def t_merge_alternately(context):
    batch, heads, length, width = context.shape
    columns = context.transpose(1, 2).transpose(2, 3)
    return columns.reshape(batch, length, heads * width)


@right("heads.merge", "columns to the front, joined there, turned back")
def t_merge_columns_first(context):
    batch, heads, length, width = context.shape
    columns = context.transpose(2, 3).reshape(batch, heads * width, length)
    return columns.transpose(1, 2)


@wrong(
    "heads.count",
    "Gives the output as many biases as the heads are wide, not d_model.",
    "d_model 64, 3 heads of width 10: 30 biases instead of 64",
)
def t_count_four_alike(d_model, num_heads, head_dim):
    inner = num_heads * head_dim
    return 4 * (d_model * inner + inner)


@wrong(
    "heads.count",
    "Takes for granted that the heads together are as wide as the model.",
    "d_model 64, 3 heads of width 10",
)
def t_count_standard_width(d_model, num_heads, head_dim):
    head_dim = d_model // num_heads
    inner = num_heads * head_dim
    return 3 * (d_model * inner + inner) + inner * d_model + d_model


@right("heads.count", "builds the four layers without memory and counts")
def t_count_by_building(d_model, num_heads, head_dim):
    inner = num_heads * head_dim
    ways = [(d_model, inner)] * 3 + [(inner, d_model)]
    layers = [nn.Linear(*way, device="meta") for way in ways]
    return sum(p.numel() for layer in layers for p in layer.parameters())


@wrong(
    "heads.layer",
    "Scales by the root of m / h, which need not be the width of a head.",
    "m = 6, two heads of width 4: root of 3 instead of 2",
)
def t_layer_scaled_by_share(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, width = x.shape
    q = (x @ w_q).reshape(batch, length, num_heads, -1).transpose(1, 2)
    k = (x @ w_k).reshape(batch, length, num_heads, -1).transpose(1, 2)
    v = (x @ w_v).reshape(batch, length, num_heads, -1).transpose(1, 2)
    scores = q @ k.mT / (width / num_heads) ** 0.5
    context = scores.softmax(dim=-1) @ v
    return context.transpose(1, 2).flatten(2) @ w_o


@wrong(
    "heads.layer",
    "Merges the heads without moving them behind the positions.",
    "two heads, three words",
)
def t_layer_merged_at_once(x, w_q, w_k, w_v, w_o, num_heads):
    batch, length, _ = x.shape
    q = (x @ w_q).reshape(batch, length, num_heads, -1).transpose(1, 2)
    k = (x @ w_k).reshape(batch, length, num_heads, -1).transpose(1, 2)
    v = (x @ w_v).reshape(batch, length, num_heads, -1).transpose(1, 2)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1)
    context = weights @ v
    return context.reshape(batch, length, -1) @ w_o


@right("heads.layer", "head by head, the outputs added up")
def t_layer_sum_of_heads(x, w_q, w_k, w_v, w_o, num_heads):
    parts = zip(
        w_q.chunk(num_heads, dim=1),
        w_k.chunk(num_heads, dim=1),
        w_v.chunk(num_heads, dim=1),
        w_o.chunk(num_heads, dim=0),
        strict=True,
    )
    total = 0
    for to_q, to_k, to_v, to_o in parts:
        context, _ = t_attention(x @ to_q, x @ to_k, x @ to_v)
        total = total + context @ to_o
    return total


# 03


@wrong(
    "masks.convert",
    "Takes every number but 0 for hidden, also a moderate one.",
    "an added -2: hidden, though it only makes the weight smaller",
)
def t_convert_only_zeros(theirs):
    if theirs.dtype == torch.bool:
        return ~theirs
    return theirs == 0


@wrong(
    "masks.convert",
    "Hands a mask of booleans on as it is.",
    "booleans: upside down",
)
def t_convert_bools_kept(theirs):
    if theirs.dtype == torch.bool:
        return theirs
    return theirs > -1e4


@right("masks.convert", "may look where the exponential is not 0")
def t_convert_by_exponential(theirs):
    if theirs.dtype == torch.bool:
        return torch.logical_not(theirs)
    return theirs.double().exp() > 0


@wrong(
    "masks.window",
    "Lets a word see width words before it, one too many.",
    "width 1: a word sees the one before it",
)
def t_window_one_too_many(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() & ones.triu(-width)


@wrong(
    "masks.window",
    "Opens the window on both sides.",
    "length 3, width 2: word 0 sees word 1",
)
def t_window_both_sides(length, width):
    places = torch.arange(length)
    return (places[:, None] - places[None, :]).abs() < width


@right("masks.window", "a triangle without a smaller one")
def t_window_of_triangles(length, width):
    ones = torch.ones(length, length, dtype=torch.bool)
    return ones.tril() ^ ones.tril(-width)


wrong(
    "masks.two_new",
    "The triangle begins at the upper left, as if the two were words 0 and 1.",
    "",
)(torch.ones(2, 7).tril().bool())

wrong(
    "masks.two_new",
    "Both see all seven, so the first new word sees the second.",
    "",
)(torch.ones(2, 7).bool())

right("masks.two_new", "positions 5 and 6 against 0 to 6")(
    torch.arange(5, 7)[:, None] >= torch.arange(7)
)


@wrong(
    "masks.shift",
    "Rolls the wrong way, so that each label is the input itself.",
    "(1, 2, 3): the labels are (1, 2)",
)
def t_shift_rolled_back(ids):
    labels = ids.roll(1, dims=1)[:, 1:]
    return ids[:, :-1], labels


@wrong(
    "masks.shift",
    "Cuts along the batch instead of the positions.",
    "two sentences of three: inputs of shape 1 3",
)
def t_shift_sentences(ids):
    return ids[:-1], ids[1:]


@right("masks.shift", "narrow, twice")
def t_shift_narrow(ids):
    rest = ids.shape[1] - 1
    return ids.narrow(1, 0, rest), ids.narrow(1, 1, rest)


@wrong(
    "masks.causal",
    "One diagonal too many: a word sees the next one.",
    "length 2: word 0 sees word 1",
)
def t_causal_one_too_many(length):
    return torch.ones(length, length, dtype=torch.bool).tril(1)


@wrong(
    "masks.causal",
    "Rows and columns are exchanged: a word sees itself and the future.",
    "length 2: word 0 sees word 1, word 1 does not see word 0",
)
def t_causal_exchanged(length):
    places = torch.arange(length)
    return places[:, None] <= places[None, :]


@right("masks.causal", "a diagonal, summed downward")
def t_causal_cumulative(length):
    return torch.eye(length).cumsum(dim=0).bool()


@wrong(
    "masks.padding",
    "Takes ids up to pad_id for padding; right only for 0.",
    "ids (1, 2, 3) and pad_id 2: the 1 is hidden, too",
)
def t_padding_larger_ids(ids, pad_id):
    return (ids > pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "The axis of the ids stands where the queries stand.",
    'b = 2, three ids: "b 1 k 1", padding may not look instead of not be seen',
)
def t_padding_queries(ids, pad_id):
    return (ids != pad_id)[:, None, :, None]


@right("masks.padding", "the difference from the pad_id as a truth value")
def t_padding_difference(ids, pad_id):
    real = torch.sub(ids, pad_id).bool()
    return real.unflatten(0, (ids.shape[0], 1, 1))


@wrong(
    "masks.join",
    "Asks whether the masks agree; where both forbid, it is open.",
    "False and False: True",
)
def t_join_agree(first, second):
    return first == second


@wrong(
    "masks.join",
    "Adds the masks, so that one permission is enough.",
    "True and False: True",
)
def t_join_added(first, second):
    return first + second


@right("masks.join", "hidden where either hides, turned around")
def t_join_de_morgan(first, second):
    return ~(~first | ~second)


@wrong(
    "masks.weights",
    "Puts the zeros in after the softmax, so that the shares do not add up to 1.",
    "scores (0, 0), mask (True, False): 0.5 instead of 1",
)
def t_masked_after_softmax(scores, mask):
    return scores.softmax(dim=-1) * mask


@wrong(
    "masks.weights",
    "Replaces the nan of an empty row behind the softmax; its gradient stays nan.",
    "a row with nothing open: right weights, gradients nan",
)
def t_masked_nan_backward(scores, mask):
    bias = torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    return (scores + bias).softmax(dim=-1).nan_to_num(0.0)


@right("masks.weights", "exponentials by hand, an empty sum counts as 1")
def t_masked_by_hand(scores, mask):
    seen = scores.masked_fill(~mask, float("-inf"))
    largest = seen.detach().amax(dim=-1, keepdim=True)
    largest = torch.where(largest.isneginf(), 0.0, largest)
    powers = torch.exp(seen - largest)
    total = powers.sum(dim=-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


# 04


@wrong(
    "positions.sinusoids",
    "Each column has a frequency of its own, the cosine turns by another angle.",
    "column 1 at position 1, width 4: cos(0.1) instead of cos(1)",
)
def t_sinusoids_no_pairs(length, d_model):
    columns = torch.arange(d_model)
    places = torch.arange(length)[:, None]
    angles = places * 10_000 ** (-columns / d_model)
    return torch.where(columns % 2 == 0, angles.sin(), angles.cos())


@wrong(
    "positions.sinusoids",
    "Spreads the frequencies down to 1/10000 itself, dividing by m/2 - 1.",
    "width 4: pair 1 turns by 0.0001 instead of 0.01",
)
def t_sinusoids_to_the_end(length, d_model):
    pairs = torch.arange(d_model // 2)
    frequencies = 10_000 ** (-pairs / max(d_model // 2 - 1, 1))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@right("positions.sinusoids", "filled column by column")
def t_sinusoids_by_columns(length, d_model):
    places = torch.arange(length, dtype=torch.float64)
    columns = []
    for i in range(d_model // 2):
        angle = places / 10_000 ** (2 * i / d_model)
        columns += [angle.sin(), angle.cos()]
    return torch.stack(columns, dim=1).to(torch.get_default_dtype())


wrong("positions.hand", "the exponent is -i/m, without the 2", "")(3.0)
wrong("positions.hand", "in degrees instead of radians", "")(0.3 * 180 / pi)
right("positions.hand", "30 times 10000 to the power -8/16")(30 * 10_000 ** (-8 / 16))


@wrong(
    "positions.step",
    "Turns the other way, to the row that many positions earlier.",
    "the row of position 5, 2 steps: the row of position 3",
)
def t_step_backward(row, steps):
    m = row.shape[-1]
    angle = steps * 10_000 ** (-torch.arange(0, m, 2) / m)
    sin, cos = row[0::2], row[1::2]
    later = [sin * angle.cos() - cos * angle.sin()]
    later.append(sin * angle.sin() + cos * angle.cos())
    return torch.stack(later, dim=-1).flatten().to(row.dtype)


@wrong(
    "positions.step",
    "Reads the position from pair 0, which has come round after 6.28 positions.",
    "the row of position 10: taken for that of position 4",
)
def t_step_first_clock(row, steps):
    position = torch.atan2(row[0], row[1]).remainder(2 * pi)
    m = row.shape[-1]
    angle = (position.round() + steps) * 10_000 ** (-torch.arange(0, m, 2) / m)
    later = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return later.flatten().to(row.dtype)


@right("positions.step", "a product of complex numbers")
def t_step_complex(row, steps):
    m = row.shape[-1]
    pairs = torch.arange(0, m, 2, dtype=torch.float64)
    angle = steps * 10_000 ** (-pairs / m)
    hands = torch.complex(row[1::2].double(), row[0::2].double())
    turned = hands * torch.polar(torch.ones_like(angle), angle)
    later = torch.stack([turned.imag, turned.real], dim=-1)
    return later.flatten().to(row.dtype)


@wrong(
    "positions.rotary",
    "Repeats keys and values until they have as many heads as the queries.",
    "four heads of queries, two of keys: four of keys come back",
)
def t_rotary_heads_repeated(queries, keys, values):
    share = queries.shape[1] // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    angles = t_angles(*queries.shape[-2:])
    return t_turn(queries, angles), t_turn(keys, angles), values


@wrong(
    "positions.rotary",
    "The exponent of pair i is -i/d instead of -2i/d.",
    "d = 4: pair 1 turns by 0.1 instead of 0.01 per position",
)
def t_rotary_half_exponent(queries, keys, values):
    length, d = queries.shape[-2:]
    frequencies = 10_000 ** (-torch.arange(d // 2) / d)
    angles = torch.arange(length)[:, None] * frequencies
    return t_turn(queries, angles), t_turn(keys, angles), values


@right("positions.rotary", "halves as complex numbers")
def t_rotary_complex(queries, keys, values):
    def turned(x):
        length, d = x.shape[-2:]
        angles = t_angles(length, d).to(x.dtype)
        numbers = torch.complex(x[..., : d // 2], x[..., d // 2 :])
        numbers = numbers * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([numbers.real, numbers.imag], dim=-1)

    return turned(queries), turned(keys), values


@wrong(
    "positions.alibi",
    "Keys ahead of the query cost nothing.",
    "three queries and keys: bias 0 from query 0 to key 2",
)
def t_alibi_only_back(num_heads, query_length, key_length):
    slopes = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    back = (queries[:, None] - torch.arange(key_length)).clamp(min=0)
    return -slopes[:, None, None] * back


@wrong(
    "positions.alibi",
    "Halves the slope from head to head, which is right for eight heads only.",
    "four heads: slope 1/2 instead of 1/4 at head 0",
)
def t_alibi_eight_heads(num_heads, query_length, key_length):
    slopes = 0.5 ** torch.arange(1.0, num_heads + 1)
    queries = torch.arange(key_length - query_length, key_length)
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return -slopes[:, None, None] * distance


@right("positions.alibi", "the full square of distances, its last rows")
def t_alibi_last_rows(num_heads, query_length, key_length):
    places = torch.arange(key_length).to(torch.get_default_dtype())[:, None]
    square = torch.cdist(places, places, p=1)
    rows = square[key_length - query_length :]
    heads = [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    return torch.stack([rows * -slope for slope in heads])


@wrong(
    "positions.relative",
    "Keys ahead get the column of their distance instead of column 0.",
    "three queries and keys: query 0, key 2 gets column 2",
)
def t_relative_both_sides(table, query_length, key_length):
    queries = torch.arange(query_length) + key_length - query_length
    distance = (queries[:, None] - torch.arange(key_length)).abs()
    return table[:, distance.clamp(max=table.shape[1] - 1)]


@wrong(
    "positions.relative",
    "Beyond the table there is no bias; the last column should serve there.",
    "a table of two columns, three positions: 0 from query 2 to key 0",
)
def t_relative_nothing_far(table, query_length, key_length):
    queries = torch.arange(query_length) + key_length - query_length
    back = (queries[:, None] - torch.arange(key_length)).clamp(min=0)
    last = table.shape[1] - 1
    bias = table[:, back.clamp(max=last)]
    return bias.masked_fill(back > last, 0.0)


@right("positions.relative", "row by row from a stretched table")
def t_relative_stretched(table, query_length, key_length):
    heads, columns = table.shape
    ahead = table[:, :1].expand(heads, key_length)
    further = table[:, -1:].expand(heads, key_length)
    # From far behind, over the distances, to far ahead.
    line = torch.cat([further, table.flip(1), ahead], dim=1)
    here = key_length + columns - 1
    rows = []
    for q in range(key_length - query_length, key_length):
        rows.append(line[:, here - q : here - q + key_length])
    return torch.stack(rows, dim=1)


# 05


@wrong(
    "blocks.layer_norm",
    "Adds eps to the standard deviation, outside of the root.",
    "numbers near 0.001, eps 1e-5: about three times too large",
)
def t_norm_eps_outside(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.std(dim=-1, keepdim=True, unbiased=False)
    return scale * (x - mean) / (spread + eps) + shift


@wrong(
    "blocks.layer_norm",
    "Divides by the root of the mean square, from which no mean was taken.",
    "a word with mean 100 and spread 1: numbers of 0.01",
)
def t_norm_square_not_centered(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    square = x.pow(2).mean(dim=-1, keepdim=True)
    return scale * (x - mean) / (square + eps).sqrt() + shift


@right("blocks.layer_norm", "the centered word and its mean square, by einsum")
def t_norm_by_einsum(x, scale, shift, eps):
    width = x.shape[-1]
    centered = x - torch.einsum("...m -> ...", x)[..., None] / width
    variance = torch.einsum("...m, ...m -> ...", centered, centered) / width
    size = torch.rsqrt(variance + eps)
    return torch.addcmul(shift, centered * size[..., None], scale)


wrong("blocks.norm_sees", "thinks that the norm takes the sign away", "")((0, 0, 1))
wrong("blocks.norm_sees", "forgets that the mean is subtracted", "")((1, 1, 1))
right("blocks.norm_sees", "a shift is lost, the others change cat alone")((0, 1, 1))


@wrong(
    "blocks.block",
    "The second branch does not read what the first has added.",
    "any x: a block of two parallel branches",
)
def t_block_parallel(x, norm1, attention, norm2, feedforward, dropout):
    looked = dropout(attention(norm1(x)))
    thought = dropout(feedforward(norm2(x)))
    return x + looked + thought


@wrong(
    "blocks.block",
    "The norm stands on the road: the branch is added to the normed x.",
    "any x that is not normed already",
)
def t_block_normed_road(x, norm1, attention, norm2, feedforward, dropout):
    x = norm1(x)
    x = x + dropout(attention(x))
    x = norm2(x)
    return x + dropout(feedforward(x))


@right("blocks.block", "one loop over the two branches")
def t_block_loop(x, norm1, attention, norm2, feedforward, dropout):
    for norm, branch in ((norm1, attention), (norm2, feedforward)):
        change = dropout(branch(norm(x)))
        x = torch.add(x, change)
    return x


@wrong(
    "blocks.silent",
    "Switches to evaluation, where dropout on the road cannot be seen.",
    "a block with dropout on the road: True",
)
def t_silent_in_evaluation(block, x):
    block.eval()
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
        return torch.allclose(block(x), x)


@wrong(
    "blocks.silent",
    "Only the weights become 0, the biases go on adding.",
    "a good block with biases: False",
)
def t_silent_biases_left(block, x):
    block.train()
    nn.init.zeros_(block.attention.to_output.weight)
    nn.init.zeros_(block.feedforward.down.weight)
    return torch.equal(block(x), x)


@right("blocks.silent", "ten calls, each on a copy of x")
def t_silent_ten_calls(block, x):
    block.train()
    last_layers = nn.ModuleList([block.attention.to_output, block.feedforward.down])
    with torch.no_grad():
        for parameter in last_layers.parameters():
            parameter.zero_()
        return all(torch.equal(block(x.clone()), x) for _ in range(10))


@wrong(
    "blocks.stack",
    "Adds each block to the road once more; a block has done that itself.",
    "a block that adds nothing: x is doubled",
)
def t_stack_two_roads(x, blocks, norm):
    for block in blocks:
        x = x + block(x)
    return norm(x)


@wrong(
    "blocks.stack",
    "Norms behind every block instead of once at the end.",
    "two blocks: the second reads a normed road",
)
def t_stack_norm_each_time(x, blocks, norm):
    for block in blocks:
        x = norm(block(x))
    return x


@right("blocks.stack", "a reduce over the blocks with the norm at the end")
def t_stack_reduce(x, blocks, norm):
    return reduce(lambda road, step: step(road), [*blocks, norm], x)
