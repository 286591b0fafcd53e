"""Working copies of the notebooks: `make lab` opens them, `make reset` renews one.

Knows notebook files. Knows nothing of their content, and imports nothing of the course.
"""

import argparse
import itertools
import json
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = "work/00_start_here.ipynb"
# JupyterLab asks nothing that a learner cannot answer: no news, no update to decide on.
SETTINGS = Path(__file__).with_name("lab_settings")
QUIET_LAB = [
    f"--LabApp.app_settings_dir={SETTINGS}",
    f"--LabApp.extra_labextensions_path={SETTINGS / 'extensions'}",
]
READ_ONLY = ["--ServerApp.contents_manager_class=tools.read_only.ReadOnlyOriginals"]
BUTTONS = {"NAMED_MISTAKES_BUTTONS": "1"}  # below each verdict of `check`
KEEP = {"NAMED_MISTAKES_KEEP": "1"}  # what is right, in `work/mine`
STARTUP = {"PYTHONSTARTUP": str(SETTINGS / "startup.py")}  # unless somebody has one
HEADING = re.compile(r"^#{1,4} +(.+)$", re.M)
SECTION_LINK = re.compile(r"(?<=\]\()((?:\.\./)?)(\w+\.ipynb)?(#[^)\s]+)(?=\))")


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
    The pages of the book are laid in `work/book`, anew each time.
    """
    work = root / "work"
    work.mkdir(exist_ok=True)
    for replaced in sorted(work.glob("*.old-*.ipynb")):  # where they were kept once
        _put_away(replaced)
    sections = _sections(root)
    new = []
    for original in sorted((root / "notebooks").glob("*.ipynb")):
        copy = work / original.name
        if not copy.exists():
            _write_atomically(copy, _fresh(original, sections))
            new.append(copy)
    for page in (root / "notebooks" / "book").glob("*.md"):
        (work / "book").mkdir(exist_ok=True)
        _write_atomically(work / "book" / page.name, _page(page, sections))
    return new


def reset_copy(number: str, root: Path = ROOT) -> Path | None:
    """Replace one working copy by its original; return the path of the edited copy.

    An edited copy is not deleted, it is moved to `work/old/NAME.old-1.ipynb`,
    `NAME.old-2.ipynb`, and so on. None if there was no edited copy.

    Raises ValueError as `find_notebook`.
    """
    original = find_notebook(number, root / "notebooks")
    copy = root / "work" / original.name
    copy.parent.mkdir(exist_ok=True)
    fresh = _fresh(original, _sections(root))
    edited = copy.exists() and copy.read_bytes() != fresh
    saved = _put_away(copy) if edited else None
    _write_atomically(copy, fresh)
    return saved


def _put_away(copy: Path) -> Path:
    """Move a replaced copy into the folder `old`, under the first free number."""
    folder = copy.parent / "old"
    folder.mkdir(exist_ok=True)
    name = copy.stem.partition(".old-")[0]
    paths = (folder / f"{name}.old-{n}.ipynb" for n in itertools.count(1))
    return copy.rename(next(path for path in paths if not path.exists()))


def _fresh(original: Path, sections: dict[str, str]) -> bytes:
    """A notebook's file as it is before anything has run."""
    notebook = json.loads(original.read_text(encoding="utf-8"))
    notebook["metadata"] |= kernel_metadata()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = []
            cell["execution_count"] = None
        if cell["cell_type"] == "markdown":
            text = _to_cells("".join(cell["source"]), sections, original.name)
            cell["source"] = text.splitlines(keepends=True)
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def kernel_metadata() -> dict[str, dict]:
    """What the kernel writes into a notebook when it starts.

    A notebook that has it already is not changed by being opened.
    """
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.kernelspec import get_kernel_dict

    names = {"name": "python3", "display_name": get_kernel_dict()["display_name"]}
    return {
        "kernelspec": {"language": "python"} | names,
        "language_info": IPythonKernel.language_info,
    }


def _page(original: Path, sections: dict[str, str]) -> bytes:
    """A page of the book whose links lead where they should in JupyterLab."""
    text = _to_cells(original.read_text("utf-8"), sections)
    anchored = HEADING.sub(lambda h: f'<a id="{_anchor(h[1])}"></a>\n\n{h[0]}', text)
    return anchored.encode()


