"""Changing what modules return: the one forward pass, with something else inside."""

import pytest
import torch
import transformers
from torch import nn

from course_utils.attention import MultiHeadAttention
from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.decoding import CachedStep, greedy
from course_utils.export import export_llama
from course_utils.looking.heads import find_all_heads
from course_utils.looking.intervening import (
    activation_patch,
    intervene,
    mean_ablation,
    zero_ablation,
)
from course_utils.looking.recording import record
from course_utils.models import DecoderLM, EncoderDecoder, LlamaLM
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
        made = DecoderLM(DecoderConfig(vocab_size=VOCAB, stack=STACK))
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
        layer.explicit = True
        assert torch.equal(after, model(ids)), name
        layer.explicit = False
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
    assert not torch.equal(greedy(CachedStep(model), ids, 5), fast)


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


# --- models of transformers ----------------------------------------------------------

TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
USUAL = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 16,
    **TOKENS,
}


def gpt2():
    sizes = {"n_positions": 16, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS}
    config = transformers.GPT2Config(vocab_size=VOCAB, **sizes, **TOKENS)
    return transformers.GPT2LMHeadModel(config)


def llama():
    """Heads of a width of their own: 4 · 8 is more than the model's 24."""
    sizes = USUAL | {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, head_dim=HEAD_DIM)
    return transformers.LlamaForCausalLM(config)


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**USUAL))


def opt():
    return transformers.OPTForCausalLM(
        transformers.OPTConfig(**USUAL, ffn_dim=20, word_embed_proj_dim=WIDTH)
    )


def t5():
    sizes = {"d_model": WIDTH, "d_kv": 5, "d_ff": 20, "num_layers": 2}
    ends = {"eos_token_id": 2, "pad_token_id": 0}
    config = transformers.T5Config(vocab_size=VOCAB, **sizes, num_heads=HEADS, **ends)
    return transformers.T5EncoderModel(config)


# maker -> where attention is; below it the output projection and the values; a block
FOREIGN = {
    gpt2: "transformer.h.1.attn c_proj c_attn transformer.h.0",
    llama: "model.layers.1.self_attn o_proj v_proj model.layers.0",
    bert: "bert.encoder.layer.1.attention output.dense self.value bert.encoder.layer.0",
    opt: "model.decoder.layers.1.self_attn out_proj v_proj model.decoder.layers.0",
    t5: "encoder.block.1.layer.0.SelfAttention o v encoder.block.0.layer.1",
}


def output_of(model, ids):
    return model(ids)[0]  # logits, or the last hidden state


@pytest.fixture(params=FOREIGN, ids=lambda maker: maker.__name__)
def foreign(request):
    """A small random model, its second layer, that one's parts, and a block."""
    torch.manual_seed(0)
    model = request.param()
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.3)
    place, *below, block = FOREIGN[request.param].split()
    layer = f"{place}.self" if request.param is bert else place
    return model.double().eval(), layer, *(f"{place}.{name}" for name in below), block


