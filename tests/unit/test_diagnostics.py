"""Each diagnostic catches its planted fault and passes the healthy models."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_utils.attention import attention_scores
from course_utils.config import (
    DecoderConfig,
    EncoderDecoderConfig,
    LlamaConfig,
    StackConfig,
)
from course_utils.looking.diagnostics import (
    cache_disagrees,
    changes_when_repeated,
    collapses,
    dead_heads,
    dead_parameters,
    forgets_when_saved,
    hides_end,
    ignores_source,
    leaks_future,
    misjudges,
    misscaled,
    mixes_rows,
    nan_gradients,
    order_blind,
    repeats_embedding,
    sees_padding,
)
from course_utils.models import DecoderLM, Encoder, EncoderDecoder, LlamaLM

VOCAB, BATCH, LENGTH = 19, 2, 6
STACK = StackConfig(d_model=24, num_heads=4, num_layers=2, d_ff=32, max_length=16)


def ids(length=LENGTH):
    torch.manual_seed(1)
    return torch.randint(1, VOCAB, (BATCH, length))


def decoders():
    gpt = DecoderConfig(
        vocab_size=VOCAB,
        stack=StackConfig(
            d_model=24,
            num_heads=4,
            num_layers=2,
            d_ff=32,
            max_length=16,
            positions="learned",
        ),
    )
    return [
        DecoderLM(gpt).eval(),
        LlamaLM(
            LlamaConfig(
                vocab_size=VOCAB,
                d_model=24,
                num_heads=4,
                num_kv_heads=2,
                num_layers=2,
                d_ff=32,
                max_length=16,
            )
        ).eval(),
    ]


def translator():
    torch.manual_seed(0)
    return EncoderDecoder(
        EncoderDecoderConfig(
            source_vocab_size=VOCAB,
            target_vocab_size=VOCAB,
            encoder=STACK,
            decoder=STACK,
        )
    ).eval()


@pytest.mark.parametrize("model", decoders())
def test_leaks_future(model):
    off_by_one = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(1)
    assert not leaks_future(model, ids(), VOCAB)
    assert leaks_future(lambda x: model(x, causal=False), ids(), VOCAB)
    assert leaks_future(lambda x: model(x, off_by_one, causal=False), ids(), VOCAB)


@pytest.mark.parametrize("place", [0, 2, LENGTH - 2])
def test_leaks_future_finds_a_leak_of_one_position(place):
    def leaky(given):
        seen = given.clone()
        seen[:, place] = given[:, place + 1]  # one position reads the next, none else
        return F.one_hot(seen, VOCAB).double()

    assert leaks_future(leaky, ids(), VOCAB)


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
    assert "blocks.1.feedforward.up.weight" not in dead


def encoder(**choices):
    torch.manual_seed(0)
    return Encoder(
        VOCAB,
        StackConfig(
            d_model=24, num_heads=4, num_layers=2, d_ff=32, max_length=16, **choices
        ),
    ).eval()


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
    assert not order_blind(outputs, ids())
    if not isinstance(model, EncoderDecoder):  # there each row has a source of its own
        assert not mixes_rows(outputs, ids())
    assert not collapses(outputs, ids())
    assert nan_gradients(model, score(outputs)) == []
    assert dead_heads(model, score(outputs)) == []
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


def asked_of(outputs):
    """Every check that compares the outputs of a function of ids, ready to call."""
    source = ids(5)
    return {
        "leaks_future": lambda: leaks_future(outputs, ids(), VOCAB),
        "sees_padding": lambda: sees_padding(outputs, ids(), 0),
        "ignores_source": lambda: ignores_source(
            lambda source, target: outputs(target), source, ids(), VOCAB
        ),
        "order_blind": lambda: order_blind(outputs, ids()),
        "mixes_rows": lambda: mixes_rows(outputs, ids()),
        "cache_disagrees": lambda: cache_disagrees(outputs, ids()),
        "forgets_when_saved": lambda: forgets_when_saved(lambda: outputs, ids()),
    }


@pytest.mark.parametrize("name", [n for n in asked_of(None) if n[:7] != "forgets"])
def test_a_sound_model_with_dropout_is_never_accused(name):
    """It is in training mode, and every output is drawn anew."""
    sound = decoders()[1]
    for block in sound.blocks:
        block.dropout.p = 0.4
    with pytest.raises(ValueError, match=r"equal inputs: call model.eval\(\) first"):
        asked_of(sound.train())[name]()
    if name != "ignores_source":  # asked here of a model that has no source
        assert not asked_of(sound.eval())[name]()


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
    model = encoder()
    same = lambda: model  # noqa: E731
    fresh = lambda: encoder().requires_grad_(False)  # noqa: E731
    loss = lambda: model(ids()).square().mean()  # noqa: E731
    refused = {
        "logits must return shape (2, 6, width), got (2, 24)": lambda: leaks_future(
            lambda x: model(x)[:, -1], ids(), VOCAB
        ),
        "rows must be at least two different ones": lambda: mixes_rows(
            model, ids()[:1]
        ),
        "rows must be at least two different": lambda: mixes_rows(
            model, ids()[:1].repeat(3, 1)
        ),
        "states must return finite vectors with a direction": lambda: collapses(
            lambda x: torch.zeros(BATCH, LENGTH, 8), ids()
        ),
        "ids must hold two different tokens": lambda: collapses(
            model, torch.full((2, 5), 3)
        ),
        "two blocks, it passed through 0 of 0": lambda: repeats_embedding([], loss),
        "passed through 0 of 2": lambda: repeats_embedding(model.blocks, lambda: 0),
        "build must make a new model": lambda: forgets_when_saved(same, ids()),
        "build must draw new weights": lambda: forgets_when_saved(encoder, ids()),
        "model has no trainable parameter": lambda: dead_parameters(fresh(), loss),
        "model must have an attention layer": lambda: dead_heads(
            nn.Linear(2, 2), lambda: torch.zeros((), requires_grad=True)
        ),
        "labels to count must have shape": lambda: misjudges(
            lambda x, y: x.sum(), torch.full((2, 3), -100), -100, VOCAB
        ),
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
        assert dead_heads(model, score(model)) == []


def test_nan_counts_as_a_change():
    def breaks(x):  # as soon as there is padding
        return encoder()(x) * torch.where((x == 0).any(), torch.nan, 1.0)

    assert sees_padding(breaks, ids(), 0)


def test_collapses():
    model = encoder()
    for block in model.blocks:
        block.attention_residual.forward = lambda x, sublayer: sublayer(x)
    with torch.no_grad():
        model.embedding.positions.table.zero_()
    assert collapses(model, ids())


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

    sizes = LlamaConfig(
        vocab_size=VOCAB,
        d_model=24,
        num_heads=4,
        num_kv_heads=2,
        num_layers=2,
        d_ff=32,
        max_length=16,
    )
    translators = EncoderDecoderConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, encoder=STACK, decoder=STACK
    )
    assert forgets_when_saved(Hidden, ids())
    assert not forgets_when_saved(lambda: LlamaLM(sizes), ids())
    assert not forgets_when_saved(
        lambda: DecoderLM(DecoderConfig(vocab_size=VOCAB)), ids()
    )
    assert not forgets_when_saved(lambda: Encoder(VOCAB, STACK), ids())
    assert not forgets_when_saved(lambda: Both(EncoderDecoder(translators)), ids())


class Both(nn.Module):
    """A translator that translates its own source."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x, x)


