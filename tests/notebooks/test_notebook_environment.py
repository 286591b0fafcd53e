"""The notebooks' surroundings: a mirror of the hub and nothing of the world outside."""

import os
import subprocess
import sys

import pytest

from tests.support.notebook_environment import ROOT, quiet_variables

REFUSED = {
    "address": "import socket; socket.create_connection(('192.0.2.1', 80), timeout=9)",
    "name": "import socket; socket.getaddrinfo('example.com', 80)",
    "page": "import urllib.request as u; u.urlopen('http://example.com', timeout=9)",
    "library": "import httpx; httpx.get('http://example.com', trust_env=False)",
}


def run(code, environ):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True)


@pytest.mark.parametrize("way", REFUSED)
def test_every_way_out_is_closed(way, tmp_path):
    done = run(REFUSED[way], {**os.environ, **quiet_variables(tmp_path)})
    assert done.returncode == 1
    assert "refused" in done.stderr or "without a network" in done.stderr


def test_this_machine_can_be_reached(tmp_path):
    code = """if True:
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(("localhost", server.getsockname()[1])).close()
    """
    done = run(code, {**os.environ, **quiet_variables(tmp_path)})
    assert done.returncode == 0, done.stderr


def test_a_command_runs_beside_the_mirror_and_keeps_its_exit_code():
    code = "from os import environ as e; print(e['HF_ENDPOINT'], e['TQDM_DISABLE']);"
    code += "exit(3)"
    command = [
        sys.executable,
        "tests/support/notebook_environment.py",
        sys.executable,
        "-c",
        code,
    ]
    environ = {**os.environ, "COURSE_DATA": "worlds"}
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("http://127.0.0.1:") and done.stdout.endswith(" 1\n")
