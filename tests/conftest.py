"""For every test: shapes in signatures are executed; few threads, no bars."""

import importlib
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ["TQDM_DISABLE"] = "1"
os.environ["MPLBACKEND"] = "Agg"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import jaxtyping
import pytest

BANKS = Path(__file__).parents[1] / "notebooks" / "exercises"
names = [path.stem for path in BANKS.glob("nb*.py")]
jaxtyping.install_import_hook(["course_utils", *names], "beartype.beartype")
for name in names:
    importlib.import_module(name)  # a bank that `session` loads would escape the hook


@pytest.fixture
def record_budget(request):
    """Print a measured size in the table of budgets, and hold it to its bound."""
    plugin = request.config.pluginmanager.get_plugin("tests.support.notebook_plugin")

    def record(name, measured, allowed):
        plugin.SIZES[name] = (measured, allowed)
        assert measured <= allowed, f"{name}: {measured} of {allowed}"

    return record
