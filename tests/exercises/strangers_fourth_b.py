"""Answers of a stranger, written from the prompts alone."""

import codecs
import math
from collections import Counter
from itertools import pairwise

import torch
from torch.nn import functional as F

from course_utils.attention import attend
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 06: recurrent


@wrong(
    "recurrent.gru_step",
    "The reset gate multiplies all of the candidate's sum, W x and b too.",
    "r = 0.5, U = 0, z = 0: tanh of half of W x + b",
)
def q_gru_reset_of_all(x, state, W, U, b):
    m = state.shape[-1]
    from_x = x @ W.mT + b
    from_state = state @ U.mT
    gates = torch.sigmoid(from_x[:, : 2 * m] + from_state[:, : 2 * m])
    r, z = gates.chunk(2, dim=-1)
    candidate = torch.tanh(r * (from_x[:, 2 * m :] + from_state[:, 2 * m :]))
    return z * state + (1 - z) * candidate


@wrong(
    "recurrent.gru_step",
    "Reads the blocks in the order z, r, h.",
    "any random W: the gates have changed places",
)
def q_gru_gates_swapped(x, state, W, U, b):
    W_z, W_r, W_h = W.chunk(3)
    U_z, U_r, U_h = U.chunk(3)
    b_z, b_r, b_h = b.chunk(3)
    z = torch.sigmoid(x @ W_z.mT + state @ U_z.mT + b_z)
    r = torch.sigmoid(x @ W_r.mT + state @ U_r.mT + b_r)
    candidate = torch.tanh(x @ W_h.mT + (r * state) @ U_h.mT + b_h)
    return z * state + (1 - z) * candidate


@right("recurrent.gru_step", "F.linear with blocks of rows, then a lerp")
def q_gru_by_lerp(x, state, W, U, b):
    m = state.shape[-1]
    gates = torch.sigmoid(F.linear(x, W[: 2 * m], b[: 2 * m]) + state @ U[: 2 * m].mT)
    r, z = gates[:, :m], gates[:, m:]
    kept = r * state
    candidate = F.linear(x, W[2 * m :], b[2 * m :]) + F.linear(kept, U[2 * m :])
    return torch.lerp(candidate.tanh(), state, z)


@wrong(
    "recurrent.general_scores",
    "W is on the wrong side: h · W s instead of s · W h.",
    "W = [[0, 1], [0, 0]]: the other pair of numbers is multiplied",
)
def q_general_transposed(queries, keys, W):
    return queries @ W.mT @ keys.mT


@wrong(
    "recurrent.general_scores",
    "Divides by the root of the width, which nobody asked for.",
    "m = 4: half of what is wanted",
)
def q_general_scaled(queries, keys, W):
    return queries @ (keys @ W.mT).mT / math.sqrt(queries.shape[-1])


@right("recurrent.general_scores", "one einsum of three")
def q_general_einsum(queries, keys, W):
    return torch.einsum("bqi,ij,bkj->bqk", queries, W, keys)


@wrong(
    "recurrent.additive_scores",
    "The tanh is taken of each part, not of their sum.",
    "W s = U h = 1: 2 tanh(1) instead of tanh(2)",
)
def q_additive_two_tanh(queries, keys, W, U, v):
    of_queries = torch.tanh(queries @ W.mT) @ v
    of_keys = torch.tanh(keys @ U.mT) @ v
    return of_queries[:, :, None] + of_keys[:, None, :]


@wrong(
    "recurrent.additive_scores",
    "Multiplies from the wrong side, as if W and U were transposed.",
    "any W that is not symmetric",
)
def q_additive_not_transposed(queries, keys, W, U, v):
    total = (queries @ W)[:, :, None] + (keys @ U)[:, None]
    return torch.tanh(total) @ v


@right("recurrent.additive_scores", "query by query")
def q_additive_by_query(queries, keys, W, U, v):
    from_keys = F.linear(keys, U)
    columns = []
    for query in F.linear(queries, W).unbind(1):
        hidden = (from_keys + query.unsqueeze(1)).tanh()
        columns.append((hidden * v).sum(-1))
    return torch.stack(columns, dim=1)


