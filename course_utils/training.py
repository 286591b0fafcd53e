"""Fit a model: one loop for a notebook, a script and a resumed run.

Is handed a module, a function from step to batch, a loss and an evaluation. Knows
nothing of architectures, data or text.
"""

import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn
from tqdm import tqdm

from course_utils import optimizers
from course_utils.config import TrainConfig
from course_utils.machine import find_device, find_precision, is_watched
from course_utils.processes import Processes, whole
from course_utils.shapes import IGNORED, check_positive, check_whole

Batch = Sequence[Tensor]
Batches = Callable[[int], Batch]
Loss = Callable[[nn.Module, Batch, float], Tensor]


@dataclass
class History:
    """What a run did, one entry per step; two equal runs have equal histories.

    losses in nats per counted label (label smoothing included), gradient_norms before
    clipping, tokens = labels seen so far, evaluations = (steps done, value). seconds is
    left out of comparisons.
    """

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = field(default=0.0, compare=False)


def label_loss(
    logits: Float[Tensor, "b t v"], labels: Int64[Tensor, "b t"], label_smoothing: float
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the labels that are not IGNORED (-100)."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(
        rearrange(logits, "b t v -> (b t) v"),
        rearrange(labels, "b t -> (b t)"),
        ignore_index=IGNORED,
        label_smoothing=label_smoothing,
    )


def next_token_loss(model: nn.Module, batch: Batch, label_smoothing: float) -> Tensor:
    """Loss of a decoder-only model on (inputs "b t", labels "b t")."""
    inputs, labels = batch
    return label_loss(model(inputs), labels, label_smoothing)


def translation_loss(model: nn.Module, batch: Batch, label_smoothing: float) -> Tensor:
    """Loss of an encoder-decoder on (source "b s", target_in "b t", labels "b t")."""
    source, target_in, labels = batch
    return label_loss(model(source, target_in), labels, label_smoothing)


def class_loss(model: nn.Module, batch: Batch, label_smoothing: float) -> Tensor:
    """Loss of a classifier on (ids "b t", positions "b", labels "b") or (ids, labels).

    Mean cross-entropy in nats per row.
    """
    *inputs, labels = batch
    logits = model(*inputs)
    return label_loss(logits[:, None], labels[:, None], label_smoothing)


def mean_loss(
    model: nn.Module, batches: Batches, count: int, loss: Loss = next_token_loss
) -> float:
    """Mean loss per counted label over the first `count` batches, without smoothing.

    Leaves the mode (train or eval) and the gradients to the caller: in `train`, pass
    `evaluate=lambda model: mean_loss(model, batches, count)`.
    """
    check_positive(count=count)
    device = next(model.parameters()).device
    total, counted = 0.0, 0
    for step in range(count):
        batch, labels = _checked(batches(step), step)
        value = loss(model, [x.to(device) for x in batch], 0.0)
        total, counted = total + value.item() * labels, counted + labels
    return total / counted


