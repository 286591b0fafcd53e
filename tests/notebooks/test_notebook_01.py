"""Notebook 01: what it builds equals the package's; its solutions pass its checks."""

import ast

import pytest
import torch

from course_utils.attention import attend, attention_scores, attention_weights
from tests.support.notebook_code import code_cells

BATCH, QUERIES, KEYS, WIDTH, VALUES = 2, 3, 5, 7, 4


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(0)
    shapes = (BATCH, QUERIES, WIDTH), (BATCH, KEYS, WIDTH), (BATCH, KEYS, VALUES)
    make = {"generator": generator, "dtype": torch.float64, "requires_grad": True}
    return [torch.randn(shape, **make) for shape in shapes]


def test_attention_equals_the_packages(built, inputs):
    context, weights = built["attention"](*inputs)
    torch.testing.assert_close(context, attend(*inputs))
    queries, keys, _ = inputs
    expected = attention_weights(attention_scores(queries, keys))
    torch.testing.assert_close(weights, expected)
    ours = torch.autograd.grad(context.square().sum(), inputs)
    theirs = torch.autograd.grad(attend(*inputs).square().sum(), inputs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("rung", ["attention_loops", "attention_einsum"])
def test_each_rung_equals_the_packages(rung, built, inputs):
    one = [tensor[0].detach() for tensor in inputs]
    given = [t.tolist() for t in one] if rung == "attention_loops" else one
    context = torch.as_tensor(built[rung](*given), dtype=torch.float64)
    torch.testing.assert_close(context, attend(*one))


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built, inputs):
    one = [tensor[0] for tensor in inputs]
    torch.testing.assert_close(built["colleague"](*one)[0], attend(*one))
    assert not torch.allclose(built["colleague"](*inputs)[0], attend(*inputs))
    (source,) = [one for one, _ in code_cells("01") if "def colleague" in one]
    (node,) = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    assert ast.unparse(node).count("dim=1") == 1
    names = dict(built)
    exec(ast.unparse(node).replace("dim=1", "dim=-1"), names)
    torch.testing.assert_close(names["colleague"](*inputs)[0], attend(*inputs))


def test_one_word_moves_the_dark_cell(built, float64):
    """And it was never trained on a tired cat or a dirty mat."""
    for source, _ in code_cells("01"):
        if "FRAME = " in source or "def who(" in source:
            exec(source, built)
    for reason, noun in (("tired", "cat"), ("dirty", "mat")):
        text = built["FRAME"].format("cat", "mat", reason)
        weights = built["who"](built["model"], text)
        assert text.split()[weights.argmax()] == noun and weights.max() > 0.9
    ids, answers = built["make_sentences"](500)
    last = [built["VOCABULARY"][i] for i in ids[:, -1]]
    seen = {(built["VOCABULARY"][i], r) for i, r in zip(answers, last, strict=True)}
    assert len(seen) == 6 * 4 * 2 - 2
    assert not seen & {("cat", "tired"), ("mat", "dirty")}


def test_without_the_root_a_smaller_rate_learns_too(built, float64):
    """So the page may not say that no gradient moves a cold softmax."""
    for source, _ in code_cells("01"):
        if "FRAME = " in source:
            exec(source, built)
    for stretch, rate, low, high in (
        (1, 0.005, 0, 0.1),
        (16, 0.005, 1, 2),
        (16, 1e-4, 0.1, 0.7),
    ):
        assert low <= sum(built["loss_curve"](stretch, rate)[-10:]) / 10 < high
