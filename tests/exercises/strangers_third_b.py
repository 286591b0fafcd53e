"""Answers of a stranger, written from the prompts alone."""

import copy
import math
from collections import Counter
from heapq import nlargest
from itertools import chain, pairwise, repeat

import numpy as np
import torch
from einops import rearrange
from torch.nn import functional as F

from course_utils.attention import attend
from course_utils.positions import rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 07


@wrong(
    "translation.cross_attention",
    "The memory of hidden places is set to 0 instead of hiding it from the softmax.",
    "any row with padding: the zero keys have score 0 and still get weight",
)
def cross_zeroed_memory(x, memory, W_q, W_k, W_v, mask):
    memory = memory * mask.mT
    return attend(x @ W_q, memory @ W_k, memory @ W_v)


@wrong(
    "translation.cross_attention",
    "The queries are divided by sqrt(d), which attend does once more.",
    "d > 1: scores divided by d",
)
def cross_scaled_twice(x, memory, W_q, W_k, W_v, mask):
    queries = x @ W_q / W_q.shape[-1] ** 0.5
    return attend(queries, memory @ W_k, memory @ W_v, mask)


@right(
    "translation.cross_attention",
    "no attend: keys and values are never made, the memory is mixed, then projected",
)
def cross_memory_mixed_first(x, memory, W_q, W_k, W_v, mask):
    asked = torch.einsum("btm,md,nd->btn", x, W_q, W_k)
    scores = asked @ memory.mT / math.sqrt(W_q.shape[1])
    lowest = torch.finfo(scores.dtype).min
    weights = torch.where(mask, scores, lowest).softmax(-1) * mask
    return (weights @ memory) @ W_v


@wrong(
    "translation.smoothed",
    "What is taken from the right token goes to the other v - 1 tokens only.",
    "v = 4, epsilon 0.1: right 0.9 instead of 0.925",
)
def smoothed_others_only(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / (vocab_size - 1))
    target[right] = 1 - epsilon
    return target


@wrong(
    "translation.smoothed",
    "1 at the right token, epsilon / v elsewhere, then all divided by the sum.",
    "v = 4, epsilon 0.1: right 0.9302 instead of 0.925",
)
def smoothed_normalized(right, vocab_size, epsilon):
    target = torch.full((vocab_size,), epsilon / vocab_size)
    target[right] = 1.0
    return target / target.sum()


@right("translation.smoothed", "lerp from a row of the identity to the even target")
def smoothed_by_lerp(right, vocab_size, epsilon):
    even = torch.ones(vocab_size) / vocab_size
    return torch.lerp(torch.eye(vocab_size)[right], even, epsilon)


@wrong(
    "translation.loss",
    "What is real is read from the inputs: the step after the end token counts too.",
    "any row with padding: the guess of the first pad is in the mean",
)
def translation_loss_real_inputs(scores, target, pad_id):
    inputs, labels = target[:, :-1], target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    real = inputs != pad_id
    return losses[real].mean()


@wrong(
    "translation.loss",
    "The sum is divided by all real tokens of the target, the start included.",
    "one row of start, word, end: the sum of 2 losses over 3",
)
def translation_loss_start_counted(scores, target, pad_id):
    labels = target[:, 1:]
    losses = F.cross_entropy(scores[:, :-1].mT, labels, reduction="none")
    losses = losses * (labels != pad_id)
    return losses.sum() / (target != pad_id).sum()


@right("translation.loss", "place by place with logsumexp; a running sum and count")
def translation_loss_by_place(scores, target, pad_id):
    total = scores.new_zeros(())
    count = scores.new_zeros(())
    for place in range(1, target.shape[1]):
        rows = (target[:, place] != pad_id).nonzero()[:, 0]
        logits = scores[rows, place - 1]
        chosen = logits.gather(1, target[rows, place].unsqueeze(1)).squeeze(1)
        total = total + (logits.logsumexp(dim=1) - chosen).sum()
        count = count + len(rows)
    return total / count


