"""Counts of objects, memory blocks and descriptors, and resident memory, do not grow."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest
import trustme

from .conftest import LoopFactory
from .peers import BufferedRecorder, Recorder, connect, fill
from .resident_memory import measures_memory, resident_bytes

Scenario = Callable[[int], Coroutine[Any, Any, None]]

# The interpreter's free lists and caches vary a little between equal rounds. A leak of one object
# per turn shows in every round.
TURNS = 300
SPARE_BLOCKS = 100

closes_loops_in_use = pytest.mark.filterwarnings("ignore::ResourceWarning")


@dataclass(frozen=True)
class Level:
    """The counts at a moment. Each instance of a heap type holds a reference to its type."""

    instances: dict[str, int]
    descriptors: int
    blocks: int

    @classmethod
    def now(cls) -> Level:
        gc.collect()
        gc.collect()
        core = sys.modules.get("penstock._core")
        types = {k: v for k, v in vars(core).items() if isinstance(v, type)} if core else {}
        return cls(
            {name: sys.getrefcount(kind) for name, kind in types.items()},
            len(os.listdir("/proc/self/fd")),
            sys.getallocatedblocks(),
        )


def check_level(turn: Callable[[], None]) -> None:
    def measure() -> Level:
        turn()
        return Level.now()

    measure()
    levels = [measure() for _ in range(2)]
    while len(levels) < 5 and levels[-1].blocks - levels[-2].blocks >= SPARE_BLOCKS:
        levels.append(measure())
    before, after = levels[-2:]
    assert after.instances == before.instances == levels[0].instances
    assert after.descriptors == before.descriptors == levels[0].descriptors
    assert after.blocks - before.blocks < SPARE_BLOCKS


def running(new_loop: LoopFactory, scenario: Scenario, turns: int = TURNS) -> Callable[[], None]:
    def run() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(asyncio.wait_for(scenario(turns), 30))

    return run


# ---- the scenarios -------------------------------------------------------------------------------


async def protocol_connections(turns: int) -> None:
    loop = asyncio.get_running_loop()

    class Echo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    server = await loop.create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    for turn in range(turns):
        make: type[Any] = Recorder if turn % 2 else BufferedRecorder
        transport, protocol = await loop.create_connection(make, host, port)
        transport.write(b"x" * 100)
        await protocol.received(100)
        if turn % 3:
            transport.close()
        else:
            transport.abort()
        await protocol.closed.wait()
    server.close()
    await server.wait_closed()


async def dropped_buffers(turns: int) -> None:
    """End connections with data queued, reading paused and a buffer in use."""
    for turn in range(turns):
        make: type[Any] = Recorder if turn % 2 else BufferedRecorder
        with await connect(make, "unix") as connection:
            fill(connection.transport, connection.protocol)
            connection.transport.write(bytearray(20_000))
            connection.transport.pause_reading()
            connection.transport.abort()
            await connection.protocol.closed.wait()


async def asyncio_streams(turns: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    for _ in range(turns):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"a line\n")
        assert await reader.read() == b"a line\n"
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def native_streams(turns: int) -> None:
    """Perform reads of every kind: finished, cut off, too long, cancelled, and never awaited."""
    import penstock

    async def serve(reader: Any, writer: Any) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        writer.close()

    server: Any = await penstock.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    for turn in range(turns):
        reader, writer = await penstock.open_connection(host, port, limit=200)
        writer.write(b"one\ntwo\nthree\n")
        assert await reader.readline() == b"one\n"
        assert await reader.readexactly(4) == b"two\n"
        assert await reader.readuntil(b"ee\n") == b"three\n"
        reader.read(1).close()
        waiting = asyncio.ensure_future(reader.read(10))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if turn % 2:
            writer.write_eof()
            with pytest.raises(asyncio.IncompleteReadError):
                await reader.readexactly(5)
        else:
            writer.write(b"x" * 1000 + b"\n")
            with pytest.raises(ValueError):
                await reader.readline()
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


async def servers(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        client = socket.create_connection(server.sockets[0].getsockname())
        server.close()
        client.close()
    await asyncio.sleep(0)


async def callbacks_and_timers(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        loop.call_soon(print)
        loop.call_soon(id, loop).cancel()
        loop.call_soon_threadsafe(id, loop)
        loop.call_later(0, id, loop)
        loop.call_later(1000, id, loop).cancel()
        handle = loop.call_at(loop.time() + 1000, id, loop)
        repr(handle)
        handle.cancel()
        await asyncio.sleep(0)
    loop.call_later(1000, id, loop)


async def failing_callbacks(turns: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)

    def fail(argument: object) -> None:
        raise LookupError(argument)

    for _ in range(turns):
        loop.call_soon(fail, object())
        loop.call_later(0, fail, object())
        with pytest.raises(TypeError):
            loop.call_soon()  # type: ignore[call-arg]
        with pytest.raises(TypeError):
            loop.call_later("soon", fail)  # type: ignore[arg-type]
        await asyncio.sleep(0)


async def readers_and_writers(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        left, right = socket.socketpair()
        left.setblocking(False)
        readable = asyncio.Event()
        loop.add_reader(left, readable.set)
        loop.add_reader(left, readable.set)
        loop.add_writer(left, id, object())
        right.send(b"x")
        await readable.wait()
        loop.remove_reader(left)
        loop.remove_writer(left)
        left.close()
        right.close()


async def plain_sockets(turns: int) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        for _ in range(turns):
            client = socket.socket()
            client.setblocking(False)
            accepting = asyncio.ensure_future(loop.sock_accept(listener))
            await loop.sock_connect(client, listener.getsockname())
            peer, _ = await accepting
            with client, peer:
                await loop.sock_sendall(client, b"x" * 1000)
                assert await loop.sock_recv(peer, 1000)
                buffer = bytearray(10)
                waiting = asyncio.ensure_future(loop.sock_recv_into(peer, buffer))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting


async def datagrams(turns: int) -> None:
    loop = asyncio.get_running_loop()

    class Receiver(asyncio.DatagramProtocol):
        def __init__(self) -> None:
            self.received: asyncio.Future[bytes] = loop.create_future()
            self.closed = asyncio.Event()

        def datagram_received(self, data: bytes, address: Any) -> None:
            if not self.received.done():
                self.received.set_result(data)

        def connection_lost(self, exc: Exception | None) -> None:
            self.closed.set()

    for _ in range(turns):
        incoming, receiver = await loop.create_datagram_endpoint(
            Receiver, local_addr=("127.0.0.1", 0)
        )
        address = incoming.get_extra_info("sockname")
        outgoing, sender = await loop.create_datagram_endpoint(Receiver, remote_addr=address)
        outgoing.sendto(b"one")
        incoming.sendto(b"two", outgoing.get_extra_info("sockname"))
        assert (await receiver.received, await sender.received) == (b"one", b"two")
        outgoing.close()
        incoming.abort()
        await receiver.closed.wait()
        await sender.closed.wait()


async def signal_handlers(turns: int) -> None:
    loop = asyncio.get_running_loop()
    for _ in range(turns):
        seen = asyncio.Event()
        loop.add_signal_handler(signal.SIGUSR1, seen.set)
        signal.raise_signal(signal.SIGUSR1)
        await seen.wait()
        loop.remove_signal_handler(signal.SIGUSR1)


async def child_processes(turns: int) -> None:
    for _ in range(turns // 30):
        process = await asyncio.create_subprocess_exec(
            "cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert (await process.communicate(b"through"))[0] == b"through"


async def tls_connections(turns: int) -> None:
    authority = trustme.CA()
    server_context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(server_context)
    client_context = ssl.create_default_context()
    authority.configure_trust(client_context)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server_context)
    port = server.sockets[0].getsockname()[1]
    for _ in range(turns // 10):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=client_context, server_hostname="localhost"
        )
        writer.write(b"a line\n")
        assert await reader.readline() == b"a line\n"
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


COMMON = [
    protocol_connections,
    dropped_buffers,
    asyncio_streams,
    servers,
    callbacks_and_timers,
    failing_callbacks,
    readers_and_writers,
    plain_sockets,
    datagrams,
    signal_handlers,
    child_processes,
    tls_connections,
]


@pytest.mark.parametrize("scenario", COMMON, ids=lambda scenario: scenario.__name__)
def test_objects_blocks_and_descriptors_do_not_grow(
    new_loop: LoopFactory, scenario: Scenario
) -> None:
    check_level(running(new_loop, scenario))


@pytest.mark.parametrize("loop_name", ["penstock"])
def test_native_streams_leak_nothing(new_loop: LoopFactory) -> None:
    check_level(running(new_loop, native_streams))


@closes_loops_in_use
def test_closed_loops_leak_nothing(new_loop: LoopFactory) -> None:
    """Each loop still has a server, a connection, a timer, a reader and a callback."""
    left, right = socket.socketpair()

    async def unfinished() -> list[Any]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Recorder, "127.0.0.1", 0)
        transport, protocol = await loop.create_connection(
            Recorder, *server.sockets[0].getsockname()
        )
        transport.write(b"x")
        loop.add_reader(left, protocol.closed.set)
        loop.call_later(1000, protocol.closed.set)
        loop.call_soon(protocol.closed.set)
        return [transport, server]

    def make() -> None:
        for _ in range(TURNS):
            loop = new_loop()
            transport, server = loop.run_until_complete(unfinished())
            server.close()
            transport.abort()
            loop.close()

    with left, right:
        check_level(make)


@measures_memory
def test_resident_memory_does_not_grow_with_loops_and_connections(new_loop: LoopFactory) -> None:
    def turn(loops: int, connections: int) -> int:
        for _ in range(loops):
            new_loop().close()
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(protocol_connections(connections))
        gc.collect()
        return resident_bytes()

    turn(50, 500)
    before = turn(50, 500)
    # A leak of one read buffer per loop would be 75 MB.
    assert turn(300, 2000) - before < 12_000_000
