"""Making TLS transports: native where possible, asyncio's otherwise.

The native transport (``penstock._core.SSLTransport``) uses a ``SocketTransport`` and the
interpreter's own OpenSSL. asyncio's ``SSLProtocol`` serves TLS inside TLS, contexts that make
another kind of ``SSLObject``, and interpreters whose OpenSSL cannot be reached.
"""

from __future__ import annotations

import asyncio
from asyncio import constants
from typing import TYPE_CHECKING, Any

from penstock import _core

if TYPE_CHECKING:
    from ssl import SSLContext


def make_tls_transport(
    loop: _core.LoopCore,
    protocol: asyncio.BaseProtocol,
    sslcontext: SSLContext | None,
    waiter: asyncio.Future[None] | None,
    *,
    server_side: bool,
    server_hostname: str | None,
    call_connection_made: bool,
    ssl_handshake_timeout: float | None,
    ssl_shutdown_timeout: float | None,
) -> _core.SSLTransport | None:
    """Return a native TLS transport, not yet connected; None where there can be none.

    Raises:
        ValueError: for a timeout that is not positive, and for a server without a context.
    """
    handshake_timeout = _timeout(
        "ssl_handshake_timeout", ssl_handshake_timeout, constants.SSL_HANDSHAKE_TIMEOUT
    )
    shutdown_timeout = _timeout(
        "ssl_shutdown_timeout", ssl_shutdown_timeout, constants.SSL_SHUTDOWN_TIMEOUT
    )
    context = sslcontext or _default_context(server_side, server_hostname)
    if not _makes_plain_objects(context):
        return None
    try:
        return _core.SSLTransport(
            loop,
            protocol,
            context,
            waiter,
            server_side,
            server_hostname if server_hostname and not server_side else None,
            call_connection_made,
            handshake_timeout,
            shutdown_timeout,
        )
    except NotImplementedError:
        return None


def take_unread(protocol: asyncio.BaseProtocol) -> bytes:
    """Take the unread data of a stream's reader before TLS begins.

    The first record of a client that sends it at once is buffered there. Empty for other protocols.
    """
    reader: Any = getattr(protocol, "_stream_reader", None)
    if isinstance(protocol, asyncio.StreamReaderProtocol) and reader is not None:
        unread = bytes(reader._buffer)
        reader._buffer.clear()
        return unread
    if isinstance(protocol, _core.StreamProtocolCore) and protocol._reader is not None:
        return protocol._reader._take_buffered()
    return b""


def _timeout(name: str, given: float | None, default: float) -> float:
    if given is None:
        return default
    if given <= 0:
        raise ValueError(f"{name} should be a positive number, got {given}")
    return given


def _default_context(server_side: bool, server_hostname: str | None) -> SSLContext:
    import ssl

    if server_side:
        raise ValueError("Server side SSL needs a valid SSLContext")
    context = ssl.create_default_context()
    if not server_hostname:
        context.check_hostname = False
    return context


def _makes_plain_objects(context: Any) -> bool:
    """Whether the context makes plain ``ssl.SSLObject`` instances."""
    import ssl

    return isinstance(context, ssl.SSLContext) and context.sslobject_class is ssl.SSLObject
