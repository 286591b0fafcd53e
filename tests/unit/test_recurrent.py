"""The recurrent encoder-decoder: a loop written by hand agrees; padding is nothing."""

import pytest
import torch
from torch import nn

from course_utils.decoding import TranslationStep, beam_search, greedy
from course_utils.diagnostics import (
    dead_parameters,
    ignores_source,
    leaks_future,
)
from course_utils.recording import record
from course_utils.recurrent import (
    SCORES,
    RecurrentAttention,
    RecurrentSeq2Seq,
    ScoredAttend,
)

BATCH, SOURCE, TARGET, WIDTH, READS, WRITES = 2, 5, 4, 6, 13, 11
choices = pytest.mark.parametrize("score", [None, *SCORES])


def model(score="general"):
    return RecurrentSeq2Seq(READS, WRITES, WIDTH, score=score).double().eval()


def pair():
    source = torch.randint(1, READS, (BATCH, SOURCE))
    return source, torch.randint(1, WRITES, (BATCH, TARGET))


def gru_step(layer, x, h):
    """One step of nn.GRU, from its weights (Cho et al. 2014, equations 5 to 8)."""
    reset, update, new = (layer.weight_ih_l0 @ x + layer.bias_ih_l0).chunk(3)
    again = (layer.weight_hh_l0 @ h + layer.bias_hh_l0).chunk(3)
    update = (update + again[1]).sigmoid()
    new = (new + (reset + again[0]).sigmoid() * again[2]).tanh()
    return update * h + (1 - update) * new


def one_score(attend, q, k):
    """One number for one query and one key; which score it is, its weights tell."""
    weights = dict(attend.score.named_parameters())
    if "to_score.weight" in weights:
        inner = weights["to_queries.weight"] @ q + weights["to_keys.weight"] @ k
        return weights["to_score.weight"][0] @ inner.tanh()
    if "to_keys.weight" in weights:
        return q @ (weights["to_keys.weight"] @ k)
    if "sharpness" in weights:
        return weights["sharpness"] * (q @ k) / q.norm() / k.norm()
    return q @ k


def by_hand(model, source, target):
    """Logits of one pair without padding: loops over positions, vectors only."""
    h, memory, rows = torch.zeros(WIDTH, dtype=torch.float64), [], []
    for id in source:
        h = gru_step(model.encoder, model.source_embedding.weight[id], h)
        memory.append(h)
    for id in target:
        h = gru_step(model.decoder, model.target_embedding.weight[id], h)
        seen = h
        if model.attention is not None:
            attend = model.attention.attend
            scores = torch.stack([one_score(attend, h, k) for k in memory])
            weights = scores.exp() / scores.exp().sum()
            context = sum(w * k for w, k in zip(weights, memory, strict=True))
            seen = (model.attention.combine.weight @ torch.cat([context, h])).tanh()
        rows.append(model.head.weight @ seen + model.head.bias)
    return torch.stack(rows)


@choices
def test_it_is_the_loop_written_by_hand(score):
    ours, (source, target) = model(score), pair()
    rows = [by_hand(ours, *row) for row in zip(source, target, strict=True)]
    torch.testing.assert_close(ours(source, target), torch.stack(rows))


def test_without_attention_it_is_two_grus():
    ours, (source, target) = model(None), pair()
    _, state = ours.encoder(ours.source_embedding(source))
    states, _ = ours.decoder(ours.target_embedding(target), state)
    torch.testing.assert_close(ours(source, target), ours.head(states))


@choices
def test_padding_is_nothing(score):
    ours, (source, target) = model(score), pair()
    padded = torch.cat([source, torch.zeros(BATCH, 3, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(ours(padded, target), ours(source, target))
    longer = torch.cat([target, torch.zeros(BATCH, 2, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(ours(source, longer)[:, :TARGET], ours(source, target))
    lengths_differ = source.clone()
    lengths_differ[1, 2:] = 0
    alone = ours(source[1:, :2], target[1:])
    torch.testing.assert_close(ours(lengths_differ, target)[1:], alone)


@pytest.mark.parametrize("score", SCORES)
def test_recorded_weights_recompute_the_output(score):
    ours, (source, target) = model(score), pair()
    source[0, 3:] = 0
    with record(ours) as seen:
        logits = ours(source, target)
    weights = seen.weights()["attention"]
    assert weights.shape == (BATCH, 1, TARGET, SOURCE)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 1, TARGET).double())
    assert not weights[0, ..., 3:].any()
    memory = ours.encode(source)
    first = torch.stack([memory[0, 2], memory[1, -1]])[None]
    states, _ = ours.decoder(seen["target_embedding"], first)
    context = weights[:, 0] @ memory
    state = ours.attention.combine(torch.cat([context, states], dim=-1)).tanh()
    torch.testing.assert_close(ours.head(state), logits)
    scores = seen["attention.attend.scores"]
    torch.testing.assert_close(scores[1].softmax(-1), weights[1])
    torch.testing.assert_close(ours(source, target), logits)


@choices
def test_it_writes_from_left_to_right_and_listens(score):
    ours, (source, target) = model(score), pair()
    assert not leaks_future(lambda ids: ours(source, ids), target, WRITES)
    assert not ignores_source(ours, source, target, READS)
    assert dead_parameters(ours, lambda: ours(source, target).square().sum()) == []


@choices
def test_greedy_is_the_argmax_of_teacher_forcing(score):
    ours, (source, _) = model(score), pair()
    bos = torch.ones(BATCH, 1, dtype=torch.int64)
    written = greedy(TranslationStep(ours, source), bos, TARGET)
    assert torch.equal(ours(source, written[:, :-1]).argmax(-1), written[:, 1:])
    beam = beam_search(
        TranslationStep(ours, source), bos, TARGET, beams=1, stop_id=2, pad_id=0
    )
    assert torch.equal(beam[:, :2], written[:, :2])


def test_attention_alone_takes_any_length_and_no_mask():
    attention = RecurrentAttention(WIDTH, "dot").double()
    states, memory = torch.randn(2, TARGET, WIDTH), torch.randn(2, SOURCE, WIDTH)
    out = attention(states.double(), memory.double())
    assert out.shape == (2, TARGET, WIDTH)
    assert isinstance(attention.attend, ScoredAttend)
    assert isinstance(attention.attend.weights, nn.Identity)


@pytest.mark.parametrize(
    "source, words",
    [
        ([[0, 3, 4]], "source begin token row 0"),
        ([[3, 0, 4]], "source pad_id=0 end row 0"),
        ([[3, 4, 5], [0, 0, 0]], "source begin token row 1"),
        ([[3, READS]], "source vocab_size 13"),
    ],
)
def test_a_source_that_cannot_be_read_is_refused(source, words):
    with pytest.raises(ValueError) as error:
        model().encode(torch.tensor(source))
    assert all(word in str(error.value) for word in words.split())
