"""Each diagnostic catches its planted fault and passes the healthy models."""

import re

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
    cache_disagrees,
    changes_when_repeated,
    dead_parameters,
    forgets_when_saved,
    hides_end,
    ignores_source,
    leaks_future,
    misjudges,
    mixes_rows,
    nan_gradients,
    order_blind,
    repeats_embedding,
    sees_padding,
)
from course_utils.models import DecoderLM, Encoder, EncoderDecoder, LlamaLM

VOCAB, BATCH, LENGTH = 19, 2, 6
SIZES = {"d_model": 24, "num_heads": 4, "num_layers": 2, "d_ff": 32, "max_length": 16}
STACK = StackConfig(**SIZES)
LLAMA = LlamaConfig(vocab_size=VOCAB, **SIZES, num_kv_heads=2)
PAIR = EncoderDecoderConfig(
    source_vocab_size=VOCAB, target_vocab_size=VOCAB, encoder=STACK, decoder=STACK
)


def ids(length=LENGTH):
    torch.manual_seed(1)
    return torch.randint(1, VOCAB, (BATCH, length))


def decoders():
    stack = StackConfig(**SIZES, positions="learned")
    gpt = DecoderLM(DecoderConfig(vocab_size=VOCAB, stack=stack))
    return [gpt.eval(), LlamaLM(LLAMA).eval()]


def translator():
    torch.manual_seed(0)
    return EncoderDecoder(PAIR).eval()


@pytest.mark.parametrize("model", decoders())
def test_leaks_future(model):
    off_by_one = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(1)
    assert leaks_future(lambda x: model(x, off_by_one, causal=False), ids(), VOCAB)


@pytest.mark.parametrize("place", [0, 2, LENGTH - 2])
def test_leaks_future_finds_a_leak_of_one_position(place):
    def leaky(given):
        seen = given.clone()
        seen[:, place] = given[:, place + 1]  # one position reads the next, none else
        return F.one_hot(seen, VOCAB).double()

    assert leaks_future(leaky, ids(), VOCAB)


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


def encoder(**choices):
    torch.manual_seed(0)
    return Encoder(VOCAB, StackConfig(**SIZES, **choices)).eval()


def healthy():
    """All four models as functions of ids, with the module that they belong to."""
    model, source = translator(), ids(5)
    readers = [(each, each) for each in [encoder(), *decoders()]]
    return [*readers, (model, lambda target: model(source[: len(target)], target))]


def score(outputs):
    """A loss to take gradients of."""
    return lambda: outputs(ids()).square().mean()


@pytest.mark.parametrize("model, outputs", healthy())
def test_every_healthy_model_passes(model, outputs):
    assert leaks_future(outputs, ids(), VOCAB) == isinstance(model, Encoder)
    assert not order_blind(outputs, ids())
    if not isinstance(model, EncoderDecoder):  # there each row has a source of its own
        assert not mixes_rows(outputs, ids())
    assert nan_gradients(model, score(outputs)) == []
    assert not repeats_embedding(model.blocks, lambda: outputs(ids()))


def test_order_blind():
    assert order_blind(encoder(positions="none"), ids())
    with pytest.raises(ValueError, match="read differently"):
        order_blind(encoder(), torch.tensor([[3, 4, 3, 7]]))


def test_mixes_rows():
    model = encoder(dropout=0.3)
    assert mixes_rows(lambda x: model(x) + model(x).mean(dim=0), ids())
    assert not mixes_rows(model, ids())


def test_changes_when_repeated():
    model = encoder(dropout=0.3)
    assert changes_when_repeated(model.train(), ids())
    assert not changes_when_repeated(model.eval(), ids())


def test_a_sound_model_with_dropout_is_never_accused():
    """It is in training mode, and every output is drawn anew."""
    sound, given = decoders()[1], ids()
    for block in sound.blocks:
        block.dropout.p = 0.4
    asked = [
        lambda: leaks_future(sound, given, VOCAB),
        lambda: sees_padding(sound, given, 0),
        lambda: order_blind(sound, given),
        lambda: mixes_rows(sound, given),
        lambda: cache_disagrees(sound, given),
        lambda: ignores_source(lambda _, x: sound(x), ids(5), given, VOCAB),
    ]
    for ask in asked:
        with pytest.raises(ValueError, match=r"other numbers: call model.eval\(\)"):
            sound.train() and ask()
    sound.eval()
    assert not any(ask() for ask in asked[:-1])  # the last: it has no source


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_rounding_of_large_float32_outputs_is_no_fault(scale):
    """An absolute tolerance took the rounding of large logits for a leak."""
    torch.manual_seed(0)
    for model in decoders():
        with torch.no_grad():
            model.head.weight.normal_(std=scale)
        assert not leaks_future(model, ids(), VOCAB)
        assert not cache_disagrees(model, ids())
        assert not mixes_rows(model, ids())


