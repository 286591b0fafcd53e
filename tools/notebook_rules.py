"""What a stored notebook must look like, and how it reads, without running it.

Knows the JSON of notebooks. Knows nothing of kernels and pytest.
"""

import re
import sys
from pathlib import Path

from nbval_strict.figures import alt_text, words

ROOT = Path(__file__).resolve().parents[1]
COMPARED = {  # kinds of output that the comparison really reads
    "text/plain",
    "text/html",
    "text/latex",
    "text/markdown",
    "image/png",
    "image/svg+xml",
    "application/javascript",
    "application/json",
}
NO_ALT = ("", "A figure with these words: ")  # what `plots` says when it knows nothing
TAGS = {
    "hide-input",
    "nbval-ignore-output",
    "raises-exception",
    "timing",
    "trained",  # follows from a long training: elsewhere only its claims are compared
    "trained-model",
}
FOLDERS = "home|root|Users|tmp|work|mnt|opt|private|content"
MACHINE_PATH = re.compile(
    rf"(?<![\w+/=.:])/(?:{FOLDERS})/\w[\w./+-]*"
    r"|\b[A-Za-z]:\\\\?Users\\[\w.\\+-]*"
    r"|ipykernel_\d+"
)
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")
COMMENT_MARK = re.compile(r"#\s*(PYTEST_VALIDATE|NBVAL_)")
MARKDOWN_IMAGE = re.compile(r"!\[([^\]]*)\]\(\s*([^)\s]+)[^)]*\)")
HTML_IMAGE = re.compile(r"<img\b[^>]*>", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""\b(alt|src)\s*=\s*("[^"]*"|'[^']*')""", re.IGNORECASE)
REAL_DATA = re.compile(
    r"""["'](roneneldan|Helsinki-NLP|EleutherAI|stanfordnlp)/"""
    r"""|["']sentence-transformers/parallel|\bload_llama2c\("""
)
TRAINED = re.compile(r"""["']sentence-transformers/all-MiniLM""")


