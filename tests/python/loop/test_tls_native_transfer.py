"""Bytes over TLS: exact, in order, within bounds."""

from __future__ import annotations

import asyncio
import contextvars
import random
import shutil
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run
from .peers import BufferedRecorder, Recorder
from .tls_peers import BlockingServer, tls_client, tls_pair, tls_server

MEGABYTE = random.Random(7).randbytes(1 << 20)


class ViewRecorder(BufferedRecorder):
    """Returns views, so that asyncio's TLS reads more than one record at once.

    It slices the buffer, and the slice of a bytearray is a copy.
    """

    def get_buffer(self, sizehint: int) -> Any:
        return memoryview(self.buffer)


PROTOCOLS = [Recorder, ViewRecorder, lambda: ViewRecorder(1 << 18)]


@pytest.mark.parametrize("make", PROTOCOLS, ids=["data", "small-buffer", "large-buffer"])
def test_a_megabyte_is_exchanged_in_both_directions_concurrently(
    run: Run, make: Callable[[], Any]
) -> None:
    async def main() -> None:
        async with tls_pair(make, make) as pair:
            pair.transport.write(MEGABYTE)
            pair.server.transport.write(MEGABYTE[::-1])
            assert await pair.server.received(len(MEGABYTE)) == MEGABYTE
            assert await pair.client.received(len(MEGABYTE)) == MEGABYTE[::-1]

    run(main())


