"""A client of HTTP/2 on `h2`, and frames that no client sends."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import hpack

from penstock import asgi

Fields = Sequence[tuple[bytes, bytes]]

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
CANCEL, ENHANCE_YOUR_CALM = 8, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def request_fields(
    path: bytes = b"/", method: bytes = b"GET", *more: tuple[bytes, bytes]
) -> Fields:
    """Return the fields of a request."""
    return [
        (b":method", method),
        (b":scheme", b"http"),
        (b":authority", b"test"),
        (b":path", path),
        *more,
    ]


@dataclass
class Answer:
    """What has come back on a stream."""

    status: int = 0
    fields: dict[bytes, bytes] = field(default_factory=dict)
    interim: list[tuple[int, dict[bytes, bytes]]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None


class Http2Client:
    """A connection. It opens its windows as it reads, unless `reads` is false."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.settings: dict[int, int] = {}
        self.goaway: tuple[int, int] | None = None
        self.reads = True

    async def start(self, settings: dict[Any, int] | None = None) -> None:
        # What is set in `local_settings` itself waits for an acknowledgement, and is never sent.
        first = {**self.h2.local_settings, **(settings or {})}
        self.h2.local_settings = h2.settings.Settings(client=True, initial_values=first)
        self.h2.initiate_connection()
        self.flush()
        while not self.settings:
            await self.read()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, fields: Fields | None = None, *, ends: bool = True) -> int:
        """Send the head of a request; return its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.answers[stream] = Answer()
        self.h2.send_headers(stream, fields or request_fields(), end_stream=ends)
        self.flush()
        return stream

    async def upload(self, stream: int, body: bytes) -> None:
        """Send a body as the windows allow."""
        sent = self.send(stream, body, end=True)
        while sent < len(body):
            await self.read()
            sent += self.send(stream, body[sent:], end=True)

    def send(self, stream: int, body: bytes, *, end: bool = False) -> int:
        """Send what the window takes of a body; return how much that was."""
        sent = 0
        while sent < len(body):
            window = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if window == 0:
                break
            part = body[sent : sent + window]
            self.h2.send_data(stream, part)
            sent += len(part)
        if end and sent == len(body):
            self.h2.end_stream(stream)
        self.flush()
        return sent

    async def read(self) -> list[Any]:
        """Take what the server sends next."""
        data = await self.reader.read(65536)
        if not data:
            raise ConnectionResetError("the server has closed the connection")
        events = self.h2.receive_data(data)
        for event in events:
            self._take(event)
        self.flush()
        return list(events)

    def _take(self, event: Any) -> None:
        if isinstance(event, h2.events.RemoteSettingsChanged):
            changed = event.changed_settings
            self.settings |= {int(code): each.new_value for code, each in changed.items()}
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = (int(event.error_code), event.last_stream_id or 0)
        stream: int | None = getattr(event, "stream_id", None)
        answer = self.answers.get(stream) if stream else None
        if answer is None or stream is None:
            return
        if isinstance(event, h2.events.InformationalResponseReceived):
            fields = dict(event.headers)
            answer.interim.append((int(fields.pop(b":status")), fields))
        elif isinstance(event, h2.events.ResponseReceived):
            answer.fields = dict(event.headers)
            answer.status = int(answer.fields.pop(b":status"))
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            if self.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
        elif isinstance(event, h2.events.StreamEnded):
            answer.ended = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset = int(event.error_code)

    async def round_trip(self) -> None:
        """Wait until the server has taken what was sent."""
        self.h2.ping(b"12345678")
        self.flush()
        while not any(isinstance(e, h2.events.PingAckReceived) for e in await self.read()):
            pass

    async def answer(self, stream: int) -> Answer:
        """Read until a response is whole, or its stream was reset."""
        answer = self.answers[stream]
        while not answer.ended and answer.reset is None:
            await self.read()
        return answer

    async def until_closed(self) -> tuple[int, int] | None:
        """Read until the server closes; return the code and the last stream of its GOAWAY."""
        try:
            while True:
                await self.read()
        except ConnectionError:
            return self.goaway


@asynccontextmanager
async def speaking_http2(
    server: asgi.Server, tls: ssl.SSLContext | None = None, settings: dict[Any, int] | None = None
) -> AsyncIterator[Http2Client]:
    name = "localhost" if tls is not None else None
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=tls, server_hostname=name
    )
    client = Http2Client(reader, writer)
    try:
        await client.start(settings)
        yield client
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


class RawClient:
    """A connection on which the test writes the frames itself."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, begins: bool = True
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.encoder = hpack.Encoder()
        if begins:
            writer.write(PREFACE + frame(SETTINGS, 0, 0))

    def head(self, *more: tuple[bytes, bytes], path: bytes = b"/", method: bytes = b"GET") -> bytes:
        """Return the head of a request, compressed."""
        return bytes(self.encoder.encode(request_fields(path, method, *more)))

    def write(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def next(self) -> tuple[int, int, int, bytes]:
        """Read a frame: its type, flags, stream and payload."""
        head = await self.reader.readexactly(9)
        payload = await self.reader.readexactly(int.from_bytes(head[:3], "big"))
        return head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, payload

    async def next_of(self, *kinds: int, stream: int | None = None) -> tuple[int, int, int, bytes]:
        """Read until a frame of one of these types."""
        while True:
            found = await self.next()
            if found[0] in kinds and stream in (None, found[2]):
                return found

    async def goaway(self) -> int:
        """Read until the connection ends; return the code of the GOAWAY."""
        _, _, _, payload = await self.next_of(GOAWAY)
        with suppress(OSError):  # the server may have reset the connection
            self.writer.write_eof()
            await self.reader.read()
        return int.from_bytes(payload[4:8], "big")


@asynccontextmanager
async def sending_frames(server: asgi.Server) -> AsyncIterator[RawClient]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield RawClient(reader, writer)
    finally:
        writer.close()
