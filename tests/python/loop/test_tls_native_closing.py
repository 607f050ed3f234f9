"""How TLS connections end: by close_notify, by truncation, by a failure, by garbage collection."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .certificates import server_context
from .conftest import Run
from .peers import BufferedRecorder, Recorder, reset
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