def test_every_size_near_a_records_size_arrives_whole(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            sent = bytearray()
            for size in (1, 2, 100, 16383, 16384, 16385, 32767, 32768, 32769, 131071, 131073):
                chunk = MEGABYTE[size : 2 * size]
                pair.transport.write(chunk)
                sent += chunk
                assert await pair.server.received(len(sent)) == sent

    run(main())


@pytest.mark.parametrize("size", [20_000, 200_000, 3_000_000])
def test_a_write_from_the_flow_control_of_another_connection_is_not_mixed_with_it(
    run: Run, size: int
) -> None:
    class Chained(Recorder):
        other: Any = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self.other is not None:
                self.other.write(MEGABYTE[: size // 3])

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.other is not None:
                self.other.write(MEGABYTE[size // 3 : size])

    async def main() -> None:
        async with tls_pair(Chained, Recorder) as one, tls_pair(Chained, Recorder) as two:
            one.transport.set_write_buffer_limits(high=1)
            one.client.other = two.transport
            sent = MEGABYTE * (1 + size // len(MEGABYTE))
            one.transport.write(sent[:size])
            two.transport.write(b"behind")
            assert await one.server.received(size) == sent[:size]
            got = await two.server.received(len(b"behind"))
            assert got[:6] in (b"behind", MEGABYTE[:6])
            if one.client.calls.count("pause"):
                whole = len(MEGABYTE[:size]) + 6
                got = await two.server.received(whole)
                assert sorted(got) == sorted(MEGABYTE[:size] + b"behind")

    run(main())


def test_many_small_records_arrive_in_order(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pieces = [b"%d;" % i for i in range(5000)]
            for piece in pieces:
                pair.transport.write(piece)
            whole = b"".join(pieces)
            assert await pair.server.received(len(whole)) == whole

    run(main())


def test_records_divided_anywhere_are_reassembled(run: Run, in_thread: Callable[..., Any]) -> None:
    """The peer's records reach the loop in pieces of odd sizes."""

    def relay(server: BlockingServer, target: int) -> None:
        with (
            server.accept() as connection,
            socket.create_connection(("127.0.0.1", target), timeout=30) as onward,
        ):
            onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            back = in_thread(copy, onward, connection, 5003)
            copy(connection, onward, 3001)
            back.join()

    def copy(source: Any, sink: Any, size: int) -> None:
        while data := source.recv(size):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    class Echo(Recorder):
        def data_received(self, data: bytes) -> None:
            self.transport.write(data)

    async def main() -> None:
        with BlockingServer() as between:
            async with tls_server(Echo) as port:
                in_thread(relay, between, port)
                transport, protocol = await tls_client(Recorder, between.port)
                transport.write(MEGABYTE[:300_000])
                assert await protocol.received(300_000) == MEGABYTE[:300_000]
                transport.close()
                await protocol.closed.wait()

    run(main())


@pytest.mark.parametrize(
    "data",
    [b"bytes", bytearray(b"bytearray"), memoryview(b"view"), memoryview(b"a-b-c-d")[::2]],
    ids=["bytes", "bytearray", "memoryview", "strided"],
)
def test_every_bytes_like_type_is_sent(run: Run, loop_name: str, data: Any) -> None:
    if loop_name == "asyncio" and isinstance(data, memoryview) and not data.contiguous:
        pytest.skip("asyncio drops the connection after a write of a non-contiguous view")

    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.write(data)
            assert await pair.server.received(len(bytes(data))) == bytes(data)

    run(main())


@pytest.mark.parametrize("wrong", ["text", None, 5])
def test_data_that_are_not_bytes_like_are_refused(run: Run, wrong: Any) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            with pytest.raises(TypeError, match="data: expecting a bytes-like instance, got "):
                pair.transport.write(wrong)
            pair.transport.write(b"")
            pair.transport.write(b"good")
            assert await pair.server.received(4) == b"good"

    run(main())


def test_writelines_sends_all_chunks(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
            pair.transport.writelines(iter([MEGABYTE[:40000], b"", b"z"]))
            pair.transport.writelines([])
            pair.transport.writelines((b"of", b"a", b"tuple"))
            pair.transport.writelines((b"!",))
            pair.transport.writelines(())
            expected = b"abc" + MEGABYTE[:40000] + b"zofatuple!"
            assert await pair.server.received(len(expected)) == expected

    run(main())


def _fill(transport: Any, protocol: Recorder) -> int:
    written = 0
    while not protocol.paused.is_set():
        transport.write(MEGABYTE[:100_000])
        written += 100_000
    return written


def test_a_slow_reader_pauses_and_resumes_the_writer(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.server.transport.pause_reading()
            written = _fill(pair.transport, pair.client)
            waiting = pair.transport.get_write_buffer_size()
            assert waiting >= pair.transport.get_write_buffer_limits()[1]
            assert "resume" not in pair.client.calls
            pair.server.transport.resume_reading()
            await pair.client.resumed.wait()
            assert len(await pair.server.received(written)) == written
            assert pair.transport.get_write_buffer_size() == 0
            assert pair.server.data == MEGABYTE[:100_000] * (written // 100_000)

    run(main())


def test_a_buffer_changed_after_the_write_is_sent_unchanged(run: Run, loop_name: str) -> None:
    if loop_name == "asyncio":
        pytest.skip("asyncio keeps a reference to data that wait for the handshake's end")

    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.server.transport.pause_reading()
            written = _fill(pair.transport, pair.client)
            data = bytearray(b"before")
            pair.transport.write(data)
            data[:] = b"after!"
            pair.server.transport.resume_reading()
            assert (await pair.server.received(written + 6))[-6:] == b"before"

    run(main())


def test_a_paused_protocol_receives_no_data_until_it_resumes(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            assert pair.transport.is_reading()
            pair.transport.pause_reading()
            pair.transport.pause_reading()
            assert not pair.transport.is_reading()
            pair.server.transport.write(b"early")
            pair.transport.write(b"go on")
            await pair.server.received(5)
            pair.server.transport.write(b"late")
            await asyncio.sleep(0.02)  # no callback may come
            assert pair.client.calls == ["made"]
            pair.transport.resume_reading()
            assert pair.transport.is_reading()
            assert await pair.client.received(9) == b"earlylate"

    run(main())


def test_data_for_a_paused_protocol_are_bounded(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.set_read_buffer_limits(high=32768)
            assert pair.transport.get_read_buffer_limits() == (8192, 32768)
            pair.transport.pause_reading()
            written = _fill(pair.server.transport, pair.server)
            # One read from the socket may exceed the mark.
            assert pair.transport.get_read_buffer_size() <= 32768 + 256 * 1024
            pair.transport.resume_reading()
            assert len(await pair.client.received(written)) == written
            assert pair.transport.get_read_buffer_size() == 0

    run(main())


def test_a_protocol_may_pause_in_the_middle_of_received_data(run: Run) -> None:
    class Careful(ViewRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    async def main() -> None:
        async with tls_pair(lambda: Careful(1000), Recorder) as pair:
            pair.server.transport.write(MEGABYTE[:100_000])
            assert await pair.client.received(100_000) == MEGABYTE[:100_000]

    run(main())


def test_a_protocol_can_be_replaced(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            assert pair.transport.get_protocol() is pair.client
            for second in (ViewRecorder(), Recorder()):
                second.connection_made(pair.transport)
                pair.transport.set_protocol(second)
                assert pair.transport.get_protocol() is second
                pair.server.transport.write(b"for the second")
                assert await second.received(14) == b"for the second"
            assert pair.client.data == b""
            pair.transport.set_protocol(pair.client)

    run(main())


def test_water_marks_are_computed_as_by_asyncio(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            transport = pair.transport
            assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
            assert transport.get_read_buffer_limits() == (64 * 1024, 256 * 1024)
            transport.set_write_buffer_limits(high=1000)
            assert transport.get_write_buffer_limits() == (250, 1000)
            transport.set_write_buffer_limits(low=1000)
            assert transport.get_write_buffer_limits() == (1000, 4000)
            with pytest.raises(ValueError, match="must be >= low"):
                transport.set_write_buffer_limits(high=1, low=2)
            transport.set_write_buffer_limits()
            assert transport.get_write_buffer_limits() == (128 * 1024, 512 * 1024)
            assert transport.get_write_buffer_size() == 0

    run(main())


def test_a_key_update_during_a_transfer_loses_no_data(
    run: Run, loop_name: str, in_thread: Callable[..., Any]
) -> None:
    """OpenSSL's own client updates its keys, and the exchange with the loop continues."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl command is not installed")

    class Echo(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(data)

    made: list[Echo] = []

    def factory() -> Echo:
        made.append(Echo())
        return made[-1]

    def talk(port: int) -> None:
        with subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-no_ign_eof", "-connect", f"127.0.0.1:{port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            assert client.stderr is not None
            for line in (b"one\n", b"two\n"):
                client.stdin.write(line)
                client.stdin.flush()
                assert client.stdout.readline() == line
                client.stdin.write(b"K\n")  # update the keys, and request an update by the server
                client.stdin.flush()
                while client.stderr.readline() != b"KEYUPDATE\n":
                    assert client.poll() is None
            client.stdin.write(b"three\n")
            client.stdin.flush()
            assert client.stdout.readline() == b"three\n"
            client.kill()

    async def main() -> None:
        async with tls_server(factory) as port:
            thread = in_thread(talk, port)
            await asyncio.to_thread(thread.join)
            await made[0].closed.wait()

    run(main())


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("tls", [False, True])
def test_flow_control_runs_in_the_context_of_the_connections_creator(run: Run, tls: bool) -> None:
    """asyncio calls pause_writing() in the writer's context."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[tuple[str, str]] = []

    class Asks(Recorder):
        def pause_writing(self) -> None:
            seen.append(("pause", variable.get()))
            super().pause_writing()

        def resume_writing(self) -> None:
            seen.append(("resume", variable.get()))
            super().resume_writing()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        variable.set("maker")
        if tls:
            async with tls_pair(Asks, Recorder) as pair:
                variable.set("writer")
                pair.server.transport.pause_reading()
                _fill(pair.transport, pair.client)
                pair.server.transport.resume_reading()
                await pair.client.resumed.wait()
        else:
            ours, theirs = socket.socketpair()
            transport, protocol = await loop.create_connection(Asks, sock=ours)
            variable.set("writer")
            transport.write(bytes(8_000_000))
            theirs.setblocking(False)
            while not protocol.resumed.is_set():
                await loop.sock_recv(theirs, 1_000_000)
            transport.abort()
            theirs.close()
            await protocol.closed.wait()
        assert seen == [("pause", "maker"), ("resume", "maker")]

    run(main())
