"""BASIS instruments, which describe neither themselves nor their data frame.

The far end answers in the forms of the manual; nothing here was captured.
"""

from __future__ import annotations

import pytest

from penstock.alicat import (
    AlicatFirmwareError,
    AlicatIdentityError,
    AlicatTimeoutError,
    AlicatValidationError,
    BasisController,
    BasisMeter,
    FirmwareFamily,
    Gas,
    LoopAlgorithm,
    Medium,
    SafeState,
    StatusCode,
    TotalizerId,
    open_device,
)

from .scripted_bus import ScriptedBus, Unit

pytestmark = pytest.mark.anyio

TIMEOUT = 0.3
FRAME = b"A +24.57 +100.0 +0021513.0 +050.0 +55.13     N2"


def basis(*, frame: bytes = FRAME, serial: bytes = b"B123456") -> Unit:
    state = {"setpoint": 50.0, "gains": b"500 5000"}

    def with_setpoint(command: bytes) -> bytes:
        if command.startswith(b"S "):
            state["setpoint"] = float(command[2:])
        return frame.replace(b"+050.0", b"%+06.1f" % state["setpoint"])

    def gains(command: bytes) -> bytes:
        state["gains"] = command[4:] or state["gains"]
        return b"A %s" % state["gains"]

    return Unit(
        "A",
        {
            b"": with_setpoint,
            b"??M*": b"?",
            b"??D*": b"?",
            b"VE": b"A 2.1.0",
            b"SN": b"A " + serial,
            b"FPF 0": b"A +100.0 SCCM",
            b"FPF 1": b"A +9999999.0 SCC",
            b"S *": with_setpoint,
            b"GS": b"A 3 N2 Nitrogen",
            b"GS *": lambda command: b"A %s CH4 Methane" % command[3:],
            b"V *": with_setpoint,
            b"T": with_setpoint,
            b"TB*": lambda command: b"A %s" % (command[3:] or b"0.0"),
            b"LCG*": gains,
            b"HPUR *": frame + b" HLD",
            b"C": with_setpoint,
            b"ZCA*": lambda command: b"A " + (command[4:] or b"1"),
        },
    )


async def opened(unit: Unit | None = None) -> tuple[BasisController, ScriptedBus]:
    bus = ScriptedBus(unit or basis())
    device = await open_device(bus, timeout=TIMEOUT)
    assert isinstance(device, BasisController)
    bus.commands.clear()
    return device, bus


async def test_controller_opens_without_its_tables() -> None:
    device, _ = await opened()
    info = device.info
    assert (info.serial, info.software, info.media) == ("B123456", "2.1.0", Medium.GAS)
    assert info.firmware.family is FirmwareFamily.BASIS
    assert str(info.firmware) == "BASIS 2.1.0"
    assert [(f.name, f.unit) for f in device.field_schema()] == [
        ("Flow_Temp", "°C"),
        ("Mass_Flow", "SCCM"),
        ("Mass_Total", "SCC"),
        ("Mass_Flow_Setpt", "SCCM"),
        ("Valve_Drive", "%"),
        ("Gas", None),
    ]
    reading = await device.poll()
    assert reading.values["Mass_Total"] == 21513.0
    assert reading.values["Gas"] == "N2"


async def test_meter_has_neither_setpoint_nor_valve() -> None:
    bus = ScriptedBus(basis(frame=b"A +24.57 +100.0 +0021513.0     N2 VTM"))
    device = await open_device(bus, timeout=TIMEOUT)
    assert isinstance(device, BasisMeter)
    assert not isinstance(device, BasisController)
    reading = await device.poll()
    assert list(reading.values) == ["Flow_Temp", "Mass_Flow", "Mass_Total", "Gas"]
    assert reading.status == {StatusCode.VTM}


async def test_setpoint_is_set_and_read_back_within_the_full_scale() -> None:
    device, bus = await opened()
    state = await device.setpoint(75, "SCCM")
    assert (state.requested, state.accepted, state.unit_label) == (75.0, True, "SCCM")
    assert b"AS 75.0" in bus.commands
    with pytest.raises(AlicatValidationError, match="full scale of 100 SCCM"):
        await device.setpoint(101)


async def test_gases_have_numbers_of_their_own() -> None:
    device, bus = await opened()
    assert (await device.gas()).gas is Gas.N2
    assert (await device.gas("CH4")).gas is Gas.CH4
    assert bus.commands[-1] == b"AGS 8"
    with pytest.raises(AlicatValidationError, match="use different gas numbers"):
        await device.gas(8)
    with pytest.raises(AlicatValidationError, match="always save their gas"):
        await device.gas("N2", save=True)


async def test_own_commands() -> None:
    device, bus = await opened()
    await device.tare_flow(duration_ms=20)
    assert bus.commands[-1] == b"AV 20"
    with pytest.raises(AlicatValidationError, match="the total is lost"):
        await device.totalizer_reset()
    await device.totalizer_reset(confirm=True)
    with pytest.raises(AlicatValidationError, match="one totalizer"):
        await device.totalizer_reset(TotalizerId.SECOND, confirm=True)
    assert (await device.batch()).volume == 0
    assert (await device.batch(200)).volume == 200
    assert (await device.hold_valve(10, confirm=True)).held
    await device.cancel_valve_hold()
    assert (await device.auto_tare(False)).enabled is False
    with pytest.raises(AlicatValidationError, match="after 2 s"):
        await device.auto_tare(True, 1.0)


async def test_gains_are_set_together() -> None:
    device, bus = await opened()
    assert (await device.pid()).integral == 5000
    changed = await device.pid(proportional=600, confirm=True)
    assert (changed.proportional, changed.integral, changed.algorithm) == (600, 5000, None)
    assert bus.commands[-1] == b"ALCG 600 5000"
    with pytest.raises(AlicatValidationError, match="one algorithm"):
        await device.pid(algorithm=LoopAlgorithm.PD2I)


async def test_what_it_does_not_have_is_refused_before_a_byte_is_sent() -> None:
    device, bus = await opened()
    with pytest.raises(AlicatFirmwareError, match="firmware BASIS"):
        await device.hold_valves()
    with pytest.raises(AlicatFirmwareError):
        await device.valve_drive()
    assert bus.commands == []


async def test_it_is_known_by_its_serial_number_when_it_comes_back() -> None:
    unit = basis()
    device, _ = await opened(unit)
    device.session.invalidate("test")
    assert (await device.poll()).values["Gas"] == "N2"
    unit.replies[b"SN"] = b"A B999999"
    device.session.invalidate("test")
    with pytest.raises(AlicatIdentityError, match="B999999"):
        await device.poll()


async def test_late_answer_is_settled_by_its_serial_number() -> None:
    device, bus = await opened()
    bus.hold_next()
    with pytest.raises(AlicatTimeoutError):
        await device.poll()
    assert (await device.poll()).values["Gas"] == "N2"
    assert b"ASN" in bus.commands


async def test_it_is_left_at_zero() -> None:
    bus = ScriptedBus(basis())
    async with await open_device(bus, timeout=TIMEOUT, safe_state=SafeState.ZERO):
        pass
    assert bus.commands[-1] == b"AS 0.0"
