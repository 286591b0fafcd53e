"""Answers to the exercises of notebook 13: right in many styles, and wrong twice."""

import math
from collections import defaultdict

import torch
from nb13_perplexity import trigram_line
from torch import nn
from torch.nn import functional as F

# --- perplexity --------------------------------------------------------------------


def perplexity_by_loops(logits, labels):
    losses = []
    for row, marks in zip(logits.tolist(), labels.tolist(), strict=True):
        for scores, label in zip(row, marks, strict=True):
            if label != -100:
                total = sum(math.exp(score) for score in scores)
                losses.append(math.log(total) - scores[label])
    return math.exp(sum(losses) / len(losses))


def mean_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


# --- the trigram model ------------------------------------------------------------


def trigram_by_dicts(train_rows, held_rows, tokenizer, alpha=0.01):
    table = defaultdict(lambda: defaultdict(int))
    begin, end = tokenizer.bos_id, tokenizer.eos_id
    for row in train_rows:
        before = (begin, begin)
        for token in [*row, end]:
            table[before][token] += 1
            before = (before[1], token)
    total, count = 0.0, 0
    for row in held_rows:
        before = (begin, begin)
        for token in [*row, end]:
            after = table[before]
            below = sum(after.values()) + alpha * tokenizer.vocab_size
            total -= math.log((after[token] + alpha) / below)
            count += 1
            before = (before[1], token)
    return total / count


def trigram_by_table(train_rows, held_rows, tokenizer, alpha=0.01):
    size = tokenizer.vocab_size
    counts = torch.full((size, size, size), alpha, dtype=torch.float64)

    def triples(rows):
        ends = [tokenizer.bos_id] * 2, [tokenizer.eos_id]
        rows = [torch.tensor([*ends[0], *row, *ends[1]]) for row in rows]
        return torch.cat([row.unfold(0, 3, 1) for row in rows]).unbind(1)

    one = torch.ones((), dtype=torch.float64)
    counts.index_put_(triples(train_rows), one, accumulate=True)
    chances = counts / counts.sum(-1, keepdim=True)
    return -chances[triples(held_rows)].log().mean()


# --- blocks ------------------------------------------------------------------------


