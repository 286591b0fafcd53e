"""Answers of a stranger, written from the prompts alone."""

import codecs
import math
from collections import Counter
from itertools import pairwise

import torch
from torch.nn import functional as F

from course_utils.attention import attend, attention_scores, attention_weights
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 06: recurrent networks and attention


@wrong(
    "recurrent.gru_step",
    "The bias of the candidate stands inside the bracket that r multiplies.",
    "b_h = 1 and r near 0: the candidate loses its bias",
)
def u_gru_bias_under_reset(x, state, W, U, b):
    of_x = (x @ W.T).chunk(3, dim=-1)
    of_state = (state @ U.T).chunk(3, dim=-1)
    b_r, b_z, b_h = b.chunk(3)
    r = torch.sigmoid(of_x[0] + of_state[0] + b_r)
    z = torch.sigmoid(of_x[1] + of_state[1] + b_z)
    candidate = torch.tanh(of_x[2] + r * (of_state[2] + b_h))
    return z * state + (1 - z) * candidate


@wrong(
    "recurrent.gru_step",
    "The square U are multiplied from the wrong side, not transposed as the W are.",
    "any U_r, U_z, U_h that are not symmetric",
)
def u_gru_u_not_transposed(x, state, W, U, b):
    m = state.shape[-1]
    r = torch.sigmoid(x @ W[:m].T + state @ U[:m] + b[:m])
    z = torch.sigmoid(x @ W[m : 2 * m].T + state @ U[m : 2 * m] + b[m : 2 * m])
    candidate = torch.tanh(x @ W[2 * m :].T + b[2 * m :] + r * (state @ U[2 * m :]))
    return z * state + (1 - z) * candidate


@right("recurrent.gru_step", "an axis for the three gates, and a step from h to h~")
def u_gru_by_gate_axis(x, state, W, U, b):
    m = state.shape[-1]
    from_x = torch.einsum("gmn, bn -> gbm", W.reshape(3, m, -1), x)
    from_x = from_x + b.reshape(3, 1, m)
    from_state = torch.einsum("gmk, bk -> gbm", U.reshape(3, m, m), state)
    reset, keep = torch.sigmoid(from_x[:2] + from_state[:2]).unbind(0)
    candidate = torch.tanh(from_x[2] + reset * from_state[2])
    return candidate + keep * (state - candidate)


@wrong(
    "recurrent.general_scores",
    "W is applied to the query, not to the key: W s · h.",
    "W = [[0, 1], [0, 0]], s = (1, 0), h = (0, 1): 0 where 1 is wanted",
)
def u_general_w_on_the_query(queries, keys, W):
    return F.linear(queries, W) @ keys.transpose(1, 2)


@wrong(
    "recurrent.general_scores",
    "Both sides go through W: W s · W h.",
    "W = 2 I: twice what is wanted",
)
def u_general_w_on_both(queries, keys, W):
    return torch.einsum("bqm, bkm -> bqk", queries @ W.T, keys @ W.T)


@right("recurrent.general_scores", "every pair multiplied entry by entry, then added")
def u_general_by_pairs(queries, keys, W):
    seen = F.linear(keys, W)
    return (queries.unsqueeze(2) * seen.unsqueeze(1)).sum(dim=-1)


@wrong(
    "recurrent.additive_scores",
    "W and U are multiplied from the wrong side, without a transpose.",
    "a W that is not symmetric",
)
def u_additive_not_transposed(queries, keys, W, U, v):
    both = (queries @ W)[:, :, None] + (keys @ U)[:, None]
    return both.tanh() @ v


@wrong(
    "recurrent.additive_scores",
    "v is multiplied before the tanh, so that every score lies between -1 and 1.",
    "W s = 1, U h = 0, v = 3 (m = 1): tanh(3) and not 3 tanh(1)",
)
def u_additive_v_inside(queries, keys, W, U, v):
    of_queries = queries @ W.T @ v
    of_keys = keys @ U.T @ v
    return torch.tanh(of_queries[:, :, None] + of_keys[:, None, :])


