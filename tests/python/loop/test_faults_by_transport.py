"""The same faults on every stream transport: plain and TLS, over TCP and over Unix sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run
from .peers import BufferedRecorder, Recorder, fill, receive_exactly
from .stream_transport_cases import Make, both_protocols
from .transport_links import Link, every_transport

Contexts = list[dict[str, Any]]


async def still_works(kind: str) -> bool:
    async with Link(kind) as link:
        await link.connect(Recorder)
        link.transport.write(b"alive")
        received = await asyncio.to_thread(receive_exactly, link.peer, 5)
        return bytes(received) == b"alive"


@every_transport
@both_protocols
def test_a_reset_while_writing_is_reported_once(
    run: Run, contexts: Contexts, kind: str, make: Make
) -> None:
    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(make)
            fill(link.transport, link.protocol)
            link.reset()
            await link.protocol.closed.wait()
            assert link.protocol.calls.count("lost") == 1
            (reason,) = link.protocol.lost_with
            assert isinstance(reason, ConnectionError)
            assert link.transport.get_write_buffer_size() == 0
            link.transport.write(b"into the void")
        assert await still_works(kind)

    run(main())
    assert contexts == []


@every_transport
@both_protocols
def test_a_peer_that_never_reads_pauses_the_writer_in_bounded_memory(
    run: Run, kind: str, make: Make
) -> None:
    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(make)
            written = fill(link.transport, link.protocol)
            _, high = link.transport.get_write_buffer_limits()
            assert high <= link.transport.get_write_buffer_size() <= high + 3 * 65536
            assert not link.protocol.resumed.is_set()
            received = await asyncio.to_thread(receive_exactly, link.peer, written)
            assert received == b"x" * written
            await link.protocol.resumed.wait()
            assert link.transport.get_write_buffer_size() == 0

    run(main())


@every_transport
@pytest.mark.parametrize("error", [ZeroDivisionError, MemoryError, OSError])
@pytest.mark.parametrize("where", ["data_received", "get_buffer", "buffer_updated"])
def test_a_callback_that_raises_ends_only_its_connection(
    run: Run, contexts: Contexts, loop_name: str, kind: str, where: str, error: type[Exception]
) -> None:
    if loop_name == "asyncio" and where == "get_buffer" and kind.startswith("tls"):
        pytest.skip("asyncio calls get_buffer before its part of the handshake is sent")
    raised = error("raised by the protocol")
    base: Any = Recorder if where == "data_received" else BufferedRecorder

    def fail(*_: object) -> None:
        raise raised

    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(type("Raising", (base,), {where: fail}))
            with contextlib.suppress(OSError):  # over TLS, get_buffer is called before
                await asyncio.to_thread(link.peer.sendall, b"data")
            await link.protocol.closed.wait()
            assert link.protocol.lost_with == [raised]
        assert await still_works(kind)

    run(main())
    assert [context["exception"] for context in contexts] in ([raised], [])
    assert contexts or error is OSError  # ConnectionError and similar errors are not reported


@every_transport
@both_protocols
@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("where", ["connection_made", "note", "eof_received", "pause_writing"])
def test_a_connection_may_be_ended_in_every_callback(
    run: Run, contexts: Contexts, loop_name: str, kind: str, make: Any, how: str, where: str
) -> None:
    if (loop_name, how, where) == ("asyncio", "abort", "connection_made") and kind != "tcp":
        pytest.skip("asyncio calls connection_made before its part of the handshake is sent")

    def ending(self: Any, *arguments: Any) -> Any:
        result = getattr(make, where)(self, *arguments)
        getattr(self.transport, how)()
        return result

    async def main() -> None:
        link = Link(kind)
        await link.connect(type("Ending", (make,), {where: ending}))
        if where == "note":
            link.peer.sendall(b"data")
        elif where == "eof_received":
            link.peer.shutdown(socket.SHUT_WR)
        elif where == "pause_writing":
            fill(link.transport, link.protocol)
        await asyncio.gather(asyncio.to_thread(drain, link.peer), link.protocol.closed.wait())
        assert link.protocol.calls.count("lost") == 1

    run(main())
    assert contexts == []


def drain(peer: socket.socket) -> None:
    """Read to the end, or to the error of an abort or a missing close_notify; then close."""
    with peer, contextlib.suppress(OSError):
        while peer.recv(1 << 16):
            pass


@pytest.mark.parametrize("loop_name", ["penstock"])  # asyncio keeps a view of the buffer since 3.12
@every_transport
@pytest.mark.parametrize("view", [bytearray, lambda data: memoryview(bytearray(data))])
def test_a_buffer_changed_after_its_write_is_sent_unchanged(
    run: Run, kind: str, view: Callable[[bytes], Any]
) -> None:
    async def main() -> None:
        async with Link(kind) as link:
            await link.connect(Recorder)
            written = fill(link.transport, link.protocol)
            buffer = view(b"0123456789" * 1000)
            link.transport.write(buffer)
            buffer[:] = bytes(len(buffer))
            received = await asyncio.to_thread(receive_exactly, link.peer, written + len(buffer))
            assert received[written:] == b"0123456789" * 1000

    run(main())
