"""pytest plugin: pin threads and instructions, so that all machines compute alike.

It does so before PyTorch and NumPy are imported; child processes inherit it. Where an
x86-64 CPU has AVX2, it then computes the same bits as any other.
NBVAL_ARITHMETIC=own leaves a machine its own instructions; settings in its place, such
as "MKL_CBWR=COMPATIBLE ATEN_CPU_CAPABILITY=default", stand for another machine.
"""

import os
import platform

PINNED = {
    "OMP_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "avx2",  # PyTorch's kernels
    "MKL_CBWR": "AVX2,STRICT",  # matrix products
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",  # NumPy's products, then its other kernels
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def settings(requested, machine):
    """The variables for a value of NBVAL_ARITHMETIC on a kind of machine."""
    if requested == "pinned":
        return PINNED if machine in ("x86_64", "AMD64") else ONE_THREAD
    if requested == "own":
        return ONE_THREAD
    return ONE_THREAD | dict(setting.split("=", 1) for setting in requested.split())


def wanted():
    """The variables that NBVAL_ARITHMETIC asks for on this machine."""
    requested = os.environ.get("NBVAL_ARITHMETIC", "pinned")
    return settings(requested, platform.machine())


def pytest_addoption():
    """Pytest calls it before it imports the plugins that are named after this one."""
    for name in PINNED:
        os.environ.pop(name, None)
    os.environ.update(wanted())
