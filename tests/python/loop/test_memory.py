"""The release of loops, transports, protocols and descriptors."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import os
import socket
import sys
import warnings
import weakref
from typing import Any

import pytest

from .conftest import LoopFactory, Run
from .peers import BufferedRecorder, Recorder, connect


def test_a_closed_loop_is_collected(new_loop: LoopFactory) -> None:
    loop = new_loop()

    async def main() -> None:
        server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())
    loop.close()
    reference = weakref.ref(loop)
    del loop
    gc.collect()
    assert reference() is None


def test_a_loop_in_a_cycle_is_collected(new_loop: LoopFactory) -> None:
    loop = new_loop()

    class Holder:
        pass

    holder: Any = Holder()
    holder.loop = loop
    holder.handle = loop.call_soon(id, holder)
    holder.timer = loop.call_later(1000, id, holder)
    loop.set_exception_handler(functools.partial(print, holder))
    loop.close()
    reference = weakref.ref(holder)
    del holder, loop
    gc.collect()
    assert reference() is None


BURST = 3000  # more handles than a loop keeps for reuse


def test_a_loop_that_is_dropped_with_a_burst_of_callbacks_is_collected(
    new_loop: LoopFactory,
) -> None:
    class Holder:
        pass

    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    loop = new_loop()
    holder: Any = Holder()
    holder.loop = loop

    def schedule(loop: asyncio.AbstractEventLoop, value: object) -> None:
        variable.set(value)  # the context is part of the cycle
        for _ in range(BURST):
            loop.call_soon(int)
            loop.call_later(1000, int)

    contextvars.copy_context().run(schedule, loop, holder)
    # Nobody closes the loop: only the collector finds the cycle.
    reference = weakref.ref(holder)
    del holder, loop
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert reference() is None


def test_the_contexts_of_a_burst_of_callbacks_live_until_they_have_run(
    loop: asyncio.AbstractEventLoop,
) -> None:
    variable: contextvars.ContextVar[object] = contextvars.ContextVar("variable")
    ran: list[object] = []

    def schedule(number: int) -> asyncio.Handle:
        variable.set([number])  # only the context refers to it
        return loop.call_soon(lambda: ran.append(variable.get()))

    handles = [contextvars.copy_context().run(schedule, number) for number in range(BURST)]
    del handles[::3]
    for handle in handles[::5]:
        handle.cancel()
    cancelled = sum(handle.cancelled() for handle in handles)
    gc.collect()
    loop.call_soon(gc.collect)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert len(ran) == BURST - cancelled
    assert all(isinstance(value, list) for value in ran)
    assert ran == sorted(ran)  # type: ignore[type-var]


def test_the_context_of_a_waiting_callback_is_seen_by_the_collector_once_it_is_taken(
    loop: asyncio.AbstractEventLoop,
) -> None:
    if not hasattr(asyncio.Handle, "get_context"):
        pytest.skip("Handle.get_context came with Python 3.12")
    handles = [loop.call_soon(int) for _ in range(BURST)]
    contexts = [handle.get_context() for handle in handles]  # type: ignore[attr-defined]
    assert all(gc.is_tracked(context) for context in contexts)
    for handle in handles:
        handle.cancel()


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
def test_a_closed_transport_and_its_protocol_are_freed(run: Run, make: type[Any]) -> None:
    async def main() -> None:
        references: list[weakref.ref[Any]] = []

        async def use() -> None:
            with await connect(make) as c:
                c.peer.sendall(b"x")
                await c.protocol.received(1)
                c.transport.write(b"x" * 5_000_000)
                c.transport.abort()
                await c.protocol.closed.wait()
                references.extend([weakref.ref(c.transport), weakref.ref(c.protocol)])
                c.protocol.transport = None

        await use()
        await asyncio.sleep(0)
        gc.collect()
        assert [reference() for reference in references] == [None, None]

    run(main())


def test_a_connected_protocol_is_kept_alive_by_the_loop(run: Run) -> None:
    async def main() -> None:
        connection = await connect(Recorder)
        protocol = weakref.ref(connection.protocol)
        peer, data = connection.peer, connection.protocol.data
        del connection
        gc.collect()
        peer.sendall(b"heard")
        while data != b"heard":  # noqa: ASYNC110 - the protocol must not be held here
            await asyncio.sleep(0.001)
        peer.close()
        while protocol() is not None:
            await asyncio.sleep(0.001)
            gc.collect()

    run(main())


async def serve_connections(address: tuple[str, int], count: int) -> None:
    for _ in range(count // 50):
        clients = [socket.create_connection(address) for _ in range(50)]
        for client in clients:
            client.sendall(b"x" * 1000)
        for client in clients:
            assert await asyncio.to_thread(client.recv, 1000)
            client.close()
    while len(asyncio.all_tasks()) > 2:  # noqa: ASYNC110 - the servers' own tasks
        await asyncio.sleep(0)


@pytest.mark.parametrize("kind", ["protocol", "streams"])
def test_a_thousand_connections_leak_no_objects_or_descriptors(
    loop: asyncio.AbstractEventLoop, run: Run, kind: str
) -> None:
    class Echo(asyncio.Protocol):
        transport: Any
        open = 0

        def connection_made(self, transport: Any) -> None:
            Echo.open += 1
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

        def connection_lost(self, exc: BaseException | None) -> None:
            Echo.open -= 1

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    def census() -> tuple[int, int]:
        gc.collect()
        return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))

    async def main() -> None:
        if kind == "protocol":
            server = await loop.create_server(Echo, "127.0.0.1", 0)
        else:
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()

        async def rounds(count: int) -> tuple[int, int]:
            await serve_connections(address, count)
            while Echo.open:  # noqa: ASYNC110 - no event reports the last connection
                await asyncio.sleep(0)
            for _ in range(5):
                await asyncio.sleep(0)
            return census()

        objects_before, files_before = await rounds(100)
        objects_after, files_after = await rounds(1000)
        assert files_after == files_before
        assert objects_after - objects_before < 200
        server.close()
        await server.wait_closed()

    run(main())


def test_references_to_none_and_the_protocol_do_not_leak(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:

            async def rounds(count: int) -> tuple[int, int, int]:
                size = len(c.protocol.data)
                for number in range(count):
                    c.peer.sendall(b"x")
                    await c.protocol.received(size + number + 1)
                    c.transport.write(b"y")
                    c.peer.recv(1)
                c.protocol.data.clear()
                return (
                    sys.getrefcount(c.protocol),
                    sys.getrefcount(c.transport),
                    sys.getrefcount(loop),
                )

            await rounds(10)
            assert await rounds(10) == await rounds(1000)

    run(main())


def test_callbacks_and_their_arguments_are_not_leaked(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    payload = object()

    async def main() -> None:
        for _ in range(1000):
            loop.call_soon(id, payload)
            loop.call_soon_threadsafe(id, payload)
            loop.call_later(0, id, payload)
            loop.call_later(100, id, payload).cancel()
            loop.call_soon(id, payload).cancel()
            await asyncio.sleep(0)
        await asyncio.sleep(0.001)

    run(main())
    before = sys.getrefcount(payload)
    run(main())
    assert sys.getrefcount(payload) == before
