"""What the run of a notebook leaves behind: files, and attempts to reach the network.

Each notebook gets a home folder and a folder for temporary files of its own; new
files there and beside the notebook are ascribed to its cells, and so are the
connections that `kernel_site` refused. Knows files and variables. Knows nothing of
notebooks and pytest.
"""

import os
import re
from pathlib import Path

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
# The variables that name the two folders, the first of each on Linux and on a Mac.
HOME = ("HOME", "USERPROFILE")
TEMPORARY = ("TMPDIR", "TEMP", "TMP")
MIRRORED = re.compile(r"\.127\.0\.0\.1$")  # `datasets` puts names before a mirror's
REMEDY = "write into a `tempfile.TemporaryDirectory()`, or remove it in the same cell"


class Traces:
    """What one notebook leaves behind, and after which of its cells it was there.

    scratch: a folder for this run alone. beside: the notebook's folder. writable: names
    of folders below it into which the run may write.
    """

    def __init__(self, scratch, beside, writable=()):
        self.beside = beside
        self.writable = WRITABLE | {*writable}
        self.home = scratch / "home"
        self.temporary = scratch / "tmp"
        self._refused = scratch / "refused"
        self.home.mkdir(parents=True)
        self.temporary.mkdir()
        self._refused.touch()
        self._before = files_below(self.beside, self._may_write)
        self._cells = {}  # path -> the cell after which it was first seen
        self._reached = {}  # host -> the cell that first tried to reach it

    def variables(self):
        """What the kernel must find in its environment."""
        return {
            **dict.fromkeys(HOME, str(self.home)),
            **dict.fromkeys(TEMPORARY, str(self.temporary)),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_DATA_HOME": str(self.home / ".local" / "share"),
            "XDG_STATE_HOME": str(self.home / ".local" / "state"),
            "NBVAL_REFUSED": str(self._refused),
        }

    def note(self, cell):
        """Ascribe to this cell what is new since the last call."""
        for path in self._present():
            self._cells.setdefault(path, cell)
        for host in self._refused.read_text("utf-8").splitlines():
            if not MIRRORED.search(host):
                self._reached.setdefault(host, cell)

    def _present(self):
        """The files that are there now and were not."""
        now = files_below(self.beside, self._may_write)
        for folder in (self.home, self.temporary):
            now |= files_below(folder, is_cache)
        return now - self._before

    def _may_write(self, below):
        """Is this a cache, a checkpoint or a half-written file?"""
        return below.suffix == ".unfinished" or bool(self.writable & {*below.parts})

    def complaints(self):
        """Everything that was left behind, one sentence each."""
        for host, cell in self._reached.items():
            yield f"{cell} tries to reach {host}: notebooks run without a network"
        for path in sorted(self._present()):
            cell = self._cells.get(path, "the end of the kernel")
            yield f"{cell} leaves {self.name_of(path)} behind: {REMEDY}"

    def name_of(self, path):
        """A path as the reader of a notebook would write it."""
        if path.is_relative_to(self.home):
            return f"~/{path.relative_to(self.home).as_posix()}"
        if path.is_relative_to(self.temporary):
            return f"the temporary file {path.relative_to(self.temporary).as_posix()}"
        return path.relative_to(self.beside).as_posix()


def is_cache(below):
    """Does a library write this path for itself?"""
    return below.as_posix().startswith(CACHES)


def files_below(folder, left_out):
    """The files and empty folders below a folder, as whole paths.

    left_out: whether a path, seen from this folder, does not count.
    """
    paths = set()
    for place, folders, files in os.walk(folder):
        here = Path(place)
        below = here.relative_to(folder)
        folders[:] = [name for name in folders if not left_out(below / name)]
        names = [name for name in files if not left_out(below / name)]
        paths |= {here / name for name in names}
        if not folders and not files and here != folder:
            paths.add(here)
    return paths