@wrong(
    "translation.greedy",
    "Whether all have ended is asked before this step's end tokens are noted.",
    "all rows end before the limit: one more column of padding",
)
def greedy_a_column_too_many(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        new = model(ids)[:, -1].argmax(-1)
        new = torch.where(done, pad_id, new)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if done.all():
            break
        done = done | (new == end_id)
    return ids


@wrong(
    "translation.greedy",
    "A row counts as ended only while its last token is the end token.",
    "a row that ended two steps before another: after one pad it writes words again",
)
def greedy_row_revived(model, begin, end_id, pad_id, limit):
    ids = begin
    done = torch.zeros(len(begin), dtype=torch.bool)
    for _ in range(limit):
        new = model(ids)[:, -1].argmax(-1)
        new = torch.where(done, pad_id, new)
        ids = torch.cat([ids, new[:, None]], dim=1)
        done = new == end_id
        if done.all():
            break
    return ids


@right("translation.greedy", "recursion: a set of rows that still write is handed on")
def greedy_by_recursion(model, begin, end_id, pad_id, limit):
    def go_on(ids, writing, left):
        if left <= 0 or not writing:
            return ids
        likeliest = model(ids)[:, -1, :].argmax(dim=-1).tolist()
        column = [t if i in writing else pad_id for i, t in enumerate(likeliest)]
        still = {i for i in writing if column[i] != end_id}
        new = torch.tensor(column, dtype=ids.dtype).reshape(-1, 1)
        return go_on(torch.hstack([ids, new]), still, left - 1)

    return go_on(begin.clone(), set(range(len(begin))), limit)


# 08


@wrong(
    "translation.beam",
    "Each beginning goes on with its own best token; none may have two children.",
    "totals (0, -9), log_probs near (-0.7, -0.7) in both rows: parents 0, 1, not 0, 0",
)
def beam_one_child_each(totals, log_probs):
    best = log_probs.max(dim=-1)
    new = totals + best.values
    order = new.argsort(descending=True)
    return order, best.indices[order], new[order]


@wrong(
    "translation.beam",
    "The w likeliest next tokens are taken without the totals, which are added later.",
    "totals (0, -9), row 1 has the most certain next token: it is kept",
)
def beam_chosen_by_step(totals, log_probs):
    w, v = log_probs.shape
    best = log_probs.flatten().topk(w).indices
    parents, tokens = best // v, best % v
    new = totals[parents] + log_probs[parents, tokens]
    order = new.argsort(descending=True)
    return parents[order], tokens[order], new[order]


@right("translation.beam", "a heap of (total, parent, token) in plain Python")
def beam_by_heap(totals, log_probs):
    sums = (totals.unsqueeze(1) + log_probs).tolist()
    children = [
        (total, -parent, -token)
        for parent, row in enumerate(sums)
        for token, total in enumerate(row)
    ]
    kept = nlargest(len(sums), children)
    parents = torch.tensor([-parent for _, parent, _ in kept])
    tokens = torch.tensor([-token for _, _, token in kept])
    return parents, tokens, torch.tensor([t for t, _, _ in kept], dtype=totals.dtype)


@wrong(
    "translation.choice",
    "A missing pair of brackets: only the 6 is raised to the penalty.",
    "any penalty other than 1: (5 + n) / 6 ** 0.6",
)
def choice_power_of_six(log_probs, lengths, penalty):
    values = [
        total / ((5 + n) / 6**penalty)
        for total, n in zip(log_probs, lengths, strict=True)
    ]
    best = max(range(len(values)), key=values.__getitem__)
    return best, values[best]


@wrong(
    "translation.choice",
    "The likeliest text is chosen, and only its value is corrected for the length.",
    "log_probs (-2, -2.1), lengths (1, 9), penalty 1: number 0",
)
def choice_before_the_penalty(log_probs, lengths, penalty):
    best = max(range(len(log_probs)), key=log_probs.__getitem__)
    return best, log_probs[best] / ((5 + lengths[best]) / 6) ** penalty


@right("translation.choice", "a running best, times (6 / (5 + n)) to the penalty")
def choice_running(log_probs, lengths, penalty):
    best = (0, -math.inf)
    for number, total in enumerate(log_probs):
        value = total * (6 / (5 + lengths[number])) ** penalty
        if value > best[1]:
            best = (number, value)
    return best


def _runs(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@wrong(
    "translation.bleu_clipped",
    "All hits are counted against one reference, the best, not run by run.",
    "output 'a b', references 'a c' and 'b d', n = 1: 1 hit instead of 2",
)
def clipped_best_reference(output, references, n):
    runs = Counter(_runs(output, n))
    hits = [(runs & Counter(_runs(words, n))).total() for words in references]
    return max(hits), runs.total()


@wrong(
    "translation.bleu_clipped",
    "The counts of the references are added up before clipping.",
    "output 'a a', references 'a' and 'a b', n = 1: 2 hits instead of 1",
)
def clipped_references_added(output, references, n):
    runs = Counter(_runs(output, n))
    allowed = Counter()
    for words in references:
        allowed.update(_runs(words, n))
    return (runs & allowed).total(), runs.total()


@right(
    "translation.bleu_clipped",
    "no counter: the k-th time of a run is a hit if a reference has it k times",
)
def clipped_kth_time(output, references, n):
    runs = _runs(output, n)
    hits = 0
    for place, run in enumerate(runs):
        time = runs[: place + 1].count(run)
        hits += any(_runs(words, n).count(run) >= time for words in references)
    return hits, len(runs)


@wrong(
    "translation.bleu_brevity",
    "The factor is the plain share of the length, c / r, without e.",
    "lengths (5), references (10): 0.5 instead of 0.368",
)
def brevity_plain_share(lengths, reference_lengths):
    return min(1.0, sum(lengths) / sum(reference_lengths))


@wrong(
    "translation.bleu_brevity",
    "Each output is cut to its reference, so a long one cannot make up for a short.",
    "lengths (4, 12), references (8, 8): e^(1 - 16/12) instead of 1",
)
def brevity_cut_per_sentence(lengths, reference_lengths):
    pairs = zip(lengths, reference_lengths, strict=True)
    c = sum(min(pair) for pair in pairs)
    r = sum(reference_lengths)
    return min(1.0, math.exp(1 - r / c))


@right("translation.bleu_brevity", "the minimum is taken in the exponent")
def brevity_in_exponent(lengths, reference_lengths):
    missing = sum(reference_lengths) - sum(lengths)
    if missing <= 0:
        return 1.0
    return math.exp(-missing / sum(lengths)) if sum(lengths) else 0.0


# 09


@wrong(
    "senses.pick",
    "All other places are set to 0, and then the maximum over places is taken.",
    "every negative number of the picked vector becomes 0",
)
def pick_by_maximum(vectors, positions):
    chosen = F.one_hot(positions, vectors.shape[1]).to(vectors.dtype)
    return (vectors * chosen[:, :, None]).amax(dim=1)


@wrong(
    "senses.pick",
    "All positions are read from the first sentence.",
    "every row but the first",
)
def pick_from_first_row(vectors, positions):
    return vectors[0, positions]


@right("senses.pick", "batch and place become one axis, the index is row * t + place")
def pick_flat(vectors, positions):
    b, t, m = vectors.shape
    starts = torch.arange(0, b * t, t)
    return vectors.reshape(b * t, m).index_select(0, starts + positions)


@wrong(
    "senses.strongest_clue",
    "Each head votes for its own strongest key; the most frequent one wins.",
    "rows (.6 .4 0), (.6 .4 0), (0 .9 .1): 0 by votes, 1 by the mean",
)
def clue_by_vote(weights, position):
    return weights[:, position].argmax(-1).mode().values.item()


@wrong(
    "senses.strongest_clue",
    "The word itself is left out, as if it could not be a clue.",
    "a word that looks at itself most",
)
def clue_not_itself(weights, position):
    row = weights[:, position].mean(0)
    row[position] = -1.0
    return row.argmax().item()


@right("senses.strongest_clue", "a loop over keys in plain Python; fsum over heads")
def clue_in_python(weights, position):
    columns = zip(*weights[:, position, :].tolist(), strict=True)
    sums = [math.fsum(column) for column in columns]
    return sums.index(max(sums))


wrong(
    "senses.causal_share",
    "It cannot see the clue, so it is never right.",
    "without a clue there are still two senses to guess from: one half",
)(0.0)
wrong(
    "senses.causal_share",
    "Half are known anyway and the other half is guessed.",
    "the clue of these is on the right, so all are guessed: one half",
)(0.75)
right("senses.causal_share", "a guess between two equally frequent senses")(1 / 2)


@wrong(
    "senses.hide",
    "Padding stays in the inputs, but where it was chosen it gets its id as label.",
    "chosen at padding: label 0 instead of -100",
)
def hide_labels_padding(ids, chosen, mask_id):
    inputs = torch.where(chosen & (ids != 0), mask_id, ids)
    labels = torch.where(chosen, ids, -100)
    return inputs, labels


@wrong(
    "senses.hide",
    "Inputs are a second name for ids: the labels are read after the words are gone.",
    "any chosen word: label mask_id; and ids is changed",
)
def hide_second_name(ids, chosen, mask_id):
    hidden = chosen & (ids != 0)
    inputs = ids
    inputs[hidden] = mask_id
    labels = torch.full_like(ids, -100)
    labels[hidden] = ids[hidden]
    return inputs, labels


@right("senses.hide", "arithmetic with the bool as 0 or 1")
def hide_by_arithmetic(ids, chosen, mask_id):
    hidden = (chosen * ids).ne(0).to(ids.dtype)
    inputs = ids * (1 - hidden) + mask_id * hidden
    labels = (ids + 100) * hidden - 100
    return inputs, labels


@wrong(
    "senses.pool",
    "The sums are divided by the mean number of real words in the batch.",
    "rows with 1 and 3 real words: both divided by 2",
)
def pool_mean_count(vectors, real):
    sums = (vectors * real[:, :, None]).sum(1)
    return sums / (real.sum() / len(real))


@wrong(
    "senses.pool",
    "The first n places are taken, as if padding always stood at the end.",
    "real (False, True, True): the mean of places 0 and 1",
)
def pool_first_places(vectors, real):
    counts = real.sum(1).tolist()
    means = [row[:n].mean(0) for row, n in zip(vectors, counts, strict=True)]
    return torch.stack(means)


@right("senses.pool", "row by row, what is real is cut out and its mean taken")
def pool_row_by_row(vectors, real):
    pooled = torch.empty_like(vectors[:, 0])
    for i, row in enumerate(vectors):
        pooled[i] = row[real[i]].mean(dim=0)
    return pooled


# 10


@wrong(
    "tokens.pair_counts",
    "Pairs that overlap are counted once, as if they were joined already.",
    "the word (5, 5, 5): 1 instead of 2",
)
def pair_counts_without_overlap(words):
    counts = {}
    for word, n in words.items():
        last = {}
        for i, pair in enumerate(pairwise(word)):
            if last.get(pair) == i - 1:
                continue
            last[pair] = i
            counts[pair] = counts.get(pair, 0) + n
    return counts


@wrong(
    "tokens.pair_counts",
    "A pair counts once per word, however often it stands in it.",
    "the word (1, 2, 1, 2): the pair (1, 2) once instead of twice",
)
def pair_counts_once_per_word(words):
    counts = Counter()
    for word, n in words.items():
        for pair in set(pairwise(word)):
            counts[pair] += n
    return dict(counts)


@right("tokens.pair_counts", "every pair written out n times, then one Counter")
def pair_counts_written_out(words):
    lists = (repeat(pair, n) for word, n in words.items() for pair in pairwise(word))
    return dict(Counter(chain.from_iterable(lists)))


@wrong(
    "tokens.merge",
    "The ids are joined to a string and replaced there: digits of others match.",
    "word (11, 2), pair (1, 2), new 300: (1300,)",
)
def merge_by_string(word, pair, new):
    text = " ".join(str(one) for one in word)
    text = text.replace(f"{pair[0]} {pair[1]}", str(new))
    return tuple(int(one) for one in text.split())


@wrong(
    "tokens.merge",
    "The word is read from the end.",
    "word (5, 5, 5), pair (5, 5): (5, new) instead of (new, 5)",
)
def merge_from_the_end(word, pair, new):
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


@right(
    "tokens.merge", "cut at the first pair, put the front aside, again with the rest"
)
def merge_by_cutting(word, pair, new):
    front = ()
    rest = tuple(word)
    while tuple(pair) in (pairs := list(pairwise(rest))):
        place = pairs.index(tuple(pair))
        front += (*rest[:place], new)
        rest = rest[place + 2 :]
    return front + rest


@wrong(
    "tokens.encode",
    "From the left, the longest piece that the vocabulary holds is taken.",
    "merges (b, c), (a, b), (bc, d), (ab, c); the word 'abcd': (abc, d), not (a, bcd)",
)
def encode_longest_piece(word, merges):
    parts = {}
    for (x, y), new in merges.items():
        parts[new] = parts.get(x, (x,)) + parts.get(y, (y,))
    by_part = {part: new for new, part in parts.items()}
    ids = []
    i = 0
    while i < len(word):
        for end in range(len(word), i, -1):
            part = tuple(word[i:end])
            if len(part) == 1 or part in by_part:
                ids.append(by_part.get(part, part[0]))
                i = end
                break
    return tuple(ids)


@wrong(
    "tokens.encode",
    "The first known pair from the left is joined, whatever its rank.",
    "merges (b, c), then (a, b); the word 'abc': (ab, c) instead of (a, bc)",
)
def encode_leftmost(word, merges):
    word = tuple(word)
    while True:
        for i, pair in enumerate(pairwise(word)):
            if pair in merges:
                word = (*word[:i], merges[pair], *word[i + 2 :])
                break
        else:
            return word


@right("tokens.encode", "the training again: every merge once, in its order")
def encode_every_merge_once(word, merges):
    for pair, new in merges.items():
        joined = []
        ids = iter(word)
        for one in ids:
            joined.append(one)
            while joined[-1] == pair[0]:
                following = next(ids, None)
                if following is None:
                    break
                if following == pair[1]:
                    joined[-1] = new
                else:
                    joined.append(following)
        word = tuple(joined)
    return tuple(word)


@wrong(
    "tokens.stream",
    "Waits until everything kept can be decoded: complete characters wait as well.",
    "pieces b'a\\xc3', b'\\xa0': '', 'a\u00e0' instead of 'a', '\u00e0'",
)
def stream_all_or_nothing(ids, pieces):
    texts = []
    kept = b""
    for one in ids:
        kept += pieces[one]
        try:
            texts.append(kept.decode("utf-8"))
            kept = b""
        except UnicodeDecodeError:
            texts.append("")
    return texts


@wrong(
    "tokens.stream",
    "An id that completes no character is left out of the list.",
    "pieces b'\\xc3', b'\\xa0': one text for two ids",
)
def stream_skips_waiting(ids, pieces):
    texts = []
    seen = b""
    given = ""
    for one in ids:
        seen += pieces[one]
        text = seen.decode("utf-8", errors="ignore")
        if len(text) > len(given):
            texts.append(text[len(given) :])
            given = text
    return texts


@right("tokens.stream", "by the first byte of each character, which tells its length")
def stream_by_first_byte(ids, pieces):
    texts = []
    kept = b""
    for one in ids:
        kept = kept + pieces[one]
        end = 0
        while end < len(kept):
            first = kept[end]
            size = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
            if end + size > len(kept):
                break
            end += size
        texts.append(str(kept[:end], "utf-8"))
        kept = kept[end:]
    return texts


@wrong(
    "tokens.tokens_per_byte",
    "Upside down: bytes per id.",
    "'abcd' in 2 ids: 2 instead of 0.5",
)
def tokens_upside_down(text, ids):
    return len(text.encode()) / len(ids)


@wrong(
    "tokens.tokens_per_byte",
    "The length of a str is taken for its bytes.",
    "a Russian word of 4 letters in 2 ids: 0.5 instead of 0.25",
)
def tokens_per_character(text, ids):
    return len(ids) / len(text)


@right("tokens.tokens_per_byte", "the bytes are counted from the code points")
def tokens_by_code_points(text, ids):
    sizes = (sum(ord(c) > last for last in (-1, 0x7F, 0x7FF, 0xFFFF)) for c in text)
    return len(ids) / sum(sizes)


@wrong(
    "tokens.bits_per_byte",
    "The mean of the losses counts every text alike, long or short.",
    "nats (1, 3), counts (1, 9): mean 2 instead of 2.8",
)
def bits_plain_mean(nats, counts, texts):
    size = sum(len(text.encode("utf-8")) for text in texts)
    per_token = sum(nats) / len(nats)
    return per_token / (math.log(2) * size / sum(counts))


@wrong(
    "tokens.bits_per_byte",
    "The bits per byte of each text, averaged by their tokens instead of their bytes.",
    "texts with unlike bytes per token",
)
def bits_weighted_by_tokens(nats, counts, texts):
    total = 0.0
    for loss, count, text in zip(nats, counts, texts, strict=True):
        total += count * loss * count / len(text.encode("utf-8")) / math.log(2)
    return total / sum(counts)


@right("tokens.bits_per_byte", "a dot product, log2(e) and the bytes of one long text")
def bits_by_dot_product(nats, counts, texts):
    bits = np.dot(np.asarray(nats, float), counts).item() * math.log2(math.e)
    return bits / len("".join(texts).encode("utf-8"))


# 11


@wrong(
    "backbone.heads_from_qkv",
    "The width of a head is taken for the outer axis: (three d h).",
    "h > 1 and d > 1: a head gets every h-th column",
)
def heads_interleaved(fused, num_heads):
    return rearrange(fused, "b t (three d h) -> three b h t d", three=3, h=num_heads)


@wrong(
    "backbone.heads_from_qkv",
    "Cut in three, then reshaped to b h t d without exchanging axes.",
    "t > 1 and h > 1: a head gets pieces of several positions",
)
def heads_reshaped(fused, num_heads):
    b, t, width = fused.shape
    d = width // 3 // num_heads
    parts = [part.reshape(b, num_heads, t, d) for part in fused.chunk(3, dim=-1)]
    return torch.stack(parts)


@right("backbone.heads_from_qkv", "slices of the last axis, stacked head by head")
def heads_by_slices(fused, num_heads):
    d = fused.shape[-1] // (3 * num_heads)
    slices = fused.split(d, dim=-1)
    roles = [slices[i * num_heads : (i + 1) * num_heads] for i in range(3)]
    return torch.stack([torch.stack(heads, dim=1) for heads in roles])


@wrong(
    "backbone.next_token_loss",
    "The rows are laid end to end and then shifted: a row's last place is asked too.",
    "b > 1: the last logits of a row meet the first id of the next",
)
def next_loss_across_rows(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:])


@wrong(
    "backbone.next_token_loss",
    "The axes of cross_entropy come by reshape, not by exchanging them.",
    "any t > 2: scores of several places are mixed",
)
def next_loss_reshaped(logits, ids):
    b, t, v = logits.shape
    return F.cross_entropy(logits[:, :-1].reshape(b, v, t - 1), ids[:, 1:])


@right("backbone.next_token_loss", "logsumexp minus the dot product with a one-hot")
def next_loss_one_hot(logits, ids):
    before = logits.narrow(1, 0, logits.shape[1] - 1)
    labels = F.one_hot(ids[:, 1:], logits.shape[-1]).to(logits.dtype)
    wanted = torch.einsum("btv,btv->bt", before, labels)
    return torch.mean(before.logsumexp(dim=-1) - wanted)


wrong(
    "backbone.first_loss",
    "ln V: noise is taken for knowing nothing.",
    "half the variance, 1.125, is missing",
)(math.log(2981))
wrong(
    "backbone.first_loss",
    "Half the standard deviation is added, not half its square.",
    "8.75 instead of 9.125",
)(math.log(2981) + 1.5 / 2)
right("backbone.first_loss", "the logarithm of the sum, not the sum of logarithms")(
    math.log(2981 * math.exp(1.125))
)


@wrong(
    "backbone.one_batch",
    "Inputs and labels are shifted once more against each other.",
    "any batch: the label of place i is that of place i + 1",
)
def one_batch_shifted_again(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_now():
        return F.cross_entropy(model(inputs)[:, :-1].mT, labels[:, 1:])

    before = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@wrong(
    "backbone.one_batch",
    "One step for each row instead of one for the batch.",
    "b > 1: steps times b steps are made",
)
def one_batch_row_steps(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    before = F.cross_entropy(model(inputs).mT, labels).item()
    for _ in range(steps):
        for row, wanted in zip(inputs, labels, strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(row[None])[0], wanted).backward()
            optimizer.step()
    return before, F.cross_entropy(model(inputs).mT, labels).item()


@right("backbone.one_batch", "on a copy, by hand: each weight minus rate times slope")
def one_batch_by_hand(model, inputs, labels, steps, rate):
    model = copy.deepcopy(model)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
        slopes = torch.autograd.grad(loss, weights, allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                if slope is not None:
                    weight.sub_(rate * slope)
    with torch.no_grad():
        last = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
    losses.append(last.item())
    return losses[0], losses[-1]


@wrong(
    "backbone.loss_by_position",
    "The flat losses are put back as t b instead of b t.",
    "b > 1: each number is a mean over neighbors of one row",
)
def by_position_put_back_wrong(logits, labels):
    b, t = labels.shape
    flat = logits.reshape(b * t, -1)
    losses = F.cross_entropy(flat, labels.reshape(-1), reduction="none")
    return losses.reshape(t, b).mean(1)


@wrong(
    "backbone.loss_by_position",
    "The logarithm of the mean probability, not the mean of the logarithms.",
    "probabilities 0.1 and 0.9 at a place: 0.69 instead of 1.2",
)
def by_position_mean_probability(logits, labels):
    probabilities = logits.softmax(-1).gather(-1, labels[..., None])[..., 0]
    return -probabilities.mean(0).log()


@right("backbone.loss_by_position", "one cross_entropy per place, places unbound")
def by_position_unbound(logits, labels):
    places = zip(logits.unbind(dim=1), labels.unbind(dim=1), strict=True)
    return torch.stack([F.cross_entropy(scores, right) for scores, right in places])


@wrong(
    "backbone.count_weights",
    "12 m^2 per block by heart, as if f were always 4 m.",
    "d_ff other than 4 m",
)
def count_twelve_squares(vocab_size, length, d_model, blocks, d_ff):
    return (vocab_size + length) * d_model + 12 * blocks * d_model**2


@wrong(
    "backbone.count_weights",
    "The vectors of the positions are forgotten.",
    "always: length times m too few",
)
def count_without_positions(vocab_size, length, d_model, blocks, d_ff):
    per_block = 4 * d_model**2 + 2 * d_model * d_ff
    return vocab_size * d_model + blocks * per_block


@right("backbone.count_weights", "the matrices are made without memory and asked")
def count_on_meta(vocab_size, length, d_model, blocks, d_ff):
    block = [(d_model, 3 * d_model), (d_model, d_model)]
    block += [(d_model, d_ff), (d_ff, d_model)]
    shapes = [(vocab_size, d_model), (length, d_model)] + block * blocks
    return sum(torch.empty(shape, device="meta").numel() for shape in shapes)


# 12


@wrong(
    "llama.rms_norm",
    "eps is added to the sum of squares, before the division by m.",
    "x as small as the root of eps",
)
def rms_eps_in_sum(x, scale, eps):
    sums = x.square().sum(-1, keepdim=True)
    return x / ((sums + eps) / x.shape[-1]).sqrt() * scale


@wrong(
    "llama.rms_norm",
    "Stretched by 1 + scale, as other models hold it.",
    "a scale of ones: twice the right answer",
)
def rms_one_plus_scale(x, scale, eps):
    mean = x.pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(mean + eps) * (1 + scale)


@right("llama.rms_norm", "the vector times sqrt(m) over a hypotenuse with sqrt(m eps)")
def rms_by_hypotenuse(x, scale, eps):
    m = x.shape[-1]
    lengths = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    extra = torch.full_like(lengths, math.sqrt(m * eps))
    return math.sqrt(m) * scale * (x / torch.hypot(lengths, extra))


wrong(
    "llama.hidden",
    "Gate and candidate share the old up matrix, half and half.",
    "then down has only half its weights: two thirds are right",
)(1536)
wrong(
    "llama.hidden",
    "The ratio 3 / 2 is applied upside down.",
    "three matrices need fewer units, not more",
)(4608)
right("llama.hidden", "the weights of two matrices shared out among three")(
    (768 * 3072 + 3072 * 768) // (3 * 768)
)


@wrong(
    "llama.swiglu",
    "SiLU after the product of gate and candidate.",
    "gate 1, candidate 2: SiLU(2) instead of 2 SiLU(1)",
)
def swiglu_after_product(x, gate, up, down):
    return F.silu((x @ gate.T) * (x @ up.T)) @ down.T


@wrong(
    "llama.swiglu",
    "SiLU on the candidate as well.",
    "any candidate other than 0",
)
def swiglu_both(x, gate, up, down):
    return (F.silu(x @ gate.T) * F.silu(x @ up.T)) @ down.T


@right("llama.swiglu", "sigma as a tanh of the half, all sums in einsum")
def swiglu_by_tanh(x, gate, up, down):
    z = torch.einsum("btm,fm->btf", x, gate)
    opened = z * (1 + torch.tanh(z / 2)) / 2
    return torch.einsum("btf,btn,fn,mf->btm", opened, x, up, down)


@wrong(
    "llama.repeat_keys",
    "The sets take turns: head i reads set i modulo g.",
    "g > 1 and fewer sets than heads",
)
def repeat_keys_in_turns(keys, num_heads):
    return keys[:, torch.arange(num_heads) % keys.shape[1]]


@wrong(
    "llama.repeat_keys",
    "The new axis stands behind the positions, then a reshape gives the shape.",
    "k > 1: a head reads the same position several times",
)
def repeat_keys_behind_positions(keys, num_heads):
    b, g, k, d = keys.shape
    share = num_heads // g
    more = keys.unsqueeze(3).expand(b, g, k, share, d)
    return more.reshape(b, num_heads, k, d)


@right("llama.repeat_keys", "a product with a 0-1 table of which head reads which set")
def repeat_keys_by_table(keys, num_heads):
    g = keys.shape[1]
    reads = torch.arange(num_heads) * g // num_heads
    table = F.one_hot(reads, g).to(keys.dtype)
    return torch.einsum("hg,bgkd->bhkd", table, keys)


wrong(
    "llama.cache",
    "Keys or values only, not both.",
    "half of the right number",
)(16 * 6 * 64 * 4)
wrong(
    "llama.cache",
    "Keys and values for all 24 heads, as without groups.",
    "four times the right number",
)(2 * 16 * 24 * 64 * 4)
right("llama.cache", "two tensors per layer, counted by PyTorch")(
    16 * sum(one.numel() * one.element_size() for one in torch.zeros(2, 6, 64).float())
)


@wrong(
    "llama.grouped_attention",
    "The heads are put together by reshape, without exchanging heads and places.",
    "h > 1 and t > 1",
)
def grouped_reshaped(x, to_queries, to_keys, to_values, to_output, table, num_heads):
    b, t, m = x.shape
    d = m // num_heads
    queries = rotate((x @ to_queries.T).view(b, t, -1, d).transpose(1, 2), *table)
    keys = rotate((x @ to_keys.T).view(b, t, -1, d).transpose(1, 2), *table)
    values = (x @ to_values.T).view(b, t, -1, d).transpose(1, 2)
    share = num_heads // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    context = attend(queries, keys, values, causal=True)
    return context.reshape(b, t, m) @ to_output.T


@wrong(
    "llama.grouped_attention",
    "The output matrix is square, so it fits without .T too, and is not transposed.",
    "any matrix that is not symmetric",
)
def grouped_output_as_held(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    d = x.shape[-1] // num_heads
    queries = rearrange(x @ to_queries.T, "b t (h d) -> b h t d", d=d)
    keys = rearrange(x @ to_keys.T, "b t (g d) -> b g t d", d=d)
    values = rearrange(x @ to_values.T, "b t (g d) -> b g t d", d=d)
    share = num_heads // keys.shape[1]
    queries, keys = rotate(queries, *table), rotate(keys, *table)
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    context = attend(queries, keys, values, causal=True)
    return rearrange(context, "b h t d -> b t (h d)") @ to_output


@right(
    "llama.grouped_attention",
    "head by head, softmax by hand, and each head adds its columns of the output",
)
def grouped_head_by_head(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    t, m = x.shape[1:]
    d = m // num_heads
    share = num_heads // (len(to_keys) // d)
    later = torch.ones(t, t, dtype=torch.bool).triu(1)
    result = torch.zeros_like(x)
    for head in range(num_heads):
        own = slice(head * d, (head + 1) * d)
        shared = slice(head // share * d, (head // share + 1) * d)
        queries = rotate(F.linear(x, to_queries[own]), *table)
        keys = rotate(F.linear(x, to_keys[shared]), *table)
        scores = queries @ keys.mT / math.sqrt(d)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        values = F.linear(x, to_values[shared])
        result = result + F.linear(weights @ values, to_output[:, own])
    return result


@wrong(
    "llama.same_sign",
    "The pairs are given up: all of one side must be below all of the other.",
    "ours (1, 3), others (2, 4): False, though each pair falls by 1",
)
def same_sign_apart(ours, others):
    return bool(max(ours) < min(others) or max(others) < min(ours))


@wrong(
    "llama.same_sign",
    "A pair without any difference is let through.",
    "ours (1, 2), others (1, 3): True, though one pair does not differ",
)
def same_sign_or_none(ours, others):
    pairs = [(float(a), float(b)) for a, b in zip(ours, others, strict=True)]
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)


@right("llama.same_sign", "the signs add up to the number of seeds, up or down")
def same_sign_sum(ours, others):
    signs = []
    for a, b in zip(ours, others, strict=True):
        a, b = float(a), float(b)
        signs.append((a > b) - (a < b))
    return abs(sum(signs)) == len(signs)
