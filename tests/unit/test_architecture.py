"""The house: it is small, it starts fast, and nothing stands where it must not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def repository_files():
    """Paths that git holds, or would hold after `git add`."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this folder is not a git clone, so what belongs to it is unknown")
    paths = (ROOT / os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return [path for path in paths if path.is_file()]


SLOW = ("page", "pretrained")  # they draw, or read models of others


def test_what_is_taught_starts_without_the_large_libraries():
    """A kernel with these modules starts little later than torch alone."""
    flat = sorted(path.stem for path in (ROOT / "course_utils").glob("[a-z]*.py"))
    names = ", ".join(f"course_utils.{name}" for name in flat if name not in SLOW)
    large = ["transformers", "datasets", "matplotlib", "pandas", "pyarrow"]
    code = f"import sys, {names}\nprint([n for n in {large} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_repository_is_small(record_budget):
    total = sum(path.stat().st_size for path in repository_files())
    record_budget("repository, MB", round(total / 1e6, 1), 35)


# Written so that this file does not hold what it looks for.
HOSTS = ["pypi" + r"\.org", "python" + "hosted", "npm" + "js", "deb" + r"ian\.org"]
HOMES = r"(?<![\w.+/=:~-])/(?:work|root|tmp|home)/[a-z_]"
FOREIGN = re.compile("|".join([*HOSTS, HOMES]))


def test_no_registry_and_no_machine_is_named():
    matches = []
    for path in repository_files():
        if path.suffix in (".safetensors", ".png", ".parquet", ".ipynb"):
            continue  # notebooks have a rule of their own
        text = path.read_text("utf-8", errors="replace")
        matches += [f"{path.relative_to(ROOT)}: {m}" for m in FOREIGN.findall(text)]
    assert matches == []
