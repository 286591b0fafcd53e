"""Answers to the exercises of notebook 14: right in many styles, and wrong twice."""

import torch
from torch.nn import functional as F

from course_utils.attention import LayerCache, attention_scores
from course_utils.decoding import greedy, next_token_probabilities
from course_utils.positions import rotate


def top_k_by_scatter(scores, k):
    best, places = scores.topk(k)
    return torch.zeros_like(scores).scatter(1, places, best.softmax(-1))


def top_k_by_loops(scores, k):
    rows = []
    for row in scores.softmax(-1).tolist():
        remaining = sorted(row, reverse=True)[:k]
        rows.append([x / sum(remaining) if x in remaining else 0.0 for x in row])
    return torch.tensor(rows)


def top_p_by_loops(scores, p):
    out = torch.zeros_like(scores)
    for row, chances in enumerate(scores.softmax(-1)):
        reached = 0.0
        for token in chances.argsort(descending=True).tolist():
            out[row, token] = chances[token]
            reached += chances[token]
            if reached >= p:
                break
    return out / out.sum(-1, keepdim=True)


def min_p_by_scores(scores, min_p):
    line = scores.max(dim=-1, keepdim=True).values + torch.tensor(min_p).log()
    return torch.where(scores >= line, scores, -torch.inf).softmax(-1)


def min_p_by_loops(scores, min_p):
    rows = []
    for row in scores.softmax(-1).tolist():
        remaining = [x if x >= min_p * max(row) else 0.0 for x in row]
        rows.append([x / sum(remaining) for x in remaining])
    return torch.tensor(rows)


def step_by_the_layer_cache(query, key, value, keys, values, cos, sin):
    cache, at = LayerCache(), keys.shape[2]
    cache.append(keys, values)
    turned = rotate(key, cos[at : at + 1], sin[at : at + 1])
    keys, values = cache.append(turned, value)
    query = rotate(query, cos[at : at + 1], sin[at : at + 1])
    return attention_scores(query, keys).softmax(-1) @ values, keys, values


def step_by_hand(query, key, value, keys, values, cos, sin):
    at, half = keys.shape[2], query.shape[3] // 2

    def turn(x):
        swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * cos[at] + swapped * sin[at]

    keys = torch.cat([keys, turn(key)], dim=2)
    values = torch.cat([values, value], dim=2)
    scores = torch.einsum("bhqd,bhkd->bhqk", turn(query), keys) / (2 * half) ** 0.5
    context = torch.einsum("bhqk,bhke->bhqe", scores.softmax(dim=-1), values)
    return [context, keys, values]


def rows_by_counting(step, ids, most, stop_id, pad_id):
    start = ids.shape[1]
    while ids.shape[1] < start + most:
        ended = (ids[:, start:] == stop_id).sum(1) > 0
        if ended.all():
            break
        new = torch.where(ended, pad_id, step(ids).argmax(-1))
        ids = torch.hstack([ids, new.unsqueeze(1)])
    return ids


def prefill_by_the_kernel(queries, keys, values, old_keys, old_values):
    new, old = queries.shape[2], old_keys.shape[2]
    keys, values = torch.cat([old_keys, keys], 2), torch.cat([old_values, values], 2)
    positions = torch.arange(old, old + new)
    mask = torch.arange(old + new) <= positions[:, None]
    return F.scaled_dot_product_attention(queries, keys, values, mask)


def prefill_one_by_one(queries, keys, values, old_keys, old_values):
    contexts = []
    for i in range(queries.shape[2]):
        old_keys = torch.cat([old_keys, keys[:, :, i : i + 1]], 2)
        old_values = torch.cat([old_values, values[:, :, i : i + 1]], 2)
        scores = attention_scores(queries[:, :, i : i + 1], old_keys)
        contexts.append(scores.softmax(-1) @ old_values)
    return torch.cat(contexts, 2)


def any_stop_and_padded_away(step, ids, most, stop_id, pad_id):
    for _ in range(most):
        new = step(ids).argmax(-1)
        ids = torch.cat([ids, new.where(new != stop_id, pad_id)[:, None]], 1)
        if (new == stop_id).any():
            break
    return ids


def unmasked_and_in_front(queries, keys, values, old_keys, old_values):
    keys, values = torch.cat([keys, old_keys], 2), torch.cat([old_values, values], 2)
    return F.scaled_dot_product_attention(queries, keys, values)


def ranked_and_unscaled(scores, k):
    return (scores.softmax(-1) * (top_k_by_scatter(scores, k) > 0)).sort(-1).values


def one_too_many_and_unscaled(scores, p):
    chances = scores.softmax(-1)
    ranked, tokens = chances.sort(-1, descending=True)
    late = F.pad(ranked.cumsum(-1), (2, 0))[:, : scores.shape[1]] >= p
    return chances.masked_fill(late.scatter(1, tokens, late), 0)


def absolute_and_unscaled(scores, min_p):
    chances = scores.softmax(-1)
    return chances * (chances >= min_p)


def position_0_and_nothing_cached(query, key, value, keys, values, cos, sin):
    query, key = rotate(query, cos[:1], sin[:1]), rotate(key, cos[:1], sin[:1])
    every = torch.cat([keys, key], 2), torch.cat([values, value], 2)
    return F.scaled_dot_product_attention(query, *every), keys, values


def in_front_and_unturned(query, key, value, keys, values, cos, sin):
    keys, values = torch.cat([key, keys], 2), torch.cat([value, values], 2)
    return F.scaled_dot_product_attention(query, keys, values), keys, values


RIGHT_ANSWERS = {
    "generation.top_k": [
        top_k_by_loops,
        lambda scores, k: next_token_probabilities(scores, 1.0, k),
    ],
    "generation.top_p": [
        top_p_by_loops,
        lambda scores, p: next_token_probabilities(scores, top_p=p),
    ],
    "generation.min_p": [min_p_by_scores, min_p_by_loops],
    "generation.cache": [
        step_by_the_layer_cache,
        step_by_hand,
    ],
    "generation.rows": [
        rows_by_counting,
        lambda step, ids, most, stop, pad: greedy(step, ids, most, stop, pad),
    ],
    "generation.prefill": [prefill_by_the_kernel, prefill_one_by_one],
    "generation.computed": [
        (11325, 150),
        [150 * 151 // 2, 150.0],
        (torch.arange(1, 151).sum(), torch.tensor(150)),
    ],
}
DOUBLE_MISTAKES = {
    "generation.rows": [any_stop_and_padded_away],
    "generation.prefill": [unmasked_and_in_front],
    "generation.top_k": [ranked_and_unscaled],
    "generation.top_p": [one_too_many_and_unscaled],
    "generation.min_p": [absolute_and_unscaled],
    "generation.cache": [position_0_and_nothing_cached, in_front_and_unturned],
}