def test_a_model_that_cannot_fail_is_not_called_healthy():
    model, one = encoder(), ids()[:1]
    same = lambda: model  # noqa: E731
    loss = lambda: model(ids()).square().mean()  # noqa: E731
    last = lambda x: model(x)[:, -1]  # noqa: E731
    frozen = encoder().requires_grad_(False)
    ignored = torch.full((2, 3), -100)
    refused = {
        "return (2, 6, width), got (2, 24)": lambda: leaks_future(last, ids(), VOCAB),
        "rows must be at least two different ones": lambda: mixes_rows(model, one),
        "at least two different": lambda: mixes_rows(model, one.repeat(3, 1)),
        "two blocks, it passed through 0 of 0": lambda: repeats_embedding([], loss),
        "passed through 0 of 2": lambda: repeats_embedding(model.blocks, lambda: 0),
        "build must make a new model": lambda: forgets_when_saved(same, ids()),
        "build must draw new weights": lambda: forgets_when_saved(encoder, ids()),
        "model has no trainable parameter": lambda: dead_parameters(frozen, loss),
        "labels to count must": lambda: misjudges(max, ignored, -100, VOCAB),
    }
    for sentence, call in refused.items():
        with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
            call()


def test_frozen_parameters_are_left_out():
    """Before, one frozen parameter made autograd raise."""
    layer = nn.Linear(2, 1)
    layer.bias.requires_grad_(False)
    loss = lambda: layer(torch.ones(1, 2)).sum()  # noqa: E731
    assert dead_parameters(layer, loss) == [] == nan_gradients(layer, loss)
    model = encoder()
    model.blocks[0].requires_grad_(False)
    dead = dead_parameters(model, lambda: model(ids()).square().mean())
    assert all(name.startswith("blocks.1") for name in dead)


def test_gradients_are_asked_for_even_where_they_are_switched_off():
    model = encoder()
    with torch.no_grad():
        assert nan_gradients(model, score(model)) == []


def test_nan_counts_as_a_change():
    def breaks(x):  # as soon as there is padding
        return encoder()(x) * torch.where((x == 0).any(), torch.nan, 1.0)

    assert sees_padding(breaks, ids(), 0)


@pytest.mark.parametrize("model", decoders())
def test_cache_disagrees(model):
    assert not cache_disagrees(model, ids())
    honest = model.forward

    def forward(x, cache=None):
        known = 0 if cache is None else cache.length
        wrong = torch.ones(x.shape[1], known + x.shape[1], dtype=torch.bool).tril()
        return honest(x, wrong, cache, causal=False)

    model.forward = forward
    assert cache_disagrees(model, ids())
    del model.forward


def test_forgets_when_saved():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.blocks = nn.Embedding(VOCAB, 4), [nn.Linear(4, 4)]

        def forward(self, x):
            return self.blocks[0](self.tokens(x))

    class OfItself(EncoderDecoder):
        def forward(self, x):
            return super().forward(x, x)

    assert forgets_when_saved(Hidden, ids())
    for build in (
        lambda: LlamaLM(LLAMA),
        lambda: DecoderLM(DecoderConfig(vocab_size=VOCAB)),
        lambda: Encoder(VOCAB, STACK),
        lambda: OfItself(PAIR),
    ):
        assert not forgets_when_saved(build, ids())


def test_misjudges():
    labels = ids()
    labels[1, 3:] = 0
    cross = F.cross_entropy

    def right(logits, labels):
        return cross(logits.flatten(0, 1), labels.flatten(), ignore_index=0)

    def mean_of_all(logits, labels):
        losses = cross(logits.mT, labels, reduction="none", ignore_index=0)
        return losses.mean()

    assert not misjudges(right, labels, 0, VOCAB)
    assert misjudges(mean_of_all, labels, 0, VOCAB)
    assert misjudges(lambda x, y: right(x.softmax(-1), y), labels, 0, VOCAB)
    assert misjudges(lambda x, y: cross(x.mT, y), labels, 0, VOCAB)
    assert misjudges(lambda x, y: right(x.mT.reshape(x.shape), y), labels, 0, VOCAB)


def test_hides_end():
    assert not hides_end(torch.tensor([[5, 6, 2], [7, 2, -100]]), 2)
    assert hides_end(torch.tensor([[5, 6, 2], [7, -100, -100]]), 2)


def test_blocks_that_all_read_the_embedding():
    model = decoders()[0]

    def forward():
        stream = model.positions(model.tokens(ids()))
        last = [block(stream) for block in model.blocks][-1]
        return model.head(model.norm(last))

    assert repeats_embedding(model.blocks, forward)
    assert not any(block._forward_pre_hooks for block in model.blocks)
    dead = dead_parameters(model, lambda: forward().square().mean())
    assert any(name.startswith("blocks.0.") for name in dead)
    assert "blocks.1.feedforward.up.weight" not in dead


def test_nan_gradients():
    model = encoder()
    assert nan_gradients(model, lambda: model(ids()).sum() * torch.nan)
    weight = model.blocks[0].feedforward.down.weight
    names = nan_gradients(model, lambda: model(ids()).sum() + (0 * weight).sqrt().sum())
    assert names == ["blocks.0.feedforward.down.weight"]
