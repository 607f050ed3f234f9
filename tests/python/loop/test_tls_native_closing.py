"""How TLS connections end: by close_notify, by truncation, by a failure, by garbage collection."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .certificates import server_context
from .conftest import Run
from .peers import BufferedRecorder, Recorder, fill, reset, until
from .tls_peers import BlockingServer, receive_until_end, tls_client, tls_pair

BIG = bytes(range(256)) * 16384


def test_close_sends_close_notify_and_waits_for_the_peers(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.write(b"last words")
            pair.transport.close()
            pair.transport.close()
            assert pair.transport.is_closing()
            await pair.server.closed.wait()
            assert pair.server.calls == ["made", "data", "eof", "lost"]
            assert pair.server.data == b"last words"
            assert pair.server.lost_with == [None]
            await pair.client.closed.wait()
            assert pair.client.lost_with == [None]
            assert pair.client.calls[-1] == "lost"
            assert pair.client.calls.count("lost") == 1

    run(main())


def test_close_sends_all_data_first(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.server.transport.pause_reading()
            pair.transport.write(BIG)
            pair.transport.close()
            pair.server.transport.resume_reading()
            await pair.server.closed.wait()
            assert pair.server.data == BIG
            assert pair.server.lost_with == [None]
            await pair.client.closed.wait()
            assert pair.client.lost_with == [None]

    run(main())


def test_close_notify_reaches_a_blocking_peer(run: Run, in_thread: Callable[..., Any]) -> None:
    received: list[bytes] = []

    def serve(server: BlockingServer) -> None:
        with server.accept_tls() as connection:
            received.append(receive_until_end(connection))
            connection.unwrap().close()

    async def main() -> None:
        with BlockingServer() as server:
            thread = in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port)
            transport.write(BIG)
            transport.close()
            await protocol.closed.wait()
            await asyncio.to_thread(thread.join)
        assert received == [BIG]
        assert protocol.lost_with == [None]

    run(main())


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
def test_the_peers_close_notify_ends_the_data(
    run: Run, make: type[Any], in_thread: Callable[..., Any]
) -> None:
    def serve(server: BlockingServer) -> None:
        connection = server.accept_tls()
        connection.sendall(b"all there is")
        connection.unwrap().close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            transport, protocol = await tls_client(make, server.port)
            await protocol.closed.wait()
            assert protocol.calls == ["made", "data", "eof", "lost"]
            assert protocol.data == b"all there is"
            assert protocol.lost_with == [None]
            assert transport.is_closing()

    run(main())


def test_an_end_without_close_notify_also_ends_the_data(
    run: Run, in_thread: Callable[..., Any]
) -> None:
    def serve(server: BlockingServer) -> None:
        connection = server.accept_tls()
        connection.sendall(b"cut o")
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            _, protocol = await tls_client(Recorder, server.port)
            await protocol.closed.wait()
            assert protocol.data == b"cut o"
            assert protocol.calls == ["made", "data", "eof", "lost"]
            assert protocol.lost_with == [None]

    run(main())


def test_a_peer_that_ends_only_its_side_receives_all_written_data(
    run: Run, loop_name: str, in_thread: Callable[..., Any]
) -> None:
    if loop_name == "asyncio":
        pytest.skip("asyncio drops encrypted data that it has not sent")
    received: list[int] = []

    def serve(server: BlockingServer) -> None:
        connection = server.accept_tls()
        assert connection.recv(4) == b"ping"
        connection.sendall(b"pong")
        socket.socket.shutdown(connection, socket.SHUT_WR)
        count = 0
        while data := connection.recv(65536):
            count += len(data)
            if count == len(BIG):
                break
        received.append(count)
        connection.close()

    async def main() -> None:
        with BlockingServer() as server:
            thread = in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port)
            transport.write(b"ping")
            await protocol.received(4)
            transport.write(BIG)
            await protocol.closed.wait()
            await asyncio.to_thread(thread.join)
        assert received == [len(BIG)]
        assert protocol.calls.count("eof") == 1

    run(main())


def test_a_reset_is_reported_as_the_reason(run: Run, in_thread: Callable[..., Any]) -> None:
    def serve(server: BlockingServer) -> None:
        connection = server.accept_tls()
        assert connection.recv(1) == b"x"
        reset(connection)

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port)
            transport.write(b"x")
            await protocol.closed.wait()
            assert isinstance(protocol.lost_with[0], ConnectionResetError)

    run(main())


def test_a_damaged_record_ends_the_connection_with_its_reason(
    run: Run, in_thread: Callable[..., Any]
) -> None:
    def serve(server: BlockingServer) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = server_context().wrap_bio(incoming, outgoing, server_side=True)
        connection = server.accept()
        while True:
            try:
                engine.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        engine.write(b"good")
        connection.sendall(outgoing.read())
        engine.write(b"spoilt")
        record = bytearray(outgoing.read())
        record[-1] ^= 1
        connection.sendall(record)
        while connection.recv(65536):
            pass
        connection.close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port)
            await protocol.closed.wait()
            (reason,) = protocol.lost_with
            assert isinstance(reason, ssl.SSLError)
            assert reason.reason == (
                "DECRYPTION_FAILED_OR_BAD_RECORD_MAC"
                if ssl.OPENSSL_VERSION_INFO < (3, 2)
                else "RECORD_LAYER_FAILURE"
            )
            assert protocol.data in (b"", b"good")
            assert transport.is_closing()

    run(main())


def test_abort_drops_queued_data(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.server.transport.pause_reading()
            pair.transport.write(BIG)
            pair.transport.abort()
            assert pair.transport.is_closing()
            assert pair.client.calls[-1] != "lost"
            await pair.client.closed.wait()
            assert pair.client.lost_with == [None]
            pair.server.transport.resume_reading()
            await pair.server.closed.wait()
            assert len(pair.server.data) < len(BIG)

    run(main())


def test_a_peer_that_does_not_answer_close_notify_times_out(
    run: Run, in_thread: Callable[..., Any]
) -> None:
    held: list[ssl.SSLSocket] = []

    async def main() -> None:
        with BlockingServer() as server:
            thread = in_thread(lambda: held.append(server.accept_tls()))
            transport, protocol = await tls_client(Recorder, server.port, ssl_shutdown_timeout=0.02)
            transport.close()
            await protocol.closed.wait()
            (reason,) = protocol.lost_with
            assert isinstance(reason, TimeoutError)
            assert str(reason) == "SSL shutdown timed out"
            await asyncio.to_thread(thread.join)
            held[0].close()

    run(main())


def test_a_peer_that_sends_close_notify_and_stops_reading_times_out(
    run: Run, in_thread: Callable[..., Any], only_penstock: None
) -> None:
    # asyncio's own loop has this timeout since 3.14.
    ended = threading.Event()

    def serve(server: BlockingServer) -> None:
        with server.accept_tls() as connection:
            assert connection.recv(4) == b"ping"
            # Sends close_notify, without waiting for the answer or reading the data before it.
            connection.setblocking(False)
            with pytest.raises(ssl.SSLError):
                connection.unwrap()
            ended.wait(30)

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port, ssl_shutdown_timeout=0.05)
            transport.write(b"ping")
            transport.write(BIG)
            transport.write(BIG)
            await protocol.closed.wait()
            ended.set()
            (reason,) = protocol.lost_with
            assert isinstance(reason, TimeoutError)

    run(main())


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("paused", [False, True])
def test_data_that_cross_close_notify_are_dropped(
    run: Run, in_thread: Callable[..., Any], paused: bool
) -> None:
    """asyncio reports "application data after close notify", although neither end is at fault."""

    def serve(server: BlockingServer) -> None:
        with server.accept_tls() as connection:
            assert connection.recv(4) == b"ping"
            if paused:
                connection.sendall(b"unread" * 1000)
                sent.set()
            assert connection.recv(1) == b""  # the client's close_notify
            connection.sendall(b"trailing" * 1000)
            connection.unwrap().close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            transport, protocol = await tls_client(Recorder, server.port)
            if paused:
                transport.pause_reading()
            transport.write(b"ping")
            if paused:
                await asyncio.to_thread(sent.wait)
            transport.close()
            await protocol.closed.wait()
            assert protocol.lost_with == [None]
            assert protocol.calls == ["made", "eof", "lost"]

    sent = threading.Event()
    run(main())


def test_a_transport_is_closing_when_its_socket_transport_is(run: Run, only_penstock: None) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            assert not pair.transport.is_closing()
            pair.transport._ssl_protocol._transport.close()
            assert pair.transport.is_closing()

    run(main())


def test_writing_after_the_end_warns(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.close()
            for _ in range(8):
                pair.transport.write(b"too late")
            await pair.client.closed.wait()
            pair.transport.write(b"much too late")
            assert pair.transport.get_write_buffer_size() == 0
            assert b"too" not in pair.server.data

    run(main())
    assert "SSL connection is closed" in caplog.text


def test_an_ended_transport_still_answers_queries(run: Run) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            pair.transport.close()
            await pair.client.closed.wait()
            transport = pair.transport
            assert transport.is_closing()
            assert transport.get_extra_info("cipher")
            assert transport.get_extra_info("peercert")
            assert transport.can_write_eof() is False
            transport.close()
            assert "ransport" in repr(transport)

    run(main())


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
