"""Answers of a stranger, written from the prompts alone."""

import codecs
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.attention import attend
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# --- 06 ------------------------------------------------------------------------------


@wrong(
    "recurrent.gru_step",
    "z is taken as the share of the candidate, as in Cho's text and many blogs.",
    "z near 1: the old state is dropped instead of kept",
)
def gru_gate_the_other_way(x, state, W, U, b):
    m = state.shape[-1]
    from_x, from_state = x @ W.T + b, state @ U.T
    r = torch.sigmoid(from_x[:, :m] + from_state[:, :m])
    z = torch.sigmoid(from_x[:, m : 2 * m] + from_state[:, m : 2 * m])
    candidate = torch.tanh(from_x[:, 2 * m :] + r * from_state[:, 2 * m :])
    return (1 - z) * state + z * candidate


@wrong(
    "recurrent.gru_step",
    "The reset gate meets the state before U, as Cho et al. have it.",
    "U_h not diagonal and r not constant: U(r h) is not r (U h)",
)
def gru_reset_before_u(x, state, W, U, b):
    w_r, w_z, w_h = W.chunk(3)
    u_r, u_z, u_h = U.chunk(3)
    b_r, b_z, b_h = b.chunk(3)
    r = torch.sigmoid(x @ w_r.T + state @ u_r.T + b_r)
    z = torch.sigmoid(x @ w_z.T + state @ u_z.T + b_z)
    candidate = torch.tanh(x @ w_h.T + b_h + (r * state) @ u_h.T)
    return z * state + (1 - z) * candidate


@wrong(
    "recurrent.gru_step",
    "The three parts are read in the order z, r, candidate, as Keras has them.",
    "whenever the rows of r and z differ",
)
def gru_keras_order(x, state, W, U, b):
    w_z, w_r, w_h = W.chunk(3)
    u_z, u_r, u_h = U.chunk(3)
    b_z, b_r, b_h = b.chunk(3)
    r = torch.sigmoid(x @ w_r.T + state @ u_r.T + b_r)
    z = torch.sigmoid(x @ w_z.T + state @ u_z.T + b_z)
    candidate = torch.tanh(x @ w_h.T + b_h + r * (state @ u_h.T))
    return z * state + (1 - z) * candidate


@wrong(
    "recurrent.gru_step",
    "The reset gate scales the bias of the candidate too.",
    "b_h not 0: r (U h + b) instead of b + r (U h)",
)
def gru_bias_behind_the_gate(x, state, W, U, b):
    return torch.gru_cell(x, state, W, U, torch.zeros_like(b), b)


@right(
    "recurrent.gru_step",
    "PyTorch's own cell, with zeros for its second bias",
)
def gru_by_torch(x, state, W, U, b):
    return torch.gru_cell(x, state, W, U, b, torch.zeros_like(b))


@right(
    "recurrent.gru_step",
    "row by row with matrix times column, sigmoid as a tanh, the state moved by a part",
)
def gru_row_by_row(x, state, W, U, b):
    rows = []
    for one_x, one_state in zip(x, state, strict=True):
        given = (torch.mv(W, one_x) + b).reshape(3, -1)
        kept = torch.mv(U, one_state).reshape(3, -1)
        r, z = (torch.tanh((given[:2] + kept[:2]) / 2) + 1) / 2
        candidate = torch.tanh(given[2] + r * kept[2])
        rows.append(candidate + z * (one_state - candidate))
    return torch.stack(rows)


@wrong(
    "recurrent.general_scores",
    "W acts on the query: (W s) · h, which is W transposed.",
    "any W that is not symmetric",
)
def general_on_the_query(queries, keys, W):
    return torch.einsum("bqi, ji, bkj -> bqk", queries, W, keys)


@wrong(
    "recurrent.general_scores",
    "Divided by sqrt(m), out of habit from the dot product of the Transformer.",
    "m = 4: half of every score",
)
def general_scaled(queries, keys, W):
    return queries @ W @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5


@wrong(
    "recurrent.general_scores",
    "W is applied to queries and keys both.",
    "W = 2 I: four times the dot product, not twice",
)
def general_both_sides(queries, keys, W):
    return (queries @ W.T) @ (keys @ W.T).transpose(1, 2)


@right(
    "recurrent.general_scores",
    "a Python loop over the keys, each sent through W as a column",
)
def general_key_by_key(queries, keys, W):
    columns = []
    for j in range(keys.shape[1]):
        sent = (W * keys[:, j, None, :]).sum(-1)
        columns.append((queries * sent[:, None, :]).sum(-1))
    return torch.stack(columns, dim=-1)


@right("recurrent.general_scores", "F.bilinear on all pairs, W as its one output")
def general_bilinear(queries, keys, W):
    b, q, m = queries.shape
    k = keys.shape[1]
    left = queries[:, :, None].expand(b, q, k, m).reshape(-1, m)
    rights = keys[:, None].expand(b, q, k, m).reshape(-1, m)
    return F.bilinear(left, rights, W[None]).reshape(b, q, k)


@wrong(
    "recurrent.additive_scores",
    "Two tanh, one for each side, and then the sum.",
    "W s = U h = 1, v = 1: 2 tanh 1 = 1.52 instead of tanh 2 = 0.96",
)
def additive_two_tanh(queries, keys, W, U, v):
    left = torch.tanh(queries @ W.T)[:, :, None]
    below = torch.tanh(keys @ U.T)[:, None]
    return (left + below) @ v


@wrong(
    "recurrent.additive_scores",
    "The matrices are multiplied from the right without transposing.",
    "any W or U that is not symmetric",
)
def additive_transposed(queries, keys, W, U, v):
    return torch.tanh((queries @ W)[:, :, None] + (keys @ U)[:, None]) @ v


@wrong(
    "recurrent.additive_scores",
    "v stands inside the tanh, which is then taken of a number.",
    "v = 2, W s + U h = 1: tanh 2 = 0.96 instead of 2 tanh 1 = 1.52",
)
def additive_v_inside(queries, keys, W, U, v):
    return torch.tanh(((queries @ W.T)[:, :, None] + (keys @ U.T)[:, None]) @ v)


@wrong(
    "recurrent.additive_scores",
    "W and U are swapped: W for the keys, U for the queries.",
    "W not equal to U",
)
def additive_swapped(queries, keys, W, U, v):
    return torch.tanh((queries @ U.T)[:, :, None] + (keys @ W.T)[:, None]) @ v


@right(
    "recurrent.additive_scores",
    "one wide matrix [W U] on the query and the key joined, query by query",
)
def additive_joined(queries, keys, W, U, v):
    both = torch.cat([W, U], dim=1)
    rows = []
    for i in range(queries.shape[1]):
        asked = queries[:, i : i + 1].expand_as(keys)
        pairs = torch.cat([asked, keys], dim=-1)
        rows.append(torch.tanh(pairs @ both.T))
    return torch.einsum("qbkm, m -> bqk", torch.stack(rows), v)