@right("recurrent.additive_scores", "pairs [s; h] side by side, and one matrix [W U]")
def u_additive_by_concatenation(queries, keys, W, U, v):
    b, q, m = queries.shape
    k = keys.shape[1]
    left = queries.unsqueeze(2).expand(b, q, k, m)
    beside = keys.unsqueeze(1).expand(b, q, k, m)
    pairs = torch.cat([left, beside], dim=-1)
    return torch.tanh(pairs @ torch.cat([W, U], dim=1).T) @ v


@wrong(
    "recurrent.context_step",
    "Hidden words get the score 1e-9 where -1e9 was meant.",
    "a padded sentence with scores near 0: the pads share the weight",
)
def u_step_small_not_negative(state, memory, mask, W):
    scores = torch.einsum("bm, bkm -> bk", state, memory)
    scores = scores.masked_fill(~mask, 1e-9)
    context = torch.einsum("bk, bkm -> bm", scores.softmax(-1), memory)
    return torch.tanh(torch.cat([context, state], dim=-1) @ W.T)


@wrong(
    "recurrent.context_step",
    "The dot scores are divided by the root of the width, as in the transformer.",
    "m = 4: the weights are flatter than they should be",
)
def u_step_scaled(state, memory, mask, W):
    weights = attention_weights(attention_scores(state[:, None], memory), mask[:, None])
    context = (weights @ memory)[:, 0]
    return torch.tanh(F.linear(torch.cat([context, state], dim=-1), W))


@right("recurrent.context_step", "logarithms of the weights, and W in two halves")
def u_step_by_logsumexp(state, memory, mask, W):
    scores = (memory @ state.unsqueeze(-1)).squeeze(-1)
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    weights = (scores - scores.logsumexp(dim=1, keepdim=True)).exp() * mask
    context = (weights.unsqueeze(1) @ memory).squeeze(1)
    of_context, of_state = W.chunk(2, dim=1)
    return torch.tanh(context @ of_context.T + state @ of_state.T)


wrong(
    "recurrent.gate",
    "Loses a hundredth of the half at each step, as if losses were added.",
    "0.995 ** 100 = 0.61",
)(0.995)
wrong(
    "recurrent.gate",
    "Gives 1 - z, the candidate's share, in place of z.",
    "0.0069 ** 100 is 0 to 216 places",
)(0.0069)
right("recurrent.gate", "the hundredth root of a half")(0.9931)


# 07: translation


@wrong(
    "translation.cross_attention",
    "Sets hidden memory to 0 and leaves the mask out: zeros still take weight.",
    "one real word and one pad: half of the context or so is lost",
)
def u_cross_zeroes_the_memory(x, memory, W_q, W_k, W_v, mask):
    memory = memory * mask.transpose(1, 2)
    return attend(x @ W_q, memory @ W_k, memory @ W_v)


@wrong(
    "translation.cross_attention",
    "The matrices of keys and values have changed places.",
    "W_v = 0: the context is not 0",
)
def u_cross_keys_for_values(x, memory, W_q, W_k, W_v, mask):
    keys = memory @ W_v
    values = memory @ W_k
    return attend(x @ W_q, keys, values, mask)


@right("translation.cross_attention", "the query carried to the memory's own width")
def u_cross_by_hand(x, memory, W_q, W_k, W_v, mask):
    asked = x @ (W_q @ W_k.T) / math.sqrt(W_q.shape[1])
    weights = attention_weights(asked @ memory.mT, mask)
    return (weights @ memory) @ W_v


