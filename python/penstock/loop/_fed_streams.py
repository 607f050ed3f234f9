"""Subclasses of asyncio's stream classes with native waits, for transports of this loop.

A transport changes the class of a plain asyncio reader and protocol to these. The protocol does the
same to the writer of a server. Only the methods in this module differ; all other methods and the
attributes are asyncio's.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock._core import AsyncioReaderWaits, AsyncioWriterWaits


class StreamReader(asyncio.StreamReader, AsyncioReaderWaits):
    """``asyncio.StreamReader``; arriving data resumes the waiting task at once."""

    __slots__ = ()

    read: Any = AsyncioReaderWaits.read
    _wait_for_data: Any = AsyncioReaderWaits._wait_for_data


class StreamWriter(asyncio.StreamWriter, AsyncioWriterWaits):
    """``asyncio.StreamWriter``; a ``drain()`` that need not wait is not a coroutine."""

    __slots__ = ()

    drain: Any = AsyncioWriterWaits.drain


class StreamReaderProtocol(asyncio.StreamReaderProtocol):
    """``asyncio.StreamReaderProtocol``; a server's handler gets a writer of the class above."""

    __slots__ = ()

    _client_connected_cb: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Make the reader and the writer, and call the handler."""
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

    # TLS has begun: from now on the reader pauses and resumes the new transport, as in later
    # versions of asyncio. In earlier ones it pauses the transport below, and the new one fills the
    # reader's buffer without limit.

    def _replace_writer(self, writer: asyncio.StreamWriter) -> None:
        """What ``StreamWriter.start_tls`` calls before Python 3.13."""
        self._replace("_replace_writer", writer, writer.transport)

    def _replace_transport(self, transport: asyncio.Transport) -> None:
        """What ``StreamWriter.start_tls`` calls from Python 3.13 on."""
        self._replace("_replace_transport", transport, transport)

    def _replace(self, method: str, argument: Any, transport: asyncio.BaseTransport) -> None:
        of_stream: Any = self
        reader = of_stream._stream_reader
        beneath = reader._transport if reader is not None else None
        getattr(super(), method)(argument)
        if reader is None:
            return
        reader._transport = transport
        if reader._paused and beneath is not transport:
            # Data that came before has filled the buffer, and the pause moves up.
            reader._transport.pause_reading()
            if beneath is not None:
                beneath.resume_reading()
