"""create_connection: arguments, addresses, failures."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from typing import Any

import pytest

from .conftest import Run
from .peers import Recorder, unused_port

LOCAL = "127.0.0.1"


def test_a_refused_connection_names_the_address(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    port = unused_port()
    with pytest.raises(ConnectionRefusedError) as raised:
        run(loop.create_connection(Recorder, LOCAL, port))
    assert raised.value.errno == errno.ECONNREFUSED
    assert LOCAL in str(raised.value)
    assert str(port) in str(raised.value)
    assert "Connect call failed" in str(raised.value)


def test_several_refused_addresses_are_all_named(
    loop: asyncio.AbstractEventLoop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = unused_port(), unused_port()
    _resolve_to(monkeypatch, [(LOCAL, one), ("127.0.0.2", two)])
    with pytest.raises(OSError, match="Multiple exceptions") as raised:
        run(loop.create_connection(Recorder, "service.test", 80))
    assert str(one) in str(raised.value)
    assert str(two) in str(raised.value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="all_errors came with Python 3.12")
def test_all_errors_raises_a_group(
    loop: asyncio.AbstractEventLoop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_to(monkeypatch, [(LOCAL, unused_port()), ("127.0.0.2", unused_port())])
    arguments: dict[str, Any] = {"all_errors": True}
    with pytest.raises(ExceptionGroup) as raised:
        run(loop.create_connection(Recorder, "service.test", 80, **arguments))
    assert [type(exc) for exc in raised.value.exceptions] == [ConnectionRefusedError] * 2


@pytest.mark.parametrize("delay", [None, 0.01])
@pytest.mark.parametrize("interleave", [None, 1])
def test_the_next_address_is_tried_after_a_refused_one(
    loop: asyncio.AbstractEventLoop,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    delay: float | None,
    interleave: int | None,
) -> None:
    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            address = listener.getsockname()
            _resolve_to(monkeypatch, [("127.0.0.2", unused_port()), address])
            transport, _ = await loop.create_connection(
                Recorder,
                "service.test",
                80,
                happy_eyeballs_delay=delay,
                interleave=interleave,
            )
            assert transport.get_extra_info("peername") == address
            transport.abort()
            await asyncio.sleep(0)

    run(main())


def test_an_unknown_name_raises_gaierror(
    loop: asyncio.AbstractEventLoop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(socket.gaierror):
        run(loop.create_connection(Recorder, "service.test", 80))


def test_a_name_without_addresses_raises_os_error(
    loop: asyncio.AbstractEventLoop, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _resolve_to(monkeypatch, [])
    with pytest.raises(OSError, match=r"getaddrinfo\(\) returned empty list"):
        run(loop.create_connection(Recorder, "service.test", 80))


def _resolve_to(monkeypatch: pytest.MonkeyPatch, addresses: list[tuple[str, int]]) -> None:
    answers = [
        (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)
        for address in addresses
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answers)


@pytest.mark.parametrize("port", [0, "0"])
def test_the_port_may_be_a_number_or_text(
    loop: asyncio.AbstractEventLoop, run: Run, port: Any
) -> None:
    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            number = listener.getsockname()[1]
            transport, _ = await loop.create_connection(
                Recorder, LOCAL, str(number) if isinstance(port, str) else number
            )
            transport.close()
            await asyncio.sleep(0)

    run(main())


def test_localhost_is_resolved(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            transport, protocol = await loop.create_connection(
                Recorder, "localhost", listener.getsockname()[1], family=socket.AF_INET
            )
            assert protocol.calls == ["made"]
            transport.close()
            await protocol.closed.wait()

    run(main())


def test_a_connection_uses_ipv6(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        made: list[Recorder] = []

        def factory() -> Recorder:
            made.append(Recorder())
            return made[-1]

        try:
            server = await loop.create_server(factory, "::1", 0)
        except OSError:
            pytest.skip("the machine has no IPv6 loopback")
        address = server.sockets[0].getsockname()
        transport, client = await loop.create_connection(Recorder, "::1", address[1])
        transport.write(b"six")
        assert transport.get_extra_info("peername") == address
        assert len(transport.get_extra_info("sockname")) == 4
        while not made:  # noqa: ASYNC110 - the factory is not awaitable
            await asyncio.sleep(0.001)
        assert await made[0].received(3) == b"six"
        transport.close()
        await made[0].closed.wait()
        await client.closed.wait()
        server.close()
        await server.wait_closed()

    run(main())


def test_the_local_address_is_bound(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            port = unused_port()
            transport, protocol = await loop.create_connection(
                Recorder, *listener.getsockname(), local_addr=("127.0.0.1", port)
            )
            assert transport.get_extra_info("sockname") == ("127.0.0.1", port)
            transport.close()
            await protocol.closed.wait()

    run(main())


def test_a_taken_local_address_is_named(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with socket.create_server((LOCAL, 0)) as listener:
            taken = listener.getsockname()
            with pytest.raises(OSError, match="error while attempting to bind on address"):
                await loop.create_connection(Recorder, *taken, local_addr=taken)

    run(main())


def test_a_connected_socket_is_taken_over(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with right:
            left.setblocking(False)
            transport, protocol = await loop.create_connection(Recorder, sock=left)
            assert protocol.calls == ["made"]
            transport.write(b"x")
            assert right.recv(10) == b"x"
            transport.close()
            await protocol.closed.wait()
            assert left.fileno() == -1

    run(main())


def test_an_accepted_socket_is_taken_over(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        with (
            socket.create_server((LOCAL, 0)) as listener,
            socket.create_connection(listener.getsockname()) as peer,
        ):
            accepted, _ = listener.accept()
            accepted.setblocking(False)
            transport, protocol = await loop.connect_accepted_socket(Recorder, accepted)
            transport.write(b"welcome")
            assert peer.recv(10) == b"welcome"
            transport.close()
            await protocol.closed.wait()

    run(main())


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"host": LOCAL, "port": 80, "sock": True},
        {"host": LOCAL, "port": 80, "server_hostname": "x"},
        {"host": LOCAL, "port": 80, "ssl_handshake_timeout": 1.0},
        {"host": LOCAL, "port": 80, "ssl_shutdown_timeout": 1.0},
        {"sock": True, "ssl": True},
    ],
    ids=lambda a: "+".join(a) or "nothing",
)
def test_contradictory_arguments_are_refused(
    loop: asyncio.AbstractEventLoop, run: Run, arguments: dict[str, Any]
) -> None:
    with socket.socket() as sock:
        given = {name: sock if name == "sock" else value for name, value in arguments.items()}
        with pytest.raises(ValueError, match=r"\w+"):
            run(loop.create_connection(Recorder, **given))


def test_a_datagram_socket_is_refused(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        pytest.raises(ValueError, match="A Stream Socket was expected"),
    ):
        run(loop.create_connection(Recorder, sock=sock))


def test_a_cancelled_connect_leaves_no_descriptor(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        with socket.socket() as listener:
            listener.bind((LOCAL, 0))
            listener.listen(0)
            address = listener.getsockname()
            fillers = []
            # A full accept queue leaves further connects unanswered.
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(address)
                fillers.append(filler)
            before = set(os.listdir("/proc/self/fd"))
            task = asyncio.ensure_future(loop.create_connection(Recorder, *address))
            for _ in range(3):
                await asyncio.sleep(0.001)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(0)
            assert set(os.listdir("/proc/self/fd")) <= before
            for filler in fillers:
                filler.close()

    run(main())
