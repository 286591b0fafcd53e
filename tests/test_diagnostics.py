"""Each diagnostic catches its planted fault and passes the healthy models."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.diagnostics import (
    dead_parameters,
    ignores_source,
    leaks_future,
    sees_padding,
)
from course_utils.models import DecoderLM, Encoder, EncoderDecoder, LlamaLM

VOCAB, BATCH, LENGTH = 19, 2, 6
STACK = StackConfig(24, 4, 2, 32, max_length=16)


def ids(length=LENGTH):
    torch.manual_seed(1)
    return torch.randint(1, VOCAB, (BATCH, length))


def decoders():
    gpt = DecoderConfig(VOCAB, StackConfig(24, 4, 2, 32, 16, positions="learned"))
    return [
        DecoderLM(gpt).eval(),
        LlamaLM(LlamaConfig(VOCAB, 24, 4, 2, 2, 32, 16)).eval(),
    ]


def translator():
    torch.manual_seed(0)
    return EncoderDecoder(EncoderDecoderConfig(VOCAB, VOCAB, STACK, STACK)).eval()


@pytest.mark.parametrize("model", decoders())
def test_leaks_future(model):
    everything = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    off_by_one = everything.tril(1)
    assert not leaks_future(model, ids(), VOCAB)
    assert leaks_future(lambda x: model(x, everything), ids(), VOCAB)
    assert leaks_future(lambda x: model(x, off_by_one), ids(), VOCAB)


def test_leaks_future_of_the_translators_target():
    model, source = translator(), ids(5)
    assert not leaks_future(lambda target: model(source, target), ids(), VOCAB)


def test_sees_padding():
    encoder, model, target = Encoder(VOCAB, STACK).eval(), translator(), ids(4)
    assert not sees_padding(encoder, ids(), 0)
    assert not sees_padding(lambda x: model(ids(), x), target, 0)
    blind = Encoder(VOCAB, STACK, pad_id=VOCAB - 1).eval()  # hides another id
    blind.embedding.load_state_dict(encoder.embedding.state_dict())
    others = ids().clamp(max=VOCAB - 2)
    assert sees_padding(blind, others, 0)


def test_ignores_source():
    model = translator()
    assert not ignores_source(model, ids(5), ids(), VOCAB)
    for block in model.blocks:
        nn.init.zeros_(block.cross_attention.to_output.weight)
        nn.init.zeros_(block.cross_attention.to_output.bias)
    assert ignores_source(model, ids(5), ids(), VOCAB)


def test_dead_parameters():
    model, target = translator(), ids()

    def loss():
        logits = model(ids(5), target)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    dead = dead_parameters(model, loss)
    # A bias on the keys shifts all scores of a row alike: its gradient is rounding.
    assert all(name.endswith("to_keys.bias") for name in dead)
    for block in model.blocks:
        block.cross_residual.forward = lambda x, sublayer: x  # its output is dropped
    dead = dead_parameters(model, loss)
    assert {n for n, _ in model.encoder.named_parameters()} <= {
        n.removeprefix("encoder.") for n in dead
    }
    assert "blocks.0.attention.to_values.weight" not in dead
    assert all(p.grad is None for p in model.parameters())


def test_the_repeated_embedding_kills_the_first_block():
    model = decoders()[0]

    def forward(x):
        stream = model.positions(model.tokens(x))
        for block in model.blocks:
            last = block(stream)  # every block reads the embedding again
        return model.head(model.norm(last))

    dead = dead_parameters(model, lambda: forward(ids()).square().mean())
    assert any(n.startswith("blocks.0.") for n in dead)
    assert "blocks.1.feedforward.widen.weight" not in dead
