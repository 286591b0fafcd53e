"""Load texts, sentence pairs, labelled texts, tokenizers and models by name.

A name stands for an embedded world, a repository on the Hugging Face hub, or a file.
Knows nothing of batches or training. A function returns the data that were asked for or
raises; it never returns other data instead.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from course_utils import shapes
from course_utils.data import files
from course_utils.data.connection import DataUnavailable as DataUnavailable
from course_utils.data.connection import hub_library

Source = str | Path
HUB_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
# The configuration of data sets on the hub that hold pairs in several languages.
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

    source: "stories" (the embedded world, which needs a limit), "owner/name" on the
    hub, or a .txt, .jsonl, .parquet or .tsv file (see `files.read_texts`). A file has
    the split "train" only. column: the column that holds the texts.

    Rows of the hub without text are skipped: they do not count towards the limit. With
    a limit, only as much is downloaded as the limit needs.
    Raises TypeError for an argument of the wrong type, ValueError for a wrong value or
    unusable data, and DataUnavailable where the hub or the data set does not answer.
    """
    limit = _checked_limit(source, split, limit)
    shapes.check_text(column=column)
    if source == "stories":
        from known_worlds.stories import story

        if column != "text":
            raise ValueError(f"column={column!r} was given, but worlds have no columns")
        shapes.check_choice("split", split, tuple(STORY_STARTS))
        indices = range(_needed(limit, source))
        return [story(STORY_STARTS[split] + index).text for index in indices]
    if _is_file(source, split):
        return files.read_texts(source, column)[:limit]

    def read(row: Any, where: str) -> str:
        return files.text_of(row, where, column)

    return _hub_items(source, None, split, limit, read)


def load_pairs(
    source: Source, split: str = "train", limit: int | None = None
) -> list[tuple[str, str]]:
    """The first `limit` (source, target) sentences (all without a limit), in order.

    source: "phrases" (the embedded world, which needs a limit), "owner/name" on the
    hub, or a .tsv, .jsonl or .parquet file (see `files.read_pairs`).

    Rows of the hub with an empty side are skipped: they do not count towards the limit.
    Raises as `load_texts`.
    """
    limit = _checked_limit(source, split, limit)
    if source == "phrases":
        from known_worlds.phrases import pair

        drawn = [pair(index, split) for index in range(_needed(limit, source))]
        return [(one.source, one.target) for one in drawn]
    if _is_file(source, split):
        return files.read_pairs(source)[:limit]
    config = PAIR_CONFIGS.get(str(source))
    return _hub_items(source, config, split, limit, files.pair_of)


def load_labelled(
    source: Source, split: str = "train", limit: int | None = None
) -> list[tuple[str, str]]:
    """The first `limit` (text, label) rows (all without a limit), in order.

    source: "senses" (the embedded world, which needs a limit), "owner/name" on the hub,
    or a .tsv, .jsonl or .parquet file (see `files.read_labelled`).

    Rows of the hub without text are skipped: they do not count towards the limit.
    Raises as `load_texts`.
    """
    limit = _checked_limit(source, split, limit)
    if source == "senses":
        from known_worlds.senses import labels, usage

        drawn = [usage(index, split) for index in range(_needed(limit, source))]
        return [(one.text, labels()[one.label]) for one in drawn]
    if _is_file(source, split):
        return files.read_labelled(source)[:limit]
    return _hub_items(source, None, split, limit, files.labelled_of)


def load_tokenizer(name: Source) -> Any:
    """`transformers.AutoTokenizer.from_pretrained(name)`.

    name: "owner/name" on the hub, or a folder.
    Raises TypeError for a name of the wrong type, ValueError for a name that is neither
    or a folder without tokenizer, and DataUnavailable where the hub does not answer and
    nothing is cached.
    """

    def read(transformers: Any) -> Any:
        return transformers.AutoTokenizer.from_pretrained(name)

    return _pretrained(name, "tokenizer", read)


