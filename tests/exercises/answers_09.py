"""Right answers to the exercises of notebook 09 in many styles; doubly wrong ones."""

import nb09_masked_words
import torch
from nb09_senses import pick, pool, strongest_clue


def pick_by_loops(vectors, positions):
    return torch.stack([row[i] for row, i in zip(vectors, positions, strict=True)])


def pick_by_gather(vectors, positions):
    index = positions[:, None, None].expand(-1, 1, vectors.shape[-1])
    return vectors.gather(1, index).squeeze(1)


def pick_by_product(vectors, positions):
    chosen = torch.nn.functional.one_hot(positions, vectors.shape[1]).to(vectors)
    return torch.einsum("bt,btm->bm", chosen, vectors)


def pool_by_loops(vectors, real):
    return torch.stack([v[r].mean(0) for v, r in zip(vectors, real, strict=True)])


def pool_by_shares(vectors, real):
    shares = real.to(vectors) / real.sum(1, keepdim=True)
    return (shares[:, None] @ vectors).squeeze(1)


def pool_by_nanmean(vectors, real):
    return vectors.masked_fill(~real.unsqueeze(-1), float("nan")).nanmean(dim=1)


def pool_by_einsum(vectors, real):
    counts = real.sum(-1, keepdim=True).clamp(min=1)
    return torch.einsum("btm,bt->bm", vectors, real.to(vectors.dtype)) / counts


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


def hide_by_indexing(ids, chosen, mask_id):
    inputs = ids.clone()
    labels = torch.full_like(ids, -100)
    places = torch.nonzero(chosen & (ids > 0), as_tuple=True)
    labels[places] = ids[places]
    inputs[places] = mask_id
    return inputs, labels


RIGHT_ANSWERS = {
    "senses.hide": [
        hide_by_where,
        hide_by_loops,
        hide_by_indexing,
        nb09_masked_words.hide,
    ],
    "senses.pick": [pick_by_loops, pick_by_gather, pick_by_product, pick],
    "senses.pool": [
        pool_by_loops,
        pool_by_shares,
        pool_by_nanmean,
        pool_by_einsum,
        pool,
    ],
    "senses.strongest_clue": [
        clue_by_loops,
        lambda weights, position: weights.mean(0)[position].argmax(),
        lambda weights, position: weights.sum(0).argmax(dim=-1)[position],
        strongest_clue,
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
