"""Stream transports: closing, writing, flow control and exceptions of protocols."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import weakref
from typing import Any

from tests.conformance.reports.case import (
    Factory,
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    raised_in,
    reports_of,
)
from tests.conformance.reports.peers import (
    BULK,
    KINDS,
    PLAIN_KINDS,
    Recorder,
    address_of,
    is_open,
    linked,
    polls,
    turns,
    until,
)

ROOM = Room("transports")


def write_bulk(transport: Any) -> None:
    """Write more than the kernel takes, in pieces: over TLS the first one does not pause."""
    for _ in range(4):
        transport.write(bytes(BULK // 4))


CLOSINGS = {
    f"{way}, {kind}": (*value, way) for kind, value in KINDS.items() for way in ("close", "abort")
}


@ROOM.case(
    "CPython 156512",
    "connection_lost was called twice when resume_writing closed the transport",
    CLOSINGS,
)
async def closed_in_resume_writing(loop: Loop, kind: str, way: str) -> None:
    reports = reports_of(loop)

    class Writer(Recorder):
        resumed = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=1000, low=0)
            write_bulk(transport)

        def resume_writing(self) -> None:
            self.resumed += 1
            getattr(self.transport, way)()

    async with linked(loop, kind, far=Writer) as link:
        await link.far.lost
        await polls(loop)
        expect(len(link.far.losses), 1, "calls of connection_lost")
        expect(link.far.resumed, 1, "calls of resume_writing")
    expect_no_reports(reports)


@ROOM.case(
    "zuvloop 23",
    "an exception of data_received left the connection open and data kept coming",
    KINDS,
)
async def data_received_raises(loop: Loop, kind: str) -> None:
    reports_of(loop)

    class Failing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            raise ZeroDivisionError("of the protocol")

    async with linked(loop, kind, far=Failing) as link:
        link.near.transport.write(b"a")
        await link.far.lost
        link.near.transport.write(b"b")
        await polls(loop)
        expect(bytes(link.far.received), b"a", "data after the exception")
        expect([type(exc) for exc in link.far.losses], [ZeroDivisionError], "connection_lost with")
        expect_true(link.far.transport.is_closing(), "the transport is not closing")


@ROOM.case(
    "zuvloop 23",
    "SystemExit or KeyboardInterrupt of a protocol was swallowed by the loop",
    {
        f"{exc.__name__} in {where}, {kind}": (*value, exc, where)
        for kind, value in KINDS.items()
        for exc in (SystemExit, KeyboardInterrupt)
        for where in ("data_received", "eof_received")
    },
)
def exit_in_protocol(factory: Factory, kind: str, exc: type[BaseException], where: str) -> None:
    class Leaving(Recorder):
        def data_received(self, data: bytes) -> None:
            if where == "data_received":
                raise exc("of the protocol")

        def eof_received(self) -> None:
            if where == "eof_received":
                raise exc("of the protocol")

    async def main() -> None:
        async with linked(loop, kind, far=Leaving) as link:
            link.near.transport.write(b"a")
            if where == "eof_received":
                link.near.transport.close()
            await asyncio.sleep(3)

    loop = factory()
    reports_of(loop)
    outcome = "run_until_complete returned"
    try:
        loop.run_until_complete(main())
    except NotImplementedError:
        raise
    except BaseException as caught:
        outcome = type(caught).__name__
    for task in asyncio.all_tasks(loop):
        task.cancel()
    with contextlib.suppress(BaseException):
        loop.run_until_complete(turns(3))
    expect_true(not loop.is_running(), "the loop says that it runs")
    loop.close()
    expect(outcome, exc.__name__, "out of the loop came")


@ROOM.case(
    "zuvloop 61",
    "a buffer that was changed after write() reached the peer with the new content",
    {
        f"{how}, {kind}": (*value, how)
        for kind, value in KINDS.items()
        for how in ("bytearray", "memoryview", "writelines")
    },
)
async def buffer_changed_after_write(loop: Loop, kind: str, how: str) -> None:
    async with linked(loop, kind) as link:
        link.far.transport.pause_reading()
        data = bytearray(b"A" * BULK)
        transport = link.near.transport
        if how == "bytearray":
            transport.write(data)
        elif how == "memoryview":
            transport.write(memoryview(data))
        else:
            transport.writelines([b"A", data, memoryview(data)[:10]])
        size = BULK + (11 if how == "writelines" else 0)
        data[:] = b"B" * BULK
        transport.close()
        link.far.transport.resume_reading()
        received = await link.far.receives(size)
        expect(len(received), size, "bytes received")
        expect(received.count(b"B"), 0, "bytes of the later content")


@ROOM.case(
    "zuvloop 17",
    "a write after close() raised instead of being dropped",
    {
        f"{method} after {way}, {kind}": (*value, way, method, argument)
        for kind, value in KINDS.items()
        for way in ("close", "abort")
        for method, argument in (("write", b"x"), ("writelines", [b"x", b"y"]))
    },
)
async def write_after_close(loop: Loop, kind: str, way: str, method: str, argument: object) -> None:
    async with linked(loop, kind) as link:
        getattr(link.near.transport, way)()
        expect(raised_in(getattr(link.near.transport, method), argument), "nothing", "raised")
        await link.far.lost
        expect(bytes(link.far.received), b"", "data that the peer got")


@ROOM.case("zuvloop 17", "write() after write_eof() was not refused", PLAIN_KINDS)
async def write_after_eof(loop: Loop, kind: str) -> None:
    async with linked(loop, kind) as link:
        link.near.transport.write_eof()
        expect(raised_in(link.near.transport.write, b"x"), "RuntimeError", "raised")


@ROOM.case(
    "zuvloop 67",
    "the end of the stream overtook data that was still buffered",
    {
        f"{size} bytes, {kind}": (*value, size)
        for kind, value in PLAIN_KINDS.items()
        for size in (10, BULK)
    },
)
async def eof_behind_buffered_data(loop: Loop, kind: str, size: int) -> None:
    class Listener(Recorder):
        at_eof: int | None = None

        def eof_received(self) -> None:
            self.at_eof = len(self.received)

    async with linked(loop, kind, far=Listener) as link:
        link.far.transport.pause_reading()
        link.near.transport.write(bytes(size))
        link.near.transport.write_eof()
        await polls(loop)
        link.far.transport.resume_reading()
        await link.far.lost
        expect(link.far.at_eof, size, "bytes before eof_received")


@ROOM.case(
    "zuvloop 79",
    "water marks that make no sense were taken",
    {"high below low": (10, 20), "negative high": (-1, None), "negative low": (None, -1)},
)
async def senseless_water_marks(loop: Loop, high: int | None, low: int | None) -> None:
    async with linked(loop, "tcp") as link:

        def set_limits() -> None:
            link.near.transport.set_write_buffer_limits(high=high, low=low)

        expect(raised_in(set_limits), "ValueError", "raised")


@ROOM.case(
    "uvloop 631",
    "a byte was written, and a blocking read in the same callback waited for it for ever",
    {f"{count} writes, {kind}": (kind, count) for kind in ("tcp", "unix") for count in (1, 2, 9)},
)
async def write_then_blocking_read(loop: Loop, kind: str, count: int) -> None:
    if kind == "unix":
        near, far = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
    far.settimeout(2)
    near.setblocking(False)
    with far:
        if kind == "unix":
            transport, _ = await loop.create_unix_connection(Recorder, sock=near)
        else:
            transport, _ = await loop.create_connection(Recorder, sock=near)
        for _ in range(5):
            for _ in range(count):
                transport.write(b"x")
            received = b""
            while len(received) < count:
                try:
                    received += far.recv(count)
                except TimeoutError:
                    break
            expect(len(received), count, "bytes on the wire when write() has returned")
            await asyncio.sleep(0)
        transport.abort()


@ROOM.case(
    "CPython 118950",
    "drain() never raised although the peer had reset the connection, and memory grew",
    KINDS,
)
async def drain_after_reset(loop: Loop, kind: str) -> None:
    async with linked(loop, kind) as link:
        link.far.transport.abort()
        await link.far.lost
        rounds = 0
        # asyncio's own drain() waits one turn; a transport that knows of its end is closing.
        while not link.near.transport.is_closing() and rounds < 2000:
            link.near.transport.write(b"x" * 1000)
            await asyncio.sleep(0)
            rounds += 1
        expect_true(rounds < 2000, "still open after 2000 rounds of writing")
        await link.near.lost
        expect_true(
            link.near.transport.get_write_buffer_size() < 100_000, "writes are still buffered"
        )


@ROOM.case(
    "anyio 1250",
    "abort() after connection_lost raised AttributeError",
    {
        f"{method}, {kind}": (*value, method)
        for kind, value in KINDS.items()
        for method in ("abort", "close")
    },
)
async def closed_again_after_loss(loop: Loop, kind: str, method: str) -> None:
    reports = reports_of(loop)
    async with linked(loop, kind) as link:
        link.near.transport.close()
        await link.near.lost
        await turns(3)
        expect(raised_in(getattr(link.near.transport, method)), "nothing", "raised")
        await turns(3)
        expect(len(link.near.losses), 1, "calls of connection_lost")
    expect_no_reports(reports)


@ROOM.case(
    "zuvloop 75",
    "the socket that get_extra_info() had given closed a stranger's descriptor later",
)
async def socket_view_outlives_transport(loop: Loop) -> None:
    async with linked(loop, "tcp") as link:
        view = link.near.transport.get_extra_info("socket")
        descriptor = view.fileno()
        link.near.transport.close()
        await link.near.lost
        await turns(3)
        strangers = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]
        expect_true(descriptor in strangers, "the transport's descriptor is still open")
        del view
        gc.collect()
        closed = [stranger for stranger in strangers if not is_open(stranger)]
        expect(closed, [], "strangers' descriptors that were closed")
        for stranger in strangers:
            os.close(stranger)


@ROOM.case(
    "zuvloop 60",
    "a closed connection was kept alive by the loop",
    KINDS,
)
async def closed_connection_is_freed(loop: Loop, kind: str) -> None:
    async with linked(loop, kind) as link:
        kept = weakref.ref(link.near)
        link.near.transport.close()
        await link.near.lost
        await link.far.lost
        link.near = None
        await polls(loop)
        server = link.server
    del link
    server.close()
    await polls(loop)
    gc.collect()
    expect_true(kept() is None, "the protocol is still alive")


@ROOM.case(
    "uvloop 61",
    "a descriptor that a transport owned was registered a second time, and events were lost",
    {name: (name,) for name in ("add_reader", "add_writer", "remove_reader", "remove_writer")},
)
async def watcher_on_a_transport(loop: Loop, method: str) -> None:
    async with linked(loop, "tcp") as link:
        descriptor = link.near.transport.get_extra_info("socket").fileno()
        arguments: tuple[Any, ...] = (descriptor,)
        if method.startswith("add"):
            arguments += (lambda: None,)
        expect(raised_in(getattr(loop, method), *arguments), "RuntimeError", "raised")
        link.far.transport.write(b"x")
        expect(await link.near.receives(1), b"x", "data afterwards")


@ROOM.case(
    "zuvloop 2cce9cb",
    "programs that keep notes on a transport failed with AttributeError",
)
async def attributes_on_a_transport(loop: Loop) -> None:
    async with linked(loop, "tcp") as link:
        link.near.transport.note = "kept"
        expect(link.near.transport.note, "kept", "the attribute")


@ROOM.case("zuvloop 56e5339", "get_extra_info('socket') gave no socket with options", PLAIN_KINDS)
async def options_of_the_socket(loop: Loop, kind: str) -> None:
    async with linked(loop, kind) as link:
        sock = link.near.transport.get_extra_info("socket")
        expect(sock.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), socket.SOCK_STREAM, "type")
        expect(sock.gettimeout(), 0, "time-out")


@ROOM.case("zuvloop 4d6398a", "a transport could not be referenced weakly", PLAIN_KINDS)
async def weak_reference_to_a_transport(loop: Loop, kind: str) -> None:
    async with linked(loop, kind) as link:
        expect_true(
            weakref.ref(link.near.transport)() is link.near.transport,
            "another object is referenced",
        )


@ROOM.case(
    "zuvloop 0ff6caf",
    "what was written while the loop did not run was never sent",
    PLAIN_KINDS,
)
def write_while_stopped(factory: Factory, kind: str) -> None:
    loop = factory()

    async def connect() -> Any:
        stack = contextlib.AsyncExitStack()
        return stack, await stack.enter_async_context(linked(loop, kind))

    stack, link = loop.run_until_complete(connect())
    link.near.transport.write(b"while stopped")
    received = loop.run_until_complete(link.far.receives(13))
    loop.run_until_complete(stack.aclose())
    loop.run_until_complete(turns(5))
    loop.close()
    expect(received, b"while stopped", "received")


@ROOM.case(
    "zuvloop 6e0b9e7",
    "closing the loop with unsent data in a transport crashed",
    KINDS,
)
def loop_closed_with_unsent_data(factory: Factory, kind: str) -> None:
    loop = factory()

    async def connect() -> Any:
        stack = contextlib.AsyncExitStack()
        link = await stack.enter_async_context(linked(loop, kind))
        link.far.transport.pause_reading()
        link.near.transport.write(bytes(BULK))
        return link, stack.pop_all()

    link, stack = loop.run_until_complete(connect())
    loop.close()
    expect_true(loop.is_closed(), "the loop is not closed")
    raised_in(link.near.transport.write, b"x")
    raised_in(link.near.transport.abort)
    del link, stack
    gc.collect()


@ROOM.case(
    "uvloop 706",
    "closing connections from several of their callbacks crashed the process",
    {
        f"{way} in {where}, {kind}": (*value, way, where)
        for kind, value in KINDS.items()
        for way in ("close", "abort")
        for where in ("connection_made", "pause_writing")
    },
)
async def closed_in_callback(loop: Loop, kind: str, way: str, where: str) -> None:
    reports = reports_of(loop)

    class Closing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if where == "connection_made":
                getattr(transport, way)()
            else:
                transport.set_write_buffer_limits(10)
                write_bulk(transport)

        def pause_writing(self) -> None:
            if where == "pause_writing":
                getattr(self.transport, way)()

    for _ in range(5):
        async with linked(loop, kind, far=Closing) as link:
            await link.far.lost
            await link.near.lost
            expect(len(link.far.losses), 1, "calls of connection_lost")
    expect_no_reports(reports)


@ROOM.case(
    "uvloop 738",
    "a connection made from a socket was cancelled, and later closed a stranger's descriptor",
    {name: (name,) for name in ("create_connection", "unix", "accepted")},
)
async def adoption_cancelled(loop: Loop, how: str) -> None:
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    for steps in range(5):
        others: list[socket.socket] = []
        if how == "create_connection":
            sock = socket.create_connection(address_of(server))
        else:
            sock, other = socket.socketpair()
            others.append(other)
        sock.setblocking(False)
        if how == "create_connection":
            adopting: Any = loop.create_connection(asyncio.Protocol, sock=sock)
        elif how == "unix":
            adopting = loop.create_unix_connection(asyncio.Protocol, sock=sock)
        else:
            adopting = loop.connect_accepted_socket(asyncio.Protocol, sock)
        task = asyncio.ensure_future(adopting)
        await turns(steps)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            transport, _ = await task
            transport.abort()
            del transport
        await turns(3)
        strangers = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
        del sock, task, adopting
        gc.collect()
        await polls(loop, 2)
        closed = [stranger for stranger in strangers if not is_open(stranger)]
        expect(closed, [], f"strangers' descriptors closed, cancelled after {steps} turns")
        for stranger in strangers:
            os.close(stranger)
        for other in others:
            other.close()
    server.close()


@ROOM.case(
    "CPython 156275",
    "a BufferedProtocol whose buffer is a bytearray lost all but the first record",
    {
        f"{type_.__name__}, {kind}": (*value, type_)
        for kind, value in KINDS.items()
        for type_ in (bytearray, memoryview)
    },
)
async def buffered_protocol(loop: Loop, kind: str, type_: type) -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.made = loop.create_future()
            self.buffer = bytearray(7000)
            self.received = bytearray()

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.made.set_result(None)

        def get_buffer(self, hint: int) -> Any:
            return self.buffer if type_ is bytearray else memoryview(self.buffer)

        def buffer_updated(self, size: int) -> None:
            self.received += self.buffer[:size]

    data = os.urandom(100_000)
    async with linked(loop, kind, far=Buffered) as link:
        link.near.transport.write(data)
        await until(loop, lambda: len(link.far.received) >= len(data))
        expect_true(link.far.received == data, "the data differs")


@ROOM.case(
    "zuvloop 80",
    "a protocol factory that raised left the connected socket open",
    {name: (name,) for name in ("TCP", "Unix", "datagram", "pipe")},
)
async def factory_raises(loop: Loop, how: str) -> None:
    reports_of(loop)
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)

    def failing() -> Any:
        raise ZeroDivisionError("of the factory")

    near, far = socket.socketpair()
    near.setblocking(False)
    gc.collect()
    before = {fd for fd in range(200) if is_open(fd)}
    read_end = None
    if how == "TCP":
        making: Any = loop.create_connection(failing, *address_of(server))
    elif how == "Unix":
        making = loop.create_unix_connection(failing, sock=near)
    elif how == "datagram":
        making = loop.create_datagram_endpoint(failing, local_addr=("127.0.0.1", 0))
    else:
        read, write = os.pipe()
        read_end = os.fdopen(read, "rb", buffering=0)
        os.close(write)
        making = loop.connect_read_pipe(failing, read_end)
    try:
        await making
    except ZeroDivisionError:
        pass
    else:
        expect_true(False, "the exception was lost")
    del making
    if read_end is not None:
        read_end.close()
    near.close()
    far.close()
    server.close()
    gc.collect()
    await polls(loop)
    gc.collect()
    after = {fd for fd in range(200) if is_open(fd)}
    expect(sorted(after - before), [], "descriptors that stayed open")


@ROOM.case("CPython 103607", "pause_reading() in connection_made had no effect", KINDS)
async def paused_from_the_start(loop: Loop, kind: str) -> None:
    class Pausing(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async with linked(loop, kind, far=Pausing) as link:
        link.near.transport.write(b"x")
        await polls(loop)
        expect(bytes(link.far.received), b"", "data while paused")
        link.far.transport.resume_reading()
        expect(await link.far.receives(1), b"x", "data after resume_reading")
