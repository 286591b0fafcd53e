"""The mean loss over batches, and a model in eval mode for the length of a block.

Is handed a module, a function from step to batch and a loss. Knows nothing of
architectures, data or text.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from course_utils.checks import check_integer
from course_utils.training import losses
from course_utils.training.losses import Batches, Loss, next_token_loss
from course_utils.training.machine import device_and_dtype


@torch.no_grad()
def mean_loss(
    model: nn.Module,
    batches: Batches,
    count: int | None = None,
    loss: Loss = next_token_loss,
) -> float:
    """Mean loss per counted label over every row once, without smoothing.

    count: only the first so many batches, in the order in which training sees them. In
    eval mode and without gradients; afterwards every module is as it was.
    """
    if count is not None:
        check_integer(1, count=count)
        chosen = map(batches, range(count))
    elif isinstance(batches, Iterable):
        chosen = batches
    else:
        rows = "rows to go over once, as packed_batches(...) has"
        raise TypeError(f"batches must have {rows}, or count must be given")
    device, dtype = device_and_dtype(model)
    total = 0.0
    counted = 0
    with evaluating(model):
        for step, batch in enumerate(chosen):
            labels = losses.count_labels(batch, step)
            value = loss(model, losses.to_device(batch, device, dtype), 0.0)
            total += value.item() * labels
            counted += labels
    if not counted:
        raise ValueError("batches must hold at least one label that counts")
    return total / counted


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the length of the block; then each module as it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
