"""RFC 2217 with peers that send malformed data, read nothing, or disappear."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.serial import (
    PortBusyError,
    SerialConfig,
    SerialDisconnectedError,
    SerialError,
    SerialTimeoutError,
    open_serial_port,
)
from penstock.serial import sync as blocking
from penstock.serial._devices import rfc2217_session as client_session
from penstock.serial._devices.tcp import is_unreachable, shows_silence
from penstock.serial._rfc2217_protocol import Option, subnegotiation
from penstock.serial.rfc2217 import Rfc2217Server
from penstock.serial.rfc2217 import _server_session as server_session
from penstock.serial.testing import serial_port_pair
from tests.python.serial.pty_peer import until

AGREEMENT = bytes((255, 253, Option.COM_PORT, 255, 251, Option.COM_PORT))


def answer(command: int, value: bytes) -> bytes:
    return subnegotiation(Option.COM_PORT, bytes((100 + command,)) + value)


# A server's answers to a client that sets 115200 8N1 without flow control.
ANSWERS = {1: struct.pack("!I", 115_200), 2: b"\x08", 3: b"\x01", 4: b"\x01", 5: b"\x01"}
ACCEPTING = b"".join(answer(command, value) for command, value in ANSWERS.items())


def accept_settings(connection: socket.socket) -> None:
    """Agree to the options and accept the settings."""
    connection.sendall(AGREEMENT)
    asked = b""
    for command, value in ANSWERS.items():
        while bytes((255, 250, Option.COM_PORT, command)) not in asked:
            asked += connection.recv(65_536)
        connection.sendall(answer(command, value))


babble = st.one_of(
    st.just(AGREEMENT),
    st.just(ACCEPTING),
    st.binary(max_size=30),
    st.builds(answer, st.integers(0, 155), st.binary(max_size=6)),
    st.builds(lambda *three: bytes((255, *three)), st.integers(240, 254), st.integers(0, 255)),
    st.just(bytes((255, 250, Option.COM_PORT))),  # unterminated
)


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server whose only connection is handled by ``talk``; yield its URL."""

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            talk(connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"rfc2217://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.close()
            thread.join()


@pytest.mark.timeout(600)  # each example may wait for answers that do not come
@settings(max_examples=80)
@given(st.lists(babble, max_size=12), st.booleans())
def test_client_works_or_raises_serial_error_for_any_server_input(
    pieces: list[bytes], opens: bool
) -> None:
    def talk(connection: socket.socket) -> None:
        if opens:
            accept_settings(connection)
        else:
            connection.sendall(AGREEMENT)
        for piece in pieces:
            if not connection.recv(65_536):
                return
            connection.sendall(piece)
        # Then close, so that the client does not wait for an answer until the timeout.

    before = set(threading.enumerate())
    with server(talk) as url:
        try:
            port = blocking.open_serial_port(f"{url}?timeout=0.1")
        except SerialError:
            return
        calls: list[Callable[[], object]] = [
            lambda: port.send(b"\xff"),
            lambda: port.configure(SerialConfig(baudrate=9600)),
            lambda: port.receive(timeout=0.05),
            port.input_waiting,
            port.modem_lines,
            port.error_counters,
            port.reset_input_buffer,
            lambda: port.set_control_lines(rts=False),
            lambda: port.send_break(0),
            port.drain,
        ]
        for call in calls:
            with contextlib.suppress(SerialError, TimeoutError):
                call()
        port.close()
    assert set(threading.enumerate()) <= before


def test_server_that_asks_and_reads_no_answer_uses_bounded_memory() -> None:
    question = b"".join(bytes((255, 253, option, 255, 254, option)) for option in range(100, 200))
    sent = 0
    held_back = threading.Event()
    done = threading.Event()

    def talk(connection: socket.socket) -> None:
        nonlocal sent
        accept_settings(connection)
        connection.settimeout(1)
        try:
            while sent < 200 << 20:
                sent += connection.send(question * 100)
        except TimeoutError:
            held_back.set()
        done.wait(60)

    with server(talk) as url, blocking.open_serial_port(url):
        try:
            assert held_back.wait(100), "the client read everything"
        finally:
            done.set()


@pytest.mark.parametrize(
    ("words", "error", "expected"),
    [
        (b"Port already in use\r\n", PortBusyError, "refused this client .'Port already in use'"),
        (b"\xff\xfb\x01The line is busy.\0", PortBusyError, "'The line is busy.'"),
        (b"Access denied\r\n", SerialDisconnectedError, "said 'Access denied'; check its settings"),
        (b"x" * 5000, SerialDisconnectedError, "said 'x{200}';"),
        (b"", SerialDisconnectedError, "was disconnected"),
    ],
)
def test_refusal_text_of_a_server_is_quoted(
    words: bytes, error: type[SerialError], expected: str
) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(words)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65_536):
            pass

    with server(talk) as url, pytest.raises(error, match=expected):
        blocking.open_serial_port(url)


