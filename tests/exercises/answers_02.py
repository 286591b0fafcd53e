"""Right answers of many styles to the exercises of notebook 02."""

import torch
from einops import einsum, rearrange
from torch import nn
from torch.nn import functional as F


def split_by_reshape(x, num_heads):
    batch, length, width = x.shape
    return x.reshape(batch, length, num_heads, width // num_heads).transpose(1, 2)


def split_by_loops(x, num_heads):
    size = x.shape[-1] // num_heads
    heads = [x[:, :, h * size : (h + 1) * size] for h in range(num_heads)]
    return torch.cat([head.unsqueeze(1) for head in heads], dim=1)


def merge_by_reshape(context):
    batch, heads, length, width = context.shape
    return context.transpose(1, 2).reshape(batch, length, heads * width)


def merge_by_cat(context):
    return torch.cat(list(context.unbind(dim=1)), dim=-1)


def count_by_formula(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    return 3 * (d_model * width + width) + width * d_model + d_model


def count_by_layers(d_model, num_heads, head_dim):
    width = num_heads * head_dim
    layers = [nn.Linear(d_model, width) for _ in range(3)] + [nn.Linear(width, d_model)]
    return sum(p.numel() for layer in layers for p in layer.parameters())


def count_as_tensor(d_model, num_heads, head_dim):
    return torch.tensor(count_by_formula(d_model, num_heads, head_dim))


def layer_by_reshape(x, w_q, w_k, w_v, w_o, num_heads):
    queries, keys, values = (
        split_by_reshape(x @ matrix, num_heads) for matrix in (w_q, w_k, w_v)
    )
    scores = queries @ keys.mT / queries.shape[-1] ** 0.5
    return merge_by_reshape(scores.softmax(dim=-1) @ values) @ w_o


def layer_as_a_sum_of_heads(x, w_q, w_k, w_v, w_o, num_heads):
    cut = [w.chunk(num_heads, dim=1) for w in (w_q, w_k, w_v)]
    output = 0
    for q, k, v, o in zip(*cut, w_o.chunk(num_heads, dim=0), strict=True):
        scores = x @ q @ k.T @ x.transpose(1, 2) / q.shape[1] ** 0.5
        output = output + scores.softmax(-1) @ x @ v @ o
    return output


def layer_by_einops(x, w_q, w_k, w_v, w_o, num_heads):
    pattern = "b t (h d) -> b h t d"
    queries, keys, values = (
        rearrange(x @ matrix, pattern, h=num_heads) for matrix in (w_q, w_k, w_v)
    )
    context = F.scaled_dot_product_attention(queries, keys, values)
    w_o = rearrange(w_o, "(h e) o -> h e o", h=num_heads)
    return einsum(context, w_o, "b h q e, h e o -> b q o")


RIGHT_ANSWERS = {
    "heads.split": [
        split_by_loops,
        lambda x, h: x.unflatten(-1, (h, -1)).permute(0, 2, 1, 3).contiguous(),
    ],
    "heads.merge": [
        merge_by_cat,
        lambda c: c.permute(0, 2, 1, 3).flatten(2),
    ],
    "heads.count": [count_by_layers, count_as_tensor],
    "heads.layer": [layer_as_a_sum_of_heads, layer_by_einops],
}

DOUBLE_MISTAKES = {
    "heads.split": [
        lambda x, h: rearrange(x, "b t (d h) -> b h d t", h=h),
        lambda x, h: rearrange(x, "b t (d h) -> b t h d", h=h),
    ],
    "heads.merge": [
        lambda x: x.sum(dim=1) / 2,
        lambda x: rearrange(x, "b h q d -> b (h q) d").mean(dim=1),
    ],
    "heads.count": [
        lambda m, h, d: 3 * m * h * d,  # no biases, no output projection
        lambda m, h, d: 4 * m * d + 3 * d,
    ],
    "heads.layer": [
        lambda x, q, k, v, o, h: layer_by_reshape(x, q, k, v, o, 1) / 2,
        lambda x, q, k, v, o, h: layer_by_reshape(x, k, q, v, o, 1),
    ],
}
