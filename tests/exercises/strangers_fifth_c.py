"""Answers of a stranger, written from the prompts alone."""

import math
from collections import Counter

import torch
from einops import rearrange, repeat
from torch.nn import functional as F

from course_utils.positions import rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# 11 · backbone


@wrong(
    "backbone.heads_from_qkv",
    "Each head is thought to hold its own three roles: the cut is (h three d).",
    "h = 2, fused = arange(6): queries become 0 and 3 instead of 0 and 1",
)
def v_heads_head_first(fused, num_heads):
    return rearrange(fused, "b t (h three d) -> three b h t d", three=3, h=num_heads)


@wrong(
    "backbone.heads_from_qkv",
    "Reshapes each third to b h t d directly, so positions and heads get mixed.",
    "t = 2, h = 2: the first head gets both halves of position 0",
)
def v_heads_by_reshape(fused, num_heads):
    b, t, n = fused.shape
    width = n // (3 * num_heads)
    thirds = fused.chunk(3, dim=-1)
    return torch.stack([third.reshape(b, num_heads, t, width) for third in thirds])


@right("backbone.heads_from_qkv", "slices of columns, head by head")
def v_heads_by_slices(fused, num_heads):
    width = fused.shape[-1] // (3 * num_heads)
    pieces = fused.split(width, dim=-1)
    roles = []
    for role in range(3):
        first = role * num_heads
        roles.append(torch.stack(pieces[first : first + num_heads], dim=1))
    return torch.stack(roles)


@wrong(
    "backbone.next_token_loss",
    "Flattens before it shifts, so the last place of a row is to guess the next row.",
    "two rows: the last logits of row 0 are compared with the first id of row 1",
)
def v_next_flat_then_shift(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1)[:-1], ids.flatten()[1:])


@wrong(
    "backbone.next_token_loss",
    "Divides the sum by all b t ids, though only b (t - 1) of them are labels.",
    "t = 2: half of what is wanted",
)
def v_next_divides_by_all(logits, ids):
    flat = logits[:, :-1].flatten(0, 1)
    total = F.cross_entropy(flat, ids[:, 1:].flatten(), reduction="sum")
    return total / ids.numel()


@right("backbone.next_token_loss", "logsumexp less the label's own logit")
def v_next_by_logsumexp(logits, ids):
    seen = logits.narrow(1, 0, logits.shape[1] - 1)
    label = ids.narrow(1, 1, ids.shape[1] - 1)
    own = seen.take_along_dim(label.unsqueeze(-1), dim=-1).squeeze(-1)
    return (seen.logsumexp(dim=-1) - own).mean()


wrong("backbone.first_loss", "adds half the deviation, not half its square", "")(
    math.log(2981) + 1.5 / 2
)
wrong("backbone.first_loss", "adds the whole variance instead of half of it", "")(
    math.log(2981) + 1.5**2
)
right("backbone.first_loss", "the logarithm of the sum")(
    math.log(2981 * math.exp(1.5**2 / 2))
)


