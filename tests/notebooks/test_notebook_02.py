"""Notebook 02: its layer equals the package's, and its heads learn what it says."""

import pytest
import torch

from course_utils import attention
from course_utils.attention import MultiHeadAttention
from course_utils.pretrained import load
from tests.support.bank import BANK

BATCH, QUERIES, KEYS, HEADS, HEAD_DIM = 2, 3, 5, 7, 4
D_MODEL, D_MEMORY = HEADS * HEAD_DIM, 9


def layer_and_reference(layer_class, **sizes):
    torch.manual_seed(0)
    ours = layer_class(D_MODEL, HEADS, **sizes).double()
    package = MultiHeadAttention(D_MODEL, HEADS, **sizes).double()
    package.load_state_dict(ours.state_dict())
    return ours, package


@pytest.mark.parametrize("head_dim", [None, HEAD_DIM + 2])
@pytest.mark.parametrize("d_memory", [None, D_MEMORY])
def test_the_layer_equals_the_packages(built, d_memory, head_dim):
    ours, package = layer_and_reference(
        built["MultiHead"], d_memory=d_memory, head_dim=head_dim
    )
    x = torch.randn(BATCH, QUERIES, D_MODEL).double()
    memory = torch.randn(BATCH, KEYS, d_memory or D_MODEL).double()
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool).tril(1)
    asked = [(x, memory), (x, memory, mask)] + ([] if d_memory else [(x,)])
    for inputs in asked:
        torch.testing.assert_close(ours(*inputs), package(*inputs))


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built):
    x = torch.randn(BATCH, QUERIES, D_MODEL).double()
    buggy, package = layer_and_reference(built["Colleague"])
    assert (buggy(x) - package(x)).abs().max() > 1e-3

    class Cured(built["Colleague"]):
        def split(self, x):
            batch, length, _ = x.shape
            return x.reshape(batch, length, self.num_heads, -1).transpose(1, 2)

        def merge(self, context):
            return BANK["heads.merge"].reference(context)

    cured, package = layer_and_reference(Cured)
    torch.testing.assert_close(cured(x), package(x))


def trained(built, num_heads, head_dim=None):
    """A layer after the notebook's training, with another seed, and its last loss."""
    layer = MultiHeadAttention(10, num_heads, head_dim=head_dim, bias=False)
    losses, _ = built["train"](layer, built["make_tables"](1)[0])
    return layer, sum(losses[-50:]) / 50


def sides(built, layer):
    """What each head looks at most: {6} left, {1} right, in all rows of 50 tables."""
    weights = built["weights_of"](layer, built["make_tables"](50)[0])
    steps = (weights.argmax(dim=-1) - torch.arange(7)) % 7
    return [set(head.unique().tolist()) for head in steps.transpose(0, 1)]


def test_two_heads_share_the_work_and_hand_over_plus_and_minus(built, float64):
    layer, loss = trained(built, num_heads=2)
    assert loss < 0.01
    looks = sides(built, layer)
    assert sorted(map(tuple, looks)) == [(1,), (6,)]
    left, right = looks.index({6}), looks.index({1})
    ovs = [built["two_matrices"](layer, head)[1][:, :3] for head in (left, right)]
    for ov, sign in zip(ovs, (1, -1), strict=True):
        assert (ov[:3] - sign * torch.eye(3)).abs().max() < 0.05
    # Guest q gets the tag on her left by one head, the tag on her right by the other.
    from_tags = ovs[0][3:].roll(1, dims=0) + ovs[1][3:].roll(-1, dims=0)
    assert from_tags.abs().max() < 0.05


def test_one_head_hears_one_neighbor(built, float64):
    layer, loss = trained(built, num_heads=1)
    assert 0.95 < loss < 1.1
    assert sides(built, layer) in ([{1}], [{6}])
    weights = built["weights_of"](layer, built["make_tables"](50)[0])
    assert weights.std(dim=0).max() < 0.05  # they hardly depend on the numbers


def test_narrow_heads_lose_one_of_three_differences(built, float64):
    assert 0.6 < trained(built, num_heads=2, head_dim=2)[1] < 0.8


def test_the_left_looker_of_the_storyteller_needs_its_rotation(built, monkeypatch):
    """So the page may not say that its QK finds the neighbor, as a guest's does."""
    built["storyteller"], built["tokenizer"] = load("tinystories")

    def on_previous():
        text = "One day, a small dog ran to the park to play with his friend Tom."
        return built["maps_of"](text)[1, 0].diagonal(-1).mean()

    assert on_previous() > 0.5
    monkeypatch.setattr(attention, "rotate", lambda x, *rotary: x)
    assert on_previous() < 0.3
