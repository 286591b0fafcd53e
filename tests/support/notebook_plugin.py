"""pytest plugin: what nbval leaves out when it compares a re-executed notebook.

Adds to nbval's strict mode: figures compared pixel by pixel, their words and alt texts
too, stderr never allowed, kernels in a quiet environment with a mirror of the hub and
no network, the rules for stored notebooks, time and memory measured against budgets,
and complaints about files and network requests that a notebook leaves behind.
"""

import contextlib
import copy
import dataclasses
import difflib
import itertools
import json
import os
import re
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
from nbval import kernel as nbval_kernel
from nbval import plugin as nbval_plugin

from course_utils.workshop import fingerprint
from tests.support.changed_notebooks import OPENED, record_of
from tests.support.figures import FOLDER, figure_problems, unlike
from tests.support.findings import expect_none
from tests.support.mirror_data import data_fingerprint, trained_model
from tests.support.notebook_environment import ROOT, notebook_environment
from tests.support.notebook_rules import (
    Style,
    problems,
    shortened,
    style,
    touches_real_data,
    uses_trained_model,
)
from tests.support.printed import same_but_for_last_digits
from tests.support.totals import totals
from tests.support.traces import Traces
from tests.support.two_processes import shared, usual_seconds

MEMORY_BUDGET = 3.0  # GiB
SECONDS_BUDGET = {"08": 400, "13": 400}  # of CPU time, with room for slower machines
OTHER_SECONDS = 240
SLOWER = 1.5  # a cell may take so many times its usual CPU-seconds, and so many more
LONG_LINE = 200  # characters; of a longer line only the changed words are shown
AROUND = 60  # characters that are shown before and after them
# notebook -> what the report at the end says of it
MEASURED = shared("measured")  # CPU-seconds, GiB, how it reads
OTHER = shared("other")  # how this machine differs from the one that stored its outputs
TOLERATED = shared("tolerated")  # the cells whose last digits differ there
CELLS = shared("cells")  # CPU-seconds of its cells
SIZES = shared("sizes")  # what else has a budget -> measured, allowed
_started = time.perf_counter()
_surroundings = contextlib.ExitStack()
_environment = {}
_scratch = tempfile.TemporaryDirectory(prefix="run-", ignore_cleanup_errors=True)


def patience():
    """COURSE_PATIENCE=3 gives a slow or busy machine three times the seconds."""
    return float(os.environ.get("COURSE_PATIENCE", "1"))


# --- comparing ---------------------------------------------------------------------


def order(outputs):
    """The outputs one after the other, by stream or by the kinds of data they hold."""
    found = []
    for output in outputs:
        if output["output_type"] == "stream":
            name = output["name"]
            if found[-1:] == [name]:
                continue  # a stream may come in pieces
        else:
            name = " and ".join(sorted(output.get("data", {}))) or output["output_type"]
        found.append(name)
    return found


def kinds(outputs):
    """The kinds of output, each once: what even an ignored cell must reproduce."""
    streams = {out["name"] for out in outputs if out["output_type"] == "stream"}
    return streams | {kind for out in outputs for kind in out.get("data", {})}


def comparable(outputs):
    """The outputs with the numbers of a view in place of their compressed text."""
    from attention_views.page import inflated  # after the hook of conftest

    copied = copy.deepcopy(outputs)
    for output in copied:
        if "text/html" in output.get("data", {}):
            output["data"]["text/html"] = inflated(output["data"]["text/html"])
    return copied


