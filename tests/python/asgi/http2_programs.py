"""Random frames in random pieces for the server, and applications that act at random.

usage: python -m tests.python.asgi.http2_programs --programs N [--seed S] [--gc-threshold N]

A program is a connection of HTTP/2: requests on streams that overlap, between them frames of every
kind, perhaps with bytes changed, in pieces, and an end as in `request_programs`, whose applications
answer. Whatever happens, messages come in the order that ASGI has, a stream of a connection that
was not changed ends, and an application that answers whole is received whole.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import hpack

from .http2_client import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    request_fields,
)
from .request_programs import Request, Run, in_pieces, main, make_requests

PADDED, PRIORITISED = 0x8, 0x20
UNKNOWN = 0x4B
LARGEST_FRAME = 16384
# All bodies fit into the window that a connection has before the server says more.
LARGEST_BODY = 10_000

# The answers are not held up: large windows for streams and for the connection.
OPENING = (
    PREFACE
    + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, (1 << 31) - 1))
    + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30))
)


@dataclass
class Program:
    """A connection's bytes, their pieces, and its end."""

    requests: list[Request]
    reset: set[int] = field(default_factory=set)
    pieces: list[bytes] = field(default_factory=list)
    changed: bool = False
    end: str = "wait"


class Frames:
    """Writes the frames of the requests, with others between them."""

    def __init__(self, program: Program, choose: random.Random) -> None:
        self._program = program
        self._choose = choose
        self._encoder = hpack.Encoder()
        self._rest: dict[int, list[bytes]] = {}
        self.text = bytearray(OPENING)

    def write_all(self) -> None:
        requests = list(self._program.requests)
        while requests or self._rest:
            if requests and self._choose.random() < 0.4:
                self._open(requests.pop(0))
            elif self._rest:
                self._continue()
            if self._choose.random() < 0.3:
                self.text += self._other()

    def _open(self, request: Request) -> None:
        choose = self._choose
        stream = 2 * request.number + 1
        fields = request_fields(
            b"/%d" % request.number,
            request.method.encode(),
            *[(b"x-%d" % n, b"v" * choose.choice([0, 1, 300])) for n in range(choose.randrange(4))],
        )
        block = bytes(self._encoder.encode(fields))
        parts = [block]
        if choose.random() < 0.3:
            cut = choose.randrange(len(block) + 1)
            parts = [block[:cut], block[cut:]]
        body = request.body[:LARGEST_BODY] if request.method == "POST" else b""
        ends = request.method != "POST"
        flags = END_STREAM if ends else 0
        first = parts[0]
        if choose.random() < 0.2:
            flags |= PRIORITISED
            first = struct.pack(">IB", 0, choose.randrange(256)) + first
        if choose.random() < 0.2:
            flags |= PADDED
            padding = choose.randrange(20)
            first = bytes([padding]) + first + bytes(padding)
        if len(parts) == 1:
            flags |= END_HEADERS
        self.text += frame(HEADERS, flags, stream, first)
        for part in parts[1:]:
            self.text += frame(CONTINUATION, END_HEADERS, stream, part)
        if not ends:
            self._rest[stream] = self._body(stream, body)
        if choose.random() < 0.15:
            self._program.reset.add(stream)
            rest = self._rest.setdefault(stream, [])
            code = struct.pack(">I", choose.randrange(14))
            del rest[choose.randrange(len(rest) + 1) :]
            rest.append(frame(RST_STREAM, 0, stream, code))

    def _body(self, stream: int, body: bytes) -> list[bytes]:
        frames = []
        while body:
            size = self._choose.choice([1, 100, LARGEST_FRAME])
            frames.append(frame(DATA, 0, stream, body[:size]))
            body = body[size:]
            if len(frames) > 20:
                frames += [
                    frame(DATA, 0, stream, body[at : at + LARGEST_FRAME])
                    for at in range(0, len(body), LARGEST_FRAME)
                ]
                break
        if self._choose.random() < 0.3:
            frames.append(frame(HEADERS, END_HEADERS | END_STREAM, stream, b""))  # trailers
        else:
            frames.append(frame(DATA, END_STREAM, stream, b""))
        return frames

    def _continue(self) -> None:
        stream = self._choose.choice([*self._rest])
        self.text += self._rest[stream].pop(0)
        if not self._rest[stream]:
            del self._rest[stream]

    def _other(self) -> bytes:
        choose = self._choose
        match choose.randrange(6):
            case 0:
                return frame(PING, 0, 0, choose.randbytes(8))
            case 1:
                return frame(SETTINGS, 0, 0, struct.pack(">HI", 1, choose.choice([0, 100, 4096])))
            case 2:
                return frame(PRIORITY, 0, 2 * choose.randrange(1, 9) + 1, bytes(4) + b"\x10")
            case 3:
                return frame(UNKNOWN, choose.randrange(256), 0, choose.randbytes(9))
            case 4:
                return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", choose.randrange(1, 1000)))
            case _:
                return b""


