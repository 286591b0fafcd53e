"""Look inside one forward pass. The only way in: hooks on the layers that really ran.

Knows modules and their names. Knows nothing of what they compute.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn


class Recording(dict):
    """Name of a module -> what it returned, in the order of the forward pass.

    A module that ran several times keeps its last output.
    """

    def weights(self) -> dict[str, Tensor]:
        """Attention weights "b h q k", by the name of their attention layer.

        The name is empty when the recorded model is itself the attention layer.
        """
        ending = "attend.weights"
        return {
            name.removesuffix(ending).removesuffix("."): value
            for name, value in self.items()
            if name == ending or name.endswith(f".{ending}")
        }

    def __missing__(self, name: str):
        ran = ", ".join(self) or "nothing (did the model run?)"
        raise KeyError(f"no module named {name!r} ran while recording; recorded: {ran}")


@contextmanager
def record(model: nn.Module) -> Iterator[Recording]:
    """Record what every module of `model` returns inside the `with` block.

    Attention layers compute step by step meanwhile, so that scores and weights appear
    as `<layer>.attend.scores` and `<layer>.attend.weights`; outputs and gradients equal
    those of the fused kernel. Afterwards the model is as before, also after an error.

        with record(model) as seen:
            logits = model(ids)
        seen.weights()["blocks.0.attention"]          # "b h q k"

    Raises TypeError unless `model` is an nn.Module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    seen, handles, switched = Recording(), [], []
    try:
        for name, module in model.named_modules():
            if getattr(module, "explicit", None) is False:
                module.explicit = True
                switched.append(module)
            handles.append(module.register_forward_hook(_keep(seen, name)))
        yield seen
    finally:
        for handle in handles:
            handle.remove()
        for module in switched:
            module.explicit = False


def _keep(seen: Recording, name: str):
    def hook(module, inputs, output):
        if isinstance(output, Tensor):
            seen[name] = output

    return hook
