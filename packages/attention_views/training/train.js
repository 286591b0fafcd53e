// The page in which a decoder learns: it starts and pauses the trainer, draws the curve,
// turns back to earlier weights and lets them write. What is done with a text that stands
// there is page.js.

const known = JSON.parse(place("known").textContent);
const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
const COLORS = ["light-dark(#0072b2, #64b5e8)", "#e69f00", "#009e73", "#cc79a7", "#d55e00"];
const SHOWN_WORDS = 20; // in the map of a head
const MOST_WORDS = 2000; // that a model of own texts knows
const FEWEST_WORDS = 2000; // that own texts must have
const END = "<end>";
const OTHER = "<other>";

// --- words ---------------------------------------------------------------------------------

// Where notebook 00 cuts a text.
const split = (text) => text.match(/ ?[\p{L}\p{N}_]+| ?[^\p{L}\p{N}_\s]/gu) ?? [];

class Words {
  constructor(words) {
    this.words = words;
    this.idOf = new Map(words.map((word, id) => [word, id]));
    this.special = {};
    for (const name of [END, OTHER])
      if (this.idOf.has(name)) this.special[this.idOf.get(name)] = name;
    this.unknown = this.idOf.get(OTHER);
  }

  // A text may begin in the middle of what the model has read, where a space came first.
  idsOf(text) {
    const find = (word, i) => this.idOf.get(word) ?? (i ? undefined : this.idOf.get(` ${word}`));
    return split(text).map((word, i) => [word.trim(), find(word, i)]);
  }

  encode(text) {
    return this.idsOf(text).map(([, id]) => id ?? this.unknown);
  }

  refusal(text) {
    const strange = this.idsOf(text).filter(([, id]) => id === undefined).map(([word]) => word);
    if (!strange.length || this.unknown !== undefined) return "";
    const heroes = data.heroes.length ? ` Among its heroes are ${data.heroes.join(", ")}.` : "";
    return (
      `It has never met “${strange.join("”, “")}” and cannot spell: it knows ` +
      `${this.words.length} words, each by itself.${heroes}`
    );
  }

  reader() {
    return (id) => (id === data.endId ? "" : this.words[id]);
  }

  name(id) {
    return this.words[id];
  }
}

// --- what page.js asks for --------------------------------------------------------------------

const data = { config: { vocab_size: 0, max_length: SIZES.length }, heroes: [] };
let tokenizer, decoder;
const freeCaches = [1, 0]; // a story, and its twin
const model = {
  newCache: () => freeCaches.pop(),
  free: (text) => freeCaches.push(text),
  step: (...position) => decoder.step(...position),
  read: (stream) => decoder.read(stream),
};

// --- the trainer: a worker, or slices of this page's own time ------------------------------------

let send = null;
let texts = null;
const kernelCode = bytesOf("kernels");
const inSlices = () => {
  const trainer = makeTrainer((message) => setTimeout(() => receive(message)));
  send = (message) => trainer(message);
};
try {
  const code = `${place("trainer").textContent}
    const trainer = makeTrainer((message) => postMessage(message));
    onmessage = ({ data }) => trainer(data);`;
  const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  worker.onmessage = ({ data: message }) => receive(message);
  worker.onerror = () => { // a policy forbids it
    inSlices();
    if (texts) send({ texts });
  };
  send = (message) => worker.postMessage(message);
} catch {
  inSlices();
}

// --- runs ------------------------------------------------------------------------------------------

// state: "waiting" for the bigram, then "ready", "running", "paused", "done".
let state = "waiting";
let runs = []; // {layers, rate, seed, color, losses, looks}; the last one is now
let levels = []; // [name, loss, is the floor]
let shownLook = 0;
const now = () => runs.at(-1);

const settings = () => ({
  layers: +place("layers").value,
  rate: 10 ** +place("rate").value,
  seed: Math.abs(Math.round(+place("seed").value)) || 0,
});
const plain = (number) => String(+number.toPrecision(1));
const say = (text) => {
  place("said").textContent = text;
};
const turnDials = () => {
  const { layers, rate } = settings();
  place("layers-now").textContent = layers;
  place("rate-now").textContent = plain(rate);
  place("rate").setAttribute("aria-valuetext", plain(rate));
};
const LABELS = { waiting: "Start", ready: "Start", running: "Pause", paused: "Go on", done: "Train another" };
const enter = (next) => {
  state = next;
  document.body.dataset.state = state;
  const fresh = state === "ready" || state === "done" || state === "paused";
  place("start").textContent = LABELS[state];
  place("start").disabled = state === "waiting";
  place("again-run").hidden = state !== "paused";
  for (const dial of ["layers", "rate", "seed", "use"]) place(dial).disabled = !fresh;
};

