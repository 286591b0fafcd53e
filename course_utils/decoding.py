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
from torch.nn.utils.rnn import pad_sequence

from course_utils.shapes import check_above, check_between, check_ids, check_positive

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
    check_above(0, temperature=temperature)
    if top_k is not None:
        check_between(1, scores.shape[-1], top_k=top_k)
    if top_p is not None:
        check_above(0, top_p=top_p)
        check_between(0, 1, top_p=top_p)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    probabilities = F.softmax(scores / temperature, dim=-1)
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

    def best(scores: Tensor) -> Tensor:
        return scores.argmax(-1)

    return _extend(step, prompt, max_new_tokens, best, stop_id, pad_id)


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
    check_between(0, math.inf, length_penalty=length_penalty)
    _check_request(prompt, max_new_tokens, stop_id, pad_id)
    rows = len(prompt)
    ids = repeat(prompt, "b t -> (b w) t", w=beams)
    live = prompt.new_full((rows, beams), -math.inf, dtype=torch.float64)
    live[:, 0] = 0.0  # all beams of a prompt are still the same: count one
    texts, values = list(prompt), live[:, 0] - math.inf  # the best finished so far
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
        best, beam = value.masked_fill(~final, -math.inf).max(dim=1)
        for row in (best > values).nonzero()[:, 0].tolist():
            texts[row], values[row] = ids[row, beam[row]], best[row]
        live = live.masked_fill(ended, -math.inf)
        reachable = live.amax(1) / length_rule(max_new_tokens, length_penalty)
        if (values >= reachable).all():
            break
        ids = rearrange(ids, "b w t -> (b w) t")
    return pad_sequence(texts, batch_first=True, padding_value=pad_id or 0)


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
            changed = "an earlier id or the number of rows changed"
            raise ValueError(f"{changed}; make a new CachedStep for a new text")
        if ids.shape[1] == known:
            raise ValueError(f"ids must hold a new position, all {known} are known")
        new = ids[:, known:].to(_device(self.model))
        logits, self.seen = self.model(new, cache=self.cache), ids
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
            wanted = f"a multiple of the {len(self.source)} rows of source"
            raise ValueError(f"ids must have {wanted}, got {len(ids)}")
        memory = self.memory.repeat_interleave(times, dim=0)
        source = self.source.repeat_interleave(times, dim=0)
        return self.model.decode(ids.to(source.device), memory, source)[:, -1]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _check_eval(model: nn.Module) -> None:
    if model.training:
        raise ValueError("model must be in eval mode to decode: call model.eval()")


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
        wanted = f"one row of scores per row of ids, shape ({len(ids)}, vocabulary)"
        raise ValueError(f"step must return {wanted}, got {came}")
    if stop_id is not None:
        check_between(0, scores.shape[1] - 1, stop_id=stop_id)
    highest = scores.amax(-1)
    if not highest.isfinite().all():
        came = f"at position {ids.shape[1]} it returned {highest.tolist()}"
        raise ValueError(f"step must return a finite highest score per row, {came}")
    return scores


def _check_request(
    prompt: Tensor, max_new_tokens: int, stop_id: int | None, pad_id: int | None
) -> None:
    check_positive(max_new_tokens=max_new_tokens)
    check_ids(prompt, None, "prompt")
    if stop_id is not None and pad_id is None and len(prompt) > 1:
        raise ValueError(f"pad_id must be given for {len(prompt)} rows with a stop_id")