def joined(rows, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    return torch.tensor(stream)


def blocks_by_loops(rows, length, eos_id):
    stream, inputs, labels = joined(rows, eos_id).tolist(), [], []
    for start in range(0, len(stream) - length, length):
        inputs.append(stream[start : start + length])
        labels.append(stream[start + 1 : start + length + 1])
    return torch.tensor(inputs), torch.tensor(labels)


def blocks_by_unfold(rows, length, eos_id):
    windows = joined(rows, eos_id).unfold(0, length + 1, length)
    return windows[:, :-1], windows[:, 1:]


def without_end_and_shift(rows, length, eos_id):
    stream = torch.tensor([token for row in rows for token in row])
    used = len(stream) // length * length
    return stream[:used].view(-1, length), stream[:used].view(-1, length)


# --- the step ----------------------------------------------------------------------


def steps_cleared_last(model, optimizer, batches):
    losses = torch.zeros(len(batches))
    for i, (inputs, labels) in enumerate(batches):
        loss = mean_loss(model(inputs), labels)
        losses[i] = loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses.tolist()


def steps_by_hand(model, optimizer, batches):
    criterion, losses = nn.CrossEntropyLoss(ignore_index=-100), []
    for batch in batches:
        loss = criterion(model(batch[0]).flatten(0, 1), batch[1].flatten())
        parts = torch.autograd.grad(loss, list(model.parameters()))
        for weight, gradient in zip(model.parameters(), parts, strict=True):
            weight.grad = gradient
        optimizer.step()
        losses += [loss.item()]
    return losses


def uncleared_inputs(model, optimizer, batches):
    losses = []
    for inputs, _ in batches:
        loss = mean_loss(model(inputs), inputs)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def uncleared_and_late(model, optimizer, batches):
    losses = []
    for inputs, labels in batches:
        mean_loss(model(inputs), labels).backward()
        optimizer.step()
        losses.append(mean_loss(model(inputs), labels).item())
    return losses


# --- accumulated gradients ---------------------------------------------------------


def accumulated_by_weights(model, optimizer, batches):
    """Each mean weighted by the part's share of the labels."""
    losses = []
    for parts in batches:
        counts = [int((labels >= 0).sum()) for _, labels in parts]
        means = []
        for (inputs, labels), count in zip(parts, counts, strict=True):
            loss = F.cross_entropy(model(inputs).mT, labels)
            (loss * count / sum(counts)).backward()
            means.append(loss.item() * count)
        losses.append(sum(means) / sum(counts))
        optimizer.step()
        optimizer.zero_grad()
    return losses


def accumulated_by_hand(model, optimizer, batches):
    """Gradients asked for, added up in a list, and put where the optimizer looks."""
    weights = list(model.parameters())
    losses = []
    for parts in batches:
        counted = sum(len(labels[labels != -100]) for _, labels in parts)
        collected = [torch.zeros_like(weight) for weight in weights]
        total = 0
        for inputs, labels in parts:
            counted_labels = labels != -100
            chances = model(inputs)[counted_labels].log_softmax(-1)
            loss = -chances.gather(1, labels[counted_labels][:, None]).sum() / counted
            for sum_so_far, new in zip(
                collected, torch.autograd.grad(loss, weights), strict=True
            ):
                sum_so_far += new
            total += loss.item()
        for weight, gradient in zip(weights, collected, strict=True):
            weight.grad = gradient
        optimizer.step()
        losses += [total]
    return losses


def accumulated_means_stepwise(model, optimizer, batches):
    """Means, divided by the number of parts, and a step after each."""
    losses = []
    for parts in batches:
        total = 0.0
        for inputs, labels in parts:
            optimizer.zero_grad()
            loss = mean_loss(model(inputs), labels) / len(parts)
            loss.backward()
            optimizer.step()
            total += loss.item()
        losses.append(total)
    return losses


def accumulated_means_never_emptied(model, optimizer, batches):
    losses = []
    for parts in batches:
        total = 0.0
        for inputs, labels in parts:
            loss = mean_loss(model(inputs), labels) / len(parts)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


# --- two guards --------------------------------------------------------------------


def rate_by_minimum(step, steps, warmup, peak):
    down = max(step - warmup, 0) / (steps - warmup + 1)
    climb = min(1.0, step / max(warmup, 1))
    return peak * climb * math.cos(math.pi / 2 * down) ** 2


def rate_by_tensor(step, steps, warmup, peak):
    climb = torch.linspace(0, peak, warmup + 1)[1:]
    angles = torch.linspace(0, math.pi, steps - warmup + 2)[1:-1]
    return torch.cat([climb, peak * (1 + angles.cos()) / 2])[step - 1]


def rate_by_cases(step, steps, warmup, peak):
    if step <= warmup:
        return step / warmup * peak
    return peak / 2 * (1 + math.cos(math.pi * (step - warmup) / (steps + 1 - warmup)))


def clip_by_pytorch(gradients, most):
    weights = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    nn.utils.clip_grad_norm_(weights, most)
    return [weight.grad for weight in weights]


def clip_by_loops(gradients, most):
    total = 0.0
    for gradient in gradients:
        for number in gradient.flatten().tolist():
            total += number * number
    return [g / max(1.0, math.sqrt(total) / most) for g in gradients]


RIGHT_ANSWERS = {
    "training.perplexity": [
        perplexity_by_loops,
        lambda logits, labels: mean_loss(logits, labels).exp(),
    ],
    "training.trigram": [trigram_by_dicts, trigram_by_table],
    "training.blocks": [blocks_by_loops, blocks_by_unfold],
    "training.step": [steps_cleared_last, steps_by_hand],
    "training.accumulate": [
        accumulated_by_weights,
        accumulated_by_hand,
    ],
    "training.learning_rate": [rate_by_minimum, rate_by_tensor],
    "training.clip": [clip_by_pytorch, clip_by_loops],
}
DOUBLE_MISTAKES = {
    "training.perplexity": [
        lambda logits, labels: (
            2 ** F.cross_entropy(logits.mT, labels, reduction="none").mean()
        ),
        lambda logits, labels: F.cross_entropy(logits.mT, labels, reduction="sum"),
    ],
    "training.trigram": [
        lambda train, held, special, alpha: trigram_line(held, train, special, alpha),
        lambda train, held, special, alpha: trigram_line(
            [row[:-1] for row in train], held, special, 2 * alpha
        ),
    ],
    "training.blocks": [without_end_and_shift],
    "training.step": [uncleared_inputs, uncleared_and_late],
    "training.accumulate": [
        accumulated_means_stepwise,
        accumulated_means_never_emptied,
    ],
    "training.learning_rate": [
        lambda step, steps, warmup, peak: rate_by_cases(step, steps, 0.5, 2 * peak),
        lambda step, steps, warmup, peak: (
            (step - 1) / max(warmup, 1) * peak * (1 - step / steps)
        ),
    ],
    "training.clip": [
        lambda gradients, most: [g * most / g.norm() for g in gradients],
        lambda gradients, most: [
            g * most / sum(g.sum() for g in gradients) for g in gradients
        ],
    ],
}
