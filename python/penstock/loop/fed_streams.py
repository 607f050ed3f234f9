"""asyncio's own stream classes while a transport of this loop feeds them: their waits are native.

A transport makes a reader and a protocol that are exactly asyncio's into these, and the protocol
the writer that it makes for a server. They differ in nothing but the methods named here: the
attributes are asyncio's, and so is every other method.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock._core import AsyncioReaderWaits, AsyncioWriterWaits


class StreamReader(asyncio.StreamReader, AsyncioReaderWaits):
    """``asyncio.StreamReader``; data that arrives resumes the task that waits for it at once."""

    __slots__ = ()

    read: Any = AsyncioReaderWaits.read
    _wait_for_data: Any = AsyncioReaderWaits._wait_for_data


class StreamWriter(asyncio.StreamWriter, AsyncioWriterWaits):
    """``asyncio.StreamWriter``; a ``drain()`` with nothing to wait for is no coroutine."""

    __slots__ = ()

    drain: Any = AsyncioWriterWaits.drain


class StreamReaderProtocol(asyncio.StreamReaderProtocol):
    """``asyncio.StreamReaderProtocol``; a server's handler gets a writer of the class above."""

    __slots__ = ()

    _client_connected_cb: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make reader and writer and call the handler."""
        handler = self._client_connected_cb

        def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
            if type(writer) is asyncio.StreamWriter:
                writer.__class__ = StreamWriter
            return handler(reader, writer)

        if handler is not None:
            self._client_connected_cb = handle
        try:
            super().connection_made(transport)
        finally:
            self._client_connected_cb = handler
