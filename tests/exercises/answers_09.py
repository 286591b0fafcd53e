"""Right answers to the exercises of notebook 09, each unlike the reference."""

import torch


def pick_by_gather(vectors, positions):
    index = positions[:, None, None].expand(-1, 1, vectors.shape[-1])
    return vectors.gather(1, index).squeeze(1)


def pool_by_nanmean(vectors, real):
    return vectors.masked_fill(~real.unsqueeze(-1), float("nan")).nanmean(dim=1)


def hide_by_where(ids, chosen, mask_id):
    asked = chosen.logical_and(ids.ne(0))
    return torch.where(asked, mask_id, ids), torch.where(asked, ids, -100)


RIGHT_ANSWERS = {
    "senses.hide": [hide_by_where],
    "senses.pick": [pick_by_gather],
    "senses.pool": [pool_by_nanmean],
    "senses.causal_share": [torch.tensor(0.5)],
}
