"""Nonsense is refused in one sentence: the argument, what was expected, what came.

Each module of tests/unit/refusals holds a table of calls. The suite runs with executed
annotations, which would catch some of them first, so the calls run in a plain Python,
as they do in a reader's notebook. `test_the_checks_can_fail` shows that a call which
is accepted, or refused without a name, is found.
"""

import importlib
import pkgutil

import pytest

from tests.support.plain_python import answers_of
from tests.unit import refusals

TABLES = {
    found.name: importlib.import_module(f"tests.unit.refusals.{found.name}")
    for found in pkgutil.iter_modules(refusals.__path__)
}
CALLS = [(name, call) for name, table in TABLES.items() for call in table.CALLS]
PROGRAM = """
for call in given:
    try:
        answers[call] = "nothing: " + str(eval(call))[:100]
    except Exception as error:
        answers[call] = f"{type(error).__name__} {error}"
"""
_answers = {}


def fault(answer, wanted):
    """What is wrong with an answer, or None; wanted: "ValueError fragment fragment"."""
    kind, *fragments = wanted.split()
    if not answer.startswith(kind):
        return f"not a {kind}: {answer}"
    if missing := [f for f in fragments if f not in answer]:
        return f"{missing} not named in: {answer}"
    if "\n" in answer or len(answer) >= 240:
        return f"not one short sentence: {answer}"
    return None


@pytest.mark.parametrize(("table", "call"), CALLS)
def test_one_clear_sentence(table, call):
    if table not in _answers:
        program = TABLES[table].PREPARE + PROGRAM
        _answers[table] = answers_of(program, list(TABLES[table].CALLS))
    assert fault(_answers[table][call], TABLES[table].CALLS[call]) is None


def test_the_checks_can_fail():
    wanted = "ValueError size 0"
    assert fault("ValueError size must be >= 1, got 0", wanted) is None
    for answer in (
        "nothing: tensor(0.)",
        "TypeError size must be >= 1, got 0",
        "ValueError expected a positive number, got 0",
        "ValueError size must be >= 1, got 0\nsee above",
        "ValueError size must be >= 1, got 0" + "!" * 240,
    ):
        assert fault(answer, wanted), answer
    calls = ["torch.zeros(2)", "torch.zeros(-1)"]
    accepted = answers_of("import torch\n" + PROGRAM, calls)
    assert accepted["torch.zeros(2)"].startswith("nothing")
    assert accepted["torch.zeros(-1)"].startswith("RuntimeError")
