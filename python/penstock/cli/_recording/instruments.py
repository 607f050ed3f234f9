"""Open an instrument of a run; each failure is one sentence."""

from __future__ import annotations

from string import ascii_uppercase

from penstock.alicat import (
    AlicatCapabilityError,
    AlicatConfigurationError,
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

__all__ = ["AbsentError", "Controller", "answering_unit", "controller_of", "open_instrument"]

Controller = FlowController | PressureController | ModbusFlowController
"""The instrument classes that accept a setpoint."""

_SEARCH_TIMEOUT = 0.1
"""Seconds for one reply: three times the duration of a frame at 19200 baud."""


class AbsentError(AlicatError):
    """An instrument that does not answer, or whose port cannot be opened.

    ``silent``: its port is there and nothing came, so that another letter may be meant.
    """

    failure_code = "absent"

    def __init__(self, message: str, *, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


async def open_instrument(manager: AlicatManager, device: DevicePlan) -> None:
    """Identify ``device`` and put it into ``manager`` under its name.

    Raises:
        AbsentError: it does not answer now. Asked again, it may.
        CommandError: (exit code DEVICE) it can never be recorded as it is configured.
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
    except (AlicatConfigurationError, AlicatCapabilityError) as error:
        raise _refusal(device, one_line(error)) from error
    except (AlicatError, OSError) as error:
        silent = isinstance(error, AlicatTimeoutError) and device.modbus is None
        raise AbsentError(one_line(error), silent=silent) from error
    fields = {field.name: field.unit for field in manager.field_schemas()[device.name]}
    for limit in device.limits:
        problem = None
        if limit.field not in fields:
            problem = f"is for {limit.field}, which it does not send; it has {', '.join(fields)}"
        elif limit.unit is not None and limit.unit != fields[limit.field]:
            unit = fields[limit.field] or "no unit"
            problem = f"of {limit.field} is in {limit.unit}, and it counts in {unit}"
        if problem is not None:
            await manager.remove(device.name)
            raise _refusal(device, f"a [[device.limit]] {problem}; correct the limit")
    if device.steps and not isinstance(opened, Controller):
        what = opened.info.model if isinstance(opened, Device) else opened.registers.provenance
        await manager.remove(device.name)
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


async def answering_unit(device: DevicePlan) -> str | None:
    """The first other unit id of the device's port that answers a poll, which changes nothing.

    A wrong unit id is the most likely cause of silence, which is its only sign. None where none
    answers, and where the port is in use.
    """
    settings = SerialSettings(device.port, baudrate=device.baudrate)
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
