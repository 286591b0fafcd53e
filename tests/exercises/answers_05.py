"""Right answers to the exercises of notebook 05, each unlike the reference."""

import torch


def layer_norm_by_loops(x, scale, shift, eps):
    flat = x.reshape(-1, x.shape[-1])
    rows = []
    for word in flat:
        mean = sum(word) / len(word)
        variance = sum((number - mean) ** 2 for number in word) / len(word)
        rows.append((word - mean) / (variance + eps) ** 0.5 * scale + shift)
    return torch.stack(rows).view_as(x)


def block_by_contributions(x, norm1, attention, norm2, feedforward, dropout):
    first = dropout(attention(norm1(x)))
    second = dropout(feedforward(norm2(x + first)))
    return torch.stack([x, first, second]).sum(dim=0)


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


RIGHT_ANSWERS = {
    "blocks.layer_norm": [layer_norm_by_loops],
    "blocks.block": [block_by_contributions],
    "blocks.stack": [stack_by_recursion],
    "blocks.silent": [silent_without_gradients, silent_by_hooks],
}
