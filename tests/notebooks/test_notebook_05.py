"""What notebook 05 builds is what the package holds."""

import torch
from nb05_block import block
from nb05_norms import layer_norm
from nb05_silent import road_is_free
from nb05_stack import stack
from torch import nn
from torch.nn import functional as F

from course_utils.blocks import EncoderBlock
from course_utils.config import StackConfig
from course_utils.feedforward import FeedForward

SIZES = {"d_model": 24, "num_heads": 4, "num_layers": 1, "d_ff": 40}


def test_the_norm_is_pytorchs(built):
    ours, theirs = built["OurLayerNorm"](24), nn.LayerNorm(24)
    nn.init.normal_(ours.scale), nn.init.normal_(ours.shift)
    theirs.load_state_dict({"weight": ours.scale.data, "bias": ours.shift.data})
    x = 3 * torch.randn(2, 5, 24) + 1
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_feed_forward_is_the_packages(built):
    ours, theirs = built["OurFeedForward"](24, 40), FeedForward(24, 40)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 24)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_block_is_the_packages_masked_or_not(built):
    ours = built["Block"](24, 4, 40)
    theirs = EncoderBlock(StackConfig(**SIZES))
    for norm in (ours.norm1, ours.norm2):
        nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
    theirs.attention.load_state_dict(ours.attention.state_dict())
    theirs.feedforward.load_state_dict(ours.feedforward.state_dict())
    theirs.attention_residual.norm.load_state_dict(ours.norm1.state_dict())
    theirs.feedforward_residual.norm.load_state_dict(ours.norm2.state_dict())
    x, mask = torch.randn(2, 5, 24), torch.ones(5, 5, dtype=torch.bool).tril()
    torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours(x, mask), theirs(x, mask))


def test_the_norm_of_the_exercise_is_pytorchs():
    x, scale, shift = 3 * torch.randn(2, 5, 24) + 1, torch.randn(24), torch.randn(24)
    for eps in (1e-5, 0.1):
        theirs = F.layer_norm(x, (24,), scale, shift, eps)
        torch.testing.assert_close(layer_norm(x, scale, shift, eps), theirs)


def test_block_and_stack_of_the_exercises_run_the_packages_and_the_notebooks(built):
    ours, x = built["Block"](24, 4, 40), torch.randn(2, 5, 24)
    parts = ours.norm1, ours.attention, ours.norm2, ours.feedforward, ours.dropout
    torch.testing.assert_close(block(x, *parts), ours(x))
    norm = nn.LayerNorm(24)
    torch.testing.assert_close(stack(x, [ours, ours], norm), norm(ours(ours(x))))


def test_the_silent_branch_test_knows_the_notebooks_and_the_packages_blocks(built):
    x = torch.randn(2, 5, 24)
    assert road_is_free(built["Block"](24, 4, 40, dropout=0.5), x)
    for norm in ("pre", "post"):
        config = StackConfig(**SIZES, dropout=0.5, norm=norm)
        assert road_is_free(EncoderBlock(config), x) == (norm == "pre")
