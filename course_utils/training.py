"""Fit a model: one loop for a notebook, a script and a resumed run.

Is handed a module, a function from step to batch, a loss and an evaluation. Knows
nothing of architectures, data or text.
"""

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int64
from torch import Tensor, nn
from tqdm import tqdm

from course_utils import optimizers
from course_utils.config import TrainConfig
from course_utils.machine import find_precision, is_watched
from course_utils.processes import Processes, whole
from course_utils.shapes import (
    IGNORED,
    check_bounds,
    check_callable,
    check_floating,
    check_integer,
    check_positive,
    check_rate,
    check_same,
    check_tensor,
    check_type,
    shown,
    values_are_at_hand,
)

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
    """Mean cross-entropy in nats over the labels that are not IGNORED (-100).

    Raises TypeError or ValueError for logits and labels that do not fit together and,
    where reading labels costs nothing (on the CPU), for labels outside the vocabulary
    or all of them IGNORED.
    """
    check_tensor("logits", logits, ("batch", "length", "vocab_size"))
    check_floating(logits=logits)
    check_tensor("labels", labels, ("batch", "length"))
    if labels.dtype != torch.int64:
        raise TypeError(f"labels must be int64, got {labels.dtype}")
    both = tuple(logits.shape[:2]), tuple(labels.shape)
    check_same("logits and labels: batch and length", *both)
    check_rate(label_smoothing=label_smoothing)
    if values_are_at_hand(labels):
        _check_labels(labels, logits.shape[2])
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(
        rearrange(logits, "b t v -> (b t) v"),
        rearrange(labels, "b t -> (b t)"),
        ignore_index=IGNORED,
        label_smoothing=label_smoothing,
    )


def _check_labels(labels: Tensor, vocab_size: int) -> None:
    counted = labels[labels != IGNORED]
    if not len(counted):
        raise ValueError(f"labels must hold one to count, all are {IGNORED} (ignored)")
    check_bounds(counted, 0, vocab_size, "labels", "vocab_size")


def next_token_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Loss of a decoder-only model on (inputs "b t", labels "b t"), in nats per label.

    Raises TypeError or ValueError for another batch, and as `label_loss`.
    """
    inputs, labels = _unpacked(batch, "(inputs, labels)")
    return label_loss(model(inputs), labels, label_smoothing)


def translation_loss(
    model: nn.Module, batch: Batch, label_smoothing: float = 0.0
) -> Tensor:
    """Loss of an encoder-decoder on (source "b s", target_in "b t", labels "b t").

    In nats per label. Raises TypeError or ValueError for another batch, and as
    `label_loss`.
    """
    source, target_in, labels = _unpacked(batch, "(source, target_in, labels)")
    return label_loss(model(source, target_in), labels, label_smoothing)


def class_loss(model: nn.Module, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
    """Loss of a classifier on (ids "b t", positions "b", labels "b") or (ids, labels).

    Mean cross-entropy in nats per row. Raises TypeError or ValueError for another
    batch, and as `label_loss`.
    """
    whole_texts = isinstance(batch, tuple | list) and len(batch) == 2
    names = "(ids, labels)" if whole_texts else "(ids, positions, labels)"
    *inputs, labels = _unpacked(batch, names)
    check_tensor("labels", labels, ("batch",))
    return label_loss(model(*inputs)[:, None], labels[:, None], label_smoothing)


def _unpacked(batch: object, names: str) -> Batch:
    count = names.count(",") + 1
    if not isinstance(batch, tuple | list):
        raise TypeError(f"batch must be a tuple {names}, got {shown(batch)}")
    if len(batch) != count:
        raise ValueError(f"batch must be {names}, got {len(batch)} tensors")
    return batch


@torch.no_grad()
def mean_loss(
    model: nn.Module, batches: Batches, count: int, loss: Loss = next_token_loss
) -> float:
    """Mean loss per counted label over the first `count` batches, without smoothing.

    Works where the model is, in eval mode and without gradients; afterwards every
    module is in the mode it was in. Raises TypeError or ValueError for an unusable
    batch or a loss that is not one number.
    """
    _check_parts(model, batches, loss)
    check_positive(count=count)
    device, dtype = _home(model)
    total, counted = 0.0, 0
    with _evaluating(model):
        for step in range(count):
            batch, labels = _checked(batches(step), step)
            value = _scalar(loss(model, _placed(batch, device, dtype), 0.0))
            total += value.item() * labels
            counted += labels
    return total / counted


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the length of the block; then each module as it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _home(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The one device and the one floating-point type of a model's weights."""
    weights = list(model.parameters())
    if not weights:
        raise ValueError("model has no parameters")
    devices = sorted({str(weight.device) for weight in weights})
    dtypes = sorted({str(x.dtype) for x in weights if x.is_floating_point()})
    for what, found in (("on one device", devices), ("of one type", dtypes)):
        if len(found) != 1:
            raise ValueError(f"model must be {what}, its weights are {found}")
    floating = next(weight for weight in weights if weight.is_floating_point())
    return floating.device, floating.dtype


