"""Answers of strangers to twelve exercises, written from their prompts alone."""

import math
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong


def right(exercise, why, answer):
    """Enter a right answer."""
    ANSWERS.right(exercise, why)(answer)


# ---------------------------------------------------------------- attention.weights


@wrong(
    "attention.weights",
    "Nothing is subtracted before exp, so large scores overflow.",
    "scores [[1000, 999]] in float32 or float64: inf / inf gives nan",
)
def weights_without_subtraction(scores):
    powers = torch.exp(scores)
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The sum loses its axis (no keepdim), so each column, not each row, is divided.",
    "any 3x3 scores with unlike rows: rows do not sum to 1 (2x3 raises)",
)
def weights_sum_without_keepdim(scores):
    top = scores.max(dim=-1, keepdim=True).values
    powers = torch.exp(scores - top)
    return powers / powers.sum(dim=-1)


@wrong(
    "attention.weights",
    "The maximum of the whole tensor is subtracted, not the maximum of each row.",
    "scores [[0, 1], [2000, 2001]]: the first row is 0 / 0 = nan",
)
def weights_with_global_maximum(scores):
    powers = torch.exp(scores - scores.max())
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "The mean of the row is subtracted; only the maximum keeps exp from overflowing.",
    "scores [[2000, 0, 0, 0]]: 1500 above the mean, inf / inf gives nan",
)
def weights_with_row_mean(scores):
    powers = torch.exp(scores - scores.mean(dim=-1, keepdim=True))
    return powers / powers.sum(dim=-1, keepdim=True)


@wrong(
    "attention.weights",
    "All weights together sum to 1, not those of each query.",
    "scores of shape 2x3 (two queries) at all 0: 1/6 each; one row alone is right",
)
def weights_one_sum_for_all(scores):
    powers = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return powers / powers.sum()


def weights_row_by_row(scores):
    rows = scores.reshape(-1, scores.shape[-1])
    weights = torch.empty_like(rows)
    for number, row in enumerate(rows):
        powers = torch.exp(row - max(row.tolist()))
        weights[number] = powers / powers.sum()
    return weights.reshape(scores.shape)


class WeightsInDouble:
    """Softmax in float64, given back in the type that came."""

    def __call__(self, scores):
        exact = scores.double()
        powers = (exact - exact.detach().amax(-1, keepdim=True)).exp()
        sums = torch.einsum("...k->...", powers).unsqueeze(-1)
        return (powers / sums).to(scores.dtype)


def weights_by_log_sum(scores):
    below = scores - scores.amax(dim=-1, keepdim=True)
    return torch.exp(below - torch.log(below.exp().sum(dim=-1, keepdim=True)))


right(
    "attention.weights",
    "a loop over rows that fills an empty tensor; max by plain Python",
    weights_row_by_row,
)
right(
    "attention.weights",
    "a callable object; float64 inside, einsum for the sum, maximum detached",
    WeightsInDouble(),
)
right(
    "attention.weights",
    "another formula: exp(s - log of the sum); the division is in the exponent",
    weights_by_log_sum,
)

# ---------------------------------------------------------------- heads.split


