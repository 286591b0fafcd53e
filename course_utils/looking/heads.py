"""Where the heads of an attention layer lie apart: before its output projection.

Knows modules and the names that libraries give them. Knows nothing of what they
compute.

An attention layer of this package has a module `attend`, which returns the context
"b h q d". A layer of `transformers` has none: it hands the contexts of all heads, side
by side, to its output projection. There they are found, under the same name:
`<layer>.attend`. (In BERT the layer is the module that computes, `attention.self`.)
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

PROJECTIONS = (
    "c_proj",  # GPT-2
    "o_proj",  # LLaMA, Mistral, Qwen, Gemma
    "out_proj",  # OPT, BART, CLIP
    "o",  # T5
)
COUNTS = ("num_heads", "num_attention_heads", "n_heads")
WIDTHS = ("head_dim", "attention_head_size", "head_size")


@dataclass(frozen=True)
class Heads:
    """The heads of one attention layer, as its output projection is handed them."""

    projection: nn.Module
    num_heads: int
    head_dim: int | None  # None: the layer does not say it

    def fit(self, merged: object) -> bool:
        """Whether this is "b q (h d)", with the heads that the layer says it has."""
        if not isinstance(merged, Tensor) or merged.ndim != 3:
            return False
        if self.head_dim is None:
            return merged.shape[-1] % self.num_heads == 0
        return merged.shape[-1] == self.num_heads * self.head_dim

    def split(self, merged: Float[Tensor, "b q width"]) -> Float[Tensor, "b h q d"]:
        """Each head's context by itself."""
        return rearrange(merged, "b q (h d) -> b h q d", h=self.num_heads)

    def merge(self, context: Float[Tensor, "b h q d"]) -> Float[Tensor, "b q width"]:
        """The contexts side by side again."""
        return rearrange(context, "b h q d -> b q (h d)")


def find_all_heads(model: nn.Module) -> dict[str, Heads]:
    """Name of each attention layer of `transformers` -> its heads, where it says them.

    `nn.MultiheadAttention` is left out: it uses the weight of its out_proj without
    calling it.
    """
    modules = dict(model.named_modules())
    all_heads = {}
    for name, layer in modules.items():
        head_dim = _first_integer(layer, WIDTHS)
        num_heads = _first_integer(layer, COUNTS)
        if num_heads is None and head_dim is not None:
            num_heads = _first_integer(getattr(layer, "config", None), COUNTS)
        projection = _find_projection(modules, name)
        if isinstance(layer, nn.MultiheadAttention) or None in (num_heads, projection):
            continue
        all_heads[name] = Heads(projection, num_heads, head_dim)
    return all_heads


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar ones."""
    names = [one for one in known if one]
    same_end = [one for one in names if one.endswith(f".{name.rpartition('.')[2]}")]
    similar = difflib.get_close_matches(name, same_end or names, n=2, cutoff=0)
    return f"did you mean {' or '.join(map(repr, similar))}?"


def _find_projection(modules: dict[str, nn.Module], name: str) -> nn.Module | None:
    for known in PROJECTIONS:
        projection = modules.get(f"{name}.{known}".removeprefix("."))
        if projection is not None:
            return projection
    parent, _, own = name.rpartition(".")
    if own == "self":  # BERT: `attention.self` computes, `attention.output` projects
        return modules.get(f"{parent}.output.dense".removeprefix("."))
    return None


def _first_integer(thing: object, names: tuple[str, ...]) -> int | None:
    for name in names:
        number = getattr(thing, name, None)
        if isinstance(number, int):
            return number
    return None
