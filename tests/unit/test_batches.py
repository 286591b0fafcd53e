"""Batches hold every token once, in the right place, as a function of (seed, step)."""

import hashlib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from course_utils.checks import IGNORED
from course_utils.data.batches import (
    PackedBatches,
    RowBatches,
    packed_batches,
    padded_batches,
    pair_batches,
)

SPECIAL = SimpleNamespace(pad_id=0, bos_id=1, eos_id=2)
BATCH, LENGTH, SEED = 3, 5, 7
NUM_TEXTS = 23
# Every token of the data is another number, so that any mix-up shows.
TEXTS = [
    [1000 * text + place for place in range(1, 2 + text % 11)]
    for text in range(1, NUM_TEXTS + 1)
]
PAIRS = [(text, [token + 500 for token in text[::-1]]) for text in TEXTS]
STREAM = [SPECIAL.eos_id, *(t for text in TEXTS for t in [*text, SPECIAL.eos_id])]


def packed(seed=SEED, length=LENGTH):
    options = {"batch_size": BATCH, "special": SPECIAL, "seed": seed}
    return packed_batches(TEXTS, length=length, **options)


def padded(seed=SEED):
    return padded_batches(TEXTS, batch_size=BATCH, special=SPECIAL, seed=seed)


def pairs(seed=SEED):
    return pair_batches(PAIRS, batch_size=BATCH, special=SPECIAL, seed=seed)


MAKERS = [packed, padded, pairs]


def equal(left, right):
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


def content(row, *fillers):
    return tuple(token for token in row.tolist() if token not in fillers)


# --- the order -----------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_a_batch_depends_on_seed_and_step_alone(make):
    one, other = make(), make()
    steps = range(2 * one.steps_per_epoch)
    forward = [one(step) for step in steps]
    backward = [other(step) for step in reversed(steps)][::-1]
    assert all(equal(a, b) for a, b in zip(forward, backward, strict=True))
    assert not all(equal(make(SEED + 1)(step), forward[step]) for step in steps)
    second_epoch = forward[one.steps_per_epoch :]
    assert not all(equal(a, b) for a, b in zip(forward, second_epoch, strict=False))


# Of the first hundred steps, made before the functions took their arguments by name:
# the stored outputs of the notebooks depend on this order.
FROZEN = {
    packed: "a7887780333b75bf",
    padded: "d7cf2b524e991114",
    pairs: "2ce9adc2d1a11a4f",
}


def torch_rows(indices):
    return (torch.tensor(indices),)


def test_the_seed_is_0_unless_another_is_given():
    sizes = {"batch_size": BATCH, "special": SPECIAL}
    windows = {"batch_size": BATCH, "length": LENGTH}
    for make, data, options in (
        (packed_batches, TEXTS, windows | {"special": SPECIAL}),
        (PackedBatches, torch.arange(99), windows),
        (padded_batches, TEXTS, sizes),
        (pair_batches, PAIRS, sizes),
        (RowBatches, range(9), {"batch_size": BATCH, "rows": torch_rows}),
    ):
        usual, first, other = (
            [str(make(data, **options, **seed)(step)) for step in range(4)]
            for seed in ({}, {"seed": 0}, {"seed": 1})
        )
        assert usual == first != other


@pytest.mark.parametrize("make", MAKERS)
def test_the_order_never_changes(make):
    batches = make()
    text = repr([[part.tolist() for part in batches(step)] for step in range(100)])
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == FROZEN[make]
    assert {part.dtype for part in batches(0)} == {torch.int64}


@pytest.mark.parametrize("make", MAKERS)
def test_an_epoch_is_drawn_once_and_not_at_every_step(make, monkeypatch):
    """Each step drew the order of its whole epoch again."""
    draws = []
    default_rng = np.random.default_rng

    def counted(seed):
        draws.append(seed)
        return default_rng(seed)

    monkeypatch.setattr(np.random, "default_rng", counted)
    batches = make()
    epochs = 3
    for step in range(epochs * batches.steps_per_epoch):
        batches(step)
    assert draws == [[SEED, epoch] for epoch in range(epochs)]
    batches(0)  # an epoch that has passed is drawn again, and is the same
    assert equal(batches(0), make()(0))
    assert draws[epochs:] == [[SEED, 0]] * 2


