"""Turn next-token scores into text.

Every method takes `step`, a function from ids "b t" to the scores (logits) "b v" of the
token that follows. `CachedStep` and `TranslationStep` make one from a model.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any

import torch
import torch.nn.functional as F
from einops import rearrange, repeat
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from course_utils import checks

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
    """
    _check_finite(scores, "scores")
    _check_settings(temperature, top_k, top_p, scores.shape[1])
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    scores = (scores - scores.amax(-1, keepdim=True)) / temperature
    probabilities = F.softmax(scores, dim=-1)
    ranked, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        ranked[:, top_k:] = 0
    if top_p is not None and top_p < 1:
        ranked = ranked / ranked.sum(-1, keepdim=True)
        before = ranked.cumsum(-1) - ranked
        ranked = ranked.masked_fill(before >= top_p, 0)
    chosen = torch.zeros_like(probabilities).scatter(-1, tokens, ranked)
    return chosen / chosen.sum(-1, keepdim=True)


def _check_settings(
    temperature: float, top_k: int | None, top_p: float | None, vocab_size: int
) -> None:
    least = torch.finfo(torch.float32).tiny  # a smaller one would divide by 0
    checks.check_type(Real, temperature=temperature)
    if not least <= temperature < math.inf:
        got = f"got {temperature}; for the most likely token there is `greedy`"
        raise ValueError(f"temperature must be > 0 in float32, {got}")
    if top_k is not None:
        checks.check_integer(1, top_k=top_k)
        if top_k > vocab_size:
            raise ValueError(f"top_k={top_k} exceeds the vocabulary of {vocab_size}")
    checks.check_number("(0, 1]", top_p=1 if top_p is None else top_p)


def greedy(
    step: Step,
    prompt: Int64[Tensor, "b t"],
    max_new_tokens: int,
    stop_id: int | None = None,
    pad_id: int | None = None,
) -> Int64[Tensor, "b n"]:
    """Append the most likely token, again and again; return prompt and new tokens.

    A row ends with its first new stop_id and is filled up with pad_id while others go
    on. All end where the model has no position left.
    """
    best = partial(torch.argmax, dim=-1)
    return _extend(step, prompt, max_new_tokens, best, stop_id, pad_id)


def sample(
    step: Step,
    prompt: Int64[Tensor, "b t"],
    max_new_tokens: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop_id: int | None = None,
    pad_id: int | None = None,
    generator: torch.Generator | None = None,
) -> Int64[Tensor, "b n"]:
    """Append a token drawn from `next_token_probabilities`, again and again.

    temperature, top_k and top_p as there; stopping and padding as in `greedy`. Tokens
    are drawn on the device of the generator, whose state decides about the text.
    """

    def choose(scores: Tensor) -> Tensor:
        probs = next_token_probabilities(scores, temperature, top_k, top_p)
        if generator is not None:
            probs = probs.to(generator.device)
        return torch.multinomial(probs, 1, generator=generator)[:, 0]

    return _extend(step, prompt, max_new_tokens, choose, stop_id, pad_id)


