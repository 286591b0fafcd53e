"""Defaults are those of PyTorch, transformers and the papers, by what they compute."""

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional as F
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from course_utils.blocks import Residual
from course_utils.config import LlamaConfig, StackConfig, TrainConfig
from course_utils.decoding import length_rule
from course_utils.models import Embedding, LlamaLM
from course_utils.norms import RMSNorm
from course_utils.positions import RotaryPositions, rotary_table
from course_utils.training.losses import label_loss, next_token_loss
from course_utils.training.optimizers import build_optimizers

TINY = 1e-3 * torch.arange(16.0).sin().reshape(2, 1, 8)  # where an epsilon counts


def test_norms_have_the_epsilon_of_llama_and_of_torch():
    expected = F.rms_norm(TINY, (8,), eps=1e-5)
    torch.testing.assert_close(RMSNorm(8)(TINY), expected)
    assert not torch.allclose(expected, F.rms_norm(TINY, (8,), eps=1e-6), rtol=0.01)
    for norm in ("pre", "post"):
        actual = Residual(8, 0.0, norm)(TINY, torch.zeros_like)
        expected = F.layer_norm(TINY, (8,)) if norm == "post" else TINY
        torch.testing.assert_close(actual, expected)
    normed = Residual(8, 0.0, "pre")(TINY, lambda x: x) - TINY
    torch.testing.assert_close(normed, F.layer_norm(TINY, (8,)))


def test_a_llama_has_the_angles_of_transformers_and_the_epsilon_of_llama():
    size = {"d_model": 16, "num_heads": 2, "num_layers": 1}
    ours = LlamaLM(LlamaConfig(vocab_size=11, **size))
    config = transformers.LlamaConfig(hidden_size=16, num_attention_heads=2)
    theirs = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(20)[None])
    for actual, expected in zip(ours.rotary(0, 20), theirs, strict=True):
        torch.testing.assert_close(actual, expected[0])
    for actual, expected in zip(rotary_table(20, 8), theirs, strict=True):
        torch.testing.assert_close(actual, expected[0])
    for actual, expected in zip(RotaryPositions(8, 20)(0, 20), theirs, strict=True):
        torch.testing.assert_close(actual, expected[0])
    x = TINY.flatten()[None, None]
    expected = F.rms_norm(x, (16,), eps=1e-5)
    for norm in (ours.norm, ours.blocks[0].attention_norm):
        torch.testing.assert_close(norm(x), expected)


def test_embeddings_are_scaled_by_the_root_of_their_width():
    ours = Embedding(11, StackConfig(d_model=16, num_heads=2, dropout=0.0))
    ids = torch.arange(7)[None]
    expected = ours.positions(4 * ours.tokens(ids), 0)
    torch.testing.assert_close(ours(ids), expected)


def test_adamw_has_the_epsilon_of_torch_and_the_betas_of_gpt_3():
    theirs = nn.Linear(3, 3)
    ours = nn.Linear(3, 3)
    ours.load_state_dict(theirs.state_dict())
    (mine,) = build_optimizers(ours, TrainConfig(steps=3, learning_rate=0.1))
    groups = [
        {"params": [theirs.weight], "weight_decay": 0.1},
        {"params": [theirs.bias], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.95))
    for scale in (1e-9, 1.0, 1e-9):  # beside the smallest the epsilon counts
        for model, optimizer in ((ours, mine), (theirs, reference)):
            for weight in model.parameters():
                weight.grad = scale * torch.ones_like(weight)
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)


def test_labels_are_smoothed_only_when_asked_and_then_as_in_torch():
    logits, labels = torch.randn(2, 3, 7), torch.randint(7, (2, 3))
    plain = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    smooth = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1
    )
    table = nn.Embedding.from_pretrained(logits.flatten(0, 1))
    batch = (torch.arange(6).reshape(2, 3), labels)
    torch.testing.assert_close(next_token_loss(table, batch), plain)
    torch.testing.assert_close(label_loss(logits, labels, 0.0), plain)
    torch.testing.assert_close(label_loss(logits, labels, 0.1), smooth)
    assert TrainConfig(steps=1).label_smoothing == 0.0
    assert TrainConfig(steps=1).learning_rate == 1e-3  # as torch.optim.AdamW


@pytest.mark.parametrize("length", [1, 7, 40])
def test_the_length_rule_is_that_of_wu_et_al(length):
    """Section 7, equation 14; the default of 0.6 is that of the transformer's paper."""
    assert length_rule(length, 0.6) == pytest.approx(((5 + length) / 6) ** 0.6)
