"""A pretended accelerator: a device called "mps" that really computes, on the CPU.

For one process, which should do nothing else afterwards. Inside `accelerator()` the
program sees an Apple GPU: `find_device()` names it, tensors and modules move to it and
back, and results are those of the CPU. It refuses what the real one refuses:

- float64, wherever a tensor of it would arise on the device;
- operations that mix tensors of the device with tensors of the CPU, but for a CPU
  tensor without axes (it is a number). Here a CPU tensor may not even index;
- a CPU generator for random numbers that are drawn on the device;
- NumPy views of its memory.

Underneath is PyTorch's spare device type ("PrivateUse1", here named "far"): dispatch,
autograd and `tensor.device` are the real ones. Its tensors are wrappers around CPU
tensors; a function mode translates the name "mps" on the way in and out.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch._dynamo  # optimizers import it; it must not meet the replaced functions
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
_setup_privateuseone_for_python_backend("far")
torch.far.is_available = lambda: False  # or checkpoints would ask it for CUDA's streams
FAR = torch.device("far", 0)
MPS = torch.device("mps", 0)


class FarTensor(torch.Tensor):
    """Shape, type and device as the program sees them; the numbers are in `.inside`."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inside):
        if inside.dtype in (torch.float64, torch.complex128):
            raise TypeError(f"the accelerator has no {inside.dtype}")
        layout = {"strides": inside.stride(), "storage_offset": inside.storage_offset()}
        self = torch.Tensor._make_wrapper_subclass(
            cls, inside.size(), dtype=inside.dtype, device=FAR, **layout
        )
        self.inside = inside
        return self

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        """Refuse an operation, or compute it on the CPU and wrap the result."""
        kwargs = kwargs or {}
        refuse_mixing(operation, args, kwargs)
        result = operation(*tree_map(inner, args), **tree_map(inner, kwargs))
        if (kwargs.get("device") or FAR).type != "far":
            return result
        return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result)


def is_far(x):
    return isinstance(x, torch.Tensor) and x.device.type == "far"


def inner(x):
    """The CPU tensor inside, and the CPU in place of the device."""
    if isinstance(x, torch.device) and x.type == "far":
        return torch.device("cpu")
    return x.inside if is_far(x) else x


def refuse_mixing(operation, args, kwargs):
    """Raise for CPU tensors or generators among tensors of the device."""
    if operation.overloadpacket is aten.copy_:
        return  # the one operation that crosses over
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, torch.Generator) and x.device.type == "cpu":
            raise RuntimeError(f"{operation}: Expected a 'mps' generator, got 'cpu'")
        if isinstance(x, torch.Tensor) and not is_far(x) and x.ndim > 0:
            raise RuntimeError(
                f"{operation}: Expected all tensors to be on the same device, but "
                "found at least two devices, mps:0 and cpu!"
            )


def make(overload):
    here = {"device": "cpu"}
    return lambda *args, **named: FarTensor(overload(*args, **named | here))


def copy_from(source, target, non_blocking=False):
    """What `torch.tensor(data, device=...)` ends in."""
    inner(target).copy_(inner(source))
    return target


# Two operations make a tensor from nothing; zeros, arange and the like call them.
LIBRARY = torch.library.Library("aten", "IMPL")
for name, function in (
    ("empty.memory_format", make(aten.empty.memory_format)),
    ("empty_strided", make(aten.empty_strided.default)),
    ("_copy_from", copy_from),
):
    LIBRARY.impl(name, function, "PrivateUse1")


class CalledMps(TorchFunctionMode):
    """Translate the name: "mps" on the way in, and on the way out where it is asked."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not torch.device:  # torch.device("mps") alone stays a name
            args, kwargs = tree_map(_renamed, (args, kwargs))
        if function is torch.Tensor.tolist and is_far(args[0]):
            return args[0].cpu().tolist()  # PyTorch refuses it to wrappers
        result = function(*args, **kwargs)
        if isinstance(result, torch.device) and result.type == "far":
            return MPS
        return result


def _renamed(x):
    name = x.type if isinstance(x, torch.device) else x
    return FAR if isinstance(name, str) and name in ("mps", "mps:0") else x


@contextmanager
def accelerator():
    """A machine with an MPS for the length of the block; gives its device."""
    swap = torch.__future__.get_swap_module_params_on_conversion()
    # Modules keep their Parameter objects when they move, so tied weights stay tied.
    torch.__future__.set_swap_module_params_on_conversion(True)
    answers = {
        "is_available": lambda: True,
        "current_accelerator": lambda *_, **__: MPS,
        "current_device_index": lambda: 0,
    }
    states = {
        "get_rng_state": lambda: torch.get_rng_state(),  # it draws as the CPU does
        "set_rng_state": lambda state: torch.set_rng_state(state),
    }
    try:
        with (
            patch.multiple("torch.accelerator", **answers),
            patch.multiple("torch.mps", **states),
            CalledMps(),
        ):
            yield MPS
    finally:
        torch.__future__.set_swap_module_params_on_conversion(swap)