@wrong(
    "recurrent.context_step",
    "The weights of padding become 0 after the softmax; the rest sums to less than 1.",
    "one real word and one of padding with equal scores: half of the context",
)
def q_context_mask_after(state, memory, mask, W):
    scores = torch.einsum("bm,bkm->bk", state, memory)
    weights = scores.softmax(-1) * mask
    context = torch.einsum("bk,bkm->bm", weights, memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.mT)


@wrong(
    "recurrent.context_step",
    "Puts the state first and the context second.",
    "W = [1, 0] with m = 1: tanh of the state, not of the context",
)
def q_context_joined_swapped(state, memory, mask, W):
    scores = (memory @ state[:, :, None]).squeeze(-1)
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    context = (weights[:, :, None] * memory).sum(1)
    return torch.tanh(torch.cat([state, context], dim=-1) @ W.mT)


@right("recurrent.context_step", "the two halves of W apart, products by bmm")
def q_context_two_halves(state, memory, mask, W):
    m = state.shape[-1]
    scores = torch.bmm(state.unsqueeze(1), memory.mT)
    hidden = ~mask.unsqueeze(1)
    weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)
    context = torch.bmm(weights.masked_fill(hidden, 0.0), memory).squeeze(1)
    return (F.linear(context, W[:, :m]) + F.linear(state, W[:, m:])).tanh()


wrong("recurrent.gate", "thinks in a line: 100 steps lose 0.5 / 100 each", "")(0.995)
wrong("recurrent.gate", "takes 1 - 1/100, which leaves 1/e, not a half", "")(0.99)
right("recurrent.gate", "the 100th root of a half")(0.9931)


# 07: translation


@wrong(
    "translation.cross_attention",
    "Divides by the root of the width, and `attend` does it again.",
    "d = 4 and scores that differ: the weights are too flat",
)
def q_cross_scaled_twice(x, memory, W_q, W_k, W_v, mask):
    queries = x @ W_q / W_q.shape[-1] ** 0.5
    return attend(queries, memory @ W_k, memory @ W_v, mask)


@wrong(
    "translation.cross_attention",
    "The decoder may look at everything, so the mask is left out.",
    "a source with padding: the padding is mixed in",
)
def q_cross_no_mask(x, memory, W_q, W_k, W_v, mask):
    return attend(x @ W_q, memory @ W_k, memory @ W_v, None)


@right("translation.cross_attention", "by hand, without attend")
def q_cross_by_hand(x, memory, W_q, W_k, W_v, mask):
    queries = torch.einsum("btm,md->btd", x, W_q)
    keys = torch.einsum("bsm,md->bsd", memory, W_k)
    values = torch.einsum("bsm,md->bsd", memory, W_v)
    scores = torch.einsum("btd,bsd->bts", queries, keys) / math.sqrt(W_q.shape[1])
    lowest = torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)
    return torch.einsum("bts,bsd->btd", weights, values)


@wrong(
    "translation.smoothed",
    "The right one gets 1 - ε without its own share: the sum is below 1.",
    "v = 4, ε = 0.1: the sum is 0.975",
)
def q_target_share_lost(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "The shares are added to a whole 1: nothing is taken from the right one.",
    "v = 4, ε = 0.1: the sum is 1.1",
)
def q_target_nothing_taken(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] += 1
    return target


@right("translation.smoothed", "a lerp from one-hot to uniform")
def q_target_by_lerp(right, vocab_size, epsilon):
    certain = (torch.arange(vocab_size) == right).to(torch.get_default_dtype())
    uniform = torch.full_like(certain, 1 / vocab_size)
    return torch.lerp(certain, uniform, epsilon)


@wrong(
    "translation.loss",
    "The mean of the means of the rows: short sentences count too much.",
    "rows of 1 and of 3 real tokens with different losses",
)
def q_loss_row_means(scores, target, pad_id):
    log_probs = scores[:, :-1].log_softmax(-1)
    wanted = target[:, 1:]
    losses = -log_probs.gather(-1, wanted[..., None]).squeeze(-1)
    real = wanted != pad_id
    return (losses.where(real, 0.0).sum(1) / real.sum(1)).mean()