@wrong(
    "recurrent.context_step",
    "State and context are joined in the wrong order.",
    "W's left half differs from its right half",
)
def step_state_first(state, memory, mask, W):
    scores = (memory @ state[:, :, None]).squeeze(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    context = (weights[:, None] @ memory).squeeze(1)
    return torch.tanh(torch.cat([state, context], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Scores of padding are set to 0 before the softmax: they still get weight.",
    "a padded memory: e^0 goes into the sum",
)
def step_padding_scores_zero(state, memory, mask, W):
    scores = torch.einsum("bkm, bm -> bk", memory, state) * mask
    context = torch.einsum("bk, bkm -> bm", scores.softmax(-1), memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "Weights of padding are set to 0 after the softmax; the rest no longer adds to 1.",
    "one real word, one pad with the same score: half of the context",
)
def step_not_renormalized(state, memory, mask, W):
    scores = torch.einsum("bkm, bm -> bk", memory, state)
    weights = scores.softmax(-1) * mask
    context = torch.einsum("bk, bkm -> bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "True is read as 'hide this', as in PyTorch's key_padding_mask.",
    "any row with a padded and a real word",
)
def step_mask_reversed(state, memory, mask, W):
    scores = torch.einsum("bkm, bm -> bk", memory, state)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(mask, lowest).softmax(-1)
    context = torch.einsum("bk, bkm -> bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "The softmax runs over the sentences of the batch instead of the words.",
    "two sentences: the weights of a word share 1 between the sentences",
)
def step_softmax_over_batch(state, memory, mask, W):
    scores = torch.einsum("bkm, bm -> bk", memory, state)
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(0)
    context = torch.einsum("bk, bkm -> bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@right(
    "recurrent.context_step",
    "sentence by sentence: the real words are cut out, so no mask is needed",
)
def step_by_sentence(state, memory, mask, W):
    m = state.shape[-1]
    rows = []
    for asks, words, real in zip(state, memory, mask, strict=True):
        words = words[real]
        scores = words @ asks
        shares = torch.exp(scores - torch.logsumexp(scores, dim=0))
        rows.append(torch.tanh(W[:, :m] @ (shares @ words) + W[:, m:] @ asks))
    return torch.stack(rows)


wrong(
    "recurrent.gate",
    "Linear thinking: 100 steps that each lose 0.5 / 100.",
    "0.995 ** 100 = 0.61, not one half",
)(0.995)
wrong(
    "recurrent.gate",
    "The share of the candidate is given, 1 - z.",
    "z is the share of the old state that stays",
)(0.0069)
wrong(
    "recurrent.gate",
    "1 - 1 / 100, the gate that leaves a part 1 / e.",
    "0.99 ** 100 = 0.37",
)(0.99)
right("recurrent.gate", "exp of minus ln 2 over 100, not rounded")(
    math.exp(-math.log(2) / 100)
)
right("recurrent.gate", "rounded to four decimals")(0.9931)


# --- 07 ------------------------------------------------------------------------------


@wrong(
    "translation.cross_attention",
    "Self-attention: keys and values come from x too, the memory is not read.",
    "any memory",
)
def cross_without_memory(x, memory, W_q, W_k, W_v, mask):
    return attend(x @ W_q, x @ W_k, x @ W_v)


@wrong(
    "translation.cross_attention",
    "The mask is turned round before it is passed on, True taken as 'hide'.",
    "a source with padding: only the padding is read",
)
def cross_mask_reversed(x, memory, W_q, W_k, W_v, mask):
    return attend(x @ W_q, memory @ W_k, memory @ W_v, ~mask)


@wrong(
    "translation.cross_attention",
    "No mask: in the belief that only the decoder's own side needs one.",
    "a source with padding",
)
def cross_no_mask(x, memory, W_q, W_k, W_v, mask):
    return attend(x @ W_q, memory @ W_k, memory @ W_v)


@wrong(
    "translation.cross_attention",
    "The matrices of keys and values are swapped.",
    "W_k not equal to W_v",
)
def cross_swapped_matrices(x, memory, W_q, W_k, W_v, mask):
    return attend(x @ W_q, memory @ W_v, memory @ W_k, mask)


@wrong(
    "translation.cross_attention",
    "A causal mask is added: position i of the target sees the source up to i.",
    "t = 3, s = 3: the first position reads one source word only",
)
def cross_causal_too(x, memory, W_q, W_k, W_v, mask):
    t, s = x.shape[1], memory.shape[1]
    seen = torch.ones(t, s, dtype=torch.bool).tril()
    return attend(x @ W_q, memory @ W_k, memory @ W_v, mask & seen)


@right(
    "translation.cross_attention",
    "by hand: one product W_q W_kᵀ between x and memory, exp and sums, W_v at the end",
)
def cross_by_hand(x, memory, W_q, W_k, W_v, mask):
    between = W_q @ W_k.T / math.sqrt(W_q.shape[1])
    scores = torch.einsum("btm, mn, bsn -> bts", x, between, memory)
    hidden = ~mask.expand_as(scores)
    top = scores.masked_fill(hidden, -1e300).amax(dim=-1, keepdim=True)
    parts = torch.where(hidden, 0.0, torch.exp(torch.clamp(scores - top, max=0)))
    total = parts.sum(dim=-1, keepdim=True)
    shares = parts / torch.where(total == 0, 1.0, total)
    return shares @ memory @ W_v


@wrong(
    "translation.smoothed",
    "The right token gets 1 - ε, and ε is shared by the others only.",
    "v = 4, ε = 0.1: 0.9 instead of 0.925",
)
def smoothed_others_only(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / (vocab_size - 1))
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "The right token's share is overwritten: the sum is 1 - ε / v.",
    "v = 4, ε = 0.1: 0.9 instead of 0.925, the others 0.025",
)
def smoothed_overwritten(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "ε is added to every token instead of ε / v.",
    "v = 4, ε = 0.1: the sum is 1.3",
)
def smoothed_not_divided(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), float(epsilon))
    target[right] += 1 - epsilon
    return target


@right(
    "translation.smoothed",
    "a mix of one-hot and the even distribution by lerp, in float64",
)
def smoothed_by_lerp(right, vocab_size, epsilon):
    hard = F.one_hot(torch.tensor(int(right)), vocab_size).double()
    even = torch.full_like(hard, 1 / vocab_size)
    return torch.lerp(hard, even, float(epsilon))


@right("translation.smoothed", "a list of numbers, token by token, made a tensor")
def smoothed_by_list(right, vocab_size, epsilon):
    part = epsilon / vocab_size
    before = [part] * int(right)
    after = [part] * (vocab_size - len(before) - 1)
    return torch.tensor([*before, 1 - epsilon + part, *after])


@wrong(
    "translation.loss",
    "Nothing is shifted: each position is asked for the token that it reads.",
    "any target",
)
def loss_unshifted(scores, target, pad_id):
    return F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=pad_id)


@wrong(
    "translation.loss",
    "Mean per sentence first, then over sentences: short ones weigh too much.",
    "two sentences of different lengths",
)
def loss_mean_of_means(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(
        scores[:, :-1].transpose(1, 2), labels, ignore_index=pad_id, reduction="none"
    )
    return (losses.sum(1) / (labels != pad_id).sum(1)).mean()


@wrong(
    "translation.loss",
    "The padding is counted as if it were words.",
    "a target with padding",
)
def loss_padding_counted(scores, target, pad_id):
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), target[:, 1:].flatten())


@wrong(
    "translation.loss",
    "Losses at padding are zeroed, yet the mean is taken over all places.",
    "a target with padding: too small",
)
def loss_divided_by_all(scores, target, pad_id):
    labels = target[:, 1:]
    chances = scores[:, :-1].log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    return (-chances * (labels != pad_id)).mean()


@wrong(
    "translation.loss",
    "Real is judged by the input instead of the label: one pad per row is counted.",
    "a row with padding: the pad after its end counts",
)
def loss_real_by_input(scores, target, pad_id):
    labels = target[:, 1:]
    real = target[:, :-1] != pad_id
    chances = scores[:, :-1].log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    return -chances[real].mean()


@right(
    "translation.loss",
    "loops over rows and places, logsumexp minus the score of the label, one fraction",
)
def loss_by_loops(scores, target, pad_id):
    total, number = scores.new_zeros(()), 0
    for row, ids in zip(scores, target.tolist(), strict=True):
        for place in range(1, len(ids)):
            if ids[place] != pad_id:
                before = row[place - 1]
                total = total + torch.logsumexp(before, dim=0) - before[ids[place]]
                number += 1
    return total / number


