"""Connecting to a port on the network, with errors that name the server and the remedy."""

from __future__ import annotations

import errno
import socket
import struct

from penstock.serial.exceptions import PortNotFoundError, SerialTimeoutError

__all__ = ["connect_to", "is_out_of_reach", "speak_promptly"]

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

    The probes make a server that vanished without a word known after 25 s, also to who only
    listens. Raises :class:`PortNotFoundError` where nobody answers at that address, and
    :class:`SerialTimeoutError` after *timeout* seconds.
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
    speak_promptly(sock)
    return sock


def speak_promptly(sock: socket.socket) -> None:
    """Set a TCP socket up for a serial line: no Nagle, keep-alive, and small buffers.

    A serial line is slow; what waits in megabytes of buffers would delay each command behind it
    by minutes.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_INTERVAL_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _KEEPALIVE_PROBES)


def is_out_of_reach(sock: socket.socket) -> bool:
    """Whether the other side has not confirmed what was sent to it, nor anything else, for 25 s.

    The keep-alive probes rest while something is unconfirmed, and the kernel would repeat that for
    a quarter of an hour. TCP_USER_TIMEOUT was rejected: it also ends a connection whose other side
    lives, but takes nothing, which a serial line stopped by flow control does for as long as it
    likes.
    """
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False  # no TCP, or already closed: its own error tells
    return len(info) == _INFO.size and tells_of_silence(info)


def tells_of_silence(info: bytes) -> bool:
    """Whether a ``struct tcp_info`` is that of a connection whose other side is out of reach."""
    retransmits, probes, unconfirmed, data_ms, ack_ms = _INFO.unpack_from(info)
    return bool((retransmits and unconfirmed) or probes) and min(data_ms, ack_ms) >= _SILENT_MS
