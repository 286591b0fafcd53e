// Attention of a whole model: one map large, all maps small, links on demand.
views.explorer = async (root, data) => {
  const ROW = 22, GAP = 130, FAINT = 0.04, none = { q: -1, k: -1 };
  const now = { part: data.at[0], layer: data.at[1], head: data.at[2] };
  const codes = await Promise.all(data.parts.map((part) => inflate(part.map)));
  let part, heads, rows, columns, queries, keys, pinned, hovered;
  make(root, "p", { class: "title" }, data.title);
  const bar = make(root, "div", { class: "bar" });
  const said = make(root, "p", { role: "status" });
  const side = make(root, "div", { class: "side" });
  const more = make(root, "details");
  make(more, "summary", {}, "Strongest links as a table");
  const table = make(more, "table");
  make(root, "p", {}, "All layers (down) and heads (across); a click enlarges one:");
  const overview = make(root, "div", { class: "overview" });

  const map = (layer, head) => {
    const first = (layer * heads + head) * rows * columns;
    return codes[now.part].subarray(first, first + rows * columns);
  };
  const at = (q, k) => map(now.layer, now.head)[q * columns + k];
  const paint = (canvas, layer, head) => {
    const image = new ImageData(columns, rows);
    map(layer, head).forEach((code, i) => image.data.set(
      code ? [184, 84, 140, 255 * Math.sqrt(weightOf(code))] : [128, 128, 128, 60],
      4 * i));
    canvas.width = columns;
    canvas.height = rows;
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  // Links of the chosen query or key, or of all: [query, key, code], strongest first.
  const links = ({ q, k }, least) => {
    const found = [];
    map(now.layer, now.head).forEach((code, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      const asked = (q < 0 || q === row) && (k < 0 || k === column);
      if (asked && code && weightOf(code) >= least) found.push([row, column, code]);
    });
    return found.sort((a, b) => b[2] - a[2]);
  };
  const sentence = ({ q, k }) => {
    if (q < 0 && k < 0)
      return `Drawn: weights from ${FAINT}. Hover over a token, or walk by arrow keys, ` +
        "for all its links.";
    if (q >= 0 && k >= 0)
      return `${quoted(queries[q])} → ${quoted(keys[k])}: ${written(at(q, k))}`;
    const best = links({ q, k }, 0).slice(0, 4).map(([row, column, code]) =>
      quoted(q < 0 ? queries[row] : keys[column]) + " " + written(code));
    const subject = q < 0 ? quoted(keys[k]) + " is looked at by "
      : quoted(queries[q]) + " looks at ";
    return subject + (best.join(", ") || "nothing");
  };
  const draw = () => {
    const focus = hovered || pinned;
    const lines = root.querySelector("svg");
    lines.replaceChildren();
    for (const [q, k, code] of links(focus, focus === none ? FAINT : 0))
      make(lines, "line", {
        y1: (q + 0.5) * ROW, x2: GAP, y2: (k + 0.5) * ROW,
        "stroke-opacity": Math.max(weightOf(code), 0.02).toFixed(3),
      });
    const mark = (index, list, frame) => {
      root.querySelectorAll(list + " button").forEach((button, i) =>
        button.classList.toggle("chosen", i === index));
      const box = root.querySelector(frame);
      box.hidden = index < 0;
      box.style.setProperty("--i", index);
    };
    mark(focus.q, ".queries", ".row");
    mark(focus.k, ".keys", ".column");
    said.textContent = sentence(focus);
  };
  const hover = (focus) => { hovered = focus; draw(); };
  const pin = (focus) => { pinned = focus; draw(); };
  const drawMap = () => {
    paint(root.querySelector(".grid canvas"), now.layer, now.head);
    overview.childNodes.forEach((button, i) => {
      const chosen = i === now.layer * heads + now.head;
      button.classList.toggle("chosen", chosen);
      button.setAttribute("aria-pressed", chosen);
    });
    table.replaceChildren();
    const row = (cells, tag, line = make(table, "tr")) =>
      cells.forEach((cell) => make(make(line, tag), "bdi", {}, cell));
    row(["query", "key", "weight"], "th");
    for (const [q, k, code] of links(none, 0).slice(0, 12))
      row([`${q} ${quoted(queries[q])}`, `${k} ${quoted(keys[k])}`, written(code)], "td");
    draw();
  };
  const tokens = (parent, name, list, axis) => {
    const group = make(parent, "div", {
      class: "tokens " + name, role: "group", "aria-label": name,
    });
    const buttons = list.map((token, i) => {
      const button = make(group, "button");
      make(button, "bdi", {}, visible(token));
      const mine = { ...none, [axis]: i };
      button.onfocus = button.onclick = () => pin(mine);
      button.onpointerenter = () => hover(mine);
      return button;
    });
    group.onpointerleave = () => hover();
    roving(buttons, { ArrowDown: 1, ArrowUp: -1 });
  };
  const matrix = () => {
    const cell = Math.max(3, Math.min(20, Math.floor(380 / Math.max(rows, columns))));
    const grid = make(side, "div", { class: "grid" });
    grid.style.cssText = `--cell:${cell}px;width:${84 + columns * cell}px;` +
      `height:${84 + rows * cell}px`;
    const name = "weights: rows are queries, columns are keys";
    const canvas = make(grid, "canvas", { role: "img", "aria-label": name });
    const label = (kind) => (token, i) => make(
      make(grid, "span", { class: kind, style: "--i:" + i, "aria-hidden": true }),
      "bdi", {}, visible(token));
    if (cell > 9) {
      queries.forEach(label("down"));
      keys.forEach(label("across"));
    }
    make(grid, "span", { class: "corner" }, "query↓ key→");
    make(grid, "div", { class: "row" });
    make(grid, "div", { class: "column" });
    const place = (part, count) => Math.max(0, Math.min(count - 1, Math.floor(part * count)));
    canvas.onpointermove = (event) => {
      const box = canvas.getBoundingClientRect();
      hover({
        q: place((event.clientY - box.top) / box.height, rows),
        k: place((event.clientX - box.left) / box.width, columns),
      });
    };
    canvas.onpointerleave = () => hover();
  };
  const build = () => {
    part = data.parts[now.part];
    [, heads, rows, columns] = part.shape;
    [queries, keys] = part.tokens.map((side) => data.tokens[side]);
    [pinned, hovered] = [none];
    for (const area of [bar, side, overview]) area.replaceChildren();
    if (data.parts[1])
      choice(bar, "Attention", data.parts.map((one) => one.name), now.part, (chosen) => {
        Object.assign(now, { part: chosen, layer: 0, head: 0 });
        build();
        bar.querySelector("select").focus();
      });
    const change = (name) => (value) => { now[name] = value; drawMap(); };
    const numbers = [...Array(heads).keys()];
    const layer = choice(bar, "Layer", part.layers, now.layer, change("layer"));
    const head = choice(bar, "Head", numbers, now.head, change("head"));
    const linked = make(side, "div", { class: "links" });
    tokens(linked, "queries", queries, "q");
    make(linked, "svg", { width: GAP, height: ROW * Math.max(rows, columns) });
    tokens(linked, "keys", keys, "k");
    matrix();
    overview.style.gridTemplateColumns = `repeat(${heads}, 52px)`;
    const small = part.layers.flatMap((name, i) => numbers.map((h) => {
      const label = `layer ${name}, head ${h}`;
      const button = make(overview, "button", { "aria-label": label });
      paint(make(button, "canvas"), i, h);
      button.onclick = () => {
        now.layer = layer.value = i;
        now.head = head.value = h;
        drawMap();
      };
      return button;
    }));
    roving(small, {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads,
    });
    drawMap();
  };
  root.onkeyup = (event) => {
    if (event.key === "Escape") {
      hovered = 0;
      pin(none);
    }
  };
  build();
};