@wrong(
    "translation.greedy",
    "Stops as soon as one row has ended.",
    "two rows that end at different steps: the longer one is cut",
)
def greedy_stops_at_first_end(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        token = model(ids)[:, -1].argmax(-1)
        ids = torch.cat([ids, token[:, None]], dim=1)
        ended = ended | (token == end_id)
        if ended.any():
            break
    return ids


@wrong(
    "translation.greedy",
    "Rows that ended go on writing what the model likes, no padding.",
    "two rows that end at different steps: words after the end",
)
def greedy_no_padding(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        token = model(ids)[:, -1].argmax(-1)
        ids = torch.cat([ids, token[:, None]], dim=1)
        ended = ended | (token == end_id)
        if ended.all():
            break
    return ids


@wrong(
    "translation.greedy",
    "The end token itself becomes padding: ended is updated before the fill.",
    "any row that ends within the limit",
)
def greedy_end_lost(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        token = model(ids)[:, -1].argmax(-1)
        ended = ended | (token == end_id)
        token = token.masked_fill(ended, pad_id)
        ids = torch.cat([ids, token[:, None]], dim=1)
        if ended.all():
            break
    return ids


@wrong(
    "translation.greedy",
    "limit is taken as the length of the whole text, the beginning included.",
    "begin with two ids, limit 5: three new ids instead of five",
)
def greedy_limit_of_all(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    while ids.shape[1] < limit and not ended.all():
        token = model(ids)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, token[:, None]], dim=1)
        ended = ended | (token == end_id)
    return ids


@wrong(
    "translation.greedy",
    "Never stops early: always limit new columns, the last ones all padding.",
    "all rows end before the limit",
)
def greedy_always_limit(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        token = model(ids)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, token[:, None]], dim=1)
        ended = ended | (token == end_id)
    return ids


@right(
    "translation.greedy",
    "each row is translated alone, and the rows are padded to one length at the end",
)
def greedy_row_by_row(model, begin, end_id, pad_id, limit):
    texts = []
    for row in begin:
        ids, new = row[None], []
        while len(new) < limit and (not new or new[-1] != end_id):
            new.append(int(model(ids)[0, -1].argmax()))
            ids = torch.cat([ids, ids.new_tensor([[new[-1]]])], dim=1)
        texts.append(new)
    longest = max(len(new) for new in texts)
    padded = [new + [pad_id] * (longest - len(new)) for new in texts]
    return torch.cat([begin, begin.new_tensor(padded).reshape(len(begin), -1)], dim=1)


@right(
    "translation.greedy",
    "a buffer full of padding that the open rows fill, cut to the longest at the end",
)
def greedy_into_buffer(model, begin, end_id, pad_id, limit):
    b, t = begin.shape
    ids = F.pad(begin, (0, limit), value=pad_id)
    still = list(range(b))
    used = t
    while still and used < t + limit:
        likeliest = model(ids[:, :used])[:, -1].max(dim=-1).indices.tolist()
        for row in still:
            ids[row, used] = likeliest[row]
        still = [row for row in still if likeliest[row] != end_id]
        used += 1
    return ids[:, :used]


# --- 08 ------------------------------------------------------------------------------


@wrong(
    "translation.beam",
    "Every beginning keeps its own best token; none can go on twice.",
    "totals (0, -9): the first beginning's two best should both win",
)
def beam_one_each(totals, log_probs):
    best = log_probs.max(dim=-1)
    sums = totals + best.values
    order = sums.argsort(descending=True)
    return order, best.indices[order], sums[order]


@wrong(
    "translation.beam",
    "Chosen by the next token's log-probability alone; the totals come in afterwards.",
    "totals (0, -9), second row surer than the first: its token is taken first",
)
def beam_totals_too_late(totals, log_probs):
    w, v = log_probs.shape
    flat = log_probs.flatten().topk(w).indices
    parents, tokens = flat // v, flat % v
    sums = totals[parents] + log_probs[parents, tokens]
    return parents, tokens, sums


@wrong(
    "translation.beam",
    "The flat number is divided by w, the beam's width, instead of v.",
    "w = 2, v = 5: number 3 is parent 0, token 3, not parent 1, token 1",
)
def beam_divided_by_width(totals, log_probs):
    w = len(totals)
    best = (totals[:, None] + log_probs).flatten().topk(w)
    return best.indices // w, best.indices % w, best.values


@wrong(
    "translation.beam",
    "The new totals leave out the totals so far.",
    "totals not 0",
)
def beam_sums_forgotten(totals, log_probs):
    w, v = log_probs.shape
    flat = (totals[:, None] + log_probs).flatten().topk(w).indices
    parents, tokens = flat // v, flat % v
    return parents, tokens, log_probs[parents, tokens]


@wrong(
    "translation.beam",
    "Sorted with the worst first: argsort goes upwards and its tail is kept as it is.",
    "w = 2: the two best, in the wrong order",
)
def beam_best_last(totals, log_probs):
    w, v = log_probs.shape
    sums = (totals[:, None] + log_probs).flatten()
    flat = sums.argsort()[-w:]
    return flat // v, flat % v, sums[flat]


@right(
    "translation.beam",
    "w times: take the largest entry of the table, then cross it out",
)
def beam_crossing_out(totals, log_probs):
    table = (totals.unsqueeze(1) + log_probs).tolist()
    open_places = {(i, j) for i, row in enumerate(table) for j in range(len(row))}
    chosen = []
    for _ in range(len(totals)):
        best = max(sorted(open_places), key=lambda place: table[place[0]][place[1]])
        open_places.remove(best)
        chosen.append(best)
    parents, tokens = torch.tensor(chosen).unbind(dim=1)
    return parents, tokens, totals[parents] + log_probs[parents, tokens]


@right(
    "translation.beam",
    "first the w best of each row, then the w best of these, numbers by gather",
)
def beam_two_rounds(totals, log_probs):
    w, v = log_probs.shape
    each = (log_probs + totals.view(-1, 1)).topk(min(w, v), dim=1)
    values, places = each.values.reshape(-1).sort(descending=True)
    places = places[:w]
    parents = torch.div(places, each.values.shape[1], rounding_mode="floor")
    return parents, each.indices.reshape(-1).gather(0, places), values[:w]


@wrong(
    "translation.choice",
    "Divided by the length itself to the power, without the 5 and the 6.",
    "totals (-4, -5), lengths (2, 3), penalty 1: another winner and other values",
)
def choice_plain_length(log_probs, lengths, penalty):
    values = [p / n**penalty for p, n in zip(log_probs, lengths, strict=True)]
    best = max(range(len(values)), key=values.__getitem__)
    return best, values[best]


@wrong(
    "translation.choice",
    "The best is chosen by the total; only its value is corrected for the length.",
    "totals (-4, -4.5), lengths (2, 10), penalty 1: the short one wins",
)
def choice_by_total(log_probs, lengths, penalty):
    best = max(range(len(log_probs)), key=log_probs.__getitem__)
    return best, log_probs[best] / ((5 + lengths[best]) / 6) ** penalty


@wrong(
    "translation.choice",
    "Multiplied by the penalty's power: long texts lose even more.",
    "totals (-4, -4.5), lengths (2, 10), penalty 1",
)
def choice_multiplied(log_probs, lengths, penalty):
    pairs = zip(log_probs, lengths, strict=True)
    values = [p * ((5 + n) / 6) ** penalty for p, n in pairs]
    return values.index(max(values)), max(values)


@wrong(
    "translation.choice",
    "The power stands at 5 + n alone, the 6 is outside: (5 + n) ** penalty / 6.",
    "penalty 0.6: the value is off by 6 ** -0.4",
)
def choice_power_inside(log_probs, lengths, penalty):
    pairs = zip(log_probs, lengths, strict=True)
    values = [p / ((5 + n) ** penalty / 6) for p, n in pairs]
    return values.index(max(values)), max(values)


@wrong(
    "translation.choice",
    "The smallest value wins, as if it were a loss.",
    "any two texts with different values",
)
def choice_smallest(log_probs, lengths, penalty):
    pairs = zip(log_probs, lengths, strict=True)
    values = [p / ((5 + n) / 6) ** penalty for p, n in pairs]
    return values.index(min(values)), min(values)


@right(
    "translation.choice",
    "in numpy, the division as a product with (6 / (5 + n)) to the power",
)
def choice_in_numpy(log_probs, lengths, penalty):
    shrink = (6 / (5 + np.asarray(lengths, dtype=float))) ** penalty
    values = np.asarray(log_probs, dtype=float) * shrink
    best = int(np.argmax(values))
    return best, float(values[best])


@right("translation.choice", "a loop that remembers the best so far")
def choice_running_best(log_probs, lengths, penalty):
    best, top = 0, -math.inf
    for number, total in enumerate(log_probs):
        value = total / math.exp(penalty * math.log((5 + lengths[number]) / 6))
        if value > top:
            best, top = number, value
    return best, top


@wrong(
    "translation.bleu_clipped",
    "Not clipped: a right word counts as often as it is said.",
    "'the the the' against 'the cat', n = 1: 3 hits instead of 1",
)
def clipped_not_at_all(output, references, n):
    known = set()
    for reference in references:
        for i in range(len(reference) - n + 1):
            known.add(tuple(reference[i : i + n]))
    runs = [tuple(output[i : i + n]) for i in range(len(output) - n + 1)]
    return sum(run in known for run in runs), len(runs)


@wrong(
    "translation.bleu_clipped",
    "Clipped by the sum over the references instead of the largest count.",
    "'the the' against two references with one 'the' each: 2 hits instead of 1",
)
def clipped_by_sum(output, references, n):
    runs = Counter(tuple(output[i : i + n]) for i in range(len(output) - n + 1))
    held = Counter()
    for reference in references:
        held.update(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
    hits = sum(min(count, held[run]) for run, count in runs.items())
    return hits, sum(runs.values())


@wrong(
    "translation.bleu_clipped",
    "Distinct runs are counted, each once, in hits and in all.",
    "'a b a' against 'a b a', n = 1: (2, 2) instead of (3, 3)",
)
def clipped_as_sets(output, references, n):
    runs = {tuple(output[i : i + n]) for i in range(len(output) - n + 1)}
    held = {
        tuple(reference[i : i + n])
        for reference in references
        for i in range(len(reference) - n + 1)
    }
    return len(runs & held), len(runs)


@wrong(
    "translation.bleu_clipped",
    "The best single reference is taken: the largest number of hits with one of them.",
    "'a b' against 'a c' and 'd b', n = 1: 1 hit instead of 2",
)
def clipped_best_reference(output, references, n):
    runs = Counter(tuple(output[i : i + n]) for i in range(len(output) - n + 1))
    hits = 0
    for reference in references:
        held = Counter(
            tuple(reference[i : i + n]) for i in range(len(reference) - n + 1)
        )
        hits = max(hits, sum((runs & held).values()))
    return hits, sum(runs.values())


@wrong(
    "translation.bleu_clipped",
    "Off by one: the last run of each list is left out.",
    "'a b' against 'a b', n = 1: (1, 1) instead of (2, 2)",
)
def clipped_last_run_lost(output, references, n):
    runs = Counter(tuple(output[i : i + n]) for i in range(len(output) - n))
    held = Counter()
    for reference in references:
        held |= Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n))
    return sum((runs & held).values()), sum(runs.values())


