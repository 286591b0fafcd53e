"""Call a learner's function on copies of its arguments, and keep the process unchanged.

Knows functions, their source and the global state of Python, NumPy and PyTorch. Knows
nothing of exercises, and judges no result.
"""

import contextlib
import copy
import dis
import inspect
import io
import linecache
import os
import random
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._tensor_str import PRINT_OPTS

from named_mistakes.describing import altered
from named_mistakes.limit import call_within

# What the byte code of a function consists of that only returns a constant.
IDLE = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP"}
CPU = torch.device("cpu")
SETTINGS: tuple[tuple[Callable, Callable], ...] = (  # how to read and write them
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (np.get_printoptions, lambda options: np.set_printoptions(**options)),
)


@dataclass(frozen=True)
class Outcome:
    """The result or error of one call, what it printed, and its arguments after it.

    value: a copy of the result, so that a later call cannot change it.
    """

    value: Any = None
    error: BaseException | None = None
    printed: str = ""
    given: tuple = ()

    def changed(self, before: tuple, names: tuple[str, ...]) -> set[str]:
        """The names of the arguments that were changed in place."""
        triples = zip(names, before, self.given, strict=True)
        return {name for name, old, new in triples if altered(old, new)}


def _snapshot(value):
    """A copy of what a later call could change; anything else as it is.

    A copied tensor has the layout of the old one, and no graph.
    """
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (tuple, list):
        return type(value)(map(_snapshot, value))
    return _copies(value) if isinstance(value, Mapping | np.ndarray) else value


def _copies(arguments):
    """Deep copies; arguments that cannot be copied (an iterator) as they are."""
    try:
        return copy.deepcopy(arguments)
    except Exception:
        return arguments


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Run the block on the CPU, with gradients on and all random states fixed.

    Afterwards the process is as before: the random states of Python, NumPy and PyTorch
    (CPU), the default type and the default device, the grad mode, the inference mode,
    PyTorch's threads and determinism, NumPy's warnings, how numbers are printed, the
    environment, the folder and where modules are looked for.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    torch_state = torch.get_rng_state()
    settings = [read() for read, _ in SETTINGS]
    device = torch.get_default_device()
    environment, printing = dict(os.environ), copy.copy(PRINT_OPTS)
    folder, path = os.getcwd(), list(sys.path)
    if device != CPU:
        torch.set_default_device(CPU)
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # far cheaper than torch.manual_seed
    try:
        with torch.inference_mode(False), torch.enable_grad(), np.errstate():
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
        for (read, write), value in zip(SETTINGS, settings, strict=True):
            if read() != value:
                write(value)
        vars(PRINT_OPTS).update(vars(printing))
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        os.chdir(folder)
        sys.path[:] = path
        _restore_device(device)


def _restore_device(device):
    """Make this the default device, unless a `with torch.device(...)` does so."""
    if torch.get_default_device() == device == CPU:
        return
    torch.set_default_device(None)
    if torch.get_default_device() != device:
        torch.set_default_device(device)


def run(function: Callable, arguments: tuple, seconds: float = 60.0) -> Outcome:
    """Call a function on copies of the arguments, `isolated`, and return the outcome.

    What it prints is kept in the outcome, its warnings are dropped, and an exception is
    part of the outcome. After `seconds` of computing it is stopped with TimeIsUp.

    Raises KeyboardInterrupt, which is the reader's Stop button.
    """
    given = _copies(arguments)
    printed = io.StringIO()
    value = None
    error = None
    with (
        isolated(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            value = _snapshot(call_within(seconds, function, *given))
        except KeyboardInterrupt:
            raise
        except BaseException as caught:
            error = caught
    return Outcome(value, error, printed.getvalue(), given)


def home(function: Callable) -> Any:
    """The code object of the learner's function, or None for a built-in."""
    function = inspect.unwrap(getattr(function, "func", function))
    for part in (function, getattr(type(function), "forward", None)):
        if code := getattr(part, "__code__", None):
            return code
    return None


def is_stub(function: Callable) -> bool:
    """Whether a function holds only a docstring, `pass`, `...` or `return None`."""
    code = home(function)
    if code is None:
        return False
    steps = list(dis.get_instructions(code))
    values = {step.argval for step in steps if step.opname.endswith("CONST")}
    return {step.opname for step in steps} <= IDLE and values <= {None, ...}


def own_line(function: Callable, error: BaseException) -> str:
    """The learner's line that raised the error: "line 3: …", or an empty string."""
    code = home(function)
    line = ""
    step = error.__traceback__
    while code and step:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            text = linecache.getline(code.co_filename, step.tb_lineno).strip()
            line = f"line {step.tb_lineno}: {text}"
        step = step.tb_next
    return line


def gradients(
    function: Callable, arguments: tuple, seconds: float, places: Collection[int]
) -> dict[tuple, Tensor] | None:
    """Of the result, {where an input stands: its gradient}.

    places: of the arguments whose floating-point tensors count, also in lists and
    dicts: (0,) is the first argument, (1, "E") the entry "E" of the second.
    The entries of the result are added with different weights, or the gradient of
    shares that sum to 1 would be 0. None if no gradient passes through, or the call
    stops.
    """

    def derived(*given):
        leaves = {p: x for p, x in _floating(given, ()) if p[0] in places}
        for leaf in leaves.values():
            leaf.requires_grad_()
        total = sum(
            (part * torch.linspace(1, 2, part.numel()).view(part.shape)).sum()
            for _, part in _floating((function(*given),), ())
            if part.requires_grad
        )
        found = torch.autograd.grad(total, leaves.values(), materialize_grads=True)
        return dict(zip(leaves, found, strict=True))

    return run(derived, arguments, seconds).value


def _floating(value, place):
    """(where it stands, tensor) of each floating-point tensor inside a value."""
    if isinstance(value, Tensor) and value.is_floating_point():
        yield place, value
    if isinstance(value, tuple | list | Mapping):
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in pairs:
            yield from _floating(part, (*place, key))
