"""On the path of notebook kernels, in tests and `make refresh`: no way out.

Connections that leave this machine are refused.

Where COURSE_OPENED names a file, each file and folder of the project (COURSE_ROOT) that
this process opens is written into it.
"""

import os
import socket
import sys

_connect = socket.socket.connect
_connect_ex = socket.socket.connect_ex
_getaddrinfo = socket.getaddrinfo
LOCAL = ("127.", "localhost", "::1", "0.0.0.0")


def _check(host):
    if host and not str(host).startswith(LOCAL):
        raise ConnectionRefusedError(f"the tests run without a network: {host}")


def _checked(connect):
    def call(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _check(address[0])
        return connect(self, address)

    return call


def _checked_getaddrinfo(host, *rest, **options):
    _check(host.decode() if isinstance(host, bytes) else host)
    return _getaddrinfo(host, *rest, **options)


socket.socket.connect = _checked(_connect)
socket.socket.connect_ex = _checked(_connect_ex)
socket.getaddrinfo = _checked_getaddrinfo


def write_down(record, root):
    """An audit hook that adds each new path below `root` to the file `record`."""
    seen = {os.path.realpath(record)}

    def hook(event, arguments):
        if event not in ("open", "os.listdir", "os.scandir") or not arguments:
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


if "COURSE_OPENED" in os.environ:
    _root = os.path.realpath(os.environ["COURSE_ROOT"])
    sys.addaudithook(write_down(os.environ["COURSE_OPENED"], _root))
