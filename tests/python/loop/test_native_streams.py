"""``penstock.open_connection`` and similar functions, with asyncio's streams as the model."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

penstock = pytest.importorskip("penstock", reason="penstock is not importable")
pytest.importorskip("penstock._core", reason="the extension penstock._core is not built")

SOME_BYTES = st.binary(max_size=40).map(
    lambda data: data.translate(bytes(i % 4 for i in range(256)))
)
"""Bytes of a small alphabet, so that separators occur."""

OPERATIONS = st.one_of(
    st.tuples(st.just("read"), st.integers(min_value=0, max_value=30)),
    st.tuples(st.just("readexactly"), st.integers(min_value=0, max_value=30)),
    st.tuples(st.just("readuntil"), st.sampled_from([b"\x01", b"\x02\x03", b"\x00\x00\x01"])),
    st.just(("readline",)),
    st.just(("feed",)),
    st.just(("feed",)),
)


class FakeTransport(asyncio.Transport):
    """Counts the calls of flow control."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def pause_reading(self) -> None:
        self.log.append("pause")

    def resume_reading(self) -> None:
        self.log.append("resume")


async def outcome(awaitable: Awaitable[Any]) -> Any:
    """Return the result, or the exception in a comparable form."""
    try:
        return await awaitable
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        return (
            type(error),
            getattr(error, "partial", None),
            getattr(error, "consumed", None),
            str(error),
        )


@settings(max_examples=200)
@given(
    chunks=st.lists(SOME_BYTES, max_size=12),
    operations=st.lists(OPERATIONS, max_size=25),
    limit=st.integers(min_value=1, max_value=40),
)
def test_every_sequence_of_reads_gives_asyncios_results(
    chunks: list[bytes], operations: list[tuple[Any, ...]], limit: int
) -> None:
    async def script(reader: Any) -> list[Any]:
        waiting = list(chunks)
        results = []
        for name, *arguments in [*operations, ("read", -1)]:
            if name == "feed":
                if waiting:
                    reader.feed_data(waiting.pop(0))
                continue
            task = asyncio.ensure_future(outcome(getattr(reader, name)(*arguments)))
            await asyncio.sleep(0)
            while not task.done():
                if waiting:
                    reader.feed_data(waiting.pop(0))
                else:
                    reader.feed_eof()
                for _ in range(3):
                    await asyncio.sleep(0)
                if not task.done() and not waiting and reader.at_eof():
                    await task
            results.append(task.result())
            if not waiting and reader.at_eof():
                break
        return [*results, reader.at_eof()]

    async def main() -> tuple[list[Any], list[Any]]:
        loop = asyncio.get_running_loop()
        return (
            await script(penstock.StreamReader(limit, loop)),
            await script(asyncio.StreamReader(limit, loop)),
        )

    ours, theirs = penstock.run(main())
    assert ours == theirs


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(), 30)

    penstock.run(bounded())


async def echo(reader: Any, writer: Any) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_a_megabyte_is_echoed_byte_for_byte() -> None:
    async def main() -> None:
        server = await penstock.start_server(echo, "127.0.0.1", 0)
        reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
        sent = bytes(range(256)) * 4096
        got = asyncio.create_task(reader.readexactly(len(sent)))
        writer.write(sent)
        await writer.drain()
        assert await got == sent
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        server.close()

    run(main)


def test_unix_streams_work_like_tcp_streams(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "socket"
        server = await penstock.start_unix_server(echo, path)
        reader, writer = await penstock.open_unix_connection(path)
        writer.writelines([b"one\n", b"two\n"])
        writer.write_eof()
        assert [line async for line in reader] == [b"one\n", b"two\n"]
        writer.close()
        await writer.wait_closed()
        server.close()

    run(main)


def test_a_cancelled_read_loses_no_data() -> None:
    async def main() -> None:
        reader = penstock.StreamReader()
        for round_ in range(50):
            task = asyncio.create_task(reader.readexactly(2))
            await asyncio.sleep(0)
            reader.feed_data(b"a")
            task.cancel()
            reader.feed_data(b"b")
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await reader.readexactly(2) == b"ab", round_

    run(main)


def test_a_read_cancelled_when_ready_loses_no_data() -> None:
    async def main() -> None:
        reader = penstock.StreamReader()
        task = asyncio.create_task(reader.read(1))
        await asyncio.sleep(0)
        task.cancel()
        reader.feed_data(b"kept")
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await reader.read(10) == b"kept"

    run(main)


def test_a_second_reader_is_refused_and_the_first_continues() -> None:
    async def main() -> None:
        reader = penstock.StreamReader()
        first = asyncio.create_task(reader.readexactly(3))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already waiting"):
            await reader.read(1)
        reader.feed_data(b"abc")
        assert await first == b"abc"

    run(main)


def test_reads_may_be_wrapped_in_tasks_gathered_and_timed_out() -> None:
    async def main() -> None:
        one, two = penstock.StreamReader(), penstock.StreamReader()
        both = asyncio.gather(one.readline(), two.readline())
        await asyncio.sleep(0)
        two.feed_data(b"2\n")
        one.feed_data(b"1\n")
        assert await both == [b"1\n", b"2\n"]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one.read(1), 0.001)
        one.feed_data(b"x")
        assert await asyncio.wait_for(one.read(1), 30) == b"x"

    run(main)


