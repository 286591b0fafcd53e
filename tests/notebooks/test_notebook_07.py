"""What notebook 07 builds is what the package holds."""

import re

import pytest
import torch
from nb07_smoothing import smoothed
from torch import nn

from course_utils.blocks import DecoderBlock
from course_utils.config import EncoderDecoderConfig, StackConfig
from course_utils.diagnostics import dead_parameters, ignores_source
from course_utils.masks import causal_mask
from course_utils.models import EncoderDecoder
from tests.support.notebook_code import code_cells, texts

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


@pytest.fixture
def batch():
    source = torch.randint(1, VOCABULARY, (BATCH, SOURCES))
    target = torch.randint(1, VOCABULARY, (BATCH, TARGETS))
    source[1, 3:] = target[1, 2:] = 0
    return source, target


def test_the_translator_is_the_packages_padding_included(built, batch):
    ours = built["OurTranslator"](
        VOCABULARY, WIDTH, 4, encoder_blocks=3, decoder_blocks=2
    )
    stack = {"d_model": WIDTH, "num_heads": 4, "d_ff": 4 * WIDTH}
    config = EncoderDecoderConfig(
        source_vocab_size=VOCABULARY,
        target_vocab_size=VOCABULARY,
        encoder=StackConfig(**stack, num_layers=3),
        decoder=StackConfig(**stack, num_layers=2),
        share_weights=True,
    )
    theirs = EncoderDecoder(config)
    with torch.no_grad():
        theirs.embedding.tokens.weight.copy_(ours.E)
    theirs.encoder.blocks.load_state_dict(ours.encoder.state_dict())
    for mine, its in zip(ours.decoder, theirs.blocks, strict=True):
        copy_block(mine, its)
    norms = {ours.encoder_norm: theirs.encoder.norm, ours.decoder_norm: theirs.norm}
    for mine, its in norms.items():
        nn.init.normal_(mine.weight), nn.init.normal_(mine.bias)
        its.load_state_dict(mine.state_dict())
    torch.testing.assert_close(theirs(*batch), ours(*batch))


def losing(model, batch):
    return lambda: model(*batch).square().mean()


def test_the_colleagues_block_is_deaf_and_ours_is_not(built, batch):
    """Section 9: the whole encoder is dead, and nothing else."""
    dead = {}
    for name in ("OurDecoderBlock", "ColleaguesBlock"):
        model = built["OurTranslator"](
            VOCABULARY, WIDTH, 4, encoder_blocks=1, decoder_blocks=1
        )
        model.decoder[0] = built[name](WIDTH, 4, 40, WIDTH)
        deaf = ignores_source(model, batch[0], batch[1], VOCABULARY)
        assert deaf == (name == "ColleaguesBlock")
        dead[name] = set(dead_parameters(model, losing(model, batch)))
    assert not dead["OurDecoderBlock"]
    parameters = [name for name, _ in model.named_parameters()]
    expected = {name for name in parameters if name.startswith("encoder")}
    assert dead["ColleaguesBlock"] == expected


def test_the_paper_rate_peaks_at_the_warm_up(built):
    rate = built["paper_rate"]
    assert max(range(1, 400), key=lambda step: rate(step, 64, 40)) == 40
    assert rate(40, 64, 40) == pytest.approx((64 * 40) ** -0.5)


def printed(part):
    (outputs,) = [outputs for source, outputs in code_cells("07") if part in source]
    return "".join("".join(one.get("text", "")) for one in outputs)


def test_the_training_ends_with_the_right_sentence_and_the_opening_quotes_it():
    learned = printed("for step in progress_bar(range(301)):")
    last = learned.partition("300  loss ")[2]
    assert "Su tío encontró una vaca muy pequeña y la alimentó.<eos>" in last
    opening = texts("07")[0].split("*")[1]
    assert f"{opening}<eos>" in learned


def test_a_row_reaches_its_final_word_at_the_station_that_the_text_names():
    final = []
    for row in printed("stations = {").splitlines()[1:]:
        words = [row[start : start + 20].strip() for start in range(0, 80, 20)]
        final.append(max(i + 1 for i, word in enumerate(words[:3]) if word != words[3]))
    assert sorted(final) == [1] + 5 * [2] + 6 * [3]  # "one", "five", "six"


def test_the_colleagues_translator_says_the_same_whatever_it_reads():
    written = re.findall(r"^    (.*<eos>)$", printed("class ColleaguesBlock"), re.M)
    assert len(written) == 3 and len(set(written)) == 1


def test_a_soft_target_is_the_one_of_the_loss():
    scores = torch.randn(1, VOCABULARY)
    loss = nn.functional.cross_entropy(scores, torch.tensor([4]), label_smoothing=0.3)
    target = smoothed(4, VOCABULARY, 0.3)
    torch.testing.assert_close(-(target * scores.log_softmax(-1)).sum(), loss)