# --- packed --------------------------------------------------------------------------


def test_packed_labels_are_the_next_tokens_of_the_stream():
    batches = packed()
    for step in range(3 * batches.steps_per_epoch):
        inputs, labels = batches(step)
        assert inputs.shape == labels.shape == (BATCH, LENGTH)
        for row_in, row_out in zip(inputs.tolist(), labels.tolist(), strict=True):
            window = [*row_in, row_out[-1]]
            assert row_in[1:] == row_out[:-1]
            assert any(
                STREAM[start : start + LENGTH + 1] == window
                for start in range(len(STREAM))
            )


def test_packed_epochs_cut_at_other_places_and_label_nearly_all_once():
    batches = packed()
    firsts = set()
    for epoch in range(9):
        seen = Counter()
        for place in range(batches.steps_per_epoch):
            inputs, labels = batches(epoch * batches.steps_per_epoch + place)
            seen.update(token for token in labels.flatten().tolist() if token > 2)
            firsts.update(inputs[:, 0].tolist())
        assert set(seen.values()) == {1}
    left_out = len(STREAM) - batches.steps_per_epoch * BATCH * LENGTH
    assert left_out <= (BATCH + 1) * LENGTH
    assert len(firsts) > (batches.steps_per_epoch + 1) * BATCH


@pytest.mark.parametrize("length", [1, 2, LENGTH, 11, 30])
def test_packed_reads_everything_once_in_order(length):
    labels = [label for _, out in packed(length=length) for label in out.flatten()]
    assert [label.item() for label in labels] == STREAM[1:]
    inputs = [token for some, _ in packed(length=length) for token in some.flatten()]
    assert [token.item() for token in inputs] == STREAM[:-1]


def test_the_shortest_stream_that_is_accepted_makes_a_batch_in_every_epoch():
    needed = (BATCH + 1) * LENGTH
    arguments = {"batch_size": BATCH, "length": LENGTH}
    batches = PackedBatches(torch.arange(needed), **arguments)
    for step in range(50):
        inputs, _ = batches(step)
        assert inputs.shape == (BATCH, LENGTH)
    with pytest.raises(ValueError, match=f"rows must .* {needed} .* got {needed - 1}"):
        PackedBatches(torch.arange(needed - 1), **arguments)


# --- rows ----------------------------------------------------------------------------


def test_padded_rows_run_from_bos_to_eos():
    batches = padded()
    for step in range(batches.steps_per_epoch):
        inputs, labels = batches(step)
        assert inputs.shape == labels.shape
        for row_in, row_out in zip(inputs, labels, strict=True):
            text = content(row_in, SPECIAL.pad_id, SPECIAL.bos_id)
            assert list(text) in TEXTS
            assert content(row_in, SPECIAL.pad_id) == (SPECIAL.bos_id, *text)
            assert content(row_out, IGNORED) == (*text, SPECIAL.eos_id)
            padding = row_in == SPECIAL.pad_id
            assert torch.equal(padding, row_out == IGNORED)
            assert not padding[: len(text) + 1].any()  # padding comes last


def test_an_epoch_holds_no_text_twice_and_every_text_comes_in_some_epoch():
    batches, seen = padded(), set()
    for epoch in range(8):
        steps = range(batches.steps_per_epoch)
        steps = [epoch * batches.steps_per_epoch + place for place in steps]
        rows = [content(row, 0, 1) for step in steps for row in batches(step)[0]]
        assert len(rows) == len(set(rows)) == NUM_TEXTS // BATCH * BATCH
        seen |= set(rows)
    assert seen == {tuple(text) for text in TEXTS}


def test_iterating_gives_every_text_once_in_order():
    rows = [content(row, 0, 1) for inputs, _ in padded() for row in inputs]
    assert rows == [tuple(text) for text in TEXTS]
    sources = [content(row, 0) for source, _, _ in pairs() for row in source]
    assert sources == [tuple(source) for source, _ in PAIRS]


