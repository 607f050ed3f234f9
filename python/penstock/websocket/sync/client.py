"""The blocking client."""

from __future__ import annotations

import socket
import ssl as ssl_module
from collections.abc import Callable
from typing import Any

from penstock.websocket import client as asynchronous
from penstock.websocket.sync.background import call
from penstock.websocket.sync.connection import Connection
from penstock.websocket.typing import PathLike

__all__ = ["ClientConnection", "connect", "unix_connect"]


class ClientConnection(Connection):
    """A connection to a server."""


def connect(
    uri: str,
    *,
    sock: socket.socket | None = None,
    ssl: ssl_module.SSLContext | bool | None = None,
    create_connection: Callable[..., ClientConnection] | None = None,
    source_address: tuple[str, int] | None = None,
    **kwargs: Any,
) -> ClientConnection:
    """Connect to a WebSocket server.

    Use it as `connection = connect(uri)` or as `with connect(uri) as connection`, which closes the
    connection at the end. `for message in connection` receives until the peer closes normally.

    Args:
        uri: A ws:// or wss:// address.
        sock: A connected socket, which the loop takes over.
        ssl: The TLS context; True or None is the default one for wss://.
        create_connection: Called instead of `ClientConnection` with the asynchronous connection.
        source_address: The address from which to connect.
        **kwargs: As for `penstock.websocket.connect`.

    Raises:
        Exception: What `penstock.websocket.connect` raises.
    """
    if source_address is not None:
        kwargs["local_addr"] = source_address
    if sock is not None:
        sock.setblocking(False)
        kwargs["sock"] = sock
    connecting = asynchronous.connect(uri, ssl=ssl, **kwargs)
    return (create_connection or ClientConnection)(call(connecting._connect))


def unix_connect(
    path: PathLike | None = None, uri: str | None = None, **kwargs: Any
) -> ClientConnection:
    """Connect to a WebSocket server that listens on a Unix socket.

    Args:
        path: The socket's path; not needed with `sock`.
        uri: The address in the request: ws://localhost/ or, with `ssl`, wss://localhost/ if None.
        **kwargs: As for `connect`.
    """
    if uri is None:
        uri = "ws://localhost/" if kwargs.get("ssl") is None else "wss://localhost/"
    return connect(uri, unix=True, path=path, **kwargs)
