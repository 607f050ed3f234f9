"""Open an instrument of a run; each failure is one sentence."""

from __future__ import annotations

from string import ascii_uppercase

from penstock.alicat import (
    AlicatError,
    AlicatManager,
    AlicatProtocolClient,
    AlicatTimeoutError,
    Device,
    FlowController,
    PressureController,
    SerialSettings,
)
from penstock.alicat.modbus import (
    ModbusFlowController,
    ModbusFlowMeter,
    registers_of_family,
)
from penstock.alicat.transport import open_serial_transport
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._recording.plan import DevicePlan, ModbusPlan

__all__ = ["Controller", "controller_of", "open_instrument"]

Controller = FlowController | PressureController | ModbusFlowController
"""The instrument classes that accept a setpoint."""

_SEARCH_TIMEOUT = 0.1
"""Seconds for one reply: three times the duration of a frame at 19200 baud."""


async def open_instrument(manager: AlicatManager, device: DevicePlan) -> None:
    """Identify ``device`` and put it into ``manager`` under its name.

    If a unit does not answer, the port's other unit ids are tried: a wrong unit id is the most
    likely cause, and silence is its only sign. The error message names a unit that answers.

    Raises:
        CommandError: (exit code DEVICE) if that fails; ``manager`` is closed.
    """
    settings = SerialSettings(device.port, baudrate=device.baudrate)
    opened: Device | ModbusFlowMeter
    try:
        if device.modbus is not None:
            opened = await _add_modbus(manager, device, device.modbus, settings)
        else:
            opened = await manager.add(
                device.name,
                device.port,
                unit_id=device.unit_id,
                serial=settings,
                timeout=device.timeout,
                rate_hz=device.rate_hz,
            )
    except AlicatTimeoutError as error:
        await manager.close()
        if device.modbus is not None:
            raise _refusal(device, one_line(error)) from error
        other = await _find_another_unit(device, settings)
        if other is None:
            raise _refusal(device, one_line(error)) from error
        raise _refusal(
            device,
            f"unit id {device.unit_id} on {device.port} does not answer at {device.baudrate} "
            f'baud, but unit id {other} does; write unit_id = "{other}" if that is the one',
        ) from error
    except (AlicatError, OSError) as error:
        await manager.close()
        raise _refusal(device, one_line(error)) from error
    if device.steps and not isinstance(opened, Controller):
        what = opened.info.model if isinstance(opened, Device) else opened.registers.provenance
        raise _refusal(
            device,
            f"the instrument on {device.port} is a meter ({what}) and takes no "
            "setpoint; remove its [[device.setpoint]] tables",
        )


def controller_of(manager: AlicatManager, device: DevicePlan) -> Controller:
    """The instrument of ``device``, which takes a setpoint: :func:`open_instrument` has checked."""
    name = device.name
    found = manager.get(name) if device.modbus is None else manager.get_modbus(name)
    assert isinstance(found, Controller)
    return found


async def _add_modbus(
    manager: AlicatManager, device: DevicePlan, modbus: ModbusPlan, settings: SerialSettings
) -> ModbusFlowMeter:
    return await manager.add_modbus(
        device.name,
        device.port,
        unit=modbus.number,
        protocol=modbus.framing,
        serial=settings,
        timeout=device.timeout,
        registers=registers_of_family(modbus.family, decimals=modbus.decimals),
        units=modbus.units,
        assume_same_instrument=modbus.assume_same,
        rate_hz=device.rate_hz,
    )


async def _find_another_unit(device: DevicePlan, settings: SerialSettings) -> str | None:
    """Return the first unit id of the port that answers a poll, which changes nothing."""
    try:
        transport = await open_serial_transport(settings)
    except (AlicatError, OSError):
        return None
    async with AlicatProtocolClient(transport, default_timeout=_SEARCH_TIMEOUT) as client:
        for unit_id in ascii_uppercase:
            if unit_id == device.unit_id:
                continue
            try:
                await client.query_line(f"{unit_id}\r".encode())
            except AlicatTimeoutError:
                continue
            except AlicatError:
                return None
            return unit_id
    return None


def _refusal(device: DevicePlan, reason: str) -> CommandError:
    return CommandError(f'device "{device.name}": {reason}', ExitCode.DEVICE)
