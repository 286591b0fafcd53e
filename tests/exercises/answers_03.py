"""Right answers of many styles to the exercises of notebook 03."""

import torch
from torch.nn import functional as F

from course_utils.attention import attend
from course_utils.masks import causal_mask


def causal_by_loops(length):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for q in range(length):
        for k in range(q + 1):
            mask[q, k] = True
    return mask


def causal_by_places(length):
    places = torch.arange(length)
    return places[:, None] >= places


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
    return attend(scores, ones, ones, mask, scale=1.0)


def window_by_places(length, width):
    back = torch.arange(length)[:, None] - torch.arange(length)
    return (back >= 0) & (back < width)


def window_by_loops(length, width):
    return torch.tensor(
        [[0 <= q - k < width for k in range(length)] for q in range(length)]
    )


def convert_by_loops(theirs):
    def is_open(entry):
        return not entry if isinstance(entry, bool) else entry > float("-inf")

    return torch.tensor([[is_open(entry) for entry in row] for row in theirs.tolist()])


TWO_NEW = torch.ones(2, 7, dtype=torch.bool)
TWO_NEW[0, 6] = False
RIGHT_ANSWERS = {
    "masks.causal": [
        causal_by_loops,
        causal_by_places,
    ],
    "masks.padding": [
        padding_by_loops,
        lambda ids, pad_id: ids.ne(pad_id).unsqueeze(1).unsqueeze(1),
    ],
    "masks.join": [
        torch.logical_and,
        lambda a, b: a * b,
    ],
    "masks.weights": [
        weights_by_powers,
        weights_by_the_kernel,
    ],
    "masks.window": [window_by_places, window_by_loops],
    "masks.shift": [
        lambda ids: [ids[..., :-1].clone(), ids[..., 1:].clone()],
        lambda ids: (F.pad(ids, (0, -1)), F.pad(ids, (-1, 0))),
    ],
    "masks.convert": [
        convert_by_loops,
        lambda m: m == 0 if m.dtype == torch.bool else ~m.isinf(),
    ],
    "masks.two_new": [TWO_NEW, causal_mask(2, 7), causal_mask(7)[-2:]],
}
DOUBLE_MISTAKES = {
    "masks.causal": [
        lambda length: ~torch.ones(length, length).tril(-1).bool(),  # closed, one ahead
        lambda length: torch.ones(length, length).triu(1).T,  # itself hidden, no bools
    ],
    "masks.padding": [
        lambda ids, pad: (ids == 0)[:, None, None, :],
        lambda ids, pad: (ids != 0)[:, None, :, None],
    ],
    "masks.join": [lambda a, b: ~(a | b), lambda a, b: ~a & torch.ones_like(b)],
    "masks.window": [
        lambda t, w: torch.ones(t, t).bool().triu(-w),  # the future, one too many
        lambda t, w: ~window_by_places(t, w + 1),
    ],
    "masks.weights": [
        lambda s, mask: s.masked_fill(mask, float("-inf")).softmax(dim=-1),
        lambda s, mask: (s * ~mask).softmax(dim=-1),
    ],
    "masks.convert": [
        lambda m: m,
        lambda m: m if m.dtype == torch.bool else m == -torch.inf,
    ],
    "masks.shift": [
        lambda ids: (ids[:, 2:], ids[:, :-2]),
        lambda ids: (ids[:, 1:], ids[:, 1:]),
    ],
}
