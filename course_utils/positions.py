"""Ways to tell a layer where a token stands: added, rotated, or a bias on the scores.

Knows positions and widths. Knows nothing of tokens or attention.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_utils.shapes import check_choice, check_divides, check_positive


def _angles(length: int, width: int, base: float) -> Float[Tensor, "t pairs"]:
    positions = torch.arange(length, dtype=torch.float64)
    pairs = torch.arange(0, width, 2, dtype=torch.float64)
    return torch.outer(positions, base ** (-pairs / width))


def sinusoidal_positions(
    length: int, d_model: int, base: float = 10_000.0
) -> Float[Tensor, "t m"]:
    """A sine in each even column and the cosine of the *same* angle in the next one.

    Column pair i turns by base^(-2i / d_model) radians per position, so a shift by any
    number of positions is one rotation of each pair. An odd width ends with a sine.

    Source: Vaswani et al. 2017, section 3.5. Raises ValueError for sizes below 1.
    """
    check_positive(length=length, d_model=d_model)
    angles = _angles(length, d_model, base)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return table[:, :d_model].to(torch.get_default_dtype())


def check_room(max_length: int, start: int, length: int) -> None:
    """Raise ValueError unless `length` positions from `start` lie below max_length."""
    if start < 0 or start + length > max_length:
        room = f"the sequence must fit in max_length={max_length} positions"
        raise ValueError(f"{room}, got positions {start} to {start + length - 1}")


class TablePositions(nn.Module):
    """Add one row of `self.table` per position: what the next two classes share."""

    def forward(
        self, x: Float[Tensor, "b t m"], start: int = 0
    ) -> Float[Tensor, "b t m"]:
        """`start` is the position of the first column of x (not 0 when decoding)."""
        check_room(self.table.shape[0], start, x.shape[1])
        return x + self.table[start : start + x.shape[1]]


class SinusoidalPositions(TablePositions):
    """Add the fixed table of sines. Raises ValueError past max_length."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        table = sinusoidal_positions(max_length, d_model)
        self.register_buffer("table", table, persistent=False)


class LearnedPositions(TablePositions):
    """Add one trained vector per position. Raises ValueError past max_length."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        check_positive(d_model=d_model, max_length=max_length)
        self.table = nn.Parameter(torch.randn(max_length, d_model) * 0.02)


class NoPositions(nn.Identity):
    """Add nothing: the layer that cannot tell order apart, kept for comparison."""

    def forward(
        self, x: Float[Tensor, "b t m"], start: int = 0
    ) -> Float[Tensor, "b t m"]:
        """Return x unchanged."""
        return x


def make_positions(kind: str, d_model: int, max_length: int) -> nn.Module:
    """The module that a StackConfig names: "sinusoidal", "learned" or "none"."""
    kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
    kinds["none"] = NoPositions
    check_choice("kind", kind, tuple(kinds))
    return kinds[kind](d_model, max_length)


def rotary_table(
    length: int, head_dim: int, base: float = 10_000.0
) -> tuple[Float[Tensor, "t d"], Float[Tensor, "t d"]]:
    """Cosines and sines that `rotate` needs for positions 0 .. length-1.

    Source: Su et al. 2021, section 3.2.2. Raises ValueError for an odd head_dim.
    """
    check_positive(length=length, head_dim=head_dim)
    check_divides("head_dim", head_dim, "rotary halves", 2)
    angles = _angles(length, head_dim, base).repeat(1, 2)
    dtype = torch.get_default_dtype()
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(
    x: Float[Tensor, "... t d"], cos: Float[Tensor, "t d"], sin: Float[Tensor, "t d"]
) -> Float[Tensor, "... t d"]:
    """Turn each pair (i, i + d/2) of x by its position's angle.

    Only queries and keys are turned: their product then depends on the distance alone.
    """
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def alibi_bias(
    num_heads: int, query_length: int, key_length: int
) -> Float[Tensor, "h q k"]:
    """A penalty on each score that grows with distance, at another rate in each head.

    Head i of h has the slope 2^(-8(i + 1)/h). Queries are the last positions.

    Source: Press et al. 2022, section 3. Raises ValueError for sizes below 1.
    """
    check_positive(num_heads=num_heads, query_length=query_length)
    check_positive(key_length=key_length)
    heads = torch.arange(1, num_heads + 1, dtype=torch.get_default_dtype())
    slopes = 2.0 ** (-8.0 * heads / num_heads)
    queries = torch.arange(query_length) + key_length - query_length
    distance = (queries[:, None] - torch.arange(key_length)[None, :]).abs()
    return -slopes[:, None, None] * distance
