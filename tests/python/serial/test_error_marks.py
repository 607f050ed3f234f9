"""Damaged characters: the driver marks them (PARMRK), the port reports them beside clean data."""

from __future__ import annotations

import itertools
import termios

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import (
    Fault,
    MarkedBytes,
    Parity,
    SerialConfig,
    UnsupportedConfigurationError,
    open_serial_port,
)
from penstock.serial._port.receive import decode_marks, escape_marks
from penstock.serial.sync import open_serial_port as open_sync
from tests.python.serial.pty_peer import PtyPeer

MARKING = SerialConfig(mark_errors=True, parity=Parity.EVEN)

characters = st.lists(st.tuples(st.integers(0, 255), st.booleans()), max_size=40)


def as_the_kernel_writes(stream: list[tuple[int, bool]]) -> bytes:
    return b"".join(
        b"\xff\x00" + bytes([value]) if damaged else escape_marks(bytes([value]))
        for value, damaged in stream
    )


@given(stream=characters, cuts=st.lists(st.integers(0, 130), max_size=6))
def test_kernel_marks_are_decoded_at_any_chunking(
    stream: list[tuple[int, bool]], cuts: list[int]
) -> None:
    raw = as_the_kernel_writes(stream)
    places = sorted({0, *(cut for cut in cuts if cut < len(raw)), len(raw)})
    data, tail = b"", b""
    faults: list[Fault] = []
    for begin, end in itertools.pairwise(places):
        marked, tail = decode_marks(tail + raw[begin:end])
        faults += [Fault(len(data) + fault.offset, fault.value) for fault in marked.faults]
        data += marked.data
    assert tail == b""
    assert data == bytes(value for value, _ in stream)
    assert faults == [
        Fault(place, value) for place, (value, damaged) in enumerate(stream) if damaged
    ]


@given(raw=st.binary(max_size=60))
def test_any_bytes_can_be_decoded(raw: bytes) -> None:
    marked, tail = decode_marks(raw)
    assert tail in (b"", b"\xff", b"\xff\x00")
    assert raw.endswith(tail)
    assert all(marked.data[fault.offset] == fault.value for fault in marked.faults)


@pytest.mark.anyio
async def test_undamaged_bytes_pass_a_marking_port_unchanged(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path, MARKING) as port:
        iflag = peer.settings()[0]
        assert iflag & termios.PARMRK
        assert iflag & termios.INPCK
        everything = bytes(range(256)) + b"\xff\xff\xff\x00\xff"
        for _ in range(3):
            peer.write(everything)
            assert await port.receive_exactly(len(everything)) == everything
        peer.write(b"a\xffb")
        assert await port.receive(1) == b"a"
        buffer = bytearray(1)
        for value in b"\xffb":
            assert await port.receive_into(buffer) == 1
            assert buffer[0] == value
        peer.write(b"x\xff\xff\ry\xff")
        assert await port.receive_until(b"\r") == b"x\xff\xff"
        assert await port.receive_marked() == MarkedBytes(b"y\xff")


@pytest.mark.anyio
async def test_damaged_characters_are_reported_with_their_positions(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path, MARKING) as port:
        peer.write(b"!")
        assert await port.receive() == b"!"
        # A pty has no line that could damage a character.
        reads = iter([b"ab\xff", b"\x00", b"cd\xff\xff\xff\x00\x00"])
        monkeypatch.setattr(port, "_read", lambda size: next(reads))
        monkeypatch.setattr(port, "_reader", None)
        assert await port.receive_marked() == MarkedBytes(b"ab")
        marked = await port.receive_marked()
        assert marked == MarkedBytes(b"cd\xff\x00", (Fault(0, ord("c")), Fault(3, 0)))


@pytest.mark.anyio
async def test_cancelled_marking_receiver_keeps_a_partial_mark(
    peer: PtyPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_serial_port(peer.path, MARKING) as port:
        peer.write(b"!")
        assert await port.receive() == b"!"
        with monkeypatch.context() as patch:
            reads = iter([b"\xff"])

            def read(size: int) -> bytes:
                for data in reads:
                    return data
                raise BlockingIOError

            patch.setattr(port, "_read", read)
            patch.setattr(port, "_reader", None)
            with anyio.move_on_after(0.01) as scope:
                await port.receive_marked()
            assert scope.cancelled_caught
        assert port.input_waiting() == 1
        # The kernel doubles it: one FF completes the kept half, the other begins a new one.
        peer.write(b"\xff")
        assert (await port.receive_marked()).data == b"\xff"


@pytest.mark.anyio
async def test_port_without_marking_refuses_to_report_marks(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(UnsupportedConfigurationError, match="mark_errors=True first"):
            await port.receive_marked()
        await port.configure(MARKING)
        peer.write(b"x")
        assert await port.receive_marked() == MarkedBytes(b"x")


@pytest.mark.anyio
async def test_kept_bytes_survive_a_change_of_marking(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        for config in (MARKING, SerialConfig()):
            peer.write(b"a\xff\xff")
            with anyio.move_on_after(0.01):
                await port.receive_exactly(4)  # keeps three bytes, which the next receive returns
            await port.configure(config)
            assert await port.receive_exactly(3) == b"a\xff\xff"


def test_synchronous_port_reports_marks(peer: PtyPeer) -> None:
    with open_sync(peer.path, MARKING) as port:
        peer.write(b"\xffz")
        assert port.receive_marked(timeout=60) == MarkedBytes(b"\xffz")
