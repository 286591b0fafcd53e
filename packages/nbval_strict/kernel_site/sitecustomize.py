"""On the path of notebook kernels, in tests and while they are stored: no way out.

Connections that leave this machine are refused, in every Python process that a notebook
starts. What the process does can be written down, one line each, into two files:

- NBVAL_REFUSED: the host of each refused connection, so that a cell cannot hide it;
- NBVAL_OPENED: each file and folder of the project (NBVAL_ROOT) that it opens.
"""

import os
import re
import socket
import sys

LOCAL = re.compile(r"127(\.\d+){3}|localhost|::1|::|0\.0\.0\.0")
INTERNET = (socket.AF_INET, socket.AF_INET6)
NAMED = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
ADDRESSED = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKS = ("open", "os.listdir", "os.scandir")
OWN_NAMES = {"", socket.gethostname()}


def refuse(event, arguments):
    """An audit hook: what it raises stops the call that is about to happen."""
    if event in NAMED:
        host = arguments[0]
    elif event in ADDRESSED and arguments[0].family in INTERNET and arguments[1]:
        host = arguments[1][0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else str(host or "")
    if host in OWN_NAMES or LOCAL.fullmatch(host):
        return
    if "NBVAL_REFUSED" in os.environ:
        with open(os.environ["NBVAL_REFUSED"], "a", encoding="utf-8") as file:
            file.write(host + "\n")
    raise ConnectionRefusedError(f"the tests run without a network: {host}")


def write_down_opened(record, root):
    """An audit hook that adds each new path below `root` to the file `record`."""
    seen = {os.path.realpath(record)}

    def hook(event, arguments):
        if event not in LOOKS or not arguments:
            return
        path = "." if arguments[0] is None else arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a file descriptor: its path was seen when it was opened
        path = os.path.realpath(os.fsdecode(path))
        if path in seen or not path.startswith(root + os.sep):
            return
        seen.add(path)
        with open(record, "a", encoding="utf-8") as file:
            file.write(path + "\n")

    return hook


sys.addaudithook(refuse)
if "NBVAL_OPENED" in os.environ:
    _root = os.path.realpath(os.environ["NBVAL_ROOT"])
    sys.addaudithook(write_down_opened(os.environ["NBVAL_OPENED"], _root))
