"""Rows of a file on this machine, and the text or the pair in a row.

Knows the names of columns. Files are never changed.
"""

import csv
import glob
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

STORY_END = "<|endoftext|>"
SUFFIXES = (".txt", ".jsonl", ".parquet", ".tsv")
# A string with one of these endings names a file as well, of a type that is not read.
OTHER_SUFFIXES = (".csv", ".json", ".gz", ".zip", ".md")
# The names of the two sides of a pair, in the order in which they are looked for.
PAIR_COLUMNS = [("source", "target"), ("english", "non_english"), ("en", "es")]
LANGUAGES = {"english", "spanish", "vietnamese", "russian", "french", "german"}
LANGUAGES |= {"en", "es", "vi", "ru", "fr", "de"}
# A first line of a .tsv file is a header if two of its cells are among these.
HEADER_NAMES = LANGUAGES | {"source", "target", "non_english", "text", "sentence"}
HEADER_NAMES |= {"label", "id", "idx"}


class EmptyText(ValueError):  # noqa: N818 - the name says what is wrong with the row
    """A row without text: an error in a file; skipped in a data set of the hub."""


def is_file(source: str | Path) -> bool:
    """Whether a source names a file: a Path, a file that exists, or an ending."""
    known = Path(source).suffix.lower() in SUFFIXES + OTHER_SUFFIXES
    return isinstance(source, Path) or os.path.isfile(source) or known


def read_rows(path: str | Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The rows of a file as dictionaries; a .txt file has one column, "text".

    .txt: texts end with a line `<|endoftext|>`, else empty lines separate them. .tsv:
    the first line names the columns if two names are in HEADER_NAMES, or if `columns`
    is a single one; else the first two are `columns`. Quotes have no meaning in it.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        types = "use .txt, .jsonl, .parquet or .tsv"
        raise ValueError(f"{path}: unsupported file type {suffix!r}; {types}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        if suffix == ".txt":
            yield from ({"text": text} for text in _texts(path))
        elif suffix == ".tsv":
            yield from _table(path, columns)
        elif path.stat().st_size:
            import datasets

            with tempfile.TemporaryDirectory() as cache:
                options = {"cache_dir": cache, "split": "train", "streaming": True}
                options["data_files"] = glob.escape(str(path))
                kind = suffix[1:].replace("jsonl", "json")
                yield from datasets.load_dataset(kind, **options)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason}): save it so") from None
    except Exception as error:  # the libraries raise errors of many types
        cause = error.__cause__ or error
        reason = str(cause).strip().split("\n")[0][:150]
        raise ValueError(f"{path} cannot be read as {suffix}: {reason}") from error


def _texts(path: Path) -> list[str]:
    text = path.read_text("utf-8-sig")
    if "\0" in text:  # UTF-16, without the mark that would say so
        raise ValueError("it is not UTF-8: save it so")
    end = re.compile(rf"^{re.escape(STORY_END)}[ \t]*$", re.MULTILINE)
    parts = (end if end.search(text) else re.compile(r"\n[ \t]*\n")).split(text)
    return [part.strip() for part in parts if part.strip()]


def _table(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    names = None
    with path.open(encoding="utf-8-sig", newline="") as file:
        for cells in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if not cells:
                continue
            if names is None:
                names = [cell.strip().casefold() for cell in cells]
                known = sum(name in HEADER_NAMES for name in names)
                if known >= 2 or len(columns) == 1:
                    continue
                names = [*columns, *(f"column {n}" for n in range(len(cells)))]
            elif len(cells) > len(names):
                sizes = f"{len(cells)} cells, the first {len(names)}"
                raise ValueError(f"a row has {sizes}")
            yield dict(zip_longest(names, cells))


def text_of(row: dict[str, Any], where: str) -> str:
    """The text of a row; `where` is the place that a message names."""
    if "text" not in row:
        raise ValueError(f"{where} has no column 'text', only {_names(row)}")
    return _text(row["text"], where, "text")


def pair_of(row: dict[str, Any], where: str) -> tuple[str, str]:
    """The two sentences of one row: in PAIR_COLUMNS, or source and target language."""
    languages = tuple(name for name in row if name in LANGUAGES)
    known = [*PAIR_COLUMNS, languages] if len(languages) == 2 else PAIR_COLUMNS
    for source, target in known:
        if source in row and target in row:
            first = _text(row[source], where, source)
            return first, _text(row[target], where, target)
    expected = " or ".join("/".join(names) for names in PAIR_COLUMNS)
    raise ValueError(f"{where} must have the columns {expected}, found {_names(row)}")


def _text(value: Any, where: str, column: str) -> str:
    if value is None or (isinstance(value, str) and not value.strip()):
        raise EmptyText(f"{where}: {column} is empty")
    if not isinstance(value, str):
        raise ValueError(f"{where}: {column} must be text, got {value!r:.60}")
    return value


def _names(row: dict[str, Any]) -> str:
    return ", ".join(map(repr, list(row)[:5])) or "none"
