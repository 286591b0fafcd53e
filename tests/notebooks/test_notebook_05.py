"""What notebook 05 builds is what the package holds."""

import torch
from nb05_block import block
from nb05_norms import layer_norm
from nb05_silent import road_is_free
from nb05_stack import stack
from torch import nn
from torch.nn import functional as F

from course_utils.attention import GroupedQueryAttention
from course_utils.blocks import EncoderBlock
from course_utils.config import StackConfig
from course_utils.diagnostics import dead_parameters
from course_utils.feedforward import FeedForward
from course_utils.positions import rotary_table
from tests.support.notebook_code import code_cells
from tools.notebook_rules import joined

SIZES = {"d_model": 24, "num_heads": 4, "num_layers": 1, "d_ff": 40}
NAMES = ("cosines", "likeness", "OurFeedForward", "Block", "Pasted", "joins")
NAMES += ("JoinedBlock", "Stack")


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


def test_the_pasted_stack_has_a_dead_block_and_its_answer_cures_it(built):
    pasted, ids = built["Pasted"](), torch.randint(0, 10, (4, 6))
    dead = dead_parameters(pasted, lambda: pasted(ids).square().sum())
    assert {name.split(".")[0] for name in dead} == {"block1"} and len(dead) == 16
    (source,) = [one for one, _ in code_cells("05") if "class Pasted" in one]
    assert source.count("self.block2(embedded)") == 1
    names = dict(built)
    exec(source.replace("self.block2(embedded)", "self.block2(hidden)"), names)
    cured = names["Pasted"]()
    assert not dead_parameters(cured, lambda: cured(ids).square().sum())


def test_the_four_ways_to_join_are_what_their_names_say(built):
    x, norm, layer = torch.randn(2, 5, 16), nn.LayerNorm(16), nn.Linear(16, 16)
    joined = {name: join(x, layer, norm) for name, join in built["joins"].items()}
    torch.testing.assert_close(joined["post-norm"], norm(x + layer(x)))
    torch.testing.assert_close(joined["pre-norm"] - x, joined["no plus"])
    torch.testing.assert_close(joined["no norm"], x + layer(x))
    block, ours = built["JoinedBlock"]("pre-norm"), built["Block"](16, 4, 64)
    ours.load_state_dict(block.state_dict())
    torch.testing.assert_close(block(x), ours(x))


def test_no_seven_vectors_are_farther_apart_than_the_line_in_the_last_plot(built):
    likeness = built["likeness"]
    assert all(likeness(torch.randn(1, 7, 4)) > -1 / 6 for _ in range(200))
    simplex = (torch.eye(7) - 1 / 7)[None]
    assert abs(likeness(simplex) + 1 / 6) < 1e-6


def test_attention_alone_finds_the_digit_two_back_if_it_has_rope():
    """With ALiBi it needs the feed-forward, as the game of section 4 shows."""
    torch.manual_seed(0)
    digits, attention = nn.Embedding(10, 64), GroupedQueryAttention(64, 8, 8)
    head, rotary = nn.Linear(64, 10), rotary_table(16, 8)
    parts = nn.ModuleList([digits, attention, head])
    optimizer = torch.optim.Adam(parts.parameters(), lr=0.003)
    for _ in range(100):
        ids = torch.randint(10, (16, 16))
        x = digits(ids)
        x = x + attention(F.layer_norm(x, (64,)), rotary, causal=True)
        logits, answers = head(F.layer_norm(x, (64,)))[:, 2:], ids[:, :-2]
        loss = F.cross_entropy(logits.flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (logits.argmax(dim=-1) == answers).double().mean() > 0.99


def test_training_spreads_the_words_of_pre_norm_alone():
    """The stored outputs; they are compared with what the cells give."""
    (said,) = [o for s, o in code_cells("05") if "def trained(" in s]
    lines = dict(line.split(maxsplit=1) for line in _text(said).splitlines()[2:])
    assert lines["pre-norm"] == "tired was it because sat cat the"
    assert len(set(lines["post-norm"].split())) == 1


def _text(outputs):
    return "".join(joined(one.get("text", "")) for one in outputs)
