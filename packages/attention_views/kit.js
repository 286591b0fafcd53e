// What every view shares: elements, compressed numbers, tokens as text, colors.
// `views` holds how each kind is drawn, name -> (root, data) => …; X.js sets views.X.
const views = {};
// Text reaches the page through textContent alone, so a token is never markup.
const make = (parent, tag, attributes = {}, text = "") => {
  const svg = "http://www.w3.org/2000/svg";
  const node = tag === "svg" || parent.namespaceURI === svg
    ? document.createElementNS(svg, tag) : document.createElement(tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  // JupyterLab asks the very element that has the focus to keep its shortcuts out.
  if (node.tabIndex >= 0) node.dataset.lmSuppressShortcuts = true;
  node.textContent = text;
  return parent.appendChild(node);
};
// Bytes that `page.py` compressed and wrote as base64.
const inflate = async (text) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const unpacking = new DecompressionStream("deflate");
  const stream = new Blob([bytes]).stream().pipeThrough(unpacking);
  return new Uint8Array(await new Response(stream).arrayBuffer());
};
const visible = (token) => {
  const shown = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  return shown.trim() ? shown : "␣".repeat(shown.length) || "∅";
};
const short = (token, length) => {
  const letters = [...visible(token).trim()];
  if (letters.length > length) letters.splice(length - 1, letters.length, "…");
  return letters.join("");
};
const quoted = (token) => `“\u2068${short(token, 24)}\u2069”`;
// One of a few options, side by side: a group of radio buttons.
const choice = (bar, name, options, chosen, changed) => {
  const form = make(bar, "form", { class: "choice" }); // keeps its buttons to itself
  const group = make(form, "div", { role: "radiogroup", "aria-label": name });
  options.forEach((option, i) => {
    const label = make(group, "label");
    const input = make(label, "input", { type: "radio", name: "one", value: i });
    input.checked = i === chosen;
    input.onchange = () => changed(i);
    make(label, "span", {}, option);
  });
};
// One tab stop for many buttons; `step` says how far each arrow key moves.
const roving = (buttons, step, first = 0) => {
  buttons.forEach((button, i) => {
    button.tabIndex = i === first ? 0 : -1;
    button.addEventListener("focus", () => {
      for (const one of buttons) one.tabIndex = one === button ? 0 : -1;
    });
    button.onkeydown = (event) => {
      const next = buttons[i + (step[event.key] || 0)];
      if (!step[event.key] || !next) return;
      event.preventDefault();
      next.focus();
    };
  });
};
// Colors are [red, green, blue]. The place from 0 to 1 on a row of "rrggbb".
const ramp = (row) => {
  const stops = row.split(" ").map((hex) => [0, 2, 4].map((i) =>
    parseInt(hex.slice(i, i + 2), 16)));
  return (place) => {
    const at = place * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (at - low)));
  };
};
const SEQUENTIAL = "ffffff ebcbdc cc79a7 8a3f6b 4a1638";
const css = (color) => `rgb(${color.join(" ")})`;
// One pixel a number, which the style enlarges. One without a color stays open: the style
// hatches what is behind it.
const paint = (canvas, numbers, columns, color) => {
  const image = new ImageData(columns, numbers.length / columns);
  [canvas.width, canvas.height] = [image.width, image.height];
  const pixels = new Uint32Array(image.data.buffer);
  numbers.forEach((number, i) => {
    const shown = color(number);
    if (shown) pixels[i] = (255 << 24) | (shown[2] << 16) | (shown[1] << 8) | shown[0];
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
};
// Black or white, whichever can be read on a color.
const readable = (color) => {
  const linear = color.map((part) => (part / 255) ** 2.2);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2] > 0.18 ? "#000" : "#fff";
};
const isDark = (root) => parseInt(getComputedStyle(root).color.slice(4)) > 128;
// A change of theme moves the color of a view, which kit.css makes a transition.
const onTheme = (root, changed) => root.addEventListener("transitionend", (event) => {
  if (event.target === root && event.propertyName === "color") changed();
});
// Put a view where its sentence stood; it comes back if the view cannot be drawn. A
// browser from before 2023 keeps the sentence.
const open = async (root, name, data, version) => {
  const sentence = [...root.childNodes];
  root.dataset.ready = version;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", data.title);
  root.replaceChildren();
  try {
    await views[name](root, data);
  } catch (error) {
    root.replaceChildren(...sentence);
    delete root.dataset.ready;
    console.error(error);
  }
};
// Every view of a page says `attentionViewsQueue.push([mark, name, data])`, before or
// after this runs; the last version that was loaded opens it, with its own style.
const listen = (version, style) => {
  if (!globalThis.DecompressionStream) return;
  const sheet = `style[data-attention-views="${version}"]`;
  if (!document.querySelector(sheet))
    make(document.head, "style", { "data-attention-views": version }, style);
  const queue = (globalThis.attentionViewsQueue ??= []);
  queue.push = ([mark, name, data]) => {
    for (const root of document.querySelectorAll(`.${mark}:not([data-ready])`))
      open(root, name, data, version);
  };
  queue.splice(0).forEach(queue.push);
};
