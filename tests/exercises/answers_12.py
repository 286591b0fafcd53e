"""Answers to the exercises of notebook 12: right in many styles, and wrong twice."""

import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F

from course_utils.attention import GroupedQueryAttention
from course_utils.feedforward import SwiGLU
from course_utils.masks import causal_mask
from course_utils.norms import RMSNorm
from course_utils.positions import rotate


def norm_by_loops(x, scale, eps):
    result = torch.empty_like(x)
    for row, out in zip(x, result, strict=True):
        for place, here in zip(row, out, strict=True):
            root = (sum(v * v for v in place) / len(place) + eps) ** 0.5
            for m, value in enumerate(place):
                here[m] = scale[m] * value / root
    return result


def norm_by_layer(x, scale, eps):
    layer = RMSNorm(len(scale), eps)
    layer.load_state_dict({"weight": scale})
    return layer(x)


def gate_by_layers(x, gate, up, down):
    layer = SwiGLU(gate.shape[1], gate.shape[0]).to(x.dtype)
    for part, weight in zip(
        (layer.gate, layer.up, layer.down), (gate, up, down), strict=True
    ):
        part.weight = nn.Parameter(weight)
    return layer(x)


def lend_by_loops(keys, num_heads):
    group_size = num_heads // keys.shape[1]
    return torch.stack([keys[:, h // group_size] for h in range(num_heads)], dim=1)


def lend_by_view(keys, num_heads):
    b, g, k, d = keys.shape
    group_size = num_heads // g
    return keys[:, :, None].expand(b, g, group_size, k, d).reshape(b, num_heads, k, d)


def sign_by_loops(ours, others):
    pairs = list(zip(ours.tolist(), others.tolist(), strict=True))
    return all(a < b for a, b in pairs) or all(a > b for a, b in pairs)


def sign_by_signs(ours, others):
    signs = torch.unique((ours - others).sign())
    return signs.numel() == 1 and signs.item() != 0


def attend_by_layer(x, wq, wk, wv, wo, table, num_heads):
    width = len(wq) // num_heads
    layer = GroupedQueryAttention(len(wq), num_heads, len(wk) // width)
    layer = layer.to(x.dtype)
    names = ("to_queries", "to_keys", "to_values", "to_output")
    for name, weight in zip(names, (wq, wk, wv, wo), strict=True):
        getattr(layer, name).weight = nn.Parameter(weight)
    return layer(x, table, causal_mask(x.shape[1]))


def attend_by_loops(x, wq, wk, wv, wo, table, num_heads):
    cosines, sines = table
    m = x.shape[2]
    d = m // num_heads
    groups = len(wk) // d

    def turned(vector, place):
        first, second = vector[: d // 2], vector[d // 2 :]
        swapped = torch.cat([-second, first])
        return vector * cosines[place] + swapped * sines[place]

    rows = []
    for text in x:
        for t in range(len(text)):
            heads = []
            for head in range(num_heads):
                part = slice(head * d, (head + 1) * d)
                group = head * groups // num_heads
                lent = slice(group * d, (group + 1) * d)
                query = turned(wq[part] @ text[t], t)
                keys = [turned(wk[lent] @ text[s], s) for s in range(t + 1)]
                values = [wv[lent] @ text[s] for s in range(t + 1)]
                scores = torch.stack([query @ key for key in keys]) / d**0.5
                heads.append(scores.softmax(0) @ torch.stack(values))
            rows.append(wo @ torch.cat(heads))
    return torch.stack(rows).view_as(x)


def attend_by_groups(x, wq, wk, wv, wo, table, num_heads):
    """Keys are never copied: the heads of a group are an axis of the queries."""
    d = len(wq) // num_heads
    groups = len(wk) // d
    q = rotate(rearrange(x @ wq.T, "b t (h d) -> b h t d", d=d), *table)
    k = rotate(rearrange(x @ wk.T, "b t (g d) -> b g t d", d=d), *table)
    v = rearrange(x @ wv.T, "b t (g d) -> b g t d", d=d)
    q = rearrange(q, "b (g s) t d -> b g s t d", g=groups)
    scores = torch.einsum("bgsqd,bgkd->bgsqk", q, k) / d**0.5
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    context = torch.einsum("bgsqk,bgkd->bgsqd", weights, v)
    return rearrange(context, "b g s q d -> b q (g s d)") @ wo.T


def mistaken_attend(turn, causal):
    """Dealt in turn; beside it, no rotary or no mask."""

    def answer(x, wq, wk, wv, wo, table, num_heads):
        d = len(wq) // num_heads
        q, k, v = (
            F.linear(x, w).unflatten(-1, (-1, d)).transpose(1, 2) for w in (wq, wk, wv)
        )
        if turn:
            q, k = rotate(q, *table), rotate(k, *table)
        group_size = num_heads // k.shape[1]
        k, v = k.repeat(1, group_size, 1, 1), v.repeat(1, group_size, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return F.linear(y.transpose(1, 2).flatten(2), wo)

    return answer


def mistaken_lend(keys, num_heads):
    """Positions repeated, and dealt in turn."""
    group_size = num_heads // keys.shape[1]
    return keys.repeat_interleave(group_size, 2).repeat(1, group_size, 1, 1)


def centered(x):
    return x - x.mean(-1, keepdim=True)


RIGHT_ANSWERS = {
    "llama.rms_norm": [
        norm_by_loops,
        norm_by_layer,
    ],
    "llama.swiglu": [
        gate_by_layers,
        lambda x, g, u, d: F.linear(F.silu(F.linear(x, g)) * F.linear(x, u), d),
    ],
    "llama.hidden": [2048, 2 * 3072 / 3, torch.tensor(2048)],
    "llama.repeat_keys": [
        lend_by_loops,
        lend_by_view,
        lambda keys, h: keys.repeat_interleave(h // keys.size(1), dim=1),
    ],
    "llama.grouped_attention": [
        attend_by_layer,
        attend_by_loops,
        attend_by_groups,
    ],
    "llama.cache": [49152, 2 * 16 * 6 * 64 * 4.0, torch.tensor(48 * 1024)],
    "llama.same_sign": [
        sign_by_loops,
        sign_by_signs,
        lambda ours, others: (ours < others).all() | (ours > others).all(),
    ],
}
DOUBLE_MISTAKES = {
    "llama.rms_norm": [
        lambda x, s, eps: (
            centered(x) / (x.square().mean(-1, keepdim=True) + eps).sqrt()
        ),
        lambda x, s, eps: s * x / x.square().sum(-1, keepdim=True).sqrt(),
    ],
    "llama.swiglu": [
        lambda x, g, u, d: (x @ g.T + torch.sigmoid(x @ u.T)) @ d.T,
        lambda x, g, u, d: (F.gelu(x @ u.T) * (x @ g.T)) @ d.T,
    ],
    "llama.repeat_keys": [
        mistaken_lend,
        lambda keys, h: keys.repeat(1, h, 1, 1),
    ],
    "llama.grouped_attention": [
        mistaken_attend(turn=False, causal=True),
        mistaken_attend(turn=True, causal=False),
    ],
    "llama.same_sign": [
        lambda ours, others: bool(ours.max() < others.min()),
        lambda ours, others: bool((ours < others).any()),
    ],
}
