"""Asserts in the notebooks can fail: each depends on what its notebook computes."""

import ast
import builtins
from itertools import pairwise

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS, code_cells

LOOSE = 100  # a distance between two numbers that no claim may tolerate


def empty_asserts(sources):
    """Asserts that are true whatever the notebook computes, one sentence each."""
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Assert):
            for claim in claims(node.test):
                if not depends(claim):
                    yield f"{ast.unparse(claim)!r} depends on nothing that was computed"
                if is_trivial(claim):
                    yield f"{ast.unparse(claim)!r} compares something with itself"
                if loose := [x for x in tolerances(claim) if x > LOOSE]:
                    yield f"{ast.unparse(claim)!r} tolerates a distance of {loose[0]:g}"
            if always_true(node.test):
                yield f"{ast.unparse(node.test)!r} is always true"


def depends(claim):
    """Does it use a name of the notebook, or call a method?"""
    nodes = list(ast.walk(claim))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    methods = [node for node in nodes if isinstance(node, ast.Attribute)]
    return bool(names - set(dir(builtins)) or methods)


def tolerances(claim):
    """What `atol`, `rtol` and the like are, and what a distance must stay below."""
    for node in ast.walk(claim):
        if isinstance(node, ast.keyword) and node.arg in ("atol", "rtol", "abs_tol"):
            yield from numbers(node.value)
        if not isinstance(node, ast.Compare) or "abs(" not in ast.unparse(node.left):
            continue
        if isinstance(node.ops[-1], ast.Lt | ast.LtE):
            yield from numbers(node.comparators[-1])


def numbers(node):
    """The number that a node is, if it is one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield node.value


def claims(test):
    """The parts of a condition that must all hold."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in claims(value)]
    return [test]


def always_true(test):
    """Does a part that is a constant make the whole true?"""
    if isinstance(test, ast.BoolOp):
        parts = [always_true(value) for value in test.values]
        return any(parts) if isinstance(test.op, ast.Or) else all(parts)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return isinstance(test.operand, ast.Constant) and not test.operand.value
    if isinstance(test, ast.Tuple | ast.List):  # assert (condition, "message")
        return bool(test.elts)
    return isinstance(test, ast.Constant) and bool(test.value)


def is_trivial(claim):
    """Is it `x == x`, `x <= x` or the like?"""
    if not isinstance(claim, ast.Compare):
        return False
    sides = [ast.unparse(side) for side in (claim.left, *claim.comparators)]
    return any(one == other for one, other in pairwise(sides))


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_each_assert_of_a_notebook_can_fail(number):
    expect_none(empty_asserts(source for source, _ in code_cells(number)))


@pytest.mark.parametrize(
    "weakened",
    [
        "assert True",
        "assert True or loss < 2",
        "assert loss < 2 or 1",
        "assert not False",
        "assert (loss < 2, 'too large')",
        "assert loss <= loss",
        "assert loss < 2 and 1 < 2",
        "assert len([1, 2]) == 2",
        "assert loss < 2 or True and 'yes'",
        "assert (mine - theirs).abs().max() < 1e8",
        "assert torch.allclose(mine, theirs, atol=1e8)",
    ],
)
def test_a_weakened_assert_is_noticed(weakened):
    assert list(empty_asserts([weakened]))
    sound = "assert loss < 2 and (worst := max(losses)) < 3 and not torch.isnan(loss)"
    assert not list(empty_asserts([sound]))
