// Frames to scrub through: a slider, a finger on the picture, or play.
const BEAT = 1100; // milliseconds a frame, when it plays
const LEAK = 255, MISTAKE = [213, 94, 0];
const number = (value) => Number(value.toPrecision(3)).toString().replace("-", "−");
const between = ([low], [high], place) => low + (high - low) * place / 1000;

// Each kind gets the stage once and returns what shows the frame at a place.
const stages = {
  text: (stage, data) => {
    const pile = make(stage, "div", { class: "pile" }); // as high as the longest
    const texts = data.frames.map((text) => make(pile, "p", {}, text));
    return (at) => texts.forEach((text, i) => {
      text.style.visibility = i === at ? "visible" : "hidden";
    });
  },
  picture: (stage, data) => {
    const image = make(stage, "img", { alt: "" });
    return (at) => {
      image.src = `data:image/png;base64,${data.frames[at]}`;
      image.alt = data.captions[at];
    };
  },
  bars: (stage, data) => {
    const zero = -1000 * data.low[0] / (data.high[0] - data.low[0]);
    const table = make(stage, "table", { class: "lengths" });
    const lines = data.labels.map((label, i) => {
      const row = make(table, "tr");
      make(make(row, "th", { scope: "row" }), "bdi", {}, visible(label));
      const bar = make(make(row, "td"), "i");
      if (data.colors[i]) bar.style.background = data.colors[i];
      return [bar, make(row, "td", { class: "number" })];
    });
    if (data.axes[1]) make(stage, "p", { class: "axis" }, data.axes[1]);
    return (at) => lines.forEach(([bar, shown], i) => {
      const place = data.frames[at][i];
      bar.style.marginLeft = `${Math.min(place, zero) / 10}%`;
      bar.style.width = `${Math.abs(place - zero) / 10}%`;
      shown.textContent = number(between(data.low, data.high, place));
    });
  },
  points: (stage, data) => {
    const svg = make(stage, "svg", {
      viewBox: "-70 -50 1210 820", role: "img", "aria-label": data.axes.join(" and "),
    });
    make(svg, "path", { d: "M-20 0V720H1020" });
    make(svg, "text", { x: 1020, y: 760, class: "end" }, data.axes[0]);
    make(svg, "text", { x: -20, y: -24 }, data.axes[1]);
    const dots = data.labels.map((label, i) => {
      const dot = make(svg, "g", { class: "dot" });
      const circle = make(dot, "circle", { r: 13 });
      if (data.colors[i]) circle.style.fill = data.colors[i];
      make(dot, "text", { x: 24, y: 11 }, visible(label));
      return dot;
    });
    return (at) => dots.forEach((dot, i) => {
      const [x, y] = data.frames[at][i];
      dot.style.transform = `translate(${x}px, ${700 - 0.68 * y}px)`;
    });
  },
  map: async (stage, data) => {
    const codes = await inflate(data.map), [, rows, columns] = data.shape;
    const grid = make(stage, "div", { class: "matrix" });
    grid.style.setProperty("--rows", rows);
    grid.style.setProperty("--columns", columns);
    const canvas = make(grid, "canvas", { role: "img" });
    const named = (list, kind) => list.length <= 40 && list.forEach((label, i) =>
      make(make(grid, "span", { class: kind, style: `--i:${i}`, "aria-hidden": true }),
        "bdi", {}, visible(label)));
    named(data.rows, "down");
    named(data.columns, "across");
    const [down, across] = data.axes;
    const scale = make(stage, "p", { class: "axis" }, down && `${down} ↓  ${across} →`);
    const stops = data.signed ? "2166ac 92c5de f7f7f7 f4a582 b2182b"
      : SEQUENTIAL;
    const color = ramp(stops);
    const key = make(scale, "span", { class: "key" });
    make(key, "span", {}, data.signed ? number(-data.limit) : "0");
    make(key, "i").style.background =
      `linear-gradient(90deg, #${stops.split(" ").join(", #")})`;
    make(key, "span", {}, number(data.limit));
    return (at) => {
      const frame = codes.subarray(at * rows * columns, (at + 1) * rows * columns);
      paint(canvas, frame, columns, (code) =>
        code === LEAK ? MISTAKE : code && color((code - 1) / 240));
      canvas.setAttribute("aria-label", data.captions[at]);
    };
  },
};

views.frames = async (root, data) => {
  const last = data.captions.length - 1;
  let at = 0, timer = 0;
  make(root, "p", { class: "title" }, data.title);
  const stage = make(root, "div", { class: "stage" });
  const show = await stages[data.kind](stage, data);
  const caption = make(root, "p", { class: "caption", role: "status" });
  const bar = make(root, "div", { class: "bar" });
  const button = make(bar, "button", { class: "play" });
  const slider = make(bar, "input", {
    type: "range", min: 0, max: last, step: 1, "aria-label": data.axis,
  });
  const count = make(bar, "span", { class: "count" });
  const go = (place) => {
    at = Math.max(0, Math.min(last, place));
    slider.value = at;
    slider.setAttribute("aria-valuetext", data.captions[at]);
    caption.textContent = data.captions[at];
    count.textContent = `${data.axis} ${at + 1} of ${last + 1}`;
    show(at);
  };
  const play = (on) => {
    clearInterval(timer);
    timer = on && setInterval(() => {
      if (!root.isConnected || at === last) play(false);
      else go(at + 1);
    }, BEAT);
    button.textContent = on ? "❚❚" : "▶";
    button.setAttribute("aria-label", on ? "pause" : "play");
  };
  button.onclick = () => {
    if (!timer && at === last) go(0);
    play(!timer);
  };
  slider.oninput = () => { play(false); go(+slider.value); };
  let held = null; // where a finger or the mouse took hold of the picture
  stage.onpointerdown = (event) => { held = { x: event.clientX, at }; };
  stage.onpointermove = (event) => {
    if (!held || !event.buttons) return;
    play(false);
    const reach = Math.max(24, stage.clientWidth / (last + 1));
    go(held.at + Math.round((event.clientX - held.x) / reach));
  };
  stage.onpointerup = stage.onpointerleave = () => { held = null; };
  play(false);
  go(0);
};
