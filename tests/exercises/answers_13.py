"""Right answers to the exercises of notebook 13, each unlike the reference."""

import math

import torch
from torch import nn
from torch.nn import functional as F


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


def joined(rows, eos_id):
    stream = [eos_id]
    for row in rows:
        stream += [*row, eos_id]
    return torch.tensor(stream)


def blocks_by_unfold(rows, length, eos_id):
    windows = joined(rows, eos_id).unfold(0, length + 1, length)
    return windows[:, :-1], windows[:, 1:]


def steps_cleared_last(model, optimizer, batches):
    losses = torch.zeros(len(batches))
    for i, (inputs, labels) in enumerate(batches):
        loss = mean_loss(model(inputs), labels)
        losses[i] = loss.detach()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses.tolist()


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


def rate_by_tensor(step, steps, warmup, peak):
    climb = torch.linspace(0, peak, warmup + 1)[1:]
    angles = torch.linspace(0, math.pi, steps - warmup + 2)[1:-1]
    return torch.cat([climb, peak * (1 + angles.cos()) / 2])[step - 1]


def clip_by_pytorch(gradients, most):
    weights = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    nn.utils.clip_grad_norm_(weights, most)
    return [weight.grad for weight in weights]


RIGHT_ANSWERS = {
    "training.perplexity": [perplexity_by_loops],
    "training.trigram": [trigram_by_table],
    "training.blocks": [blocks_by_unfold],
    "training.step": [steps_cleared_last],
    "training.accumulate": [accumulated_by_weights],
    "training.learning_rate": [rate_by_tensor],
    "training.clip": [clip_by_pytorch],
}
