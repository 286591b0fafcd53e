"""The only file that reaches into nbval 0.11: what it replaces there.

- IPyNbFile: setup, teardown and collect (a first and two last items around the cells)
- IPyNbCell: runtest, compare_outputs, format_output_compare, repr_failure, reportinfo
- kernel: start_new_kernel (environment) and RunningKernel.execute_cell_input (history)

nbval has had no release since March 2024. Should it stop working with a new pytest or
jupyter_client: what is used of it is a kernel that runs one cell after the other, the
comparison of outputs field by field, and two tags (nbval-ignore-output,
raises-exception). That is about 150 lines on jupyter_client, and they belong here.
"""

import copy
import difflib
import re

import pytest
from nbval import kernel as nbval_kernel
from nbval import plugin as nbval_plugin

from nbval_strict.figures import figure_problems
from nbval_strict.printed import same_but_for_last_digits

NotebookFile = nbval_plugin.IPyNbFile
Cell = nbval_plugin.IPyNbCell
LONG_LINE = 400  # characters; of a longer line only the start is shown
AROUND = 60  # characters shown before and after a difference in a long line
_run, _compare = Cell.runtest, Cell.compare_outputs
_collect = NotebookFile.collect
set_up_kernel, stop_kernel = NotebookFile.setup, NotebookFile.teardown
_start = nbval_kernel.start_new_kernel
ENVIRONMENT = {}  # of the kernels


def install(set_up, tear_down, before, after):
    """Replace nbval's parts. before, after: items around the cells of a notebook."""

    def collect(self):
        yield from before(self)
        for place, item in enumerate(_collect(self), start=1):  # nbval counts from 0
            yield Cell.from_parent(
                self,
                name=f"In [{place}] {item.cell.get('id', '')}".rstrip(),
                cell_num=place,
                cell=item.cell,
                options=item.options,
            )
        yield from after(self)

    NotebookFile.setup, NotebookFile.teardown = set_up, tear_down
    NotebookFile.collect = collect
    Cell.runtest = run_cell
    Cell.compare_outputs = compare_outputs
    Cell.format_output_compare = show_difference
    Cell.repr_failure = report_failure
    Cell.reportinfo = report_place
    nbval_kernel.start_new_kernel = lambda **options: _start(env=ENVIRONMENT, **options)
    nbval_kernel.RunningKernel.execute_cell_input = execute_with_history


def execute_with_history(self, cell_input, allow_stdin=None):
    """As a person does: `_` is the last result, a trailing `;` hides it."""
    return self.kc.execute(
        cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
    )


def end_kernel(notebook):
    """Let a kernel end by itself, so that it can tidy up."""
    if notebook.kernel.is_alive() and not notebook.timed_out:
        notebook.kernel.km.shutdown_kernel(now=False)


# --- running -----------------------------------------------------------------------


def run_cell(self):
    """The run of a cell, then what holds even where its output is ignored."""
    _execute(self)
    outputs = nbval_plugin.coalesce_streams(self.test_outputs)
    for output in outputs:
        if output.get("name") == "stderr":
            self.raise_cell_error(
                "Cell writes to stderr", _with_advice(self, output["text"])
            )
    raises = self.options["check_exception"]
    stored, computed = order(self.cell.outputs), order(self.test_outputs)
    if computed and not stored and not raises:
        self.raise_cell_error("Cell outputs differ", nothing_stored(self, computed))
    before, now = (", then ".join(one) or "nothing" for one in (stored, computed))
    message = _with_advice(self, f"stored: {before}\nnow: {now}")
    if self.options["check"] and stored != computed:
        self.raise_cell_error("Cell shows its outputs in another order", message)
    if _kinds(stored) != _kinds(computed) and not raises:
        self.raise_cell_error("Cell shows other kinds of output", message)


def _with_advice(cell, text):
    return f"{text}\n{advice(cell)}"


def _execute(self):
    """nbval's run of a cell, timed; what follows from a broken cell is left out."""
    if reason := self.config.hook.pytest_nbval_skip(cell=self.cell):
        pytest.skip(reason)
    started = self.parent.watch.now()
    self.parent.kernel.kc.session.metadata = dict(self.cell.metadata)  # as Lab does
    try:
        _run(self)
    except nbval_plugin.NbCellError as error:
        raised = str(error).startswith("Cell execution caused an exception")
        last_line = (error.inner_traceback or "").strip().splitlines()[-1:]
        if self.parent.broken and raised and "NameError" in "".join(last_line):
            pytest.skip(f"it needs a name, and {self.parent.broken} broke before")
        if raised and not self.parent.broken:
            self.parent.broken = self.name
        raise
    finally:
        seconds = self.parent.watch.now() - started
        self.parent.cell_seconds[self.cell.get("id", self.name)] = seconds
        self.parent.traces.note(self.name)


def _kinds(names):
    """The kinds of output, each once: what even an ignored cell must reproduce."""
    return {kind for name in names for kind in name.split(" and ")}


