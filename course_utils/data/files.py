"""Read texts, sentence pairs or labelled texts from one file on this machine.

Knows file formats and the names of columns. Knows nothing of the network, tokenizers
or models. Files are never changed.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course_utils.shapes import check_text, check_type, shown

STORY_END = "<|endoftext|>"
SUFFIXES = (".txt", ".jsonl", ".parquet", ".tsv")
# A string with one of these endings names a file as well, of a type that is not read.
OTHER_SUFFIXES = (
    *(".arrow", ".csv", ".doc", ".docx", ".gz", ".htm", ".html", ".ipynb", ".json"),
    *(".log", ".md", ".npy", ".npz", ".pdf", ".pickle", ".pkl", ".pt", ".rtf", ".tar"),
    *(".xls", ".xlsx", ".xml", ".yaml", ".yml", ".zip"),
)
# The names of the two sides of a pair, in the order in which they are looked for.
PAIR_COLUMNS = [
    ("source", "target"),
    ("english", "non_english"),
    ("en", "es"),
    ("en", "vi"),
]
LANGUAGES = {
    *("english", "spanish", "vietnamese", "russian", "french", "german", "italian"),
    *("portuguese", "ukrainian", "polish", "turkish", "arabic", "hindi", "chinese"),
    *("japanese", "korean"),
    *("en", "es", "vi", "ru", "fr", "de", "pt", "uk", "zh", "ja", "ko"),
}
# A first line of a .tsv file is a header if two of its cells are among these.
HEADER_NAMES = {
    *LANGUAGES,
    *("source", "target", "non_english", "text", "sentence", "label"),
    *("id", "idx", "index"),
}

Row = tuple[str, Any]  # the place of a row ("line 7"), and the row


class EmptyText(ValueError):  # noqa: N818 - the name says what is wrong with the row
    """A row without text: an error in a file; skipped in a data set of the hub."""


def is_file(source: str | Path) -> bool:
    """Whether a source names a file: a Path, a file that exists, or a known ending."""
    check_type(str | Path, source=source)
    if isinstance(source, Path) or os.path.isfile(source):
        return True
    return Path(source).suffix.lower() in SUFFIXES + OTHER_SUFFIXES


def read_texts(path: str | Path, column: str = "text") -> list[str]:
    """The texts of a .txt, .jsonl, .parquet or .tsv file, in order.

    .txt: texts end with a line `<|endoftext|>`; in a file without such a line, empty
    lines separate them. White space around a text is dropped. .jsonl and .parquet: the
    field `column` of each row. .tsv: the first line holds the names of the columns;
    quotes have no meaning, so a cell cannot hold a tab.
    Raises FileNotFoundError for a missing file, TypeError for an argument of the wrong
    type, and ValueError for an unsupported file type, an empty file, an empty text, a
    missing or repeated column, a `column` for a .txt file, or a file that is not valid
    UTF-8. Each message names the file and the line.
    """
    path = _checked(path)
    check_text(column=column)
    if _suffix(path) == ".txt":
        if column != "text":
            raise ValueError(f"column={column!r} was given, but {path} has no columns")
        texts = _split_texts(_decoded(path))
    else:
        rows = _named_tsv(path, column) if _suffix(path) == ".tsv" else _rows(path)
        texts = [text_of(row, f"{path}, {where}", column) for where, row in rows]
    return _not_empty(path, texts, "texts")


def read_pairs(path: str | Path) -> list[tuple[str, str]]:
    """The (source, target) sentences of a .tsv, .jsonl or .parquet file, in order.

    .jsonl and .parquet: columns source and target, english and non_english, en and es,
    en and vi, or one column `translation` that holds such a pair. .tsv: the first two
    columns; if the first line is a header (two of its cells are in HEADER_NAMES), the
    columns with these names, or those of two languages ("english", "russian"), the
    first of which is the source. Other columns are ignored.
    Raises as `read_texts`.
    """
    return _two_columns(path, pair_of, ("source", "target"))


def read_labelled(path: str | Path) -> list[tuple[str, str]]:
    """The (text, label) rows of a .tsv, .jsonl or .parquet file, in order.

    .jsonl and .parquet: columns text or sentence, and label, which is text or an
    integer (see `labelled_of`). .tsv: the first two columns; if the first line is a
    header (two of its cells are in HEADER_NAMES), the columns with these names. Other
    columns are ignored.
    Raises as `read_texts`.
    """
    return _two_columns(path, labelled_of, ("text", "label"))


# --- one row -------------------------------------------------------------------------


def text_of(row: Any, where: str, column: str) -> str:
    """The text in one column of a row.

    where: the place that a message names. Raises ValueError for a missing column or a
    value that is not text, `EmptyText` for none or white space only.
    """
    check_type(str, column=column)
    if not isinstance(row, dict) or column not in row:
        raise ValueError(
            f"{where}: the row has no column {column!r}, found {_names(row)}"
        )
    return _text(row[column], where, column)


def pair_of(row: Any, where: str) -> tuple[str, str]:
    """The two sentences of one row, under any of the names in PAIR_COLUMNS.

    Raises ValueError for other columns or a value that is not text, `EmptyText` where a
    side is empty.
    """
    if isinstance(row, dict) and isinstance(row.get("translation"), dict):
        row = row["translation"]
    for source, target in PAIR_COLUMNS:
        if isinstance(row, dict) and source in row and target in row:
            first = _text(row[source], where, source)
            return first, _text(row[target], where, target)
    expected = " or ".join("/".join(names) for names in PAIR_COLUMNS)
    raise ValueError(
        f"{where}: the row must have the columns {expected}, found {_names(row)}"
    )


def labelled_of(row: Any, where: str) -> tuple[str, str]:
    """Text and label of one row; an integer label becomes its digits.

    Raises ValueError for missing columns, a label that is neither text nor an integer,
    or a negative one (data sets mark a missing label by -1); `EmptyText` for no text.
    """
    names = [
        name for name in ("text", "sentence") if isinstance(row, dict) and name in row
    ]
    if not names or "label" not in row:
        raise ValueError(
            f"{where}: the row must have the columns text or sentence, and label, "
            f"found {_names(row)}"
        )
    text = _text(row[names[0]], where, names[0])
    label = row["label"]
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise ValueError(
            f"{where}: label must be text or an integer, got {shown(label)}"
        )
    if isinstance(label, int) and label < 0:
        raise ValueError(f"{where}: label must be >= 0, got {label} (no label)")
    if isinstance(label, str) and not label.strip():
        raise ValueError(f"{where}: label is empty")
    return text.strip(), str(label)


def _text(value: Any, where: str, column: str) -> str:
    if value is None:
        raise EmptyText(f"{where}: {column} must be text, got None")
    if not isinstance(value, str):
        raise ValueError(f"{where}: {column} must be text, got {shown(value)}")
    if not value.strip():
        raise EmptyText(f"{where}: {column} is empty")
    return value


def _names(row: Any) -> str:
    """The columns of a row, for a message."""
    if not isinstance(row, dict):
        return shown(row)
    names = [repr(str(name)[:20]) for name in row]
    return ", ".join(names[:5] + ["…"] * (len(names) > 5)) or "none"


# --- one file ------------------------------------------------------------------------


def _checked(path: str | Path) -> Path:
    check_type(str | Path, path=path)
    check_text(path=str(path))
    path = Path(path)
    if _suffix(path) not in SUFFIXES:
        raise ValueError(
            f"path {str(path)!r}: unsupported file type {path.suffix!r}; use .txt, "
            ".jsonl, .parquet or .tsv"
        )
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder, not a file")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}")
    return path


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _decoded(path: Path) -> str:
    """The text of a UTF-8 file without byte-order mark; every line end is \\n."""
    data = path.read_bytes()
    place = data.find(0)  # a byte of UTF-16 or of a binary file
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        place = error.start
    if place >= 0:
        raise ValueError(
            f"{path} is not valid UTF-8 (byte {place} is 0x{data[place]:02x}); re-save "
            "the file as UTF-8"
        )
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _split_texts(text: str) -> list[str]:
    end = re.compile(rf"^{re.escape(STORY_END)}[ \t]*$", re.MULTILINE)
    separator = end if end.search(text) else re.compile(r"\n[ \t]*\n")
    return [part.strip() for part in separator.split(text) if part.strip()]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Place and content of each line that is not empty."""
    for number, line in enumerate(_decoded(path).split("\n"), start=1):
        if line.strip():
            yield f"line {number}", line


