// One query against every key: element by element, to a score, to a weight.
const start = async (root, data) => {
  const [layers, heads, count, width] = data.shape;
  const now = { layer: data.at[0], head: data.at[1], query: data.at[2] };
  const stored = [data.queries, data.keys, data.weights];
  const [queries, keys, weights] = await Promise.all(stored.map(inflate));
  make(root, "p", { class: "title" }, data.title);
  const bar = make(root, "div", { class: "bar" });
  const said = make(root, "p", { role: "status" });
  const scroll = make(root, "div", { class: "scroll", tabindex: 0, role: "group" });
  scroll.setAttribute("aria-label", "element by element");
  const table = make(scroll, "table", { class: "neurons" });
  make(root, "p", {}, "Purple: above 0, gray: below 0; the fuller, the farther from 0. " +
    "score = sum of query × key" + data.scale + ", weight = softmax of the scores.");
  const map = () => now.layer * heads + now.head;
  const vector = (codes, at) => {
    const first = (map() * count + at) * width;
    return [...codes.subarray(first, first + width)].map((code) => (code - 120) / 120);
  };
  const cells = (line, values, name) => {
    const cell = make(line, "td");
    const box = make(cell, "div", { class: "cells", role: "img", "aria-label": name });
    const most = Math.max(...values.map(Math.abs)) || 1;
    values.forEach((value, i) => {
      const one = make(box, "i", { title: `${i}: ${(value / most).toFixed(2)}` });
      one.style.opacity = Math.abs(value / most).toFixed(2);
      one.className = value > 0 ? "plus" : "";
    });
  };
  const draw = () => {
    table.replaceChildren();
    const query = vector(queries, now.query);
    const head = make(table, "tr");
    for (const name of ["key", "query", "key", "query × key", "score", "weight"])
      make(head, "th", { scope: "col" }, name);
    let best = [0, 0];
    data.tokens.forEach((token, k) => {
      const line = make(table, "tr"), key = vector(keys, k);
      const place = (map() * count + now.query) * count + k;
      const score = data.scores[place] / 100, code = weights[place];
      if (code > best[0]) best = [code, k];
      make(make(line, "th", { scope: "row" }), "bdi", {}, visible(token));
      cells(line, query, "query");
      cells(line, key, "key");
      cells(line, query.map((value, i) => value * key[i]), "query times key");
      make(line, "td", {}, code ? score.toFixed(2) : "hidden");
      const weight = make(line, "td", {}, written(code));
      weight.style.background =
        `rgb(184 84 140 / ${(0.6 * weightOf(code)).toFixed(2)})`;
    });
    said.textContent = `${quoted(data.tokens[now.query])} looks most at ` +
      `${quoted(data.tokens[best[1]])}, weight ${written(best[0])}`;
  };
  const change = (name) => (value) => { now[name] = value; draw(); };
  const numbers = (n) => [...Array(n).keys()];
  choice(bar, "Layer", data.layers, now.layer, change("layer"));
  choice(bar, "Head", numbers(heads), now.head, change("head"));
  const names = data.tokens.map((token, i) => `${i} ${visible(token).slice(0, 24)}`);
  choice(bar, "Query", names, now.query, change("query"));
  draw();
};
