"""Blocks: attention moves information between positions, a feed-forward network then
works on each position.

Knows one block. Knows nothing of tokens or of how many blocks are stacked.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from course_utils.attention import GroupedQueryAttention, MultiHeadAttention
from course_utils.cache import LayerCache
from course_utils.checks import check_choice, check_type
from course_utils.config import LlamaConfig, StackConfig
from course_utils.feedforward import FeedForward, SwiGLU
from course_utils.norms import RMSNorm


class Residual(nn.Module):
    """Add a sublayer's output to the stream that flows past it.

    pre: x + dropout(sublayer(norm(x))), Xiong et al. 2020, figure 1b;
    post: norm(x + dropout(sublayer(x))), Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model: int, dropout: float, norm: str):
        super().__init__()
        check_choice("norm", norm, ("pre", "post"))
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "b t m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "b t m"]:
        """Return a tensor of the shape of x."""
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network, each with a residual connection.

    Source: Vaswani et al. 2017, section 3.1; with causal=True a block of GPT-2.
    """

    def __init__(self, config: StackConfig):
        super().__init__()
        width = config.d_model
        dropout = config.dropout
        self.attention = MultiHeadAttention(width, config.num_heads, dropout=dropout)
        self.attention_residual = Residual(width, dropout, config.norm)
        self.feedforward = FeedForward(width, config.d_ff, config.activation, dropout)
        self.feedforward_residual = Residual(width, dropout, config.norm)

    def forward(
        self,
        x: Float[Tensor, "b t m"],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        """mask, causal and cache as in `MultiHeadAttention`."""
        x = self.attention_residual(
            x, lambda y: self.attention(y, mask=mask, causal=causal, cache=cache)
        )
        return self.feedforward_residual(x, self.feedforward)


class DecoderBlock(EncoderBlock):
    """An encoder block with cross-attention to the encoder's output in the middle.

    d_memory: width of that output. Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, config: StackConfig, d_memory: int | None = None):
        super().__init__(config)
        self.cross_attention = MultiHeadAttention(
            config.d_model, config.num_heads, d_memory=d_memory, dropout=config.dropout
        )
        self.cross_residual = Residual(config.d_model, config.dropout, config.norm)

    def forward(
        self,
        x: Float[Tensor, "b t m"],
        memory: Float[Tensor, "b s n"],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Float[Tensor, "b t m"]:
        """mask: of the self-attention over x; memory_mask: of the cross-attention."""
        check_type(Tensor, memory=memory)  # without one it would look at x
        x = self.attention_residual(x, lambda y: self.attention(y, mask=mask))
        x = self.cross_residual(
            x, lambda y: self.cross_attention(y, memory, mask=memory_mask)
        )
        return self.feedforward_residual(x, self.feedforward)


class LlamaBlock(nn.Module):
    """The same two steps in LLaMA's parts: RMSNorm first, rotary attention, SwiGLU.

    Source: Touvron et al. 2023, section 2.2.
    """

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.attention_norm = RMSNorm(config.d_model, config.norm_eps)
        heads, kv_heads = config.num_heads, config.num_kv_heads or config.num_heads
        self.attention = GroupedQueryAttention(
            config.d_model, heads, kv_heads, config.dropout
        )
        self.feedforward_norm = RMSNorm(config.d_model, config.norm_eps)
        self.feedforward = SwiGLU(config.d_model, config.d_ff)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Float[Tensor, "b t m"],
        rotary: tuple[Float[Tensor, "t d"], Float[Tensor, "t d"]],
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "b t m"]:
        """rotary: cosines and sines of the positions of x; else as in EncoderBlock."""
        context = self.attention(
            self.attention_norm(x), rotary, mask, causal=causal, cache=cache
        )
        x = x + self.dropout(context)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x)))
