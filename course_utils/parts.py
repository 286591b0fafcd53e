"""Your own functions at work: `mine["llama.rms_norm"]` is yours, or the course's.

Knows the list of parts and what `check` has kept. Knows no model.
"""

import time
import warnings
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from course_utils.checks import check_choice
from named_mistakes.banks import exercises, parts
from named_mistakes.keeping import kept

AT_MOST = 2.0  # times as long as with the course's part may a step take
PAIRS = 9  # of steps that are timed, one after the other
HOPELESS = 20.0  # times as long: a single step tells


class Parts:
    """The functions that `parts.toml` lists: yours where one is kept.

    only_writes: {name: why}, parts of yours that are too slow or too inexact to train,
    as `try_out` found. They are used where no gradient is wanted.
    """

    def __init__(self):
        self.only_writes: dict[str, str] = {}
        self._alone: str | None = None  # the only part of yours in use; "": none

    def __getitem__(self, name: str) -> Callable:
        """The function. Raises ValueError for a name that is no part."""
        check_choice("part", name, tuple(parts()))
        yours, why = kept(exercises()[name])
        if why:
            warnings.warn(why, stacklevel=2)
        rests = name in self.only_writes and torch.is_grad_enabled()
        if yours is None or rests or self._alone not in (None, name):
            return exercises()[name].reference
        return yours

    def __str__(self) -> str:
        return f"{len(self.yours())} of {len(parts())} parts are yours"

    def yours(self) -> list[str]:
        """The names of your parts, in the order of the list."""
        return [name for name in parts() if kept(exercises()[name])[0] is not None]

    def try_out(
        self, model: nn.Module, loss_of: Callable[[nn.Module], Tensor]
    ) -> dict[str, str]:
        """Try each of your parts alone; return {name: "trains", or why it only writes}.

        loss_of: calls the model, which uses `mine`, on one small window. A part trains
        if the loss and all gradients are those of the course's part up to rounding,
        and a step computes at most twice as long: the median of nine pairs.
        """
        weights = list(model.parameters())

        def step(name: str) -> tuple[float, list[Tensor]]:
            self._alone = name
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)  # the same dropout
                began = time.thread_time()  # other programs do not count
                loss = loss_of(model)
                found = torch.autograd.grad(
                    loss, weights, allow_unused=True, materialize_grads=True
                )
                return time.thread_time() - began, [loss.detach(), *found]

        def verdict(name: str) -> str:
            try:
                seconds, found = step(name)
            except Exception as error:
                return f"stops with {type(error).__name__} in this model"
            if not all(map(_close, found, right)):
                return "gives another loss or gradient in this model"
            times = seconds / usual
            if times < HOPELESS:
                times = median(step(name)[0] / step("")[0] for _ in range(PAIRS))
            return "trains" if times <= AT_MOST else f"{times:.1f} times slower"

        self.only_writes = {}
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # threads that wait for each other compute in vain
        try:
            step("")  # the first is slower than the others
            usual, right = step("")
            verdicts = {name: verdict(name) for name in self.yours() if parts()[name]}
        finally:
            self._alone = None
            torch.set_num_threads(threads)
        self.only_writes = {n: why for n, why in verdicts.items() if why != "trains"}
        return verdicts


def _close(mine: Tensor, right: Tensor) -> bool:
    """Equal up to the rounding of a sum in another order."""
    return bool((mine - right).abs().max() <= 1e-3 * right.abs().max() + 1e-6)


mine = Parts()
