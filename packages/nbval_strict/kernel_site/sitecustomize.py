"""On the path of notebook kernels, in tests and while they are stored: no way out.

Connections that leave this machine are refused, in every Python process that a notebook
starts. What the process does can be written down, one line each, into three files:

- NBVAL_REFUSED: "host:port" of each refused connection, so that a cell cannot hide it;
- NBVAL_WRITTEN: "new" or "old" and each path that it opens for writing or makes;
- NBVAL_OPENED: each file and folder of the project (NBVAL_ROOT) that it opens.
"""

import os
import re
import socket
import sys

LOCAL = re.compile(r"127(\.\d+){3}|localhost|::1|::|0\.0\.0\.0")
OWN_NAMES = {"", socket.gethostname()}
INTERNET = (socket.AF_INET, socket.AF_INET6)
NAMED = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
ADDRESSED = ("socket.connect", "socket.sendto", "socket.sendmsg")
LOOKS = ("open", "os.listdir", "os.scandir")
MAKES = {  # event -> the place of the new path among its arguments
    "os.mkdir": 0,
    "os.rename": 1,
    "os.link": 1,
    "os.symlink": 1,
    "sqlite3.connect": 0,
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def refuse(event, arguments):
    """An audit hook: what it raises stops the call that is about to happen."""
    if event in NAMED:
        host = arguments[0]
        port = arguments[1] if event == "socket.getaddrinfo" else None
    elif event in ADDRESSED:
        connection, address = arguments
        if connection.family not in INTERNET or not isinstance(address, tuple):
            return
        host, port = address[:2]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else str(host or "")
    if host in OWN_NAMES or LOCAL.fullmatch(host):
        return
    port = port.decode() if isinstance(port, bytes) else port
    place = host if port is None else f"{host}:{port}"
    if "NBVAL_REFUSED" in os.environ:
        with open(os.environ["NBVAL_REFUSED"], "a", encoding="utf-8") as file:
            file.write(place + "\n")
    raise ConnectionRefusedError(f"the tests run without a network: {place}")


def real_path(path):
    """The path without links and shortcuts; None for what is no path."""
    if not isinstance(path, str | bytes | os.PathLike):
        return None  # a file descriptor: its path was seen when it was opened
    return os.path.realpath(os.fsdecode(path))


def write_down_opened(record, root):
    """An audit hook that adds each new path below `root` to the file `record`."""
    seen = {os.path.realpath(record)}

    def hook(event, arguments):
        if event not in LOOKS or not arguments:
            return
        path = real_path("." if arguments[0] is None else arguments[0])
        if path is None or path in seen or not path.startswith(root + os.sep):
            return
        seen.add(path)
        with open(record, "a", encoding="utf-8") as file:
            file.write(path + "\n")

    return hook


def write_down_written(record):
    """An audit hook that adds each new path that may change to the file `record`."""
    names = ("NBVAL_OPENED", "NBVAL_REFUSED")
    records = [record, *(os.environ[name] for name in names if name in os.environ)]
    seen = {os.path.realpath(path) for path in records}

    def hook(event, arguments):
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & WRITING:
                return
        elif event in MAKES:
            path = arguments[MAKES[event]]
        else:
            return
        path = real_path(path)
        if path is None or path in seen:
            return
        seen.add(path)
        kind = "old" if os.path.exists(path) else "new"
        with open(record, "a", encoding="utf-8") as file:
            file.write(f"{kind} {path}\n")

    return hook


sys.addaudithook(refuse)
if "NBVAL_OPENED" in os.environ:
    _root = os.path.realpath(os.environ["NBVAL_ROOT"])
    sys.addaudithook(write_down_opened(os.environ["NBVAL_OPENED"], _root))
if "NBVAL_WRITTEN" in os.environ:
    sys.addaudithook(write_down_written(os.environ["NBVAL_WRITTEN"]))