@right(
    "translation.bleu_clipped",
    "each run of the output asks whether a reference holds it once more than before it",
)
def clipped_one_by_one(output, references, n):
    def runs_of(words):
        return list(zip(*(words[i:] for i in range(n)), strict=False))

    tables = [runs_of(reference) for reference in references]
    said, hits = [], 0
    for run in runs_of(output):
        said.append(run)
        hits += any(table.count(run) >= said.count(run) for table in tables)
    return hits, len(said)


@wrong(
    "translation.bleu_brevity",
    "The factor of each sentence, and then their mean.",
    "outputs (4, 8), references (8, 4): 0.68 instead of 1",
)
def brevity_mean_of_factors(lengths, reference_lengths):
    pairs = list(zip(lengths, reference_lengths, strict=True))
    return sum(min(1.0, math.exp(1 - r / c)) for c, r in pairs) / len(pairs)


@wrong(
    "translation.bleu_brevity",
    "c / r instead of r / c: long outputs are punished.",
    "outputs (8,), references (4,): 0.37 instead of 1",
)
def brevity_turned_round(lengths, reference_lengths):
    return min(1.0, math.exp(1 - sum(lengths) / sum(reference_lengths)))


@wrong(
    "translation.bleu_brevity",
    "No minimum: a long output gets more than 1.",
    "outputs (8,), references (4,): 1.65 instead of 1",
)
def brevity_without_minimum(lengths, reference_lengths):
    return math.exp(1 - sum(reference_lengths) / sum(lengths))


@wrong(
    "translation.bleu_brevity",
    "The plain ratio c / r, at most 1, without the exponential.",
    "outputs (4,), references (8,): 0.5 instead of 0.37",
)
def brevity_plain_ratio(lengths, reference_lengths):
    return min(1.0, sum(lengths) / sum(reference_lengths))


@right(
    "translation.bleu_brevity",
    "the exponent is cut at 0 first; the quotient is one of missing words by words",
)
def brevity_by_missing(lengths, reference_lengths):
    written = math.fsum(lengths)
    missing = max(0.0, math.fsum(reference_lengths) - written)
    if not missing:
        return 1.0
    return math.exp(-missing / written) if written else 0.0


# --- 09 ------------------------------------------------------------------------------


@wrong(
    "senses.pick",
    "The first row's position is used for every row.",
    "positions (0, 2)",
)
def pick_first_position(vectors, positions):
    return vectors[:, positions[0]]


@wrong(
    "senses.pick",
    "Positions are counted from 1.",
    "position 2: the vector at 1 (and the last one for position 0)",
)
def pick_counted_from_one(vectors, positions):
    return vectors[torch.arange(len(vectors)), positions - 1]


@wrong(
    "senses.pick",
    "The slice takes every position from every row: 'b b m', and its mean is returned.",
    "positions (0, 2): a mean of both places",
)
def pick_all_positions(vectors, positions):
    return vectors[:, positions].mean(dim=1)


@wrong(
    "senses.pick",
    "The row number is forgotten: all vectors come from the first sentence.",
    "two different sentences",
)
def pick_first_row(vectors, positions):
    return vectors[0, positions]


@right(
    "senses.pick",
    "'b t m' laid out as one long list, read at row · t + position",
)
def pick_from_long_list(vectors, positions):
    b, t, m = vectors.shape
    numbers = torch.arange(0, b * t, t, device=positions.device) + positions
    return vectors.reshape(b * t, m).index_select(0, numbers)


@right("senses.pick", "every position from every row, then the diagonal of these")
def pick_diagonal(vectors, positions):
    return torch.diagonal(vectors[:, positions], dim1=0, dim2=1).T


@wrong(
    "senses.strongest_clue",
    "The column is read: who looks at the word, not where the word looks.",
    "any map that is not symmetric",
)
def clue_column(weights, position):
    return int(weights.mean(0)[:, position].argmax())


@wrong(
    "senses.strongest_clue",
    "The single largest weight of any head instead of the largest mean.",
    "heads (0.9, 0.1, 0), (0, 0.4, 0.6), (0, 0.6, 0.4): key 0 instead of key 1",
)
def clue_loudest_head(weights, position):
    return int(weights[:, position].amax(dim=0).argmax())


