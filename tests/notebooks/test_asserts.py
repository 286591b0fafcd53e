"""Asserts in the notebooks can fail, and none goes or is loosened unseen.

asserted_numbers.txt has a line for each notebook: how many asserts, then their numbers.
"""

import ast
import builtins
import io
import tokenize
from itertools import pairwise
from pathlib import Path

import pytest

from nbval_strict.plugin import expect_none
from tests.support.notebook_code import NOTEBOOKS, code_cells

LIST = Path(__file__).with_name("asserted_numbers.txt")


def empty_asserts(sources):
    """Asserts that are true whatever the notebook computes, one sentence each."""
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Assert):
            for claim in claims(node.test):
                if not depends(claim):
                    yield f"{ast.unparse(claim)!r} depends on nothing that was computed"
                if is_trivial(claim):
                    yield f"{ast.unparse(claim)!r} compares something with itself"
            if always_true(node.test):
                yield f"{ast.unparse(node.test)!r} is always true"


def depends(claim):
    """Does it use a name of the notebook, or call a method?"""
    nodes = list(ast.walk(claim))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    methods = [node for node in nodes if isinstance(node, ast.Attribute)]
    return bool(names - set(dir(builtins)) or methods)


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


def asserted(number):
    """A notebook, how many asserts it has, and each number in them, as a line."""
    trees = [ast.parse(source) for source, _ in code_cells(number)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    tests = [ast.unparse(node.test) for node in nodes if isinstance(node, ast.Assert)]
    text = io.StringIO("\n".join(tests))
    tokens = tokenize.generate_tokens(text.readline)
    numbers = [one.string for one in tokens if one.type == tokenize.NUMBER]
    return " ".join([number, f"{len(tests)} asserts", *numbers])


def test_no_assert_is_taken_out_or_loosened_unseen():
    known = LIST.read_text("utf-8").splitlines()
    expect_none(
        f"{line}: undo it, or write it into {LIST.name}"
        for line in map(asserted, NOTEBOOKS)
        if line not in known
    )


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
    ],
)
def test_a_weakened_assert_is_noticed(weakened):
    assert list(empty_asserts([weakened]))
    sound = "assert loss < 2 and (worst := max(losses)) < 3 and not torch.isnan(loss)"
    assert not list(empty_asserts([sound]))
