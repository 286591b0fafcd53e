"""Record what the modules of a model return in one forward pass, by forward hooks.

Knows modules and their names. Knows nothing of what they compute.
"""

import difflib
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from course_utils.looking.heads import Heads, find_all_heads


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
        """Raises KeyError with similar names; without one if nothing was recorded."""
        advice = "nothing was recorded: run the model inside the `with` block"
        if self:
            similar = difflib.get_close_matches(str(name), self, n=2, cutoff=0)
            advice = f"did you mean {' or '.join(repr(one) for one in similar)}?"
        raise KeyError(f"no module {name!r} ran while recording; {advice}")


@contextmanager
def record(model: nn.Module) -> Iterator[Recording]:
    """Record what every module of `model` returns inside the `with` block.

    Attention layers compute step by step meanwhile, so that scores and weights appear
    as `<layer>.attend.scores` and `<layer>.attend.weights`; outputs and gradients equal
    those of the fused kernel. Layers of `transformers` show their context "b h q d" as
    `<layer>.attend`, as ours do, where `heads` finds it. Afterwards the model is as
    before, even after an error.

        with record(model) as seen:
            logits = model(ids)
        seen.weights()["blocks.0.attention"]          # "b h q k"
    """
    seen = Recording()
    handles = []
    switched = []
    try:
        for name, module in model.named_modules():
            if getattr(module, "explicit", None) is False:
                module.explicit = True
                switched.append(module)
            handles.append(module.register_forward_hook(_keep(seen, name)))
        for name, heads in find_all_heads(model).items():
            keep = _keep_context(seen, name, heads)
            handles.append(heads.projection.register_forward_pre_hook(keep))
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


def _keep_context(seen: Recording, layer: str, heads: Heads):
    name = f"{layer}.attend".removeprefix(".")

    def hook(projection, given):
        if given and heads.fit(given[0]):
            seen[name] = heads.split(given[0])

    return hook
