"""On the path of test kernels only: refuse connections that leave this machine."""

import socket

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
