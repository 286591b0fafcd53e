"""Whole models: equal to transformers' LLaMA, and to themselves in other orders."""

import pytest
import torch
from twins import llama_twin

from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.models import DecoderLM, Encoder, EncoderDecoder, LlamaLM
from course_utils.recording import record

VOCAB, BATCH, LENGTH = 31, 2, 9
STACK = StackConfig(24, 4, 3, 40, max_length=16)


def decoders():
    gpt = StackConfig(24, 4, 3, 40, 16, activation="gelu", positions="learned")
    return {
        "gpt": DecoderLM(DecoderConfig(VOCAB, gpt)),
        "gpt-untied": DecoderLM(DecoderConfig(VOCAB, STACK, tied=False)),
        "llama": LlamaLM(LlamaConfig(VOCAB, 24, 4, 2, 3, 40, 16)),
        "llama-untied": LlamaLM(LlamaConfig(VOCAB, 24, 4, 1, 2, 40, 16, tied=False)),
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
    config = LlamaConfig(
        VOCAB, 24, 4, num_kv_heads, 2, 40, 16, rope_base=500.0, norm_eps=1e-3, tied=tied
    )
    ours = LlamaLM(config).eval()
    for weight in ours.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    theirs = llama_twin(ours)
    ids = some_ids(1)  # id 0 is their padding, which they train no embedding for
    logits, expected = ours(ids), theirs(ids).logits
    torch.testing.assert_close(logits, expected, atol=3e-5, rtol=1e-4)
    probe = torch.randn_like(expected)
    (logits * probe).sum().backward()
    (expected * probe).sum().backward()
    pairs = [
        (ours.tokens.weight, theirs.model.embed_tokens.weight),
        (
            ours.blocks[0].attention.to_keys.weight,
            theirs.model.layers[0].self_attn.k_proj.weight,
        ),
        (
            ours.blocks[1].feedforward.gate.weight,
            theirs.model.layers[1].mlp.gate_proj.weight,
        ),
    ]
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-3, rtol=1e-3)


def test_all_at_once_equals_step_by_step(decoder):
    ids = some_ids()
    at_once = decoder(ids)
    for stop in range(1, LENGTH + 1):
        step = decoder(ids[:, :stop])[:, -1]
        torch.testing.assert_close(step, at_once[:, stop - 1])


@pytest.mark.parametrize("pieces", [[1] * LENGTH, [4, 1, 3, 1], [LENGTH]])
def test_cached_equals_uncached(decoder, pieces):
    ids, cache = some_ids(), decoder.new_cache()
    logits = [decoder(part, cache=cache) for part in ids.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(logits, 1), decoder(ids))
    assert cache.length == LENGTH


def test_a_mask_replaces_the_causal_one(decoder):
    ids = some_ids()
    everything = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    changed = ids.clone()
    changed[:, -1] = (changed[:, -1] + 1) % VOCAB
    assert torch.equal(decoder(ids)[:, 0], decoder(changed)[:, 0])
    assert not torch.equal(
        decoder(ids, everything)[:, 0], decoder(changed, everything)[:, 0]
    )


def test_tied_weights_are_one_tensor_and_differ_otherwise():
    models = decoders()
    for name, model in models.items():
        tied = model.head.weight is model.tokens.weight
        assert tied == ("untied" not in name)


def translator(**options):
    encoder = StackConfig(20, 2, 3, 30, max_length=16)
    return (
        EncoderDecoder(
            EncoderDecoderConfig(VOCAB, VOCAB + 4, encoder, STACK, **options)
        )
        .double()
        .eval()
    )


def test_translator_teacher_forcing_equals_step_by_step():
    torch.manual_seed(0)
    model, source, target = translator(), some_ids(1), some_ids(1)
    source[1, 5:] = 0
    at_once, memory = model(source, target), model.encode(source)
    for stop in range(1, LENGTH + 1):
        step = model.decode(target[:, :stop], memory, source)[:, -1]
        torch.testing.assert_close(step, at_once[:, stop - 1])


def test_padding_changes_nothing():
    torch.manual_seed(0)
    model, source, target = translator(), some_ids(1), some_ids(1)
    pads = torch.zeros(BATCH, 3, dtype=torch.int64)
    padded = model(torch.cat([source, pads], 1), torch.cat([target, pads], 1))
    torch.testing.assert_close(padded[:, :LENGTH], model(source, target))


def test_shared_weights_are_one_matrix():
    config = EncoderDecoderConfig(VOCAB, VOCAB, STACK, STACK, share_weights=True)
    model = EncoderDecoder(config)
    table = model.embedding.tokens.weight
    assert model.head.weight is table and model.encoder.embedding.tokens.weight is table


def test_recorded_weights_made_the_output(decoder):
    ids = some_ids()
    with record(decoder) as seen:
        recorded = decoder(ids)
    torch.testing.assert_close(recorded, decoder(ids))
    name, weights = list(seen.weights().items())[-1]
    layer = decoder.get_submodule(name)
    values = seen[f"{name}.to_values"].unflatten(-1, (-1, 6)).transpose(1, 2)
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
    rebuilt = layer.to_output((weights @ values).transpose(1, 2).flatten(2))
    torch.testing.assert_close(rebuilt, seen[name])
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights.triu(1) == 0).all()


def test_recording_leaves_no_trace_even_after_an_error(decoder):
    ids = some_ids()
    before = decoder(ids)
    with pytest.raises(RuntimeError, match="stop"):
        with record(decoder) as seen:
            decoder(ids)
            raise RuntimeError("stop")
    assert not any(module._forward_hooks for module in decoder.modules())
    assert torch.equal(decoder(ids), before)
    with pytest.raises(KeyError, match="no module named 'blocks.9'"):
        seen["blocks.9"]


def test_recording_gives_the_gradients_of_the_fused_kernel(decoder):
    ids, gradients = some_ids(), []
    for recorded in (False, True):
        decoder.zero_grad()
        if recorded:
            with record(decoder):
                logits = decoder(ids)
        else:
            logits = decoder(ids)
        logits.square().mean().backward()
        gradients.append([p.grad.clone() for p in decoder.parameters()])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


def test_encoder_and_decoder_may_differ_in_every_size():
    model = translator()
    with record(model) as seen:
        model(some_ids(1), some_ids(1)[:, :4])
    shapes = {name: tuple(w.shape) for name, w in seen.weights().items()}
    assert shapes["encoder.blocks.2.attention"] == (BATCH, 2, LENGTH, LENGTH)
    assert shapes["blocks.0.attention"] == (BATCH, 4, 4, 4)
    assert shapes["blocks.2.cross_attention"] == (BATCH, 4, 4, LENGTH)
    assert Encoder(VOCAB, STACK)(some_ids(1)).shape == (BATCH, LENGTH, 24)
