"""The simulated port seen by a serial program: a real terminal, read with plain system calls."""

from __future__ import annotations

import errno
import os
import select
import termios
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from penstock.sim import Bus, BusFaults, MassFlowController, PtyPort, open_pty

FRAME = b" +014.62 +021.89 +000.00 +000.00 +000.00     N2\r"


def bus_of(*ids: str, faults: BusFaults | None = None, baudrate: int | None = 115200) -> Bus:
    return Bus([MassFlowController(i) for i in ids], baudrate=baudrate, faults=faults)


@contextmanager
def opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def read_until(descriptor: int, end: bytes, *, count: int = 1) -> bytes:
    data = b""
    with anyio.fail_after(20):
        while data.count(end) < count:
            await anyio.wait_readable(descriptor)
            data += os.read(descriptor, 4096)
    return data


@pytest.mark.anyio
async def test_a_client_polls_the_units_of_a_bus_through_the_terminal() -> None:
    async with open_pty(bus_of("A", "B")) as path:
        with opened(path) as descriptor:
            os.write(descriptor, b"A\r")
            assert await read_until(descriptor, b"\r") == b"A" + FRAME
            # C is nobody: the next line that comes is B's.
            os.write(descriptor, b"C\rBVE\r")
            answer = await read_until(descriptor, b"\r")
            assert answer == b"B   10v20.0-R24 Jan  9 2025,15:04:07\r"


@pytest.mark.anyio
async def test_the_terminal_is_raw_and_echoes_nothing() -> None:
    async with open_pty(bus_of("A")) as path:
        with opened(path) as descriptor:
            inflag, outflag, _, localflag, *_ = termios.tcgetattr(descriptor)
            assert not localflag & (termios.ECHO | termios.ICANON | termios.ISIG)
            assert not inflag & (termios.ICRNL | termios.IXON)
            assert not outflag & termios.OPOST


@pytest.mark.anyio
async def test_clients_may_come_and_go() -> None:
    async with open_pty(bus_of("A")) as path:
        for _ in range(3):
            with opened(path) as descriptor:
                os.write(descriptor, b"A\r")
                assert await read_until(descriptor, b"\r") == b"A" + FRAME


@pytest.mark.anyio
async def test_the_terminal_is_gone_after_the_context_and_the_bodys_error_stays_itself() -> None:
    # Held open and asked for its hang-up, as the path may soon be somebody else's.
    with ExitStack() as stack:
        with pytest.raises(LookupError, match="mine"):
            async with open_pty(bus_of("A")) as path:
                descriptor = stack.enter_context(opened(path))
                raise LookupError("mine")
        _wait_for_hang_up(descriptor)


@pytest.mark.anyio
async def test_a_long_table_arrives_complete_at_the_lines_pace() -> None:
    async with open_pty(bus_of("A")) as path:
        with opened(path) as descriptor:
            os.write(descriptor, b"A??G*\r")
            lines = (await read_until(descriptor, b"\r", count=130)).split(b"\r")
            assert lines[0] == b"A G00      Air"
            assert lines[129] == b"A G210      D-2"


@pytest.mark.anyio
async def test_a_stream_reaches_the_client_until_it_is_stopped() -> None:
    async with open_pty(bus_of("A", faults=BusFaults(streaming=["A"]))) as path:
        with opened(path) as descriptor:
            frames = await read_until(descriptor, b"\r", count=3)
            assert frames.startswith(b" " + FRAME)
            os.write(descriptor, b"@@ A\r")
            await read_until(descriptor, b"A" + FRAME)


@pytest.mark.anyio
async def test_unplugging_hangs_up_and_replugging_makes_the_same_path_work_again() -> None:
    bus = bus_of("A", faults=BusFaults(unplug=[(0.05, 0.05)]))
    async with open_pty(bus) as path:
        assert Path(path).is_symlink()
        with opened(path) as descriptor:
            with anyio.fail_after(20):
                await anyio.to_thread.run_sync(_wait_for_hang_up, descriptor)
            with pytest.raises(OSError, match="rror") as hang_up:
                os.write(descriptor, b"A\r")
            assert hang_up.value.errno == errno.EIO
        with anyio.fail_after(20):
            while not Path(path).exists():  # noqa: ASYNC110 - the link is the only sign
                await anyio.sleep(0.005)
        with opened(path) as descriptor:
            os.write(descriptor, b"A\r")
            assert await read_until(descriptor, b"\r") == b"A" + FRAME
    assert not Path(path).parent.exists()


def _wait_for_hang_up(descriptor: int) -> None:
    poller = select.poll()
    poller.register(descriptor, 0)
    assert poller.poll(20_000)


@pytest.mark.anyio
async def test_a_link_is_made_and_removed_and_a_stale_one_replaced(tmp_path: Path) -> None:
    link = tmp_path / "ttyMFC"
    link.symlink_to(tmp_path / "nowhere")
    async with open_pty(bus_of("A"), link=link) as path:
        assert path == str(link)
        assert link.resolve().is_char_device()
        with opened(path) as descriptor:
            os.write(descriptor, b"A\r")
            assert await read_until(descriptor, b"\r") == b"A" + FRAME
    assert not link.is_symlink()


def test_a_file_in_the_links_place_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    place.write_text("mine")
    with pytest.raises(FileExistsError):
        PtyPort(bus_of("A"), link=place)
    assert place.read_text() == "mine"


def test_at_another_baud_rate_the_units_hear_nothing() -> None:
    bus = Bus([MassFlowController("A")], baudrate=19200, turnaround=0.0, clock=lambda: 1.0)
    port = PtyPort(bus, match_baudrate=True)
    try:
        with opened(port.path) as descriptor:
            for speed, answered in ((termios.B115200, False), (termios.B19200, True)):
                _set_speed(descriptor, speed)
                os.write(descriptor, b"A\r")
                port.receive()
                assert (bus.next_deadline() is not None) is answered
    finally:
        port.close()


def _set_speed(descriptor: int, speed: int) -> None:
    attributes = termios.tcgetattr(descriptor)
    attributes[4] = attributes[5] = speed
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def test_a_client_that_does_not_read_loses_bytes_and_stops_nobody() -> None:
    port = PtyPort(Bus([MassFlowController("A")], baudrate=None, turnaround=0.0))
    try:
        with opened(port.path) as descriptor:
            for _ in range(2000):
                os.write(descriptor, b"A\r" * 20)
                port.receive()
                port.transmit()
                if port.overrun:
                    break
            assert port.overrun > 0
            while select.select([descriptor], [], [], 0)[0]:
                os.read(descriptor, 65536)
            os.write(descriptor, b"\rAVE\r")
            port.receive()
            port.transmit()
            assert os.read(descriptor, 4096).endswith(b"A   10v20.0-R24 Jan  9 2025,15:04:07\r")
    finally:
        port.close()