def compare_outputs(self, test, ref, skip_compare=None):
    """What went to stderr, then nbval's comparison of texts, then ours of figures."""
    for output in test:
        if output.get("name") == "stderr":
            said = f"Cell writes to stderr: {output['text']}"
            self.comparison_traceback = [said, advice(self)]
            return False
    if test and not ref:
        self.comparison_traceback = [nothing_stored(self, test)]
        return False
    new, old = comparable(test), comparable(ref)
    if self.parent.other:
        accept_last_digits(new, old, self.name, self.parent)
    same = _nbval_compare(self, new, old, skip_compare)
    if same:
        name = f"{self.path.stem}_{self.cell.get('id', '')}"
        self.comparison_traceback += figure_problems(test, ref, self.parent.other, name)
    else:
        told = [clipped(part) for part in self.comparison_traceback]
        self.comparison_traceback = told
    if self.comparison_traceback and self.parent.other and is_trained(self.cell):
        # What it must hold on every machine, its notebook asserts.
        self.comparison_traceback = []
        TOLERATED.setdefault(self.parent.path.stem, []).append(f"{self.name} (trained)")
        return True
    if self.comparison_traceback:
        self.comparison_traceback.append(advice(self))
    return not self.comparison_traceback


def is_trained(cell):
    """Does its output follow from a long training?"""
    return "trained" in cell.metadata.get("tags", [])


def accept_last_digits(computed, stored, name, book):
    """Put the stored texts in the place of those that differ in last digits only."""
    for new, old in zip(computed, stored, strict=False):
        texts = [(new, old, "text")] if "text" in old else []
        data = new.get("data", {}), old.get("data", {})
        texts += [(*data, kind) for kind in data[1] if kind.startswith("text/")]
        for into, source, key in texts:
            if key not in into or into[key] == source[key]:
                continue
            if same_but_for_last_digits(source[key], into[key]):
                into[key] = source[key]
                TOLERATED.setdefault(book.path.stem, []).append(name)


def advice(cell):
    return f"If this is meant: make refresh NB={cell.path.stem[:2]}"


def clipped(text):
    """The text without what no report has room for: the ends of very long lines."""
    lines = []
    for line in shortened(text).splitlines():
        whole = len(line) <= 2 * LONG_LINE
        lines.append(line if whole else f"{line[: 2 * LONG_LINE]}…")
    return "\n".join(lines)


def nothing_stored(cell, outputs):
    """What to say of a cell that shows something, and whose stored outputs are gone."""
    return (
        f"Its stored outputs are gone, or it never showed anything: now it shows "
        f"{', then '.join(order(outputs))}. `make refresh NB={cell.path.stem[:2]}` "
        f"stores its outputs again"
    )


def show_difference(self, kind, stored, computed):
    """Texts line by line, as git has it: "-" is what is stored, "+" what came now."""
    self.comparison_traceback.append(f"mismatch {kind!r}: - stored, + now")
    self.comparison_traceback += difference(str(stored), str(computed))


def difference(stored, computed):
    """The lines that differ; of long ones only the words that differ, and a few around.

    Pictures stand in a text as long runs of letters and digits, which nobody can read.
    """
    before = shortened(stored).splitlines()
    after = shortened(computed).splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    if not changes:
        return ["(within a long run of letters and digits)"]
    if max(map(len, before + after)) <= LONG_LINE:
        return list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    told = []
    for _, first, last, new_first, new_last in changes:
        old_lines = "\n".join(before[first:last])
        new_lines = "\n".join(after[new_first:new_last])
        old, new = changed_words(old_lines, new_lines)
        told += [f"-{old}", f"+{new}"]
    return told


def changed_words(old, new):
    """Both texts from a little before their first difference to a little after it."""
    start = same_length(old, new)
    end = same_length(reversed(old[start:]), reversed(new[start:]))
    return excerpt(old, start, len(old) - end), excerpt(new, start, len(new) - end)


def same_length(old, new):
    """How many characters are the same at the start of both."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def excerpt(text, start, end):
    """The text from `start` to `end`, at most so long, with what stands around it."""
    first = max(0, start - AROUND)
    last = min(end, start + LONG_LINE) + AROUND
    ellipsis_before = "…" if first > 0 else ""
    ellipsis_after = "…" if last < len(text) else ""
    return f"{ellipsis_before}{text[first:last]}{ellipsis_after}"


def execute(self):
    """nbval's run of a cell, timed; what follows from a broken cell is left out."""
    if "trained-model" in self.cell.metadata.get("tags", []) and not trained_model():
        pytest.skip("the trained model is not here: `make test` fetches it")
    started = self.parent.watch.now()
    self.parent.kernel.kc.session.metadata = dict(self.cell.metadata)  # as Lab does
    try:
        _nbval_runtest(self)
    except nbval_plugin.NbCellError as error:
        raised = str(error).startswith("Cell execution caused an exception")
        said = (error.inner_traceback or "").strip().splitlines()[-1:]
        if self.parent.broken and raised and "NameError" in "".join(said):
            pytest.skip(f"it needs a name, and {self.parent.broken} broke before")
        if raised and not self.parent.broken:
            self.parent.broken = self.name
        raise
    finally:
        seconds = self.parent.watch.now() - started
        self.parent.cell_seconds[self.cell.get("id", self.name)] = seconds
        self.parent.traces.note(self.name)


