// Attention of a whole model: the text as chips, one map large, all maps small. With two
// recordings each can be seen, and what changed from the first to the second.
// A level is a weight or a change, times 240; HIDDEN where a weight is exactly 0.
const HIDDEN = -999, NONE = { q: -1, k: -1 };
const WEIGHT = [SEQUENTIAL, "1d1b22 5a2346 a94f84 e39ac4 fff0f8"];
const CHANGE = ["053f7a 4393c3 ffffff e07a5f 8f1d14", "a9d8f5 3f87b8 1d1b22 c4573f ffc4b0"];

// Level -> color, on light or on dark; none for HIDDEN. Faint ones are lifted, as the scale shows.
const coloring = (change, dark) => {
  const color = ramp((change ? CHANGE : WEIGHT)[dark]);
  const colors = Array.from({ length: 481 }, (_, i) => {
    const lifted = Math.sign(i - 240) * Math.abs(i / 240 - 1) ** 0.6;
    return color(change ? (lifted + 1) / 2 : Math.max(lifted, 0));
  });
  return (level) => colors[level + 240];
};
// The links of a query or a key, or all: [query, key, level], strongest first.
const links = (levels, columns, { q, k }) => {
  const found = [];
  levels.forEach((level, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    const asked = (q < 0 || q === row) && (k < 0 || k === column);
    if (asked && level && level !== HIDDEN) found.push([row, column, level]);
  });
  return found.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
};
// The strongest link of a query that has a choice.
const strongest = (levels, columns) => {
  const all = links(levels, columns, NONE), count = {};
  for (const [q] of all) count[q] = (count[q] || 0) + 1;
  return all.find(([q]) => count[q] > 1) || all[0];
};
const amount = (level) => level < 2 ? "<0.01" : (level / 240).toFixed(2);
const weight = (level) => level === HIDDEN ? "0" : amount(level);
const signed = (level) => {
  if (!level || level === HIDDEN) return "0";
  return (level > 0 ? "+" : "−") + amount(Math.abs(level));
};

