"""No reply is taken for that to another request, whatever happens on the line."""

from __future__ import annotations

import struct

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.alicat import (
    AlicatConnectionError,
    AlicatParseError,
    AlicatTimeoutError,
    AlicatValidationError,
)
from penstock.alicat.modbus import (
    ModbusClient,
    ModbusExceptionError,
    ReadRegisters,
    RtuFraming,
    TcpFraming,
)
from penstock.alicat.modbus.registers import as_float
from penstock.alicat.transport import ByteStreamTransport

from .instrument import Instrument, Line, RtuServer, TcpServer, checksum

pytestmark = pytest.mark.anyio

TIMEOUT = 20.0
FLOW = ReadRegisters(1208, 2)


def counting(unit: int = 1) -> Instrument:
    """An instrument whose mass flow is the number of the read that it answers."""
    instrument = Instrument(unit)
    instrument.counts_reads = True
    return instrument


def rtu(line: Line, *, window: float = 0.1) -> ModbusClient:
    return ModbusClient(
        ByteStreamTransport(line), RtuFraming(), timeout=TIMEOUT, late_reply_window=window
    )


def tcp(line: Line) -> ModbusClient:
    return ModbusClient(ByteStreamTransport(line), TcpFraming(), timeout=TIMEOUT)


async def flow(client: ModbusClient, unit: int = 1, *, timeout: float | None = None) -> float:
    return as_float((await client.execute(unit, FLOW, timeout=timeout)).value)


async def test_late_rtu_reply_is_never_taken_for_the_next() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        assert await flow(client) == 1
        line.hold_next = 1
        # The stream tells of no baud rate, so it is none of what to check.
        with pytest.raises(AlicatTimeoutError, match=r"that its unit number is this$"):
            await flow(client, timeout=0.02)
        line.release()
        assert await flow(client) == 3
        assert await flow(client) == 4
        assert client.statistics.resyncs == 1
        assert client.statistics.timeouts == 1


async def test_late_rtu_reply_that_comes_while_the_line_settles_is_thrown_away() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        line.hold_next = 1
        with pytest.raises(AlicatTimeoutError):
            await flow(client, timeout=0.02)
        line.releases_on_receive = True
        assert await flow(client) == 2


async def test_other_units_are_asked_while_one_owes_a_reply() -> None:
    line = Line(RtuServer(counting(1), counting(2)))
    async with rtu(line, window=3600.0) as client:
        line.hold_next = 1
        with pytest.raises(AlicatTimeoutError):
            await flow(client, 1, timeout=0.02)
        line.release()
        with anyio.fail_after(TIMEOUT):
            assert await flow(client, 2) == 1
        assert client.statistics.discarded_lines >= 1


async def test_late_tcp_reply_is_passed_over() -> None:
    line = Line(TcpServer(counting()))
    async with tcp(line) as client:
        line.hold_next = 1
        with pytest.raises(AlicatTimeoutError):
            await flow(client, timeout=0.02)
        line.release()
        assert await flow(client) == 2
        assert client.statistics.resyncs == 0


async def test_damaged_reply_is_an_error_and_no_value() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        line.spoil_next = True
        with pytest.raises(AlicatParseError, match="checksum"):
            await flow(client)
        assert await flow(client) == 2
        assert client.statistics.malformed == 1


async def test_bytes_that_nobody_asked_for_are_thrown_away() -> None:
    instrument = counting()
    line = Line(RtuServer(instrument))
    async with rtu(line) as client:
        assert await flow(client) == 1
        stale = bytes([1]) + instrument.answer(FLOW.encode())
        line.put(stale + checksum(stale))
        assert await flow(client) == 3


async def test_cancelled_request_leaves_nothing_behind() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        line.hold_next = 1
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(flow, client)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        line.release()
        assert await flow(client) == 2


async def test_exception_reply_leaves_no_debt() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line, window=3600.0) as client:
        with pytest.raises(ModbusExceptionError):
            await client.execute(1, ReadRegisters(5, 1))
        with anyio.fail_after(TIMEOUT):
            assert await flow(client) == 1


async def test_tasks_share_a_client() -> None:
    line = Line(RtuServer(counting(1), counting(2)))
    found: dict[int, list[float]] = {1: [], 2: []}
    async with rtu(line) as client:

        async def ask(unit: int) -> None:
            for _ in range(10):
                found[unit].append(await flow(client, unit))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, 1)
            tasks.start_soon(ask, 2)
    assert found == {unit: [float(n) for n in range(1, 11)] for unit in (1, 2)}


async def test_stream_that_is_no_modbus_tcp_is_lost() -> None:
    line = Line(TcpServer(counting()))
    async with tcp(line) as client:
        line.put(struct.pack(">HHHB", 1, 7, 3, 1))
        with pytest.raises(AlicatConnectionError, match="not a Modbus TCP frame"):
            await flow(client)
        assert not client.is_open
        with pytest.raises(AlicatConnectionError):
            await flow(client)


async def test_closed_client_says_so() -> None:
    client = rtu(Line(RtuServer(counting())))
    await client.aclose()
    await client.aclose()
    with pytest.raises(AlicatConnectionError, match="closed"):
        await flow(client)


async def test_line_that_breaks_is_a_connection_error() -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        assert await flow(client) == 1
        await line.aclose()
        with pytest.raises(AlicatConnectionError, match="lost"):
            await flow(client)
        assert not client.is_open


FAULTS = st.lists(
    st.tuples(st.sampled_from(["none", "held", "spoilt"]), st.booleans()), min_size=1, max_size=8
)


@settings(max_examples=30)
@given(FAULTS)
def test_value_is_always_the_newest_whatever_the_line_does(faults: list[tuple[str, bool]]) -> None:
    async def main() -> None:
        instrument = counting()
        line = Line(RtuServer(instrument))
        async with rtu(line, window=0.001) as client:
            for fault, arrives_late in faults:
                if arrives_late:
                    line.release()
                line.hold_next, line.spoil_next = int(fault == "held"), fault == "spoilt"
                match fault:
                    case "held":
                        with pytest.raises(AlicatTimeoutError):
                            await flow(client, timeout=0.005)
                    case "spoilt":
                        with pytest.raises(AlicatParseError):
                            await flow(client)
                    case _:
                        assert await flow(client) == instrument.reads

    anyio.run(main)


@pytest.mark.parametrize("unit", [0, 248, -1])
async def test_impossible_unit_number_is_refused(unit: int) -> None:
    line = Line(RtuServer(counting()))
    async with rtu(line) as client:
        with pytest.raises(AlicatValidationError, match="1 to 247"):
            await client.execute(unit, FLOW)