@wrong(
    "backbone.one_batch",
    "The second number is the loss before the last step, not after it.",
    "steps = 1: both numbers are equal",
)
def v_one_batch_before_last(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    losses = []
    for _ in range(max(steps, 1)):
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
        if len(losses) <= steps:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses[0], losses[-1]


@wrong(
    "backbone.one_batch",
    "Shifts once more, though inputs and labels come as a pair.",
    "labels that are already one later: the model learns to look two ahead",
)
def v_one_batch_shifts_again(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def loss_now():
        logits = model(inputs)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())

    before = loss_now().item()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_now().backward()
        optimizer.step()
    return before, loss_now().item()


@right("backbone.one_batch", "torch.autograd.grad, and the move by hand")
def v_one_batch_by_hand(model, inputs, labels, steps, rate):
    moved = [weight for weight in model.parameters() if weight.requires_grad]

    def loss_now():
        return F.cross_entropy(model(inputs).movedim(-1, 1), labels)

    with torch.no_grad():
        before = loss_now().item()
    for _ in range(steps):
        slopes = torch.autograd.grad(loss_now(), moved, allow_unused=True)
        with torch.no_grad():
            for weight, slope in zip(moved, slopes, strict=True):
                if slope is not None:
                    weight.sub_(rate * slope)
    with torch.no_grad():
        after = loss_now().item()
    return before, after


@wrong(
    "backbone.loss_by_position",
    "Averages the probabilities over the rows first and takes the logarithm then.",
    "two rows with p = 1 and p = 0.25 at a place: 0.47 instead of 0.69",
)
def v_by_position_log_of_mean(logits, labels):
    chances = logits.softmax(-1).gather(-1, labels[..., None])[..., 0]
    return -chances.mean(0).log()


@wrong(
    "backbone.loss_by_position",
    "The flat losses are cut as t b instead of b t, so positions are mixed.",
    "b = 2, t = 3: the first value is the mean of the first two places of row 0",
)
def v_by_position_cut_wrong(logits, labels):
    flat = logits.flatten(0, 1)
    losses = F.cross_entropy(flat, labels.flatten(), reduction="none")
    return losses.view(labels.shape[1], labels.shape[0]).mean(dim=1)


@right("backbone.loss_by_position", "one cross-entropy for each column")
def v_by_position_column_by_column(logits, labels):
    columns = zip(logits.unbind(1), labels.unbind(1), strict=True)
    return torch.stack([F.cross_entropy(scores, label) for scores, label in columns])


@wrong(
    "backbone.count_weights",
    "Takes f = 4m for granted and counts 12 m² per block.",
    "m = 2, f = 3: 48 per block instead of 28",
)
def v_count_twelve_squares(vocab_size, length, d_model, blocks, d_ff):
    return (vocab_size + length) * d_model + blocks * 12 * d_model**2


@wrong(
    "backbone.count_weights",
    "Counts the head as a matrix of its own, though it is tied to E.",
    "any sizes: vocab_size * d_model too many",
)
def v_count_untied(vocab_size, length, d_model, blocks, d_ff):
    ends = 2 * vocab_size * d_model + length * d_model
    return ends + blocks * (4 * d_model**2 + 2 * d_model * d_ff)


@right("backbone.count_weights", "a list of shapes")
def v_count_by_shapes(vocab_size, length, d_model, blocks, d_ff):
    shapes = [(vocab_size, d_model), (length, d_model)]
    for _ in range(blocks):
        shapes += [(d_model, 3 * d_model), (d_model, d_model)]
        shapes += [(d_model, d_ff), (d_ff, d_model)]
    return sum(math.prod(shape) for shape in shapes)


# 12 · llama


@wrong(
    "llama.rms_norm",
    "Adds eps to the root instead of under it.",
    "x = 0.001, eps = 1e-5: 0.99 instead of 0.30",
)
def v_rms_eps_outside(x, scale, eps):
    root = x.square().mean(-1, keepdim=True).sqrt()
    return scale * x / (root + eps)


@wrong(
    "llama.rms_norm",
    "Divides by the standard deviation: the mean is taken off inside the square.",
    "x = [1, 3]: divides by 1 instead of by the root of 5",
)
def v_rms_by_deviation(x, scale, eps):
    variance = x.var(-1, keepdim=True, unbiased=False)
    return scale * x * (variance + eps).rsqrt()


@right("llama.rms_norm", "an einsum for the squares, and rsqrt")
def v_rms_by_einsum(x, scale, eps):
    square = torch.einsum("...m,...m->...", x, x) / x.shape[-1]
    return torch.einsum("...m,...,m->...m", x, torch.rsqrt(square + eps), scale)


wrong("llama.hidden", "halves the width, as if there were four matrices", "")(1536)
wrong("llama.hidden", "takes off a quarter, as if three numbers became four", "")(2304)
right("llama.hidden", "two thirds of 3,072")(2 * 768 * 3072 // (3 * 768))


@wrong(
    "llama.swiglu",
    "The activation function is on the candidate, and the gate passes as it is.",
    "gate(x) = 1, up(x) = 2: silu(2) = 1.76 instead of 2 silu(1) = 1.46",
)
def v_swiglu_roles_swapped(x, gate, up, down):
    return F.linear(F.linear(x, gate) * F.silu(F.linear(x, up)), down)


@wrong(
    "llama.swiglu",
    "The logistic function alone is the gate: that is GLU, not SwiGLU.",
    "gate(x) = 2, up(x) = 1: 0.88 instead of 1.76",
)
def v_swiglu_sigmoid(x, gate, up, down):
    return (torch.sigmoid(x @ gate.T) * (x @ up.T)) @ down.T


@right("llama.swiglu", "one product for both branches, then z / (1 + e^-z)")
def v_swiglu_fused(x, gate, up, down):
    both = x @ torch.cat([gate, up]).mT
    opening, candidate = both.tensor_split(2, dim=-1)
    hidden = opening * torch.sigmoid(opening) * candidate
    return torch.einsum("...f,mf->...m", hidden, down)


@wrong(
    "llama.repeat_keys",
    "Puts copies of all sets one behind the other, so heads alternate between sets.",
    "two sets, four heads: A B A B instead of A A B B",
)
def v_repeat_keys_alternate(keys, num_heads):
    return torch.cat([keys] * (num_heads // keys.shape[1]), dim=1)


@wrong(
    "llama.repeat_keys",
    "Repeats each position instead of each set, and cuts the result into heads.",
    "two positions: the first head of a group sees position 0 twice",
)
def v_repeat_keys_positions(keys, num_heads):
    b, g, k, d = keys.shape
    longer = keys.repeat_interleave(num_heads // g, dim=2)
    return longer.reshape(b, num_heads, k, d)


@right("llama.repeat_keys", "for each head the index of its set")
def v_repeat_keys_by_index(keys, num_heads):
    share = num_heads // keys.shape[1]
    sets = [head // share for head in range(num_heads)]
    return torch.stack([keys[:, each] for each in sets], dim=1)


wrong("llama.cache", "counts keys and values of all 24 heads", "")(2 * 16 * 24 * 64 * 4)
wrong("llama.cache", "counts the keys and forgets the values", "")(16 * 6 * 64 * 4)
right("llama.cache", "bytes of one layer, sixteen times")(16 * (6 * 64 * 4 * 2))


def v_cut(x, weight, width):
    """Project "b t m" and cut into heads of this width: "b h t d"."""
    return rearrange(x @ weight.mT, "b t (h d) -> b h t d", d=width)


@wrong(
    "llama.grouped_attention",
    "Turns the values, too.",
    "two positions: the second one's value arrives rotated by one step",
)
def v_attention_turns_values(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    width = to_queries.shape[0] // num_heads
    queries, keys, values = (
        rotate(v_cut(x, weight, width), *table)
        for weight in (to_queries, to_keys, to_values)
    )
    share = num_heads // keys.shape[1]
    keys = repeat(keys, "b g k d -> b (g share) k d", share=share)
    values = repeat(values, "b g k d -> b (g share) k d", share=share)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return rearrange(context, "b h t d -> b t (h d)") @ to_output.mT


@wrong(
    "llama.grouped_attention",
    "Sets the weights of later positions to 0 after the softmax, and leaves it there.",
    "t = 2: the weights of position 0 sum to less than 1",
)
def v_attention_mask_late(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    width = to_queries.shape[0] // num_heads
    queries = rotate(v_cut(x, to_queries, width), *table)
    keys = rotate(v_cut(x, to_keys, width), *table)
    values = v_cut(x, to_values, width)
    share = num_heads // keys.shape[1]
    keys = keys.repeat_interleave(share, dim=1)
    values = values.repeat_interleave(share, dim=1)
    weights = (queries @ keys.mT / width**0.5).softmax(-1).tril()
    return rearrange(weights @ values, "b h t d -> b t (h d)") @ to_output.mT


@right("llama.grouped_attention", "nothing is repeated: queries get an axis of groups")
def v_attention_by_groups(
    x, to_queries, to_keys, to_values, to_output, table, num_heads
):
    width = to_queries.shape[0] // num_heads
    keys = rotate(v_cut(x, to_keys, width), *table)
    values = v_cut(x, to_values, width)
    queries = rotate(v_cut(x, to_queries, width), *table)
    queries = rearrange(queries, "b (g s) q d -> b g s q d", g=keys.shape[1])
    scores = torch.einsum("bgsqd,bgkd->bgsqk", queries, keys) * width**-0.5
    t = x.shape[1]
    later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
    weights = scores.masked_fill(later, -math.inf).softmax(dim=-1)
    context = torch.einsum("bgsqk,bgkd->bqgsd", weights, values).flatten(2)
    return F.linear(context, to_output)


@wrong(
    "llama.same_sign",
    "Asks for one sign only, so differences of 0 throughout count as a direction.",
    "equal losses for all seeds: True instead of False",
)
def v_same_sign_unique(ours, others):
    ours = torch.as_tensor(ours)
    others = torch.as_tensor(others)
    return len((ours - others).sign().unique()) == 1


@wrong(
    "llama.same_sign",
    "Compares all losses with all, not the two of one seed.",
    "ours 1, 3 and others 2, 4: False, although both pairs fall",
)
def v_same_sign_unpaired(ours, others):
    return bool(max(ours) < min(others) or min(ours) > max(others))


@right("llama.same_sign", "the set of verdicts, one for each pair")
def v_same_sign_verdicts(ours, others):
    verdicts = set()
    for our, other in zip(ours, others, strict=True):
        our, other = float(our), float(other)
        verdicts.add((our > other) - (our < other))
    return verdicts in ({1}, {-1})


# 13 · training


@wrong(
    "training.blocks",
    "Cuts pieces of length + 1, so the last token of a piece is never an input.",
    "length 2, stream 0 1 2 3 0: windows begin at 0 and 3 instead of at 0 and 2",
)
def v_blocks_pieces(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    count = len(stream) // (length + 1)
    pieces = torch.tensor(stream[: count * (length + 1)], dtype=torch.long)
    pieces = pieces.view(count, length + 1)
    return pieces[:, :-1], pieces[:, 1:]


@wrong(
    "training.blocks",
    "Always gives up the last window, in case a label is missing.",
    "length 2, a stream of 5: one window instead of two",
)
def v_blocks_one_less(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    count = max(len(stream) // length - 1, 0)
    ids = torch.tensor(stream, dtype=torch.long)
    inputs = ids[: count * length].view(count, length)
    labels = ids[1 : 1 + count * length].view(count, length)
    return inputs, labels


@right("training.blocks", "a table of places, looked up twice")
def v_blocks_by_places(rows, length, eos_id):
    stream = [eos_id, *(i for row in rows for i in (*row, eos_id))]
    count = (len(stream) - 1) // length
    stream = torch.tensor(stream, dtype=torch.long)
    places = torch.arange(count)[:, None] * length + torch.arange(length)
    return stream[places], stream[places + 1]


@wrong(
    "training.perplexity",
    "Padding costs nothing, but is counted in the mean.",
    "one of two labels is −100: the root of what is wanted",
)
def v_perplexity_counts_padding(logits, labels):
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses.mean().exp()


@wrong(
    "training.perplexity",
    "Takes the mean of each row first, so short rows weigh as much as long ones.",
    "rows with one and three labels",
)
def v_perplexity_by_rows(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    counted = (labels != -100).sum(dim=1)
    return (losses.sum(dim=1) / counted).mean().exp()


@right("training.perplexity", "picks the places that count before anything else")
def v_perplexity_of_kept(logits, labels):
    kept = labels != -100
    chances = logits[kept].log_softmax(dim=-1)
    own = chances.gather(1, labels[kept][:, None])
    return torch.exp(-own.sum() / kept.sum())


def v_triples(row, tokenizer):
    """Each (before, before, token) of a row, two bos in front and eos behind."""
    padded = [tokenizer.bos_id, tokenizer.bos_id, *map(int, row), tokenizer.eos_id]
    return list(zip(padded, padded[1:], padded[2:], strict=False))


@wrong(
    "training.trigram",
    "Takes the mean of each row, then the mean of the rows.",
    "rows of different lengths",
)
def v_trigram_mean_of_means(train_rows, held_rows, tokenizer, alpha=0.01):
    counts = Counter()
    pairs = Counter()
    for row in train_rows:
        for u, v, w in v_triples(row, tokenizer):
            counts[u, v, w] += 1
            pairs[u, v] += 1
    means = []
    for row in held_rows:
        triples = v_triples(row, tokenizer)
        costs = 0.0
        for u, v, w in triples:
            chance = counts[u, v, w] + alpha
            chance /= pairs[u, v] + alpha * tokenizer.vocab_size
            costs -= math.log(chance)
        means.append(costs / len(triples))
    return sum(means) / len(means)


@wrong(
    "training.trigram",
    "Adds alpha only for the tokens seen in training, not for the whole vocabulary.",
    "a vocabulary of ten of which three occur: 3 alpha instead of 10 alpha",
)
def v_trigram_seen_vocabulary(train_rows, held_rows, tokenizer, alpha=0.01):
    train = [triple for row in train_rows for triple in v_triples(row, tokenizer)]
    counts = Counter(train)
    pairs = Counter((u, v) for u, v, _ in train)
    size = len({w for _, _, w in train})
    held = [triple for row in held_rows for triple in v_triples(row, tokenizer)]
    surprise = 0.0
    for u, v, w in held:
        chance = (counts[u, v, w] + alpha) / (pairs[u, v] + alpha * size)
        surprise -= math.log(chance)
    return surprise / len(held)


@right("training.trigram", "a counter of followers per pair")
def v_trigram_by_followers(train_rows, held_rows, tokenizer, alpha=0.01):
    followers = {}
    for row in train_rows:
        u = v = tokenizer.bos_id
        for w in [*row, tokenizer.eos_id]:
            followers.setdefault((int(u), int(v)), Counter())[int(w)] += 1
            u, v = v, w
    costs = []
    for row in held_rows:
        u = v = tokenizer.bos_id
        for w in [*row, tokenizer.eos_id]:
            seen = followers.get((int(u), int(v)), Counter())
            total = seen.total() + alpha * tokenizer.vocab_size
            costs.append(math.log(total) - math.log(seen[int(w)] + alpha))
            u, v = v, w
    return math.fsum(costs) / len(costs)


@wrong(
    "training.learning_rate",
    "Reaches 0 at the last step, not one step after it.",
    "step = steps: 0 instead of a small rate",
)
def v_rate_zero_too_early(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    progress = (step - warmup) / max(steps - warmup, 1)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))


@wrong(
    "training.learning_rate",
    "The cosine is counted from the first step, so the rate jumps after the warm-up.",
    "step 6 of 10 with a warm-up of 5: 0.43 of the peak instead of 0.93",
)
def v_rate_cosine_from_start(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * step / (steps + 1))) / 2


@right("training.learning_rate", "the square of a cosine of half the angle")
def v_rate_by_square(step, steps, warmup, peak):
    behind = step - warmup
    if behind > 0:
        angle = math.pi * behind / (steps + 1 - warmup)
        return peak * math.cos(angle / 2) ** 2
    return peak * (step / warmup)


@wrong(
    "training.clip",
    "Brings every gradient to the length `most`, short ones too.",
    "one gradient of length 0.5, most = 1: doubled",
)
def v_clip_always(gradients, most):
    total = sum(gradient.square().sum() for gradient in gradients).sqrt()
    return [gradient * most / total for gradient in gradients]


@wrong(
    "training.clip",
    "Adds up the lengths of the tensors instead of their squares.",
    "two tensors of lengths 3 and 4, most = 5: scaled by 5/7 instead of kept",
)
def v_clip_sum_of_lengths(gradients, most):
    total = sum(gradient.norm() for gradient in gradients)
    if total <= most:
        return [gradient.clone() for gradient in gradients]
    return [gradient * (most / total) for gradient in gradients]


@right("training.clip", "one long vector, and a factor of at most 1")
def v_clip_one_vector(gradients, most):
    everything = torch.cat([gradient.reshape(-1) for gradient in gradients])
    factor = (most / torch.linalg.vector_norm(everything)).clamp(max=1)
    return [gradient * factor for gradient in gradients]


@wrong(
    "training.step",
    "Measures the loss again after the step and reports that.",
    "one batch: the loss has fallen already",
)
def v_steps_loss_after(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "Divides by all places, those with the label −100 included.",
    "half of the labels are −100: half the loss and half the gradient",
)
def v_steps_counts_padding(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        logits = model(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits, labels.flatten(), reduction="none").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@right("training.step", "a small function for one batch")
def v_steps_by_function(model, optimizer, batches):
    def learn(inputs, labels):
        loss = F.cross_entropy(model(inputs).movedim(-1, 1), labels)
        model.zero_grad()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return [learn(inputs, labels) for inputs, labels in batches]


@wrong(
    "training.accumulate",
    "Weights the parts by their places, not by the labels that count.",
    "parts of equal shape, one of them mostly −100",
)
def v_accumulate_by_places(model, optimizer, batches):
    losses = []
    for parts in batches:
        places = sum(labels.numel() for _, labels in parts)
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            loss = loss * labels.numel() / places
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


@wrong(
    "training.accumulate",
    "The step is right, but the loss reported is the plain mean of the parts' means.",
    "parts with one and with nine labels",
)
def v_accumulate_reports_means(model, optimizer, batches):
    losses = []
    for parts in batches:
        counted = sum((labels != -100).sum() for _, labels in parts)
        optimizer.zero_grad()
        means = []
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            share = (labels != -100).sum() / counted
            (loss * share).backward()
            means.append(loss.item())
        optimizer.step()
        losses.append(sum(means) / len(means))
    return losses


@right("training.accumulate", "sums first, then the gradients are divided")
def v_accumulate_divide_late(model, optimizer, batches):
    losses = []
    for parts in batches:
        model.zero_grad()
        optimizer.zero_grad()
        total = 0.0
        counted = 0
        for inputs, labels in parts:
            logits = model(inputs).movedim(-1, 1)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            loss.backward()
            total += loss.item()
            counted += int(labels.ne(-100).sum())
        for weight in model.parameters():
            if weight.grad is not None:
                weight.grad.div_(counted)
        optimizer.step()
        losses.append(total / counted)
    return losses


# 14 · generation


@wrong(
    "generation.top_k",
    "Sets the scores of the others to 0 before the softmax: they keep a share.",
    "scores 2, 1, 0 and k = 1: the best gets 0.79 instead of 1",
)
def v_top_k_zero_scores(scores, k):
    best, places = scores.topk(k, dim=-1)
    kept = torch.zeros_like(scores).scatter(-1, places, best)
    return kept.softmax(dim=-1)


@wrong(
    "generation.top_k",
    "Applies the softmax a second time, to the probabilities that are left.",
    "scores 5, 0, 0 and k = 2: 0.73 and 0.27 instead of 0.99 and 0.01",
)
def v_top_k_softmax_twice(scores, k):
    best, places = scores.softmax(dim=-1).topk(k, dim=-1)
    return torch.zeros_like(scores).scatter(-1, places, best.softmax(dim=-1))


@right("generation.top_k", "the rank of each token, by sorting twice")
def v_top_k_by_rank(scores, k):
    order = scores.argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    return scores.masked_fill(rank >= k, -math.inf).softmax(dim=-1)


@wrong(
    "generation.top_p",
    "The token that crosses falls out, save that at least one token is kept.",
    "0.5, 0.3, 0.2 and p = 0.6: only the first token is kept",
)
def v_top_p_at_least_one(scores, p):
    ranked, places = scores.softmax(-1).sort(-1, descending=True)
    keep = ranked.cumsum(-1) <= p
    keep[:, 0] = True
    ranked = torch.where(keep, ranked, 0.0)
    ranked = ranked / ranked.sum(-1, keepdim=True)
    return torch.zeros_like(ranked).scatter(-1, places, ranked)


@wrong(
    "generation.top_p",
    "Puts the tokens back with gather, which sorts once more instead of undoing it.",
    "0.2, 0.5, 0.3: the order is a cycle of three, which gather does not undo",
)
def v_top_p_gathers_back(scores, p):
    ranked, places = scores.softmax(-1).sort(-1, descending=True)
    before = ranked.cumsum(-1) - ranked
    ranked = ranked.masked_fill(before >= p, 0)
    ranked = ranked / ranked.sum(-1, keepdim=True)
    return ranked.gather(-1, places)


@right("generation.top_p", "the number of tokens to keep, compared with each rank")
def v_top_p_by_count(scores, p):
    chances = scores.softmax(dim=-1)
    order = chances.argsort(dim=-1, descending=True, stable=True)
    ranked = chances.take_along_dim(order, dim=-1)
    before = F.pad(ranked.cumsum(dim=-1)[:, :-1], (1, 0))
    count = (before < p).sum(dim=-1, keepdim=True)
    kept = chances * (order.argsort(dim=-1) < count)
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong(
    "generation.min_p",
    "The best is that of the whole batch, not that of the row.",
    "one sure row beside an unsure one: the unsure row loses tokens, or all",
)
def v_min_p_best_of_batch(scores, min_p):
    chances = scores.softmax(-1)
    chances = chances.masked_fill(chances < min_p * chances.max(), 0)
    return chances / chances.sum(-1, keepdim=True)


@wrong(
    "generation.min_p",
    "Compares the scores in place of the probabilities.",
    "scores 4 and 3, min_p = 0.5: both stay, though 0.27 is below 0.37",
)
def v_min_p_on_scores(scores, min_p):
    limit = min_p * scores.amax(-1, keepdim=True)
    limit = torch.minimum(limit, scores.amax(-1, keepdim=True))
    return scores.masked_fill(scores < limit, -torch.inf).softmax(-1)


@right("generation.min_p", "zeros by where, and F.normalize with sums")
def v_min_p_normalized(scores, min_p):
    chances = scores.softmax(dim=-1)
    best = chances.amax(dim=-1, keepdim=True)
    kept = torch.where(chances >= best * min_p, chances, torch.zeros_like(chances))
    return F.normalize(kept, p=1.0, dim=-1)


@wrong(
    "generation.rows",
    "Remembers only whether the last token was the end: after one pad a row goes on.",
    "a row that ends two steps before another: stop, pad, and then a word",
)
def v_rows_short_memory(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    for _ in range(most):
        new = step(ids).argmax(-1).masked_fill(ended, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = new == stop_id
        if ended.all():
            break
    return ids


@wrong(
    "generation.rows",
    "Goes on to `most` when all rows have ended, and appends columns of padding.",
    "all rows end at step 2 of 5: three columns too many",
)
def v_rows_never_breaks(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), 1, dtype=torch.bool, device=ids.device)
    for _ in range(most):
        new = step(ids).argmax(dim=-1, keepdim=True)
        new[ended] = pad_id
        ids = torch.cat([ids, new], dim=1)
        ended = ended | (new == stop_id)
    return ids


@right("generation.rows", "looks for the end in what was written, step by step")
def v_rows_looks_back(step, ids, most, stop_id, pad_id):
    begin = ids.shape[1]
    while ids.shape[1] - begin < most:
        ended = (ids[:, begin:] == stop_id).any(dim=1)
        if ended.all():
            break
        likeliest = step(ids).argmax(dim=-1)
        new = torch.where(ended, torch.full_like(likeliest, pad_id), likeliest)
        ids = torch.cat([ids, new.unsqueeze(1)], dim=1)
    return ids


wrong("generation.computed", "counts the last token, which is never read", "")(
    (151 * 152 // 2, 151)
)
wrong("generation.computed", "takes 150 positions for each of 150 calls", "")(
    (150 * 150, 150)
)
right("generation.computed", "one key more at each call")((sum(range(1, 151)), 150))


@wrong(
    "generation.prefill",
    "The triangle begins at key 0, as if nothing had been kept.",
    "t = 2, n = 1: the new token sees only the oldest key",
)
def v_prefill_is_causal(queries, keys, values, old_keys, old_values):
    keys = torch.cat([old_keys, keys], dim=2)
    values = torch.cat([old_values, values], dim=2)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)


@wrong(
    "generation.prefill",
    "Puts the new keys before the old ones, while the mask thinks of the end.",
    "t = 2, n = 2: the first new token sees the second, and not the last kept one",
)
def v_prefill_new_in_front(queries, keys, values, old_keys, old_values):
    t = old_keys.shape[2]
    keys = torch.cat([keys, old_keys], dim=2)
    values = torch.cat([values, old_values], dim=2)
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    mask = torch.ones_like(scores, dtype=torch.bool).tril(t)
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values


@right("generation.prefill", "old and new scores apart, one softmax for both")
def v_prefill_two_parts(queries, keys, values, old_keys, old_values):
    queries = queries * queries.shape[-1] ** -0.5
    t, n = old_keys.shape[2], queries.shape[2]
    old = queries @ old_keys.mT
    later = torch.ones(n, n, dtype=torch.bool, device=queries.device).triu(1)
    new = (queries @ keys.mT).masked_fill(later, -math.inf)
    weights = torch.cat([old, new], dim=-1).softmax(dim=-1)
    old_share, new_share = weights.split([t, n], dim=-1)
    return old_share @ old_values + new_share @ values


@wrong(
    "generation.cache",
    "Takes the last row of the tables, which need not be the token's position.",
    "tables of 8 rows and t = 3: turned as at position 7",
)
def v_step_last_row(query, key, value, keys, values, cos, sin):
    query, key = rotate(query, cos[-1:], sin[-1:]), rotate(key, cos[-1:], sin[-1:])
    keys = torch.cat([keys, key], dim=2)
    values = torch.cat([values, value], dim=2)
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ values, keys, values


@wrong(
    "generation.cache",
    "Appends the raw key and turns all keys, so the kept ones are turned once more.",
    "t = 2: the key of position 1 has been turned by two steps",
)
def v_step_turns_all(query, key, value, keys, values, cos, sin):
    t = keys.shape[2]
    keys = torch.cat([keys, key], dim=2)
    values = torch.cat([values, value], dim=2)
    keys = rotate(keys, cos[: t + 1], sin[: t + 1])
    query = rotate(query, cos[t : t + 1], sin[t : t + 1])
    weights = (query @ keys.mT / query.shape[-1] ** 0.5).softmax(-1)
    return weights @ values, keys, values


@right("generation.cache", "query and key are turned together, the product by PyTorch")
def v_step_together(query, key, value, keys, values, cos, sin):
    position = keys.shape[-2]
    row = slice(position, position + 1)
    query, key = rotate(torch.stack([query, key]), cos[row], sin[row]).unbind(0)
    keys = torch.cat((keys, key), dim=-2)
    values = torch.cat((values, value), dim=-2)
    context = F.scaled_dot_product_attention(query, keys, values)
    return context, keys, values