def run_cell(self):
    """The run of a cell, then what holds even where its output is ignored."""
    execute(self)
    outputs = nbval_plugin.coalesce_streams(self.test_outputs)
    for output in outputs:
        if output.get("name") == "stderr":
            told = f"{output['text']}\n{advice(self)}"
            self.raise_cell_error("Cell writes to stderr", told)
    stored, computed = order(self.cell.outputs), order(self.test_outputs)
    if computed and not stored and not self.options["check_exception"]:
        told = nothing_stored(self, self.test_outputs)
        self.raise_cell_error("Cell outputs differ", told)
    if self.options["check"] and stored != computed:
        lines = [
            f"stored: {', then '.join(stored) or 'nothing'}",
            f"now: {', then '.join(computed) or 'nothing'}",
            advice(self),
        ]
        told = "\n".join(lines)
        self.raise_cell_error("Cell shows its outputs in another order", told)
    stored, computed = kinds(self.cell.outputs), kinds(outputs)
    if stored != computed and not self.options["check_exception"]:
        lines = [
            f"stored: {', '.join(sorted(stored)) or 'nothing'}",
            f"now: {', '.join(sorted(computed)) or 'nothing'}",
            advice(self),
        ]
        told = "\n".join(lines)
        self.raise_cell_error("Cell shows other kinds of output", told)


def report_failure(self, excinfo):
    """What was wrong, under the one name that a cell has, and the source."""
    error = excinfo.value
    if not isinstance(error, nbval_plugin.NbCellError):
        return f"{type(error).__name__}: {error}"
    parts = [f"{self.path.name}, {self.name}: {error}", error.inner_traceback or ""]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(part for part in parts if part))
    return f"{plain}\n\nThe cell:\n{error.source}\n"


def report_place(self):
    return self.path, 0, f"{self.path.name}::{self.name}"


def execute_with_history(self, cell_input, allow_stdin=None):
    """As a person does: `_` is the last result, a trailing `;` hides it."""
    return self.kc.execute(
        cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
    )


# --- surroundings and budgets ------------------------------------------------------


def start_kernel(**options):
    return _nbval_start(env=_environment, **options)


def traces_of(path):
    """Watch over the files and requests of the notebook that is about to run."""
    scratch = Path(tempfile.mkdtemp(dir=_scratch.name, prefix=f"{path.stem[:2]}-"))
    allowed = [
        Path(_environment["IPYTHONDIR"]).parent,  # the mirror's cache lies there too
        Path(_environment["MPLCONFIGDIR"]),
        FOLDER,
        record_of(path.stem).parent,
    ]
    return Traces(scratch, path.parent, allowed)


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
        """The CPU-seconds so far."""
        with contextlib.suppress(psutil.Error):
            self.seconds = max(self.seconds, sum(map(cpu_seconds, self._family())))
        return self.seconds

    def stop(self):
        self._done.set()
        self._thread.join()
        return self.now(), self.peak / 2**30


def cpu_seconds(process):
    """Of a process and of its children that have ended."""
    return sum(process.cpu_times()[:4])


