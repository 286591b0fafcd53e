"""A notebook and its cells, as pytest collects them: subclasses of nbval 0.11's.

The only file that reaches into nbval, and it replaces nothing there: `plugin` hands
pytest this collector in the place of nbval's. nbval has had no release since March
2024. Should it stop working with a new pytest or jupyter_client: what is used of it is
a kernel that runs one cell after the other, the comparison of outputs field by field,
and two tags (nbval-ignore-output, raises-exception). That is about 150 lines on
jupyter_client, and they belong here.
"""

import copy
import difflib
import re
import subprocess

import pytest
from nbval.cover import setup_coverage
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel, start_new_kernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError, coalesce_streams

from nbval_strict.figures import figure_problems
from nbval_strict.printed import same_but_for_last_digits

LONG_LINE = 400  # characters; of a longer line only the start is shown
AROUND = 60  # characters shown before and after a difference in a long line


class Kernel(RunningKernel):
    """A kernel with variables of its own, used as a person uses one."""

    def __init__(self, name, folder, seconds, environment):
        files = {"cwd": str(folder), "stderr": subprocess.DEVNULL}
        self.km, self.kc = start_new_kernel(seconds, name, env=environment, **files)
        self._ensure_iopub_up()

    def execute_cell_input(self, cell_input, allow_stdin=None):
        """`_` is the last result, a trailing `;` hides it."""
        return self.kc.execute(
            cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False
        )


class NotebookFile(IPyNbFile):
    """A notebook: its cells are counted from 1 and named with their id."""

    def start_kernel(self, environment):
        """In place of nbval's set-up, which knows no variables."""
        option = self.config.option
        stored = self.nb.metadata.get("kernelspec", {}).get("name", "python")
        name = option.nbval_kernel_name or stored
        if option.nbval_current_env:
            name = CURRENT_ENV_KERNEL_NAME
        seconds = option.nbval_kernel_startup_timeout
        self.kernel = Kernel(name, self.path.parent, seconds, environment)
        self.setup_sanitize_files()
        if getattr(option, "cov_source", None):
            setup_coverage(self.config, self.kernel, self.fspath)

    def end_kernel(self):
        """Let the kernel end by itself, so that it can tidy up."""
        if self.kernel.is_alive() and not self.timed_out:
            self.kernel.km.shutdown_kernel(now=False)

    def collect(self):
        for number, item in enumerate(super().collect(), start=1):
            yield Cell.from_parent(
                self,
                name=f"In [{number}] {item.cell.get('id', '')}".rstrip(),
                cell_num=number,
                cell=item.cell,
                options=item.options,
            )


class Cell(IPyNbCell):
    """A cell: it is run, then what it shows is compared with what is stored."""

    def runtest(self):
        checked = self.options.pop("check", False)  # nbval itself only runs it
        self._execute()
        outputs = coalesce_streams(self.test_outputs)
        if problem := complaint(self, outputs, checked):
            title, text = problem
            advice = self.config.hook.pytest_nbval_advice(path=self.path)
            self.raise_cell_error(title, f"{text}\n{advice or 'Store it anew'}")

    def _execute(self):
        """nbval's run, timed; what follows from a broken cell is left out."""
        book = self.parent
        if reason := self.config.hook.pytest_nbval_skip(cell=self.cell):
            pytest.skip(reason)
        started = book.watch.now()
        book.kernel.kc.session.metadata = dict(self.cell.metadata)  # as Lab does
        try:
            super().runtest()
        except NbCellError as error:
            raised = str(error).startswith("Cell execution caused an exception")
            last_line = (error.inner_traceback or "").strip().splitlines()[-1:]
            if book.broken and raised and "NameError" in "".join(last_line):
                pytest.skip(f"it needs a name, and {book.broken} broke before")
            if raised and not book.broken:
                book.broken = self.name
            raise
        finally:
            seconds = book.watch.now() - started
            book.cell_seconds[self.cell.get("id", self.name)] = seconds
            book.traces.note(self.name)

    def format_output_compare(self, key, left, right):
        """Texts line by line, as git has it: "-" is stored, "+" what came now."""
        self.comparison_traceback.append(f"mismatch {key!r}: - stored, + now")
        self.comparison_traceback += difference(str(left), str(right))

    def repr_failure(self, excinfo):
        """What was wrong, under the one name that a cell has, and the source."""
        error = excinfo.value
        if not isinstance(error, NbCellError):
            return f"{type(error).__name__}: {error}"
        parts = [f"{self.path.name}, {self.name}: {error}", error.inner_traceback or ""]
        plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(part for part in parts if part))
        return f"{plain}\n\nThe cell:\n{error.source}\n"

    def reportinfo(self):
        return self.path, 0, f"{self.path.name}::{self.name}"


# --- comparing ---------------------------------------------------------------------


def complaint(cell, computed, checked):
    """What is wrong with the outputs of a cell, as a title and a text, or None.

    checked: whether they are compared; some things hold where they are ignored, too.
    """
    for output in computed:
        if output.get("name") == "stderr":
            return "Cell writes to stderr", output["text"]
    raises = cell.options["check_exception"]
    stored = coalesce_streams(cell.cell.outputs)
    before, now = order(stored), order(computed)
    shown = " | ".join(now)
    if now and not before and not raises:
        return "Its stored outputs are gone, or it never showed anything", shown
    if checked and (lines := differences(cell, computed, stored)):
        return "Cell outputs differ", "\n".join(lines)
    message = f"stored: {' | '.join(before)}\nnow: {shown}"
    if checked and before != now:
        return "Cell shows its outputs in another order", message
    if set(before) != set(now) and not raises:
        return "Cell shows other kinds of output", message
    return None


def order(outputs):
    """The outputs one after the other, by stream or by the kinds of data they hold."""
    names = []
    for output in outputs:
        kinds = " and ".join(sorted(output.get("data", {})))
        names.append(output.get("name") or kinds or output["output_type"])
    return names


def differences(cell, computed, stored):
    """nbval's comparison of texts, then ours of figures: lines on what differs."""
    book = cell.parent
    new, old = (comparable(outputs, cell.config.hook) for outputs in (computed, stored))
    if book.other and accept_last_digits(new, old):
        book.tolerated.append(cell.name)
    if cell.compare_outputs(new, old):
        name = f"{cell.path.stem}_{cell.cell.get('id', '')}"
        found = figure_problems(computed, stored, book.other, name, book.differences)
        lines = list(found)
    else:
        lines = [clipped(part) for part in cell.comparison_traceback]
    if lines and book.other and "trained" in cell.cell.metadata.get("tags", []):
        # What it must hold on every machine, its notebook asserts.
        book.tolerated.append(f"{cell.name} (trained)")
        return []
    return lines


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


# --- texts -------------------------------------------------------------------------


def clipped(text):
    """The text without the ends of very long lines."""
    lines = text.splitlines()
    return "\n".join(
        line if len(line) <= LONG_LINE else line[:LONG_LINE] + "…" for line in lines
    )


def difference(stored, computed):
    """The lines that differ; of long ones only what stands around the difference."""
    old, new = stored.splitlines(), computed.splitlines()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    if max(map(len, lines), default=0) <= LONG_LINE // 2:
        return lines
    first = 0
    while stored[first : first + 1] == computed[first : first + 1]:
        first += 1
    around = slice(max(0, first - AROUND), first + 2 * AROUND)
    return [f"-…{stored[around]}…", f"+…{computed[around]}…"]
