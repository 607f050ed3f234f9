"""Receiving a number of bytes, or up to a delimiter, without loss."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.serial import SerialDisconnectedError, open_serial_port
from penstock.serial.sync import open_serial_port as open_sync
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio


async def test_lines_and_counts_are_assembled_from_pieces(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:

        async def write() -> None:
            for piece in (b"on", b"e\r", b"\ntwo\r\nre", b"st", b"!"):
                await anyio.wait_all_tasks_blocked()
                peer.write(piece)

        tasks.start_soon(write)
        assert await port.receive_until(b"\r\n") == b"one"
        assert await port.receive_until(b"\r\n") == b"two"
        assert await port.receive_exactly(5) == b"rest!"
        assert await port.receive_exactly(0) == b""


async def test_missing_delimiter_leaves_every_byte_receivable(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"12345\r67")
        for limit in (1, 5):
            with pytest.raises(anyio.DelimiterNotFound):
                await port.receive_until(b"\r", limit)
        assert await port.receive_until(b"\r", 6) == b"12345"
        assert await port.receive() == b"67"


async def test_cancellation_leaves_every_byte_receivable(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        peer.write(b"abc")
        for call in (lambda: port.receive_exactly(4), lambda: port.receive_until(b"\r")):
            with anyio.move_on_after(0.01) as scope:
                await call()
            assert scope.cancelled_caught
        assert port.input_waiting() == 3
        peer.write(b"\r")
        assert await port.receive_until(b"\r") == b"abc"


async def test_bytes_before_a_disconnect_can_still_be_received(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port, anyio.create_task_group() as tasks:

        async def unplug() -> None:
            await anyio.wait_all_tasks_blocked()
            peer.unplug()

        peer.write(b"last")
        tasks.start_soon(unplug)
        with pytest.raises(SerialDisconnectedError):
            await port.receive_until(b"\r")
        assert await port.receive() == b"last"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda port: port.receive_exactly(-1), "nbytes must be at least 0, not -1"),
        (lambda port: port.receive_until(b""), "delimiter must have at least 1 byte"),
        (lambda port: port.receive_until(b"\r\n", 1), "max_bytes must be at least 2, not 1"),
    ],
)
async def test_invalid_arguments_are_refused(peer: PtyPeer, call: object, message: str) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(ValueError, match=message):
            await call(port)  # type: ignore[operator]


@given(
    parts=st.lists(st.binary(max_size=8).filter(lambda part: b"\r\n" not in part), max_size=6),
    delimiter=st.just(b"\r\n"),
)
def test_lines_are_split_as_bytes_split_does(parts: list[bytes], delimiter: bytes) -> None:
    sent = b"".join(part + delimiter for part in parts)
    with PtyPeer() as peer, open_sync(peer.path) as port:
        if sent:
            peer.write(sent)
        lines = sent.split(delimiter)[:-1]
        for line in lines:
            assert port.receive_until(delimiter, timeout=60) == line
        assert port.input_waiting() == 0
