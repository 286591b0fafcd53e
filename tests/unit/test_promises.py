"""What the files around the package promise is what the package and the commands do."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PINS = (ROOT / "requirements.txt").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GUIDES = [*ROOT.glob("*.md"), *(ROOT / "notebooks" / "book").glob("*.md")]
SCRIPTS = [*ROOT.glob(".ci/*"), *ROOT.glob(".github/workflows/*"), ROOT / "Makefile"]
IN_NOTEBOOK_ENV = "tests/support/notebook_environment.py .venv/bin/python -m "
COMMANDS = {
    "test": ["-m pytest"],
    "test-all": ['-m pytest -m "long or not long"'],
    "test-worlds": [
        "-m pytest --real-data-only tests/notebooks/test_notebooks.py notebooks"
    ],
    "notebooks": ["-m pytest notebooks"],
    "check": ['-m pytest -n 2 --dist worksteal -m "not slow and not long" tests'],
    "accept": ["-m tests.support.stored"],
    "refresh": [IN_NOTEBOOK_ENV + "course_utils.workshop refresh"],
    "record": [IN_NOTEBOOK_ENV + "course_utils.training.records"],
    "lint": ["ruff check --quiet", "ruff format --check --quiet", "lint-imports"],
}


@pytest.mark.parametrize("target", COMMANDS)
def test_a_command_of_make_does_what_is_promised(target):
    if shutil.which("make") is None:
        pytest.skip("this machine has no make")
    command = ["make", "--no-print-directory", "--dry-run", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for words in COMMANDS[target]:
        if words.startswith(("-m", "tests")):  # to its end: nothing is left out
            assert any(line.endswith(words) for line in lines), done.stdout
        else:
            assert words in done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_failure_is_swallowed(path):
    text = path.read_text("utf-8")
    assert "continue-on-error" not in text and "set +e" not in text
    swallowed = re.findall(r"^.*\|\|\s*(?:true|:).*$", text, flags=re.MULTILINE)
    # The report of this run is read by the next line, which fails in its place.
    assert all('--junitxml="$report"' in line for line in swallowed)
    if path.parent.name == ".ci":
        assert "set -euo pipefail" in text


def test_every_job_fetches_the_commits_that_the_tests_read():
    found = 0
    for path in ROOT.glob(".github/workflows/*.yml"):
        for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values():
            lines = [step.get("run", "") for step in job["steps"]]
            if any(line == ".ci/run" or line.endswith(" tests") for line in lines):
                found += 1
                assert job["steps"][0]["with"]["fetch-depth"] >= 20
    assert found == 2


def test_the_readme_names_the_pinned_versions():
    named = re.findall(r"\b([a-z][\w-]*)==([\d.]+\d)", README)
    assert named
    for name, version in named:
        assert f"\n{name}=={version}\n" in PINS, (name, version)


def test_sections_that_the_readme_points_to_are_there():
    titles = re.findall(r"^#+ (.+)$", README, flags=re.MULTILINE)
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
    }
    linked = re.findall(r"\]\(#([^)]+)\)", README)
    assert linked and set(linked) <= anchors


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_links_to_the_hub_lead_to_what_they_name(path):
    text = path.read_text("utf-8")
    for name, place in re.findall(r"\[`([\w.-]+/[\w.-]+)`\]\((https[^)]*)\)", text):
        assert place.endswith(f"/{name}"), place


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_settings_that_a_guide_names_exist(path):
    code = [*(ROOT / "course_utils").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    known = set()
    for file in code:
        if file != Path(__file__).resolve():
            known |= set(re.findall(r"COURSE_[A-Z]+", file.read_text("utf-8")))
    assert set(re.findall(r"COURSE_[A-Z]+", path.read_text("utf-8"))) <= known


def test_the_citation_has_the_version_and_licences_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["project"]["version"]
    assert citation["license"] == ["MIT", "CC-BY-4.0"]
    licence = (ROOT / "LICENSE").read_text("utf-8")
    assert licence.count("(CC BY 4.0)") == 2 and "CC BY 4.0" in README
    assert "CC BY-" not in licence + README


def test_an_installed_package_has_all_its_files():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    shipped = {pattern.removeprefix("*") for pattern in patterns} | {".py"}
    folder = ROOT / "course_utils"
    there = {path.suffix for path in folder.rglob("*.*") if path.is_file()}
    assert there - {".pyc"} <= shipped


def test_the_oldest_versions_are_the_ones_decided_on():
    wanted = {one.split(">=")[0]: one for one in PROJECT["project"]["dependencies"]}
    assert wanted["torch"] == "torch>=2.9"  # optimizers.Muon is compared with its own


def test_notebooks_ask_for_a_kernel_that_every_reader_has():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        metadata = json.loads(path.read_text("utf-8"))["metadata"]
        assert metadata["kernelspec"] == {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }, path.name


def test_the_book_shows_what_is_stored():
    path = ROOT / "notebooks" / "book" / "_config.yml"
    settings = yaml.safe_load(path.read_text("utf-8"))
    assert settings["execute"]["execute_notebooks"] == "off"


def test_jupyterlab_asks_nothing():
    folder = ROOT / "course_utils" / "lab_settings"
    settings = json.loads((folder / "overrides.json").read_text("utf-8"))
    assert settings["@jupyterlab/apputils-extension:notification"] == {
        "fetchNews": "false",
        "checkForUpdates": False,
    }


def test_what_a_reader_makes_is_not_the_repository_s():
    if not (ROOT / ".git").exists():
        pytest.skip("this copy is no clone")
    made = ["work/01.ipynb", "build/diff.html", "_build/x", ".venv/x", "runs/x"]
    command = ["git", "check-ignore", *made]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == made


def test_sections_of_a_paper_come_in_order():
    text = (ROOT / "notebooks" / "book" / "paper.md").read_text("utf-8")
    for table in re.split(r"^## .*$", text, flags=re.MULTILINE):
        rows = re.findall(r"^\| (\d[\d.]*) ([^,|]+)", table, flags=re.MULTILINE)
        numbers = [[int(part) for part in number.split(".")] for number, _ in rows]
        assert numbers == sorted(numbers)
        titles = {(number, title.strip()) for number, title in rows}
        assert len(titles) == len(dict(titles)), "one number, two titles"
