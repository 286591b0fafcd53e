"""Find out where one works: a device, a fast precision, a person who watches.

Knows hardware, the terminal and where weights are. Knows nothing of training.
"""

import os
import sys
from collections.abc import Iterable

import torch
from torch import nn
from tqdm.auto import tqdm


def find_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU; a GPU a process of `torchrun`, or the
    CPU for all.
    """
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    kind = torch.accelerator.current_accelerator().type
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if local_processes > 1:
        enough = kind == "cuda" and torch.cuda.device_count() >= local_processes
        local_rank = int(os.environ["LOCAL_RANK"])
        return torch.device("cuda", local_rank) if enough else torch.device("cpu")
    if kind in ("cuda", "mps"):
        return torch.device(kind, torch.accelerator.current_device_index())
    return torch.device("cpu")


def find_precision(device: torch.device) -> str:
    """Return "bfloat16" where the device is fast at it, else "float32"."""
    fast = False
    if device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu" and torch.backends.cpu.get_cpu_capability() != "AVX2":
        able = torch.cpu.get_capabilities()  # of the machine, even if told to use less
        fast = any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "sve_bf16"))
    return "bfloat16" if fast else "float32"


def device_and_dtype(model: nn.Module) -> tuple[torch.device, torch.dtype]:
    """The one device and the one floating-point type of a model's weights."""
    weights = list(model.parameters())
    devices = {weight.device for weight in weights}
    dtypes = {weight.dtype for weight in weights if weight.is_floating_point()}
    for what, several in (("on one device", devices), ("of one type", dtypes)):
        if len(several) != 1:
            names = sorted(map(str, several))
            raise ValueError(f"model must be {what}, its weights are {names}")
    return devices.pop(), dtypes.pop()


def is_watched() -> bool:
    """Whether a progress bar would meet a person, unless TQDM_DISABLE forbids it."""
    if os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return False
    return in_notebook() or sys.stderr.isatty()


def progress_bar(steps: Iterable) -> Iterable:
    """The same steps, with a bar and the time left where a person watches."""
    return tqdm(steps, leave=False) if is_watched() else steps


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
