"""The sizes and choices of models and of training, checked the moment they are made.

Knows numbers and names only. Knows nothing of layers.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

from course_utils import shapes


def _check_fields(config: object, *may_be_zero: str) -> None:
    """Raise ValueError for a whole number below 1 (or 0) and for an unknown choice."""
    for item in fields(config):
        value = getattr(config, item.name)
        if item.type is int:
            least = 0 if item.name in may_be_zero else 1
            shapes.check_whole(least, **{item.name: value})
        elif get_origin(item.type) is Literal:
            shapes.check_choice(item.name, value, get_args(item.type))


@dataclass(frozen=True)
class StackConfig:
    """One stack of transformer blocks (Vaswani et al. 2017, section 3).

    Raises ValueError at birth for sizes below 1, for a d_model that does not divide
    into num_heads, a dropout outside [0, 1), or an unknown choice.
    """

    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 512  # the paper's ratio: four times d_model
    max_length: int = 256  # positions; a longer sequence raises
    dropout: float = 0.0  # small models on generated data do not overfit
    norm: Literal["pre", "post"] = (
        "pre"  # trains without care; the paper's own is "post"
    )
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"

    def __post_init__(self):
        _check_fields(self)
        shapes.check_divides("d_model", self.d_model, "num_heads", self.num_heads)
        shapes.check_fraction(dropout=self.dropout)


@dataclass(frozen=True)
class ClassifierConfig:
    """An encoder that sorts words or texts into num_classes classes."""

    vocab_size: int
    num_classes: int
    stack: StackConfig = StackConfig()
    pad_id: int = 0

    def __post_init__(self):
        _check_fields(self, "pad_id")


@dataclass(frozen=True)
class EncoderDecoderConfig:
    """A translator: two stacks, which may differ in every size.

    share_weights uses one matrix as source embedding, target embedding and output
    projection (Vaswani et al. 2017, section 3.4): one vocabulary, one width.
    """

    source_vocab_size: int
    target_vocab_size: int
    encoder: StackConfig = StackConfig()
    decoder: StackConfig = StackConfig()
    share_weights: bool = False
    pad_id: int = 0

    def __post_init__(self):
        _check_fields(self, "pad_id")
        sizes = self.source_vocab_size, self.target_vocab_size
        if self.pad_id >= min(sizes):
            raise ValueError(f"pad_id must lie in both vocabularies, got {self.pad_id}")
        if self.share_weights:
            shapes.check_equal("with share_weights both vocabulary sizes", *sizes)
            widths = self.encoder.d_model, self.decoder.d_model
            shapes.check_equal("with share_weights both stacks' d_model", *widths)


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder-only language model as in Radford et al. 2019 (GPT-2), section 2.3."""

    vocab_size: int
    stack: StackConfig = StackConfig(activation="gelu", positions="learned")
    tied: bool = True  # output projection = embedding: fewer parameters, same loss

    def __post_init__(self):
        _check_fields(self)


@dataclass(frozen=True)
class LlamaConfig:
    """A decoder-only language model as in Touvron et al. 2023 (LLaMA), section 2.2.

    num_kv_heads below num_heads groups the queries (Ainslie et al. 2023).
    """

    vocab_size: int
    d_model: int = 256
    num_heads: int = 8
    num_kv_heads: int = 8
    num_layers: int = 4
    d_ff: int = 688  # about 8/3 of d_model: three matrices cost what two did
    max_length: int = 256
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5
    tied: bool = True
    dropout: float = 0.0

    def __post_init__(self):
        _check_fields(self)
        heads = ("num_heads", self.num_heads)
        shapes.check_divides("d_model", self.d_model, *heads)
        shapes.check_divides(*heads, "num_kv_heads", self.num_kv_heads)
        head_dim = self.d_model // self.num_heads
        shapes.check_divides("head_dim", head_dim, "rotary halves", 2)
        shapes.check_fraction(dropout=self.dropout)
        shapes.check_above(1, rope_base=self.rope_base)
        shapes.check_above(0, norm_eps=self.norm_eps)


@dataclass(frozen=True)
class TrainConfig:
    """How to train: steps, step size, schedule, precision.

    "auto" precision is bfloat16 where the machine is fast at it, float32 elsewhere.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_steps: int = 100  # Adam's second moment is unreliable at first
    schedule: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    label_smoothing: float = 0.0
    precision: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    seed: int = 0
    optimizer: Literal["adamw", "muon"] = "adamw"
    checkpoint_every: int = 0  # 0: never

    def __post_init__(self):
        _check_fields(self, "warmup_steps", "checkpoint_every", "seed")
        shapes.check_above(0, learning_rate=self.learning_rate)
        shapes.check_between(0, math.inf, weight_decay=self.weight_decay)
        if not self.clip_norm > 0:  # infinity: never clip
            raise ValueError(f"clip_norm must exceed 0, got {self.clip_norm}")
        shapes.check_fraction(label_smoothing=self.label_smoothing)
