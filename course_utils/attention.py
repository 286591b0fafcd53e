"""Attention: every query mixes the values, weighted by how well it matches their keys.

Knows queries, keys, values and masks. Knows nothing of tokens, blocks or models.
"""

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.cache import LayerCache
from course_utils.checks import check_divisible, check_integer, check_mask, check_same
from course_utils.kernels import scaled_dot_product_attention
from course_utils.masks import causal_mask, combine_masks
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
    return queries @ keys.mT * scale


def attention_weights(
    scores: Float[Tensor, "*lead q k"], mask: Tensor | None = None
) -> Float[Tensor, "*lead q k"]:
    """Softmax over the keys; what the mask hides gets exactly 0.

    A row with nothing to look at becomes all zeros (not NaN, not uniform).
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, tuple(scores.shape))
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)


def attend(
    queries: Float[Tensor, "*lead q d"],
    keys: Float[Tensor, "*lead k d"],
    values: Float[Tensor, "*lead k e"],
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*lead q e"]:
    """softmax(queries keysᵀ / sqrt(d) + bias) values, by PyTorch's fused kernel.

    mask: bool, True = may look, "q k" or broadcasting to "... q k"; a row with nothing
    to look at gives zeros. causal: no query looks at a later key, the queries being the
    last positions; a mask restricts further. bias: added to the scores.

    Source: Vaswani et al. 2017, equation 1.
    """
    check_same("queries and keys: head_dim", queries.shape[-1], keys.shape[-1])
    check_same("keys and values: length", keys.shape[-2], values.shape[-2])
    if mask is not None:
        check_mask(mask, (*queries.shape[:-1], keys.shape[-2]))
    square = queries.shape[-2] == keys.shape[-2]
    if causal and square and mask is None and bias is None:
        # The kernel then skips what is hidden; on CUDA only so it may be flash.
        return scaled_dot_product_attention(
            queries, keys, values, dropout_p=dropout, is_causal=True
        )
    visible = _visible(mask, causal, queries, keys)
    if bias is not None:
        bias = bias.to(queries.dtype)
        visible = bias if visible is None else bias.masked_fill(~visible, -torch.inf)
    return scaled_dot_product_attention(
        queries, keys, values, visible, dropout_p=dropout
    )


def _visible(
    mask: Tensor | None, causal: bool, queries: Tensor, keys: Tensor
) -> Tensor | None:
    """Who may look at whom: what `mask` allows and, if causal, nothing later."""
    if not causal or queries.shape[-2] == 1:  # the last position sees all keys anyway
        return mask
    lengths = (queries.shape[-2], keys.shape[-2])
    return combine_masks(causal_mask(*lengths, device=queries.device), mask)


class Attend(nn.Module):
    """`attend` as a layer with named points: `queries`, `keys`, `scores`, `weights`.

    While anybody looks (`explicit` counts them; `recording` and `intervening` do so) it
    computes step by step through them, otherwise in one go.
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout
        self.explicit = 0
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
        *,
        causal: bool = False,
        bias: Tensor | None = None,
    ) -> Float[Tensor, "*lead q e"]:
        """Shapes and mask as in `attend`."""
        dropout = self.dropout if self.training else 0.0
        if not self.explicit:
            return attend(
                queries, keys, values, mask, causal=causal, bias=bias, dropout=dropout
            )
        scores = attention_scores(self.queries(queries), self.keys(keys))
        if bias is not None:
            scores = scores + bias.to(scores.dtype)
        visible = _visible(mask, causal, queries, keys)
        weights = self.weights(attention_weights(self.scores(scores), visible))
        return F.dropout(weights, dropout) @ values


def split_heads(
    x: Float[Tensor, "b t width"], num_heads: int
) -> Float[Tensor, "b h t d"]:
    """Cut each vector into equal parts, one per head, and bring the heads forward."""
    return rearrange(x, "b t (h d) -> b h t d", h=num_heads)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own projection of the input.

    d_memory: width of what keys and values are made from. head_dim: width of one head.

    Source: Vaswani et al. 2017, section 3.2.2.
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
        if head_dim is None:
            check_divisible("d_model", d_model, "num_heads", num_heads)
            head_dim = d_model // num_heads
        check_integer(1, num_heads=num_heads, head_dim=head_dim)
        d_memory = d_model if d_memory is None else d_memory
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
        *,
        causal: bool = False,
        bias: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b q m"]:
        """Queries from x; keys and values from memory, or from x itself without one.

        mask, causal and bias as in `attend`. cache: keys and values of earlier
        positions of x, which is extended.
        """
        memory = x if memory is None else memory
        queries = split_heads(self.to_queries(x), self.num_heads)  # "b h q d"
        keys = split_heads(self.to_keys(memory), self.num_heads)  # "b h k d"
        values = split_heads(self.to_values(memory), self.num_heads)
        if cache is not None:
            keys, values = cache.append(keys, values)  # all so far
        context = self.attend(queries, keys, values, mask, causal=causal, bias=bias)
        return self.to_output(rearrange(context, "b h q d -> b q (h d)"))  # "b q m"


class GroupedQueryAttention(nn.Module):
    """LLaMA's self-attention: rotary positions, no biases, keys shared by query groups.

    Source: Ainslie et al. 2023, section 2.2; Su et al. 2021.
    """

    def __init__(
        self, d_model: int, num_heads: int, num_kv_heads: int, dropout: float = 0.0
    ):
        super().__init__()
        check_divisible("d_model", d_model, "num_heads", num_heads)
        check_divisible("num_heads", num_heads, "num_kv_heads", num_kv_heads)
        head_dim = d_model // num_heads
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
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
        *,
        causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b q m"]:
        """rotary: cosines and sines of the positions of x, from `rotary_table`.

        mask, causal and cache as in `MultiHeadAttention`.
        """
        queries = split_heads(self.to_queries(x), self.num_heads)  # "b h q d"
        keys = split_heads(self.to_keys(x), self.num_kv_heads)  # "b g q d"
        values = split_heads(self.to_values(x), self.num_kv_heads)
        queries, keys = rotate(queries, *rotary), rotate(keys, *rotary)
        if cache is not None:
            keys, values = cache.append(keys, values)  # all so far, "b g k d"
        if self.num_kv_heads < self.num_heads:  # each for several queries, "b h k d"
            times = self.num_heads // self.num_kv_heads
            keys = repeat(keys, "b g k d -> b (g times) k d", times=times)
            values = repeat(values, "b g k d -> b (g times) k d", times=times)
        context = self.attend(queries, keys, values, mask, causal=causal)
        return self.to_output(rearrange(context, "b h q d -> b q (h d)"))  # "b q m"
