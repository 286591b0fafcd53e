"""What notebook 16 counts is what the package makes."""

import json
from pathlib import Path

import numpy as np
import pytest

from course_utils.config import LlamaConfig
from course_utils.models import LlamaLM

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "16_scaling_out.ipynb"


def define(name):
    """The function of that name, as the notebook defines it."""
    names = {"np": np, "LlamaConfig": LlamaConfig}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code" and f"def {name}(" in source:
            start = source.index(f"def {name}(")
            exec(source[start:].split("\n\n\n")[0], names)
    return names[name]


@pytest.mark.parametrize("layers", [1, 3])
def test_the_count_of_parameters(layers):
    config = LlamaConfig(31, 24, 4, 4, layers, 56, 16)
    made = sum(weight.numel() for weight in LlamaLM(config).parameters())
    assert define("count")(config) == made


def test_the_bug_is_one_and_the_repair_is_one():
    sums, lengths = np.array([6.0, 2.0, 5.0, 3.0]), np.array([9, 2, 7, 1])
    one_process = sums.sum() / lengths.sum()
    assert abs(define("on_two_ranks")(sums, lengths) - one_process) > 0.1
    assert define("repaired")(sums, lengths) == pytest.approx(one_process)


def answers(name):
    """The answer that the notebook gives behind `name`, as a function."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells]
    place = next(i for i, s in enumerate(sources) if s.startswith(f"def {name}("))
    line = next(s for s in sources[place + 1].split("`") if s.startswith("return "))
    header = sources[place].splitlines()[0]
    names = {}
    exec(f"{header}\n    {line}", names)
    return names[name]


def test_the_answers_pass_the_checks_of_their_cells():
    days, kept = answers("days"), answers("bytes_per_process")
    assert days(7e9, 1e12, 64, 1e15, 0.4) == pytest.approx(18.99, abs=0.01)
    assert days(7e9, 1e12, 64, 1e15, 1.0) == pytest.approx(7.6, abs=0.1)
    assert [kept(7e9, 8, sharded) for sharded in (False, True)] == [112e9, 14e9]
    assert answers("factor_that_halves")(0.1) == pytest.approx(1024)