def set_up_notebook(self):
    _environment["COURSE_OPENED"] = str(record_of(self.path.stem))
    _environment["COURSE_ROOT"] = str(ROOT)
    self.traces = traces_of(self.path)
    _environment.update(self.traces.variables())
    _nbval_setup(self)
    self.traces.note("the start of the kernel")
    here = fingerprint()
    if touches_real_data(self.nb):
        here["data"] = data_fingerprint()
    self.other = unlike(self.nb.metadata.get("made_with"), here)
    OTHER[self.path.stem] = self.other
    for old in FOLDER.glob(f"{self.path.stem}_*.png"):
        old.unlink()
    self.broken = None
    self.cell_seconds = {}
    self.watch = Watch(self.kernel.km.provisioner.pid)


def tear_down_notebook(self):
    if getattr(self, "watch", None):
        self.watch.stop()
    _nbval_teardown(self)
    if getattr(self, "traces", None):
        self.traces.close()


class Rules(pytest.Item):
    """The rules for stored notebooks, as the first item of each notebook."""

    def runtest(self):
        expect_none(problems(self.parent.nb, self.path.parent))

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}::{self.name}"


class Budget(Rules):
    """CPU-seconds and memory of the whole notebook, after its last cell."""

    def runtest(self):
        seconds, memory = self.parent.watch.stop()
        reads = dataclasses.asdict(style(self.parent.nb))
        MEASURED[self.path.stem] = [seconds, memory, reads]
        CELLS[self.path.name] = self.parent.cell_seconds
        allowed = SECONDS_BUDGET.get(self.path.name[:2], OTHER_SECONDS) * patience()
        slowest = sorted(self.parent.cell_seconds.items(), key=lambda one: -one[1])[:3]
        told = "slowest: "
        told += ", ".join(f"{name} {took:.1f} s" for name, took in slowest)
        if seconds > allowed:
            said = f"took {seconds:.0f} CPU-seconds, more than {allowed:.0f}; {told}"
            pytest.fail(said, pytrace=False)
        if memory > MEMORY_BUDGET:
            said = f"took {memory:.1f} GiB, more than {MEMORY_BUDGET}; {told}"
            pytest.fail(said, pytrace=False)
        if not self.parent.other:
            usual = usual_seconds().get(self.path.name, {})
            expect_none(slower_cells(self.parent.cell_seconds, usual))


def slower_cells(measured, usual):
    """The cells that take longer than usual, beyond what makes all of them slower."""
    both = [name for name in usual if name in measured]
    if not both:
        return
    ratios = [measured[name] / usual[name] for name in both if usual[name] > 0.5]
    machine = max(1.0, statistics.median(ratios or [1.0]))
    for name, seconds in measured.items():
        expected = usual.get(name, 0.0) * machine
        if seconds > SLOWER * (expected + 1.0):
            yield (
                f"{name} took {seconds:.1f} CPU-seconds, usual are {expected:.1f}: if "
                f"this is meant, `make measure` writes down what is usual"
            )


class Leftovers(Rules):
    """The files and requests that the notebook leaves behind, after its kernel ends."""

    def runtest(self):
        kernel = self.parent.kernel
        if kernel.is_alive() and not self.parent.timed_out:
            kernel.km.shutdown_kernel(now=False)  # so that it can tidy up
        self.parent.traces.note("the end of the kernel")
        opened = record_of(self.path.stem)
        if opened.exists():
            OPENED[str(self.path)] = opened.read_text("utf-8").splitlines()
        expect_none(self.parent.traces.complaints())


def collect_notebook(self):
    yield Rules.from_parent(self, name="rules")
    for place, item in enumerate(_nbval_collect(self), start=1):  # nbval counts from 0
        yield nbval_plugin.IPyNbCell.from_parent(
            self,
            name=f"In [{place}] {item.cell.get('id', '')}".rstrip(),
            cell_num=place,
            cell=item.cell,
            options=item.options,
        )
    yield Budget.from_parent(self, name="budget")
    yield Leftovers.from_parent(self, name="leftovers")


# --- hooks -------------------------------------------------------------------------


def pytest_addoption(parser):
    parser.addoption(
        "--real-data-only",
        action="store_true",
        help="of the notebooks, only those that load data from the hub",
    )


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix != ".ipynb" or not config.option.real_data_only:
        return None
    return not touches_real_data(json.loads(collection_path.read_text("utf-8"))) or None


