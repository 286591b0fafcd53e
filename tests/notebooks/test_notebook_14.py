"""What notebook 14 builds is the package's: the chooser, the cache, the fast loop."""

import re

import pytest
import torch
from nb14_cache import cached_step, keys_computed
from nb14_top_k import min_p_probabilities

from course_utils.attention import attend
from course_utils.cache import LayerCache
from course_utils.config import LlamaConfig
from course_utils.decoding import (
    CachedStep,
    greedy,
    next_token_probabilities,
    sample,
)
from course_utils.masks import causal_mask
from course_utils.models import LlamaLM
from course_utils.positions import rotary_table, rotate
from tests.support import notebook_code

BATCH, PROMPT, NEW, VOCAB, STOP = 2, 3, 9, 31, 2
NAMES = ("next_token_chances", "write", "KVCache", "CachedStep", "Colleague")
NAMES += ("cached_attention",)
NAMES += ("columns", "lay_out", "rms_norm", "fast_block", "fast_greedy")
NAMES += ("quantize", "quantized")
KNOWN = {"storyteller": None}


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"d_model": 24, "num_heads": 4, "num_kv_heads": 2, "num_layers": 3}
    config = LlamaConfig(vocab_size=VOCAB, **sizes, d_ff=40, max_length=20)
    model = LlamaLM(config).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("top_k", [None, 1, 7])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.6, 0.95])
def test_the_chances_are_the_packages(built, temperature, top_k, top_p):
    torch.manual_seed(0)
    scores = 3 * torch.randn(BATCH, VOCAB, dtype=torch.float64)
    setting = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    ours = built["next_token_chances"](scores, **setting)
    torch.testing.assert_close(ours, next_token_probabilities(scores, **setting))


def test_the_cache_is_the_packages_layer_cache(built):
    ours, theirs = built["KVCache"](), LayerCache()
    for new in (3, 1, 2):
        keys, values = torch.randn(2, BATCH, 4, new, 5)
        torch.testing.assert_close(
            ours.append(keys, values), theirs.append(keys, values)
        )


def test_the_cached_step_is_the_packages(built, model, monkeypatch):
    monkeypatch.setitem(built, "KVCache", LayerCache)  # the model's signature asks so
    ours, theirs = built["CachedStep"](model), CachedStep(model)
    wrong = built["Colleague"](model)
    ids = torch.randint(4, VOCAB, (BATCH, PROMPT + NEW))
    for end in (PROMPT, PROMPT + 1, PROMPT + 4, PROMPT + NEW):
        torch.testing.assert_close(ours(ids[:, :end]), theirs(ids[:, :end]))
        right = torch.allclose(wrong(ids[:, :end]), model(ids[:, :end])[:, -1])
        assert right == (end == PROMPT)


def test_a_layer_that_keeps_is_the_layer(built):
    sizes = {"d_model": 24, "num_heads": 4, "num_layers": 1, "d_ff": 40}
    model = LlamaLM(LlamaConfig(vocab_size=VOCAB, **sizes)).double()
    layer, cache = model.blocks[0].attention, built["KVCache"]()
    x = torch.randn(BATCH, 12, 24, dtype=torch.float64)
    parts = []
    for start, stop in ((0, 7), (7, 8), (8, 12)):
        mask = torch.ones(stop - start, stop, dtype=torch.bool).tril(start)
        rotary = model.rotary(start, stop - start)
        new = x[:, start:stop]
        parts.append(built["cached_attention"](layer, new, rotary, mask, cache))
    whole = layer(x, model.rotary(0, 12), causal_mask(12))
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_the_loop_writes_what_sample_writes(built, model):
    prompt = torch.randint(4, VOCAB, (BATCH, PROMPT))
    setting = {"temperature": 0.8, "top_k": 20, "top_p": 0.9}
    ours = built["write"](CachedStep(model), prompt, NEW, seed=5, **setting)
    dice = torch.Generator().manual_seed(5)
    theirs = sample(CachedStep(model), prompt, NEW, generator=dice, **setting)
    assert torch.equal(ours, theirs)


