"""``socket://host:port``: a serial device server that passes the bytes through unchanged.

Baud rate and character format are settings of the server. Those of the configuration are stored
and have no effect.
"""

from __future__ import annotations

from penstock.serial._devices.stream_backend import SocketBackend, stream_capabilities
from penstock.serial._devices.tcp_connect import connect_to
from penstock.serial._devices.url import SerialUrl
from penstock.serial.config import SerialConfig

__all__ = ["open_socket"]

_FORM = "socket://HOST:PORT, with ?timeout=SECONDS for the connecting"
# pyserial's option; its URLs work unchanged. This package logs nothing there.
_OPTIONS = frozenset({"timeout", "logging"})
_CONNECT_S = 10.0


def open_socket(path: str, config: SerialConfig) -> SocketBackend:
    """Connect; raises as :func:`~penstock.serial._devices.tcp_connect.connect_to`."""
    url = SerialUrl.parse(path, _FORM, _OPTIONS)
    host, port = url.host_and_port()
    sock = connect_to(path, host, port, url.seconds("timeout", _CONNECT_S))
    capabilities = stream_capabilities("socket", "input_waiting", "output_waiting")
    try:
        return SocketBackend(path, config, capabilities, sock)
    except BaseException:
        sock.close()
        raise
