"""Ports named by URL: socket://, loop://, spy://, and malformed URLs."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    Capability,
    ConfigurationError,
    PortNotFoundError,
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialConnectable,
    SerialDisconnectedError,
    SerialError,
    SerialPort,
    SerialTimeoutError,
    UnsupportedFeatureError,
    UnsupportedPolicy,
    open_serial_port,
    sync,
)
from penstock.serial._devices.open import open_backend
from penstock.serial._devices.spy import hex_dump
from penstock.serial._devices.url import is_url
from tests.python.serial.line_waiting import event_during
from tests.python.serial.pty_peer import PtyPeer
from tests.python.serial.test_mock_ports import receive_exactly

pytestmark = pytest.mark.anyio


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        yield server


def url_of(listener: socket.socket) -> str:
    return f"socket://127.0.0.1:{listener.getsockname()[1]}"


# ---- socket:// ---------------------------------------------------------------------------------


async def test_socket_carries_bytes_unchanged(listener: socket.socket) -> None:
    url = url_of(listener)
    async with await open_serial_port(url, SerialConfig(baudrate=9600)) as port:
        peer, _ = listener.accept()
        with peer:
            await port.send(b"\xff\x00binary")
            assert peer.recv(100) == b"\xff\x00binary"
            peer.sendall(b"reply\xff")
            assert await receive_exactly(port, 6) == b"reply\xff"
            await port.drain_exact()
            assert (port.path, port.config.baudrate) == (url, 9600)
            assert port.capabilities.modem_lines is Capability.UNSUPPORTED
            assert port.port_info is None


async def test_counts_and_discards_work_on_a_socket(listener: socket.socket) -> None:
    async with await SerialPort.open(url_of(listener)) as port:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"12345")
            assert await port.receive(1) == b"1"
            with anyio.fail_after(30):
                while port.input_waiting() < 4:
                    await anyio.lowlevel.checkpoint()
            await port.reset_input_buffer()
            assert port.input_waiting() == 0


async def test_server_that_closes_the_connection_is_a_disconnect(listener: socket.socket) -> None:
    async with await SerialConnectable(path=url_of(listener)).connect() as port:
        peer, _ = listener.accept()
        peer.close()
        with pytest.raises(SerialDisconnectedError):
            await port.receive()
        assert not port.is_open


async def test_closed_connection_is_a_disconnect_and_not_a_timeout(
    listener: socket.socket,
) -> None:
    async with await open_serial_port(url_of(listener)) as port:
        peer, _ = listener.accept()
        peer.sendall(b"last")
        peer.close()
        with anyio.fail_after(30):
            while port.input_waiting() < 4:
                await anyio.lowlevel.checkpoint()
        assert await port.receive_exactly(4) == b"last"
        await anyio.wait_readable(port._device.fileno())
        with pytest.raises(SerialDisconnectedError):
            port.input_waiting()
        assert not port.is_open


async def test_unsupported_feature_of_a_socket_is_reported(listener: socket.socket) -> None:
    async with await open_serial_port(url_of(listener)) as port:
        listener.accept()[0].close()
        with pytest.raises(UnsupportedFeatureError, match="does not support modem control lines"):
            await port.set_control_lines(rts=True)
        with pytest.raises(UnsupportedFeatureError, match="has no RS-485 mode"):
            await port.configure(SerialConfig(rs485=RS485Config()))
        assert port.config.rs485 is None
        with pytest.warns(RuntimeWarning, match="low-latency"):
            await port.configure(
                SerialConfig(low_latency=True, unsupported_policy=UnsupportedPolicy.WARN)
            )


async def test_address_without_a_server_raises_port_not_found(listener: socket.socket) -> None:
    url = url_of(listener)
    listener.close()
    with pytest.raises(PortNotFoundError, match=r"no connection to 127\.0\.0\.1 port .* server"):
        await open_serial_port(url)
    with pytest.raises(PortNotFoundError, match="cannot be looked up"):
        await open_serial_port("socket://no-such-host.invalid:1")


async def test_server_that_does_not_answer_times_out() -> None:
    # If a listener's queue is full, the kernel drops further connection requests unanswered.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        with socket.create_connection(server.getsockname()):
            url = url_of(server)
            with pytest.raises(SerialTimeoutError, match=r"did not answer within 0\.2 s"):
                while True:
                    await (await open_serial_port(url + "?timeout=0.2")).aclose()


async def test_connecting_can_be_cancelled() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        with socket.create_connection(server.getsockname()):
            with pytest.raises(SerialTimeoutError):  # until the queue is full
                while True:
                    await (await open_serial_port(url_of(server) + "?timeout=0.1")).aclose()
            with anyio.move_on_after(0.01) as scope:
                await open_serial_port(url_of(server) + "?timeout=20")
            assert scope.cancelled_caught


# ---- loop:// -----------------------------------------------------------------------------------


async def test_loop_returns_written_bytes() -> None:
    async with await open_serial_port("loop://") as port:
        await port.send(b"echo")
        assert port.input_waiting() == 4
        assert await port.receive(2) == b"ec"
        assert await port.receive() == b"ho"
        await port.set_control_lines(rts=False)
        lines = await port.modem_lines()
        assert (lines.cts, lines.dsr, lines.cd) == (False, True, True)


async def test_line_change_wakes_a_wait_on_a_loop() -> None:
    async with await open_serial_port("loop://") as port:
        event = await event_during(port, lambda state: port.set_control_lines(rts=True, dtr=state))
        assert (event.cts_changed, event.dsr_changed) == (False, True)


async def test_write_to_a_full_loop_waits() -> None:
    payload = bytes(range(256)) * 1000
    async with await open_serial_port("loop://") as port, anyio.create_task_group() as tasks:
        tasks.start_soon(port.send, payload)
        await anyio.wait_all_tasks_blocked()
        assert port.input_waiting() == 65_536
        assert await receive_exactly(port, len(payload)) == payload


async def test_send_and_close_wake_a_wait_on_an_empty_loop() -> None:
    async with await open_serial_port("loop://") as port:
        async with anyio.create_task_group() as tasks:

            async def receive() -> None:
                assert await port.receive() == b"x"

            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            await port.send(b"x")
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(SerialClosedError):
                    await port.receive()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await port.aclose()


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=40_000), st.integers(1, 70_000))))
def test_loop_is_a_byte_queue(steps: list[bytes | int]) -> None:
    device = open_backend("loop://", SerialConfig())
    expected = b""
    try:
        for step in steps:
            try:
                if isinstance(step, int):
                    data = device.read(step)
                    assert data == expected[:step]
                    expected = expected[len(data) :]
                else:
                    expected += step[: device.write(step)]
            except BlockingIOError:
                assert len(expected) == (0 if isinstance(step, int) else 65_536)
            assert device.input_waiting() == len(expected)
    finally:
        device.close()


# ---- spy:// ------------------------------------------------------------------------------------


async def test_spy_logs_the_traffic(peer: PtyPeer, tmp_path: Path) -> None:
    log = tmp_path / "traffic.log"
    async with await open_serial_port(f"spy://{peer.path}?file={log}") as port:
        await port.send(b"HELLO\r\n")
        assert await peer.read(7) == b"HELLO\r\n"
        peer.write(bytes(range(0x20, 0x34)))
        await receive_exactly(port, 20)
        await port.reset_input_buffer()
    rows = [line[11:] for line in log.read_text().splitlines()]
    assert "TX   0000  48 45 4C 4C 4F 0D 0A" in rows[0]
    assert rows[0].endswith("HELLO..")
    assert rows[1].startswith("RX   0000  20 21 22")
    assert rows[2].startswith("RX   0010  30 31 32 33")
    assert rows[3] == "Q-RX discard input"


async def test_raw_spy_logs_the_bytes(tmp_path: Path) -> None:
    log = tmp_path / "raw.log"
    async with await open_serial_port(f"spy://loop://?raw&file={log}") as port:
        await port.send(b"\x00\xff")
        buffer = bytearray(2)
        assert await port.receive_into(buffer) == 2
    assert log.read_bytes() == b"\x00\xff\x00\xff"


async def test_spy_with_all_logs_queries(tmp_path: Path) -> None:
    log = tmp_path / "all.log"
    async with await open_serial_port(f"spy://loop://?all&color&file={log}") as port:
        await port.modem_lines()
        await port.set_control_lines(dtr=False)
        await port.configure(SerialConfig(baudrate=300))
        await port.send_break(0)
        port.input_waiting()
        assert port.config.baudrate == port.actual_baudrate == 300
    text = log.read_text()
    for words in ("CTS  active", "DTR  inactive", "CONF 300 baud", "BRK  active", "Q-RX input"):
        assert words in text
    assert "\x1b[36m" in text


async def test_spy_that_fails_to_open_leaves_nothing_open(peer: PtyPeer, tmp_path: Path) -> None:
    with pytest.raises(PortNotFoundError):
        await open_serial_port(f"spy:///dev/ttyUSB97?file={tmp_path / 'log'}")
    with pytest.raises(ConfigurationError, match="cannot write the log"):
        await open_serial_port(f"spy://{peer.path}?file={tmp_path}")
    async with await open_serial_port(peer.path):
        pass  # the first open left no lock


@given(st.binary(max_size=200))
def test_dump_contains_every_byte(data: bytes) -> None:
    rows = list(hex_dump(data))
    assert bytes.fromhex("".join(row[6:54] for row in rows)) == data
    assert [row[:4] for row in rows] == [f"{n:04X}" for n in range(0, len(data), 16)]


def test_urls_need_no_event_loop() -> None:
    with sync.open_serial_port("loop://") as port:
        port.send(b"x")
        assert port.receive(timeout=30) == b"x"
        with pytest.raises(TimeoutError):
            port.receive(timeout=0.01)
        port.set_control_lines(rts=False)
        assert not port.modem_lines().cts


# ---- URLs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("socket://", "needs a host and a port"),
        ("socket://host", "needs a host and a port"),
        ("socket://host:0", "needs a host and a port"),
        ("socket://host:99999", "write it as socket://HOST:PORT"),
        ("socket://host:1/path", "needs a host and a port"),
        ("socket://[::1:5", "write it as socket://HOST:PORT"),
        ("socket://host:1?speed=9600", "unknown option 'speed'"),
        ("socket://host:1?timeout=soon", "timeout must be a number of seconds"),
        ("socket://host:1?timeout=nan", "timeout must be a number of seconds"),
        ("gopher://host:1", "unknown kind of port 'gopher'; use a path or one of socket://"),
        ("loop://?file=x", "unknown option 'file'"),
        ("/dev/tty\0", "cannot be the name of a port"),
        ("/dev/tty\ud800", "cannot be the name of a port"),
        ("spy://?file=x", "it names no port"),
        ("spy://loop://?fiel=x", "unknown option fiel"),
    ],
)
async def test_malformed_url_is_refused_with_the_correct_form(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        await open_serial_port(url)
    assert words in str(caught.value)


@given(st.sampled_from(["socket", "loop", "spy", "SOCKET"]), st.text(max_size=30))
def test_any_text_after_a_scheme_opens_a_port_or_raises_serial_error(
    scheme: str, rest: str
) -> None:
    # This test covers neither name lookups nor files to write.
    text = rest.replace(":", "").replace("file", "")
    with contextlib.suppress(SerialError):
        open_backend(f"{scheme}://{text}", SerialConfig()).close()


def test_path_is_not_a_url() -> None:
    assert not is_url("/dev/ttyUSB0")
    assert not is_url("./a://b")
    assert not is_url("://x")
    assert is_url("LOOP://")
