"""What notebook 04 builds is what the package holds."""

import pytest
import torch
from nb04_rotary import rotary, step_on

from course_utils.positions import (
    LearnedPositions,
    alibi_bias,
    rotary_table,
    rotate,
    sinusoidal_positions,
)

BATCH, HEADS, LENGTH, MAX_LENGTH, WIDTH = 2, 3, 5, 7, 6
pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("width", [1, 2, WIDTH, WIDTH + 1])
def test_the_sinusoids_are_the_packages(built, width):
    ours = built["sinusoids"](40, width)
    torch.testing.assert_close(ours, sinusoidal_positions(40, width))


def test_a_thousand_positions_are_more_than_1_apart(built):
    assert torch.pdist(built["sinusoids"](1000, 16)).min() > 1


def test_the_rotation_moves_the_packages_table(built):
    table = sinusoidal_positions(40, WIDTH)
    moved = table @ built["rotation"](LENGTH, WIDTH).T
    torch.testing.assert_close(moved[:-LENGTH], table[LENGTH:])


def test_a_step_of_the_exercise_is_the_notebooks_rotation(built):
    table = sinusoidal_positions(40, WIDTH)
    for row, steps in ((20, 5), (3, 1), (7, 0)):
        moved = built["rotation"](steps, WIDTH) @ table[row]
        torch.testing.assert_close(step_on(table[row], steps), moved)
        torch.testing.assert_close(step_on(table[row], steps), table[row + steps])


def test_the_three_of_the_exercise_know_the_distance_alone(built):
    q, k, v = torch.randn(3, BATCH, HEADS, LENGTH, WIDTH)
    turned = built["rotary_angles"](LENGTH, WIDTH)
    mine = built["turn"](q, turned), built["turn"](k, turned), v
    torch.testing.assert_close(rotary(q, k, v, 0, 10_000.0), mine)


def test_the_learned_table_equals_the_packages(built):
    ours = built["Learned"](WIDTH, MAX_LENGTH)
    reference = LearnedPositions(WIDTH, MAX_LENGTH)
    reference.load_state_dict(ours.state_dict())
    x = torch.randn(BATCH, LENGTH, WIDTH)
    torch.testing.assert_close(ours(x), reference(x))
    assert not torch.equal(ours(x), x)


def test_turning_is_the_packages_rotation(built):
    x = torch.randn(BATCH, HEADS, LENGTH, WIDTH)
    ours = built["turn"](x, built["rotary_angles"](LENGTH, WIDTH))
    torch.testing.assert_close(ours, rotate(x, *rotary_table(LENGTH, WIDTH)))


def test_the_penalty_for_distance_is_the_packages(built):
    ours = built["alibi"](HEADS, LENGTH)
    torch.testing.assert_close(ours, alibi_bias(HEADS, LENGTH, LENGTH))


def test_the_colleagues_table_looks_right_and_is_uneven(built):
    theirs, ours = built["colleague"](64, 16), sinusoidal_positions(64, 16)
    assert theirs.shape == ours.shape and theirs.abs().max() <= 1
    assert torch.pdist(theirs).min() > 0.1
    assert (
        spread_of_diagonals(theirs @ theirs.T) > 1 > spread_of_diagonals(ours @ ours.T)
    )
    wide = built["colleague"](64, 512)
    assert spread_of_diagonals(wide @ wide.T) / 256 < 0.01, "a wide table hides it"


def test_turned_scores_know_the_distance_alone_and_added_ones_do_not(built):
    torch.manual_seed(2)
    to_query, to_key = torch.randn(2, 16, 16) / 4
    word = torch.randn(16).expand(24, 16)
    angles = built["rotary_angles"](24, 16)
    turned = (
        built["turn"](word @ to_query, angles),
        built["turn"](word @ to_key, angles),
    )
    added = word + built["sinusoids"](24, 16)
    scores = turned[0] @ turned[1].T
    assert spread_of_diagonals(scores) < 1e-12 and not torch.allclose(scores, scores.T)
    assert spread_of_diagonals((added @ to_query) @ (added @ to_key).T) > 10


def spread_of_diagonals(products):
    """The largest difference within one diagonal."""
    length = len(products)
    lines = [products.diagonal(offset) for offset in range(1 - length, length)]
    return max((line.max() - line.min()).item() for line in lines)
