"""A question and its answer as one call, on each event loop."""

from __future__ import annotations

import asyncio
import importlib
import math
import time
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.serial import (
    RS485Config,
    SerialClosedError,
    SerialConfig,
    SerialDisconnectedError,
    SerialPort,
    SerialTimeoutError,
    UnreadInputError,
    open_serial_port,
)
from penstock.serial._tty.system_calls import bytes_to_read
from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer, until

pytestmark = pytest.mark.anyio

LONG = 60.0


@pytest.fixture(params=["plain", "marking"])
async def port(request: pytest.FixtureRequest, peer: PtyPeer) -> Any:
    config = SerialConfig(mark_errors=request.param == "marking")
    async with await open_serial_port(peer.path, config) as opened:
        peer.write(b"!")
        assert await opened.receive() == b"!"  # binds the port to this loop
        yield opened


async def answering(peer: PtyPeer, question: bytes, *parts: bytes) -> None:
    """Answer one question in parts, each sent after the port had time to read the one before."""
    assert await peer.read(len(question)) == question
    for part in parts:
        peer.write(part)
        while bytes_to_read(peer._follower) < len(part):  # the kernel delivers in its own time
            time.sleep(0)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("parts", "end", "data", "rest"),
    [
        ([b"A 1.5\r"], {"delimiter": b"\r"}, b"A 1.5", b""),
        ([b"A ", b"1", b".5\r"], {"delimiter": b"\r"}, b"A 1.5", b""),
        ([b"one\r\ntwo"], {"delimiter": b"\r\n"}, b"one", b"two"),
        ([b"one\r", b"\ntwo"], {"delimiter": b"\r\n"}, b"one", b"two"),
        ([b"\r"], {"delimiter": b"\r"}, b"", b""),
        ([b"12345678"], {"length": 5}, b"12345", b"678"),
        ([b"12", b"3", b"4567"], {"length": 5}, b"12345", b"67"),
        ([b"some", b" bytes"], {"silence": 0.2}, b"some bytes", b""),
        ([b"\xff\x00\xff\r\xff"], {"delimiter": b"\r"}, b"\xff\x00\xff", b"\xff"),
    ],
)
async def test_answer_is_cut_where_it_ends(
    port: SerialPort, peer: PtyPeer, parts: list[bytes], end: Any, data: bytes, rest: bytes
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answering, peer, b"A\r", *parts)
        before = time.monotonic_ns()
        answer = await port.exchange(b"A\r", timeout=LONG, **end)
        after = time.monotonic_ns()
    assert answer.data == data
    assert before <= answer.sent_ns <= answer.first_byte_ns <= answer.end_ns <= after
    if rest:
        assert await port.receive_exactly(len(rest)) == rest
    assert port.input_waiting() == 0


async def test_nothing_is_sent_while_bytes_wait(port: SerialPort, peer: PtyPeer) -> None:
    peer.write(b"late\r")
    await until(lambda: port.input_waiting() == 5)
    with pytest.raises(UnreadInputError, match="5 unread bytes are waiting"):
        await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)
    assert peer.nothing_sent()
    assert await port.receive_until(b"\r") == b"late"


async def test_late_answer_is_a_stray_of_the_next_question(port: SerialPort, peer: PtyPeer) -> None:
    with pytest.raises(SerialTimeoutError, match=r"did not end within 0\.01 s \(0 bytes"):
        await port.exchange(b"A\r", delimiter=b"\r", timeout=0.01)
    peer.write(b"A 1\r")
    await until(lambda: port.input_waiting() == 4)
    with pytest.raises(UnreadInputError):
        await port.exchange(b"B\r", delimiter=b"\r", timeout=LONG)
    assert await peer.read(2) == b"A\r"
    assert peer.nothing_sent()


async def test_answer_without_its_end_stays_readable(port: SerialPort, peer: PtyPeer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answering, peer, b"A\r", b"A 1", b".")
        with pytest.raises(SerialTimeoutError, match=r"3 bytes|4 bytes"):
            await port.exchange(b"A\r", delimiter=b"\r", timeout=0.3)
    assert await port.receive_exactly(4) == b"A 1."


async def test_answer_longer_than_allowed(port: SerialPort, peer: PtyPeer) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answering, peer, b"A\r", b"123456")
        with pytest.raises(anyio.DelimiterNotFound):
            await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG, max_bytes=4)
    assert await port.receive_exactly(6) == b"123456"


async def test_cancelled_exchange_keeps_every_byte(port: SerialPort, peer: PtyPeer) -> None:
    with anyio.CancelScope() as scope:

        async def cancel_when_read() -> None:
            await answering(peer, b"A\r", b"half")
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_read)
            await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)
    assert scope.cancelled_caught
    await until(lambda: port.input_waiting() == 4)
    assert await port.receive_exactly(4) == b"half"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answering, peer, b"B\r", b"B 1\r")
        assert (await port.exchange(b"B\r", delimiter=b"\r", timeout=LONG)).data == b"B 1"


async def test_many_questions_one_after_the_other(port: SerialPort, peer: PtyPeer) -> None:
    async def serve() -> None:
        for number in range(200):
            await answering(peer, b"%d\r" % number, b"=%d\r" % number)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        for number in range(200):
            answer = await port.exchange(b"%d\r" % number, delimiter=b"\r", timeout=LONG + number)
            assert answer.data == b"=%d" % number


async def test_deadlines_in_any_order(port: SerialPort, peer: PtyPeer) -> None:
    """The timer of a long deadline does not hide a short one, nor the other way round."""
    for timeout in (LONG, 0.01, 0.02, 0.01):
        if timeout == LONG:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answering, peer, b"A\r", b"A\r")
                await port.exchange(b"A\r", delimiter=b"\r", timeout=timeout)
            continue
        with pytest.raises(SerialTimeoutError):
            await port.exchange(b"A\r", delimiter=b"\r", timeout=timeout)


