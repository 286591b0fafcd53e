"""Questions to any model, answered by its behavior: by what moves when you touch.

Each takes the model as a callable and says yes (True: the fault is there) or no.
Knows nothing of how the model is built.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils.shapes import check_ids, check_whole

Logits = Callable[[Tensor], Tensor]


def _other_ids(ids: Tensor, vocab_size: int, keep: Tensor) -> Tensor:
    """Another id everywhere but where `keep` is True; id 0 is never drawn."""
    check_whole(3, vocab_size=vocab_size)  # for another id to try
    draw = torch.Generator().manual_seed(0)
    shift = torch.randint(1, vocab_size - 1, ids.shape, generator=draw).to(ids.device)
    return torch.where(keep, ids, 1 + (ids - 1 + shift) % (vocab_size - 1))


def _moves(before: Tensor, after: Tensor, tolerance: float) -> bool:
    return bool((before - after).abs().max() > tolerance)


@torch.no_grad()
def leaks_future(
    logits: Logits, ids: Int64[Tensor, "b t"], vocab_size: int, tolerance: float = 1e-5
) -> bool:
    """Does a logit change when only *later* tokens change? A decoder's must not.

    logits: ids "b t" -> "b t v". Every cut between two positions is tried, with the
    model as it is: call model.eval() first, or dropout will look like a leak.

    Raises TypeError or ValueError for ids outside the vocabulary, and ValueError for
    fewer than two positions.
    """
    check_ids(ids, vocab_size)
    if ids.shape[1] < 2:
        raise ValueError(f"ids must have at least 2 positions, got {ids.shape[1]}")
    before = logits(ids)
    positions = torch.arange(ids.shape[1], device=ids.device)
    for cut in range(1, ids.shape[1]):
        changed = _other_ids(ids, vocab_size, (positions < cut).expand_as(ids))
        if _moves(before[:, :cut], logits(changed)[:, :cut], tolerance):
            return True
    return False


@torch.no_grad()
def sees_padding(
    outputs: Logits, ids: Int64[Tensor, "b t"], pad_id: int, tolerance: float = 1e-5
) -> bool:
    """Does an output at a real token change when three paddings are appended?

    outputs: ids "b t" -> "b t ..."; ids without padding. Raises ValueError if ids
    hold pad_id already.
    """
    if (ids == pad_id).any():
        raise ValueError(f"ids must not hold pad_id={pad_id} yet: it is added here")
    padded = torch.cat([ids, torch.full_like(ids[:, :1], pad_id).expand(-1, 3)], dim=1)
    return _moves(outputs(ids), outputs(padded)[:, : ids.shape[1]], tolerance)


@torch.no_grad()
def ignores_source(
    logits: Callable[[Tensor, Tensor], Tensor],
    source: Int64[Tensor, "b s"],
    target: Int64[Tensor, "b t"],
    vocab_size: int,
    tolerance: float = 1e-5,
) -> bool:
    """Do the logits stay the same whatever the source says? A translator's must not.

    logits: (source, target) -> "b t v"; vocab_size: of the source.
    """
    check_ids(source, vocab_size, "source")
    keep = torch.zeros_like(source, dtype=torch.bool)
    other = _other_ids(source, vocab_size, keep)
    return not _moves(logits(source, target), logits(other, target), tolerance)


def dead_parameters(
    model: nn.Module, loss: Callable[[], Float[Tensor, ""]]
) -> list[str]:
    """Names of the parameters that the loss does not depend on: no gradient, or all 0.

    loss: computes a fresh loss of the model. Gradients that the model holds are kept.
    Raises ValueError if the loss carries no gradient at all.
    """
    value = loss()
    if not value.requires_grad:
        raise ValueError("loss must depend on the model's parameters, got a constant")
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(value, parameters, allow_unused=True)
    alive = [gradient is not None and gradient.any() for gradient in gradients]
    return [name for name, lives in zip(names, alive, strict=True) if not lives]