_nbval_compare = nbval_plugin.IPyNbCell.compare_outputs
_nbval_runtest = nbval_plugin.IPyNbCell.runtest
_nbval_collect = nbval_plugin.IPyNbFile.collect
_nbval_setup = nbval_plugin.IPyNbFile.setup
_nbval_teardown = nbval_plugin.IPyNbFile.teardown
_nbval_start = nbval_kernel.start_new_kernel


def pytest_configure(config):
    config.option.nbval_cell_timeout *= max(1.0, patience())
    nbval_plugin.IPyNbCell.compare_outputs = compare_outputs
    nbval_plugin.IPyNbCell.runtest = run_cell
    nbval_plugin.IPyNbCell.repr_failure = report_failure
    nbval_plugin.IPyNbCell.reportinfo = report_place
    nbval_plugin.IPyNbCell.format_output_compare = show_difference
    nbval_plugin.IPyNbFile.collect = collect_notebook
    nbval_plugin.IPyNbFile.setup = set_up_notebook
    nbval_plugin.IPyNbFile.teardown = tear_down_notebook
    nbval_kernel.RunningKernel.execute_cell_input = execute_with_history
    nbval_kernel.start_new_kernel = start_kernel


def needed_surroundings(notebooks):
    """The environment of the kernels; a mirror runs where a notebook asks the hub."""
    mirrored = any(touches_real_data(nb) or uses_trained_model(nb) for nb in notebooks)
    return _surroundings.enter_context(notebook_environment(mirrored))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Before a worker starts: one mirror for all of them."""
    places = [Path(argument.split("::")[0]) for argument in node.config.args]
    if not _environment and any("notebooks" in place.parts[:1] for place in places):
        paths = (ROOT / "notebooks").glob("*.ipynb")
        books = [json.loads(path.read_text("utf-8")) for path in paths]
        _environment.update(needed_surroundings(books))
    node.workerinput["kernel_environment"] = dict(_environment)


def pytest_collection_finish(session):
    parents = {item.parent for item in session.items}
    books = [book for book in parents if isinstance(book, nbval_plugin.IPyNbFile)]
    if books and not session.config.option.collectonly:
        given = getattr(session.config, "workerinput", {}).get("kernel_environment")
        _environment.update(given or needed_surroundings([book.nb for book in books]))


def pytest_unconfigure():
    _surroundings.close()
    _scratch.cleanup()


def pytest_terminal_summary(terminalreporter):
    write = terminalreporter.write_line
    if MEASURED:
        write("")
        heads = "cells  lines  max  words/line  output  drawn+computed  in a row  width"
        write(f"{'how it reads':24} {heads}  ignored")
        for name, (_, _, reads) in sorted(MEASURED.items()):
            s = Style(**reads)
            write(
                f"{name:24} {s.cells:5}  {s.median_lines:5.1f}  {s.max_lines:3}  "
                f"{s.words_per_line:10.1f}  {s.with_output:6.0%}  "
                f"{f'{s.drawn} + {s.computed}':>14}  {s.code_in_a_row:8}  "
                f"{s.max_width:5}  {s.ignored:7}"
            )
        write("")
        write(f"{'budgets':24} CPU-seconds     GiB (of {MEMORY_BUDGET:.0f})")
        for name, (seconds, memory, _) in sorted(MEASURED.items()):
            allowed = SECONDS_BUDGET.get(name[:2], OTHER_SECONDS)
            write(f"{name:24} {seconds:7.1f} ({allowed:3})  {memory:5.2f}")
    for name, other in sorted(OTHER.items()):
        if other:
            write(f"{name:24} compared by tolerance: {other}")
            cells = ", ".join(TOLERATED.get(name, ()))
            write(f"{'':24} cells that show another output: {cells or 'none'}")
    lines = "  ".join(f"{part} {count:,}" for part, count in totals().items())
    write(f"{'lines':24} {lines}")
    for name, (measured, allowed) in SIZES.items():
        write(f"{name:24} {measured:7} ({allowed})")
    write(f"{'the whole run':24} {time.perf_counter() - _started:7.1f} (900)")
