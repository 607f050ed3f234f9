"""The rule of the client: no answer is believed that could be an older one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatParseError,
    AlicatProtocolClient,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
    ByteStreamTransport,
)
from penstock.alicat._bus.wire import idle_gap_for

from .captures import FRAME_10V20, VERSION_10V20
from .proven_client import TIMEOUT, client_on, poll
from .scripted_bus import ScriptedBus, Unit, controller

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("baudrate", "words"),
    [(None, "that its unit id is this$"), (9600, "that its unit id and baud rate are these$")],
)
async def test_baud_rate_is_named_where_there_is_one(baudrate: int | None, words: str) -> None:
    transport = ByteStreamTransport(ScriptedBus(controller()), label="wire", baudrate=baudrate)
    client = AlicatProtocolClient(transport, default_timeout=TIMEOUT)
    with pytest.raises(AlicatTimeoutError, match=words):
        await client.query_line(b"BVE\r")


async def test_answer_comes_with_its_stamps() -> None:
    client = client_on(ScriptedBus(controller()))
    assert await poll(client) == 1.0
    assert client.statistics.exchanges == 1
    assert not client.in_debt("A")


class TakesSome(ScriptedBus):
    """Takes the first bytes of a command at once, and the others when it is waited for."""

    def __init__(self, unit: Unit, count: int) -> None:
        super().__init__(unit)
        self.waited_for: list[bytes] = []
        self._count = count

    def send_nowait(self, data: bytes) -> int:
        self.put(data[: self._count])
        return min(self._count, len(data))

    async def send(self, item: bytes) -> None:
        self.waited_for.append(item)
        await super().send(item)


@pytest.mark.parametrize("count", range(4))
async def test_what_a_stream_does_not_take_at_once_is_waited_for(count: int) -> None:
    bus = TakesSome(controller(), count)
    client = client_on(bus)
    assert await client.query_line(b"AVE\r") == VERSION_10V20
    assert bus.commands == [b"AVE"]
    assert bus.waited_for == ([b"AVE\r"[count:]] if count < 4 else [])


async def test_command_is_not_sent_by_a_task_that_is_cancelled_already() -> None:
    bus = TakesSome(controller(), 100)
    client = client_on(bus)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.exchange(b"ALS 10\r", bytes)
    assert bus.commands == []
    assert not client.in_debt("A")


async def test_deadline_of_an_answered_question_does_not_end_the_next_one() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    await client.exchange(b"AVE\r", bytes, timeout=0.05)
    bus.drop_next()

    async def answer_late() -> None:
        await anyio.sleep(0.15)
        bus.arrive(VERSION_10V20 + b"\r")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer_late)
        exchange = await client.exchange(b"AVE\r", bytes, timeout=30)
    assert exchange.value == VERSION_10V20


async def test_shorter_deadline_after_a_longer_one_is_kept() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    await client.exchange(b"AVE\r", bytes, timeout=3600)
    bus.drop_next()
    with anyio.fail_after(600), pytest.raises(AlicatTimeoutError, match=r"within 0\.05 s"):
        await client.exchange(b"AVE\r", bytes, timeout=0.05)


async def test_lost_reply_is_a_timeout_that_names_port_unit_and_baud_rate() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.drop_next()
    with pytest.raises(AlicatTimeoutError, match=r"unit A on wire .* at 115200 baud") as caught:
        await poll(client)
    assert caught.value.context.command_bytes == b"A\r"
    assert isinstance(caught.value, TimeoutError)
    assert await poll(client) == 2.0


@pytest.mark.parametrize("proven", ["A", ""], ids=["by proof", "by time"])
@pytest.mark.parametrize("knows_waiting", [True, False], ids=["serial", "stream"])
async def test_late_reply_is_never_taken_for_the_next_answer(
    proven: str, knows_waiting: bool
) -> None:
    bus = ScriptedBus(controller(), knows_waiting=knows_waiting)
    client = client_on(bus, proven=proven)
    assert await poll(client) == 1.0
    bus.hold_next()
    with pytest.raises(AlicatTimeoutError):
        await poll(client)
    bus.release()
    assert await poll(client) == 3.0
    assert await poll(client) == 4.0
    assert client.statistics.resyncs == 1


async def test_late_reply_that_comes_with_the_proof_is_thrown_away() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.hold_next()  # goes out just before the unit's next reply
    with pytest.raises(AlicatTimeoutError):
        await poll(client)
    assert await poll(client) == 2.0
    assert bus.commands == [b"A", b"AVE", b"A"]
    assert client.statistics.discarded_lines == 1


async def test_reply_many_polls_late_is_thrown_away() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    for _ in range(4):  # the poll, and the proofs that the following polls begin with
        bus.hold_next()
        with pytest.raises(AlicatTimeoutError):
            await poll(client)
    assert bus.commands == [b"A", b"AVE", b"AVE", b"AVE"]
    assert await poll(client) == 2.0
    assert await poll(client) == 3.0


async def test_late_proof_is_recognised_and_skipped() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.drop_next()
    bus.hold_next()
    with pytest.raises(AlicatTimeoutError):
        await poll(client)
    with pytest.raises(AlicatTimeoutError):
        await poll(client)  # its proof is held back ...
    bus.change_next(lambda reply: reply)
    # ... and comes before the second proof, so that one proof is left over for the poll to meet.
    assert await poll(client) == 2.0
    assert await poll(client) == 3.0


async def test_cancelled_question_leaves_no_stale_answer() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.hold_next()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll, client)
        while not bus.commands:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert client.in_debt("A")
    bus.release()
    assert await poll(client) == 2.0


async def test_question_of_a_cancelled_task_is_not_sent() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.exchange(b"ALS 100.0\r", lambda line: line)
    assert bus.commands == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda reply: reply.replace(b"+014.62", b"+01"),
        lambda reply: reply[:20] + b"\r" + reply[20:],
        lambda reply: reply[:-1],
        lambda reply: reply[2:],
        lambda reply: b"\xff" * 10 + b"\r",
        lambda reply: reply[:10] + b"\x70" + reply[11:],
    ],
    ids=["short", "torn", "unended", "headless", "noise", "flipped"],
)
async def test_damaged_reply_is_an_error_and_the_next_answer_right(damage: object) -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.change_next(damage)  # type: ignore[arg-type]
    with pytest.raises((AlicatParseError, AlicatTimeoutError, AlicatStreamingModeError)) as caught:
        await poll(client)
    assert caught.value.context.port == "wire"
    assert await poll(client) == 2.0
    assert await poll(client) == 3.0


async def test_doubled_reply_does_not_shift_the_next_answer() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.change_next(lambda reply: reply * 2)
    assert await poll(client) == 1.0
    assert await poll(client) == 2.0
    bus.arrive(FRAME_10V20 + b"\r")
    assert await poll(client) == 3.0


async def test_answer_of_a_unit_that_was_not_asked_is_an_error() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.change_next(lambda reply: b"B" + reply[1:])
    with pytest.raises(AlicatUnitIdMismatchError, match="unit B answered") as caught:
        await poll(client)
    assert (caught.value.expected, caught.value.actual) == ("A", "B")
    assert await poll(client) == 2.0


async def test_late_reply_of_a_neighbour_is_skipped_and_the_own_answer_taken() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    bus.hold_next("B")
    with pytest.raises(AlicatTimeoutError):
        await poll(client, "B")
    bus.change_next(lambda reply: bus.units[b"B"].held.popleft() + reply, "A")
    assert await poll(client, "A") == 1.0
    assert client.in_debt("B")
    assert await poll(client, "B") == 2.0


async def test_late_reply_of_a_neighbour_before_silence_is_a_timeout() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    bus.hold_next("B")
    with pytest.raises(AlicatTimeoutError):
        await poll(client, "B")
    bus.change_next(lambda reply: bus.units[b"B"].held.popleft(), "A")
    with pytest.raises(AlicatTimeoutError, match="unit A") as caught:
        await poll(client, "A")
    assert isinstance(caught.value.__cause__, AlicatUnitIdMismatchError)
    assert await poll(client, "A") == 2.0


async def test_late_proof_before_silence_is_a_timeout() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.change_next(lambda reply: VERSION_10V20 + b"\r")
    with pytest.raises(AlicatTimeoutError):
        await poll(client)
    assert await poll(client) == 2.0


async def test_late_answer_without_a_letter_before_silence_is_a_timeout() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    with pytest.raises(AlicatTimeoutError):
        await client.exchange(b"BDV 10 2\r", _nothing, letterless=True)
    bus.change_next(lambda reply: b"+014.63\r", "A")
    with pytest.raises(AlicatTimeoutError, match="unit A"):
        await poll(client, "A")
    assert await poll(client, "A") == 2.0


async def test_bare_question_mark_of_a_neighbour_does_not_end_the_question() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    with pytest.raises(AlicatTimeoutError):
        await client.exchange(b"BXX\r", _nothing)
    bus.change_next(lambda reply: b"?\r" + reply, "A")
    assert await poll(client, "A") == 1.0
    # Where nothing follows, it was the unit's own.
    bus.change_next(lambda reply: b"?\r", "A")
    with pytest.raises(AlicatCommandRejectedError):
        await poll(client, "A")
    assert await poll(client, "A") == 3.0


async def test_dead_neighbour_costs_its_bus_no_resync() -> None:
    bus = ScriptedBus(controller("A"))
    client = client_on(bus)
    with pytest.raises(AlicatTimeoutError):
        await poll(client, "C")
    for number in range(1, 4):
        assert await poll(client) == number
    assert client.statistics.resyncs == 0


@pytest.mark.parametrize(
    "words", [b"?", b"A ?", b"\r?", b"A   Feature Not Enabled", b"A   1 ---", b"A +0 1 ---"]
)
async def test_rejection_is_told_and_costs_no_resync(words: bytes) -> None:
    unit = controller()
    unit.replies[b"XX"] = words
    client = client_on(ScriptedBus(unit))
    with pytest.raises(AlicatCommandRejectedError):
        await client.exchange(b"AXX\r", _nothing)
    assert await poll(client) == 1.0
    assert client.statistics.resyncs == 0


async def test_bare_question_mark_while_a_neighbour_owes_is_not_trusted() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    bus.drop_next("B")
    with pytest.raises(AlicatTimeoutError):
        await poll(client, "B")
    bus.hold_next("A")
    bus.units[b"A"].replies[b"XX"] = b"A +1"
    bus.arrive(b"")
    with pytest.raises(AlicatTimeoutError):
        await client.exchange(b"AXX\r", _nothing)
    bus.release()
    assert await poll(client, "A") == 1.0


async def test_echoed_command_is_skipped() -> None:
    bus = ScriptedBus(controller())
    bus.echo = True
    client = client_on(bus)
    assert await poll(client) == 1.0
    assert await poll(client) == 2.0


async def test_answer_that_has_lost_its_first_byte_is_no_stream() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.change_next(lambda reply: reply[1:])
    with pytest.raises(AlicatParseError, match="a byte was lost on the line"):
        await poll(client)
    assert await poll(client) == 2.0


async def test_streaming_line_is_told_with_its_remedy() -> None:
    bus = ScriptedBus(Unit("A", {}))
    client = client_on(bus, timeout=20.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stream, bus)
        with pytest.raises(AlicatStreamingModeError, match="stop_stream"):
            await poll(client)
        tasks.cancel_scope.cancel()


async def test_line_that_never_falls_silent_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.alicat._bus.wire._RESTLESS_S", 0.05)
    bus = ScriptedBus(Unit("A", {}))
    # A machine that stands still for a moment is no silence of the line.
    client = AlicatProtocolClient(ByteStreamTransport(bus), idle_timeout=30.0)
    bus.arrive(b"@" + FRAME_10V20[1:] + b"\r")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_stream, bus)
        with pytest.raises(AlicatStreamingModeError, match="never silent"):
            await poll(client)
        tasks.cancel_scope.cancel()


async def test_lost_port_is_a_connection_error_that_names_it() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.lost = anyio.BrokenResourceError("unplugged")
    with pytest.raises(AlicatConnectionError, match="wire is lost") as caught:
        await poll(client)
    assert isinstance(caught.value, ConnectionError)


async def test_closed_client_says_so() -> None:
    client = client_on(ScriptedBus(controller()))
    await client.aclose()
    await client.aclose()
    with pytest.raises(AlicatConnectionError):
        await poll(client)


async def test_port_that_takes_no_bytes_is_not_used_again() -> None:
    bus = ScriptedBus(controller())

    async def stuck(item: bytes) -> None:
        await anyio.sleep_forever()

    bus.send = stuck  # type: ignore[method-assign]
    client = client_on(bus)
    for _ in range(2):
        with pytest.raises(AlicatConnectionError, match="writing"):
            await poll(client)


@pytest.mark.parametrize("change", ["rename", "start_stream", "stop_stream"])
async def test_port_that_takes_no_bytes_of_a_change_is_not_used_again(change: str) -> None:
    bus = ScriptedBus(controller())

    async def stuck(item: bytes) -> None:
        await anyio.sleep_forever()

    bus.send = stuck  # type: ignore[method-assign]
    client = client_on(bus)
    changes: dict[str, Callable[[], Awaitable[None]]] = {
        "rename": lambda: client.rename("A", "B"),
        "start_stream": lambda: client.start_stream("A"),
        "stop_stream": lambda: client.stop_stream("A"),
    }
    with anyio.fail_after(60), pytest.raises(AlicatConnectionError, match="writing"):
        await changes[change]()
    assert not client.is_open


async def test_questions_of_two_tasks_do_not_mix() -> None:
    bus = ScriptedBus(controller("A"), controller("B"))
    client = client_on(bus, proven="AB")
    seen: dict[str, list[float]] = {"A": [], "B": []}

    async def ask(unit_id: str) -> None:
        for _ in range(10):
            seen[unit_id].append(await poll(client, unit_id))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, "A")
        tasks.start_soon(ask, "B")
    assert seen["A"] == seen["B"] == [float(n) for n in range(1, 11)]


async def test_raw_line_is_checked_for_its_unit() -> None:
    unit = controller()
    unit.replies |= {b"XX": b"A hello", b"YY": b"A ?"}
    client = client_on(ScriptedBus(unit))
    assert await client.query_line(b"AXX\r") == b"A hello"
    with pytest.raises(AlicatCommandRejectedError):
        await client.query_line(b"AYY\r")


def test_idle_gap_follows_the_baud_rate() -> None:
    assert idle_gap_for(None) < idle_gap_for(115200) < idle_gap_for(19200) < 0.1


def _nothing(line: bytes) -> None:
    from penstock.alicat._bus.replies import refuse_line

    refuse_line(line, "A", wanted="nothing at all")


async def _stream(bus: ScriptedBus) -> None:
    while True:
        bus.arrive(b"@" + FRAME_10V20[1:] + b"\r")
        await anyio.sleep(0.002)
