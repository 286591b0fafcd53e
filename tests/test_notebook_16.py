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