class Explorer {
  constructor(root, data, codes) {
    Object.assign(this, { root, data, codes });
    [this.place, this.layer, this.head] = data.at;
    this.sides = [...(data.names || ["weight"])];
    if (data.names) this.sides.push("change");
    this.side = this.sides.length - 1;
    make(root, "p", { class: "title" }, data.title);
    this.bar = make(root, "div", { class: "bar" });
    this.text = make(root, "div", { class: "text" });
    this.said = make(root, "p", { role: "status" });
    const body = make(root, "div", { class: "side" });
    this.map = make(body, "div", { class: "map" });
    this.wall = make(body, "div", { class: "wall" });
    const more = make(root, "details");
    make(more, "summary", {}, "The strongest links as a table");
    this.table = make(more, "table");
    root.onkeyup = (event) => { if (event.key === "Escape") this.pin(NONE); };
    onTheme(root, () => this.paint());
    this.build();
  }
  // --- what is shown ---
  get change() { return this.sides[this.side] === "change"; }
  levelsOf(layer, head, side = this.side) {
    const { rows, columns, heads, part } = this, size = rows * columns;
    const first = (layer * heads + head) * size, all = part.layers.length * heads * size;
    const of = (one) => this.codes[this.place].subarray(one * all + first).subarray(0, size);
    if (this.sides[side] !== "change")
      return Int16Array.from(of(side), (code) => code ? code - 1 : HIDDEN);
    const [before, after] = [of(0), of(1)], level = (code) => Math.max(code - 1, 0);
    return Int16Array.from(before, (code, i) =>
      code || after[i] ? level(after[i]) - level(code) : HIDDEN);
  }
  number(level) { return this.change ? signed(level) : weight(level); }
  link(q, k) { return `${quoted(this.queries[q])} → ${quoted(this.keys[k])}`; }
  // For each recording, and for the change: its name and its number, of one cell.
  numbers(q, k) {
    return this.sides.map((name, side) => [name, (name === "change" ? signed : weight)(
      this.levelsOf(this.layer, this.head, side)[q * this.columns + k])]);
  }
  sentence({ q, k }) {
    if (q < 0 && k < 0) return "Point at a word to see where it looks.";
    if (q >= 0 && k >= 0)
      return `${this.link(q, k)}: ${this.numbers(q, k).map((one) => one.join(" ")).join(", ")}`;
    const best = links(this.levels, this.columns, { q, k }).slice(0, 4);
    const named = best.map(([row, column, level]) =>
      `${quoted(q < 0 ? this.queries[row] : this.keys[column])} ${this.number(level)}`);
    const who = q < 0 ? `${quoted(this.keys[k])} is looked at by ` : `${quoted(this.queries[q])} looks at `;
    return who + (named.join(", ") || (this.change ? "the same words, with no change" : "nothing"));
  }
  // --- building: once for each part ---
  build() {
    this.part = this.data.parts[this.place];
    [, this.heads, this.rows, this.columns] = this.part.shape;
    [this.queries, this.keys] = this.part.tokens.map((side) => this.data.tokens[side]);
    this.pinned = this.hovered = this.back = null;
    this.inside = this.root.clientWidth - 44;
    this.alone = this.part.tokens[0] === this.part.tokens[1];
    for (const area of [this.text, this.map, this.wall]) area.replaceChildren();
    this.buildBar();
    this.buildText();
    this.buildMap();
    this.buildWall();
    this.paint();
  }
  buildBar() {
    const focused = this.bar.contains(document.activeElement);
    this.bar.replaceChildren();
    const { parts } = this.data;
    if (parts[1])
      choice(this.bar, "Attention", parts.map((one) => one.name), this.place, (place) => {
        Object.assign(this, { place, layer: 0, head: 0 });
        this.build();
      });
    if (focused) this.bar.querySelector(":checked").focus();
    if (this.data.names)
      choice(this.bar, "Recording", this.sides, this.side, (side) => {
        this.side = side;
        this.paint();
      });
    if (this.alone)
      choice(this.bar, "Direction", ["looks at", "is looked at by"], +this.back, (back) => {
        this.back = Boolean(back);
        const { q, k } = this.pinned;
        this.pin({ q: k, k: q });
      });
  }
  buildText() {
    const row = (name, list, axis) => {
      const group = make(this.text, "div", { class: "chips", role: "group", "aria-label": name });
      if (!this.alone) make(group, "span", { class: "label" }, name);
      const chips = list.map((token, i) => {
        const chip = make(group, "button", { class: /^[\sĠ▁]/.test(token) ? "chip word" : "chip" });
        make(chip, "bdi", {}, visible(token).replace(/^ +/, ""));
        make(chip, "small");
        const mine = () => ({ ...NONE, [axis()]: i });
        chip.onclick = chip.onfocus = () => this.pin(mine());
        chip.onpointerenter = () => this.hover(mine());
        return chip;
      });
      group.onpointerleave = () => this.hover(null);
      roving(chips, { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 });
      return chips;
    };
    this.text.classList.toggle("many", this.rows + this.columns > 120);
    if (this.alone) {
      this.chips = { q: row("text", this.keys, () => this.back ? "k" : "q") };
      this.chips.k = this.chips.q;
    } else {
      const q = row("target: looks", this.queries, () => "q");
      this.chips = { q, k: row("source: is looked at", this.keys, () => "k") };
    }
  }
  buildMap() {
    const { rows, columns, map } = this, most = Math.max(rows, columns);
    const names = [this.queries, this.keys].map((side) => side.map((token) => short(token, 10)));
    const margin = this.margin = 34 + 7 * Math.max(...names.flat().map((name) => name.length));
    const room = Math.min(this.inside, most > 30 ? 560 : 400) - margin;
    const size = this.size = Math.min(26, room / most);
    const [width, height] = [margin + columns * size, margin + rows * size];
    this.name = make(map, "p", { class: "label" });
    const grid = make(map, "div", { class: "grid", style: `width: ${width}px` });
    this.canvas = make(grid, "canvas", { style: `left: ${100 * margin / width}%; ` +
      `top: ${100 * margin / height}%; width: ${100 - 100 * margin / width}%` });
    const svg = make(grid, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": "The map: rows are queries, columns are keys" });
    const label = (x, y, turn, words, at = {}) => make(svg, "text",
      { transform: `translate(${x} ${y}) rotate(${turn})`, ...at }, words);
    const middle = (count) => margin + count * size / 2, step = Math.ceil(13 / size);
    label(middle(columns), 10, 0, "key position", { class: "axis" });
    label(10, middle(rows), -90, "query position", { class: "axis" });
    const at = (i) => margin + (i + 0.5) * size;
    names[0].forEach((name, i) => i % step ||
      label(margin - 6, at(i) + 4, 0, name, { "text-anchor": "end" }));
    names[1].forEach((name, i) => i % step || label(at(i) + 4, margin - 6, -90, name));
    this.frames = {
      q: make(svg, "rect", { x: margin - 1, width: columns * size + 2, height: size + 2 }),
      k: make(svg, "rect", { y: margin - 1, width: size + 2, height: rows * size + 2 }),
    };
    const cell = (event) => {
      const box = this.canvas.getBoundingClientRect();
      const place = (part, count) => Math.max(0, Math.min(count - 1, Math.floor(part * count)));
      return {
        q: place((event.clientY - box.top) / box.height, rows),
        k: place((event.clientX - box.left) / box.width, columns),
      };
    };
    svg.onpointermove = (event) => this.hover(cell(event));
    svg.onclick = (event) => this.pin(cell(event));
    svg.onpointerleave = () => this.hover(null);
    this.scale = make(map, "div", { class: "scale" });
  }
  buildWall() {
    const { wall, heads, part } = this;
    make(wall, "p", { class: "label" }, "All layers (down) and heads (across)");
    const grid = make(wall, "div", { class: "scroll" });
    grid.style.cssText = `grid-template-columns: repeat(${heads}, max-content); ` +
      `--thumb: ${Math.max(44, Math.min(84, this.inside / heads - 15))}px`;
    this.thumbs = part.layers.flatMap((name, layer) => [...Array(heads).keys()].map((head) => {
      const thumb = make(grid, "button", { "aria-label": `layer ${name}, head ${head}` });
      Object.assign(thumb, { layer, head });
      make(thumb, "canvas");
      make(thumb, "span", {}, `L${name} H${head}`);
      thumb.onclick = () => { Object.assign(this, { layer, head }); this.choose(); };
      thumb.onpointerenter = thumb.onfocus = () => this.tell(thumb);
      thumb.onpointerleave = thumb.onblur = () => this.draw();
      return thumb;
    }));
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads };
    roving(this.thumbs, steps, this.layer * heads + this.head);
  }
  // --- drawing: after a change of theme or recording, of the head, of the focus ---
  paint() {
    this.color = coloring(this.change, 0); // dark is much, on a dark page, too
    this.glow = coloring(this.change, +isDark(this.root));
    for (const { layer, head, firstChild } of this.thumbs)
      paint(firstChild, this.levelsOf(layer, head), this.columns, this.color);
    this.drawScale();
    this.choose();
  }
  drawScale() {
    const { scale, change } = this, ends = change ? [-240, 0, 240] : [0, 120, 240];
    scale.replaceChildren();
    const title = change ? `change of the weight: ${this.sides[1]} − ${this.sides[0]}` : "attention weight";
    make(scale, "span", {}, title);
    const bar = make(scale, "i");
    const stops = Array.from({ length: 25 }, (_, i) => ends[0] + i * (240 - ends[0]) / 24);
    bar.style.background = `linear-gradient(to right, ${stops.map((stop) => css(this.color(stop)))})`;
    const ticks = make(scale, "small");
    for (const end of change ? ["−1", "0", "+1"] : ["0", "0.5", "1"]) make(ticks, "span", {}, end);
    if (this.codes[this.place].includes(0)) make(scale, "span", { class: "hatched" }, "hidden");
  }
  choose() {
    this.levels = this.levelsOf(this.layer, this.head);
    paint(this.canvas, this.levels, this.columns, this.color);
    const label = `layer ${this.part.layers[this.layer]}, head ${this.head}`;
    this.name.textContent = label[0].toUpperCase() + label.slice(1);
    for (const thumb of this.thumbs)
      thumb.setAttribute("aria-pressed", thumb.layer === this.layer && thumb.head === this.head);
    this.pinned ??= { ...NONE, q: (strongest(this.levels, this.columns) || [-1])[0] };
    this.drawTable();
    this.draw();
  }
  drawTable() {
    this.table.replaceChildren();
    const row = (cells, tag, line = make(this.table, "tr")) =>
      cells.forEach((cell) => make(make(line, tag), "bdi", {}, cell));
    row(["query", "key", ...this.sides], "th");
    for (const [q, k] of links(this.levels, this.columns, NONE).slice(0, 12))
      row([`${q} ${quoted(this.queries[q])}`, `${k} ${quoted(this.keys[k])}`,
        ...this.numbers(q, k).map(([, number]) => number)], "td");
  }
  hover(focus) { this.hovered = focus; this.draw(); }
  pin(focus) { this.hovered = null; this.pinned = focus; this.draw(); }
  tell({ layer, head }) {
    const best = strongest(this.levelsOf(layer, head), this.columns);
    this.said.textContent = `Layer ${this.part.layers[layer]}, head ${head}: ` + (best
      ? `its strongest ${this.change ? "change" : "link"} is ${this.link(...best)}, ${this.number(best[2])}`
      : "nothing changed");
  }
  draw() {
    const { q, k } = this.hovered || this.pinned, { chips, columns, frames, levels } = this;
    for (const chip of [...chips.q, ...chips.k]) this.dress(chip, NaN);
    if (q >= 0) chips.k.forEach((chip, j) => this.dress(chip, levels[q * columns + j]));
    else if (k >= 0) chips.q.forEach((chip, i) => this.dress(chip, levels[i * columns + k]));
    chips.q[q]?.classList.add("chosen");
    chips.k[k]?.classList.add("chosen");
    frames.q.setAttribute("y", this.margin - 1 + q * this.size);
    frames.k.setAttribute("x", this.margin - 1 + k * this.size);
    frames.q.style.display = q < 0 ? "none" : "";
    frames.k.style.display = k < 0 ? "none" : "";
    this.said.textContent = this.sentence({ q, k });
  }
  // A chip without a level is bare; from 0.02 on it glows and has its number.
  dress(chip, level) {
    const glows = level !== HIDDEN && Math.abs(level) >= 4.8;
    const color = glows && this.glow(level);
    chip.classList.remove("chosen");
    chip.classList.toggle("hidden", level === HIDDEN);
    chip.firstChild.style.background = glows ? css(color) : "";
    chip.firstChild.style.color = glows ? readable(color) : "";
    chip.lastChild.textContent = glows ? this.number(level) : "";
  }
}
views.explorer = async (root, data) => {
  const codes = await Promise.all(data.parts.map((part) => inflate(part.map)));
  new Explorer(root, data, codes);
};