def load_model(name: Source) -> Any:
    """A trained model of `transformers` that gives its attention weights, for looking.

    `AutoModel.from_pretrained`, in torch's default dtype and in evaluation mode, with
    attn_implementation="eager": its other ways to compute attention keep no weights. A
    pooler, which many repositories lack, is there only if it was trained.
    name and errors: as in `load_tokenizer`; ValueError also where weights are missing.
    """

    def read(transformers: Any) -> Any:
        return transformers.AutoModel.from_pretrained(
            name,
            attn_implementation="eager",
            dtype=torch.get_default_dtype(),
            output_loading_info=True,
        )

    model, report = _pretrained(name, "model", read)
    missing = sorted(report["missing_keys"])
    if any(key.startswith("pooler.") for key in missing):
        model.pooler = None
    needed = [key for key in missing if not key.startswith("pooler.")]
    if needed:
        others = len(needed) - 1
        raise ValueError(
            f"name must hold every weight of a {type(model).__name__}, "
            f"{shapes.shown(str(name))} lacks {needed[0]!r} and {others} others"
        )
    return model.eval()


def _pretrained(name: Source, what: str, read: Callable[[Any], Any]) -> Any:
    """What `read` makes with `transformers` of a folder, or of a name on the hub."""
    shapes.check_type(str | Path, name=name)
    if os.path.isdir(name):
        import transformers

        try:
            return read(transformers)
        except Exception as error:  # transformers raises errors of many types
            raise ValueError(
                f"name must be a folder with a {what} that transformers can load, "
                f"got {shapes.shown(str(name))}"
            ) from error
    if os.path.isfile(name):
        raise ValueError(f"name must be a folder or 'owner/name', got the file {name}")
    if isinstance(name, Path) or not HUB_NAME.fullmatch(name):
        raise ValueError(
            f"name must be 'owner/name' on the hub or a folder that exists, got "
            f"{shapes.shown(str(name))}"
        )
    with hub_library("models", name) as (transformers, _):
        return read(transformers)


# --- checks --------------------------------------------------------------------------


def _checked_limit(source: object, split: object, limit: object) -> int | None:
    """Check what all sources have in common, and return the limit as an int."""
    shapes.check_type(str | Path, source=source)
    shapes.check_text(split=split)
    if limit is None:
        return None
    shapes.check_positive(limit=limit)
    return int(limit)


def _needed(limit: int | None, world: str) -> int:
    if limit is None:
        raise ValueError(f"limit must be given for {world!r}: the world has no end")
    return limit


def _is_file(source: Source, split: str) -> bool:
    if not files.is_file(source):
        return False
    if split != "train":
        raise ValueError(f"split must be 'train' for a file, got {split!r}")
    return True


# --- the hub -------------------------------------------------------------------------


def _hub_items(
    source: Source, config: str | None, split: str, limit: int | None, read: Callable
) -> list:
    """What `read` makes of the first rows of a data set; rows without text are skipped.

    read: (row, place) -> item, raises `files.EmptyText` for a row without text.
    """
    name = str(source)
    if not HUB_NAME.fullmatch(name):
        raise ValueError(
            f"source must be a world ('stories' for texts, 'phrases' for pairs, "
            f"'senses' for labelled texts), 'owner/name' on the hub or a .txt, .jsonl, "
            f".parquet or .tsv file, got {name[:40]!r}"
        )
    items = []
    with closing(_hub_rows(name, config, split, limit is not None)) as rows:
        for number, row in enumerate(rows):
            try:
                items.append(read(row, f"{name}, row {number}"))
            except files.EmptyText:
                continue
            if len(items) == limit:
                break
    if not items:
        raise ValueError(f"source {name!r} has no row with text in split {split!r}")
    return items


def _hub_rows(
    name: str, config: str | None, split: str, streaming: bool
) -> Iterator[dict]:
    """Rows of a data set on the hub, or of what an earlier call has cached.

    Streaming downloads only the rows that are read and leaves no cache; otherwise the
    whole split is downloaded first.
    """
    with hub_library("datasets", name) as (datasets, online):
        if streaming and online:
            yield from datasets.load_dataset(name, config, split=split, streaming=True)
        elif streaming:
            yield from datasets.load_dataset(name, config, split=split)
        else:
            yield from datasets.load_dataset(name, config, split=split).to_list()
