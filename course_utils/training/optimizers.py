"""Turn gradients into changes of the weights: groups, AdamW, Muon, the learning rate.

Knows parameters and numbers. Knows nothing of losses, batches or what a model computes.
"""

import math
from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from course_utils.checks import check_choice, check_number
from course_utils.config import TrainConfig


def learning_rate_at(step: int, config: TrainConfig) -> float:
    """The learning rate of one step, counted from 1.

    It rises linearly to config.learning_rate over warmup_steps, then falls to zero one
    step after the last ("cosine", "linear"), falls with 1 / sqrt(step), or stays. With
    learning_rate = (d_model * warmup_steps) ** -0.5, "inverse_sqrt" is equation 3 of
    Vaswani et al. 2017, section 5.3.
    """
    if not 1 <= step <= config.steps:
        raise ValueError(f"step must be from 1 to steps={config.steps}, got {step}")
    peak = config.learning_rate
    warmup = config.warmup_steps
    if step < warmup:
        return peak * step / warmup
    if config.schedule == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / step)
    done = (step - warmup) / (config.steps - warmup + 1)
    if config.schedule == "cosine":
        return peak * (1 + math.cos(math.pi * done)) / 2
    if config.schedule == "linear":
        return peak * (1 - done)
    return peak


def parameter_groups(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Sort the trainable parameters into "hidden", "output" and "plain".

    "plain" are norms, biases and tables with one row per token or position, which
    weight decay would only shrink. "hidden" are the weight matrices, known by
    `weight` in the last part of their name. "output" is the matrix of a module called
    `head` (unless tied), and weights with more than two axes, which Muon cannot take.
    """
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    embeddings = {id(weight) for table in tables for weight in table.parameters()}
    groups: dict[str, list[nn.Parameter]] = {"hidden": [], "output": [], "plain": []}
    for name, weight in model.named_parameters():
        if not weight.requires_grad:
            continue
        *modules, last = name.split(".")
        is_weight = last.startswith("weight") or "_weight" in last
        if weight.ndim < 2 or id(weight) in embeddings or not is_weight:
            groups["plain"].append(weight)
        elif "head" in modules or weight.ndim > 2:
            groups["output"].append(weight)
        else:
            groups["hidden"].append(weight)
    return groups


def build_optimizers(
    model: nn.Module, config: TrainConfig, precision: str = "float32"
) -> list[Optimizer]:
    """AdamW for everything, or Muon for the hidden matrices and AdamW for the rest.

    AdamW: Loshchilov & Hutter 2019. "plain" parameters are never decayed. Under the
    precision "bfloat16" Muon's matrix products run in bfloat16.
    """
    check_choice("precision", precision, ("float32", "bfloat16", "float64"))
    groups = parameter_groups(model)
    muon = config.optimizer == "muon"
    decayed = groups["output"] + ([] if muon else groups["hidden"])
    decays = ((decayed, config.weight_decay), (groups["plain"], 0.0))
    adamw = [{"params": p, "weight_decay": decay} for p, decay in decays if p]
    optimizers: list[Optimizer] = []
    if adamw:
        optimizers.append(AdamW(adamw, lr=config.learning_rate, betas=(0.9, 0.95)))
    if muon and groups["hidden"]:
        dtype = torch.bfloat16 if precision == "bfloat16" else None
        optimizers.append(
            Muon(groups["hidden"], config.weight_decay, config.momentum, dtype)
        )
    return optimizers


def set_learning_rate(optimizers: Iterable[Optimizer], rate: float) -> None:
    """Give every parameter group the learning rate of the coming step."""
    check_number("[0, inf)", rate=rate)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate


class Muon(Optimizer):
    """Momentum whose every step is made orthogonal (Jordan et al. 2024).

    A step is scaled to the size of a step of AdamW (Liu et al. 2025, section 2.2), so
    both share one learning rate. `torch.optim.Muon` always works in bfloat16, slow on a
    CPU without it; this one in `dtype`, or in that of the weights.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        dtype: torch.dtype | None = None,
    ):
        check_number("[0, 1)", momentum=momentum)
        check_number("[0, inf)", weight_decay=weight_decay)
        defaults = {"lr": 1e-3, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, defaults)
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Change every weight that has a gradient."""
        for group in self.param_groups:
            for weights in _by_shape(group["params"]):
                self._update(weights, group)

    def _update(self, weights: list[nn.Parameter], group: dict) -> None:
        """Change weights of one shape; stacked, their products run together."""
        momentum = group["momentum"]
        stack = torch.stack([self._nesterov(weight, momentum) for weight in weights])
        updates = orthogonalize(stack.to(self.dtype or stack.dtype)).to(stack.dtype)
        size = 0.2 * math.sqrt(max(stack.shape[1:]))
        for weight, update in zip(weights, updates, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(update, alpha=-group["lr"] * size)

    def _nesterov(self, weight: nn.Parameter, momentum: float) -> Tensor:
        """The average of the gradients, as it will be one step later (Nesterov)."""
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        average = state["momentum"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(average, momentum)


def _by_shape(weights: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """The weights that have a gradient, those of one shape together."""
    groups: dict[torch.Size, list[nn.Parameter]] = {}
    for weight in weights:
        if weight.grad is not None:
            groups.setdefault(weight.shape, []).append(weight)
    return list(groups.values())


def orthogonalize(
    matrix: Float[Tensor, "*batch rows columns"], steps: int = 5
) -> Float[Tensor, "*batch rows columns"]:
    """Push all singular values of each matrix towards 1, roughly (into 0.7 … 1.2).

    A Newton-Schulz iteration with the coefficients of Jordan et al. 2024.
    """
    # A step makes x into a x + (b square + c square²) x, with square = x xᵀ.
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrix.shape[-2] > matrix.shape[-1]
    wide = matrix.mT if tall else matrix
    x = wide.reshape(-1, *wide.shape[-2:])
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        square = x @ x.mT
        factor = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, factor, x, beta=a)
    x = x.reshape(wide.shape)
    return x.mT if tall else x