def _placed(batch: Batch, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """A batch where the model is; what is floating point in the type of its weights."""
    return [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in batch]


def _scalar(loss: object) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss must return a tensor, got {shown(loss)}")
    if loss.numel() != 1:
        raise ValueError(f"loss must return one number, got shape {tuple(loss.shape)}")
    return loss.reshape(())


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
    """Fit `model` in place and return what happened; the model is left in eval mode.

    The model is trained where it is and in the type of its weights: for a GPU, say
    `model.to(find_device())` before. Each batch is moved to it.

    batches: step (from 0) -> tuple of tensors whose last one holds the labels; a pure
        function, so a resumed run sees what the uninterrupted one saw.
    loss: (model, batch, label_smoothing) -> scalar; `next_token_loss`,
        `translation_loss`, `class_loss` or your own.
    evaluate: model -> number, called without gradients and in eval mode after every
        `evaluate_every` steps and after the last one.
    checkpoints: a folder. Every config.checkpoint_every steps the state is saved there,
        and a call that finds one resumes from it, with bit-equal losses.

    The random numbers of a step (dropout) follow from (config.seed, step) alone; those
    of the caller stay untouched.

    Under `torchrun` the same call trains on all its processes: each takes its rows of
    every batch, and the losses are those of one process (without dropout, and for a
    loss that is a mean over the labels that are not IGNORED), whole or sharded
    (COURSE_SHARD=1). Checkpoints need a folder that all processes share; a run may
    resume with another number of processes.

    Raises TypeError or ValueError for arguments that do not fit together or an unusable
    batch, and FloatingPointError at the first loss or gradient that is not finite.
    """
    check_type(TrainConfig, config=config)
    _check_parts(model, batches, loss)
    _check_request(config, evaluate, evaluate_every, checkpoints)
    folder = None if checkpoints is None else Path(checkpoints)
    run = _Run(model, batches, config, loss)
    if folder:
        run.restore(folder)
    history, first = run.history, len(run.history.steps)
    quiet = run.processes.rank > 0 or not is_watched()
    bar = tqdm(total=config.steps, initial=first, unit="step", disable=quiet)
    started = time.perf_counter() - history.seconds
    try:
        with _own_random_numbers(run.device), bar:
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
            if evaluate and config.steps not in dict(history.evaluations):
                value = run.measure(evaluate)  # the run had ended before this call
                history.evaluations.append((config.steps, value))
    finally:
        model.eval()
    return history


@contextmanager
def _own_random_numbers(device: torch.device) -> Iterator[None]:
    """What is drawn inside leaves the random numbers outside as they were."""
    cuda = [device] if device.type == "cuda" else []
    outside = torch.mps.get_rng_state() if device.type == "mps" else None
    try:
        with torch.random.fork_rng(cuda):
            yield
    finally:
        if outside is not None:
            torch.mps.set_rng_state(outside)


class _Run:
    """A model with everything that moves while it is trained."""

    def __init__(self, model, batches, config, loss):
        self.model = model
        self.batches = batches
        self.config = config
        self.loss = loss
        self.device, self.dtype = _home(model)
        self.precision = _choose_precision(config.precision, self.device, self.dtype)
        self.processes = Processes(self.device)
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
            rows = _placed(rows, self.device, self.dtype)
            loss = self.loss(self.spread, rows, self.config.label_smoothing)
        loss = _scalar(loss) * weight
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

    def measure(self, evaluate: Callable[[nn.Module], float]) -> float:
        self.model.eval()
        with torch.no_grad(), self.autocast():
            value = evaluate(self.model)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"evaluate must return a number, got {shown(value)}"
            ) from None

    def describe(self) -> dict[str, str]:
        """What must be equal for a checkpoint to be one of this run."""
        settings = asdict(self.config) | {"precision": self.precision}
        del settings["checkpoint_every"]
        shapes = self.model.state_dict().items()
        settings |= {f"model.{name}": tuple(x.shape) for name, x in shapes}
        text = f"{getattr(self.model, 'config', '')}\n{self.model}".splitlines()
        settings |= {f"model, line {i}": line.strip() for i, line in enumerate(text)}
        settings["loss"] = getattr(self.loss, "__qualname__", type(self.loss).__name__)
        first, _ = _checked(self.batches(0), 0)
        data = b"".join(_bytes_of(x) for x in first)
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


