"""`make data`: fetch once what the real-data notebooks load, into the folder `data`.

Tests and `make refresh` then serve these files (see `mirror_data`). Knows names on the
hub and the layout of the folder. Knows nothing of notebooks.
"""

import shutil
import sys
from pathlib import Path

from course_utils.data import hub
from course_utils.data.hub import DataUnavailable
from tools.mirror_data import (
    END,
    OWN,
    PAIRS_FILE,
    STORIES,
    STORY_FILES,
    TATOEBA,
    TOKENIZER,
    TOKENIZER_FILES,
    TOKENIZER_FOLDER,
)

# About as many as the stored outputs were made with.
LIMITS = {"train": 13_241, "validation": 3_172}
PAIR_LIMIT = 113_000


def fetch(folder: Path) -> None:
    """Fill a new folder. If anything fails, there is none."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        fetch_stories(unfinished)
        fetch_pairs(unfinished)
        fetch_tokenizer(unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def fetch_stories(folder: Path) -> None:
    for split, limit in LIMITS.items():
        texts = hub.load_texts(STORIES, split, limit)
        content = "".join(f"{text.strip()}\n{END}\n" for text in texts)
        write(folder / STORY_FILES[split], content)


def fetch_pairs(folder: Path) -> None:
    pairs = hub.load_pairs(TATOEBA, "train", PAIR_LIMIT)
    lines = ["\t".join(" ".join(side.split()) for side in pair) for pair in pairs]
    write(folder / PAIRS_FILE, "\n".join([*lines, ""]))


def fetch_tokenizer(folder: Path) -> None:
    place = folder / TOKENIZER_FOLDER
    place.mkdir(parents=True)
    from huggingface_hub import hf_hub_download

    for name in TOKENIZER_FILES:
        shutil.copy(hf_hub_download(TOKENIZER, name), place / name)


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    if OWN.exists():
        sys.exit(f"{OWN.name}/ is there already: delete it to fetch it anew")
    try:
        fetch(OWN)
    except (DataUnavailable, OSError) as problem:
        sys.exit(str(problem))
