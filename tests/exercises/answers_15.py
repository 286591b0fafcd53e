"""Right answers to the exercises of notebook 15, each unlike the reference."""

import torch


def look_back_by_a_mask(weights):
    mask = torch.ones(weights.shape[-2:]).tril(-1).triu(-1)
    return torch.einsum("bhqk,qk->h", weights, mask) / (len(weights) * mask.sum())


def induction_by_tensors(weights, ids):
    places = torch.arange(ids.shape[1])
    same = (ids[:, :, None] == ids[:, None, :]).tril(-1)
    last = torch.where(same, places, -1).amax(-1)
    key = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    attended = weights.gather(-1, key)[..., 0].transpose(1, 2)
    return attended[last >= 0].mean(0)


def ablated_by_adding_the_others(context, to_output, head):
    heads, width = context.shape[1], context.shape[-1]
    parts = to_output.weight.view(-1, heads, width)
    others = [h for h in range(heads) if h != head]
    return sum(context[:, h] @ parts[:, h].T for h in others) + to_output.bias


def hooked_by_another_forward(model, name, change, x):
    module = model.get_submodule(name)
    recorded, old = [], module.forward

    def forward(*given):
        recorded.append(old(*given))
        return change(recorded[0])

    module.forward = forward
    during = model(x)
    del module.forward
    return recorded[0], during, model(x)


RIGHT_ANSWERS = {
    "inside.look_back": [look_back_by_a_mask],
    "inside.induction": [induction_by_tensors],
    "inside.ablate": [ablated_by_adding_the_others],
    "inside.hook": [hooked_by_another_forward],
    "inside.next_key": [4.0],
}
