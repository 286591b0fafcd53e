"""Load texts, sentence pairs, labelled texts and tokenizers by name: an embedded world,
a repository on the Hugging Face hub, or a file. Knows nothing of batches or models.

The data asked for come back, or an exception does: never other data instead.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

from course_utils import shapes
from course_utils.data import files
from course_utils.data.connection import DataUnavailable as DataUnavailable
from course_utils.data.connection import hub_library

Source = str | Path
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# The configuration of a hub pair set that holds several languages.
PAIR_CONFIGS = {
    "sentence-transformers/parallel-sentences-tatoeba": "en-es",
    "Helsinki-NLP/opus-100": "en-es",
}
# The story world has no end: each split begins at its own index.
STORY_STARTS = {"train": 0, "validation": 10**9, "test": 2 * 10**9}


def load_texts(
    source: Source, split: str = "train", limit: int | None = None, column: str = "text"
) -> list[str]:
    """The first `limit` texts of a source (all of them without a limit), in order.

    `source` is "stories" (the embedded world, which needs a limit), "owner/name" on
    the hub, or a .txt, .jsonl, .parquet or .tsv file (see files.read_texts), which
    has no split but "train". With a limit, only that part is fetched from the hub.
    Raises DataUnavailable, or ValueError naming what is wrong with the request.
    """
    if source == "stories":
        from course_utils.data.stories import story

        shapes.check_choice("split", split, tuple(STORY_STARTS))
        start, count = STORY_STARTS[split], _count(source, limit)
        return [story(start + index).text for index in range(count)]
    if _is_file(source, split, limit):
        return files.read_texts(source, column)[:limit]
    rows = _hub_rows(str(source), None, split, limit)
    places = (f"{source}, row {n}" for n in range(len(rows)))
    return [files.text_of(*one, column) for one in zip(rows, places, strict=True)]


def load_pairs(
    source: Source, split: str = "train", limit: int | None = None
) -> list[tuple[str, str]]:
    """The first `limit` (source, target) sentences (all without a limit), in order.

    `source` is "phrases" (the embedded world, which needs a limit), "owner/name" on
    the hub, or a .tsv, .jsonl or .parquet file (see files.read_pairs).
    Raises as `load_texts`.
    """
    if source == "phrases":
        from course_utils.data.phrases import pair

        drawn = (pair(index, split) for index in range(_count(source, limit)))
        return [(one.source, one.target) for one in drawn]
    if _is_file(source, split, limit):
        return files.read_pairs(source)[:limit]
    rows = _hub_rows(str(source), PAIR_CONFIGS.get(str(source)), split, limit)
    return [files.pair_of(row, f"{source}, row {n}") for n, row in enumerate(rows)]


def load_labelled(
    source: Source, split: str = "train", limit: int | None = None
) -> list[tuple[str, str]]:
    """The first `limit` (text, label) rows (all without a limit), in order.

    `source` is "senses" (the embedded world, which needs a limit), "owner/name" on the
    hub, or a .tsv, .jsonl or .parquet file (see files.read_labelled).
    Raises as `load_texts`.
    """
    if source == "senses":
        from course_utils.data.senses import labels, usage

        drawn = (usage(index, split) for index in range(_count(source, limit)))
        return [(one.text, labels()[one.label]) for one in drawn]
    if _is_file(source, split, limit):
        return files.read_labelled(source)[:limit]
    rows = _hub_rows(str(source), None, split, limit)
    return [files.labelled_of(row, f"{source}, row {n}") for n, row in enumerate(rows)]


def load_tokenizer(name: str) -> Any:
    """`transformers.AutoTokenizer.from_pretrained(name)`: a hub name or a folder.

    Raises DataUnavailable when the hub does not answer and nothing is cached.
    """
    if Path(name).is_dir():
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(name)
    _check_hub_name(name)
    with hub_library("models", name) as (transformers, _):
        return transformers.AutoTokenizer.from_pretrained(name)


def held_out(sentence: str, share: float = 0.02) -> bool:
    """Whether a sentence belongs to the held-out share: a function of the sentence
    alone, so its other translations are held out with it.

    Upper case and white space make no difference. Raises ValueError unless
    0 < share < 1.
    """
    shapes.check_above(0, share=share)
    shapes.check_fraction(share=share)
    words = " ".join(sentence.casefold().split())
    digest = hashlib.sha256(words.encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def _hub_rows(name: str, config: str | None, split: str, limit: int | None) -> list:
    """Rows of a data set. With a limit they are streamed: a slice of the split would
    first download the whole of it. Streams leave no cache; offline, a slice of what
    an earlier call without a limit has cached serves."""
    _check_hub_name(name)
    with hub_library("datasets", name) as (datasets, online):
        if online and limit is not None:
            stream = datasets.load_dataset(name, config, split=split, streaming=True)
            return list(stream.take(limit))
        part = split if limit is None else f"{split}[:{limit}]"
        return datasets.load_dataset(name, config, split=part).to_list()


def _is_file(source: Source, split: str, limit: int | None) -> bool:
    if limit is not None:
        shapes.check_positive(limit=limit)
    if not isinstance(source, Path) and Path(source).suffix not in files.SUFFIXES:
        return False
    if split != "train":
        raise ValueError(f"split of one file must be 'train', got {split!r}: {source}")
    return True


def _check_hub_name(name: str) -> None:
    if not HUB_NAME.fullmatch(name):
        kinds = ", ".join(files.SUFFIXES)
        raise ValueError(
            f"source={name!r} must be an embedded world ('stories' for texts, "
            f"'phrases' for pairs, 'senses' for labelled texts), 'owner/name' on the "
            f"hub, or a file in {kinds}"
        )


def _count(source: Source, limit: int | None) -> int:
    if limit is None:
        raise ValueError(f"the world {source!r} has no end: say how many with limit=")
    shapes.check_positive(limit=limit)
    return limit