def _bytes_of(tensor: Tensor) -> bytes:
    """The numbers of a tensor of any type (NumPy has no bfloat16) as bytes."""
    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()


def _choose_precision(
    asked: str, device: torch.device, dtype: torch.dtype
) -> Literal["float32", "bfloat16", "float64"]:
    """The precision of the arithmetic; the weights are never cast for it."""
    of_weights = str(dtype).removeprefix("torch.")
    if dtype == torch.float16:
        raise ValueError("model has float16 weights, too coarse to train: use float32")
    if asked == "auto":
        asked = find_precision(device) if dtype == torch.float32 else of_weights
    needed = "float32" if asked == "bfloat16" else asked
    if of_weights not in (needed, asked):
        method = {"float32": "float", "float64": "double"}[needed]
        raise ValueError(
            f"precision={asked!r} needs {needed} weights, the model's are "
            f"{of_weights}: call model.{method}() before"
        )
    return asked


def _is_due(done: int, every: int, steps: int) -> bool:
    return done == steps or (every > 0 and done % every == 0)


def _finite(value: float, name: str, step: int) -> float:
    if not math.isfinite(value):
        raise FloatingPointError(
            f"{name} is {value} at step {step} (no update was made); try a lower "
            "learning_rate or a longer warm-up"
        )
    return value


def _checked(batch: object, step: int) -> tuple[Batch, int]:
    """A batch, and how many of its labels count.

    Raises unless it is a tuple of tensors with equally many rows and counted labels.
    """
    name = f"batches({step})"
    if not isinstance(batch, tuple | list):
        raise TypeError(f"{name} must return a tuple of tensors, got {shown(batch)}")
    for index, part in enumerate(batch):
        if not isinstance(part, Tensor):
            came = shown(part)
            raise TypeError(f"{name}[{index}] must be a torch.Tensor, got {came}")
    shapes = [tuple(x.shape) for x in batch]
    rows = {shape[:1] for shape in shapes}
    if len(rows) != 1 or rows == {()} or any(0 in shape for shape in shapes):
        raise ValueError(
            f"{name} must return tensors with the same number of rows, at least one; "
            f"got shapes {shapes}"
        )
    counted = int((batch[-1] != IGNORED).sum())
    if not counted:
        raise ValueError(f"{name}: every label is {IGNORED} (ignored)")
    return batch, counted


def _check_parts(model: object, batches: object, loss: object) -> None:
    check_type(nn.Module, model=model)
    check_callable(batches=batches, loss=loss)


def _check_request(
    config: TrainConfig, evaluate: object, evaluate_every: int, checkpoints: object
) -> None:
    check_integer(0, evaluate_every=evaluate_every)
    if evaluate is not None:
        check_callable(evaluate=evaluate)
    if evaluate_every and evaluate is None:
        raise ValueError(f"evaluate_every={evaluate_every} needs evaluate, got None")
    if checkpoints is not None:
        check_type(str | Path, checkpoints=checkpoints)
    every = config.checkpoint_every
    if (checkpoints is None) != (every == 0):
        raise ValueError(
            f"checkpoints={checkpoints} and config.checkpoint_every={every} must be "
            "given together or not at all"
        )
