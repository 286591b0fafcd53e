"""The house: imports point downward, everything public is described."""

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "course_utils"

# A module may import lower ranks only. "Beside" modules are handed callables, iterables
# or arrays: they see ranks up to 3, never models. `data`, `views`: several files each.
BESIDE, TOP = 3.5, 5
RANKS = {
    "shapes": 0,
    "config": 0.5,  # asks `shapes` whether a number makes sense
    "machine": 0.5,
    "bpe": 1,
    "masks": 1,
    "positions": 1,
    "feedforward": 1,
    "optimizers": 1,
    "attention": 2,
    "blocks": 3,
    "models": 4,
    "recurrent": 4,
    "tokenizer": 4,
    "data": 4,
    "processes": BESIDE - 0.1,  # `training` asks it which rows are its own
    "checkpoints": BESIDE - 0.05,
    "training": BESIDE,
    "decoding": BESIDE,
    "metrics": BESIDE,
    "diagnostics": BESIDE,
    "recording": BESIDE,
    "plots": BESIDE,
    "story_page": BESIDE,
    "views": BESIDE + 0.1,  # every view leaves a picture behind, drawn by `plots`
    "pretrained": TOP,
    "exercises": TOP + 1,  # nothing imports it
    "export": TOP,
    "workshop": -1,  # imports nothing of the package
}
MANY = ("data", "views", "exercises")  # several files each, which may import each other
TOP_LEVEL = {
    "README.md",
    "Makefile",
    "requirements.txt",
    "pyproject.toml",
    "LICENSE",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "BENCHMARKS.md",
    ".github",
    ".gitignore",
    ".ci",
    "notebooks",
    "course_utils",
    "images",
    "tests",
}
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMED = [path for path in MODULES if path.name != "__init__.py"]
names = {path: path.relative_to(PACKAGE).as_posix() for path in MODULES}


def every(paths):
    return pytest.mark.parametrize(
        "path", paths, ids=lambda p: p.relative_to(ROOT).as_posix()
    )


def rank_name(dotted):
    """course_utils.data.hub -> data"""
    return dotted.split(".")[1]


def dotted_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def package_imports(tree):
    """Dotted names within the package that a module imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide what they point to"
            if node.module == "course_utils" or node.module.startswith("course_utils."):
                deeper = [f"{node.module}.{alias.name}" for alias in node.names]
                modules = {dotted_name(path) for path in MODULES}
                yield from (d if d in modules else node.module for d in deeper)
        elif isinstance(node, ast.Import):
            yield from (
                a.name for a in node.names if a.name.split(".")[0] == "course_utils"
            )


def misdirected(name, imports):
    """Imports of the module called `name` that do not point downward."""
    own = rank_name(name)
    for other in imports:
        if other == "course_utils":
            yield other
        elif not (own == rank_name(other) and own in MANY):
            low = RANKS[own] > RANKS[rank_name(other)]
            if not low or rank_name(other) == "workshop":
                yield other


@every(NAMED)
def test_imports_point_downward(path):
    assert rank_name(dotted_name(path)) in RANKS, "a new module needs a rank"
    imports = package_imports(ast.parse(path.read_text("utf-8")))
    assert list(misdirected(dotted_name(path), imports)) == []


def test_upward_and_sideways_imports_are_seen():
    upward = ast.parse("def f():\n    from course_utils.models import Encoder")
    imports = list(package_imports(upward))
    assert imports == ["course_utils.models"]
    for module in ("blocks", "plots", "tokenizer", "workshop", "data.hub"):
        assert list(misdirected(f"course_utils.{module}", imports)) == imports
    assert list(misdirected("course_utils.pretrained", imports)) == []
    submodule = ast.parse("from course_utils import models")
    assert list(package_imports(submodule)) == ["course_utils.models"]


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def arguments(function):
    given = function.args
    return given.posonlyargs + given.args + given.kwonlyargs


@every([*MODULES, *sorted((ROOT / "tests").rglob("*.py"))])
def test_lines_are_narrow(path):
    lines = enumerate(path.read_text("utf-8").splitlines(), start=1)
    wide = [number for number, line in lines if len(line) > 88]
    assert wide == []


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


@every(NAMED)
def test_public_things_are_described_and_annotated(path):
    tree = ast.parse(path.read_text("utf-8"))
    assert ast.get_docstring(tree), "each module starts with what it knows and does not"
    for node in tree.body:
        if node in list(public(tree)):
            assert ast.get_docstring(node), f"{node.name} has no docstring"
    for function in public(tree):
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


def test_the_top_level_holds_what_belongs_there():
    tops = {path.relative_to(ROOT).parts[0] for path in repository_files()}
    assert tops - TOP_LEVEL == set()


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
