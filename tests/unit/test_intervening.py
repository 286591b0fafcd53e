"""Changing what modules return: the one forward pass, with something else inside."""

import pytest
import torch
from torch import nn

from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.decoding import CachedStep, greedy
from course_utils.intervening import (
    activation_patch,
    intervene,
    mean_ablation,
    zero_ablation,
)
from course_utils.models import DecoderLM, EncoderDecoder, LlamaLM
from course_utils.recording import record
from course_utils.recurrent import RecurrentSeq2Seq

BATCH, LENGTH, HEADS, HEAD_DIM, WIDTH, VOCAB = 2, 7, 3, 8, 24, 11
SIZES = {"d_model": WIDTH, "num_heads": HEADS, "num_layers": 2, "d_ff": 20}
STACK = StackConfig(**SIZES, max_length=16)
CONTEXT = "blocks.1.attention.attend"
SCORES = "blocks.1.attention.attend.scores"


@pytest.fixture(params=["gpt", "llama"])
def model(request):
    torch.manual_seed(0)
    if request.param == "gpt":
        stack = StackConfig(**SIZES, max_length=16, positions="learned")
        made = DecoderLM(DecoderConfig(vocab_size=VOCAB, stack=stack))
    else:
        sizes = SIZES | {"num_kv_heads": 1, "max_length": 16}
        made = LlamaLM(LlamaConfig(vocab_size=VOCAB, **sizes))
    for weight in made.parameters():  # far from 0, so that every head counts
        nn.init.normal_(weight, std=0.5)
    return made.double().eval()


def some_ids(seed=0, rows=BATCH):
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(1, VOCAB, (rows, LENGTH), generator=draw)


def recording(model, *inputs):
    with torch.no_grad(), record(model) as seen:
        model(*inputs)
    return seen


def unchanged(value):
    return value


# --- heads ---------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [0, 1, [2, 0], range(HEADS), None, []])
def test_zeroed_heads_equal_their_slice_of_the_weights(model, heads):
    ids = some_ids()
    with intervene(model, {CONTEXT: zero_ablation(heads=heads)}):
        silent = model(ids)
    assert torch.allclose(silent, model(ids)) == (heads == [])
    weight = model.blocks[1].attention.to_output.weight.data
    of_heads = weight.unflatten(1, (HEADS, HEAD_DIM))
    of_heads[:, list(range(HEADS)) if heads is None else heads] = 0
    torch.testing.assert_close(silent, model(ids))


def test_the_mean_is_over_the_real_tokens_of_all_texts(model):
    ids, others = some_ids(), some_ids(1, rows=4)
    real = torch.ones(4, LENGTH, dtype=torch.bool)
    real[0, 3:] = False
    real[2, 5:] = False
    own, seen = (recording(model, texts)[CONTEXT] for texts in (ids, others))
    for given, counted in ((real, real), (None, torch.ones_like(real))):
        for length in (LENGTH, 4):  # the mean fits a text of any length
            change = mean_ablation(seen, heads=1, real=given)
            with intervene(model, {CONTEXT: change}):
                after = recording(model, ids[:, :length])[CONTEXT]
            mean = seen[:, 1][counted].mean(0).expand(BATCH, length, HEAD_DIM)
            torch.testing.assert_close(after[:, 1], mean)
            torch.testing.assert_close(after[:, 0], own[:, 0, :length])


def test_one_head_of_another_text(model):
    ids, others = some_ids(), some_ids(1)
    theirs = recording(model, others)[CONTEXT]
    with intervene(model, {CONTEXT: activation_patch(theirs, heads=2)}):
        seen = recording(model, ids)
    own = recording(model, ids)[CONTEXT]
    assert torch.equal(seen[CONTEXT][:, 2], theirs[:, 2])
    assert torch.equal(seen[CONTEXT][:, :2], own[:, :2])
    merged = torch.cat([own[:, :2], theirs[:, 2:]], dim=1).transpose(1, 2).flatten(2)
    output = model.blocks[1].attention.to_output(merged)
    torch.testing.assert_close(seen["blocks.1.attention"], output)


# --- the residual stream, positions --------------------------------------------------


def test_the_stream_of_another_text_brings_its_logits(model):
    """Bit for bit, where both run by the same kernel."""
    ids = some_ids()
    seen = recording(model, some_ids(1))
    with intervene(model, {"blocks.0": activation_patch(seen["blocks.0"])}):
        after = recording(model, ids)
    names = list(seen)
    for name in names[names.index("blocks.0") :]:
        assert torch.equal(after[name], seen[name]), name
    assert not torch.equal(after["blocks.0.attention"], seen["blocks.0.attention"])