async def test_request_larger_than_the_driver_takes(port: SerialPort, peer: PtyPeer) -> None:
    request = bytes(range(32, 127)) * 2_000
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answering, peer, request, b"ok\r")
        answer = await port.exchange(request, delimiter=b"\r", timeout=LONG)
    assert answer.data == b"ok"


@pytest.mark.parametrize(
    ("how", "error"), [("close", SerialClosedError), ("unplug", SerialDisconnectedError)]
)
async def test_closing_and_unplugging_end_it(
    port: SerialPort, peer: PtyPeer, how: str, error: type[Exception]
) -> None:
    async def end_when_asked() -> None:
        await peer.read(2)
        if how == "close":
            await port.aclose()
        else:
            peer.unplug()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(end_when_asked)
        with pytest.raises(error):
            await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)
    with pytest.raises(error):
        await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)


async def test_no_other_task_sends_or_receives_meanwhile(port: SerialPort, peer: PtyPeer) -> None:
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)

        tasks.start_soon(ask)
        assert await peer.read(2) == b"A\r"
        with pytest.raises(anyio.BusyResourceError):
            await port.receive()
        with pytest.raises(anyio.BusyResourceError):
            await port.exchange(b"B\r", delimiter=b"\r", timeout=LONG)
        peer.write(b"A\r")
    assert peer.nothing_sent()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"delimiter": b"\r", "length": 3},
        {"length": -1},
        {"delimiter": b"\r", "max_bytes": 0},
        {"silence": -1.0},
        {"delimiter": b"\r", "timeout": 0},
        {"delimiter": b"\r", "timeout": math.inf},
        {"delimiter": b"\r", "timeout": math.nan},
    ],
)
async def test_refused_arguments(port: SerialPort, peer: PtyPeer, arguments: Any) -> None:
    with pytest.raises(ValueError, match="not"):
        await port.exchange(b"A\r", **{"timeout": LONG, **arguments})
    assert peer.nothing_sent()


async def test_part_of_an_exchange_tells_instead_of_raising(
    port: SerialPort, peer: PtyPeer
) -> None:
    part = await port.exchange_part(b"A\r", b"\r", timeout=0.01)
    assert part is not None
    assert (part.data, part.end, part.taken) == (b"", -1, 2)
    peer.write(b"A 1\rB")
    await until(lambda: port.input_waiting() == 5)
    assert await port.exchange_part(b"C\r", b"\r", timeout=LONG, refuse_strays=True) is None
    part = await port.exchange_part(b"", b"\r", timeout=LONG)
    assert part is not None
    assert (part.data, part.end, part.taken) == (b"A 1\rB", 4, 0)
    assert await peer.read(2) == b"A\r"
    assert peer.nothing_sent()


async def test_waiting_bytes_do_not_starve_other_tasks(port: SerialPort, peer: PtyPeer) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        for _ in range(100):
            peer.write(b"x\r")
            assert await port.exchange_part(b"", b"\r", timeout=LONG)
        tasks.cancel_scope.cancel()
    assert turns > 1


@pytest.mark.parametrize("module", ["penstock", "asyncio"])
def test_cancellation_at_the_yield_keeps_the_bytes(peer: PtyPeer, module: str) -> None:
    """asyncio's cancel() between a result that is there and the task's next step."""
    run = importlib.import_module(module).run

    async def main() -> None:
        async with await open_serial_port(peer.path) as port:
            peer.write(b"!")
            await port.receive()
            cancelled = 0
            for _ in range(40):  # every sixteenth receive that need not wait yields
                peer.write(b"x\ry")
                await until(lambda: port.input_waiting() == 3)
                task = asyncio.ensure_future(port.exchange_part(b"", b"\r", timeout=LONG))
                asyncio.get_running_loop().call_soon(task.cancel)
                try:
                    part = await task
                except asyncio.CancelledError:
                    cancelled += 1
                    data = await port.receive_exactly(3)
                else:
                    assert part is not None
                    data = part.data
                assert data == b"x\ry"
            assert cancelled

    run(main())


async def test_cancellation_gives_back_the_pieces_that_have_come(
    port: SerialPort, peer: PtyPeer
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(port.exchange_part, b"A\r", b"\r", timeout=LONG))
        await answering(peer, b"A\r", b"A 1", b".5")
        await until(lambda: bytes_to_read(peer._follower) == 0)
        tasks.cancel_scope.cancel()
    assert await port.receive_exactly(5) == b"A 1.5"


async def test_a_request_for_a_switched_line_is_left_to_its_sender(
    peer: PtyPeer, driver: EmulatedDriver
) -> None:
    """It takes long, and half a request must not remain when the caller is cancelled."""
    config = SerialConfig(rs485=RS485Config(software=True))
    async with await open_serial_port(peer.path, config) as port:
        part = await port.exchange_part(b"A\r", b"\r", timeout=LONG)
        assert part is not None
        assert part.taken == 0
        assert peer.nothing_sent()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answering, peer, b"A\r", b"A 1\r")
            assert (await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)).data == b"A 1"


async def test_reset_input_buffer_drops_what_an_exchange_has_read(
    port: SerialPort, peer: PtyPeer
) -> None:
    async with anyio.create_task_group() as tasks:

        async def reset_in_the_middle() -> None:
            await answering(peer, b"A\r", b"old ")
            await until(lambda: port.input_waiting() == 0)
            await port.reset_input_buffer()
            peer.write(b"new\r")

        tasks.start_soon(reset_in_the_middle)
        answer = await port.exchange(b"A\r", delimiter=b"\r", timeout=LONG)
    assert answer.data == b"new"