def train(
    model: nn.Module,
    batches: Batches,
    config: TrainConfig,
    *,
    loss: Loss = next_token_loss,
    evaluate: Callable[[nn.Module], float] | None = None,
    evaluate_every: int = 0,
    checkpoints: str | Path | None = None,
) -> History:
    """Fit `model` in place and tell what happened; the model is left in eval mode.

    batches: step (from 0) -> tuple of tensors whose last one holds the labels; a pure
        function, so a resumed run sees what the uninterrupted one saw.
    loss: (model, batch, label_smoothing) -> scalar; `next_token_loss`,
        `translation_loss` or your own.
    evaluate: model -> number, called without gradients and in eval mode after every
        `evaluate_every` steps and after the last one.
    checkpoints: a folder. Every config.checkpoint_every steps the state is kept there,
        and a call that finds one goes on from it, with bit-equal losses.

    The random numbers of a step (dropout) follow from (config.seed, step) alone; those
    of the caller stay untouched. "auto" precision keeps a float64 model as it is.

    Under `torchrun` the same call trains on all its processes: each takes its rows of
    every batch, and the losses are those of one process (without dropout, and for a
    loss that is a mean over the labels that are not IGNORED), whole or sharded
    (COURSE_SHARD=1). Checkpoints need a folder that all processes share; a run may go
    on with another number of processes, or with none besides itself.
    Raises ValueError for arguments that do not fit together or an unusable batch, and
    FloatingPointError at the first loss or gradient that is not finite.
    """
    _check_request(config, evaluate, evaluate_every, checkpoints)
    folder = None if checkpoints is None else Path(checkpoints)
    run = _Run(model, batches, config, loss)
    if folder:
        run.restore(folder)
    history, first = run.history, len(run.history.steps)
    cuda = [run.device] if run.device.type == "cuda" else []
    quiet = run.processes.rank > 0 or not is_watched()
    bar = tqdm(total=config.steps, initial=first, unit="step", disable=quiet)
    started = time.perf_counter() - history.seconds
    try:
        with torch.random.fork_rng(cuda), bar:
            for step in range(first, config.steps):
                run.step(step)
                done = step + 1
                if evaluate and _is_due(done, evaluate_every, config.steps):
                    history.evaluations.append((done, run.measure(evaluate)))
                history.seconds = time.perf_counter() - started
                if folder and _is_due(done, config.checkpoint_every, config.steps):
                    run.keep(folder, done)
                bar.set_postfix(loss=f"{history.losses[-1]:.3f}", refresh=False)
                bar.update()
    finally:
        model.eval()
    return history


class _Run:
    """A model with everything that moves while it is trained."""

    def __init__(self, model, batches, config, loss):
        self.model, self.batches, self.config, self.loss = model, batches, config, loss
        self.processes = Processes(find_device())
        self.device = self.processes.device
        self.precision, self.dtype = _choose_precision(model, config, self.device)
        model.to(self.device, self.dtype)
        self.identity = self.describe() if config.checkpoint_every else {}
        self.spread = self.processes.spread(model)
        self.optimizers = optimizers.build_optimizers(model, config, self.precision)
        self.parts = (model, self.optimizers)
        self.history = History()

    def autocast(self):
        on = self.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=on)

    def step(self, step: int) -> None:
        """One batch, one change of the weights."""
        rank = [self.processes.rank] if self.processes.rank else []
        entropy = [self.config.seed, step, *rank]  # each rank has a dropout of its own
        seed = np.random.SeedSequence(entropy).generate_state(1)
        torch.manual_seed(int(seed[0]))
        batch, counted = _checked(self.batches(step), step)
        rows, weight = self.processes.share(batch)
        self.spread.train()
        with self.autocast():
            loss = self.loss(self.spread, self.move(rows), self.config.label_smoothing)
        if loss.numel() != 1:
            came = tuple(loss.shape)
            raise ValueError(f"loss must return one number, got shape {came}")
        loss = loss * weight
        value = _finite(self.processes.mean(loss), "loss", step)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        norm = _finite(whole(norm), "gradient norm", step)
        rate = optimizers.learning_rate_at(step + 1, self.config)
        optimizers.set_learning_rate(self.optimizers, rate)
        for optimizer in self.optimizers:
            optimizer.step()
        past = self.history
        past.steps.append(step + 1)
        past.losses.append(value)
        past.learning_rates.append(rate)
        past.gradient_norms.append(norm)
        past.tokens.append(counted + (past.tokens[-1] if past.tokens else 0))

    def move(self, batch: Batch) -> list[Tensor]:
        kinds = [self.dtype if x.is_floating_point() else x.dtype for x in batch]
        return [x.to(self.device, kind) for x, kind in zip(batch, kinds, strict=True)]

    def measure(self, evaluate: Callable[[nn.Module], float]) -> float:
        self.model.eval()
        with torch.no_grad(), self.autocast():
            return float(evaluate(self.model))

    def describe(self) -> dict[str, str]:
        """What must be equal for a checkpoint to be one of this run."""
        settings = asdict(self.config) | {"precision": self.precision}
        del settings["checkpoint_every"]
        shapes = self.model.state_dict().items()
        settings |= {f"model.{name}": tuple(x.shape) for name, x in shapes}
        text = f"{getattr(self.model, 'config', '')}\n{self.model}".splitlines()
        settings |= {f"model, line {i}": line.strip() for i, line in enumerate(text)}
        first, _ = _checked(self.batches(0), 0)
        data = b"".join(x.detach().cpu().numpy().tobytes() for x in first)
        settings["checksum of the first batch"] = f"{zlib.crc32(data):08x}"
        return {name: str(value) for name, value in settings.items()}

    def keep(self, folder: Path, step: int) -> None:
        from course_utils.checkpoints import save_checkpoint  # slow to import

        notes = {"identity": self.identity, "history": asdict(self.history)}
        save_checkpoint(folder, step, self.parts, notes, self.processes)

    def restore(self, folder: Path) -> None:
        from course_utils.checkpoints import load_checkpoint  # slow to import

        notes = load_checkpoint(folder, self.parts, self.identity, self.processes)
        if notes:
            past = notes["history"]
            past["evaluations"] = [tuple(pair) for pair in past["evaluations"]]
            self.history = History(**past)


