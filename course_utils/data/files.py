"""Read stories or sentence pairs from one file on this machine.
Knows nothing of the network, tokenizers or models. Files are never changed."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course_utils.shapes import check_choice

STORY_END = "<|endoftext|>"
SUFFIXES = (".txt", ".jsonl", ".parquet", ".tsv")
# What the two sides of a pair are called, in the order they are looked for.
_COLUMNS = ("source/target", "english/non_english", "en/es", "en/vi")
PAIR_COLUMNS = [tuple(names.split("/")) for names in _COLUMNS]

Row = tuple[str, Any]  # where it stands ("line 7"), what stands there


def read_texts(path: str | Path, column: str = "text") -> list[str]:
    """The texts of a .txt, .jsonl, .parquet or .tsv file, in order.

    .txt: texts end with a line `<|endoftext|>`; in a file without such a line, blank
    lines part them. White space around a text is dropped. .jsonl and .parquet: the
    field `column` of each row. .tsv: the first line names the columns.
    Raises FileNotFoundError, and ValueError for an unknown suffix, an empty file, a
    missing column or what is not UTF-8; each names the file and the place.
    """
    path = _checked(path)
    if path.suffix == ".txt":
        texts = _split_texts(_decoded(path))
    else:
        rows = _named_tsv(path) if path.suffix == ".tsv" else _rows(path)
        texts = [text_of(row, f"{path}, {where}", column) for where, row in rows]
    return _not_empty(path, texts, "texts")


def read_pairs(path: str | Path) -> list[tuple[str, str]]:
    """The (source, target) sentences of a .tsv, .jsonl or .parquet file, in order.

    .tsv: the first two columns, no header; further columns are notes. .jsonl and
    .parquet: columns source and target, english and non_english, en and es, en and
    vi, or one column `translation` holding such a pair. Raises as `read_texts`.
    """
    return _two_columns(path, pair_of, "pairs")


def read_labelled(path: str | Path) -> list[tuple[str, str]]:
    """The (text, label) rows of a .tsv, .jsonl or .parquet file, in order.

    .tsv: text and label, no header; further columns are notes. .jsonl and .parquet:
    columns text or sentence, and label, a name or a number (see `labelled_of`).
    Raises as `read_texts`.
    """
    return _two_columns(path, labelled_of, "labelled texts")


def pair_of(row: Any, where: str) -> tuple[str, str]:
    """The two sentences of one row, whatever its columns are called."""
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    for source, target in PAIR_COLUMNS:
        if isinstance(row, dict) and source in row and target in row:
            if isinstance(row[source], str) and isinstance(row[target], str):
                return row[source], row[target]
            raise ValueError(f"{where}: {source} and {target} must both be text")
    expected = f"expected the columns {' or '.join(_COLUMNS)}"
    raise ValueError(f"{where}: {expected}, found {_names(row)}")


def labelled_of(row: Any, where: str) -> tuple[str, str]:
    """Text and label of one row; a number becomes its digits, below 0 it is none."""
    row = row if isinstance(row, dict) else {}
    text, label = row.get("text", row.get("sentence")), row.get("label")
    if not isinstance(text, str) or not isinstance(label, str | int):
        found = ", ".join(row) or "no columns"
        raise ValueError(
            f"{where}: expected text or sentence, and label, found {found}"
        )
    if isinstance(label, int) and label < 0:
        raise ValueError(f"{where} has no label: it holds {label}")
    return text.strip(), str(label)


def _two_columns(path: str | Path, read: Callable, what: str) -> list[tuple[str, str]]:
    path = _checked(path)
    if path.suffix == ".txt":
        raise ValueError(f"{path} holds no {what}: use .tsv, .jsonl or .parquet")
    rows, read = (_tsv, _cells) if path.suffix == ".tsv" else (_rows, read)
    found = [read(row, f"{path}, {where}") for where, row in rows(path)]
    return _not_empty(path, found, what)


def text_of(row: Any, where: str, column: str) -> str:
    """The text in one column of a row."""
    if not isinstance(row, dict) or column not in row:
        raise ValueError(f"{where}: no column {column!r}, found {_names(row)}")
    if not isinstance(row[column], str):
        kind = type(row[column]).__name__
        raise ValueError(f"{where}: {column} must be text, not {kind}")
    return row[column]


def _names(row: Any) -> str:
    return ", ".join(row) if isinstance(row, dict) else type(row).__name__


def _checked(path: str | Path) -> Path:
    path = Path(path)
    check_choice(f"the end of {path}", path.suffix, SUFFIXES)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    return path


def _decoded(path: Path) -> str:
    """The text of a UTF-8 file, line ends as \\n, a byte-order mark left out."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        stray = f"byte {error.start} is 0x{data[error.start]:02x}"
        raise ValueError(f"{path} is not UTF-8 text: {stray}; save it so") from None
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _split_texts(text: str) -> list[str]:
    mark = re.compile(rf"^{re.escape(STORY_END)}[ \t]*$", re.MULTILINE)
    border = mark if mark.search(text) else re.compile(r"\n[ \t]*\n")
    return [part.strip() for part in border.split(text) if part.strip()]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_decoded(path).split("\n"), start=1):
        if line.strip():
            yield f"line {number}", line


def _rows(path: Path) -> Iterator[Row]:
    return _parquet(path) if path.suffix == ".parquet" else _jsonl(path)


def _jsonl(path: Path) -> Iterator[Row]:
    for where, line in _lines(path):
        try:
            yield where, json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, {where} is not JSON: {error.msg}") from None


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        batches = pyarrow.parquet.ParquetFile(path).iter_batches()
        rows = [row for batch in batches for row in batch.to_pylist()]
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")
        raise ValueError(f"{path} is not a whole parquet file: {reason}") from None
    yield from ((f"row {number}", row) for number, row in enumerate(rows))


def _tsv(path: Path) -> Iterator[tuple[str, list[str]]]:
    return ((where, line.split("\t")) for where, line in _lines(path))


def _cells(cells: list[str], where: str) -> tuple[str, str]:
    source, target, *_ = (cell.strip() for cell in [*cells, ""])
    if source and target:
        return source, target
    found = f"found {cells[0][:40]!r} alone"
    raise ValueError(f"{where} must hold two sentences with a tab between, {found}")


def _named_tsv(path: Path) -> Iterator[Row]:
    lines = _tsv(path)
    _, names = next(lines, ("", []))
    for where, cells in lines:
        yield where, dict(zip(names, cells, strict=False))  # a short line lacks fields


def _not_empty(path: Path, items: list, what: str) -> list:
    if not items:
        raise ValueError(f"{path} is empty: it holds no {what}")
    return items
