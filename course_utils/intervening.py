"""Change what the modules of a model return, in the forward pass that happens.

Knows modules and their names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from course_utils.checks import check_same, check_type, describe, did_you_mean
from course_utils.recording import explicit

Change = Callable[[Tensor], Tensor]
Indices = int | Iterable[int] | None


@contextmanager
def intervene(model: nn.Module, changes: Mapping[str, Change]) -> Iterator[None]:
    """Inside the `with` block, modules of `model` return what `changes` makes of it.

    changes: name of a module, as `record` shows it -> a function that takes what the
    module returned (a copy) and gives a tensor of the same shape, type and device.

        with intervene(model, {"blocks.2.attention.attend": zero_ablation(heads=3)}):
            logits = model(ids)

    Names that are changed most: `<block>`, the residual stream "b t m" after a block;
    `<layer>.attend`, the context "b h q d" of an attention layer of this package;
    `<layer>.attend.scores`, "b h q k", scaled, before the mask and the softmax.

    `record` sees the values after a change. Of nested changes to one module, the inner
    one acts first. Afterwards the model is as before.
    """
    check_type(nn.Module, model=model)
    check_type(Mapping, changes=changes)
    modules = dict(model.named_modules())
    ran: set[str] = set()
    with ExitStack() as undo:
        for name, change in changes.items():
            if name not in modules:
                advice = did_you_mean(name, modules)
                raise KeyError(f"no module {name!r} in the model; {advice}")
            hook = _intervention_hook(name, change, ran)
            # Before the hooks of `record`, which see what it was changed to.
            handle = modules[name].register_forward_hook(hook, prepend=True)
            undo.callback(handle.remove)
            parent = modules.get(name.rpartition(".")[0])
            undo.enter_context(explicit(parent))
        yield
    for name in changes:
        if name not in ran:
            raise KeyError(f"no module {name!r} ran inside the block of intervene")


def _intervention_hook(name: str, change: Change, ran: set[str]) -> Callable:
    """A forward hook that changes a copy of the output and records that it ran."""
    what = f"changes[{name!r}]"

    def hook(module: nn.Module, inputs: object, value: object) -> Tensor:
        ran.add(name)
        if not isinstance(value, Tensor):
            returned = describe(value)
            raise TypeError(f"{what}: the module must return a tensor, got {returned}")
        changed = change(value.clone())
        if not isinstance(changed, Tensor):
            raise TypeError(f"{what} must return a tensor, got {describe(changed)}")
        before, after = ((tuple(x.shape), x.dtype, x.device) for x in (value, changed))
        check_same(f"{what}: what it is given and returns", before, after)
        return changed

    return hook


def zero_ablation(*, heads: Indices = None, positions: Indices = None) -> Change:
    """A change to zeros: of everything, or of some heads or positions, or of both.

    heads: one or several, from 0, of a value "b h q d" such as that of
    `<layer>.attend`. positions: one or several, -1 the last, of the second axis from
    the right.

    Source: Michel et al. 2019.
    """
    return _replacement(0.0, heads, positions)


def mean_ablation(
    recorded: Tensor,
    *,
    heads: Indices = None,
    positions: Indices = None,
    real: Bool[Tensor, "b t"] | None = None,
) -> Change:
    """A change to the mean of what was recorded, over its texts and their positions.

    recorded: "b … t d", such as `seen["blocks.2.attention.attend"]` of other texts.
    real: True where a token counts, by default everywhere. heads, positions: as in
    `zero_ablation`.

    Source: Wang et al. 2023, who take one mean per position.
    """
    check_type(Tensor, recorded=recorded)
    shape = recorded.shape[0], recorded.shape[-2]
    if real is None:
        real = torch.ones(shape, dtype=torch.bool, device=recorded.device)
    check_same("real and recorded: batch and length", tuple(real.shape), shape)
    if not real.any():
        raise ValueError("real must be True at a token: there is no mean over none")
    middle = [1] * (recorded.ndim - 3)
    counted = real.view(shape[0], *middle, shape[1], 1)
    total = torch.where(counted, recorded, 0).sum(dim=(0, -2), keepdim=True)
    return _replacement(total / real.sum(), heads, positions)


def activation_patch(
    recorded: Tensor, *, heads: Indices = None, positions: Indices = None
) -> Change:
    """A change to what was recorded under the same name, from another text.

    recorded: of the shape of the value, or of one text for the whole batch. heads,
    positions: as in `zero_ablation`.

    Source: Vig et al. 2020; Meng et al. 2022, section 2.1.
    """
    check_type(Tensor, recorded=recorded)
    replace = _replacement(recorded, heads, positions)

    def change(value: Tensor) -> Tensor:
        texts_fit = recorded.shape[:1] in (value.shape[:1], (1,))
        if not texts_fit or recorded.shape[1:] != value.shape[1:]:
            shapes = f"{tuple(value.shape)} as the value, got {tuple(recorded.shape)}"
            raise ValueError(f"recorded must have shape {shapes}")
        return replace(value)

    return change


def _replacement(new: Tensor | float, heads: Indices, positions: Indices) -> Change:
    """A change to `new`, in these heads at these positions; None: in all of them."""
    heads = _index_list("heads", heads)
    positions = _index_list("positions", positions)

    def change(value: Tensor) -> Tensor:
        got = f"got shape {tuple(value.shape)}"
        if heads is not None and value.ndim != 4:
            raise ValueError(f"heads need a value (batch, heads, query, width), {got}")
        if positions is not None and value.ndim < 3:
            raise ValueError(f"positions need a value (batch, ..., t, width), {got}")
        replaced = _index_mask(value, heads, 1) & _index_mask(value, positions, -2)
        return torch.where(replaced, new, value)

    return change


def _index_list(name: str, indices: Indices) -> list[int] | None:
    """Indices as a list; a mask of True and False would silence heads 0 and 1."""
    if indices is None:
        return None
    given: Any = indices.tolist() if isinstance(indices, Tensor) else indices
    is_single = isinstance(given, str) or not isinstance(given, Iterable)
    given = [given] if is_single else list(given)
    for index in given:
        check_type(Integral, **{name: index})
        if isinstance(index, bool):
            raise TypeError(f"{name} must be numbers, such as [0, 2], got {index}")
    return given


def _index_mask(value: Tensor, indices: list[int] | None, axis: int) -> Tensor:
    """True at these indices of an axis of the value; everywhere for None."""
    if indices is None:
        return torch.ones_like(value, dtype=torch.bool)
    size = value.shape[axis]
    if not all(-size <= index < size for index in indices):
        name = "heads" if axis == 1 else "positions"
        raise IndexError(f"{name} must be from 0 to {size - 1}, got {indices}")
    index = torch.tensor(indices, dtype=torch.int64, device=value.device)
    return torch.zeros_like(value, dtype=torch.bool).index_fill(axis, index, True)