const startRun = () => {
  quiet();
  const chosen = settings();
  runs.push({ ...chosen, color: COLORS[runs.length % COLORS.length], losses: [], looks: [] });
  const shape = { ...SIZES, words: tokenizer.words.length, layers: chosen.layers, batch: 2 };
  const kernels = new Kernels(kernelCode);
  decoder = makeDecoder(shape, kernels);
  place("back").max = place("back").value = 0;
  listHeads(chosen.layers);
  clock = [];
  send({ begin: { ...chosen, kernels: kernelCode } });
  enter("running");
  const slow = " There is no WebAssembly here, so it takes about twenty times as long.";
  say(`It starts with random numbers.${kernels.isFast ? "" : slow}`);
};
const press = () => {
  if (state === "running" || state === "paused") {
    send({ pause: state === "running" });
    clock = [];
    say(state === "running" ? "Paused." : "It goes on.");
    enter(state === "running" ? "paused" : "running");
  } else startRun();
};

// The time left, from the last steps, whatever this machine is.
let clock = [];
const leftNow = (step) => {
  clock.push(performance.now());
  clock.splice(0, clock.length - 30);
  if (clock.length < 5) return "";
  const seconds = ((clock.at(-1) - clock[0]) / (clock.length - 1) / 1000) * (STEPS - step);
  if (seconds > 90) return `, about ${Math.round(seconds / 60)} minutes left`;
  return `, about ${seconds > 20 ? 5 * Math.round(seconds / 5) : Math.ceil(seconds)} s left`;
};

const stepped = ({ step, loss }) => {
  now().losses.push(loss);
  place("now").textContent = `Step ${step} of ${STEPS}, loss ${loss.toFixed(2)}${leftNow(step)}`;
  if (step % 5 === 0 && !isCalm) requestAnimationFrame(drawRuns);
};
const looked = (look) => {
  const follows = shownLook === now().looks.length - 1 || !look.step;
  now().looks.push(look);
  place("back").max = now().looks.length - 1;
  drawRuns();
  if (!look.step) restart();
  else if (look.step === STEPS) finish(look);
  else if (follows) turnTo(now().looks.length - 1);
};
const finish = ({ held, windows }) => {
  enter("done");
  place("now").textContent = "";
  const { floor } = data;
  const above = floor ? `, ${(held - floor).toFixed(2)} above the floor` : "";
  say(`Done. On ${windows} stretches of text that it never saw, its loss is ${held.toFixed(2)}${above}.`);
  document.querySelector(".begin").hidden = false;
  data.opening = data.hero || data.opening;
  invite();
  turnTo(now().looks.length - 1);
  begin();
};

const receive = (message) => {
  if ("bigram" in message) measured(message);
  else if (state === "waiting" || !runs.length) return; // of texts that were put away
  else if (message.weights) looked(message);
  else stepped(message);
};

// --- the curve ----------------------------------------------------------------------------------------

const NARROW = matchMedia("(max-width: 480px)").matches; // letters are larger there
const [WIDE, HIGH, LEFT, RIGHT, BELOW] = [640, NARROW ? 420 : 290, 30, NARROW ? 190 : 118, 30];
const highest = () => Math.ceil(Math.max(...levels.map(([, loss]) => loss)) + 0.2);
const across = (step) => LEFT + ((WIDE - LEFT - RIGHT) * step) / STEPS;
const up = (loss) => 8 + (HIGH - BELOW - 8) * (1 - Math.min(loss, highest()) / highest());

