"""What the run of a notebook leaves behind: files, and attempts to reach the network.

Each notebook gets a home folder and a folder for temporary files of its own, and a
proxy that lets nothing through. `kernel_site` writes down what Python does in other
places; new files beside the notebook show what other programs write there.
Knows files and variables. Knows nothing of notebooks and pytest.
"""

import functools
import os
import re
import socketserver
import threading
from pathlib import Path
from urllib.parse import urlsplit

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
# Where runs may write, in any folder.
WRITABLE = {
    "__pycache__",
    ".git",
    ".hypothesis",
    ".ipynb_checkpoints",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
}
# What libraries write for themselves, below the home folder and among temporary files.
CACHES = (
    ".cache/fontconfig",
    ".cache/huggingface",
    ".cache/matplotlib",
    ".cache/mesa_shader_cache",
    ".cache/torch",
    ".ipython",
    ".jupyter",
    ".local/share/jupyter",
    ".nv",
    ".triton",
    "torchelastic_",  # a logs folder of `torchrun`, which it never removes
    "torchinductor_",
)
MIRRORED = re.compile(r"\.127\.0\.0\.1(:|$)")  # `datasets` puts names before a mirror's
DEVICES = ("/dev", "/proc", "/sys")
REMEDY = "write into a `tempfile.TemporaryDirectory()`, or remove it in the same cell"


class Traces:
    """What one notebook leaves behind, and after which of its cells it was there.

    scratch: a folder for this run alone. beside: the notebook's folder, whose new files
    count. root: the project's. allowed: other folders into which the run may write.
    writable: names of such folders, wherever they are below the project.
    """

    def __init__(self, scratch, beside, root, allowed=(), writable=()):
        scratch = scratch.resolve()
        self.root = root
        self.writable = WRITABLE | {*writable}
        self.home = scratch / "home"
        self.temporary = scratch / "tmp"
        self.beside = beside.resolve()
        self.allowed = [Path(os.path.realpath(path)) for path in (*allowed, scratch)]
        self._refused = scratch / "refused"
        self._written = scratch / "written"
        self.home.mkdir(parents=True)
        self.temporary.mkdir()
        self._refused.touch()
        self._written.touch()
        self._before = self._beside()
        self._proxy = ClosedProxy(self._refused)
        self._cells = {}  # path -> the cell after which it was first seen
        self._reached = []  # (cell, "host:port")
        self._read = 0  # lines of the record of refused connections

    def variables(self):
        """What the kernel must find in its environment."""
        environment = {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "NBVAL_REFUSED": str(self._refused),
            "NBVAL_WRITTEN": str(self._written),
        }
        for name in PROXIES:
            environment[name] = self._proxy.url
            environment[name.lower()] = self._proxy.url
        return environment

    def note(self, cell):
        """Ascribe to this cell what is new since the last call."""
        for path in self._present():
            self._cells.setdefault(path, cell)
        lines = self._refused.read_text("utf-8").splitlines()
        for place in lines[self._read :]:
            if not MIRRORED.search(place):
                self._reached.append((cell, place))
        self._read = len(lines)

    def _beside(self):
        """The files in the notebook's folder, without those that runs may write."""
        return files_below(self.beside, self._in_a_writable_place)

    def _present(self):
        """The files that do not belong there and exist now."""
        new = self._beside() - self._before
        elsewhere = {path for path in new | self._written_paths() if path.exists()}
        present = {path for path in elsewhere if not self._may_write(path)}
        for folder in (self.home, self.temporary):
            present |= files_below(folder, is_a_cache)
        return present

    def _written_paths(self, kind=""):
        """The paths that Python processes wrote: the "new", the "old", or all."""
        kinds = {}
        for line in self._written.read_text("utf-8").splitlines():
            first, _, path = line.partition(" ")
            kinds.setdefault(Path(path), first)
        return {path for path in kinds if kind in ("", kinds[path])}

    def _may_write(self, path):
        places = [*self.allowed, *map(Path, DEVICES)]
        if any(path.is_relative_to(place) for place in places):
            return True
        for place in (self.beside, self.root):
            if path.is_relative_to(place) and self._in_a_writable_place(path, place):
                return True
        return False

    def _in_a_writable_place(self, path, folder):
        """Is this a cache, a checkpoint or a half-written file below the folder?"""
        below = path.relative_to(folder)
        return path.suffix == ".unfinished" or bool(self.writable & {*below.parts})

    def complaints(self):
        """Everything that was left behind, one sentence each."""
        for cell, place in dict.fromkeys(self._reached):
            yield f"{cell} tries to reach {place}: notebooks run without a network"
        old = self._written_paths("old")
        for path in sorted(self._present()):
            cell = self._cells.get(path, "the end of the kernel")
            if path in old:
                yield f"{cell} changes {self.name_of(path)}: {REMEDY}"
            else:
                yield f"{cell} leaves {self.name_of(path)} behind: {REMEDY}"

    def name_of(self, path):
        """A path as the reader of a notebook would write it."""
        if path.is_relative_to(self.home):
            return f"~/{path.relative_to(self.home)}"
        if path.is_relative_to(self.temporary):
            return f"the temporary file {path.relative_to(self.temporary)}"
        for place in (self.root, self.beside):
            if path.is_relative_to(place):
                return str(path.relative_to(place))
        return str(path)

    def close(self):
        """Stop the proxy."""
        self._proxy.close()


def files_below(folder, left_out):
    """The files and empty folders below a folder, as whole paths.

    left_out: takes a path and the folder, and says whether the path does not count.
    """
    paths = set()
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = [name for name in folders if not left_out(here / name, folder)]
        paths |= {here / name for name in files if not left_out(here / name, folder)}
        if not folders and not files and here != folder:
            paths.add(here)
    return paths


def is_a_cache(path, folder):
    """Does a library write this for itself below the folder?"""
    return path.relative_to(folder).as_posix().startswith(CACHES)


class ClosedProxy:
    """A proxy that writes down where each request wants to go, and refuses it.

    So a request is noticed whatever program made it and whatever became of its error.
    """

    def __init__(self, record):
        handler = type("RecordingHandler", (_Handler,), {"record": record})
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        serve = functools.partial(self._server.serve_forever, poll_interval=0.05)
        threading.Thread(target=serve, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class _Handler(socketserver.StreamRequestHandler):
    record: Path

    def handle(self):
        words = self.rfile.readline().decode("latin-1").split()
        if len(words) < 2:
            return  # it hung up
        place = destination(words[1])
        with self.record.open("a", encoding="utf-8") as file:
            file.write(place + "\n")
        while self.rfile.readline().strip():
            pass  # the headers
        self.wfile.write(
            f"HTTP/1.1 502 the tests run without a network: {place}\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode("latin-1")
        )


def destination(target):
    """ "host:port" of what a client asks a proxy for: an address or "host:port"."""
    url = urlsplit(target if "://" in target else f"//{target}")
    port = url.port or {"https": 443, "ftp": 21}.get(url.scheme, 80)
    return f"{url.hostname}:{port}"
