"""Show a maintainer on one HTML page what changed in the notebooks since a commit.

`make diff NB=01 AGAINST=HEAD~3` compares the working tree with that commit. Knows git
and where notebooks are. Knows nothing of what they show.
"""

import argparse
import collections
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course_utils.workshop import find_notebook
from tests.support.change_page import page
from tests.support.notebook_changes import (
    Change,
    cells_of,
    changed_pictures,
    changes,
    output_changes,
)
from tests.support.notebook_rules import ROOT

PAGE = "build/diff.html"


@dataclass
class Report:
    """What changed in one notebook."""

    name: str
    news: list[str]
    changes: list[Change] = field(default_factory=list)
    old_rest: dict[str, Any] = field(default_factory=dict)
    new_rest: dict[str, Any] = field(default_factory=dict)

    def is_empty(self):
        """Is there nothing to say? Renumbered cells are no change."""
        told = self.news or self.changes
        return not told and self.old_rest == self.new_rest

    def summary(self):
        """One line with the numbers of changed cells and pictures."""
        kinds = collections.Counter(change.kind for change in self.changes)
        cells = [f"{number} {kind}" for kind, number in sorted(kinds.items())]
        told = [sentence.rstrip(".") for sentence in self.news]
        told.append(f"cells: {', '.join(cells) or 'none changed'}")
        told.append(f"pictures: {self.pictures() or 'none changed'}")
        return f"{Path(self.name).name}: {'; '.join(told)}"

    def pictures(self):
        """How many pictures changed, came or went."""
        return sum(
            len(changed_pictures(old, new))
            for change in self.changes
            for _, old, new in output_changes(change.old, change.new)
        )


# --- git ---------------------------------------------------------------------------


def git(root, *words, **variables):
    """What git prints. Raises ValueError with git's own words if it fails."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=root,
            env={**os.environ, **variables},
            capture_output=True,
            encoding="utf-8",
        )
    except FileNotFoundError:
        raise ValueError("git must be installed to look up what changed") from None
    if done.returncode:
        raise ValueError(done.stderr.strip() or f"git {words[0]} failed")
    return done.stdout


def commit_of(against, root):
    """The hash of the commit. Raises ValueError unless git knows one by this name."""
    git(root, "rev-parse", "--git-dir")
    try:
        name = f"{against}^{{commit}}"
        return git(root, "rev-parse", "--verify", "--quiet", name).strip()
    except ValueError:
        raise ValueError(
            f"AGAINST={against!r} must be a commit, branch or tag of this repository"
        ) from None


def changed_files(commit, root):
    """(old path, new path) of the notebooks whose files differ; None for neither.

    The working tree is read through an index of its own, so that notebooks that git
    does not track yet are new or renamed ones, and the real index stays as it is.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git(root, "add", "--intent-to-add", "--", "*.ipynb", **index)
        words = ["--find-renames", "--name-status", "--relative", "-z"]
        told = git(root, "diff", *words, commit, "--", "*.ipynb", **index)
    fields = iter(told.split("\0")[:-1])
    found = []
    for status in fields:
        path = next(fields)
        if status.startswith("R"):
            found.append((path, next(fields)))
        elif status == "A":
            found.append((None, path))
        elif status == "D":
            found.append((path, None))
        else:
            found.append((path, path))
    return sorted(found, key=lambda pair: pair[1] or pair[0])


# --- notebooks ---------------------------------------------------------------------


def parsed(text, name):
    """The JSON of a notebook. Raises ValueError if it is none."""
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"{name} must be a notebook in JSON: {problem}") from None
    if not isinstance(notebook, dict) or "cells" not in notebook:
        raise ValueError(f"{name} must be a notebook with cells, it has none")
    return notebook


def compared(old_path, new_path, commit, root):
    """The report on one notebook; one of the two paths may be None."""
    old = {"cells": []}
    new = {"cells": []}
    if old_path:
        stored = git(root, "show", f"{commit}:./{old_path}")
        old = parsed(stored, f"{old_path} of {commit[:7]}")
    if new_path:
        new = parsed((root / new_path).read_text("utf-8"), new_path)
    report = Report(new_path or old_path, [], changes(cells_of(old), cells_of(new)))
    if old_path is None:
        report.news.append("New notebook.")
        return report
    if new_path is None:
        report.news.append("Removed notebook.")
        return report
    if old_path != new_path:
        report.news.append(f"Renamed, the old name is {old_path}.")
    report.old_rest = {name: old[name] for name in old if name != "cells"}
    report.new_rest = {name: new[name] for name in new if name != "cells"}
    return report


def reports_on(number, against, root):
    """Reports on the notebook, or on all that changed if the number is None.

    Raises ValueError for an unknown commit, and as `find_notebook`.
    """
    wanted = None
    if number is not None:
        path = find_notebook(number, root / "notebooks")
        wanted = path.relative_to(root).as_posix()
    commit = commit_of(against, root)
    files = changed_files(commit, root)
    if wanted:
        files = [pair for pair in files if pair[1] == wanted]
    reports = [compared(old, new, commit, root) for old, new in files]
    return [report for report in reports if not report.is_empty()]


def main(arguments=None, root=ROOT):
    """The command line: [NB] [--against COMMIT]."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.notebook_diff")
    parser.add_argument("notebook", nargs="?", metavar="NB", help="such as 01")
    parser.add_argument("--against", default="HEAD", help="a commit, branch or tag")
    given = parser.parse_args(arguments)
    try:
        reports = reports_on(given.notebook, given.against, root)
    except ValueError as problem:
        raise SystemExit(str(problem)) from None
    file = root / PAGE
    if not reports:
        file.unlink(missing_ok=True)  # what an earlier run wrote would mislead
        what = f"notebook {given.notebook}" if given.notebook else "the notebooks"
        print(f"Nothing changed in {what} since {given.against}.")
        return
    file.parent.mkdir(exist_ok=True)
    text = page(reports, given.against)
    file.write_text(text, encoding="utf-8", errors="backslashreplace")
    for report in reports:
        print(report.summary())
    print(file)


if __name__ == "__main__":
    main()
