// The kernels and their memory: those of kernels.wasm or, where a browser refuses
// WebAssembly or SIMD, the same in plain JavaScript. Addresses and steps are in bytes, as
// kernels.wat describes them.

// What WebAssembly.Memory does: bytes, which grow by pages of 64 KiB.
class PlainMemory {
  buffer = new ArrayBuffer(65536);
  grow(pages) {
    const old = new Uint8Array(this.buffer);
    this.buffer = new ArrayBuffer(old.length + 65536 * pages);
    new Uint8Array(this.buffer).set(old);
  }
}

const plainKernels = (memory) => {
  let [floats, bytes] = [new Float32Array(0), null];
  const look = () => { // memory that grew has another buffer
    if (floats.buffer === memory.buffer) return;
    floats = new Float32Array(memory.buffer);
    bytes = new Int8Array(memory.buffer);
  };
  return {
    dots(out, x, w, bias, rows, columns, inner, outStep, xStep, wStep) {
      look();
      for (let row = 0; row < rows; row++)
        for (let column = 0; column < columns; column++) {
          const [a, b] = [(x + row * xStep) >> 2, (w + column * wStep) >> 2];
          let sum = bias && floats[(bias >> 2) + column];
          for (let k = 0; k < inner >> 2; k++) sum += floats[a + k] * floats[b + k];
          floats[((out + row * outStep) >> 2) + column] = sum;
        }
    },
    dots8(out, x, w, scales, columns, inner) {
      look();
      const first = x >> 2;
      for (let column = 0; column < columns; column += 4) { // four sums do not wait for
        const four = [0, 1, 2, 3].map((i) => Math.min(column + i, columns - 1)); // each other
        const [w0, w1, w2, w3] = four.map((one) => w + one * inner);
        let a = 0, b = 0, c = 0, d = 0;
        for (let k = 0; k < inner; k++) {
          const number = floats[first + k];
          a += number * bytes[w0 + k];
          b += number * bytes[w1 + k];
          c += number * bytes[w2 + k];
          d += number * bytes[w3 + k];
        }
        [a, b, c, d].forEach((sum, i) => {
          floats[(out >> 2) + four[i]] = sum * floats[(scales >> 2) + four[i]];
        });
      }
    },
    mix(out, weights, values, rows, count, width, outStep, rowStep, countStep, valuesStep) {
      look();
      for (let row = 0; row < rows; row++)
        for (let j = 0; j < count; j++) {
          const [a, b] = [(out + row * outStep) >> 2, (values + j * valuesStep) >> 2];
          const weight = floats[(weights + row * rowStep + j * countStep) >> 2];
          for (let k = 0; k < width >> 2; k++) floats[a + k] += weight * floats[b + k];
        }
    },
    softmax(x, length, scale) {
      look();
      const scores = floats.subarray(x >> 2, (x + length) >> 2);
      const highest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
      scores.forEach((score, i) => (scores[i] = Math.exp(scale * (score - highest))));
      const sum = scores.reduce((before, weight) => before + weight, 0);
      scores.forEach((weight, i) => (scores[i] = weight / sum));
    },
  };
};

// code: the bytes of kernels.wasm. Has dots, dots8, mix and softmax, and hands out parts
// of its memory; `floats` and `integers` of memory that grows later have to be asked anew.
class Kernels {
  constructor(code) {
    try {
      this.memory = new WebAssembly.Memory({ initial: 1 });
      const module = new WebAssembly.Module(code);
      const { exports } = new WebAssembly.Instance(module, { env: { memory: this.memory } });
      Object.assign(this, exports, { isFast: true });
    } catch {
      this.memory = new PlainMemory();
      Object.assign(this, plainKernels(this.memory), { isFast: false });
    }
    this.top = 64; // no bias lies at address 0
  }

  // The address of so many bytes that nobody else has.
  reserve(bytes) {
    const at = this.top;
    this.top += Math.ceil(bytes / 64) * 64;
    const missing = Math.ceil((this.top - this.memory.buffer.byteLength) / 65536);
    if (missing > 0) this.memory.grow(missing);
    return at;
  }

  floats(at, count) {
    return new Float32Array(this.memory.buffer, at, count);
  }

  integers(at, count) {
    return new Int8Array(this.memory.buffer, at, count);
  }
}
