"""Black-box checks of a model: change an input, see which outputs change.

Each takes the model, or one module of it, as a callable and returns True (or a list of
names) if it has the fault. A check that could not have found its fault raises
ValueError instead. Outputs count as changed when they differ by more than rounding:
1e-5 at least, times the largest of them if that is above 1.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.checks import check_ids, check_integer

Logits = Callable[[Tensor], Tensor]
Loss = Callable[[], Float[Tensor, ""]]
OfTwo = Callable[[Tensor, Tensor], Tensor]


def _resampled_ids(ids: Tensor, vocab_size: int, keep: Tensor) -> Tensor:
    """Another id everywhere but where `keep` is True; id 0 is never drawn."""
    rng = torch.Generator().manual_seed(0)
    shift = torch.randint(1, vocab_size - 1, ids.shape, generator=rng).to(ids.device)
    return torch.where(keep, ids, 1 + (ids - 1 + shift) % (vocab_size - 1))


def _differ(before: Tensor, after: Tensor, tolerance: float = 1e-5) -> bool:
    """Do they differ by more than rounding? What turned into NaN has changed."""
    tolerance = max(tolerance, 4 * torch.finfo(before.dtype).eps)
    scale = max(1.0, before.abs().max().item())
    return not bool((before - after).abs().max() <= tolerance * scale)


def _checked_output(outputs: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """What `outputs` returns, one floating-point vector per entry of the last input."""
    output = outputs(*inputs)
    leading = inputs[-1].shape
    if output.shape[:-1] != leading:
        expected, shape = ", ".join(map(str, leading)), tuple(output.shape)
        raise ValueError(f"the model must return ({expected}, width), got {shape}")
    return output


def _deterministic_output(outputs: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """What `outputs` returns, after a second call gave the same finite numbers."""
    output = outputs(*inputs)
    if not output.isfinite().all():
        raise ValueError("the model must return finite numbers, got NaN or infinity")
    if _differ(output, outputs(*inputs)):
        raise ValueError("equal inputs give other numbers: call model.eval() first")
    return output


@torch.no_grad()
def changes_when_repeated(outputs: Callable[..., Tensor], *inputs: Tensor) -> bool:
    """Do two calls with equal inputs differ? In eval mode they must not."""
    return _differ(outputs(*inputs), outputs(*inputs))


@torch.no_grad()
def leaks_future(logits: Logits, ids: Int64[Tensor, "b t"], vocab_size: int) -> bool:
    """Does a logit "b t v" change when only *later* tokens change? It must not."""
    check_ids(ids, vocab_size)
    check_integer(3, vocab_size=vocab_size)  # id 0 is never drawn
    if ids.shape[1] < 2:
        raise ValueError(f"ids must have at least 2 positions, got {ids.shape[1]}")
    before = _deterministic_output(logits, ids)
    positions = torch.arange(ids.shape[1], device=ids.device)
    for cut in range(1, ids.shape[1]):
        changed = _resampled_ids(ids, vocab_size, (positions < cut).expand_as(ids))
        if _differ(before[:, :cut], _checked_output(logits, changed)[:, :cut]):
            return True
    return False


@torch.no_grad()
def sees_padding(outputs: Logits, ids: Int64[Tensor, "b t"], pad_id: int) -> bool:
    """Does an output "b t m" at a real token change when padding is appended?"""
    if (ids == pad_id).any():
        raise ValueError(f"ids must not hold pad_id={pad_id} yet: it is appended here")
    padded = torch.cat([ids, torch.full_like(ids[:, :1], pad_id).expand(-1, 3)], dim=1)
    before = _deterministic_output(outputs, ids)
    return _differ(before, _checked_output(outputs, padded)[:, : ids.shape[1]])


@torch.no_grad()
def ignores_source(
    logits: Callable[[Tensor, Tensor], Tensor],
    source: Int64[Tensor, "b s"],
    target: Int64[Tensor, "b t"],
    vocab_size: int,
) -> bool:
    """Do the logits stay the same whatever the source says? A translator's must not.

    logits: (source, target) -> "b t v"; vocab_size: of the source.
    """
    check_ids(source, vocab_size, "source")
    check_integer(3, vocab_size=vocab_size)  # id 0 is never drawn
    changed = _resampled_ids(source, vocab_size, torch.zeros_like(source).bool())
    before = _deterministic_output(logits, source, target)
    return not _differ(before, _checked_output(logits, changed, target))


@torch.no_grad()
def order_blind(outputs: Logits, ids: Int64[Tensor, "b t"]) -> bool:
    """Does the last output of "b t m" stay when all tokens before it are reversed?

    Under a causal mask two or more layers betray some order even without positions.
    """
    reordered = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    if torch.equal(ids, reordered):
        raise ValueError("ids must read differently in reverse, the last one aside")
    before = _deterministic_output(outputs, ids)
    return not _differ(before[:, -1], _checked_output(outputs, reordered)[:, -1])


@torch.no_grad()
def mixes_rows(outputs: Logits, rows: Tensor) -> bool:
    """Does the output of a row "b ..." depend on the rest of the batch? It must not."""
    if rows.ndim == 0 or len(rows) < 2 or (rows == rows[:1]).all():
        raise ValueError("rows must be at least two different ones")
    batched = _deterministic_output(outputs, rows)
    return _differ(batched, torch.cat([outputs(row) for row in rows.split(1)]))


@torch.no_grad()
def cache_disagrees(model: Any, ids: Int64[Tensor, "b t"]) -> bool:
    """Do logits change when half of the ids come first and the rest one by one?

    The model offers new_cache() and model(ids, cache=cache) -> logits "b t v".
    """
    if ids.shape[1] < 2:
        raise ValueError(f"ids must have at least 2 positions, got {ids.shape[1]}")
    expected = _deterministic_output(model, ids)
    half = ids.shape[1] // 2
    cache = model.new_cache()
    chunks = [ids[:, :half], *ids[:, half:].split(1, dim=1)]
    stepwise = torch.cat([model(chunk, cache=cache) for chunk in chunks], dim=1)
    return _differ(expected, stepwise)


@torch.no_grad()
def forgets_when_saved(build: Callable[[], nn.Module], ids: Tensor) -> bool:
    """Does a new model with the state of another give other outputs?

    build: makes a fresh model with random weights.
    """
    saved, loaded = build(), build()
    if saved is loaded:
        raise ValueError("build must make a new model at each call")
    expected = _deterministic_output(saved.eval(), ids)
    if not _differ(expected, loaded.eval()(ids)):
        raise ValueError("build must draw new weights at each call")
    loaded.load_state_dict(saved.state_dict())
    return _differ(expected, loaded(ids))


def misjudges(
    loss: OfTwo, labels: Int64[Tensor, "b t"], pad_label: int, vocab_size: int
) -> bool:
    """Is the loss not 0 for sure and right logits, or not ln V for logits of zeros?

    loss: (logits "b t v", labels "b t") -> nats per label. Logits at a column of
    pad_label, which is appended, must not count; nor is there label smoothing.
    """
    check_ids(labels[labels != pad_label][None], vocab_size, "labels to count")
    labels = F.pad(labels, (0, 1), value=pad_label)
    right = labels.where(labels != pad_label, (pad_label + 1) % vocab_size)
    sure = 50 * F.one_hot(right, vocab_size).to(torch.get_default_dtype())
    actual = torch.stack([loss(logits, labels) for logits in (sure, 0 * sure)])
    return _differ(actual, actual.new_tensor([0.0, math.log(vocab_size)]), 1e-3)


def hides_end(labels: Int64[Tensor, "b t"], eos_id: int) -> bool:
    """Is there a text without eos_id in its labels? No model learns to stop from it."""
    return not (labels == eos_id).any(dim=1).all().item()


def repeats_embedding(blocks: Iterable[nn.Module], run: Callable[[], object]) -> bool:
    """Does a later block read once more what the first one read?

    run: one forward pass through the blocks, two at least.
    """
    blocks = list(blocks)
    inputs: list[Tensor] = []

    def hook(block, args):
        inputs.append(args[0])

    handles = [block.register_forward_pre_hook(hook) for block in blocks]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    if len(blocks) < 2 or len(inputs) < 2:
        count = f"{len(inputs)} of {len(blocks)}"
        raise ValueError(f"run must pass through two blocks, it passed through {count}")
    return any(torch.equal(inputs[0], later) for later in inputs[1:])


def _gradients(model: nn.Module, loss: Loss) -> dict[str, Tensor]:
    """Name of a trainable parameter -> its gradient, zeros where the loss has none."""
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trainable:
        raise ValueError("model has no trainable parameter")
    with torch.enable_grad():
        value = loss()
    weights = list(trainable.values())
    gradients = torch.autograd.grad(value, weights, materialize_grads=True)
    return dict(zip(trainable, gradients, strict=True))


def dead_parameters(model: nn.Module, loss: Loss) -> list[str]:
    """Names of the trainable parameters that the loss does not depend on.

    loss: computes a fresh loss of the model. Frozen parameters are left out.
    """
    return [name for name, g in _gradients(model, loss).items() if not g.any()]


def nan_gradients(model: nn.Module, loss: Loss) -> list[str]:
    """Names of the trainable parameters whose gradient holds NaN or infinity."""
    gradients = _gradients(model, loss).items()
    return [name for name, gradient in gradients if not gradient.isfinite().all()]
