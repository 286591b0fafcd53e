"""The layer that notebook 02 builds is the one that the package holds."""

import re

import pytest
import torch

from course_utils.attention import MultiHeadAttention
from named_mistakes import examine
from tests.support.bank import BANK
from tests.support.notebook_code import texts

NAMES = ("MultiHead", "Colleague", "Cured")
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
    asked = [(x, memory)] if d_memory else [(x,), (x, memory)]
    for inputs in asked:
        torch.testing.assert_close(ours(*inputs), package(*inputs))


def test_the_cured_layer_equals_the_packages_and_the_buggy_one_does_not(built):
    x = torch.randn(BATCH, QUERIES, D_MODEL).double()
    cured, package = layer_and_reference(built["Cured"])
    torch.testing.assert_close(cured(x), package(x))
    buggy, package = layer_and_reference(built["Colleague"])
    assert (buggy(x) - package(x)).abs().max() > 1e-3


def test_its_solutions_are_right():
    space = {}
    for block in re.findall(r"```python\n(.*?)```", "\n".join(texts("02")), re.S):
        exec(block, space)
    for name in ("split", "merge", "count", "layer"):
        report = examine(BANK[f"heads.{name}"], space[f"my_{name}"])
        assert report.status == "right", report.text
