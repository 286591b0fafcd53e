"""Batches hold every token once, in the right place, as a function of (seed, step)."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from course_utils.data.batches import (
    packed_batches,
    padded_batches,
    pair_batches,
)
from course_utils.shapes import IGNORED

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
    return packed_batches(TEXTS, BATCH, length, seed, SPECIAL)


def padded(seed=SEED):
    return padded_batches(TEXTS, BATCH, seed, SPECIAL)


def pairs(seed=SEED):
    return pair_batches(PAIRS, BATCH, seed, SPECIAL)


def equal(left, right):
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


def content(row, *fillers):
    return tuple(token for token in row.tolist() if token not in fillers)


@pytest.mark.parametrize("make", [packed, padded, pairs])
def test_a_batch_depends_on_seed_and_step_alone(make):
    one, other = make(), make()
    steps = range(2 * one.steps_per_epoch)
    forward = [one(step) for step in steps]
    backward = [other(step) for step in reversed(steps)][::-1]
    assert all(equal(a, b) for a, b in zip(forward, backward, strict=True))
    assert not all(equal(make(SEED + 1)(step), forward[step]) for step in steps)
    second_epoch = forward[one.steps_per_epoch :]
    assert not all(equal(a, b) for a, b in zip(forward, second_epoch, strict=False))


@pytest.mark.parametrize("make", [packed, padded, pairs])
def test_batches_are_int64(make):
    assert {tensor.dtype for tensor in make()(0)} == {torch.int64}


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


def test_packed_epoch_labels_no_place_twice_and_nearly_all():
    batches = packed()
    for epoch in range(4):
        seen = Counter()
        for place in range(batches.steps_per_epoch):
            _, labels = batches(epoch * batches.steps_per_epoch + place)
            seen.update(token for token in labels.flatten().tolist() if token > 2)
        assert set(seen.values()) == {1}
        left_out = len(STREAM) - batches.steps_per_epoch * BATCH * LENGTH
        assert left_out <= (BATCH + 1) * LENGTH


def test_packed_epochs_cut_at_other_places():
    batches = packed()
    firsts = {
        batches(epoch * batches.steps_per_epoch)[0][0, 0].item() for epoch in range(9)
    }
    assert len(firsts) > 3


@pytest.mark.parametrize("length", [1, 2, LENGTH, 11, 30])
def test_packed_reads_everything_once_in_order(length):
    labels = [label for _, out in packed(length=length) for label in out.flatten()]
    assert [label.item() for label in labels] == STREAM[1:]
    inputs = [token for some, _ in packed(length=length) for token in some.flatten()]
    assert [token.item() for token in inputs] == STREAM[:-1]


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
            assert not padding[: len(text) + 1].any()  # padding stands behind


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_padded_epoch_holds_no_text_twice(epoch):
    batches = padded()
    rows = [
        content(row, SPECIAL.pad_id)
        for place in range(batches.steps_per_epoch)
        for row in batches(epoch * batches.steps_per_epoch + place)[0]
    ]
    assert len(rows) == len(set(rows)) == NUM_TEXTS // BATCH * BATCH


def test_every_text_comes_in_some_epoch():
    batches = padded()
    steps = range(8 * batches.steps_per_epoch)
    rows = {content(row, 0, 1) for step in steps for row in batches(step)[0]}
    assert rows == {tuple(text) for text in TEXTS}


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
    batches = padded_batches(texts, 16, SEED, SPECIAL)
    steps = range(batches.steps_per_epoch)
    share = [(batches(step)[1] == IGNORED).float().mean() for step in steps]
    assert sum(share) / len(share) < 0.05
    widths = [batches(step)[0].shape[1] for step in steps]
    assert widths != sorted(widths)  # and yet short ones do not come first


def test_the_loss_leaves_padding_out():
    inputs, labels = padded()(0)
    assert (labels == IGNORED).any()
    logits = torch.zeros(*labels.shape, 30_000)
    logits[inputs == SPECIAL.pad_id] = torch.randn(30_000)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    assert loss.item() == pytest.approx(torch.tensor(30_000.0).log().item(), rel=1e-5)


@pytest.mark.parametrize("step", [-1, 1.0])
@pytest.mark.parametrize("make", [packed, padded, pairs])
def test_a_step_that_is_none_is_refused(make, step):
    with pytest.raises((ValueError, TypeError)):
        make()(step)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: packed_batches([], 2, 4, 0, SPECIAL), "texts is empty"),
        (lambda: padded_batches([], 2, 0, SPECIAL), "texts is empty"),
        (lambda: pair_batches([], 2, 0, SPECIAL), "sources is empty"),
        (lambda: padded_batches([[5], []], 1, 0, SPECIAL), r"texts\[1\] holds no"),
        (lambda: pair_batches([([5], [])], 1, 0, SPECIAL), r"targets\[0\] holds no"),
        (
            lambda: packed_batches([[5] * 9], 2, 4, 0, SPECIAL),
            "tokens .* at least 12, got 11",
        ),
        (lambda: packed_batches(TEXTS, 0, 4, 0, SPECIAL), "batch_size"),
        (lambda: packed_batches(TEXTS, 2, 0, 0, SPECIAL), "length"),
        (
            lambda: padded_batches(TEXTS, 24, 0, SPECIAL),
            "batch_size=24 exceeds 23 rows",
        ),
        (lambda: padded_batches(TEXTS, 2, -1, SPECIAL), "seed"),
        (
            lambda: padded_batches(TEXTS, 2, 0, SPECIAL, 10),
            r"texts\[8\] takes 11 .*=10",
        ),
        (
            lambda: pair_batches(PAIRS, 2, 0, SPECIAL, 11),
            r"targets\[9\] takes 12 .*=11",
        ),
    ],
)
def test_nonsense_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_text_that_just_fits_is_taken():
    longest = max(len(text) for text in TEXTS)
    assert padded_batches(TEXTS, 2, 0, SPECIAL, longest + 1)


def test_texts_and_numbers_that_are_no_ids_are_refused():
    for wrong in (["a text"], [[1.5, 2.5]]):
        with pytest.raises(TypeError):
            padded_batches(wrong, 1, 0, SPECIAL)


def test_padding_with_the_end_token_is_refused():
    special = SimpleNamespace(pad_id=2, bos_id=1, eos_id=2)
    with pytest.raises(ValueError, match="pad_id and eos_id are both 2"):
        padded_batches(TEXTS, 2, 0, special)