const drawAxes = () => {
  const chart = emptied("chart");
  chart.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  const write = (x, y, text, kind = "") => make(chart, "text", { x, y, class: kind }, text);
  for (let loss = 0; loss <= highest(); loss++) write(LEFT - 8, up(loss) + 4, loss, "end");
  for (let step = 0; step <= STEPS; step += 150)
    write(across(step), HIGH - 6, step ? step : "step 0", "middle");
  for (const [name, loss, isFloor] of levels) {
    make(chart, "path", { d: `M${LEFT},${up(loss)}H${WIDE - RIGHT}`, class: isFloor ? "floor" : "level" });
    write(WIDE - RIGHT + 6, up(loss) + 4, `${name} ${loss.toFixed(2)}`);
  }
  make(chart, "g", { id: "lines" });
  make(chart, "path", { id: "marker" });
};
const drawRuns = () => {
  const lines = emptied("lines");
  const list = emptied("runs");
  for (const run of runs) {
    const isNow = run === now();
    const at = ([step, loss], i) => `${i ? "L" : "M"}${across(step).toFixed(1)},${up(loss).toFixed(1)}`;
    const style = `color: ${run.color}`;
    const d = run.losses.map((loss, i) => at([i + 1, loss], i)).join("");
    make(lines, "path", { d, style, class: isNow ? "run" : "run old" });
    for (const { step, held } of run.looks)
      make(lines, "circle", { cx: across(step), cy: up(held), r: step === STEPS ? 5 : 3, style });
    const entry = make(list, "li", { style });
    const final = run.looks.at(-1);
    const result = final?.step === STEPS
      ? `${final.held.toFixed(2)} on texts it never saw` : `${run.losses.length} steps so far`;
    const layers = run.layers === 1 ? "1 layer" : `${run.layers} layers`;
    make(entry, "span", {}, `${layers}, learning rate ${plain(run.rate)}, seed ${run.seed}: ${result}`);
  }
  const told = levels.map(([name, loss]) => `${name} ${loss.toFixed(2)}`).join(", ");
  const last = now()?.losses.at(-1);
  place("chart").setAttribute("aria-label",
    `The loss, step by step${last ? `, now ${last.toFixed(2)}` : ""}. Lines: ${told}.`);
};

// --- back in time ----------------------------------------------------------------------------------------

// Nothing writes on with other weights or words.
const quiet = () => {
  if (!story) return;
  close();
  silence(null);
  story.turn = null;
};
const restart = () => {
  quiet();
  if (place("refused").textContent) place("opening").value = place("refused").textContent = "";
  story ??= new Story(new Set());
  place("after").hidden = false;
  turnTo(0, true);
};

// Let the weights of an earlier step write the same opening, with the same dice.
const turnTo = async (i, isNew = false) => {
  shownLook = i;
  const { step, weights } = now().looks[i];
  decoder.weights.set(weights);
  const when = step ? `after ${step} steps` : "before the first step";
  place("back").value = i;
  place("back").setAttribute("aria-valuetext", when);
  place("when").textContent = `Its text ${when}`;
  place("inside-when").textContent = `Inside, ${when}`;
  place("marker").setAttribute("d", `M${across(step)},8V${HIGH - BELOW}`);
  if (isNew) story.given([data.endId, ...tokenizer.encode(openingOf(place("opening").value))]);
  const written = [story, twin].filter(Boolean).map((one) => {
    one.seen.length = 0;
    if (!isNew) one.given([], one.first);
    return one.write();
  });
  await Promise.all(written);
  if (shownLook === i) explain();
};

// --- inside -------------------------------------------------------------------------------------------------

const listHeads = (layers) => {
  const list = emptied("head");
  for (let layer = layers - 1; layer >= 0; layer--)
    for (let h = 0; h < SIZES.heads; h++) make(list, "option", { value: `${layer}.${h}` }, headName([layer, h]));
  place("looks").hidden = !layers;
};
const color = ramp(SEQUENTIAL);

const inside = () => {
  const last = story.seen[story.first - 1];
  if (!last) return;
  const next = emptied("next");
  place("next-after").textContent = `After “${shown(story.ids[story.first - 1])}”, the last word given.`;
  const chances = softmax(last.logits);
  for (const id of distribution(last.logits, { temperature: 1, topK: 8, topP: 1 }).ids)
    line(make(make(next, "li"), "div", { class: "row" }), shown(id), chances[id], chances[id]);
  const [layer, h] = place("head").value.split(".").map(Number);
  const count = Math.min(story.seen.length, SHOWN_WORDS);
  if (place("looks").hidden || count < 2) return;
  const cells = new Array(count * count).fill(null);
  for (let i = 0; i < count; i++)
    story.seen[i].weights[layer][h].forEach((weight, k) => (cells[i * count + k] = weight));
  paint(place("map-canvas"), cells, count, (weight) => weight !== null && color(weight));
  const words = emptied("map-words");
  for (const id of story.ids.slice(0, count)) make(words, "span", {}, id === data.endId ? "start" : shown(id));
  const weights = story.seen[count - 1].weights[layer][h];
  const most = weights.indexOf(Math.max(...weights));
  place("map-canvas").setAttribute("aria-label",
    `${headName([layer, h])} over ${count} words. The last of them looks most at ` +
    `“${most ? shown(story.ids[most]) : "start"}”, with ${percent(weights[most])}.`);
};

