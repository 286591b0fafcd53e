"""What changes only on purpose, as text to compare.

Cells and asserts, files, signatures, the numbers told that no cell gives, and the cases
at the edge that exercises lack.

`make accept` writes it anew into `tests/stored/`, so that a change of it stands in the
commit beside what made it. Knows the repository's files, and nothing of their meaning.
"""

import ast
import difflib
import hashlib
import importlib
import inspect
import json
import re
from pathlib import Path

from tests.support.edges import edges_text
from tests.support.notebook_rules import ROOT, joined
from tests.support.numbers_told import untold

FOLDER = ROOT / "tests" / "stored"
FIRST = 60  # characters by which a cell is known
# Beside the package: what is drawn, trained, asked, told, and how all of it is checked.
FILES = (
    "images/**/*",
    "course_utils/weights/**/*",
    "course_utils/lab_settings/*",
    "course_utils/pretrained.py",
    "notebooks/exercises/*.py",
    "notebooks/book/*.*",
    "*.md",
    "*.toml",
    "*.txt",
    "tests/models.txt",
    "CITATION.cff",
    "LICENSE",
    "Makefile",
    ".ci/*",
    ".github/workflows/*",
    ".gitattributes",
    ".gitignore",
)
BINARY = (".safetensors", ".png")


def complaint(name, before, now):
    """What changed, "-" stored and "+" now, and what to do; "" if nothing did."""
    if before == now:
        return ""
    lines = before.splitlines(), now.splitlines()
    changed = list(difflib.unified_diff(*lines, f"stored/{name}", "now", "", "", 1, ""))
    advice = "If this is meant, run `make accept`."
    if name == "cells.txt":
        advice += " `make diff` shows the words that changed."
    return "\n".join([advice, *changed[:60]])


def cells_text():
    """Each notebook's cells: kind, checksum, first words, then alt texts and asserts.

    "fold" is a code cell whose source a reader has to unfold.
    """
    lines = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        lines += ["", f"# {path.stem}"]
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            source = joined(cell["source"])
            first = " ".join(source.split())[:FIRST].rstrip()
            kind = "code" if cell["cell_type"] == "code" else "text"
            if cell["metadata"].get("jupyter", {}).get("source_hidden"):
                kind = "fold"
            mark = hashlib.sha256(source.encode()).hexdigest()[:6]
            lines.append(f"{kind}  {mark}  {first}")
            lines += [f"      alt: {alt}" for alt in cell["metadata"].get("alt", [])]
            if cell["cell_type"] == "code":
                lines += [f"      {claim}" for claim in asserts(source)]
    return "\n".join(lines[1:]) + "\n"


def asserts(source):
    """Every assert of a cell in its normal form, functions and classes included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert):
            yield " ".join(ast.unparse(node).split())


def files_text():
    """A checksum for each of FILES; however a checkout ends the lines of a text."""
    paths = {path for pattern in FILES for path in ROOT.glob(pattern)}
    lines = []
    for path in sorted(path for path in paths if path.is_file()):
        content = path.read_bytes()
        if path.suffix not in BINARY:
            content = content.replace(b"\r\n", b"\n")
        name = path.relative_to(ROOT).as_posix()
        lines.append(f"{hashlib.sha256(content).hexdigest()[:16]}  {name}")
    return "\n".join(lines) + "\n"


def signatures_text():
    """Every public function, class and method of the package with its defaults."""
    lines = []
    for path in sorted((ROOT / "course_utils").rglob("*.py")):
        if path.name == "__init__.py":
            continue
        module = importlib.import_module(
            ".".join(path.relative_to(ROOT).with_suffix("").parts)
        )
        for name, thing in sorted(vars(module).items()):
            own = getattr(thing, "__module__", None) == module.__name__
            protocol = getattr(thing, "_is_protocol", False)
            if own and not protocol and not name.startswith("_"):
                lines += signatures_of(f"{module.__name__}.{name}", thing)
    return "\n".join(lines) + "\n"


def signatures_of(name, thing):
    """One line for a function, one more for each public method of a class."""
    if inspect.isclass(thing):
        yield name + signature(thing)
        for method, function in sorted(vars(thing).items()):
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}{signature(function)}"
    elif inspect.isfunction(thing):
        yield name + signature(thing)


def signature(thing):
    """Names, kinds and defaults of the arguments, without annotations."""
    try:
        found = inspect.signature(thing)
    except ValueError:  # a class whose constructor is not written in Python
        return "(…)"
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in found.parameters.values()
    ]
    text = str(inspect.Signature(plain))
    text = re.sub(r"(?:Posix|Windows)Path\('([^']*)'\)", _relative, text)
    return re.sub(r"<(\w+ )?(\w+)[^<>]* at 0x\w+>", r"<\2>", text)


def _relative(found):
    """A default path as it reads on every machine."""
    place = Path(found[1])
    name = place.relative_to(ROOT).as_posix() if place.is_absolute() else found[1]
    return f"Path({name!r})"


def numbers_text():
    """The numbers in prose and alt texts that no cell nearby computes or writes."""
    lines = []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        lines += ["", f"# {path.stem}"]
        for kind, number, before in untold(json.loads(path.read_text("utf-8"))):
            lines.append(f"{kind:4}  {number:>9}  after: {before}")
    return "\n".join(lines[1:]) + "\n"


STORED = {
    "cells.txt": cells_text,
    "files.txt": files_text,
    "signatures.txt": signatures_text,
    "numbers.txt": numbers_text,
    "edges.txt": edges_text,
}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, make in STORED.items():
        (FOLDER / name).write_text(make(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