def test_one_text_for_the_whole_batch(model):
    ids = some_ids()
    one = recording(model, ids[:1])["blocks.0"]
    with intervene(model, {"blocks.0": activation_patch(one)}):
        logits = model(ids)
    torch.testing.assert_close(logits[1], logits[0])


@pytest.mark.parametrize("positions", [4, [4], -3, [-3, 4]])
def test_a_position_moves_itself_and_what_comes_later(model, positions):
    ids, others = some_ids(), some_ids(1)
    stream = recording(model, others)["blocks.0"]
    own = recording(model, ids)["blocks.0"]
    change = activation_patch(stream, positions=positions)
    with intervene(model, {"blocks.0": change}):
        seen = recording(model, ids)
    rest = [0, 1, 2, 3, 5, 6]
    assert torch.equal(seen["blocks.0"][:, 4], stream[:, 4])
    assert torch.equal(seen["blocks.0"][:, rest], own[:, rest])
    moved = (seen["head"] - recording(model, ids)["head"]).abs().amax(dim=(0, 2))
    assert moved[:4].max() < 1e-12 and moved[4:].min() > 1e-6


def test_heads_and_positions_together(model):
    change = zero_ablation(heads=[0, 2], positions=[1, -1])
    with intervene(model, {CONTEXT: change}):
        seen = recording(model, some_ids())[CONTEXT]
    zero = (seen == 0).all(dim=-1).all(dim=0)  # "h q"
    expected = torch.zeros(HEADS, LENGTH, dtype=torch.bool)
    for head in (0, 2):
        expected[head, [1, LENGTH - 1]] = True
    assert torch.equal(zero, expected)


# --- scores --------------------------------------------------------------------------


def test_scores_of_minus_infinity_are_a_mask(model):
    ids = some_ids()
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    mask[3:, 2] = False

    def hide(scores):
        return scores.masked_fill(~mask, -torch.inf)

    points = {f"blocks.{layer}.attention.attend.scores": hide for layer in range(2)}
    with intervene(model, points):
        hidden = model(ids)
    torch.testing.assert_close(hidden, model(ids, mask))  # by the fused kernel
    assert not torch.allclose(hidden, model(ids))
    with record(model):
        assert torch.equal(hidden, model(ids, mask))  # step by step, as the scores were


def test_scores_of_the_recurrent_model():
    torch.manual_seed(0)
    model = RecurrentSeq2Seq(VOCAB, VOCAB, 8)

    def first_word(scores):
        hidden = torch.full_like(scores, -torch.inf)
        hidden[..., 0] = 0
        return hidden

    with intervene(model, {"attention.attend.scores": first_word}):
        weights = recording(model, some_ids(), some_ids(1)).weights()["attention"]
    assert torch.equal(weights[..., 0], torch.ones_like(weights[..., 0]))


# --- nothing else is touched ---------------------------------------------------------


def test_a_change_to_the_same_is_no_change(model):
    """The fused kernel stays, but where an `attend.` point is changed: rounding."""
    ids = some_ids()
    before = model(ids)
    seen = recording(model, ids)
    assert CONTEXT in seen and "blocks.1" in seen and "" in seen
    for name in seen:
        with intervene(model, {name: unchanged}):
            after = model(ids)
        if ".attend." not in name:
            assert torch.equal(after, before), name
            continue
        layer = model.get_submodule(name.rpartition(".")[0])
        layer.explicit = 1
        assert torch.equal(after, model(ids)), name
        layer.explicit = 0
        torch.testing.assert_close(after, before, atol=1e-12, rtol=1e-12)
    everything = dict.fromkeys(seen, unchanged)
    with intervene(model, everything):
        after = model(ids)
    with record(model):
        assert torch.equal(after, model(ids))


def hooks_of(model):
    return [
        name
        for name, module in model.named_modules()
        if module._forward_hooks
        or module._forward_pre_hooks
        or getattr(module, "explicit", False)
    ]


def test_the_model_is_as_before_even_after_an_error(model):
    ids = some_ids()
    before = model(ids)
    changes = {SCORES: unchanged, CONTEXT: zero_ablation(), "blocks.0": zero_ablation()}
    with intervene(model, changes):
        assert not torch.allclose(model(ids), before)
        assert sorted(hooks_of(model)) == ["blocks.0", CONTEXT, SCORES]
    assert hooks_of(model) == [] and torch.equal(model(ids), before)
    with pytest.raises(RuntimeError, match="stop"), intervene(model, changes):
        raise RuntimeError("stop")  # not the KeyError of modules that did not run
    assert hooks_of(model) == []
    with pytest.raises(ZeroDivisionError), intervene(model, {SCORES: lambda x: 1 / 0}):
        model(ids)
    assert hooks_of(model) == []
    with (
        pytest.raises(KeyError, match="did you mean"),
        intervene(model, changes | {"blocks.5": unchanged}),
    ):
        raise AssertionError("the block must not begin")
    assert hooks_of(model) == [] and torch.equal(model(ids), before)