// --- whose texts ------------------------------------------------------------------------------------------------

const measured = ({ bigram }) => {
  const blind = Math.log(tokenizer.words.length);
  levels = [["blind guess", blind, false], ["bigram", bigram, false]];
  if (data.floor) levels.push(["floor", data.floor, true]);
  drawAxes();
  drawRuns();
  enter("ready");
};

// train, held: ids; words: that of each id.
const learnFrom = ({ words, train, held, hero, floor, first }) => {
  tokenizer = new Words(words);
  const endId = tokenizer.idOf.get(END);
  data.config.vocab_size = words.length;
  const named = tokenizer.idOf.get(" named");
  const heroes = new Map();
  train.forEach((id, i) => {
    if (train[i - 1] === named) heroes.set(id, (heroes.get(id) ?? 0) + 1);
  });
  const often = [...heroes].sort((a, b) => b[1] - a[1]).slice(0, 6);
  Object.assign(data, { endId, startId: endId, hero, floor, opening: first });
  data.heroes = floor ? often.map(([id]) => words[id].trim()) : [];
  quiet();
  document.querySelector(".begin").hidden = place("after").hidden = true;
  place("opening").value = "";
  turn();
  [runs, state] = [[], "waiting"];
  enter("waiting");
  texts = { words: words.length, endId, train, held };
  send({ texts });
};

const ownTexts = (text) => {
  const parts = text.split(/\n\s*\n|<\|endoftext\|>/).map(split).filter((part) => part.length);
  const all = parts.flatMap((part) => [END, ...part]);
  if (all.length < FEWEST_WORDS) {
    place("counted").textContent = `These are ${all.length} words: give it ${FEWEST_WORDS} or more.`;
    return;
  }
  const counts = new Map([[END, Infinity]]);
  for (const word of all) counts.set(word, counts.get(word) + 1 || 1);
  let words = [...counts.keys()];
  if (words.length > MOST_WORDS) {
    words.sort((a, b) => counts.get(b) - counts.get(a));
    words = [...words.slice(0, MOST_WORDS - 1), OTHER];
  }
  const { idOf, unknown } = new Words(words);
  const ids = Uint16Array.from(all, (word) => idOf.get(word) ?? unknown);
  const room = Math.max(Math.round(all.length / 10), 2 * SIZES.length); // held out, at the end
  const next = ids.indexOf(idOf.get(END), all.length - room);
  const cut = next < 0 || all.length - next < room / 2 ? all.length - room : next;
  const first = parts[0].slice(0, 3).join("");
  learnFrom({ words, train: ids.slice(0, cut), held: ids.slice(cut), hero: "", floor: null, first });
  place("counted").textContent =
    `${all.length} words, ${words.length} different ones, the last tenth held out. Nobody knows the floor of these.`;
  place("stories-again").hidden = false;
};

const stories = async () => {
  const bytes = await inflate(place("stories-packed").textContent);
  const unpacked = [];
  for (let i = 0; i < bytes.length; i++)
    unpacked.push(bytes[i] < 240 ? bytes[i] : 240 + 256 * (bytes[i] - 240) + bytes[++i]);
  const ids = Uint16Array.from(unpacked);
  const [train, held] = [ids.slice(0, known.trained), ids.slice(known.trained)];
  const { words, hero, floor } = known;
  learnFrom({ words, train, held, hero, floor, first: "Once" });
  place("stories-again").hidden = true;
};

// --- the controls -----------------------------------------------------------------------------------------------------

place("start").onclick = press;
place("again-run").onclick = startRun;
place("layers").oninput = place("rate").oninput = turnDials;
place("back").oninput = () => turnTo(+place("back").value);
place("head").onchange = inside;
place("use").onclick = () => ownTexts(place("texts").value);
place("stories-again").onclick = stories;
place("file").onchange = async () => {
  const [file] = place("file").files;
  if (!file) return;
  place("texts").value = await file.text();
  ownTexts(place("texts").value);
};
place("save").onclick = () => {
  const href = URL.createObjectURL(safetensors(decoder.parameters));
  const link = make(place("inside"), "a", { download: "my_decoder.safetensors", href });
  link.click();
  link.remove();
};
place("about").textContent =
  "This page has not learned anything yet. Press Start, and a transformer that begins with random numbers " +
  "learns to tell stories here, on your own machine. The stories come from a made-up world whose " +
  "probabilities are known, so the loss of a perfect model is known, too: the floor.";
whenWritten = inside;
turnDials();
stories();
