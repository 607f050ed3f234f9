"""AnyIO programs on the loop, unchanged."""

from __future__ import annotations

import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.abc
import anyio.to_thread
import pytest

from .conftest import LoopFactory

T = TypeVar("T")
RunAnyio = Callable[[Callable[[], Awaitable[T]]], T]


@pytest.fixture
def run_anyio(new_loop: LoopFactory) -> RunAnyio[None]:
    def run_anyio(main: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with anyio.fail_after(30):
                await main()

        anyio.run(bounded, backend="asyncio", backend_options={"loop_factory": new_loop})

    return run_anyio


def test_a_tcp_server_with_task_groups_serves_clients(run_anyio: RunAnyio[None]) -> None:
    async def echo(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            async for chunk in stream:
                await stream.send(chunk)

    async def main() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)

        async def client(number: int) -> None:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                message = b"%d," % number * 1000
                await stream.send(message)
                await stream.send_eof()
                received = b""
                async for chunk in stream:
                    received += chunk
                assert received == message

        async with anyio.create_task_group() as servers:
            servers.start_soon(listener.serve, echo)
            async with anyio.create_task_group() as clients:
                for number in range(20):
                    clients.start_soon(client, number)
            servers.cancel_scope.cancel()
        await listener.aclose()

    run_anyio(main)


def test_unix_and_udp_sockets_exchange_data(run_anyio: RunAnyio[None], tmp_path: Path) -> None:
    async def main() -> None:
        name = f"\0{tmp_path.name}"
        async with (
            await anyio.create_unix_listener(name) as listener,
            anyio.create_task_group() as group,
        ):

            async def accept_one() -> None:
                async with await listener.accept() as stream:
                    await stream.send(await stream.receive())

            group.start_soon(accept_one)
            async with await anyio.connect_unix(name) as stream:
                await stream.send(b"unix")
                assert await stream.receive() == b"unix"

        async with await anyio.create_udp_socket(
            family=socket.AF_INET, local_host="127.0.0.1"
        ) as receiver:
            port = receiver.extra(anyio.abc.SocketAttribute.local_port)
            async with await anyio.create_connected_udp_socket("127.0.0.1", port) as sender:
                await sender.send(b"datagram")
                assert (await receiver.receive())[0] == b"datagram"

    run_anyio(main)


def test_wait_readable_waits_and_can_be_cancelled(run_anyio: RunAnyio[None]) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            with anyio.move_on_after(0.005) as scope:
                await anyio.wait_readable(left)
            assert scope.cancelled_caught
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.wait_readable, left)
                group.start_soon(anyio.wait_writable, left)
                await anyio.wait_all_tasks_blocked()
                right.send(b"x")
            assert left.recv(1) == b"x"

    run_anyio(main)


def test_threads_processes_and_files_work(run_anyio: RunAnyio[None], tmp_path: Path) -> None:
    async def main() -> None:
        assert await anyio.to_thread.run_sync(pow, 2, 5) == 32
        result = await anyio.run_process(["cat"], input=b"through a child")
        assert result.stdout == b"through a child"
        path = anyio.Path(tmp_path / "file")
        await path.write_text("text", encoding="ascii")
        assert await path.read_text(encoding="ascii") == "text"

    run_anyio(main)


def test_signals_are_received(run_anyio: RunAnyio[None]) -> None:
    async def main() -> None:
        with anyio.open_signal_receiver(signal.SIGUSR1) as signals:
            signal.raise_signal(signal.SIGUSR1)
            async for number in signals:
                assert number == signal.SIGUSR1
                break

    run_anyio(main)


def test_cancellation_of_a_receive_loses_no_data(run_anyio: RunAnyio[None]) -> None:
    async def main() -> None:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            client = await anyio.connect_tcp("127.0.0.1", port)
            server = await listener.listeners[0].accept()
            async with client, server:
                received = b""
                for number in range(20):
                    with anyio.move_on_after(0):
                        received += await server.receive()
                    await client.send(b"%02d" % number)
                while len(received) < 40:
                    received += await server.receive()
                assert received == b"".join(b"%02d" % number for number in range(20))

    run_anyio(main)
