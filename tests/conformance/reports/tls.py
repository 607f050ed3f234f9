"""TLS: handshakes that fail, upgrades of open connections, and closing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import weakref
from typing import Any

from tests.conformance.reports.case import (
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    raised_by,
    reports_of,
)
from tests.conformance.reports.peers import (
    BULK,
    Recorder,
    address_of,
    linked,
    polls,
    reset,
    turns,
    until,
)
from tests.python.loop.certificates import client_context, server_context

ROOM = Room("tls")


async def tls_server(loop: Loop, factory: Any = Recorder, **options: Any) -> Any:
    return await loop.create_server(factory, "127.0.0.1", 0, ssl=server_context(), **options)


async def greeted(loop: Loop, server: Any) -> bytes:
    """Connect to a server that greets; return what it says."""
    transport, protocol = await loop.create_connection(
        Recorder, *address_of(server), ssl=client_context(), server_hostname="localhost"
    )
    received = await protocol.receives(5)
    transport.abort()
    return received


class Greeter(Recorder):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.write(b"hello")


@ROOM.case(
    "zuvloop 174",
    "clients that went away during the handshake were reported to the exception handler",
    {
        f"{way} after {name}": (data, way)
        for name, data in (
            ("nothing", b""),
            ("half a hello", b"\x16\x03\x01\x02\x00"),
        )
        for way in ("reset", "close")
    },
)
async def gone_before_the_handshake(loop: Loop, data: bytes, way: str) -> None:
    reports = reports_of(loop)
    server = await tls_server(loop, Greeter)
    for _ in range(8):
        sock = socket.create_connection(address_of(server))
        if data:
            sock.send(data)
        await turns(2)
        if way == "reset":
            reset(sock)
        else:
            sock.close()
    await polls(loop)
    expect(await greeted(loop, server), b"hello", "what a later client gets")
    server.close()
    errors = [context for context in reports if isinstance(context.get("exception"), OSError)]
    expect_no_reports([c for c in errors if not isinstance(c["exception"], ssl.SSLError)])


@ROOM.case(
    "zuvloop 174",
    "a server stopped serving after a client that does not speak TLS",
    {
        "HTTP": (b"GET / HTTP/1.0\r\n\r\n",),
        "zeros": (bytes(600),),
        "alert": (b"\x15\3\3\0\2\2\50",),
    },
)
async def no_tls_from_the_client(loop: Loop, data: bytes) -> None:
    reports_of(loop)
    server = await tls_server(loop, Greeter)
    with socket.create_connection(address_of(server)) as sock:
        sock.setblocking(False)
        sock.send(data)
        reader, writer = await asyncio.open_connection(sock=sock.dup())
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()
    expect(await greeted(loop, server), b"hello", "what a later client gets")
    server.close()


@ROOM.case(
    "zuvloop 157",
    "start_tls() that was cancelled went on with a closed transport",
    {f"after {steps} turns": (steps,) for steps in range(1, 6)},
)
async def upgrade_cancelled(loop: Loop, steps: int) -> None:
    reports = reports_of(loop)
    async with linked(loop, "tcp") as link:
        task = asyncio.ensure_future(
            loop.start_tls(
                link.near.transport, link.near, client_context(), server_hostname="localhost"
            )
        )
        await turns(steps)
        task.cancel()
        await asyncio.wait([task])
        expect_true(task.cancelled(), "the task was not cancelled")
        await link.far.lost
        await polls(loop)
        expect_true(link.near.transport.is_closing(), "the transport is not closing")
    expect_no_reports(reports)


@ROOM.case(
    "CPython 152431",
    "after start_tls() of a stream its flow control still acted on the old transport",
)
async def flow_control_after_upgrade(loop: Loop) -> None:
    upgraded: asyncio.Future[Any] = loop.create_future()

    async def flood(reader: Any, writer: Any) -> None:
        await reader.readline()
        writer.write(b"go\n")
        await writer.start_tls(server_context())
        upgraded.set_result(writer)

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*address_of(server), limit=10_000)
    writer.write(b"start\n")
    await reader.readline()
    await writer.start_tls(client_context(), server_hostname="localhost")
    other = await upgraded
    for _ in range(20):
        other.write(bytes(50_000))
        await polls(loop, 2)
    transport: Any = writer.transport
    expect_true(not transport.is_reading(), "the encrypted transport is not paused")
    received = await reader.readexactly(1_000_000)
    expect(len(received), 1_000_000, "bytes received")
    writer.transport.abort()
    other.transport.abort()
    server.close()


@ROOM.case(
    "zuvloop 85",
    "bytes of the handshake that came with the last plain line were lost by start_tls()",
)
async def hello_with_the_last_line(loop: Loop) -> None:
    done: asyncio.Future[bytes] = loop.create_future()

    async def upgrade(reader: Any, writer: Any) -> None:
        try:
            await reader.readline()
            await writer.start_tls(server_context())
            done.set_result(await reader.readline())
            writer.transport.abort()
        except BaseException as exc:
            if not done.done():
                done.set_exception(exc)

    server = await asyncio.start_server(upgrade, "127.0.0.1", 0)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        session.do_handshake()
    reader, writer = await asyncio.open_connection(*address_of(server))
    writer.write(b"STARTTLS\n" + outgoing.read())
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            data = await reader.read(65_536)
            if not data:
                break
            incoming.write(data)
    with contextlib.suppress(ssl.SSLError):
        session.write(b"secret\n")
        writer.write(outgoing.read())
    expect(await done, b"secret\n", "the first encrypted line")
    writer.transport.abort()
    server.close()


@ROOM.case(
    "uvloop 471, aiohttp 6762",
    "a TLS connection that was closed while the peer sent a lot stayed open",
    {"close": ("close",), "abort": ("abort",)},
)
async def closed_while_the_peer_sends(loop: Loop, way: str) -> None:
    class Sender(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.resume_writing()

        def pause_writing(self) -> None:
            self.paused = True

        def resume_writing(self) -> None:
            self.paused = False
            for _ in range(40):
                if self.paused or self.transport.is_closing():
                    break
                self.transport.write(bytes(50_000))

    class Closer(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if len(self.received) > 100_000 and not self.transport.is_closing():
                getattr(self.transport, way)()

    async with linked(loop, "tls", near=Closer, far=Sender) as link:
        await link.near.lost
        await link.far.lost
        expect((len(link.near.losses), len(link.far.losses)), (1, 1), "connection_lost of each")


@ROOM.case(
    "CPython 113214",
    "aborting TLS within TLS raised AttributeError",
    {"close": ("close",), "abort": ("abort",)},
)
async def tls_within_tls_closed(loop: Loop, way: str) -> None:
    reports = reports_of(loop)
    async with linked(loop, "tls") as link:
        accepting = asyncio.ensure_future(
            loop.start_tls(link.far.transport, link.far, server_context(), server_side=True)
        )
        inner: Any = await loop.start_tls(
            link.near.transport, link.near, client_context(), server_hostname="localhost"
        )
        other: Any = await accepting
        inner.write(b"inside")
        expect(await link.far.receives(6), b"inside", "data within TLS")
        getattr(inner, way)()
        await link.near.lost
        await link.far.lost
        other.abort()
        await polls(loop)
    expect_no_reports(reports)


@ROOM.case(
    "CPython 109534, uvloop 565",
    "connections that ended during the handshake were kept in memory",
    {"client": ("client",), "server": ("server",)},
)
async def failed_handshakes_are_freed(loop: Loop, side: str) -> None:
    reports_of(loop)
    kept: list[weakref.ref[Any]] = []

    def factory() -> Any:
        protocol = Recorder()
        kept.append(weakref.ref(protocol))
        return protocol

    if side == "server":
        server = await tls_server(loop, factory)
        for _ in range(4):
            sock = socket.create_connection(address_of(server))
            sock.send(b"\x16\x03\x01\x02\x00")
            await until(loop, lambda: len(kept) > 0)
            sock.close()
        await polls(loop, 8)
    else:
        listener = socket.create_server(("127.0.0.1", 0))
        for _ in range(4):
            making = asyncio.ensure_future(
                loop.create_connection(
                    factory,
                    *listener.getsockname(),
                    ssl=client_context(),
                    server_hostname="localhost",
                )
            )
            await polls(loop, 1)
            accepted, _ = listener.accept()
            reset(accepted)
            await asyncio.wait([making])
            making.exception()
            del making
        listener.close()
        await polls(loop)
    gc.collect()
    expect_true(kept, "no protocol was made")
    expect(sum(one() is not None for one in kept), 0, "protocols still alive")
    if side == "server":
        server.close()


@ROOM.case(
    "aiohttp 11091",
    "closing waited for ever for a peer that sends no close_notify",
)
async def peer_without_close_notify(loop: Loop) -> None:
    accepted: asyncio.Future[Any] = loop.create_future()
    server = await loop.create_server(
        lambda: accepted_protocol(accepted),
        "127.0.0.1",
        0,
        ssl=server_context(),
        ssl_shutdown_timeout=0.05,
    )
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    reader, writer = await asyncio.open_connection(*address_of(server))
    while True:
        try:
            session.do_handshake()
        except ssl.SSLWantReadError:
            writer.write(outgoing.read())
            incoming.write(await reader.read(65_536))
        else:
            break
    writer.write(outgoing.read())
    protocol = await accepted
    await protocol.made
    protocol.transport.close()
    await protocol.lost
    expect(len(protocol.losses), 1, "calls of connection_lost")
    writer.transport.abort()
    server.close()


def accepted_protocol(accepted: asyncio.Future[Any]) -> Recorder:
    protocol = Recorder()
    accepted.set_result(protocol)
    return protocol


@ROOM.case(
    "CPython 118950",
    "a TLS connection whose descriptor was closed under it never ended",
)
async def peer_gone_under_tls(loop: Loop) -> None:
    reports = reports_of(loop)
    async with linked(loop, "tls") as link:
        sock = link.near.transport.get_extra_info("socket")
        sock.shutdown(socket.SHUT_RDWR)
        rounds = 0
        while not link.near.transport.is_closing() and rounds < 2000:
            link.near.transport.write(bytes(1000))
            rounds += 1
            await asyncio.sleep(0)
        await link.near.lost
        await link.far.lost
    expect_no_reports(reports)


@ROOM.case(
    "zuvloop 16",
    "the reason of a refused certificate was replaced by the closing of the connection",
)
async def refused_certificate(loop: Loop) -> None:
    reports_of(loop)
    server = await tls_server(loop)
    raised = await raised_by(
        loop.create_connection(
            Recorder,
            *address_of(server),
            ssl=ssl.create_default_context(),
            server_hostname="localhost",
        )
    )
    expect(raised, "SSLCertVerificationError", "raised")
    server.close()


@ROOM.case(
    "zuvloop 16",
    "a handshake that was refused by name was reported as a lost connection",
)
async def refused_name(loop: Loop) -> None:
    reports_of(loop)
    server = await tls_server(loop)
    raised = await raised_by(
        loop.create_connection(
            Recorder, *address_of(server), ssl=client_context(), server_hostname="other.test"
        )
    )
    expect(raised, "SSLCertVerificationError", "raised")
    server.close()


@ROOM.case(
    "CPython 74883",
    "data written before close() did not reach a peer that read late",
    {f"TLS {version}": (version,) for version in ("1.2", "1.3")},
)
async def data_before_close(loop: Loop, version: str) -> None:
    context = client_context()
    context.maximum_version = getattr(ssl.TLSVersion, f"TLSv{version.replace('.', '_')}")
    accepted: asyncio.Future[Any] = loop.create_future()
    server = await loop.create_server(
        lambda: accepted_protocol(accepted), "127.0.0.1", 0, ssl=server_context()
    )
    transport, _ = await loop.create_connection(
        Recorder, *address_of(server), ssl=context, server_hostname="localhost"
    )
    protocol = await accepted
    await protocol.made
    protocol.transport.pause_reading()
    transport.write(bytes(BULK))
    transport.close()
    await polls(loop)
    protocol.transport.resume_reading()
    await protocol.lost
    expect(len(protocol.received), BULK, "bytes received")
    server.close()
