"""Call what a learner wrote, safely and quietly. Judges nothing."""

import contextlib
import copy
import dis
import inspect
import io
import linecache
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_utils.exercises.describing import altered
from course_utils.exercises.limit import call_within

IDLE = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "POP_TOP"}


@dataclass(frozen=True)
class Outcome:
    """What one call gave and said, and the arguments as it left them."""

    value: Any = None
    error: BaseException | None = None
    printed: str = ""
    given: tuple = ()

    def changed(self, before: tuple, names: tuple[str, ...]) -> set[str]:
        """The names of the arguments that it wrote into."""
        triples = zip(names, before, self.given, strict=True)
        return {name for name, old, new in triples if altered(old, new)}

    def shared(self, names: tuple[str, ...]) -> set[str]:
        """The names of the arguments whose memory the result shares."""
        pairs = zip(names, self.given, strict=True)
        return {name for name, new in pairs if _share(self.value, new)}


def _share(value, argument):
    tensors = value if isinstance(value, tuple | list) else [value]
    if not isinstance(argument, Tensor):
        return False
    place = argument.untyped_storage().data_ptr()
    return any(
        isinstance(part, Tensor)
        and part.device == argument.device
        and part.untyped_storage().data_ptr() == place
        for part in tensors
    )


def _copies(arguments):
    """Copies of what can be copied; an open file or an iterator goes as it is."""
    try:
        return copy.deepcopy(arguments)
    except Exception:
        return arguments


def run(
    function: Callable, arguments: tuple, seconds: float | int | None = None
) -> Outcome:
    """Call with copies; nothing printed, warned or drawn at random gets out.

    After these seconds of computing it is stopped with TimeIsUp.
    """
    given = _copies(arguments)
    heard, value, error = io.StringIO(), None, None
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(contextlib.redirect_stdout(heard))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)  # far cheaper than torch.manual_seed
        try:
            if seconds is None:
                value = function(*given)
            else:
                value = call_within(seconds, function, *given)
        except KeyboardInterrupt:
            raise  # the reader's Stop button
        except BaseException as caught:
            error = caught
    return Outcome(value, error, heard.getvalue(), given)


def home(function: Callable) -> Any:
    """The code in which the learner wrote, or None for built-ins."""
    function = inspect.unwrap(getattr(function, "func", function))
    for part in (function, getattr(type(function), "forward", None)):
        if hasattr(part, "__code__"):
            return part.__code__
    return None


def is_stub(function: Callable) -> bool:
    """Only a docstring, `pass`, `...` or `return None`."""
    code = home(function)
    if code is None:
        return False
    steps = list(dis.get_instructions(code))
    values = {step.argval for step in steps if step.opname.endswith("CONST")}
    idle = {step.opname for step in steps} <= IDLE
    return idle and values - {code.co_consts[0]} <= {None, ...}


def own_line(function: Callable, error: BaseException) -> str:
    """The learner's line where it stopped: "line 3: …", or nothing."""
    code, found = home(function), ""
    step = error.__traceback__
    while code and step:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            text = linecache.getline(code.co_filename, step.tb_lineno).strip()
            found = f"line {step.tb_lineno}: {text}"
        step = step.tb_next
    return found
