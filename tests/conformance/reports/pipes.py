"""Pipes and FIFOs as transports."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import tempfile
from typing import Any

from tests.conformance.reports.case import (
    Factory,
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    raised_by,
    raised_in,
    reports_of,
)
from tests.conformance.reports.peers import Recorder, is_open, polls, turns, until

ROOM = Room("pipes")


class Watched(io.FileIO):
    """A pipe's file object that notes whether its descriptor was open when it was closed."""

    def __init__(self, descriptor: int, mode: str) -> None:
        super().__init__(descriptor, mode)
        self.open_at_close: list[bool] = []

    def close(self) -> None:
        if not self.closed:
            self.open_at_close.append(is_open(self.fileno()))
        super().close()


@ROOM.case(
    "uvloop 763",
    "a pipe's descriptor was closed twice, the second time a stranger's of the same number",
    {
        "read end, close": ("read", "close"),
        "read end, end of file": ("read", "eof"),
        "write end, close": ("write", "close"),
        "write end, abort": ("write", "abort"),
        "write end, reader gone": ("write", "gone"),
    },
)
async def descriptor_closed_once(loop: Loop, end: str, way: str) -> None:
    read, write = os.pipe()
    lost = loop.create_future()

    class Lost(asyncio.Protocol):
        def connection_lost(self, exc: BaseException | None) -> None:
            lost.set_result(None)

    transport: Any
    if end == "read":
        file = Watched(read, "rb")
        transport, _ = await loop.connect_read_pipe(Lost, file)
        other = write
    else:
        file = Watched(write, "wb")
        transport, _ = await loop.connect_write_pipe(Lost, file)
        other = read
    if way in ("eof", "gone"):
        os.close(other)
    else:
        getattr(transport, way)()
    await lost
    await until(loop, lambda: file.closed)
    if way not in ("eof", "gone"):
        os.close(other)
    expect(file.open_at_close, [True], "descriptor open when its file was closed")


