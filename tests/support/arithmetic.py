"""pytest plugin: pin threads and instructions, so that all machines compute alike.

Importing it does so, before PyTorch and NumPy are imported; child processes inherit it.
COURSE_ARITHMETIC=own leaves a machine its own instructions; settings in its place, such
as "MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default", stand for another machine.
"""

import os
import platform

from course_utils.workshop import PINNED

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def settings(wanted, machine):
    """The variables for a value of COURSE_ARITHMETIC on a kind of machine."""
    if wanted == "pinned":
        return PINNED if machine in ("x86_64", "AMD64") else ONE_THREAD
    if wanted == "own":
        return ONE_THREAD
    return ONE_THREAD | dict(setting.split("=", 1) for setting in wanted.split())


for name in PINNED:
    os.environ.pop(name, None)
wanted = os.environ.get("COURSE_ARITHMETIC", "pinned")
os.environ.update(settings(wanted, platform.machine()))
