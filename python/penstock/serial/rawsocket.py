"""``socket://host:port``: a serial device server that passes the bytes through as they are.

Baud rate and character format are settings of the server; those of the configuration are kept,
but have no effect.
"""

from __future__ import annotations

from penstock.serial.config import SerialConfig
from penstock.serial.streambackend import SocketBackend, stream_capabilities
from penstock.serial.tcpconnect import connect_to
from penstock.serial.urls import SerialUrl

__all__ = ["open_socket"]

_FORM = "socket://HOST:PORT, with ?timeout=SECONDS for the connecting"
# pyserial's option; its URLs work unchanged. This package logs nothing there.
_OPTIONS = frozenset({"timeout", "logging"})
_CONNECT_S = 10.0


def open_socket(path: str, config: SerialConfig) -> SocketBackend:
    """Connect; raises as :func:`~penstock.serial.tcpconnect.connect_to`."""
    url = SerialUrl.parse(path, _FORM, _OPTIONS)
    host, port = url.host_and_port()
    sock = connect_to(path, host, port, url.seconds("timeout", _CONNECT_S))
    capabilities = stream_capabilities("socket", "input_waiting", "output_waiting")
    try:
        return SocketBackend(path, config, capabilities, sock)
    except BaseException:
        sock.close()
        raise
