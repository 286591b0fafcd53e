"""For every test: shapes in signatures are executed; no bars."""

import importlib
import os
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import jaxtyping
import pytest
import torch

ROOT = Path(__file__).parents[1]
# Called so often while a world is counted through that checks would take minutes.
UNCHECKED = ("stories.py", "story_grammar.py", "story_graph.py", "grading.py")
FOLDERS = ("course_utils", "packages/attention_views", "packages/known_worlds")
FOLDERS += ("packages/lesson_plots",)
modules = [
    ".".join(path.relative_to((ROOT / folder).parent).with_suffix("").parts)
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if path.name not in ("__init__.py", *UNCHECKED)
]
banks = [path.stem for path in (ROOT / "notebooks" / "exercises").glob("nb*.py")]
jaxtyping.install_import_hook([*modules, *banks], "beartype.beartype")
for name in banks:
    importlib.import_module(name)  # a bank that `session` loads would escape the hook


@pytest.fixture
def float64():
    """The default type of most notebooks, and chance that is the same for all."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def record_budget(request):
    """Print a measured size in the table of budgets, and hold it to its bound."""
    plugin = request.config.pluginmanager.get_plugin("tests.support.course_notebooks")

    def record(name, measured, allowed):
        plugin.SIZES[name] = (measured, allowed)
        assert measured <= allowed, f"{name}: {measured} of {allowed}"

    return record
