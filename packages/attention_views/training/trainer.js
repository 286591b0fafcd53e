// Trains a decoder, one step after another, in a worker or, where a browser refuses that,
// in the page itself. Knows texts as ids. Knows nothing of what is shown.
const STEPS = 450;
const EVERY = 25; // so many steps apart are the snapshots
const SIZES = { width: 64, heads: 4, length: 192 };
const BATCH = 6;

// The windows of a text: as in the notebook each begins with a story; where there are
// too few stories, at any word.
const windowsOf = (text, endId) => {
  const all = Array.from({ length: Math.max(0, text.length - SIZES.length) }, (_, i) => i);
  const begun = all.filter((i) => text[i] === endId);
  return begun.length < 40 ? all : begun;
};

// The mean loss of a model that counts which word follows which, on windows held out.
const bigramLoss = ({ words, train, held }, trainStarts, heldStarts) => {
  const pairs = new Float64Array(words * words).fill(0.01);
  const totals = new Float64Array(words).fill(0.01 * words);
  const each = (text, starts, visit) => {
    for (const start of starts)
      for (let i = start; i < start + SIZES.length; i++) visit(text[i], text[i + 1]);
  };
  each(train, trainStarts, (before, word) => {
    pairs[before * words + word] += 1;
    totals[before] += 1;
  });
  let loss = 0;
  each(held, heldStarts, (before, word) => {
    loss -= Math.log(pairs[before * words + word] / totals[before]);
  });
  return loss / (heldStarts.length * SIZES.length);
};

// post: what takes the messages. Returns what takes those of the page: {texts}, {begin},
// {pause}.
const makeTrainer = (post) => {
  let texts, trainStarts, heldStarts, model, random, step, settings;
  let isPaused = true;
  const ids = new Int32Array(BATCH * SIZES.length);
  const labels = new Int32Array(BATCH * SIZES.length);

  const fill = (text, starts) =>
    starts.forEach((start, b) => {
      ids.set(text.subarray(start, start + SIZES.length), b * SIZES.length);
      labels.set(text.subarray(start + 1, start + SIZES.length + 1), b * SIZES.length);
    });

  // The mean loss on the first windows that were held out.
  const heldLoss = (count) => {
    let total = 0;
    for (let i = 0; i < count; i += BATCH) {
      const starts = heldStarts.slice(i, Math.min(i + BATCH, count));
      fill(texts.held, starts);
      const rows = starts.length * SIZES.length;
      model.forward(ids, 0, rows);
      total += model.loss(labels.subarray(0, rows)) * starts.length;
    }
    return total / count;
  };

  // A quick measurement now and then, at the end one on all windows.
  const look = () => {
    const count = step === STEPS ? heldStarts.length : Math.min(BATCH, heldStarts.length);
    post({ weights: model.weights.slice(), held: heldLoss(count), windows: count, step });
  };

  const advance = () => {
    const pick = () => trainStarts[Math.floor(random() * trainStarts.length)];
    fill(texts.train, Array.from({ length: BATCH }, pick));
    model.forward(ids);
    const loss = model.loss(labels);
    model.backward(ids);
    model.update(step + 1, ...oneCycle(step, STEPS, settings.rate));
    step++;
    post({ step, loss });
    if (step % EVERY === 0 || step === STEPS) look();
  };

  // A message to itself lets other messages in between, and no clock slows it down.
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    if (isPaused) return;
    advance();
    isPaused = step === STEPS;
    if (!isPaused) port2.postMessage(null);
  };
  const pause = (now) => {
    if (isPaused && !now) port2.postMessage(null);
    isPaused = now;
  };

  return ({ texts: given, begin, pause: pausing }) => {
    if (given) {
      texts = given;
      trainStarts = windowsOf(texts.train, texts.endId);
      const all = windowsOf(texts.held, texts.endId);
      const spread = Math.ceil(all.length / 120);
      heldStarts = all.filter((_, i) => i % spread === 0);
      post({ bigram: bigramLoss(texts, trainStarts, heldStarts), windows: heldStarts.length });
    } else if (begin) {
      settings = begin;
      random = seeded(settings.seed);
      const shape = { ...SIZES, words: texts.words, layers: settings.layers, batch: BATCH };
      const kernels = new Kernels(settings.kernels);
      model = makeDecoder({ ...shape, trains: true }, kernels);
      model.initialize(random);
      step = 0;
      look();
      pause(false);
    } else pause(pausing);
  };
};