@wrong(
    "heads.split",
    "Reshaped straight to b h t d: positions and heads are mixed, a transpose lacks.",
    "x = arange(8) as 1x2x4, 2 heads: head 0 gets 0 1 2 3 (right at t = 1)",
)
def split_reshape_only(x, num_heads):
    b, t, m = x.shape
    return x.reshape(b, num_heads, t, m // num_heads)


@wrong(
    "heads.split",
    "The width runs slowly and the head fast: each head gets every h-th column.",
    "x = arange(4) as 1x1x4, 2 heads: head 0 gets 0 2 instead of 0 1",
)
def split_interleaved(x, num_heads):
    b, t, m = x.shape
    return x.reshape(b, t, m // num_heads, num_heads).transpose(2, 3).transpose(1, 2)


@wrong(
    "heads.split",
    "num_heads is used as the width of a head.",
    "x of width 6, 2 heads: 3 heads of width 2; right for width 4, 2 heads",
)
def split_heads_taken_for_width(x, num_heads):
    b, t, m = x.shape
    return x.reshape(b, t, m // num_heads, num_heads).transpose(1, 2)


@wrong(
    "heads.split",
    "Batch and position are read in the wrong order, so sentences are mixed.",
    "x = arange(24) as 2x3x4, 2 heads; right for one sentence or one position",
)
def split_time_before_batch(x, num_heads):
    b, t, m = x.shape
    pieces = x.reshape(t, b, num_heads, m // num_heads)
    return pieces.transpose(0, 1).transpose(1, 2)


@wrong(
    "heads.split",
    "The input itself is transposed in place; the caller's x has another shape.",
    "x of shape 2x3x4, 2 heads: the result is right, but x is 2x4x3 afterwards",
)
def split_transposes_in_place(x, num_heads):
    b, t, m = x.shape
    columns = x.transpose_(1, 2)
    return columns.reshape(b, num_heads, m // num_heads, t).transpose(2, 3)


def split_columns_first(x, num_heads):
    b, t, m = x.shape
    columns = x.transpose(-1, -2).reshape(b, num_heads, m // num_heads, t)
    return torch.transpose(columns, -1, -2)


class SplitEachWord:
    """Cuts one long list of words, then sorts the pieces by sentence and head."""

    def __call__(self, x, num_heads):
        *front, t, m = x.shape
        width = m // num_heads
        pieces = x.reshape(math.prod(front) * t, num_heads, width)
        pieces = pieces.transpose(0, 1).reshape(num_heads, *front, t, width)
        return pieces.transpose(0, 1)


right(
    "heads.split",
    "transposes first, reshapes then; the result is not contiguous",
    split_columns_first,
)
right(
    "heads.split",
    "a callable object that forgets the sentences and finds them again",
    SplitEachWord(),
)

# ---------------------------------------------------------------- masks.padding


@wrong(
    "masks.padding",
    "The mask is turned around: True at padding.",
    "ids [[5, 6, 0]], pad_id 0",
)
def padding_inverted(ids, pad_id):
    return (ids == pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "The mask stands on the query axis (b 1 t 1): it closes rows, not columns.",
    "ids [[5, 6, 0]], pad_id 0: shape 1x1x3x1; the same for one token",
)
def padding_hides_queries(ids, pad_id):
    return (ids != pad_id)[:, None, :, None]


@wrong(
    "masks.padding",
    "Only ids above pad_id count as real, so words with smaller ids are hidden.",
    "ids [[1, 2, 3]], pad_id 3: no True at all; right with pad_id 0",
)
def padding_greater_than(ids, pad_id):
    return (ids > pad_id)[:, None, None, :]


@wrong(
    "masks.padding",
    "The real tokens are counted and taken to stand at the left.",
    "ids [[0, 0, 5]], pad_id 0 (left padding): opens position 0, closes the word",
)
def padding_counted_from_left(ids, pad_id):
    lengths = (ids != pad_id).sum(dim=1)
    open_keys = torch.arange(ids.shape[1]) < lengths[:, None]
    return open_keys[:, None, None, :]


@wrong(
    "masks.padding",
    "A sentence of padding only is opened, though nobody may look at padding.",
    "ids [[5, 6], [0, 0]], pad_id 0: the second row is True True",
)
def padding_opens_empty_sentence(ids, pad_id):
    real = ids != pad_id
    empty = ~real.any(dim=1, keepdim=True)
    return (real | empty)[:, None, None, :]


def padding_token_by_token(ids, pad_id):
    flags = [token != pad_id for row in ids.tolist() for token in row]
    return torch.tensor(flags, dtype=torch.bool).reshape(len(ids), 1, 1, ids.shape[1])


def padding_by_numpy(pattern, ids, pad_id):
    real = np.not_equal(ids.numpy(), pad_id)
    return torch.from_numpy(rearrange(real, pattern))


right(
    "masks.padding",
    "plain Python over tolist(), then one reshape",
    padding_token_by_token,
)
right(
    "masks.padding",
    "functools.partial, numpy for the comparison, einops for the axes",
    partial(padding_by_numpy, "b k -> b 1 1 k"),
)

# ---------------------------------------------------------------- positions.alibi


@wrong(
    "positions.alibi",
    "The queries are counted from position 0; they are the last positions.",
    "num_heads 2, query_length 1, key_length 4: the last word gets price 0 at key 0",
)
def alibi_queries_from_zero(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    queries, keys = torch.arange(query_length), torch.arange(key_length)
    return -rates[:, None, None] * (queries[:, None] - keys).abs()


@wrong(
    "positions.alibi",
    "The exponent starts with head 0 instead of 1, so head 0 pays the full distance.",
    "num_heads 4, lengths 3 and 3: the rate of head 0 is 1 instead of 1/4",
)
def alibi_exponent_from_zero(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(num_heads) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    return -rates[:, None, None] * (queries[:, None] - torch.arange(key_length)).abs()


@wrong(
    "positions.alibi",
    "The distance has no absolute value, so keys behind a query get a bonus.",
    "num_heads 1, lengths 2 and 2: +2**-8 at query 0, key 1; right for 1 query",
)
def alibi_without_absolute_value(num_heads, query_length, key_length):
    rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    return -rates[:, None, None] * (queries[:, None] - torch.arange(key_length))


@wrong(
    "positions.alibi",
    "The exponent 8 (h + 1) / H is rounded to a whole number.",
    "num_heads 3 (or 6, 12), lengths 1 and 2: rate 2**-2, not 2**-2.67; 8 is right",
)
def alibi_whole_exponents(num_heads, query_length, key_length):
    rates = 2.0 ** -(8 * torch.arange(1, num_heads + 1) // num_heads)
    queries = torch.arange(key_length - query_length, key_length)
    return -rates[:, None, None] * (queries[:, None] - torch.arange(key_length)).abs()


KEPT_PRICES = {}


@wrong(
    "positions.alibi",
    "A table is kept per number of heads, and a later call with other lengths cuts "
    "the wrong corner out of it.",
    "first (2, 4, 4), then (2, 1, 4): the second call returns the row of query 0",
)
def alibi_keeps_the_first_table(num_heads, query_length, key_length):
    if num_heads not in KEPT_PRICES:
        rates = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
        queries = torch.arange(key_length - query_length, key_length)
        distance = (queries[:, None] - torch.arange(key_length)).abs()
        KEPT_PRICES[num_heads] = -rates[:, None, None] * distance
    return KEPT_PRICES[num_heads][:, :query_length, :key_length]


def alibi_three_loops(num_heads, query_length, key_length):
    bias = torch.zeros(num_heads, query_length, key_length)
    for h in range(num_heads):
        rate = math.pow(0.5, 8 * (h + 1) / num_heads)
        for row in range(query_length):
            position = key_length - query_length + row
            for k in range(key_length):
                bias[h, row, k] -= rate * abs(position - k)
    return bias


def alibi_by_products(num_heads, query_length, key_length):
    step = torch.full((num_heads,), 2.0 ** (-8 / num_heads), dtype=torch.float64)
    keys = torch.arange(key_length, dtype=torch.float64)
    queries = keys[key_length - query_length :]
    distance = torch.cdist(queries[:, None], keys[:, None], p=1)
    return torch.einsum("h,qk->hqk", step.cumprod(0), -distance)


right("positions.alibi", "three plain loops", alibi_three_loops)
right(
    "positions.alibi",
    "float64; rates as a running product, distances by cdist, einsum",
    alibi_by_products,
)

# ---------------------------------------------------------------- blocks.layer_norm


@wrong(
    "blocks.layer_norm",
    "The variance divides by m - 1 (torch's default) instead of m.",
    "x [[1, 2, 3, 4]], scale 1, shift 0: 1.16 instead of 1.34 at the end",
)
def norm_unbiased(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(x.var(dim=-1, keepdim=True) + eps) * scale + shift


@wrong(
    "blocks.layer_norm",
    "Mean and variance are taken over the whole sentence, not over each word.",
    "x [[1, 2], [10, 30]]; a single word alone is right",
)
def norm_over_the_sentence(x, scale, shift, eps):
    axes = (-2, -1)
    mean = x.mean(dim=axes, keepdim=True)
    variance = x.var(dim=axes, keepdim=True, unbiased=False)
    return (x - mean) / torch.sqrt(variance + eps) * scale + shift


@wrong(
    "blocks.layer_norm",
    "eps is added to the standard deviation, not to the variance under the root.",
    "a quiet word x [[0, 0.002]], eps 1e-5: 0.99 instead of 0.30; usual words agree",
)
def norm_eps_outside_root(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.std(dim=-1, keepdim=True, unbiased=False)
    return (x - mean) / (spread + eps) * scale + shift


@wrong(
    "blocks.layer_norm",
    "The variance is mean of squares minus square of mean, which cancels to nothing "
    "where a word stands far from 0.",
    "float32 x [[10000, 10001, 10002, 10003]], eps 1e-5: far from +-1.34, or nan",
)
def norm_by_mean_of_squares(x, scale, shift, eps):
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x * x).mean(dim=-1, keepdim=True) - mean * mean
    return (x - mean) / torch.sqrt(variance + eps) * scale + shift


@wrong(
    "blocks.layer_norm",
    "Mean and variance are cut off from the gradient, so training gets a wrong one.",
    "x [[1, 2, 4]] with gradient, sum of squares backward: not near 0 (eps 1e-5)",
)
def norm_statistics_without_gradient(x, scale, shift, eps):
    with torch.no_grad():
        mean = x.mean(dim=-1, keepdim=True)
        variance = (x - mean).square().mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * scale + shift


class NormOfTorch:
    """What torch has for it."""

    def __call__(self, x, scale, shift, eps):
        return F.layer_norm(x, x.shape[-1:], scale, shift, eps)


def norm_by_centering_matrix(x, scale, shift, eps):
    m = x.shape[-1]
    center = torch.eye(m, dtype=torch.float64) - 1 / m
    middle = torch.einsum("...m,mn->...n", x.double(), center)
    squares = torch.einsum("...m,...m->...", middle, middle) / m
    y = middle * torch.rsqrt(squares + eps)[..., None]
    return torch.addcmul(shift.double(), y, scale.double()).to(x.dtype)


def norm_word_by_word(x, scale, shift, eps):
    words = x.reshape(-1, x.shape[-1]).unbind(0)
    normed = []
    for word in words:
        distance = word - word.sum() / len(word)
        root = torch.sqrt(distance.dot(distance) / len(word) + eps)
        normed.append(distance / root * scale + shift)
    return torch.stack(normed).reshape(x.shape)


right("blocks.layer_norm", "a callable object around F.layer_norm", NormOfTorch())
right(
    "blocks.layer_norm",
    "float64 inside; centers by a matrix I - 1/m; rsqrt and addcmul",
    norm_by_centering_matrix,
)
right("blocks.layer_norm", "a loop over words, dot products", norm_word_by_word)

# ---------------------------------------------------------------- context_step


@wrong(
    "recurrent.context_step",
    "Padding is set to 0 after the softmax, and the rest no longer sums to 1.",
    "any sentence with one False in its mask: the context is too short",
)
def step_masks_after_softmax(state, memory, mask, W):
    weights = torch.einsum("bm,bkm->bk", state, memory).softmax(dim=-1)
    context = torch.einsum("bk,bkm->bm", weights * mask, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "State and context are joined in the wrong order.",
    "any random input: the halves of W meet the wrong vectors",
)
def step_state_before_context(state, memory, mask, W):
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(torch.cat([state, context], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Padding gets the score -100, and a real score can be lower than that.",
    "state [[20, 0]], memory [[[-10, 0], [0, 5]]], mask [[True, False]]: score -200 "
    "loses to -100",
)
def step_fills_minus_hundred(state, memory, mask, W):
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = scores.masked_fill(~mask, -100.0).softmax(dim=-1)
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "squeeze removes the batch axis as well when there is one sentence.",
    "one sentence (b = 1): the result has shape m instead of 1 m",
)
def step_squeezes_the_batch(state, memory, mask, W):
    scores = memory @ state[:, :, None]
    weights = scores.masked_fill(~mask[:, :, None], float("-inf")).softmax(dim=1)
    context = weights.transpose(1, 2) @ memory
    joined = torch.cat([context, state[:, None, :]], dim=-1)
    return torch.tanh(joined @ W.T).squeeze()


@wrong(
    "recurrent.context_step",
    "The padding in memory is set to 0 in place, so the caller's memory changes.",
    "any mask with a False: the result is right, memory is 0 there afterwards",
)
def step_clears_the_memory(state, memory, mask, W):
    memory.masked_fill_(~mask[:, :, None], 0.0)
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


def step_by_sentence(state, memory, mask, W):
    rows = []
    for asked, words, real in zip(state, memory, mask, strict=True):
        kept = words[real]
        shares = torch.softmax(kept @ asked, dim=0)
        rows.append(torch.tanh(W @ torch.cat([shares @ kept, asked])))
    return torch.stack(rows)


def step_two_halves(state, memory, mask, W):
    m = state.shape[1]
    scores = (memory * state.unsqueeze(1)).sum(-1)
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=1) * mask
    from_context = F.linear(torch.bmm(weights[:, None], memory)[:, 0], W[:, :m])
    return (from_context + F.linear(state, W[:, m:])).tanh()


def step_by_log_weights(join, state, memory, mask, W):
    scores = rearrange(memory @ rearrange(state, "b m -> b m 1"), "b k 1 -> b k")
    scores = scores.masked_fill(mask.logical_not(), -torch.inf)
    weights = scores.log_softmax(dim=1).exp()
    context = (weights[..., None] * memory).sum(dim=1)
    return join(torch.einsum("nm,bm->bn", W, torch.hstack([context, state])))


right(
    "recurrent.context_step",
    "a loop over sentences that keeps only the real words, so no mask is left",
    step_by_sentence,
)
right(
    "recurrent.context_step",
    "W is cut into two halves; fills the lowest number, then multiplies by the mask",
    step_two_halves,
)
right(
    "recurrent.context_step",
    "functools.partial; weights by exp(log_softmax); einops; nan if all is padding",
    partial(step_by_log_weights, torch.tanh),
)

# ---------------------------------------------------------------- translation.loss


@wrong(
    "translation.loss",
    "Nothing is shifted: each score is compared with the token it has just read.",
    "any random scores with target [[1, 5, 6, 2]], pad_id 0",
)
def loss_unshifted(scores, target, pad_id):
    return F.cross_entropy(scores.transpose(1, 2), target, ignore_index=pad_id)


@wrong(
    "translation.loss",
    "The sum over real tokens is divided by all places, padding included.",
    "target [[1, 5, 2, 0, 0]], pad_id 0, scores 0: half of ln v; right without padding",
)
def loss_divided_by_all_places(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels, reduction="none")
    return (losses * (labels != pad_id)).mean()


@wrong(
    "translation.loss",
    "Averaged per sentence first, so tokens of short sentences count more.",
    "target [[1, 5, 6, 2], [1, 2, 0, 0]], pad_id 0, random scores; equal lengths agree",
)
def loss_mean_of_sentence_means(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels, reduction="none")
    real = (labels != pad_id).to(losses.dtype)
    return ((losses * real).sum(dim=1) / real.sum(dim=1)).mean()


@wrong(
    "translation.loss",
    "Real places are taken from the inputs, not from the labels, so the first padding "
    "of each sentence is counted.",
    "target [[1, 5, 2, 0]], pad_id 0, random scores: 3 labels count instead of 2; "
    "right without padding",
)
def loss_real_by_inputs(scores, target, pad_id):
    inputs, labels = target[:, :-1], target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].transpose(1, 2), labels, reduction="none")
    return losses[inputs != pad_id].mean()


@wrong(
    "translation.loss",
    "The result is in bits, not in nats.",
    "scores all 0 with v = 8: 3 instead of ln 8 = 2.08",
)
def loss_in_bits(scores, target, pad_id):
    labels = target[:, 1:]
    log_p = scores[:, :-1].log_softmax(dim=-1) / math.log(2)
    losses = -log_p.gather(-1, labels[:, :, None])[:, :, 0]
    return losses[labels != pad_id].mean()


def loss_token_by_token(scores, target, pad_id):
    total, count = torch.zeros((), dtype=torch.float64), 0
    for rows, tokens in zip(scores.double(), target.tolist(), strict=True):
        for row, label in zip(rows, tokens[1:], strict=False):
            if label != pad_id:
                total = total + torch.logsumexp(row, dim=0) - row[label]
                count += 1
    return total / max(count, 1)


class LossOfRealTokens:
    """Picks the real labels out, then one nll_loss in the type of the scores."""

    def __call__(self, scores, target, pad_id):
        real = target[:, 1:].ne(pad_id)
        chosen = scores[:, :-1][real]
        log_p = nn_log_softmax(chosen)
        return F.nll_loss(log_p, target[:, 1:][real], reduction="sum") / real.sum()


nn_log_softmax = torch.nn.LogSoftmax(dim=-1)

right(
    "translation.loss",
    "two loops and logsumexp; float64 result; 0 where nothing is real",
    loss_token_by_token,
)
right(
    "translation.loss",
    "a callable object with nn.LogSoftmax and nll_loss; nan where nothing is real",
    LossOfRealTokens(),
)

# ---------------------------------------------------------------- strongest_clue


@wrong(
    "senses.strongest_clue",
    "The heads are not averaged: argmax counts through all heads in one row.",
    "h = 2, 3 keys, head 1 has the largest weight: an answer of 3 or more",
)
def clue_over_flat_heads(weights, position):
    return weights[:, position].argmax().item()


@wrong(
    "senses.strongest_clue",
    "The column is read, not the row: who looks at the word, not where it looks.",
    "one head [[0.1, 0.9], [0.2, 0.8]], position 1: 0 instead of 1",
)
def clue_by_column(weights, position):
    return weights.mean(dim=0)[:, position].argmax().item()


@wrong(
    "senses.strongest_clue",
    "The largest weight of any single head decides, not the mean over heads.",
    "rows of the word in two heads: [0.6, 0.4, 0] and [0, 0.45, 0.55]: 0 instead of 1",
)
def clue_of_the_boldest_head(weights, position):
    return weights.amax(dim=0)[position].argmax().item()


@wrong(
    "senses.strongest_clue",
    "The word itself is left out, though it may be the key that it looks at most.",
    "one head, position 0, row [0.7, 0.3]: 1 instead of 0",
)
def clue_without_the_word_itself(weights, position):
    row = weights.mean(dim=0)[position].clone()
    row[position] = -1.0
    return int(row.argmax())


@wrong(
    "senses.strongest_clue",
    "The heads vote with their favorite keys; their weights are not averaged.",
    "rows of the word in three heads: [0.51, 0.49, 0] twice and [0, 1, 0]: 0, not 1",
)
def clue_by_vote(weights, position):
    favorites = weights[:, position].argmax(dim=-1)
    return favorites.mode().values.item()


def clue_as_tensor(weights, position):
    return torch.einsum("hqk->qk", weights.double())[position].argmax()


def clue_by_plain_python(weights, position):
    heads = [head[position] for head in weights.tolist()]
    means = [math.fsum(column) / len(heads) for column in zip(*heads, strict=True)]
    return max(range(len(means)), key=means.__getitem__)


right(
    "senses.strongest_clue",
    "returns a 0-dim tensor; sums over heads in place of a mean",
    clue_as_tensor,
)
right("senses.strongest_clue", "plain Python lists and fsum", clue_by_plain_python)

# ---------------------------------------------------------------- next_token_loss


@wrong(
    "backbone.next_token_loss",
    "Nothing is shifted: the model is graded on the token it has just read.",
    "any random logits with unlike ids in a row",
)
def next_unshifted(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


@wrong(
    "backbone.next_token_loss",
    "Shifted the wrong way: the logits are compared with the token before.",
    "any random logits with unlike ids in a row",
)
def next_shifted_backward(logits, ids):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())


@wrong(
    "backbone.next_token_loss",
    "Flattened before the shift: the last logits of a row meet the first id of the "
    "next row.",
    "logits [[[0, 0], [20, 0]], [[0, 0], [0, 0]]], ids [[0, 1], [1, 0]]: 7.13, not "
    "ln 2 = 0.69; right for one row",
)
def next_shifted_over_row_ends(logits, ids):
    flat = logits.reshape(-1, logits.shape[-1])
    return F.cross_entropy(flat[:-1], ids.reshape(-1)[1:])


@wrong(
    "backbone.next_token_loss",
    "The logarithm of a softmax that has become 0 is minus infinity.",
    "logits [[[0, 2000], [0, 0]]], ids [[1, 0]]: inf instead of 2000",
)
def next_log_of_softmax(logits, ids):
    chances = logits[:, :-1].softmax(dim=-1)
    picked = chances.gather(-1, ids[:, 1:, None])
    return -picked.log().mean()


@wrong(
    "backbone.next_token_loss",
    "b t v is reshaped to b v t where it needs a transpose, which mixes the scores.",
    "any random logits with t of 3 or more",
)
def next_reshaped_axes(logits, ids):
    b, t, v = logits.shape
    return F.cross_entropy(logits[:, :-1].reshape(b, v, t - 1), ids[:, 1:])


def next_as_python_number(logits, ids):
    losses = []
    for row, tokens in zip(logits.detach().double(), ids, strict=True):
        for scores, label in zip(row[:-1], tokens[1:], strict=True):
            losses.append((scores.logsumexp(0) - scores[label]).item())
    return math.fsum(losses) / len(losses)


def next_by_one_hot(logits, ids):
    ahead = logits[:, :-1].double()
    labels = F.one_hot(ids[:, 1:], logits.shape[-1]).double()
    reached = torch.einsum("btv,btv->", ahead, labels)
    return (ahead.logsumexp(dim=-1).sum() - reached) / labels.sum()


def next_by_criterion(criterion, logits, ids):
    return criterion(rearrange(logits, "b t v -> b v t")[..., :-1], ids[:, 1:])


right(
    "backbone.next_token_loss",
    "returns a Python number from float64 (no gradient)",
    next_as_python_number,
)
right(
    "backbone.next_token_loss",
    "mean of logsumexp minus the label's score, by one-hot, einsum; float64",
    next_by_one_hot,
)
right(
    "backbone.next_token_loss",
    "functools.partial around nn.CrossEntropyLoss, classes on axis 1",
    partial(next_by_criterion, torch.nn.CrossEntropyLoss()),
)

# ---------------------------------------------------------------- training.clip


@wrong(
    "training.clip",
    "Each tensor is clipped by its own length, so the common direction turns.",
    "[tensor([30.0]), tensor([0.5])], most 1; a single tensor is right",
)
def clip_each_alone(gradients, most):
    clipped = []
    for g in gradients:
        length = g.norm()
        clipped.append(g * (most / length) if length > most else g.clone())
    return clipped


@wrong(
    "training.clip",
    "Short gradients are stretched to the length as well; clipping only shortens.",
    "[tensor([0.3, 0.4])], most 1: length 1 instead of 0.5",
)
def clip_always_scales(gradients, most):
    length = torch.sqrt(sum((g**2).sum() for g in gradients))
    return [g * (most / length) for g in gradients]


@wrong(
    "training.clip",
    "Gradients of 0 are divided by their length 0.",
    "[zeros(3), zeros(2)], most 1: nan instead of 0",
)
def clip_divides_by_zero(gradients, most):
    length = torch.sqrt(sum((g**2).sum() for g in gradients))
    return [g / length * length.clamp(max=most) for g in gradients]


@wrong(
    "training.clip",
    "The gradients handed in are changed in place, where new ones were asked for.",
    "[tensor([3.0, 4.0])], most 1: the caller's tensor is (0.6, 0.8) afterwards",
)
def clip_in_place(gradients, most):
    length = torch.sqrt(sum((g**2).sum() for g in gradients))
    if length > most:
        for g in gradients:
            g.mul_(most / length)
    return [g.clone() for g in gradients]


@wrong(
    "training.clip",
    "The lengths of the tensors are added up; the common length is the root of the "
    "sum of their squares.",
    "[tensor([3.0]), tensor([4.0])], most 5: shortened by 5/7, though the length is 5",
)
def clip_adds_lengths(gradients, most):
    length = sum(g.norm() for g in gradients)
    scale = torch.clamp(most / length, max=1.0)
    return [g * scale for g in gradients]


def clip_one_long_vector(gradients, most):
    sizes = [g.numel() for g in gradients]
    long = torch.cat([g.reshape(-1) for g in gradients])
    long = long * min(1.0, most / max(torch.linalg.norm(long).item(), most))
    pieces = long.split(sizes)
    return [p.reshape(g.shape) for p, g in zip(pieces, gradients, strict=True)]


class ClipByHypot:
    """The length by math.hypot, the scale as a Python number."""

    def __call__(self, gradients, most):
        length = math.hypot(*(x for g in gradients for x in g.flatten().tolist()))
        scale = most / length if length > most else 1.0
        return [scale * g.clone() for g in gradients]


right(
    "training.clip",
    "one long vector, cut into its tensors again; divides by max(length, most)",
    clip_one_long_vector,
)
right("training.clip", "a callable object; math.hypot in float64", ClipByHypot())

# ---------------------------------------------------------------- generation.top_p


@wrong(
    "generation.top_p",
    "A token's own probability is counted too: the one that crosses the line is cut.",
    "probabilities 0.5, 0.3, 0.2, p 0.7: keeps one token instead of two",
)
def top_p_drops_the_crossing(scores, p):
    ranked, order = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = ranked * (ranked.cumsum(dim=-1) <= p)
    kept = kept / kept.sum(dim=-1, keepdim=True)
    return torch.zeros_like(kept).scatter(-1, order, kept)


@wrong(
    "generation.top_p",
    "What is left is not rescaled to sum to 1.",
    "probabilities 0.5, 0.3, 0.2, p 0.7: sums to 0.8; right where all are kept",
)
def top_p_not_rescaled(scores, p):
    ranked, order = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    before = ranked.cumsum(dim=-1) - ranked
    return torch.zeros_like(ranked).scatter(-1, order, ranked * (before < p))


@wrong(
    "generation.top_p",
    "One token too many where those before it reach p exactly (<= in place of <).",
    "scores [[0, 0, 0, 0]], p 0.5: keeps three tokens instead of two",
)
def top_p_exact_fit_keeps_more(scores, p):
    ranked, order = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    kept = ranked * (ranked.cumsum(dim=-1) - ranked <= p)
    kept = kept / kept.sum(dim=-1, keepdim=True)
    return torch.zeros_like(kept).scatter(-1, order, kept)


@wrong(
    "generation.top_p",
    "Every token as likely as the last one kept stays, so ties keep too many.",
    "scores [[0, 0, 0, 0]], p 0.3: keeps four tokens instead of two",
)
def top_p_keeps_all_ties(scores, p):
    chances = scores.softmax(dim=-1)
    ranked = chances.sort(dim=-1, descending=True).values
    inside = ranked.cumsum(dim=-1) - ranked < p
    lowest = ranked.masked_fill(~inside, 2.0).amin(dim=-1, keepdim=True)
    kept = chances.masked_fill(chances < lowest, 0.0)
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong(
    "generation.top_p",
    "The result stays in ranked order; it is not put back to the tokens' places.",
    "scores [[0, 1, 2]], p 0.5: the 1 stands at token 0; right for falling scores",
)
def top_p_left_in_ranked_order(scores, p):
    ranked = scores.softmax(dim=-1).sort(dim=-1, descending=True).values
    kept = ranked * (ranked.cumsum(dim=-1) - ranked < p)
    return kept / kept.sum(dim=-1, keepdim=True)


def top_p_row_by_row(scores, p):
    rows = []
    for row in scores.softmax(dim=-1):
        chances, before = row.tolist(), 0.0
        stays = [0.0] * len(chances)
        for token in sorted(range(len(chances)), key=lambda i: -chances[i]):
            if before < p:
                stays[token] = 1.0
            before += chances[token]
        kept = row * row.new_tensor(stays)
        rows.append(kept / kept.sum())
    return torch.stack(rows)


def top_p_by_pairs(scores, p):
    chances = F.softmax(scores, dim=-1)
    v = scores.shape[-1]
    mine, other = chances[:, :, None], chances[:, None, :]
    earlier = torch.ones(v, v, dtype=torch.bool).tril(-1)
    ahead = (other > mine) | ((other == mine) & earlier)
    before = torch.einsum("bij,bj->bi", ahead.to(chances.dtype), chances)
    return F.normalize(chances * (before < p), p=1, dim=-1)


class TopPBySecondSoftmax:
    """Cuts the scores themselves, then a second softmax."""

    def __call__(self, scores, p):
        order = scores.argsort(dim=-1, descending=True, stable=True)
        ranked = scores.gather(-1, order)
        sums = ranked.softmax(dim=-1).cumsum(dim=-1)
        cut = F.pad(sums[:, :-1], (1, 0)) >= p
        rank = order.argsort(dim=-1)
        return scores.masked_fill(cut.gather(-1, rank), -torch.inf).softmax(dim=-1)


right("generation.top_p", "two loops and sorted()", top_p_row_by_row)
right(
    "generation.top_p",
    "no sort: each token adds up all tokens ahead of it; ties go to the lower id",
    top_p_by_pairs,
)
right(
    "generation.top_p",
    "a callable object: fills -inf and takes a second softmax of the scores",
    TopPBySecondSoftmax(),
)

# ---------------------------------------------------------------- scaling.power


@wrong(
    "scaling.power",
    "The sign: the slope of the line is -b.",
    "compute [1, 10, 100], losses compute ** -0.5: -0.5 instead of 0.5",
)
def power_returns_the_slope(compute, losses):
    return np.polyfit(np.log(compute), np.log(losses), 1)[0]


@wrong(
    "scaling.power",
    "Two different logarithms: base 10 for compute, e for the losses.",
    "compute [1, 10, 100], losses compute ** -0.5: 1.15 instead of 0.5",
)
def power_mixes_logarithms(compute, losses):
    return -np.polyfit(np.log10(compute), np.log(losses), 1)[0]


@wrong(
    "scaling.power",
    "Only the first and the last run are used; least squares uses all of them.",
    "compute [1, 10, 100, 1000], losses [8, 2, 2, 1]: 0.301 instead of 0.271; exact "
    "powers agree",
)
def power_from_two_ends(compute, losses):
    return -np.log(losses[-1] / losses[0]) / np.log(compute[-1] / compute[0])


@wrong(
    "scaling.power",
    "The line is fitted the wrong way round (compute from losses) and inverted.",
    "compute [1, 10, 100], losses [3, 1, 1]: larger than 0.239; exact powers agree",
)
def power_fitted_the_other_way(compute, losses):
    return -1 / np.polyfit(np.log(losses), np.log(compute), 1)[0]


@wrong(
    "scaling.power",
    "The line is forced through the origin, as if a were 1.",
    "compute [1, 10, 100], losses 5 * compute ** -0.5; right for a = 1",
)
def power_without_height(compute, losses):
    x, y = np.log(compute), np.log(losses)
    return -(x @ y) / (x @ x)


def power_by_hand(compute, losses):
    x = [math.log2(float(c)) for c in compute]
    y = [math.log2(float(loss)) for loss in losses]
    middle_x, middle_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    along = [u - middle_x for u in x]
    down = [middle_y - w for w in y]
    products = (u * w for u, w in zip(along, down, strict=True))
    return math.fsum(products) / math.fsum(u * u for u in along)


def power_by_torch(compute, losses):
    x = torch.as_tensor(compute, dtype=torch.float64).log()
    y = torch.as_tensor(losses, dtype=torch.float64).log()
    table = torch.stack([-x, torch.ones_like(x)], dim=1)
    return torch.linalg.lstsq(table, y[:, None]).solution[0, 0]


class PowerByCovariance:
    """Covariance over variance, in logarithms of base 10; float32 at the end."""

    def __call__(self, compute, losses):
        table = np.cov(np.log10(np.asarray([compute, losses], dtype=float)))
        return np.float32(-table[0, 1] / table[0, 0])


right(
    "scaling.power",
    "plain Python, logarithms of base 2 on both axes; returns a Python number",
    power_by_hand,
)
right("scaling.power", "torch.linalg.lstsq; returns a 0-dim tensor", power_by_torch)
right(
    "scaling.power",
    "a callable object: covariance over variance; returns a numpy float32",
    PowerByCovariance(),
)
