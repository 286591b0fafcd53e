"""Real data: fetched whole or not at all, and known by a checksum."""

import json
import os
import subprocess
import sys

import pytest

from tools import fetch_data, mirror_data, refresh
from tools.hub_mirror import HubMirror
from tools.notebook_rules import ROOT

STORY = "Tom had a ball.\n\nHe was happy."
PAIRS = [(f"I have {n} dogs.", f"Tengo {n} perros.") for n in range(400)]
FETCH = (
    "import sys, pathlib; from tools.fetch_data import fetch;"
    "fetch(pathlib.Path(sys.argv[1]))"
)


@pytest.fixture
def real(tmp_path, monkeypatch):
    """A small folder of real data that lies beside the project."""
    folder = tmp_path / "shared" / "data"
    for name, count in zip(mirror_data.STORY_FILES.values(), (40, 4), strict=True):
        stories = [f"{STORY} {n}\n{mirror_data.END}\n" for n in range(count)]
        fetch_data.write(folder / name, "".join(stories))
    lines = ["\t".join(pair) + "\n" for pair in PAIRS]
    fetch_data.write(folder / mirror_data.PAIRS_FILE, "".join(lines))
    for name in mirror_data.TOKENIZER_FILES:
        fetch_data.write(folder / mirror_data.TOKENIZER_FOLDER / name, "{}")
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setattr(mirror_data, "BESIDE", folder)
    monkeypatch.setattr(mirror_data, "OWN", tmp_path / "data")
    return folder


def fetch(tmp_path, **variables):
    """Fetch into a new folder, in a process of its own."""
    home = {"HF_HOME": str(tmp_path / "home"), "TQDM_DISABLE": "1"}
    return subprocess.run(
        [sys.executable, "-c", FETCH, str(tmp_path / "data")],
        cwd=ROOT,
        env={**os.environ, **home, **variables},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_what_is_fetched_is_what_the_hub_holds(real, tmp_path):
    assert mirror_data.fill_mirror(tmp_path / "hub")
    with HubMirror(tmp_path / "hub") as mirror:
        done = fetch(tmp_path, **mirror.env(tmp_path / "home"))
        assert done.returncode == 0, done.stderr
    files = [path.relative_to(real) for path in real.rglob("*") if path.is_file()]
    for name in files:
        old, new = (real / name).read_text(), (tmp_path / "data" / name).read_text()
        if name.name == "spa.tsv":  # the hub's own train split: shuffled, without dev
            assert set(new.splitlines()) < set(old.splitlines())
            assert len(new.splitlines()) > 380
        else:
            assert new == old
    assert not (tmp_path / "data.unfinished").exists()


@pytest.mark.slow
def test_without_network_one_sentence_and_no_folder(tmp_path):
    done = fetch(tmp_path, HF_ENDPOINT="http://127.0.0.1:9")
    assert "cannot be loaded: the hub does not answer" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.glob("data*"))


@pytest.mark.slow
def test_a_failure_at_the_end_leaves_nothing_behind(real, tmp_path):
    mirror_data.fill_mirror(tmp_path / "hub")
    with HubMirror(tmp_path / "hub") as mirror:
        mirror.fault("merges.txt", status=404)
        done = fetch(tmp_path, **mirror.env(tmp_path / "home"))
    assert done.returncode != 0 and "LocalEntryNotFoundError" in done.stderr
    assert not list(tmp_path.glob("data*"))


def test_data_beside_the_project_come_first(real, tmp_path, monkeypatch):
    assert mirror_data.data_folder() == real
    known = mirror_data.data_fingerprint()
    story = real / mirror_data.STORY_FILES["train"]
    story.write_text(story.read_text().replace("ball", "doll", 1))
    assert mirror_data.data_fingerprint() != known
    real.rename(tmp_path / "data")
    assert mirror_data.data_folder() == tmp_path / "data"
    monkeypatch.setenv("COURSE_DATA", "worlds")
    assert mirror_data.data_folder() is None
    assert mirror_data.data_fingerprint() == "worlds"


def test_what_other_data_decide_is_stored_only_by_force(real, tmp_path, monkeypatch):
    cell = {"cell_type": "code", "source": 'load_texts("roneneldan/TinyStories")'}
    for name, data in (("90_other", "abc"), ("91_new", None), ("92_none", None)):
        cells = [cell] if name != "92_none" else []
        made_with = {"data": data} if data else {}
        notebook = {"cells": cells, "metadata": {"made_with": made_with}}
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        fetch_data.write(path, json.dumps(notebook))
    ran = []
    monkeypatch.setattr(refresh, "ROOT", tmp_path)
    monkeypatch.setattr(refresh, "store_text", lambda path: path.stem == "91_new")
    monkeypatch.setattr(refresh, "refresh", lambda path, *how: ran.append(how) or [])
    now = mirror_data.data_fingerprint()
    refresh.main([])
    assert ran == [("abc", True), (None, False)], "and the text of 91 is stored"
    refresh.main(["--force"])
    assert ran[2:] == [(now, False), (now, False), (None, False)]
