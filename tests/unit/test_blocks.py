"""Blocks and stacks against PyTorch's layers, pre- and post-norm, with gradients."""

import dataclasses

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_utils.blocks import DecoderBlock, EncoderBlock, LlamaBlock
from course_utils.config import EncoderDecoderConfig, LlamaConfig, StackConfig
from course_utils.feedforward import FeedForward, SwiGLU
from course_utils.masks import causal_mask, padding_mask
from course_utils.models import EncoderDecoder
from course_utils.norms import RMSNorm
from course_utils.positions import rotary_table
from tests.support.reference_layers import torch_decoder_layer, torch_encoder_layer

STYLES = [("pre", "relu"), ("post", "relu"), ("pre", "gelu"), ("post", "gelu")]
BATCH, TARGETS, SOURCES = 2, 5, 7


def same(ours, theirs, leaves):
    """Equal outputs, and equal gradients of a random projection of them."""
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn_like(theirs)
    mine = torch.autograd.grad((ours * probe).sum(), leaves, retain_graph=True)
    other = torch.autograd.grad((theirs * probe).sum(), leaves, retain_graph=True)
    for a, b in zip(mine, other, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("norm, activation", STYLES)
@pytest.mark.parametrize("seed", range(2))
def test_encoder_block_equals_pytorchs(norm, activation, seed):
    torch.manual_seed(seed)
    config = StackConfig(
        d_model=12 * (seed + 1),
        num_heads=3,
        num_layers=1,
        d_ff=20,
        norm=norm,
        activation=activation,
    )
    block = EncoderBlock(config).double()
    layer = torch_encoder_layer(block, config)
    x = torch.randn(BATCH, SOURCES, config.d_model).double().requires_grad_()
    ids = torch.randint(1, 9, (BATCH, SOURCES))
    ids[1, 4:] = 0
    mask = padding_mask(ids, 0)
    theirs = layer(x, src_key_padding_mask=ids == 0)
    same(block(x, mask), theirs, [x])
    causal = causal_mask(SOURCES)
    same(block(x, causal), layer(x, src_mask=~causal), [x])


@pytest.mark.parametrize("norm, activation", STYLES)
def test_decoder_block_equals_pytorchs(norm, activation):
    torch.manual_seed(0)
    config = StackConfig(
        d_model=24, num_heads=4, num_layers=1, d_ff=20, norm=norm, activation=activation
    )
    block = DecoderBlock(config).double()
    layer = torch_decoder_layer(block, config)
    x = torch.randn(BATCH, TARGETS, 24).double().requires_grad_()
    memory = torch.randn(BATCH, SOURCES, 24).double().requires_grad_()
    ids = torch.randint(1, 9, (BATCH, SOURCES))
    ids[0, 5:] = 0
    mask = causal_mask(TARGETS)
    theirs = layer(x, memory, tgt_mask=~mask, memory_key_padding_mask=ids == 0)
    same(block(x, memory, mask, padding_mask(ids, 0)), theirs, [x, memory])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # theirs, about pre-norm
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_translator_equals_nn_transformer(norm):
    torch.manual_seed(0)
    stack = StackConfig(
        d_model=24, num_heads=4, num_layers=2, d_ff=32, norm=norm, positions="none"
    )
    encoder = dataclasses.replace(stack, num_layers=3)
    ours = EncoderDecoder(
        EncoderDecoderConfig(
            source_vocab_size=11, target_vocab_size=13, encoder=encoder, decoder=stack
        )
    ).double()
    theirs = nn.Transformer(
        24, 4, 3, 2, 32, 0.0, batch_first=True, norm_first=norm == "pre"
    ).double()
    theirs.encoder.layers = nn.ModuleList(
        torch_encoder_layer(block, encoder) for block in ours.encoder.blocks
    )
    theirs.decoder.layers = nn.ModuleList(
        torch_decoder_layer(block, stack) for block in ours.blocks
    )
    if norm == "pre":
        theirs.encoder.norm, theirs.decoder.norm = ours.encoder.norm, ours.norm
    else:
        theirs.encoder.norm = theirs.decoder.norm = None
    source = torch.randint(1, 11, (BATCH, SOURCES))
    target = torch.randint(1, 13, (BATCH, TARGETS))
    source[1, 5:], target[0, 3:] = 0, 0
    hidden = theirs(
        ours.encoder.embedding(source),
        ours.embedding(target),
        tgt_mask=~causal_mask(TARGETS),
        src_key_padding_mask=source == 0,
        tgt_key_padding_mask=target == 0,
        memory_key_padding_mask=source == 0,
    )
    leaves = [ours.encoder.embedding.tokens.weight, ours.embedding.tokens.weight]
    same(ours(source, target), ours.head(hidden), leaves)


def test_a_block_without_weights_passes_the_stream_through():
    block = EncoderBlock(StackConfig(d_model=8, num_heads=2, num_layers=1, d_ff=16))
    for layer in (block.attention.to_output, block.feedforward.down):
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    x = torch.randn(2, 3, 8)
    assert torch.equal(block(x), x)


def test_dropout_is_on_the_branch_never_on_the_stream():
    block = EncoderBlock(
        StackConfig(d_model=8, num_heads=2, num_layers=1, d_ff=16, dropout=0.9)
    ).train()
    for layer in (block.attention.to_output, block.feedforward.down):
        nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    x = torch.randn(2, 3, 8)
    assert torch.equal(block(x), x)


def test_feedforward_treats_every_position_alone():
    layer = FeedForward(6, 10)
    x = torch.randn(2, 4, 6)
    torch.testing.assert_close(layer(x)[:, 2:3], layer(x[:, 2:3]))


def test_rms_norm_equals_pytorchs_and_swiglu_its_formula():
    norm, x = RMSNorm(6, eps=1e-5), torch.randn(2, 4, 6)
    torch.nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(x), F.rms_norm(x, (6,), norm.weight, 1e-5))
    layer = SwiGLU(6, 10)
    gate = x @ layer.gate.weight.T
    expected = (gate * gate.sigmoid() * (x @ layer.up.weight.T)) @ layer.down.weight.T
    torch.testing.assert_close(layer(x), expected)


def test_rms_norm_is_computed_in_float32_whatever_it_is_given():
    torch.manual_seed(0)
    x = (300 * torch.randn(4, 64)).bfloat16()
    exact = F.rms_norm(x.double(), (64,), eps=1e-5)
    assert torch.equal(RMSNorm(64).bfloat16()(x), exact.bfloat16())
    rounded = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
    assert not torch.equal(rounded, exact.bfloat16()), "the test could not fail"


def test_dropout_of_the_feedforward_comes_before_its_last_layer():
    """Behind it, half of the outputs would be zero."""
    torch.manual_seed(0)
    made = FeedForward(8, 64, dropout=0.5)(torch.randn(1, 500, 8))
    assert (made == 0).double().mean() < 0.01


def test_blocks_look_both_ways_unless_causal():
    torch.manual_seed(0)
    stack = StackConfig(d_model=8, num_heads=2, d_ff=16)
    llama = LlamaConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=16)
    x = torch.randn(2, 5, 8)
    for block, given in (
        (EncoderBlock(stack), (x,)),
        (LlamaBlock(llama), (x, rotary_table(5, 4))),
    ):
        both_ways, causal = block(*given, causal=False), block(*given, causal=True)
        assert torch.equal(block(*given), both_ways)
        assert not torch.allclose(both_ways[:, 0], causal[:, 0])
