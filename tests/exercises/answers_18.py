"""Right answers to the exercises of notebook 18, each unlike the reference."""

import torch
from torch.nn import functional as F


def labels_by_a_loop(prompt, answer):
    inputs, labels = [], []
    ids = [*prompt, *answer]
    for place in range(len(ids) - 1):
        inputs.append(ids[place])
        labels.append(ids[place + 1] if place + 1 >= len(prompt) else -100)
    return inputs, labels


def merged_lora(x, weight, down, up, scale):
    return F.linear(x, weight + scale * up @ down)


def advantages_by_rows(rewards):
    rows = []
    for row in rewards:
        apart = row - row.sum() / len(row)
        rows.append(apart / ((apart**2).mean() ** 0.5 + 1e-4))
    return torch.stack(rows)


def penalty_of_ratios(log_probs, reference):
    return (torch.expm1(reference - log_probs) + log_probs - reference).mean()


def reward_by_index(words, name):
    end = words.index(".") if "." in words else -1
    if end < 6:
        return 0.0
    return 1.0 if sum(word == name for word in words[:end]) == 1 else 0.0


RIGHT_ANSWERS = {
    "after.answer_labels": [labels_by_a_loop],
    "after.lora": [merged_lora],
    "after.advantages": [advantages_by_rows],
    "after.penalty": [penalty_of_ratios],
    "after.reward": [reward_by_index],
}
