"""The kernels of the pages compute what NumPy computes, whatever the lengths.

Those of WebAssembly run in wasmtime; those in plain JavaScript, for browsers that
refuse it, in node where there is one.
"""

import itertools
import json
import shutil
import subprocess
from base64 import b64decode, b64encode

import numpy as np
import pytest
import wasmtime

from tools.kernels import LIVING, compiled

LENGTHS = (0, 1, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 67)
START = 256  # nothing lies at address 0, which means: no bias


SIZE = 65536  # of the memory
NODE = """
delete globalThis.WebAssembly;
const kernels = new Kernels();
if (kernels.isFast || kernels.memory.buffer.byteLength !== 65536) throw Error("fast?");
const memory = new Uint8Array(kernels.memory.buffer);
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, values, bytes] = JSON.parse(line);
  memory.set(Buffer.from(bytes, "base64"));
  kernels[name](...values);
  console.log(Buffer.from(memory).toString("base64"));
});
"""


class InWasmtime:
    """The shipped kernels."""

    def __init__(self):
        self.store = wasmtime.Store()
        kind = wasmtime.MemoryType(wasmtime.Limits(1, 1))
        self.memory = wasmtime.Memory(self.store, kind)
        code = (LIVING / "kernels.wasm").read_bytes()
        module = wasmtime.Module(self.store.engine, code)
        instance = wasmtime.Instance(self.store, module, [self.memory])
        self.exports = instance.exports(self.store)

    def run(self, name, values, before):
        self.memory.write(self.store, before)
        self.exports[name](self.store, *values)
        return bytes(self.memory.read(self.store, 0, SIZE))

    def close(self):
        pass


class InNode:
    """The same in plain JavaScript."""

    def __init__(self):
        if not shutil.which("node"):
            pytest.skip("needs node")
        source = (LIVING / "kernels.js").read_text("utf-8") + NODE
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(["node", "-e", source], **pipes)

    def run(self, name, values, before):
        line = json.dumps([name, values, b64encode(before).decode()])
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return b64decode(self.process.stdout.readline())

    def close(self):
        self.process.communicate()


@pytest.fixture(scope="module", params=[InWasmtime, InNode])
def kernels(request):
    """What a kernel leaves in `out`; around it, nothing may change."""
    runner = request.param()

    def call(name, out, *arguments):
        before, values = bytearray(b"\x7f" * SIZE), []  # large numbers everywhere
        start = START
        for one in (out, *arguments):
            if isinstance(one, np.ndarray):
                before[start : start + one.nbytes] = one.tobytes()
                values.append(start)
                start += one.nbytes // 4 * 4 + 36  # rarely a multiple of 16
            else:
                values.append(one)
        after = runner.run(name, values, bytes(before))
        end = START + out.nbytes
        assert before[:START] == after[:START] and before[end:] == after[end:]
        return np.frombuffer(after[START:end], np.float32).reshape(out.shape)

    yield call
    runner.close()


@pytest.fixture
def draw():
    generator = np.random.default_rng(0)
    return lambda *shape: generator.standard_normal(shape).astype(np.float32)


def close(ours, theirs, size=1.0):
    """Within float32's last digits of what was added up; `size` is its largest sum."""
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * size)


def test_the_shipped_bytes_are_those_of_the_text():
    assert (LIVING / "kernels.wasm").read_bytes() == compiled(), (
        "run `python -m tools.kernels`"
    )


@pytest.mark.parametrize("columns", LENGTHS)
def test_dots_is_a_linear_layer(kernels, draw, columns):
    for rows, inner, gap in itertools.product((0, 1, 3), LENGTHS, (0, 5)):
        x, w, bias = draw(rows, inner + gap), draw(columns, inner + gap), draw(columns)
        out = draw(rows, columns)
        steps = (4 * columns, 4 * (inner + gap), 4 * (inner + gap))
        left, right = x[:, :inner].astype(float), w[:, :inner]
        expected = left @ right.T
        size = (np.abs(left) @ np.abs(right).T).max(initial=1)
        for added in (bias, 0):
            ours = kernels("dots", out, x, w, added, rows, columns, 4 * inner, *steps)
            close(ours, expected + added, size)


@pytest.mark.parametrize("columns", LENGTHS)
def test_dots8_is_a_linear_layer_with_integers(kernels, draw, columns):
    for inner in LENGTHS:
        x, scales = draw(inner), draw(columns)
        w = np.random.default_rng(inner).integers(-128, 128, (columns, inner), np.int8)
        expected = scales * (w.astype(float) @ x)
        ours = kernels("dots8", draw(columns), x, w, scales, columns, inner)
        size = (np.abs(w.astype(float)) @ np.abs(x)).max(initial=1)
        close(ours, expected, size * np.abs(scales).max(initial=1))


@pytest.mark.parametrize("width", LENGTHS)
def test_mix_adds_weighted_rows_along_either_side(kernels, draw, width):
    for rows, count, gap in itertools.product((0, 1, 3), (0, 1, 2, 7), (0, 5)):
        values = draw(count, width + gap)
        out = draw(rows, width)
        last = (4 * (width + gap),)
        for weights in (draw(rows, count), draw(count, rows).T):
            steps = (4 * width, *weights.strides, *last)
            expected = out + weights.astype(float) @ values[:, :width]
            stored = weights if weights.flags.c_contiguous else weights.T
            about = (rows, count, 4 * width, *steps)
            close(kernels("mix", out, stored, values, *about), expected, 4)


@pytest.mark.parametrize("scale", [1.0, 0.125])
def test_softmax_is_one_of_any_scores(kernels, draw, scale):
    for length, size in itertools.product(LENGTHS, (1, 30, 1e30)):
        scores = size * draw(length)
        far = (scores.astype(float) - scores.max(initial=-np.inf)) * scale
        expected = np.exp(far) / np.exp(far).sum()
        ours = kernels("softmax", scores, 4 * length, scale)
        np.testing.assert_allclose(ours, expected, rtol=4e-6, atol=1e-37)
        assert length == 0 or abs(ours.sum(dtype=float) - 1) < 1e-6
    scores = np.float32([-np.inf, 80, 80, -np.inf, 0, -np.inf])
    ours = kernels("softmax", scores, 24, 1.0)
    assert ours.tolist() == [0, 0.5, 0.5, 0, pytest.approx(np.exp(-80) / 2), 0]
    scores = np.float32([np.nan, 1, 2, 3, 4])
    assert np.isnan(kernels("softmax", scores, 20, 1.0)).all(), "as in PyTorch"