def test_misscaled():
    assert not misscaled(attention_scores)
    assert misscaled(lambda q, k: attention_scores(q, k, scale=128**-0.5))
    assert misscaled(lambda q, k: attention_scores(q, k, scale=1.0))


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


def test_repeats_embedding():
    model = decoders()[0]

    def forward(x):
        stream = model.positions(model.tokens(x))
        return [block(stream) for block in model.blocks][-1]

    assert repeats_embedding(model.blocks, lambda: forward(ids()))
    assert not any(block._forward_pre_hooks for block in model.blocks)


def test_nan_gradients():
    model = encoder()
    assert nan_gradients(model, lambda: model(ids()).sum() * torch.nan)
    weight = model.blocks[0].feedforward.down.weight
    names = nan_gradients(model, lambda: model(ids()).sum() + (0 * weight).sqrt().sum())
    assert names == ["blocks.0.feedforward.down.weight"]


def test_dead_heads():
    model = encoder()
    with torch.no_grad():
        model.blocks[1].attention.to_keys.weight[6:12] = 0  # head 1 of width 6
        model.blocks[1].attention.to_keys.bias[6:12] = 0
    assert dead_heads(model, score(model)) == ["blocks.1.attention head 1"]
    layer = model.blocks[0].attention
    x = torch.randn(BATCH, LENGTH, 24)
    layer.to_output.weight.data[:, :12] = 0
    assert dead_heads(layer, lambda: layer(x).square().mean()) == ["head 0", "head 1"]
