"""Answers to the exercises of notebook 15: right in many styles, and wrong twice."""

import math

import torch
from nb15_induction import induction
from nb15_maps import entropy

from course_utils.looking.intervening import intervene
from course_utils.looking.recording import record


def entropy_by_loops(weights):
    rows = weights.reshape(-1, weights.shape[-1]).tolist()
    entropies = [sum(-w * math.log(w) for w in row if w > 0) for row in rows]
    return torch.tensor(entropies).view(weights.shape[:-1])


def entropy_by_the_library(weights):
    return torch.distributions.Categorical(probs=weights).entropy()


def look_back_by_loops(weights):
    texts, heads, length, _ = weights.shape
    sums = torch.zeros(heads)
    for text in range(texts):
        for head in range(heads):
            for q in range(1, length):
                sums[head] += weights[text, head, q, q - 1]
    return sums / (texts * (length - 1))


def look_back_by_a_mask(weights):
    mask = torch.ones(weights.shape[-2:]).tril(-1).triu(-1)
    return torch.einsum("bhqk,qk->h", weights, mask) / (len(weights) * mask.sum())


def induction_by_search(weights, ids):
    sums, count = torch.zeros(weights.shape[1]), 0
    for b in range(ids.shape[0]):
        for q in range(ids.shape[1]):
            earlier = (ids[b, :q] == ids[b, q]).nonzero()
            if len(earlier):
                sums = sums + weights[b, :, q, earlier[-1, 0] + 1]
                count += 1
    return sums / count


def induction_by_tensors(weights, ids):
    places = torch.arange(ids.shape[1])
    same = (ids[:, :, None] == ids[:, None, :]).tril(-1)
    last = torch.where(same, places, -1).amax(-1)
    key = (last + 1)[:, None, :, None].expand(-1, weights.shape[1], -1, 1)
    attended = weights.gather(-1, key)[..., 0].transpose(1, 2)
    return attended[last >= 0].mean(0)


def ablated_by_a_copy(context, to_output, head):
    silent = context.clone()
    silent[:, head] = 0
    return to_output(silent.transpose(1, 2).flatten(2))


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


def hooked_by_the_course(model, name, change, x):
    with record(model) as seen:
        model(x)
    with intervene(model, {name: change}):
        during = model(x)
    return seen[name], during, model(x)


def unremoved_and_unchanged_record(model, name, change, x):
    recorded = []

    def hook(module, inputs, output):
        recorded.append(change(output))
        return recorded[0]

    model.get_submodule(name).register_forward_hook(hook)
    return recorded[0] if recorded else x, model(x), model(x)


def bits_and_no_sign(weights):
    return -entropy(weights) / math.log(2)


def columns_of_bits(weights):
    return torch.special.entr(weights).sum(-2) / math.log(2)


def itself_and_summed(weights):
    return weights.diagonal(0, -2, -1).mean(2).sum(0)


def first_text_and_summed(weights, ids):
    return induction(weights, ids[:1].expand_as(ids)) * ids.shape[1]


def query_and_no_bias(context, to_output, head):
    silent = context.clone()
    silent[:, :, head] = 0
    return to_output(silent.transpose(1, 2).flatten(2)) - to_output.bias


RIGHT_ANSWERS = {
    "inside.entropy": [
        entropy_by_loops,
        entropy_by_the_library,
    ],
    "inside.look_back": [
        look_back_by_loops,
        look_back_by_a_mask,
    ],
    "inside.induction": [induction_by_search, induction_by_tensors],
    "inside.ablate": [
        ablated_by_a_copy,
        ablated_by_adding_the_others,
    ],
    "inside.hook": [
        hooked_by_another_forward,
        hooked_by_the_course,
    ],
    "inside.next_key": [4, torch.tensor(4), 4.0],
}
DOUBLE_MISTAKES = {
    "inside.entropy": [bits_and_no_sign, columns_of_bits],
    "inside.look_back": [itself_and_summed],
    "inside.induction": [first_text_and_summed],
    "inside.ablate": [query_and_no_bias],
    "inside.hook": [unremoved_and_unchanged_record],
}
