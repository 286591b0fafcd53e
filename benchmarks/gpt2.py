"""A decoder in the style of GPT-2, written plainly, as small repositories write it.

Nothing here uses the course's layers.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention and a feed-forward network of GPT-2."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.to_three = nn.Linear(width, 3 * width)
        self.to_output = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x: "b t m"."""
        batch, length, width = x.shape
        three = self.to_three(self.attention_norm(x)).split(width, dim=-1)
        shape = (batch, length, self.heads, width // self.heads)
        queries, keys, values = (part.view(shape).transpose(1, 2) for part in three)
        context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.to_output(context.transpose(1, 2).reshape(x.shape))
        hidden = F.gelu(self.up(self.feedforward_norm(x)))
        return x + self.down(hidden)


class GPT2(nn.Module):
    """Learned positions, LayerNorm before each part, one table for input and output."""

    def __init__(self, vocabulary: int, width: int, heads: int, layers: int):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for name, weight in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(weight)
            elif weight.ndim == 2:
                writes = name.endswith(("to_output.weight", "down.weight"))
                std = 0.02 / math.sqrt(2 * layers) if writes else 0.02
                nn.init.normal_(weight, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits "b t v" of ids "b t"."""
        places = torch.arange(ids.shape[1])
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T