def test_an_exception_reaches_the_waiting_and_every_later_read() -> None:
    async def main() -> None:
        reader = penstock.StreamReader()
        task = asyncio.create_task(reader.read(1))
        await asyncio.sleep(0)
        reader.set_exception(ConnectionResetError("gone"))
        for awaitable in (task, reader.read(1), reader.readline(), reader.readexactly(1)):
            with pytest.raises(ConnectionResetError, match="gone"):
                await awaitable

    run(main)


def test_a_full_reader_pauses_its_transport_and_an_emptied_one_resumes_it() -> None:
    async def main() -> None:
        reader = penstock.StreamReader(limit=4)
        transport = FakeTransport()
        reader.set_transport(transport)
        reader.feed_data(b"12345678")
        assert transport.log == []
        reader.feed_data(b"9")
        assert transport.log == ["pause"]
        await reader.read(4)
        assert transport.log == ["pause"]
        await reader.read(1)
        assert transport.log == ["pause", "resume"]
        reader.feed_data(b"abcdef")
        assert transport.log == ["pause", "resume", "pause"]
        task = asyncio.create_task(reader.readexactly(12))
        await asyncio.sleep(0)
        assert transport.log == ["pause", "resume", "pause", "resume"]
        reader.feed_data(b"gh")
        assert len(await task) == 12

    run(main)


def test_the_rest_of_a_chunk_stays_for_the_next_read() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await penstock.start_server(pieces, "127.0.0.1", 0)
        _, transport_writer = await penstock.open_connection(*server.sockets[0].getsockname())
        _, other = await penstock.open_connection(*server.sockets[0].getsockname())
        transport_writer.write(b"abcdefghij")
        # Another connection's data passes through the loop's shared buffer in between.
        other.write(b"0123456789")
        assert await loop.run_in_executor(None, results.get, True, 30) in EXPECTED
        assert await loop.run_in_executor(None, results.get, True, 30) in EXPECTED
        for writer in (transport_writer, other):
            writer.close()
            await writer.wait_closed()
        server.close()

    import queue

    results: queue.Queue[list[bytes]] = queue.Queue()
    EXPECTED = [[b"ab", b"cd", b"efghij"], [b"01", b"23", b"456789"]]

    async def pieces(reader: Any, writer: Any) -> None:
        got = [await reader.read(2)]
        await asyncio.sleep(0)
        got.append(await reader.read(2))
        await asyncio.sleep(0.001)
        got.append(await reader.readexactly(6))
        results.put(got)
        writer.close()

    run(main)


def test_drain_waits_while_the_peer_does_not_read() -> None:
    async def main() -> None:
        connected: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        server = await penstock.start_server(
            lambda r, w: connected.set_result((r, w)), "127.0.0.1", 0
        )
        _, writer = await penstock.open_connection(*server.sockets[0].getsockname())
        peer_reader, peer_writer = await connected
        total = 32 * 1024 * 1024
        writer.write(bytes(total))
        waiting = asyncio.create_task(writer.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(await peer_reader.readexactly(total)) == total
        await waiting
        for each in (writer, peer_writer):
            each.close()
            await each.wait_closed()
        with pytest.raises(ConnectionResetError):
            await writer.drain()
        server.close()

    run(main)


def test_a_handler_that_raises_is_reported_and_its_connection_closed() -> None:
    async def main() -> None:
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

        async def fail(reader: Any, writer: Any) -> None:
            raise ZeroDivisionError

        server = await penstock.start_server(fail, "127.0.0.1", 0)
        reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]
        writer.close()
        await writer.wait_closed()
        server.close()

    run(main)


