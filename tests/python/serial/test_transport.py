"""Serial ports as asyncio transports and streams."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import Any

import pytest

from penstock.serial import SerialDisconnectedError
from penstock.serial.compat import Serial, SerialException
from penstock.serial.testing import EmulatedDriver, PtyBench
from penstock.serial.transport import (
    SerialTransport,
    connection_for_serial,
    create_serial_connection,
    open_serial_connection,
)
from tests.python.conftest import BACKENDS
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[loop for loop in BACKENDS if loop.id != "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data = b""
        self.error: Exception | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.error = exc


class Buffered(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.buffer = bytearray(4)
        self.data = b""
        self.largest = 0
        self.lost: list[Exception | None] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]
        self.largest = max(self.largest, nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


async def connected(peer: PtyPeer, **settings: Any) -> tuple[SerialTransport, Recorder]:
    loop = asyncio.get_running_loop()
    transport, protocol = await create_serial_connection(loop, Recorder, peer.path, **settings)
    assert isinstance(protocol, Recorder)
    assert protocol.calls == ["made"]
    return transport, protocol


async def test_bytes_pass_both_ways_until_connection_lost(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer, baudrate=19_200)
    assert protocol.transport is transport
    port = transport.get_extra_info("serial")
    assert port is transport.serial
    assert isinstance(port, Serial)
    assert port.baudrate == 19_200
    transport.write(b"ab")
    transport.writelines([b"cd", memoryview(b"ef")])
    assert await peer.read(6) == b"abcdef"
    peer.write(b"reply")
    await until(lambda: protocol.data == b"reply")
    assert not transport.can_write_eof()
    with pytest.raises(NotImplementedError):
        transport.write_eof()
    transport.close()
    assert transport.is_closing()
    transport.write(b"ignored")
    await until(lambda: "lost" in protocol.calls)
    assert protocol.calls == ["made", "lost"]
    assert protocol.error is None
    assert not port.is_open
    assert peer.nothing_sent()


async def test_reading_can_be_paused(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    transport.pause_reading()
    transport.pause_reading()
    assert not transport.is_reading()
    peer.write(b"later")
    await until(lambda: transport.serial.in_waiting == 5)
    assert protocol.data == b""
    transport.resume_reading()
    await until(lambda: protocol.data == b"later")
    transport.abort()
    await until(lambda: "lost" in protocol.calls)


async def test_full_buffer_pauses_the_protocol_and_loses_nothing(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    transport.set_write_buffer_limits(high=10_000)
    assert transport.get_write_buffer_limits() == (2_500, 10_000)
    payload = os.urandom(300_000)
    transport.write(payload)
    assert transport.get_write_buffer_size() > 10_000
    assert protocol.calls == ["made", "pause"]
    transport.close()  # buffered bytes are still sent
    assert await peer.read(len(payload)) == payload
    await until(lambda: "lost" in protocol.calls)
    assert protocol.calls == ["made", "pause", "resume", "lost"]
    assert protocol.error is None


async def test_flush_discards_the_buffer(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    transport.write(bytes(300_000))
    assert transport.get_write_buffer_size()
    transport.flush()
    assert transport.get_write_buffer_size() == 0
    assert protocol.calls == ["made", "pause", "resume"]
    transport.abort()
    await until(lambda: "lost" in protocol.calls)
    with pytest.raises(ValueError, match="must be >= low"):
        transport.set_write_buffer_limits(high=1, low=2)


@pytest.mark.parametrize("busy", ["idle", "writing"])
async def test_unplugged_device_is_a_lost_connection(peer: PtyPeer, busy: str) -> None:
    transport, protocol = await connected(peer)
    if busy == "writing":
        transport.write(bytes(300_000))
    peer.unplug()
    await until(lambda: "lost" in protocol.calls)
    assert isinstance(protocol.error, SerialException)
    assert isinstance(protocol.error.__cause__, SerialDisconnectedError)
    assert f"{transport.serial.port} was disconnected" in str(protocol.error)
    assert protocol.calls.count("lost") == 1
    assert not transport.serial.is_open
    transport.close()
    transport.abort()


async def test_open_port_can_get_a_transport(peer: PtyPeer) -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(SerialException, match="must be open"):
        await connection_for_serial(loop, Recorder, Serial())
    transport, protocol = await connection_for_serial(loop, Recorder, Serial(peer.path))
    assert transport.get_protocol() is protocol
    assert transport.loop is loop
    assert peer.path in repr(transport)
    other = Recorder()
    transport.set_protocol(other)
    transport.close()
    await until(lambda: other.calls == ["lost"])
    assert isinstance(protocol, Recorder)
    assert protocol.calls == ["made"]


async def test_abort_after_close_discards_unsent_output(peer: PtyPeer) -> None:
    driver = EmulatedDriver(peer.path)
    with driver.installed():
        transport, protocol = await connected(peer)
        driver.output_queue = 5  # flow control has stopped the transmitter
        looks = len(driver.requests)
        transport.close()
        await until(lambda: len(driver.requests) > looks + 3)
        assert protocol.calls == ["made"]
        transport.abort()
        await until(lambda: "lost" in protocol.calls)
        assert (driver.output_queue, driver.discarded_output) == (0, 5)
        assert protocol.error is None


async def test_buffered_protocol_receives_into_its_own_buffer(peer: PtyPeer) -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await create_serial_connection(loop, Buffered, peer.path)
    assert isinstance(protocol, Buffered)
    peer.write(b"abcdefghij")
    await until(lambda: protocol.data == b"abcdefghij")
    assert protocol.largest == 4
    protocol.buffer = bytearray()
    peer.write(b"x")
    await until(lambda: protocol.lost)
    assert isinstance(protocol.lost[0], RuntimeError)
    assert not transport.serial.is_open


async def test_abandoned_connection_is_closed(peer: PtyPeer) -> None:
    loop = asyncio.get_running_loop()
    port = Serial(peer.path)
    task = asyncio.ensure_future(connection_for_serial(loop, Recorder, port))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not port.is_open)


async def test_absent_port_raises_at_once() -> None:
    with pytest.raises(SerialException, match="/dev/ttyUSB97"):
        await open_serial_connection(url="/dev/ttyUSB97")


async def test_streams_work_over_two_ports(bench: PtyBench) -> None:
    reader, writer = await open_serial_connection(url=bench.a.path, baudrate=115_200)
    other_reader, other_writer = await open_serial_connection(url=bench.b.path)
    payload = os.urandom(200_000)

    async def send() -> None:
        for start in range(0, len(payload), 5_000):
            writer.write(payload[start : start + 5_000])
            await writer.drain()
        writer.write(b"\nend\n")

    sending = asyncio.ensure_future(send())
    assert await other_reader.readexactly(len(payload)) == payload
    assert await other_reader.readuntil(b"end\n") == b"\nend\n"
    await sending
    other_writer.write(b"line\r\nrest")
    assert await reader.readline() == b"line\r\n"
    for side in (writer, other_writer):
        side.close()
        await side.wait_closed()
    assert await reader.read() == b"rest"


async def test_streams_work_over_a_url() -> None:
    reader, writer = await open_serial_connection(url="loop://")
    writer.write(b"echo\n")
    assert await reader.readline() == b"echo\n"
    writer.close()
    await writer.wait_closed()


# ---- callbacks that change the transport while it works ------------------------------------------


class CallingInGetBuffer(Buffered):
    """Calls a method of its transport inside ``get_buffer``."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action
        self.asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        self.asked += 1
        if self.asked == 1:
            getattr(self.transport, self.action)()
        return self.buffer


