"""A transport as an object, and its use of its protocol's methods, for every kind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import socket
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

import penstock

from .conftest import Run
from .peers import BufferedRecorder, Recorder, until
from .transport_links import Link, every_transport

LOCAL = "127.0.0.1"


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.data: list[bytes] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.data.append(data)


async def datagram_endpoint() -> tuple[Any, Datagrams]:
    return await asyncio.get_running_loop().create_datagram_endpoint(
        Datagrams, local_addr=(LOCAL, 0)
    )


# ---- attributes ----------------------------------------------------------------------------------


@every_transport
def test_a_program_may_set_attributes(run: Run, kind: str) -> None:
    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(Recorder)
            link.transport.user = "somebody"
            assert link.transport.user == "somebody"
            assert vars(link.transport)["user"] == "somebody"
            del link.transport.user
            assert not hasattr(link.transport, "user")

    run(main())


def test_a_transport_and_a_reader_show_their_state_as_asyncios_do(run: Run) -> None:
    async def main() -> None:
        near, far = socket.socketpair()
        with far:
            reader, writer = await penstock.open_connection(sock=near, limit=1234)
            assert reader._limit == 1234
            transport: Any = writer.transport
            assert transport._paused is False
            transport.pause_reading()
            assert transport._paused is True
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_program_may_set_attributes_of_datagram_transports(run: Run) -> None:
    async def main() -> None:
        transport, _ = await datagram_endpoint()
        transport.user = "somebody"
        assert vars(transport)["user"] == "somebody"
        transport.close()

    run(main())


@every_transport
def test_a_cycle_through_an_attribute_is_collected(run: Run, kind: str) -> None:
    class Owner:
        transport: Any

    async def main() -> weakref.ref[Owner]:
        async with Link(kind) as link:
            await link.connect(Recorder)
            owner = Owner()
            owner.transport = link.transport
            link.transport.owner = owner
            return weakref.ref(owner)

    reference = run(main())
    gc.collect()
    assert reference() is None


# ---- the protocol's methods ----------------------------------------------------------------------


@every_transport
def test_a_protocol_may_replace_its_data_received(run: Run, kind: str) -> None:
    """Protocols do so to change their state."""
    body: list[bytes] = []

    class Stateful(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.data_received = body.append  # type: ignore[method-assign]

    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(Stateful)
            link.peer.sendall(b"head")
            assert await link.protocol.received(4) == b"head"
            link.peer.sendall(b"body")
            await until(lambda: body == [b"body"])
            del link.protocol.data_received
            link.peer.sendall(b"next")
            assert await link.protocol.received(8) == b"headnext"

    run(main())


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_protocol_may_replace_its_buffer_methods(run: Run, kind: str) -> None:
    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(BufferedRecorder)
            link.peer.sendall(b"1")
            assert await link.protocol.received(1) == b"1"
            buffer, counts = bytearray(10), []
            link.protocol.get_buffer = lambda _: buffer
            link.protocol.buffer_updated = counts.append
            link.peer.sendall(b"23")
            await until(lambda: counts == [2])
            assert buffer[:2] == b"23"

    run(main())


def test_a_datagram_protocol_may_replace_its_datagram_received(run: Run) -> None:
    async def main() -> None:
        transport, protocol = await datagram_endpoint()
        address = transport.get_extra_info("sockname")
        transport.sendto(b"1", address)
        await until(lambda: protocol.data == [b"1"])
        others: list[bytes] = []
        protocol.datagram_received = lambda data, _: others.append(data)  # type: ignore[method-assign]
        transport.sendto(b"2", address)
        await until(lambda: others == [b"2"])
        assert protocol.data == [b"1"]
        transport.close()

    run(main())


def test_data_for_a_protocol_without_data_received_raise_attribute_error(
    run: Run, contexts: list[dict[str, Any]]
) -> None:
    class Deaf(Recorder):
        @property
        def data_received(self) -> Any:  # type: ignore[override]
            raise AttributeError("data_received")

    async def main() -> None:
        async with Link("unix") as link:
            await link.connect(Deaf)
            link.peer.sendall(b"x")
            await link.protocol.closed.wait()
            assert isinstance(link.protocol.lost_with[0], AttributeError)

    run(main())
    assert [type(context["exception"]) for context in contexts] == [AttributeError]


@pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning")
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_factory_that_returns_none_raises_in_the_caller(run: Run, loop: Any, kind: int) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        ours.setblocking(False)
        connect = {
            socket.SOCK_STREAM: loop.create_connection,
            socket.SOCK_DGRAM: loop.create_datagram_endpoint,
        }[kind]
        with ours, theirs, pytest.raises(AttributeError, match="connection_made"):
            await connect(lambda: None, sock=ours)

    run(main())
    gc.collect()


@pytest.mark.parametrize("where", ["connection_made", "data_received", "connection_lost"])
def test_the_exception_handler_is_called_in_the_context_of_the_protocols_callback(
    run: Run, loop: asyncio.AbstractEventLoop, loop_name: str, where: str
) -> None:
    if loop_name == "asyncio" and sys.version_info < (3, 12) and where != "data_received":
        pytest.skip("asyncio calls it in its own context before Python 3.12")
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []
    loop.set_exception_handler(lambda *_: seen.append(variable.get()))

    def fail(self: Recorder, *arguments: Any) -> None:
        getattr(Recorder, where)(self, *arguments)
        variable.set("the callback's")
        raise LookupError("meant")

    async def main() -> None:
        async with Link("unix") as link:
            await link.connect(type("Failing", (Recorder,), {where: fail}))
            link.peer.sendall(b"x")
            await link.protocol.received(1)
            link.peer.close()
            await link.protocol.closed.wait()
            await until(lambda: bool(seen))

    run(main())
    assert seen == ["the callback's"]


# ---- information after the end of a connection ---------------------------------------------------


async def ended_connections(loop: Any, address: Any) -> list[Any]:
    """Return the transports of both ends, without a query while they were open."""
    accepted: list[Recorder] = []

    def factory() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    if isinstance(address, str):
        server = await loop.create_unix_server(factory, address)
        transport, protocol = await loop.create_unix_connection(Recorder, address)
    else:
        server = await loop.create_server(factory, *address)
        transport, protocol = await loop.create_connection(
            Recorder, *server.sockets[0].getsockname()
        )
    await until(lambda: bool(accepted) and accepted[0].connected.is_set())
    transport.close()
    await protocol.closed.wait()
    await accepted[0].closed.wait()
    server.close()
    return [transport, accepted[0].transport]


def test_an_ended_connection_has_its_addresses(run: Run, loop: Any) -> None:
    async def main() -> None:
        client, server = await ended_connections(loop, (LOCAL, 0))
        assert client.get_extra_info("peername") == server.get_extra_info("sockname")
        assert client.get_extra_info("sockname") == server.get_extra_info("peername")
        assert client.get_extra_info("sockname")[0] == LOCAL

    run(main())


def test_an_ended_unix_connection_has_its_path(run: Run, loop: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    assert len(path) > 28  # longer than the address of an internet socket

    async def main() -> None:
        client, server = await ended_connections(loop, path)
        assert client.get_extra_info("peername") == path
        assert server.get_extra_info("sockname") == path
        assert client.get_extra_info("sockname") == server.get_extra_info("peername") == ""

    run(main())


def test_an_ended_connection_shows_a_closed_socket(run: Run, loop: Any) -> None:
    async def main() -> None:
        for transport in await ended_connections(loop, (LOCAL, 0)):
            sock = transport.get_extra_info("socket")
            assert isinstance(sock, asyncio.trsock.TransportSocket)
            assert sock.fileno() == -1
            assert sock.family == socket.AF_INET

    run(main())


def test_an_accepted_connections_socket_has_its_protocol_number(run: Run, loop: Any) -> None:
    async def main() -> None:
        accepted = Recorder()
        server = await loop.create_server(lambda: accepted, LOCAL, 0)
        with socket.create_connection(server.sockets[0].getsockname()):
            await accepted.connected.wait()
            transport: Any = accepted.transport
            assert transport.get_extra_info("socket").proto == socket.IPPROTO_TCP
            transport.abort()
            await accepted.closed.wait()
        server.close()

    run(main())


@every_transport
def test_writes_after_the_end_warn_from_the_fifth_on(
    run: Run, caplog: pytest.LogCaptureFixture, kind: str, loop_name: str
) -> None:
    if loop_name == "asyncio" and kind.startswith("tls"):
        pytest.skip("asyncio's TLS transport has lost its protocol then: AttributeError")

    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(Recorder)
            link.transport.abort()
            await link.protocol.closed.wait()
            for _ in range(20):
                link.transport.write(b"into the void")

    run(main())
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert 14 <= len(warnings) <= 16


# ---- closed loops --------------------------------------------------------------------------------


def test_a_transport_with_queued_data_can_be_closed_after_its_loop(new_loop: Any) -> None:
    loop = new_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        transport, _ = loop.run_until_complete(loop.create_connection(asyncio.Protocol, sock=ours))
        transport.write(b"x" * 10_000_000)
        loop.close()
        transport.close()
        assert transport.is_closing()
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            transport.abort()
        with pytest.warns(ResourceWarning, match="unclosed transport"):
            del transport
            gc.collect()
