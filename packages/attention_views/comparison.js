// Two recordings: the map of each, and what changed, in colors centered on 0.
views.comparison = async (root, data) => {
  const ROW = 22, GAP = 130, FAINT = 0.04, none = { q: -1, k: -1 };
  const WEIGHT = [184, 84, 140], MORE = [214, 96, 77], LESS = [67, 147, 195];
  const [before, after] = data.names;
  // A side is a recording, 0 or 1; of each, [layer, head] is chosen.
  const now = { part: data.at[0], sides: data.at.slice(1) };
  const codes = await Promise.all(data.parts.map((part) => inflate(part.map)));
  let part, heads, rows, columns, queries, keys, sides, changes, pinned, hovered;
  make(root, "p", { class: "title" }, data.title);
  const bar = make(root, "div", { class: "bar" });
  const said = make(root, "p", { role: "status" });
  const linked = make(root, "div", { class: "links" });
  const maps = make(root, "div", { class: "side" });
  const scale = make(root, "p", { class: "scale" }, `${after} minus ${before}: −1 `);
  const ramp = make(scale, "canvas", { "aria-hidden": true });
  make(scale, "span", {}, " +1. Blue and dashed: less; red: more.");
  const more = make(root, "details");
  make(more, "summary", {}, "Largest changes as a table");
  const table = make(more, "table");
  make(root, "p", {}, "What changed in all layers (down) and heads (across); " +
    "a click chooses one in both recordings:");
  const overview = make(root, "div", { class: "overview" });

  const map = (side, [layer, head]) => {
    const size = rows * columns, layers = part.layers.length;
    const first = ((side * layers + layer) * heads + head) * size;
    return codes[now.part].subarray(first, first + size);
  };
  const minus = (one, other) =>
    Array.from(one, (code, i) => weightOf(code) - weightOf(other[i]));
  const signed = (change) => {
    const size = Math.abs(change);
    if (!size) return "0";
    return (change > 0 ? "+" : "−") + (size < 0.005 ? "<0.01" : size.toFixed(2));
  };
  const ofWeight = (code) =>
    code ? [...WEIGHT, 255 * Math.sqrt(weightOf(code))] : [128, 128, 128, 60];
  const ofChange = (change) =>
    [...(change > 0 ? MORE : LESS), 255 * Math.sqrt(Math.abs(change))];
  const paint = (canvas, colors, height, width) => {
    const image = new ImageData(width, height);
    colors.forEach((color, i) => image.data.set(color, 4 * i));
    canvas.width = width;
    canvas.height = height;
    canvas.getContext("2d").putImageData(image, 0, 0);
  };
  paint(ramp, [...Array(201).keys()].map((i) => ofChange(i / 100 - 1)), 1, 201);
  // Changes of the chosen query or key, or of all: [query, key, place], largest first.
  const links = ({ q, k }, least) => {
    const found = [];
    changes.forEach((change, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns];
      const asked = (q < 0 || q === row) && (k < 0 || k === column);
      if (asked && change && Math.abs(change) >= least) found.push([row, column, i]);
    });
    return found.sort((a, b) => Math.abs(changes[b[2]]) - Math.abs(changes[a[2]]));
  };
  const sentence = ({ q, k }) => {
    if (q < 0 && k < 0)
      return `Drawn: changes from ${FAINT}. Hover over a token, or walk by arrow keys, ` +
        "for all its changes.";
    if (q >= 0 && k >= 0) {
      const i = q * columns + k;
      return `${quoted(queries[q])} → ${quoted(keys[k])}: ` +
        `${before} ${written(sides[0][i])}, ${after} ${written(sides[1][i])}, ` +
        `change ${signed(changes[i])}`;
    }
    const best = links({ q, k }, 0).slice(0, 4).map(([row, column, i]) =>
      quoted(q < 0 ? queries[row] : keys[column]) + " " + signed(changes[i]));
    const subject = q < 0 ? quoted(keys[k]) + " is looked at by "
      : quoted(queries[q]) + " looks at ";
    return subject + (best.join(", ") || "the same tokens, with no change");
  };
  const draw = () => {
    const focus = hovered || pinned;
    const lines = root.querySelector("svg");
    lines.replaceChildren();
    for (const [q, k, i] of links(focus, focus === none ? FAINT : 0))
      make(lines, "line", {
        class: changes[i] > 0 ? "more" : "less",
        y1: (q + 0.5) * ROW, x2: GAP, y2: (k + 0.5) * ROW,
        "stroke-opacity": Math.max(Math.sqrt(Math.abs(changes[i])), 0.1).toFixed(3),
      });
    const mark = (index, list, frames) => {
      root.querySelectorAll(list + " button").forEach((button, i) =>
        button.classList.toggle("chosen", i === index));
      for (const box of root.querySelectorAll(frames)) {
        box.hidden = index < 0;
        box.style.setProperty("--i", index);
      }
    };
    mark(focus.q, ".queries", ".row");
    mark(focus.k, ".keys", ".column");
    said.textContent = sentence(focus);
  };
  const hover = (focus) => { hovered = focus; draw(); };
  const pin = (focus) => { pinned = focus; draw(); };
  const drawMaps = () => {
    sides = now.sides.map((at, one) => map(one, at));
    changes = minus(sides[1], sides[0]);
    const colors = sides.map((side) => Array.from(side, ofWeight));
    colors.push(changes.map(ofChange));
    root.querySelectorAll(".grid canvas").forEach((canvas, i) =>
      paint(canvas, colors[i], rows, columns));
    overview.childNodes.forEach((button, i) => {
      const chosen = now.sides.every(([layer, head]) => i === layer * heads + head);
      button.classList.toggle("chosen", chosen);
      button.setAttribute("aria-pressed", chosen);
    });
    table.replaceChildren();
    const row = (cells, tag, line = make(table, "tr")) =>
      cells.forEach((cell) => make(make(line, tag), "bdi", {}, cell));
    row(["query", "key", before, after, "change"], "th");
    for (const [q, k, i] of links(none, 0).slice(0, 12))
      row([`${q} ${quoted(queries[q])}`, `${k} ${quoted(keys[k])}`,
        ...sides.map((side) => written(side[i])), signed(changes[i])], "td");
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
  const matrix = (name) => {
    const cell = Math.max(2, Math.min(20, Math.floor(220 / Math.max(rows, columns))));
    const frame = make(maps, "div");
    make(frame, "p", {}, name);
    const grid = make(frame, "div", { class: "grid" });
    grid.style.cssText = `--cell:${cell}px;width:${84 + columns * cell}px;` +
      `height:${84 + rows * cell}px`;
    const canvas = make(grid, "canvas", {
      role: "img", "aria-label": name + ": rows are queries, columns are keys",
    });
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
    for (const area of [bar, linked, maps, overview]) area.replaceChildren();
    if (data.parts[1])
      choice(bar, "Attention", data.parts.map((one) => one.name), now.part, (chosen) => {
        Object.assign(now, { part: chosen, sides: [[0, 0], [0, 0]] });
        build();
        bar.querySelector("select").focus();
      });
    const numbers = [...Array(heads).keys()];
    const selects = data.names.map((name, i) => {
      const change = (which) => (value) => { now.sides[i][which] = value; drawMaps(); };
      return [
        choice(bar, `Layer ${name}`, part.layers, now.sides[i][0], change(0)),
        choice(bar, `Head ${name}`, numbers, now.sides[i][1], change(1)),
      ];
    });
    tokens(linked, "queries", queries, "q");
    make(linked, "svg", { width: GAP, height: ROW * Math.max(rows, columns) });
    tokens(linked, "keys", keys, "k");
    for (const name of [before, after, `${after} minus ${before}`]) matrix(name);
    overview.style.gridTemplateColumns = `repeat(${heads}, 52px)`;
    const small = part.layers.flatMap((name, i) => numbers.map((h) => {
      const label = `layer ${name}, head ${h}`;
      const button = make(overview, "button", { "aria-label": label });
      const change = minus(map(1, [i, h]), map(0, [i, h]));
      paint(make(button, "canvas"), change.map(ofChange), rows, columns);
      button.onclick = () => {
        now.sides = [[i, h], [i, h]];
        for (const [layer, head] of selects) [layer.value, head.value] = [i, h];
        drawMaps();
      };
      return button;
    }));
    roving(small, {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads,
    });
    drawMaps();
  };
  root.onkeyup = (event) => {
    if (event.key === "Escape") {
      hovered = 0;
      pin(none);
    }
  };
  build();
};
