"""Right answers to the exercises of notebook 11 in many styles; doubly wrong ones."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from nb11_next_token_loss import loss_by_position, next_token_loss


def heads_by_reshape(fused, num_heads):
    batch, length, width = fused.shape
    cut = fused.reshape(batch, length, 3, num_heads, width // 3 // num_heads)
    return cut.permute(2, 0, 3, 1, 4)


def heads_by_loops(fused, num_heads):
    size = fused.shape[-1] // 3 // num_heads
    pieces = fused.split(size, dim=-1)
    rows = [pieces[r * num_heads : (r + 1) * num_heads] for r in range(3)]
    return torch.stack([torch.stack(row, dim=1) for row in rows])


def loss_by_hand(logits, ids):
    logs = logits[:, :-1].log_softmax(-1)
    return -logs.gather(-1, ids[:, 1:, None]).mean()


def loss_by_loops(logits, ids):
    total = count = 0
    for row, words in zip(logits, ids, strict=True):
        for place in range(len(words) - 1):
            total += torch.logsumexp(row[place], 0) - row[place, words[place + 1]]
            count += 1
    return (total / count).item()


def loss_by_rearrange(logits, ids):
    flat = rearrange(logits[:, :-1], "b t v -> (b t) v")
    return F.cross_entropy(flat, rearrange(ids[:, 1:], "b t -> (b t)"))


def positions_by_loops(logits, labels):
    places = range(labels.shape[1])
    return torch.stack([F.cross_entropy(logits[:, t], labels[:, t]) for t in places])


def positions_by_flat(logits, labels):
    each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
    return each.view(labels.shape).mean(0)


def positions_by_hand(logits, labels):
    right = logits.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(-1) - right).sum(0) / len(labels)


def count_by_formula(vocab_size, length, d_model, blocks, d_ff):
    block = 4 * d_model**2 + 2 * d_model * d_ff
    return vocab_size * d_model + length * d_model + blocks * block


def count_by_shapes(v, t, m, n, f):
    shapes = [(v, m), (t, m)] + n * [(m, 3 * m), (m, m), (m, f), (f, m)]
    return sum(rows * columns for rows, columns in shapes)


def count_as_tensor(v, t, m, n, f):
    return torch.tensor(count_by_formula(v, t, m, n, f))


def one_batch_by_hand(model, inputs, labels, steps, rate):
    def loss():
        return (
            -torch.log_softmax(model(inputs), -1).gather(-1, labels[..., None]).mean()
        )

    first = loss().item()
    for _ in range(steps):
        gradients = torch.autograd.grad(loss(), list(model.parameters()))
        with torch.no_grad():
            for weight, gradient in zip(model.parameters(), gradients, strict=True):
                weight -= rate * gradient
    return first, loss().item()


def one_batch_by_list(model, inputs, labels, steps, rate):
    optimizer = torch.optim.SGD(model.parameters(), rate)
    losses = []
    while len(losses) <= steps:
        logits = model(inputs).transpose(1, 2)
        losses.append(torch.nn.functional.cross_entropy(logits, labels))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    return losses[0].item(), losses[-1].item()


RIGHT_ANSWERS = {
    "backbone.one_batch": [
        one_batch_by_hand,
        one_batch_by_list,
    ],
    "backbone.heads_from_qkv": [
        heads_by_reshape,
        heads_by_loops,
    ],
    "backbone.first_loss": [
        9.125,
        math.log(2981) + 1.125,
        torch.tensor(2981.0).log() + 1.5**2 / 2,
    ],
    "backbone.count_weights": [
        count_by_formula,
        count_by_shapes,
        count_as_tensor,
    ],
    "backbone.next_token_loss": [
        loss_by_hand,
        loss_by_loops,
        loss_by_rearrange,
    ],
    "backbone.loss_by_position": [
        positions_by_loops,
        positions_by_flat,
        positions_by_hand,
    ],
}
DOUBLE_MISTAKES = {
    "backbone.one_batch": [
        lambda model, inputs, labels, steps, rate: (float(steps), rate),
        lambda model, inputs, labels, steps, rate: one_batch_by_hand(
            model, inputs, inputs, steps + 1, rate
        ),
    ],
    "backbone.heads_from_qkv": [
        lambda x, h: rearrange(x, "b t (h three d) -> three b t h d", three=3, h=h),
        lambda x, h: rearrange(x, "b t (d h three) -> three b h t d", three=3, h=h),
    ],
    "backbone.count_weights": [
        lambda v, t, m, n, f: v * m + n * (4 * m * m + m * f),
        lambda v, t, m, n, f: 2 * v * m + t * m + 3 * m * m + 2 * m * f,
    ],
    "backbone.next_token_loss": [
        lambda logits, ids: next_token_loss(logits.softmax(-1).roll(1, 1), ids),
        lambda logits, ids: F.cross_entropy(
            logits.flatten(0, 1), ids.flatten(), reduction="sum"
        ),
    ],
    "backbone.loss_by_position": [
        lambda logits, labels: loss_by_position(logits.softmax(-1), labels).sum(),
        lambda logits, labels: positions_by_loops(logits, labels) * len(labels) + 1,
    ],
}
