"""What notebook 07 builds is what the package holds."""

import torch
from nb07_smoothing import smoothed
from torch import nn

from course_utils.blocks import DecoderBlock
from course_utils.config import EncoderDecoderConfig, StackConfig
from course_utils.masks import causal_mask
from course_utils.models import EncoderDecoder

BATCH, TARGETS, SOURCES, WIDTH, MEMORY_WIDTH, VOCABULARY = 2, 3, 5, 24, 16, 11
CONFIG = StackConfig(d_model=WIDTH, num_heads=4, num_layers=1, d_ff=40)


def copy_block(ours, theirs):
    for norm in ours.norms:
        nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    theirs.attention.load_state_dict(ours.attention.state_dict())
    theirs.cross_attention.load_state_dict(ours.cross_attention.state_dict())
    theirs.feedforward.up.load_state_dict(ours.up.state_dict())
    theirs.feedforward.down.load_state_dict(ours.down.state_dict())
    places = ("attention_residual", "cross_residual", "feedforward_residual")
    for norm, place in zip(ours.norms, places, strict=True):
        getattr(theirs, place).norm.load_state_dict(norm.state_dict())


def test_the_decoder_block_is_the_packages_masked_or_not(built):
    ours = built["OurDecoderBlock"](WIDTH, 4, 40, MEMORY_WIDTH)
    theirs = DecoderBlock(CONFIG, MEMORY_WIDTH)
    copy_block(ours, theirs)
    x = torch.randn(BATCH, TARGETS, WIDTH)
    memory = torch.randn(BATCH, SOURCES, MEMORY_WIDTH)
    torch.testing.assert_close(ours(x, memory), theirs(x, memory))
    seen = torch.tensor([[True] * SOURCES, [True] * 3 + [False] * 2])[:, None, None]
    masks = causal_mask(TARGETS), seen
    torch.testing.assert_close(ours(x, memory, *masks), theirs(x, memory, *masks))
    assert not torch.allclose(ours(x, memory), ours(x, memory, *masks))


def test_the_translator_is_the_packages_padding_included(built):
    encoder = StackConfig(d_model=WIDTH, num_heads=2, num_layers=3, d_ff=40)
    decoder = StackConfig(d_model=WIDTH, num_heads=4, num_layers=2, d_ff=56)
    ours = built["OurTranslator"](VOCABULARY, encoder, decoder)
    config = EncoderDecoderConfig(
        source_vocab_size=VOCABULARY,
        target_vocab_size=VOCABULARY,
        encoder=encoder,
        decoder=decoder,
        share_weights=True,
    )
    theirs = EncoderDecoder(config)
    with torch.no_grad():
        theirs.embedding.tokens.weight.copy_(ours.E)
    theirs.encoder.blocks.load_state_dict(ours.reads.state_dict())
    theirs.blocks.load_state_dict(ours.writes.state_dict())
    norms = {ours.read_norm: theirs.encoder.norm, ours.write_norm: theirs.norm}
    for mine, its in norms.items():
        nn.init.normal_(mine.weight), nn.init.normal_(mine.bias)
        its.load_state_dict(mine.state_dict())
    source = torch.randint(1, VOCABULARY, (BATCH, SOURCES))
    target = torch.randint(1, VOCABULARY, (BATCH, TARGETS))
    source[1, 3:] = target[1, 2:] = 0
    torch.testing.assert_close(ours(source, target), theirs(source, target))


def test_the_colleagues_block_is_deaf_and_the_cured_one_is_the_packages(built):
    theirs, x = DecoderBlock(CONFIG), torch.randn(BATCH, TARGETS, WIDTH)
    cured, deaf = built["CuredBlock"](CONFIG), built["ColleaguesBlock"](CONFIG)
    cured.load_state_dict(theirs.state_dict())
    deaf.load_state_dict(theirs.state_dict())
    one, other = torch.randn(2, BATCH, SOURCES, WIDTH)
    torch.testing.assert_close(cured(x, one), theirs(x, one))
    torch.testing.assert_close(deaf(x, one), deaf(x, other))
    assert not torch.allclose(cured(x, one), cured(x, other))


def test_a_soft_target_is_the_one_of_the_loss():
    scores = torch.randn(1, VOCABULARY)
    loss = nn.functional.cross_entropy(scores, torch.tensor([4]), label_smoothing=0.3)
    target = smoothed(4, VOCABULARY, 0.3)
    torch.testing.assert_close(-(target * scores.log_softmax(-1)).sum(), loss)
