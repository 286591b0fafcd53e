"""A step for `greedy` and `sample` that does little beside the arithmetic of one token.

Knows how a LlamaLM is built. Knows nothing of how a token is chosen.

The forward pass of the model serves training, recording and decoding alike, and at one
token per call most of its time goes into everything but arithmetic: small products,
checks, layers that call layers, copies of the cache. Here all of that is done once,
before the first token.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.decoding import CachedStep
from course_utils.models import LlamaLM
from course_utils.norms import RMSNorm
from course_utils.positions import rotate
from course_utils.shapes import check_bounds, check_room, check_type, values_are_at_hand


class FastStep(CachedStep):
    """`CachedStep` for a LlamaLM: the same scores, up to rounding, in less time.

    It copies the weights when it is made: what changes in the model afterwards, and
    what `record` or `intervene` do to it, does not reach it.

    Raises TypeError for another model, and as `CachedStep`.
    """

    def __init__(self, model: LlamaLM):
        check_type(LlamaLM, model=model)
        super().__init__(model)
        self.layers = [_Layer(block) for block in model.blocks]
        self.head = _joined(model.head, after=model.norm)
        self.known = 0  # positions whose keys and values are stored
        self.room: Tensor | None = None  # "both layer b g k d"
        self.kept: list[tuple[Tensor, ...]] = []  # its keys and its values, by layer

    def _continue(self, new: Tensor) -> Float[Tensor, "b v"]:
        if values_are_at_hand(new):
            check_bounds(new, 0, self.model.config.vocab_size, "ids", "vocab_size")
        start, length = self.known, new.shape[1]
        check_room(self.model.config.max_length, start, length)
        on_cpu = new.device.type == "cpu"
        # On a CPU each note that PyTorch takes of a tensor costs time.
        with torch.inference_mode() if on_cpu else torch.no_grad():
            self._make_room(len(new), start + length)
            cos, sin = self.model.rotary(start, length)
            x = self.model.tokens(new)
            for layer, keys, values in zip(self.layers, *self.kept, strict=True):
                x = layer(x, cos, sin, keys, values, start)
            scores = _unit(x[:, -1], self.model.norm.eps) @ self.head
        self.known += length
        return scores.clone()  # an ordinary tensor again, which may be changed in place

    def _make_room(self, rows: int, needed: int) -> None:
        """Room for all keys and values; it doubles, so that copies are rare."""
        config, weight = self.model.config, self.model.tokens.weight
        held = 0 if self.room is None else self.room.shape[-2]
        if needed <= held:
            return
        size = min(max(2 * held, needed, 64), config.max_length)
        head_dim = config.d_model // config.num_heads
        shape = (2, config.num_layers, rows, config.num_kv_heads, size, head_dim)
        larger = weight.new_zeros(shape)
        if self.room is not None:
            larger[..., :held, :] = self.room
        self.room = larger
        self.kept = [part.unbind() for part in larger.unbind()]  # one view per layer


class _Layer:
    """One block, its matrices joined."""

    def __init__(self, block: nn.Module):
        attention, feedforward = block.attention, block.feedforward
        self.eps = block.attention_norm.eps
        self.heads = attention.num_heads
        self.kv_heads = attention.num_kv_heads
        self.to_all = _joined(
            attention.to_queries,
            attention.to_keys,
            attention.to_values,
            after=block.attention_norm,
        )
        queries = block.attention.to_queries.out_features
        self.to_all[:, :queries] *= (queries // self.heads) ** -0.5  # scales the scores
        self.to_output = _joined(attention.to_output)
        self.gate_and_up = _joined(
            feedforward.gate, feedforward.up, after=block.feedforward_norm
        )
        self.down = _joined(feedforward.down)

    def __call__(
        self,
        x: Float[Tensor, "b t m"],
        cos: Float[Tensor, "t d"],
        sin: Float[Tensor, "t d"],
        keys: Float[Tensor, "b g k d"],
        values: Float[Tensor, "b g k d"],
        start: int,
    ) -> Float[Tensor, "b t m"]:
        """Write the keys and values of x behind `start` others, and use all of them."""
        rows, length, _ = x.shape
        end = start + length
        parts = (_unit(x, self.eps) @ self.to_all).view(
            rows, length, self.heads + 2 * self.kv_heads, -1
        )
        parts = parts.transpose(1, 2)
        turned = self.heads + self.kv_heads  # rotary turns queries and keys alike
        queries_and_keys = rotate(parts[:, :turned], cos, sin)
        keys[:, :, start:end] = queries_and_keys[:, self.heads :]
        values[:, :, start:end] = parts[:, turned:]
        queries = queries_and_keys[:, : self.heads]
        context = self.attend(queries, keys[:, :, :end], values[:, :, :end])
        x = x + context.transpose(1, 2).reshape(rows, length, -1) @ self.to_output
        hidden = _unit(x, self.eps) @ self.gate_and_up
        gate, up = hidden.chunk(2, dim=-1)
        return x + (F.silu(gate) * up) @ self.down

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The contexts "b h t d" of scaled queries, which are the last positions.

        A single query sees every key, so it needs no mask. In several rows the queries
        that share a key are then the rows of one plain product, which is faster than
        PyTorch's function; for one row the function is.
        """
        rows, heads, length, head_dim = queries.shape
        if length == 1 and rows > 1:
            grouped = queries.reshape(rows, self.kv_heads, -1, head_dim)
            weights = (grouped @ keys.mT).softmax(dim=-1)
            return (weights @ values).view(rows, heads, 1, head_dim)
        mask = None
        if length > 1:
            shape = length, keys.shape[2]
            mask = torch.ones(shape, dtype=torch.bool, device=keys.device)
            mask = mask.tril(keys.shape[2] - length)
        return F.scaled_dot_product_attention(
            queries, keys, values, mask, scale=1.0, enable_gqa=self.kv_heads < heads
        )


def _unit(x: Float[Tensor, "*batch m"], eps: float) -> Float[Tensor, "*batch m"]:
    """x / sqrt(|x|² + m · eps): an RMSNorm but for its weight and the root of m.

    `_joined` has multiplied both into the matrix that comes next.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=wide)
    scale = (length * length + x.shape[-1] * eps).rsqrt()
    return (x * scale).to(x.dtype)


def _joined(*layers: nn.Linear, after: RMSNorm | None = None) -> Float[Tensor, "m n"]:
    """The matrices of layers that read one input as a single one, to stand right of it.

    after: the norm before these layers, of which `_unit` does only a part. Laid out so
    that the product with one row reads memory in order.
    """
    matrix = torch.cat([layer.weight for layer in layers]).detach()
    if after is not None:
        matrix = matrix * (after.weight.detach() * math.sqrt(matrix.shape[1]))
    return matrix.T.contiguous()
