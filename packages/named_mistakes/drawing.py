"""What the cases of exercises are drawn from: numbers, weights, scores, small layers.

Knows tensors. Knows nothing of exercises.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

# Shares from a plain row to one where a token has nearly all, in no order.
ROWS = {
    7: ([12, 4, 38, 3, 7, 27, 9], [2, 95, 0.5, 0.8, 0.4, 1, 0.3]),
    9: ([3, 11, 5, 14, 2, 21, 4, 32, 8], [7, 2, 24, 4, 9, 13, 36, 2.5, 2.5]),
}


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Random numbers of this shape in the default precision."""
    return torch.randn(shape, generator=generator, dtype=torch.get_default_dtype())


def causal_weights(generator: torch.Generator, *shape: int) -> Tensor:
    """Weights "… q k" as a causal layer gives them: zeros above the diagonal."""
    scores = torch.randn(shape, generator=generator)
    allowed = torch.ones(shape[-2:], dtype=torch.bool).tril()
    weights = scores.masked_fill(~allowed, -torch.inf).softmax(dim=-1)
    return weights.to(torch.get_default_dtype())


def scores_of(generator: torch.Generator, rows: int, vocab: int) -> Tensor:
    """Scores "b v" that softmax to nearly these shares, each row shifted as a whole."""
    probabilities = torch.tensor(ROWS[vocab][:rows])
    noise = 0.05 * torch.randn(probabilities.shape, generator=generator)
    shift = torch.linspace(-5, 3, rows)[:, None]
    return (probabilities.log() + noise + shift).to(torch.get_default_dtype())


def normalized(weights: Tensor) -> Tensor:
    """Rows that sum to 1."""
    return weights / weights.sum(-1, keepdim=True)


class Part(nn.Module):
    """A function as a layer, so that it fits into nn.Sequential."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Call the function."""
        return self.function(x)
