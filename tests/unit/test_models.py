"""Whole models: equal to transformers' LLaMA, and to themselves in other orders."""

import copy
from dataclasses import dataclass, field

import pytest
import torch
from torch.nn import functional as F

from course_utils import attention
from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.diagnostics import leaks_future
from course_utils.masks import causal_mask, padding_mask
from course_utils.models import DecoderLM, Encoder, EncoderDecoder, LlamaLM
from course_utils.positions import rotary_table, sinusoidal_positions
from course_utils.recording import record
from tests.support.reference_layers import transformers_llama

VOCAB, BATCH, LENGTH = 31, 2, 9
SIZES = {"d_model": 24, "num_heads": 4, "num_layers": 3, "d_ff": 40, "max_length": 16}
STACK = StackConfig(**SIZES)


def decoders():
    gpt = StackConfig(**SIZES, activation="gelu", positions="learned")
    of = {"vocab_size": VOCAB}
    return {
        "gpt": DecoderLM(DecoderConfig(**of, stack=gpt)),
        "gpt-untied": DecoderLM(DecoderConfig(**of, stack=gpt, tied=False)),
        "llama": LlamaLM(LlamaConfig(**of, **SIZES, num_kv_heads=2)),
        "llama-untied": LlamaLM(LlamaConfig(**of, **SIZES, num_kv_heads=1, tied=False)),
    }


@pytest.fixture(params=decoders())
def decoder(request):
    torch.manual_seed(0)
    return decoders()[request.param].double().eval()


def some_ids(low=0):
    return torch.randint(low, VOCAB, (BATCH, LENGTH))


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("tied", [True, False])
def test_llama_equals_transformers_forward_and_gradients(num_kv_heads, tied):
    torch.manual_seed(num_kv_heads)
    unusual = {"num_kv_heads": num_kv_heads, "rope_base": 500.0, "norm_eps": 1e-3}
    config = LlamaConfig(vocab_size=VOCAB, **SIZES, **unusual, tied=tied)
    ours = LlamaLM(config).eval()
    for weight in ours.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    theirs = transformers_llama(ours)
    ids = some_ids(1)  # id 0 is their padding, which they train no embedding for
    logits, expected = ours(ids), theirs(ids).logits
    torch.testing.assert_close(logits, expected, atol=3e-5, rtol=1e-4)
    probe = torch.randn_like(expected)
    (logits * probe).sum().backward()
    (expected * probe).sum().backward()
    for mine, other in (
        (ours.tokens, theirs.model.embed_tokens),
        (ours.blocks[0].attention.to_keys, theirs.model.layers[0].self_attn.k_proj),
        (ours.blocks[1].feedforward.gate, theirs.model.layers[1].mlp.gate_proj),
    ):
        gradients = mine.weight.grad, other.weight.grad
        torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [4, 1, 3, 1], [LENGTH]])
def test_cached_equals_uncached(decoder, pieces):
    ids, cache = some_ids(), decoder.new_cache()
    logits = [decoder(part, cache=cache) for part in ids.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(logits, 1), decoder(ids))
    assert cache.length == LENGTH


def test_a_mask_only_ever_restricts(decoder):
    """Before, a padding mask handed to a decoder switched causality off."""
    ids = some_ids()
    everything = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    torch.testing.assert_close(decoder(ids, everything), decoder(ids))
    causal = causal_mask(LENGTH)
    torch.testing.assert_close(decoder(ids, causal), decoder(ids))
    padded = ids.clone()
    padded[0, -2:] = 0
    for mask in (everything, padding_mask(padded, 0), causal.tril(-1) | everything):
        assert not leaks_future(lambda x, m=mask: decoder(x, m), ids, VOCAB)
    without_first = everything.clone()
    without_first[1:, 0] = False
    changed = ids.clone()
    changed[:, 0] = (changed[:, 0] + 1) % VOCAB
    last = decoder(ids, without_first)[:, -1]
    torch.testing.assert_close(decoder(changed, without_first)[:, -1], last)
    assert not torch.allclose(decoder(changed)[:, -1], decoder(ids)[:, -1])


def test_who_wants_no_causality_says_so(decoder):
    ids = some_ids()
    assert leaks_future(lambda x: decoder(x, causal=False), ids, VOCAB)
    causal = decoder(ids, causal_mask(LENGTH), causal=False)
    torch.testing.assert_close(causal, decoder(ids))


def test_a_mask_restricts_with_a_cache_too(decoder):
    ids, cache = some_ids(), decoder.new_cache()
    mask = torch.rand(BATCH, 1, LENGTH, LENGTH) < 0.6
    at_once = decoder(ids, mask)
    first = decoder(ids[:, :4], mask[:, :, :4, :4], cache)
    rest = decoder(ids[:, 4:], mask[:, :, 4:], cache)
    torch.testing.assert_close(torch.cat([first, rest], 1), at_once)