def _choose_precision(model, config, device) -> tuple[str, torch.dtype]:
    """The precision of the arithmetic, and the type of the weights under it."""
    precision = config.precision
    if precision == "auto":
        wide = any(x.dtype == torch.float64 for x in model.parameters())
        precision = "float64" if wide else find_precision(device)
    if precision == "float64" and device.type == "mps":
        raise ValueError('precision="float64" needs a CPU or CUDA, MPS has no float64')
    return precision, torch.float64 if precision == "float64" else torch.float32


def _is_due(done: int, every: int, steps: int) -> bool:
    return done == steps or (every > 0 and done % every == 0)


def _finite(value: float, name: str, step: int) -> float:
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} of step {step} must be finite, it is {value}; the weights are "
            "those of the step before; try a lower learning_rate or a longer warm-up"
        )
    return value


def _checked(batch: object, step: int) -> tuple[Batch, int]:
    """A batch, and how many of its labels count.

    Raises unless it is a tuple of tensors with equally many rows and counted labels.
    """
    parts = batch if isinstance(batch, tuple | list) else [None]
    if not all(isinstance(x, Tensor) for x in parts):
        kinds = ", ".join(type(x).__name__ for x in parts)
        came = type(batch).__name__ if parts is not batch else f"one of {kinds}"
        raise TypeError(f"batches({step}) must return a tuple of tensors, got {came}")
    shapes = [tuple(x.shape) for x in batch]
    rows = {shape[:1] for shape in shapes}
    if len(rows) != 1 or rows == {()} or any(0 in shape for shape in shapes):
        wanted = "tensors with the same number of rows, at least one"
        raise ValueError(f"batches({step}) must return {wanted}, got shapes {shapes}")
    counted = int((batch[-1] != IGNORED).sum())
    if not counted:
        raise ValueError(f"batches({step}) must hold a label, all are {IGNORED}")
    return batch, counted


def _check_request(config, evaluate, evaluate_every, checkpoints) -> None:
    check_whole(0, evaluate_every=evaluate_every)
    if evaluate_every and evaluate is None:
        raise ValueError(f"evaluate_every={evaluate_every} needs evaluate, got None")
    every = config.checkpoint_every
    if (checkpoints is None) != (every == 0):
        given = f"checkpoints={checkpoints} and config.checkpoint_every={every}"
        raise ValueError(f"{given} must be given together or not at all")
