"""The surroundings in which notebooks run: the same for tests and for `make refresh`.

Knows environment variables, the loopback mirror of the hub and how to run a command
among them. Knows nothing of notebooks.

    python tests/support/notebook_environment.py COMMAND …
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLOSED_PORT = "http://127.0.0.1:9"


def quiet_variables(scratch):
    """Variables that make two runs alike and keep them off the network."""
    config = Path(sys.prefix) / "matplotlib"  # holds the font cache, made once
    return {
        "HTTP_PROXY": CLOSED_PORT,
        "HTTPS_PROXY": CLOSED_PORT,
        "ALL_PROXY": CLOSED_PORT,
        "http_proxy": CLOSED_PORT,
        "https_proxy": CLOSED_PORT,
        "all_proxy": CLOSED_PORT,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        # The checkout under test comes first, whatever the environment has installed.
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / part) for part in ("tests/support/kernel_site", "", "packages")]
        ),
        "TQDM_DISABLE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "IPYTHONDIR": str(scratch / "ipython"),
        "MPLCONFIGDIR": str(config),
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def warm_font_cache(environ):
    """Build matplotlib's font cache now, so that no notebook has to report it."""
    Path(environ["MPLCONFIGDIR"]).mkdir(exist_ok=True)
    if not list(Path(environ["MPLCONFIGDIR"]).glob("fontlist*.json")):
        command = [sys.executable, "-c", "import matplotlib.font_manager"]
        subprocess.run(command, env=environ, check=True, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def notebook_environment(mirrored=True):
    """Give the whole environment for a kernel; a mirror of the hub runs behind it."""
    import tests.support.arithmetic  # noqa: F401 (it pins what children inherit)

    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environ = {**os.environ, **quiet_variables(scratch)}
        # Importing torch's compiler sets the last two, to a folder outside the scratch.
        for name in (
            "PYTHONWARNINGS",
            "MPLBACKEND",
            "MATPLOTLIBRC",
            "TORCHINDUCTOR_CACHE_DIR",
            "TRITON_CACHE_DIR",
        ):
            environ.pop(name, None)
        warm_font_cache(environ)
        if mirrored:
            from tests.support.hub_mirror import HubMirror
            from tests.support.mirror_data import fill_mirror

            fill_mirror(scratch / "hub")
            mirror = stack.enter_context(HubMirror(scratch / "hub"))
            environ.update(mirror.env(scratch / "hf"))
        yield environ


def main(command):
    """Run a command in the notebooks' environment and leave with its exit code."""
    with notebook_environment() as environ:
        return subprocess.run(command, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main(sys.argv[1:]))
