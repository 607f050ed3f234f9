"""Stream transports: reading, writing, flow control, half close, close."""

from __future__ import annotations

import array
import asyncio
import contextvars
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run
from .peers import (
    BufferedRecorder,
    Recorder,
    Recording,
    connect,
    fill,
    receive_all,
    receive_exactly,
    until,
)

Make = Callable[..., Recording]
BIG = bytes(range(256)) * 16384  # 4 MiB, more than any socket buffer holds.

both_protocols = pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
both_families = pytest.mark.parametrize("family", ["tcp", "unix"])
native_only = "asyncio keeps a view of the caller's buffer since Python 3.12"


@both_families
@both_protocols
def test_bytes_arrive_both_ways(run: Run, make: Make, family: str) -> None:
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


def test_many_small_writes_behind_a_full_socket_keep_their_order(run: Run) -> None:
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
    numbers = array.array("I", range(1 << 20))

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
            c.transport.writelines([empty, empty])
            assert c.transport.get_write_buffer_size() == 0
            c.transport.write(b"after")
            assert c.peer.recv(10) == b"after"

    run(main())


@pytest.mark.parametrize("wrong", ["text", None, 5, [b"list"], object()])
def test_what_is_not_bytes_like_is_refused(run: Run, wrong: Any) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            with pytest.raises(TypeError):
                c.transport.write(wrong)
            if not isinstance(wrong, list):
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


def test_a_buffer_changed_after_the_write_is_sent_as_it_was(run: Run, loop_name: str) -> None:
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