@wrong(
    "senses.strongest_clue",
    "The heads vote: each names its key, and the most frequent one wins.",
    "heads (0.9, 0.1, 0) and twice (0.2, 0.5, 0.3): key 1, not key 0",
)
def clue_by_vote(weights, position):
    return int(weights[:, position].argmax(dim=-1).mode().values)


@wrong(
    "senses.strongest_clue",
    "The word itself is left out, though it may be what it looks at most.",
    "a word that looks mostly at itself",
)
def clue_not_itself(weights, position):
    mean = weights[:, position].mean(dim=0)
    others = torch.arange(len(mean)) != position
    return int(mean.masked_fill(~others, -1).argmax())


@right(
    "senses.strongest_clue",
    "sums in plain Python, keys sorted by them",
)
def clue_in_python(weights, position):
    rows = [head[position] for head in weights.tolist()]
    sums = [math.fsum(column) for column in zip(*rows, strict=True)]
    return sorted(range(len(sums)), key=lambda key: -sums[key])[0]


wrong(
    "senses.causal_share",
    "One in 48, as if the model knew nothing of the word at all.",
    "the word itself is seen and leaves two senses",
)(1 / 48)
wrong(
    "senses.causal_share",
    "Never: without the clue every answer is taken to be wrong.",
    "a guess between two senses is right half of the time",
)(0.0)
wrong(
    "senses.causal_share",
    "Always: attention is thought to find the clue wherever it stands.",
    "the clue is hidden by the mask",
)(1.0)
wrong(
    "senses.causal_share",
    "One in three: a mixture of 'clue on the left, on the right, none'.",
    "two senses, equally frequent",
)(1 / 3)
right("senses.causal_share", "a coin between two senses, as a fraction")(1 / 2)


@wrong(
    "senses.hide",
    "Padding is hidden where it was chosen.",
    "ids (5, 0), both chosen: the inputs hold mask_id at the padding, the label is 0",
)
def hide_padding_too(ids, chosen, mask_id):
    return ids.masked_fill(chosen, mask_id), ids.masked_fill(~chosen, -100)


@wrong(
    "senses.hide",
    "The labels hold every word, not the chosen ones only.",
    "a word that was not chosen",
)
def hide_all_labels(ids, chosen, mask_id):
    inputs = ids.masked_fill(chosen & (ids != 0), mask_id)
    return inputs, ids.masked_fill(ids == 0, -100)


@wrong(
    "senses.hide",
    "The labels are read from the inputs after hiding: they all are mask_id.",
    "any chosen word",
)
def hide_labels_after(ids, chosen, mask_id):
    inputs = ids.clone()
    hidden = chosen & (inputs != 0)
    inputs[hidden] = mask_id
    return inputs, inputs.masked_fill(~hidden, -100)


@wrong(
    "senses.hide",
    "The right values, but the batch of the caller is overwritten.",
    "look at ids after the call",
)
def hide_overwrites_argument(ids, chosen, mask_id):
    hidden = chosen & (ids != 0)
    labels = torch.where(hidden, ids, -100)
    ids[hidden] = mask_id
    return ids, labels


@wrong(
    "senses.hide",
    "The padding's label stays 0 where it was chosen, only the input is repaired.",
    "ids (5, 0), both chosen: labels (5, 0) instead of (5, -100)",
)
def hide_padding_label(ids, chosen, mask_id):
    labels = torch.where(chosen, ids, -100)
    return torch.where(chosen & (ids != 0), mask_id, ids), labels


@right("senses.hide", "arithmetic: the bool as 0 and 1, no where and no fill")
def hide_by_arithmetic(ids, chosen, mask_id):
    hidden = (chosen * ids.sign().abs()).to(ids.dtype)
    return ids + hidden * (mask_id - ids), hidden * (ids + 100) - 100


@wrong(
    "senses.pool",
    "Padding is zeroed, but the sum is divided by the full length.",
    "one pad in two places: half of the mean",
)
def pool_full_length(vectors, real):
    return (vectors * real[..., None]).mean(dim=1)


@wrong(
    "senses.pool",
    "The number of real words is taken over the whole batch, divided by its rows.",
    "rows of different lengths",
)
def pool_mean_count(vectors, real):
    return (vectors * real[..., None]).sum(dim=1) / real.sum() * len(real)


@wrong(
    "senses.pool",
    "Real is taken to be a run at the start: the first n positions are averaged.",
    "padding on the left or a gap: real (F, T, T)",
)
def pool_first_n(vectors, real):
    counts = real.sum(dim=1).tolist()
    rows = zip(vectors, counts, strict=True)
    return torch.stack([row[:n].mean(dim=0) for row, n in rows])


@wrong(
    "senses.pool",
    "The sum is not divided.",
    "more than one real word",
)
def pool_sum(vectors, real):
    return torch.einsum("btm, bt -> bm", vectors, real.to(vectors.dtype))


@right(
    "senses.pool",
    "the real vectors of all rows in one list, split by the row lengths",
)
def pool_by_split(vectors, real):
    parts = vectors[real].split(real.sum(dim=1).tolist())
    return torch.stack([part.mean(dim=0) for part in parts])


@right("senses.pool", "a running mean, each real word moves it by its part")
def pool_running(vectors, real):
    mean = torch.zeros_like(vectors[:, 0])
    count = torch.zeros_like(vectors[:, 0, :1])
    for place in range(vectors.shape[1]):
        here = real[:, place, None]
        count = count + here
        moved = mean + (vectors[:, place] - mean) / count.clamp(min=1)
        mean = torch.where(here, moved, mean)
    return mean


# --- 10 ------------------------------------------------------------------------------


@wrong(
    "tokens.pair_counts",
    "Each distinct word counts once; how often it stands there is left out.",
    "{(1, 2): 5}: 1 instead of 5",
)
def pairs_without_frequency(words):
    return dict(Counter(pair for w in words for pair in pairwise(w)))


@wrong(
    "tokens.pair_counts",
    "A pair counts once per word, even if it stands in it twice.",
    "{(1, 2, 1, 2): 1}: (1, 2) gets 1 instead of 2",
)
def pairs_once_per_word(words):
    counts = Counter()
    for word, times in words.items():
        for pair in set(pairwise(word)):
            counts[pair] += times
    return dict(counts)


@wrong(
    "tokens.pair_counts",
    "Overlapping pairs are not counted: a a a counts as one a a.",
    "{(1, 1, 1): 1}: 1 instead of 2",
)
def pairs_without_overlap(words):
    counts = Counter()
    for word, times in words.items():
        i = 0
        while i < len(word) - 1:
            pair = word[i : i + 2]
            counts[pair] += times
            i += 2 if word[i : i + 3] == (word[i],) * 3 else 1
    return dict(counts)


@wrong(
    "tokens.pair_counts",
    "The order within a pair is lost: (2, 1) is counted as (1, 2).",
    "{(1, 2, 1): 1}: {(1, 2): 2}",
)
def pairs_unordered(words):
    counts = {}
    for word, times in words.items():
        for i in range(len(word) - 1):
            pair = tuple(sorted(word[i : i + 2]))
            counts[pair] = counts.get(pair, 0) + times
    return counts


@wrong(
    "tokens.pair_counts",
    "A later word overwrites the count of an earlier one.",
    "{(1, 2): 5, (1, 2, 3): 1}: (1, 2) gets 1 instead of 6",
)
def pairs_overwritten(words):
    counts = {}
    for word, times in words.items():
        inside = Counter(pairwise(word))
        counts.update({pair: n * times for pair, n in inside.items()})
    return counts


