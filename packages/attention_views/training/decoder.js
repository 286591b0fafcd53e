// The decoder of notebook 00 with its gradients. Parameters are named and shaped as in
// its state_dict. Each layer comes as two functions: forward, and backward, which takes
// the gradient of the loss with respect to what forward wrote, adds up the gradients of
// the parameters and returns that of the input.
//
// A tensor is a Float32Array in the one memory that the kernels work on. A row is one
// word of one text: row = text * length + position, so a tensor "text position width" is
// a matrix "row width".
const BETA2 = 0.98;
const WEIGHT_DECAY = 0.01; // AdamW's default in PyTorch, as is the next
const ADAM_EPS = 1e-8;
const NORM_EPS = 1e-5;

// shape: {words, width, heads, layers, length, batch, trains}; K: kernels of its own.
const makeDecoder = (shape, K) => {
  const { words: V, width: C, heads, layers, length: T, batch: B, trains } = shape;
  const N = B * T;
  const d = C / heads;
  const F = 4 * C; // the hidden width of the MLP

  // --- memory: first where everything lies, then the views on it -------------------------
  const planned = [];
  let bytes = 0;
  const reserve = (owner, name, count) => {
    planned.push([owner, name, bytes, count]);
    bytes += 64 * Math.ceil(count / 16);
  };
  const parameters = [];
  const parameter = (name, ...size) => {
    const made = { name, size };
    reserve(made, "values", size.reduce((a, b) => a * b));
    parameters.push(made);
    return made;
  };
  const pair = (name, ...size) => ({
    weight: parameter(`${name}.weight`, ...size),
    bias: parameter(`${name}.bias`, size[0]),
  });
  const tokEmb = parameter("tok_emb.weight", V, C);
  const posEmb = parameter("pos_emb.weight", T, C);
  const blocks = Array.from({ length: layers }, (_, i) => ({
    norm1: pair(`blocks.${i}.norm1`, C),
    norm2: pair(`blocks.${i}.norm2`, C),
    qkv: pair(`blocks.${i}.attn.qkv`, 3 * C, C),
    proj: pair(`blocks.${i}.attn.proj`, C, C),
    up: pair(`blocks.${i}.mlp.0`, F, C),
    down: pair(`blocks.${i}.mlp.2`, C, F),
  }));
  const norm = pair("norm", C);
  const head = pair("head", V, C);
  const count = bytes / 4; // of all weights, which lie side by side

  // What each block computed; the way back needs it.
  const seen = blocks.map(() => {
    const tensors = {};
    const size = { x: C, normed1: C, stats1: 2, qkv: 3 * C, weights: heads * T, context: C };
    Object.assign(size, { middle: C, normed2: C, stats2: 2, hidden: F });
    for (const name in size) reserve(tensors, name, N * size[name]);
    return tensors;
  });
  const m = {}; // the rest
  const rest = { x: C, normed: C, stats: 2, scores: V, change: C };
  const back = { dx: C, dNormed: C, dQkv: 3 * C, dHidden: F, ones: 1 };
  for (const [name, size] of Object.entries(trains ? { ...rest, ...back } : rest))
    reserve(m, name, N * size);
  const lens = {};
  for (const [name, size] of Object.entries({ x: C, normed: C, stats: 2, scores: V }))
    reserve(lens, name, size);
  if (trains)
    for (const one of parameters)
      for (const name of ["grad", "mean", "square"])
        reserve(one, name, one.size.reduce((a, b) => a * b));
  if (trains) reserve(m, "dWeights", T * T);
  const start = K.reserve(bytes);
  for (const [owner, name, from, size] of planned) owner[name] = K.floats(start + from, size);
  const weights = K.floats(start, count);
  m.ones?.fill(1);
  const at = (tensor, i = 0) => tensor.byteOffset + 4 * i;

  // As PyTorch initialises them; embeddings as in the notebook.
  const initialize = (random) => {
    const gauss = () =>
      Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    for (const { name, size, values } of parameters) {
      const inputs = name.includes("mlp.2") ? F : C;
      const spread = 1 / Math.sqrt(inputs);
      if (name.includes("emb")) values.forEach((_, i) => (values[i] = 0.1 * gauss()));
      else if (name.includes("norm")) values.fill(name.endsWith("weight") ? 1 : 0);
      else values.forEach((_, i) => (values[i] = spread * (2 * random() - 1)));
    }
  };

  // --- a linear layer: y = x Wᵀ + bias ----------------------------------------------------
  const linear = ({ weight, bias }, x, y, from, to) => {
    const [O, I] = weight.size;
    K.dots(at(y, from * O), at(x, from * I), at(weight.values), at(bias.values),
      to - from, O, 4 * I, 4 * O, 4 * I, 4 * I);
  };
  const linearBackward = ({ weight, bias }, x, dy, dx) => {
    const [O, I] = weight.size;
    dx.fill(0); // dx = dy W
    K.mix(at(dx), at(dy), at(weight.values), N, O, 4 * I, 4 * I, 4 * O, 4, 4 * I);
    for (let row = 0; row < N; row += 32) // dW = dyᵀ x; 32 rows stay in the cache
      K.mix(at(weight.grad), at(dy, row * O), at(x, row * I),
        O, Math.min(32, N - row), 4 * I, 4 * I, 4, 4 * O, 4 * I);
    K.mix(at(bias.grad), at(m.ones), at(dy), 1, N, 4 * O, 0, 0, 4, 4 * O);
  };

  // --- layer norm -------------------------------------------------------------------------
  const layerNorm = ({ weight, bias }, x, y, stats, from, to) => {
    for (let row = from; row < to; row++) {
      const o = row * C;
      let [mean, variance] = [0, 0];
      for (let k = 0; k < C; k++) mean += x[o + k] / C;
      for (let k = 0; k < C; k++) variance += (x[o + k] - mean) ** 2 / C;
      const scale = 1 / Math.sqrt(variance + NORM_EPS);
      for (let k = 0; k < C; k++)
        y[o + k] = (x[o + k] - mean) * scale * weight.values[k] + bias.values[k];
      [stats[2 * row], stats[2 * row + 1]] = [mean, scale];
    }
  };
  // Adds to dx: the stream also goes around the norm.
  const layerNormBackward = ({ weight, bias }, x, stats, dy, dx) => {
    for (let row = 0; row < N; row++) {
      const o = row * C;
      const [mean, scale] = [stats[2 * row], stats[2 * row + 1]];
      let [sum, along] = [0, 0]; // the mean must not move, nor the length
      for (let k = 0; k < C; k++) {
        const normed = (x[o + k] - mean) * scale;
        const g = dy[o + k] * weight.values[k];
        weight.grad[k] += dy[o + k] * normed;
        bias.grad[k] += dy[o + k];
        sum += g / C;
        along += (g * normed) / C;
      }
      for (let k = 0; k < C; k++) {
        const normed = (x[o + k] - mean) * scale;
        dx[o + k] += scale * (dy[o + k] * weight.values[k] - sum - normed * along);
      }
    }
  };

  // --- attention: rows of qkv hold query, key and value of all heads -----------------------
  const attention = ({ qkv, weights, context }, from, to, isSilent) => {
    context.fill(0, from * C, to * C);
    for (let row = from; row < to; row++) {
      const t = row % T;
      const first = row - t; // of this text
      for (let h = 0; h < heads; h++) {
        const w = (first * heads + h * T + t) * T;
        const key = first * 3 * C + C + h * d;
        K.dots(at(weights, w), at(qkv, row * 3 * C + h * d), at(qkv, key), 0,
          1, t + 1, 4 * d, 0, 0, 12 * C); // never ahead
        K.softmax(at(weights, w), 4 * (t + 1), 1 / Math.sqrt(d));
        if (isSilent(h)) continue; // its context stays 0
        K.mix(at(context, row * C + h * d), at(weights, w), at(qkv, key + C),
          1, t + 1, 4 * d, 0, 0, 4, 12 * C);
      }
    }
  };
  const attentionBackward = ({ qkv, weights }, dContext, dQkv) => {
    const { dWeights } = m;
    dQkv.fill(0);
    for (let b = 0; b < B; b++)
      for (let h = 0; h < heads; h++) {
        const w = (b * heads + h) * T * T;
        const looked = b * T * C + h * d;
        const [query, key, value] = [0, 1, 2].map((i) => b * T * 3 * C + i * C + h * d);
        for (let i = 0; i < T; i++) {
          const o = i * T;
          K.dots(at(dWeights, o), at(dContext, looked + i * C), at(qkv, value), 0,
            1, i + 1, 4 * d, 0, 0, 12 * C);
          let mean = 0; // softmax: what all weights share does nothing
          for (let j = 0; j <= i; j++) mean += weights[w + o + j] * dWeights[o + j];
          for (let j = 0; j <= i; j++)
            dWeights[o + j] = (weights[w + o + j] * (dWeights[o + j] - mean)) / Math.sqrt(d);
          K.mix(at(dQkv, query + i * 3 * C), at(dWeights, o), at(qkv, key),
            1, i + 1, 4 * d, 0, 0, 4, 12 * C);
        }
        for (let j = 0; j < T; j++) {
          const o = j * T + j; // position j and all later ones looked at position j
          K.mix(at(dQkv, key + j * 3 * C), at(dWeights, o), at(qkv, query + j * 3 * C),
            1, T - j, 4 * d, 0, 0, 4 * T, 12 * C);
          K.mix(at(dQkv, value + j * 3 * C), at(weights, w + o), at(dContext, looked + j * C),
            1, T - j, 4 * d, 0, 0, 4 * T, 4 * C);
        }
      }
  };

  // --- the rest: embeddings, ReLU, residual stream ------------------------------------------
  const embed = (ids, x, from, to) => {
    for (let row = from; row < to; row++)
      for (let k = 0; k < C; k++)
        x[row * C + k] =
          tokEmb.values[ids[row] * C + k] + posEmb.values[(row % T) * C + k];
  };
  const embedBackward = (ids, dx) => {
    for (let row = 0; row < N; row++)
      for (let k = 0; k < C; k++) {
        tokEmb.grad[ids[row] * C + k] += dx[row * C + k];
        posEmb.grad[(row % T) * C + k] += dx[row * C + k];
      }
  };
  const relu = (hidden, from, to) => {
    for (let i = from * F; i < to * F; i++) if (hidden[i] < 0) hidden[i] = 0;
  };
  const reluBackward = (hidden, dHidden) => {
    for (let i = 0; i < hidden.length; i++) if (hidden[i] <= 0) dHidden[i] = 0;
  };
  const add = (x, change, y, from, to) => {
    for (let i = from * C; i < to * C; i++) y[i] = x[i] + change[i];
  };

  // --- the model ------------------------------------------------------------------------------
  const streamAfter = (layer) => seen[layer + 1]?.x ?? m.x;

  // The scores of rows from (inclusive) to (exclusive); those before must be there.
  // silenced: a set of "layer.head".
  const forward = (ids, from = 0, to = ids.length, silenced = new Set()) => {
    embed(ids, streamAfter(-1), from, to);
    blocks.forEach((block, i) => {
      const s = seen[i];
      layerNorm(block.norm1, s.x, s.normed1, s.stats1, from, to);
      linear(block.qkv, s.normed1, s.qkv, from, to);
      attention(s, from, to, (h) => silenced.has(`${i}.${h}`));
      linear(block.proj, s.context, m.change, from, to);
      add(s.x, m.change, s.middle, from, to);
      layerNorm(block.norm2, s.middle, s.normed2, s.stats2, from, to);
      linear(block.up, s.normed2, s.hidden, from, to);
      relu(s.hidden, from, to);
      linear(block.down, s.hidden, m.change, from, to);
      add(s.middle, m.change, streamAfter(i), from, to);
    });
    layerNorm(norm, m.x, m.normed, m.stats, from, to);
    linear(head, m.normed, m.scores, from, to);
  };

  // The mean cross-entropy of the first rows. It leaves its gradient in `scores`.
  const loss = (labels) => {
    const n = labels.length;
    let total = 0;
    for (let row = 0; row < n; row++) {
      K.softmax(at(m.scores, row * V), 4 * V, 1);
      const right = row * V + labels[row];
      total -= Math.log(Math.max(m.scores[right], 1e-30));
      m.scores[right] -= 1;
    }
    for (let i = 0; i < n * V; i++) m.scores[i] /= n;
    return total / n;
  };

  const backward = (ids) => {
    for (const { grad } of parameters) grad.fill(0);
    m.dx.fill(0);
    linearBackward(head, m.normed, m.scores, m.dNormed);
    layerNormBackward(norm, m.x, m.stats, m.dNormed, m.dx);
    for (let i = layers - 1; i >= 0; i--) {
      const [block, s] = [blocks[i], seen[i]];
      linearBackward(block.down, s.hidden, m.dx, m.dHidden);
      reluBackward(s.hidden, m.dHidden);
      linearBackward(block.up, s.normed2, m.dHidden, m.dNormed);
      layerNormBackward(block.norm2, s.middle, s.stats2, m.dNormed, m.dx);
      linearBackward(block.proj, s.context, m.dx, m.dNormed);
      attentionBackward(s, m.dNormed, m.dQkv);
      linearBackward(block.qkv, s.normed1, m.dQkv, m.dNormed);
      layerNormBackward(block.norm1, s.x, s.stats1, m.dNormed, m.dx);
    }
    embedBackward(ids, m.dx);
  };

  // AdamW; steps count from 1.
  const update = (step, rate, beta1) => {
    const size = rate / (1 - beta1 ** step);
    const shrink = 1 / Math.sqrt(1 - BETA2 ** step);
    for (const { values, grad, mean, square } of parameters)
      for (let i = 0; i < values.length; i++) {
        mean[i] = beta1 * mean[i] + (1 - beta1) * grad[i];
        square[i] = BETA2 * square[i] + (1 - BETA2) * grad[i] * grad[i];
        const change = mean[i] / (Math.sqrt(square[i]) * shrink + ADAM_EPS);
        values[i] = values[i] * (1 - WEIGHT_DECAY * rate) - size * change;
      }
  };

  // --- one word at a time, as page.js asks for it ----------------------------------------------
  // A cache is the number of the text whose rows it fills.
  const ids = new Int32Array(N);
  const step = (id, position, text, silenced) => {
    const row = text * T + position;
    ids[row] = id;
    forward(ids, row, row + 1, silenced);
    const looked = (s, h) => {
      const w = ((text * heads + h) * T + position) * T;
      return s.weights.slice(w, w + position + 1);
    };
    return {
      logits: m.scores.slice(row * V, (row + 1) * V),
      weights: seen.map((s) => Array.from({ length: heads }, (_, h) => looked(s, h))),
      streams: blocks.map((_, i) => streamAfter(i).slice(row * C, (row + 1) * C)),
    };
  };
  const read = (stream) => {
    lens.x.set(stream);
    layerNorm(norm, lens.x, lens.normed, lens.stats, 0, 1);
    linear(head, lens.normed, lens.scores, 0, 1);
    return lens.scores.slice();
  };
  return { parameters, weights, initialize, forward, loss, backward, update, step, read };
};

