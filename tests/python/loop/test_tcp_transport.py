"""Stream transports: reads, writes, and a transport's information about itself."""

from __future__ import annotations

import array
import asyncio
import contextvars
import gc
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Run, penstock_factory
from .peers import (
    BufferedRecorder,
    Recorder,
    connect,
    fill,
    receive_exactly,
    reset,
    until,
)
from .stream_transport_cases import BIG, Make, both_families, both_protocols, native_only


@both_families
@both_protocols
def test_bytes_arrive_in_both_directions(run: Run, make: Make, family: str) -> None:
    async def main() -> None:
        with await connect(make, family) as c:
            assert c.protocol.calls == ["made"]
            c.peer.sendall(b"ping")
            assert await c.protocol.received(4) == b"ping"
            c.transport.write(b"pong")
            assert c.peer.recv(10) == b"pong"
            c.peer.close()
            await c.protocol.closed.wait()
            assert c.protocol.calls == ["made", "data", "eof", "lost"]
            assert c.protocol.lost_with == [None]

    run(main())


@both_families
@both_protocols
def test_a_large_stream_is_read_exactly(
    run: Run, make: Make, family: str, in_thread: Callable[..., Any]
) -> None:
    async def main() -> None:
        with await connect(make, family) as c:
            in_thread(c.peer.sendall, BIG)
            assert await c.protocol.received(len(BIG)) == BIG

    run(main())


@both_families
def test_a_large_write_reaches_a_slow_reader_exactly(run: Run, family: str) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as c:
            c.transport.write(b"head")
            c.transport.write(BIG)
            c.transport.write(b"tail")
            assert c.transport.get_write_buffer_size() > 0
            received = await asyncio.to_thread(receive_exactly, c.peer, len(BIG) + 8)
            assert received == b"head" + BIG + b"tail"
            await until(lambda: c.transport.get_write_buffer_size() == 0)

    run(main())


