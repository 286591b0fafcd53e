"""Answers of a stranger, written from the prompts alone."""

import math
from collections import Counter

import torch
from torch.nn import functional as F

from course_utils.positions import rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# --- notebook 11 ---


@wrong(
    "backbone.heads_from_qkv",
    "Takes the axis as (h three d): each head's three parts side by side.",
    "two heads: the second head's queries come from the keys' columns",
)
def r_heads_inside_out(fused, num_heads):
    batch, length, width = fused.shape
    parts = fused.reshape(batch, length, num_heads, 3, width // (3 * num_heads))
    return parts.permute(3, 0, 2, 1, 4)


@wrong(
    "backbone.heads_from_qkv",
    "Reshapes to b h t d at once, where positions and heads should change places.",
    "two heads, two positions: head 0 holds both heads of position 0",
)
def r_heads_reshaped(fused, num_heads):
    batch, length, width = fused.shape
    head_dim = width // 3 // num_heads
    roles = fused.chunk(3, dim=-1)
    return torch.stack([r.reshape(batch, num_heads, length, head_dim) for r in roles])


@right("backbone.heads_from_qkv", "cuts the last axis twice and stacks the slices")
def r_heads_by_slices(fused, num_heads):
    roles = []
    for role in fused.tensor_split(3, dim=-1):
        heads = role.tensor_split(num_heads, dim=-1)
        roles.append(torch.stack(heads, dim=1))
    return torch.stack(roles)


@wrong(
    "backbone.next_token_loss",
    "Rolls the ids, so the last position should predict the first id.",
    "any text of two ids: the second position counts, too",
)
def r_next_rolled(logits, ids):
    labels = ids.roll(-1, dims=1)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


@wrong(
    "backbone.next_token_loss",
    "Divides the sum by all positions, though the last one predicts nothing.",
    "t = 2: half of what is wanted",
)
def r_next_over_all(logits, ids):
    chances = logits.log_softmax(-1)
    total = 0
    for i in range(ids.shape[1] - 1):
        total = total - chances[:, i].gather(1, ids[:, i + 1, None]).sum()
    return total / ids.numel()


@right("backbone.next_token_loss", "log of the sum minus the score of what came")
def r_next_by_logsumexp(logits, ids):
    before = logits[:, :-1]
    came = before.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    return (before.logsumexp(-1) - came).mean()


wrong("backbone.first_loss", "forgets the noise: ln V alone", "")(math.log(2981))
wrong("backbone.first_loss", "adds the whole variance, not its half", "")(
    math.log(2981) + 1.5**2
)
right("backbone.first_loss", "ln V plus half the variance")(math.log(2981) + 1.5**2 / 2)


@wrong(
    "backbone.one_batch",
    "The second loss is the one before the last step.",
    "steps = 1: both losses are equal",
)
def r_one_batch_too_early(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[0], losses[-1]


@wrong(
    "backbone.one_batch",
    "Descends the sum of a row's losses, so the rate is t times too large.",
    "t = 5: the reported loss before is right, the one after is another",
)
def r_one_batch_sum(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss(reduction):
        logits = model(inputs).flatten(0, 1)
        return F.cross_entropy(logits, labels.flatten(), reduction=reduction)

    before = loss("mean").item()
    for _ in range(steps):
        optimizer.zero_grad()
        (loss("sum") / len(inputs)).backward()
        optimizer.step()
    return before, loss("mean").item()


@right("backbone.one_batch", "steps + 1 losses, the last of them without a step")
def r_one_batch_measured(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for number in range(steps + 1):
        loss = F.cross_entropy(model(inputs).transpose(1, 2), labels)
        losses.append(float(loss.detach()))
        if number < steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses[0], losses[-1]


@wrong(
    "backbone.loss_by_position",
    "The flat losses are b t, and it cuts them as t b.",
    "b = 2, t = 3: position 0 gets the first two losses of row 0",
)
def r_position_cut_wrong(logits, labels):
    batch, length = labels.shape
    losses = F.cross_entropy(
        logits.reshape(batch * length, -1), labels.reshape(-1), reduction="none"
    )
    return losses.view(length, batch).mean(dim=1)


@wrong(
    "backbone.loss_by_position",
    "Takes the log of the mean probability, not the mean of the logs.",
    "rows of p = 0.1 and 0.9: -ln 0.5 instead of 1.2",
)
def r_position_mean_chance(logits, labels):
    chances = logits.softmax(-1).gather(-1, labels[:, :, None])[:, :, 0]
    return -chances.mean(dim=0).log()


@right("backbone.loss_by_position", "one position after the other")
def r_position_one_by_one(logits, labels):
    pairs = zip(logits.unbind(1), labels.unbind(1), strict=True)
    return torch.stack([F.cross_entropy(scores, ids) for scores, ids in pairs])


@wrong(
    "backbone.count_weights",
    "Attention has three matrices: the one back to the stream is forgotten.",
    "each block lacks d_model squared weights",
)
def r_count_no_output(vocab_size, length, d_model, blocks, d_ff):
    per_block = 3 * d_model**2 + 2 * d_model * d_ff
    return (vocab_size + length) * d_model + blocks * per_block


@wrong(
    "backbone.count_weights",
    "Takes the rule of 12 d² for a block and does not look at d_ff.",
    "d_model = 8, d_ff = 20; right where d_ff is 4 d_model",
)
def r_count_twelve(vocab_size, length, d_model, blocks, d_ff):
    return vocab_size * d_model + length * d_model + blocks * 12 * d_model**2


@right("backbone.count_weights", "the shapes of the matrices, multiplied and added")
def r_count_shapes(vocab_size, length, d_model, blocks, d_ff):
    shapes = [(vocab_size, d_model), (length, d_model)]
    for _ in range(blocks):
        shapes += [(d_model, 3 * d_model), (d_model, d_model)]
        shapes += [(d_model, d_ff), (d_ff, d_model)]
    return sum(rows * columns for rows, columns in shapes)


# --- notebook 12 ---


@wrong(
    "llama.rms_norm",
    "Divides by the variance's root, where the mean has been taken away.",
    "x = (1, 3): divides by 1 instead of the root of 5",
)
def r_rms_variance(x, scale, eps):
    variance = x.var(dim=-1, keepdim=True, unbiased=False)
    return x * torch.rsqrt(variance + eps) * scale


@wrong(
    "llama.rms_norm",
    "The mean is over all positions, so they share one divisor.",
    "a position of large numbers makes the other one small",
)
def r_rms_shared(x, scale, eps):
    rms = (x.pow(2).mean(dim=(-2, -1), keepdim=True) + eps).sqrt()
    return x / rms * scale


@right("llama.rms_norm", "the length of the vector over the root of the width")
def r_rms_by_length(x, scale, eps):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = torch.einsum("...m,...m->...", wide, wide) / x.shape[-1]
    return scale * (wide / (mean + eps).sqrt()[..., None]).to(x.dtype)


wrong("llama.hidden", "half the width, as there is one more matrix", "")(1536)
wrong("llama.hidden", "3/2 the wrong way: the width grows", "")(4608)
right("llama.hidden", "two thirds of 3,072")(2 * 768 * 3072 // (3 * 768))


@wrong(
    "llama.swiglu",
    "The gate is a GELU: that is GEGLU.",
    "z = 1: 0.841 instead of 0.731",
)
def r_swiglu_gelu(x, gate, up, down):
    return F.linear(F.gelu(F.linear(x, gate)) * F.linear(x, up), down)


@wrong(
    "llama.swiglu",
    "SiLU is taken of the product, not of the gate alone.",
    "gate 1 and up 2: silu(2) = 1.76 instead of 1.46",
)
def r_swiglu_around(x, gate, up, down):
    hidden = (x @ gate.T) * (x @ up.T)
    return F.silu(hidden) @ down.T


@right("llama.swiglu", "both projections in one product, SiLU by hand")
def r_swiglu_joined(x, gate, up, down):
    z, candidates = (x @ torch.cat([gate, up]).mT).chunk(2, dim=-1)
    return (z * torch.sigmoid(z) * candidates) @ down.mT


@wrong(
    "llama.repeat_keys",
    "Repeats each set as often as there are sets.",
    "g = 2, h = 8: four heads come out; with h = 4 it is right",
)
def r_repeat_by_sets(keys, num_heads):
    return keys.repeat_interleave(keys.shape[1], dim=1)


@wrong(
    "llama.repeat_keys",
    "The new axis stands before the sets, so they alternate.",
    "g = 2, h = 4: heads 0 1 0 1 instead of 0 0 1 1",
)
def r_repeat_alternating(keys, num_heads):
    batch, sets, length, width = keys.shape
    share = num_heads // sets
    wide = keys[:, None].expand(batch, share, sets, length, width)
    return wide.reshape(batch, num_heads, length, width)


@right("llama.repeat_keys", "looks up the set of each head")
def r_repeat_by_index(keys, num_heads):
    share = num_heads // keys.shape[1]
    return keys[:, torch.arange(num_heads, device=keys.device) // share]


def r_cut(x, matrix, head_dim):
    """Project, then "b t (h d)" to "b h t d"."""
    return (x @ matrix.mT).unflatten(-1, (-1, head_dim)).transpose(1, 2)


def r_causal(scores):
    """No query sees a later key."""
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1)


@wrong(
    "llama.grouped_attention",
    "Scales by the root of d_model, not by that of a head's width.",
    "two heads: the scores are smaller by the root of 2; one head is right",
)
def r_attention_scaled(x, to_queries, to_keys, to_values, to_output, table, num_heads):
    head_dim = to_queries.shape[0] // num_heads
    queries = rotate(r_cut(x, to_queries, head_dim), *table)
    keys = rotate(r_cut(x, to_keys, head_dim), *table)
    values = r_cut(x, to_values, head_dim)
    share = num_heads // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    weights = r_causal(queries @ keys.mT / x.shape[-1] ** 0.5)
    return (weights @ values).transpose(1, 2).flatten(2) @ to_output.mT


@wrong(
    "llama.grouped_attention",
    "Joins the heads without bringing the positions forward again.",
    "two heads, two positions: position 0 holds head 0 of both",
)
def r_attention_joined(x, to_queries, to_keys, to_values, to_output, table, num_heads):
    head_dim = to_queries.shape[0] // num_heads
    queries = rotate(r_cut(x, to_queries, head_dim), *table)
    keys = rotate(r_cut(x, to_keys, head_dim), *table)
    values = r_cut(x, to_values, head_dim)
    share = num_heads // keys.shape[1]
    context = F.scaled_dot_product_attention(
        queries,
        keys.repeat_interleave(share, dim=1),
        values.repeat_interleave(share, dim=1),
        is_causal=True,
    )
    return F.linear(context.reshape(*x.shape[:2], -1), to_output)


@right("llama.grouped_attention", "groups the queries instead of repeating the keys")
def r_attention_grouped(x, to_queries, to_keys, to_values, to_output, table, num_heads):
    head_dim = to_queries.shape[0] // num_heads
    queries = rotate(r_cut(x, to_queries, head_dim), *table)
    keys = rotate(r_cut(x, to_keys, head_dim), *table)
    values = r_cut(x, to_values, head_dim)
    queries = queries.unflatten(1, (keys.shape[1], -1))
    scores = torch.einsum("bgsqd,bgkd->bgsqk", queries, keys) * head_dim**-0.5
    context = torch.einsum("bgsqk,bgkd->bqgsd", r_causal(scores), values)
    return context.flatten(2) @ to_output.mT


@wrong(
    "llama.same_sign",
    "Compares the ranges: all of one against all of the other, not in pairs.",
    "(1, 3) against (2, 4): both are lower, and it says False",
)
def r_sign_ranges(ours, others):
    return bool(max(ours) < min(others) or min(ours) > max(others))


@wrong(
    "llama.same_sign",
    "The sign of 0 is taken as plus.",
    "(2, 3) against (1, 3): differences 1 and 0, and it says True",
)
def r_sign_of_zero(ours, others):
    signs = {math.copysign(1, a - b) for a, b in zip(ours, others, strict=True)}
    return len(signs) == 1


@right("llama.same_sign", "counts how often each side is lower")
def r_sign_counted(ours, others):
    pairs = [(float(a), float(b)) for a, b in zip(ours, others, strict=True)]
    lower = sum(a < b for a, b in pairs)
    higher = sum(a > b for a, b in pairs)
    return len(pairs) in (lower, higher)


# --- notebook 13 ---


@wrong(
    "training.blocks",
    "Labels come round: the stream's last token should predict its first.",
    "a stream of 8 and length 4: two windows, where the last has no label",
)
def r_blocks_rolled(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    stream = torch.tensor(stream)
    count = len(stream) // length
    inputs = stream[: count * length].view(count, length)
    labels = stream.roll(-1)[: count * length].view(count, length)
    return inputs, labels


@wrong(
    "training.blocks",
    "An eos before each row, and none after the last.",
    "rows (1 2)(3), length 5: the closing eos is no label, and no window is left",
)
def r_blocks_open_end(rows, length, eos_id):
    stream = []
    for row in rows:
        stream.append(eos_id)
        stream.extend(row)
    stream = torch.tensor(stream)
    count = (len(stream) - 1) // length
    inputs = stream[: count * length].view(count, length)
    labels = stream[1 : count * length + 1].view(count, length)
    return inputs, labels


@right("training.blocks", "a table of places, looked up twice")
def r_blocks_by_places(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream.extend(int(id) for id in row)
        stream.append(eos_id)
    stream = torch.tensor(stream, dtype=torch.int64)
    count = (len(stream) - 1) // length
    places = torch.arange(count * length).reshape(count, length)
    return stream[places], stream[places + 1]


@wrong(
    "training.perplexity",
    "Averages each row first, and then the rows.",
    "rows with 1 and 3 labels that count: the single one weighs too much",
)
def r_perplexity_of_rows(logits, labels):
    rows = zip(logits, labels, strict=True)
    losses = [F.cross_entropy(scores, ids) for scores, ids in rows]
    return torch.stack(losses).mean().exp()


@wrong(
    "training.perplexity",
    "The mean of the single perplexities, not e to the mean.",
    "labels of p = 0.5 and 0.1: 6 instead of the root of 20",
)
def r_perplexity_mean_of_exp(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    return losses[labels != -100].exp().mean()


@right("training.perplexity", "picks the labels that count, then their chances")
def r_perplexity_picked(logits, labels):
    counts = labels != -100
    chances = logits[counts].log_softmax(-1)
    came = chances.gather(-1, labels[counts][:, None])
    return torch.exp(-came.sum() / counts.sum())


def r_named(tokenizer, *names):
    """The first of these attributes that the tokenizer has."""
    for name in names:
        value = getattr(tokenizer, name, None)
        if value is not None:
            return value() if callable(value) else value
    raise AttributeError(f"tokenizer has none of {names}")


def r_triples(row, tokenizer):
    """Each token of a row with the two before it, the end included."""
    ids = tokenizer.encode(row) if isinstance(row, str) else row
    bos = r_named(tokenizer, "bos_id", "bos_token_id", "bos")
    eos = r_named(tokenizer, "eos_id", "eos_token_id", "eos")
    ids = [bos, bos, *(int(id) for id in ids), eos]
    return list(zip(ids, ids[1:], ids[2:], strict=False))


def r_vocabulary(tokenizer):
    return r_named(tokenizer, "vocab_size", "get_vocab_size", "n_vocab", "__len__")


@wrong(
    "training.trigram",
    "The mean of the rows' means: short rows weigh as much as long ones.",
    "held rows of 1 and 9 tokens",
)
def r_trigram_rows(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter()
    pairs = Counter()
    for row in train_rows:
        for a, b, c in r_triples(row, tokenizer):
            triples[a, b, c] += 1
            pairs[a, b] += 1
    size = r_vocabulary(tokenizer)
    means = []
    for row in held_rows:
        losses = []
        for a, b, c in r_triples(row, tokenizer):
            chance = (triples[a, b, c] + alpha) / (pairs[a, b] + alpha * size)
            losses.append(-math.log(chance))
        means.append(sum(losses) / len(losses))
    return sum(means) / len(means)


@wrong(
    "training.trigram",
    "Adds alpha once per word seen in training, not per word of the vocabulary.",
    "a vocabulary of 10 of which training shows 4",
)
def r_trigram_seen(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter()
    pairs = Counter()
    seen = set()
    for row in train_rows:
        for a, b, c in r_triples(row, tokenizer):
            triples[a, b, c] += 1
            pairs[a, b] += 1
            seen.add(c)
    losses = []
    for row in held_rows:
        for a, b, c in r_triples(row, tokenizer):
            chance = (triples[a, b, c] + alpha) / (pairs[a, b] + alpha * len(seen))
            losses.append(-math.log(chance))
    return sum(losses) / len(losses)


@right("training.trigram", "a dictionary of the pairs, each with its followers")
def r_trigram_followers(train_rows, held_rows, tokenizer, alpha=0.01):
    followers = {}
    for row in train_rows:
        for a, b, c in r_triples(row, tokenizer):
            after = followers.setdefault((a, b), {})
            after[c] = after.get(c, 0) + 1
    size = r_vocabulary(tokenizer)
    total = 0.0
    tokens = 0
    for row in held_rows:
        for a, b, c in r_triples(row, tokenizer):
            after = followers.get((a, b), {})
            total += math.log(sum(after.values()) + alpha * size)
            total -= math.log(after.get(c, 0) + alpha)
            tokens += 1
    return total / tokens


@wrong(
    "training.learning_rate",
    "The cosine runs from step 0, so the rate drops where the warm-up ends.",
    "steps 10, warmup 5: behind the peak comes 0.43 of it; warmup 0 is right",
)
def r_rate_drops(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * step / (steps + 1))) / 2


@wrong(
    "training.learning_rate",
    "A quarter of a cosine: it falls from 1 to 0 without the flat end.",
    "in the middle of the fall 0.71 of the peak instead of a half",
)
def r_rate_quarter(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    done = (step - warmup) / (steps + 1 - warmup)
    return peak * math.cos(math.pi / 2 * done)


@right("training.learning_rate", "the square of a cosine of half the angle")
def r_rate_squared(step, steps, warmup, peak):
    climbed = step / warmup if step < warmup else 1.0
    done = max(0, step - warmup) / (steps + 1 - warmup)
    return peak * climbed * math.cos(math.pi * done / 2) ** 2


@wrong(
    "training.clip",
    "The common length is taken as the sum of the single lengths.",
    "(3) and (4), most 6: length 5 needs no cut, and it cuts",
)
def r_clip_sum(gradients, most):
    gradients = list(gradients)
    length = sum(gradient.norm() for gradient in gradients)
    if length <= most:
        return [gradient.clone() for gradient in gradients]
    return [gradient * (most / length) for gradient in gradients]


@wrong(
    "training.clip",
    "Short gradients are stretched to `most`, too.",
    "length 0.5, most 1: twice as long as it was",
)
def r_clip_stretch(gradients, most):
    length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    return [gradient * most / (length + 1e-12) for gradient in gradients]


@right("training.clip", "one length of all, and a factor of at most 1")
def r_clip_factor(gradients, most):
    gradients = list(gradients)
    lengths = [torch.linalg.vector_norm(gradient) for gradient in gradients]
    length = math.hypot(*(float(one) for one in lengths))
    factor = most / length if length > most else 1.0
    return [gradient * factor for gradient in gradients]


@wrong(
    "training.step",
    "Gives the loss after the step, computed again.",
    "one batch: lower than the loss of the model as it came",
)
def r_steps_after(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "Divides by all labels, those of -100 too.",
    "half of the labels -100: half of the loss and of its gradient",
)
def r_steps_padding(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        each = F.cross_entropy(model(inputs).mT, labels, reduction="none")
        loss = each.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@right("training.step", "a sum over the labels that count")
def r_steps_counted(model, optimizer, batches):
    def one(inputs, labels):
        counts = labels != -100
        logits = model(inputs)[counts]
        loss = F.cross_entropy(logits, labels[counts], reduction="sum") / counts.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    return [one(inputs, labels) for inputs, labels in batches]


@wrong(
    "training.accumulate",
    "Steps rightly, but reports the mean of the parts' means.",
    "parts with 1 and 5 labels: the weights are right, the losses are not",
)
def r_parts_reported(model, optimizer, batches):
    losses = []
    for parts in batches:
        total = sum((labels != -100).sum().item() for _, labels in parts)
        optimizer.zero_grad()
        means = []
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            share = (labels != -100).sum().item() / total
            (loss * share).backward()
            means.append(loss.item())
        optimizer.step()
        losses.append(sum(means) / len(means))
    return losses


@wrong(
    "training.accumulate",
    "Weighs each part by its texts, not by its labels.",
    "two parts of one text, of 1 and 5 labels: both weigh a half",
)
def r_parts_by_texts(model, optimizer, batches):
    losses = []
    for parts in batches:
        texts = sum(len(inputs) for inputs, _ in parts)
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            loss = loss * len(inputs) / texts
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@right("training.accumulate", "sums of losses over the labels of the whole batch")
def r_parts_summed(model, optimizer, batches):
    losses = []
    for parts in batches:
        parts = list(parts)
        count = int(sum((labels != -100).sum() for _, labels in parts))
        total = 0.0
        optimizer.zero_grad()
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum") / count
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        losses.append(total)
    return losses


# --- notebook 14 ---


@wrong(
    "generation.top_k",
    "One threshold for all rows: the lowest of their k-th scores.",
    "a row of high scores next to one of low scores keeps them all",
)
def r_top_k_one_line(scores, k):
    line = scores.topk(k, dim=-1).values.min()
    return scores.masked_fill(scores < line, -torch.inf).softmax(-1)


@wrong(
    "generation.top_k",
    "What is cut gets the score 0, which is not the probability 0.",
    "scores (2, 1, -1), k = 2: the last token gets e^0",
)
def r_top_k_zero_scores(scores, k):
    best, places = scores.topk(k, dim=-1)
    return torch.zeros_like(scores).scatter(-1, places, best).softmax(-1)


@right("generation.top_k", "softmax of the best alone, put back in their places")
def r_top_k_put_back(scores, k):
    best, places = scores.topk(k, dim=-1)
    empty = torch.zeros_like(scores)
    return empty.scatter(-1, places, best.softmax(-1))


@wrong(
    "generation.top_p",
    "The token that crosses the line is cut; only the best one is safe.",
    "0.5, 0.3, 0.2 with p = 0.6: one token instead of two",
)
def r_top_p_short(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    cut = ranked.cumsum(-1) > p
    cut[:, 0] = False
    ranked = ranked.masked_fill(cut, 0)
    kept = torch.zeros_like(ranked).scatter(-1, places, ranked)
    return kept / kept.sum(-1, keepdim=True)


@wrong(
    "generation.top_p",
    "Gathers by the places, where they must be scattered.",
    "tokens that a cycle of three has to bring back, such as 0.2, 0.5, 0.3",
)
def r_top_p_gathered(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    before = ranked.cumsum(-1) - ranked
    ranked = ranked.masked_fill(before >= p, 0)
    ranked = ranked / ranked.sum(-1, keepdim=True)
    return ranked.gather(-1, places)


@right("generation.top_p", "counts how many are needed, then cuts by rank")
def r_top_p_counted(scores, p):
    chances = scores.softmax(-1)
    if p >= 1:
        return chances
    order = chances.argsort(dim=-1, descending=True, stable=True)
    ranks = order.argsort(dim=-1)
    reached = chances.gather(-1, order).cumsum(-1)
    needed = (reached < p).sum(-1, keepdim=True) + 1
    kept = torch.where(ranks < needed, chances, torch.zeros_like(chances))
    return kept / kept.sum(-1, keepdim=True)


@wrong(
    "generation.min_p",
    "Compares the scores themselves, not their probabilities.",
    "scores (4, 3, 1), min_p 0.5: e^-1 is below a half, but 3 is not below 2",
)
def r_min_p_scores(scores, min_p):
    line = min_p * scores.amax(-1, keepdim=True)
    return scores.masked_fill(scores < line, -torch.inf).softmax(-1)


@wrong(
    "generation.min_p",
    "The best probability is that of the whole batch.",
    "a sure row next to an unsure one: the unsure one loses tokens, or all",
)
def r_min_p_batch(scores, min_p):
    chances = scores.softmax(-1)
    kept = chances * (chances >= min_p * chances.max())
    return kept / kept.sum(-1, keepdim=True)


@right("generation.min_p", "what is below the line gets nothing, then norm 1")
def r_min_p_normalized(scores, min_p):
    chances = torch.softmax(scores, dim=-1)
    line = min_p * chances.amax(dim=-1, keepdim=True)
    return F.normalize(chances.masked_fill(chances < line, 0), p=1, dim=-1)


@wrong(
    "generation.rows",
    "Remembers only the last token: after one padding id a row goes on.",
    "a row that ends two steps before the other",
)
def r_rows_wake_up(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for _ in range(most):
        new = step(ids).argmax(-1)
        new = torch.where(ended, pad_id, new)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = new == stop_id
        if ended.all():
            break
    return ids


@wrong(
    "generation.rows",
    "Stops only when all rows write stop_id in the same step.",
    "rows that end at steps 1 and 3 of 9: columns of padding follow",
)
def r_rows_together(step, ids, most, stop_id, pad_id):
    going = torch.ones(len(ids), dtype=torch.bool, device=ids.device)
    for _ in range(most):
        new = step(ids).argmax(-1).masked_fill(~going, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if (new == stop_id).all():
            break
        going = going & (new != stop_id)
    return ids


@right("generation.rows", "counts the stops behind the prompt")
def r_rows_counted(step, ids, most, stop_id, pad_id):
    text = ids.clone()
    ended = [False] * len(ids)
    for _ in range(most):
        if all(ended):
            break
        with torch.no_grad():
            best = step(text).argmax(dim=-1).tolist()
        pairs = list(zip(best, ended, strict=True))
        new = [pad_id if done else token for token, done in pairs]
        ended = [done or token == stop_id for token, done in pairs]
        text = torch.cat([text, text.new_tensor(new)[:, None]], dim=1)
    return text


wrong("generation.computed", "counts the last token, which nobody reads", "")(
    (11476, 151)
)
wrong("generation.computed", "takes 150 positions for every token", "")((22500, 150))
right("generation.computed", "1 + 2 + ... + 150, and one for each token")(
    (sum(range(1, 151)), 150)
)


@wrong(
    "generation.prefill",
    "is_causal counts from the first key, as if nothing had been kept.",
    "two kept, two new: the first new one sees the first kept one alone",
)
def r_prefill_flag(queries, keys, values, old_keys, old_values):
    all_keys = torch.cat([old_keys, keys], dim=-2)
    all_values = torch.cat([old_values, values], dim=-2)
    return F.scaled_dot_product_attention(queries, all_keys, all_values, is_causal=True)


@wrong(
    "generation.prefill",
    "The diagonal is one too low: no new token sees itself.",
    "one kept, one new: only the kept one is seen",
)
def r_prefill_not_itself(queries, keys, values, old_keys, old_values):
    kept = old_keys.shape[-2]
    new = queries.shape[-2]
    all_keys = torch.cat([old_keys, keys], dim=-2)
    all_values = torch.cat([old_values, values], dim=-2)
    scores = queries @ all_keys.mT / queries.shape[-1] ** 0.5
    visible = torch.ones(new, kept + new, dtype=torch.bool, device=queries.device)
    scores = scores.masked_fill(~visible.tril(kept - 1), -torch.inf)
    return scores.softmax(-1) @ all_values


@right("generation.prefill", "old scores whole, new ones causal, one softmax")
def r_prefill_two_parts(queries, keys, values, old_keys, old_values):
    queries = queries * queries.shape[-1] ** -0.5
    old = queries @ old_keys.mT
    new = queries @ keys.mT
    places = torch.arange(new.shape[-1], device=new.device)
    new = torch.where(places[:, None] >= places, new, -torch.inf)
    weights = torch.cat([old, new], dim=-1).softmax(-1)
    for_old, for_new = weights.split([old.shape[-1], new.shape[-1]], dim=-1)
    return for_old @ old_values + for_new @ values


@wrong(
    "generation.cache",
    "Takes the last row of the tables, which may be longer than the text.",
    "three kept, tables of 16 rows: turned by 15 instead of 3",
)
def r_step_last_row(query, key, value, keys, values, cos, sin):
    turned = rotate(query, cos[-1:], sin[-1:])
    keys = torch.cat([keys, rotate(key, cos[-1:], sin[-1:])], dim=-2)
    values = torch.cat([values, value], dim=-2)
    return F.scaled_dot_product_attention(turned, keys, values), keys, values


@wrong(
    "generation.cache",
    "Looks with the turned key, but hands back the one that was not turned.",
    "the context is right, the last key is not (behind the first position)",
)
def r_step_keeps_raw(query, key, value, keys, values, cos, sin):
    place = keys.shape[2]
    row = (cos[place : place + 1], sin[place : place + 1])
    seen = torch.cat([keys, rotate(key, *row)], dim=2)
    values = torch.cat([values, value], dim=2)
    weights = (rotate(query, *row) @ seen.mT / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ values, torch.cat([keys, key], dim=2), values


@right("generation.cache", "turns query and key together, weighs by a sum")
def r_step_together(query, key, value, keys, values, cos, sin):
    place = keys.shape[-2]
    both = torch.stack([query, key])
    row = torch.tensor([place], device=cos.device)
    query, key = rotate(both, cos[row], sin[row]).unbind(0)
    keys = torch.cat([keys, key], dim=-2)
    values = torch.cat([values, value], dim=-2)
    scores = (query * keys).sum(-1) / math.sqrt(query.shape[-1])
    weights = scores.softmax(-1)
    context = (weights[..., None] * values).sum(-2, keepdim=True)
    return context, keys, values
