"""Whole models: token ids in, hidden states or next-token logits out.

Knows how blocks are stacked. Knows nothing of text, losses or training.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils import config as configs
from course_utils.attention import KeyValueCache
from course_utils.blocks import DecoderBlock, EncoderBlock, LlamaBlock
from course_utils.feedforward import RMSNorm
from course_utils.masks import causal_mask, combine_masks, padding_mask
from course_utils.positions import check_room, make_positions, rotary_table
from course_utils.shapes import check_equal, check_ids, check_positive


def _positions(config: configs.StackConfig) -> nn.Module:
    return make_positions(config.positions, config.d_model, config.max_length)


def _final_norm(config: configs.StackConfig) -> nn.Module:
    """A pre-norm stream has not been normed since its last sum; a post-norm one has."""
    return nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class Embedding(nn.Module):
    """Ids to vectors of about unit size, plus positions, plus dropout.

    Source: Vaswani et al. 2017, section 3.4 (the factor sqrt(d_model)).
    """

    def __init__(self, vocab_size: int, config: configs.StackConfig):
        super().__init__()
        check_positive(vocab_size=vocab_size)
        self.tokens = nn.Embedding(vocab_size, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.scale = math.sqrt(config.d_model)

    def forward(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b t m"]:
        """Raises ValueError past max_length."""
        return self.dropout(self.positions(self.tokens(ids) * self.scale))


class Encoder(nn.Module):
    """Ids to one vector each, every one informed by all others (padding excepted).

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, vocab_size: int, config: configs.StackConfig, pad_id: int = 0):
        super().__init__()
        self.vocab_size, self.config, self.pad_id = vocab_size, config, pad_id
        self.embedding = Embedding(vocab_size, config)
        depth = range(config.num_layers)
        self.blocks = nn.ModuleList(EncoderBlock(config) for _ in depth)
        self.norm = _final_norm(config)

    def forward(
        self, ids: Int64[Tensor, "b s"], mask: Tensor | None = None
    ) -> Float[Tensor, "b s m"]:
        """mask: bool, True = may look, on top of the padding mask.

        Raises TypeError or ValueError for ids that are not ids of the vocabulary.
        """
        check_ids(ids, self.vocab_size)
        mask = combine_masks(padding_mask(ids, self.pad_id), mask)
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class Classifier(nn.Module):
    """An encoder and a head that names the class of one word, or of the whole text.

    Source: Devlin et al. 2019 (BERT), section 3.2.
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
        """Logits read at one position per row; without positions, from the mean of all.

        The mean leaves padding out. mask: bool, True = may look, "q k" or "b h q k".
        """
        x = self.encoder(ids, mask)
        if positions is not None:
            return self.head(x[torch.arange(len(x), device=x.device), positions])
        real = (ids != self.config.pad_id)[:, :, None]
        return self.head((x * real).sum(1) / real.sum(1).clamp(min=1))


class EncoderDecoder(nn.Module):
    """The transformer of the paper: read a source, write a target that looks at it.

    Source: Vaswani et al. 2017, figure 1.
    """

    def __init__(self, config: configs.EncoderDecoderConfig):
        super().__init__()
        self.config = config
        stack, width = config.decoder, config.encoder.d_model
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
        return self.encoder(source)

    def decode(
        self,
        target: Int64[Tensor, "b t"],
        memory: Float[Tensor, "b s n"],
        source: Int64[Tensor, "b s"],
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each target position; source tells the padding."""
        check_ids(target, self.config.target_vocab_size, "target")
        causal = causal_mask(target.shape[1], device=target.device)
        mask = combine_masks(causal, padding_mask(target, self.config.pad_id))
        memory_mask = padding_mask(source, self.config.pad_id)
        x = self.embedding(target)
        for block in self.blocks:
            x = block(x, memory, mask, memory_mask)
        return self.head(self.norm(x))

    def forward(
        self, source: Int64[Tensor, "b s"], target: Int64[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Teacher forcing: logits for every target position at once."""
        check_ids(source, self.config.source_vocab_size, "source")
        check_equal("the rows of source and target", len(source), len(target))
        return self.decode(target, self.encode(source), source)


def _init_decoder(model: nn.Module, num_layers: int) -> None:
    """GPT-2's start: std 0.02, smaller where a layer writes to the residual stream."""
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            continue
        writes = name.endswith(("to_output.weight", "narrow.weight", "down.weight"))
        shrink = math.sqrt(2 * num_layers) if writes else 1
        nn.init.normal_(weight, std=0.02 / shrink)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class LanguageModel(nn.Module):
    """What the two decoder-only models share: the way from ids to logits."""

    def new_cache(self) -> KeyValueCache:
        """An empty cache for this model."""
        return KeyValueCache(len(self.blocks))

    def forward(
        self,
        ids: Int64[Tensor, "b t"],
        mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Logits of the token after each position. Raises ValueError past max_length.

        mask: bool, True = may look, in place of the causal mask. cache: ids are then
        the positions that follow the cached ones.
        """
        check_ids(ids, self.config.vocab_size)
        start = 0 if cache is None else cache.length
        stop = start + ids.shape[1]
        if mask is None:
            mask = causal_mask(ids.shape[1], stop, device=ids.device)
        x, *rotary = self.embed(ids, start)
        layers = [None] * len(self.blocks) if cache is None else cache.layers
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, *rotary, mask, layer)
        return self.head(self.norm(x))


class DecoderLM(LanguageModel):
    """A decoder-only language model in the GPT-2 style.

    Source: Radford et al. 2019, section 2.3.
    """

    def __init__(self, config: configs.DecoderConfig):
        super().__init__()
        self.config, stack = config, config.stack
        self.tokens = nn.Embedding(config.vocab_size, stack.d_model)
        self.positions = _positions(stack)
        self.dropout = nn.Dropout(stack.dropout)
        depth = range(stack.num_layers)
        self.blocks = nn.ModuleList(EncoderBlock(stack) for _ in depth)
        self.norm = _final_norm(stack)
        self.head = nn.Linear(stack.d_model, config.vocab_size, bias=False)
        if config.tied:
            self.head.weight = self.tokens.weight
        _init_decoder(self, stack.num_layers)

    def embed(
        self, ids: Int64[Tensor, "b t"], start: int
    ) -> tuple[Float[Tensor, "b t m"]]:
        """What the first block reads."""
        return (self.dropout(self.positions(self.tokens(ids), start)),)


class LlamaLM(LanguageModel):
    """A decoder-only language model in the LLaMA style.

    Source: Touvron et al. 2023, section 2.2.
    """

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
        cos, sin = rotary_table(config.max_length, head_dim, config.rope_base)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        _init_decoder(self, config.num_layers)

    def embed(
        self, ids: Int64[Tensor, "b t"], start: int
    ) -> tuple[Float[Tensor, "b t m"], tuple[Tensor, Tensor]]:
        """What the first block reads, and the rotations that every block needs."""
        check_room(self.config.max_length, start, ids.shape[1])
        here = slice(start, start + ids.shape[1])
        return self.dropout(self.tokens(ids)), (self.cos[here], self.sin[here])