@wrong(
    "translation.smoothed",
    "The right token gets no part of epsilon, the others share it among v - 1.",
    "v = 4, epsilon = 0.4: 0.6 and 0.133 where 0.7 and 0.1 are wanted",
)
def u_smoothed_over_the_others(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / (vocab_size - 1))
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "Adds epsilon / v to a whole 1 and divides by the sum, 1 + epsilon.",
    "v = 4, epsilon = 0.4: 0.786 where 0.7 is wanted",
)
def u_smoothed_then_normalized(right, vocab_size, epsilon):
    target = F.one_hot(torch.tensor(right), vocab_size) + epsilon / vocab_size
    return target / target.sum()


@right("translation.smoothed", "on the way from certain to even, a part epsilon")
def u_smoothed_by_lerp(right, vocab_size, epsilon):
    certain = (torch.arange(vocab_size) == right).to(torch.get_default_dtype())
    even = torch.full_like(certain, 1 / vocab_size)
    return torch.lerp(certain, even, epsilon)


@wrong(
    "translation.loss",
    "Asks the inputs and not the labels whether they are real: end -> pad counts.",
    "a row with a pad behind its end, and scores that do not expect a pad",
)
def u_loss_counts_after_the_end(scores, target, pad_id):
    inputs = target[:, :-1]
    labels = target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    real = inputs != pad_id
    return (losses * real).sum() / real.sum()