def order(outputs):
    """The outputs one after the other, by stream or by the kinds of data they hold."""
    names = []
    for output in outputs:
        if output["output_type"] == "stream":
            name = output["name"]
            if names[-1:] == [name]:
                continue  # a stream may come in pieces
        else:
            name = " and ".join(sorted(output.get("data", {}))) or output["output_type"]
        names.append(name)
    return names


# --- comparing ---------------------------------------------------------------------


def compare_outputs(self, test, ref, skip_compare=None):
    """What went to stderr, then nbval's comparison of texts, then ours of figures."""
    for output in test:
        if output.get("name") == "stderr":
            message = f"Cell writes to stderr: {output['text']}"
            self.comparison_traceback = [message, advice(self)]
            return False
    if test and not ref:
        self.comparison_traceback = [nothing_stored(self, order(test))]
        return False
    book = self.parent
    new, old = (comparable(outputs, self.config.hook) for outputs in (test, ref))
    if book.other and accept_last_digits(new, old):
        book.tolerated.append(self.name)
    if _compare(self, new, old, skip_compare):
        name = f"{self.path.stem}_{self.cell.get('id', '')}"
        problems = figure_problems(test, ref, book.other, name, book.differences)
        self.comparison_traceback += problems
    else:
        lines = [clipped(part) for part in self.comparison_traceback]
        self.comparison_traceback = lines
    if not self.comparison_traceback:
        return True
    if book.other and "trained" in self.cell.metadata.get("tags", []):
        # What it must hold on every machine, its notebook asserts.
        self.comparison_traceback = []
        book.tolerated.append(f"{self.name} (trained)")
        return True
    self.comparison_traceback.append(advice(self))
    return False


def comparable(outputs, hook):
    """The outputs with their HTML as the project wants it compared."""
    copied = copy.deepcopy(outputs)
    for output in copied:
        html = output.get("data", {}).get("text/html")
        if html and (better := hook.pytest_nbval_html(html=html)):
            output["data"]["text/html"] = better
    return copied


def accept_last_digits(computed, stored):
    """Put the stored texts in the place of those that differ in last digits only."""
    accepted = False
    for new, old in zip(computed, stored, strict=False):
        texts = [(new, old, "text")] if "text" in old else []
        data = new.get("data", {}), old.get("data", {})
        texts += [(*data, kind) for kind in data[1] if kind.startswith("text/")]
        for into, source, key in texts:
            if key not in into or into[key] == source[key]:
                continue
            if same_but_for_last_digits(source[key], into[key]):
                into[key] = source[key]
                accepted = True
    return accepted


# --- reports -----------------------------------------------------------------------


def advice(cell):
    """What to do if a change is meant."""
    return cell.config.hook.pytest_nbval_advice(path=cell.path) or "Store it anew"


def nothing_stored(cell, computed):
    """What to say of a cell that shows something, and whose stored outputs are gone."""
    return (
        f"Its stored outputs are gone, or it never showed anything: now it shows "
        f"{', then '.join(computed)}. {advice(cell)}"
    )


def shortened(text):
    """Without the long runs of letters and digits in which pictures are stored."""
    return re.sub(r"[A-Za-z0-9+/=]{200,}", "…", text)


def clipped(text):
    """The text without the ends of very long lines."""
    lines = shortened(text).splitlines()
    return "\n".join(
        line if len(line) <= LONG_LINE else line[:LONG_LINE] + "…" for line in lines
    )


def show_difference(self, kind, stored, computed):
    """Texts line by line, as git has it: "-" is what is stored, "+" what came now."""
    self.comparison_traceback.append(f"mismatch {kind!r}: - stored, + now")
    self.comparison_traceback += difference(str(stored), str(computed))


def difference(stored, computed):
    """The lines that differ; of long ones only what stands around the difference."""
    old, new = (shortened(text).splitlines() for text in (stored, computed))
    if old == new:
        return ["(within a long run of letters and digits)"]
    differing = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    if max(map(len, differing)) <= LONG_LINE // 2:
        return differing
    one, other = "\n".join(old), "\n".join(new)
    first = 0
    while one[first : first + 1] == other[first : first + 1]:
        first += 1
    around = slice(max(0, first - AROUND), first + 2 * AROUND)
    return [f"-…{one[around]}…", f"+…{other[around]}…"]


def report_failure(self, excinfo):
    """What was wrong, under the one name that a cell has, and the source."""
    error = excinfo.value
    if not isinstance(error, nbval_plugin.NbCellError):
        return f"{type(error).__name__}: {error}"
    parts = [f"{self.path.name}, {self.name}: {error}", error.inner_traceback or ""]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(part for part in parts if part))
    return f"{plain}\n\nThe cell:\n{error.source}\n"


def report_place(self):
    """Where a cell stands: its notebook and its name."""
    return self.path, 0, f"{self.path.name}::{self.name}"
