"""Questions to any model, answered by its behavior: by what moves when you touch.

Each takes the model, or one part of it, as a callable and says yes (the fault is there:
True, or a list of names) or no. Knows nothing of how the model is built.
"""

import math
from collections.abc import Callable, Iterable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from course_utils.shapes import check_ids, check_whole

Logits = Callable[[Tensor], Tensor]
Loss = Callable[[], Float[Tensor, ""]]
OfTwo = Callable[[Tensor, Tensor], Tensor]


def _other_ids(ids: Tensor, vocab_size: int, keep: Tensor) -> Tensor:
    """Another id everywhere but where `keep` is True; id 0 is never drawn."""
    check_whole(3, vocab_size=vocab_size)  # for another id to try
    draw = torch.Generator().manual_seed(0)
    shift = torch.randint(1, vocab_size - 1, ids.shape, generator=draw).to(ids.device)
    return torch.where(keep, ids, 1 + (ids - 1 + shift) % (vocab_size - 1))


def _moves(before: Tensor, after: Tensor, tolerance: float = 1e-5) -> bool:
    """NaN counts as a move: nothing that turned into it has stayed the same."""
    return not bool((before - after).abs().max() <= tolerance)


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


@torch.no_grad()
def order_blind(outputs: Logits, ids: Int64[Tensor, "b t"]) -> bool:
    """Does the last output stay when all tokens before the last are put in reverse?

    outputs: ids "b t" -> "b t ...". Raises ValueError if reversing changes nothing.
    Under a causal mask two or more layers betray some order even without positions.
    """
    other = torch.cat([ids[:, :-1].flip(1), ids[:, -1:]], dim=1)
    if torch.equal(ids, other):
        raise ValueError("ids must read differently when reversed, they do not")
    return not _moves(outputs(ids)[:, -1], outputs(other)[:, -1])


@torch.no_grad()
def mixes_rows(outputs: Logits, rows: Tensor) -> bool:
    """Does the output of a row depend on its company? Alone it must be the same.

    outputs: rows "b ..." -> "b ...". What is drawn at random differs, too.
    """
    return _moves(outputs(rows), torch.cat([outputs(row) for row in rows.split(1)]))


@torch.no_grad()
def collapses(states: Logits, ids: Int64[Tensor, "b t"]) -> bool:
    """Do the vectors at all positions point the same way (all cosines above 0.99)?

    states: ids "b t" -> "b t m".
    """
    directions = F.normalize(states(ids), dim=-1)
    return (directions @ directions.mT).min().item() > 0.99


@torch.no_grad()
def cache_disagrees(model: nn.Module, ids: Int64[Tensor, "b t"]) -> bool:
    """Do logits change when half of the ids come first and the rest one by one?

    The model offers new_cache() and model(ids, cache=cache) -> logits "b t v".
    """
    half, cache = ids.shape[1] // 2, model.new_cache()
    parts = ids[:, :half], *ids[:, half:].split(1, dim=1)
    stepwise = torch.cat([model(part, cache=cache) for part in parts], dim=1)
    return _moves(model(ids), stepwise)


@torch.no_grad()
def forgets_when_saved(build: Callable[[], nn.Module], ids: Tensor) -> bool:
    """Does a new model with the state of another answer otherwise?

    build: makes a fresh, randomly born model. What no checkpoint keeps, no optimizer
    trains either: parameters that the model does not list.
    """
    one, other = build().eval(), build().eval()
    other.load_state_dict(one.state_dict())
    return _moves(one(ids), other(ids))


def misscaled(scores: OfTwo) -> bool:
    """Is the spread of the scores far from 1 for queries and keys of spread 1?

    scores: (queries, keys), both "b h t d" -> "b h q k", tried with 4 heads of width
    32. Source: Vaswani et al. 2017, section 3.2.1.
    """
    draw = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(2, 2, 4, 24, 32, generator=draw)
    return not 0.8 < scores(queries, keys).std().item() < 1.25


def misjudges(loss: OfTwo, labels: Tensor, pad_label: int, vocab_size: int) -> bool:
    """Is the loss not 0 for sure and right logits, or not ln V for logits of zeros?

    loss: (logits "b t v", labels "b t") -> nats per label. Logits at a pad_label are
    sure as well, and wrong: they must not count. Label smoothing rings, too.
    """
    right = labels.where(labels != pad_label, (pad_label + 1) % vocab_size)
    sure = 50 * F.one_hot(right, vocab_size).to(torch.get_default_dtype())
    found = torch.stack([loss(logits, labels) for logits in (sure, 0 * sure)])
    return _moves(found, found.new_tensor([0.0, math.log(vocab_size)]), 1e-3)


def hides_end(labels: Int64[Tensor, "b t"], eos_id: int) -> bool:
    """Is there a text whose labels never say eos_id? Nobody learns to stop from it."""
    return not (labels == eos_id).any(dim=1).all().item()


def repeats_embedding(blocks: Iterable[nn.Module], run: Callable[[], object]) -> bool:
    """Does a later block read once more what the first one read?

    run: one forward pass through the blocks.
    """
    read: list[Tensor] = []

    def keep(block, given):
        read.append(given[0])

    hooks = [block.register_forward_pre_hook(keep) for block in blocks]
    run()
    for hook in hooks:
        hook.remove()
    return any(torch.equal(read[0], later) for later in read[1:])


def _gradients(model: nn.Module, loss: Loss) -> dict[str, Tensor]:
    """Name of a parameter -> its gradient, zeros where the loss has none."""
    value = loss()
    if not value.requires_grad:
        raise ValueError("loss must depend on the model's parameters, got a constant")
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(value, parameters, materialize_grads=True)
    return dict(zip(names, gradients, strict=True))


def dead_parameters(model: nn.Module, loss: Loss) -> list[str]:
    """Names of the parameters that the loss does not depend on: no gradient, or all 0.

    loss: computes a fresh loss of the model. Gradients that the model holds are kept.
    Raises ValueError if the loss carries no gradient at all.
    """
    return [name for name, g in _gradients(model, loss).items() if not g.any()]


def nan_gradients(model: nn.Module, loss: Loss) -> list[str]:
    """Names of the parameters whose gradient holds NaN or infinity.

    loss and errors: as in `dead_parameters`.
    """
    found = _gradients(model, loss).items()
    return [name for name, gradient in found if not gradient.isfinite().all()]


def dead_heads(model: nn.Module, loss: Loss) -> list[str]:
    """Heads where it hardly matters what is asked, as "blocks.0.attention head 2".

    The gradient of their queries is below 1/10,000 of that of the layer's liveliest
    head. A layer is what holds `to_queries` and `num_heads`.
    loss and errors: as in `dead_parameters`.
    """
    dead = []
    for name, gradient in _gradients(model, loss).items():
        if name.endswith("to_queries.weight"):
            layer = name.rpartition(".to_queries")[0]
            heads = gradient.unflatten(0, (model.get_submodule(layer).num_heads, -1))
            sizes = heads.abs().amax(dim=(1, 2))
            few = (sizes <= 1e-4 * sizes.max()).nonzero().flatten()
            dead += [f"{layer} head {head}".strip() for head in few]
    return dead