@right(
    "tokens.pair_counts",
    "every pair is collected first, then the sum is made anew for each distinct one",
)
def pairs_sum_each(words):
    seen = [
        ((left, word[i]), times)
        for word, times in words.items()
        for i, left in enumerate(word[:-1], start=1)
    ]
    return {pair: sum(n for p, n in seen if p == pair) for pair, _ in seen}


@wrong(
    "tokens.merge",
    "From right to left.",
    "(1, 1, 1), pair (1, 1): (1, X) instead of (X, 1)",
)
def merge_from_the_right(word, pair, new):
    merged = []
    i = len(word) - 1
    while i >= 0:
        if i > 0 and (word[i - 1], word[i]) == pair:
            merged.insert(0, new)
            i -= 2
        else:
            merged.insert(0, word[i])
            i -= 1
    return tuple(merged)


@wrong(
    "tokens.merge",
    "Only the first pair is replaced.",
    "(1, 2, 1, 2), pair (1, 2): (X, 1, 2)",
)
def merge_first_only(word, pair, new):
    for i in range(len(word) - 1):
        if word[i : i + 2] == pair:
            return (*word[:i], new, *word[i + 2 :])
    return word


@wrong(
    "tokens.merge",
    "Overlapping pairs are each replaced: a letter is joined twice.",
    "(1, 1, 1), pair (1, 1): (X, X)",
)
def merge_overlapping(word, pair, new):
    merged = []
    for i, letter in enumerate(word):
        if word[i : i + 2] == pair:
            merged.append(new)
        elif i == 0 or word[i - 1 : i + 1] != pair:
            merged.append(letter)
    return tuple(merged)


@wrong(
    "tokens.merge",
    "The last letter is lost: the loop stops one too early.",
    "(1, 2, 3), pair (1, 2): (X,)",
)
def merge_last_lost(word, pair, new):
    merged = []
    i = 0
    while i < len(word) - 1:
        if word[i : i + 2] == pair:
            merged.append(new)
            i += 2
        else:
            merged.append(word[i])
            i += 1
    return tuple(merged)


@right(
    "tokens.merge",
    "one letter is held back; it goes out alone or with the next one",
)
def merge_holding_back(word, pair, new):
    def go():
        held = []
        for letter in word:
            if held and (held[0], letter) == pair:
                held.clear()
                yield new
            else:
                yield from held
                held[:] = [letter]
        yield from held

    return tuple(go())


@right("tokens.merge", "the places of the pairs first, then slices between them")
def merge_by_places(word, pair, new):
    places = []
    for i in range(1, len(word)):
        if word[i - 1 : i + 1] == pair and (not places or places[-1] < i - 2):
            places.append(i - 1)
    merged, start = (), 0
    for place in places:
        merged += (*word[start:place], new)
        start = place + 2
    return merged + word[start:]


@wrong(
    "tokens.encode",
    "The leftmost known pair is joined first, whatever its rank.",
    "{(2, 3): 9, (1, 2): 10}, word (1, 2, 3): (10, 3) instead of (1, 9)",
)
def encode_leftmost(word, merges):
    ids = list(word)
    i = 0
    while i < len(ids) - 1:
        pair = (ids[i], ids[i + 1])
        if pair in merges:
            ids[i : i + 2] = [merges[pair]]
            i = 0
        else:
            i += 1
    return tuple(ids)


@wrong(
    "tokens.encode",
    "The pair that was learned last is joined first.",
    "{(2, 3): 9, (1, 2): 10}, word (1, 2, 3): (10, 3) instead of (1, 9)",
)
def encode_last_learned(word, merges):
    rank = {pair: place for place, pair in enumerate(merges)}
    ids = list(word)
    while True:
        known = [
            (rank[pair], -i) for i, pair in enumerate(pairwise(ids)) if pair in rank
        ]
        if not known:
            return tuple(ids)
        i = -max(known)[1]
        ids[i : i + 2] = [merges[ids[i], ids[i + 1]]]


@wrong(
    "tokens.encode",
    "The longest known piece from the left, as WordPiece does.",
    "{(2, 3): 9, (1, 2): 10}, word (1, 2, 3): (10, 3) instead of (1, 9)",
)
def encode_longest_piece(word, merges):
    spelled = {}
    for pair, new in merges.items():
        left, follows = (spelled.get(part, (part,)) for part in pair)
        spelled[new] = left + follows
    whole = {letters: new for new, letters in spelled.items()}
    ids, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end]
            if piece in whole or end == start + 1:
                ids.append(whole.get(piece, word[start]))
                start = end
                break
    return tuple(ids)


@wrong(
    "tokens.encode",
    "Each merge is applied at its first place only.",
    "{(1, 2): 9}, word (1, 2, 1, 2): (9, 1, 2) instead of (9, 9)",
)
def encode_each_once(word, merges):
    ids = list(word)
    for pair, new in merges.items():
        for i in range(len(ids) - 1):
            if (ids[i], ids[i + 1]) == pair:
                ids[i : i + 2] = [new]
                break
    return tuple(ids)


@wrong(
    "tokens.encode",
    "One pass over the bytes: pieces that were joined are not joined again.",
    "{(1, 2): 9, (9, 3): 10}, word (1, 2, 3): (9, 3) instead of (10,)",
)
def encode_one_pass(word, merges):
    ids, i = [], 0
    while i < len(word):
        pair = word[i : i + 2]
        if pair in merges:
            ids.append(merges[pair])
            i += 2
        else:
            ids.append(word[i])
            i += 1
    return tuple(ids)


@right(
    "tokens.encode",
    "every merge in the order of learning, once over the word, by a fold",
)
def encode_in_order(word, merges):
    ids = tuple(word)
    for pair, new in merges.items():
        joined = []
        fresh = False
        for letter in ids:
            if joined and not fresh and (joined[-1], letter) == pair:
                joined[-1] = new
                fresh = True
            else:
                joined.append(letter)
                fresh = False
        ids = tuple(joined)
    return ids


@right(
    "tokens.encode",
    "recursion: join the one pair of least rank, the leftmost of these, and go on",
)
def encode_by_recursion(word, merges):
    order = list(merges)
    places = [
        (order.index(word[i : i + 2]), i)
        for i in range(len(word) - 1)
        if word[i : i + 2] in merges
    ]
    if not places:
        return word
    rank, i = min(places)
    joined = merges[order[rank]]
    return encode_by_recursion((*word[:i], joined, *word[i + 2 :]), merges)


@wrong(
    "tokens.stream",
    "Each id is decoded alone: half characters become the replacement sign.",
    "'é' in two ids: two '\\ufffd' instead of '' and 'é'",
)
def stream_each_alone(ids, pieces):
    return [pieces[i].decode("utf-8", errors="replace") for i in ids]


@wrong(
    "tokens.stream",
    "Each id is decoded alone, half characters are left out and never come.",
    "'é' in two ids: '' and ''",
)
def stream_ignored(ids, pieces):
    return [pieces[i].decode("utf-8", errors="ignore") for i in ids]


@wrong(
    "tokens.stream",
    "All waits until everything so far is complete, complete characters too.",
    "pieces b'a\\xc3', b'\\xa9': '' and 'aé' instead of 'a' and 'é'",
)
def stream_all_or_nothing(ids, pieces):
    texts, waiting = [], b""
    for i in ids:
        waiting += pieces[i]
        try:
            texts.append(waiting.decode("utf-8"))
            waiting = b""
        except UnicodeDecodeError:
            texts.append("")
    return texts


@wrong(
    "tokens.stream",
    "The whole text so far is given each time, not the new part.",
    "two ids 'a', 'b': 'a', 'ab'",
)
def stream_whole_text(ids, pieces):
    texts, so_far = [], b""
    for i in ids:
        so_far += pieces[i]
        texts.append(so_far.decode("utf-8", errors="ignore"))
    return texts