def test_a_plain_handler_that_raises_is_reported_and_its_connection_closed() -> None:
    async def main() -> None:
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))

        def fail(reader: Any, writer: Any) -> None:
            raise ZeroDivisionError

        server = await penstock.start_server(fail, "127.0.0.1", 0)
        reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
        assert await reader.read() == b""
        (report,) = reports
        assert isinstance(report["exception"], ZeroDivisionError)
        assert report["message"] == "Unhandled exception in client_connected_cb"
        assert report["transport"].is_closing()
        writer.close()
        await writer.wait_closed()
        server.close()

    run(main)


def test_readers_writers_and_waiting_tasks_are_collected() -> None:
    async def main() -> None:
        server = await penstock.start_server(echo, "127.0.0.1", 0)
        seen = []
        for _ in range(20):
            reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
            seen.append(weakref.ref(reader))
            seen.append(weakref.ref(writer.transport))
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            await writer.wait_closed()
        del reader, writer
        server.close()
        await asyncio.sleep(0)
        gc.collect()
        assert [each() for each in seen if each() is not None] == []

    run(main)


def test_on_other_loops_asyncios_streams_are_returned() -> None:
    async def main() -> None:
        server = await penstock.start_server(echo, "127.0.0.1", 0)
        reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
        assert isinstance(reader, asyncio.StreamReader)
        writer.write(b"hi")
        assert await reader.readexactly(2) == b"hi"
        writer.close()
        await writer.wait_closed()
        server.close()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())


def test_arguments_may_be_given_by_name() -> None:
    async def main() -> None:
        reader = penstock.StreamReader(limit=100)
        reader.set_transport(transport=FakeTransport())
        reader.feed_data(data=b"abcd\nef|")
        assert await reader.read(n=2) == b"ab"
        assert await reader.readexactly(n=2) == b"cd"
        assert await reader.readline() == b"\n"
        assert await reader.readuntil(separator=b"|") == b"ef|"
        reader.set_exception(exc=ZeroDivisionError())
        with pytest.raises(ZeroDivisionError):
            await reader.read()

    penstock.run(main())


def test_invalid_arguments_of_a_read_are_refused() -> None:
    async def main() -> None:
        reader = penstock.StreamReader()
        reader.feed_data(b"\0\0data")
        with pytest.raises(TypeError):
            await reader.read(count=2)
        for separator in (2, "da", (b"da", "ta")):
            with pytest.raises(TypeError):
                await reader.readuntil(separator)
        assert await reader.read(n=2) == b"\0\0"
        assert await reader.readuntil(bytearray(b"ta")) == b"data"

    penstock.run(main())


def test_an_idle_connection_of_streams_holds_no_dictionary_of_its_protocol() -> None:
    async def main() -> None:
        async def serve(reader: Any, writer: Any) -> None:
            held = gc.get_referents(writer._protocol)
            kinds = {type(each) for each in held}
            writer._protocol.own = b"an attribute that a program sets"
            writer.write(b"%d" % (dict in kinds) + writer._protocol.own)
            writer.close()

        server = await penstock.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b"0an attribute that a program sets"
            writer.close()

    penstock.run(main())


class BareTransport:
    """A transport of another library: a transport's methods, and none of asyncio's classes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def with_bare_transports(make: Callable[..., Any]) -> Callable[..., Any]:
    """A loop's method whose protocols get a :class:`BareTransport`."""

    def replaced(factory: Callable[[], Any], *args: Any, **kwds: Any) -> Any:
        def protocol() -> Any:
            made = factory()
            begin = made.connection_made
            made.connection_made = lambda transport: begin(BareTransport(transport))
            return made

        return make(protocol, *args, **kwds)

    return replaced


def test_the_transport_may_be_any_object_with_its_methods() -> None:
    async def main() -> bytes:
        loop: Any = asyncio.get_running_loop()
        loop.create_server = with_bare_transports(loop.create_server)
        loop.create_connection = with_bare_transports(loop.create_connection)

        async def echo(reader: Any, writer: Any) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        async with await penstock.start_server(echo, "127.0.0.1", 0) as server:
            reader, writer = await penstock.open_connection(*server.sockets[0].getsockname())
            writer.write(b"a line\n")
            line: bytes = await asyncio.wait_for(reader.read(), 10)
            writer.close()
            await writer.wait_closed()
            return line

    assert penstock.run(main()) == b"a line\n"
