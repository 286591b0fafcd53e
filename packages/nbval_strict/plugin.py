"""pytest plugin: quiet surroundings for kernels, budgets, and what a notebook leaves.

`cells` runs the cells and compares their outputs. The options stand in pytest's ini
section; `hooks` names what a project can add.
"""

import contextlib
import os
import sys
import tempfile
import threading
from pathlib import Path

import psutil
import pytest

from nbval_strict import arithmetic, hooks
from nbval_strict.cells import IPyNbFile, NotebookFile
from nbval_strict.fingerprint import fingerprint, unlike
from nbval_strict.traces import Traces
from nbval_strict.workers import shared

OPTIONS = {  # name -> default, help
    "nbval_seconds": ("240", 'CPU-seconds of a notebook: "240 08=400 13=400"'),
    "nbval_memory": ("3.0", "GiB of a notebook's processes"),
    "nbval_writable": ("", "names of folders into which notebooks may write"),
    "nbval_path": ("", "folders that come first on the kernels' path"),
    "nbval_differences": ("build/differences", "where pictures of differences go"),
}
# A person's settings; importing torch's compiler sets the last two.
PERSONAL = {"PYTHONWARNINGS", "MPLBACKEND", "MATPLOTLIBRC"}
PERSONAL |= {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
PROXIES += ("http_proxy", "https_proxy", "all_proxy")
# notebook -> what the report at the end says of it
MEASURED = shared("measured")  # CPU-seconds, GiB
OTHER = shared("other")  # how this machine differs from the one that stored its outputs
TOLERATED = shared("tolerated")  # the cells whose last digits differ there
CELLS = shared("cells")  # CPU-seconds of its cells
ENVIRONMENT = {}  # of all kernels
_surroundings = contextlib.ExitStack()
_scratch = tempfile.TemporaryDirectory(prefix="run-", ignore_cleanup_errors=True)


def patience():
    """NBVAL_PATIENCE=3 gives a slow or busy machine three times the seconds."""
    return float(os.environ.get("NBVAL_PATIENCE", "1"))


def expect_none(findings):
    """Fail with one line for each finding; pass if there is none."""
    lines = [str(one) for one in findings]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)


# --- the surroundings of a kernel --------------------------------------------------


def matplotlib_folder(scratch):
    """Where its list of fonts is kept: beside Python, or else for this run alone."""
    folder = Path(sys.prefix) / "matplotlib"
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
    return folder if os.access(folder, os.W_OK) else scratch / "matplotlib"


def quiet_variables(scratch, path=()):
    """Variables that make two runs alike and keep them off the network."""
    site = Path(__file__).with_name("kernel_site")
    return {
        **arithmetic.wanted(),
        **dict.fromkeys(PROXIES, ""),  # nobody asks another process to connect
        # The checkout under test comes first, whatever the environment has installed.
        "PYTHONPATH": os.pathsep.join([str(site), *map(str, path)]),
        "TQDM_DISABLE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "IPYTHONDIR": str(scratch / "ipython"),
        "MPLCONFIGDIR": str(matplotlib_folder(scratch)),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


class Watch:
    """CPU-seconds and peak memory of a kernel and all its children, sampled."""

    def __init__(self, pid):
        self.pid, self.seconds, self.peak = pid, 0.0, 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self):
        while not self._done.wait(0.2):
            with contextlib.suppress(psutil.Error):
                total = sum(process.memory_info().rss for process in self._family())
                self.peak = max(self.peak, total)
            self.now()

    def _family(self):
        parent = psutil.Process(self.pid)
        return [parent, *parent.children(recursive=True)]

    def now(self):
        """The CPU-seconds so far, of processes and of their children that ended."""
        with contextlib.suppress(psutil.Error):
            times = [sum(one.cpu_times()[:4]) for one in self._family()]
            self.seconds = max(self.seconds, sum(times))
        return self.seconds

    def stop(self):
        """Stop watching: CPU-seconds and GiB."""
        self._done.set()
        self._thread.join()
        return self.now(), self.peak / 2**30


class Notebook(NotebookFile):
    """Its rules, its cells in a watched kernel in quiet surroundings, its budget."""

    def collect(self):
        yield Rules.from_parent(self, name="rules")
        yield from super().collect()
        yield Budget.from_parent(self, name="budget")
        yield Leftovers.from_parent(self, name="leftovers")

    def setup(self):
        config, stem = self.config, self.path.stem
        scratch = Path(tempfile.mkdtemp(dir=_scratch.name, prefix=f"{stem[:2]}-"))
        self.differences = config.rootpath / config.getini("nbval_differences")
        writable = [*config.getini("nbval_writable").split(), self.differences.name]
        self.traces = Traces(scratch, self.path.parent, writable)
        self.opened = scratch / "opened"
        records = {"NBVAL_OPENED": self.opened, "NBVAL_ROOT": config.rootpath}
        records = {name: str(path) for name, path in records.items()}
        self.start_kernel(ENVIRONMENT | self.traces.variables() | records)
        self.traces.note("the start of the kernel")
        here = fingerprint()
        for more in config.hook.pytest_nbval_fingerprint(notebook=self.nb):
            here |= more
        self.other = unlike(self.nb.metadata.get("made_with"), here)
        OTHER[stem] = self.other
        self.tolerated = []
        for old in self.differences.glob(f"{stem}_*.png"):
            old.unlink()
        self.broken = None
        self.cell_seconds = {}
        self.watch = Watch(self.kernel.km.provisioner.pid)

    def teardown(self):
        if getattr(self, "watch", None):
            self.watch.stop()
        super().teardown()


