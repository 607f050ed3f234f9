"""Ports that a TCP connection reaches: connecting, and ``socket://`` URLs.

``socket://host:port`` is a serial device server that passes the bytes through unchanged. Baud rate
and character format are settings of the server. Those of the configuration are stored and have no
effect.
"""

from __future__ import annotations

import errno
import socket
import struct

from penstock.serial._devices.stream_backend import SocketBackend, stream_capabilities
from penstock.serial._devices.url import SerialUrl
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import PortNotFoundError, SerialTimeoutError

_KEEPALIVE_IDLE_S = 10
_KEEPALIVE_INTERVAL_S = 5
_KEEPALIVE_PROBES = 3
_BUFFER = 131_072
_SILENT_MS = 1000 * (_KEEPALIVE_IDLE_S + _KEEPALIVE_INTERVAL_S * _KEEPALIVE_PROBES)
# Of struct tcp_info (linux/tcp.h): retransmits, probes, unacked, last_data_recv and last_ack_recv,
# both in ms ago.
_INFO = struct.Struct("=2xBB4x16xI24x2I")


def connect_to(url: str, host: str, port: int, timeout: float) -> socket.socket:
    """Return a TCP connection without Nagle's delay, and with keep-alive probes.

    The probes detect after 25 s that a server has vanished, even if the client only receives.

    Raises:
        PortNotFoundError: Nobody answers at that address.
        SerialTimeoutError: Nobody has answered after ``timeout`` seconds.
    """
    try:
        sock = socket.create_connection((host, port), timeout)
    except socket.gaierror as exc:
        raise PortNotFoundError(
            errno.ENOENT,
            f"{url}: the host name {host} cannot be looked up ({exc.strerror}); check its spelling",
            url,
        ) from exc
    except TimeoutError as exc:
        raise SerialTimeoutError(
            errno.ETIMEDOUT,
            f"{url}: {host} did not answer within {timeout:g} s; check the address and the "
            "firewall, or allow more with ?timeout=SECONDS",
            url,
        ) from exc
    except OSError as exc:
        raise PortNotFoundError(
            exc.errno,
            f"{url}: no connection to {host} port {port} ({exc.strerror}); check that the server "
            "runs there",
            url,
        ) from exc
    set_up_for_serial(sock)
    return sock


def set_up_for_serial(sock: socket.socket) -> None:
    """Set the options of a TCP socket for a serial line: no Nagle, keep-alive, small buffers.

    A serial line is slow: megabytes in buffers would delay the command behind them by minutes.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)


def is_unreachable(sock: socket.socket) -> bool:
    """Return whether the other side has sent nothing, not even confirmations, for 25 s.

    The kernel sends no keep-alive probes while something is unconfirmed, and would repeat that for
    a quarter of an hour. Rejected: TCP_USER_TIMEOUT. It also ends a connection whose other side is
    alive but accepts nothing, as a serial line stopped by flow control does without limit.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False  # not TCP, or already closed: the next call raises
    return len(info) == _INFO.size and shows_silence(info)


def shows_silence(info: bytes) -> bool:
    """Return whether a ``struct tcp_info`` is that of a connection to an unreachable peer."""
    retransmits, probes, unconfirmed, data_ms, ack_ms = _INFO.unpack_from(info)
    return bool((retransmits and unconfirmed) or probes) and min(data_ms, ack_ms) >= _SILENT_MS


_FORM = "socket://HOST:PORT, with ?timeout=SECONDS for the connecting"
# pyserial's option; its URLs work unchanged. This package logs nothing there.
_OPTIONS = frozenset({"timeout", "logging"})
_CONNECT_S = 10.0


def open_socket(path: str, config: SerialConfig) -> SocketBackend:
    """Connect; raises as :func:`~penstock.serial._devices.tcp.connect_to`."""
    url = SerialUrl.parse(path, _FORM, _OPTIONS)
    host, port = url.host_and_port()
    sock = connect_to(path, host, port, url.seconds("timeout", _CONNECT_S))
    capabilities = stream_capabilities("socket", "input_waiting", "output_waiting")
    try:
        return SocketBackend(path, config, capabilities, sock)
    except BaseException:
        sock.close()
        raise
