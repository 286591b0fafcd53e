// A JupyterLab extension that needs no build: a link to a cell brings it to the top.
//
// JupyterLab follows such a link once, before the cells above have their height.

const PLACE = "#cell-id=";

function land(notebook, id) {
  const index = notebook.widgets.findIndex((cell) => cell.model.id === id);
  if (index < 0) return;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  notebook.widgets[index].node.scrollIntoView();
}

// Land again while the notebook grows, until the reader touches something.
function stay(panel, id) {
  const growing = new ResizeObserver(() => land(panel.content, id));
  growing.observe(panel.content.viewportNode);
  const stop = () => growing.disconnect();
  for (const touch of ["keydown", "pointerdown", "wheel"]) {
    panel.node.addEventListener(touch, stop, { once: true, passive: true });
  }
  setTimeout(stop, 10_000);
}

const plugin = {
  id: "landing:plugin",
  autoStart: true,
  activate(app) {
    app.commands.commandExecuted.connect(async (_, { id, args, result }) => {
      if (id !== "rendermime:handle-local-link" || !args.id?.startsWith(PLACE)) return;
      await result;
      stay(app.shell.currentWidget, args.id.slice(PLACE.length));
    });
  },
};

window._JUPYTERLAB ??= {};
window._JUPYTERLAB.landing = {
  init() {},
  get: async () => () => plugin,
};
