"""Chromium on a page of stored outputs: no request leaves this machine.

Knows notebooks, pages and the browser. Knows nothing of what a view shows.
"""

import shutil
from base64 import b64encode
from contextlib import contextmanager

import nbformat
import pytest
from nbconvert import HTMLExporter

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LOCAL = ("file://", "data:", "blob:", "http://127.0.0.1", "http://localhost")


def notebook(outputs):
    """A notebook of one cell that shows `outputs`, a list of (data, metadata)."""
    shown = [
        nbformat.v4.new_output("display_data", data, metadata=metadata)
        for data, metadata in outputs
    ]
    cell = nbformat.v4.new_code_cell("show()", execution_count=1, outputs=shown)
    return nbformat.v4.new_notebook(cells=[cell], metadata={"title": "A page"})


def exported(outputs, path):
    """Write what nbconvert makes of the outputs, without what it would fetch."""
    stored = [
        (
            {
                kind: b64encode(value).decode() if isinstance(value, bytes) else value
                for kind, value in data.items()
            },
            metadata,
        )
        for data, metadata in outputs
    ]
    none = {"mathjax_url": "", "require_js_url": "", "mermaid_js_url": ""}
    html, _ = HTMLExporter(**none).from_notebook_node(notebook(stored))
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


@contextmanager
def browser():
    """Chromium, or a skip that says why there is none."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"],
        )
        yield started
        started.close()


@contextmanager
def watched(started, address, **options):
    """A page, opened; at the end nothing was fetched and nothing complained."""
    page = started.new_page(viewport={"width": 1000, "height": 1400}, **options)
    page.set_default_timeout(60_000)
    wrong = []

    def decide(route):
        local = route.request.url.startswith(LOCAL)
        if not local:
            wrong.append(f"asked for {route.request.url}")
        route.continue_() if local else route.abort()

    page.route("**/*", decide)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda said: wrong.append(said.text) if said.type == "error" else None,
    )
    page.goto(address)
    yield page
    page.close()
    assert wrong == []