@wrong(
    "translation.loss",
    "Looks for padding in the input instead of in what is to be predicted.",
    "a padded row: its first padding counts as a token",
)
def q_loss_mask_of_input(scores, target, pad_id):
    given, wanted = target[:, :-1], target[:, 1:]
    real = given != pad_id
    return F.cross_entropy(scores[:, :-1][real], wanted[real])


@right("translation.loss", "real places by index, logsumexp less the right score")
def q_loss_by_places(scores, target, pad_id):
    rows, places = (target[:, 1:] != pad_id).nonzero(as_tuple=True)
    found = scores[rows, places]
    chosen = found[torch.arange(len(rows)), target[rows, places + 1]]
    return (found.logsumexp(-1) - chosen).sum() / len(rows)


@wrong(
    "translation.greedy",
    "Looks at the last token only: after one padding the row writes on.",
    "a row that ends three steps before the others",
)
def q_greedy_forgets_end(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        new = model(ids)[:, -1].argmax(-1)
        new = torch.where(ended, pad_id, new)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = new == end_id
        if ended.all():
            break
    return ids


@wrong(
    "translation.greedy",
    "The loop never stops early: columns of nothing but padding come back.",
    "all rows end in the first step, limit = 5: four columns too many",
)
def q_greedy_to_limit(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(limit):
        new = model(ids)[:, -1].argmax(-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = ended | (new == end_id)
    return ids


@right("translation.greedy", "a while loop, and a list of the rows that go on")
def q_greedy_rows_going(model, begin, end_id, pad_id, limit):
    ids = begin.clone()
    going = list(range(len(ids)))
    while going and ids.shape[1] < begin.shape[1] + limit:
        best = model(ids)[:, -1].argmax(dim=-1)
        column = torch.full_like(ids[:, 0], pad_id)
        column[going] = best[going]
        ids = torch.cat([ids, column.unsqueeze(1)], dim=1)
        going = [row for row in going if column[row] != end_id]
    return ids


# 08: beams and BLEU


@wrong(
    "translation.beam",
    "Divides the place by the number of beginnings, not by the vocabulary.",
    "w = 2, v = 5, the best place is 3: parent 1, token 1 instead of 0, 3",
)
def q_beam_divides_by_w(totals, log_probs):
    w = len(totals)
    best = (totals[:, None] + log_probs).flatten().topk(w)
    return best.indices // w, best.indices % w, best.values


@wrong(
    "translation.beam",
    "Each beginning keeps its own best token, so none can die or have two heirs.",
    "one beginning far ahead of the other: both best texts come from it",
)
def q_beam_one_heir_each(totals, log_probs):
    best, tokens = log_probs.max(-1)
    new, parents = (totals + best).sort(descending=True)
    return parents, tokens[parents], new


@right("translation.beam", "a stable sort, then divmod")
def q_beam_by_sort(totals, log_probs):
    w, v = log_probs.shape
    row = (totals.unsqueeze(1) + log_probs).reshape(w * v)
    values, places = row.sort(descending=True, stable=True)
    places = places[:w]
    parents = torch.div(places, v, rounding_mode="floor")
    return parents, places - parents * v, values[:w]


@wrong(
    "translation.choice",
    "Only the 6 is raised to the penalty: a bracket is missing.",
    "penalty 0: the totals are divided by 5 + n instead of by 1",
)
def q_choice_bracket(log_probs, lengths, penalty):
    values = [
        total / ((5 + n) / 6**penalty)
        for total, n in zip(log_probs, lengths, strict=True)
    ]
    best = max(range(len(values)), key=values.__getitem__)
    return best, values[best]


@wrong(
    "translation.choice",
    "Chooses by the value, but returns the total log-probability.",
    "one text of 7 tokens, penalty 1: twice the value",
)
def q_choice_returns_total(log_probs, lengths, penalty):
    def value(i):
        return log_probs[i] / ((5 + lengths[i]) / 6) ** penalty

    best = max(range(len(log_probs)), key=value)
    return best, log_probs[best]


@right("translation.choice", "a loop that keeps the best so far")
def q_choice_by_loop(log_probs, lengths, penalty):
    best, best_value = 0, -math.inf
    for number, (total, n) in enumerate(zip(log_probs, lengths, strict=True)):
        value = total / math.pow((5 + n) / 6, penalty)
        if value > best_value:
            best, best_value = number, value
    return best, best_value


def q_runs(words, n):
    """All runs of n words."""
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@wrong(
    "translation.bleu_clipped",
    "The counts of several references are added: clipped too high.",
    "output a a, references a b and a c: 2 hits instead of 1",
)
def q_clipped_references_added(output, references, n):
    found = Counter(q_runs(output, n))
    there = Counter()
    for reference in references:
        there.update(q_runs(reference, n))
    return (found & there).total(), found.total()


@wrong(
    "translation.bleu_clipped",
    "Not clipped: a run counts as often as the output says it.",
    "output the the the, reference the cat: 3 hits instead of 1",
)
def q_clipped_not(output, references, n):
    known = {run for reference in references for run in q_runs(reference, n)}
    runs = q_runs(output, n)
    return sum(run in known for run in runs), len(runs)


@right("translation.bleu_clipped", "the union of the references' counters")
def q_clipped_union(output, references, n):
    most = Counter()
    for reference in references:
        most |= Counter(q_runs(reference, n))
    hits = 0
    for run in q_runs(output, n):
        if most[run] > 0:
            most[run] -= 1
            hits += 1
    return hits, max(0, len(output) - n + 1)


@wrong(
    "translation.bleu_brevity",
    "The mean of the prices of the sentences, not the price of the sums.",
    "lengths 2 and 6, references 4 and 4: the sums are equal, the price is 1",
)
def q_brevity_mean(lengths, reference_lengths):
    pairs = list(zip(lengths, reference_lengths, strict=True))
    return sum(min(1.0, math.exp(1 - r / c)) for c, r in pairs) / len(pairs)


@wrong(
    "translation.bleu_brevity",
    "c and r have changed places: long output is punished.",
    "lengths 4, references 8: 1 instead of 1/e",
)
def q_brevity_swapped(lengths, reference_lengths):
    c, r = sum(lengths), sum(reference_lengths)
    return min(1.0, math.exp(1 - c / r))


@right("translation.bleu_brevity", "two cases in place of the minimum")
def q_brevity_cases(lengths, reference_lengths):
    c, r = sum(lengths), sum(reference_lengths)
    if c >= r:
        return 1.0
    if c == 0:
        return 0.0
    return math.exp((c - r) / c)


# 09: senses


@wrong(
    "senses.pick",
    "Takes the places of all rows out of every row.",
    "b = 2: the shape is 2 2 m instead of 2 m",
)
def q_pick_all_of_all(vectors, positions):
    return vectors[:, positions]


@wrong(
    "senses.pick",
    "Uses the first row's position for all rows.",
    "positions 0 and 2: the second row gives its first vector",
)
def q_pick_first_position(vectors, positions):
    return vectors[:, positions[0]]


@right("senses.pick", "row by row, then a stack")
def q_pick_by_stack(vectors, positions):
    places = positions.tolist()
    return torch.stack([row[i] for row, i in zip(vectors, places, strict=True)])


@wrong(
    "senses.strongest_clue",
    "Takes the column: who looks at the word, instead of where it looks.",
    "a map that is not symmetric",
)
def q_clue_column(weights, position):
    return int(weights[:, :, position].mean(0).argmax())


@wrong(
    "senses.strongest_clue",
    "The largest weight in any one head, not the largest mean.",
    "rows 0.6 0 0.4 and 0 0.5 0.5: key 0 instead of 2",
)
def q_clue_max_of_heads(weights, position):
    return int(weights[:, position].amax(0).argmax())


@right("senses.strongest_clue", "max over a list of sums")
def q_clue_by_list(weights, position):
    sums = weights.select(1, position).sum(dim=0).tolist()
    return max(range(len(sums)), key=lambda key: sums[key])


wrong("senses.causal_share", "thinks that the mask changes nothing", "")(0.97)
wrong("senses.causal_share", "forgets that a guess hits by chance", "")(0.0)
right("senses.causal_share", "a guess between two senses")(0.5)


@wrong(
    "senses.hide",
    "Padding keeps its 0 in the input, but gets the label 0 where it is chosen.",
    "ids [5, 0], both chosen: labels [5, 0] instead of [5, -100]",
)
def q_hide_padding_label(ids, chosen, mask_id):
    inputs = torch.where(chosen & (ids != 0), mask_id, ids)
    labels = torch.where(chosen, ids, -100)
    return inputs, labels


@wrong(
    "senses.hide",
    "Labels for all real words, not for the hidden ones only.",
    "ids [5, 6], only the first chosen: labels [5, 6] instead of [5, -100]",
)
def q_hide_all_labels(ids, chosen, mask_id):
    real = ids != 0
    inputs = ids.masked_fill(chosen & real, mask_id)
    return inputs, ids.masked_fill(~real, -100)


@right("senses.hide", "copies, and assignment by a mask")
def q_hide_by_copies(ids, chosen, mask_id):
    hidden = torch.logical_and(chosen, ids.ne(0))
    inputs = ids.clone()
    inputs[hidden] = mask_id
    labels = torch.full_like(ids, -100)
    labels[hidden] = ids[hidden]
    return inputs, labels


@wrong(
    "senses.pool",
    "Padding is set to 0, but the sum is divided by the whole length.",
    "two of four positions real: half of the mean",
)
def q_mean_whole_length(vectors, real):
    return (vectors * real[..., None]).mean(1)


@wrong(
    "senses.pool",
    "Divides by the real positions of the whole batch: the axis is forgotten.",
    "two rows of three real positions: half of the mean",
)
def q_mean_batch_count(vectors, real):
    total = vectors.masked_fill(~real.unsqueeze(-1), 0.0).sum(1)
    return total / real.sum()


@right("senses.pool", "weights of 1/count, and a product")
def q_mean_by_weights(vectors, real):
    ones = real.to(vectors.dtype)
    weights = ones / ones.sum(1, keepdim=True).clamp(min=1)
    clean = torch.where(real.unsqueeze(-1), vectors, torch.zeros_like(vectors))
    return torch.bmm(weights.unsqueeze(1), clean).squeeze(1)


# 10: tokens


@wrong(
    "tokens.pair_counts",
    "A pair counts once per word, even if the word holds it twice.",
    "the word a b a b: the pair a b counts 1, not 2",
)
def q_pairs_once_a_word(words):
    counts = Counter()
    for word, often in words.items():
        for pair in set(pairwise(word)):
            counts[pair] += often
    return dict(counts)


@wrong(
    "tokens.pair_counts",
    "Counts the words of the list, not how often they stand in the text.",
    "the word a b, 5 times: 1 instead of 5",
)
def q_pairs_no_frequency(words):
    counts = Counter()
    for word in words:
        counts.update(pairwise(word))
    return dict(counts)


@right("tokens.pair_counts", "indices and get")
def q_pairs_by_index(words):
    counts = {}
    for word, often in words.items():
        for i in range(1, len(word)):
            pair = (word[i - 1], word[i])
            counts[pair] = counts.get(pair, 0) + often
    return counts


@wrong(
    "tokens.merge",
    "Goes from right to left.",
    "a a a with the pair a a: a X instead of X a",
)
def q_merge_from_right(word, pair, new):
    joined = []
    i = len(word) - 1
    while i >= 0:
        if i > 0 and (word[i - 1], word[i]) == tuple(pair):
            joined.append(new)
            i -= 2
        else:
            joined.append(word[i])
            i -= 1
    return tuple(reversed(joined))


@wrong(
    "tokens.merge",
    "Joins the first pair only.",
    "a b a b: X a b instead of X X",
)
def q_merge_first_only(word, pair, new):
    for i in range(len(word) - 1):
        if word[i : i + 2] == tuple(pair):
            return (*word[:i], new, *word[i + 2 :])
    return word


@right("tokens.merge", "a list that remembers whether its last place is free")
def q_merge_with_last(word, pair, new):
    first, second = pair
    joined = []
    free = False  # is the last place an old token?
    for token in word:
        if free and joined[-1] == first and token == second:
            joined[-1] = new
            free = False
        else:
            joined.append(token)
            free = True
    return tuple(joined)


@wrong(
    "tokens.encode",
    "Joins the leftmost pair that is known, whatever was learned first.",
    "b c learned before a b, word a b c: X c instead of a Y",
)
def q_encode_leftmost(word, merges):
    word = tuple(word)
    i = 0
    while i < len(word) - 1:
        if (pair := word[i : i + 2]) in merges:
            word = (*word[:i], merges[pair], *word[i + 2 :])
            i = 0
        else:
            i += 1
    return word


@wrong(
    "tokens.encode",
    "Tries the pair learned last first.",
    "b c learned before a b, word a b c: X c instead of a Y",
)
def q_encode_last_first(word, merges):
    latest = list(merges)[::-1]
    while True:
        pairs = set(pairwise(word))
        pair = next((pair for pair in latest if pair in pairs), None)
        if pair is None:
            return tuple(word)
        word = q_merge_with_last(word, pair, merges[pair])


@right("tokens.encode", "the lowest rank in the word, until none is left")
def q_encode_by_rank(word, merges):
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    word = list(word)
    while True:
        found = [
            (ranks[pair], i) for i, pair in enumerate(pairwise(word)) if pair in ranks
        ]
        if not found:
            return tuple(word)
        _, i = min(found)
        word[i : i + 2] = [merges[word[i], word[i + 1]]]


@wrong(
    "tokens.stream",
    "Each piece is decoded alone, and what is broken is thrown away.",
    "é in two ids of one byte each: never seen",
)
def q_stream_drops(ids, pieces):
    return [pieces[i].decode("utf-8", errors="ignore") for i in ids]


@wrong(
    "tokens.stream",
    "Complete characters wait as well, if an incomplete one follows them.",
    "the pieces a + half of é, other half: '', 'aé' instead of 'a', 'é'",
)
def q_stream_all_wait(ids, pieces):
    waiting = b""
    texts = []
    for i in ids:
        waiting += pieces[i]
        try:
            texts.append(waiting.decode("utf-8"))
            waiting = b""
        except UnicodeDecodeError:
            texts.append("")
    return texts


@right("tokens.stream", "Python's incremental decoder")
def q_stream_incremental(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return [decoder.decode(pieces[i]) for i in ids]


@wrong(
    "tokens.tokens_per_byte",
    "Counts characters, not bytes.",
    "the text é as 2 ids: 2 instead of 1",
)
def q_cost_per_character(text, ids):
    return len(ids) / len(text)


@wrong(
    "tokens.tokens_per_byte",
    "Upside down: bytes per token.",
    "4 bytes in 2 ids: 2 instead of 0.5",
)
def q_cost_upside_down(text, ids):
    return len(text.encode("utf-8")) / len(ids)


@right("tokens.tokens_per_byte", "counts the bytes one character at a time")
def q_cost_by_character(text, ids):
    size = 0
    for character in text:
        size += len(character.encode("utf-8"))
    return len(ids) / size


@wrong(
    "tokens.bits_per_byte",
    "The mean over texts of their bits per byte: short texts count too much.",
    "a text of 1 byte and one of 100 with different costs",
)
def q_bits_mean_of_texts(nats, counts, texts):
    each = [
        loss * count / len(text.encode("utf-8")) / math.log(2)
        for loss, count, text in zip(nats, counts, texts, strict=True)
    ]
    return sum(each) / len(each)


@wrong(
    "tokens.bits_per_byte",
    "Multiplies by ln 2 instead of dividing by it.",
    "ln 2 nats for one token of one byte: 0.48 instead of 1",
)
def q_bits_times_log(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    return total * math.log(2) / len("".join(texts).encode("utf-8"))


@right("tokens.bits_per_byte", "all in bits first, then over all bytes")
def q_bits_over_all(nats, counts, texts):
    bits = math.fsum(
        loss * math.log2(math.e) * count
        for loss, count in zip(nats, counts, strict=True)
    )
    return bits / sum(len(text.encode("utf-8")) for text in texts)