def test_write_sends_without_waiting_for_another_turn(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.peer.setblocking(False)
            c.transport.write(b"at once")
            # No await between: the loop has had no turn yet.
            await asyncio.sleep(0)
            assert c.peer.recv(100) == b"at once"

    run(main())


# Flow control


def test_the_default_limits_are_asyncios(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert c.transport.get_write_buffer_limits() == (16384, 65536)

    run(main())


@pytest.mark.parametrize(
    ("arguments", "limits"),
    [
        ({"high": 100}, (25, 100)),
        ({"low": 100}, (100, 400)),
        ({"high": 100, "low": 70}, (70, 100)),
        ({"high": 0}, (0, 0)),
        ({}, (16384, 65536)),
    ],
)
def test_limits_are_set(run: Run, arguments: dict[str, int], limits: tuple[int, int]) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.set_write_buffer_limits(**arguments)
            assert c.transport.get_write_buffer_limits() == limits

    run(main())


def test_impossible_limits_are_refused(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            for high, low in ((10, 20), (10, -1), (-5, None)):
                with pytest.raises(ValueError, match=r"must be >= "):
                    c.transport.set_write_buffer_limits(high=high, low=low)
            assert c.transport.get_write_buffer_limits() == (16384, 65536)

    run(main())


@both_families
def test_the_protocol_is_paused_above_the_high_mark_and_resumed_below_the_low_one(
    run: Run, family: str
) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as c:
            written = fill(c.transport, c.protocol)
            assert c.transport.get_write_buffer_size() > 65536
            assert c.protocol.calls == ["made", "pause"]
            c.transport.write(b"x")
            assert c.protocol.calls == ["made", "pause"]
            assert not c.protocol.resumed.is_set()
            reader = asyncio.create_task(asyncio.to_thread(receive_exactly, c.peer, written + 1))
            await c.protocol.resumed.wait()
            assert c.transport.get_write_buffer_size() <= 16384
            assert len(await reader) == written + 1
            assert c.protocol.calls == ["made", "pause", "resume"]

    run(main())


def test_a_high_mark_of_zero_pauses_whenever_anything_is_buffered(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.set_write_buffer_limits(high=0)
            c.transport.write(b"x")
            assert c.protocol.calls == ["made"]
            written = 1 + fill(c.transport, c.protocol)
            await asyncio.to_thread(receive_exactly, c.peer, written)
            await c.protocol.resumed.wait()
            assert c.transport.get_write_buffer_size() == 0

    run(main())


def test_writing_from_resume_writing_is_allowed(run: Run) -> None:
    class Refill(Recorder):
        refills = 0
        written = 0

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.refills < 5:
                self.refills += 1
                self.paused.clear()
                self.written += fill(self.transport, self)
            else:
                self.transport.write_eof()

    async def main() -> None:
        with await connect(Refill) as c:
            written = fill(c.transport, c.protocol)
            data = await asyncio.to_thread(receive_all, c.peer)
            assert len(data) == written + c.protocol.written
            assert c.protocol.calls == ["made"] + ["pause", "resume"] * 6

    run(main())


@both_protocols
def test_a_paused_transport_reads_nothing(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(make) as c:
            assert c.transport.is_reading()
            c.transport.pause_reading()
            c.transport.pause_reading()
            assert not c.transport.is_reading()
            c.peer.sendall(b"held back")
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.data == b""
            c.transport.resume_reading()
            c.transport.resume_reading()
            assert c.transport.is_reading()
            assert await c.protocol.received(9) == b"held back"

    run(main())


@both_protocols
def test_a_paused_transport_does_not_see_the_end(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(make) as c:
            c.transport.pause_reading()
            c.peer.sendall(b"last words")
            c.peer.close()
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.calls == ["made"]
            c.transport.resume_reading()
            await c.protocol.closed.wait()
            assert c.protocol.data == b"last words"
            assert c.protocol.calls == ["made", "data", "eof", "lost"]

    run(main())


def test_reading_may_be_paused_in_connection_made(run: Run) -> None:
    class Paused(Recorder):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            transport.pause_reading()

    async def main() -> None:
        with await connect(Paused) as c:
            c.peer.sendall(b"x")
            for _ in range(5):
                await asyncio.sleep(0.001)
            assert c.protocol.data == b""
            c.transport.resume_reading()
            await c.protocol.received(1)

    run(main())


def test_reading_may_be_paused_in_data_received(run: Run, in_thread: Callable[..., Any]) -> None:
    class OneAtATime(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self.transport.resume_reading)

    async def main() -> None:
        with await connect(OneAtATime) as c:
            in_thread(c.peer.sendall, BIG)
            assert await c.protocol.received(len(BIG)) == BIG

    run(main())


# Half close


@both_families
@both_protocols
def test_write_eof_ends_our_side_only(run: Run, make: Make, family: str) -> None:
    async def main() -> None:
        with await connect(make, family) as c:
            assert c.transport.can_write_eof() is True
            c.transport.write(BIG)
            c.transport.write_eof()
            c.transport.write_eof()
            for call in (c.transport.write, lambda data: c.transport.writelines([data])):
                with pytest.raises(RuntimeError):
                    call(b"too late")
            assert await asyncio.to_thread(receive_all, c.peer) == BIG
            assert not c.transport.is_closing()
            c.peer.sendall(b"still heard")
            assert await c.protocol.received(11) == b"still heard"

    run(main())


def test_an_empty_write_after_write_eof_is_refused_too(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.write_eof()
            with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
                c.transport.write(b"")

    run(main())


@both_protocols
def test_eof_received_returning_true_keeps_our_side_open(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(lambda: make(keep_open_on_eof=True)) as c:
            c.peer.sendall(b"request")
            c.peer.shutdown(socket.SHUT_WR)
            await c.protocol.ended.wait()
            for _ in range(3):
                await asyncio.sleep(0.001)
            assert c.protocol.calls == ["made", "data", "eof"]
            assert not c.transport.is_closing()
            c.transport.write(BIG)
            c.transport.close()
            assert await asyncio.to_thread(receive_all, c.peer) == BIG
            await c.protocol.closed.wait()
            assert c.protocol.calls[-1] == "lost"
            assert c.protocol.calls.count("eof") == 1
            assert c.protocol.lost_with == [None]

    run(main())


@both_protocols
def test_eof_received_returning_false_closes(run: Run, make: Make) -> None:
    async def main() -> None:
        with await connect(make) as c:
            c.transport.write(b"answer")
            c.peer.shutdown(socket.SHUT_WR)
            await c.protocol.closed.wait()
            assert receive_all(c.peer) == b"answer"
            assert c.protocol.calls == ["made", "eof", "lost"]

    run(main())


# Close


@both_families
@both_protocols
def test_close_calls_connection_lost_once_and_later(run: Run, make: Make, family: str) -> None:
    async def main() -> None:
        with await connect(make, family) as c:
            assert not c.transport.is_closing()
            c.transport.close()
            assert c.transport.is_closing()
            assert not c.transport.is_reading()
            assert c.protocol.calls == ["made"]
            c.transport.close()
            c.transport.abort()
            await c.protocol.closed.wait()
            c.transport.close()
            c.transport.abort()
            for _ in range(3):
                await asyncio.sleep(0)
            assert c.protocol.calls == ["made", "lost"]
            assert c.protocol.lost_with == [None]
            assert receive_all(c.peer) == b""

    run(main())


@both_families
def test_close_sends_what_is_buffered_first(run: Run, family: str) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as c:
            c.transport.write(BIG)
            c.transport.close()
            assert c.transport.get_write_buffer_size() > 0
            for _ in range(3):
                await asyncio.sleep(0.001)
            assert c.protocol.lost_with == []
            assert await asyncio.to_thread(receive_all, c.peer) == BIG
            await c.protocol.closed.wait()
            assert c.protocol.lost_with == [None]

    run(main())


@both_families
def test_abort_drops_what_is_buffered(run: Run, family: str) -> None:
    async def main() -> None:
        with await connect(Recorder, family) as c:
            written = fill(c.transport, c.protocol)
            c.transport.abort()
            assert c.transport.is_closing()
            assert c.transport.get_write_buffer_size() == 0
            await c.protocol.closed.wait()
            assert c.protocol.lost_with == [None]
            assert len(await asyncio.to_thread(receive_all, c.peer)) < written

    run(main())


def test_nothing_is_received_after_close(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.peer.sendall(b"too late")
            c.transport.close()
            await c.protocol.closed.wait()
            assert c.protocol.data == b""

    run(main())


def test_writes_after_close_are_ignored(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.close()
            for _ in range(10):
                c.transport.write(b"x")
            c.transport.writelines([b"x"])
            await c.protocol.closed.wait()
            c.transport.write(b"x")
            c.transport.write_eof()
            assert receive_all(c.peer) == b""

    run(main())
    assert "socket.send() raised exception." in caplog.text


@both_protocols
def test_the_transport_may_be_closed_in_any_callback(run: Run, make: Make) -> None:
    base: Any = make

    def closing_in(name: str) -> type[Recording]:
        def callback(self: Recording, *arguments: Any) -> Any:
            result = getattr(base, name)(self, *arguments)
            self.transport.close()
            return result

        return type("Closing", (base,), {name: callback})

    async def main() -> None:
        received = "buffer_updated" if make is BufferedRecorder else "data_received"
        for name in ("connection_made", received, "eof_received", "connection_lost"):
            with await connect(closing_in(name)) as c:
                c.transport.write(b"x")
                if name != "connection_made":
                    c.peer.sendall(b"x")
                    c.peer.shutdown(socket.SHUT_WR)
                await c.protocol.closed.wait()
                assert c.protocol.calls.count("lost") == 1

    run(main())


# Identity


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


def test_extra_info_names_socket_and_addresses(run: Run) -> None:
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


def test_the_addresses_are_still_known_in_connection_lost(run: Run) -> None:
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


def test_the_repr_of_a_transport_tells_its_state(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            assert "fd=" in repr(c.transport)
            c.transport.close()
            assert "clos" in repr(c.transport)
            await c.protocol.closed.wait()
            assert "closed" in repr(c.transport)

    run(main())


@both_protocols
def test_protocol_callbacks_run_in_the_context_of_the_connections_maker(
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