@ROOM.case(
    "zuvloop 2412392",
    "the writer of a pipe was not told that the reader had gone",
    {"pipe": ("pipe",), "FIFO": ("fifo",)},
)
async def reader_goes_away(loop: Loop, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "pipe":
            read, write = os.pipe()
        else:
            path = os.path.join(folder, "fifo")
            os.mkfifo(path)
            read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            write = os.open(path, os.O_WRONLY)
        protocol: Any
        _, protocol = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", buffering=0))
        os.close(read)
        await protocol.lost
        expect(len(protocol.losses), 1, "calls of connection_lost")


@ROOM.case(
    "zuvloop 0ff6caf",
    "what was written to a pipe while the loop did not run was never sent",
)
def write_to_a_pipe_while_stopped(factory: Factory) -> None:
    loop = factory()
    read, write = os.pipe()
    os.set_blocking(read, False)

    async def connect() -> Any:
        return await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", buffering=0))

    transport, _ = loop.run_until_complete(connect())
    transport.write(b"while stopped")
    loop.run_until_complete(turns(3))
    received = os.read(read, 100)
    transport.close()
    loop.run_until_complete(turns(5))
    loop.close()
    os.close(read)
    expect(received, b"while stopped", "received")


@ROOM.case(
    "zuvloop 67",
    "closing the write end lost what was still buffered",
    {"close": ("close",), "write_eof": ("write_eof",)},
)
async def buffered_data_before_the_end(loop: Loop, way: str) -> None:
    read, write = os.pipe()
    writer: Any
    reader: Any
    writer, _ = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", buffering=0))
    writer.write(bytes(300_000))
    getattr(writer, way)()
    _, reader = await loop.connect_read_pipe(Recorder, os.fdopen(read, "rb", buffering=0))
    await reader.lost
    expect(len(reader.received), 300_000, "bytes received")


@ROOM.case(
    "zuvloop 61",
    "a buffer changed after write() reached the reader of a pipe with the new content",
)
async def buffer_changed_after_write_to_a_pipe(loop: Loop) -> None:
    read, write = os.pipe()
    writer: Any
    reader: Any
    writer, _ = await loop.connect_write_pipe(Recorder, os.fdopen(write, "wb", buffering=0))
    data = bytearray(b"A" * 300_000)
    writer.write(data)
    data[:] = b"B" * 300_000
    writer.close()
    _, reader = await loop.connect_read_pipe(Recorder, os.fdopen(read, "rb", buffering=0))
    await reader.lost
    expect((len(reader.received), reader.received.count(b"B")), (300_000, 0), "bytes, and changed")


@ROOM.case(
    "CPython 156512",
    "connection_lost of a pipe was called twice when resume_writing closed the transport",
    {"close": ("close",), "abort": ("abort",)},
)
async def pipe_closed_in_resume_writing(loop: Loop, way: str) -> None:
    reports = reports_of(loop)

    class Writer(Recorder):
        def resume_writing(self) -> None:
            getattr(self.transport, way)()

    read, write = os.pipe()
    writer: Any
    reader: Any
    writer, protocol = await loop.connect_write_pipe(Writer, os.fdopen(write, "wb", buffering=0))
    writer.set_write_buffer_limits(high=1000, low=0)
    writer.write(bytes(300_000))
    _, reader = await loop.connect_read_pipe(Recorder, os.fdopen(read, "rb", buffering=0))
    await reader.lost
    await polls(loop)
    expect(len(protocol.losses), 1, "calls of connection_lost")
    expect_no_reports(reports)


@ROOM.case(
    "anyio 1250",
    "abort() of a pipe in the turn of its close() told the end twice",
)
async def pipe_aborted_after_close(loop: Loop) -> None:
    reports = reports_of(loop)
    read, write = os.pipe()
    protocol: Any
    transport, protocol = await loop.connect_write_pipe(
        Recorder, os.fdopen(write, "wb", buffering=0)
    )
    transport.close()
    transport.abort()
    await protocol.lost
    await turns(3)
    expect(len(protocol.losses), 1, "calls of connection_lost")
    os.close(read)
    expect_no_reports(reports)


@ROOM.case(
    "anyio 1250",
    "abort() of a pipe after connection_lost raised",
    {"close": ("close",), "abort": ("abort",)},
)
async def pipe_closed_again(loop: Loop, way: str) -> None:
    reports = reports_of(loop)
    read, write = os.pipe()
    transport: Any
    protocol: Any
    transport, protocol = await loop.connect_write_pipe(
        Recorder, os.fdopen(write, "wb", buffering=0)
    )
    transport.close()
    await protocol.lost
    await turns(3)
    expect(raised_in(getattr(transport, way)), "nothing", "raised")
    await turns(3)
    expect(len(protocol.losses), 1, "calls of connection_lost")
    os.close(read)
    expect_no_reports(reports)


@ROOM.case(
    "pyuv 197",
    "a regular file was taken as a pipe, and reading it failed later",
    {"read": ("connect_read_pipe", "rb"), "write": ("connect_write_pipe", "wb")},
)
async def regular_file_as_pipe(loop: Loop, method: str, mode: str) -> None:
    with tempfile.NamedTemporaryFile() as made, open(made.name, mode, buffering=0) as file:
        raised = await raised_by(getattr(loop, method)(asyncio.Protocol, file))
        expect(raised, "ValueError", "raised")
    gc.collect()


@ROOM.case(
    "CPython 103607",
    "pause_reading() in connection_made of a pipe had no effect",
)
async def pipe_paused_from_the_start(loop: Loop) -> None:
    class Pausing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    read, write = os.pipe()
    protocol: Any
    transport: Any
    os.write(write, b"x")
    transport, protocol = await loop.connect_read_pipe(Pausing, os.fdopen(read, "rb", buffering=0))
    await polls(loop)
    expect(bytes(protocol.received), b"", "data while paused")
    transport.resume_reading()
    expect(await protocol.receives(1), b"x", "data after resume_reading")
    os.close(write)
    await protocol.lost
    expect_true(transport.is_closing(), "not closing at the end of file")
