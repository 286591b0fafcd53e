"""RMSNorm: each position scaled to a root mean square of 1.

Knows the width. Knows nothing of other positions. LayerNorm is PyTorch's own.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_utils.checks import check_number


class RMSNorm(nn.Module):
    """Divide by the root mean square over the width; no mean, no bias.

    Computed in at least float32, so that bfloat16 activations lose nothing.

    Source: Zhang and Sennrich 2019, section 3.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_number("[0, inf)", eps=eps)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """Scale each position to a root mean square of 1, then by the weight."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return self.weight * (wide * scale).to(x.dtype)