def make_program(seed: int) -> Program:
    choose = random.Random(seed)
    program = Program(make_requests(choose))
    frames = Frames(program, choose)
    frames.write_all()
    text = frames.text
    if choose.random() < 0.5:
        program.changed = True
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(min(len(text), choose.choice([100, 400, 1 << 30])))
            match choose.randrange(3):
                case 0:
                    text[at] = choose.randrange(256)
                case 1:
                    del text[at : at + choose.randrange(1, 12)]
                case 2:
                    kind = choose.randrange(11)
                    stream = choose.choice([0, 1, 2, 3, 99, 0x7FFFFFFF])
                    extra = choose.randbytes(choose.choice([0, 1, 4, 5, 8, 200]))
                    text[at:at] = frame(kind, choose.randrange(256), stream, extra)
    program.end = choose.choice(["wait", "wait", "half", "close", "reset"])
    program.pieces = in_pieces(bytes(text), choose)
    if program.end in ("close", "reset") and choose.random() < 0.5:
        del program.pieces[choose.randrange(len(program.pieces)) :]
    return program


class Answers:
    """What the server has sent."""

    def __init__(self) -> None:
        self._text = b""
        self._decoder = hpack.Decoder()
        self._block = b""
        self.bodies: dict[int, bytearray] = {}
        self.statuses: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.reset: set[int] = set()

    def take(self, data: bytes) -> None:
        self._text += data
        while len(self._text) >= 9:
            size = int.from_bytes(self._text[:3], "big")
            if len(self._text) < 9 + size:
                break
            kind, flags = self._text[3], self._text[4]
            stream = int.from_bytes(self._text[5:9], "big")
            payload = self._text[9 : 9 + size]
            self._text = self._text[9 + size :]
            self._take_frame(kind, flags, stream, payload)

    def _take_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        match kind:
            case 1 | 9:
                self._block += payload
                if flags & END_HEADERS:
                    fields: Any = dict(self._decoder.decode(self._block, raw=True))
                    self._block = b""
                    self.statuses[stream] = fields[b":status"]
            case 0:
                assert stream in self.statuses, "a body before its head"
                assert stream not in self.ended, "a body behind its end"
                self.bodies.setdefault(stream, bytearray()).extend(payload)
            case 3:
                self.reset.add(stream)
            case 7:
                raise AssertionError(f"GOAWAY {payload[4:8].hex()} {payload[8:]!r}")
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            self.ended.add(stream)


class Http2Run(Run):
    """Runs programs on one server of HTTP/2."""

    options: ClassVar[dict[str, Any]] = {"http2": True}

    async def run(self, seed: int, port: int) -> None:
        """Run a program."""
        program = make_program(seed)
        self.program = program
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if program.end == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        judged = program.end == "wait" and not program.changed
        reading = asyncio.ensure_future(self._judge(program, reader) if judged else reader.read())
        try:
            for piece in program.pieces:
                if not writer.transport.is_closing():
                    writer.write(piece)
                await asyncio.sleep(0)
            if judged:
                await asyncio.wait_for(reading, 10)
            elif program.end == "half":
                with suppress(OSError, RuntimeError):  # GOAWAY has closed it
                    writer.write_eof()
            if program.end in ("wait", "half"):
                await asyncio.wait([reading], timeout=0.02)
        except ConnectionError:
            if judged:
                raise
        finally:
            reading.cancel()
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.wait([reading])
                if not reading.cancelled():
                    reading.exception()

    @staticmethod
    async def _judge(program: Program, reader: asyncio.StreamReader) -> None:
        answers = Answers()
        streams = {2 * request.number + 1: request for request in program.requests}
        while not streams.keys() - program.reset <= answers.ended | answers.reset:
            data = await reader.read(65536)
            assert data, "the server has closed the connection"
            answers.take(data)
        for stream, request in streams.items():
            if request.is_clean and stream not in program.reset:
                assert stream in answers.ended, f"request {request.number} was reset"
                assert answers.statuses[stream] == b"200", f"request {request.number}"
                body = bytes(answers.bodies.get(stream, b""))
                assert body == request.response, f"request {request.number}"


if __name__ == "__main__":
    main(Http2Run)