@pytest.mark.parametrize("action", ["close", "abort", "pause_reading"])
async def test_port_closed_or_paused_by_get_buffer_is_not_read(peer: PtyPeer, action: str) -> None:
    loop = asyncio.get_running_loop()
    transport, protocol = await create_serial_connection(
        loop, lambda: CallingInGetBuffer(action), peer.path
    )
    readings: list[int] = []
    device: Any = transport._device
    original = device.readinto

    def readinto(buffer: memoryview) -> int:
        readings.append(len(buffer))
        return int(original(buffer))

    device.readinto = readinto
    peer.write(b"abc")
    await until(lambda: protocol.asked)
    assert (readings, protocol.data) == ([], b"")
    if action == "pause_reading":
        transport.resume_reading()
        await until(lambda: protocol.data == b"abc")
        transport.close()
    await until(lambda: protocol.lost)


async def fill(transport: SerialTransport) -> None:
    while not transport.get_write_buffer_size():
        transport.write(bytes(65_536))


async def test_flush_ends_a_pending_close(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    await fill(transport)
    transport.close()
    transport.flush()
    await until(lambda: "lost" in protocol.calls)
    assert protocol.error is None


async def test_failing_resume_writing_does_not_keep_the_port_open(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    reported: list[dict[str, Any]] = []
    transport.loop.set_exception_handler(lambda loop, context: reported.append(context))
    transport.set_write_buffer_limits(high=0)

    def fail() -> None:
        raise RuntimeError("cannot go on")

    protocol.resume_writing = fail  # type: ignore[method-assign]
    try:
        await fill(transport)
        transport.close()
        while "lost" not in protocol.calls:
            await asyncio.sleep(0)
            with contextlib.suppress(BlockingIOError, OSError):
                os.read(peer.fd, 65_536)
        await until(lambda: reported)
    finally:
        transport.loop.set_exception_handler(None)
    assert [str(context["exception"]) for context in reported] == ["cannot go on"]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ exists since Python 3.12")
async def test_data_whose_buffer_aborts_the_transport_is_not_written(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    written: list[int] = []
    device: Any = transport._device
    device.write = lambda data: written.append(len(data)) or len(data)

    class Aborting:
        def __buffer__(self, flags: int) -> memoryview:
            transport.abort()
            return memoryview(b"late")

    transport.write(Aborting())  # type: ignore[arg-type]
    await until(lambda: "lost" in protocol.calls)
    assert written == []


async def test_data_that_wait_are_not_copied_again_for_each_piece(peer: PtyPeer) -> None:
    transport, protocol = await connected(peer)
    offered: list[int] = []
    write = transport._device.write

    def note(data: bytes | memoryview) -> int:
        offered.append(len(data))
        return write(data)

    transport._device.write = note
    sent = os.urandom(300_000)
    transport.write(sent)
    assert await peer.read(len(sent)) == sent
    await until(lambda: transport.get_write_buffer_size() == 0)
    assert offered[0] == len(sent)  # the caller's own bytes
    assert max(offered[1:]) <= 16_384
    assert "resume" in protocol.calls
    transport.abort()
