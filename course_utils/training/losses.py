"""What a training lowers: cross-entropy in nats, for each kind of model.

Is handed a module and a batch. Knows nothing of architectures, data or text.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from course_utils.shapes import (
    IGNORED,
    check_bounds,
    check_same,
    shown,
    values_are_at_hand,
)

PIECE = 256  # positions whose logits are worked on together; they fit into a cache

Batch = Sequence[Tensor]
Loss = Callable[[nn.Module, Batch, float], Tensor]


def label_loss(
    logits: Float[Tensor, "b t v"], labels: Int64[Tensor, "b t"], label_smoothing: float
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the labels that are not IGNORED (-100).

    Raises TypeError or ValueError for logits and labels that do not fit together and,
    where reading labels costs nothing (on the CPU), for labels outside the vocabulary
    or all of them IGNORED.
    """
    if labels.dtype != torch.int64:
        raise TypeError(f"labels must be int64, got {labels.dtype}")
    both = tuple(logits.shape[:2]), tuple(labels.shape)
    check_same("logits and labels: batch and length", *both)
    if values_are_at_hand(labels):
        _check_labels(labels, logits.shape[2])
    logits = rearrange(logits, "b t v -> (b t) v")
    labels = rearrange(labels, "b t -> (b t)")
    if _is_faster_in_pieces(logits):
        return _LossInPieces.apply(logits, labels, label_smoothing)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(
        wide, labels, ignore_index=IGNORED, label_smoothing=label_smoothing
    )


def _is_faster_in_pieces(logits: Tensor) -> bool:
    """On a CPU the float32 copies of all logits cost more than the arithmetic."""
    trained = logits.requires_grad and torch.is_grad_enabled()
    return trained and logits.device.type == "cpu" and logits.dtype == torch.bfloat16


class _LossInPieces(torch.autograd.Function):
    """The mean cross-entropy of bfloat16 logits, found together with its gradient.

    Only one piece at a time stands in float32.
    """

    @staticmethod
    def forward(
        ctx, logits: Tensor, labels: Tensor, label_smoothing: float
    ) -> Float[Tensor, ""]:
        counted = (labels != IGNORED).sum()
        loss = torch.zeros((), dtype=torch.float32)
        gradient = torch.empty_like(logits)
        for start in range(0, len(logits), PIECE):
            piece = slice(start, start + PIECE)
            with torch.enable_grad():
                wide = logits[piece].detach().float().requires_grad_()
                part = F.cross_entropy(
                    wide,
                    labels[piece],
                    ignore_index=IGNORED,
                    label_smoothing=label_smoothing,
                    reduction="sum",
                )
            loss += part.detach()
            gradient[piece] = torch.autograd.grad(part, wide)[0] / counted
        ctx.save_for_backward(gradient)
        return loss / counted

    @staticmethod
    @once_differentiable
    def backward(ctx, outer: Float[Tensor, ""]) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * outer, None, None


def _check_labels(labels: Tensor, vocab_size: int) -> None:
    counted = labels[labels != IGNORED]
    if not len(counted):
        raise ValueError(f"labels must hold one to count, all are {IGNORED} (ignored)")
    check_bounds(counted, 0, vocab_size, "labels", "vocab_size")


def next_token_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Loss of a decoder-only model on (inputs "b t", labels "b t"), in nats per label.

    Raises TypeError or ValueError for another batch, and as `label_loss`.
    """
    inputs, labels = _unpacked(batch, "(inputs, labels)")
    return label_loss(model(inputs), labels, label_smoothing)


def translation_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Loss of an encoder-decoder on (source "b s", target_in "b t", labels "b t").

    In nats per label. Raises TypeError or ValueError for another batch, and as
    `label_loss`.
    """
    source, target_in, labels = _unpacked(batch, "(source, target_in, labels)")
    return label_loss(model(source, target_in), labels, label_smoothing)


def class_loss(model: nn.Module, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Loss of a classifier on (ids "b t", positions "b", labels "b") or (ids, labels).

    Mean cross-entropy in nats per row.
    """
    whole_texts = isinstance(batch, tuple | list) and len(batch) == 2
    names = "(ids, labels)" if whole_texts else "(ids, positions, labels)"
    *inputs, labels = _unpacked(batch, names)
    return label_loss(model(*inputs)[:, None], labels[:, None], label_smoothing)


def _unpacked(batch: object, names: str) -> Batch:
    count = names.count(",") + 1
    if not isinstance(batch, tuple | list):
        raise TypeError(f"batch must be a tuple {names}, got {shown(batch)}")
    if len(batch) != count:
        raise ValueError(f"batch must be {names}, got {len(batch)} tensors")
    return batch
