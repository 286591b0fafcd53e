"""Answers of a stranger, written from the prompts alone."""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import chain

import torch
from torch import nn
from torch.nn import functional as F

from course_utils.models import LlamaLM
from course_utils.positions import rotate
from tests.exercises.entries import Entries

ANSWERS = Entries()
wrong = ANSWERS.wrong
right = ANSWERS.right


# --- 13 ------------------------------------------------------------------------------


@wrong(
    "training.blocks",
    "The stream is cut into pieces of length + 1, so neighbors do not share a token.",
    "rows [[5, 6, 7, 8]], length 2: the second window begins one token too late",
)
def blocks_of_one_more(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    count = len(stream) // (length + 1)
    pieces = torch.tensor(stream[: count * (length + 1)], dtype=torch.int64)
    pieces = pieces.reshape(count, length + 1)
    return pieces[:, :-1], pieces[:, 1:]


@wrong(
    "training.blocks",
    "The labels are the inputs rolled by one: the last place is labeled with the first "
    "token of all.",
    "rows [[5, 6, 7]], length 2: the last label is eos instead of 7",
)
def blocks_rolled(rows, length, eos_id):
    stream = torch.tensor([eos_id, *chain.from_iterable([*r, eos_id] for r in rows)])
    count = (len(stream) - 1) // length
    inputs = stream[: count * length]
    labels = inputs.roll(-1)
    return inputs.reshape(count, length), labels.reshape(count, length)


@right("training.blocks", "windows of length + 1 tokens at steps of length, in a loop")
def blocks_by_walking(rows, length, eos_id):
    stream = [eos_id]
    for row in rows:
        stream.extend(row)
        stream.append(eos_id)
    inputs = []
    labels = []
    place = 0
    while place + length < len(stream):
        inputs.append(stream[place : place + length])
        labels.append(stream[place + 1 : place + length + 1])
        place += length
    shape = (len(inputs), length)
    inputs = torch.tensor(inputs, dtype=torch.int64).reshape(shape)
    return inputs, torch.tensor(labels, dtype=torch.int64).reshape(shape)


@wrong(
    "training.perplexity",
    "The mean of each token's own perplexity, not e to the mean loss.",
    "two tokens with losses 0 and ln 4: 2.5 instead of 2",
)
def perplexity_mean_of_each(logits, labels):
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return losses[labels.flatten() != -100].exp().mean()


@wrong(
    "training.perplexity",
    "Padding adds no loss, but it is counted in the mean.",
    "labels with a -100: the sum is divided by all places, so it comes out too small",
)
def perplexity_over_all_places(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none")
    return losses.mean().exp()


@right("training.perplexity", "a geometric mean: each token's chance to the power -1/n")
def perplexity_geometric(logits, labels):
    counted = labels != -100
    kept = logits[counted]
    own = kept[torch.arange(len(kept)), labels[counted]]
    surprise = torch.logsumexp(kept, dim=-1) - own
    return torch.prod((surprise / len(kept)).exp())


@wrong(
    "training.trigram",
    "alpha is added once per different word of the training, not of the vocabulary.",
    "pad is never seen in training, so the sum below is too small",
)
def trigram_of_seen_words(train_rows, held_rows, tokenizer, alpha=0.01):
    counts = defaultdict(Counter)
    words = set()
    for row in train_rows:
        padded = [tokenizer.bos_id, tokenizer.bos_id, *row, tokenizer.eos_id]
        for a, b, c in zip(padded, padded[1:], padded[2:], strict=False):
            counts[a, b][c] += 1
            words.add(c)
    losses = []
    for row in held_rows:
        padded = [tokenizer.bos_id, tokenizer.bos_id, *row, tokenizer.eos_id]
        for a, b, c in zip(padded, padded[1:], padded[2:], strict=False):
            seen = counts[a, b]
            chance = (seen[c] + alpha) / (seen.total() + alpha * len(words))
            losses.append(-math.log(chance))
    return sum(losses) / len(losses)


@wrong(
    "training.trigram",
    "A mean over the rows of each row's mean: short rows count as much as long ones.",
    "held rows of 1 and 5 tokens: each of them counts half",
)
def trigram_mean_of_rows(train_rows, held_rows, tokenizer, alpha=0.01):
    triples = Counter()
    pairs = Counter()
    for row in train_rows:
        ids = [tokenizer.bos_id] * 2 + list(row) + [tokenizer.eos_id]
        for i in range(2, len(ids)):
            triples[tuple(ids[i - 2 : i + 1])] += 1
            pairs[tuple(ids[i - 2 : i])] += 1
    means = []
    for row in held_rows:
        ids = [tokenizer.bos_id] * 2 + list(row) + [tokenizer.eos_id]
        total = 0
        for i in range(2, len(ids)):
            top = triples[tuple(ids[i - 2 : i + 1])] + alpha
            below = pairs[tuple(ids[i - 2 : i])] + alpha * tokenizer.vocab_size
            total -= math.log(top / below)
        means.append(total / (len(ids) - 2))
    return sum(means) / len(means)


@right(
    "training.trigram", "held triples are counted first, and each kind is asked once"
)
def trigram_by_kinds(train_rows, held_rows, tokenizer, alpha=0.01):
    def triples(rows):
        for row in rows:
            first, second = tokenizer.bos_id, tokenizer.bos_id
            for token in chain(row, [tokenizer.eos_id]):
                yield first, second, token
                first, second = second, token

    known = Counter(triples(train_rows))
    behind = Counter()
    for (first, second, _), times in known.items():
        behind[first, second] += times
    asked = Counter(triples(held_rows))
    parts = []
    for (first, second, token), times in asked.items():
        below = math.log(behind[first, second] + alpha * tokenizer.vocab_size)
        parts.append(times * (below - math.log(known[first, second, token] + alpha)))
    return math.fsum(parts) / sum(asked.values())


@wrong(
    "training.learning_rate",
    "The cosine reaches 0 at the last step itself: the + 1 is missing.",
    "step = steps: 0",
)
def rate_zero_at_the_end(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    share = (step - warmup) / (steps - warmup)
    return peak * 0.5 * (1 + math.cos(math.pi * share))


@wrong(
    "training.learning_rate",
    "The cosine is measured from the start of the run, not from the end of the climb.",
    "the step after the warm-up: the rate jumps down",
)
def rate_cosine_from_start(step, steps, warmup, peak):
    if step <= warmup:
        return peak * step / warmup
    return peak * (1 + math.cos(math.pi * step / (steps + 1))) / 2


@right("training.learning_rate", "the square of a quarter cosine, and branches by min")
def rate_by_half_angle(step, steps, warmup, peak):
    after = max(step - warmup, 0)
    climb = min(step, warmup) / warmup if warmup else 1.0
    return peak * climb * math.cos(0.5 * math.pi * after / (steps + 1 - warmup)) ** 2


@wrong(
    "training.clip",
    "The common length is taken as the sum of the lengths.",
    "lengths 3 and 4, most 5: they have the length 5 together, and are scaled by 5/7",
)
def clip_by_sum_of_lengths(gradients, most):
    length = sum(g.norm() for g in gradients)
    if length <= most:
        return [g.clone() for g in gradients]
    return [g * (most / length) for g in gradients]


@wrong(
    "training.clip",
    "Short gradients are stretched to the length `most`, too.",
    "gradients of the length 0.1, most 1: ten times as long",
)
def clip_always(gradients, most):
    length = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * most / length for g in gradients]


@right("training.clip", "squares added by dot products, unit gradients times most")
def clip_by_dots(gradients, most):
    square = math.fsum(torch.dot(g.reshape(-1), g.reshape(-1)) for g in gradients)
    length = math.sqrt(square)
    if length > most:
        return [most * (g / length) for g in gradients]
    return [torch.empty_like(g).copy_(g) for g in gradients]


@wrong(
    "training.step",
    "Gradients are never emptied, so they add up over the batches.",
    "three batches: from the second loss on (after the second step) they differ",
)
def steps_without_emptying(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@wrong(
    "training.step",
    "The loss is measured again after the step.",
    "one batch: the loss is that of the new weights",
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


@right("training.step", "autograd.grad, the gradients put in place by hand")
def steps_by_autograd(model, optimizer, batches):
    weights = [w for w in model.parameters() if w.requires_grad]
    losses = []
    for inputs, labels in batches:
        chances = model(inputs).log_softmax(dim=-1)
        counted = labels != -100
        picked = chances[counted].gather(-1, labels[counted][:, None])
        loss = -picked.sum() / counted.sum()
        found = torch.autograd.grad(loss, weights, allow_unused=True)
        for weight, gradient in zip(weights, found, strict=True):
            weight.grad = gradient
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@wrong(
    "training.accumulate",
    "Each part counts by its number of places, padding included.",
    "parts of equal size, one half padding: they count alike",
)
def accumulate_by_places(model, optimizer, batches):
    losses = []
    for parts in batches:
        places = sum(labels.numel() for _, labels in parts)
        optimizer.zero_grad()
        whole = 0.0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            loss = loss * labels.numel() / places
            loss.backward()
            whole += loss.item()
        optimizer.step()
        losses.append(whole)
    return losses


@wrong(
    "training.accumulate",
    "The loss is divided by the number of labels, but the gradient is that of the sum.",
    "plain SGD: the step is as many times too long as the batch has labels",
)
def accumulate_gradient_of_sum(model, optimizer, batches):
    losses = []
    for parts in batches:
        optimizer.zero_grad()
        total = 0.0
        count = 0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum")
            loss.backward()
            total += loss.item()
            count += (labels != -100).sum().item()
        optimizer.step()
        losses.append(total / count)
    return losses


@right(
    "training.accumulate", "sums go back part by part, then all gradients are divided"
)
def accumulate_then_divide(model, optimizer, batches):
    losses = []
    for parts in batches:
        model.zero_grad()
        total = 0.0
        count = 0
        for inputs, labels in parts:
            loss = F.cross_entropy(model(inputs).mT, labels, reduction="sum")
            loss.backward()
            total += loss.item()
            count += int(labels.ne(-100).sum())
        for weight in model.parameters():
            if weight.grad is not None:
                weight.grad /= count
        optimizer.step()
        losses.append(total / count)
    return losses


# --- 14 ------------------------------------------------------------------------------


@wrong(
    "generation.top_k",
    "The scores that are cut become 0, which is a score like any other.",
    "scores [3, 2, 1], k 1: the tail keeps e**0 each",
)
def top_k_zero_scores(scores, k):
    best = scores.topk(k, dim=-1).indices
    kept = torch.zeros_like(scores).scatter(-1, best, scores.gather(-1, best))
    return kept.softmax(dim=-1)


@wrong(
    "generation.top_k",
    "Only what lies strictly above the k-th score stays, so k - 1 tokens.",
    "scores [3, 2, 1], k 2: all goes to the first",
)
def top_k_strict(scores, k):
    last = scores.topk(k, dim=-1).values[:, -1:]
    return scores.masked_fill(scores <= last, -math.inf).softmax(dim=-1)


@right("generation.top_k", "ranks by sorting twice, and the exponentials by hand")
def top_k_by_ranks(scores, k):
    rank = scores.argsort(dim=-1, descending=True).argsort(dim=-1)
    size = (scores - scores.amax(dim=-1, keepdim=True)).exp() * (rank < k)
    return size / size.sum(dim=-1, keepdim=True)


@wrong(
    "generation.top_p",
    "The token that crosses the line is left out (but never the first).",
    "chances 0.5, 0.3, 0.2, p 0.7: only the first stays",
)
def top_p_without_crossing(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    keep = ranked.cumsum(-1) <= p
    keep[:, 0] = True
    kept = ranked * keep
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.zeros_like(kept).scatter(-1, places, kept)


@wrong(
    "generation.top_p",
    "Gather in place of scatter: the order is applied a second time, not undone.",
    "chances 0.2, 0.5, 0.3: what belongs to the second token comes to the third",
)
def top_p_gathered(scores, p):
    ranked, places = scores.softmax(-1).sort(dim=-1, descending=True)
    before = ranked.cumsum(-1) - ranked
    kept = torch.where(before < p, ranked, torch.zeros_like(ranked))
    return (kept / kept.sum(-1, keepdim=True)).gather(-1, places)


@right("generation.top_p", "no sort: each token is compared with each other of its row")
def top_p_by_pairs(scores, p):
    chances = scores.softmax(dim=-1)
    own = chances[:, :, None]
    other = chances[:, None, :]
    place = torch.arange(scores.shape[-1])
    earlier = place[None, :] < place[:, None]
    ahead = (other > own) | ((other == own) & earlier)
    before = torch.einsum("bij,bj->bi", ahead.to(chances.dtype), chances)
    kept = chances * (before < p)
    return kept / kept.sum(dim=-1, keepdim=True)


@wrong(
    "generation.min_p",
    "The best of the whole batch sets the line for all rows.",
    "a sure row and an unsure one: the unsure one loses all its tokens",
)
def min_p_one_best(scores, min_p):
    p = scores.softmax(dim=-1)
    p = torch.where(p >= min_p * p.max(), p, 0.0)
    return p / p.sum(dim=-1, keepdim=True)


@wrong(
    "generation.min_p",
    "The scores are compared, not the probabilities.",
    "scores [4, 2, 0], min_p 0.5: the second stays with a chance e**-2 of the best",
)
def min_p_of_scores(scores, min_p):
    keep = scores >= min_p * scores.max(dim=-1, keepdim=True).values
    return scores.masked_fill(~keep, -math.inf).softmax(dim=-1)


@right("generation.min_p", "ratios to the best, row by row; softmax is never taken")
def min_p_by_ratios(scores, min_p):
    rows = []
    for row in scores:
        ratio = torch.exp(row - row.max())
        ratio = ratio * (ratio >= min_p)
        rows.append(ratio / ratio.sum())
    return torch.stack(rows)


@wrong(
    "generation.rows",
    "Whether a row has ended is remembered for one step only.",
    "a row that ended two steps ago, while another goes on: it writes again",
)
def rows_that_resume(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(dim=-1)
        new = torch.where(ended, pad_id, new)
        ids = torch.cat([ids, new[:, None]], dim=1)
        ended = new == stop_id
        if ended.all():
            break
    return ids


@wrong(
    "generation.rows",
    "The loop always runs `most` times, also when all rows have ended.",
    "both rows end at once, most 9: eight columns of padding",
)
def rows_to_the_last(step, ids, most, stop_id, pad_id):
    ended = torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(most):
        new = step(ids).argmax(dim=-1).masked_fill(ended, pad_id)
        ended = ended | (new == stop_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
    return ids


@right(
    "generation.rows", "recursion: what is written so far is looked through each time"
)
def rows_by_recursion(step, ids, most, stop_id, pad_id):
    begin = ids.shape[1]

    def go_on(text, left):
        ended = (text[:, begin:] == stop_id).any(dim=1)
        if left <= 0 or ended.all():
            return text
        best = step(text).max(dim=-1).indices.tolist()
        new = [
            [pad_id if over else token]
            for over, token in zip(ended.tolist(), best, strict=True)
        ]
        return go_on(torch.hstack([text, text.new_tensor(new)]), left - 1)

    return go_on(ids.clone(), most)


wrong(
    "generation.computed",
    "Without a cache every call is counted with all 150 positions.",
    "the text grows from 1 to 150 positions; at the start it is short",
)((22500, 150))

wrong(
    "generation.computed",
    "The last token, which nobody feeds any more, is counted, too.",
    "151 positions stand at the end, but the last of them is never read",
)((11476, 151))

right(
    "generation.computed",
    "the sum 1 + ... + 150, for the k-th token is drawn from k positions; and 150",
)((sum(range(1, 151)), 150))


@wrong(
    "generation.prefill",
    "The causal mask begins at key 0, as if nothing had been kept.",
    "t kept ones: the first new token sees the first kept one alone",
)
def prefill_from_zero(queries, keys, values, old_keys, old_values):
    keys = torch.cat([old_keys, keys], dim=-2)
    values = torch.cat([old_values, values], dim=-2)
    return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)


@wrong(
    "generation.prefill",
    "No mask: the new tokens see one another, later ones included.",
    "n 2: the first new token looks at the second",
)
def prefill_without_mask(queries, keys, values, old_keys, old_values):
    keys = torch.cat([old_keys, keys], dim=-2)
    values = torch.cat([old_values, values], dim=-2)
    scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
    return scores.softmax(dim=-1) @ values


@right("generation.prefill", "one new token after the other, each with a longer memory")
def prefill_token_by_token(queries, keys, values, old_keys, old_values):
    rows = []
    for i in range(queries.shape[2]):
        seen = torch.cat([old_keys, keys[:, :, : i + 1]], dim=2)
        said = torch.cat([old_values, values[:, :, : i + 1]], dim=2)
        scores = torch.einsum("bhd,bhkd->bhk", queries[:, :, i], seen)
        share = torch.softmax(scores * queries.shape[-1] ** -0.5, dim=-1)
        rows.append(torch.einsum("bhk,bhkd->bhd", share, said))
    return torch.stack(rows, dim=2)


@wrong(
    "generation.cache",
    "All keys are turned at each step, so the kept ones twice.",
    "t 2: the key at position 1 comes back turned by another angle",
)
def cache_turned_again(query, key, value, keys, values, cos, sin):
    t = keys.shape[-2]
    keys = rotate(torch.cat([keys, key], dim=-2), cos[: t + 1], sin[: t + 1])
    values = torch.cat([values, value], dim=-2)
    query = rotate(query, cos[t : t + 1], sin[t : t + 1])
    return F.scaled_dot_product_attention(query, keys, values), keys, values


@wrong(
    "generation.cache",
    "The new key is turned for this step, but kept as it came.",
    "the last row of the keys that come back is the plain key",
)
def cache_keeps_plain_key(query, key, value, keys, values, cos, sin):
    t = keys.shape[-2]
    here = cos[t : t + 1], sin[t : t + 1]
    turned = torch.cat([keys, rotate(key, *here)], dim=-2)
    values = torch.cat([values, value], dim=-2)
    scores = rotate(query, *here) @ turned.mT / query.shape[-1] ** 0.5
    context = scores.softmax(dim=-1) @ values
    return context, torch.cat([keys, key], dim=-2), values


@right("generation.cache", "query and key turned as one tensor, the context by a sum")
def cache_turned_together(query, key, value, keys, values, cos, sin):
    t = keys.shape[-2]
    both = torch.stack([query, key])
    query, key = rotate(both, cos[t : t + 1], sin[t : t + 1]).unbind(0)
    keys = torch.cat([keys, key], dim=-2)
    values = torch.cat([values, value], dim=-2)
    scores = (query * keys).sum(dim=-1) / math.sqrt(keys.shape[-1])
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    context = (weights[..., None] * values).sum(dim=-2, keepdim=True)
    return context, keys, values


# --- 15 ------------------------------------------------------------------------------


@wrong(
    "inside.entropy",
    "0 times ln 0 is nan.",
    "any row with a weight of 0, as every causal map has: nan",
)
def entropy_nan(weights):
    return -(weights * weights.log()).sum(dim=-1)


@wrong(
    "inside.entropy",
    "The sum goes over the queries, not over the keys.",
    "a map that is not symmetric: one number per key",
)
def entropy_over_queries(weights):
    return -torch.xlogy(weights, weights).sum(dim=-2)


@right(
    "inside.entropy", "a weight of 0 is replaced by 1 before the logarithm, by einsum"
)
def entropy_by_einsum(weights):
    logs = torch.where(weights > 0, weights, torch.ones_like(weights)).log()
    return torch.einsum("...k,...k->...", weights, -logs)


@wrong(
    "inside.ablate",
    "The context is reshaped to b q (h d) without moving the axis of the heads.",
    "two heads and two queries: positions and heads get mixed up",
)
def ablation_reshaped(context, to_output, head):
    context = context.clone()
    context[:, head] = 0
    b, h, q, d = context.shape
    return to_output(context.reshape(b, q, h * d))


@wrong(
    "inside.ablate",
    "The head is set to its mean over the queries, so it still adds something.",
    "a head whose context is the same at each query: nothing changes",
)
def ablation_by_mean(context, to_output, head):
    context = context.clone()
    context[:, head] = context[:, head].mean(dim=1, keepdim=True)
    return to_output(context.transpose(1, 2).flatten(2))


@right("inside.ablate", "the whole output, less what this head alone would add")
def ablation_by_difference(context, to_output, head):
    alone = torch.zeros_like(context)
    alone[:, head] = context[:, head]

    def out(x):
        return to_output(x.permute(0, 2, 1, 3).flatten(start_dim=2))

    return out(context) - (out(alone) - out(torch.zeros_like(context)))


@wrong(
    "inside.hook",
    "What is recorded is the changed output, not what the module returned.",
    "change doubles: the first tensor is twice too large",
)
def hooked_records_changed(model, name, change, x):
    seen = []

    def hook(module, inputs, output):
        output = change(output)
        seen.append(output)
        return output

    handle = model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    handle.remove()
    return seen[0], changed, model(x)


@wrong(
    "inside.hook",
    "The hook is taken out only after the last forward pass.",
    "the third tensor is that of the changed model",
)
def hooked_too_long(model, name, change, x):
    seen = []

    def hook(module, inputs, output):
        seen.append(output.clone())
        return change(output)

    handle = model.get_submodule(name).register_forward_hook(hook)
    changed = model(x)
    after = model(x)
    handle.remove()
    return seen[0], changed, after


@right("inside.hook", "the handle as a context manager, the module found in a dict")
def hooked_in_with(model, name, change, x):
    seen = {}

    def hook(module, inputs, output):
        seen[name] = output.clone()
        return change(output)

    with dict(model.named_modules())[name].register_forward_hook(hook):
        changed = model(x)
    return seen[name], changed, model(x)


wrong(
    "inside.next_key",
    "The earlier 17 itself.",
    "a head for equal tokens looks there; an induction head looks one further",
)(3)

wrong(
    "inside.next_key",
    "The token that it proposes, not the number of its key.",
    "20 is the token at key 4",
)(20)

right("inside.next_key", "the place behind the first 17, found by a program")(
    [22, 11, 6, 17, 20, 9, 22, 11, 6, 17, 20].index(17) + 1
)


@wrong(
    "inside.look_back",
    "The diagonal above the main one: the token after, not before.",
    "a causal map: 0 for every head",
)
def look_ahead(weights):
    return weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(0, -1))


@wrong(
    "inside.look_back",
    "The first query counts as a 0.",
    "a perfect head in a text of 4: 0.75",
)
def look_back_with_first(weights):
    length = weights.shape[-1]
    total = weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=-1)
    return (total / length).mean(dim=0)


@right("inside.look_back", "the queries are picked by a pair of index tensors")
def look_back_by_index(weights):
    query = torch.arange(1, weights.shape[-2])
    picked = weights[:, :, query, query - 1]
    return picked.transpose(0, 1).flatten(start_dim=1).mean(dim=1)


@wrong(
    "inside.induction",
    "The first earlier place counts, not the last.",
    "A x A y A: the third A is compared with the weight on x",
)
def induction_first_place(weights, ids):
    picked = []
    for row, text in enumerate(ids.tolist()):
        for query, token in enumerate(text):
            if token in text[:query]:
                picked.append(weights[row, :, query, text.index(token) + 1])
    return torch.stack(picked).mean(dim=0)


@wrong(
    "inside.induction",
    "A mean over the texts of each text's mean.",
    "one text with one such query and one with four: both count alike",
)
def induction_mean_of_texts(weights, ids):
    means = []
    for maps, text in zip(weights, ids.tolist(), strict=True):
        last = {}
        picked = []
        for query, token in enumerate(text):
            if token in last:
                picked.append(maps[:, query, last[token] + 1])
            last[token] = query
        if picked:
            means.append(torch.stack(picked).mean(dim=0))
    return torch.stack(means).mean(dim=0)


@right("inside.induction", "no loop: the last earlier place as a maximum, then gather")
def induction_by_gather(weights, ids):
    length = ids.shape[1]
    place = torch.arange(length)
    same = (ids[:, :, None] == ids[:, None, :]) & (place[None, :] < place[:, None])
    last = torch.where(same, place, -1).amax(dim=-1)
    found = last >= 0
    key = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, -1)
    on_key = weights.gather(-1, key)[..., 0]
    return (on_key * found[:, None]).sum(dim=(0, 2)) / found.sum()


# --- 16 ------------------------------------------------------------------------------


@wrong(
    "clinic.misjudges",
    "Only the logits of zeros are tried.",
    "a loss with a second softmax: ln V for zeros, and 0.9 or so when it is sure",
)
def misjudges_zeros_only(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    return abs(float(loss(zeros, labels)) - math.log(vocab_size)) > 0.001


@wrong(
    "clinic.misjudges",
    "The differences are not taken absolutely: a loss too small passes.",
    "a loss in decimal digits (log10): log10 V for zeros, below ln V, and no alarm",
)
def misjudges_too_large_only(loss, labels, vocab_size):
    zeros = torch.zeros(*labels.shape, vocab_size)
    sure = 50 * F.one_hot(labels, vocab_size).float()
    above = loss(zeros, labels) - math.log(vocab_size)
    return bool(above > 0.001) or bool(loss(sure, labels) > 0.001)


@right(
    "clinic.misjudges", "sure logits by comparing with all ids; both in one all(...)"
)
def misjudges_by_comparison(loss, labels, vocab_size):
    sure = 50.0 * (labels[..., None] == torch.arange(vocab_size))
    wanted = ((sure, 0.0), (torch.zeros_like(sure), math.log(vocab_size)))
    return not all(
        math.isclose(float(loss(logits, labels)), value, rel_tol=0, abs_tol=0.001)
        for logits, value in wanted
    )


@wrong(
    "clinic.order_blind",
    "All words are reversed, the last one included.",
    "a bag of words that adds the last word: it moves, for another word is last",
)
def order_blind_all_flipped(outputs, ids):
    before = outputs(ids)[:, -1]
    after = outputs(ids.flip(1))[:, -1]
    return torch.allclose(before, after, atol=1e-5)


@wrong(
    "clinic.order_blind",
    "One number that stays is enough for the alarm.",
    "a healthy model whose last output holds a number that never changes: True",
)
def order_blind_any(outputs, ids):
    mixed = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    same = torch.isclose(outputs(ids)[:, -1], outputs(mixed)[:, -1], atol=1e-5)
    return bool(same.any())


def _stay(before, after):
    """Do they differ by no more than rounding, measured by the largest of them?"""
    gap = (before - after).abs().max()
    return bool(gap <= 1e-5 * before.abs().max())


@right("clinic.order_blind", "the places are counted down by an index, gap by largest")
def order_blind_by_index(outputs, ids):
    last = ids.shape[1] - 1
    places = [*range(last - 1, -1, -1), last]
    return _stay(outputs(ids).select(1, last), outputs(ids[:, places]).select(1, last))


@wrong(
    "clinic.ignores_source",
    "Only the last word of the source is changed.",
    "a healthy model that reads the first source word alone: True",
)
def ignores_source_last(logits, source, target, vocab_size):
    other = source.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    before = logits(source, target)
    return torch.allclose(before, logits(other, target), atol=1e-5)


@wrong(
    "clinic.ignores_source",
    "The source is only put in reverse: the same words in another order.",
    "a model that reads the source as a bag of words: True",
)
def ignores_source_flipped(logits, source, target, vocab_size):
    before = logits(source, target)
    return torch.allclose(before, logits(source.flip(1), target), atol=1e-5)


@right("clinic.ignores_source", "many sources: shifted ones and ones drawn by chance")
def ignores_source_many(logits, source, target, vocab_size):
    before = logits(source, target)
    draw = torch.Generator().manual_seed(5)
    others = [(source + 1) % vocab_size]
    for _ in range(6):
        shape = tuple(source.shape)
        others.append(
            torch.randint(min(1, vocab_size - 1), vocab_size, shape, generator=draw)
        )
    return all(_stay(before, logits(other, target)) for other in others)


@wrong(
    "clinic.never_a_label",
    "-100 is moved to 0, so id 0 seems to be a label wherever there is padding.",
    "padded labels without a 0: the 0 is missing in the list",
)
def never_a_label_clamped(batches, steps, vocab_size):
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for step in range(steps):
        labels = batches(step)[1].clamp(min=0)
        counts += labels.flatten().bincount(minlength=vocab_size)
    return (counts == 0).nonzero().flatten().tolist()


@wrong(
    "clinic.never_a_label",
    "Ids that are missing in any one batch, not those missing in all.",
    "labels [1, 2], then [3, 4]: all ids come",
)
def never_a_label_in_one(batches, steps, vocab_size):
    missing = set()
    for step in range(steps):
        missing |= set(range(vocab_size)) - set(batches(step)[1].flatten().tolist())
    return sorted(missing)


@right("clinic.never_a_label", "ids are struck from a list as they come")
def never_a_label_struck(batches, steps, vocab_size):
    left = dict.fromkeys(range(vocab_size))
    for step in range(steps):
        _, labels = batches(step)
        for label in labels.unique().tolist():
            left.pop(label, None)
    return list(left)


@wrong(
    "clinic.dead_parameters",
    "Old gradients are not emptied first.",
    "a dead parameter that holds a gradient of another loss: it passes for alive",
)
def dead_with_old_gradients(model, loss):
    loss(model).backward()
    return [
        name
        for name, weight in model.named_parameters()
        if weight.grad is None or not weight.grad.any()
    ]


@wrong(
    "clinic.dead_parameters",
    "A gradient whose numbers add up to 0 is taken for one that is all 0.",
    "loss w[0] - w[1]: the gradient (1, -1) is named",
)
def dead_by_sum(model, loss):
    model.zero_grad()
    loss(model).backward()
    names = []
    for name, weight in model.named_parameters():
        if weight.grad is None or weight.grad.sum() == 0:
            names.append(name)
    return names


@right("clinic.dead_parameters", "autograd.grad, which leaves the model's .grad alone")
def dead_by_autograd(model, loss):
    named = dict(model.named_parameters())
    asked = {name: weight for name, weight in named.items() if weight.requires_grad}
    value = loss(model)
    found = torch.autograd.grad(value, list(asked.values()), allow_unused=True)
    alive = {
        name
        for name, gradient in zip(asked, found, strict=True)
        if gradient is not None and gradient.ne(0).any()
    }
    return [name for name in named if name not in alive]


wrong(
    "clinic.rings",
    "Dropout moves everything, so everything rings.",
    "order_blind rings when something stays, and nothing stays",
)((True, True, True))

wrong(
    "clinic.rings",
    "Rows do not see one another, so mixes_rows is thought to be safe.",
    "a row alone gets another dropout than in the batch, and that counts as moved",
)((True, False, False))

right("clinic.rings", "two ring when something moves, one when it stays")(
    (True, not True, True)
)


@wrong(
    "clinic.leaks_future",
    "Only the last token is changed.",
    "a model in which position 0 sees position 1 and nothing else leaks: False",
)
def leaks_from_last(logits, ids, vocab_size):
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % vocab_size
    before = logits(ids)[:, :-1]
    return not torch.allclose(before, logits(other)[:, :-1], atol=1e-5)


@wrong(
    "clinic.leaks_future",
    "The outputs are compared bit by bit.",
    "a healthy model that sums in another order: True",
)
def leaks_by_bits(logits, ids, vocab_size):
    before = logits(ids)
    for cut in range(1, ids.shape[1]):
        other = ids.clone()
        other[:, cut:] = (other[:, cut:] + 1) % vocab_size
        if not torch.equal(before[:, :cut], logits(other)[:, :cut]):
            return True
    return False


@right("clinic.leaks_future", "one token is changed at a time, to several other ids")
def leaks_token_by_token(logits, ids, vocab_size):
    before = logits(ids)
    shifts = sorted({1, vocab_size // 2, vocab_size - 1} - {0})
    for place in range(ids.shape[1] - 1, 0, -1):
        for shift in shifts:
            other = ids.clone()
            other[:, place] = (ids[:, place] + shift) % vocab_size
            after = logits(other)
            gap = (before[:, :place] - after[:, :place]).abs().max()
            if gap > 1e-5 * before.abs().max():
                return True
    return False


@wrong(
    "clinic.cannot_memorize",
    "The batches stay as they are: each step shows another one.",
    "a healthy model on new tales ends above 0.3: True",
)
def cannot_memorize_all(losses_of, batches):
    return losses_of(batches)[-1] > 0.3


@wrong(
    "clinic.cannot_memorize",
    "The lowest loss on the way is judged, not the last.",
    "losses 2, 0.2, 1.5: False",
)
def cannot_memorize_lowest(losses_of, batches):
    def same(step):
        return batches(0)

    return min(losses_of(same)) > 0.3


@right("clinic.cannot_memorize", "the batch is made once and handed out by a dict")
def cannot_memorize_once(losses_of, batches):
    kept = {}

    def first_again(step):
        return kept.setdefault("batch", kept.get("batch") or batches(0))

    *_, last = losses_of(first_again)
    return not float(last) <= 0.3


# --- 17 ------------------------------------------------------------------------------


@wrong(
    "scaling.parameters",
    "The ratio of the heads is upside down: fewer heads make keys and values wider.",
    "num_heads 8, num_kv_heads 2: four times the width instead of a quarter",
)
def parameters_wider(config):
    m = config.d_model
    narrow = m * config.num_heads // config.num_kv_heads
    layer = 2 * m * m + 2 * m * narrow + 3 * m * config.d_ff + 2 * m
    tables = 1 if config.tied else 2
    return config.num_layers * layer + tables * config.vocab_size * m + m


@wrong(
    "scaling.parameters",
    "The norm behind the last block is forgotten.",
    "any config: d_model too few",
)
def parameters_without_last_norm(config):
    m = config.d_model
    narrow = m // config.num_heads * config.num_kv_heads
    layer = 2 * m * m + 2 * m * narrow + 3 * m * config.d_ff + 2 * m
    tables = 1 if config.tied else 2
    return config.num_layers * layer + tables * config.vocab_size * m


@right(
    "scaling.parameters", "no formula: the model is built without memory, and counted"
)
def parameters_by_building(config):
    with torch.device("meta"):
        model = LlamaLM(config)
    return sum(weight.numel() for weight in model.parameters())


@wrong(
    "scaling.flops",
    "Attention's products are counted forward only.",
    "4 per layer, width and key instead of 12",
)
def flops_forward_only(matrices, layers, width, length, tokens):
    return 6 * matrices * tokens + 4 * layers * width * length * tokens


@wrong(
    "scaling.flops",
    "The length is squared although the tokens are counted one by one.",
    "length 64: attention comes out 64 times too large",
)
def flops_length_squared(matrices, layers, width, length, tokens):
    attention = 12 * layers * width * length**2
    return tokens * (6 * matrices + attention)


@right("scaling.flops", "pass by pass, layer by layer and product by product, added up")
def flops_added_up(matrices, layers, width, length, tokens):
    per_token = 0
    for passes in (1, 2):  # forward, and back with twice the work
        per_token += passes * 2 * matrices
        for _ in range(layers):
            scores = 2 * width * length
            context = 2 * length * width
            per_token += passes * (scores + context)
    return per_token * tokens


wrong("scaling.bytes", "The gradient is forgotten.", "weight and two averages: 4 + 8")(
    12
)

wrong(
    "scaling.bytes",
    "What the optimizer remembers is forgotten.",
    "weight and gradient: 4 + 4",
)(8)

right("scaling.bytes", "four numbers of four bytes: weight, gradient, two averages")(
    4 * 4
)


@wrong(
    "scaling.activations",
    "x is kept twice, once for each of the two matrices that read it.",
    "width too much per token, in bfloat16: 2 * width bytes",
)
def activations_x_twice(rows, length, width, hidden):
    return rows * length * 2 * (2 * width + 4 * hidden)


@wrong(
    "scaling.activations",
    "s is left out, as if the activation function kept its input alone for both.",
    "hidden too few per token: s is also a factor of h",
)
def activations_without_s(rows, length, width, hidden):
    return 2 * rows * length * (width + 3 * hidden)


@right("scaling.activations", "the rules applied to the five steps, names in a dict")
def activations_by_rules(rows, length, width, hidden):
    size = {"x": width, "g": hidden, "u": hidden, "s": hidden, "h": hidden}
    steps = [("x",), ("x",), ("g",), ("s", "u"), ("h",)]
    kept = {name for step in steps for name in step}
    return sum(rows * length * size[name] * 2 for name in kept)


@wrong(
    "scaling.days",
    "The share multiplies the time instead of the speed.",
    "share 0.4: 6.25 times too few days",
)
def days_share_above(parameters, tokens, machines, speed, share):
    seconds = 6 * parameters * tokens / (machines * speed) * share
    return seconds / (24 * 60 * 60)


@wrong(
    "scaling.days",
    "2 operations per parameter and token: the way back is forgotten.",
    "a third of the days",
)
def days_forward_only(parameters, tokens, machines, speed, share):
    return 2 * parameters * tokens / (machines * speed * share) / 86400


@right("scaling.days", "exact fractions, rounded once at the end")
def days_by_fractions(parameters, tokens, machines, speed, share):
    work = 6 * Fraction(parameters) * Fraction(tokens)
    per_day = Fraction(machines) * Fraction(speed) * Fraction(share) * 86400
    return float(work / per_day)


@wrong(
    "scaling.power",
    "A line through the first and the last run only.",
    "three runs that are not on one line: the middle one has no say",
)
def power_by_ends(compute, losses):
    x = compute.log()
    y = losses.log()
    return (y[0] - y[-1]) / (x[-1] - x[0])


@wrong(
    "scaling.power",
    "Least squares without an intercept: the factor a is taken for 1.",
    "a = 5: another exponent even for points on a line",
)
def power_through_zero(compute, losses):
    x = compute.log()[:, None]
    return -torch.linalg.lstsq(x, losses.log()[:, None]).solution.item()


@right("scaling.power", "the slope as covariance over variance, in powers of two")
def power_by_covariance(compute, losses):
    both = torch.stack([compute.double().log2(), losses.double().log2()])
    spread = torch.cov(both)
    return -(spread[0, 1] / spread[0, 0]).item()


@wrong("scaling.halving", "The power of b itself, not of 1 / b.", "b 0.05: 1.04")
def halving_by_b(b):
    return 2**b


@wrong(
    "scaling.halving",
    "The sign of the exponent is lost on the way.",
    "b 0.5: a quarter of the compute instead of four times",
)
def halving_below_one(b):
    return 0.5 ** (1 / b)


@right("scaling.halving", "a power of four with half the exponent")
def halving_by_four(b):
    return 4 ** (0.5 / b)


@wrong(
    "scaling.padding",
    "The mean of the batches' shares, although batches differ in size.",
    "lengths [1, 9, 2], size 2: a mean of 8/18 and 0",
)
def padding_mean_of_shares(lengths, size):
    shares = []
    for start in range(0, len(lengths), size):
        batch = lengths[start : start + size]
        shares.append(1 - sum(batch) / (len(batch) * max(batch)))
    return sum(shares) / len(shares)


@wrong(
    "scaling.padding",
    "The last batch is taken for a full one.",
    "lengths [3, 3, 3], size 2: a quarter instead of 0",
)
def padding_last_full(lengths, size):
    places = 0
    for start in range(0, len(lengths), size):
        places += size * max(lengths[start : start + size])
    return (places - sum(lengths)) / places


@right(
    "scaling.padding", "the batches are really padded, and zeros and ones are counted"
)
def padding_by_doing(lengths, size):
    texts = [torch.ones(length, dtype=torch.int64) for length in lengths]
    places = 0
    tokens = 0
    while texts:
        batch, texts = texts[:size], texts[size:]
        padded = nn.utils.rnn.pad_sequence(batch, batch_first=True)
        places += padded.numel()
        tokens += int(padded.sum())
    return (places - tokens) / places


@wrong(
    "scaling.rows_of_rank",
    "Each rank reads a run of neighbors.",
    "rows 0 to 3, two ranks: rank 0 reads 0 and 1",
)
def rows_in_runs(batch, rank, count):
    return batch.tensor_split(count)[rank]


@wrong(
    "scaling.rows_of_rank",
    "Rows that do not come out even are dropped.",
    "five rows, two ranks: nobody reads the last one",
)
def rows_even_only(batch, rank, count):
    return batch[: len(batch) // count * count][rank::count]


@right("scaling.rows_of_rank", "the row numbers modulo count, as a mask")
def rows_by_remainder(batch, rank, count):
    return batch[torch.arange(len(batch)) % count == rank]


@wrong(
    "scaling.per_process",
    "Only the averages are divided, as in stage 1 of ZeRO.",
    "two processes, sharded: 12 bytes per parameter instead of 8",
)
def per_process_stage_1(parameters, processes, sharded):
    averages = 8 * parameters / (processes if sharded else 1)
    return 8 * parameters + averages


@wrong(
    "scaling.per_process",
    "The gradient is forgotten: 12 bytes per parameter.",
    "one process: 12 per parameter",
)
def per_process_without_gradient(parameters, processes, sharded):
    whole = 12 * parameters
    return whole / processes if sharded else whole


@right("scaling.per_process", "kind by kind, a tuple indexed by the bool")
def per_process_by_kind(parameters, processes, sharded):
    divisor = (1, processes)[bool(sharded)]
    kinds = {"weight": 4, "gradient": 4, "mean": 4, "mean of squares": 4}
    return sum(size * parameters for size in kinds.values()) / divisor


@wrong(
    "scaling.mean_over_ranks",
    "Each rank counts by all its places, -100 included.",
    "labels [[1, -100]] and [[1, 2]]: both count alike",
)
def mean_by_places(losses, labels):
    places = torch.tensor([x.numel() for x in labels], dtype=losses.dtype)
    return (losses.nan_to_num() * places).sum() / places.sum()


@wrong(
    "scaling.mean_over_ranks",
    "The nan of a rank without labels is multiplied by 0, which is nan.",
    "one rank with -100 alone: nan",
)
def mean_with_nan(losses, labels):
    counts = torch.stack([(x != -100).sum() for x in labels])
    return (losses * counts / counts.sum()).sum()


@right(
    "scaling.mean_over_ranks", "a running mean, in which a rank without labels rests"
)
def mean_running(losses, labels):
    mean = losses.new_zeros(())
    seen = 0
    for loss, rank in zip(losses.unbind(), labels, strict=True):
        count = int((rank != -100).sum())
        if count:
            seen += count
            mean = mean + (loss - mean) * count / seen
    return mean
