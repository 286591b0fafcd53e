"""`make refresh`: run notebooks anew and store their outputs in a normal form.

Knows which data are served here, and by which data stored outputs were made. Is run in
the notebooks' environment (`tools.notebook_environment`).
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import time
import zlib
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from nbval_strict.fingerprint import fingerprint
from tools.mirror_data import data_fingerprint
from tools.notebook_rules import ROOT, code_cells, tags_of, touches_real_data
from tools.working_copies import find_notebook

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# alt: alt texts of the cell's figures; jupyter: whether its source is folded;
# measured: the source whose times are stored; tags: how the tests treat it.
PRESERVED_METADATA = ("alt", "jupyter", "measured", "tags")
# The tags of the cells whose outputs depend on which data are served; no others do.
DECIDED_BY_DATA = {"trained", "nbval-ignore-output"}
NO_CODE = (":/!*.md", ":/!*.ipynb", ":/!tests")  # on these no output rests
CELL_TIMEOUT = int(600 * float(os.environ.get("NBVAL_PATIENCE", "1")))  # seconds


def refresh(path: Path, data: str | None = None, keep: bool = False) -> list[str]:
    """Execute a notebook and store its normalized outputs.

    data: a name for the data that the outputs rest on, which is stored with them.
    keep: other data are served here, so outputs that data decide are left as they are.
    Returns a line for each cell that wrote to stderr, and one that names the cells left
    as they were where they would be different. Two runs give the same bytes if
    the cells compute the same. A cell tagged `timing` keeps its outputs while its
    source is unchanged. The file is replaced at the end, by one rename.

    Raises ValueError if a cell raises; the stored notebook is then unchanged.
    """
    notebook = nbformat.read(path, as_version=4)
    measured = [cell for cell in notebook.cells if "measured" in cell.metadata]
    timings = {cell.metadata.measured: cell.outputs for cell in measured}
    decided = [c for c in code_cells(notebook) if DECIDED_BY_DATA & {*tags_of(c)}]
    stored = [(cell, cell.outputs) for cell in decided if keep and cell.outputs]
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR"],
        coalesce_streams=True,
        resources={"metadata": {"path": str(path.parent)}},
    )

    def send_metadata(cell: dict, **_: object) -> None:
        client.kc.session.metadata = dict(cell["metadata"])  # as JupyterLab does

    client.on_cell_execute = send_metadata
    try:
        client.execute()
    except CellExecutionError as failure:
        raise ValueError(f"{path.name} is left as it was: {failure}") from None
    for cell in notebook.cells:
        if "timing" in tags_of(cell):
            cell.metadata.measured = zlib.crc32(cell.source.encode())
            cell.outputs = timings.get(cell.metadata.measured, cell.outputs)
    left = [cell for cell, outputs in stored if cell.outputs != outputs]
    for cell, outputs in stored:
        cell.outputs = outputs
    normalize(notebook, path.name[:2])
    notebook.metadata["made_with"] = fingerprint() | ({"data": data} if data else {})
    write(notebook, path)
    wrong = [
        f"{cell.id} writes to stderr: {output.text.strip()[:300]}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stderr"
    ]
    if left:
        names = ", ".join(cell.id for cell in left)
        wrong.append(f"left as they are, because the data {data} decide them: {names}")
    return wrong + told_by_luck(notebook.cells)


def store_text(path: Path) -> bool:
    """Store a notebook without a run if, since the last commit, only text has changed.

    Returns whether that was so.
    """
    notebook = nbformat.read(path, as_version=4)
    normalize(notebook, path.name[:2])
    git = ["git", "-C", str(path.parent)]
    show = [*git, "show", f"HEAD:./{path.name}"]
    committed = subprocess.run(show, capture_output=True, text=True, encoding="utf-8")
    same = [*git, "diff", "--quiet", "HEAD", "--", ":/", *NO_CODE]
    if committed.returncode or subprocess.run(same, capture_output=True).returncode:
        return False
    before = nbformat.reads(committed.stdout, as_version=4)
    if before == notebook or code_cells(before) != code_cells(notebook):
        return False
    write(notebook, path)
    return True


def write(notebook: dict, path: Path) -> None:
    """Write a notebook whole or not at all."""
    nbformat.validate(notebook)
    unfinished = path.with_suffix(".unfinished")
    nbformat.write(notebook, unfinished)
    unfinished.replace(path)


def told_by_luck(cells: list[dict]) -> list[str]:
    """Texts below a `trained` cell with names or numbers that only its output holds.

    Another machine's run tells another story: such a text would contradict it.
    """
    sources = " ".join("".join(cell["source"]) for cell in cells)
    notes, output = [], ""
    for cell in cells:
        if cell["cell_type"] == "code":
            trained = "trained" in tags_of(cell)
            output = json.dumps(cell["outputs"], ensure_ascii=False) if trained else ""
            continue
        text = "".join(cell["source"])
        particular = {
            word
            for word in re.findall(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b|\b\d+\.\d+\b", text)
            if re.search(rf"\b{re.escape(word)}\b", output)
            and sources.count(word) == text.count(word)
        }
        if particular:
            words = ", ".join(sorted(particular))
            notes.append(
                f"{cell['id']} tells what only this run's output holds: {words}"
            )
    return notes


def normalize(notebook: dict, prefix: str) -> None:
    """Remove from an executed notebook, in place, what changes from run to run.

    A new cell is named `prefix-NNN` by a free number, others keep their names; code
    cells are counted 1, 2, …; tracebacks are dropped, and of the metadata all but what
    the course uses. A cell that is folded in JupyterLab gets the tag that folds it in
    the book.
    """
    notebook["nbformat"] = 4
    notebook["nbformat_minor"] = 5
    made_with = {k: v for k, v in notebook["metadata"].items() if k == "made_with"}
    language = {"language_info": {"name": "python"}}
    notebook["metadata"] = {"kernelspec": dict(KERNELSPEC)} | language | made_with
    known = {cell.get("id") for cell in notebook["cells"]}
    free = (n for n in itertools.count(1) if f"{prefix}-{n:03d}" not in known)
    seen, count = set(), 0
    for cell in notebook["cells"]:
        if cell.get("id") in seen or not cell.get("id", "").startswith(f"{prefix}-"):
            cell["id"] = f"{prefix}-{next(free):03d}"
        seen.add(cell["id"])
        metadata = {name: cell["metadata"].get(name) for name in PRESERVED_METADATA}
        cell["metadata"] = {name: value for name, value in metadata.items() if value}
        if (metadata["jupyter"] or {}).get("source_hidden"):  # folded, in the book too
            cell["metadata"]["tags"] = sorted({*(metadata["tags"] or ()), "hide-input"})
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
                if output["output_type"] == "error":
                    output["traceback"] = []


def main(arguments=None):
    """The command line: numbers of notebooks, or none for all."""
    parser = argparse.ArgumentParser(prog="make refresh")
    parser.add_argument("--force", action="store_true", help="run and store everything")
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 01")
    given = parser.parse_args(arguments)
    folder = ROOT / "notebooks"
    now = data_fingerprint()
    try:
        paths = [find_notebook(number, folder) for number in given.notebooks]
        paths = paths or sorted(folder.glob("*.ipynb"))
        for path in paths:
            start = time.perf_counter()
            print(path.name, end=" … ", flush=True)
            if not given.force and store_text(path):
                print("only text has changed: stored, and nothing was run")
                continue
            book = json.loads(path.read_text("utf-8"))
            data = now if touches_real_data(book) else None
            stored = book["metadata"].get("made_with", {}).get("data", data)
            keep = bool(data) and stored != data and not given.force
            notes = refresh(path, stored if keep else data, keep)
            seconds = time.perf_counter() - start
            print(f"{seconds:.0f} s", *notes, sep="\n  ", flush=True)
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
