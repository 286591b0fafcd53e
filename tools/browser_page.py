"""Chromium on a page of stored outputs: no request leaves this machine.

Knows notebooks, pages and the browser. Knows nothing of what a view shows.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from tools.working_copies import QUIET_LAB

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = float(os.environ.get("NBVAL_PATIENCE", "1"))
NOWHERE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
LOCAL = ("file://", "data:", "blob:", "http://127.0.0.1:", "http://localhost:")


def notebook(outputs, source="show()"):
    """A notebook of one cell that shows `outputs`, a list of (data, metadata)."""
    displayed = []
    for data, metadata in outputs:
        stored = {
            kind: b64encode(value).decode() if isinstance(value, bytes) else value
            for kind, value in data.items()
        }
        one = nbformat.v4.new_output("display_data", stored, metadata=metadata)
        displayed.append(one)
    cell = nbformat.v4.new_code_cell(source, execution_count=7, outputs=displayed)
    kernel = {"name": "python3", "display_name": "Python 3"}
    metadata = {"title": "A page", "kernelspec": kernel}
    return nbformat.v4.new_notebook(cells=[cell], metadata=metadata)


def exported(outputs, path, theme="light"):
    """Write what nbconvert makes of the outputs, without what it would fetch."""
    none = {"mathjax_url": "", "require_js_url": "", "mermaid_js_url": ""}
    html, _ = HTMLExporter(theme=theme, **none).from_notebook_node(notebook(outputs))
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
            args=["--no-sandbox", f"--host-resolver-rules={NOWHERE}"],
        )
        yield started
        started.close()


@contextmanager
def watched(started, address, errors=0, **options):
    """A page, opened; at the end nothing was fetched from outside, no error said.

    errors: so many are expected.
    """
    page = started.new_page(**{"viewport": {"width": 1000, "height": 1400}} | options)
    page.set_default_timeout(60_000 * PATIENCE)
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
        lambda message: wrong.append(message.text) if message.type == "error" else 0,
    )
    page.goto(address)
    yield page
    page.close()
    assert len(wrong) == errors, wrong


@contextmanager
def jupyterlab(folder, options=QUIET_LAB):
    """JupyterLab on the notebooks of `folder`: its address, and how to run jupyter."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environ = os.environ | {name: str(folder / f".{name}") for name in own}
    here = os.pathsep.join([str(ROOT), str(ROOT / "packages")])  # not what is installed
    environ |= {"IPYTHONDIR": str(folder / ".ipython"), "PYTHONPATH": here}
    options = [*options, f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    options += [f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=x"]
    options += ["--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command = [sys.executable, "-m", "jupyterlab", *options]

    def jupyter(*words):
        words = [sys.executable, "-m", "jupyter", *words]
        subprocess.run(words, env=environ, cwd=folder, check=True, capture_output=True)

    with open(folder / "lab.log", "wb") as log:
        server = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token=x")
        yield f"http://127.0.0.1:{port}/lab/tree/", jupyter
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(address):
    for _ in range(int(240 * PATIENCE)):
        try:
            return urllib.request.urlopen(address, timeout=5).read()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise TimeoutError("JupyterLab did not start")
