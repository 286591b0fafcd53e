"""Answers to the exercises of notebook 04: right in many styles, and wrong twice."""

import math

import torch

from course_utils.positions import (
    SinusoidalPositions,
    alibi_bias,
    rotary_table,
    rotate,
    sinusoidal_positions,
)


def sinusoids_by_loops(length, d_model):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for hand in range(d_model // 2):
            angle = position / 10_000 ** (2 * hand / d_model)
            table[position, 2 * hand] = math.sin(angle)
            table[position, 2 * hand + 1] = math.cos(angle)
    return table


def steps_by_loops(row, steps):
    moved = row.clone()
    for i in range(0, len(row), 2):
        angle = math.atan2(row[i], row[i + 1]) + steps / 10_000 ** (i / len(row))
        moved[i], moved[i + 1] = math.sin(angle), math.cos(angle)
    return moved


def steps_by_complex(row, steps):
    hands = torch.view_as_complex(row.view(-1, 2).flip(-1).contiguous())
    angles = steps * 10_000 ** (-torch.arange(0, len(row), 2) / len(row))
    moved = hands * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(moved).flip(-1).flatten()


def turn_by_chunks(x):
    length, width = x.shape[-2:]
    speeds = 10_000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length), speeds)
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def rotary_by(turn):
    return lambda queries, keys, values: (turn(queries), turn(keys), values)


def alibi_by_loops(num_heads, query_length, key_length):
    bias = torch.zeros(num_heads, query_length, key_length)
    for h in range(num_heads):
        for q in range(query_length):
            for k in range(key_length):
                distance = abs(key_length - query_length + q - k)
                bias[h, q, k] = -distance / 2 ** (8 * (h + 1) / num_heads)
    return bias


def alibi_by_einsum(num_heads, query_length, key_length):
    rates = 2 ** torch.linspace(-8 / num_heads, -8, num_heads)
    places = torch.arange(key_length, dtype=rates.dtype)
    distance = (places[-query_length:, None] - places).abs()
    return -torch.einsum("h,qk->hqk", rates, distance)


def alibi_cut(num_heads, query_length, key_length):
    return alibi_bias(num_heads, key_length, key_length)[:, -query_length:]


def relative_by_loops(table, query_length, key_length):
    rows = []
    for q in range(key_length - query_length, key_length):
        columns = [min(max(q - k, 0), table.shape[1] - 1) for k in range(key_length)]
        rows.append(table[:, columns])
    return torch.stack(rows, dim=1)


def relative_by_gather(table, query_length, key_length):
    positions = torch.arange(key_length)
    back = (positions[-query_length:, None] - positions).clamp(min=0)
    columns = torch.minimum(back, torch.tensor(table.shape[1] - 1))
    bias = table.gather(1, columns.flatten().expand(len(table), -1))
    return bias.view(len(table), query_length, key_length)


def relative_by_one_hot(table, query_length, key_length):
    positions = torch.arange(key_length)
    back = positions[-query_length:, None] - positions
    columns = back.clamp(0, table.shape[1] - 1)
    chosen = torch.nn.functional.one_hot(columns, table.shape[1]).to(table.dtype)
    return torch.einsum("hd,qkd->hqk", table, chosen)


def relative_both_ways_from_0(table, query_length, key_length):
    """Two mistakes: distances without a sign, and queries at the beginning."""
    distance = (torch.arange(query_length)[:, None] - torch.arange(key_length)).abs()
    return table[:, distance.clamp(max=table.shape[1] - 1)]


def halves_from_one(length, d_model):
    table = sinusoidal_positions(length + 1, d_model)[1:]
    return torch.cat([table[:, 0::2], table[:, 1::2]], dim=-1)


def back_by_one_speed(row, steps):
    angle = torch.tensor(-float(steps))
    block = torch.tensor([[angle.cos(), angle.sin()], [-angle.sin(), angle.cos()]])
    return (row.view(-1, 2) @ block.T).flatten()


def all_the_other_way(queries, keys, values):
    cos, sin = rotary_table(*queries.shape[-2:])
    return tuple(rotate(x, cos, -sin) for x in (queries, keys, values))


RIGHT_ANSWERS = {
    "positions.sinusoids": [
        sinusoids_by_loops,
        lambda length, d_model: SinusoidalPositions(d_model, length).table,
    ],
    "positions.step": [steps_by_loops, steps_by_complex],
    "positions.hand": [0.3, 30 / 10_000 ** (8 / 16), 3 / 10],
    "positions.rotary": [
        rotary_by(turn_by_chunks),
        rotary_by(lambda x: rotate(x, *rotary_table(*x.shape[2:]))),
        lambda q, k, v: [turn_by_chunks(q), turn_by_chunks(k), v.clone()],
    ],
    "positions.alibi": [alibi_by_loops, alibi_by_einsum, alibi_cut],
    "positions.relative": [
        relative_by_loops,
        relative_by_gather,
        relative_by_one_hot,
    ],
}
DOUBLE_MISTAKES = {
    "positions.sinusoids": [
        halves_from_one,
        lambda t, m: sinusoidal_positions(t, m).view(t, -1, 2).flip(-1).mT.flatten(1),
    ],
    "positions.step": [back_by_one_speed],
    "positions.rotary": [
        all_the_other_way,
        lambda q, k, v: (turn_by_chunks(q), k, turn_by_chunks(v)),
    ],
    "positions.alibi": [
        lambda h, q, k: -alibi_bias(h, k, k)[:, :q],
        lambda h, q, k: 2 ** (8 / h) * alibi_bias(h, k, k)[:, :q],
    ],
    "positions.relative": [relative_both_ways_from_0],
}
