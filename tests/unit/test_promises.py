"""What is installed, ignored and opened is what the project promises."""

import json
import subprocess
import tomllib

import pytest
import yaml

from tools.notebook_rules import ROOT


def test_an_installed_package_has_all_its_files():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["*"]
    shipped = {pattern.removeprefix("*") for pattern in patterns} | {".py", ".pyc"}
    files = [path for path in (ROOT / "course_utils").rglob("*.*") if path.is_file()]
    assert {path.suffix for path in files} <= shipped


def test_one_version_is_named_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1]
    assert citation["version"] == version == newest.split()[0]


def test_notebooks_ask_for_a_kernel_that_every_reader_has():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        assert metadata["kernelspec"]["name"] == "python3", path.name


def test_what_a_reader_makes_is_not_the_repository_s():
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is no clone")
    made = ["work/01.ipynb", "build/x", "_build/x", ".venv/x", "runs/x"]
    made += ["data/tinystories/train.txt", "data.unfinished/tinystories/train.txt"]
    command = ["git", "check-ignore", *made]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == made
