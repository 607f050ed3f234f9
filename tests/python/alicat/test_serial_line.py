"""Against simulated instruments at the far end of a real pseudo-terminal, at the pace of a wire."""

from __future__ import annotations

import os
import pty
import tty

import anyio
import pytest

from penstock.alicat import (
    AlicatConnectionError,
    AlicatManager,
    AlicatTimeoutError,
    ErrorPolicy,
    FirmwareFamily,
    FlowController,
    SerialSettings,
    open_device,
)
from penstock.sim import (
    FIRMWARE_5V12,
    FIRMWARE_8V17,
    FIRMWARE_10V20,
    Bus,
    BusFaults,
    Firmware,
    MassFlowController,
    open_memory,
    open_pty,
    open_tcp,
)

pytestmark = pytest.mark.anyio

BAUD = 115200
# Answers take 7 ms; a machine that is late by this much is no test's subject.
TIMEOUT = 20.0


def settings(path: str) -> SerialSettings:
    return SerialSettings(path, baudrate=BAUD)


async def test_four_instruments_on_three_ports_are_polled_and_set() -> None:
    shared = Bus(
        [MassFlowController("A", full_scale=500.0), MassFlowController("B", full_scale=100.0)],
        baudrate=BAUD,
    )
    third = Bus([MassFlowController("C", full_scale=5000.0)], baudrate=BAUD)
    fourth = Bus([MassFlowController("D", full_scale=10000.0)], baudrate=BAUD)
    async with (
        open_pty(shared) as ab,
        open_pty(third) as c,
        open_pty(fourth) as d,
        AlicatManager() as manager,
    ):
        for name, path in (("A", ab), ("B", ab), ("C", c), ("D", d)):
            await manager.add(name, path, unit_id=name, serial=settings(path), timeout=TIMEOUT)
        assert manager.poll_groups() == (("A", "B"), ("C",), ("D",))
        for name, value in (("A", 250.0), ("B", 12.34), ("C", 5000.0), ("D", 9999.0)):
            device = manager.get(name)
            assert isinstance(device, FlowController)
            assert (await device.setpoint(value)).accepted
        results = await manager.poll()
        setpoints = {
            name: result.value.values["Mass_Flow_Setpt"] if result.value else None
            for name, result in results.items()
        }
        assert setpoints == {"A": 250.0, "B": 12.34, "C": 5000.0, "D": 9999.0}


