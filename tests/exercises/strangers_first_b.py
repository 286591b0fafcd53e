"""Answers of a stranger, written from the prompts alone."""

import codecs
import itertools
import math
from collections import Counter

import numpy as np
import torch
import torch.nn.functional as F

from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 10 tokenizer


@right("tokens.pair_counts", "a Counter filled by slices of the word")
def pair_counts_by_counter(words):
    counts = Counter()
    for word, times in words.items():
        for i in range(len(word) - 1):
            counts[word[i : i + 2]] += times
    return dict(counts)


@wrong(
    "tokens.pair_counts",
    "Overlapping pairs are skipped, but the formula counts every place i.",
    "{('a', 'a', 'a'): 1}: (a, a) must be 2",
)
def pair_counts_without_overlap(words):
    counts = {}
    for word, times in words.items():
        taken = {}
        for i, pair in enumerate(itertools.pairwise(word)):
            if taken.get(pair) == i - 1:
                continue
            taken[pair] = i
            counts[pair] = counts.get(pair, 0) + times
    return counts


@wrong(
    "tokens.pair_counts",
    "The last word that has a pair overwrites the sum over the other words.",
    "{('a', 'b'): 2, ('a', 'b', 'c'): 3}: (a, b) must be 5",
)
def pair_counts_update_by_word(words):
    counts = {}
    for word, times in words.items():
        inside = Counter(itertools.pairwise(word))
        counts.update({pair: n * times for pair, n in inside.items()})
    return counts


@right("tokens.merge", "an explicit iterator that skips the second of a pair")
def merge_with_iterator(word, pair, new):
    out = []
    skip = False
    for i, symbol in enumerate(word):
        if skip:
            skip = False
            continue
        if word[i : i + 2] == tuple(pair):
            out.append(new)
            skip = True
        else:
            out.append(symbol)
    return tuple(out)


@wrong(
    "tokens.merge",
    "The pairs are joined from the right.",
    "('a', 'a', 'a'), ('a', 'a'), 'X' must give ('X', 'a')",
)
def merge_from_the_right(word, pair, new):
    out = []
    i = len(word) - 1
    while i >= 0:
        if i > 0 and (word[i - 1], word[i]) == tuple(pair):
            out.insert(0, new)
            i -= 2
        else:
            out.insert(0, word[i])
            i -= 1
    return tuple(out)


@wrong(
    "tokens.merge",
    "The new symbol is joined again with the next one when it looks like the pair.",
    "(1, 1, 1), (1, 1), 1 must give (1, 1); this joins on and gives (1,)",
)
def merge_joins_its_own_result(word, pair, new):
    out = []
    for symbol in word:
        if out and (out[-1], symbol) == tuple(pair):
            out[-1] = new
        else:
            out.append(symbol)
    return tuple(out)


@right("tokens.encode", "one pass per merge in the order of learning")
def encode_merge_by_merge(word, merges):
    ids = list(word)
    for (first, second), new in merges.items():
        i = 0
        while i < len(ids) - 1:
            if ids[i] == first and ids[i + 1] == second:
                ids[i : i + 2] = [new]
            i += 1
    return tuple(ids)


@wrong(
    "tokens.encode",
    "The leftmost known pair is joined, not the one that was learned first.",
    "(1, 2, 3), {(2, 3): 256, (1, 2): 257} must give (1, 256)",
)
def encode_leftmost_first(word, merges):
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
    "Only pairs of the first bytes are joined; new ids are never joined in turn.",
    "(1, 2, 3), {(1, 2): 256, (256, 3): 257} must give (257,)",
)
def encode_single_round(word, merges):
    known = [p for p in itertools.pairwise(word) if p in merges]
    out = list(word)
    for pair in sorted(set(known), key=list(merges).index):
        i = 0
        while i < len(out) - 1:
            if (out[i], out[i + 1]) == pair:
                out[i : i + 2] = [merges[pair]]
            i += 1
    return tuple(out)


