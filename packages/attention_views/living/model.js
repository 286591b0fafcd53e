// A language model in the LLaMA style: one token in, the scores of the next token out.
// The steps and names are those of models.py, blocks.py, attention.py, positions.py,
// norms.py and feedforward.py. A vector is a Float32Array; there is one position at a
// time, so a matrix meets one vector, and keys and values wait in a cache.

// W x: one number for each row.
const linear = ({ rows, columns, values }, x) => {
  const y = new Float32Array(rows);
  for (let row = 0, i = 0; row < rows; row++) {
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += values[i++] * x[k];
    y[row] = sum;
  }
  return y;
};

const add = (x, y) => x.map((number, i) => number + y[i]);

// Divide by the root mean square, then multiply by the weight.
const rmsNorm = ({ values }, x, eps) => {
  const squares = x.reduce((sum, number) => sum + number * number, 0);
  const scale = 1 / Math.sqrt(squares / x.length + eps);
  return x.map((number, i) => number * scale * values[i]);
};

// SwiGLU: hidden units, each gated by another.
const feedforward = (layer, x) => {
  const gate = linear(layer.gate, x);
  const hidden = linear(layer.up, x);
  const gated = hidden.map((up, i) => (up * gate[i]) / (1 + Math.exp(-gate[i])));
  return linear(layer.down, gated);
};

class LlamaLM {
  // parts: name -> matrix or vector: "tokens", "blocks.0.attention.to_queries", …
  constructor(config, parts) {
    this.config = config;
    this.headDim = config.d_model / config.num_heads;
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
    const size = max_length * num_kv_heads * this.headDim;
    return this.blocks.map(() => ({
      keys: new Float32Array(size),
      values: new Float32Array(size),
    }));
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
  attention(layer, x, position, cache, isSilent) {
    const { num_heads, num_kv_heads } = this.config;
    const d = this.headDim;
    const width = num_kv_heads * d;
    const queries = this.rotate(linear(layer.to_queries, x), position);
    const { keys, values } = cache; // of all positions so far, one after another
    keys.set(this.rotate(linear(layer.to_keys, x), position), position * width);
    values.set(linear(layer.to_values, x), position * width);
    const context = new Float32Array(num_heads * d);
    const allWeights = [];
    for (let head = 0; head < num_heads; head++) {
      const group = Math.floor((head * num_kv_heads) / num_heads); // keys are shared
      const query = queries.subarray(head * d, head * d + d);
      const scores = new Float32Array(position + 1); // causal: no later key exists yet
      for (let k = 0; k <= position; k++) {
        const from = k * width + group * d;
        let score = 0;
        for (let i = 0; i < d; i++) score += query[i] * keys[from + i];
        scores[k] = score / Math.sqrt(d);
      }
      const weights = softmax(scores);
      allWeights.push(weights);
      if (isSilent(head)) continue; // its context stays 0
      const mixed = context.subarray(head * d, head * d + d);
      for (let k = 0; k <= position; k++) {
        const from = k * width + group * d;
        for (let i = 0; i < d; i++) mixed[i] += weights[k] * values[from + i];
      }
    }
    return { output: linear(layer.to_output, context), weights: allWeights };
  }

  // The token at one position. silenced: a set of "layer.head", counted from 0.
  // Returns the scores of the next token, the weights "layer head key", and the
  // residual stream after each block.
  step(id, position, caches, silenced = new Set()) {
    const { d_model, norm_eps } = this.config;
    let x = this.tokens.values.slice(id * d_model, (id + 1) * d_model);
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
    return linear(this.head, rmsNorm(this.norm, stream, this.config.norm_eps));
  }
}

// The parts of a model out of two runs of bytes. A matrix is an integer from -127 to
// 127 for each weight and one scale a row; a vector is plain float32.
const unpack = (layout, integers, floats) => {
  const parts = {};
  let [i, f] = [0, 0];
  for (const { name, rows, columns } of layout) {
    const scales = floats.subarray(f, (f += rows)); // or the vector itself
    const whole = new Float32Array(integers.subarray(i, (i += rows * columns)));
    const matrix = whole.map((number, at) => number * scales[Math.floor(at / columns)]);
    parts[name] = { rows, columns, values: columns ? matrix : scales };
  }
  return parts;
};
