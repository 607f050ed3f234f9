"""asyncio's streams on the loop's transports."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
import warnings
from typing import Any

from tests.conformance.reports.case import (
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    needs_python,
    raised_by,
    reports_of,
)
from tests.conformance.reports.peers import KINDS, address_of, polls, reset, turns, unix_path
from tests.python.loop.certificates import client_context, server_context

ROOM = Room("streams")


@contextlib.asynccontextmanager
async def connected(kind: str, handler: Any, **options: Any) -> Any:
    with unix_path() as path:
        if kind == "unix":
            server: Any = await asyncio.start_unix_server(handler, path)
            reader, writer = await asyncio.open_unix_connection(path, **options)
        else:
            secure = kind == "tls"
            server = await asyncio.start_server(
                handler, "127.0.0.1", 0, ssl=server_context() if secure else None
            )
            reader, writer = await asyncio.open_connection(
                *address_of(server),
                ssl=client_context() if secure else None,
                server_hostname="localhost" if secure else None,
                **options,
            )
        try:
            yield reader, writer
        finally:
            with contextlib.suppress(AttributeError):
                writer.transport.abort()
            server.close()


@ROOM.case(
    "CPython 83939",
    "wait_closed() waited for ever when the peer had gone",
    KINDS,
)
async def wait_closed_after_the_peer(loop: Loop, kind: str) -> None:
    reports = reports_of(loop)

    async def abort(reader: Any, writer: Any) -> None:
        writer.transport.abort()

    async with connected(kind, abort) as (reader, writer):
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        expect_true(writer.is_closing(), "not closing")
        # A second wait ends as well.
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    expect_no_reports(reports)


@ROOM.case(
    "CPython 118950",
    "drain() never raised although the connection was lost",
    KINDS,
)
async def drain_on_a_lost_connection(loop: Loop, kind: str) -> None:
    async def abort(reader: Any, writer: Any) -> None:
        writer.transport.abort()

    raised = "nothing in 2000 rounds"
    async with connected(kind, abort) as (_, writer):
        for _ in range(2000):
            writer.write(bytes(1000))
            try:
                await writer.drain()
            except ConnectionError:
                raised = "ConnectionError"
                break
            await asyncio.sleep(0)
    expect(raised, "ConnectionError", "raised")


@ROOM.case(
    "CPython 114914",
    "a writer that was forgotten without close() gave no warning",
    {"TCP": ("tcp",), "TLS": ("tls",)},
)
async def forgotten_writer(loop: Loop, kind: str) -> None:
    needs_python(3, 13)

    async def hold(reader: Any, writer: Any) -> None:
        await reader.read()
        writer.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with unix_path():
            server = await asyncio.start_server(
                hold, "127.0.0.1", 0, ssl=server_context() if kind == "tls" else None
            )
            pair: Any = await asyncio.open_connection(
                *address_of(server),
                ssl=client_context() if kind == "tls" else None,
                server_hostname="localhost" if kind == "tls" else None,
            )
            del pair
            gc.collect()
            await polls(loop)
            gc.collect()
            server.close()
        await polls(loop)
    told = [warning for warning in caught if warning.category is ResourceWarning]
    expect_true(told, "no ResourceWarning")


@ROOM.case(
    "CPython 110894",
    "a handler that raised took the connection or the server with it",
    KINDS,
)
async def handler_raises(loop: Loop, kind: str) -> None:
    reports = reports_of(loop)

    async def fail(reader: Any, writer: Any) -> None:
        raise ZeroDivisionError("of the handler")

    async with connected(kind, fail) as (reader, _):
        with contextlib.suppress(ConnectionError):
            if sys.version_info >= (3, 12):
                expect(await reader.read(), b"", "what the client reads")
        await polls(loop)
    told = [type(context.get("exception")) for context in reports]
    expect(told, [ZeroDivisionError], "reports")


@ROOM.case(
    "zuvloop 61",
    "a buffer changed after writer.write() was sent with the new content",
    KINDS,
)
async def buffer_changed_after_writer_write(loop: Loop, kind: str) -> None:
    started = asyncio.Event()
    received: asyncio.Future[bytes] = loop.create_future()

    async def collect(reader: Any, writer: Any) -> None:
        await started.wait()
        received.set_result(await reader.read())
        writer.close()

    async with connected(kind, collect) as (_, writer):
        data = bytearray(b"A" * 8_000_000)
        writer.write(data)
        data[:] = b"B" * len(data)
        started.set()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
        got = await received
        expect((len(got), got.count(b"B")), (len(data), 0), "bytes, and changed")


@ROOM.case(
    "CPython 139373",
    "read() that was cancelled lost the data that came in the same turn",
    KINDS,
)
async def cancelled_read_loses_nothing(loop: Loop, kind: str) -> None:
    go = asyncio.Event()

    async def send(reader: Any, writer: Any) -> None:
        for number in range(20):
            await go.wait()
            go.clear()
            writer.write(b"%02d" % number)
        await reader.read()
        writer.close()

    async with connected(kind, send) as (reader, _):
        got = b""
        for number in range(20):
            task = asyncio.ensure_future(reader.read(100))
            await turns(1)
            go.set()
            await turns(number)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                got += task.result()
        while len(got) < 40:
            got += await reader.read(100)
        expect(got, b"".join(b"%02d" % number for number in range(20)), "data")


@ROOM.case(
    "anyio 671",
    "the end of a broken connection was told like that of a closed one",
    {"FIN": (False,), "RST": (True,)},
)
async def data_before_the_end(loop: Loop, abrupt: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        peer, _ = listener.accept()
        peer.send(b"last words")
        await polls(loop)
        expect(await reader.read(4), b"last", "the first part")
        if abrupt:
            reset(peer)
        else:
            peer.close()
        expect(await reader.readexactly(6), b" words", "the second part")
        raised = await raised_by(reader.readexactly(1))
        wanted = "ConnectionResetError" if abrupt else "IncompleteReadError"
        expect(raised, wanted, "raised at the end")
        writer.transport.abort()


@ROOM.case(
    "uvloop 631",
    "separate small writes arrived late while the handler computed",
    {f"{count} writes": (count,) for count in (1, 3)},
)
async def writes_are_sent_before_the_handler_goes_on(loop: Loop, count: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        peer, _ = listener.accept()
        peer.settimeout(2)
        with peer:
            for _ in range(6):
                for _ in range(count):
                    writer.write(b"x")
                await writer.drain()
                got = b""
                with contextlib.suppress(TimeoutError):
                    while len(got) < count:
                        got += peer.recv(10)
                expect(len(got), count, "bytes on the wire after drain()")
                await asyncio.sleep(0)
        writer.transport.abort()