@wrong(
    "translation.loss",
    "Takes the mean of each row and then of the rows: short rows weigh too much.",
    "rows of 2 and of 8 tokens, with different losses",
)
def u_loss_mean_of_rows(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    real = labels != pad_id
    by_row = (losses * real).sum(dim=1) / real.sum(dim=1)
    return by_row.mean()


@right("translation.loss", "real rows first, then logsumexp minus the right score")
def u_loss_by_logsumexp(scores, target, pad_id):
    following = target.narrow(1, 1, target.shape[1] - 1)
    rows, columns = torch.nonzero(following != pad_id, as_tuple=True)
    asked = scores[rows, columns]
    answers = following[rows, columns]
    hit = asked.gather(1, answers.unsqueeze(1)).squeeze(1)
    return (asked.logsumexp(dim=1) - hit).mean()


@wrong(
    "translation.greedy",
    "Looks only at the last token for the end, so a row wakes up after one pad.",
    "a row ends three steps before the others: end, pad, then words again",
)
def u_greedy_wakes_up(model, begin, end_id, pad_id, limit):
    ids = begin
    for _ in range(limit):
        ended = ids[:, -1] == end_id
        if ended.all():
            break
        best = model(ids)[:, -1].argmax(dim=-1)
        best = best.masked_fill(ended, pad_id)
        ids = torch.cat([ids, best[:, None]], dim=1)
    return ids


@wrong(
    "translation.greedy",
    "Takes limit for the whole length, the given beginning included.",
    "begin of 3 tokens, limit 4, no end in sight: one new token",
)
def u_greedy_limit_on_all(model, begin, end_id, pad_id, limit):
    ids = begin
    ended = torch.zeros(len(begin), dtype=torch.bool, device=begin.device)
    while ids.shape[1] < limit and not ended.all():
        best = model(ids)[:, -1].argmax(dim=-1)
        best = torch.where(ended, pad_id, best)
        ids = torch.cat([ids, best[:, None]], dim=1)
        ended = ended | (best == end_id)
    return ids


@right("translation.greedy", "a sheet full of padding, written column by column")
def u_greedy_on_a_sheet(model, begin, end_id, pad_id, limit):
    given = begin.shape[1]
    sheet = F.pad(begin, (0, limit), value=pad_id)
    writing = torch.ones_like(begin[:, 0], dtype=torch.bool)
    place = given
    while place < given + limit and bool(writing.any()):
        likeliest = model(sheet[:, :place].clone())[:, -1].max(dim=-1).indices
        sheet[writing, place] = likeliest[writing]
        writing = writing & (likeliest != end_id)
        place += 1
    return sheet[:, :place]


# 08: decoding


@wrong(
    "translation.beam",
    "Every beginning keeps its own best token, so that none ever dies.",
    "both best totals come from the first beginning",
)
def u_beam_one_child_each(totals, log_probs):
    best, tokens = (totals[:, None] + log_probs).max(dim=1)
    order = best.argsort(descending=True)
    return order, tokens[order], best[order]


@wrong(
    "translation.beam",
    "Chooses by the totals but gives back the log-probability of the last token.",
    "totals = (-1, -2): the first new total lacks the -1",
)
def u_beam_last_step_only(totals, log_probs):
    v = log_probs.shape[1]
    places = (totals[:, None] + log_probs).flatten().topk(len(totals)).indices
    parents = places // v
    tokens = places % v
    return parents, tokens, log_probs[parents, tokens]


@right("translation.beam", "a stable sort of all, and unravelled places")
def u_beam_by_sorting(totals, log_probs):
    w = totals.shape[0]
    sums = totals.unsqueeze(1) + log_probs
    ranked, places = sums.reshape(-1).sort(descending=True, stable=True)
    parents, tokens = torch.unravel_index(places[:w], sums.shape)
    return parents, tokens, ranked[:w]


@wrong(
    "translation.choice",
    "The power is taken of the 6 alone: (5 + length) / 6 ** penalty.",
    "penalty 0: divides by 5 + length and not by 1",
)
def u_choice_power_of_six(log_probs, lengths, penalty):
    values = [
        p / ((5 + n) / 6**penalty) for p, n in zip(log_probs, lengths, strict=True)
    ]
    value = max(values)
    return values.index(value), value


@wrong(
    "translation.choice",
    "Picks the text by its bare total, and divides only afterwards.",
    "totals -4 and -5, lengths 2 and 20, penalty 1: the second should win",
)
def u_choice_divides_too_late(log_probs, lengths, penalty):
    number = max(range(len(log_probs)), key=lambda i: log_probs[i])
    return number, log_probs[number] / ((5 + lengths[number]) / 6) ** penalty


@right("translation.choice", "a running best, with a negative power as a factor")
def u_choice_running_best(log_probs, lengths, penalty):
    best = None
    for number, total in enumerate(log_probs):
        value = total * ((5 + lengths[number]) / 6) ** -penalty
        if best is None or value > best[1]:
            best = (number, value)
    return best


def _u_runs(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@wrong(
    "translation.bleu_clipped",
    "Clips by one reference as a whole, the one with most hits, not run by run.",
    "output a b, references [a] and [b], n = 1: 1 hit where 2 are wanted",
)
def u_clipped_best_reference(output, references, n):
    mine = Counter(_u_runs(output, n))
    hits = 0
    for reference in references:
        common = mine & Counter(_u_runs(reference, n))
        hits = max(hits, common.total())
    return hits, mine.total()


@wrong(
    "translation.bleu_clipped",
    "The number of runs is below 0 where the output is shorter than n - 1.",
    "output of 2 words, n = 4: -1 runs",
)
def u_clipped_negative_count(output, references, n):
    held = Counter()
    for reference in references:
        held |= Counter(_u_runs(reference, n))
    hits = Counter(_u_runs(output, n)) & held
    return hits.total(), len(output) - n + 1


@right("translation.bleu_clipped", "counted with lists, one kind of run after another")
def u_clipped_with_lists(output, references, n):
    runs = _u_runs(output, n)
    theirs = [_u_runs(reference, n) for reference in references]
    hits = 0
    for kind in dict.fromkeys(runs):
        allowed = max((held.count(kind) for held in theirs), default=0)
        hits += min(runs.count(kind), allowed)
    return hits, len(runs)


@wrong(
    "translation.bleu_brevity",
    "Takes the factor of each sentence and the mean of these, not sums of lengths.",
    "outputs 5 and 15, references 10 and 10: 1 is wanted, this gives 0.68",
)
def u_brevity_by_sentence(lengths, reference_lengths):
    pairs = list(zip(lengths, reference_lengths, strict=True))
    factors = [min(1.0, math.exp(1 - r / c)) for c, r in pairs]
    return sum(factors) / len(factors)


@wrong(
    "translation.bleu_brevity",
    "c and r have changed places: punishes what is too long.",
    "output 5, reference 10: 1 where 0.37 is wanted",
)
def u_brevity_punishes_length(lengths, reference_lengths):
    c = sum(reference_lengths)
    r = sum(lengths)
    return min(1.0, math.exp(1 - r / c))


@right("translation.bleu_brevity", "what is missing, per word written")
def u_brevity_by_missing(lengths, reference_lengths):
    written = sum(lengths)
    missing = sum(reference_lengths) - written
    if missing <= 0:
        return 1.0
    return math.exp(-missing / written) if written else 0.0


# 09: encoders


@wrong(
    "senses.pick",
    "The shape b b m is made to fit by [0]: all vectors come from the first row.",
    "any two rows that differ: the second row is read from the first sentence",
)
def u_pick_from_the_first_row(vectors, positions):
    return vectors[:, positions][0]


@wrong(
    "senses.pick",
    "In the flattened list a row is taken to be b places long, not t.",
    "b = 2, t = 3: the second row is read one place too early",
)
def u_pick_wrong_stride(vectors, positions):
    b = len(vectors)
    starts = torch.arange(b, device=positions.device) * b
    return vectors.flatten(0, 1)[starts + positions]


@right("senses.pick", "a gather along the positions")
def u_pick_by_gather(vectors, positions):
    places = positions.reshape(-1, 1, 1).expand(-1, 1, vectors.shape[2])
    return torch.gather(vectors, 1, places).squeeze(1)


@wrong(
    "senses.strongest_clue",
    "Lets every head vote for its strongest key and counts the votes.",
    "heads (.6 .4), (.6 .4), (0 1): key 0 by votes, key 1 by the mean",
)
def u_clue_by_vote(weights, position):
    votes = weights[:, position].argmax(dim=-1)
    return votes.mode().values.item()


@wrong(
    "senses.strongest_clue",
    "Leaves the word itself out, as if it could not be its own strongest key.",
    "a word that looks mostly at itself",
)
def u_clue_never_itself(weights, position):
    row = weights[:, position].mean(dim=0)
    row[position] = -1
    return row.argmax().item()


@right("senses.strongest_clue", "a plain list and its largest entry")
def u_clue_from_a_list(weights, position):
    row = weights.mean(dim=0)[position].tolist()
    return max(range(len(row)), key=row.__getitem__)


wrong(
    "senses.causal_share",
    "Who cannot see the clue is taken to be always wrong.",
    "two equally frequent senses: a coin is right half the time",
)(0.0)
wrong(
    "senses.causal_share",
    "Believes that the model makes up for most of it by the words before.",
    "what stands before the word does not decide",
)(0.8)
right("senses.causal_share", "a coin")(0.5)


@wrong(
    "senses.hide",
    "Padding is spared in the inputs, but where it was chosen its label is 0.",
    "a padding place that is chosen: label 0 where -100 is wanted",
)
def u_hide_labels_padding(ids, chosen, mask_id):
    inputs = torch.where(chosen & (ids != 0), mask_id, ids)
    labels = torch.where(chosen, ids, -100)
    return inputs, labels


@wrong(
    "senses.hide",
    "The inputs are hidden before the labels are read: every label is mask_id.",
    "one chosen word: its label is mask_id",
)
def u_hide_labels_too_late(ids, chosen, mask_id):
    hidden = chosen & (ids != 0)
    inputs = ids.masked_fill(hidden, mask_id)
    labels = inputs.masked_fill(~hidden, -100)
    return inputs, labels


@right("senses.hide", "arithmetic with 0 and 1")
def u_hide_by_arithmetic(ids, chosen, mask_id):
    hidden = (chosen & ids.ne(0)).to(ids.dtype)
    inputs = ids + hidden * (mask_id - ids)
    labels = hidden * (ids + 100) - 100
    return inputs, labels


@wrong(
    "senses.pool",
    "Padding is set to 0, but the mean still divides by all t positions.",
    "2 real words of 4: half of what is wanted",
)
def u_pool_divides_by_all(vectors, real):
    return (vectors * real[:, :, None]).mean(dim=1)


@wrong(
    "senses.pool",
    "Counts the real words and then takes that many from the left.",
    "padding on the left, real = (False, True): reads the padding",
)
def u_pool_first_ones(vectors, real):
    counts = real.sum(dim=1)
    rows = [row[:count].mean(dim=0) for row, count in zip(vectors, counts, strict=True)]
    return torch.stack(rows)


@right("senses.pool", "a row of shares times the matrix")
def u_pool_by_shares(vectors, real):
    clean = vectors.masked_fill(~real.unsqueeze(-1), 0)
    shares = F.normalize(real.to(vectors.dtype), p=1, dim=1)
    return torch.bmm(shares.unsqueeze(1), clean).squeeze(1)


# 10: tokens


@wrong(
    "tokens.pair_counts",
    "A pair that stands twice in a word is counted once, because of the set.",
    "the word a n a n: (a, n) once where 2 is wanted",
)
def u_pairs_once_a_word(words):
    counts = Counter()
    for word, times in words.items():
        for pair in set(pairwise(word)):
            counts[pair] += times
    return counts


@wrong(
    "tokens.pair_counts",
    "The counts of one word replace those of the words before.",
    "two words that hold the same pair: only the last counts",
)
def u_pairs_of_the_last_word(words):
    counts = {}
    for word, times in words.items():
        inside = Counter(pairwise(word))
        counts.update({pair: n * times for pair, n in inside.items()})
    return counts


@right("tokens.pair_counts", "places, and a plain dict")
def u_pairs_by_place(words):
    counts = {}
    for word in words:
        for i in range(1, len(word)):
            pair = (word[i - 1], word[i])
            counts[pair] = counts.get(pair, 0) + words[word]
    return counts


@wrong(
    "tokens.merge",
    "Joins from right to left.",
    "a a a: a X where X a is wanted",
)
def u_merge_from_the_right(word, pair, new):
    out = []
    i = len(word) - 1
    while i >= 0:
        if i > 0 and (word[i - 1], word[i]) == tuple(pair):
            out.append(new)
            i -= 2
        else:
            out.append(word[i])
            i -= 1
    return tuple(reversed(out))


@wrong(
    "tokens.merge",
    "Does not look at pairs that begin at odd places: always goes on by two.",
    "x a b with the pair a b: nothing is joined",
)
def u_merge_by_twos(word, pair, new):
    out = []
    for i in range(0, len(word), 2):
        two = word[i : i + 2]
        out.extend([new] if tuple(two) == tuple(pair) else two)
    return tuple(out)


@right("tokens.merge", "a pile whose top may still be joined")
def u_merge_on_a_pile(word, pair, new):
    first, second = pair
    pile = []
    top_is_free = False
    for token in word:
        if top_is_free and pile[-1] == first and token == second:
            pile[-1] = new
            top_is_free = False
        else:
            pile.append(token)
            top_is_free = True
    return tuple(pile)


@wrong(
    "tokens.encode",
    "Takes the longest known piece at each place, from left to right.",
    "learned b c, then a b; the word a b c: (ab, c) where (a, bc) is wanted",
)
def u_encode_longest_piece(word, merges):
    spelled = {}
    for (x, y), new in merges.items():
        spelled[new] = spelled.get(x, (x,)) + spelled.get(y, (y,))
    ids = {spelling: new for new, spelling in spelled.items()}
    out = []
    i = 0
    while i < len(word):
        for end in range(len(word), i, -1):
            piece = tuple(word[i:end])
            if piece in ids or len(piece) == 1:
                out.append(ids.get(piece, piece[0]))
                i = end
                break
    return tuple(out)


@wrong(
    "tokens.encode",
    "Joins the known pair that is most frequent in this word, as in training.",
    "learned b c, then a b; the word a b a b c: a b is joined first",
)
def u_encode_most_frequent(word, merges):
    word = tuple(word)
    while True:
        counts = Counter(pair for pair in pairwise(word) if pair in merges)
        if not counts:
            return word
        ranks = list(merges)
        best = max(counts, key=lambda pair: (counts[pair], -ranks.index(pair)))
        word = u_merge_on_a_pile(word, best, merges[best])


@right("tokens.encode", "the merges in their order, each over the whole word")
def u_encode_in_order(word, merges):
    for pair, new in merges.items():
        word = u_merge_on_a_pile(word, pair, new)
    return tuple(word)


@wrong(
    "tokens.stream",
    "Finished characters have to wait, too, if an unfinished one stands behind.",
    'pieces b"a\\xc3", b"\\xa9": "", "aé" where "a", "é" is wanted',
)
def u_stream_all_or_nothing(ids, pieces):
    waiting = b""
    texts = []
    for id in ids:
        waiting += pieces[id]
        try:
            text = waiting.decode("utf-8")
        except UnicodeDecodeError:
            texts.append("")
        else:
            texts.append(text)
            waiting = b""
    return texts


@wrong(
    "tokens.stream",
    "Decodes all so far with replacement signs and gives what is beyond the old.",
    'pieces b"\\xc3", b"\\xa9": the sign, then "", and never é',
)
def u_stream_by_length(ids, pieces):
    data = b""
    shown = 0
    texts = []
    for id in ids:
        data += pieces[id]
        text = data.decode("utf-8", errors="replace")
        texts.append(text[shown:])
        shown = len(text)
    return texts


@right("tokens.stream", "an incremental decoder of the standard library")
def u_stream_incremental(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return [decoder.decode(bytes(pieces[id])) for id in ids]


@wrong(
    "tokens.tokens_per_byte",
    "Divides by the number of characters.",
    '"é" as 2 ids: 2 where 1 is wanted',
)
def u_tokens_per_character(text, ids):
    return len(ids) / len(text)


@wrong(
    "tokens.tokens_per_byte",
    "Upside down: bytes per token.",
    "4 bytes in 2 ids: 2 where 0.5 is wanted",
)
def u_bytes_per_token(text, ids):
    return len(text.encode("utf-8")) / len(ids)


@right("tokens.tokens_per_byte", "bytes counted by the code points of the characters")
def u_tokens_per_counted_byte(text, ids):
    limits = (0, 0x80, 0x800, 0x10000)
    size = sum(sum(ord(sign) >= limit for limit in limits) for sign in text)
    return len(ids) / size


@wrong(
    "tokens.bits_per_byte",
    "Averages the texts' bits per byte by their tokens, where bytes are the weights.",
    "two texts of 1 and 9 tokens, both of 10 bytes, with different losses",
)
def u_bits_weighted_by_tokens(nats, counts, texts):
    total = 0.0
    for loss, count, text in zip(nats, counts, texts, strict=True):
        bits = loss * count / math.log(2)
        total += count * bits / len(text.encode())
    return total / sum(counts)


@wrong(
    "tokens.bits_per_byte",
    "Multiplies with ln 2 where it should divide.",
    "ln 2 nats per token, one byte each: 0.48 where 1 is wanted",
)
def u_bits_times_ln_two(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=True))
    size = sum(len(text.encode()) for text in texts)
    return total * math.log(2) / size


@right("tokens.bits_per_byte", "the formula of the section, on the joined text")
def u_bits_of_the_joined_text(nats, counts, texts):
    num_tokens = sum(counts)
    nats_per_token = sum(map(lambda a, b: a * b, nats, counts)) / num_tokens
    bytes_per_token = len("".join(texts).encode("utf-8")) / num_tokens
    return nats_per_token / (math.log(2) * bytes_per_token)
