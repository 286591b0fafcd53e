"""Runs first in each kernel that `make lab` starts: two errors get a way out."""

from IPython import get_ipython


def _show(shell, kind, error, trace, tb_offset=None):
    if kind is KeyboardInterrupt:
        stopped = "Stopped. Run the cell again to begin anew."
        shell._showtraceback(kind, error, [stopped])
        return
    traceback = shell.InteractiveTB.structured_traceback
    lines = traceback(kind, error, trace, tb_offset=tb_offset)
    cells = "Is it defined in a cell above that has not run yet?"
    way_out = f"{cells} Choose Run → Run All Above Selected Cell."
    shell._showtraceback(kind, error, [*lines, way_out])


if get_ipython():
    get_ipython().set_custom_exc((NameError, KeyboardInterrupt), _show)
del get_ipython, _show
