"""Each diagnostic catches its planted fault and passes the healthy models."""

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
from course_utils.diagnostics import (
    cache_disagrees,
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


def encoder(**choices):
    torch.manual_seed(0)
    return Encoder(VOCAB, StackConfig(24, 4, 2, 32, max_length=16, **choices)).eval()


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


def test_mixes_rows_and_finds_what_is_drawn_at_random():
    model = encoder(dropout=0.3)
    assert mixes_rows(lambda x: model(x) + model(x).mean(dim=0), ids())
    assert mixes_rows(model.train(), ids()) and not mixes_rows(model.eval(), ids())


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
        return honest(x, wrong, cache)

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

    sizes = LlamaConfig(VOCAB, 24, 4, 2, 2, 32, 16)
    translators = EncoderDecoderConfig(VOCAB, VOCAB, STACK, STACK)
    assert forgets_when_saved(Hidden, ids())
    assert not forgets_when_saved(lambda: LlamaLM(sizes), ids())
    assert not forgets_when_saved(lambda: DecoderLM(DecoderConfig(VOCAB)), ids())
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
    weight = model.blocks[0].feedforward.narrow.weight
    found = nan_gradients(model, lambda: model(ids()).sum() + (0 * weight).sqrt().sum())
    assert found == ["blocks.0.feedforward.narrow.weight"]


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