@pytest.mark.anyio
async def test_client_that_sends_more_than_the_device_accepts_is_suspended() -> None:
    much = 128 << 20

    def send_much(number: int) -> int:
        sent = 0
        with socket.create_connection(("127.0.0.1", number)) as client:
            client.settimeout(1)
            with contextlib.suppress(TimeoutError):
                while sent < much:
                    sent += client.send(bytes(1 << 20))
        return sent

    port, device = serial_port_pair()
    async with (
        port,
        device,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(Rfc2217Server(port).serve, listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        sent = await anyio.to_thread.run_sync(send_much, number)
        tasks.cancel_scope.cancel()
    # The server's own buffer, plus the same amount for the socket buffers at both ends.
    assert 0 < sent < 2 * server_session._STOP_READING_AT


def test_server_that_never_ends_a_subnegotiation_is_disconnected() -> None:
    def talk(connection: socket.socket) -> None:
        accept_settings(connection)
        with contextlib.suppress(OSError):
            connection.sendall(bytes((255, 250, Option.COM_PORT)))
            while True:
                connection.sendall(bytes(65_536))

    # The error may already be raised while the port is opened.
    with (
        server(talk) as url,
        pytest.raises(SerialDisconnectedError),
        blocking.open_serial_port(url) as port,
    ):
        port.receive(timeout=60)


# ---- peers that disappear ------------------------------------------------------------------------


def info(*, retransmits: int = 0, probes: int = 0, unconfirmed: int = 0, silent_ms: int) -> bytes:
    return struct.pack("=2xBB4x16xI24x2I", retransmits, probes, unconfirmed, silent_ms, silent_ms)


def test_silence_means_unacknowledged_data_for_a_long_time() -> None:
    assert shows_silence(info(retransmits=6, unconfirmed=1, silent_ms=25_000))
    assert shows_silence(info(probes=4, silent_ms=25_000))  # it read nothing, then disappeared
    assert not shows_silence(info(silent_ms=3_600_000))  # nothing was sent: keep-alive detects it
    assert not shows_silence(info(unconfirmed=1, silent_ms=30_000))  # sent just now
    assert not shows_silence(
        info(retransmits=1, unconfirmed=1, silent_ms=300)
    )  # one segment was lost


def test_peer_that_reads_nothing_is_reachable() -> None:
    near, far = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as listener, near, far:
        with (
            socket.create_connection(listener.getsockname()) as sender,
            listener.accept()[0],
        ):
            sender.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sender.send(bytes(65_536))
            assert not is_unreachable(sender)
        assert not is_unreachable(near)  # not TCP
        assert not is_unreachable(sender)  # closed


@pytest.mark.anyio
async def test_unreachable_server_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_session, "_POLL_INTERVAL_MS", 1)
    vanished = threading.Event()
    monkeypatch.setattr(client_session, "is_unreachable", lambda sock: vanished.is_set())
    left = threading.Event()

    def talk(connection: socket.socket) -> None:
        accept_settings(connection)
        left.wait(60)

    with server(talk) as url:
        try:
            async with await open_serial_port(url) as port:
                vanished.set()
                with pytest.raises(SerialDisconnectedError):
                    await port.receive()
        finally:
            left.set()


@pytest.mark.anyio
async def test_unreachable_client_is_dropped_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vanished = False
    monkeypatch.setattr(server_session, "_CLIENT_CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr(server_session, "is_unreachable", lambda sock: vanished)
    port, device = serial_port_pair()
    async with (
        port,
        device,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        rfc2217 = Rfc2217Server(port)
        tasks.start_soon(rfc2217.serve, listener)
        number = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with await anyio.connect_tcp("127.0.0.1", number):
            await until(lambda: rfc2217.is_serving)
            vanished = True
            await until(lambda: not rfc2217.is_serving)
        vanished = False
        async with await open_serial_port(f"rfc2217://127.0.0.1:{number}") as remote:
            await remote.send(b"next")
            assert await device.receive() == b"next"
        tasks.cancel_scope.cancel()


def error_of_a_server_that_agrees_and_then_is_silent(timeout: float) -> str:
    left = threading.Event()

    def talk(connection: socket.socket) -> None:
        connection.sendall(AGREEMENT)
        left.wait(60)

    with server(talk) as url:
        try:
            with pytest.raises(SerialTimeoutError) as caught:
                blocking.open_serial_port(f"{url}?timeout={timeout}")
        finally:
            left.set()
    return str(caught.value)


def test_server_that_agrees_and_then_is_silent_times_out() -> None:
    # On a busy machine the server may need longer than the first time-out to agree.
    for timeout in (0.1, 1, 10):
        error = error_of_a_server_that_agrees_and_then_is_silent(timeout)
        if "did not answer the setting of the baud" in error:
            return
    pytest.fail(error)
