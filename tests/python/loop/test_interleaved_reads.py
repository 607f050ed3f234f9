"""A connection keeps its received data while other code reads another socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock

from .conftest import Run
from .peers import BufferedRecorder, Recorder
from .tls_peers import tls_client, tls_server

OTHERS = b"Z" * 60_000
OWN = bytes(i % 89 for i in range(9_000))
"""Contains a newline once every 89 bytes, first after ten bytes, and no Z."""

ReadOther = Callable[[], None]


@pytest.fixture
def read_other(loop: asyncio.AbstractEventLoop) -> Iterator[ReadOther]:
    """Return a function that receives another socket's data at once, like an eager task."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)

    def read() -> None:
        theirs.send(OTHERS)
        receiving = loop.sock_recv(ours, len(OTHERS))
        with pytest.raises(StopIteration) as ended:
            receiving.send(None)
        assert ended.value.value == OTHERS

    with ours, theirs:
        yield read


@pytest.mark.parametrize("streams", [asyncio, penstock])
@pytest.mark.parametrize("method", ["readuntil", "readline", "readexactly", "read"])
def test_a_stream_keeps_its_bytes_while_its_task_reads_another_socket(
    run: Run, read_other: ReadOther, streams: Any, method: str
) -> None:
    got: asyncio.Future[bytes]

    async def serve(reader: Any, writer: Any) -> None:
        first = b""
        try:
            if method == "readuntil":
                await reader.readuntil(b"\xff")
            elif method == "readline":
                await reader.readline()
            else:
                first = await getattr(reader, method)(10)
        except (asyncio.LimitOverrunError, ValueError):
            pass
        read_other()
        rest = await reader.read()
        got.set_result(first + rest)
        writer.close()

    async def main() -> None:
        nonlocal got
        got = asyncio.get_running_loop().create_future()
        async with await streams.start_server(serve, "127.0.0.1", 0, limit=1000) as server:
            _, writer = await streams.open_connection(*server.sockets[0].getsockname())
            await asyncio.sleep(0.01)  # let the server's task wait
            data = OWN.replace(b"\n", b".") if method == "readuntil" else OWN
            writer.write(data)
            writer.write_eof()
            received = await got
            writer.close()
        assert received == (data if method != "readline" else data[-len(received) :])
        assert b"Z" not in received

    run(main())


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("base", [Recorder, BufferedRecorder])
def test_a_protocol_keeps_its_bytes_while_a_callback_reads_another_socket(
    run: Run, read_other: ReadOther, tls: bool, base: Any
) -> None:
    class Reading(base):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            read_other()
            super().connection_made(transport)

        def get_buffer(self, sizehint: int) -> Any:
            read_other()
            return memoryview(super().get_buffer(sizehint))  # asyncio's TLS copies anything else

        def note(self, data: bytes) -> None:
            read_other()
            super().note(data)

    class Eager(Recorder):
        """Sends as early as possible, with the last bytes of the handshake."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.write(OWN)
            transport.write(OWN)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        protocol = Reading()
        if tls:
            async with tls_server(lambda: protocol) as port:
                transport, _ = await tls_client(Eager, port)
                await protocol.connected.wait()
                assert await protocol.received(2 * len(OWN)) == OWN + OWN
                transport.close()
                await protocol.closed.wait()
        else:
            async with await loop.create_server(lambda: protocol, "127.0.0.1", 0) as server:
                transport, _ = await loop.create_connection(Eager, *server.sockets[0].getsockname())
                await protocol.connected.wait()
                assert await protocol.received(2 * len(OWN)) == OWN + OWN
                transport.close()
                await protocol.closed.wait()
        assert protocol.lost_with == [None]

    run(main())


@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_data_fed_by_the_program_follow_data_that_have_arrived(run: Run, streams: Any) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await streams.open_connection(sock=ours, limit=100)

        async def receive() -> bytes:
            with pytest.raises(asyncio.LimitOverrunError):
                await reader.readuntil(b"\xff")
            reader.feed_data(b"fed")
            return await reader.readexactly(1003)  # type: ignore[no-any-return]

        with theirs:
            receiving = asyncio.ensure_future(receive())
            await asyncio.sleep(0.01)
            theirs.sendall(b"a" * 1000)
            assert await receiving == b"a" * 1000 + b"fed"
        writer.close()

    run(main())


@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_data_that_arrive_after_a_fed_eof_end_the_connection(
    run: Run, contexts: list[dict[str, Any]], streams: Any
) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await streams.open_connection(sock=ours)
        with theirs:
            reader.feed_eof()
            assert await reader.read() == b""
            theirs.sendall(b"late")
            with pytest.raises(AssertionError, match="feed_data after feed_eof"):
                await writer.wait_closed()

    run(main())
    assert [str(context["exception"]) for context in contexts] == ["feed_data after feed_eof"]


@pytest.mark.parametrize("streams", [asyncio, penstock])
def test_a_wrapper_that_acts_before_its_next_read_finds_the_stream_in_order(
    run: Run, streams: Any
) -> None:
    """An awaitable written in Python runs between the arrival and the read."""

    class Acting:
        def __init__(self, reader: Any, read: Any) -> None:
            self.reader = reader
            self.read = read

        def __await__(self) -> Any:
            steps = self.read.__await__()
            yield next(steps)
            self.reader.feed_data(b"fed")
            while True:
                try:
                    yield next(steps)
                except StopIteration as end:
                    return end.value

    async def main() -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await streams.open_connection(sock=ours)

        async def receive() -> bytes:
            first = await Acting(reader, reader.read(2))
            return first + await reader.readexactly(5)  # type: ignore[no-any-return]

        with theirs:
            receiving = asyncio.ensure_future(receive())
            await asyncio.sleep(0.01)
            theirs.sendall(b"abcd")
            assert await receiving == b"abcdfed"
        writer.close()

    run(main())
