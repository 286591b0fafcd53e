"""Record what the modules of a model return in one forward pass, by forward hooks.

Knows modules and their names.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from course_utils.checks import check_type, did_you_mean


@contextmanager
def explicit(module: nn.Module | None) -> Iterator[None]:
    """An attention layer computes step by step while one block or several last."""
    layer: Any = module if hasattr(module, "explicit") else None
    if layer is not None:
        layer.explicit += 1
    try:
        yield
    finally:
        if layer is not None:
            layer.explicit -= 1


class Named(dict):
    """A dictionary of what modules returned, that knows similar names."""

    def __missing__(self, name: str):
        advice = "nothing was recorded: run the model inside the `with` block"
        if self:
            advice = did_you_mean(name, self)
        raise KeyError(f"no module {name!r} ran while recording; {advice}")


class Recording(Named):
    """Name of a module -> what it returned, in the order of the forward pass.

    A module that ran several times keeps its last output.
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        check_type(nn.Module, model=model)
        self._model = model
        self._undo = ExitStack()

    def __enter__(self) -> "Recording":
        for name, module in self._model.named_modules():
            self._undo.enter_context(explicit(module))
            hook = module.register_forward_hook(_recording_hook(self, name))
            self._undo.callback(hook.remove)
        return self

    def __exit__(self, *error) -> None:
        self._undo.close()

    def weights(self) -> Named:
        """Attention weights "b h q k", by the name of their attention layer."""
        ending = "attend.weights"
        return Named(
            (name.removesuffix(ending).removesuffix("."), value)
            for name, value in self.items()
            if name == ending or name.endswith(f".{ending}")
        )


def record(model: nn.Module) -> Recording:
    """Record what every module of `model` returns inside the `with` block.

    Attention layers compute step by step meanwhile, so that scores and weights appear
    as `<layer>.attend.scores` and `<layer>.attend.weights`.

        with record(model) as seen:
            logits = model(ids)
        seen.weights()["blocks.0.attention"]          # "b h q k"
    """
    return Recording(model)


def _recording_hook(seen: Recording, name: str):
    def hook(module, inputs, output):
        if isinstance(output, Tensor):
            seen[name] = output

    return hook
