"""Right answers to the exercises of notebook 13, each unlike the reference."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from course_utils import TrainConfig, learning_rate_at


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
            if not count:  # the mean of nothing is nan
                continue
            loss = F.cross_entropy(model(inputs).mT, labels)
            (loss * count / sum(counts)).backward()
            means.append(loss.item() * count)
        losses.append(sum(means) / sum(counts))
        optimizer.step()
        optimizer.zero_grad()
    return losses


def clip_by_pytorch(gradients, most):
    weights = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    nn.utils.clip_grad_norm_(weights, most)
    return [weight.grad for weight in weights]


def adamw_of_pytorch(weight, gradient, mean, square, step, rate, betas, eps, decay):
    one = nn.Parameter(weight.clone())
    one.grad = gradient.clone()
    adamw = torch.optim.AdamW([one], rate, betas, eps, decay)
    moments = {"exp_avg": mean.clone(), "exp_avg_sq": square.clone()}
    adamw.state[one] = {"step": torch.tensor(step - 1.0), **moments}
    adamw.step()
    state = adamw.state[one]
    return one.detach(), state["exp_avg"], state["exp_avg_sq"]


def rate_by_angle(step, steps, peak, warmup):
    if step >= warmup:
        half = math.pi / 2 * (step - warmup) / (steps + 1 - warmup)
        return peak * math.cos(half) ** 2
    return peak - peak * (warmup - step) / warmup


def rate_of_the_package(step, steps, peak, warmup):
    config = TrainConfig(steps=steps, learning_rate=peak, warmup_steps=warmup)
    return learning_rate_at(step, config)


RIGHT_ANSWERS = {
    "training.perplexity": [perplexity_by_loops],
    "training.blocks": [blocks_by_unfold],
    "training.step": [steps_cleared_last],
    "training.accumulate": [accumulated_by_weights],
    "training.adamw": [adamw_of_pytorch],
    "training.rate": [rate_by_angle, rate_of_the_package],
    "training.clip": [clip_by_pytorch],
}
