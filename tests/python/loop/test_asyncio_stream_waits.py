"""asyncio's own streams over a transport of the loop: waits and wake-ups."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import Run, penstock_factory

SOME_BYTES = st.binary(min_size=1, max_size=40).map(
    lambda data: data.translate(bytes(i % 4 for i in range(256)))
)
"""Bytes of a small alphabet, so that separators occur."""

STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(min_value=-1, max_value=30)),
    st.tuples(st.just("readexactly"), st.integers(min_value=0, max_value=30)),
    st.tuples(st.just("readuntil"), st.sampled_from([b"\x01", b"\x02\x03", b"\x00\x00\x01"])),
    st.just(("readline",)),
    st.tuples(st.just("send"), SOME_BYTES),
    st.tuples(st.just("send"), SOME_BYTES),
    st.just(("cancel",)),
    st.just(("end",)),
)


async def connect(
    limit: int = 65536,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]:
    """Return a client's stream, and the blocking socket at its other end."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(30)
    reader, writer = await asyncio.open_connection(sock=ours, limit=limit)
    return reader, writer, theirs


async def accept(
    limit: int = 65536,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]:
    """Return a server's stream, and the blocking socket at its other end."""
    accepted: asyncio.Queue[Any] = asyncio.Queue()

    def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait((reader, writer))

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=limit)
    theirs = socket.create_connection(server.sockets[0].getsockname(), timeout=30)
    reader, writer = await accepted.get()
    server.close()
    return reader, writer, theirs


Open = Callable[..., Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter, socket.socket]]]
either_side = pytest.mark.parametrize("open_stream", [connect, accept])


async def settle() -> None:
    """Let sent data arrive, and the waiting tasks run.

    A busy Penstock loop polls after every 32 callbacks.
    """
    for _ in range(70):
        await asyncio.sleep(0)


async def outcome(awaitable: Any) -> Any:
    """Return the result, or the exception in a comparable form."""
    try:
        return await awaitable
    except (
        asyncio.IncompleteReadError,
        asyncio.LimitOverrunError,
        asyncio.CancelledError,
        ValueError,
    ) as error:
        partial, consumed = getattr(error, "partial", None), getattr(error, "consumed", None)
        return (type(error), partial, consumed, str(error))


async def play(steps: list[tuple[Any, ...]]) -> list[Any]:
    reader, writer, peer = await connect()
    results: list[Any] = []
    waiting: asyncio.Task[Any] | None = None
    ended = False
    with peer:
        for name, *arguments in steps:
            if name == "send" and not ended:
                peer.sendall(*arguments)
            elif name == "end" and not ended:
                peer.shutdown(socket.SHUT_WR)
                ended = True
            elif name == "cancel" and waiting is not None:
                waiting.cancel()
            elif name.startswith("read") and waiting is None:
                waiting = asyncio.ensure_future(outcome(getattr(reader, name)(*arguments)))
            await settle()
            if waiting is not None and waiting.done():
                results.append(waiting.result())
                waiting = None
            results.append((bytes(reader._buffer), reader._waiter is None, reader.at_eof()))  # type: ignore[attr-defined]
        if not ended:
            peer.shutdown(socket.SHUT_WR)
        if waiting is not None:
            results.append(await waiting)
        results.append(await reader.read())
    writer.close()
    return results


@settings(max_examples=150)
@given(steps=st.lists(STEPS, max_size=25))
def test_every_sequence_of_reads_gives_the_results_of_asyncios_loop(
    steps: list[tuple[Any, ...]],
) -> None:
    outcomes = []
    for factory in (asyncio.SelectorEventLoop, penstock_factory()):
        loop = factory()
        outcomes.append(loop.run_until_complete(asyncio.wait_for(play(steps), 30)))
        loop.close()
    assert outcomes[0] == outcomes[1]


def test_the_classes_are_asyncios(run: Run) -> None:
    seen: list[Any] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.extend([reader, writer])
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            writer.close()
            seen.extend([reader, writer])

    run(main())
    for stream in seen:
        assert isinstance(stream, asyncio.StreamReader | asyncio.StreamWriter)
        assert type(stream).__name__ in ("StreamReader", "StreamWriter")
        assert repr(stream).startswith(("<StreamReader", "<StreamWriter"))


def test_a_subclass_of_the_reader_keeps_its_methods(run: Run) -> None:
    class Shouting(asyncio.StreamReader):
        async def read(self, n: int = -1) -> bytes:
            return (await super().read(n)).upper()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with theirs:
            reader = Shouting(loop=loop)
            protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
            transport, _ = await loop.create_connection(lambda: protocol, sock=ours)
            waiting = asyncio.ensure_future(reader.read(10))
            await settle()
            theirs.sendall(b"loud")
            assert await waiting == b"LOUD"
            assert type(reader) is Shouting
            transport.close()

    run(main())


