"""Requests with a body to one HTTP/1.1 server, over a connection that is kept (RFC 9112).

As much as the sinks need: no redirects, no proxy, no cookies, one request at a time. The method is
POST, because all that is sent are rows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.record._network.protocol import as_away
from penstock.record._network.server import Trust

_LONGEST_BODY = 1 << 20
_LONGEST_LINE = 1 << 16
_MOST_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: the status, the header fields with names in lower case, the body.

    Of a body of megabytes, in which a server complains of each line, it has the beginning.
    """

    status: int
    fields: Mapping[str, str]
    body: bytes

    def retry_after(self) -> float | None:
        """The seconds of Retry-After (RFC 9110, 10.2.3); None without it, or for a date."""
        text = self.fields.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


class HttpPost:
    """A connection to one server, made when it is needed. Used by one task at a time.

    Args:
        host: a name or an address.
        port: TCP port.
        tls: for HTTPS; the server's name is checked against ``host``.
        timeout: seconds for a request and its answer, connecting included.
    """

    def __init__(self, host: str, port: int, tls: Trust | None, timeout: float) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._timeout = timeout
        shown = f"[{host}]" if ":" in host else host
        self._authority = f"{shown}:{port}"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def post(self, target: str, fields: Mapping[str, str], body: bytes) -> Answer:
        """Send a request, and return the answer to it.

        Cancellation: the server may have taken the request, or not. The connection is closed.

        Raises:
            Misconfigured: the server's certificate is not trusted.
            Away: no server, no answer in time, or one that is not HTTP.
        """
        head = "".join(
            f"{name}: {value}\r\n"
            for name, value in {
                "Host": self._authority,
                "User-Agent": "penstock",
                "Content-Length": str(len(body)),
                **fields,
            }.items()
        )
        request = f"POST {target} HTTP/1.1\r\n{head}\r\n".encode()
        kept = self._writer is not None
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    return await self._exchange(request, body)
                except (OSError, EOFError):
                    # A server closes a connection that was idle; that is not a failure.
                    if not kept:
                        raise
                await self.close()
                return await self._exchange(request, body)
        except BaseException as error:
            await self.close()
            if (away := as_away(error, self._timeout, (ValueError,))) is not None:
                raise away from error
            raise

    async def close(self) -> None:
        """Close the connection."""
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, request: bytes, body: bytes) -> Answer:
        if self._reader is None or self._writer is None:
            tls = None if self._tls is None else self._tls.context()
            self._reader, self._writer = await asyncio.open_connection(
                self._host, self._port, ssl=tls, limit=_LONGEST_LINE
            )
        # Not drained: a server may answer before it has read all, and close.
        self._writer.write(request + body)
        return await self._answer(self._reader)

    async def _answer(self, reader: asyncio.StreamReader) -> Answer:
        status = 100
        while 100 <= status < 200:
            line = await self._line(reader)
            version, _, rest = line.partition(" ")
            if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
                raise ValueError(f"the answer is not HTTP: {line[:60]!r}")
            status = int(rest[:3])
            fields = await self._fields(reader)
        body, ends = b"", False
        if status not in (204, 304):
            if "chunked" in fields.get("transfer-encoding", "").lower():
                body, ends = await self._chunks(reader)
            elif "content-length" in fields:
                size = int(fields["content-length"])
                if size < 0:
                    raise ValueError(f"the answer has {size} bytes")
                ends = size > _LONGEST_BODY
                body = await reader.readexactly(min(size, _LONGEST_BODY))
            else:
                body, ends = await self._to_the_end(reader), True
        if ends or version == "HTTP/1.0" or "close" in fields.get("connection", "").lower():
            await self.close()
        return Answer(status, fields, body)

    async def _fields(self, reader: asyncio.StreamReader) -> dict[str, str]:
        fields: dict[str, str] = {}
        while line := await self._line(reader):
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
            if len(fields) > _MOST_FIELDS:
                raise ValueError("the answer's head has too many fields")
        return fields

    async def _chunks(self, reader: asyncio.StreamReader) -> tuple[bytes, bool]:
        """The body, and whether it goes on."""
        body = b""
        while size := int((await self._line(reader)).partition(";")[0], 16):
            room = _LONGEST_BODY - len(body)
            body += await reader.readexactly(min(size, room))
            if size > room:
                return body, True
            await self._line(reader)
        await self._fields(reader)
        return body, False

    async def _to_the_end(self, reader: asyncio.StreamReader) -> bytes:
        body = b""
        while len(body) < _LONGEST_BODY and (data := await reader.read(_LONGEST_BODY - len(body))):
            body += data
        return body

    async def _line(self, reader: asyncio.StreamReader) -> str:
        line = await reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line.decode("latin-1").rstrip("\r\n")