def test_pairs_stay_together_and_are_shifted():
    batches = pairs()
    for step in range(2 * batches.steps_per_epoch):
        for source, target_in, labels in zip(*batches(step), strict=True):
            source = list(content(source, SPECIAL.pad_id))
            target = dict(zip(map(tuple, TEXTS), (t for _, t in PAIRS), strict=True))
            expected = target[tuple(source)]
            assert content(target_in, SPECIAL.pad_id) == (SPECIAL.bos_id, *expected)
            assert content(labels, IGNORED) == (*expected, SPECIAL.eos_id)


def test_rows_of_a_batch_have_similar_lengths():
    texts = [[5] * (1 + place % 40) for place in range(40 * 16)]
    batches = padded_batches(texts, batch_size=16, special=SPECIAL, seed=SEED)
    steps = range(batches.steps_per_epoch)
    padding = [(batches(step)[1] == IGNORED).float().mean() for step in steps]
    assert sum(padding) / len(padding) < 0.05
    widths = [batches(step)[0].shape[1] for step in steps]
    assert widths != sorted(widths)  # and yet short ones do not come first


def test_a_batch_is_rounded_up_to_a_multiple_but_not_beyond_the_model():
    texts = [[5] * length for length in (3, 7, 8, 14)]
    arguments = {"batch_size": 1, "special": SPECIAL, "max_length": 17}
    plain = padded_batches(texts, **arguments)
    assert [inputs.shape[1] for inputs, _ in plain] == [4, 8, 9, 15]
    rounded = padded_batches(texts, **arguments, multiple=8)
    assert [inputs.shape[1] for inputs, _ in rounded] == [8, 8, 16, 16]
    rounded = padded_batches(texts, **arguments, multiple=10)
    assert [inputs.shape[1] for inputs, _ in rounded] == [10, 10, 10, 17]
    for (inputs, labels), (more, answers) in zip(plain, rounded, strict=True):
        length = inputs.shape[1]
        assert torch.equal(more[:, :length], inputs)
        assert torch.equal(answers[:, :length], labels)
        assert (more[:, length:] == SPECIAL.pad_id).all()
        assert (answers[:, length:] == IGNORED).all()


def test_any_batch_is_made_by_a_function_of_the_row_indices():
    asked = []

    def batch(indices):
        asked.append(list(indices))
        return (torch.tensor(asked[-1]),)

    lengths = [4, 9, 1, 7, 3]
    batches = RowBatches(lengths, batch_size=2, rows=batch)
    assert [batches(step)[0].tolist() for step in range(9)] == asked
    assert batches.rows([4, 0])[0].tolist() == [4, 0]
    assert [part.tolist() for (part,) in batches] == [[0, 1], [2, 3], [4]]


def test_rows_may_be_tensors_or_arrays():
    for kind in (torch.tensor, np.array):
        batches = padded_batches(
            [kind(text) for text in TEXTS], batch_size=BATCH, special=SPECIAL, seed=SEED
        )
        assert equal(batches(3), padded()(3))


def test_a_text_that_just_fits_is_taken():
    longest = max(len(text) for text in TEXTS)
    arguments = {"batch_size": 2, "special": SPECIAL}
    for make, rows, most in (
        (padded_batches, TEXTS, longest + 1),
        (pair_batches, PAIRS, longest + 1),
    ):
        assert make(rows, max_length=most, **arguments)
        with pytest.raises(ValueError, match=f"max_length={most - 1}"):
            make(rows, max_length=most - 1, **arguments)


def test_zero_is_an_id_like_others():
    """Unless it is padding's, as it is not in GPT-2."""
    special = SimpleNamespace(pad_id=9, bos_id=8, eos_id=7)
    inputs, labels = padded_batches([[0, 1]], batch_size=1, special=special)(0)
    assert inputs.tolist() == [[8, 0, 1]] and labels.tolist() == [[0, 1, 7]]
