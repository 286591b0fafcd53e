"""What stored outputs depend on: pinned variables, computed bits, versions.

Knows PyTorch and NumPy, where they are installed. Knows nothing of notebooks.
"""

import functools
import os
import platform
import zlib
from importlib import metadata

from nbval_strict.arithmetic import PINNED


def fingerprint() -> dict[str, str]:
    """What stored outputs depend on: where it is equal, they are equal to the bit.

    pinned: the variables that choose threads and instructions (the tests set them).
    bits: a checksum of what this machine computes with them.
    """
    pinned = [f"{name}={os.environ[name]}" for name in PINNED if name in os.environ]
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "pinned": " ".join(pinned),
        "bits": _bits(),
    } | dict(filter(all, map(_version, ("matplotlib", "numpy", "pillow", "torch"))))


def _version(name: str) -> tuple[str, str]:
    try:
        return name, metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return name, ""


def unlike(stored: dict | None, now: dict) -> str:
    """What tells two fingerprints apart, in words; "" if nothing does."""
    if not stored:
        return "nothing says what made the stored one"
    names = [name for name in now if now[name] != stored.get(name)]
    return ", ".join(f"{name} {now[name]}, not {stored.get(name)}" for name in names)


@functools.cache
def _bits() -> str:
    """A checksum of small products, sums and functions, computed here and now."""
    import numpy as np

    own = np.linspace(-3, 3, 997).reshape(1, -1)
    arrays = [own @ own.T, np.exp(own), np.sin(own)]
    try:
        import torch
        from torch.nn import functional as F
    except ImportError:
        return f"{zlib.crc32(b''.join(x.tobytes() for x in arrays)):08x}"
    source = torch.Generator().manual_seed(0)
    results = []
    for dtype in (torch.float64, torch.float32):
        a = torch.randn(97, 203, generator=source, dtype=dtype)
        b = torch.randn(203, 61, generator=source, dtype=dtype)
        q, k, v = torch.randn(3, 2, 4, 19, 16, generator=source, dtype=dtype)
        results += [a @ b, a @ b[:, 0], q @ k.mT, a.sum(1), a.exp(), a.sin(), a.tanh()]
        results += [a.softmax(-1), F.gelu(a), F.silu(a), F.rms_norm(a, (203,))]
        results += [F.layer_norm(a, (203,)), F.cross_entropy(a, torch.arange(97))]
        results += [F.scaled_dot_product_attention(q, k, v, is_causal=True)]
        results += [torch.linalg.svdvals(a), torch.linalg.qr(a[:, :20])[1]]
    results += [torch.from_numpy(x) for x in arrays]
    return f"{zlib.crc32(b''.join(x.double().numpy().tobytes() for x in results)):08x}"