def joined(text):
    """Notebook text, which may be stored as one string or as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def tags_of(cell):
    return cell["metadata"].get("tags", [])


def is_folded(cell):
    return cell["metadata"].get("jupyter", {}).get("source_hidden", False)


def is_ignored(cell):
    return "nbval-ignore-output" in tags_of(cell)


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def touches_real_data(notebook):
    """Does a code cell name a data set, tokenizer or LLaMA of the hub?"""
    return any(REAL_DATA.search(joined(c["source"])) for c in code_cells(notebook))


def uses_trained_model(notebook):
    """Does a code cell name the trained model that the mirror can serve?"""
    return any(TRAINED.search(joined(c["source"])) for c in code_cells(notebook))


def cell_name(cell, count):
    """The name of a cell in reports: "In [7] 05-012", or "text 05-013"."""
    kind = f"In [{count}]" if cell["cell_type"] == "code" else "text"
    return f"{kind} {cell.get('id', '')}".rstrip()


def problems(notebook, folder):
    """Everything wrong with a stored notebook, one sentence each."""
    complaints = []
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            whats = [*_code_problems(cell, count), *_path_problems(cell)]
        else:
            text = joined(cell["source"])
            whats = [*_path_problems(cell), *_image_problems(text, folder)]
        complaints += [f"{cell_name(cell, count)} {what}" for what in whats]
    ids = [cell.get("id") for cell in notebook["cells"]]
    if len(set(ids)) != len(ids) or None in ids:
        complaints.append("cells lack an id of their own: run `make refresh`")
    return complaints


def _path_problems(cell):
    texts = [joined(cell["source"]), *_output_texts(cell)]
    paths = [match for text in texts for match in MACHINE_PATH.findall(text)]
    for path in dict.fromkeys(paths):
        yield f"holds a path of a machine: {path}"
    for place in _places():
        if any(str(place) in text for text in texts):
            yield f"holds a path of this machine: {place}"


def _places():
    return {ROOT, Path.home(), Path(sys.prefix)} - {Path("/")}


def _output_texts(cell):
    for output in cell.get("outputs", []):
        yield joined(output.get("text", ""))
        yield joined(output.get("evalue", ""))
        for kind, data in output.get("data", {}).items():
            yield joined(data) if kind.startswith("text/") else ""


def _code_problems(cell, count):
    source, tags = joined(cell["source"]), tags_of(cell)
    if not source.strip():
        yield "is empty"
    if cell["execution_count"] != count:
        yield f"was not executed in order: its count is {cell['execution_count']}"
    if unknown := set(tags) - TAGS:
        yield f"has tags that mean nothing here: {sorted(unknown)}"
    if COMMENT_MARK.search(source):
        yield "steers the comparison by a comment; use a tag"
    folded = is_folded(cell)
    if folded != ("hide-input" in tags):
        yield "must be folded in JupyterLab and in the book alike: run `make refresh`"
    if "timing" in tags and "nbval-ignore-output" not in tags:
        yield "is tagged timing, so it must be tagged nbval-ignore-output too"
    errors = [o for o in cell["outputs"] if o["output_type"] == "error"]
    if bool(errors) != ("raises-exception" in tags):
        yield "must store an exception exactly if it is tagged raises-exception"
    if any(error.get("traceback") for error in errors):
        yield "stores a traceback: run `make refresh`"
    for output in cell["outputs"]:
        yield from _output_problems(output)
    alt_texts = [alt_text(output) for output in cell["outputs"]]
    for alt in cell["metadata"].get("alt", []):
        if alt not in alt_texts:
            yield f"keeps an alt text that no figure has: {alt[:60]!r}"


def _output_problems(output):
    if output.get("name") == "stderr":
        yield f"writes to stderr: {joined(output['text'])[:200]}"
    data = output.get("data", {})
    if strange := set(data) - COMPARED:
        yield f"has outputs that nothing compares: {sorted(strange)}"
    if "image/png" in data and alt_text(output).removesuffix(words(output)) in NO_ALT:
        yield "shows a figure without alt text: put one into the cell's metadata"
    if ADDRESS.search(joined(data.get("text/plain", ""))):
        yield "shows the address of an object"
    for image in HTML_IMAGE.findall(joined(data.get("text/html", ""))):
        if not _attributes(image).get("alt"):
            yield "shows an HTML image without alt text"


def _attributes(tag):
    return {name.lower(): text[1:-1].strip() for name, text in ATTRIBUTE.findall(tag)}


def _image_problems(text, folder):
    images = [(alt.strip(), source) for alt, source in MARKDOWN_IMAGE.findall(text)]
    for tag in HTML_IMAGE.findall(text):
        images.append((_attributes(tag).get("alt"), _attributes(tag).get("src", "")))
    for alt, source in images:
        if not alt:
            yield f"shows {source} without alt text"
        if not (folder / source).is_file():
            yield f"shows {source}, which is not a local file"


def style(notebook):
    """How a stored notebook reads: {what: how much}, in the numbers of the design."""
    codes = code_cells(notebook)
    sources = [joined(cell["source"]).strip("\n").split("\n") for cell in codes]
    run = longest = 0
    for cell in notebook["cells"]:
        if not is_folded(cell):  # a folded one is a line at most
            run = run + 1 if cell["cell_type"] == "code" else 0
        longest = max(longest, run)
    showing = [bool(cell["outputs"]) for cell in codes if not is_folded(cell)]
    return {
        "cells": len(notebook["cells"]),
        "lines": max(map(len, sources), default=0),
        "width": max((len(line) for lines in sources for line in lines), default=0),
        "in a row": longest,
        "% with output": 100 * sum(showing) // max(1, len(showing)),
        "ignored": sum(map(is_ignored, codes)),
        "minutes": round(minutes(notebook["cells"])),
    }


def minutes(cells):
    """What a reader needs: 58 words a minute, 12 lines of code, exercises included."""
    words = lines = 0
    for cell in cells:
        text = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            words += len(text.split())
        else:
            lines += len(text.split("\n"))
    return words / 58 + lines / 12


def style_problems(measured):
    """The hard ones among the numbers of the design, one sentence each."""
    if measured["lines"] > 30:
        yield f"a code cell has {measured['lines']} lines, more than 30"
    if measured["width"] > 88:
        yield f"a line of code is {measured['width']} columns wide, more than 88"
    if measured["in a row"] > 2:
        yield f"{measured['in a row']} code cells stand in a row, more than 2"
    if (percent := measured["% with output"]) < 70:
        yield f"only {percent}% of code cells show something, not 70 %"