def test_many_small_writes_to_a_full_socket_keep_their_order(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            written = fill(c.transport, c.protocol)
            lines = [b"%d\n" % number for number in range(5000)]
            for line in lines:
                c.transport.write(line)
            expected = b"".join(lines)
            received = await asyncio.to_thread(receive_exactly, c.peer, written + len(expected))
            assert received[written:] == expected

    run(main())


class Parts(Recorder):
    """Keeps the size of what each call brings; drops the data, or keeps it."""

    def __init__(self, *, keep: bool) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.kept: list[bytes] | None = [] if keep else None

    def data_received(self, data: bytes) -> None:
        self.sizes.append(len(data))
        if self.kept is not None:
            self.kept.append(data)
        super().data_received(data)


@pytest.mark.parametrize("keep", [False, True], ids=["dropped", "kept"])
@pytest.mark.parametrize(
    "sizes",
    [
        (600, 600, 100_000),
        (1024, 1024, 1025, 3000),
        (3000, 15_000, 60_000, 15_000, 100, 100_000),
        (512, 511, 513, 512, 1023, 1536, 1537),
        (512, 262_144, 262_144, 100),
    ],
)
def test_a_message_that_has_arrived_is_delivered_as_a_whole(
    run: Run, sizes: tuple[int, ...], keep: bool
) -> None:
    sent = [bytes([number % 251]) * size for number, size in enumerate(sizes)]

    async def main() -> None:
        with await connect(lambda: Parts(keep=keep), "unix") as c:
            c.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            c.peer.setblocking(False)
            total = 0
            for data in sent:
                total += c.peer.send(data)
                await c.protocol.received(total)
            assert c.protocol.sizes == list(sizes)
            assert c.protocol.data == b"".join(sent)
            assert c.protocol.kept is None or c.protocol.kept == sent

    run(main())


@pytest.mark.parametrize("end", ["eof", "reset"])
def test_an_end_behind_data_of_the_expected_size_is_not_lost(run: Run, end: str) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            for number in range(1, 20):  # what is expected of a read decreases to this size
                c.peer.send(b"x" * 2048)
                await c.protocol.received(2048 * number)
            c.peer.send(b"x" * 2048)
            if end == "reset":
                reset(c.peer)
            else:
                c.peer.close()
            await c.protocol.closed.wait()
            assert len(c.protocol.data) in {2048 * 20, 2048 * 19 if end == "reset" else 0}
            (error,) = c.protocol.lost_with
            assert (type(error) is ConnectionResetError) == (end == "reset")

    run(main())


@pytest.mark.parametrize(
    "data",
    [
        b"bytes",
        bytearray(b"bytearray"),
        memoryview(b"view"),
        memoryview(b"strided")[1:4],
        memoryview(array.array("I", range(5))),
        memoryview(array.array("d", [1.5, 2.5])),
        memoryview(b"123456").cast("B", (2, 3)),
    ],
    ids=["bytes", "bytearray", "view", "slice", "uint32", "double", "matrix"],
)
def test_every_bytes_like_type_is_written(run: Run, data: Any) -> None:
    expected = bytes(data)

    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.write(data)
            c.transport.write(b".")
            assert receive_exactly(c.peer, len(expected) + 1) == expected + b"."

    run(main())


def test_a_large_view_of_numbers_is_written_by_its_bytes(run: Run, loop_name: str) -> None:
    if loop_name == "asyncio":
        pytest.skip("asyncio slices the rest of a view by its items, not by its bytes")
    numbers = array.array("I", range(1 << 19))

    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.write(memoryview(numbers))
            received = await asyncio.to_thread(receive_exactly, c.peer, len(numbers) * 4)
            assert received == numbers.tobytes()

    run(main())


@pytest.mark.parametrize("empty", [b"", bytearray(), memoryview(b"")])
def test_an_empty_write_sends_nothing(run: Run, empty: Any) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.write(empty)
            assert c.transport.get_write_buffer_size() == 0
            c.transport.write(b"after")
            assert c.peer.recv(10) == b"after"

    run(main())


def test_writelines_of_empty_pieces_sends_nothing(run: Run, loop_name: str) -> None:
    if loop_name == "asyncio" and sys.version_info >= (3, 12):
        pytest.skip("asyncio then waits for a writer that it has not added")

    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.writelines([b"", bytearray(), memoryview(b"")])
            assert c.transport.get_write_buffer_size() == 0
            c.transport.write(b"after")
            assert c.peer.recv(10) == b"after"

    run(main())


@pytest.mark.parametrize("wrong", ["text", None, 5, [b"list"], object()])
def test_data_that_are_not_bytes_like_are_refused(run: Run, wrong: Any, loop_name: str) -> None:
    # Since Python 3.14, asyncio's own writelines() skips all false items.
    refused = wrong is not None or loop_name == "penstock" or sys.version_info < (3, 14)

    async def main() -> None:
        with await connect(Recorder) as c:
            with pytest.raises(TypeError):
                c.transport.write(wrong)
            if refused and not isinstance(wrong, list):
                with pytest.raises(TypeError):
                    c.transport.writelines([b"good", wrong])
            with pytest.raises(TypeError):
                c.transport.write()
            assert not c.transport.is_closing()
            c.transport.write(b"!")
            assert c.peer.recv(100).endswith(b"!")

    run(main())


def test_writelines_sends_every_piece_in_order(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.writelines([b"a", bytearray(b"bc"), memoryview(b"def"), b""])
            c.transport.writelines(iter([b"g", b"h"]))
            c.transport.writelines([])
            assert receive_exactly(c.peer, 8) == b"abcdefgh"

    run(main())


@pytest.mark.parametrize("pieces", [10, 3000])
def test_writelines_larger_than_the_socket_arrives_exactly(run: Run, pieces: int) -> None:
    step = len(BIG) // pieces

    async def main() -> None:
        with await connect(Recorder) as c:
            parts = [BIG[start : start + step] for start in range(0, len(BIG), step)]
            c.transport.writelines(parts)
            c.transport.write(b"tail")
            received = await asyncio.to_thread(receive_exactly, c.peer, len(BIG) + 4)
            assert received == BIG + b"tail"

    run(main())


def test_a_buffer_changed_after_the_write_is_sent_unchanged(run: Run, loop_name: str) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            buffer = bytearray(BIG)
            c.transport.write(buffer)
            assert c.transport.get_write_buffer_size() > 0
            buffer[:] = bytes(len(buffer))
            del buffer[100:]
            received = await asyncio.to_thread(receive_exactly, c.peer, len(BIG))
            assert received == BIG

    if loop_name == "asyncio" and sys.version_info >= (3, 12):
        pytest.skip(native_only)
    run(main())


@given(
    writes=st.lists(
        st.one_of(
            st.integers(0, 300_000),
            st.lists(st.integers(0, 100_000), max_size=5),
            st.just("turn"),
        ),
        max_size=12,
    )
)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_mixture_of_writes_arrives_in_order(loop_name: str, writes: list[Any]) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            expected = bytearray()

            def chunk(size: int) -> bytes:
                data = (b"%d," % len(expected) * (size // 2 + 1))[:size]
                expected.extend(data)
                return data

            total = sum(sum(w) if isinstance(w, list) else w for w in writes if w != "turn")
            reading = asyncio.create_task(asyncio.to_thread(receive_exactly, c.peer, total))
            for write in writes:
                if write == "turn":
                    await asyncio.sleep(0)
                elif isinstance(write, list):
                    c.transport.writelines([chunk(size) for size in write])
                else:
                    c.transport.write(chunk(write))
            c.transport.write_eof()
            assert await reading == expected

    if loop_name == "asyncio" and sys.version_info >= (3, 12):
        pytest.skip("with only empty pieces, asyncio waits for a writer that it has not added")
    loop = asyncio.SelectorEventLoop() if loop_name == "asyncio" else penstock_factory()()
    loop.run_until_complete(asyncio.wait_for(main(), 30))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def test_write_sends_within_the_same_turn(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.peer.setblocking(False)
            c.transport.write(b"at once")
            # No await before this line, so the loop has not run an iteration.
            await asyncio.sleep(0)
            assert c.peer.recv(100) == b"at once"

    run(main())


def test_a_transport_is_an_asyncio_transport(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert isinstance(c.transport, asyncio.Transport)
            assert c.transport.get_protocol() is c.protocol

    run(main())


def test_the_protocol_may_be_replaced(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            for successor in (BufferedRecorder(), Recorder(), BufferedRecorder(1)):
                successor.connection_made(c.transport)
                c.transport.set_protocol(successor)
                assert c.transport.get_protocol() is successor
                c.peer.sendall(b"abc")
                assert await successor.received(3) == b"abc"
            c.peer.close()
            await successor.closed.wait()
            assert c.protocol.calls == ["made"]

    run(main())


def test_the_protocol_may_be_replaced_in_its_own_callback(run: Run) -> None:
    class HandOver(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.successor = BufferedRecorder()
            self.successor.connection_made(self.transport)
            self.transport.set_protocol(self.successor)

    async def main() -> None:
        with await connect(HandOver) as c:
            c.peer.sendall(b"1")
            await c.protocol.received(1)
            c.peer.sendall(b"2")
            assert await c.protocol.successor.received(1) == b"2"

    run(main())


def test_extra_info_has_the_socket_and_addresses(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert c.transport.get_extra_info("sockname") == c.peer.getpeername()
            assert c.transport.get_extra_info("peername") == c.peer.getsockname()
            assert c.transport.get_extra_info("unknown") is None
            assert c.transport.get_extra_info("unknown", "default") == "default"
            assert c.transport.get_extra_info("sslcontext") is None
            sock = c.transport.get_extra_info("socket")
            assert type(sock).__name__ == "TransportSocket"
            assert sock is c.transport.get_extra_info("socket")
            assert sock.family == socket.AF_INET
            assert sock.type == socket.SOCK_STREAM
            assert sock.getsockname() == c.peer.getpeername()
            assert sock.fileno() >= 0
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            with pytest.raises(ValueError, match=r"blocking"):
                sock.setblocking(True)

    run(main())


def test_extra_info_of_a_connection_of_which_nothing_was_asked(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            with pytest.raises(TypeError, match="unhashable"):
                c.transport.get_extra_info([])
            assert c.transport.get_extra_info(("no", "text"), 3) == 3
            c.transport.close()
            await c.protocol.closed.wait()
            assert c.transport.get_extra_info("sockname") == c.peer.getpeername()
            sock = c.transport.get_extra_info("socket")
            assert sock.fileno() == -1
            assert sock is c.transport.get_extra_info("socket")

    run(main())


def test_an_idle_connection_has_no_dictionary_for_its_socket(run: Run, loop_name: str) -> None:
    if loop_name == "asyncio":
        pytest.skip("what asyncio's own transport holds is not Penstock's")

    async def main() -> None:
        with await connect(Recorder) as c:
            assert c.transport.get_extra_info("socket") is not None
            held = [type(each) for each in gc.get_referents(c.transport)]
            assert dict not in held

    run(main())


def test_the_addresses_are_available_in_connection_lost(run: Run) -> None:
    class Asks(Recorder):
        address: Any = None

        def connection_lost(self, exc: BaseException | None) -> None:
            self.address = self.transport.get_extra_info("peername")
            super().connection_lost(exc)

    async def main() -> None:
        with await connect(Asks) as c:
            address = c.peer.getsockname()
            c.peer.close()
            await c.protocol.closed.wait()
            assert c.protocol.address == address
            assert c.transport.get_extra_info("peername") == address

    run(main())


def test_the_repr_of_a_transport_shows_its_state(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert "fd=" in repr(c.transport)
            c.transport.close()
            assert "clos" in repr(c.transport)
            await c.protocol.closed.wait()
            assert "closed" in repr(c.transport)

    run(main())


@both_protocols
def test_protocol_callbacks_run_in_the_context_of_the_connections_creator(
    run: Run, make: Make
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    base: Any = make

    class Asks(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seen: dict[str, str] = {}

        def connection_made(self, transport: Any) -> None:
            self.seen["made"] = variable.get()
            super().connection_made(transport)

        def data_received(self, data: bytes) -> None:
            self.seen["data"] = variable.get()
            super().data_received(data)

        def buffer_updated(self, nbytes: int) -> None:
            self.seen["data"] = variable.get()
            super().buffer_updated(nbytes)

        def eof_received(self) -> bool:
            self.seen["eof"] = variable.get()
            return bool(super().eof_received())

        def connection_lost(self, exc: BaseException | None) -> None:
            self.seen["lost"] = variable.get()
            super().connection_lost(exc)

    async def main() -> None:
        variable.set("maker")
        with await connect(Asks) as c:
            variable.set("later")
            c.peer.sendall(b"x")
            c.peer.close()
            await c.protocol.closed.wait()
            assert c.protocol.seen == dict.fromkeys(["made", "data", "eof", "lost"], "maker")

    run(main())
