"""Callbacks of protocols over TLS: exceptions in them, ends in them, and their order."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import pytest

from .conftest import Run
from .peers import BufferedRecorder, Recorder, fill, until
from .tls_peers import tls_pair

BIG = bytes(range(256)) * 16384


def test_returning_true_from_eof_received_warns(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_pair(lambda: Recorder(keep_open_on_eof=True), Recorder) as pair:
            pair.server.transport.close()
            await pair.client.closed.wait()

    run(main())
    messages = [record.getMessage() for record in caplog.records if record.name == "asyncio"]
    assert "returning true from eof_received() has no effect when using ssl" in messages


@pytest.mark.parametrize("callback", ["data_received", "eof_received", "connection_made"])
def test_a_callback_that_raises_ends_only_its_connection(
    run: Run, contexts: list[dict[str, Any]], callback: str
) -> None:
    error = RuntimeError(f"{callback} is broken")

    class Broken(Recorder):
        pass

    def broken(self: Broken, *arguments: Any) -> None:
        getattr(Recorder, callback)(self, *arguments)
        raise error

    setattr(Broken, callback, broken)

    async def main() -> None:
        async with tls_pair(Recorder, Broken) as pair:
            pair.transport.write(b"x")
            if callback == "eof_received":
                await pair.server.received(1)
                pair.transport.close()
            await pair.server.closed.wait()
            assert pair.server.lost_with == [error]
            await pair.client.closed.wait()
        assert [context["exception"] for context in contexts] == [error]
        assert "transport" in contexts[0]
        assert "protocol" in contexts[0]

    run(main())


def test_broken_flow_control_callbacks_are_reported(
    run: Run, contexts: list[dict[str, Any]]
) -> None:
    class Broken(Recorder):
        def pause_writing(self) -> None:
            super().pause_writing()
            raise RuntimeError("pause")

        def resume_writing(self) -> None:
            super().resume_writing()
            raise RuntimeError("resume")

    async def main() -> None:
        async with tls_pair(Broken, Recorder) as pair:
            pair.server.transport.pause_reading()
            # Not a fixed size: the kernel buffers what tcp_wmem and tcp_rmem allow, often 36 MiB.
            written = fill(pair.transport, pair.client)
            pair.server.transport.resume_reading()
            await pair.server.received(written)
            await pair.client.resumed.wait()
        assert [context["message"] for context in contexts] == [
            "protocol.pause_writing() failed",
            "protocol.resume_writing() failed",
        ]

    run(main())


@pytest.mark.parametrize("way", ["close", "abort"])
@pytest.mark.parametrize(
    "callback", ["connection_made", "data_received", "eof_received", "connection_lost"]
)
def test_a_connection_may_be_ended_in_every_callback(run: Run, callback: str, way: str) -> None:
    class Ending(Recorder):
        pass

    def ending(self: Ending, *arguments: Any) -> None:
        getattr(Recorder, callback)(self, *arguments)
        getattr(self.transport, way)()

    setattr(Ending, callback, ending)

    async def main() -> None:
        async with tls_pair(Recorder, Ending) as pair:
            pair.transport.write(b"x" * 50_000)
            if callback in ("eof_received", "connection_lost"):
                pair.transport.close()
            await pair.server.closed.wait()
            assert pair.server.calls[-1] == "lost"
            assert pair.server.calls.count("lost") == 1
            await pair.client.closed.wait()

    run(main())


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
def test_data_received_before_close_is_delivered(run: Run, make: Any) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, make) as pair:
            pair.server.transport.pause_reading()
            pair.transport.write(b"hello")
            transport: Any = pair.server.transport
            await until(lambda: transport.get_read_buffer_size() > 0)
            pair.server.transport.resume_reading()
            pair.server.transport.close()
            await pair.server.closed.wait()
            assert pair.server.data == b"hello"

    run(main())


class ClosingAfterThree(BufferedRecorder):
    """Closes in its third buffer_updated; counts what comes later, and how deep calls nest."""

    def __init__(self, last_words: bytes) -> None:
        super().__init__(100)
        self.last_words = last_words
        self.calls_before, self.calls_after, self.depth, self.deepest = 0, 0, 0, 0

    def buffer_updated(self, nbytes: int) -> None:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        super().buffer_updated(nbytes)
        if self.transport.is_closing():
            self.calls_after += 1
        else:
            self.calls_before += 1
            if self.calls_before == 3:
                self.transport.write(self.last_words)
                self.transport.close()
        self.depth -= 1


def test_a_buffered_protocol_gets_at_most_one_buffer_after_its_own_close(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, lambda: ClosingAfterThree(b"")) as pair:
            pair.transport.write(b"x" * 200_000)
            await pair.server.closed.wait()
            assert pair.server.calls_before == 3
            assert pair.server.calls_after <= 1
            assert pair.server.deepest <= 2

    run(main())


def test_a_close_while_written_data_waits_does_not_nest_the_calls_of_a_buffered_protocol(
    run: Run, only_penstock: None
) -> None:
    # asyncio's own loop does not send the data that waits.
    async def main() -> None:
        async with tls_pair(Recorder, lambda: ClosingAfterThree(BIG)) as pair:
            pair.transport.pause_reading()
            pair.transport.write(b"x" * 200_000)
            await until(lambda: pair.server.calls_before == 3)
            pair.transport.resume_reading()
            await pair.client.received(len(BIG))
            await pair.server.closed.wait()
            assert pair.server.deepest <= 2

    run(main())


@pytest.mark.parametrize("ways", [["close"], ["abort"], ["pause_reading", "close"]])
@pytest.mark.parametrize("callback", ["get_buffer", "buffer_updated"])
def test_a_buffered_protocol_may_end_its_connection_in_every_callback(
    run: Run, contexts: list[dict[str, Any]], callback: str, ways: list[str]
) -> None:
    class Ending(BufferedRecorder):
        pass

    def ending(self: Ending, argument: int) -> Any:
        if not self.transport.is_closing():
            for way in ways:
                getattr(self.transport, way)()
        return getattr(BufferedRecorder, callback)(self, argument)

    setattr(Ending, callback, ending)

    async def main() -> None:
        async with tls_pair(Recorder, Ending) as pair:
            pair.transport.write(b"x" * 50_000)
            await pair.server.closed.wait()
            await pair.client.closed.wait()
            # The loops differ in the data that they deliver before the end.
            assert all(isinstance(exc, ssl.SSLError | None) for exc in pair.server.lost_with)
            assert contexts == []

    run(main())


def test_an_exception_that_ends_the_program_propagates_from_the_run(
    loop: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    class Fatal(Recorder):
        def data_received(self, data: bytes) -> None:
            raise SystemExit(3)

    async def main() -> None:
        async with tls_pair(Recorder, Fatal) as pair:
            pair.transport.write(b"x")
            await pair.server.closed.wait()

    with pytest.raises(SystemExit):
        run(main())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    caplog.set_level(logging.CRITICAL, "asyncio")


@pytest.mark.parametrize("how", ["close", "abort"])
def test_callbacks_scheduled_at_the_end_of_the_data_run_before_connection_lost(
    run: Run, how: str
) -> None:
    order: list[str] = []

    class Scheduling(Recorder):
        def eof_received(self) -> bool:
            asyncio.get_running_loop().call_soon(order.append, "scheduled")
            if how == "abort":
                self.transport.abort()
            return super().eof_received()

        def connection_lost(self, exc: BaseException | None) -> None:
            order.append("lost")
            super().connection_lost(exc)

    async def main() -> None:
        async with tls_pair(Recorder, Scheduling) as pair:
            pair.transport.close()
            await pair.server.closed.wait()

    run(main())
    assert order == ["scheduled", "lost"]
