"""The scripts of the training page in node, which computes what a browser computes."""

import json
import shutil
import subprocess

import pytest

from attention_views.living import source

SCRIPTS = [
    ("kernels.js", "living"),
    ("decoder.js", "training"),
    ("trainer.js", "training"),
]


def in_node(driver, data, *changes):
    """What `driver` prints as JSON; it finds `input` and the scripts of the page.

    changes: (old, new), each of which stands once in the scripts.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: apt-get install nodejs")
    script = "\n".join(source(*name) for name in SCRIPTS)
    for old, new in changes:
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    read = '"use strict"; const input = JSON.parse(require("fs").readFileSync(0));'
    whole = "\n".join([read, script, driver])
    ran = subprocess.run(
        [node, "-e", whole],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
