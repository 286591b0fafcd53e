"""Sizes and choices of models and of training, checked on construction.

Knows numbers and names only. Knows nothing of layers. Every field is given by name:
`StackConfig(d_model=64, num_heads=4)`.
"""

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin

from course_utils import checks

MAY_BE_ZERO = {"pad_id", "warmup_steps", "seed", "checkpoint_every"}  # others: >= 1
INTERVALS = {
    "dropout": "[0, 1)",
    "rope_base": "(1, inf)",
    "norm_eps": "(0, inf)",
    "learning_rate": "(0, inf)",
    "weight_decay": "[0, inf)",
    "clip_norm": "(0, inf]",
    "label_smoothing": "[0, 1)",
    "momentum": "[0, 1)",
}


class _Checked:
    """Each field must hold a value of its type, and a number one that makes sense."""

    def __post_init__(self):
        for item in fields(self):
            name, kind, value = item.name, item.type, getattr(self, item.name)
            if value is None and kind == int | None:
                continue
            if kind in (int, int | None):
                checks.check_integer(0 if name in MAY_BE_ZERO else 1, **{name: value})
            elif kind is float:
                interval = INTERVALS.get(name, "(-inf, inf)")
                checks.check_number(interval, **{name: value})
            elif get_origin(kind) is Literal:
                checks.check_choice(name, value, get_args(kind))
            elif type(kind) is type:
                checks.check_type(kind, **{name: value})


@dataclass(frozen=True, kw_only=True)
class StackConfig(_Checked):
    """One stack of transformer blocks (Vaswani et al. 2017, section 3)."""

    d_model: int = 128
    num_heads: int = 4
    num_layers: int = 2
    d_ff: int = 512  # the paper's ratio: four times d_model
    max_length: int = 256  # positions; a longer sequence raises
    dropout: float = 0.0  # small models on generated data do not overfit
    norm: Literal["pre", "post"] = "pre"  # trains without care; the paper's is "post"
    activation: Literal["relu", "gelu"] = "relu"
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal"

    def __post_init__(self):
        super().__post_init__()
        checks.check_divisible("d_model", self.d_model, "num_heads", self.num_heads)


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(_Checked):
    """An encoder that assigns words or texts to num_classes classes."""

    vocab_size: int
    num_classes: int
    stack: StackConfig = StackConfig()
    pad_id: int = 0

    def __post_init__(self):
        super().__post_init__()
        checks.check_index(self.vocab_size, "vocab_size", pad_id=self.pad_id)


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(_Checked):
    """A translator: two stacks, which may differ in every size.

    share_weights: one matrix as both embeddings and output projection (Vaswani et al.
    2017, section 3.4).
    """

    source_vocab_size: int
    target_vocab_size: int
    encoder: StackConfig = StackConfig()
    decoder: StackConfig = StackConfig()
    share_weights: bool = False
    pad_id: int = 0

    def __post_init__(self):
        super().__post_init__()
        source, target = self.source_vocab_size, self.target_vocab_size
        checks.check_index(source, "source_vocab_size", pad_id=self.pad_id)
        checks.check_index(target, "target_vocab_size", pad_id=self.pad_id)
        if self.share_weights:
            sizes = (source, self.encoder.d_model), (target, self.decoder.d_model)
            checks.check_same("share_weights: vocabulary and width", *sizes)


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(_Checked):
    """A decoder-only language model as in Radford et al. 2019 (GPT-2), section 2.3."""

    vocab_size: int
    stack: StackConfig = StackConfig(activation="gelu", positions="learned")
    tied: bool = True  # output projection = embedding: fewer parameters, same loss

    def __post_init__(self):
        super().__post_init__()
        if self.stack.positions == "sinusoidal":  # and tokens are short vectors here
            fit = "'learned' or 'none' for a decoder alone"
            raise ValueError(f"stack: positions must be {fit}, got 'sinusoidal'")


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(_Checked):
    """A decoder-only language model as in Touvron et al. 2023 (LLaMA), section 2.2.

    num_kv_heads below num_heads groups the queries (Ainslie et al. 2023); None stands
    for num_heads.
    """

    vocab_size: int
    d_model: int = 256
    num_heads: int = 8
    num_kv_heads: int | None = None
    num_layers: int = 4
    d_ff: int = 688  # about 8/3 of d_model: three matrices cost what two did
    max_length: int = 256
    rope_base: float = 10_000.0
    norm_eps: float = 1e-5
    tied: bool = True
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if self.num_kv_heads is None:
            object.__setattr__(self, "num_kv_heads", self.num_heads)
        checks.check_divisible("d_model", self.d_model, "num_heads", self.num_heads)
        checks.check_divisible(
            "num_heads", self.num_heads, "num_kv_heads", self.num_kv_heads
        )
        if (head_dim := self.d_model // self.num_heads) % 2:
            raise ValueError(
                f"d_model / num_heads must be even (rotary pairs), got {head_dim}"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig(_Checked):
    """How to train: steps, learning rate, schedule, precision.

    warmup_steps: None stands for a tenth of the steps, from 1 to 100. precision: "auto"
    computes in bfloat16 where the weights are float32 and the machine is fast at it,
    else in the type of the weights, which keep theirs.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_steps: int | None = None  # Adam's second moment is unreliable at first
    schedule: Literal["cosine", "linear", "inverse_sqrt", "constant"] = "cosine"
    weight_decay: float = 0.1
    clip_norm: float = 1.0  # math.inf: never clip
    label_smoothing: float = 0.0
    precision: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    seed: int = 0
    optimizer: Literal["adamw", "muon"] = "adamw"
    momentum: float = 0.95  # of Muon: how much of a gradient's past a step remembers
    checkpoint_every: int = 0  # 0: never

    def __post_init__(self):
        super().__post_init__()
        if self.warmup_steps is None:
            tenth = max(1, self.steps // 10)
            object.__setattr__(self, "warmup_steps", min(100, tenth))
        if self.warmup_steps > self.steps:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} must not exceed steps={self.steps}"
            )
