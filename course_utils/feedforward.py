"""Position-wise networks: the same for every position, which they treat one by one.

Knows widths. Knows nothing of other positions: attention alone moves information.
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.shapes import (
    check_choice,
    check_positive,
    check_rate,
    check_tensor,
)


class FeedForward(nn.Module):
    """Position-wise feed-forward network: linear, activation, dropout, linear.

    `up` is the matrix from d_model to d_ff, `down` the one back.

    Source: Vaswani et al. 2017, section 3.3. Raises TypeError or ValueError for sizes
    that are not integers >= 1, a dropout outside [0, 1), an unknown activation.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0
    ):
        super().__init__()
        check_positive(d_model=d_model, d_ff=d_ff)
        check_rate(dropout=dropout)
        check_choice("activation", activation, ("relu", "gelu"))
        self.up = nn.Linear(d_model, d_ff)
        self.activation = nn.ReLU() if activation == "relu" else nn.GELU()
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """The same network at every position. Raises ValueError for another width."""
        check_tensor("x", x, ("...", "d_model"), d_model=self.up.in_features)
        return self.down(self.dropout(self.activation(self.up(x))))


class SwiGLU(nn.Module):
    """A feed-forward network whose hidden units are gated by others.

    `gate` and `up` are the matrices from d_model to d_ff, `down` the one back.

    Source: Shazeer 2020, section 2. Raises TypeError or ValueError for sizes that are
    not integers >= 1.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        check_positive(d_model=d_model, d_ff=d_ff)
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """The same network at every position. Raises ValueError for another width."""
        check_tensor("x", x, ("...", "d_model"), d_model=self.up.in_features)
        return self.down(F.silu(self.gate(x)) * self.up(x))
