"""The house: imports point downward, ruff is content, nothing stands where it must not.

The layers are listed in pyproject.toml, where import-linter reads them.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.totals import PARTS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "course_utils"

MODULES = sorted(PACKAGE.rglob("*.py"))
NAMED = [path for path in MODULES if path.name != "__init__.py"]


def run(*command, folder=ROOT):
    """A tool of this environment."""
    tool = shutil.which(command[0], path=str(Path(sys.executable).parent))
    told = {"cwd": folder, "capture_output": True, "text": True}
    return subprocess.run([tool, *command[1:]], **told)


def lint_imports(folder):
    return run("lint-imports", "--no-cache", folder=folder)


def test_imports_point_downward():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


UPWARD = {
    "masks.py": "from course_utils import attention",
    "decoding.py": "from course_utils.models import DecoderLM",
    "data/batches.py": "from course_utils.training import loop",
    "training/losses.py": "def later():\n    import course_utils.training.loop",
    "looking/plots.py": "from course_utils.looking.views import page",
    "workshop.py": "from course_utils import shapes",
    "shelf.py": "",
}


@pytest.mark.parametrize("path", UPWARD)
def test_an_import_upward_or_a_module_without_a_place_is_seen(path, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "course_utils")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert lint_imports(tmp_path).returncode == 0
    with (tmp_path / "course_utils" / path).open("a", encoding="utf-8") as file:
        file.write(f"\n{UPWARD[path]}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1 and Path(path).stem in done.stdout + done.stderr


@pytest.mark.parametrize("command", ["check", "format --check"])
def test_ruff_has_nothing_to_say(command):
    done = run("ruff", *command.split(), "--no-cache", "--quiet")
    assert done.returncode == 0, done.stdout


def arguments(function):
    given = function.args
    return given.posonlyargs + given.args + given.kwonlyargs


def public(tree):
    """Public functions and classes of a module, and the latter's public methods."""
    kinds = ast.FunctionDef | ast.ClassDef
    own = [n for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")]
    for node in own:
        yield node
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            shown = getattr(inner, "name", "_")
            if shown in ("__init__", "__call__") or shown[0] != "_":
                yield inner


@pytest.mark.parametrize("path", NAMED, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_public_functions_are_annotated(path):
    for function in public(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef):
            bare = [
                argument.arg
                for argument in arguments(function)
                if argument.annotation is None and argument.arg not in ("self", "cls")
            ]
            assert not bare, f"{function.name} does not annotate {bare}"
            gives = function.returns is not None or function.name == "__init__"
            assert gives, f"{function.name} does not say what it gives"


def test_nothing_is_re_exported_and_nothing_is_called_utils():
    for path in MODULES:
        if path.name == "__init__.py":
            body = ast.parse(path.read_text("utf-8")).body
            assert all(
                isinstance(getattr(node, "value", None), ast.Constant) for node in body
            )
        assert path.stem != "utils"


def repository_files():
    """Paths that git holds, or would hold after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this folder is not a git clone, so what belongs to it is unknown")
    paths = (ROOT / os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return [path for path in paths if path.is_file()]


def test_what_is_taught_starts_without_the_large_libraries():
    """A kernel with these modules starts little later than torch alone."""
    flat = sorted(path.stem for path in (ROOT / "course_utils").glob("[a-z]*.py"))
    names = ", ".join(f"course_utils.{name}" for name in flat if name != "pretrained")
    large = ["transformers", "datasets", "matplotlib", "pandas", "pyarrow"]
    code = f"import sys, {names}\nprint([n for n in {large} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_repository_is_small(record_budget):
    total = sum(path.stat().st_size for path in repository_files())
    record_budget("repository, MB", round(total / 1e6, 1), 30)


# Written so that this file does not hold what it looks for.
HOSTS = ["pypi" + r"\.org", "python" + "hosted", "npm" + "js", "deb" + r"ian\.org"]
HOMES = r"(?<![\w.+/=:~-])/(?:work|root|tmp|home)/[a-z_]"
FOREIGN = re.compile("|".join([*HOSTS, HOMES]))


def test_no_registry_and_no_machine_is_named():
    found = []
    for path in repository_files():
        if path.suffix in (".safetensors", ".png", ".parquet", ".ipynb"):
            continue  # notebooks have a rule of their own
        text = path.read_text("utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {m}" for m in FOREIGN.findall(text)]
    assert found == []


def test_the_totals_leave_no_file_of_the_package_out():
    counted = set()
    for patterns in PARTS.values():
        for pattern in patterns:
            counted.update(ROOT.glob(pattern))
    kinds = {".py", ".js", ".css", ".html", ".toml", ".txt"}
    for path in repository_files():
        ours = path.is_relative_to(PACKAGE) and path.suffix in kinds
        ours |= path.is_relative_to(ROOT / "tests") and path.suffix == ".py"
        if ours and path.name != "__init__.py":
            assert path in counted, path
