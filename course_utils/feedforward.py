"""Position-wise networks: the same for every position, which they treat one by one.

Knows widths. Knows nothing of other positions: attention alone moves information.
"""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import check_choice


class FeedForward(nn.Module):
    """Linear from d_model to d_ff, activation ("relu" or "gelu"), dropout, and back.

    Source: Vaswani et al. 2017, section 3.3.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "relu", dropout: float = 0.0
    ):
        super().__init__()
        check_choice("activation", activation, ("relu", "gelu"))
        self.up = nn.Linear(d_model, d_ff)
        self.activation = {"relu": nn.ReLU, "gelu": nn.GELU}[activation]()
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(d_ff, d_model)

    def forward(self, x: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """The same network at every position."""
        return self.down(self.dropout(self.activation(self.up(x))))


class SwiGLU(nn.Module):
    """A feed-forward network whose hidden units are gated by others.

    Source: Shazeer 2020, section 2.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m"]:
        """The same network at every position."""
        return self.down(F.silu(self.gate(x)) * self.up(x))
