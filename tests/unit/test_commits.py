"""Commits say what changed: an imperative of at most 72 characters, no more."""

import re
import subprocess

import pytest

from tests.support.notebook_rules import ROOT

LAST = 30
# First words that look like "it adds", "added", "adding", and are imperatives.
VERBS = {"Bring", "Pass", "Process", "Address", "Access", "Compress", "Express"}
VERBS |= {"Need", "Feed", "Embed", "Speed", "Shed", "Focus", "String", "Discuss"}


def fault(subject):
    """What is wrong with the first line of a commit message, or None."""
    if len(subject) > 72:
        return f"{len(subject)} characters, 72 are allowed"
    first = subject.split(" ")[0]
    if not re.fullmatch(r"[A-Z][a-z-]+", first) or " " not in subject:
        return "does not begin with a capitalised verb"
    if re.search(r"(ed|ing|s)$", first) and first not in VERBS:
        return f"{first!r} is no imperative: say what the commit does, such as 'Add …'"
    if subject.endswith("."):
        return "ends with a full stop"
    return None


@pytest.mark.parametrize(
    "subject, said",
    [
        ("Added a test", "no imperative"),
        ("Adds a test", "no imperative"),
        ("Adding a test", "no imperative"),
        ("add a test", "capitalised verb"),
        ("Notebook: a test", "capitalised verb"),
        ("README: what a test is", "capitalised verb"),
        ("Test", "capitalised verb"),
        ("Add a test.", "full stop"),
        ("Add " + 69 * "x", "73 characters"),
    ],
)
def test_a_bad_subject_is_named(subject, said):
    assert said in fault(subject)


@pytest.mark.parametrize("subject", ["Add a test", "Pass 07", "Add " + 68 * "x"])
def test_a_good_subject_passes(subject):
    assert fault(subject) is None


def git(*words):
    done = subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_the_last_commits_say_what_they_do():
    """Those since this rule came, or the one that brought it."""
    try:
        came = git("log", "--diff-filter=A", "--format=%H", "--", __file__)[-1:]
        since = [f"{came[0]}..HEAD"] if came else ["-1", "HEAD"]
        subjects = git("log", "--no-merges", "--format=%s", f"-{LAST}", *since)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this folder is not a git clone")
    assert [(one, fault(one)) for one in subjects if fault(one)] == []