def test_the_context_of_a_foreign_layer_is_weights_times_values(foreign):
    model, layer, projection, values, _ = foreign
    model.set_attn_implementation("eager")
    with torch.no_grad(), record(model) as seen:
        weights = model(some_ids(), output_attentions=True).attentions[1]
    context = seen[f"{layer}.attend"]
    heads, width = context.shape[1], context.shape[3]
    value = seen[values]
    if values.endswith("c_attn"):  # queries, keys and values of all heads
        value = value.chunk(3, dim=-1)[2]
    value = value.unflatten(-1, (-1, width)).transpose(1, 2)
    value = value.repeat_interleave(heads // value.shape[1], dim=1)
    torch.testing.assert_close(context, weights @ value)
    merged = context.transpose(1, 2).flatten(2)
    output = model.get_submodule(projection)(merged)
    torch.testing.assert_close(output, seen[projection])


def test_a_zeroed_head_of_a_foreign_layer_equals_its_slice_of_the_weights(foreign):
    model, layer, projection, _, _ = foreign
    ids = some_ids()
    name = f"{layer}.attend"
    before = output_of(model, ids)
    width = find_all_heads(model)[layer].head_dim or 5  # T5 does not say its 5
    with intervene(model, {name: unchanged}):
        assert torch.equal(output_of(model, ids), before)
    with intervene(model, {name: zero_ablation(heads=1)}):
        silent = output_of(model, ids)
    assert not torch.allclose(silent, before)
    weight = model.get_submodule(projection).weight.data
    of_head = slice(width, 2 * width)
    if projection.endswith("c_proj"):  # GPT-2 keeps its matrices transposed
        weight[of_head] = 0
    else:
        weight[:, of_head] = 0
    torch.testing.assert_close(output_of(model, ids), silent)


def test_means_and_patches_of_a_foreign_model_are_one_line_each(foreign):
    model, layer, projection, _, block = foreign
    name = f"{layer}.attend"
    ids, others = some_ids(), some_ids(1)
    with torch.no_grad(), record(model) as theirs:
        expected = output_of(model, others)
    patch = activation_patch(theirs[name], heads=0)
    mean = mean_ablation(theirs[name], heads=1)
    with intervene(model, {name: lambda context: mean(patch(context))}):
        seen = recording(model, ids)[name]
    assert torch.equal(seen[:, 0], theirs[name][:, 0])
    of_all = theirs[name][:, 1].mean(dim=(0, 1))
    torch.testing.assert_close(seen[:, 1], of_all.expand_as(seen[:, 1]))
    with record(model) as around, intervene(model, {name: zero_ablation(heads=1)}):
        output_of(model, ids)
    assert not around[name][:, 1].any() and around[name][:, 0].any()
    with torch.no_grad(), intervene(model, {block: activation_patch(theirs[block])}):
        assert torch.equal(output_of(model, ids), expected)
    with intervene(model, {projection: zero_ablation(positions=2)}):
        assert not recording(model, ids)[projection][:, 2].any()
    assert hooks_of(model) == []


def test_our_model_and_its_export_change_alike(tmp_path):
    torch.manual_seed(0)
    ours = LlamaLM(LlamaConfig(vocab_size=VOCAB, **SIZES, max_length=16)).eval()
    for weight in ours.parameters():
        nn.init.normal_(weight, std=0.3)
    export_llama(ours, tmp_path)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    ids, others = some_ids(), some_ids(1)
    context = recording(ours, others)[CONTEXT]
    for change in (
        zero_ablation(heads=1, positions=[2, -1]),
        mean_ablation(context, heads=[0, 2]),
        activation_patch(context, heads=2),
    ):
        with intervene(ours, {CONTEXT: change}):
            expected = ours(ids)
        with intervene(theirs, {"model.layers.1.self_attn.attend": change}):
            torch.testing.assert_close(theirs(ids).logits, expected)
        assert not torch.allclose(expected, ours(ids))


def test_a_foreign_model_writes_with_a_silent_head():
    torch.manual_seed(0)
    model = gpt2().double().eval()
    ids = some_ids()
    changes = {
        f"{layer}.attend": zero_ablation(heads=[0, 2])
        for layer in find_all_heads(model)
    }
    options = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    with intervene(model, changes):
        fast = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        slow = greedy(lambda given: model(given).logits[:, -1], ids, 4)
    assert torch.equal(fast, slow)


def test_the_layers_of_this_package_have_their_own_context(model):
    assert find_all_heads(model) == {}


class Reader(nn.Module):
    """An attention layer of someone else's, with heads side by side or not."""

    def __init__(self, **attributes):
        super().__init__()
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        return self.c_proj(x)


def test_heads_that_cannot_be_known_are_refused():
    config = transformers.GPT2Config(n_head=2)
    layers = {
        "fused": nn.MultiheadAttention(8, 2),
        "nameless": Reader(num_heads=2, mix=nn.Linear(8, 8)),
        "countless": Reader(head_dim=2, c_proj=nn.Linear(8, 8)),
        "feedforward": Reader(config=config, c_proj=nn.Linear(8, 8)),
    }
    model = nn.ModuleDict(layers)
    assert find_all_heads(model) == {}
    for name in layers:
        with (
            pytest.raises(KeyError, match=rf"no module '{name}\.attend' in the model"),
            intervene(model, {f"{name}.attend": unchanged}),
        ):
            raise AssertionError("the block must not begin")
    with record(model["feedforward"]) as seen:
        model["feedforward"](torch.zeros(2, 5, 8))
    assert "attend" not in seen


@pytest.mark.parametrize(
    ("attributes", "given"),
    [
        ({"num_heads": 3}, torch.zeros(2, 5, 8)),  # 8 is not divisible by 3
        ({"num_heads": 2, "head_dim": 3}, torch.zeros(2, 5, 8)),
        ({"num_heads": 2}, torch.zeros(5, 8)),
    ],
)
def test_heads_that_do_not_fit_are_refused_and_not_recorded(attributes, given):
    layer = Reader(c_proj=nn.Linear(8, 8), **attributes)
    with record(layer) as seen:
        layer(given)
    assert "attend" not in seen and "c_proj" in seen
    with (
        pytest.raises(ValueError, match=r"changes\['attend'\]: .* must be given"),
        intervene(layer, {"attend": unchanged}),
    ):
        layer(given)


def test_a_single_attention_layer_of_either_kind():
    torch.manual_seed(0)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    ours = MultiHeadAttention(WIDTH, HEADS)
    theirs = Reader(num_heads=HEADS, c_proj=nn.Linear(WIDTH, WIDTH))
    for layer, bias in ((ours, ours.to_output.bias), (theirs, theirs.c_proj.bias)):
        with intervene(layer, {"attend": zero_ablation()}), record(layer) as seen:
            assert torch.equal(layer(x), bias.expand(BATCH, LENGTH, WIDTH))
        assert seen["attend"].shape == (BATCH, HEADS, LENGTH, HEAD_DIM)