def test_the_recording_shows_what_was_changed_to(model):
    ids = some_ids()
    own = recording(model, ids)
    changes = {CONTEXT: zero_ablation(heads=1), "blocks.0": lambda stream: 2 * stream}
    with intervene(model, changes), record(model) as inside:
        model(ids)
    with record(model) as outside, intervene(model, changes):
        model(ids)
    for seen in (inside, outside):
        torch.testing.assert_close(seen["blocks.0"], 2 * own["blocks.0"])
        assert not seen[CONTEXT][:, 1].any() and seen[CONTEXT][:, 0].any()
    assert torch.equal(inside[""], outside[""])


def test_of_nested_changes_the_inner_one_acts_first(model):
    ids = some_ids()
    own = recording(model, ids)["blocks.0"]
    with (
        intervene(model, {"blocks.0": lambda stream: stream + 1, SCORES: unchanged}),
        intervene(model, {"blocks.0": lambda stream: 3 * stream, SCORES: unchanged}),
    ):
        nested = recording(model, ids)["blocks.0"]
    torch.testing.assert_close(nested, 3 * own + 1)
    with intervene(model, {SCORES: lambda scores: 2 * scores}):
        outer = model(ids)
        with intervene(model, {SCORES: lambda scores: -scores}):
            assert not torch.allclose(model(ids), outer)
        assert torch.equal(model(ids), outer)  # the inner one left the outer one alone
    assert hooks_of(model) == []


def test_a_silent_head_gets_no_gradient(model):
    queries = model.blocks[1].attention.to_queries.weight
    with intervene(model, {CONTEXT: zero_ablation(heads=1)}):
        model(some_ids()).square().mean().backward()
    of_heads = queries.grad.unflatten(0, (HEADS, HEAD_DIM)).abs().amax(dim=(1, 2))
    assert of_heads[1] == 0 and of_heads[0] > 0 and of_heads[2] > 0


def test_a_cache_gives_what_the_whole_text_gives(model):
    ids = some_ids()
    changes = {CONTEXT: zero_ablation(heads=[0, 2]), SCORES: lambda scores: 2 * scores}
    cache = model.new_cache()
    with torch.no_grad(), intervene(model, changes):
        full = model(ids)
        parts = [model(part, cache=cache) for part in ids.split([3, 1, 3], dim=1)]
        fast = greedy(CachedStep(model), ids, 5)
        slow = greedy(lambda given: model(given)[:, -1], ids, 5)
    torch.testing.assert_close(torch.cat(parts, dim=1), full)
    assert torch.equal(fast, slow)
    assert not torch.allclose(model(ids), full)


def test_a_change_in_place_reaches_nothing_else(model):
    """A module that returns its input would hand over the cache itself."""
    ids = some_ids()

    def erase(keys):
        keys.zero_()
        return keys

    caches = [model.new_cache(), model.new_cache()]
    model(ids, cache=caches[0])
    with intervene(model, {"blocks.1.attention.attend.keys": erase}):
        changed = model(ids, cache=caches[1])
    assert not torch.allclose(changed, model(ids))
    assert torch.equal(caches[0].layers[1].keys, caches[1].layers[1].keys)


def test_cross_attention_of_the_translator():
    torch.manual_seed(0)
    sizes = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB}
    config = EncoderDecoderConfig(**sizes, encoder=STACK, decoder=STACK)
    model = EncoderDecoder(config).eval()
    source, target = some_ids(), some_ids(1)
    changes = {f"blocks.{layer}.cross_attention": zero_ablation() for layer in (0, 1)}
    with intervene(model, changes):
        deaf = [model(text, target) for text in (source, source.roll(1, dims=1))]
    assert torch.equal(*deaf)


def test_a_module_that_never_ran_is_named_at_the_end(model):
    with (
        pytest.raises(KeyError, match=r"'blocks\.1' ran inside"),
        intervene(model, {"blocks.1": unchanged}),
    ):
        model.blocks[0]
    with (
        pytest.raises(KeyError, match="no module 'blocks' ran inside"),
        intervene(model, {"blocks.1": unchanged, "blocks": unchanged}),
    ):
        model(some_ids())
