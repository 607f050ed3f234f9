"""Stream transports: half close, close and abort."""

from __future__ import annotations

import asyncio
import socket
import sys
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
    reset,
    until,
)
from .stream_transport_cases import BIG, Make, both_families, both_protocols

TCP_CLOSE = 7  # a connection's state in struct tcp_info


@both_families
@both_protocols
def test_write_eof_ends_only_the_sending_direction(run: Run, make: Make, family: str) -> None:
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


def test_an_empty_write_after_write_eof_is_also_refused(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.write_eof()
            with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
                c.transport.write(b"")

    run(main())


@both_protocols
def test_eof_received_returning_true_keeps_the_sending_direction_open(run: Run, make: Make) -> None:
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
def test_close_sends_buffered_data_first(run: Run, family: str) -> None:
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
def test_abort_drops_buffered_data(run: Run, family: str) -> None:
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


def test_no_data_are_received_after_close(run: Run) -> None:
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
            await c.protocol.closed.wait()
            c.transport.write(b"x")
            c.transport.write_eof()
            assert receive_all(c.peer) == b""

    run(main())
    assert "socket.send() raised exception." in caplog.text


def test_writelines_after_close_is_ignored(run: Run, loop_name: str) -> None:
    if loop_name == "asyncio" and sys.version_info >= (3, 12):
        pytest.skip("asyncio writes to the closed socket")

    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.close()
            c.transport.writelines([b"x", b"y"])
            await c.protocol.closed.wait()
            c.transport.writelines([b"x", b"y"])
            assert receive_all(c.peer) == b""

    run(main())


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


def test_write_eof_raises_after_the_peers_reset(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder, "tcp") as c:
            c.transport.pause_reading()
            reset(c.peer)
            await until(lambda: gone(c.transport.get_extra_info("socket")))
            with pytest.raises(OSError, match="not connected"):
                c.transport.write_eof()

    def gone(sock: Any) -> bool:
        return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_CLOSE)

    run(main())
