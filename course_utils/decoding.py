"""Turn next-token scores into text. Knows nothing of models.

Every method takes `step`, a function from ids "b t" to the scores (logits) "b v" of the
token that follows. `CachedStep` and `TranslationStep` make one from a model.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor, nn

from course_utils.shapes import check_positive

Step = Callable[[Tensor], Tensor]


def next_token_probabilities(
    scores: Float[Tensor, "b v"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "b v"]:
    """The distribution to draw from: scaled, cut to a few tokens, summing to 1.

    temperature divides the scores. top_k keeps the k most likely tokens (Fan et al.
    2018, section 5.4), then top_p the fewest whose probability reaches top_p, the token
    that crosses the line included (Holtzman et al. 2020, section 3.1).
    Raises ValueError for a temperature that is not above 0, a top_k outside 1 … v, a
    top_p outside (0, 1].
    """
    if not 0 < temperature < math.inf:
        raise ValueError(
            f"temperature must be above 0 and finite, got {temperature}; "
            "for the single most likely token use greedy"
        )
    if top_k is not None and not 1 <= top_k <= scores.shape[-1]:
        raise ValueError(
            f"top_k must lie between 1 and the {scores.shape[-1]} tokens there are, "
            f"got {top_k}"
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {top_p}")
    probabilities = F.softmax(_at_least_float32(scores) / temperature, dim=-1)
    ranked, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked[:, top_k:] = 0
    if top_p is not None and top_p < 1:
        ranked = ranked / ranked.sum(-1, keepdim=True)
        before = ranked.cumsum(-1) - ranked
        ranked = ranked.masked_fill(before >= top_p, 0)
    kept = torch.zeros_like(probabilities).scatter(-1, tokens, ranked)
    return kept / kept.sum(-1, keepdim=True)


def greedy(
    step: Step,
    prompt: Int64[Tensor, "b t"],
    max_new_tokens: int,
    stop_id: int | None = None,
    pad_id: int | None = None,
) -> Int64[Tensor, "b n"]:
    """Append the most likely token, again and again.

    Returns prompt and new tokens. A row ends with its first new stop_id and is filled
    up with pad_id while others go on, so several rows with a stop_id need a pad_id.
    Raises ValueError or TypeError for an unusable prompt or scores.
    """
    return _extend(
        step, prompt, max_new_tokens, lambda s: s.argmax(-1), stop_id, pad_id
    )


def sample(
    step: Step,
    prompt: Int64[Tensor, "b t"],
    max_new_tokens: int,
    *,
    stop_id: int | None = None,
    pad_id: int | None = None,
    generator: torch.Generator | None = None,
    **choice: int | float | None,
) -> Int64[Tensor, "b n"]:
    """Append a token drawn from `next_token_probabilities`, again and again.

    choice: temperature, top_k and top_p, as there. Stopping and padding as in
    `greedy`. The same generator state gives the same text.
    """

    def draw(scores: Tensor) -> Tensor:
        chances = next_token_probabilities(scores, **choice)
        if generator is not None:
            chances = chances.to(generator.device)
        return torch.multinomial(chances, 1, generator=generator)[:, 0]

    return _extend(step, prompt, max_new_tokens, draw, stop_id, pad_id)


def length_rule(length: int, length_penalty: float) -> float:
    """What the log-probability of `length` tokens is divided by.

    Wu et al. 2016, equation 14: ((5 + length) / 6) ** length_penalty.
    """
    return ((5 + length) / 6) ** length_penalty


@torch.no_grad()
def beam_search(
    step: Step,
    prompt: Int64[Tensor, "b t"],
    max_new_tokens: int,
    *,
    beams: int,
    stop_id: int,
    pad_id: int | None = None,
    length_penalty: float = 0.6,
) -> Int64[Tensor, "b n"]:
    """The best continuation among those kept by a beam of width `beams`.

    Best is the log-probability of the new tokens (stop_id counted) over `length_rule`;
    a text cut off at max_new_tokens competes too. One beam is greedy; as many beams as
    there are texts is exhaustive. `step` is called with b * beams rows, those of one
    prompt next to each other. Returns what `greedy` returns.
    """
    check_positive(beams=beams)
    if length_penalty < 0:
        raise ValueError(f"length_penalty must not be negative, got {length_penalty}")
    _check_request(prompt, max_new_tokens, stop_id, pad_id)
    rows, start = prompt.shape
    ids = repeat(prompt, "b t -> (b w) t", w=beams)
    live = prompt.new_full((rows, beams), -math.inf, dtype=torch.float64)
    live[:, 0] = 0.0  # all beams of a prompt are still the same: count one
    winners = _Winners(prompt)
    for length in range(1, max_new_tokens + 1):
        chances = F.log_softmax(_scores(step, ids, stop_id).double(), dim=-1)
        chances = rearrange(chances.to(live.device), "(b w) v -> b w v", b=rows)
        total = rearrange(live[:, :, None] + chances, "b w v -> b (w v)")
        live, picks = total.topk(beams, dim=1)
        parents, tokens = picks // chances.shape[2], picks % chances.shape[2]
        ids = rearrange(ids, "(b w) t -> b w t", b=rows)
        ids = ids.take_along_dim(parents[:, :, None], dim=1)
        ids = torch.cat([ids, tokens[:, :, None]], dim=2)
        ended = tokens == stop_id
        final = ended if length < max_new_tokens else torch.ones_like(ended)
        value = live / length_rule(length, length_penalty)
        winners.update(ids, value.masked_fill(~final, -math.inf))
        live = live.masked_fill(ended, -math.inf)
        reachable = live.amax(1) / length_rule(max_new_tokens, length_penalty)
        if (winners.values >= reachable).all():
            break
        ids = rearrange(ids, "b w t -> (b w) t")
    return winners.padded(start, pad_id)


class _Winners:
    """The best finished text of every prompt so far."""

    def __init__(self, prompt: Tensor):
        self.texts = list(prompt)
        self.values = prompt.new_full((len(prompt),), -math.inf, dtype=torch.float64)

    def update(self, ids: Tensor, values: Tensor) -> None:
        best, beam = values.max(dim=1)
        for row in (best > self.values).nonzero()[:, 0].tolist():
            self.texts[row], self.values[row] = ids[row, beam[row]], best[row]

    def padded(self, start: int, pad_id: int | None) -> Tensor:
        longest = max(len(text) for text in self.texts)
        ids = [F.pad(x, (0, longest - len(x)), value=pad_id or 0) for x in self.texts]
        return torch.stack(ids)


class CachedStep:
    """A step that feeds a model only the ids it has not seen yet.

    The model offers new_cache() and model(ids, cache=cache) -> logits "b t v". Serves
    one growing batch: raises ValueError when an earlier id or the number of rows
    changes (a beam search does that), and for a model in training mode.
    """

    def __init__(self, model: nn.Module):
        _check_eval(model)
        self.model, self.cache = model, model.new_cache()
        self.seen: Tensor | None = None

    @torch.no_grad()
    def __call__(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        known = 0 if self.seen is None else self.seen.shape[1]
        if known and not torch.equal(ids[:, :known], self.seen):
            raise ValueError(
                "ids must begin with what CachedStep has seen, but an earlier id or "
                "the number of rows changed; make a new CachedStep for a new text"
            )
        if ids.shape[1] == known:
            raise ValueError(f"ids must hold a new position, all {known} are known")
        new = ids[:, known:].to(_device(self.model))
        logits = self.model(new, cache=self.cache)
        self.seen = ids
        return logits[:, -1]


class TranslationStep:
    """A step that reads a source once and scores the next token of its translation.

    The model offers encode(source) -> memory and decode(target, memory, source) ->
    logits "b t v". Each source row serves equally many neighboring rows of ids: one for
    greedy and sample, `beams` for beam_search. Raises ValueError for another number.
    """

    @torch.no_grad()
    def __init__(self, model: nn.Module, source: Int64[Tensor, "b s"]):
        _check_eval(model)
        self.model, self.source = model, source.to(_device(model))
        self.memory = model.encode(self.source)

    @torch.no_grad()
    def __call__(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        times, rest = divmod(len(ids), len(self.source))
        if rest or not times:
            raise ValueError(
                f"ids must have a multiple of the {len(self.source)} rows of source, "
                f"got {len(ids)}"
            )
        memory = self.memory.repeat_interleave(times, dim=0)
        source = self.source.repeat_interleave(times, dim=0)
        return self.model.decode(ids.to(source.device), memory, source)[:, -1]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _check_eval(model: nn.Module) -> None:
    if model.training:
        raise ValueError(
            "model must be in eval mode to decode, it is in training mode and would "
            "drop activations at random; call model.eval()"
        )


def _at_least_float32(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


@torch.no_grad()
def _extend(
    step: Step,
    prompt: Tensor,
    max_new_tokens: int,
    choose: Callable[[Tensor], Tensor],
    stop_id: int | None,
    pad_id: int | None,
) -> Tensor:
    """Append what `choose` picks from the scores until all rows stop or are full."""
    _check_request(prompt, max_new_tokens, stop_id, pad_id)
    ids = prompt
    going = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)
    for _ in range(max_new_tokens):
        new = choose(_scores(step, ids, stop_id)).to(ids.device)
        if pad_id is not None:
            new = new.masked_fill(~going, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if stop_id is not None:
            going &= new != stop_id
            if not going.any():
                break
    return ids


def _scores(step: Step, ids: Tensor, stop_id: int | None) -> Tensor:
    """Call step, and raise unless it gives every row a token that can be chosen."""
    scores = step(ids)
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != len(ids):
        came = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores)
        raise ValueError(
            "step must return one row of scores per row of ids, shape "
            f"({len(ids)}, vocabulary), got {came}"
        )
    if stop_id is not None and not 0 <= stop_id < scores.shape[1]:
        raise ValueError(
            f"stop_id must lie between 0 and {scores.shape[1] - 1}, got {stop_id}"
        )
    if not scores.amax(-1).isfinite().all():
        raise ValueError(
            f"step must return a finite highest score per row, at position "
            f"{ids.shape[1]} it returned {scores.amax(-1).tolist()}"
        )
    return scores


def _check_request(
    prompt: Tensor, max_new_tokens: int, stop_id: int | None, pad_id: int | None
) -> None:
    check_positive(max_new_tokens=max_new_tokens)
    if prompt.dtype != torch.int64:
        raise TypeError(f"prompt must be int64 token ids, got {prompt.dtype}")
    if prompt.ndim != 2 or 0 in prompt.shape:
        raise ValueError(
            "prompt must have a shape (batch, positions) with at least one of each, "
            f"got {tuple(prompt.shape)}"
        )
    if stop_id is not None and pad_id is None and len(prompt) > 1:
        raise ValueError(
            f"pad_id must be given for {len(prompt)} rows with a stop_id, because rows "
            "end at different lengths"
        )