def _two_columns(
    path: str | Path, read: Callable, columns: tuple[str, str]
) -> list[tuple[str, str]]:
    """What `read` makes of each row; columns: of a .tsv file without a header."""
    path = _checked(path)
    if _suffix(path) == ".txt":
        raise ValueError(
            f"{path} has no columns {' and '.join(columns)}; use .tsv, .jsonl or "
            ".parquet"
        )
    rows = _tsv(path, columns) if _suffix(path) == ".tsv" else _rows(path)
    found = [read(row, f"{path}, {where}") for where, row in rows]
    return _not_empty(path, found, "rows")


def _not_empty(path: Path, items: list, what: str) -> list:
    if not items:
        raise ValueError(f"{path} is empty: it holds no {what}")
    return items


def _rows(path: Path) -> Iterator[Row]:
    return _parquet(path) if _suffix(path) == ".parquet" else _jsonl(path)


def _jsonl(path: Path) -> Iterator[Row]:
    for where, line in _lines(path):
        try:
            yield where, json.loads(line, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", error)
            raise ValueError(f"{path}, {where} is not valid JSON: {reason}") from None


def _unique(items: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(items)
    if len(row) < len(items):
        _check_unique([name for name, _ in items])
    return row


def _check_unique(names: list[str]) -> None:
    for place, name in enumerate(names):
        if name and name in names[:place]:
            raise ValueError(f"duplicate column name {name[:40]!r}")


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path)
        rows = [row for batch in file.iter_batches() for row in batch.to_pylist()]
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(".")[:100]
        raise ValueError(f"{path} is not a complete parquet file: {reason}") from None
    try:
        _check_unique(file.schema_arrow.names)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    yield from ((f"row {number}", row) for number, row in enumerate(rows))


# --- tab-separated values ------------------------------------------------------------


def _tsv(path: Path, columns: tuple[str, str]) -> Iterator[Row]:
    """Rows by the names of the header, or the first two cells as these columns."""
    lines = list(_cells(path))
    names = [name.casefold() for name in lines[0][1]] if lines else []
    if sum(name in HEADER_NAMES for name in names) >= 2:
        _check_header(path, names, lines[0][0])
        yield from _named(path, _language_pair(names), lines[1:])
        return
    for where, cells in lines:
        if len(cells) < 2:
            raise ValueError(
                f"{path}, {where}: expected {' and '.join(columns)} with a tab "
                f"between, found {shown(cells[0])} alone"
            )
        yield where, dict(zip(columns, cells, strict=False))


def _language_pair(names: list[str]) -> list[str]:
    """The names of a header; two languages without other pair are source and target."""
    languages = [name for name in names if name in LANGUAGES]
    known = any({*pair} <= {*names} for pair in PAIR_COLUMNS)
    if known or len(languages) != 2:
        return names
    sides = dict(zip(languages, ("source", "target"), strict=True))
    return [sides.get(name, name) for name in names]


def _named_tsv(path: Path, column: str) -> Iterator[Row]:
    """Rows by the names in the first line, one of which must be `column`."""
    lines = list(_cells(path, strip=False))
    if not lines:
        return
    where, names = lines[0]
    names = [name.strip() for name in names]
    if column not in names:
        found = _names(dict.fromkeys(names))
        raise ValueError(f"{path}, {where}: no column {column!r}, found {found}")
    _check_header(path, names, where)
    yield from _named(path, names, lines[1:])


def _check_header(path: Path, names: list[str], where: str) -> None:
    try:
        _check_unique(names)
    except ValueError as error:
        raise ValueError(f"{path}, {where}: {error}") from None


def _named(path: Path, names: list[str], lines: list[tuple]) -> Iterator[Row]:
    """The lines below a header, as dictionaries; a short line lacks some columns."""
    for where, cells in lines:
        if len(cells) > len(names):
            raise ValueError(
                f"{path}, {where}: {len(cells)} cells, but the header has {len(names)}"
            )
        yield where, dict(zip(names, cells, strict=False))


def _cells(path: Path, strip: bool = True) -> Iterator[tuple[str, list[str]]]:
    """Place and cells of each line that is not empty.

    TSV has no quoting: a cell that is quoted because it holds a tab would be cut there,
    so such a line is refused.
    """
    for where, line in _lines(path):
        cells = line.split("\t")
        cut = _cut_quote(cells) if '"' in line else None
        if cut is not None:
            raise ValueError(
                f"{path}, {where}: the quoted cell {shown(cut)} is cut at a tab; TSV "
                "has no quoting, so replace tabs inside cells by spaces"
            )
        yield where, [cell.strip() for cell in cells] if strip else cells


def _cut_quote(cells: list[str]) -> str | None:
    """A cell that begins with a quote which only a later cell closes."""
    begun = None
    for cell in map(str.strip, cells):
        unbalanced = cell.count('"') % 2 == 1
        if unbalanced and begun is not None and cell.endswith('"'):
            return begun
        if unbalanced and begun is None and cell.startswith('"'):
            begun = cell
    return None
