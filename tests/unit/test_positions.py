"""Positions: the identities that make each scheme what it is."""

import pytest
import torch

from course_utils.config import DecoderConfig, StackConfig
from course_utils.models import DecoderLM
from course_utils.positions import (
    LearnedPositions,
    SinusoidalPositions,
    alibi_bias,
    rotary_table,
    rotate,
    sinusoidal_positions,
)


@pytest.mark.parametrize("d_model", [1, 2, 7, 16])
def test_sinusoids_follow_the_papers_formula(d_model):
    table = sinusoidal_positions(50, d_model)
    for position in (0, 1, 13, 49):
        for column in range(d_model):
            pair = column // 2
            angle = torch.tensor(position / 10_000 ** (2 * pair / d_model)).double()
            wave = angle.sin() if column % 2 == 0 else angle.cos()
            assert abs(table[position, column] - wave) < 1e-6


def test_a_shift_is_one_rotation_of_each_pair():
    table = sinusoidal_positions(200, 16).double()
    pairs = torch.view_as_complex(table.unflatten(-1, (8, 2)).flip(-1).contiguous())
    turn = pairs[7] / pairs[0]
    torch.testing.assert_close(pairs[:-7] * turn, pairs[7:], atol=1e-5, rtol=1e-5)


def test_products_of_sinusoids_depend_on_the_distance_alone():
    table = sinusoidal_positions(64, 10)
    products = table @ table.T
    for distance in (0, 1, 20, 63):
        stripe = products.diagonal(distance)
        torch.testing.assert_close(
            stripe, stripe[:1].expand_as(stripe), atol=1e-5, rtol=0
        )


def test_rotated_scores_depend_on_the_distance_alone_and_norms_stay():
    cos, sin = rotary_table(40, 8)
    query, key = torch.randn(2, 8)
    queries = rotate(query.expand(40, 8), cos, sin)
    keys = rotate(key.expand(40, 8), cos, sin)
    scores = queries @ keys.T
    for distance in (-30, -1, 0, 5):
        stripe = scores.diagonal(distance)
        torch.testing.assert_close(
            stripe, stripe[:1].expand_as(stripe), atol=1e-4, rtol=0
        )
    torch.testing.assert_close(queries.norm(dim=-1), query.norm().expand(40))
    assert (scores[0] - scores[0, 0]).abs().max() > 0.1


def test_alibi_slopes_halve_and_bias_is_zero_at_no_distance():
    bias = alibi_bias(8, 3, 5)
    assert bias.shape == (8, 3, 5)
    assert torch.equal(bias[0, 2], -0.5 * torch.tensor([4.0, 3, 2, 1, 0]))
    torch.testing.assert_close(bias[1:], bias[:-1] / 2)
    assert (bias[:, 0, 2] == 0).all()


@pytest.mark.parametrize("module", [SinusoidalPositions, LearnedPositions])
def test_start_continues_the_sequence_and_the_end_raises(module):
    layer = module(6, 10)
    x = torch.randn(2, 10, 6)
    torch.testing.assert_close(layer(x)[:, 4:], layer(x[:, 4:], start=4))
    with pytest.raises(ValueError, match="ends at position 10, but max_length=10"):
        layer(x[:, :3], start=8)


def test_fresh_learned_positions_are_small():
    """GPT-2's start: a spread of 0.02, alone and in a model."""
    torch.manual_seed(0)
    stack = StackConfig(d_model=64, num_heads=2, positions="learned", max_length=128)
    model = DecoderLM(DecoderConfig(vocab_size=99, stack=stack))
    for table in (LearnedPositions(64, 128).table, model.positions.table):
        assert table.std().item() == pytest.approx(0.02, rel=0.05)
        assert abs(table.mean().item()) < 0.001
