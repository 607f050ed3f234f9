"""TLS connections leak no memory."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import warnings
import weakref
from collections import Counter
from typing import Any

import pytest

from .certificates import client_context, server_context
from .conftest import LoopFactory, Run
from .peers import Recorder, until
from .resident_memory import measures_memory, resident_bytes
from .tls_peers import tls_client, tls_pair, tls_server

CONNECTIONS = 300


def _census() -> Counter[str]:
    gc.collect()
    names = ("SSLTransport", "SocketTransport", "SSLObject", "_SSLSocket", "Recorder", "Echo")
    counted = Counter(type(thing).__name__ for thing in gc.get_objects())
    return Counter({name: counted[name] for name in names})


@measures_memory
@pytest.mark.usefixtures("only_penstock")  # asyncio's keeps buffers of 256 KiB for each
def test_an_idle_connection_holds_no_memory_for_what_it_has_sent(run: Run) -> None:
    count, size = 80, 128 * 1024
    data = bytes(size)

    class Counting(Recorder):
        """Keeps nothing of what it receives."""

        got = 0

        def data_received(self, data: bytes) -> None:
            self.got += len(data)

    async def main() -> int:
        servers: list[Counting] = []

        def serve() -> Counting:
            servers.append(Counting())
            return servers[-1]

        async with tls_server(serve) as port:
            clients = [(await tls_client(Counting, port))[1] for _ in range(count)]
            await until(lambda: all(each.connected.is_set() for each in servers))
            servers[0].transport.write(data)  # what all connections share
            await until(lambda: sum(each.got for each in clients) == size)
            before = resident_bytes()
            for server in servers[1:]:
                server.transport.write(data)
            await until(lambda: all(each.got == size for each in clients))
            after = resident_bytes()
            for each in clients:
                each.transport.abort()
            for each in servers:
                await each.closed.wait()
        return after - before

    assert run(main()) < count * size // 4


def test_connections_are_freed_when_they_end(run: Run, loop_name: str) -> None:
    class Echo(Recorder):
        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    async def one(port: int, number: int) -> None:
        transport, protocol = await tls_client(Recorder, port)
        transport.write(b"x" * 2000)
        await protocol.received(2000)
        if number % 3 == 0:
            transport.abort()
        else:
            transport.close()
        await protocol.closed.wait()

    async def main() -> None:
        async with tls_server(Echo) as port:
            await one(port, 1)
            await asyncio.sleep(0.01)
            before, descriptors = _census(), len(os.listdir("/proc/self/fd"))
            for start in range(0, CONNECTIONS, 20):
                await asyncio.gather(*(one(port, start + i) for i in range(20)))
            for _ in range(200):
                if _census() == before:
                    break
                await asyncio.sleep(0.005)
            assert _census() == before
            assert len(os.listdir("/proc/self/fd")) == descriptors

    run(main())


def test_failed_handshakes_leak_nothing(run: Run) -> None:
    async def main() -> None:
        async with tls_server(Recorder) as port:
            context = ssl.create_default_context()

            async def fail() -> None:
                with pytest.raises(ssl.SSLCertVerificationError):
                    await tls_client(Recorder, port, context)

            await fail()
            await asyncio.sleep(0.01)
            before = _census()
            for _ in range(20):
                await fail()
            for _ in range(200):
                if _census() == before:
                    break
                await asyncio.sleep(0.005)
            assert _census() == before

    run(main())


def test_an_ended_connection_is_freed_without_the_collector(run: Run) -> None:
    async def main() -> None:
        server, client = server_context(), client_context()
        references: list[weakref.ref[Any]] = []
        async with tls_pair(Recorder, Recorder, client=client, server=server) as pair:
            pair.transport.close()
            await pair.client.closed.wait()
            await pair.server.closed.wait()
            references = [weakref.ref(pair.client), weakref.ref(pair.transport)]
            pair.client.transport = pair.server.transport
        del pair
        await asyncio.sleep(0)
        assert [reference() for reference in references] == [None, None]

    gc.collect()
    gc.disable()
    try:
        run(main())
    finally:
        gc.enable()


def test_an_abandoned_connection_is_collected_with_a_warning(new_loop: LoopFactory) -> None:
    loop = new_loop()
    references: list[weakref.ref[Any]] = []

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(
            Recorder, "127.0.0.1", 0, ssl=server_context()
        )
        port = server.sockets[0].getsockname()[1]
        transport, protocol = await tls_client(Recorder, port)
        references.append(weakref.ref(transport))
        references.append(weakref.ref(protocol))
        server.close()

    loop.run_until_complete(main())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop.close()
        del loop
        gc.collect()
    assert [reference() for reference in references] == [None, None]
    messages = [str(warning.message) for warning in caught]
    assert any(
        warning.category is ResourceWarning and "unclosed transport" in str(warning.message)
        for warning in caught
    ), messages


def test_an_ssl_object_may_outlive_its_connection(run: Run) -> None:
    async def main() -> Any:
        async with tls_pair(Recorder, Recorder) as pair:
            kept = pair.transport.get_extra_info("ssl_object")
            pair.transport.close()
            await pair.client.closed.wait()
            return kept

    kept = run(main())
    gc.collect()
    assert kept.version() == "TLSv1.3"
    assert kept.cipher()
    with pytest.raises((ssl.SSLError, ValueError)):
        kept.write(b"nobody listens")
        kept.read(10)
