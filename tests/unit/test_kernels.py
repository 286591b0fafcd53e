"""The kernels of the pages compute what NumPy computes, whatever the lengths."""

import itertools

import numpy as np
import pytest
import wasmtime

from tools.kernels import LIVING, compiled

LENGTHS = (0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 20, 33, 64, 67)
START = 256  # nothing lies at address 0, which means: no bias


class Kernels:
    """The shipped kernels; arguments are arrays, which lie one after another."""

    def __init__(self):
        self.store = wasmtime.Store()
        self.memory = wasmtime.Memory(
            self.store, wasmtime.MemoryType(wasmtime.Limits(1, 1))
        )
        code = (LIVING / "kernels.wasm").read_bytes()
        module = wasmtime.Module(self.store.engine, code)
        instance = wasmtime.Instance(self.store, module, [self.memory])
        self.exports = instance.exports(self.store)

    def __call__(self, name, out, *arguments):
        """What a kernel leaves in `out`; around each array, nothing may change."""
        self.memory.write(self.store, bytes([0x7F]) * self.memory.data_len(self.store))
        start, places, values = START, [], []
        for one in (out, *arguments):
            if isinstance(one, np.ndarray):
                self.memory.write(self.store, one.tobytes(), start)
                places.append((start, one))
                values.append(start)
                start += one.nbytes + 36  # no address is a multiple of 16
            else:
                values.append(one)
        before = self.memory.read(self.store, 0, self.memory.data_len(self.store))
        self.exports[name](self.store, *values)
        after = self.memory.read(self.store, 0, self.memory.data_len(self.store))
        end = START + out.nbytes
        assert before[:START] == after[:START] and before[end:] == after[end:]
        return np.frombuffer(after[START:end], np.float32).reshape(out.shape)


@pytest.fixture(scope="module")
def kernels():
    return Kernels()


@pytest.fixture
def draw():
    generator = np.random.default_rng(0)
    return lambda *shape: generator.standard_normal(shape).astype(np.float32)


def close(ours, theirs, size=1.0):
    """Within float32's last digits of the largest number that was added up."""
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6 * size)


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
        expected = x[:, :inner].astype(float) @ w[:, :inner].T
        size = np.abs(expected).max(initial=1)
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
        close(ours, expected, np.abs(expected).max(initial=1))


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
