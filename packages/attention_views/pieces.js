// Small pieces to play with: a few numbers, some sliders, a picture that follows.
const slider = (bar, name, range, value, changed, shown = (number) => number) => {
  const label = make(bar, "label", { class: "slider" }, name);
  const [min, max, step] = range;
  const input = make(label, "input", { type: "range", min, max, step, value });
  const number = make(label, "span", {}, shown(value));
  const set = (wanted) => {
    input.value = wanted;
    number.textContent = shown(+input.value);
    input.setAttribute("aria-valuetext", number.textContent);
    changed(+input.value);
  };
  input.oninput = () => set(input.value);
  return set;
};
const softmax = (scores) => {
  const most = Math.max(...scores);
  const parts = scores.map((score) => Math.exp(score - most));
  const sum = parts.reduce((a, b) => a + b);
  return parts.map((part) => part / sum);
};
const bars = (table, rows) => {
  table.className = "bars";
  table.replaceChildren();
  for (const [name, share, kept] of rows) {
    const line = make(table, "tr", { class: kept ? "" : "cut" });
    make(make(line, "th", { scope: "row" }), "bdi", {}, visible(name));
    const cell = make(line, "td");
    make(cell, "i", { style: `--share: ${share.toFixed(4)}` });
    make(cell, "span", {}, kept ? share.toFixed(3) : "cut");
  }
};
const arrow = (svg, kind, angle, length) => make(svg, "path", {
  class: kind, d: `M0 0H${length.toFixed(2)}m-9 -6l9 6l-9 6`,
  transform: `rotate(${(-angle * 180 / Math.PI).toFixed(2)})`,
});
const plane = (parent, name) => make(parent, "svg", {
  class: "plane", width: 300, height: 300, viewBox: "-150 -150 300 300", role: "img", "aria-label": name,
});
// The bill of a training run; `course_utils.views` says where its rules come from.
const bill = ({ parameters, tokens, gpus, price, sharded, recompute }, { peak, share, held }) => {
  const width = Math.cbrt(parameters * 128 / 12), layers = width / 128;
  const hours = (recompute ? 8 : 6) * parameters * tokens / (gpus * peak * share) / 3600;
  const kept = parameters / (sharded ? gpus : 1) / 1e9;
  return {
    days: hours / 24, dollars: hours * gpus * price,
    weights: 4 * kept, gradients: 4 * kept, averages: 8 * kept,
    activations: (recompute ? 2 : 34) * held * width * layers / 1e9,
  };
};
const pieces = {
  // What a training run costs: a bar of memory on each GPU against its line, days, dollars.
  bill: (data, bar, said, side) => {
    const now = { ...data.presets[data.first][1], sharded: false, recompute: false };
    const unit = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"], [1, ""]];
    const round = (x) => x >= 100 ? Math.round(x).toLocaleString("en") : String(+x.toPrecision(2));
    const big = (x) => {
      const [one, sign] = unit.find(([one]) => x >= one) ?? [1, ""];
      return round(x / one) + sign;
    };
    const parts = ["weights", "gradients", "averages", "activations"];
    const draw = () => {
      const sums = bill(now, data);
      const total = parts.reduce((sum, part) => sum + sums[part], 0);
      const across = 560 / Math.max(total, 1.25 * data.memory);
      side.replaceChildren();
      const svg = make(side, "svg", { class: "memory", viewBox: "0 0 600 92", role: "img",
        "aria-label": `${round(total)} GB on each GPU, which has ${data.memory}` });
      let from = 20;
      for (const part of parts) {
        const width = sums[part] * across;
        make(svg, "rect", { class: part, x: from, y: 30, width, height: 40 });
        from += width;
      }
      const line = 20 + data.memory * across;
      make(svg, "path", { class: "line", d: `M${line} 20V80` });
      make(svg, "text", { x: line, y: 14 }, `${data.memory} GB`);
      const list = make(side, "div", { class: "parts" });
      for (const part of parts) make(list, "span", { class: part }, `${part} ${round(sums[part])} GB`);
      said.textContent = `${big(sums.days * now.gpus * 24)} GPU hours: ${round(sums.days)} days and ` +
        `$${big(sums.dollars)}. Each GPU needs ${round(total)} GB: ` +
        `${total > data.memory ? "too much" : "it fits"}.`;
    };
    const change = (name, power) => (value) => {
      const full = power ? 10 ** value : value;
      now[name] = name === "gpus" ? Math.round(full) : full;
      draw();
    };
    const shown = (value) => big(10 ** value);
    const set = {};
    choice(bar, "model", data.presets.map(([name]) => name), data.first, (i) => {
      for (const [name, value] of Object.entries(data.presets[i][1])) {
        set[name](name === "price" ? value : Math.log10(value));
        now[name] = value;
      }
      draw();
    });
    for (const [name, low, high] of [["parameters", 6, 12.5], ["tokens", 6, 14], ["gpus", 0, 5]])
      set[name] = slider(bar, name === "gpus" ? "GPUs" : name, [low, high, "any"],
        Math.log10(now[name]), change(name, true), shown);
    set.price = slider(bar, "$/hour", [0.5, 10, 0.1], now.price, change("price"));
    choice(bar, "each GPU holds", ["a copy", "its part"], 0, (i) => change("sharded")(i === 1));
    choice(bar, "activations", ["kept", "computed again"], 0, (i) => change("recompute")(i === 1));
    draw();
  },
  // Temperature, then top-k, then top-p, on the scores of the next token.
  sampling: (data, bar, said, side) => {
    const now = { temperature: 1, k: 50, p: 1 };
    const scores = data.scores.map((score) => score / 100);
    const table = make(side, "table");
    const draw = () => {
      const shares = softmax(scores.map((score) => score / now.temperature));
      let kept = 0, mass = 0;
      while (kept < shares.length && (now.k > 49 || kept < now.k) && mass < now.p)
        mass += shares[kept++];
      bars(table, data.tokens.map((token, i) =>
        [token, i < kept ? shares[i] / mass : shares[i], i < kept]));
      said.textContent = `${kept} of ${shares.length} tokens stay; before the cut they ` +
        `had ${mass.toFixed(3)} of the probability.`;
    };
    const change = (name) => (value) => { now[name] = value; draw(); };
    const two = (value) => value.toFixed(2);
    slider(bar, "temperature", [0.1, 2, 0.05], 1, change("temperature"), two);
    slider(bar, "top-k", [1, 50, 1], 50, change("k"), (k) => k > 49 ? "all" : k);
    slider(bar, "top-p", [0.05, 1, 0.05], 1, change("p"), two);
    draw();
  },
  // A dial a pair: the hands of query and key turn with their positions, and the score
  // adds up the cosines between them. A query that looks `back` is turned back by so much.
  rotation: (data, bar, said, side) => {
    const now = { position: data.position, distance: data.distance, pairs: data.pairs };
    const [wide, tall, last] = [640, 190, 63];
    const across = (distance) => 14 + distance * (wide - 28) / last;
    const dials = make(side, "div", { class: "dials" });
    const name = "the score of each distance: the sum of the cosines";
    const score = make(side, "svg", {
      class: "score", viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": name,
    });
    const ends = make(side, "div", { class: "ends" });
    for (const text of ["0", "score against distance", last]) make(ends, "span", {}, text);
    const curve = (svg, kind, height) => make(svg, "path", { class: kind, d: "M" +
      Array.from({ length: 6 * last + 1 }, (_, i) =>
        `${across(i / 6).toFixed(1)} ${height(i / 6).toFixed(1)}`).join("L") });
    const dial = (speed, i) => {
      const one = make(dials, "div");
      const turn = 2 * Math.PI / speed;
      const words = turn < 100 ? turn.toFixed(1) : Math.round(turn).toLocaleString("en");
      const face = make(one, "svg", {
        viewBox: "-62 -62 124 124", role: "img", "aria-label": `pair ${i}`,
      });
      make(face, "circle", { r: 58 });
      for (let tick = 0; tick < 12; tick++)
        make(face, "path", { class: "tick", d: "M0 -56v8", transform: `rotate(${30 * tick})` });
      const angle = (steps) => Math.PI / 2 - steps * speed;
      arrow(face, "key", angle(now.position - now.distance), 52);
      arrow(face, "query", angle(now.position - data.back), 36);
      make(one, "strong", {}, `pair ${i}`);
      make(one, "span", {}, `a turn every ${words} words`);
      const height = (distance) => 80 - 60 * Math.cos(speed * (distance - data.back));
      const wave = make(one, "svg", { class: "wave", viewBox: `0 0 ${wide} 160`,
        role: "img", "aria-label": `the cosine of pair ${i} at each distance` });
      curve(wave, "line", height);
      make(wave, "circle", { class: "now", r: 34, cx: across(now.distance), cy: height(now.distance) });
    };
    const draw = () => {
      const speeds = Array.from({ length: now.pairs }, (_, i) => data.base ** (-i / now.pairs));
      const total = (distance) => speeds.reduce((sum, speed) =>
        sum + Math.cos(speed * (distance - data.back)), 0);
      const distances = [...Array(last + 1).keys()];
      const lowest = Math.min(...distances.map(total));
      const height = (distance) =>
        tall - 14 - (tall - 60) * (total(distance) - lowest) / (now.pairs - lowest);
      const ghosts = distances.filter((distance) =>
        distance !== data.back && total(distance) > now.pairs - 1 &&
        total(distance) > Math.max(total(distance - 1), total(distance + 1)));
      dials.replaceChildren();
      speeds.forEach(dial);
      score.replaceChildren();
      curve(score, "line", height);
      for (const distance of [data.back, ...ghosts]) {
        const at = { class: ghosts.includes(distance) ? "ghost" : "peak", r: 9,
          cx: across(distance), cy: height(distance) };
        make(score, "circle", at);
        make(score, "text", { x: at.cx, y: at.cy - 16 }, distance);
      }
      const at = across(now.distance);
      make(score, "path", { class: "tick", d: `M${at} 0V${tall}` });
      make(score, "circle", { class: "now", r: 7, cx: at, cy: height(now.distance) });
      said.textContent = `From any position, the key ${now.distance} back scores ` +
        `${total(now.distance).toFixed(2)} of ${now.pairs}. ` +
        (ghosts.length ? `Ghosts of ${data.back}: ${ghosts.join(", ")}.` : "No ghost.");
    };
    const change = (name) => (value) => { now[name] = value; draw(); };
    slider(bar, "position", [0, 200, 1], now.position, change("position"));
    const setDistance =
      slider(bar, "distance", [0, last, 1], now.distance, change("distance"));
    slider(bar, "pairs", [1, 8, 1], now.pairs, change("pairs"));
    score.onclick = score.onpointermove = (event) => {
      if (!event.buttons && event.type !== "click") return; // a swipe scrolls
      const box = score.getBoundingClientRect();
      setDistance(Math.round((event.clientX - box.left) / box.width * last));
    };
    draw();
  },
  // A query to turn and stretch among fixed keys, by the mouse or by the sliders.
  query: (data, bar, said, side) => {
    const now = { angle: 40, length: 1 }, longest = 4;
    const unit = 140 / longest; // pixels
    const svg = plane(side, "blue: the query; orange: the keys");
    const table = make(side, "table");
    const draw = () => {
      const turn = now.angle * Math.PI / 180;
      const scores = data.keys.map(([x, y]) =>
        now.length * (Math.cos(turn) * x + Math.sin(turn) * y));
      svg.replaceChildren();
      data.keys.forEach(([x, y], i) => {
        arrow(svg, "key", Math.atan2(y, x), unit * Math.hypot(x, y));
        const far = unit + 24 / Math.hypot(x, y);
        make(svg, "text", { x: far * x, y: 4 - far * y }, short(data.names[i], 12));
      });
      arrow(svg, "query", turn, unit * now.length);
      const shares = softmax(scores), best = shares.indexOf(Math.max(...shares));
      bars(table, shares.map((share, i) => [data.names[i], share, true]));
      said.textContent = `${quoted(data.names[best])} gets ${shares[best].toFixed(2)}.`;
    };
    const change = (name) => (value) => { now[name] = value; draw(); };
    const degrees = (angle) => angle + "°";
    const setAngle = slider(bar, "angle", [-180, 180, 1], 40, change("angle"), degrees);
    const setLength = slider(bar, "length", [0, longest, 0.05], 1, change("length"));
    svg.onclick = svg.onpointermove = (event) => {
      if (!event.buttons && event.type !== "click") return;
      const box = svg.getBoundingClientRect();
      const x = event.clientX - box.left - 150, y = 150 - (event.clientY - box.top);
      setAngle(Math.round(Math.atan2(y, x) * 180 / Math.PI));
      setLength(Math.hypot(x, y) / unit);
    };
    draw();
  },
};
views.pieces = (root, data) => {
  make(root, "p", { class: "title" }, data.title);
  const bar = make(root, "div", { class: "bar" });
  const said = make(root, "p", { role: "status" });
  pieces[data.piece](data, bar, said, make(root, "div", { class: "side" }));
};
