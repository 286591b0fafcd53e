// What every view shares: elements, compressed numbers, tokens as text.
// `views` holds how each kind is drawn, name -> (root, data) => …; X.js sets views.X.
const views = {};
// Text reaches the page through textContent alone, so a token is never markup.
const make = (parent, tag, attributes = {}, text = "") => {
  const node = ["svg", "line", "path", "text"].includes(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
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
// 0 is an exact zero, n + 1 stands for n / 240.
const weightOf = (code) => Math.max(code - 1, 0) / 240;
const written = (code) => {
  if (code < 3) return code ? "<0.01" : "0";
  return weightOf(code).toFixed(2);
};
const visible = (token) => {
  const shown = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  return shown.trim() ? shown : "␣".repeat(shown.length) || "∅";
};
const quoted = (token) => {
  const letters = [...visible(token).trim()];
  if (letters.length > 24) letters.splice(23, letters.length, "…");
  return `“\u2068${letters.join("")}\u2069”`;
};
const choice = (bar, name, options, chosen, changed) => {
  const select = make(make(bar, "label", {}, name + " "), "select");
  options.forEach((option, i) => make(select, "option", { value: i }, option));
  select.value = chosen;
  select.onchange = () => changed(+select.value);
  return select;
};
// One tab stop for many buttons; `step` says how far each arrow key moves.
const roving = (buttons, step) => {
  buttons.forEach((button, i) => {
    button.tabIndex = i ? -1 : 0;
    button.onkeydown = (event) => {
      const next = buttons[i + (step[event.key] || 0)];
      if (!step[event.key] || !next) return;
      event.preventDefault();
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    };
  });
};
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
