"""Notebook 01: what it builds equals its twin; its solutions pass its own checks."""

import ast
import json
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_utils.attention import attend, attention_scores, attention_weights
from course_utils.exercises.session import check

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01_attention.ipynb"
CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
BATCH, QUERIES, KEYS, WIDTH, VALUES = 2, 3, 5, 7, 4


def source(cell):
    return "".join(cell["source"])


@pytest.fixture(scope="module")
def built():
    """The functions and classes that the notebook defines; nothing else is run."""
    names = {"torch": torch, "nn": nn, "F": F, **vars(math)}
    for cell in CELLS:
        if cell["cell_type"] != "code":
            continue
        for node in ast.parse(source(cell)).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                exec(compile(ast.Module([node], []), str(NOTEBOOK), "exec"), names)
    return names


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(0)
    shapes = (BATCH, QUERIES, WIDTH), (BATCH, KEYS, WIDTH), (BATCH, KEYS, VALUES)
    make = {"generator": generator, "dtype": torch.float64, "requires_grad": True}
    return [torch.randn(shape, **make) for shape in shapes]


def test_attention_equals_its_twin(built, inputs):
    context, weights = built["attention"](*inputs)
    torch.testing.assert_close(context, attend(*inputs))
    queries, keys, _ = inputs
    twin = attention_weights(attention_scores(queries, keys))
    torch.testing.assert_close(weights, twin)
    ours = torch.autograd.grad(context.square().sum(), inputs)
    theirs = torch.autograd.grad(attend(*inputs).square().sum(), inputs)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "rung", ["attention_loops", "attention_matrices", "attention_einsum"]
)
def test_each_rung_equals_the_twin(rung, built, inputs):
    one = [tensor[0].detach() for tensor in inputs]
    wanted = attend(*one)
    if rung == "attention_loops":
        context = torch.tensor(
            built[rung](*[t.tolist() for t in one]), dtype=torch.float64
        )
    else:
        context = built[rung](*one)
    torch.testing.assert_close(context, wanted)


def test_the_bug_to_find_is_there_and_its_answer_cures_it(built, inputs):
    one = [tensor[0] for tensor in inputs]
    torch.testing.assert_close(built["colleague"](*one)[0], attend(*one))
    assert not torch.allclose(built["colleague"](*inputs)[0], attend(*inputs))
    (cell,) = [
        c for c in CELLS if "def colleague" in source(c) and c["cell_type"] == "code"
    ]
    (node,) = [
        n for n in ast.parse(source(cell)).body if isinstance(n, ast.FunctionDef)
    ]
    assert ast.unparse(node).count("dim=1") == 1
    names = dict(built)
    exec(ast.unparse(node).replace("dim=1", "dim=-1"), names)
    torch.testing.assert_close(names["colleague"](*inputs)[0], attend(*inputs))


SOLUTIONS = re.findall(
    r"```python\n(.*?)```",
    "\n".join(source(c) for c in CELLS if c["cell_type"] == "markdown"),
    re.S,
)


def functions(text):
    found = ast.parse(text).body
    return [node.name for node in found if isinstance(node, ast.FunctionDef)]


def exercise_cell(name):
    """The code cell that leaves a function to the reader, and what it stores."""
    (cell,) = [
        c for c in CELLS if f"def {name}(" in source(c) and c["cell_type"] == "code"
    ]
    shown = [o.get("text") or o["data"]["text/plain"] for o in cell["outputs"]]
    assert all("not tried yet" in "".join(text) for text in shown) and shown
    body = ast.parse(source(cell)).body
    return [node for node in body if not isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda text: text.split("(")[0][4:])
def test_each_solution_passes_the_check_of_its_cell(solution, built, capsys):
    body = exercise_cell(functions(solution)[0])
    names = dict(built) | {"check": check}
    names["ANIMALS"] = [str(i) for i in range(8)]
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exec(solution, names)
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
    finally:
        torch.set_default_dtype(default)
    said = [line[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert said == ["✓"] * len(functions(solution))


def test_there_are_three_blocks_of_solutions():
    assert [len(functions(text)) for text in SOLUTIONS] == [3, 1, 1]
