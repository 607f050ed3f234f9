"""Simulated ports: two ends of a cable and the faults that a program must handle."""

from __future__ import annotations

import anyio
import pytest

from penstock.serial import (
    ByteSize,
    Capability,
    SerialConfig,
    SerialDisconnectedError,
    SerialError,
    SerialPort,
    open_serial_port,
)
from penstock.serial.testing import FaultPlan, MockBackend, faults_of, serial_port_pair
from tests.python.serial.line_waiting import event_during
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.anyio


async def receive_exactly(port: SerialPort, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await port.receive(count - len(data))
    return data


async def test_bytes_sent_at_one_end_are_received_at_the_other() -> None:
    a, b = serial_port_pair(path_a="/dev/left", config_b=SerialConfig(baudrate=9600))
    async with a, b:
        assert (a.path, b.path, b.config.baudrate) == ("/dev/left", "/dev/mockB", 9600)
        payload = bytes(range(256)) * 4000
        got = b""

        async def read() -> None:
            nonlocal got
            got = await receive_exactly(b, len(payload))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await a.send(payload)
        assert got == payload
        await b.send(b"back")
        buffer = bytearray(10)
        assert await a.receive_into(buffer) == 4
        assert buffer[:4] == b"back"


async def test_modem_lines_are_crossed() -> None:
    a, b = serial_port_pair()
    async with a, b:
        before = await b.modem_lines()
        assert not (before.cts or before.dsr or before.cd or before.ri)
        await a.set_control_lines(rts=False, dtr=True)
        lines = await b.modem_lines()
        assert (lines.cts, lines.dsr, lines.cd, lines.ri) == (False, True, True, False)
        await a.set_control_lines(dtr=False)
        lines = await b.modem_lines()
        assert (lines.dsr, lines.cd) == (False, False)
        own = await a.control_lines()
        assert (own.rts, own.dtr) == (False, False)
        assert a.capabilities.modem_lines is Capability.SUPPORTED


async def test_line_change_wakes_a_wait_for_it() -> None:
    a, b = serial_port_pair()
    async with a, b:

        async def change(state: bool) -> None:
            await a.set_control_lines(rts=state)
            await a.set_control_lines(dtr=state)

        event = await event_during(b, change, cts=False)
        assert not event.cts_changed
        assert event.dsr_changed
        assert event.rlsd_changed


async def test_parity_errors_fail_reads_and_are_counted() -> None:
    a, b = serial_port_pair()
    async with a, b:
        faults_of(b).parity_errors = 2
        await a.send(b"after")
        for _ in range(2):
            with pytest.raises(SerialError, match="parity error"):
                await b.receive()
        assert b.is_open
        assert faults_of(b).parity_errors == 0
        assert await receive_exactly(b, 5) == b"after"
        assert (await b.error_counters()).parity_errors == 2
        assert (await a.error_counters()).total_errors == 0


@pytest.mark.parametrize("reading", ["receive", "receive_into"])
async def test_ended_fault_does_not_change_the_stream(reading: str) -> None:
    a, b = serial_port_pair()
    async with a, b:
        await a.send(b"before,")
        faults_of(b).disconnected = True
        faults_of(b).raise_eio_on_read = True
        await a.send(b"meanwhile,")
        with pytest.raises(SerialDisconnectedError):
            await b.receive()
        faults_of(b).disconnected = False
        with pytest.raises(SerialDisconnectedError):
            await b.receive()
        await a.send(b"after")
        got = b""
        while len(got) < 22:
            if reading == "receive":
                got += await b.receive(4)
            else:
                buffer = bytearray(5)
                got += buffer[: await b.receive_into(buffer)]
        assert got == b"before,meanwhile,after"


async def test_end_can_be_opened_directly() -> None:
    a, b = MockBackend.pair()
    a.open("/dev/other", SerialConfig(baudrate=300))
    assert (a.path, a.last_config) == ("/dev/other", SerialConfig(baudrate=300))
    with pytest.raises(RuntimeError, match="open already"):
        a.open("/dev/other", SerialConfig())
    a.close()
    b.close()


async def test_mock_records_its_configuration_and_break() -> None:
    backend, other = MockBackend.pair()
    async with SerialPort(backend, SerialConfig()) as port, SerialPort(other, SerialConfig()):
        assert backend.is_open
        assert backend.last_config is None
        await port.configure(SerialConfig(byte_size=ByteSize.SEVEN))
        assert backend.last_config == SerialConfig(byte_size=ByteSize.SEVEN)
        with anyio.move_on_after(0):
            await port.send_break(10)
        assert not backend.break_asserted
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(port.send_break, 0.01)
            while not backend.break_asserted:
                await anyio.lowlevel.checkpoint()
    assert not backend.is_open
    assert not backend.break_asserted


async def test_counts_and_discards_work_on_a_pair() -> None:
    a, b = serial_port_pair()
    async with a, b:
        await a.send(b"12345")
        assert (b.input_waiting(), a.output_waiting()) == (5, 0)
        await b.reset_input_buffer()
        assert b.input_waiting() == 0
        await a.drain()
        await a.drain_exact()


async def test_empty_and_interrupted_reads_lose_nothing() -> None:
    a, b = serial_port_pair()
    async with a, b:
        faults = faults_of(b)
        faults.eagain_reads = 3
        faults.eintr_reads = 2
        await a.send(b"all of it")
        assert await receive_exactly(b, 9) == b"all of it"
        assert (faults.eagain_reads, faults.eintr_reads) == (0, 0)


async def test_refused_and_short_writes_send_everything() -> None:
    a, b = serial_port_pair()
    async with a, b:
        faults = faults_of(a)
        faults.eagain_writes = 2
        faults.eintr_writes = 1
        faults.short_write_max = 3
        await a.send(b"in small pieces")
        assert await receive_exactly(b, 15) == b"in small pieces"
        assert (faults.eagain_writes, faults.eintr_writes) == (0, 0)


@pytest.mark.parametrize("fault", ["disconnected", "raise_eio_on_read"])
async def test_disconnect_wakes_waiting_calls(fault: str) -> None:
    a, b = serial_port_pair()
    async with a, b:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(SerialDisconnectedError, match="mockB was disconnected"):
                    await b.receive()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            setattr(faults_of(b), fault, True)
        assert not b.is_open


async def test_every_call_on_a_disconnected_mock_raises_disconnected() -> None:
    a, b = serial_port_pair()
    async with a, b:
        faults_of(b).disconnected = True
        for call in (b.modem_lines, b.drain, b.reset_input_buffer, lambda: b.send(b"x")):
            with pytest.raises(SerialDisconnectedError):
                await call()
        with pytest.raises(SerialDisconnectedError):
            b.input_waiting()


async def test_closed_end_is_a_disconnect_for_the_other_end() -> None:
    a, b = serial_port_pair()
    async with b:
        await a.aclose()
        assert not (await b.modem_lines()).cts
        with pytest.raises(SerialDisconnectedError):
            await b.receive()


async def test_only_simulated_ports_have_faults(peer: PtyPeer) -> None:
    async with await open_serial_port(peer.path) as port:
        with pytest.raises(TypeError, match="serial_port_pair"):
            faults_of(port)


async def test_fault_plans_compare_by_their_faults() -> None:
    assert FaultPlan() == FaultPlan(eagain_reads=0)
    assert FaultPlan(short_write_max=1) != FaultPlan()
