// A language model in the LLaMA style: one token in, the scores of the next token out.
// The steps and names are those of models.py, blocks.py, attention.py, positions.py,
// norms.py and feedforward.py. A vector is a Float32Array; there is one position at a
// time, so a matrix meets one vector, and keys and values wait in a cache. Matrices,
// queries, keys and values lie in the memory of the kernels: numbers there are addresses.

// A matrix in the memory of the kernels: integers from -127 to 127, and a scale for each
// row.
class Matrix {
  constructor(kernels, integers, scales) {
    const [rows, columns] = [scales.length, integers.length / scales.length];
    Object.assign(this, { kernels, rows, columns });
    this.integers = kernels.reserve(integers.length);
    [this.scales, this.output] = [kernels.reserve(4 * rows), kernels.reserve(4 * rows)];
    this.input = kernels.reserve(4 * columns);
    kernels.integers(this.integers, integers.length).set(integers);
    kernels.floats(this.scales, rows).set(scales);
  }

  // W x: one number for each row.
  times(x) {
    const { kernels, input, output, integers, scales, rows, columns } = this;
    kernels.floats(input, columns).set(x);
    kernels.dots8(output, input, integers, scales, rows, columns);
    return kernels.floats(output, rows).slice();
  }

  row(index) {
    const { kernels, integers, scales, columns } = this;
    const [scale] = kernels.floats(scales + 4 * index, 1);
    const row = kernels.integers(integers + index * columns, columns);
    return new Float32Array(row).map((integer) => integer * scale);
  }
}

const add = (x, y) => x.map((number, i) => number + y[i]);

// Divide by the root mean square, then multiply by the weight.
const rmsNorm = ({ values }, x, eps) => {
  const squares = x.reduce((sum, number) => sum + number * number, 0);
  const scale = 1 / Math.sqrt(squares / x.length + eps);
  return x.map((number, i) => number * scale * values[i]);
};

// SwiGLU: hidden units, each gated by another.
const feedforward = (layer, x) => {
  const gate = layer.gate.times(x);
  const hidden = layer.up.times(x);
  const gated = hidden.map((up, i) => (up * gate[i]) / (1 + Math.exp(-gate[i])));
  return layer.down.times(gated);
};

class LlamaLM {
  // parts: name -> matrix or vector: "tokens", "blocks.0.attention.to_queries", …
  constructor(config, parts, kernels) {
    const headDim = config.d_model / config.num_heads;
    Object.assign(this, { config, kernels, headDim, freeCaches: [] });
    this.queries = kernels.reserve(4 * config.d_model);
    this.context = kernels.reserve(4 * config.d_model);
    this.weights = kernels.reserve(4 * config.max_length); // of one head
    for (const [name, part] of Object.entries(parts)) {
      const path = name.split(".");
      const last = path.pop();
      path.reduce((inside, step) => (inside[step] ??= {}), this)[last] = part;
    }
    this.blocks = Object.values(this.blocks);
    this.head ??= this.tokens; // tied: one matrix reads and writes tokens
  }

  // Keys and values of earlier positions. To go back, write over the later ones.
  newCache() {
    const { max_length, num_kv_heads } = this.config;
    const size = 4 * max_length * num_kv_heads * this.headDim;
    const reserve = () => this.kernels.reserve(size);
    return this.freeCaches.pop() ?? this.blocks.map(() => ({ keys: reserve(), values: reserve() }));
  }

  // A cache that is not needed any more; the next one takes its place.
  free(caches) {
    this.freeCaches.push(caches);
  }

  // Turn each pair (i, i + d/2) of each head by an angle that grows with the position.
  rotate(x, position) {
    const half = this.headDim / 2;
    const turned = new Float32Array(x.length);
    for (let i = 0; i < half; i++) {
      const angle = position * this.config.rope_base ** (-i / half);
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      for (let first = i; first < x.length; first += 2 * half) {
        const second = first + half;
        turned[first] = x[first] * cos - x[second] * sin;
        turned[second] = x[second] * cos + x[first] * sin;
      }
    }
    return turned;
  }

  // What each head looked at (its weights) and what it brought along (its context).
  attention(layer, x, position, { keys, values }, isSilent) {
    const { kernels, headDim: d } = this;
    const { d_model, num_heads, num_kv_heads } = this.config;
    const width = num_kv_heads * d; // of the keys, and of the values, at a position
    const now = 4 * position * width;
    kernels.floats(this.queries, d_model).set(this.rotate(layer.to_queries.times(x), position));
    kernels.floats(keys + now, width).set(this.rotate(layer.to_keys.times(x), position));
    kernels.floats(values + now, width).set(layer.to_values.times(x));
    const context = kernels.floats(this.context, d_model).fill(0);
    const count = position + 1; // causal: no later key exists yet
    const allWeights = [];
    for (let head = 0; head < num_heads; head++) {
      const group = 4 * d * Math.floor((head * num_kv_heads) / num_heads); // keys are shared
      const [query, mixed] = [this.queries + 4 * d * head, this.context + 4 * d * head];
      kernels.dots(this.weights, query, keys + group, 0, 1, count, 4 * d, 0, 0, 4 * width);
      kernels.softmax(this.weights, 4 * count, 1 / Math.sqrt(d));
      allWeights.push(kernels.floats(this.weights, count).slice());
      if (isSilent(head)) continue; // its context stays 0
      kernels.mix(mixed, this.weights, values + group, 1, count, 4 * d, 0, 0, 4, 4 * width);
    }
    return { output: layer.to_output.times(context), weights: allWeights };
  }

  // The token at one position. silenced: a set of "layer.head", counted from 0.
  // Returns the scores of the next token, the weights "layer head key", and the
  // residual stream after each block.
  step(id, position, caches, silenced = new Set()) {
    const { norm_eps } = this.config;
    let x = this.tokens.row(id);
    const weights = [];
    const streams = [];
    this.blocks.forEach((block, i) => {
      const looked = this.attention(
        block.attention,
        rmsNorm(block.attention_norm, x, norm_eps),
        position,
        caches[i],
        (head) => silenced.has(`${i}.${head}`),
      );
      x = add(x, looked.output);
      const normed = rmsNorm(block.feedforward_norm, x, norm_eps);
      x = add(x, feedforward(block.feedforward, normed));
      weights.push(looked.weights);
      streams.push(x);
    });
    return { logits: this.read(x), weights, streams };
  }

  // Scores from a residual stream; from that of an early block: the logit lens.
  read(stream) {
    return this.head.times(rmsNorm(this.norm, stream, this.config.norm_eps));
  }
}

// The parts of a model out of two runs of bytes: the integers of its matrices, and their
// scales among its vectors, plain float32.
const unpack = (layout, integers, floats, kernels) => {
  const parts = {};
  let [i, f] = [0, 0];
  for (const { name, rows, columns } of layout) {
    const values = floats.subarray(f, (f += rows)); // a vector, or the scales of a matrix
    const matrix = integers.subarray(i, (i += rows * columns));
    parts[name] = columns ? new Matrix(kernels, matrix, values) : { values };
  }
  return parts;
};