// OneCycleLR: for a tenth of the steps the learning rate rises, then it falls, and beta1
// goes the other way. Steps count from 0. Returns [learning rate, beta1].
const oneCycle = (step, steps, highest) => {
  const turn = (from, to, share) =>
    to + ((from - to) * (1 + Math.cos(Math.PI * share))) / 2;
  const peak = 0.1 * steps - 1;
  if (step <= peak)
    return [turn(highest / 25, highest, step / peak), turn(0.95, 0.85, step / peak)];
  const share = (step - peak) / (steps - 1 - peak);
  return [turn(highest, highest / 25e4, share), turn(0.85, 0.95, share)];
};

// Numbers from 0 to 1, the same for the same seed (mulberry32).
const seeded = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};

// The parameters as a safetensors file: the length of the header, the header, numbers.
const safetensors = (parameters) => {
  let end = 0;
  const header = { __metadata__: { format: "pt" } };
  for (const { name, size, values } of parameters)
    header[name] = { dtype: "F32", shape: size, data_offsets: [end, (end += values.byteLength)] };
  const text = JSON.stringify(header);
  const bytes = new TextEncoder().encode(text.padEnd(8 * Math.ceil(text.length / 8)));
  const size = new BigUint64Array([BigInt(bytes.length)]);
  return new Blob([size, bytes, ...parameters.map(({ values }) => values)]);
};
