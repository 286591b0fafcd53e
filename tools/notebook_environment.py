"""The surroundings in which notebooks run: the same for tests and for `make refresh`.

python -m tools.notebook_environment COMMAND …
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from nbval_strict.plugin import PERSONAL, quiet_variables

ROOT = Path(__file__).resolve().parents[1]
PATH = [ROOT, ROOT / "packages"]


def mirror(stack, scratch):
    """The variables of a mirror of the hub that runs until the stack closes."""
    from tools.hub_mirror import HubMirror
    from tools.mirror_data import fill_mirror

    fill_mirror(scratch / "hub")
    return stack.enter_context(HubMirror(scratch / "hub")).env(scratch / "hf")


def main(command):
    """Run a command in the notebooks' environment and leave with its exit code."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = {
            **os.environ,
            **quiet_variables(scratch, PATH),
            **mirror(stack, scratch),
        }
        for name in PERSONAL:
            environ.pop(name, None)
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
