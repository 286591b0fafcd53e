"""Compile the kernels of the pages: `python -m tools.kernels` after a change.

The bytes are shipped, so that nobody needs wasmtime to write a page.
"""

from pathlib import Path

import wasmtime

LIVING = Path(__file__).parents[1] / "packages/attention_views/living"


def compiled() -> bytes:
    """The bytes of kernels.wat."""
    return bytes(wasmtime.wat2wasm((LIVING / "kernels.wat").read_text("utf-8")))


if __name__ == "__main__":
    (LIVING / "kernels.wasm").write_bytes(compiled())
