"""Servers on a Unix socket that their caller has bound: its file stays when they close."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any


async def serve_on(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: Callable[[], asyncio.BaseProtocol],
    sock: socket.socket,
    **options: Any,
) -> asyncio.Server:
    """Call ``create_unix_server`` of the loop with a given socket, and keep the socket's file.

    CPython 3.13 and later remove it when the server closes. The file of a given socket belongs to
    the caller: other processes may listen on the same socket, now or later. A ``cleanup_socket``
    among the options is passed on.
    """
    create: Any = loop.create_unix_server
    if "cleanup_socket" not in options:
        try:
            server: asyncio.Server = await create(
                protocol_factory, sock=sock, cleanup_socket=False, **options
            )
            return server
        except TypeError:  # a loop that does not remove it
            pass
    server = await create(protocol_factory, sock=sock, **options)
    return server
