"""Who may look at whom. In every mask of this course **True means: may look**.

Knows positions and padding ids. Knows nothing of scores.
"""

from functools import reduce

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from course_utils.checks import check_ids, check_integer


def causal_mask(
    query_length: int,
    key_length: int | None = None,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "q k"]:
    """A position may look at itself and at what came before it.

    With more keys than queries the queries are the *last* positions, as in decoding
    with a cache: query i sits at position i + key_length - query_length.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    key_length = query_length if key_length is None else key_length
    check_integer(1, query_length=query_length)
    check_integer(query_length, key_length=key_length)
    ones = torch.ones(query_length, key_length, dtype=torch.bool, device=device)
    return ones.tril(diagonal=key_length - query_length)


def padding_mask(ids: Int64[Tensor, "b k"], pad_id: int) -> Bool[Tensor, "b 1 1 k"]:
    """No query looks at padding: hides *keys*, for every head and every query."""
    check_ids(ids, None)
    check_integer(0, pad_id=pad_id)
    return (ids != pad_id)[:, None, None, :]


def combine_masks(*masks: Tensor | None) -> Tensor | None:
    """May look only where every mask allows it; None stands for "no restriction"."""
    present = [mask for mask in masks if mask is not None]
    for mask in present:
        if mask.dtype != torch.bool:
            raise TypeError(f"masks must be bool (True = may look), got {mask.dtype}")
    return reduce(torch.logical_and, present) if present else None
