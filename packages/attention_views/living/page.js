// What a reader does with a model that writes: types, moves the dials, asks a word, takes
// another road, silences a head. Text reaches the page through textContent alone. The
// script that starts a page gives it `data`, `model` and `tokenizer`.

const place = (id) => document.getElementById(id);
const emptied = (id) => {
  place(id).replaceChildren();
  return place(id);
};
const bytesOf = (id) => {
  const text = place(id).textContent;
  return Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
};

const dials = { temperature: 0.7, topK: 32, topP: 1, seed: 1 };

const percent = (share) => {
  if (share < 0.001) return "<0.1 %";
  return `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
};
// A token in a list, without its space; one that goes on with a word gets an ellipsis.
const shown = (id, before) => {
  const text = tokenizer.name(id).replaceAll("\n", "⏎").replaceAll("\t", "⇥");
  if (id in tokenizer.special) return id === data.endId ? "end" : text;
  if (!text.trim()) return text ? "␣".repeat(text.length) : "∅";
  const inside = /\p{L}$/u.test(tokenizer.name(before ?? id)) && /^\p{L}/u.test(text);
  return before !== undefined && inside ? `…${text}` : text.trim();
};
const headName = ([layer, head]) => `L${layer}H${head}`;

// --- a story, and how it is written ----------------------------------------------------

class Story {
  constructor(silenced) {
    this.silenced = silenced;
    this.caches = model.newCache();
    this.ids = [];
    this.seen = []; // seen[i]: what the model saw at position i
    this.surprises = []; // surprises[i]: that of the token at i, in bits
    this.tokens = []; // tokens[i]: where the token at i stands in the page
    this.article = make(place("stories"), "article");
    this.heading = make(this.article, "h2");
    this.text = make(this.article, "p", { class: "story", role: "group" });
    this.text.setAttribute("aria-label", "The story, word by word");
    this.status = make(this.article, "p", { class: "small", role: "status" });
  }

  // Keep the first tokens and add some: what the reader gave.
  given(ids, kept = 0) {
    this.ids.length = this.tokens.length = kept;
    this.seen.length = Math.min(this.seen.length, kept); // the cache is written over
    const last = this.tokens.at(-1) ?? null;
    while (this.text.lastChild !== last) this.text.lastChild.remove();
    this.status.textContent = "";
    this.read = tokenizer.reader();
    this.ids.forEach((id) => this.read(id));
    ids.forEach((id) => this.push(id));
    this.first = this.ids.length;
    if (kept && ids.length) this.mark(kept); // the model has read what stands before it
  }

  push(id) {
    const i = this.ids.push(id) - 1;
    const [, space, text] = (i ? this.read(id) : "").match(/^(\s*)([^]*)$/);
    this.text.append(space); // it is not tinted
    const token = make(this.text, "span", { class: "token", tabindex: i === 1 ? 0 : -1 }, text);
    token.setAttribute("role", "button");
    token.dataset.i = i;
    if (!text) token.setAttribute("aria-label", shown(id));
    token.hidden = !i;
    this.tokens.push(token);
  }

  // One token further. False at the end of the story, or of what the model can read.
  advance() {
    const next = this.seen.length;
    if (next < this.ids.length) {
      const id = this.ids[next];
      this.seen.push(model.step(id, next, this.caches, this.silenced));
    }
    const i = this.seen.length;
    if (i === this.ids.length) {
      if (i === data.config.max_length) return false;
      const chances = distribution(this.seen[i - 1].logits, dials);
      const id = draw(chances, dice(dials.seed, i));
      if (id === data.endId) return false;
      this.push(id);
    }
    this.mark(i);
    return true;
  }

  // How much the token at i surprised the model, at temperature 1.
  mark(i) {
    this.surprises[i] = surprise(this.seen[i - 1].logits, this.ids[i]);
    const color = Math.min(1, this.surprises[i] / 7);
    this.tokens[i].style.setProperty("--surprise", color.toFixed(2));
    this.tokens[i].classList.toggle("yours", i < this.first);
  }

  // Write until the end, or until a newer call takes over.
  async write() {
    const turn = (this.turn = Symbol());
    const began = performance.now();
    const from = this.seen.length;
    this.text.setAttribute("aria-busy", true);
    for (let more = true; more; ) {
      const until = performance.now() + 24;
      while (more && performance.now() < until) more = this.advance();
      compare();
      await new Promise((next) => setTimeout(next));
      if (this.turn !== turn) return;
    }
    this.text.removeAttribute("aria-busy");
    const speed = (1000 * (this.seen.length - from)) / (performance.now() - began);
    const notes = [`${this.ids.length} tokens, ${Math.round(speed)} a second.`];
    if (this.ids.length === data.config.max_length) notes.push("The model can read no further.");
    if (this.ids.slice(0, this.first).includes(tokenizer.unknown))
      notes.push("It does not know every word of this.");
    this.status.textContent = notes.join(" ");
    whenWritten();
  }
}

let [story, twin, asked] = [null, null, null];
let whenWritten = () => {}; // what else a page does when a story stands there

// The opening that a reader means. A few words without a stop are a hero: a name, which
// goes behind "girl named", or what stands in its place, such as "dragon" or "a dragon".
const heroOf = (opening) => opening.match(/\{(.*?)\}/);
const isCapital = (word) => /^\p{Lu}/u.test(word);
const openingOf = (typed) => {
  const text = typed.trim();
  const hero = heroOf(data.opening);
  if (!text) return data.opening.replace(/[{}]/g, "");
  const words = text.split(/\s+/);
  const isName = words.every(isCapital);
  const isHero = words.length <= 4 && !/[.,:;!?]/.test(text) && (isName || !isCapital(text));
  if (!hero || !isHero) return text;
  const kind = hero[1].replace(/ named .*/, "");
  const named = isName ? `${kind} named ${text}` : text.replace(/^(an?|the) /, "");
  return data.opening.replace(hero[0], () => (isCapital(kind) ? text : named));
};

const begin = () => {
  const text = openingOf(place("opening").value);
  place("refused").textContent = tokenizer.refusal?.(text) ?? "";
  if (place("refused").textContent) return;
  const ids = [data.startId, ...tokenizer.encode(text)];
  close();
  silence(null);
  story.given(ids.slice(0, data.config.max_length - 1));
  story.write();
};

// New dials: write again from the word that is asked, else from the opening.
const rewrite = () => {
  for (const one of [story, twin]) {
    if (!one) continue;
    const { first } = one;
    one.given([], asked?.story === one ? Math.min(asked.i, one.seen.length) : first);
    one.first = first;
    one.write();
  }
  explain();
};

// The twin of the story, in which some heads say nothing. No heads: no twin.
const silence = (silenced) => {
  if (twin) {
    twin.turn = null;
    twin.article.remove();
    model.free(twin.caches);
  }
  if (asked?.story === twin) asked = silenced && asked && { ...asked, story };
  twin = silenced?.size ? new Story(silenced) : null;
  story.heading.textContent = twin ? "The model as it is" : "";
  place("stories").classList.toggle("two", !!twin);
  if (!twin) return compare();
  const names = [...silenced].map((key) => headName(key.split(".").map(Number)));
  twin.heading.textContent = `With ${names.join(" and ")} silent`;
  twin.given(story.ids.slice(0, story.first));
  twin.write();
};

// Where the two stories part.
const compare = () => {
  document.querySelector(".fork")?.classList.remove("fork");
  if (!twin) return;
  const at = twin.ids.findIndex((id, i) => id !== story.ids[i]);
  if (at > 0) twin.tokens[at].classList.add("fork");
};

// --- asking a word ---------------------------------------------------------------------

const close = () => {
  asked = null;
  explain();
};

// The one token of a story that the Tab key reaches.
const reach = (one, i) => {
  for (const token of one.tokens) token.tabIndex = token === one.tokens[i] ? 0 : -1;
};

const ask = (one, i) => {
  const head = asked?.head ?? null;
  asked = { story: one, i, head };
  reach(one, i);
  explain();
  one.tokens[i].scrollIntoView({ block: "nearest" });
};

// The weight on each earlier token: of one head, or the mean of all.
const lookedAt = ({ weights }, head) => {
  if (head) return weights[head[0]][head[1]];
  const all = weights.flat();
  if (!all.length) return []; // a model without layers
  return all[0].map((_, k) => all.reduce((sum, one) => sum + one[k], 0) / all.length);
};

const tint = (head) => {
  for (const one of [story, twin]) {
    if (!one?.ids.length) continue;
    const here = asked?.story === one;
    one.text.classList.toggle("asked", here);
    const weights = here ? lookedAt(one.seen[asked.i - 1], head) : [];
    const most = Math.max(...weights);
    one.tokens.forEach((token, k) => {
      token.style.setProperty("--looked", k < weights.length ? weights[k] / most : 0);
      token.classList.toggle("chosen", here && k === asked.i);
      token.classList.toggle("query", here && k === asked.i - 1);
    });
    one.tokens[0].textContent = "start ";
    one.tokens[0].hidden = !here || weights[0] / most < 0.1;
  }
};

const explain = () => {
  if (asked && asked.i >= asked.story.ids.length) asked = null;
  place("panel").hidden = !asked;
  tint(asked?.head);
  if (!asked) return;
  const focus = document.activeElement?.id;
  const bits = asked.story.surprises[asked.i];
  place("word").textContent = shown(asked.story.ids[asked.i]);
  place("surprise").textContent =
    `The model gave it ${percent(2 ** -bits)}: ${bits.toFixed(1)} bits of surprise.`;
  candidates();
  lens();
  heads();
  place(focus)?.focus({ preventScroll: true });
};

// What else was likely. The outline is the model, the filling what the dials make of it.
const candidates = () => {
  const { story: one, i } = asked;
  const { logits } = one.seen[i - 1];
  const chances = softmax(logits);
  const { ids } = distribution(logits, { temperature: 1, topK: 8, topP: 1 });
  if (!ids.includes(one.ids[i])) ids.splice(-1, 1, one.ids[i]);
  const drawn = distribution(logits, dials);
  const list = emptied("likely");
  for (const id of ids) {
    const now = id === one.ids[i];
    const button = make(make(list, "li"), "button", { id: `road-${id}`, "aria-pressed": now });
    line(button, shown(id, one.ids[i - 1]), chances[id], drawn.chances[drawn.ids.indexOf(id)]);
    button.onclick = () => take(id);
  }
};

// A word, its bar and its number.
const line = (parent, word, chance, drawn = 0) => {
  make(parent, "span", { class: "word" }, word);
  const bar = make(parent, "span", { class: "bar" });
  bar.style.setProperty("--model", chance);
  bar.style.setProperty("--drawn", drawn);
  make(parent, "span", { class: "number" }, percent(chance));
};

const take = (id) => {
  const { story: one, i } = asked;
  if (id === one.ids[i]) return;
  one.given(id === data.endId ? [] : [id], i);
  if (id === data.endId) return close();
  one.write();
  explain();
};

// The logit lens: the output matrix reads the stream after each layer.
const lens = () => {
  const { story: one, i } = asked;
  const table = emptied("lens");
  one.seen[i - 1].streams.forEach((stream, layer) => {
    const row = make(table, "tr");
    make(row, "th", { scope: "row" }, `layer ${layer}`);
    const logits = model.read(stream);
    const chances = softmax(logits);
    const best = distribution(logits, { temperature: 1, topK: 2, topP: 1 });
    for (const id of best.ids) {
      const cell = make(row, "td", {}, shown(id));
      cell.classList.toggle("same", id === one.ids[i]);
      make(cell, "small", {}, ` ${percent(chances[id])}`);
    }
  });
};

const offerSilence = (head, silenced) => {
  const button = place("silence");
  const key = head?.join(".");
  button.disabled = !head;
  if (!head) button.textContent = "Choose a head to silence it";
  else if (silenced.has(key)) button.textContent = `Let ${headName(head)} speak again`;
  else button.textContent = `Silence ${headName(head)} and write the story again`;
  button.onclick = () => {
    const next = new Set(silenced);
    if (!next.delete(key)) next.add(key);
    silence(next);
    explain();
    place("stories").scrollIntoView({ block: "nearest" });
  };
};

// What it looked at, layer by layer, head by head.
const heads = () => {
  const { story: one, i } = asked;
  const { weights } = one.seen[i - 1];
  const silenced = twin?.silenced ?? new Set();
  const before = i > 1 ? `“${shown(one.ids[i - 1])}”` : "the start";
  place("before").textContent =
    `Each head looked back from ${before} and is labeled with the word it looked at most.`;
  offerSilence(asked.head, silenced);
  const parent = emptied("heads");
  weights.forEach((layer, l) => {
    const row = make(parent, "div", { class: "layer", role: "group" });
    row.setAttribute("aria-label", `layer ${l}`);
    make(row, "span", { class: "name" }, `layer ${l}`);
    layer.forEach((shares, h) => {
      const most = shares.indexOf(Math.max(...shares));
      const chosen = asked.head?.[0] === l && asked.head?.[1] === h;
      const button = make(row, "button", { id: `head-${l}-${h}`, "aria-pressed": chosen });
      const word = most ? shown(one.ids[most]) : "start";
      make(button, "span", {}, silenced.has(`${l}.${h}`) ? `${word} (silent)` : word);
      make(button, "small", {}, percent(shares[most]));
      button.setAttribute("aria-label", `${headName([l, h])}: ${button.innerText}`);
      button.style.setProperty("--looked", shares[most]);
      button.onmouseenter = () => tint([l, h]);
      button.onmouseleave = () => tint(asked?.head);
      button.onclick = () => {
        asked.head = chosen ? null : [l, h];
        explain();
      };
    });
  });
};

// --- the controls ----------------------------------------------------------------------

const storyOf = (node) => [story, twin].find((one) => one?.text === node.closest(".story"));
place("stories").onclick = ({ target }) => {
  if (target.dataset.i > 0) ask(storyOf(target), +target.dataset.i);
};
place("stories").onkeydown = (event) => {
  const { target, key } = event;
  const step = { ArrowLeft: -1, ArrowRight: 1, Enter: 0, " ": 0 }[key];
  const one = storyOf(target);
  const i = +target.dataset.i + step;
  if (step === undefined || !one || i < 1 || i >= one.ids.length) return;
  event.preventDefault();
  reach(one, i);
  one.tokens[i].focus();
  if (asked || !step) ask(one, i);
};
place("shut").onclick = () => {
  const token = asked.story.tokens[asked.i];
  close();
  token.focus();
};
document.onkeydown = ({ key }) => {
  if (key === "Escape" && asked) place("shut").click();
};

const COUNTS = [1, 2, 4, 8, 16, 32, 64, 128, Infinity];
const turn = () => {
  const vocabulary = data.config.vocab_size;
  dials.temperature = +place("temperature").value;
  dials.topK = Math.min(COUNTS[place("topK").value], vocabulary);
  dials.topP = +place("topP").value;
  const now = {
    temperature: dials.temperature.toFixed(2),
    topK: dials.topK === vocabulary ? "all" : dials.topK,
    topP: dials.topP.toFixed(2),
  };
  for (const dial in now) {
    place(`${dial}-now`).textContent = now[dial];
    place(dial).setAttribute("aria-valuetext", now[dial]);
  }
};
for (const dial of ["temperature", "topK", "topP"])
  place(dial).oninput = () => {
    turn();
    rewrite();
  };
place("again").onclick = () => {
  dials.seed += 1;
  rewrite();
};
// No form: a frame without allow-forms, as JupyterLab's is, would not submit it.
place("write").onclick = () => begin();
place("opening").onkeydown = (event) => {
  if (event.key === "Enter" && !event.isComposing) begin();
};

// What the field for the opening says.
const invite = () => {
  const hero = heroOf(data.opening);
  place("opening").placeholder = hero ? hero[1] : data.opening;
  place("question").textContent = hero
    ? "Who is it about? Or write how it begins" : "How does the story begin?";
};
