"""What the notebook checks accept of another machine, and what they leave untouched."""

import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from nbval_strict import arithmetic, plugin, traces
from nbval_strict.printed import same_but_for_last_digits
from tools.notebook_rules import ROOT

SAME = [
    "1.20 | 1.21",
    "0.36 | 0.37",
    "1.2345678 | 1.2401234",
    "-2.1e-16 | 3.3e-17",
    "1.5e-05 x |  1.51e-05 x",
    "[0,1,0.500] | [0,1,0.501]",
]
OTHER = [
    "0.1 | 0.2",
    "0.0012 | 0.0013",
    "0.00 | 0.01",
    "1e-05 | 2e-05",
    "100 of 100 right | 99 of 100 right",
    "50256 | 50257",
    "1,000 | 999",
    "x 3 | x -3",
    "torch 2.13.0 | torch 2.14.0",
    "2026-11-27 | 2026-11-28",
    "27.11.2026 | 28.11.2026",
]


@pytest.mark.parametrize("texts", SAME + OTHER)
def test_another_machine_may_change_the_last_digits_only(texts):
    assert same_but_for_last_digits(*texts.split(" | ")) == (texts in SAME)


def test_an_import_changes_no_variable():
    names = [path.stem for path in (ROOT / "packages" / "nbval_strict").glob("*.py")]
    imports = ", ".join(f"nbval_strict.{name}" for name in names)
    code = "import os; old = dict(os.environ); import {}; assert os.environ == old"
    environ = os.environ | {"OMP_NUM_THREADS": "7"}
    command = [sys.executable, "-c", code.format(imports)]
    subprocess.run(command, env=environ, check=True)


def test_tests_and_kernels_compute_with_the_pinned_settings(tmp_path):
    wanted = arithmetic.wanted().items()
    assert wanted <= os.environ.items()
    assert wanted <= plugin.quiet_variables(tmp_path).items()


def test_fonts_are_kept_where_this_python_can_be_written(tmp_path, monkeypatch):
    assert plugin.matplotlib_folder(tmp_path) == Path(sys.prefix) / "matplotlib"
    monkeypatch.setattr(sys, "prefix", "/dev/null")
    assert plugin.matplotlib_folder(tmp_path) == tmp_path / "matplotlib"


def test_what_notebooks_write_is_looked_for_on_windows_too(tmp_path):
    one = traces.Traces(tmp_path / "scratch", tmp_path)
    assert {"HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"} <= {*one.variables()}
    assert one._may_write(PureWindowsPath(r"exercises\__pycache__"))
    assert traces.is_cache(PureWindowsPath(r".cache\matplotlib\fontlist.json"))
    assert not one._may_write(PureWindowsPath(r"exercises\left.txt"))
