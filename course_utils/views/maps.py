"""Every attention map of one forward pass, with the right tokens on its axes.

Knows weights and tokens. Knows nothing of pages and pictures.
"""

from typing import Any

import numpy as np

from attention_views import short, weight_codes
from attention_views.explorer import same_layers
from attention_views.page import LEVELS
from course_utils.checks import check_choice, check_index
from course_utils.views.tokens import token_texts
from course_utils.views.weights import attention_parts

MOST_TOKENS = 160
MOST_WEIGHTS = 2_400_000  # 12 layers of 12 heads over 128 tokens
# Part -> its queries and keys: 0 for the tokens, 1 for the source.
SIDES = {"encoder": (1, 1), "decoder": (0, 0), "cross": (0, 1), "self": (0, 0)}


class Maps:
    """The maps of one recording, or of two that are compared, and one that is chosen.

    recordings: for each {part: {layer label: weights "h q k"}}; texts: the tokens and
    those of the source; sides: {part: (queries, keys)}, indices of `texts`; at: part,
    layer and head that are chosen, as indices; sentence: title and finding.

    A part is "encoder", "decoder", "cross", or "self" where there is one text only. The
    label of a layer is the number, or numbers, in which names of its part differ.
    """

    def __init__(
        self, recordings: list, tokens: Any, source: Any, title: str, at: tuple
    ):
        """at: part, layer and head; the others and errors as in `views`."""
        single = source is None
        self.texts = [token_texts(tokens)]
        self.texts.append([] if single else token_texts(source, "source"))
        self.recordings = [attention_parts(r, not single) for r in recordings]
        self.sides = dict.fromkeys(SIDES, (0, 0)) if single else SIDES
        self._check_tokens(single)
        same_layers(*self.recordings)
        self._choose(*at)
        self.sentence = f"{title} {self._finding()} ({self.place})."

    def _check_tokens(self, single: bool) -> None:
        parts = self.recordings[0]
        if single and "cross" in parts:
            raise ValueError(
                "source must be the tokens that cross attention looks at, got None"
            )
        for part, layers in parts.items():
            _, queries, keys = next(iter(layers.values())).shape
            q, k = (len(self.texts[side]) for side in self.sides[part])
            if (queries, keys) != (q, k):
                raise ValueError(
                    f"tokens and source must fit the weights: {part} attention has "
                    f"{queries} queries and {keys} keys, got {q} and {k} tokens"
                )
            if max(q, k) > MOST_TOKENS:
                most = f"a view shows up to {MOST_TOKENS} tokens, got {max(q, k)}"
                raise ValueError(f"{most}: shorten the text")

    def _choose(self, part: str, layer: int, head: int) -> None:
        """Which map the picture and its sentence are about; part "" is the last."""
        names = tuple(self.recordings[0])
        part = part or names[-1]
        check_choice("part", part, names)
        labels = list(self.recordings[0][part])
        check_index(len(labels), "layers", layer=layer)
        label = labels[layer]
        check_index(len(self.recordings[0][part][label]), "heads", head=head)
        self.at = [names.index(part), int(layer), int(head)]
        self.chosen = [r[part][label][head] for r in self.recordings]
        self.labels = [
            [short(token) for token in self.texts[side]] for side in self.sides[part]
        ]
        self.place = f"{part} attention, layer {label}, head {head}"

    def check_total(self) -> None:
        """Raise ValueError for more weights than a page can hold."""
        parts = [layers for r in self.recordings for layers in r.values()]
        total = sum(weights.numel() for layers in parts for weights in layers.values())
        if total > MOST_WEIGHTS:
            raise ValueError(
                f"a view shows up to {MOST_WEIGHTS:,} weights, got {total:,}: shorten "
                "the text, or hand in fewer layers as {name: weights}"
            )

    def levels(self) -> list[np.ndarray]:
        """The chosen weights, rounded, as integers from 0 to LEVELS."""
        return [(weight_codes(chosen) - 1).clip(0) for chosen in self.chosen]

    def _finding(self) -> str:
        """Where the strongest link is, or the largest change."""
        before, *after = self.levels()
        if after:
            size, begins = np.abs(after[0] - before), "The largest change is"
            if not size.any():
                return "Nothing changed"
        else:
            size, begins = before, "The strongest link goes"
            free = (weight_codes(self.chosen[0]) > 0).sum(1, keepdims=True) > 1
            if free.any():  # a single key gets all anyway
                size = np.where(free, before, -1)
        q, k = np.unravel_index(size.argmax(), size.shape)
        found = f"{begins} from “{self.labels[0][q]}” to “{self.labels[1][k]}”"
        weights = [f"{levels[q, k] / LEVELS:.2f}" for levels in (before, *after)]
        if after:
            return f"{found}: before {weights[0]}, after {weights[1]}"
        return f"{found}, weight {weights[0]}"
