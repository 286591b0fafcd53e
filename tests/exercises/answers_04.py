"""Right answers to the exercises of notebook 04, each unlike the reference."""

import math

import torch

from course_utils import positions


def sinusoids_by_loops(length, d_model):
    table = torch.zeros(length, d_model)
    for position in range(length):
        for hand in range(d_model // 2):
            angle = position / 10_000 ** (2 * hand / d_model)
            table[position, 2 * hand] = math.sin(angle)
            table[position, 2 * hand + 1] = math.cos(angle)
    return table


def steps_by_complex(row, steps):
    hands = torch.view_as_complex(row.view(-1, 2).flip(-1).contiguous())
    angles = steps * 10_000 ** (-torch.arange(0, len(row), 2) / len(row))
    moved = hands * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(moved).flip(-1).flatten()


def turn_by_chunks(x, start, base):
    length, width = x.shape[-2:]
    speeds = base ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(start, start + length), speeds)
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def rotary_by_loops(queries, keys, values, start, base):
    def turned(x):
        columns, half = list(x.double().unbind(-1)), x.shape[-1] // 2
        for i in range(half):
            cos, sin = torch.ones(2, x.shape[2], dtype=torch.float64)
            for t in range(x.shape[2]):
                angle = (start + t) / base ** (i / half)
                cos[t], sin[t] = math.cos(angle), math.sin(angle)
            a, b = columns[i], columns[half + i]
            columns[i], columns[half + i] = a * cos - b * sin, a * sin + b * cos
        return torch.stack(columns, dim=-1).to(x.dtype)

    return turned(queries), turned(keys), values


def table_by_loops(length, head_dim, start, base):
    cosines, sines = torch.zeros(2, length, head_dim)
    for t in range(length):
        for column in range(head_dim):
            pair = column % (head_dim // 2)
            angle = (start + t) / base ** (2 * pair / head_dim)
            cosines[t, column], sines[t, column] = math.cos(angle), math.sin(angle)
    return cosines, sines


def table_of_the_package(length, head_dim, start, base):
    tables = positions.rotary_table(start + length, head_dim, base)
    return [table[start:] for table in tables]


def alibi_by_einsum(num_heads, query_length, key_length):
    rates = 2 ** torch.linspace(-8 / num_heads, -8, num_heads)
    places = torch.arange(key_length, dtype=rates.dtype)
    distance = (places[-query_length:, None] - places).abs()
    return -torch.einsum("h,qk->hqk", rates, distance)


RIGHT_ANSWERS = {
    "positions.sinusoids": [sinusoids_by_loops],
    "positions.step": [steps_by_complex],
    "positions.rotary": [
        rotary_by_loops,
        lambda q, k, v, *at: [
            turn_by_chunks(q, *at),
            turn_by_chunks(k, *at),
            v.clone(),
        ],
    ],
    "positions.rotary_table": [table_by_loops, table_of_the_package],
    "positions.alibi": [alibi_by_einsum],
}
