"""What notebook 04 builds is what the package holds."""

import pytest
import torch
from nb04_relative import relative_bias
from nb04_rotary import rotary, step_on
from nb04_sinusoids import hand_angle

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


def test_the_pair_of_the_exercise_is_frequency_times_position():
    assert abs(hand_angle(30, 4, 16) - 30 * 10_000 ** (-8 / 16)) < 1e-9


def test_the_three_of_the_exercise_know_the_distance_alone(built):
    q, k, v = torch.randn(3, BATCH, HEADS, LENGTH, WIDTH)
    turned = built["rotary_angles"](LENGTH, WIDTH)
    mine = built["turn"](q, turned), built["turn"](k, turned), v
    torch.testing.assert_close(rotary(q, k, v), mine)


def test_the_repaired_table_is_the_packages_and_the_colleagues_is_not(built):
    table = sinusoidal_positions(40, WIDTH)
    torch.testing.assert_close(built["repaired"](40, WIDTH), table)
    assert (built["colleague"](40, WIDTH) - table).abs().max() > 0.1


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


def test_pairs_of_neighbors_are_those_of_halves_in_another_order(built):
    x = torch.randn(BATCH, HEADS, LENGTH, WIDTH)
    angles = built["rotary_angles"](LENGTH, WIDTH)
    reorder = built["halves_from_neighbors"]
    actual = reorder(built["turn_neighbors"](x, angles))
    torch.testing.assert_close(actual, built["turn"](reorder(x), angles))


def test_the_relative_bias_of_the_exercise_is_the_notebooks(built):
    table = torch.randn(HEADS, WIDTH)
    ours = built["relative_bias"](table, LENGTH, 2 * LENGTH)
    torch.testing.assert_close(relative_bias(table, LENGTH, 2 * LENGTH), ours)
    assert ours.shape == (HEADS, LENGTH, 2 * LENGTH)


def test_clipped_scores_are_rotary_up_to_the_longest_distance_of_training(built):
    queries, keys = torch.randn(2, BATCH, HEADS, 40, 8)
    clipped = built["clipped_scores"]([0, 1, 2, 3], queries, keys)
    angles = built["rotary_angles"](40, 8)
    turned = built["turn"](queries, angles) @ built["turn"](keys, angles).mT
    near = torch.ones(40, 40).tril(0).triu(-15).bool()
    torch.testing.assert_close(clipped[..., near], (turned / 8**0.5)[..., near])
    at_15 = built["turn"](queries, angles[15]) @ keys.mT
    far = torch.ones(40, 40).tril(-16).bool()
    torch.testing.assert_close(clipped[..., far], (at_15 / 8**0.5)[..., far])


def test_pairs_that_are_not_clipped_turn_as_far_as_ever(built):
    queries, keys = torch.randn(2, BATCH, HEADS, 40, 8)
    angles = built["rotary_angles"](40, 8)
    turned = built["turn"](queries, angles) @ built["turn"](keys, angles).mT
    past = torch.ones(40, 40).tril(0).bool()
    free = built["clipped_scores"]([], queries, keys)
    torch.testing.assert_close(free[..., past], (turned / 8**0.5)[..., past])
    queries[..., [1, 5]] = 0.0  # nothing on pair 1, so that holding it does nothing
    held, free = (built["clipped_scores"](pairs, queries, keys) for pairs in ([1], []))
    torch.testing.assert_close(held, free)


def test_the_penalty_for_distance_is_the_packages(built):
    ours = built["alibi"](HEADS, LENGTH)
    torch.testing.assert_close(ours, alibi_bias(HEADS, LENGTH, LENGTH))