@right("tokens.stream", "Python's own incremental decoder")
def stream_with_codec(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    return [decoder.decode(pieces[i]) for i in ids]


@wrong(
    "tokens.stream",
    "Each piece is decoded alone, so halves of a character turn into � signs.",
    "[0, 1] with b'\\xc3', b'\\xa9' must give ['', 'é']",
)
def stream_each_alone(ids, pieces):
    return [pieces[i].decode("utf-8", errors="replace") for i in ids]


@wrong(
    "tokens.stream",
    "A finished character waits as well when half of the next one follows it.",
    "[0, 1] with b'a\\xc3', b'\\xa9' must give ['a', 'é']",
)
def stream_all_or_nothing(ids, pieces):
    out = []
    waiting = b""
    for i in ids:
        waiting += pieces[i]
        try:
            out.append(waiting.decode("utf-8"))
            waiting = b""
        except UnicodeDecodeError:
            out.append("")
    return out


@right("tokens.tokens_per_byte", "sums over the bytes of each character")
def tokens_per_byte_by_character(text, ids):
    size = sum(len(letter.encode("utf-8")) for letter in text)
    return len(ids) / size


@wrong(
    "tokens.tokens_per_byte",
    "Characters are counted, not bytes.",
    "'é' with one id costs 0.5",
)
def tokens_per_character(text, ids):
    return len(ids) / len(text)


@wrong(
    "tokens.tokens_per_byte",
    "The fraction stands on its head: bytes per token.",
    "'abcd' with one id costs 0.25, not 4",
)
def bytes_per_token(text, ids):
    return len(text.encode("utf-8")) / len(ids)


@right("tokens.bits_per_byte", "NumPy's dot product, logarithm to base 2 of e")
def bits_per_byte_numpy(nats, counts, texts):
    total = float(np.dot(nats, counts))
    size = sum(len(bytes(text, "utf-8")) for text in texts)
    return total * math.log2(math.e) / size


@wrong(
    "tokens.bits_per_byte",
    "The bits per byte of the texts are averaged, a short text counts like a long one.",
    "[1, 3], [1, 9], ['a', 'b' * 30]",
)
def bits_per_byte_mean_of_texts(nats, counts, texts):
    each = [
        loss * count / (math.log(2) * len(text.encode()))
        for loss, count, text in zip(nats, counts, texts, strict=False)
    ]
    return sum(each) / len(each)


@wrong(
    "tokens.bits_per_byte",
    "The losses are averaged without weighing them by their numbers of tokens.",
    "[1, 3], [1, 9], ['a', 'b' * 30]",
)
def bits_per_byte_unweighted_loss(nats, counts, texts):
    loss = sum(nats) / len(nats)
    size = sum(len(text.encode()) for text in texts)
    return loss / math.log(2) * sum(counts) / size


@wrong(
    "tokens.bits_per_byte",
    "Characters are counted in place of bytes.",
    "[1.0], [2], ['éé'] has four bytes",
)
def bits_per_character(nats, counts, texts):
    total = sum(loss * count for loss, count in zip(nats, counts, strict=False))
    return total / math.log(2) / sum(map(len, texts))


# 12 llama


@right("llama.rms_norm", "a vector norm over the root of the width, eps inside")
def rms_norm_with_einsum(x, scale, eps):
    square = torch.einsum("btm,btm->bt", x, x) / x.shape[-1]
    return torch.einsum("btm,bt,m->btm", x, (square + eps) ** -0.5, scale)


@wrong(
    "llama.rms_norm",
    "eps is added to the root, not under it.",
    "x of 0.01 with eps 0.01",
)
def rms_norm_eps_outside(x, scale, eps):
    root = x.pow(2).mean(dim=-1, keepdim=True).sqrt()
    return x / (root + eps) * scale


@wrong(
    "llama.rms_norm",
    "The mean square is taken over the whole text, not at each position.",
    "a text whose positions differ in size",
)
def rms_norm_over_the_text(x, scale, eps):
    square = x.pow(2).mean(dim=(-2, -1), keepdim=True)
    return x * torch.rsqrt(square + eps) * scale


right("llama.hidden", "two thirds of 3072")(2048)
wrong("llama.hidden", "Halved, as if two matrices became four.", "2048 is right")(1536)
wrong(
    "llama.hidden",
    "The down matrix was forgotten: gate and up alone hold as many weights.",
    "2048 is right",
)(3072)


@right("llama.swiglu", "einsum, SiLU written out")
def swiglu_einsum(x, gate, up, down):
    z = torch.einsum("btm,fm->btf", x, gate)
    candidate = torch.einsum("btm,fm->btf", x, up)
    return torch.einsum("btf,mf->btm", z * z.sigmoid() * candidate, down)


@wrong(
    "llama.swiglu",
    "The activation is on the candidate, not on the gate.",
    "any gate that differs from up",
)
def swiglu_activates_up(x, gate, up, down):
    return F.linear(F.linear(x, gate) * F.silu(F.linear(x, up)), down)


@wrong(
    "llama.swiglu",
    "The gate is the logistic function alone (GLU), z is missing before it.",
    "a gate of zeros must give 0",
)
def swiglu_is_glu(x, gate, up, down):
    return (torch.sigmoid(x @ gate.T) * (x @ up.T)) @ down.T


@right("llama.repeat_keys", "each head looks up its set by whole division")
def repeat_keys_by_index(keys, num_heads):
    groups = keys.shape[1]
    share = num_heads // groups
    return torch.stack([keys[:, h // share] for h in range(num_heads)], dim=1)


@wrong(
    "llama.repeat_keys",
    "The sets alternate (0, 1, 0, 1) where neighbors should share (0, 0, 1, 1).",
    "two sets, four heads",
)
def repeat_keys_alternating(keys, num_heads):
    index = torch.arange(num_heads) % keys.shape[1]
    return keys[:, index]


@wrong(
    "llama.repeat_keys",
    "Each set is repeated num_heads times, so there are g times too many heads.",
    "two sets, four heads: eight come out",
)
def repeat_keys_too_often(keys, num_heads):
    return keys.repeat_interleave(num_heads, dim=1)


@right(
    "llama.repeat_keys",
    "positions repeated first, then the copies moved before them",
)
def repeat_keys_by_view(keys, num_heads):
    b, g, k, d = keys.shape
    longer = keys.repeat_interleave(num_heads // g, dim=2)
    copies = longer.reshape(b, g, k, num_heads // g, d)
    return copies.transpose(2, 3).reshape(b, num_heads, k, d)


wrong("llama.cache", "A token with keys and values takes some bytes.", "any model")(0)
wrong(
    "llama.cache",
    "One byte cannot hold a key and a value of two bytes each.",
    "any model",
)(1)


def turned(x, cos, sin):
    """x turned, with the pairs that the tables show."""
    half = x.shape[-1] // 2
    cos = cos.to(x.dtype)
    sin = sin.to(x.dtype)
    if cos.shape[-1] == x.shape[-1]:
        if half > 1 and torch.equal(cos[..., 0::2], cos[..., 1::2]):
            other = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
        else:
            other = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * cos + other * sin
    a = x[..., :half]
    b = x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def in_heads(x, weight, size):
    """Projected and cut: "b h t d"."""
    return F.linear(x, weight).unflatten(-1, (-1, size)).transpose(1, 2)


def table_rows(table, count):
    """The first rows of both tables."""
    return [part[:count] for part in table]


@right("llama.grouped_attention", "five axes: queries get a group axis of their own")
def grouped_attention_five_axes(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    size = to_queries.shape[0] // num_heads
    rows = table_rows(table, x.shape[1])
    queries = turned(in_heads(x, to_queries, size), *rows)
    keys = turned(in_heads(x, to_keys, size), *rows)
    values = in_heads(x, to_values, size)
    queries = queries.unflatten(1, (keys.shape[1], -1))
    scores = torch.einsum("bgrqd,bgkd->bgrqk", queries, keys) / size**0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
    context = torch.einsum("bgrqk,bgkd->bqgrd", weights, values)
    return F.linear(context.flatten(2), to_output)


@wrong(
    "llama.grouped_attention",
    "Queries and keys are not turned.",
    "any x with two positions",
)
def grouped_attention_unturned(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    size = to_queries.shape[0] // num_heads
    queries = in_heads(x, to_queries, size)
    share = to_queries.shape[0] // to_keys.shape[0]
    keys = in_heads(x, to_keys, size).repeat_interleave(share, dim=1)
    values = in_heads(x, to_values, size).repeat_interleave(share, dim=1)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return F.linear(context.transpose(1, 2).flatten(2), to_output)


@wrong(
    "llama.grouped_attention",
    "The heads are not moved back before they are joined, so positions mix.",
    "any x with two positions and two heads",
)
def grouped_attention_joins_wrongly(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    size = to_queries.shape[0] // num_heads
    rows = table_rows(table, x.shape[1])
    share = to_queries.shape[0] // to_keys.shape[0]
    queries = turned(in_heads(x, to_queries, size), *rows)
    keys = turned(in_heads(x, to_keys, size), *rows)
    keys = keys.repeat_interleave(share, dim=1)
    values = in_heads(x, to_values, size).repeat_interleave(share, dim=1)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return F.linear(context.reshape(*x.shape[:2], -1), to_output)


@right("llama.same_sign", "a set of the signs, compared as a whole")
def same_sign_by_set(ours, others):
    signs = {
        (a > b) - (a < b)
        for a, b in zip(map(float, ours), map(float, others), strict=False)
    }
    return signs in ({1}, {-1})


@wrong(
    "llama.same_sign",
    "All of ours are compared with all of the others, not the pairs.",
    "[1, 3], [2, 4] must give True",
)
def same_sign_unpaired(ours, others):
    return bool(max(ours) < min(others) or min(ours) > max(others))


@wrong(
    "llama.same_sign",
    "A pair without a difference has no sign, but passes for either.",
    "[1, 2], [1, 3] must give False",
)
def same_sign_with_ties(ours, others):
    differences = [float(a) - float(b) for a, b in zip(ours, others, strict=False)]
    return min(differences) >= 0 or max(differences) <= 0


# 13 decoder of stories


@right("training.blocks", "windows gathered by a table of positions")
def blocks_by_index(rows, length, eos_id):
    stream = []
    for row in rows:
        stream += [*row, eos_id]
    stream = torch.tensor(stream)
    count = (len(stream) - 1) // length
    places = torch.arange(count)[:, None] * length + torch.arange(length)
    return stream[places], stream[places + 1]


@wrong(
    "training.blocks",
    "No eos stands between the stories.",
    "[[1, 2], [3, 4]], 2, 0: the 0 is missing",
)
def blocks_without_eos(rows, length, eos_id):
    stream = torch.tensor([i for row in rows for i in row])
    count = (len(stream) - 1) // length
    inputs = stream[: count * length].view(count, length)
    labels = stream[1 : count * length + 1].view(count, length)
    return inputs, labels


@wrong(
    "training.blocks",
    "The label of each window's last place is the first token of the same window.",
    "[[1, 2], [3, 4]], 2, 0: roll goes round in each row",
)
def blocks_rolled_in_rows(rows, length, eos_id):
    stream = torch.tensor([i for row in rows for i in [*row, eos_id]])
    count = (len(stream) - 1) // length
    windows = stream[: count * length].view(count, length)
    return windows, windows.roll(-1, dims=1)


@right("training.perplexity", "the labels picked by gather, the rest masked by hand")
def perplexity_by_gather(logits, labels):
    counts = labels != -100
    log_p = logits.log_softmax(dim=-1)
    picked = log_p.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return (-picked[counts].mean()).exp()


@wrong(
    "training.perplexity",
    "e is raised before the mean: the mean of perplexities.",
    "two tokens with losses 0.1 and 3",
)
def perplexity_mean_of_powers(logits, labels):
    loss = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    return loss[labels != -100].exp().mean()


@wrong(
    "training.perplexity",
    "The sum is divided by all labels, also by those of -100.",
    "labels [[1, -100]]",
)
def perplexity_divides_by_all(logits, labels):
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return loss.mean().exp()


@wrong(
    "training.perplexity",
    "The means of the rows are averaged, though rows have unequally many labels.",
    "labels [[1, 2], [1, -100]]",
)
def perplexity_mean_of_rows(logits, labels):
    pairs = zip(logits, labels, strict=False)
    losses = [F.cross_entropy(row, label) for row, label in pairs]
    return torch.stack(losses).mean().exp()


def words_of(tokenizer):
    """How many words the tokenizer knows."""
    size = getattr(tokenizer, "vocab_size", None)
    return len(tokenizer) if size is None else size


def with_two_bos(row, tokenizer):
    """The ids of a row behind two bos, whether or not it came with some."""
    bos = tokenizer.bos_id
    ids = list(tokenizer.encode(row)) if isinstance(row, str) else list(row)
    while ids and ids[0] == bos:
        ids = ids[1:]
    return [bos, bos, *ids]


def trigrams_of(rows, tokenizer):
    """All ((a, b), c) of the rows, in order."""
    found = []
    for row in rows:
        ids = with_two_bos(row, tokenizer)
        found += [((a, b), c) for a, b, c in zip(ids, ids[1:], ids[2:], strict=False)]
    return found


@right("training.trigram", "two Counters, of triples and of pairs")
def trigram_by_counters(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter(trigrams_of(train_rows, tokenizer))
    pairs = Counter(pair for pair, _ in trigrams_of(train_rows, tokenizer))
    size = words_of(tokenizer)
    held = trigrams_of(held_rows, tokenizer)
    loss = 0.0
    for pair, word in held:
        loss += math.log(pairs[pair] + alpha * size)
        loss -= math.log(triples[pair, word] + alpha)
    return loss / len(held)


@wrong(
    "training.trigram",
    "alpha is added to the sum once, not once per word.",
    "any rows: the probabilities do not sum to 1",
)
def trigram_alpha_once(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter(trigrams_of(train_rows, tokenizer))
    pairs = Counter(pair for pair, _ in trigrams_of(train_rows, tokenizer))
    losses = [
        -math.log((triples[pair, word] + alpha) / (pairs[pair] + alpha))
        for pair, word in trigrams_of(held_rows, tokenizer)
    ]
    return sum(losses) / len(losses)


@wrong(
    "training.trigram",
    "Triples that training never saw are left out of the mean.",
    "a held-out row with a new word",
)
def trigram_skips_unseen(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter(trigrams_of(train_rows, tokenizer))
    pairs = Counter(pair for pair, _ in trigrams_of(train_rows, tokenizer))
    size = words_of(tokenizer)
    losses = [
        -math.log((triples[pair, word] + alpha) / (pairs[pair] + alpha * size))
        for pair, word in trigrams_of(held_rows, tokenizer)
        if (pair, word) in triples
    ]
    return sum(losses) / max(len(losses), 1)


@wrong(
    "training.trigram",
    "The mean of each row is averaged, so short rows weigh as much as long ones.",
    "held rows of one word and of five",
)
def trigram_mean_of_rows(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter(trigrams_of(train_rows, tokenizer))
    pairs = Counter(pair for pair, _ in trigrams_of(train_rows, tokenizer))
    size = words_of(tokenizer)
    means = []
    for row in held_rows:
        losses = [
            -math.log((triples[pair, word] + alpha) / (pairs[pair] + alpha * size))
            for pair, word in trigrams_of([row], tokenizer)
        ]
        means.append(sum(losses) / len(losses))
    return sum(means) / len(means)


@right("training.learning_rate", "the cosine as a squared cosine of the half angle")
def learning_rate_squared(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    part = (step - warmup) / (steps - warmup)
    return peak * math.cos(math.pi * part / 2) ** 2


@wrong(
    "training.learning_rate",
    "Steps count from 0 in the warm-up, so the first step does not move anything.",
    "step 1 of 10, warmup 4, peak 1 must give 0.25",
)
def learning_rate_from_zero(step, steps, warmup, peak):
    if step <= warmup:
        return peak * (step - 1) / warmup
    part = (step - warmup) / (steps - warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * part))


@wrong(
    "training.learning_rate",
    "The cosine begins at step 0, so the rate jumps down where the warm-up ends.",
    "step 5 of 10, warmup 4, peak 1",
)
def learning_rate_jumps(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * step / steps))


@wrong(
    "training.learning_rate",
    "A quarter of a cosine: it falls steepest at the end.",
    "step 7 of 10, warmup 4, peak 1 must give 0.5",
)
def learning_rate_quarter(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * math.cos(math.pi / 2 * (step - warmup) / (steps - warmup))


@right("training.clip", "one long vector gives the common length")
def clip_by_one_vector(gradients, most):
    length = torch.cat([g.reshape(-1) for g in gradients]).norm().item()
    factor = most / length if length > most else 1.0
    return [g * factor for g in gradients]


@wrong(
    "training.clip",
    "Each gradient is cut alone, there is no common length.",
    "[3], [4] with most 2.5",
)
def clip_each_alone(gradients, most):
    return [g * min(1.0, most / (g.norm().item() + 1e-12)) for g in gradients]


@wrong(
    "training.clip",
    "Short gradients are stretched to the limit.",
    "[0.3], [0.4] with most 1 must stay",
)
def clip_stretches(gradients, most):
    length = sum((g**2).sum() for g in gradients).sqrt()
    return [g * (most / length) for g in gradients]


@wrong(
    "training.clip",
    "The given gradients are changed, though new ones are asked for.",
    "[3.0, 4.0] with most 1: the argument is changed",
)
def clip_in_place(gradients, most):
    length = sum((g**2).sum() for g in gradients).sqrt().item()
    if length > most:
        for g in gradients:
            g.mul_(most / length)
    return gradients


@right("training.step", "gradients emptied after the step, sum over count")
def steps_emptied_afterwards(model, optimizer, batches):
    losses = []
    optimizer.zero_grad()
    for inputs, labels in batches:
        logits = model(inputs).flatten(0, 1)
        total = F.cross_entropy(logits, labels.flatten(), reduction="sum")
        loss = total / (labels != -100).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "Old gradients are never emptied, they add up over the batches.",
    "two batches with different gradients",
)
def steps_without_zero_grad(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).transpose(1, 2), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "The loss is measured after the step.",
    "any batch",
)
def steps_measured_afterwards(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).transpose(1, 2), labels).backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs).transpose(1, 2), labels)
        losses.append(loss.item())
    return losses


@right("training.accumulate", "sums of parts backward, gradients divided at the end")
def accumulation_divided_late(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        total = 0.0
        count = 0
        for inputs, labels in parts:
            logits = model(inputs).flatten(0, 1)
            loss = F.cross_entropy(logits, labels.flatten(), reduction="sum")
            loss.backward()
            total += loss.item()
            count += (labels != -100).sum().item()
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad /= count
        optimizer.step()
        losses.append(total / count)
    return losses


@wrong(
    "training.accumulate",
    "Each part counts the same, though padding leaves them unequally many labels.",
    "parts with four labels and with one",
)
def accumulation_mean_of_means(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).transpose(1, 2), labels)
            loss = loss / len(parts)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "The optimizer steps after every part.",
    "a batch of two parts",
)
def accumulation_steps_per_part(model, optimizer, batches):
    losses = []
    for parts in batches:
        count = sum((labels != -100).sum().item() for _, labels in parts)
        total = 0.0
        for inputs, labels in parts:
            optimizer.zero_grad()
            logits = model(inputs).transpose(1, 2)
            loss = F.cross_entropy(logits, labels, reduction="sum") / count
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "The gradients are weighted by labels, but the reported loss is a mean of means.",
    "parts with four labels and with one",
)
def accumulation_reports_mean_of_means(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        count = sum((labels != -100).sum().item() for _, labels in parts)
        means = []
        for inputs, labels in parts:
            own = (labels != -100).sum().item()
            loss = F.cross_entropy(model(inputs).transpose(1, 2), labels)
            (loss * own / count).backward()
            means.append(loss.item())
        optimizer.step()
        losses.append(sum(means) / len(means))
    return losses


# 14 generation


@right("generation.top_k", "the probabilities of the k best scattered into zeros")
def top_k_scattered(scores, k):
    best = scores.topk(k, dim=-1)
    shares = best.values.softmax(dim=-1)
    return torch.zeros_like(scores).scatter(-1, best.indices, shares)


@wrong(
    "generation.top_k",
    "The dropped scores are set to 0, which still has a share after softmax.",
    "[[2, 1, 0]], k = 2: the third must get 0",
)
def top_k_scores_to_zero(scores, k):
    best = scores.topk(k, dim=-1)
    kept = torch.zeros_like(scores).scatter(-1, best.indices, best.values)
    return kept.softmax(dim=-1)


@wrong(
    "generation.top_k",
    "The tokens of the first row are kept in every row.",
    "[[2, 1, 0], [0, 1, 2]], k = 1",
)
def top_k_of_the_first_row(scores, k):
    outside = torch.ones(scores.shape[-1], dtype=torch.bool)
    outside[scores[0].topk(k).indices] = False
    return scores.masked_fill(outside, -math.inf).softmax(dim=-1)


@right("generation.top_p", "a loop over the ranks of each row")
def top_p_by_loops(scores, p):
    probabilities = scores.softmax(dim=-1)
    out = torch.zeros_like(probabilities)
    for row in range(len(scores)):
        ranked, places = probabilities[row].sort(descending=True)
        before = ranked.cumsum(dim=-1) - ranked
        before[0] = 0
        kept = places[before < p]
        out[row, kept] = probabilities[row, kept]
    return out / out.sum(dim=-1, keepdim=True)


@wrong(
    "generation.top_p",
    "The token that crosses the line is dropped.",
    "[[0, 0, 0]], p = 0.5 must keep two",
)
def top_p_drops_the_crossing(scores, p):
    ranked, places = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(dim=-1) <= p
    keep[..., 0] = True
    ranked = ranked * keep
    ranked = ranked / ranked.sum(dim=-1, keepdim=True)
    return torch.zeros_like(ranked).scatter(-1, places, ranked)


@wrong(
    "generation.top_p",
    "gather instead of scatter: the shares are not put back where they belong.",
    "[[1, 3, 2]], p = 0.9",
)
def top_p_gathers(scores, p):
    ranked, places = scores.softmax(dim=-1).sort(dim=-1, descending=True)
    ranked = ranked * (ranked.cumsum(dim=-1) - ranked < p)
    ranked = ranked / ranked.sum(dim=-1, keepdim=True)
    return ranked.gather(-1, places)


@wrong(
    "generation.top_p",
    "All tokens as likely as the last one kept stay, more than the fewest.",
    "[[0, 0, 0, 0]], p = 0.4 must keep two",
)
def top_p_keeps_ties(scores, p):
    probabilities = scores.softmax(dim=-1)
    ranked = probabilities.sort(dim=-1, descending=True).values
    before = ranked.cumsum(dim=-1) - ranked
    least = ranked.masked_fill(before >= p, math.inf).amin(dim=-1, keepdim=True)
    kept = probabilities * (probabilities >= least)
    return kept / kept.sum(dim=-1, keepdim=True)


@right("generation.min_p", "torch.where against the maximum of each row")
def min_p_where(scores, min_p):
    p = scores.softmax(dim=-1)
    best = p.amax(dim=-1, keepdim=True)
    kept = torch.where(p >= min_p * best, p, torch.zeros_like(p))
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong(
    "generation.min_p",
    "The best probability of the whole batch is used for every row.",
    "[[9, 0, 0], [1, 1, 1]], min_p = 0.5",
)
def min_p_of_the_batch(scores, min_p):
    p = scores.softmax(dim=-1)
    kept = p * (p >= min_p * p.max())
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong(
    "generation.min_p",
    "Strictly greater: with min_p = 1 not even the best token stays.",
    "[[1, 0]], min_p = 1",
)
def min_p_strict(scores, min_p):
    p = scores.softmax(dim=-1)
    kept = p * (p > min_p * p.amax(dim=-1, keepdim=True))
    return kept / kept.sum(dim=-1, keepdim=True)


def next_of(step, ids):
    """The likeliest next token of each row."""
    scores = step(ids)
    if scores.dim() == 3:
        scores = scores[:, -1]
    return scores.argmax(dim=-1)


@right("generation.rows", "one column at a time, with a mask of open rows")
def rows_with_open_mask(step, ids, most, stop_id, pad_id):
    start = ids.shape[1]
    open_rows = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = next_of(step, ids)
        new = new * open_rows + pad_id * ~open_rows
        ids = torch.cat([ids, new[:, None]], dim=1)
        open_rows = open_rows & (new != stop_id)
        if not open_rows.any():
            break
    return ids[:, start:]


@wrong(
    "generation.rows",
    "The eos of the prompt ends every row at once.",
    "a prompt that begins with stop_id",
)
def rows_stopped_by_prompt(step, ids, most, stop_id, pad_id):
    start = ids.shape[1]
    for _ in range(most):
        ended = (ids == stop_id).any(dim=1)
        new = next_of(step, ids).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
    return ids[:, start:]


@wrong(
    "generation.rows",
    "An ended row is padded for one step only, and then writes on.",
    "a row that ends three steps before the other",
)
def rows_wake_up_again(step, ids, most, stop_id, pad_id):
    start = ids.shape[1]
    ever = torch.zeros(len(ids), dtype=torch.bool)
    ended = ever.clone()
    for _ in range(most):
        new = next_of(step, ids).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = new == stop_id
        ever = ever | ended
        if ever.all():
            break
    return ids[:, start:]


right("generation.computed", "150 · 151 / 2 and one per call")((11325, 150))
wrong(
    "generation.computed",
    "Every call is taken to read 150 positions.",
    "the calls read 1, 2, ..., 150",
)((22500, 150))
wrong(
    "generation.computed",
    "The lone eos is not counted: the calls read 1 to 150, not 0 to 149.",
    "150 · 151 / 2 = 11325",
)((11175, 150))


@right("generation.prefill", "one query after the other, no mask at all")
def prefill_query_by_query(queries, keys, values, old_keys, old_values):
    context = []
    for i in range(queries.shape[2]):
        seen = torch.cat([old_keys, keys[:, :, : i + 1]], dim=2)
        content = torch.cat([old_values, values[:, :, : i + 1]], dim=2)
        scores = queries[:, :, i : i + 1] @ seen.mT / queries.shape[-1] ** 0.5
        context.append(scores.softmax(dim=-1) @ content)
    return torch.cat(context, dim=2)


@wrong(
    "generation.prefill",
    "The causal mask starts in the upper left, so the kept tokens are hidden.",
    "one new token behind three",
)
def prefill_mask_upper_left(queries, keys, values, old_keys, old_values):
    k = torch.cat([old_keys, keys], dim=2)
    v = torch.cat([old_values, values], dim=2)
    scores = queries @ k.mT / queries.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(dim=-1) @ v


@wrong(
    "generation.prefill",
    "A new token does not see itself.",
    "one new token behind three",
)
def prefill_not_itself(queries, keys, values, old_keys, old_values):
    k = torch.cat([old_keys, keys], dim=2)
    v = torch.cat([old_values, values], dim=2)
    scores = queries @ k.mT / queries.shape[-1] ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool)
    later = later.triu(old_keys.shape[2])
    return scores.masked_fill(later, -math.inf).softmax(dim=-1) @ v


@right("generation.cache", "einsum over all kept ones, the row taken by a slice")
def cache_step_einsum(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    rows = cos[t : t + 1], sin[t : t + 1]
    keys = torch.cat([keys, turned(key, *rows)], dim=2)
    values = torch.cat([values, value], dim=2)
    scores = torch.einsum("bhqd,bhkd->bhqk", turned(query, *rows), keys)
    weights = (scores * key.shape[-1] ** -0.5).softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, values), keys, values


@wrong(
    "generation.cache",
    "The kept keys are turned a second time.",
    "three kept tokens",
)
def cache_step_turns_all(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    keys = torch.cat([keys, key], dim=2)
    values = torch.cat([values, value], dim=2)
    turned_keys = turned(keys, cos[: t + 1], sin[: t + 1])
    query = turned(query, cos[t : t + 1], sin[t : t + 1])
    context = F.scaled_dot_product_attention(query, turned_keys, values)
    return context, turned_keys, values


@wrong(
    "generation.cache",
    "The new key is kept as it came, before its rotation.",
    "three kept tokens: the context is right, the returned keys are not",
)
def cache_step_keeps_unturned(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    rows = cos[t : t + 1], sin[t : t + 1]
    seen = torch.cat([keys, turned(key, *rows)], dim=2)
    values = torch.cat([values, value], dim=2)
    context = F.scaled_dot_product_attention(turned(query, *rows), seen, values)
    return context, torch.cat([keys, key], dim=2), values


# 15 looking inside


@right("inside.entropy", "torch.special.entr, which knows 0 · ln 0")
def entropy_by_entr(weights):
    return torch.special.entr(weights).sum(dim=-1)


@wrong(
    "inside.entropy",
    "0 · ln 0 gives nan.",
    "[[1, 0]] must give 0",
)
def entropy_with_nan(weights):
    return -(weights * weights.log()).sum(dim=-1)


@wrong(
    "inside.entropy",
    "Bits, not nats.",
    "[[0.5, 0.5]] must give 0.693",
)
def entropy_in_bits(weights):
    return -(weights * weights.clamp(min=1e-30).log2()).sum(dim=-1)


@right("inside.ablate", "a copy with the slice of the joined context emptied")
def ablation_in_the_joined(context, to_output, head):
    size = context.shape[-1]
    joined = torch.cat(list(context.unbind(dim=1)), dim=-1)
    joined[..., head * size : (head + 1) * size] = 0
    return to_output(joined)


@wrong(
    "inside.ablate",
    "The given context is changed.",
    "any context: afterwards its head is 0",
)
def ablation_in_place(context, to_output, head):
    with torch.no_grad():
        context[:, head] = 0
    return to_output(context.transpose(1, 2).flatten(2))


@wrong(
    "inside.ablate",
    "The part taken away includes the bias, so the bias is gone from the output.",
    "an output projection with a bias",
)
def ablation_subtracts_bias(context, to_output, head):
    alone = torch.zeros_like(context)
    alone[:, head] = context[:, head]
    whole = to_output(context.transpose(1, 2).flatten(2))
    return whole - to_output(alone.transpose(1, 2).flatten(2))


@right("inside.hook", "the module found by get_submodule, removal in finally")
def hooked_with_finally(model, name, change, x):
    kept = []

    def hook(module, inputs, output):
        kept.append(output.clone() if torch.is_tensor(output) else output)
        return change(output)

    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        changed = model(x)
    finally:
        handle.remove()
    return kept[0], changed, model(x)


@wrong(
    "inside.hook",
    "The hook is never taken out, so the model stays changed.",
    "the third value equals the second",
)
def hooked_for_ever(model, name, change, x):
    kept = []

    def hook(module, inputs, output):
        kept.append(output.clone())
        return change(output)

    model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    return kept[0], changed, model(x)


@wrong(
    "inside.hook",
    "What is recorded is the replacement, not what the module returned.",
    "change = lambda y: y * 0",
)
def hooked_records_change(model, name, change, x):
    kept = []

    def hook(module, inputs, output):
        kept.append(change(output))
        return kept[-1]

    handle = model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    handle.remove()
    return kept[0], changed, model(x)


right("inside.next_key", "the first 17 is at 9 - 6 = 3, what follows it at 4")(4)
wrong("inside.next_key", "This is the first 17 itself.", "4 is right")(3)
wrong("inside.next_key", "This is the token after the query, not seen yet.", "4")(10)


@right("inside.look_back", "advanced indexing with two rows of numbers")
def look_back_by_index(weights):
    here = torch.arange(1, weights.shape[-1])
    return weights[:, :, here, here - 1].mean(dim=(0, 2))


@wrong(
    "inside.look_back",
    "The first query counts in the mean, as a zero.",
    "weights 1 on the token before must give 1",
)
def look_back_divides_by_all(weights):
    found = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    return found.sum(dim=-1).mean(dim=0) / weights.shape[-1]


@wrong(
    "inside.look_back",
    "The weight on the token after, which a causal model never has.",
    "weights 1 on the token before must give 1",
)
def look_back_ahead(weights):
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(0, -1))


@right("inside.induction", "plain loops over rows and queries")
def induction_by_loops(weights, ids):
    found = []
    for row in range(ids.shape[0]):
        last = {}
        for query, token in enumerate(ids[row].tolist()):
            if token in last:
                found.append(weights[row, :, query, last[token] + 1])
            last[token] = query
    return torch.stack(found).mean(dim=0)


@wrong(
    "inside.induction",
    "The first occurrence counts, not the last.",
    "ids [[1, 2, 1, 3, 1]]",
)
def induction_first_occurrence(weights, ids):
    found = []
    for row in range(ids.shape[0]):
        first = {}
        for query, token in enumerate(ids[row].tolist()):
            if token in first:
                found.append(weights[row, :, query, first[token] + 1])
            first.setdefault(token, query)
    return torch.stack(found).mean(dim=0)


@wrong(
    "inside.induction",
    "Queries without an earlier occurrence count as zeros.",
    "ids [[1, 2, 1]] with weight 1 at [2, 1] must give 1",
)
def induction_over_all_queries(weights, ids):
    total = torch.zeros(weights.shape[1], dtype=weights.dtype)
    for row in range(ids.shape[0]):
        last = {}
        for query, token in enumerate(ids[row].tolist()):
            if token in last:
                total = total + weights[row, :, query, last[token] + 1]
            last[token] = query
    return total / ids.numel()


# 16 bug clinic


right("clinic.rings", "dropout moves everything")((True, False, True))
wrong(
    "clinic.rings",
    "order_blind rings when something stays, and with dropout nothing stays.",
    "(True, False, True) is right",
)((True, True, True))
wrong(
    "clinic.rings",
    "mixes_rows is rung too: the other row moves by dropout.",
    "(True, False, True) is right",
)((True, False, False))


def differ(a, b):
    """Whether two outputs are not the same up to rounding."""
    return not torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)


@right("clinic.leaks_future", "every cut, several shifts and draws of the later tokens")
def leaks_future_every_cut(logits, ids, vocab_size):
    with torch.no_grad():
        before = logits(ids.clone()).clone()
        for cut in range(1, ids.shape[1]):
            later = ids[:, cut:]
            tries = [(later + shift) % vocab_size for shift in (1, 2, 3)]
            tries += [torch.randint_like(later, vocab_size) for _ in range(4)]
            for new in tries:
                other = torch.cat([ids[:, :cut], new], dim=1)
                if differ(logits(other)[:, :cut], before[:, :cut]):
                    return True
    return False


@wrong(
    "clinic.leaks_future",
    "The output at the changed token is compared too, so each healthy model leaks.",
    "logits that are a table of the token itself",
)
def leaks_future_compares_changed(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    return bool(differ(logits(other), logits(ids)))


@wrong(
    "clinic.leaks_future",
    "Only the first output is watched while the last token changes.",
    "a model whose position i sees i + 1, with four tokens",
)
def leaks_future_first_and_last_only(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    return bool(differ(logits(other)[:, 0], logits(ids)[:, 0]))


@wrong(
    "clinic.leaks_future",
    "No copy is made: both runs get the changed ids, so nothing is ever found.",
    "a model that sees everything",
)
def leaks_future_same_tensor(logits, ids, vocab_size):
    other = ids
    half = ids.shape[1] // 2
    other[:, half:] = (other[:, half:] + 1) % vocab_size
    return bool(differ(logits(other)[:, :half], logits(ids)[:, :half]))


@right("clinic.order_blind", "an index that runs backwards, up to rounding")
def order_blind_by_index(outputs, ids):
    last = ids.shape[1] - 1
    order = [*range(last - 1, -1, -1), last]
    with torch.no_grad():
        one = outputs(ids)[:, -1]
        two = outputs(ids[:, order])[:, -1]
    return not differ(one, two)


@wrong(
    "clinic.order_blind",
    "The last word is reversed with the others, so it is another word that looks.",
    "a blind model that adds its own word to the mean",
)
def order_blind_flips_all(outputs, ids):
    return not differ(outputs(ids)[:, -1], outputs(ids.flip(1))[:, -1])


@wrong(
    "clinic.order_blind",
    "Exact equality: rounding in another order hides a blind model.",
    "a mean over words whose sum rounds differently in reverse",
)
def order_blind_exact(outputs, ids):
    other = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    return torch.equal(outputs(ids)[:, -1], outputs(other)[:, -1])


@wrong(
    "clinic.order_blind",
    "All outputs are compared, but those before the last have got other words.",
    "a blind model that adds its own word to the mean",
)
def order_blind_all_outputs(outputs, ids):
    other = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    return not differ(outputs(ids), outputs(other))


@right("clinic.ignores_source", "several sources, shifted and drawn")
def ignores_source_many(logits, source, target, vocab_size):
    generator = torch.Generator().manual_seed(1)
    others = [(source + shift) % vocab_size for shift in range(1, min(vocab_size, 4))]
    for _ in range(24):
        drawn = torch.randint(vocab_size, source.shape, generator=generator)
        others.append(drawn.to(source.dtype))
    with torch.no_grad():
        before = logits(source, target).clone()
        return not any(differ(logits(other, target), before) for other in others)


@wrong(
    "clinic.ignores_source",
    "Only the order of the source changes; a model that takes its mean is accused.",
    "logits from the mean of the source",
)
def ignores_source_flipped(logits, source, target, vocab_size):
    return not differ(logits(source, target), logits(source.flip(1), target))


@wrong(
    "clinic.ignores_source",
    "Only the first word of the source changes; who reads the others is accused.",
    "logits from the last word of the source",
)
def ignores_source_first_word(logits, source, target, vocab_size):
    other = source.clone()
    other[:, 0] = (other[:, 0] + 1) % vocab_size
    return not differ(logits(source, target), logits(other, target))


@right("clinic.dead_parameters", "autograd.grad leaves the fields of the model alone")
def dead_parameters_by_grad(model, loss):
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    value = loss(model)
    if not value.requires_grad:
        return [name for name, _ in named]
    parameters = [parameter for _, parameter in named]
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    return [
        name
        for (name, _), gradient in zip(named, gradients, strict=False)
        if gradient is None or not gradient.any()
    ]


@wrong(
    "clinic.dead_parameters",
    "Gradients that were there before are trusted.",
    "an unused parameter with an old .grad of ones",
)
def dead_parameters_with_old_grads(model, loss):
    loss(model).backward()
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]


@wrong(
    "clinic.dead_parameters",
    "A gradient whose numbers sum to 0 is taken for none.",
    "the bias before a cross-entropy: its gradient sums to 0",
)
def dead_parameters_by_sum(model, loss):
    model.zero_grad()
    loss(model).backward()
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or abs(parameter.grad.sum().item()) < 1e-6
    ]


@wrong(
    "clinic.dead_parameters",
    "A parameter is accused when a part of it has no gradient.",
    "an embedding of which one text uses two words",
)
def dead_parameters_any_zero(model, loss):
    model.zero_grad()
    loss(model).backward()
    return [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or (parameter.grad == 0).any()
    ]


@right("clinic.cannot_memorize", "the batch is made once and handed out again")
def cannot_memorize_one_batch(losses_of, batches):
    first = batches(0)

    def again(step):
        return first

    *_, last = losses_of(again)
    return bool(last > 0.5)


@wrong(
    "clinic.cannot_memorize",
    "Each step shows a new batch.",
    "a healthy model on batches that contradict each other",
)
def cannot_memorize_new_batches(losses_of, batches):
    return bool(losses_of(batches)[-1] > 0.5)


@wrong(
    "clinic.cannot_memorize",
    "The smallest loss is judged, not the last.",
    "losses [2, 0.1, 3]",
)
def cannot_memorize_by_minimum(losses_of, batches):
    return bool(min(losses_of(lambda step: batches(0))) > 0.5)


# 17 scaling out


def size_of(config, *names):
    """The first of these fields that the config has."""
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    raise AttributeError(names)


def sizes(config):
    """v, m, f, layers, and the width of keys and values."""
    m = size_of(config, "d_model", "width", "hidden_size")
    heads = size_of(config, "num_heads", "heads")
    groups = size_of(config, "num_kv_heads", "num_heads", "heads")
    v = size_of(config, "vocab_size", "vocabulary", "vocab")
    f = size_of(config, "d_ff", "hidden", "d_hidden", "intermediate_size")
    layers = size_of(config, "num_layers", "layers", "n_layers", "num_blocks")
    return v, m, f, layers, groups * (m // heads)


@right("scaling.parameters", "a list of shapes, multiplied and added")
def parameters_by_shapes(config):
    v, m, f, layers, narrow = sizes(config)
    block = [(m, m), (narrow, m), (narrow, m), (m, m)]
    block += [(f, m), (f, m), (m, f), (m,), (m,)]
    shapes = [(v, m), (m,)] + block * layers
    if not config.tied:
        shapes.append((v, m))
    return sum(math.prod(shape) for shape in shapes)


@wrong(
    "scaling.parameters",
    "The final norm is forgotten.",
    "any config: m numbers are missing",
)
def parameters_without_final_norm(config):
    v, m, f, layers, narrow = sizes(config)
    block = 2 * m * m + 2 * m * narrow + 3 * m * f + 2 * m
    return v * m * (1 if config.tied else 2) + layers * block


@wrong(
    "scaling.parameters",
    "Keys and values are taken to be as wide as the queries.",
    "num_kv_heads below num_heads",
)
def parameters_all_heads(config):
    v, m, f, layers, _ = sizes(config)
    block = 4 * m * m + 3 * m * f + 2 * m
    return v * m * (1 if config.tied else 2) + layers * block + m


@wrong(
    "scaling.parameters",
    "tied the wrong way round: the tied model gets the second table.",
    "any config",
)
def parameters_tied_inverted(config):
    v, m, f, layers, narrow = sizes(config)
    block = 2 * m * m + 2 * m * narrow + 3 * m * f + 2 * m
    return v * m * (2 if config.tied else 1) + layers * block + m


@right("scaling.flops", "forward per token first, then three times")
def flops_forward_three_times(matrices, layers, width, length, tokens):
    product = 2 * width * length
    forward = 2 * matrices + layers * (product + product)
    return 3 * forward * tokens


@wrong(
    "scaling.flops",
    "Only one of the two products of attention is counted.",
    "matrices 0, layers 1, width 1, length 1, tokens 1 must give 12",
)
def flops_one_product(matrices, layers, width, length, tokens):
    return 6 * tokens * (matrices + layers * width * length)


@wrong(
    "scaling.flops",
    "Attention's products are counted forward only, without the way back.",
    "matrices 0, layers 1, width 1, length 1, tokens 1 must give 12",
)
def flops_attention_forward_only(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 4 * layers * width * length * tokens


right("scaling.bytes", "weight 4, gradient 4, two averages 8")(16)
wrong("scaling.bytes", "AdamW has two averages, one is forgotten.", "16")(12)
wrong("scaling.bytes", "Only weight and gradient, no averages.", "16")(8)


@right("scaling.activations", "each kept vector named, two bytes a number")
def activations_named(rows, length, width, hidden):
    kept = {"x": width, "g": hidden, "u": hidden, "s": hidden, "h": hidden}
    return sum(2 * rows * length * size for size in kept.values())


@wrong(
    "scaling.activations",
    "x is kept twice, once for the gate and once for up.",
    "1, 1, 1, 1 must give 10",
)
def activations_x_twice(rows, length, width, hidden):
    return 2 * rows * length * (2 * width + 4 * hidden)


@wrong(
    "scaling.activations",
    "s is not kept, though the product of s and u needs both.",
    "1, 1, 1, 1 must give 10",
)
def activations_without_s(rows, length, width, hidden):
    return 2 * rows * length * (width + 3 * hidden)


@wrong(
    "scaling.activations",
    "y is kept, though no rule names it.",
    "1, 1, 1, 1 must give 10",
)
def activations_with_y(rows, length, width, hidden):
    return rows * length * (width + 4 * hidden + width) * 2


@right("scaling.days", "operations per day first")
def days_by_daily_work(parameters, tokens, machines, speed, share):
    per_day = 24 * 60 * 60 * machines * speed * share
    return 6 * parameters * tokens / per_day


@wrong(
    "scaling.days",
    "The utilisation makes the training faster: it is multiplied, not divided.",
    "share = 0.4",
)
def days_share_upside_down(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens * share / (machines * speed) / 86400


@wrong(
    "scaling.days",
    "Only the forward pass is counted, 2 N D.",
    "any numbers",
)
def days_forward_only(parameters, tokens, machines, speed, share):
    return 2 * parameters * tokens / (machines * speed * share) / 86400


@right("scaling.power", "least squares by the design matrix")
def power_by_lstsq(compute, losses):
    x = np.log([float(c) for c in compute])
    y = np.log([float(loss) for loss in losses])
    table = np.stack([x, np.ones_like(x)], axis=1)
    slope, _ = np.linalg.lstsq(table, y, rcond=None)[0]
    return float(-slope)


@wrong(
    "scaling.power",
    "The line is forced through the origin: a is taken to be 1.",
    "[1, 10], [5, 0.5] must give 1",
)
def power_through_origin(compute, losses):
    x = np.log([float(c) for c in compute])
    y = np.log([float(loss) for loss in losses])
    return float(-(x @ y) / (x @ x))


@wrong(
    "scaling.power",
    "Only the first and the last run are used.",
    "[1, 10, 20], [1, 0.5, 0.01]",
)
def power_from_ends(compute, losses):
    fall = math.log(float(losses[0]) / float(losses[-1]))
    return fall / math.log(float(compute[-1]) / float(compute[0]))


@right("scaling.halving", "by exp and ln")
def halving_by_exp(b):
    return math.exp(math.log(2) / b)


@wrong(
    "scaling.halving",
    "b in place of 1/b.",
    "b = 0.5 must give 4",
)
def halving_power_of_b(b):
    return 2**b


@wrong(
    "scaling.halving",
    "The factor is below 1: it says what halves the compute's need.",
    "b = 0.5 must give 4, not 0.25",
)
def halving_below_one(b):
    return 0.5 ** (1 / b)


@right("scaling.padding", "pads counted one by one")
def padding_one_by_one(lengths, size):
    lengths = [int(length) for length in lengths]
    pads = 0
    places = 0
    for start in range(0, len(lengths), size):
        batch = lengths[start : start + size]
        places += max(batch) * len(batch)
        pads += sum(max(batch) - length for length in batch)
    return pads / places


@wrong(
    "scaling.padding",
    "The shares of the batches are averaged, though batches have unequal width.",
    "[1, 2, 10, 10], 2",
)
def padding_mean_of_batches(lengths, size):
    shares = []
    for start in range(0, len(lengths), size):
        batch = lengths[start : start + size]
        shares.append(1 - sum(batch) / (max(batch) * len(batch)))
    return sum(shares) / len(shares)


@wrong(
    "scaling.padding",
    "The last batch is taken to be full.",
    "[1, 2, 10], 2: the last batch has one text",
)
def padding_full_last_batch(lengths, size):
    places = 0
    for start in range(0, len(lengths), size):
        places += max(lengths[start : start + size]) * size
    return 1 - sum(lengths) / places


@right("scaling.rows_of_rank", "an explicit slice object with a step")
def rows_of_rank_by_slice(batch, rank, count):
    return batch[slice(rank, len(batch), count)]


@wrong(
    "scaling.rows_of_rank",
    "Neighboring rows go to a rank, the drawing deals them out in turn.",
    "four rows, rank 0 of 2 must get rows 0 and 2",
)
def rows_of_rank_in_chunks(batch, rank, count):
    share = len(batch) // count
    return batch[rank * share : (rank + 1) * share]


@wrong(
    "scaling.rows_of_rank",
    "Rows that do not divide evenly are dropped.",
    "five rows, rank 0 of 2 must get rows 0, 2 and 4",
)
def rows_of_rank_drops_rest(batch, rank, count):
    whole = len(batch) // count * count
    return batch[rank:whole:count]


@right("scaling.per_process", "four numbers of four bytes")
def per_process_four_numbers(parameters, processes, sharded):
    whole = sum(4 * parameters for _ in ("weight", "gradient", "mean", "square"))
    return whole / (processes if sharded else 1)


@wrong(
    "scaling.per_process",
    "Only the averages are divided (stage 1), weights and gradients stay whole.",
    "4, 2, True must give 32",
)
def per_process_stage_one(parameters, processes, sharded):
    averages = 8 * parameters / (processes if sharded else 1)
    return 8 * parameters + averages


@wrong(
    "scaling.per_process",
    "Data parallel is divided too, but there each process holds the whole.",
    "4, 2, False must give 64",
)
def per_process_always_divided(parameters, processes, sharded):
    return 16 * parameters / processes


@right("scaling.mean_over_ranks", "ranks without labels are left out")
def mean_over_ranks_skips_empty(losses, labels):
    total = 0.0
    count = 0
    for loss, own in zip(losses, labels, strict=False):
        known = int((torch.as_tensor(own) != -100).sum())
        if known:
            total = total + loss * known
            count += known
    return total / count


@wrong(
    "scaling.mean_over_ranks",
    "Every rank counts the same.",
    "[1, 3] with one label and with three must give 2.5",
)
def mean_over_ranks_unweighted(losses, labels):
    return sum(losses) / len(losses)


@wrong(
    "scaling.mean_over_ranks",
    "The places of -100 are counted as labels.",
    "[1, 3] with [[5, -100]] and [[5, 6]] must give 7/3",
)
def mean_over_ranks_counts_padding(losses, labels):
    counts = [own.numel() for own in labels]
    total = sum(loss * count for loss, count in zip(losses, counts, strict=False))
    return total / sum(counts)


@wrong(
    "scaling.mean_over_ranks",
    "A rank without labels has the loss nan, and 0 times nan is nan.",
    "[1, nan] with [[5, 6]] and [[-100, -100]] must give 1",
)
def mean_over_ranks_nan(losses, labels):
    counts = [(own != -100).sum() for own in labels]
    total = sum(loss * count for loss, count in zip(losses, counts, strict=False))
    return total / sum(counts)