class Rules(pytest.Item):
    """The project's rules for stored notebooks, as the first item of each notebook."""

    def runtest(self):
        hook = self.config.hook.pytest_nbval_problems
        results = hook(notebook=self.parent.nb, path=self.path)
        expect_none(problem for problems in results for problem in problems)

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}::{self.name}"


class Budget(Rules):
    """CPU-seconds and memory of the whole notebook, after its last cell."""

    def runtest(self):
        book, config = self.parent, self.config
        seconds, memory = book.watch.stop()
        MEASURED[self.path.stem] = [seconds, memory]
        CELLS[self.path.name] = book.cell_seconds
        TOLERATED[self.path.stem] = book.tolerated
        allowed = seconds_allowed(config, self.path.name) * patience()
        most = float(config.getini("nbval_memory"))
        slowest = sorted(book.cell_seconds.items(), key=lambda one: -one[1])[:3]
        cells = ", ".join(f"{name} {took:.1f} s" for name, took in slowest)
        findings = []
        if seconds > allowed:
            findings.append(f"{seconds:.0f} CPU-seconds, more than {allowed:.0f}")
        if memory > most:
            findings.append(f"{memory:.1f} GiB, more than {most}")
        expect_none(f"took {what}; slowest: {cells}" for what in findings)


def seconds_allowed(config, name):
    """The budget of a notebook, which may have one of its own: "240 08=400"."""
    general, *own = config.getini("nbval_seconds").split()
    for one in own:
        start, _, seconds = one.partition("=")
        if name.startswith(start):
            return float(seconds)
    return float(general)


class Leftovers(Rules):
    """The files and requests that the notebook leaves behind, after its kernel ends."""

    def runtest(self):
        book = self.parent
        book.end_kernel()
        book.traces.note("the end of the kernel")
        if book.opened.exists():
            lines = book.opened.read_text("utf-8").splitlines()
            self.config.hook.pytest_nbval_opened(path=self.path, opened=lines)
        expect_none(book.traces.complaints())


# --- pytest's hooks ----------------------------------------------------------------


def pytest_addoption(parser):
    for name, (default, help_text) in OPTIONS.items():
        parser.addini(name, help_text, default=default)


def pytest_addhooks(pluginmanager):
    pluginmanager.add_hookspecs(hooks)


def pytest_configure(config):
    config.option.nbval_cell_timeout *= max(1.0, patience())


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path, parent):
    """Put our collector in the place of nbval's."""
    return [
        Notebook.from_parent(parent, path=file_path)
        if isinstance(collector, IPyNbFile)
        else collector
        for collector in (yield)
    ]


def surroundings(config, notebooks):
    """The environment of the kernels, with what the project adds."""
    scratch = Path(_surroundings.enter_context(tempfile.TemporaryDirectory()))
    folders = [config.rootpath / name for name in config.getini("nbval_path").split()]
    environ = {**os.environ, **quiet_variables(scratch, folders)}
    hook = config.hook.pytest_nbval_environment
    for more in hook(notebooks=notebooks, stack=_surroundings, scratch=scratch):
        environ |= more
    return {name: value for name, value in environ.items() if name not in PERSONAL}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Before a worker starts: one environment for all of them."""
    places = [Path(argument.split("::")[0]) for argument in node.config.args]
    root = node.config.rootpath
    paths = [path for place in places for path in (root / place).rglob("*.ipynb")]
    paths += [root / place for place in places if place.suffix == ".ipynb"]
    if not ENVIRONMENT and paths:
        import nbformat

        books = [nbformat.read(path, as_version=4) for path in paths]
        ENVIRONMENT.update(surroundings(node.config, books))
    node.workerinput["kernel_environment"] = dict(ENVIRONMENT)


def pytest_collection_finish(session):
    parents = {item.parent for item in session.items}
    books = [book.nb for book in parents if isinstance(book, Notebook)]
    if books and not session.config.option.collectonly:
        given = getattr(session.config, "workerinput", {}).get("kernel_environment")
        ENVIRONMENT.update(given or surroundings(session.config, books))


def pytest_unconfigure():
    _surroundings.close()
    _scratch.cleanup()


def pytest_terminal_summary(terminalreporter, config):
    write = terminalreporter.write_line
    if MEASURED:
        most = float(config.getini("nbval_memory"))
        write(f"\n{'budgets':24} CPU-seconds     GiB (of {most:.0f})")
    for name, (seconds, memory) in sorted(MEASURED.items()):
        allowed = seconds_allowed(config, name)
        write(f"{name:24} {seconds:7.1f} ({allowed:3.0f})  {memory:5.2f}")
    for name, other in sorted(OTHER.items()):
        if other:
            write(f"{name:24} compared by tolerance: {other}")
            cells = ", ".join(TOLERATED.get(name, ()))
            write(f"{'':24} cells that show another output: {cells or 'none'}")
