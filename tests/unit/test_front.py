"""One front for all names, which reads a file at the first use; old paths lead on."""

import ast
import importlib
import subprocess
import sys

import pytest

import course_utils
from course_utils import moved
from tests.support.notebook_code import NOTEBOOKS, code_cells


def test_each_name_is_that_of_its_file():
    for name in course_utils.__all__:
        module = importlib.import_module(f"course_utils.{course_utils.FILE_OF[name]}")
        assert getattr(course_utils, name) is getattr(module, name)
    with pytest.raises(ImportError, match="cannot import name 'LamaLM'"):
        from course_utils import LamaLM  # noqa: F401


def test_the_front_alone_loads_nothing():
    code = "import sys, course_utils; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("old", [name for name in moved.NOW if name != "looking"])
def test_an_old_path_leads_to_the_new_module(old):
    new = importlib.import_module(f"course_utils.{moved.NOW[old]}")
    sys.modules.pop(f"course_utils.{old}", None)
    with pytest.warns(FutureWarning, match=f"{old} is now {new.__name__}$"):
        assert importlib.import_module(f"course_utils.{old}") is new
    parent, _, name = f"course_utils.{old}".rpartition(".")
    assert getattr(importlib.import_module(parent), name) is new


def test_what_stood_in_looking_is_found_there():
    from course_utils.looking import maps, metrics

    assert maps.__name__ == "course_utils.views.maps"
    assert metrics.__name__ == "course_utils.metrics"


@pytest.mark.parametrize("number", NOTEBOOKS)
def test_notebooks_use_the_front(number):
    for source, _ in code_cells(number):
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {alias.name for alias in node.names}
                long = node.module.startswith("course_utils.")
                assert not (long and names & {*course_utils.__all__}), node.module