@wrong(
    "tokens.stream",
    "Ids that complete no character are left out: the list is shorter than the ids.",
    "'é' in two ids: ['é'] instead of ['', 'é']",
)
def stream_without_empty(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    texts = [decoder.decode(pieces[i]) for i in ids]
    return [text for text in texts if text]


@right(
    "tokens.stream",
    "the error of a strict decoding tells where the unfinished character begins",
)
def stream_by_error(ids, pieces):
    texts, waiting = [], b""
    for i in ids:
        waiting += pieces[i]
        text = ""
        while waiting:
            try:
                text, waiting = text + waiting.decode(), b""
            except UnicodeDecodeError as error:
                text += waiting[: error.start].decode()
                if error.reason == "unexpected end of data":
                    waiting = waiting[error.start :]
                    break
                text += "\ufffd"
                waiting = waiting[error.end :]
        texts.append(text)
    return texts


@right(
    "tokens.stream",
    "byte by byte: the lead byte says how many must follow",
)
def stream_by_lead_byte(ids, pieces):
    texts, waiting = [], []
    for i in ids:
        texts.append("")
        for byte in pieces[i]:
            waiting.append(byte)
            lead = waiting[0]
            size = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
            if len(waiting) == size:
                texts[-1] += bytes(waiting).decode("utf-8", errors="replace")
                waiting = []
    return texts


@wrong(
    "tokens.tokens_per_byte",
    "Characters instead of bytes.",
    "'é' as two ids: 2 instead of 1",
)
def cost_per_character(text, ids):
    return len(ids) / len(text)


@wrong(
    "tokens.tokens_per_byte",
    "Turned round: bytes per token.",
    "'abcd' as two ids: 2 instead of 0.5",
)
def cost_turned_round(text, ids):
    return len(text.encode("utf-8")) / len(ids)


@wrong(
    "tokens.tokens_per_byte",
    "Distinct ids are counted.",
    "'abab' as (7, 7): 0.25 instead of 0.5",
)
def cost_distinct_ids(text, ids):
    return len(set(ids)) / len(text.encode("utf-8"))


@wrong(
    "tokens.tokens_per_byte",
    "Per word instead of per byte (fertility).",
    "'a bat' as three ids: 1.5 instead of 0.6",
)
def cost_per_word(text, ids):
    return len(ids) / max(1, len(text.split()))


@right(
    "tokens.tokens_per_byte",
    "the bytes of each character are counted from its code point",
)
def cost_by_code_points(text, ids):
    points = [ord(letter) for letter in text]
    limits = (0x7F, 0x7FF, 0xFFFF)
    size = sum(1 + sum(point > limit for limit in limits) for point in points)
    return sum(1 for _ in ids) / size


@wrong(
    "tokens.bits_per_byte",
    "The bits per byte of each text, and then their mean.",
    "texts of different lengths",
)
def bits_mean_of_means(nats, counts, texts):
    each = [
        loss * count / math.log(2) / len(text.encode())
        for loss, count, text in zip(nats, counts, texts, strict=True)
    ]
    return sum(each) / len(each)


@wrong(
    "tokens.bits_per_byte",
    "Divided by characters, not bytes.",
    "a text with 'é'",
)
def bits_per_character(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    return total / math.log(2) / sum(len(text) for text in texts)


@wrong(
    "tokens.bits_per_byte",
    "Still in nats: ln 2 is forgotten.",
    "always, by the factor 0.69",
)
def bits_in_nats(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    return total / sum(len(text.encode()) for text in texts)


@wrong(
    "tokens.bits_per_byte",
    "The plain mean of the losses, not weighted by the number of tokens.",
    "nats (1, 3), counts (1, 9)",
)
def bits_unweighted(nats, counts, texts):
    per_token = sum(nats) / len(nats)
    bytes_per_token = sum(len(text.encode()) for text in texts) / sum(counts)
    return per_token / (math.log(2) * bytes_per_token)


@wrong(
    "tokens.bits_per_byte",
    "Multiplied by ln 2 instead of divided.",
    "always, by the factor 0.48",
)
def bits_times_ln2(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    return total * math.log(2) / sum(len(text.encode()) for text in texts)


@right(
    "tokens.bits_per_byte",
    "numpy: a weighted mean of the nats, times log2 e, by the bytes per token",
)
def bits_in_numpy(nats, counts, texts):
    per_token = np.average(nats, weights=counts)
    size = len("".join(texts).encode("utf-8"))
    return float(per_token * np.log2(np.e) * np.sum(counts) / size)


# --- 11 ------------------------------------------------------------------------------


@wrong(
    "backbone.heads_from_qkv",
    "The head is taken as the outermost part of the width: '(h three d)'.",
    "more than one head",
)
def heads_outside(fused, num_heads):
    b, t, _ = fused.shape
    return fused.reshape(b, t, num_heads, 3, -1).permute(3, 0, 2, 1, 4)


@wrong(
    "backbone.heads_from_qkv",
    "The head is taken as the innermost part of the width: '(three d h)'.",
    "h > 1 and d > 1",
)
def heads_innermost(fused, num_heads):
    b, t, _ = fused.shape
    return fused.reshape(b, t, 3, -1, num_heads).permute(2, 0, 4, 1, 3)


@wrong(
    "backbone.heads_from_qkv",
    "Reshaped to the wanted shape at once, without moving the axes.",
    "t > 1: positions and heads are mixed",
)
def heads_by_reshape(fused, num_heads):
    b, t, width = fused.shape
    return fused.reshape(3, b, num_heads, t, width // (3 * num_heads))


@wrong(
    "backbone.heads_from_qkv",
    "The heads are split by reshape without exchanging t and h within each role.",
    "t > 1 and h > 1",
)
def heads_not_exchanged(fused, num_heads):
    b, t, width = fused.shape
    roles = fused.chunk(3, dim=-1)
    cut = (b, num_heads, t, width // (3 * num_heads))
    return torch.stack([role.reshape(cut) for role in roles])


@right(
    "backbone.heads_from_qkv",
    "slice by slice into an empty tensor, by the number of the column",
)
def heads_by_slices(fused, num_heads):
    b, t, width = fused.shape
    d = width // (3 * num_heads)
    heads = fused.new_empty(3, b, num_heads, t, d)
    for column, part in enumerate(fused.split(d, dim=2)):
        role, head = divmod(column, num_heads)
        heads[role, :, head] = part
    return heads


@right("backbone.heads_from_qkv", "unflatten twice, then movedim")
def heads_by_unflatten(fused, num_heads):
    cut = fused.unflatten(-1, (3, -1)).unflatten(-1, (num_heads, -1))
    return cut.movedim((2, 3), (0, 2))


@wrong(
    "backbone.next_token_loss",
    "Nothing is shifted: each place is asked for its own token.",
    "any ids that change from place to place",
)
def next_unshifted(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


@wrong(
    "backbone.next_token_loss",
    "Shifted the other way: the token before is the label.",
    "any ids",
)
def next_shifted_back(logits, ids):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())


@wrong(
    "backbone.next_token_loss",
    "Rolled: at the last place the first token is the label.",
    "always, t labels instead of t - 1",
)
def next_rolled(logits, ids):
    labels = ids.roll(-1, dims=1)
    return F.cross_entropy(logits.transpose(1, 2), labels)


@wrong(
    "backbone.next_token_loss",
    "Shifted after flattening: the end of a row is asked for the next row's start.",
    "two rows",
)
def next_across_rows(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:])


@wrong(
    "backbone.next_token_loss",
    "Summed over the places of a row, then the mean over rows.",
    "t > 2",
)
def next_sum_of_row(logits, ids):
    losses = F.cross_entropy(
        logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none"
    )
    return losses.sum(dim=1).mean()


@right(
    "backbone.next_token_loss",
    "place by place: logsumexp minus the label's logit, a mean of means of one size",
)
def next_place_by_place(logits, ids):
    rows = torch.arange(len(ids))
    means = []
    for place in range(ids.shape[1] - 1):
        here = logits[:, place]
        likely = here[rows, ids[:, place + 1]]
        means.append((here.logsumexp(dim=-1) - likely).mean())
    return torch.stack(means).mean()


wrong(
    "backbone.first_loss",
    "ln V alone: the noise is taken to cost nothing.",
    "misses 1.125",
)(math.log(2981))
wrong(
    "backbone.first_loss",
    "The whole variance is added instead of half of it.",
    "10.25 instead of 9.125",
)(math.log(2981) + 1.5**2)
wrong(
    "backbone.first_loss",
    "Half of the standard deviation, not of the variance.",
    "8.75 instead of 9.125",
)(math.log(2981) + 1.5 / 2)
wrong(
    "backbone.first_loss",
    "The logarithm to base 2.",
    "12.67 instead of 9.125",
)(math.log2(2981) + 1.5**2 / 2)
right(
    "backbone.first_loss",
    "one logarithm of V e^(σ²/2)",
)(math.log(2981 * math.exp(1.5**2 / 2)))


@wrong(
    "backbone.one_batch",
    "Gradients are never cleared: they pile up from step to step.",
    "two steps or more",
)
def batch_gradients_pile_up(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps + 1):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
        if len(losses) <= steps:
            loss.backward()
            optimizer.step()
    return losses[0], losses[-1]


@wrong(
    "backbone.one_batch",
    "The second loss is that before the last step.",
    "one step: both numbers are the same",
)
def batch_before_last_step(model, inputs, labels, steps, rate):
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
    "Adam instead of plain gradient descent.",
    "any step: its size does not follow the gradient",
)
def batch_with_adam(model, inputs, labels, steps, rate):
    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    first = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return first, loss_now().item()


@wrong(
    "backbone.one_batch",
    "The labels are shifted once more, though they are labels already.",
    "always",
)
def batch_shifted_twice(model, inputs, labels, steps, rate):
    def loss_now():
        logits = model(inputs)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())

    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    first = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return first, loss_now().item()


@wrong(
    "backbone.one_batch",
    "SGD with momentum 0.9, the usual recipe, is not plain.",
    "two steps or more",
)
def batch_with_momentum(model, inputs, labels, steps, rate):
    def loss_now():
        return F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())

    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    first = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return first, loss_now().item()


@right(
    "backbone.one_batch",
    "no optimizer: autograd.grad and a subtraction in place",
)
def batch_by_hand(model, inputs, labels, steps, rate):
    learned = [p for p in model.parameters() if p.requires_grad]

    def loss_now():
        return F.cross_entropy(model(inputs).transpose(1, 2), labels)

    loss = loss_now()
    first = float(loss.detach())
    for _ in range(steps):
        slopes = torch.autograd.grad(loss, learned, allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(learned, slopes, strict=True):
                if slope is not None:
                    weight.sub_(slope, alpha=rate)
        loss = loss_now()
    return first, float(loss.detach())


@right(
    "backbone.one_batch",
    "the weights in a dictionary, the model called by functional_call and left alone",
)
def batch_functional(model, inputs, labels, steps, rate):
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    def loss_of(values):
        logits = torch.func.functional_call(model, values, (inputs,))
        return nn.CrossEntropyLoss()(logits.flatten(0, 1), labels.flatten())

    first = loss_of(weights).item()
    for _ in range(steps):
        slopes = torch.func.grad(loss_of)(weights)
        weights = {name: w - rate * slopes[name] for name, w in weights.items()}
    return first, loss_of(weights).item()


@wrong(
    "backbone.loss_by_position",
    "The mean of the other axis: one loss per sentence, 'b'.",
    "b not equal to t, or any unequal losses",
)
def position_per_sentence(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.mean(dim=1)


@wrong(
    "backbone.loss_by_position",
    "The logarithm of the mean probability instead of the mean of the logarithms.",
    "two sentences of unequal chances",
)
def position_log_of_mean(logits, labels):
    chances = logits.softmax(-1).gather(-1, labels[..., None])[..., 0]
    return -chances.mean(dim=0).log()


@wrong(
    "backbone.loss_by_position",
    "The loss of the mean over all positions so far.",
    "the second position: the mean of two",
)
def position_running_mean(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(0)
    return losses.cumsum(0) / torch.arange(1, len(losses) + 1)


@wrong(
    "backbone.loss_by_position",
    "The flat losses are cut up with t first and b second.",
    "b > 1 and t > 1: losses of other positions are mixed",
)
def position_cut_wrongly(logits, labels):
    b, t = labels.shape
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.reshape(t, b).mean(dim=1)


@wrong(
    "backbone.loss_by_position",
    "The sum over the sentences instead of the mean.",
    "b > 1",
)
def position_sum(logits, labels):
    losses = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return losses.sum(dim=0)


@right(
    "backbone.loss_by_position",
    "one cross_entropy call per position, unbound along t",
)
def position_by_unbind(logits, labels):
    pairs = zip(logits.unbind(dim=1), labels.unbind(dim=1), strict=True)
    return torch.stack([F.cross_entropy(*pair) for pair in pairs])


@right(
    "backbone.loss_by_position",
    "minus a sum of one-hot labels times log-probabilities, by einsum",
)
def position_by_einsum(logits, labels):
    b, _, v = logits.shape
    hot = F.one_hot(labels, v).to(logits.dtype)
    return -torch.einsum("btv, btv -> t", hot, logits.log_softmax(dim=-1)) / b


@wrong(
    "backbone.count_weights",
    "A second matrix for the output is counted, though E is used for both.",
    "always v · m too many",
)
def count_untied(vocab_size, length, d_model, blocks, d_ff):
    block = 4 * d_model**2 + 2 * d_model * d_ff
    return 2 * vocab_size * d_model + length * d_model + blocks * block


@wrong(
    "backbone.count_weights",
    "The positions are forgotten.",
    "always length · m too few",
)
def count_no_positions(vocab_size, length, d_model, blocks, d_ff):
    return vocab_size * d_model + blocks * (4 * d_model**2 + 2 * d_model * d_ff)


@wrong(
    "backbone.count_weights",
    "The output matrix of the attention is forgotten: 3 m² instead of 4 m².",
    "always blocks · m² too few",
)
def count_no_output(vocab_size, length, d_model, blocks, d_ff):
    block = 3 * d_model**2 + 2 * d_model * d_ff
    return (vocab_size + length) * d_model + blocks * block


@wrong(
    "backbone.count_weights",
    "f is taken to be 4 m always: 12 m² per block.",
    "f = 3 m",
)
def count_twelve_squares(vocab_size, length, d_model, blocks, d_ff):
    return (vocab_size + length) * d_model + 12 * blocks * d_model**2


@wrong(
    "backbone.count_weights",
    "Three matrices of the feed-forward, as with a gate.",
    "always blocks · m · f too many",
)
def count_gated(vocab_size, length, d_model, blocks, d_ff):
    block = 4 * d_model**2 + 3 * d_model * d_ff
    return (vocab_size + length) * d_model + blocks * block


@right(
    "backbone.count_weights",
    "the model is built of nn layers on the meta device and its numbers are counted",
)
def count_by_building(vocab_size, length, d_model, blocks, d_ff):
    with torch.device("meta"):
        parts = [nn.Embedding(vocab_size, d_model), nn.Embedding(length, d_model)]
        for _ in range(blocks):
            sizes = [
                (d_model, 3 * d_model),
                (d_model, d_model),
                (d_model, d_ff),
                (d_ff, d_model),
            ]
            parts += [nn.Linear(*size, bias=False) for size in sizes]
        return sum(weight.numel() for weight in nn.ModuleList(parts).parameters())
