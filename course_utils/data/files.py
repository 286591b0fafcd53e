"""Rows of a file on this machine, and the text or the pair in a row.

Knows the names of columns. Files are never changed.
"""

import csv
import functools
import glob
import os
import re
import tempfile
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TextIO

STORY_END = "<|endoftext|>"
SUFFIXES = (".txt", ".jsonl", ".parquet", ".tsv")
# A string with one of these endings names a file as well, of a type that is not read.
OTHER_SUFFIXES = (".csv", ".json", ".gz", ".zip", ".md")
# The names of the two sides of a pair, in the order in which they are looked for.
PAIR_COLUMNS = [("source", "target"), ("english", "non_english"), ("en", "es")]
# A first line of a .tsv file is a header if two of its cells are among these, or are
# names or codes of different languages.
HEADER_NAMES = {"source", "target", "non_english", "text", "sentence"}
HEADER_NAMES |= {"label", "id", "idx"}
# So many characters, or lines, at its beginning tell how a file is laid out.
SAMPLE, HEAD = 2**20, 40
ENDED = re.compile(r"[.!?…。！？][\"'”’»)]*$")
QUOTED = re.compile(r'(?:^|(?<=[\t\n]))"((?:[^"]|"")*)"(?=[\t\r\n]|$)')


class EmptyText(ValueError):  # noqa: N818 - the name says what is wrong with the row
    """A row without text: an error in a file; skipped in a data set of the hub."""


def is_file(source: str | Path) -> bool:
    """Whether a source names a file: a Path, a file that exists, or an ending."""
    known = Path(source).suffix.lower() in SUFFIXES + OTHER_SUFFIXES
    return isinstance(source, Path) or os.path.isfile(source) or known


def read_rows(path: str | Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """The rows of a file as dictionaries; a .txt file has one column, "text".

    .txt: `<|endoftext|>` separates the texts; where there is none, empty lines do; and
    where there are none of those either, each line is a text. .tsv: the first line
    names the columns if two of its cells are in HEADER_NAMES or are languages, or if
    `columns` is a single one; else the first two are `columns`. Quotes are read as
    Excel and pandas write them, unless some of them cannot be of that kind.
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


def _texts(path: Path) -> Iterator[str]:
    """One text after the other: a file may be larger than the memory."""
    with path.open(encoding="utf-8-sig") as file:
        sample = file.read(SAMPLE)
        if "\0" in sample:  # UTF-16, without the mark that would say so
            raise ValueError("it is not UTF-8: save it so")
        between = r"\n"
        if STORY_END in sample:
            between = re.escape(STORY_END)
        elif re.search(r"\n[ \t]*\n", sample.strip()):
            between = r"\n[ \t]*\n"
        rest = sample
        while sample:
            *texts, rest = re.split(between, rest)
            yield from (text.strip() for text in texts if text.strip())
            sample = file.read(SAMPLE)
            rest += sample
        if rest.strip():
            yield rest.strip()


def _table(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        quoting = csv.QUOTE_MINIMAL if _is_quoted(file) else csv.QUOTE_NONE
        rows = filter(None, csv.reader(file, delimiter="\t", quoting=quoting))
        head = list(islice(rows, HEAD))
        if not head:
            return
        names = [cell.strip().casefold() for cell in head[0]]
        if len(columns) == 1 or _is_header(names, head[1:]):
            if len(set(names)) < len(names):
                raise ValueError(f"two columns have one name in {names}")
            head = head[1:]
        else:
            names = [*columns, *(f"column {n}" for n in range(len(names)))]
        for cells in chain(head, rows):
            if len(cells) > len(names):
                sizes = f"{len(cells)} cells, the first {len(names)}"
                raise ValueError(f"a row has {sizes}")
            yield dict(zip_longest(names, cells))


def _is_quoted(file: TextIO) -> bool:
    """Whether quotes enclose cells, as a program writes them, or belong to the text.

    A program quotes a cell because of what is inside: a tab, a line break, a comma or
    a quote, which it doubles. A person's sentence that begins with a quote is not so.
    """
    sample = file.read(SAMPLE)
    file.seek(0)
    cells = QUOTED.findall(sample)
    needed = any(re.search('[\t\r\n,]|""', cell) for cell in cells)
    return needed and '"' not in QUOTED.sub("", sample)


def _is_header(names: list[str], following: list[list[str]]) -> bool:
    """Whether the first line names the columns. Raises ValueError if nobody can say."""
    codes, languages = _languages()
    known = HEADER_NAMES | languages
    if sum(name in known for name in set(names)) >= 2:
        return True
    cells = [cell.strip() for row in following for cell in row[:2]]
    ended = [bool(ENDED.search(cell)) for cell in cells]
    doubt = len(cells) >= 20 and all(ended) and not any(map(ENDED.search, names[:2]))
    if sum(name in codes for name in set(names)) >= 2:
        if any(ended):
            return True
        doubt = True  # English "in", Spanish "en" are codes of languages, too
    if doubt:
        raise ValueError(
            f"its first line, {names[:2]}, may be a pair or name the columns: write "
            "a line with source and target above the pairs"
        )
    return False


@functools.cache
def _languages() -> tuple[set[str], set[str]]:
    """The codes of languages ("en", "eng"), and their names in English."""
    from babel import Locale
    from babel.core import get_global

    names = Locale("en").languages
    codes = {*names, *get_global("language_aliases")} - HEADER_NAMES
    return codes, {name.casefold() for name in names.values()}


def is_language(name: str) -> bool:
    """Whether a word is the code of a language, or its name in English."""
    return any(name in known for known in _languages())


def is_label(text: str) -> bool:
    """Whether a text is a number, or the code of a language in three letters."""
    return text.isdigit() or (len(text) == 3 and text in _languages()[0])


def text_of(row: dict[str, Any], where: str) -> str:
    """The text of a row; `where` is the row that a message names."""
    if "text" not in row:
        raise ValueError(f"{where} has no column 'text', only {_names(row)}")
    return _text(row["text"], where, "text")


def pair_of(row: dict[str, Any], where: str) -> tuple[str, str]:
    """The two sentences of one row: in PAIR_COLUMNS, or source and target language."""
    languages = tuple(name for name in row if is_language(name))
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