def test_a_second_read_is_refused_and_the_first_continues(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            first = asyncio.ensure_future(reader.read(10))
            await settle()
            with pytest.raises(RuntimeError, match=r"read\(\) called while another coroutine"):
                await reader.read(10)
            with pytest.raises(RuntimeError, match=r"readexactly\(\) called while another"):
                await reader.readexactly(10)
            peer.sendall(b"data")
            assert await first == b"data"
        writer.close()

    run(main())


def test_data_that_arrive_with_a_cancellation_are_not_lost(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.ensure_future(reader.read(10))
            await settle()
            peer.sendall(b"data")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await reader.read(10) == b"data"
        writer.close()

    run(main())


def test_a_cancellation_of_a_resumed_read_loses_no_data(run: Run) -> None:
    """The task is resumed with data while its cancellation is pending."""

    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.ensure_future(reader.read(10))
            await settle()
            waiter = reader._waiter  # type: ignore[attr-defined]
            waiter.set_result(None)
            waiting.cancel()
            peer.sendall(b"data")
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await reader.read(10) == b"data"
        writer.close()

    run(main())


def test_data_reach_the_new_read_of_a_resumed_task(run: Run) -> None:
    """The task is resumed for an abandoned read, and begins another read."""

    class Restarted:
        def __init__(self, reader: asyncio.StreamReader) -> None:
            self.reader = reader

        def __await__(self) -> Generator[Any, None, bytes]:
            given_up = self.reader.read(10)
            yield given_up.send(None)
            return (yield from self.reader.read(10).__await__())

    async def read_again(reader: asyncio.StreamReader) -> bytes:
        return await Restarted(reader)

    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.ensure_future(read_again(reader))
            await settle()
            peer.sendall(b"data")
            assert await waiting == b"data"
            assert reader._buffer == b""  # type: ignore[attr-defined]
        writer.close()

    run(main())


def test_reads_may_be_timed_out_gathered_and_wrapped(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.001)
            peer.sendall(b"abc")
            assert await asyncio.gather(reader.read(1)) == [b"a"]
            assert await asyncio.create_task(reader.read(1)) == b"b"
            assert await asyncio.shield(reader.read(1)) == b"c"
        writer.close()

    run(main())


def test_an_exception_set_on_the_reader_ends_the_wait(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.ensure_future(reader.readexactly(4))
            await settle()
            reader.set_exception(KeyError("gone"))
            with pytest.raises(KeyError):
                await waiting
            with pytest.raises(KeyError):
                await reader.read(1)
        writer.close()

    run(main())


@pytest.mark.parametrize("method", ["readexactly", "readuntil", "readline", "read"])
def test_a_loss_that_follows_data_at_once_ends_the_read(
    run: Run, only_penstock: None, method: str
) -> None:
    # asyncio's own reader waits forever: it checks for the exception only when the read begins.
    arguments = {"readexactly": [10], "readuntil": [b"!"], "readline": [], "read": [-1]}[method]

    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            reading = asyncio.ensure_future(getattr(reader, method)(*arguments))
            await settle()
            reader.feed_data(b"abc")
            reader.set_exception(KeyError("lost"))
            with pytest.raises(KeyError):
                await reading
        writer.close()

    run(main())


def test_data_may_be_fed_by_the_program(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.ensure_future(reader.read(2))
            await settle()
            reader.feed_data(b"abc")
            peer.sendall(b"d")
            assert await waiting == b"ab"
            assert await reader.readexactly(2) == b"cd"
            reader.feed_eof()
            assert await reader.read(1) == b""
        writer.close()

    run(main())


def test_a_task_of_the_python_implementation_may_read(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        reader, writer, peer = await connect()
        with peer:
            waiting = asyncio.tasks._PyTask(reader.read(10), loop=loop)  # type: ignore[attr-defined]
            await settle()
            peer.sendall(b"data")
            assert await waiting == b"data"
        writer.close()

    run(main())


def test_a_stream_is_paused_above_twice_its_limit(run: Run) -> None:
    async def main() -> None:
        for limit, size, paused in ((1, 2, False), (1, 3, True), (4, 8, False), (4, 9, True)):
            reader, writer, peer = await connect(limit)
            with peer:
                peer.sendall(bytes(size))
                await settle()
                assert reader._paused is paused  # type: ignore[attr-defined]
            writer.close()

    run(main())


def test_an_unread_stream_pauses_and_resumes_when_read(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect(limit=1000)
        with peer:
            peer.sendall(b"x" * 50_000)
            await settle()
            assert reader._paused  # type: ignore[attr-defined]
            assert await reader.readexactly(50_000) == b"x" * 50_000
            waiting = asyncio.ensure_future(reader.read(1))
            await settle()
            peer.sendall(b"y" * 10_000)
            assert await waiting == b"y"
            assert await reader.readexactly(9_999) == b"y" * 9_999
        writer.close()

    run(main())


@either_side
@pytest.mark.parametrize(("limit", "size"), [(1, 3), (1000, 100_000), (65536, 1_000_000)])
def test_repeated_reads_of_more_than_the_limit_complete(
    run: Run, open_stream: Open, limit: int, size: int
) -> None:
    async def main() -> None:
        reader, writer, peer = await open_stream(limit)

        async def frames() -> list[bytes]:
            return [await reader.readexactly(count) for count in (1, size, 1, size)]

        with peer:
            receiving = asyncio.ensure_future(frames())
            for mark in (b"a", b"b"):
                await settle()
                # These bytes complete the first read, and the second waits for the rest.
                await asyncio.to_thread(peer.sendall, mark + mark.upper() * (size // 2))
                await settle()
                await asyncio.to_thread(peer.sendall, mark.upper() * (size - size // 2))
            assert await receiving == [b"a", b"A" * size, b"b", b"B" * size]
        writer.close()

    run(main())


def test_a_full_stream_with_an_unpausable_transport_keeps_all_data(run: Run) -> None:
    class Unpausable:
        def __init__(self) -> None:
            self.asked = 0

        def pause_reading(self) -> None:
            self.asked += 1
            raise NotImplementedError

    async def main() -> None:
        reader, writer, peer = await connect(limit=10)
        with peer:
            transport = Unpausable()
            reader._transport = transport  # type: ignore[attr-defined]
            peer.sendall(bytes(100))
            await settle()
            peer.sendall(bytes(100))
            await settle()
            assert await reader.readexactly(200) == bytes(200)
            assert transport.asked == 1
        writer.close()

    run(main())


def test_a_read_that_was_awaited_cannot_be_awaited_again(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            peer.sendall(b"data")
            read = reader.read(10)
            assert await read == b"data"
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                await read
        writer.close()

    run(main())


@either_side
def test_drain_waits_while_the_peer_does_not_read(run: Run, open_stream: Open) -> None:
    async def main() -> None:
        _, writer, peer = await open_stream()
        with peer:
            await writer.drain()
            writer.write(bytes(5_000_000))
            draining = asyncio.ensure_future(writer.drain())
            await settle()
            assert not draining.done()
            received = 0
            while received < 5_000_000:
                received += len(await asyncio.to_thread(peer.recv, 1 << 20))
            await draining
        writer.close()

    run(main())


@either_side
def test_drain_reports_a_lost_connection(run: Run, open_stream: Open) -> None:
    async def main() -> None:
        reader, writer, peer = await open_stream()
        peer.close()
        assert await reader.read(1) == b""
        writer.transport.abort()
        await settle()
        with pytest.raises(ConnectionResetError):
            await writer.drain()

    run(main())


@either_side
def test_drain_raises_the_exception_set_on_the_reader(run: Run, open_stream: Open) -> None:
    async def main() -> None:
        reader, writer, peer = await open_stream()
        with peer:
            await writer.drain()
            reader.set_exception(KeyError("gone"))
            with pytest.raises(KeyError):
                await writer.drain()
        writer.close()
        with pytest.raises(TypeError):
            await writer.drain(1)  # type: ignore[call-arg]

    run(main())


@pytest.mark.skipif(
    sys.version_info < (3, 11, 7), reason="asyncio before 3.11.7 leaves the connection open"
)
def test_a_failed_handler_is_reported_and_the_next_is_called(
    run: Run, contexts: list[dict[str, Any]]
) -> None:
    calls: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(len(await reader.read(10)))
        if len(calls) == 1:
            raise KeyError("first")
        writer.write(b"second")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
            address = server.sockets[0].getsockname()
            for answer in (b"", b"second"):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(b"x")
                assert await reader.read() == answer
                writer.close()

    run(main())
    # Before 3.12, such a handler is a task with an unretrieved exception.
    if sys.version_info >= (3, 12):
        assert [type(context["exception"]) for context in contexts] == [KeyError]
    assert calls == [1, 1]


def test_completed_reads_do_not_keep_their_reader_alive(run: Run) -> None:
    async def main() -> None:
        reader, writer, peer = await connect()
        with peer:
            before = sys.getrefcount(reader)
            for _ in range(10):
                peer.sendall(b"x")
                assert await reader.read(1) == b"x"
                waiting = asyncio.ensure_future(reader.read(1))
                await settle()
                waiting.cancel()
                await settle()
            del waiting
            assert sys.getrefcount(reader) == before
        writer.close()

    run(main())
