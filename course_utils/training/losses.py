"""What training lowers: cross-entropy in nats, for each kind of model.

Is handed a module and a batch. Knows nothing of architectures, data or text.
"""

from collections.abc import Callable, Sequence

import torch
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils.checks import IGNORED, check_same, values_are_at_hand
from course_utils.kernels import cross_entropy

Batch = Sequence[Tensor]
Batches = Callable[[int], Batch]
Loss = Callable[[nn.Module, Batch, float], Tensor]


def label_loss(
    logits: Float[Tensor, "b t v"], labels: Int64[Tensor, "b t"], label_smoothing: float
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the labels that are not IGNORED (-100)."""
    both = tuple(logits.shape[:2]), tuple(labels.shape)
    check_same("logits and labels: batch and length", *both)
    if values_are_at_hand(labels) and (labels == IGNORED).all():
        raise ValueError(f"labels must hold one to count, all are {IGNORED} (ignored)")
    logits = rearrange(logits, "b t v -> (b t) v")
    return cross_entropy(logits, rearrange(labels, "b t -> (b t)"), label_smoothing)


def next_token_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Nats per label of a decoder-only model on (inputs "b t", labels "b t")."""
    inputs, labels = _checked_batch(batch, "(inputs, labels)")
    return label_loss(model(inputs), labels, label_smoothing)


def translation_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Nats per label of an encoder-decoder on (source "b s", target "b t", labels)."""
    source, target_in, labels = _checked_batch(batch, "(source, target, labels)")
    return label_loss(model(source, target_in), labels, label_smoothing)


def _checked_batch(batch: Batch, names: str) -> Batch:
    if len(batch) != names.count(",") + 1:
        got = f"got {len(batch)} parts: train(..., loss=...) names another loss"
        raise ValueError(f"the batch of this loss must be {names}, {got}")
    return batch


def count_labels(batch: Batch, step: int) -> int:
    """How many labels of a batch, its last tensor, are not IGNORED; one at least."""
    counted = int((batch[-1] != IGNORED).sum())
    if not counted:
        raise ValueError(f"batches({step}): every label is {IGNORED} (ignored)")
    return counted


def to_device(batch: Batch, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """A batch where the model is; what is floating point in the type of its weights."""
    return [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in batch]