def test_the_loop_stops_behind_the_end(built):
    ids = built["write"](
        lambda ids: torch.eye(VOCAB)[[STOP]] * 99, torch.ones(1, 1).long(), 5, stop_id=2
    )
    assert ids.tolist() == [[1, STOP]]


def test_steps_with_a_cache_are_one_pass_under_a_causal_mask():
    queries, keys, values = torch.randn(3, BATCH, 4, NEW, 6)
    table = rotary_table(NEW + 1, 6)
    rotary = [side[:NEW] for side in table]
    turned = rotate(queries, *rotary), rotate(keys, *rotary)
    expected = attend(*turned, values, causal_mask(NEW))
    cache = keys[:, :, :0], values[:, :, :0]
    for t in range(NEW):
        new = (one[:, :, t, None] for one in (queries, keys, values))
        context, *cache = cached_step(*new, *cache, *table)
        torch.testing.assert_close(context[:, :, 0], expected[:, :, t])
    torch.testing.assert_close(tuple(cache), (turned[1], values))


def test_what_a_cache_saves_is_what_the_model_reads(model):
    def read(step):
        lengths, ids = [], torch.ones(1, 1, dtype=torch.long)
        hook = model.tokens.register_forward_hook(
            lambda layer, given, out: lengths.append(out.shape[1])
        )
        sample(step, ids, NEW)
        hook.remove()
        return sum(lengths)

    keys_read = read(lambda ids: model(ids)[:, -1]), read(CachedStep(model))
    assert keys_read == keys_computed(NEW)


def test_min_p_between_everything_and_the_best():
    scores = torch.randn(BATCH, VOCAB)
    torch.testing.assert_close(min_p_probabilities(scores, 1e-9), scores.softmax(-1))
    best = torch.nn.functional.one_hot(scores.argmax(-1), VOCAB).float()
    torch.testing.assert_close(min_p_probabilities(scores, 1.0), best)


def test_the_fast_loop_writes_what_greedy_writes(built, monkeypatch):
    monkeypatch.setitem(built, "KVCache", LayerCache)
    torch.manual_seed(1)
    sizes = {"d_model": 24, "num_heads": 4, "num_layers": 3}  # a head of keys for each
    config = LlamaConfig(vocab_size=VOCAB, **sizes, d_ff=40, max_length=20)
    model = LlamaLM(config).eval().requires_grad_(False)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    prompt = torch.randint(4, VOCAB, (1, PROMPT))
    theirs = greedy(CachedStep(model), prompt, NEW)
    assert torch.equal(built["fast_greedy"](model, prompt, NEW), theirs)


@pytest.mark.parametrize("size", [24, 6])
def test_a_rounded_weight_is_one_of_a_few_levels(built, size):
    weight = torch.randn(8, 24, dtype=torch.float64)
    rounded = built["quantize"](weight, 3, size).reshape(-1, size)
    groups = weight.reshape(-1, size)
    largest = groups.abs().amax(1, keepdim=True)
    levels = rounded / largest * 3  # -3 to 3
    torch.testing.assert_close(levels, levels.round())
    assert ((rounded - groups).abs() <= largest / 6 + 1e-12).all()
    torch.testing.assert_close(rounded.abs().amax(1, keepdim=True), largest)


def test_more_bits_and_fewer_sharers_round_less(built, model):
    def error(bits, sharing):
        rounded = built["quantized"](model, bits, sharing)
        pairs = zip(model.parameters(), rounded.parameters(), strict=True)
        return sum((a - b).square().sum() for a, b in pairs if a.ndim == 2)

    assert error(3, "matrix") > error(3, "row") > error(4, "row") > error(8, "row")


def test_at_four_bits_one_new_name_is_lost_and_the_others_stay():
    cells = notebook_code.code_cells("14")
    (outputs,) = [outs for source, outs in cells if "def begin_stories" in source]
    (line,) = re.findall(r"^4 bits.*$", "".join(outputs[0]["text"]), re.MULTILINE)
    kept = {name: int(count) for name, count in re.findall(r"(\w+) +(\d+)\b", line[7:])}
    assert kept.pop("Zog") < 8 and set(kept.values()) == {32} and len(kept) == 4
