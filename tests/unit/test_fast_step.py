"""FastStep says what CachedStep says; only the time differs."""

import pytest
import torch

from course_utils.config import LlamaConfig
from course_utils.decoding import CachedStep, greedy, sample
from course_utils.fast_step import FastStep
from course_utils.models import LlamaLM

SIZES = {"d_model": 24, "num_layers": 3, "d_ff": 20, "max_length": 200}
KINDS = {
    "each head its keys": {"num_heads": 3},
    "grouped": {"num_heads": 6, "num_kv_heads": 2},
    "one key for all": {"num_heads": 4, "num_kv_heads": 1, "tied": False},
    "another base": {"num_heads": 2, "rope_base": 100.0, "norm_eps": 0.01},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def model_of(kind, dtype=torch.float64):
    torch.manual_seed(1)
    model = LlamaLM(LlamaConfig(vocab_size=11, **SIZES, **KINDS[kind]))
    for weight in model.parameters():  # all weights matter, those of the norms too
        torch.nn.init.normal_(weight, std=0.5)
    return model.to(dtype).eval()


def prompts(rows, length):
    generator = torch.Generator().manual_seed(2)
    return torch.randint(0, 11, (rows, length), generator=generator)


@every_kind
@pytest.mark.parametrize("rows, length", [(1, 1), (1, 70), (3, 5)])
def test_the_scores_are_those_of_the_model(kind, rows, length):
    model, ids = model_of(kind), prompts(rows, 200)
    step = FastStep(model)
    with torch.no_grad():
        logits = model(ids)
    ends = [length, length + 1, length + 2, length + 7, 150, 151, 200]
    for end in ends:  # one token at a time and several, while the room grows
        torch.testing.assert_close(step(ids[:, :end]), logits[:, end - 1])


@pytest.mark.slow
@every_kind
def test_the_text_is_the_same(kind):
    model, prompt = model_of(kind), prompts(3, 5)
    expected = greedy(CachedStep(model), prompt, 190)
    assert torch.equal(greedy(FastStep(model), prompt, 190), expected)
    draws = [
        sample(step, prompt, 60, generator=torch.Generator().manual_seed(3))
        for step in (CachedStep(model), FastStep(model))
    ]
    assert torch.equal(*draws)


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-4), (torch.bfloat16, 0.2)])
def test_other_types_are_as_close_as_their_precision(dtype, limit):
    exact, ids = model_of("grouped"), prompts(2, 30)
    torch.nn.init.normal_(exact.tokens.weight, std=0.1)
    rough = model_of("grouped", dtype)
    rough.load_state_dict(exact.state_dict())
    with torch.no_grad():
        logits = rough(ids)[:, -1]
    scores = FastStep(rough)(ids)
    assert scores.dtype == dtype
    assert (scores - logits).abs().max() < limit * logits.abs().max()


def test_the_weights_are_those_of_the_moment():
    model, ids = model_of("grouped"), prompts(1, 4)
    step, again = FastStep(model), FastStep(model)
    before = step(ids)
    with torch.no_grad():
        for block in model.blocks:
            block.feedforward.down.weight.zero_()
    torch.testing.assert_close(again(ids), before)
    assert not torch.allclose(FastStep(model)(ids), before)


def test_it_refuses_what_it_cannot_continue():
    model, ids = model_of("grouped"), prompts(2, 200)
    step = FastStep(model)
    step(ids[:, :5])
    with pytest.raises(ValueError, match="all 5 are known"):
        step(ids[:, :5])
    with pytest.raises(ValueError, match="an earlier id"):
        step(ids[:1, :6])
    with pytest.raises(ValueError, match="max_length=200"):
        step(torch.cat([ids, ids], dim=1)[:, :201].clone())
    with pytest.raises(ValueError, match="ids"):
        FastStep(model)(ids + 5)


def test_what_failed_leaves_no_trace():
    model, ids = model_of("grouped"), prompts(1, 9)
    step, wrong = FastStep(model), prompts(1, 9)
    step(ids[:, :4])
    wrong[0, 6] = 11
    with pytest.raises(ValueError, match="ids"):
        step(wrong)
    with torch.no_grad():
        torch.testing.assert_close(step(ids), model(ids)[:, -1])


def test_the_room_for_keys_doubles_as_it_is_needed():
    model, ids = model_of("grouped"), prompts(1, 200)
    step, sizes = FastStep(model), []
    for end in (5, 64, 65, 129, 200):
        step(ids[:, :end])
        sizes.append(step.room.shape[-2])
    assert sizes == [64, 64, 128, 200, 200]
