"""The sizes and choices of models and of training, checked the moment they are made.

Knows numbers and names only. Knows nothing of layers.
"""

from dataclasses import dataclass, field

from course_utils.shapes import (
    check_choice,
    check_divides,
    check_fraction,
    check_positive,
)


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
    norm: str = "pre"  # trains without care; the paper's own is "post"
    activation: str = "relu"
    positions: str = "sinusoidal"

    def __post_init__(self):
        check_positive(
            d_model=self.d_model,
            num_heads=self.num_heads,
            num_layers=self.num_layers,
            d_ff=self.d_ff,
            max_length=self.max_length,
        )
        check_divides("d_model", self.d_model, "num_heads", self.num_heads)
        check_fraction(dropout=self.dropout)
        check_choice("norm", self.norm, ("pre", "post"))
        check_choice("activation", self.activation, ("relu", "gelu"))
        check_choice("positions", self.positions, ("sinusoidal", "learned", "none"))


@dataclass(frozen=True)
class ClassifierConfig:
    """An encoder that sorts words or texts into num_classes classes."""

    vocab_size: int
    num_classes: int
    stack: StackConfig = field(default_factory=StackConfig)
    pad_id: int = 0

    def __post_init__(self):
        check_positive(vocab_size=self.vocab_size, num_classes=self.num_classes)


@dataclass(frozen=True)
class EncoderDecoderConfig:
    """A translator: two stacks, which may differ in every size.

    share_weights uses one matrix as source embedding, target embedding and output
    projection (Vaswani et al. 2017, section 3.4): one vocabulary, one width.
    """

    source_vocab_size: int
    target_vocab_size: int
    encoder: StackConfig = field(default_factory=StackConfig)
    decoder: StackConfig = field(default_factory=StackConfig)
    share_weights: bool = False
    pad_id: int = 0

    def __post_init__(self):
        check_positive(
            source_vocab_size=self.source_vocab_size,
            target_vocab_size=self.target_vocab_size,
        )
        if not 0 <= self.pad_id < min(self.source_vocab_size, self.target_vocab_size):
            raise ValueError(f"pad_id must lie in both vocabularies, got {self.pad_id}")
        if not self.share_weights:
            return
        if self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "share_weights needs one vocabulary for both sides, got "
                f"source_vocab_size={self.source_vocab_size} and "
                f"target_vocab_size={self.target_vocab_size}"
            )
        if self.encoder.d_model != self.decoder.d_model:
            raise ValueError(
                "share_weights needs one width for both sides, got encoder.d_model="
                f"{self.encoder.d_model} and decoder.d_model={self.decoder.d_model}"
            )


def _decoder_stack() -> StackConfig:
    return StackConfig(activation="gelu", positions="learned")


@dataclass(frozen=True)
class DecoderConfig:
    """A decoder-only language model as in Radford et al. 2019 (GPT-2), section 2.3."""

    vocab_size: int
    stack: StackConfig = field(default_factory=_decoder_stack)
    tied: bool = True  # output projection = embedding: fewer parameters, same loss

    def __post_init__(self):
        check_positive(vocab_size=self.vocab_size)


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
        check_positive(
            vocab_size=self.vocab_size,
            d_model=self.d_model,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            num_layers=self.num_layers,
            d_ff=self.d_ff,
            max_length=self.max_length,
        )
        check_divides("d_model", self.d_model, "num_heads", self.num_heads)
        check_divides("num_heads", self.num_heads, "num_kv_heads", self.num_kv_heads)
        check_divides("head_dim", self.d_model // self.num_heads, "rotary halves", 2)
        check_fraction(dropout=self.dropout)
        if self.rope_base <= 1 or self.norm_eps <= 0:
            raise ValueError(
                "rope_base must exceed 1 and norm_eps exceed 0, got "
                f"rope_base={self.rope_base}, norm_eps={self.norm_eps}"
            )


@dataclass(frozen=True)
class TrainConfig:
    """How to train: steps, step size, schedule, precision.

    "auto" precision is bfloat16 where the machine is fast at it, float32 elsewhere.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_steps: int = 100  # Adam's second moment is unreliable at first
    schedule: str = "cosine"
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    label_smoothing: float = 0.0
    precision: str = "auto"
    seed: int = 0
    optimizer: str = "adamw"
    checkpoint_every: int = 0  # 0: never

    def __post_init__(self):
        check_positive(steps=self.steps)
        for name in ("warmup_steps", "checkpoint_every", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must not be negative, got {getattr(self, name)}"
                )
        if self.learning_rate <= 0 or self.clip_norm <= 0 or self.weight_decay < 0:
            raise ValueError(
                "learning_rate and clip_norm must exceed 0 and weight_decay not be "
                f"negative, got {self.learning_rate}, {self.clip_norm} and "
                f"{self.weight_decay}"
            )
        check_fraction(label_smoothing=self.label_smoothing)
        check_choice("schedule", self.schedule, ("cosine", "inverse_sqrt", "constant"))
        precisions = ("auto", "float32", "bfloat16", "float64")
        check_choice("precision", self.precision, precisions)
        check_choice("optimizer", self.optimizer, ("adamw", "muon"))
