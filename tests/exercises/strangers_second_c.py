"""Answers of a stranger, written from the prompts alone."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from course_utils.models import LlamaLM
from course_utils.positions import rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# --- 12 ------------------------------------------------------------------------------


@wrong(
    "llama.rms_norm",
    "The mean is taken off first, as LayerNorm does.",
    "x = [1, 2], eps 0: [-1, 1] in place of [0.63, 1.26]",
)
def norm_with_shift(x, scale, eps):
    x = x - x.mean(-1, keepdim=True)
    return x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * scale


@wrong(
    "llama.rms_norm",
    "eps is added to the root, not inside it.",
    "x = [1, 1], eps = 1: 0.5 in place of 0.707",
)
def norm_eps_outside(x, scale, eps):
    return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps) * scale


@wrong(
    "llama.rms_norm",
    "Divides by the length of the vector: a sum of squares, not their mean.",
    "x = [1, 1], eps 0: 0.707 in place of 1",
)
def norm_by_length(x, scale, eps):
    return x / (x.pow(2).sum(-1, keepdim=True) + eps).sqrt() * scale


@wrong(
    "llama.rms_norm",
    "One root mean square for the whole text, not one per position.",
    "x = [[1, 1], [3, 3]]: two different sizes in place of ones",
)
def norm_of_text(x, scale, eps):
    return x * torch.rsqrt(x.pow(2).mean(dim=(1, 2), keepdim=True) + eps) * scale


@right("llama.rms_norm", "einsum for the squares, the stretch before the division")
def norm_by_einsum(x, scale, eps):
    squares = torch.einsum("btm,btm->bt", x, x) / x.shape[2]
    return torch.einsum("btm,m,bt->btm", x, scale, (squares + eps) ** -0.5)


wrong("llama.hidden", "Takes the gate as two matrices, so halves 3,072.", "1,536")(1536)
wrong("llama.hidden", "Scales by 3/2 where 2/3 is meant.", "4,608")(4608)
wrong("llama.hidden", "Keeps the width of GPT-2.", "half as many weights again")(3072)
right("llama.hidden", "2 * 768 * 3072 weights, divided by three matrices")(
    2 * 768 * 3072 // (3 * 768)
)


@wrong(
    "llama.swiglu",
    "SiLU on the candidate, the gate left as it is.",
    "gate 1, up 2, x 1: silu(2) in place of 2 silu(1)",
)
def swiglu_sides_swapped(x, gate, up, down):
    return (x @ gate.T * F.silu(x @ up.T)) @ down.T


@wrong(
    "llama.swiglu",
    "The logistic function as gate: GLU, not SwiGLU.",
    "any x with a gate other than 1",
)
def swiglu_logistic(x, gate, up, down):
    return F.linear(torch.sigmoid(F.linear(x, gate)) * F.linear(x, up), down)


@wrong(
    "llama.swiglu",
    "Gate and candidate are added.",
    "gate 0, x 1, up 1: 1 in place of 0",
)
def swiglu_added(x, gate, up, down):
    return (F.silu(x @ gate.T) + x @ up.T) @ down.T


@wrong(
    "llama.swiglu",
    "GELU in place of SiLU.",
    "gate 1, up 1, x 1: 0.84 in place of 0.73",
)
def swiglu_with_gelu(x, gate, up, down):
    return (F.gelu(x @ gate.T) * (x @ up.T)) @ down.T


@right("llama.swiglu", "one tall matrix for gate and up, cut after the product")
def swiglu_in_one_matrix(x, gate, up, down):
    both = torch.einsum("btm,fm->btf", x, torch.cat([gate, up]))
    opening, candidate = both.tensor_split([gate.shape[0]], dim=-1)
    hidden = opening * candidate / (1 + torch.exp(-opening))
    return torch.einsum("btf,mf->btm", hidden, down)


@wrong(
    "llama.repeat_keys",
    "Tiles all sets: head i reads set i mod g.",
    "g = 2, h = 4: sets 0 1 0 1 in place of 0 0 1 1",
)
def keys_tiled(keys, num_heads):
    return keys.repeat(1, num_heads // keys.shape[1], 1, 1)


@wrong(
    "llama.repeat_keys",
    "Repeats the positions, then folds them into heads.",
    "g = 1, h = 2, k = 2: head 0 has position 0 twice",
)
def keys_folded(keys, num_heads):
    b, g, k, d = keys.shape
    repeated = keys.repeat_interleave(num_heads // g, dim=2)
    return repeated.reshape(b, num_heads, k, d)


@wrong(
    "llama.repeat_keys",
    "Repeats each set num_heads times, not h / g times.",
    "g = 2, h = 4: 8 heads",
)
def keys_too_often(keys, num_heads):
    return keys.repeat_interleave(num_heads, dim=1)


@right("llama.repeat_keys", "a list says which set each head reads, then stack")
def keys_by_list(keys, num_heads):
    sets = keys.shape[1]
    chosen = [keys[:, head * sets // num_heads] for head in range(num_heads)]
    return torch.stack(chosen, dim=1)


wrong("llama.cache", "Counts keys or values, not both.", "half")(16 * 6 * 64 * 4)
wrong("llama.cache", "Counts 24 heads where 6 sets are kept.", "four times as much")(
    2 * 16 * 24 * 64 * 4
)
wrong("llama.cache", "Counts one layer.", "a sixteenth")(2 * 6 * 64 * 4)
right("llama.cache", "layers x sets x width x two x bytes")(49152)


def attend_in_groups(x, weights, table, num_heads, order, turned, scale, cut=True):
    """What the answers below share: order names the set of each head."""
    b, t, m = x.shape
    d = m // num_heads
    q, k, v = ((x @ w.T).unflatten(-1, (-1, d)).transpose(1, 2) for w in weights[:3])
    q, k = rotate(q, *table), rotate(k, *table)
    v = rotate(v, *table) if turned else v
    k, v = k[:, order], v[:, order]
    scores = q @ k.mT / scale
    if cut:
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    context = scores.softmax(-1) @ v
    return context.transpose(1, 2).reshape(b, t, m) @ weights[3].T


def group_order(x, to_keys, num_heads):
    """The set of each head, as the course wants it."""
    sets = to_keys.shape[0] * num_heads // x.shape[2]
    return [head * sets // num_heads for head in range(num_heads)]


@wrong(
    "llama.grouped_attention",
    "The values are turned, too.",
    "any text of two tokens or more",
)
def attention_turns_values(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    weights = to_queries, to_keys, to_values, to_output
    order = group_order(x, to_keys, num_heads)
    scale = math.sqrt(x.shape[2] // num_heads)
    return attend_in_groups(x, weights, table, num_heads, order, True, scale)


@wrong(
    "llama.grouped_attention",
    "The sets are tiled: head i reads set i mod g.",
    "four heads with two sets",
)
def attention_tiles_sets(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    weights = to_queries, to_keys, to_values, to_output
    sets = to_keys.shape[0] * num_heads // x.shape[2]
    order = [head % sets for head in range(num_heads)]
    scale = math.sqrt(x.shape[2] // num_heads)
    return attend_in_groups(x, weights, table, num_heads, order, False, scale)


@wrong(
    "llama.grouped_attention",
    "Divides by the root of the model's width, not of a head's.",
    "two heads or more: flatter weights",
)
def attention_scaled_by_width(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    weights = to_queries, to_keys, to_values, to_output
    order = group_order(x, to_keys, num_heads)
    scale = math.sqrt(x.shape[2])
    return attend_in_groups(x, weights, table, num_heads, order, False, scale)


@wrong(
    "llama.grouped_attention",
    "No causal mask.",
    "two tokens: the first sees the second",
)
def attention_without_mask(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    weights = to_queries, to_keys, to_values, to_output
    order = group_order(x, to_keys, num_heads)
    scale = math.sqrt(x.shape[2] // num_heads)
    return attend_in_groups(x, weights, table, num_heads, order, False, scale, False)


@right(
    "llama.grouped_attention",
    "head by head and query by query, turned by hand, summed into the output",
)
def attention_head_by_head(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    _, t, m = x.shape
    d = m // num_heads
    heads_per_set = num_heads // (to_keys.shape[0] // d)
    cos, sin = table

    def turn(one):
        first, second = one.chunk(2, dim=-1)
        return one * cos + torch.cat([-second, first], dim=-1) * sin

    out = torch.zeros_like(x)
    for head in range(num_heads):
        own = slice(head * d, (head + 1) * d)
        group = head // heads_per_set
        shared = slice(group * d, (group + 1) * d)
        q = turn(x @ to_queries[own].T)
        k = turn(x @ to_keys[shared].T)
        v = x @ to_values[shared].T
        rows = []
        for place in range(t):
            scores = (k[:, : place + 1] * q[:, place, None]).sum(-1) * d**-0.5
            rows.append((scores.softmax(-1)[..., None] * v[:, : place + 1]).sum(1))
        out = out + torch.stack(rows, dim=1) @ to_output[:, own].T
    return out


@wrong(
    "llama.same_sign",
    "Asks only whether ours are lower everywhere.",
    "ours above others for each seed: False in place of True",
)
def sign_if_lower(ours, others):
    return all(bool(a < b) for a, b in zip(ours, others, strict=False))


@wrong(
    "llama.same_sign",
    "Demands that the two groups do not overlap at all, without pairs.",
    "ours 1, 2 and others 1.5, 2.5: False in place of True",
)
def sign_of_groups(ours, others):
    return bool(max(ours) < min(others) or min(ours) > max(others))


@wrong(
    "llama.same_sign",
    "A difference of 0 counts for either side.",
    "ours 1, 2 and others 1, 3: True in place of False",
)
def sign_with_ties(ours, others):
    pairs = list(zip(ours, others, strict=False))
    below = all(bool(a <= b) for a, b in pairs)
    return below or all(bool(a >= b) for a, b in pairs)


@wrong(
    "llama.same_sign",
    "The losses are sorted first, so the pairs are lost.",
    "ours 1, 3 and others 4, 2: True in place of False",
)
def sign_of_sorted(ours, others):
    pairs = zip(sorted(map(float, ours)), sorted(map(float, others)), strict=False)
    signs = {(a > b) - (a < b) for a, b in pairs}
    return signs in ({1}, {-1})


@right("llama.same_sign", "the set of the signs has one member, and it is not 0")
def sign_by_set(ours, others):
    signs = set()
    for a, b in zip(ours, others, strict=False):
        signs.add(int(a > b) - int(a < b))
    return signs == {1} or signs == {-1}


# --- 13 ------------------------------------------------------------------------------


def stream_of(rows, eos_id):
    """One list: an end, and after each row another."""
    return [eos_id] + [i for row in rows for i in [*row, eos_id]]


@wrong(
    "training.blocks",
    "The windows stand length + 1 apart, so a token between two is never an input.",
    "nine tokens, length 2: three windows in place of four",
)
def blocks_too_far_apart(rows, length, eos_id):
    stream = stream_of(rows, eos_id)
    count = len(stream) // (length + 1)
    both = torch.tensor(stream[: count * (length + 1)]).reshape(count, length + 1)
    return both[:, :-1], both[:, 1:]


@wrong(
    "training.blocks",
    "The stream does not begin with an eos.",
    "rows [[5, 6]]: begins with 5",
)
def blocks_without_first_end(rows, length, eos_id):
    stream = torch.tensor(stream_of(rows, eos_id)[1:])
    count = (len(stream) - 1) // length
    inputs = stream[: count * length].reshape(count, length)
    return inputs, stream[1 : count * length + 1].reshape(count, length)


@wrong(
    "training.blocks",
    "Labels are the inputs rolled within a window: the last place gets the first id.",
    "window 2 5 6: labels 5 6 2",
)
def blocks_rolled(rows, length, eos_id):
    stream = torch.tensor(stream_of(rows, eos_id))
    count = (len(stream) - 1) // length
    inputs = stream[: count * length].reshape(count, length)
    return inputs, inputs.roll(-1, dims=1)


@wrong(
    "training.blocks",
    "No end between the rows: only one before and one behind all of them.",
    "rows [[5], [6]]: 2 5 6 2 in place of 2 5 2 6 2",
)
def blocks_run_together(rows, length, eos_id):
    stream = torch.tensor([eos_id, *itertools.chain(*rows), eos_id])
    count = (len(stream) - 1) // length
    inputs = stream[: count * length].reshape(count, length)
    return inputs, stream[1 : count * length + 1].reshape(count, length)


@right("training.blocks", "overlapping windows by unfold, one id longer than a window")
def blocks_by_unfold(rows, length, eos_id):
    stream = torch.tensor(stream_of(rows, eos_id), dtype=torch.int64)
    if len(stream) <= length:
        return stream.new_empty(0, length), stream.new_empty(0, length)
    windows = stream.unfold(0, length + 1, length)
    return windows[:, :length].clone(), windows[:, 1:].clone()


@wrong(
    "training.perplexity",
    "Padding is in the number that the sum is divided by.",
    "one of two labels is -100: the root of the right number",
)
def perplexity_over_all(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    return losses.mean().exp()


@wrong(
    "training.perplexity",
    "The mean of the perplexities of the tokens.",
    "losses 0 and 2: 4.19 in place of 2.72",
)
def perplexity_mean_of_powers(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    return losses[labels != -100].exp().mean()


@wrong(
    "training.perplexity",
    "2 to the loss, though the loss is in nats.",
    "zeros as logits, V = 10: 4.93 in place of 10",
)
def perplexity_of_two(logits, labels):
    return 2 ** F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@wrong(
    "training.perplexity",
    "The mean of the rows' means: a short text counts as much as a long one.",
    "rows with one and with five labels",
)
def perplexity_row_by_row(logits, labels):
    means = [F.cross_entropy(a, b) for a, b in zip(logits, labels, strict=False)]
    return torch.stack(means).mean().exp()


@right("training.perplexity", "logsumexp less the label's score, counted labels only")
def perplexity_by_hand(logits, labels):
    kept = labels != -100
    scores, wanted = logits[kept], labels[kept]
    own = scores.gather(1, wanted[:, None])[:, 0]
    return torch.exp((scores.logsumexp(1) - own).sum() / kept.sum())


def triples_of(row, tokenizer, end=True):
    """All (two before, one before, token) of a row."""
    ids = [tokenizer.bos_id, tokenizer.bos_id, *row] + [tokenizer.eos_id] * end
    return list(zip(ids, ids[1:], ids[2:], strict=False))


@wrong(
    "training.trigram",
    "alpha is added to the sum once, not once per word.",
    "the chances of one context sum to more than 1",
)
def trigram_alpha_once(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter(t for row in train_rows for t in triples_of(row, tokenizer))
    pairs = Counter()
    for (a, b, _), count in triples.items():
        pairs[a, b] += count
    losses = [
        -math.log((triples[t] + alpha) / (pairs[t[:2]] + alpha))
        for row in held_rows
        for t in triples_of(row, tokenizer)
    ]
    return sum(losses) / len(losses)


@wrong(
    "training.trigram",
    "The mean of the rows' means, not the mean over all tokens.",
    "held rows of unequal lengths",
)
def trigram_by_row(train_rows, held_rows, tokenizer, alpha=0.01):
    size = tokenizer.vocab_size
    triples = Counter(t for row in train_rows for t in triples_of(row, tokenizer))
    pairs = Counter(t[:2] for row in train_rows for t in triples_of(row, tokenizer))
    means = []
    for row in held_rows:
        chances = [
            (triples[t] + alpha) / (pairs[t[:2]] + alpha * size)
            for t in triples_of(row, tokenizer)
        ]
        means.append(-sum(map(math.log, chances)) / len(chances))
    return sum(means) / len(means)


@wrong(
    "training.trigram",
    "The ends of the held rows are not guessed.",
    "any held rows: the ends are missing in the mean",
)
def trigram_without_ends(train_rows, held_rows, tokenizer, alpha=0.01):
    size = tokenizer.vocab_size
    triples = Counter(t for row in train_rows for t in triples_of(row, tokenizer))
    pairs = Counter(t[:2] for row in train_rows for t in triples_of(row, tokenizer))
    losses = [
        -math.log((triples[t] + alpha) / (pairs[t[:2]] + alpha * size))
        for row in held_rows
        for t in triples_of(row, tokenizer, end=False)
    ]
    return sum(losses) / len(losses)


@wrong(
    "training.trigram",
    "All rows are one stream, so a row's first word looks into the row before.",
    "two held rows",
)
def trigram_in_a_stream(train_rows, held_rows, tokenizer, alpha=0.01):
    size, start = tokenizer.vocab_size, [tokenizer.bos_id] * 2

    def triples_in(rows):
        stream = start + [i for row in rows for i in [*row, tokenizer.eos_id]]
        return list(zip(stream, stream[1:], stream[2:], strict=False))

    known = triples_in(train_rows)
    triples, pairs = Counter(known), Counter(t[:2] for t in known)
    losses = [
        -math.log((triples[t] + alpha) / (pairs[t[:2]] + alpha * size))
        for t in triples_in(held_rows)
    ]
    return sum(losses) / len(losses)


@right("training.trigram", "dictionaries in a dictionary, and logs taken apart")
def trigram_nested(train_rows, held_rows, tokenizer, alpha=0.01):
    after = {}
    bos, eos, size = tokenizer.bos_id, tokenizer.eos_id, tokenizer.vocab_size
    for row in train_rows:
        older, old = bos, bos
        for new in itertools.chain(row, [eos]):
            found = after.setdefault((older, old), {})
            found[new] = found.get(new, 0) + 1
            older, old = old, new
    seen, known = [], []
    for row in held_rows:
        older, old = bos, bos
        for new in itertools.chain(row, [eos]):
            found = after.get((older, old), {})
            seen.append(found.get(new, 0))
            known.append(sum(found.values()))
            older, old = old, new
    top = np.log(np.array(seen, dtype=np.float64) + alpha)
    bottom = np.log(np.array(known, dtype=np.float64) + alpha * size)
    return float((bottom - top).mean())


@wrong(
    "training.learning_rate",
    "The cosine reaches 0 at the last step, not one after it.",
    "the last step: 0, so it is lost",
)
def rate_zero_at_last(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak / 2 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


@wrong(
    "training.learning_rate",
    "The climb counts steps from 0.",
    "step 1: a rate of 0, and the peak comes one step late",
)
def rate_from_zero(step, steps, warmup, peak):
    if step <= warmup:
        return peak * (step - 1) / warmup
    part = (step - warmup) / (steps - warmup + 1)
    return peak * 0.5 * (1 + math.cos(math.pi * part))


@wrong(
    "training.learning_rate",
    "A quarter of a wave: cos from 0 to 90 degrees.",
    "halfway down: 0.71 of the peak in place of 0.5",
)
def rate_by_quarter(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * math.cos(math.pi / 2 * (step - warmup) / (steps - warmup + 1))


@wrong(
    "training.learning_rate",
    "The cosine has run since step 0, so the rate jumps down after the warm-up.",
    "the step after a warm-up of half the run: below half the peak",
)
def rate_with_jump(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * step / (steps + 1)))


@right("training.learning_rate", "half a cosine as a squared cosine of half the angle")
def rate_by_square(step, steps, warmup, peak):
    if step <= warmup:
        return peak * (step / warmup)
    left = (steps + 1 - step) / (steps + 1 - warmup)
    return peak * math.sin(math.pi / 2 * left) ** 2


@wrong(
    "training.clip",
    "Each tensor is clipped by its own length.",
    "[3], [4], most 1: [1], [1] in place of [0.6], [0.8]",
)
def clip_each_alone(gradients, most):
    return [g * min(1.0, most / max(g.norm().item(), 1e-300)) for g in gradients]


@wrong(
    "training.clip",
    "Always scaled to length most, even when shorter.",
    "[0.1], most 1: [1]",
)
def clip_always(gradients, most):
    length = math.sqrt(sum(g.pow(2).sum().item() for g in gradients))
    return [g * most / length for g in gradients]


@wrong(
    "training.clip",
    "The gradients themselves are changed, none is new.",
    "the argument after the call",
)
def clip_in_place(gradients, most):
    length = math.sqrt(sum(g.pow(2).sum().item() for g in gradients))
    if length > most:
        for g in gradients:
            g.mul_(most / length)
    return gradients


@wrong(
    "training.clip",
    "The lengths are added, not their squares.",
    "[3], [4], most 6: scaled though the length is 5",
)
def clip_by_sum_of_lengths(gradients, most):
    length = sum(g.norm().item() for g in gradients)
    return [g * min(1.0, most / max(length, 1e-300)) for g in gradients]


@wrong(
    "training.clip",
    "Each number is clamped, which turns the direction.",
    "[30, 4], most 1: [1, 1]",
)
def clip_by_number(gradients, most):
    return [g.clamp(-most, most) for g in gradients]


@right("training.clip", "one long vector, scaled and cut into the old shapes")
def clip_as_one_vector(gradients, most):
    if not gradients:
        return []
    long = torch.cat([g.flatten() for g in gradients])
    length = torch.linalg.vector_norm(long)
    if length > most:
        long = long * (most / length)
    parts = long.split([g.numel() for g in gradients])
    return [
        part.reshape(g.shape).clone() for part, g in zip(parts, gradients, strict=False)
    ]


@wrong(
    "training.step",
    "The gradients are never emptied, so they pile up.",
    "two batches: the second loss is right, the weights after it are not",
)
def steps_piling_up(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).mT, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "The loss is measured after the step.",
    "the first loss: lower than that of the fresh model",
)
def steps_measured_after(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).mT, labels).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(F.cross_entropy(model(inputs).mT, labels).item())
    return losses


@wrong(
    "training.step",
    "The gradients are emptied between backward and step.",
    "the weights never move",
)
def steps_emptied_too_soon(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).mT, labels)
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "The step moves by the sum of the losses, though the mean is reported.",
    "SGD: the weights move as many times as far as there are labels",
)
def steps_by_the_sum(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append((loss / (labels != -100).sum()).item())
    return losses


@right("training.step", "autograd.grad, and the loss from log-chances by hand")
def steps_by_autograd(model, optimizer, batches):
    losses = []
    weights = [p for p in model.parameters() if p.requires_grad]
    for inputs, labels in batches:
        kept = labels >= 0
        chances = model(inputs).log_softmax(dim=-1)[kept]
        loss = -chances[torch.arange(len(chances)), labels[kept]].mean()
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        for weight, gradient in zip(weights, found, strict=False):
            weight.grad = gradient
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@wrong(
    "training.accumulate",
    "Each part's mean counts the same, however many labels it has.",
    "parts with one and with three labels",
)
def accumulate_mean_of_means(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels) / len(parts)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "A step after each part.",
    "two parts: the second meets a model that has moved",
)
def accumulate_step_each(model, optimizer, batches):
    losses = []
    for parts in batches:
        count = sum((labels != -100).sum().item() for _, labels in parts)
        total = 0.0
        for inputs, labels in parts:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum") / count
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "Emptied once before all batches, so gradients of old batches stay.",
    "two batches",
)
def accumulate_never_emptied(model, optimizer, batches):
    losses = []
    optimizer.zero_grad()
    for parts in batches:
        count = sum((labels != -100).sum().item() for _, labels in parts)
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum") / count
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "Divides by all places, padding among them.",
    "a part with -100 among its labels: too small a loss",
)
def accumulate_over_places(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        count = sum(labels.numel() for _, labels in parts)
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum") / count
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@right("training.accumulate", "sums go back, and the gradients are divided at the end")
def accumulate_then_divide(model, optimizer, batches):
    losses = []
    for parts in batches:
        model.zero_grad(set_to_none=True)
        total, count = 0.0, 0
        for inputs, labels in parts:
            chances = model(inputs).log_softmax(-1)
            kept = labels != -100
            own = chances.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
            loss = -own[kept].sum()
            loss.backward()
            total += loss.item()
            count += int(kept.sum())
        for weight in model.parameters():
            if weight.grad is not None:
                weight.grad /= count
        optimizer.step()
        losses.append(total / count)
    return losses


# --- 14 ------------------------------------------------------------------------------


@wrong(
    "generation.top_k",
    "The rest is set to 0, and nothing is rescaled.",
    "k = 1: the best chance in place of 1",
)
def top_k_not_rescaled(scores, k):
    chances = scores.softmax(-1)
    return chances * (chances >= chances.topk(k).values[..., -1:])


@wrong(
    "generation.top_k",
    "The scores of the rest become 0, which is a score like any other.",
    "scores 1, 0, -5, k = 1: the others keep half their share",
)
def top_k_zero_scores(scores, k):
    dropped = scores < scores.topk(k).values[..., -1:]
    return scores.masked_fill(dropped, 0).softmax(-1)


@wrong(
    "generation.top_k",
    "The token on the line falls out: k - 1 stay.",
    "scores 3, 2, 1, k = 2: one token",
)
def top_k_one_short(scores, k):
    line = scores.sort(dim=-1, descending=True).values[..., k - 1 : k]
    chances = scores.exp() * (scores > line)
    return chances / chances.sum(-1, keepdim=True).clamp(min=1e-300)


@wrong(
    "generation.top_k",
    "One line for all rows, that of the first.",
    "two rows of different scores",
)
def top_k_line_of_first(scores, k):
    line = scores[0].topk(k).values[-1]
    kept = torch.where(scores >= line, scores.softmax(-1), 0.0)
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-300)


@right("generation.top_k", "the rank of each token by sorting the order, then exp")
def top_k_by_rank(scores, k):
    order = scores.sort(dim=-1, descending=True, stable=True).indices
    ranks = order.argsort(dim=-1)
    powers = (scores - scores.amax(-1, keepdim=True)).exp() * (ranks < k)
    return powers / powers.sum(-1, keepdim=True)


@wrong(
    "generation.top_p",
    "The token that crosses the line falls out.",
    "chances 0.5, 0.3, 0.2, p = 0.6: one token in place of two",
)
def top_p_without_crossing(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) <= p)
    kept = kept / kept.sum(-1, keepdim=True).clamp(min=1e-300)
    return torch.zeros_like(kept).scatter(-1, places, kept)


@wrong(
    "generation.top_p",
    "The chances stay sorted and do not go back to their places.",
    "chances 0.2, 0.8, p = 0.5: 1, 0 in place of 0, 1",
)
def top_p_left_sorted(scores, p):
    ranked = scores.softmax(-1).sort(dim=-1, descending=True).values
    kept = ranked * (ranked.cumsum(-1) - ranked < p)
    return kept / kept.sum(-1, keepdim=True)


@wrong(
    "generation.top_p",
    "What is left is not rescaled.",
    "chances 0.8, 0.2, p = 0.5: 0.8, 0 in place of 1, 0",
)
def top_p_not_rescaled(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    kept = ranked * (ranked.cumsum(-1) - ranked < p)
    return torch.zeros_like(kept).scatter(-1, places, kept)


@wrong(
    "generation.top_p",
    "Keeps each token whose own chance is at least 1 - p.",
    "chances 0.5, 0.3, 0.2, p = 0.6: one token in place of two",
)
def top_p_by_own_chance(scores, p):
    chances = scores.softmax(-1)
    best = chances == chances.amax(-1, keepdim=True)
    kept = chances * ((chances >= 1 - p) | best)
    return kept / kept.sum(-1, keepdim=True)


@right(
    "generation.top_p", "no sort: each token adds up the likelier ones, pair by pair"
)
def top_p_by_pairs(scores, p):
    chances = torch.softmax(scores, dim=-1)
    size = scores.shape[-1]
    earlier = torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1)
    one, other = chances[..., None], chances[..., None, :]
    ahead = (one > other) | ((one == other) & earlier)
    before = (one * ahead).sum(-2)
    kept = torch.where(before < p, chances, torch.zeros_like(chances))
    return kept / kept.sum(-1, keepdim=True)


@wrong(
    "generation.min_p",
    "The line is min_p itself, not min_p times the best.",
    "chances 0.4, 0.3, 0.3, min_p = 0.35: one token in place of three",
)
def min_p_absolute(scores, min_p):
    chances = scores.softmax(-1)
    kept = chances * (chances >= min_p)
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-300)


@wrong(
    "generation.min_p",
    "The best of the whole batch is taken, not that of the row.",
    "a sure row and an even row: the even row is cut",
)
def min_p_best_of_batch(scores, min_p):
    chances = scores.softmax(-1)
    kept = chances * (chances >= min_p * chances.max())
    return kept / kept.sum(-1, keepdim=True).clamp(min=1e-300)


@wrong(
    "generation.min_p",
    "The scores are compared, not the probabilities.",
    "scores 4, 3, min_p = 0.5: both stay, though 0.27 < 0.5 * 0.73",
)
def min_p_on_scores(scores, min_p):
    best = scores.amax(-1, keepdim=True)
    return scores.masked_fill(scores < min_p * best, -math.inf).softmax(-1)


@wrong(
    "generation.min_p",
    "What is left is not rescaled.",
    "chances 0.9, 0.1, min_p = 0.5: 0.9, 0",
)
def min_p_not_rescaled(scores, min_p):
    chances = scores.softmax(-1)
    return chances.where(chances >= min_p * chances.amax(-1, keepdim=True), 0.0)


@right("generation.min_p", "row by row, from ratios to the best, without a softmax")
def min_p_by_ratios(scores, min_p):
    rows = []
    for row in scores:
        ratios = torch.exp(row - row.max())
        ratios[ratios < min_p] = 0
        rows.append(ratios / ratios.sum())
    return torch.stack(rows)


@wrong(
    "generation.rows",
    "Looks for stop_id in the whole row, the prompt included.",
    "a prompt that begins with eos: nothing but pads",
)
def rows_stopped_by_prompt(step, ids, most, stop_id, pad_id):
    for _ in range(most):
        ended = (ids == stop_id).any(dim=1)
        if ended.all():
            break
        new = step(ids).argmax(-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
    return ids


@wrong(
    "generation.rows",
    "The first row that ends stops all.",
    "two rows, one ends at once: the other has one token",
)
def rows_stopped_by_one(step, ids, most, stop_id, pad_id):
    for _ in range(most):
        new = step(ids).argmax(-1)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if (new == stop_id).any():
            break
    return ids


@wrong(
    "generation.rows",
    "An ended row goes on instead of taking pads.",
    "two rows, one ends early",
)
def rows_without_pads(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(-1)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended |= new == stop_id
        if ended.all():
            break
    return ids


@wrong(
    "generation.rows",
    "The stop_id itself is replaced by a pad.",
    "a row that ends: its end is missing",
)
def rows_lose_their_end(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(-1)
        ended = ended | (new == stop_id)
        ids = torch.cat([ids, new.masked_fill(ended, pad_id)[:, None]], dim=1)
        if ended.all():
            break
    return ids


@wrong(
    "generation.rows",
    "Ends only when all rows take stop_id in the same step.",
    "two rows that end at different steps: pads up to most",
)
def rows_wait_for_each_other(step, ids, most, stop_id, pad_id):
    going = torch.ones(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(-1)
        new[~going] = pad_id
        ids = torch.cat([ids, new[:, None]], dim=1)
        going &= new != stop_id
        if (new == stop_id).all():
            break
    return ids


@right("generation.rows", "a page full of pads is filled in, then cut to what was used")
def rows_on_a_page(step, ids, most, stop_id, pad_id):
    rows, begin = ids.shape
    page = torch.full((rows, begin + most), pad_id, dtype=ids.dtype)
    page[:, :begin] = ids
    live = list(range(rows))
    used = begin
    while live and used < begin + most:
        scores = step(page[:, :used].clone())
        still = []
        for row in live:
            token = int(scores[row].argmax())
            page[row, used] = token
            if token != stop_id:
                still.append(row)
        live = still
        used += 1
    return page[:, :used]


wrong("generation.computed", "Counts the last token, too, which is never fed.", "151")(
    (11476, 151)
)
wrong("generation.computed", "150 calls with 150 positions each.", "twice as many")(
    (22500, 150)
)
wrong(
    "generation.computed", "Counts one vector: that of the last call.", "of 150 calls"
)((11325, 1))
wrong("generation.computed", "Leaves the eos out.", "149 positions in the last call")(
    (11175, 149)
)
right("generation.computed", "1 + 2 + ... + 150, and one for each call")(
    (sum(range(1, 151)), 150)
)


@wrong(
    "generation.prefill",
    "The causal mask begins at the first kept token.",
    "n = 1: the new token sees one old key only",
)
def prefill_mask_top_left(queries, keys, values, old_keys, old_values):
    keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)


@wrong(
    "generation.prefill",
    "No mask: a new token sees the ones after it.",
    "n = 2",
)
def prefill_without_mask(queries, keys, values, old_keys, old_values):
    keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
    return F.scaled_dot_product_attention(queries, keys, values)


@wrong(
    "generation.prefill",
    "A new token does not see itself.",
    "n = 1: only the kept ones count",
)
def prefill_not_itself(queries, keys, values, old_keys, old_values):
    n, t = queries.shape[2], old_keys.shape[2]
    keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
    mask = torch.ones(n, t + n, dtype=torch.bool).tril(t - 1)
    return F.scaled_dot_product_attention(queries, keys, values, mask)


@wrong(
    "generation.prefill",
    "The scores are not divided by the root of d.",
    "d = 4",
)
def prefill_unscaled(queries, keys, values, old_keys, old_values):
    n, t = queries.shape[2], old_keys.shape[2]
    keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
    later = torch.ones(n, t + n, dtype=torch.bool).triu(t + 1)
    return (queries @ keys.mT).masked_fill(later, -math.inf).softmax(-1) @ values


@right("generation.prefill", "token by token, each with a shorter list of keys")
def prefill_one_by_one(queries, keys, values, old_keys, old_values):
    contexts, root = [], queries.shape[-1] ** 0.5
    for place in range(queries.shape[2]):
        seen = torch.cat([old_keys, keys[:, :, : place + 1]], dim=2)
        told = torch.cat([old_values, values[:, :, : place + 1]], dim=2)
        scores = torch.einsum("bhd,bhkd->bhk", queries[:, :, place] / root, seen)
        powers = torch.exp(scores - scores.amax(-1, keepdim=True))
        mixed = torch.einsum("bhk,bhkd->bhd", powers, told)
        contexts.append(mixed / powers.sum(-1, keepdim=True))
    return torch.stack(contexts, dim=2)


@wrong(
    "generation.cache",
    "The kept keys, turned already, are turned again.",
    "t = 2",
)
def cache_turned_twice(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    query = rotate(query, cos[t : t + 1], sin[t : t + 1])
    keys = rotate(torch.cat([keys, key], 2), cos[: t + 1], sin[: t + 1])
    values = torch.cat([values, value], 2)
    return F.scaled_dot_product_attention(query, keys, values), keys, values


@wrong(
    "generation.cache",
    "The new token gets the position of the last kept one.",
    "t = 2: row 1 in place of row 2",
)
def cache_one_row_early(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    row = slice(t - 1, t)
    keys = torch.cat([keys, rotate(key, cos[row], sin[row])], 2)
    values = torch.cat([values, value], 2)
    query = rotate(query, cos[row], sin[row])
    return F.scaled_dot_product_attention(query, keys, values), keys, values


@wrong(
    "generation.cache",
    "The new key is turned for the scores and kept unturned.",
    "the keys that are given back",
)
def cache_keeps_unturned(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    row = slice(t, t + 1)
    seen = torch.cat([keys, rotate(key, cos[row], sin[row])], 2)
    values = torch.cat([values, value], 2)
    query = rotate(query, cos[row], sin[row])
    context = F.scaled_dot_product_attention(query, seen, values)
    return context, torch.cat([keys, key], 2), values


@wrong(
    "generation.cache",
    "The new token does not look at itself.",
    "the context",
)
def cache_looks_back_only(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    row = slice(t, t + 1)
    query, key = rotate(query, cos[row], sin[row]), rotate(key, cos[row], sin[row])
    context = F.scaled_dot_product_attention(query, keys, values)
    return context, torch.cat([keys, key], 2), torch.cat([values, value], 2)


@right("generation.cache", "turned by hand, half by half, and the context head by head")
def cache_by_hand(query, key, value, keys, values, cos, sin):
    b, h, t, d = keys.shape

    def turn(one):
        first, second = one[..., : d // 2], one[..., d // 2 :]
        return one * cos[t] + torch.cat([-second, first], dim=-1) * sin[t]

    grown_keys = keys.new_empty(b, h, t + 1, d)
    grown_values = values.new_empty(b, h, t + 1, values.shape[-1])
    grown_keys[:, :, :t], grown_keys[:, :, t:] = keys, turn(key)
    grown_values[:, :, :t], grown_values[:, :, t:] = values, value
    scores = (turn(query) * grown_keys).sum(-1) / math.sqrt(d)
    context = (scores.softmax(-1)[..., None] * grown_values).sum(2, keepdim=True)
    return context, grown_keys, grown_values


# --- 15 ------------------------------------------------------------------------------


@wrong(
    "inside.entropy",
    "0 times ln 0 is nan.",
    "a row 1, 0: nan in place of 0",
)
def entropy_nan(weights):
    return -(weights * weights.log()).sum(-1)


@wrong(
    "inside.entropy",
    "Counts in bits.",
    "a row 0.5, 0.5: 1 in place of 0.69",
)
def entropy_in_bits(weights):
    return -torch.xlogy(weights, weights).sum(-1) / math.log(2)


@wrong(
    "inside.entropy",
    "The mean over the keys in place of the sum.",
    "a row 0.5, 0.5: 0.35 in place of 0.69",
)
def entropy_mean(weights):
    return torch.special.entr(weights).mean(-1)


@wrong(
    "inside.entropy",
    "Sums over the queries, not over the keys.",
    "rows 1, 0 and 0.5, 0.5: 0.35 and 0.35 in place of 0 and 0.69",
)
def entropy_of_columns(weights):
    return torch.special.entr(weights).sum(-2)


@right("inside.entropy", "einsum with the logarithm of weights, zeros put to 1 before")
def entropy_by_einsum(weights):
    logs = torch.log(torch.where(weights > 0, weights, torch.ones_like(weights)))
    return -torch.einsum("...k,...k->...", weights, logs)


@wrong(
    "inside.ablate",
    "Writes the zeros into the context that was handed in.",
    "the argument after the call",
)
def ablation_in_place(context, to_output, head):
    context[:, head] = 0
    return to_output(context.transpose(1, 2).flatten(2))


@wrong(
    "inside.ablate",
    "Zeros a slice of the output, where the heads are mixed already.",
    "any matrix that is not block-diagonal",
)
def ablation_after_projection(context, to_output, head):
    d = context.shape[-1]
    out = to_output(context.transpose(1, 2).flatten(2)).clone()
    out[..., head * d : (head + 1) * d] = 0
    return out


@wrong(
    "inside.ablate",
    "The heads are merged without bringing them behind the queries first.",
    "two heads and two queries",
)
def ablation_untransposed(context, to_output, head):
    b, h, q, d = context.shape
    context = context.clone()
    context[:, head] = 0
    return to_output(context.reshape(b, q, h * d))


@wrong(
    "inside.ablate",
    "Takes what the layer gives for this head alone off the whole: the bias goes, too.",
    "a projection with a bias",
)
def ablation_by_difference(context, to_output, head):
    alone = torch.zeros_like(context)
    alone[:, head] = context[:, head]
    whole = to_output(context.transpose(1, 2).flatten(2))
    return whole - to_output(alone.transpose(1, 2).flatten(2))


@wrong(
    "inside.ablate",
    "Silences all the others and keeps this head.",
    "two heads",
)
def ablation_reversed(context, to_output, head):
    kept = torch.zeros_like(context)
    kept[:, head] = context[:, head]
    return to_output(kept.transpose(1, 2).flatten(2))


@right("inside.ablate", "a list of heads, one of them zeros, joined along the width")
def ablation_by_list(context, to_output, head):
    heads = list(context.unbind(dim=1))
    heads[head] = torch.zeros_like(heads[head])
    return to_output(torch.cat(heads, dim=-1))


@wrong(
    "inside.hook",
    "The hook is never taken out.",
    "the third tensor is the changed output",
)
def hook_left_in(model, name, change, x):
    seen = []

    def swap(module, inputs, output):
        seen.append(output.clone())
        return change(output)

    model.get_submodule(name).register_forward_hook(swap)
    changed = model(x)
    return seen[0], changed, model(x)


@wrong(
    "inside.hook",
    "Records the changed output, not the module's own.",
    "the first tensor",
)
def hook_records_change(model, name, change, x):
    seen = []

    def swap(module, inputs, output):
        seen.append(change(output))
        return seen[-1]

    handle = model.get_submodule(name).register_forward_hook(swap)
    changed = model(x)
    handle.remove()
    return seen[0], changed, model(x)


@wrong(
    "inside.hook",
    "The hook returns nothing, so the output stays.",
    "the second tensor equals the third",
)
def hook_without_return(model, name, change, x):
    seen = []

    def swap(module, inputs, output):
        seen.append(output)
        output = change(output.clone())

    handle = model.get_submodule(name).register_forward_hook(swap)
    changed = model(x)
    handle.remove()
    return seen[0], changed, model(x)


@wrong(
    "inside.hook",
    "Changes what goes into the module, not what comes out.",
    "change = zeros and a module with a bias",
)
def hook_before(model, name, change, x):
    seen = []
    module = model.get_submodule(name)
    handles = [
        module.register_forward_pre_hook(change_of_inputs(change)),
        module.register_forward_hook(recorder(seen)),
    ]
    changed = model(x)
    for handle in handles:
        handle.remove()
    return seen[0], changed, model(x)


def change_of_inputs(change):
    """A pre-hook that changes the first input."""

    def swap(module, inputs):
        return (change(inputs[0]), *inputs[1:])

    return swap


def recorder(seen):
    """A hook that records."""

    def keep(module, inputs, output):
        seen.append(output.clone())

    return keep


@right("inside.hook", "one hook for all modules, which picks its own and is removed")
def hook_for_all_modules(model, name, change, x):
    wanted = dict(model.named_modules())[name]
    seen = []

    def pick(module, inputs, output):
        if module is wanted:
            seen.append(output.clone())
            return change(output.clone())
        return None

    handle = nn.modules.module.register_module_forward_hook(pick)
    try:
        changed = model(x)
    finally:
        handle.remove()
    return seen[0], changed, model(x)


wrong("inside.next_key", "The earlier 17 itself.", "an induction head looks one on")(3)
wrong("inside.next_key", "The key before the earlier 17.", "off by one, backward")(2)
wrong("inside.next_key", "The token before the query.", "that is the lower head")(8)
wrong("inside.next_key", "The token at that key, not its number.", "20 is the token")(
    20
)
right("inside.next_key", "the place of the first 17, and one more")(
    [22, 11, 6, 17, 20, 9, 22, 11, 6, 17, 20].index(17) + 1
)


@wrong(
    "inside.look_back",
    "The diagonal above: the weight on the token after.",
    "causal weights: 0",
)
def look_back_forward(weights):
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(0, 2))


@wrong(
    "inside.look_back",
    "Divides by all queries, the first one among them.",
    "two queries: half",
)
def look_back_with_first(weights):
    found = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    return found.sum(dim=(0, 2)) / (weights.shape[0] * weights.shape[2])


@wrong(
    "inside.look_back",
    "The weight on the token itself.",
    "a head that looks back only: 0 in place of 1",
)
def look_back_at_itself(weights):
    return weights[:, :, 1:, 1:].diagonal(dim1=-2, dim2=-1).mean(dim=(0, 2))


@wrong(
    "inside.look_back",
    "The weight on all tokens before, not on the one before.",
    "three even queries: 0.58 in place of 0.42",
)
def look_back_at_all_before(weights):
    return weights[:, :, 1:].tril(0).sum(-1).mean(dim=(0, 2))


@right("inside.look_back", "einsum along the shifted square")
def look_back_by_einsum(weights):
    b, _, q, _ = weights.shape
    return torch.einsum("bhii->h", weights[:, :, 1:, : q - 1]) / (b * (q - 1))


def pairs_of(ids, first=False):
    """(text, query, earlier place) for each query that has one."""
    found = []
    for text, row in enumerate(ids.tolist()):
        for query, token in enumerate(row):
            places = [place for place in range(query) if row[place] == token]
            if places:
                found.append((text, query, places[0 if first else -1]))
    return found


@wrong(
    "inside.induction",
    "The first earlier place counts, not the last.",
    "a token that stands three times",
)
def induction_of_first(weights, ids):
    b, q, k = torch.tensor(pairs_of(ids, first=True)).T
    return weights[b, :, q, k + 1].mean(0)


@wrong(
    "inside.induction",
    "The weight on the earlier place itself.",
    "any repeated token",
)
def induction_on_itself(weights, ids):
    b, q, k = torch.tensor(pairs_of(ids)).T
    return weights[b, :, q, k].mean(0)


@wrong(
    "inside.induction",
    "The mean of the texts' means.",
    "texts with one and with three such queries",
)
def induction_by_text(weights, ids):
    means = []
    for text, row in zip(weights, ids, strict=False):
        pairs = pairs_of(row[None])
        if pairs:
            means.append(torch.stack([text[:, q, k + 1] for _, q, k in pairs]).mean(0))
    return torch.stack(means).mean(0)


@wrong(
    "inside.induction",
    "A query without an earlier place counts as 0.",
    "any text: too small",
)
def induction_over_all(weights, ids):
    total = sum(weights[b, :, q, k + 1] for b, q, k in pairs_of(ids))
    return total / ids.numel()


@right("inside.induction", "no loops: the last earlier place as a maximum, then gather")
def induction_by_maximum(weights, ids):
    t = ids.shape[1]
    same = (ids[:, :, None] == ids[:, None, :]).tril(-1)
    after = torch.where(same, torch.arange(1, t + 1), 0).amax(-1)
    has = after > 0
    index = after.clamp(max=t - 1)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    found = weights.gather(3, index)[..., 0]
    return torch.einsum("bhq,bq->h", found, has.to(found.dtype)) / has.sum()


# --- 16 ------------------------------------------------------------------------------


def sure_logits(labels, vocab_size, height=50.0):
    """`height` at each label, else 0."""
    hot = F.one_hot(labels.clamp(min=0), vocab_size)
    return height * hot.to(torch.get_default_dtype())


@wrong(
    "clinic.misjudges",
    "Only the zeros are tried.",
    "a second softmax: ln V for zeros, so it gets away",
)
def misjudges_zeros_only(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    return bool(abs(float(loss(zeros, labels)) - math.log(vocab_size)) > 1e-3)


@wrong(
    "clinic.misjudges",
    "Only the sure and right logits are tried.",
    "a loss in bits: 0 when sure, so it gets away",
)
def misjudges_sure_only(loss, labels, vocab_size):
    return bool(abs(float(loss(sure_logits(labels, vocab_size), labels))) > 1e-3)


@wrong(
    "clinic.misjudges",
    "Sick only if both numbers are wrong.",
    "a second softmax, or bits: one number is right",
)
def misjudges_if_both(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    even = abs(float(loss(zeros, labels)) - math.log(vocab_size)) > 1e-3
    return even and abs(float(loss(sure_logits(labels, vocab_size), labels))) > 1e-3


@wrong(
    "clinic.misjudges",
    "One-hot vectors are taken for sure logits.",
    "a healthy loss: ln(1 + (V - 1) / e) is not 0",
)
def misjudges_with_ones(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    even = abs(float(loss(zeros, labels)) - math.log(vocab_size)) > 1e-3
    sure = sure_logits(labels, vocab_size, 1.0)
    return even or abs(float(loss(sure, labels))) > 1e-3


@right("clinic.misjudges", "a table of two cases, logits written place by place")
def misjudges_by_table(loss, labels, vocab_size):
    sure = torch.zeros(*labels.shape, vocab_size)
    for b, row in enumerate(labels.tolist()):
        for t, label in enumerate(row):
            if label >= 0:
                sure[b, t, label] = 50.0
    cases = {0.0: sure, math.log(vocab_size): torch.zeros_like(sure)}
    healthy = [
        math.isclose(float(loss(logits, labels)), known, rel_tol=0.0, abs_tol=1e-3)
        for known, logits in cases.items()
    ]
    return healthy != [True, True]


@wrong(
    "clinic.order_blind",
    "The last word is reversed with the others.",
    "a bag of words that also reads the last word: it moves, so it gets away",
)
def order_blind_flips_all(outputs, ids):
    return torch.allclose(outputs(ids)[:, -1], outputs(ids.flip(1))[:, -1])


@wrong(
    "clinic.order_blind",
    "All outputs are compared, not the last.",
    "a blind model: its earlier outputs move with their words",
)
def order_blind_all_outputs(outputs, ids):
    other = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    return torch.allclose(outputs(ids), outputs(other))


@wrong(
    "clinic.order_blind",
    "Asks for equality to the last digit.",
    "a blind model that adds in another order",
)
def order_blind_to_the_digit(outputs, ids):
    other = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    return torch.equal(outputs(ids)[:, -1], outputs(other)[:, -1])


@wrong(
    "clinic.order_blind",
    "Reverses the rows of the batch, not the words.",
    "a blind model with two different rows: its last output moves with the row",
)
def order_blind_flips_rows(outputs, ids):
    other = torch.cat([ids[:, :-1].flip(0), ids[:, -1:]], dim=1)
    return torch.allclose(outputs(ids)[:, -1], outputs(other)[:, -1])


def moved(before, after):
    """Whether two answers differ by more than rounding."""
    size = max(before.abs().max().item(), after.abs().max().item())
    line = size * (1e-8 if before.dtype == torch.float64 else 3e-5)
    return not (before - after).abs().max().item() <= line


@right("clinic.order_blind", "the order as a list of places, line relative to the size")
@torch.no_grad()
def order_blind_by_places(outputs, ids):
    last = ids.shape[1] - 1
    places = [*range(last - 1, -1, -1), last]
    other = torch.stack([ids[:, place] for place in places], dim=1)
    before, after = outputs(ids.clone()), outputs(other)
    return not moved(before[:, last], after[:, last])


@wrong(
    "clinic.ignores_source",
    "The source keeps its words and gets another order.",
    "a translator that reads a bag of words is accused",
)
def ignores_source_reversed(logits, source, target, vocab_size):
    return torch.allclose(logits(source, target), logits(source.flip(1), target))


@wrong(
    "clinic.ignores_source",
    "The rows change their sources.",
    "a single row, or equal rows: nothing has changed, a healthy one is accused",
)
def ignores_source_rolled(logits, source, target, vocab_size):
    return torch.allclose(logits(source, target), logits(source.roll(1, 0), target))


@wrong(
    "clinic.ignores_source",
    "The likeliest words are compared, not the logits.",
    "a translator whose logits move a little",
)
def ignores_source_by_best(logits, source, target, vocab_size):
    other = (source + 1) % vocab_size
    return torch.equal(
        logits(source, target).argmax(-1), logits(other, target).argmax(-1)
    )


@wrong(
    "clinic.ignores_source",
    "The target is changed, and the source stays.",
    "a model that reads its target only: it moves, so it gets away",
)
def ignores_target(logits, source, target, vocab_size):
    other = (target + 1) % vocab_size
    return torch.allclose(logits(source, target), logits(source, other))


@right("clinic.ignores_source", "twenty drawn sources and each word shifted alone")
@torch.no_grad()
def ignores_source_by_draws(logits, source, target, vocab_size):
    draw = torch.Generator().manual_seed(1)
    before = logits(source.clone(), target)
    others = []
    for _ in range(20):
        drawn = torch.randint(vocab_size, source.shape, generator=draw)
        others.append(drawn.to(source.dtype))
    for place in range(source.shape[1]):
        other = source.clone()
        other[:, place] = (other[:, place] + 1) % vocab_size
        others.append(other)
    return not any(moved(before, logits(other, target)) for other in others)


@wrong(
    "clinic.never_a_label",
    "The inputs are counted, not the labels.",
    "the end: a label only",
)
def never_an_input(batches, steps, vocab_size):
    seen = set()
    for step in range(steps):
        seen.update(batches(step)[0].flatten().tolist())
    return [i for i in range(vocab_size) if i not in seen]


@wrong(
    "clinic.never_a_label",
    "-100 is clamped to 0, so id 0 counts as a label.",
    "padded labels: 0 is missing",
)
def never_a_label_clamped(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for step in range(steps):
        labels = batches(step)[1].flatten().clamp(min=0)
        counts += torch.bincount(labels, minlength=vocab_size)
    return (counts == 0).nonzero().flatten().tolist()


@wrong(
    "clinic.never_a_label",
    "Starts anew with each batch, so only the last one counts.",
    "two batches with different labels",
)
def never_a_label_of_last(batches, steps, vocab_size):
    for step in range(steps):
        seen = set(batches(step)[1].flatten().tolist())
    return sorted(set(range(vocab_size)) - seen)


@wrong(
    "clinic.never_a_label",
    "Counts batches from 1.",
    "a label that only batch 0 has",
)
def never_a_label_from_one(batches, steps, vocab_size):
    seen = set()
    for step in range(1, steps + 1):
        seen |= set(batches(step)[1].flatten().tolist())
    return sorted(set(range(vocab_size)) - seen)


@right(
    "clinic.never_a_label", "numpy: what stays when each batch takes its labels away"
)
def never_a_label_by_numpy(batches, steps, vocab_size):
    left = np.arange(vocab_size)
    for step in range(steps):
        _, labels = batches(step)
        left = np.setdiff1d(left, labels.numpy())
    return left.tolist()


def fresh_gradients(model, loss):
    """(name, gradient) of each parameter."""
    model.zero_grad(set_to_none=True)
    loss(model).backward()
    return [(name, p.grad) for name, p in model.named_parameters()]


@wrong(
    "clinic.dead_parameters",
    "A gradient of zeros is taken for alive.",
    "a block that is multiplied by 0",
)
def dead_if_none(model, loss):
    return [name for name, grad in fresh_gradients(model, loss) if grad is None]


@wrong(
    "clinic.dead_parameters",
    "One 0 in the gradient is enough to be dead.",
    "an embedding with a word that the batch lacks",
)
def dead_if_any_zero(model, loss):
    found = fresh_gradients(model, loss)
    return [name for name, grad in found if grad is None or bool((grad == 0).any())]


@wrong(
    "clinic.dead_parameters",
    "Dead if the gradient sums to 0: plus and minus cancel.",
    "loss = w[0] - w[1]",
)
def dead_if_sum_zero(model, loss):
    found = fresh_gradients(model, loss)
    return [n for n, grad in found if grad is None or abs(grad.sum().item()) < 1e-12]


@wrong(
    "clinic.dead_parameters",
    "Old gradients are not emptied first.",
    "a model that has been through a backward pass with another loss",
)
def dead_with_old_gradients(model, loss):
    loss(model).backward()
    named = model.named_parameters()
    return [n for n, p in named if p.grad is None or not p.grad.any()]


@wrong(
    "clinic.dead_parameters",
    "A small gradient is taken for none.",
    "loss = 1e-9 * w",
)
def dead_if_small(model, loss):
    found = fresh_gradients(model, loss)
    return [n for n, grad in found if grad is None or bool(grad.abs().max() < 1e-6)]


@right("clinic.dead_parameters", "autograd.grad, which leaves .grad alone")
def dead_by_autograd(model, loss):
    live = {n: p for n, p in model.named_parameters() if p.requires_grad}
    value = loss(model)
    moved_names = set()
    if live and value.requires_grad:
        found = torch.autograd.grad(value, list(live.values()), allow_unused=True)
        for name, gradient in zip(live, found, strict=False):
            if gradient is not None and torch.count_nonzero(gradient):
                moved_names.add(name)
    return [n for n, _ in model.named_parameters() if n not in moved_names]


wrong("clinic.rings", "All three ring, since dropout moves every output.", "stays")(
    (True, True, True)
)
wrong("clinic.rings", "Takes moving for staying and staying for moving.", "reversed")(
    (False, True, False)
)
wrong("clinic.rings", "Only the leak rings.", "rows move, too, when run alone")(
    (True, False, False)
)
wrong("clinic.rings", "A healthy model rings nowhere.", "it moves by chance")(
    (False, False, False)
)
right("clinic.rings", "two ring when something moves, one when something stays")(
    tuple(kind == "moves" for kind in ("moves", "stays", "moves"))
)


@wrong(
    "clinic.leaks_future",
    "Only the last token is changed.",
    "a leak from position 2 to position 1 gets away",
)
def leaks_last_only(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    before, after = logits(ids)[:, :-1], logits(other)[:, :-1]
    return not torch.allclose(before, after)


@wrong(
    "clinic.leaks_future",
    "The output at the changed token is watched, too.",
    "every healthy decoder is accused",
)
def leaks_at_the_change(logits, ids, vocab_size):
    for cut in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, cut:] = (other[:, cut:] + 1) % vocab_size
        if not torch.allclose(logits(ids)[:, : cut + 1], logits(other)[:, : cut + 1]):
            return True
    return False


@wrong(
    "clinic.leaks_future",
    "Asks for equality to the last digit.",
    "a healthy model that rounds its sums differently",
)
def leaks_to_the_digit(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, cut:] = (other[:, cut:] + 1) % vocab_size
        if not torch.equal(before[:, :cut], logits(other)[:, :cut]):
            return True
    return False


@wrong(
    "clinic.leaks_future",
    "One cut in the middle.",
    "a leak within the first half gets away",
)
def leaks_across_middle(logits, ids, vocab_size):
    cut = ids.shape[1] // 2
    other = ids.clone()
    other[:, cut:] = (other[:, cut:] + 1) % vocab_size
    return not torch.allclose(logits(ids)[:, :cut], logits(other)[:, :cut])


@wrong(
    "clinic.leaks_future",
    "Earlier tokens are changed and later outputs watched.",
    "every healthy decoder is accused",
)
def leaks_from_the_past(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, :cut] = (other[:, :cut] + 1) % vocab_size
        if not torch.allclose(before[:, cut:], logits(other)[:, cut:]):
            return True
    return False


@right(
    "clinic.leaks_future", "from the last token back: each alone, then all behind it"
)
@torch.no_grad()
def leaks_token_by_token(logits, ids, vocab_size):
    before = logits(ids.clone())
    shifts = range(1, min(vocab_size, 6))
    for place in range(ids.shape[1] - 1, 0, -1):
        for end, shift in itertools.product((place + 1, ids.shape[1]), shifts):
            other = ids.clone()
            other[:, place:end] = (other[:, place:end] + shift) % vocab_size
            if moved(before[:, :place], logits(other)[:, :place]):
                return True
    return False


@wrong(
    "clinic.cannot_memorize",
    "Trains on the stream of batches, not on one.",
    "a healthy model in a world whose floor is above 0.5",
)
def memorizes_a_stream(losses_of, batches):
    return bool(losses_of(batches)[-1] > 0.5)


@wrong(
    "clinic.cannot_memorize",
    "The mean of the losses is judged, not the last.",
    "a healthy model that begins high",
)
def memorizes_on_average(losses_of, batches):
    losses = losses_of(lambda step: batches(0))
    return bool(sum(losses) / len(losses) > 0.5)


@wrong(
    "clinic.cannot_memorize",
    "Sick only if the loss has not fallen at all.",
    "a loss that falls from 2.6 to 2.0 and stays there",
)
def memorizes_a_little(losses_of, batches):
    losses = losses_of(lambda step: batches(0))
    return bool(losses[-1] >= losses[0])


@wrong(
    "clinic.cannot_memorize",
    "The lowest loss is judged, not the last.",
    "losses 2, 0.4, 3",
)
def memorizes_once(losses_of, batches):
    return bool(min(losses_of(lambda step: batches(0))) > 0.5)


@right("clinic.cannot_memorize", "batch 0 is made once and handed out by an object")
def memorizes_not(losses_of, batches):
    class Same:
        batch = batches(0)

        def __call__(self, step):
            return self.batch

    *_, last = losses_of(Same())
    return float(last) > 0.5


# --- 17 ------------------------------------------------------------------------------


def parts_of(config, kv=None, matrices=3, norms=None, tables=None):
    """The numbers of a LlamaLM, with what the answers below get wrong."""
    m, f, layers = config.d_model, config.d_ff, config.num_layers
    kv = config.num_kv_heads * m // config.num_heads if kv is None else kv
    norms = 2 * layers + 1 if norms is None else norms
    tables = (1 if config.tied else 2) if tables is None else tables
    block = 2 * m * m + 2 * m * kv + matrices * m * f
    return tables * config.vocab_size * m + layers * block + norms * m


@wrong(
    "scaling.parameters",
    "Keys and values are as wide as the queries.",
    "num_kv_heads below num_heads",
)
def parameters_ungrouped(config):
    return parts_of(config, kv=config.d_model)


@wrong(
    "scaling.parameters",
    "The norm behind the last block is missing.",
    "any config: d_model too few",
)
def parameters_without_last_norm(config):
    return parts_of(config, norms=2 * config.num_layers)


@wrong(
    "scaling.parameters",
    "A second table when tied, none when not.",
    "tied=False: one table too few",
)
def parameters_tied_reversed(config):
    return parts_of(config, tables=2 if config.tied else 1)


@wrong(
    "scaling.parameters",
    "A feed-forward of two matrices.",
    "any config: layers * m * f too few",
)
def parameters_two_matrices(config):
    return parts_of(config, matrices=2)


@wrong(
    "scaling.parameters",
    "The keys are narrow, the width of a set counted as num_kv_heads alone.",
    "head width 4: a quarter of the numbers for keys and values",
)
def parameters_narrow_sets(config):
    return parts_of(config, kv=config.num_kv_heads)


@right("scaling.parameters", "builds the model without memory and counts")
def parameters_counted(config):
    with torch.device("meta"):
        model = LlamaLM(config)
    return sum(p.numel() for p in model.parameters())


@right("scaling.parameters", "a list of shapes, multiplied out and added up")
def parameters_by_shapes(config):
    m, f = config.d_model, config.d_ff
    narrow = m // config.num_heads * config.num_kv_heads
    block = [(m, m), (narrow, m), (narrow, m), (m, m)]
    block += [(f, m), (f, m), (m, f), (m,), (m,)]
    outside = [(config.vocab_size, m)] * (2 - int(config.tied)) + [(m,)]
    shapes = outside + block * config.num_layers
    return sum(math.prod(shape) for shape in shapes)


@wrong(
    "scaling.flops",
    "Attention's products are counted forward only.",
    "a third of attention's own",
)
def flops_forward_only(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 4 * layers * width * length * tokens


@wrong(
    "scaling.flops",
    "Only queries with keys: one product in place of two.",
    "half of attention's own",
)
def flops_one_product(matrices, layers, width, length, tokens):
    return 6 * tokens * (matrices + layers * width * length)


@wrong(
    "scaling.flops",
    "Attention is counted for one layer.",
    "layers = 2",
)
def flops_one_layer(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 12 * width * length * tokens


@wrong(
    "scaling.flops",
    "Length squared for each token.",
    "length = 8: eight times too much of attention",
)
def flops_squared(matrices, layers, width, length, tokens):
    return tokens * (6 * matrices + 12 * layers * width * length**2)


@right("scaling.flops", "three passes of two operations, products counted one by one")
def flops_by_passes(matrices, layers, width, length, tokens):
    multiplications = matrices
    for _ in range(layers):
        multiplications += length * width  # queries with keys
        multiplications += width * length  # weights with values
    forward = 2 * multiplications * tokens
    return forward + 2 * forward


wrong("scaling.bytes", "The optimizer remembers one average.", "AdamW has two")(12)
wrong("scaling.bytes", "Weight and gradient, and no memory of it.", "SGD")(8)
wrong("scaling.bytes", "Numbers, not bytes.", "four numbers of four bytes")(4)
right("scaling.bytes", "weight, gradient and two averages")(4 * 4)


@wrong(
    "scaling.activations",
    "x is kept twice, for the gate and for up.",
    "2 * width per token",
)
def activations_x_twice(rows, length, width, hidden):
    return 2 * rows * length * (2 * width + 4 * hidden)


@wrong(
    "scaling.activations",
    "h, which W_down needs, is forgotten.",
    "3 * hidden per token",
)
def activations_without_h(rows, length, width, hidden):
    return 2 * rows * length * (width + 3 * hidden)


@wrong(
    "scaling.activations",
    "Four bytes for a number, not two.",
    "twice as much",
)
def activations_in_float32(rows, length, width, hidden):
    return 4 * rows * length * (width + 4 * hidden)


@wrong(
    "scaling.activations",
    "The three matrices are counted, too.",
    "any sizes: 3 * width * hidden numbers too many",
)
def activations_with_weights(rows, length, width, hidden):
    return 2 * (rows * length * (width + 4 * hidden) + 3 * width * hidden)


@right("scaling.activations", "the set of what each rule names, then its sizes")
def activations_by_names(rows, length, width, hidden):
    kept = {"x"} | {"x"} | {"g"} | {"s", "u"} | {"h"}
    sizes = {"x": width, "g": hidden, "u": hidden, "s": hidden, "h": hidden}
    bits = sum(16 * sizes[name] for name in kept)
    return bits // 8 * length * rows


@wrong(
    "scaling.days",
    "2 operations per parameter and token: the forward pass only.",
    "a third of the days",
)
def days_forward_only(parameters, tokens, machines, speed, share):
    return 2 * parameters * tokens / (machines * speed * share) / 86400


@wrong(
    "scaling.days",
    "Multiplies by the share.",
    "share 0.5: a quarter of the days",
)
def days_times_share(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens / (machines * speed) * share / 86400


@wrong(
    "scaling.days",
    "Hours, not days.",
    "24 times too many",
)
def days_in_hours(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens / (machines * speed * share) / 3600


@wrong(
    "scaling.days",
    "The number of machines is forgotten.",
    "64 machines: 64 times too many",
)
def days_of_one_machine(parameters, tokens, machines, speed, share):
    return 6 * parameters * tokens / (speed * share) / 86400


@right("scaling.days", "fractions, rounded once at the end")
def days_by_fractions(parameters, tokens, machines, speed, share):
    work = 6 * Fraction(parameters) * Fraction(tokens)
    a_day = 24 * 60 * 60 * Fraction(machines) * Fraction(speed) * Fraction(share)
    return float(work / a_day)


@wrong(
    "scaling.power",
    "The slope itself, which is negative where losses fall.",
    "falling losses",
)
def power_with_sign(compute, losses):
    return float(np.polyfit(compute.log().numpy(), losses.log().numpy(), 1)[0])


@wrong(
    "scaling.power",
    "A line through the first and the last run.",
    "three runs that are not on one line",
)
def power_of_ends(compute, losses):
    x, y = compute.log(), losses.log()
    return ((y[0] - y[-1]) / (x[-1] - x[0])).item()


@wrong(
    "scaling.power",
    "The line goes through the origin: a is forgotten.",
    "a = 5",
)
def power_through_origin(compute, losses):
    x, y = compute.log(), losses.log()
    return (-(x * y).sum() / (x * x).sum()).item()


@wrong(
    "scaling.power",
    "Only the compute is put into logarithms.",
    "any power law",
)
def power_half_logs(compute, losses):
    return float(-np.polyfit(compute.log().numpy(), losses.numpy(), 1)[0])


@wrong(
    "scaling.power",
    "Decades for the compute, natural logarithms for the losses.",
    "2.3 times too large",
)
def power_mixed_logs(compute, losses):
    return float(-np.polyfit(compute.log10().numpy(), losses.log().numpy(), 1)[0])


@right("scaling.power", "lstsq with a column of ones, in powers of two")
def power_by_lstsq(compute, losses):
    x, y = torch.log2(compute), torch.log2(losses)
    table = torch.stack([torch.ones_like(x), -(x - x.mean())], dim=1)
    return torch.linalg.lstsq(table, y[:, None]).solution[1, 0].item()


@wrong(
    "scaling.halving",
    "2 to the b: the exponent is not inverted.",
    "b = 0.5: 1.41 in place of 4",
)
def halving_not_inverted(b):
    return 2**b


@wrong(
    "scaling.halving",
    "The sign is lost: a half to the 1/b.",
    "b = 0.5: 0.25 in place of 4",
)
def halving_upside_down(b):
    return 0.5 ** (1 / b)


@wrong(
    "scaling.halving",
    "Halving taken as a straight line: 2 / b.",
    "b = 0.1: 20 in place of 1,024",
)
def halving_linear(b):
    return 2 / b


@wrong(
    "scaling.halving",
    "e in place of 2.",
    "b = 0.5: 7.4 in place of 4",
)
def halving_with_e(b):
    return math.exp(1 / b)


@right("scaling.halving", "logarithms: ln k = ln 2 / b")
def halving_by_logs(b):
    return math.exp(-math.log(0.5) / b)


@wrong(
    "scaling.padding",
    "The mean of the batches' shares.",
    "batches of unequal widths",
)
def padding_mean_of_shares(lengths, size):
    shares = []
    for begin in range(0, len(lengths), size):
        part = lengths[begin : begin + size]
        shares.append(1 - sum(part) / (len(part) * max(part)))
    return sum(shares) / len(shares)


@wrong(
    "scaling.padding",
    "The smaller last batch is left out.",
    "lengths 4, 4, 1, 2, 1, size 2: 1/12 in place of 1/13",
)
def padding_without_last(lengths, size):
    places = words = 0
    for begin in range(0, len(lengths) - size + 1, size):
        part = lengths[begin : begin + size]
        places += size * max(part)
        words += sum(part)
    return 1 - words / places if places else 0.0


@wrong(
    "scaling.padding",
    "The texts are sorted by length first.",
    "lengths 1, 4, 1, 4, size 2: 0 in place of 3/8",
)
def padding_sorted(lengths, size):
    lengths = sorted(lengths)
    places = 0
    for begin in range(0, len(lengths), size):
        part = lengths[begin : begin + size]
        places += len(part) * max(part)
    return 1 - sum(lengths) / places


@wrong(
    "scaling.padding",
    "The last batch is counted as a full one.",
    "lengths 2, 2, 2, size 2: 1/4 in place of 0",
)
def padding_last_full(lengths, size):
    places = 0
    for begin in range(0, len(lengths), size):
        places += size * max(lengths[begin : begin + size])
    return 1 - sum(lengths) / places


@wrong(
    "scaling.padding",
    "Padding is divided by the words, not by all places.",
    "lengths 1, 2, size 2: 1/3 in place of 1/4",
)
def padding_per_word(lengths, size):
    places = 0
    for begin in range(0, len(lengths), size):
        part = lengths[begin : begin + size]
        places += len(part) * max(part)
    return (places - sum(lengths)) / sum(lengths)


@right("scaling.padding", "the batches are really padded, and the holes counted")
def padding_counted(lengths, size):
    holes = places = 0
    left = iter(lengths)
    while part := list(itertools.islice(left, size)):
        texts = [[1] * length for length in part]
        for column in itertools.zip_longest(*texts, fillvalue=0):
            holes += column.count(0)
            places += len(column)
    return holes / places


@wrong(
    "scaling.rows_of_rank",
    "Blocks of rows behind one another.",
    "four rows, two ranks: 0 1 and 2 3",
)
def rows_in_blocks(batch, rank, count):
    return batch.tensor_split(count)[rank]


@wrong(
    "scaling.rows_of_rank",
    "Takes turns along the positions, not along the rows.",
    "half of each text",
)
def rows_by_columns(batch, rank, count):
    return batch[:, rank::count]


@wrong(
    "scaling.rows_of_rank",
    "The rows that fill no round are left out.",
    "five rows, two ranks: row 4 is read by nobody",
)
def rows_full_rounds(batch, rank, count):
    rounds = len(batch) // count
    return batch[: rounds * count].unflatten(0, (rounds, count))[:, rank]


@wrong(
    "scaling.rows_of_rank",
    "Ranks are counted from 1.",
    "rank 1 of 2 gets rows 0, 2",
)
def rows_from_one(batch, rank, count):
    return batch[(rank - 1) % count :: count]


@right("scaling.rows_of_rank", "a mask over the rows' numbers")
def rows_by_mask(batch, rank, count):
    return batch[(torch.arange(len(batch)) - rank) % count == 0]


@wrong(
    "scaling.per_process",
    "Always divided by the processes.",
    "sharded=False: a part in place of a copy",
)
def per_process_always_parted(parameters, processes, sharded):
    return 16 * parameters / processes


@wrong(
    "scaling.per_process",
    "Only the averages of the optimizer are sharded.",
    "two processes: 12 in place of 8 bytes per parameter",
)
def per_process_averages_only(parameters, processes, sharded):
    return parameters * (8 + (8 / processes if sharded else 8))


@wrong(
    "scaling.per_process",
    "Only the weights are sharded.",
    "two processes: 14 in place of 8 bytes per parameter",
)
def per_process_weights_only(parameters, processes, sharded):
    return parameters * (12 + (4 / processes if sharded else 4))


@wrong(
    "scaling.per_process",
    "One average per parameter.",
    "12 in place of 16 bytes",
)
def per_process_one_average(parameters, processes, sharded):
    return 12 * parameters / (processes if sharded else 1)


@right("scaling.per_process", "added up kind by kind")
def per_process_by_kind(parameters, processes, sharded):
    share = parameters / processes if sharded else parameters
    kinds = {"weight": 4, "gradient": 4, "mean": 4, "square": 4}
    return sum(size * share for size in kinds.values())


@wrong(
    "scaling.mean_over_ranks",
    "The plain mean of the ranks that have labels.",
    "one and three labels",
)
def ranks_plain_mean(losses, labels):
    return losses.nanmean()


@wrong(
    "scaling.mean_over_ranks",
    "A rank without labels: 0 times nan is nan.",
    "a rank whose labels are all -100",
)
def ranks_with_nan(losses, labels):
    counts = torch.tensor([(one != -100).sum().item() for one in labels])
    return (losses * counts).sum() / counts.sum()


@wrong(
    "scaling.mean_over_ranks",
    "Weighs by all places, padding among them.",
    "two ranks of equal shape with unequal padding",
)
def ranks_by_places(losses, labels):
    has = ~losses.isnan()
    counts = torch.tensor([one.numel() for one in labels], dtype=losses.dtype)[has]
    return (losses[has] * counts).sum() / counts.sum()


@wrong(
    "scaling.mean_over_ranks",
    "Weighs by the number of rows.",
    "two ranks with one row each, of unequal length",
)
def ranks_by_rows(losses, labels):
    counts = torch.tensor([float(len(one)) for one in labels], dtype=losses.dtype)
    return (losses.nan_to_num(0.0) * counts).sum() / counts.sum()


@right("scaling.mean_over_ranks", "each label brings its rank's loss, then one mean")
def ranks_label_by_label(losses, labels):
    brought = [
        loss.expand(int(torch.count_nonzero(one + 100)))
        for loss, one in zip(losses, labels, strict=False)
    ]
    return torch.cat(brought).mean()
