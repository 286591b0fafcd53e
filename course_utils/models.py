"""Whole models: token ids in, hidden states or next-token logits out.

Knows how blocks are stacked. Knows nothing of text, losses or training.
"""

import math
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils import config as configs
from course_utils.blocks import DecoderBlock, EncoderBlock, LlamaBlock
from course_utils.cache import KeyValueCache, LayerCache
from course_utils.checks import (
    check_ids,
    check_index,
    check_mask_of,
    check_same,
    check_type,
)
from course_utils.masks import causal_mask, combine_masks, padding_mask
from course_utils.norms import RMSNorm
from course_utils.positions import RotaryPositions, make_positions


def _final_norm(config: configs.StackConfig) -> nn.Module:
    """A pre-norm stream has not been normed since its last sum; a post-norm one has."""
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class Embedding(nn.Module):
    """Ids to vectors of about unit size (the factor: Vaswani et al. 2017, section 3.4),
    plus positions, plus dropout.
    """

    def __init__(self, vocab_size: int, config: configs.StackConfig):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.positions = make_positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b t m"]:
        """One vector per id."""
        return self.dropout(self.positions(self.tokens(ids) * self.scale))


class Encoder(nn.Module):
    """Ids to one vector each, every one informed by all others (padding excepted).

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, vocab_size: int, config: configs.StackConfig, pad_id: int = 0):
        super().__init__()
        check_index(vocab_size, "vocab_size", pad_id=pad_id)
        self.embedding = Embedding(vocab_size, config)
        self.vocab_size = vocab_size
        self.config = config
        self.pad_id = pad_id
        depth = range(config.num_layers)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in depth)
        self.norm = _final_norm(config)

    def forward(
        self, ids: Int64[Tensor, "b s"], mask: Tensor | None = None
    ) -> Float[Tensor, "b s m"]:
        """mask: as in `attend`; it restricts further what the padding mask allows."""
        check_ids(ids, self.vocab_size)
        if mask is not None:
            check_mask_of(ids, mask, self.config.num_heads, ids.shape[1])
        mask = combine_masks(padding_mask(ids, self.pad_id), mask)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Classifier(nn.Module):
    """An encoder and a head that names the class of a word or of a text, as in BERT
    (Devlin et al. 2019, section 3.2).
    """

    def __init__(self, config: configs.ClassifierConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config.vocab_size, config.stack, config.pad_id)
        self.head = nn.Linear(config.stack.d_model, config.num_classes)

    def forward(
        self,
        ids: Int64[Tensor, "b t"],
        positions: Int64[Tensor, "b"] | None = None,
        mask: Tensor | None = None,
    ) -> Float[Tensor, "b c"]:
        """Logits read at one position per row; else from the mean without padding."""
        x = self.encoder(ids, mask)
        if positions is not None:
            check_type(Tensor, positions=positions)
            check_same("positions and ids: batch size", len(positions), len(ids))
            check_ids(positions[:, None], ids.shape[1], "positions", "length")
            return self.head(x[torch.arange(len(x), device=x.device), positions])
        real = (ids != self.config.pad_id)[:, :, None]
        return self.head((x * real).sum(1) / real.sum(1).clamp(min=1))


class EncoderDecoder(nn.Module):
    """Read a source, write a target. Source: Vaswani et al. 2017, figure 1."""

    def __init__(self, config: configs.EncoderDecoderConfig):
        super().__init__()
        self.config = config
        stack = config.decoder
        width = config.encoder.d_model
        self.encoder = Encoder(config.source_vocab_size, config.encoder, config.pad_id)
        self.embedding = Embedding(config.target_vocab_size, stack)
        depth = range(stack.num_layers)
        self.blocks = nn.ModuleList(DecoderBlock(stack, width) for _ in depth)
        self.norm = _final_norm(stack)
        self.head = nn.Linear(stack.d_model, config.target_vocab_size, bias=False)
        if config.share_weights:
            self.encoder.embedding.tokens.weight = self.embedding.tokens.weight
            self.head.weight = self.embedding.tokens.weight

    def encode(self, source: Int64[Tensor, "b s"]) -> Float[Tensor, "b s n"]:
        """The memory that the decoder looks at."""
        check_ids(source, self.config.source_vocab_size, "source")
        return self.encoder(source)

    def decode(
        self,
        target: Int64[Tensor, "b t"],
        memory: Float[Tensor, "b s n"],
        source: Int64[Tensor, "b s"],
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each target position; source tells the padding."""
        check_ids(target, self.config.target_vocab_size, "target")
        check_same("source and target: batch size", len(source), len(target))
        both = tuple(memory.shape[:2]), tuple(source.shape)
        check_same("memory and source: batch and length", *both)
        causal = causal_mask(target.shape[1], device=target.device)
        mask = combine_masks(causal, padding_mask(target, self.config.pad_id))
        memory_mask = padding_mask(source, self.config.pad_id)
        x = self.embedding(target)  # "b t m"
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask)
        return self.head(self.norm(x))  # "b t v"

    def forward(
        self, source: Int64[Tensor, "b s"], target: Int64[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Teacher forcing: logits for every target position at once."""
        return self.decode(target, self.encode(source), source)


def _init_decoder(model: nn.Module, num_layers: int) -> None:
    """GPT-2's start: std 0.02, smaller where a layer writes to the residual stream."""
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            continue
        writes = name.endswith(("to_output.weight", "down.weight"))
        shrink = math.sqrt(2 * num_layers) if writes else 1
        nn.init.normal_(weight, std=0.02 / shrink)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class LanguageModel(nn.Module):
    """What the two decoder-only models share: the cache, and what they accept."""

    config: Any
    blocks: nn.ModuleList

    def new_cache(self) -> KeyValueCache:
        """An empty cache for this model."""
        return KeyValueCache(len(self.blocks))

    def _start(
        self,
        ids: Tensor,
        mask: Tensor | None,
        cache: KeyValueCache | None,
        num_heads: int,
    ) -> tuple[int, list[LayerCache | None]]:
        """Check what `forward` was given: the first position, and a cache per block."""
        check_ids(ids, self.config.vocab_size)
        start = 0
        layers: list[LayerCache | None] = [None] * len(self.blocks)
        if cache is not None:
            layers = [*cache.layers]
            check_same("cache and model: layers", len(layers), len(self.blocks))
            check_same("cache and ids: rows", cache.rows or len(ids), len(ids))
            start = cache.length
        if mask is not None:
            check_mask_of(ids, mask, num_heads, start + ids.shape[1])
        return start, layers


class DecoderLM(LanguageModel):
    """GPT-2, decoder only. Source: Radford et al. 2019, section 2.3."""

    def __init__(self, config: configs.DecoderConfig):
        super().__init__()
        self.config = config
        stack = config.stack
        self.tokens = nn.Embedding(config.vocab_size, stack.d_model)
        self.positions = make_positions(stack)
        self.dropout = nn.Dropout(stack.dropout)
        depth = range(stack.num_layers)
        self.blocks = nn.ModuleList(EncoderBlock(stack) for _ in depth)
        self.norm = _final_norm(stack)
        self.head = nn.Linear(stack.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        _init_decoder(self, stack.num_layers)

    def forward(
        self,
        ids: Int64[Tensor, "b t"],
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        *,
        causal: bool = True,
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each position.

        mask: as in `attend`; it restricts further what causality allows. cache: ids are
        then the positions that follow the cached ones.
        """
        heads = self.config.stack.num_heads
        start, layers = self._start(ids, mask, cache, heads)
        x = self.dropout(self.positions(self.tokens(ids), start))  # "b t m"
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, mask, causal=causal, cache=layer)
        return self.head(self.norm(x))  # "b t v"


class LlamaLM(LanguageModel):
    """LLaMA, decoder only. Source: Touvron et al. 2023, section 2.2."""

    def __init__(self, config: configs.LlamaConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.dropout = nn.Dropout(config.dropout)
        depth = range(config.num_layers)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in depth)
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        head_dim = config.d_model // config.num_heads
        self.rotary = RotaryPositions(head_dim, config.max_length, config.rope_base)
        _init_decoder(self, config.num_layers)

    def forward(
        self,
        ids: Int64[Tensor, "b t"],
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
        *,
        causal: bool = True,
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each position; arguments as in `DecoderLM`."""
        start, layers = self._start(ids, mask, cache, self.config.num_heads)
        x = self.dropout(self.tokens(ids))  # "b t m"
        rotary = self.rotary(start, ids.shape[1])
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, rotary, mask, causal=causal, cache=layer)
        return self.head(self.norm(x))  # "b t v"
