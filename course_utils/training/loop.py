"""Fit a model: one loop for a notebook, a script and a resumed run.

Is handed a module, a function from step to batch, a loss and an evaluation. Knows
nothing of architectures, data or text.
"""

import functools
import inspect
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from types import CodeType
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_utils.checks import check_type
from course_utils.config import TrainConfig
from course_utils.training import losses, optimizers
from course_utils.training.evaluation import evaluating
from course_utils.training.losses import Batches, Loss, next_token_loss
from course_utils.training.machine import (
    device_and_dtype,
    find_precision,
    in_notebook,
    is_watched,
)
from course_utils.training.processes import Processes, to_number


@dataclass
class History:
    """What a run did, one entry per step; two equal runs have equal histories.

    losses in nats per counted label (label smoothing included), gradient_norms before
    clipping, tokens = labels seen so far, evaluations = (steps done, value).
    """

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    learning_rates: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    evaluations: list[tuple[int, float]] = field(default_factory=list)
    seconds: float = field(default=0.0, compare=False)

    def add(self, loss: float, rate: float, norm: float, counted: int) -> None:
        """One more step; counted: its labels."""
        self.steps.append(len(self.steps) + 1)
        self.losses.append(loss)
        self.learning_rates.append(rate)
        self.gradient_norms.append(norm)
        self.tokens.append(counted + (self.tokens[-1] if self.tokens else 0))


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

    It is trained where it is: for a GPU, say `model.to(find_device())` before.

    batches: step (from 0) -> tuple of tensors whose last one holds the labels.
    loss: (model, batch, label_smoothing) -> scalar.
    evaluate: model -> number, called without gradients and in eval mode after every
        `evaluate_every` steps and after the last one.
    checkpoints: a folder. Every config.checkpoint_every steps the state is saved there,
        and a call that finds one resumes from it, with bit-equal losses. It must be the
        same run; where no learning rate depends on the last step ("constant" or
        "inverse_sqrt", and the same warmup_steps), it may be a longer one.

    Dropout follows from (config.seed, step) alone; the caller's random numbers stay
    (but for those of MPS).

    Under `torchrun` the same call trains on all its processes, whole or sharded
    (COURSE_SHARD=1): each takes its rows of every batch, and the losses are those of
    one process (for a mean over the labels that are not IGNORED). Checkpoints need a
    folder that all share; a run may resume with another number of processes.

    A loss or gradient that is not finite stops the run with a FloatingPointError. The
    Stop button of a notebook ends the run, which then returns what it did so far. An
    exception has the `history`, too; in a notebook it is `sys.last_value.history`.
    """
    check_type(Callable, batches=batches)
    check_type(TrainConfig, config=config)
    _check_request(config, evaluate, evaluate_every, checkpoints)
    folder = None if checkpoints is None else Path(checkpoints)
    run = _Run(model, batches, config, loss)
    if folder:
        run.restore(folder, run.identify(evaluate, evaluate_every))
    history = run.history
    first = len(history.steps)
    quiet = run.processes.rank > 0 or not is_watched()
    bar = tqdm(total=config.steps, initial=first, disable=quiet)
    bar.leave = not in_notebook()  # red if it was stopped
    started = time.perf_counter() - history.seconds
    try:
        cuda = [run.device] if run.device.type == "cuda" else []
        with torch.random.fork_rng(cuda), bar:
            for step in range(first, config.steps):
                run.step(step)
                done = step + 1
                if evaluate and _is_due(done, evaluate_every, config.steps):
                    history.evaluations.append((done, run.evaluate(evaluate)))
                history.seconds = time.perf_counter() - started
                if folder and _is_due(done, config.checkpoint_every, config.steps):
                    run.save(folder, done)
                bar.set_postfix(loss=f"{history.losses[-1]:.3f}", refresh=False)
                bar.update()
            if evaluate and config.steps not in dict(history.evaluations):
                value = run.evaluate(evaluate)  # the run had ended before this call
                history.evaluations.append((config.steps, value))
    except BaseException as stop:
        stop.history = history
        if not (isinstance(stop, KeyboardInterrupt) and in_notebook()) or quiet:
            raise
        done = f"{len(history.steps)} of {config.steps} steps"
        print(f"Stopped after {done}. To begin anew, run this cell again.")
    finally:
        model.eval()
    return history


class _Run:
    """A model with everything that changes while it is trained."""

    def __init__(self, model, batches, config, loss):
        self.model = model
        self.name = type(model).__name__  # before it may be sharded
        self.batches = batches
        self.config = config
        self.loss = loss
        self.device, self.dtype = device_and_dtype(model)
        self.precision = _choose_precision(config.precision, self.device, self.dtype)
        self.processes = Processes(self.device)
        self.identity: dict[str, str] = {}  # of a run with checkpoints
        self.parallel = self.processes.parallel(model)
        self.optimizers = optimizers.build_optimizers(model, config, self.precision)
        self.history = History()
        model.zero_grad()
        model.train()

    def autocast(self):
        on = self.precision == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=on)

    def step(self, step: int) -> None:
        """One batch, one change of the weights."""
        self.seed(step)
        batch = self.batches(step)
        counted = losses.count_labels(batch, step)
        batch, weight = self.processes.rows_of_rank(batch)
        batch = losses.to_device(batch, self.device, self.dtype)
        with self.autocast():
            loss = self.loss(self.parallel, batch, self.config.label_smoothing)
            loss = loss * weight
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        value, norm = self.processes.mean(loss), to_number(norm)
        _check_finite(step, loss=value, gradient_norm=norm)
        rate = optimizers.learning_rate_at(step + 1, self.config)
        optimizers.set_learning_rate(self.optimizers, rate)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.history.add(value, rate, norm, counted)

    def seed(self, step: int) -> None:
        """What a step draws (dropout) follows from the seed, the step and the rank."""
        rank = [self.processes.rank] if self.processes.rank else []
        entropy = np.random.SeedSequence([self.config.seed, step, *rank])
        torch.manual_seed(int(entropy.generate_state(1)[0]))

    def evaluate(self, evaluate: Callable[[nn.Module], float]) -> float:
        with evaluating(self.model), torch.no_grad(), self.autocast():
            return float(evaluate(self.model))

    def identify(self, evaluate: Callable | None, every: int) -> dict[str, str]:
        """What must be equal for a checkpoint to be one of this run."""
        config = getattr(self.model, "config", None)
        layers = asdict(config) if is_dataclass(config) else {"layers": self.model}
        settings = asdict(self.config) | {"precision": self.precision}
        del settings["checkpoint_every"]
        if self.config.schedule in ("constant", "inverse_sqrt"):
            del settings["steps"]
        settings["model"] = self.name
        settings |= {f"model.{name}": value for name, value in layers.items()}
        weights = self.model.named_parameters()
        frozen = [name for name, weight in weights if not weight.requires_grad]
        settings["frozen"] = ", ".join(frozen) or "nothing"
        settings["loss"] = _signature(self.loss, deep=True)
        if evaluate:
            settings["evaluate"] = f"{_signature(evaluate)} every {every} steps"
        data = b"".join(map(_bytes, self.batches(0)))
        settings["checksum of the first batch"] = f"{zlib.crc32(data):08x}"
        return {name: " ".join(str(value).split()) for name, value in settings.items()}

    def save(self, folder: Path, step: int) -> None:
        from course_utils.training.checkpoints import save_checkpoint  # slow to import

        metadata = {"identity": self.identity, "history": asdict(self.history)}
        state = self.model, self.optimizers
        save_checkpoint(folder, step, state, metadata, self.processes)

    def restore(self, folder: Path, identity: dict[str, str]) -> None:
        from course_utils.training.checkpoints import load_checkpoint  # slow to import

        self.identity = identity
        state = self.model, self.optimizers
        metadata = load_checkpoint(folder, state, identity, self.processes)
        if metadata:
            past = metadata["history"]
            past["evaluations"] = [tuple(pair) for pair in past["evaluations"]]
            self.history = History(**past)
        if len(self.history.steps) > self.config.steps:
            done = f"{len(self.history.steps)} steps are done in {folder}"
            raise ValueError(f"steps={self.config.steps} must not be fewer: {done}")


def _signature(function: Callable, deep: bool = False) -> str:
    """The name of a function, and a checksum if no import could give the same one.

    deep: tensors, lists and functions that it uses count, too, and the attributes of
    its object. An evaluation may change those as it goes.
    """
    if isinstance(function, functools.partial):
        inner = _signature(function.func, deep)
        return f"{inner} {function.args} {function.keywords}"
    name = getattr(function, "__qualname__", type(function).__name__)
    code = getattr(function, "__code__", None)
    contents = []
    if code and ("<" in name or function.__module__ == "__main__"):
        uses = inspect.getclosurevars(function)
        contents += [_bytecode(code), _values(uses.globals | uses.nonlocals, deep)]
    owner = getattr(function, "__self__", None) if code else function
    if deep and hasattr(owner, "__dict__"):
        contents.append(_values(vars(owner), deep))
    return f"{name} {zlib.crc32(repr(contents).encode()):08x}" if contents else name


def _values(names: dict, deep: bool) -> dict:
    if not deep:
        return {n: v for n, v in names.items() if isinstance(v, int | float | str)}
    return {name: _serializable(value) for name, value in names.items()}


def _serializable(value: object) -> object:
    """What a value holds, in a form that another process would see as well."""
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, Tensor):
        return zlib.crc32(_bytes(value))
    if isinstance(value, list | tuple):
        return [_serializable(item) for item in value]
    return _signature(value) if inspect.isroutine(value) else type(value).__name__


def _bytes(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy().tobytes()


def _bytecode(code: CodeType) -> list:
    """What a function computes, without its position in a file."""
    constants = [
        _bytecode(value) if isinstance(value, CodeType) else value
        for value in code.co_consts
        if not isinstance(value, frozenset)  # whose order changes
    ]
    return [code.co_code, code.co_names, constants]


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
        raise ValueError(
            f"precision={asked!r} needs {needed} weights, the model's are {of_weights}"
        )
    return asked


def _is_due(done: int, every: int, steps: int) -> bool:
    return done == steps or (every > 0 and done % every == 0)


def _check_finite(step: int, **values: float) -> None:
    for name, value in values.items():
        if not math.isfinite(value):
            cure = "(no update was made); try a lower learning_rate or a longer warm-up"
            raise FloatingPointError(f"{name} is {value} at step {step} {cure}")


def _check_request(config, evaluate, evaluate_every, checkpoints) -> None:
    if evaluate_every and evaluate is None:
        raise ValueError(f"evaluate_every={evaluate_every} needs evaluate, got None")
    if (checkpoints is None) != (config.checkpoint_every == 0):
        both = f"{checkpoints=!s} and config.checkpoint_every={config.checkpoint_every}"
        raise ValueError(f"{both} must be given together or not at all")