def length_rule(length: int, length_penalty: float) -> float:
    """What the log-probability of `length` tokens is divided by.

    Wu et al. 2016, equation 14: ((5 + length) / 6) ** length_penalty.
    """
    checks.check_number("[0, 100]", length_penalty=length_penalty)
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
    a text cut off at max_new_tokens competes too. `step` is called with b * beams rows,
    those of one prompt next to each other. Returns what `greedy` returns.
    """
    checks.check_integer(1, beams=beams)
    _check_request(prompt, max_new_tokens, stop_id, pad_id)
    ids = repeat(prompt, "b t -> b w t", w=beams)
    # Log-probabilities "b w" of the beams that go on; at first all are the same: one.
    live = torch.full(ids.shape[:2], -math.inf, device=prompt.device)
    live[:, 0] = 0.0
    texts = list(prompt)  # the best finished so far, and their values "b"
    values = torch.full_like(live[:, 0], -math.inf)

    def finish(total: Tensor, length: int) -> None:
        """Of these beams "b w" keep those that beat the best text of their prompt."""
        best, beam = (total / length_rule(length, length_penalty)).max(dim=1)
        for row in (best > values).nonzero()[:, 0].tolist():
            texts[row] = ids[row, beam[row]]
            values[row] = best[row]

    for length in range(1, max_new_tokens + 1):
        try:
            scores = _scores(step, rearrange(ids, "b w t -> (b w) t"), stop_id, pad_id)
        except checks.SequenceTooLongError:
            if length == 1:
                raise
            finish(live, length - 1)  # what is written stays
            break
        log_probs = F.log_softmax(scores.float(), dim=-1).to(prompt.device)
        log_probs = rearrange(log_probs, "(b w) v -> b w v", w=beams)
        total = rearrange(live[:, :, None] + log_probs, "b w v -> b (w v)")
        live, picks = total.topk(beams, dim=1)
        parents, tokens = picks // log_probs.shape[2], picks % log_probs.shape[2]
        ids = ids.take_along_dim(parents[:, :, None], dim=1)
        ids = torch.cat([ids, tokens[:, :, None]], dim=2)
        ended = tokens == stop_id
        last = length == max_new_tokens
        finish(live if last else live.masked_fill(~ended, -math.inf), length)
        live = live.masked_fill(ended, -math.inf)
        reachable = live.amax(1) / length_rule(max_new_tokens, length_penalty)
        if (values >= reachable).all():
            break
    return pad_sequence(texts, batch_first=True, padding_value=pad_id or 0)


class CachedStep:
    """A step that feeds a model only the new ids of one growing batch.

    The model offers new_cache() and model(ids, cache=cache) -> logits "b t v".
    """

    def __init__(self, model: Any):
        checks.check_eval(model)
        self.model = model
        self.cache = model.new_cache()
        self.seen: Tensor | None = None

    @torch.no_grad()
    def __call__(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        """Scores of the token after each row; only new positions are computed."""
        length = 0 if self.seen is None else self.seen.shape[1]
        if self.seen is not None and not torch.equal(ids[:, :length], self.seen):
            changed = "an earlier id or the number of rows changed"
            raise ValueError(f"{changed}: make a new CachedStep for a new text")
        new = ids[:, length:].to(next(self.model.parameters()).device)
        try:
            scores = self.model(new, cache=self.cache)[:, -1]
            self.seen = ids.clone()  # the caller may write into its own
        except BaseException:  # Ctrl-C between two blocks: their caches would differ
            self.cache, self.seen = self.model.new_cache(), None
            raise
        return scores


class TranslationStep:
    """A step that reads a source once and scores the next token of its translation.

    The model offers encode(source) -> memory and decode(target, memory, source) ->
    logits "b t v". Each source row serves equally many neighboring rows of ids: one for
    greedy and sample, `beams` for beam_search.
    """

    @torch.no_grad()
    def __init__(self, model: Any, source: Int64[Tensor, "b s"]):
        checks.check_eval(model)
        self.model = model
        self.source = source.to(next(model.parameters()).device)
        self.memory = model.encode(self.source)

    @torch.no_grad()
    def __call__(self, ids: Int64[Tensor, "b t"]) -> Float[Tensor, "b v"]:
        """Scores of the token after each row of the target."""
        times = len(ids) // len(self.source)
        memory = self.memory.repeat_interleave(times, dim=0)
        source = self.source.repeat_interleave(times, dim=0)
        return self.model.decode(ids.to(source.device), memory, source)[:, -1]


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
    active = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)
    for _ in range(max_new_tokens):
        try:
            scores = _scores(step, ids, stop_id, pad_id)
        except checks.SequenceTooLongError:
            if ids is prompt:
                raise
            break  # what is written stays
        new = choose(scores).to(ids.device)
        if pad_id is not None:
            new = new.masked_fill(~active, pad_id)
        ids = torch.cat([ids, new[:, None]], dim=1)
        if stop_id is not None:
            active &= new != stop_id
            if not active.any():
                break
    return ids


def _scores(step: Step, ids: Tensor, stop_id: int | None, pad_id: int | None) -> Tensor:
    scores = step(ids)
    if scores.ndim != 2 or len(scores) != len(ids):
        shape = tuple(scores.shape)
        raise ValueError(f"step must return ({len(ids)}, vocab_size), got {shape}")
    for name, id in (("stop_id", stop_id), ("pad_id", pad_id)):
        if id is not None:
            checks.check_index(scores.shape[1], "vocab_size", **{name: id})
    _check_finite(scores, f"step, at position {ids.shape[1]},")
    return scores


def _check_finite(scores: Tensor, name: str) -> None:
    highest = scores.amax(-1)
    if not highest.isfinite().all():
        rows = f"each row a finite highest score, got {highest.tolist()}"
        raise ValueError(f"{name} must give {rows}")


def _check_request(
    prompt: Tensor, max_new_tokens: int, stop_id: int | None, pad_id: int | None
) -> None:
    checks.check_integer(1, max_new_tokens=max_new_tokens)
    checks.check_ids(prompt, None, "prompt")
    at_hand = checks.values_are_at_hand(prompt)  # some models begin a text with it:
    if at_hand and pad_id is not None and (prompt[:, 1:] == pad_id).any():
        padding = f"padding, pad_id={pad_id}: the model would read it"
        raise ValueError(f"prompt must not hold {padding}")
    if stop_id is not None and pad_id is None and len(prompt) > 1:
        raise ValueError(f"pad_id is needed for {len(prompt)} rows with a stop_id")
