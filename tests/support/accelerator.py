"""A pretended accelerator: a device called "mps" that really computes, on the CPU.

For one process, which should do nothing else afterwards. Inside `accelerator()` the
program sees an Apple GPU: `find_device()` names it, tensors and modules move to it and
back, and results are those of the CPU. It refuses what the real one refuses:

- float64, wherever a tensor of it would arise on the device;
- operations that mix tensors of the device with tensors of the CPU. As on the real one,
  a CPU tensor without axes may take part (it is a number), and a CPU tensor may index;
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
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

aten = torch.ops.aten
_setup_privateuseone_for_python_backend("far")
torch.far.is_available = lambda: False  # or checkpoints would ask it for CUDA's streams
FAR = torch.device("far", 0)
MPS = torch.device("mps", 0)
WIDE = (torch.float64, torch.complex128)
INDEXING = (aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_)


class FarTensor(torch.Tensor):
    """Shape, type and device as the program sees them; the numbers are in `.inside`."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inside):
        refuse_wide(inside)
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
        if operation is aten._fused_sdp_choice.default:
            return 0  # plain steps: the fused attention kernels are those of the CPU
        refuse_mixing(operation, args, kwargs)
        wrapped = {id(x.inside): x for x in tree_leaves((args, kwargs)) if is_far(x)}
        if torch.Tag.inplace_view in operation.tags:  # transpose_ and the like
            change_shape(operation, args, kwargs)
        result = operation(*tree_map(inner, args), **tree_map(inner, kwargs))
        target = kwargs.get("device") or FAR

        def outer(x):
            if not isinstance(x, torch.Tensor):
                return x
            if id(x) in wrapped:  # an operation in place returns its argument
                return wrapped[id(x)]
            return FarTensor(x) if target.type == "far" else x

        return tree_map(outer, result)


def change_shape(operation, args, kwargs):
    """Let an operation in place change what the wrapper says of its own shape."""
    with no_dispatch():
        torch._C._set_meta_in_tls_dispatch_include(True)
        try:
            operation(*args, **kwargs)
        finally:
            torch._C._set_meta_in_tls_dispatch_include(False)


def is_far(x):
    return isinstance(x, torch.Tensor) and x.device.type == "far"


def inner(x):
    """The CPU tensor inside, and the CPU in place of the device."""
    if isinstance(x, torch.device) and x.type == "far":
        return torch.device("cpu")
    return x.inside if is_far(x) else x


def refuse_wide(tensor):
    if tensor.dtype in WIDE:
        raise TypeError(
            f"Cannot make a tensor of {tensor.dtype}: the accelerator has no float64"
        )


def refuse_mixing(operation, args, kwargs):
    """Raise for CPU tensors or generators among tensors of the device."""
    packet = operation.overloadpacket
    if packet is aten.copy_:
        return  # the one operation that crosses over
    for x in tree_leaves((args, kwargs)):
        if isinstance(x, torch.Generator) and x.device.type == "cpu":
            raise RuntimeError(f"{operation}: Expected a 'mps' generator, got 'cpu'")
        if not isinstance(x, torch.Tensor) or is_far(x) or x.ndim == 0:
            continue
        if packet in INDEXING and not x.is_floating_point():
            continue
        raise RuntimeError(
            f"{operation}: Expected all tensors to be on the same device, but found at "
            "least two devices, mps:0 and cpu!"
        )


# Two operations make a tensor from nothing; zeros, arange and the like call them.
_LIBRARY = torch.library.Library("aten", "IMPL")


def _register(name, overload):
    def make(*args, **kwargs):
        return FarTensor(overload(*args, **kwargs | {"device": torch.device("cpu")}))

    _LIBRARY.impl(name, make, "PrivateUse1")


_register("empty.memory_format", aten.empty.memory_format)
_register("empty_strided", aten.empty_strided.default)


def _copy_from(source, target, non_blocking=False):
    """What `torch.tensor(data, device=...)` ends in."""
    inner(target).copy_(inner(source))
    return target


_LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")


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
