"""Working copies of the notebooks: `make lab` opens them, `make reset` renews one.

Knows notebook files. Knows nothing of their content, and imports nothing of the course.
"""

import argparse
import itertools
import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = "work/00_start_here.ipynb"
# JupyterLab asks nothing that a learner cannot answer: no news, no update to decide on.
QUIET_LAB = [f"--LabApp.app_settings_dir={Path(__file__).with_name('lab_settings')}"]


def find_notebook(number: str, folder: Path) -> Path:
    """The notebook of `folder` whose name starts with `number`, such as "01".

    Raises ValueError unless exactly one notebook starts so.
    """
    notebooks = sorted(folder.glob("*.ipynb"))
    start = Path(number).stem
    matches = [path for path in notebooks if start and path.stem.startswith(start)]
    if len(matches) != 1:
        numbers = ", ".join(path.stem[:2] for path in notebooks) or "none in the folder"
        raise ValueError(
            f"NB={number!r} must name exactly one notebook, it names {len(matches)}; "
            f"there are {numbers}"
        )
    return matches[0]


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
            _write_atomically(copy, _without_outputs(original))
            new.append(copy)
    return new


def reset_copy(number: str, root: Path = ROOT) -> Path | None:
    """Replace one working copy by its original; return the path of the edited copy.

    An edited copy is not deleted, it is renamed to `NAME.old-1.ipynb`,
    `NAME.old-2.ipynb`, and so on. None if there was no edited copy.

    Raises ValueError as `find_notebook`.
    """
    original = find_notebook(number, root / "notebooks")
    copy = root / "work" / original.name
    copy.parent.mkdir(exist_ok=True)
    saved = None
    fresh = _without_outputs(original)
    if copy.exists() and copy.read_bytes() != fresh:
        names = (copy.with_suffix(f".old-{n}.ipynb") for n in itertools.count(1))
        saved = copy.rename(next(path for path in names if not path.exists()))
    _write_atomically(copy, fresh)
    return saved


def _without_outputs(original: Path) -> bytes:
    """A notebook's file as it is before anything has run."""
    notebook = json.loads(original.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file; an interrupted write leaves nothing under its name."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def lab_command(environ: dict[str, str], contained: bool) -> list[str]:
    """The command that opens JupyterLab at the first working copy.

    It works as root, and takes another port if one is in use. Without a screen (SSH,
    container) it opens no browser; inside a container it listens on all interfaces,
    protected by its token.
    """
    command = [sys.executable, "-m", "jupyterlab", FIRST]
    command += ["--allow-root", "--ServerApp.port_retries=200", *QUIET_LAB]
    command.append("--ServerApp.answer_yes=True")  # Ctrl+C ends it, without a question
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    has_screen = sys.platform != "linux" or any(environ.get(name) for name in screens)
    if contained or not has_screen or "SSH_CONNECTION" in environ:
        command.append("--no-browser")
    if contained:
        command.append("--ServerApp.ip=0.0.0.0")
    return command


def open_lab(root: Path = ROOT) -> int:
    """Create the working copies, run JupyterLab, and return its exit code.

    It prints one address, that of the first notebook; the log goes to `build/lab.log`.
    """
    lay_copies(root)
    contained = any(Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv"))
    command = lab_command(dict(os.environ), contained)
    # Not `work/`, or the pictures in `images/` would be out of sight.
    command.append(f"--ServerApp.root_dir={root.resolve()}")
    token = secrets.token_hex(24)
    log = root / "build" / "lab.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file:
        given = {"cwd": root, "env": os.environ | {"JUPYTER_TOKEN": token}}
        process = subprocess.Popen(command, stderr=file, **given)
        try:
            while process.poll() is None:
                if server := _server_of(token):
                    print(*_welcome(server, "--no-browser" in command), sep="\n")
                    sys.stdout.flush()
                    return process.wait()
                time.sleep(0.2)
        except KeyboardInterrupt:  # JupyterLab has heard it, too
            process.wait()
            return 0
    last = log.read_text(errors="replace")[-2000:]
    print("JupyterLab did not start:", last, sep="\n")
    return process.returncode


def _server_of(token: str) -> dict | None:
    """What JupyterLab says of the server with this token, once it answers."""
    from jupyter_server.serverapp import list_running_servers

    servers = list_running_servers()
    return next((one for one in servers if one["token"] == token), None)


def _welcome(server: dict, by_hand: bool) -> tuple[str, str]:
    """Two lines: what to do, and the address of the first notebook."""
    port = server["port"]
    place = f"http://localhost:{port}{server['base_url']}lab/tree/{FIRST}"
    if "SSH_CONNECTION" in os.environ:
        tunnel = f"ssh -L {port}:localhost:{port} HOST"
        words = f"On your own machine type {tunnel}, then open this address there."
    elif by_hand:
        words = "Open this address in a browser."
    else:
        words = "The course opens in your browser. If it does not, open this address."
    return f"{words} Ctrl+C here ends it.", f"{place}?token={server['token']}"


def main(arguments: list[str] | None = None) -> None:
    """The command line: lab, reset NB."""
    parser = argparse.ArgumentParser(prog="python -m tools.working_copies")
    parser.add_argument("task", choices=["lab", "reset"])
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 01")
    given = parser.parse_args(arguments)
    try:
        if given.task == "lab":
            raise SystemExit(open_lab())
        for number in given.notebooks or [""]:
            saved = reset_copy(number)
            print("The original is back;", f"your copy is {saved}" if saved else "done")
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
