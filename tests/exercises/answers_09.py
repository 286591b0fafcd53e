"""Right answers to the exercises of notebook 09 in many styles; doubly wrong ones."""

import torch


def pick_by_loops(vectors, positions):
    return torch.stack([row[i] for row, i in zip(vectors, positions, strict=True)])


def pick_by_gather(vectors, positions):
    index = positions[:, None, None].expand(-1, 1, vectors.shape[-1])
    return vectors.gather(1, index).squeeze(1)


def pool_by_loops(vectors, real):
    return torch.stack([v[r].mean(0) for v, r in zip(vectors, real, strict=True)])


def pool_by_nanmean(vectors, real):
    return vectors.masked_fill(~real.unsqueeze(-1), float("nan")).nanmean(dim=1)


def clue_by_loops(weights, position):
    rows = weights[:, position].tolist()
    sums = [sum(column) for column in zip(*rows, strict=True)]
    return max(range(len(sums)), key=sums.__getitem__)


def hide_by_where(ids, chosen, mask_id):
    asked = chosen.logical_and(ids.ne(0))
    return torch.where(asked, mask_id, ids), torch.where(asked, ids, -100)


def hide_by_loops(ids, chosen, mask_id):
    inputs, labels = ids.tolist(), ids.tolist()
    for row, choices in enumerate(chosen.tolist()):
        for place, is_chosen in enumerate(choices):
            if is_chosen and inputs[row][place] != 0:
                inputs[row][place] = mask_id
            else:
                labels[row][place] = -100
    return torch.tensor(inputs), torch.tensor(labels)


RIGHT_ANSWERS = {
    "senses.hide": [
        hide_by_where,
        hide_by_loops,
    ],
    "senses.pick": [pick_by_loops, pick_by_gather],
    "senses.pool": [
        pool_by_loops,
        pool_by_nanmean,
    ],
    "senses.strongest_clue": [
        clue_by_loops,
        lambda weights, position: weights.sum(0).argmax(dim=-1)[position],
    ],
    "senses.causal_share": [0.5, 1 / 2, torch.tensor(0.5)],
}
DOUBLE_MISTAKES = {
    "senses.hide": [
        lambda ids, chosen, mask_id: (ids, ids),
        lambda ids, chosen, mask_id: (ids, ids.masked_fill(~chosen, 0)),
    ],
    "senses.pick": [lambda vectors, positions: vectors[:, positions[0] - 1]],
    "senses.pool": [
        lambda vectors, real: (vectors * ~real[:, :, None]).mean(1),
        lambda vectors, real: vectors.sum(1) / real.sum(),
    ],
    "senses.strongest_clue": [
        lambda weights, position: weights[0, :, position].argmax(-1, keepdim=True),
        lambda weights, position: weights[:, :, position].argmax(),
    ],
}
