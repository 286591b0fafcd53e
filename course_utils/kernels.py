"""Attention and cross-entropy as PyTorch computes them, or faster on a CPU in bfloat16.

What is asked decides, and nothing has to be switched on; the numbers agree up to
rounding. BENCHMARKS.md has the times:

    scaled_dot_product_attention   as two matrix products, for causal texts of up to
                                   512 tokens: 4 ms instead of 14
    cross_entropy                  in training, in pieces that fit into the cache: a
                                   step of 152 ms instead of 162
"""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_utils.checks import IGNORED

LONGEST = 512  # the products store all scores, PyTorch's kernel none
PIECE = 256  # positions whose logits stand in float32 at a time


def scaled_dot_product_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Tensor:
    """As PyTorch's of that name; what is causal, short and bfloat16, faster."""
    length, head_dim = queries.shape[-2:]
    fits = queries.device.type == "cpu" and queries.dtype == torch.bfloat16
    if not (fits and is_causal and length <= LONGEST):
        return F.scaled_dot_product_attention(
            queries, keys, values, mask, dropout_p, is_causal
        )
    hidden = queries.new_full((length, length), -torch.inf).triu(1)
    scores = (queries * head_dim**-0.5) @ keys.mT + hidden
    return F.dropout(scores.softmax(dim=-1), dropout_p) @ values


def cross_entropy(
    logits: Float[Tensor, "n v"], labels: Int64[Tensor, "n"], label_smoothing: float
) -> Float[Tensor, ""]:
    """PyTorch's, computed in float32 at least."""
    trained = logits.requires_grad and torch.is_grad_enabled()
    if trained and logits.device.type == "cpu" and logits.dtype == torch.bfloat16:
        return _LossInPieces.apply(logits, labels, label_smoothing)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(
        logits, labels, ignore_index=IGNORED, label_smoothing=label_smoothing
    )


class _LossInPieces(torch.autograd.Function):
    """The mean cross-entropy together with its gradient, one piece after another."""

    @staticmethod
    def forward(ctx, logits: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        counted = (labels != IGNORED).sum()
        cost = functools.partial(
            F.cross_entropy,
            reduction="sum",
            label_smoothing=label_smoothing,
            ignore_index=IGNORED,
        )
        loss = logits.new_zeros((), dtype=torch.float32)
        gradient = torch.empty_like(logits)
        for start in range(0, len(logits), PIECE):
            piece = slice(start, start + PIECE)
            with torch.enable_grad():
                wide = logits[piece].detach().float().requires_grad_()
                total = cost(wide, labels[piece])
            loss += total.detach()
            gradient[piece] = torch.autograd.grad(total, wide)[0] / counted
        ctx.save_for_backward(gradient)
        return loss / counted

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_output, None, None
