"""The RFC 2217 server and its clients: one after the other, and clients that misbehave."""

from __future__ import annotations

import contextlib
import os
import socket

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serial import (
    PortBusyError,
    SerialConfig,
    open_serial_port,
)
from penstock.serial._rfc2217_protocol import LONGEST_SUBNEGOTIATION, Option, subnegotiation
from penstock.serial.rfc2217 import Rfc2217Server
from penstock.serial.rfc2217 import _server_session as server_session
from penstock.serial.testing import PtyBench, serial_port_pair
from tests.python.serial.pty_peer import until
from tests.python.serial.rfc2217_serving import serve_and_close, served
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


async def test_bytes_received_between_two_clients_are_discarded() -> None:
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
        await device.send(b"nobody hears")
        await until(lambda: port.input_waiting() == 0)
        async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
            await remote.configure(remote.config)
            await device.send(b"for you")
            assert await receive_exactly(remote, 7) == b"for you"
        tasks.cancel_scope.cancel()


async def test_second_client_is_refused_and_a_later_one_served(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        async with await open_serial_port(url) as remote:
            with pytest.raises(PortBusyError, match="in use by another client"):
                await open_serial_port(url)
            await remote.configure(remote.config)
        async with await open_serial_port(url) as later:
            await later.configure(later.config)


async def test_client_that_reconnects_at_once_is_served(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        for turn in range(20):
            async with await open_serial_port(url) as remote:
                await remote.send(bytes((turn,)))
            assert await receive_exactly(device, 1) == bytes((turn,))


async def test_waiting_clients_are_served_one_after_another(
    bench: PtyBench,
) -> None:
    served_now = most = 0

    async def use(url: str) -> None:
        nonlocal served_now, most
        while True:
            try:
                async with await open_serial_port(url) as remote:
                    served_now += 1
                    most = max(most, served_now)
                    await remote.configure(remote.config)
                    served_now -= 1
                    return
            except PortBusyError:
                continue

    async with served(bench.a.path) as url, anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(use, url)
    assert most == 1


async def test_client_is_refused_while_the_previous_clients_output_is_sent(bench: PtyBench) -> None:
    async with served(bench.a.path) as url:
        number = int(url.rpartition(":")[2])
        async with await open_serial_port(bench.b.path):  # accepts nothing
            with socket.create_connection(("127.0.0.1", number)) as client:
                client.sendall(bytes(100_000))
                client.shutdown(socket.SHUT_WR)
                with pytest.raises(PortBusyError, match="last client's output is being sent"):
                    await open_serial_port(url)


async def test_client_with_undeliverable_output_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_session, "_STOP_READING_AT", 1000)
    monkeypatch.setattr(server_session, "_CLIENT_CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(server_session, "_LONGEST_LINGER_S", 0.001)
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        server = Rfc2217Server(port)
        tasks.start_soon(serve_and_close, server, listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)

        def send_until_held_back(client: socket.socket) -> None:
            client.settimeout(0.5)
            with contextlib.suppress(TimeoutError):
                while client.send(bytes(65_536)):
                    pass

        with socket.create_connection(("127.0.0.1", number)) as client:
            await until(lambda: server.is_serving)
            await anyio.to_thread.run_sync(send_until_held_back, client)
            assert server.is_serving
        await until(lambda: not server.is_serving)
        tasks.cancel_scope.cancel()


async def test_bytes_sent_before_the_client_left_arrive(bench: PtyBench) -> None:
    payload = os.urandom(50_000)
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        remote = await open_serial_port(url)
        async with anyio.create_task_group() as tasks:

            async def send_and_leave() -> None:
                await remote.send(payload)
                await remote.aclose()

            tasks.start_soon(send_and_leave)
            assert await receive_exactly(device, len(payload)) == payload


async def test_malformed_client_input_is_harmless(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(
                b"\xff\xfd\x63\xff\xfb\x63"  # unknown options
                b"\xff\xfa\x2c\x01\xff\xf0"  # a baud rate without its bytes
                b"\xff\xfa\x2c\xff\xf0\xff\xfa\x2c\x63\x01\xff\xf0"  # no command, unknown command
                b"\xff\xfa\x2c\x05\x63\xff\xf0\xff\xfa\x2c\x0c\x09\xff\xf0"  # unknown values
                b"\xff\xf6\xff\xf0\xff\xfa\x2c\x00\xff\xf0through"  # then AYT (are you there)
            )
            assert await receive_exactly(device, 7) == b"through"
            answer = b""
            while b"penstock.serial\xff\xf0" not in answer:
                answer += await stream.receive()
            assert b"\xff\xfc\x63\xff\xfe\x63" in answer


async def test_client_that_never_ends_a_subnegotiation_is_dropped(bench: PtyBench) -> None:
    async with served(bench.a.path) as url, await open_serial_port(bench.b.path) as device:
        number = int(url.rpartition(":")[2])
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:
            await stream.send(b"before\xff\xfa\x2c")
            assert await receive_exactly(device, 6) == b"before"
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                with anyio.fail_after(60):
                    while True:
                        await stream.send(bytes(2 * LONGEST_SUBNEGOTIATION))
                        await stream.receive()


async def test_bytes_received_while_suspended_are_sent_on_resume() -> None:
    port, device = serial_port_pair()
    async with port, device, anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        tasks.start_soon(serve_and_close, Rfc2217Server(port), listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", number) as stream:

            async def after(command: int) -> bytes:
                """Send a command and a query; return the bytes up to the query's answer."""
                await stream.send(
                    subnegotiation(Option.COM_PORT, bytes((command,)))
                    + subnegotiation(Option.COM_PORT, bytes((0,)))
                )
                received = b""
                while b"penstock.serial\xff\xf0" not in received:
                    received += await stream.receive()
                return received

            await after(8)  # FLOWCONTROL-SUSPEND, while the server waits for the device
            await device.send(b"held")
            await until(lambda: port.input_waiting() == 0)  # the server has read it
            assert b"held" not in await after(0)
            received = await after(9)  # FLOWCONTROL-RESUME
            while b"held" not in received:
                received += await stream.receive()
        tasks.cancel_scope.cancel()


noise = st.one_of(
    st.binary(max_size=20),
    st.builds(
        lambda command, value: subnegotiation(Option.COM_PORT, bytes((command,)) + value),
        st.integers(0, 13),
        st.binary(max_size=5),
    ),
    st.builds(lambda *three: bytes((255, *three)), st.integers(240, 254), st.integers(0, 255)),
)


@settings(max_examples=40)
@given(st.lists(noise, max_size=20))
def test_next_client_is_served_whatever_a_client_sent(babble: list[bytes]) -> None:
    async def serve_both() -> None:
        port, device = serial_port_pair()
        async with port, device, anyio.create_task_group() as tasks:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
            number = listener.extra(anyio.abc.SocketAttribute.local_port)
            server = Rfc2217Server(port)
            tasks.start_soon(serve_and_close, server, listener)
            async with await anyio.connect_tcp("127.0.0.1", number) as stream:
                with contextlib.suppress(anyio.BrokenResourceError):
                    await stream.send(b"".join(babble))
                    await stream.send_eof()
                    while True:
                        try:
                            await stream.receive()
                        except anyio.EndOfStream:
                            break
            await until(lambda: not server.is_serving)
            assert port.config == SerialConfig()
            await device.reset_input_buffer()
            async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
                await remote.send(b"\xffserved")
                assert await receive_exactly(device, 7) == b"\xffserved"
            tasks.cancel_scope.cancel()

    anyio.run(serve_both)
