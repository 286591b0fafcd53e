"""Notebook 01: what it builds equals the package's; its solutions pass its checks."""

import ast
import inspect
import json
from pathlib import Path

import pytest
import torch

from course_utils.attention import attend, attention_scores, attention_weights
from named_mistakes import examine
from tests.support import notebook_code
from tests.support.bank import BANK

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_attention.ipynb"
CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
BATCH, QUERIES, KEYS, WIDTH, VALUES = 2, 3, 5, 7, 4


def source(cell):
    return "".join(cell["source"])


@pytest.fixture(scope="module")
def built():
    return notebook_code.built("01")


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


@pytest.mark.parametrize(
    "rung", ["attention_loops", "attention_matrices", "attention_einsum"]
)
def test_each_rung_equals_the_packages(rung, built, inputs):
    one = [tensor[0].detach() for tensor in inputs]
    expected = attend(*one)
    if rung == "attention_loops":
        context = torch.tensor(
            built[rung](*[t.tolist() for t in one]), dtype=torch.float64
        )
    else:
        context = built[rung](*one)
    torch.testing.assert_close(context, expected)


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


@pytest.mark.parametrize(
    "name, exercise",
    [
        ("my_scores", "attention.scores"),
        ("my_weights", "attention.weights"),
        ("my_context", "attention.context"),
        ("my_cosine_attention", "attention.cosine"),
        ("my_look_up", "attention.look_up"),
        ("my_gradient", "attention.gradient"),
    ],
)
def test_an_exercise_is_asked_as_the_bank_asks_it(name, exercise, built):
    """The arguments of the empty function are those of the check; it waits for you."""
    assert inspect.signature(built[name]).parameters.keys() == set(BANK[exercise].takes)
    assert examine(BANK[exercise], built[name]).status == "not tried"
    (cell,) = [c for c in CELLS if f'check("{exercise}", {name})' in source(c)]
    output = "".join("".join(o["data"]["text/plain"]) for o in cell["outputs"])
    assert f"{exercise}: not tried yet" in output and f"def {name}(" in source(cell)


def test_what_the_notebook_builds_answers_an_exercise(built):
    def answer(queries, keys, values, temperature):
        weights = (built["cosine"](queries, keys) / temperature).softmax(dim=-1)
        return weights @ values

    assert examine(BANK["attention.cosine"], answer).status == "right"
    scores = examine(BANK["attention.scores"], built["dot"])
    assert scores.status != "right"
