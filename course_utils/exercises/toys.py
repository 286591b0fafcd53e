"""Toy models for the instruments of notebook 16: each is one table and one fault.

Knows tensors. Knows nothing of exercises.
"""

import torch
from torch import Generator, nn
from torch.nn import functional as F

VOCAB = 11


def _table(generator):
    """One vector per token, and so one model per way of using them.

    In sixteenths: sums are exact, so that no order of adding looks like a change.
    """
    kind = torch.get_default_dtype()
    drawn = torch.randn(VOCAB, 4, generator=generator, dtype=kind)
    return (16 * drawn).round() / 16


def _shown(*functions):
    """Functions as layers: a check can show the name of a layer."""
    kinds = [
        type(function.__name__, (nn.Module,), {"forward": staticmethod(function)})
        for function in functions
    ]
    return [kind() for kind in kinds]


def _distinct(generator, rows, length):
    """Ids without repetition within a row."""
    drawn = [torch.randperm(VOCAB, generator=generator) for _ in range(rows)]
    return torch.stack(drawn)[:, :length]


def _past(vectors):
    """At each position the mean of all vectors up to it."""
    counts = torch.arange(1, vectors.shape[1] + 1, dtype=vectors.dtype)
    return vectors.cumsum(dim=1) / counts[:, None]


def _next(vectors):
    return F.pad(vectors[:, 1:], (0, 0, 0, 1))


def _only(outputs, place):
    """All outputs are 0 but those at one position."""
    kept = torch.zeros(outputs.shape[1], 1, dtype=outputs.dtype)
    kept[place:][:1] = 1
    return outputs * kept


def decoders(generator: Generator) -> list[tuple]:
    """(decoder, ids, vocab_size): three honest ones, three that leak."""
    table = _table(generator)

    def honest(ids):
        return _past(table[ids])

    def reads_own_word(ids):
        return table[ids]

    def peeks_at_next(ids):
        return _next(table[ids]) + table[ids]

    def peeks_at_start(ids):
        return _only(_next(table[ids]), 0)

    def peeks_near_end(ids):
        return _only(_next(table[ids]), max(0, ids.shape[1] - 2))

    def silent(ids):
        return 0 * table[ids]

    ids = _distinct(generator, 2, 7)
    sick = _shown(peeks_at_next, peeks_at_start, peeks_near_end)
    models = _shown(honest, reads_own_word, silent) + sick
    return [(model, ids, VOCAB) for model in models]


def readers(generator: Generator) -> list[tuple]:
    """(reader, ids): four that do not know the order, two that do."""
    table, weights = _table(generator), torch.arange(1.0, 8)
    weights = weights.to(table.dtype)[:, None]
    pairs = (weights / 2).ceil()  # 1, 1, 2, 2, …: neighbors that weigh the same

    def bag(ids):
        return table[ids] + table[ids].mean(1, keepdim=True)

    def one_vector_for_all(ids):
        return table[ids].mean(1, keepdim=True) + 0 * table[ids]

    def positions(ids):
        return bag(ids) + (weights * table[ids]).sum(1, keepdim=True)

    def positions_in_pairs(ids):
        return bag(ids) + (pairs * table[ids]).sum(1, keepdim=True)

    def causal_bag(ids):
        return table[ids] + _past(table[ids])

    def last_word_only(ids):
        return _only(bag(ids), ids.shape[1] - 1)

    ids = _distinct(generator, 3, 7)
    models = _shown(bag, one_vector_for_all, causal_bag, last_word_only)
    models += _shown(positions, positions_in_pairs)
    return [(model, ids) for model in models]


def translators(generator: Generator) -> list[tuple]:
    """(translator, source, target, vocab_size): one is deaf, the others are not."""
    table = _table(generator)

    def reads_all(source, target):
        return table[target] + table[source].mean(1, keepdim=True)

    def speaks_alone(source, target):
        return _past(table[target])

    def reads_first_word(source, target):
        return table[target] + table[source[:, :1]]

    def end_reads(source, target):
        return table[target] + _only(reads_all(source, target), target.shape[1] - 1)

    def start_reads(source, target):
        return table[target] + _only(reads_all(source, target), 0)

    pair = _distinct(generator, 2, 5), _distinct(generator, 2, 3)
    models = _shown(reads_all, speaks_alone, reads_first_word, end_reads, start_reads)
    return [(model, *pair, VOCAB) for model in models]
