"""The instruments of a run: those that answer are recorded, the others are asked again.

After a power cut instruments come back minutes after the computer does, and one of ten may be
broken for weeks. The run begins with those that answer. Each other one is asked again, after a
second, then after pauses that double up to a minute, for as long as the run lasts, and recorded
from then on. *Rejected:* asking at each slot. A question without an answer holds the bus for a
timeout, in which the other instruments of the bus miss their slots.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from string import ascii_uppercase

import anyio

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
from penstock.alicat.modbus import ModbusFlowController, ModbusFlowMeter, registers_of_family
from penstock.alicat.transport import open_serial_transport
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._recording.plan import DevicePlan, ModbusPlan
from penstock.cli._recording.progress import Progress
from penstock.cli._recording.safe_states import check_safe_state
from penstock.record import Recording
from penstock.record.shown_quantity import choose_quantity

Controller = FlowController | PressureController | ModbusFlowController
"""The instrument classes that accept a setpoint."""

_SEARCH_TIMEOUT = 0.1
"""Seconds for one reply: three times the duration of a frame at 19200 baud."""


class AbsentError(AlicatError):
    """An instrument that does not answer, or whose port cannot be opened.

    ``silent``: its port is there and nothing came, so its letter may be another one.
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


_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class Joining:
    """Opens the instruments of a run in ``manager``. For one event loop.

    ``tell`` writes a line for people. ``absent`` has why those do not answer that are not there.
    """

    def __init__(
        self,
        manager: AlicatManager,
        progress: Progress,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self.absent: dict[str, AbsentError] = {}
        self._manager = manager
        self._progress = progress
        self._tell = tell

    async def open_all(self, devices: Iterable[DevicePlan]) -> None:
        """Open each instrument; one that does not answer is absent.

        Raises:
            CommandError: (exit code DEVICE) one does not answer and is required, or can never be
                recorded as it is configured. The manager is then closed.
        """
        for device in devices:
            await self._tell(f"opening {device}")
            try:
                await self._open(device)
            except AbsentError as error:
                if device.required:
                    await self._manager.close()
                    raise CommandError(
                        f'device "{device.name}": {await _with_hint(device, error)}',
                        ExitCode.DEVICE,
                    ) from error
                self.absent[device.name] = error
                await self._tell(
                    f'penstock: device "{device.name}": {one_line(error)}; '
                    "the run continues without it, and tries it again"
                )
            except CommandError:
                await self._manager.close()
                raise

    async def run(self, recording: Recording, devices: Iterable[DevicePlan]) -> None:
        """Ask the absent ones again until all are there. Cancel it with the recording."""
        waiting = [device for device in devices if device.name in self.absent]
        for device in waiting:
            recording.note(one_line(self.absent[device.name]), device=device.name, kind="absent")
        async with anyio.create_task_group() as tasks:
            for group in groups_by_port(waiting):
                tasks.start_soon(self._ask_port, recording, group)

    async def _ask_port(self, recording: Recording, devices: list[DevicePlan]) -> None:
        now = anyio.current_time()
        pauses = {device.name: _FIRST_PAUSE_S for device in devices}
        due = {device.name: now + _FIRST_PAUSE_S for device in devices}
        hinted: set[str] = set()
        while devices:
            device = min(devices, key=lambda each: due[each.name])
            name = device.name
            await anyio.sleep_until(due[name])
            try:
                await self._open(device)
            except (AbsentError, CommandError) as error:
                if isinstance(error, CommandError):
                    error = AbsentError(one_line(error))
                if name not in hinted:
                    hinted.add(name)
                    reason = await _with_hint(device, error)
                    if reason != one_line(error):
                        await self._tell(f'penstock: device "{name}": {reason}')
                self.absent[name] = error
                pauses[name] = min(2 * pauses[name], _LONGEST_PAUSE_S)
                due[name] = anyio.current_time() + pauses[name]
                continue
            devices.remove(device)
            del self.absent[name]
            recording.note(
                "it answers now, and is recorded from here on", device=name, kind="joined"
            )
            await self._tell(f'penstock: device "{name}" answers now')

    async def _open(self, device: DevicePlan) -> None:
        await open_instrument(self._manager, device)
        try:
            await check_safe_state(self._manager, device)
        except CommandError:
            await self._manager.remove(device.name)
            raise
        except (AlicatError, OSError) as error:
            await self._manager.remove(device.name)
            raise AbsentError(one_line(error)) from error
        fields = self._manager.field_schemas()[device.name]
        numbers = {item.name: item.unit for item in fields if item.kind == "float"}
        self._progress.devices[device.name].quantity = choose_quantity(numbers)


async def _with_hint(device: DevicePlan, error: AbsentError) -> str:
    """The reason, and which unit answers at the port, if one does."""
    other = await answering_unit(device) if error.silent else None
    if other is None:
        return one_line(error)
    return (
        f"unit id {device.unit_id} on {device.port} does not answer at {device.baudrate} "
        f'baud, but unit id {other} does; write unit_id = "{other}" if that is the one'
    )


def groups_by_port(devices: Iterable[DevicePlan]) -> list[list[DevicePlan]]:
    """The devices that share a port, in their order."""
    groups: dict[str, list[DevicePlan]] = {}
    for device in devices:
        groups.setdefault(os.path.realpath(device.port), []).append(device)
    return list(groups.values())
