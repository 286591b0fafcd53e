"""The mean loss over batches, and what every use of a batch has in common.

Is handed a module, a function from step to batch and a loss. Knows nothing of
architectures, data or text.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from course_utils.shapes import (
    IGNORED,
    shown,
)
from course_utils.training.losses import Batch, Loss, next_token_loss

Batches = Callable[[int], Batch]


@torch.no_grad()
def mean_loss(
    model: nn.Module, batches: Batches, count: int, loss: Loss = next_token_loss
) -> float:
    """Mean loss per counted label over the first `count` batches, without smoothing.

    Works where the model is, in eval mode and without gradients; afterwards every
    module is in the mode it was in. Raises TypeError or ValueError for an unusable
    batch or a loss that is not one number.
    """
    check_parts(model, batches, loss)
    device, dtype = device_and_dtype(model)
    total = 0.0
    counted = 0
    with evaluating(model):
        for step in range(count):
            batch, labels = counted_batch(batches(step), step)
            value = scalar(loss(model, placed(batch, device, dtype), 0.0))
            total += value.item() * labels
            counted += labels
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


def device_and_dtype(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The one device and the one floating-point type of a model's weights.

    Raises ValueError for a model without parameters, or with several of either.
    """
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


def placed(batch: Batch, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    """A batch where the model is; what is floating point in the type of its weights."""
    return [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in batch]


def scalar(loss: object) -> Tensor:
    """A loss as a tensor without axes. Raises unless it is a tensor of one number."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"loss must return a tensor, got {shown(loss)}")
    if loss.numel() != 1:
        raise ValueError(f"loss must return one number, got shape {tuple(loss.shape)}")
    return loss.reshape(())


def counted_batch(batch: object, step: int) -> tuple[Batch, int]:
    """A batch, and how many of its labels count.

    Raises unless it is a tuple of tensors with equally many rows and counted labels.
    """
    name = f"batches({step})"
    if not isinstance(batch, tuple | list):
        raise TypeError(f"{name} must return a tuple of tensors, got {shown(batch)}")
    for index, part in enumerate(batch):
        if not isinstance(part, Tensor):
            raise TypeError(
                f"{name}[{index}] must be a torch.Tensor, got {shown(part)}"
            )
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


def check_parts(model: object, batches: object, loss: object) -> None:
    """Raise TypeError unless these are a module and two functions."""
