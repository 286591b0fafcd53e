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
  width: 300, height: 300, viewBox: "-150 -150 300 300", role: "img", "aria-label": name,
});
const pieces = {
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
  // A pair of columns is drawn as a hand that starts at the top; a shift turns it, anywhere.
  rotation: (data, bar, said, side) => {
    const now = { pair: 1, position: 3, shift: 4 };
    const svg = plane(side, "blue: the position; orange: the shifted position");
    const draw = () => {
      const frequency = data.base ** (-2 * now.pair / data.width);
      const angle = (steps) => Math.PI / 2 - steps * frequency;
      svg.replaceChildren();
      arrow(svg, "query", angle(now.position), 120);
      arrow(svg, "key", angle(now.position + now.shift), 120);
      const degrees = (steps) => (steps * frequency * 180 / Math.PI).toFixed(1) + "°";
      said.textContent = `Frequency ${frequency.toPrecision(3)}: at position ${now.position} ` +
        `the pair has turned by ${degrees(now.position)}; the shift turns it on by ` +
        `${degrees(now.shift)}, from any position.`;
    };
    const change = (name) => (value) => { now[name] = value; draw(); };
    slider(bar, "pair", [0, data.width / 2 - 1, 1], 1, change("pair"));
    slider(bar, "position", [0, 60, 1], 3, change("position"));
    slider(bar, "shift", [-20, 20, 1], 4, change("shift"));
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
    svg.onpointerdown = svg.onpointermove = (event) => {
      if (!event.buttons) return;
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
