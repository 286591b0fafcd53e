"""What tests and cells usually take is written and read."""

import json

from tests.support import measure


def test_what_is_usual_is_written_and_read():
    functions = {"test_a.py::test_one": 1.04, "test_a.py::test_two": 0.02}
    cells = {"01_attention.ipynb": {"01-003": 4.26}}
    before = {"test_b.py": {"test_three": 2.0}, "01_attention.ipynb": {"01-009": 9.0}}
    text = measure.written(functions, cells, before)
    assert json.loads(text) == {
        "01_attention.ipynb": {"01-003": 4.3},
        "test_a.py": {"test_one": 1.0},
        "test_b.py": {"test_three": 2.0},
    }
