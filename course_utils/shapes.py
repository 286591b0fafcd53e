"""The legend of axes, and the checks that turn nonsense into one clear sentence.

Knows what a tensor of ids or a mask looks like. Knows nothing of layers.

    b  batch                 h  head              m  model width (d_model)
    q  query position        g  key-value head    n  memory width (d_memory)
    k  key position          d  head width        f  feed-forward width
    t  position, when q = k  v  vocabulary        s  source position

Every signature of the package spells its tensors with these letters, for example
`Float[Tensor, "b h q d"]`. In the tests the annotations are executed.
"""

import torch
from torch import Tensor


def check_positive(**sizes: int) -> None:
    """Raise ValueError unless every named size is a whole number of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(
                f"{name} must be a whole number of at least 1, got {size!r}"
            )


def check_divides(whole_name: str, whole: int, parts_name: str, parts: int) -> None:
    """Raise ValueError unless `parts` equal shares make up `whole`."""
    if whole % parts:
        raise ValueError(
            f"{whole_name}={whole} must divide into {parts_name}={parts} equal parts, "
            f"but {whole} / {parts} leaves a remainder of {whole % parts}"
        )


def check_fraction(**rates: float) -> None:
    """Raise ValueError unless every named rate lies in [0, 1)."""
    for name, rate in rates.items():
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"{name} must be at least 0 and below 1, got {rate!r}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless `value` is one of `choices`."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def check_ids(ids: Tensor, vocab_size: int, name: str = "ids") -> None:
    """Raise unless `ids` is a non-empty int64 "b t" tensor of ids below vocab_size.

    TypeError for another type or dtype, ValueError for another shape or a stray id.
    """
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(ids).__name__}")
    if ids.dtype != torch.int64:
        raise TypeError(f"{name} must be int64 token ids, got {ids.dtype}")
    if ids.ndim != 2 or 0 in ids.shape:
        raise ValueError(
            f"{name} must have a shape (batch, positions) with at least one of each, "
            f"got {tuple(ids.shape)}"
        )
    low, high = ids.aminmax()
    if low < 0 or high >= vocab_size:
        stray = int(low) if low < 0 else int(high)
        raise ValueError(
            f"{name} must lie between 0 and vocab_size - 1 = {vocab_size - 1}, "
            f"got {stray}"
        )


def check_mask(mask: Tensor, shape: tuple[int, ...], name: str = "mask") -> None:
    """Raise unless `mask` is bool (True = may look) and broadcasts to `shape`.

    TypeError for another type or dtype, ValueError for a shape that does not fit.
    """
    if not isinstance(mask, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise TypeError(f"{name} must be bool (True = may look), got {mask.dtype}")
    fits = mask.ndim <= len(shape) and all(
        have in (1, want) for have, want in zip(mask.shape[::-1], shape[::-1])
    )
    if not fits:
        raise ValueError(
            f"{name} must broadcast to (batch, heads, query, key) = {tuple(shape)}, "
            f"got {tuple(mask.shape)}"
        )
