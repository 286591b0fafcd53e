"""Attention: every query mixes the values, in shares that its match with the keys sets.

Knows queries, keys, values and masks. Knows nothing of tokens, blocks or models.
"""

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils import shapes
from course_utils.positions import rotate


def attention_scores(
    queries: Float[Tensor, "*lead q d"],
    keys: Float[Tensor, "*lead k d"],
    scale: float | None = None,
) -> Float[Tensor, "*lead q k"]:
    """How well each query matches each key: their dot product times `scale`.

    The default scale 1/sqrt(d) keeps the variance of the scores at that of the inputs.

    Source: Vaswani et al. 2017, section 3.2.1.
    """
    scale = queries.shape[-1] ** -0.5 if scale is None else scale
    return torch.einsum("...qd, ...kd -> ...qk", queries, keys) * scale


def attention_weights(
    scores: Float[Tensor, "*lead q k"], mask: Tensor | None = None
) -> Float[Tensor, "*lead q k"]:
    """Softmax over the keys; what the mask hides gets exactly 0.

    A row with nothing to look at becomes all zeros (not NaN, not uniform).

    Raises TypeError unless the mask is bool, ValueError unless it fits the scores.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    shapes.check_mask(mask, tuple(scores.shape))
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def _check_attend(queries, keys, values, mask):
    widths = queries.shape[-1], keys.shape[-1]
    shapes.check_equal("the last axes of queries and keys (head_dim)", *widths)
    lengths = keys.shape[-2], values.shape[-2]
    shapes.check_equal("the numbers of keys and values", *lengths)
    if mask is not None:
        shapes.check_mask(mask, (*queries.shape[:-1], keys.shape[-2]))


def attend(
    queries: Float[Tensor, "*lead q d"],
    keys: Float[Tensor, "*lead k d"],
    values: Float[Tensor, "*lead k e"],
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*lead q e"]:
    """softmax(queries keysᵀ · scale + bias) values, by PyTorch's fused kernel.

    mask: bool, True = may look, broadcasting to "... q k"; a row with nothing to look
    at gives zeros. bias: added to the scores, broadcasting likewise.

    Source: Vaswani et al. 2017, equation 1. Raises ValueError for widths or lengths
    that do not fit together, TypeError for a mask that is not bool.
    """
    _check_attend(queries, keys, values, mask)
    if bias is not None:
        bias = bias.to(queries.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(
        queries, keys, values, mask, dropout_p=dropout, scale=scale
    )


class Attend(nn.Module):
    """`attend` as a layer with named points: `queries`, `keys`, `scores`, `weights`.

    Normally the fused kernel runs and the points are idle. While `explicit` is on
    (`recording` switches it) the same layer computes step by step through them.
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        shapes.check_fraction(dropout=dropout)
        self.dropout = dropout
        self.explicit = False
        self.queries = nn.Identity()
        self.keys = nn.Identity()
        self.scores = nn.Identity()
        self.weights = nn.Identity()

    def forward(
        self,
        queries: Float[Tensor, "*lead q d"],
        keys: Float[Tensor, "*lead k d"],
        values: Float[Tensor, "*lead k e"],
        mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Float[Tensor, "*lead q e"]:
        """Shapes and errors as in `attend`."""
        dropout = self.dropout if self.training else 0.0
        if not self.explicit:
            return attend(queries, keys, values, mask, bias=bias, dropout=dropout)
        _check_attend(queries, keys, values, mask)
        scores = attention_scores(self.queries(queries), self.keys(keys))
        scores = self.scores(scores if bias is None else scores + bias)
        weights = self.weights(attention_weights(scores, mask))
        return F.dropout(weights, dropout) @ values


class LayerCache:
    """The keys and values that one layer has computed so far, each "b h k d"."""

    def __init__(self):
        self.keys = self.values = None

    @property
    def length(self) -> int:
        """How many positions are stored."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new positions at the end; return all."""
        if self.keys is not None:
            rows = len(self.keys), len(keys)
            shapes.check_equal("the rows of the cache and of what comes", *rows)
            keys = torch.cat([self.keys, keys], dim=-2)
            values = torch.cat([self.values, values], dim=-2)
        self.keys, self.values = keys, values
        return keys, values


class KeyValueCache:
    """One LayerCache per block, so that decoding computes each position once."""

    def __init__(self, num_layers: int):
        shapes.check_positive(num_layers=num_layers)
        self.layers = [LayerCache() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """How many positions are stored."""
        return self.layers[0].length


def split_heads(
    x: Float[Tensor, "b t width"], num_heads: int
) -> Float[Tensor, "b h t d"]:
    """Cut each vector into equal parts, one per head, and bring the heads forward."""
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own projection of the input.

    d_memory: width of what keys and values are made from (default d_model).
    head_dim: width of one head (default d_model / num_heads).

    Source: Vaswani et al. 2017, section 3.2.2. Raises ValueError for sizes below 1 or,
    without head_dim, a d_model that does not divide into num_heads.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_memory: int | None = None,
        head_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ):
        super().__init__()
        shapes.check_positive(d_model=d_model, num_heads=num_heads)
        if head_dim is None:
            shapes.check_divides("d_model", d_model, "num_heads", num_heads)
            head_dim = d_model // num_heads
        d_memory = d_model if d_memory is None else d_memory
        shapes.check_positive(head_dim=head_dim, d_memory=d_memory)
        self.num_heads = num_heads
        width = num_heads * head_dim
        self.to_queries = nn.Linear(d_model, width, bias=bias)
        self.to_keys = nn.Linear(d_memory, width, bias=bias)
        self.to_values = nn.Linear(d_memory, width, bias=bias)
        self.attend = Attend(dropout)
        self.to_output = nn.Linear(width, d_model, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "b q m"],
        memory: Float[Tensor, "b k n"] | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b q m"]:
        """Queries from x; keys and values from memory, or from x itself without one.

        mask: bool, True = may look, broadcasting to "b h q k". bias: likewise, added to
        the scores. cache: keys and values of earlier positions of x.
        """
        memory = x if memory is None else memory
        queries = split_heads(self.to_queries(x), self.num_heads)
        keys = split_heads(self.to_keys(memory), self.num_heads)
        values = split_heads(self.to_values(memory), self.num_heads)
        if cache is not None:
            keys, values = cache.append(keys, values)
        context = self.attend(queries, keys, values, mask, bias)
        return self.to_output(rearrange(context, "b h q d -> b q (h d)"))


class GroupedQueryAttention(nn.Module):
    """LLaMA's self-attention: rotary positions, no biases, keys shared by query groups.

    Source: Ainslie et al. 2023, section 2.2; Su et al. 2021. Raises ValueError for
    sizes that do not divide.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, dropout: float = 0.0
    ):
        super().__init__()
        shapes.check_positive(d_model=d_model, num_heads=num_heads)
        shapes.check_positive(num_kv_heads=num_kv_heads)
        shapes.check_divides("d_model", d_model, "num_heads", num_heads)
        shapes.check_divides("num_heads", num_heads, "num_kv_heads", num_kv_heads)
        head_dim = d_model // num_heads
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.to_queries = nn.Linear(d_model, d_model, bias=False)
        self.to_keys = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.to_values = nn.Linear(d_model, num_kv_heads * head_dim, bias=False)
        self.attend = Attend(dropout)
        self.to_output = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Float[Tensor, "b q m"],
        rotary: tuple[Float[Tensor, "q d"], Float[Tensor, "q d"]],
        mask: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b q m"]:
        """rotary: cosines and sines of the positions of x, from `rotary_table`."""
        queries = rotate(split_heads(self.to_queries(x), self.num_heads), *rotary)
        keys = rotate(split_heads(self.to_keys(x), self.num_kv_heads), *rotary)
        values = split_heads(self.to_values(x), self.num_kv_heads)
        if cache is not None:
            keys, values = cache.append(keys, values)
        if self.num_kv_heads < self.num_heads:
            share = self.num_heads // self.num_kv_heads
            keys = repeat(keys, "b g k d -> b (g share) k d", share=share)
            values = repeat(values, "b g k d -> b (g share) k d", share=share)
        context = self.attend(queries, keys, values, mask)
        return self.to_output(rearrange(context, "b h q d -> b q (h d)"))
