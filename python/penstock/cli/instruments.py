"""Opening an instrument of a run, or one sentence about why that failed."""

from __future__ import annotations

from string import ascii_uppercase

from penstock.alicat import (
    AlicatError,
    AlicatManager,
    AlicatProtocolClient,
    AlicatTimeoutError,
    FlowController,
    PressureController,
    SerialSettings,
)
from penstock.alicat.transport import open_serial_transport
from penstock.cli.errors import CommandError, ExitCode, one_line
from penstock.cli.plan import DevicePlan

__all__ = ["Controller", "open_instrument"]

Controller = FlowController | PressureController
"""The instruments that take a setpoint."""

_SEARCH_TIMEOUT = 0.1
"""Seconds for one reply: three times what a frame takes at 19200 baud."""


async def open_instrument(manager: AlicatManager, device: DevicePlan) -> None:
    """Identify *device* and put it into *manager* under its name.

    Raises :class:`CommandError` (exit code DEVICE) when that fails; *manager* is closed then. A
    unit that is silent gets a second look: if another unit answers on the same port, the sentence
    says so, because a wrong unit id is the likeliest cause and silence its only sign.
    """
    settings = SerialSettings(device.port, baudrate=device.baudrate)
    try:
        opened = await manager.add(
            device.name,
            device.port,
            unit_id=device.unit_id,
            serial=settings,
            timeout=device.timeout,
        )
    except AlicatTimeoutError as error:
        await manager.close()
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
        raise _refusal(
            device,
            f"the instrument on {device.port} is a meter ({opened.info.model}) and takes no "
            "setpoint; remove its [[device.setpoint]] tables",
        )


async def _find_another_unit(device: DevicePlan, settings: SerialSettings) -> str | None:
    """The first unit id of the port that answers a poll, which changes nothing in a device."""
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
