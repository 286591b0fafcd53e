"""Right answers to the exercises of notebook 03, each unlike the reference."""

import torch
from torch.nn import functional as F

from course_utils.attention import attend


def padding_by_loops(ids, pad_id):
    rows = [[int(token) != pad_id for token in row] for row in ids]
    return torch.tensor(rows).view(len(ids), 1, 1, -1)


def weights_by_powers(scores, mask):
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp() * mask
    return powers / powers.sum(dim=-1, keepdim=True).clamp(min=1e-30)


def weights_by_the_kernel(scores, mask):
    """Queries and keys whose product is the scores; values that show the weights."""
    size = scores.shape[-1]
    ones = torch.eye(size, dtype=scores.dtype).expand(*scores.shape[:-2], size, size)
    return attend(scores * size**0.5, ones, ones, mask)


def window_by_loops(length, width):
    return torch.tensor(
        [[0 <= q - k < width for k in range(length)] for q in range(length)]
    )


RIGHT_ANSWERS = {
    "masks.causal": [lambda length: window_by_loops(length, length)],
    "masks.padding": [padding_by_loops],
    "masks.join": [lambda a, b: a * b],
    "masks.weights": [weights_by_powers, weights_by_the_kernel],
    "masks.window": [window_by_loops],
    "masks.shift": [lambda ids: [F.pad(ids, (0, -1)), F.pad(ids, (-1, 0))]],
    "masks.convert": [lambda m: m == 0 if m.dtype == torch.bool else ~m.isinf()],
}
