"""Create and reset working copies of the notebooks, and re-execute the originals.

Knows notebook files and how to run them. Knows nothing of their content, and imports
nothing of the package.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import platform
import subprocess
import sys
import zlib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
# JupyterLab asks nothing that a learner cannot answer: no news, no update to decide on.
QUIET_LAB = [f"--LabApp.app_settings_dir={Path(__file__).with_name('lab_settings')}"]
# alt: alt texts of the cell's figures; jupyter: whether its source is folded;
# measured: the source whose times are stored; tags: how the tests treat it.
KEPT_METADATA = ("alt", "jupyter", "measured", "tags")
# One thread and one set of instructions: outputs are stored and compared under these,
# and every x86-64 CPU with AVX2 then computes the same bits.
PINNED = {
    "OMP_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's kernels
    "MKL_CBWR": "AVX2,STRICT",  # matrix products
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",  # NumPy's products, then its other kernels
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
CELL_TIMEOUT = int(600 * float(os.environ.get("COURSE_PATIENCE", "1")))  # seconds


def find_notebook(number: str, folder: Path) -> Path:
    """The notebook of `folder` whose name starts with `number`, such as "01".

    Raises TypeError unless number is a string, ValueError unless exactly one notebook
    starts so.
    """
    if not isinstance(number, str):
        kind = type(number).__name__
        raise TypeError(
            f"number must be a string such as '01', got {number!r} ({kind})"
        )
    notebooks = sorted(folder.glob("*.ipynb"))
    start = Path(number).stem
    found = [path for path in notebooks if start and path.stem.startswith(start)]
    if len(found) != 1:
        numbers = ", ".join(path.stem[:2] for path in notebooks) or "none in the folder"
        raise ValueError(
            f"NB={number!r} must name exactly one notebook, it names {len(found)}; "
            f"there are {numbers}"
        )
    return found[0]


def lay_copies(root: Path = ROOT) -> list[Path]:
    """Copy each notebook into `work/` unless there is a copy; return the new copies.

    A copy has no outputs: its reader answers the questions before seeing the answers.
    """
    work = root / "work"
    work.mkdir(exist_ok=True)
    new = []
    for original in sorted((root / "notebooks").glob("*.ipynb")):
        copy = work / original.name
        if not copy.exists():
            _write_whole(copy, _without_outputs(original))
            new.append(copy)
    return new


def reset_copy(number: str, root: Path = ROOT) -> Path | None:
    """Replace one working copy by its original; return the path of the edited copy.

    An edited copy is not deleted, it is renamed to `NAME.old-1.ipynb`,
    `NAME.old-2.ipynb`, and so on. None if there was no edited copy.

    Raises TypeError and ValueError as `find_notebook`.
    """
    original = find_notebook(number, root / "notebooks")
    copy = root / "work" / original.name
    copy.parent.mkdir(exist_ok=True)
    kept = None
    fresh = _without_outputs(original)
    if copy.exists() and copy.read_bytes() != fresh:
        names = (copy.with_suffix(f".old-{n}.ipynb") for n in itertools.count(1))
        kept = copy.rename(next(path for path in names if not path.exists()))
    _write_whole(copy, fresh)
    return kept


def _without_outputs(original: Path) -> bytes:
    """A notebook's file as it is before anything has run."""
    notebook = json.loads(original.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file; an interrupted write leaves nothing under its name."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def refresh(path: Path, data: str | None = None) -> list[str]:
    """Execute a notebook and store its normalised outputs.

    data: a name for the data that the outputs rest on, which is stored with them.
    Returns a line for each cell that wrote to stderr. Two runs give the same bytes if
    the cells compute the same. A cell tagged `timing` keeps its outputs while its
    source is unchanged. The file is replaced at the end, by one rename.

    Raises ValueError if a cell raises; the stored notebook is then unchanged.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(path, as_version=4)
    measured = [cell for cell in notebook.cells if "measured" in cell.metadata]
    timings = {cell.metadata.measured: cell.outputs for cell in measured}
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
        if "timing" in cell.metadata.get("tags", []):
            cell.metadata.measured = zlib.crc32(cell.source.encode())
            cell.outputs = timings.get(cell.metadata.measured, cell.outputs)
    normalise(notebook, path.name[:2])
    notebook.metadata["made_with"] = fingerprint() | ({"data": data} if data else {})
    nbformat.validate(notebook)
    unfinished = path.with_suffix(".unfinished")
    nbformat.write(notebook, unfinished)
    unfinished.replace(path)
    return [
        f"{cell.id} writes to stderr: {output.text.strip()[:300]}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stderr"
    ]


def fingerprint() -> dict[str, str]:
    """What stored outputs depend on: where it is equal, they are equal to the bit.

    pinned: the variables that choose threads and instructions (the tests set them).
    bits: a checksum of what this machine computes with them.
    """
    pinned = [f"{name}={os.environ[name]}" for name in PINNED if name in os.environ]
    drawers = ("matplotlib", "numpy", "pillow", "torch")
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "pinned": " ".join(pinned),
        "bits": _bits(),
    } | {name: metadata.version(name).split("+")[0] for name in drawers}


@functools.cache
def _bits() -> str:
    """A checksum of small products, sums and functions, computed here and now."""
    import numpy as np
    import torch
    from torch.nn import functional as F

    source = torch.Generator().manual_seed(0)
    results = []
    for dtype in (torch.float64, torch.float32):
        a = torch.randn(97, 203, generator=source, dtype=dtype)
        b = torch.randn(203, 61, generator=source, dtype=dtype)
        q, k, v = torch.randn(3, 2, 4, 19, 16, generator=source, dtype=dtype)
        results += [a @ b, a @ b[:, 0], q @ k.mT, a.sum(1), a.exp(), a.sin(), a.tanh()]
        results += [a.softmax(-1), F.gelu(a), F.silu(a), F.rms_norm(a, (203,))]
        results += [F.layer_norm(a, (203,)), F.cross_entropy(a, torch.arange(97))]
        results += [F.scaled_dot_product_attention(q, k, v, is_causal=True)]
        results += [torch.linalg.svdvals(a), torch.linalg.qr(a[:, :20])[1]]
    own = np.linspace(-3, 3, 997).reshape(1, -1)
    results += [torch.from_numpy(x) for x in (own @ own.T, np.exp(own), np.sin(own))]
    return f"{zlib.crc32(b''.join(x.double().numpy().tobytes() for x in results)):08x}"


def normalise(notebook: dict, prefix: str) -> None:
    """Remove from an executed notebook, in place, what changes from run to run.

    Cells are named `prefix-001`, `prefix-002`, … and code cells counted 1, 2, …;
    tracebacks are dropped, and of a cell's metadata all but what the course uses. A
    cell that is folded in JupyterLab gets the tag that folds it in the book.
    """
    notebook["nbformat"] = 4
    notebook["nbformat_minor"] = 5
    language = {"language_info": {"name": "python"}}
    notebook["metadata"] = {"kernelspec": dict(KERNELSPEC)} | language
    count = 0
    for index, cell in enumerate(notebook["cells"], start=1):
        cell["id"] = f"{prefix}-{index:03d}"
        kept = {name: cell["metadata"].get(name) for name in KEPT_METADATA}
        cell["metadata"] = {name: value for name, value in kept.items() if value}
        if (kept["jupyter"] or {}).get("source_hidden"):  # folded, in the book too
            cell["metadata"]["tags"] = sorted({*(kept["tags"] or ()), "hide-input"})
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            for output in cell["outputs"]:
                if output["output_type"] == "execute_result":
                    output["execution_count"] = count
                if output["output_type"] == "error":
                    output["traceback"] = []


def lab_command(environ: dict[str, str], contained: bool) -> list[str]:
    """The command that opens JupyterLab at the first working copy.

    It works as root, and takes another port if one is in use. Without a screen (SSH,
    container) it prints the address and opens no browser; inside a container it listens
    on all interfaces, protected by its token.
    """
    command = [sys.executable, "-m", "jupyterlab", "work/00_start_here.ipynb"]
    command += ["--allow-root", "--ServerApp.port_retries=200", *QUIET_LAB]
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    has_screen = sys.platform != "linux" or any(environ.get(name) for name in screens)
    if contained or not has_screen or "SSH_CONNECTION" in environ:
        command.append("--no-browser")
    if contained:
        command.append("--ServerApp.ip=0.0.0.0")
    return command


def open_lab(root: Path = ROOT) -> int:
    """Create the working copies, run JupyterLab, and return its exit code."""
    lay_copies(root)
    contained = any(Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv"))
    command = lab_command(dict(os.environ), contained)
    if "--no-browser" in command:
        print("Open the address below in a browser; it contains the password.")
        print("Over SSH first forward its port: ssh -L PORT:localhost:PORT HOST")
    if contained:
        print("This is a container, so JupyterLab listens on all of its addresses: you")
        print("can reach it from outside. So can others, but they need the password.")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt):
        return subprocess.run(command, cwd=root, check=False).returncode
    return 0


def main(arguments: list[str] | None = None) -> None:
    """The command line: lab, reset NB."""
    parser = argparse.ArgumentParser(prog="python -m course_utils.workshop")
    parser.add_argument("task", choices=["lab", "reset"])
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 01")
    given = parser.parse_args(arguments)
    try:
        if given.task == "lab":
            raise SystemExit(open_lab())
        for number in given.notebooks or [""]:
            kept = reset_copy(number)
            print("The original is back;", f"your copy is {kept}" if kept else "done")
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
