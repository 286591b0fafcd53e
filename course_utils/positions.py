"""Ways to tell a layer where a token stands: added, rotated, or a bias on the scores.

Knows positions and widths. Knows nothing of tokens or attention.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from course_utils.checks import check_integer, check_length, check_number
from course_utils.config import StackConfig

Device = torch.device | str | None


def _angles(length: int, width: int, base: float) -> Float[Tensor, "t pairs"]:
    """Angles in float64, always on the CPU: some accelerators have no float64."""
    check_number("(0, inf)", base=base)
    positions = torch.arange(length, dtype=torch.float64, device="cpu")
    pairs = torch.arange(0, width, 2, dtype=torch.float64, device="cpu")
    return torch.outer(positions, base ** (-pairs / width))


def _cast(table: Tensor, device: Device, dtype: torch.dtype | None) -> Tensor:
    """The table in the type and on the device asked for, else PyTorch's defaults."""
    device = device or torch.get_default_device()
    return table.to(device=device, dtype=dtype or torch.get_default_dtype())


def sinusoidal_positions(
    length: int,
    d_model: int,
    base: float = 10_000.0,
    *,
    device: Device = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "t m"]:
    """A sine in each even column and the cosine of the *same* angle in the next one.

    Column pair i turns by base^(-2i / d_model) radians per position.

    Source: Vaswani et al. 2017, section 3.5.
    """
    angles = _angles(length, d_model, base)
    table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return _cast(table[:, :d_model], device, dtype)


class TablePositions(nn.Module):
    """Add one row of `self.table` per position: what the next classes share."""

    table: Tensor

    def forward(
        self, x: Float[Tensor, "b t m"], start: int = 0
    ) -> Float[Tensor, "b t m"]:
        """`start` is the position of the first column of x (not 0 when decoding)."""
        check_length(len(self.table), start, x.shape[1])
        return x + self.table[start : start + x.shape[1]]


class SinusoidalPositions(TablePositions):
    """Add the fixed table of sines, computed anew for the type that the module gets."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        table = sinusoidal_positions(max_length, d_model)
        self.register_buffer("table", table, persistent=False)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        length, width = self.table.shape
        options = {"device": self.table.device, "dtype": self.table.dtype}
        self.table = sinusoidal_positions(length, width, **options)
        return self


class LearnedPositions(TablePositions):
    """Add one trained vector per position."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(max_length, d_model) * 0.02)


class NoPositions(TablePositions):
    """Add zeros: then attention cannot see the order."""

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        self.register_buffer("table", torch.zeros(max_length, 1), persistent=False)


def make_positions(config: StackConfig) -> nn.Module:
    """The module that a StackConfig names: "sinusoidal", "learned" or "none"."""
    kinds = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
    kind = kinds.get(config.positions, NoPositions)
    return kind(config.d_model, config.max_length)


def rotary_table(
    length: int,
    head_dim: int,
    base: float = 10_000.0,
    *,
    device: Device = None,
    dtype: torch.dtype | None = None,
) -> tuple[Float[Tensor, "t d"], Float[Tensor, "t d"]]:
    """Cosines and sines that `rotate` needs for positions 0 .. length-1.

    Source: Su et al. 2021, section 3.2.2.
    """
    if head_dim % 2:
        raise ValueError(f"head_dim must be even (rotary pairs), got {head_dim}")
    angles = _angles(length, head_dim, base).repeat(1, 2)
    tables = torch.stack([angles.cos(), angles.sin()])
    return tuple(_cast(tables, device, dtype))


class RotaryPositions(nn.Module):
    """`rotary_table`, computed anew where the model is moved and for its precision."""

    def __init__(self, head_dim: int, max_length: int, base: float = 10_000.0):
        super().__init__()
        self.base = base
        cos, sin = rotary_table(max_length, head_dim, base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        options = {"device": self.cos.device, "dtype": self.cos.dtype}
        self.cos, self.sin = rotary_table(*self.cos.shape, self.base, **options)
        return self

    def forward(
        self, start: int, length: int
    ) -> tuple[Float[Tensor, "t d"], Float[Tensor, "t d"]]:
        """Cosines and sines of these positions."""
        check_length(self.cos.shape[0], start, length)
        return self.cos[start : start + length], self.sin[start : start + length]


def rotate(
    x: Float[Tensor, "... t d"], cos: Float[Tensor, "t d"], sin: Float[Tensor, "t d"]
) -> Float[Tensor, "... t d"]:
    """Turn each pair (i, i + d/2) of x by its position's angle.

    Only queries and keys are turned: their product then depends on the distance alone.

    Source: Su et al. 2021, section 3.4.2.
    """
    if not len(cos) == len(sin) == x.shape[-2]:  # a single row would serve for all
        rows = f"{x.shape[-2]} rows, one per position of x"
        raise ValueError(f"cos and sin need {rows}, got {len(cos)} and {len(sin)}")
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def alibi_bias(
    num_heads: int, query_length: int, key_length: int, *, device: Device = None
) -> Float[Tensor, "h q k"]:
    """A penalty on each score that grows with distance, at another rate in each head.

    Head i of h has the slope 2^(-8(i + 1)/h). Queries are the last positions.

    Source: Press et al. 2022, section 3.
    """
    check_integer(query_length, key_length=key_length)
    heads = torch.arange(1.0, num_heads + 1, device=device)
    slopes = 2.0 ** (-8.0 * heads / num_heads)
    queries = torch.arange(query_length, device=device) + key_length - query_length
    distance = (queries[:, None] - torch.arange(key_length, device=device)).abs()
    return -slopes[:, None, None] * distance