def _sections(root: Path) -> dict[str, str]:
    """The cell of each section: {"03_masks.ipynb#first-a-story": "03-018"}."""
    cells = {}
    for path in (root / "notebooks").glob("*.ipynb"):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for title in HEADING.findall("".join(cell["source"])):
                    cells[f"{path.name}#{_anchor(title)}"] = cell["id"]
    return cells


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and the book make it."""
    bare = re.sub(r"\$[^$]*\$|[*`]", "", title.strip()).lower()
    return re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")


def _to_cells(text: str, sections: dict[str, str], own: str = "") -> str:
    """A text whose links to a section name its cell: JupyterLab finds no heading.

    own: the name of the notebook that the text is from.
    """

    def name_cell(link: re.Match) -> str:
        folder, name, anchor = link[1], link[2] or own, link[3]
        cell = sections.get(name + anchor)
        return f"{folder}{name}#cell-id={cell}" if cell else link[0]

    return SECTION_LINK.sub(name_cell, text)


def _write_atomically(path: Path, content: bytes) -> None:
    """Write a file; an interrupted write leaves nothing under its name."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(content)
    unfinished.replace(path)


def lab_command(
    environ: dict[str, str], contained: bool, originals: bool = False
) -> list[str]:
    """The command that opens JupyterLab at the first working copy.

    It works as root, and takes another port if one is in use. Without a screen (SSH,
    container) it opens no browser; inside a container it listens on all interfaces,
    protected by its token. originals: they can be changed, too.
    """
    command = [sys.executable, "-m", "jupyterlab", FIRST]
    command += ["--allow-root", "--ServerApp.port_retries=200", *QUIET_LAB]
    command.append("--ServerApp.answer_yes=True")  # Ctrl+C ends it, without a question
    if not originals:
        command += READ_ONLY
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    has_screen = sys.platform != "linux" or any(environ.get(name) for name in screens)
    if contained or not has_screen or "SSH_CONNECTION" in environ:
        command.append("--no-browser")
    if contained:
        command.append("--ServerApp.ip=0.0.0.0")
    return command


def open_lab(root: Path = ROOT, originals: bool = False) -> int:
    """Create the working copies, run JupyterLab, and return its exit code.

    It prints one address, that of the first notebook; the log goes to `build/lab.log`.
    If JupyterLab already runs for this folder, it prints the address of that one.
    """
    lay_copies(root)
    if server := _running_server(root):
        print("The course is already open: JupyterLab runs for this folder. Use this")
        print("address, or end it by Ctrl+C where it was started.")
        print(_address(server))
        return 0
    contained = any(Path(p).exists() for p in ("/.dockerenv", "/run/.containerenv"))
    command = lab_command(dict(os.environ), contained, originals)
    # Not `work/`, or the pictures in `images/` would be out of sight.
    command.append(f"--ServerApp.root_dir={root.resolve()}")
    token = secrets.token_hex(24)
    log = root / "build" / "lab.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as file:
        environment = STARTUP | os.environ | BUTTONS | KEEP | {"JUPYTER_TOKEN": token}
        process = subprocess.Popen(command, stderr=file, cwd=root, env=environment)
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


def _running_server(root: Path) -> dict | None:
    """What the JupyterLab that already serves this folder says of itself, if any."""
    from jupyter_server.serverapp import list_running_servers

    for server in list_running_servers():
        if Path(server["root_dir"]) == root.resolve():
            try:
                urllib.request.urlopen(_address(server), timeout=5).close()
                return server
            except OSError:  # it does not answer
                continue
    return None


def _address(server: dict) -> str:
    """The address of the first notebook."""
    place = f"http://localhost:{server['port']}{server['base_url']}lab/tree/{FIRST}"
    return f"{place}?token={server['token']}"


def _welcome(server: dict, by_hand: bool) -> tuple[str, str]:
    """Two lines: what to do, and the address of the first notebook."""
    port = server["port"]
    if "SSH_CONNECTION" in os.environ:
        tunnel = f"ssh -L {port}:localhost:{port} HOST"
        words = f"On your own machine type {tunnel}, then open this address there."
    elif by_hand:
        words = "Open this address in a browser."
    else:
        words = "The course opens in your browser. If it does not, open this address."
    return f"{words} Ctrl+C here ends it.", _address(server)


def main(arguments: list[str] | None = None) -> None:
    """The command line: lab, reset NB."""
    parser = argparse.ArgumentParser(prog="python -m tools.working_copies")
    parser.add_argument("task", choices=["lab", "reset"])
    parser.add_argument("notebooks", nargs="*", metavar="NB", help="such as 01")
    parser.add_argument("--originals", action="store_true", help="lab can change them")
    given = parser.parse_args(arguments)
    try:
        if given.task == "lab":
            raise SystemExit(open_lab(originals=given.originals))
        for number in given.notebooks or [""]:
            saved = reset_copy(number)
            print("The original is back;", f"your copy is {saved}" if saved else "done")
    except ValueError as problem:
        raise SystemExit(str(problem)) from None


if __name__ == "__main__":
    main()