def test_purely_causal_attention_says_so_to_the_kernel(decoder, monkeypatch):
    """A mask tensor would keep CUDA from its flash kernel."""
    asked, kernel = [], F.scaled_dot_product_attention

    def heard(queries, keys, values, mask=None, **options):
        asked.append((mask, options.get("is_causal", False)))
        return kernel(queries, keys, values, mask, **options)

    monkeypatch.setattr(attention, "scaled_dot_product_attention", heard)
    ids, cache = some_ids(), decoder.new_cache()
    decoder(ids)
    assert asked and all(mask is None and causal for mask, causal in asked)
    asked.clear()
    decoder(ids[:, :5], cache=cache)
    decoder(ids[:, 5:6], cache=cache)  # a single query may look at every key
    assert all(mask is None for mask, _ in asked)


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_tables_of_positions_are_not_rounded_twice(low):
    """A model cast to 16 bits and back computed with rounded tables before."""
    ids = some_ids()
    for model in [*decoders().values(), Encoder(VOCAB, STACK)]:
        model.eval()
        reference = copy.deepcopy(model)
        model.to(low).float()
        for table, exact in zip(model.buffers(), reference.buffers(), strict=True):
            assert table.dtype == torch.float32 and torch.equal(table, exact)
        reference.load_state_dict(model.state_dict())  # their weights were rounded
        assert torch.equal(model(ids), reference(ids))
    narrow = LlamaLM(LlamaConfig(vocab_size=VOCAB, d_model=24, num_heads=4)).to(low)
    assert narrow.rotary.cos.dtype == low
    assert narrow.double().rotary.cos.dtype == torch.float64
    exact, _ = rotary_table(256, 6, dtype=torch.float64)
    assert torch.equal(narrow.rotary.cos, exact)
    encoder = Encoder(VOCAB, STACK).to(low).double()
    exact = sinusoidal_positions(STACK.max_length, 24, dtype=torch.float64)
    assert torch.equal(encoder.embedding.positions.table, exact)


def test_a_step_computes_no_table(monkeypatch):
    """They are computed when a model is made, moved or cast, and then only read."""
    ids = some_ids()
    models = [*decoders().values(), Encoder(VOCAB, STACK)]
    monkeypatch.setattr("course_utils.positions._angles", None)
    for model in models:
        model(ids).sum().backward()
    with pytest.raises(TypeError):
        models[-1].double()


def test_tables_are_made_anew_when_a_model_leaves_the_meta_device():
    with torch.device("meta"):
        model = LlamaLM(LlamaConfig(vocab_size=VOCAB, d_model=24, num_heads=4))
        encoder = Encoder(VOCAB, STACK)
    model.to_empty(device="cpu")
    assert torch.equal(model.rotary.cos, rotary_table(256, 6)[0])
    encoder.to_empty(device="cpu")
    table = encoder.embedding.positions.table
    assert torch.equal(table, sinusoidal_positions(STACK.max_length, 24))


def test_fresh_decoders_have_the_std_of_gpt_2():
    """0.02, and less by the root of twice the depth where a layer writes back."""
    stack = StackConfig(d_model=64, num_heads=2, num_layers=3, positions="learned")
    sizes = {"d_model": 64, "num_heads": 2, "num_layers": 3}
    torch.manual_seed(0)
    for model in (
        DecoderLM(DecoderConfig(vocab_size=99, stack=stack)),
        LlamaLM(LlamaConfig(vocab_size=99, **sizes)),
    ):
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                writes = name.endswith(("to_output.weight", "down.weight"))
                expected = 0.02 / 6**0.5 if writes else 0.02
                assert weight.std().item() == pytest.approx(expected, rel=0.05), name
            elif name.endswith("bias"):
                assert not weight.any(), name


def test_tied_weights_are_one_tensor_and_differ_otherwise():
    models = decoders()
    for name, model in models.items():
        tied = model.head.weight is model.tokens.weight
        assert tied == ("untied" not in name)


def test_shared_weights_are_one_matrix():
    both = {"source_vocab_size": VOCAB, "target_vocab_size": VOCAB}
    both |= {"encoder": STACK, "decoder": STACK, "share_weights": True}
    model = EncoderDecoder(EncoderDecoderConfig(**both))
    table = model.embedding.tokens.weight
    assert model.head.weight is table and model.encoder.embedding.tokens.weight is table


def test_recording_leaves_no_trace_even_after_an_error(decoder):
    ids = some_ids()
    before = decoder(ids)
    with pytest.raises(RuntimeError, match="stop"), record(decoder) as seen:
        decoder(ids)
        raise RuntimeError("stop")
    assert not any(module._forward_hooks for module in decoder.modules())
    assert torch.equal(decoder(ids), before)
    with pytest.raises(KeyError, match=r"no module 'blocks\.9' ran while recording"):
        seen["blocks.9"]


def test_recordings_may_end_in_any_order():
    """The second had no weights once the first was closed."""
    model = decoders()["llama"]
    first, second = record(model), record(model)
    with first:
        second.__enter__()
    model(some_ids(2))
    second.__exit__(None, None, None)
    assert second.weights() and not first.weights()
    assert not any(getattr(module, "explicit", 0) for module in model.modules())


def test_a_config_may_get_a_field_of_any_kind():
    @dataclass(frozen=True, kw_only=True)
    class Mine(StackConfig):
        temperature: float = 1.0
        names: list = field(default_factory=list)

    assert Mine(names=["a"]).temperature == 1.0
    with pytest.raises(TypeError, match="temperature must be a number"):
        Mine(temperature="hot")


def test_encoder_and_decoder_may_differ_in_every_size():
    config = EncoderDecoderConfig(
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB + 4,
        encoder=StackConfig(d_model=20, num_heads=2, num_layers=3, d_ff=30),
        decoder=STACK,
    )
    model = EncoderDecoder(config)
    with record(model) as seen:
        model(some_ids(1), some_ids(1)[:, :4])
    shapes = {name: tuple(w.shape) for name, w in seen.weights().items()}
    assert shapes["encoder.blocks.2.attention"] == (BATCH, 2, LENGTH, LENGTH)
    assert shapes["blocks.0.attention"] == (BATCH, 4, 4, 4)
    assert shapes["blocks.2.cross_attention"] == (BATCH, 4, 4, LENGTH)
    assert Encoder(VOCAB, STACK)(some_ids(1)).shape == (BATCH, LENGTH, 24)