@pytest.mark.parametrize(
    ("firmware", "family"),
    [
        (FIRMWARE_10V20, FirmwareFamily.V10),
        (FIRMWARE_8V17, FirmwareFamily.V8_V9),
        (FIRMWARE_5V12, FirmwareFamily.V1_V7),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_every_simulated_firmware_is_opened_polled_and_set(
    firmware: Firmware, family: FirmwareFamily, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine's pause within a table is not to look like the table's end.
    monkeypatch.setattr("penstock.alicat._bus.wire.idle_gap_for", lambda _: 0.5)
    unit = MassFlowController("A", full_scale=500.0, firmware=firmware)
    async with (
        open_pty(Bus([unit], baudrate=BAUD)) as path,
        await open_device(path, serial=settings(path), timeout=TIMEOUT) as device,
    ):
        assert device.info.firmware.family is family
        assert isinstance(device, FlowController)
        assert (await device.setpoint(60.0)).requested == 60.0
        assert unit.setpoint == 60.0
        reading = await device.poll()
        assert "LCK" not in reading.status
        assert device.client.statistics.resyncs == 0
        assert device.client.statistics.malformed == 0


async def test_status_codes_of_the_instrument_arrive() -> None:
    unit = MassFlowController("A", full_scale=500.0)
    async with (
        open_pty(Bus([unit], baudrate=BAUD)) as path,
        await open_device(path, serial=settings(path), timeout=TIMEOUT) as device,
    ):
        await device.hold_valves()
        assert (await device.poll()).status == {"HLD"}


async def test_dropped_late_and_damaged_replies_never_give_a_wrong_reading() -> None:
    """Each poll follows a setpoint of its own, so a stale frame shows."""
    units = [MassFlowController(name, full_scale=500.0, tau=0.0) for name in "AB"]
    # Ten replies are the two openings.
    faults = BusFaults(
        drop=[14, 33],
        late={19: 1.8, 26: 1.4, 37: 1.6},
        corrupt=[16, 23, 30, 41],
        foreign_id={21: "B", 35: "A"},
    )
    bus = Bus(units, baudrate=BAUD, faults=faults)
    good = 0
    async with (
        open_pty(bus) as path,
        AlicatManager(error_policy=ErrorPolicy.RETURN) as manager,
    ):
        for name in "AB":
            await manager.add(name, path, unit_id=name, serial=settings(path), timeout=1.2)
        for step in range(12):
            wanted = {"A": 100.0 + step, "B": 300.0 + step}
            for unit in units:
                unit.setpoint = wanted[unit.unit_id]
            for name, result in (await manager.poll()).items():
                if result.value is not None:
                    assert result.value.unit_id == name
                    assert result.value.values["Mass_Flow_Setpt"] == wanted[name]
                    good += 1
        client = manager.get("A").client
        assert client.statistics.resyncs > 0
        assert client.statistics.discarded_lines > 0
    assert good > 0


async def test_instrument_left_streaming_is_stopped_and_opened() -> None:
    unit = MassFlowController("A", full_scale=500.0)
    bus = Bus([unit], baudrate=BAUD, faults=BusFaults(streaming=["A"]))
    async with (
        open_pty(bus) as path,
        await open_device(path, serial=settings(path), timeout=TIMEOUT) as device,
    ):
        assert device.info.model == "MC-500SCCM-D"
        assert (await device.poll()).values["Gas"] == "N2"


async def test_unit_that_is_not_there_is_silent_and_its_neighbour_unharmed() -> None:
    bus = Bus([MassFlowController("A")], baudrate=BAUD)
    async with open_pty(bus) as path, AlicatManager() as manager:
        await manager.add("a", path, serial=settings(path), timeout=TIMEOUT)
        with pytest.raises(AlicatTimeoutError, match=f"unit B on {path} at {BAUD} baud"):
            await manager.add("b", path, unit_id="B", serial=settings(path), timeout=0.1)
        assert (await manager.poll())["a"].ok


async def test_port_that_answers_nothing_is_told_by_name() -> None:
    controller_end, terminal_end = pty.openpty()
    try:
        tty.setraw(terminal_end)
        path = os.ttyname(terminal_end)
        with pytest.raises(AlicatTimeoutError, match=path):
            await open_device(path, timeout=0.05)
    finally:
        os.close(controller_end)
        os.close(terminal_end)


async def test_unplugged_adapter_is_a_lost_connection() -> None:
    controller_end, terminal_end = pty.openpty()
    tty.setraw(terminal_end)
    path = os.ttyname(terminal_end)
    os.close(terminal_end)

    async def unplug() -> None:
        # Not before the port is open: its name may be that of another port a moment later.
        await anyio.wait_readable(controller_end)
        os.close(controller_end)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(unplug)
        with pytest.raises(AlicatConnectionError, match=path):
            await open_device(path, timeout=30)


async def test_port_in_use_is_told_with_the_remedy() -> None:
    async with (
        open_pty(Bus([MassFlowController("A")], baudrate=BAUD)) as path,
        await open_device(path, serial=settings(path), timeout=TIMEOUT),
    ):
        with pytest.raises(
            AlicatConnectionError, match=r"in use by this very process; .* share one AlicatManager"
        ):
            await open_device(path, serial=settings(path))


async def test_links_to_a_port_are_the_same_port(tmp_path: os.PathLike[str]) -> None:
    bus = Bus([MassFlowController("A"), MassFlowController("B")], baudrate=BAUD)
    async with open_pty(bus) as path, AlicatManager() as manager:
        link = os.path.join(tmp_path, "by-id")
        os.symlink(path, link)
        await manager.add("a", path, unit_id="A", serial=settings(path), timeout=TIMEOUT)
        await manager.add("b", link, unit_id="B", serial=settings(link), timeout=TIMEOUT)
        assert manager.poll_groups() == (("a", "b"),)


async def test_instruments_in_memory_are_polled_alike() -> None:
    bus = Bus([MassFlowController("A", full_scale=500.0)], baudrate=None)
    async with (
        open_memory(bus) as stream,
        await open_device(stream, timeout=TIMEOUT) as device,
    ):
        assert (await device.poll()).values["Gas"] == "N2"


async def test_instruments_behind_a_serial_server_are_polled_alike() -> None:
    bus = Bus([MassFlowController("A", full_scale=500.0)], baudrate=None)
    async with open_tcp(bus) as port:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        async with await open_device(stream, timeout=TIMEOUT) as device:
            assert (await device.poll()).values["Gas"] == "N2"
