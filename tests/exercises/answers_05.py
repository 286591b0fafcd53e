"""Answers to the exercises of notebook 05: right in many styles, and wrong twice."""

import copy
import functools

import torch
from torch import nn
from torch.nn import functional as F


def layer_norm_by_loops(x, scale, shift, eps):
    flat = x.reshape(-1, x.shape[-1])
    rows = []
    for word in flat:
        mean = sum(word) / len(word)
        variance = sum((number - mean) ** 2 for number in word) / len(word)
        rows.append((word - mean) / (variance + eps) ** 0.5 * scale + shift)
    return torch.stack(rows).view_as(x)


def block_in_two_lines(x, norm1, attention, norm2, feedforward, dropout):
    x = x + dropout(attention(norm1(x)))
    return x + dropout(feedforward(norm2(x)))


def block_by_contributions(x, norm1, attention, norm2, feedforward, dropout):
    first = dropout(attention(norm1(x)))
    second = dropout(feedforward(norm2(x + first)))
    return torch.stack([x, first, second]).sum(dim=0)


def block_by_loop(x, norm1, attention, norm2, feedforward, dropout):
    for norm, layer in ((norm1, attention), (norm2, feedforward)):
        branch = nn.Sequential(norm, layer, dropout)
        x = torch.add(x, branch(x))
    return x


def stack_by_recursion(x, blocks, norm):
    if not blocks:
        return norm(x)
    return stack_by_recursion(blocks[0](x), blocks[1:], norm)


def silent_without_gradients(block, x):
    with torch.no_grad():
        for layer in (block.attention.to_output, block.feedforward.down):
            layer.weight.zero_()
            layer.bias.zero_()
        return torch.equal(block.train()(x), x)


def silent_by_state(block, x):
    silent = copy.deepcopy(block)
    state = silent.state_dict()
    for name, tensor in state.items():
        if ".to_output." in name or ".down." in name:
            state[name] = torch.zeros_like(tensor)
    silent.load_state_dict(state)
    silent.train()
    return torch.allclose(silent(x), x)


def silent_by_hooks(block, x):
    """Nothing is written: what the branches say is thrown away."""
    hooks = [
        branch.register_forward_hook(lambda layer, args, out: torch.zeros_like(out))
        for branch in (block.attention, block.feedforward)
    ]
    mode = block.training
    out = block.train()(x)
    block.train(mode)
    for hook in hooks:
        hook.remove()
    return bool((out == x).all())


def post_norm_with_dropout_on_the_road(x, norm1, attention, norm2, ff, dropout):
    x = norm1(dropout(x + attention(x)))
    return norm2(dropout(x + ff(x)))


def parallel_without_dropout(x, norm1, attention, norm2, feedforward, dropout):
    return x + attention(norm1(x)) + feedforward(norm2(x))


def over_the_batch_without_scale(x, scale, shift, eps):
    axes = tuple(range(x.ndim - 1))
    variance = x.var(axes, keepdim=True, unbiased=False)
    return (x - x.mean(axes, keepdim=True)) / (variance + eps).sqrt()


def silent_upside_down_in_use(block, x):
    for layer in (block.attention.to_output, block.feedforward.down):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return not torch.equal(block.eval()(x), x)


RIGHT_ANSWERS = {
    "blocks.layer_norm": [
        layer_norm_by_loops,
        lambda x, scale, shift, eps: F.layer_norm(x, scale.shape, scale, shift, eps),
    ],
    "blocks.norm_sees": [(0, 1, 1), [0, 1, 1], (False, True, True)],
    "blocks.block": [block_in_two_lines, block_by_contributions, block_by_loop],
    "blocks.stack": [
        stack_by_recursion,
        lambda x, blocks, norm: nn.Sequential(*blocks, norm)(x),
        lambda x, blocks, norm: norm(functools.reduce(lambda y, b: b(y), blocks, x)),
    ],
    "blocks.silent": [
        silent_without_gradients,
        silent_by_state,
        silent_by_hooks,
    ],
}
DOUBLE_MISTAKES = {
    "blocks.layer_norm": [
        over_the_batch_without_scale,
        lambda x, scale, shift, eps: scale * x / x.std(-1, keepdim=True) + shift,
    ],
    "blocks.block": [post_norm_with_dropout_on_the_road, parallel_without_dropout],
    "blocks.stack": [
        lambda x, blocks, norm: blocks[-1](x),
        lambda x, blocks, norm: nn.Sequential(norm, *blocks[::-1])(x),
    ],
    "blocks.silent": [silent_upside_down_in_use],
}
