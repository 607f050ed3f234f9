"""create_server and the Server object."""

from __future__ import annotations

import asyncio
import contextvars
import errno
import socket
import sys
from typing import Any

import pytest

from .conftest import Run
from .peers import BufferedRecorder, Recorder, Recording, reset, until, unused_port

LOCAL = "127.0.0.1"


class Echo(asyncio.Protocol):
    transport: Any

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def exchange(address: Any, data: bytes = b"hello") -> bytes:
    reader, writer = await asyncio.open_connection(*address[:2])
    writer.write(data)
    answer = await reader.readexactly(len(data))
    writer.close()
    await writer.wait_closed()
    return answer


def test_a_server_serves_many_clients(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        assert isinstance(server, asyncio.AbstractServer)
        assert server.is_serving()
        assert server.get_loop() is loop
        address = server.sockets[0].getsockname()
        messages = [b"%d" % number * 100 for number in range(50)]
        answers = await asyncio.gather(*(exchange(address, message) for message in messages))
        assert answers == messages
        server.close()
        assert not server.is_serving()
        assert server.sockets == ()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    run(main())


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
def test_an_accepted_connection_has_its_addresses(
    loop: asyncio.AbstractEventLoop, run: Run, make: type[Recording]
) -> None:
    async def main() -> None:
        made: list[Any] = []

        def factory() -> Any:
            made.append(make())
            return made[-1]

        server = await loop.create_server(factory, LOCAL, 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            await until(lambda: bool(made))
            await made[0].connected.wait()
            transport = made[0].transport
            assert isinstance(transport, asyncio.Transport)
            assert transport.get_extra_info("peername") == client.getsockname()
            assert transport.get_extra_info("sockname") == client.getpeername()
            assert transport.get_extra_info("socket").getpeername() == client.getsockname()
            client.sendall(b"data")
            assert await made[0].received(4) == b"data"
        await made[0].closed.wait()
        server.close()
        await server.wait_closed()

    run(main())


def test_the_sockets_of_a_server_are_transport_sockets(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        assert isinstance(server.sockets, tuple)
        (sock,) = server.sockets
        assert type(sock).__name__ == "TransportSocket"
        assert sock.family == socket.AF_INET
        assert sock.fileno() >= 0
        server.close()
        await server.wait_closed()

    run(main())


def test_a_server_may_start_later(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        port = unused_port()
        server = await loop.create_server(Echo, LOCAL, port, start_serving=False)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(LOCAL, port)
        await server.start_serving()
        await server.start_serving()
        assert server.is_serving()
        assert await exchange((LOCAL, port)) == b"hello"
        server.close()
        await server.wait_closed()

    run(main())


def test_serve_forever_serves_until_it_is_cancelled(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0, start_serving=False)
        address = server.sockets[0].getsockname()
        task = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert server.is_serving()
        with pytest.raises(RuntimeError, match="already being awaited on serve_forever"):
            await server.serve_forever()
        assert await exchange(address) == b"hello"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not server.is_serving()
        with pytest.raises(RuntimeError, match="is closed"):
            await server.serve_forever()

    run(main())


def test_close_ends_serve_forever(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        task = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0)
        server.close()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_async_with_closes_the_server(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        async with await loop.create_server(Echo, LOCAL, 0) as server:
            assert await exchange(server.sockets[0].getsockname()) == b"hello"
        assert not server.is_serving()

    run(main())


def test_close_may_be_called_again(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        server.close()
        server.close()
        await server.wait_closed()
        await server.wait_closed()

    run(main())


def test_connections_outlive_the_close_of_their_server(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"before")
        assert await reader.readexactly(6) == b"before"
        server.close()
        writer.write(b"after")
        assert await reader.readexactly(5) == b"after"
        writer.close()
        await writer.wait_closed()
        await server.wait_closed()

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 12, 1), reason="wait_closed waits since Python 3.12.1")
def test_wait_closed_waits_for_the_connections(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"x")
        await reader.readexactly(1)
        waiting = asyncio.create_task(server.wait_closed())
        await asyncio.sleep(0.005)
        assert not waiting.done()
        server.close()
        await asyncio.sleep(0.005)
        assert not waiting.done()
        writer.close()
        await waiting

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 13), reason="close_clients came with Python 3.13")
@pytest.mark.parametrize("how", ["close_clients", "abort_clients"])
def test_the_clients_of_a_server_can_be_closed(
    loop: asyncio.AbstractEventLoop, run: Run, how: str
) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0)
        connections = [
            await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(3)
        ]
        for reader, writer in connections:
            writer.write(b"x")
            await reader.readexactly(1)
        server.close()
        getattr(server, how)()
        for reader, writer in connections:
            assert await reader.read() == b""
            writer.close()
        await server.wait_closed()

    run(main())


def test_several_hosts_are_served(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        async with await loop.create_server(Echo, [LOCAL, "127.0.0.2"], 0) as server:
            addresses = [sock.getsockname() for sock in server.sockets]
            assert sorted(host for host, _ in addresses) == [LOCAL, "127.0.0.2"]
            for address in addresses:
                assert await exchange(address) == b"hello"

    run(main())


@pytest.mark.parametrize("host", [None, ""])
def test_without_a_host_every_interface_is_served(
    loop: asyncio.AbstractEventLoop, run: Run, host: str | None
) -> None:
    async def main() -> None:
        async with await loop.create_server(
            Echo, host, unused_port(), family=socket.AF_INET
        ) as server:
            assert server.sockets[0].getsockname()[0] == "0.0.0.0"
            port = server.sockets[0].getsockname()[1]
            assert await exchange((LOCAL, port)) == b"hello"

    run(main())


def test_a_listening_socket_is_taken_over(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        sock = socket.create_server((LOCAL, 0))
        address = sock.getsockname()
        async with await loop.create_server(Echo, sock=sock):
            assert await exchange(address) == b"hello"
        assert sock.fileno() == -1

    run(main())


def test_a_taken_port_is_named(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with socket.create_server((LOCAL, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="error while attempting to bind on address") as raised:
            run(loop.create_server(Echo, LOCAL, port))
    assert raised.value.errno == errno.EADDRINUSE
    assert str(port) in str(raised.value)


def test_two_servers_can_share_a_port_with_reuse_port(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        async with await loop.create_server(Echo, LOCAL, 0, reuse_port=True) as one:
            port = one.sockets[0].getsockname()[1]
            async with await loop.create_server(Echo, LOCAL, port, reuse_port=True):
                for _ in range(5):
                    assert await exchange((LOCAL, port)) == b"hello"

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 13), reason="keep_alive came with Python 3.13")
def test_keep_alive_is_set_on_the_listener(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        arguments: dict[str, Any] = {"keep_alive": True}
        async with await loop.create_server(Echo, LOCAL, 0, **arguments) as server:
            assert server.sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)

    run(main())


def test_accepted_connections_have_no_delay(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        made: list[Recorder] = []

        def factory() -> Recorder:
            made.append(Recorder())
            return made[-1]

        async with await loop.create_server(factory, LOCAL, 0) as server:
            with socket.create_connection(server.sockets[0].getsockname()):
                await until(lambda: bool(made))
                await made[0].connected.wait()
                sock = made[0].transport.get_extra_info("socket")
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert not sock.get_inheritable()
            await made[0].closed.wait()

    run(main())


def test_wrong_arguments_are_refused(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with (
        socket.socket() as sock,
        pytest.raises(ValueError, match="host/port and sock can not be specified"),
    ):
        run(loop.create_server(Echo, LOCAL, 0, sock=sock))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="Neither host/port nor sock were specified"):
        run(loop.create_server(Echo))
    with pytest.raises(TypeError, match="SSLContext"):
        run(loop.create_server(Echo, LOCAL, 0, ssl=True))  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="ssl_handshake_timeout"):
        run(loop.create_server(Echo, LOCAL, 0, ssl_handshake_timeout=1.0))
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        pytest.raises(ValueError, match="A Stream Socket was expected"),
    ):
        run(loop.create_server(Echo, sock=sock))


def test_a_client_that_disconnects_before_its_accept_is_ignored(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server = await loop.create_server(Echo, LOCAL, 0, start_serving=False)
        await server.start_serving()
        address = server.sockets[0].getsockname()
        for _ in range(5):
            reset(socket.create_connection(address))
        assert await exchange(address) == b"hello"
        server.close()
        await server.wait_closed()

    run(main())


def test_the_repr_of_a_server_names_its_sockets(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        async with await loop.create_server(Echo, LOCAL, 0) as server:
            assert "Server" in repr(server)
            assert str(server.sockets[0].getsockname()[1]) in repr(server)

    run(main())


@pytest.mark.parametrize("loop_name", ["penstock"])
def test_a_server_may_have_its_own_context(loop: Any, run: Run) -> None:
    """Python 3.15 passes `_start_serving` the context in which the server was made."""
    variable = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    class Looking(Echo):
        def connection_made(self, transport: Any) -> None:
            seen.append(variable.get())
            variable.set("changed by a connection")
            super().connection_made(transport)

    context = contextvars.copy_context()
    context.run(variable.set, "the server's")

    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            listener.setblocking(False)
            loop._start_serving(Looking, listener, None, None, 100, None, None, context)
            for _ in range(2):
                assert await exchange(listener.getsockname()) == b"hello"
            loop._stop_serving(listener)

    run(main())
    assert seen == ["the server's"] * 2
    assert context[variable] == "the server's"


def test_context_variables_set_by_a_factory_reach_only_its_connection(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)
    seen: list[tuple[str, int]] = []

    class Counting(Echo):
        def connection_made(self, transport: Any) -> None:
            seen.append(("made", number.get()))
            super().connection_made(transport)

    def factory() -> Counting:
        seen.append(("factory", number.get()))
        number.set(number.get() + 1)
        return Counting()

    async def main() -> None:
        server = await loop.create_server(factory, LOCAL, 0)
        for _ in range(2):
            assert await exchange(server.sockets[0].getsockname()) == b"hello"
        server.close()

    run(main())
    assert seen == [("factory", 0), ("made", 1)] * 2
