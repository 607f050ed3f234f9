"""Whether a command may be sent to an instrument, by firmware, kind, medium and hardware."""

from __future__ import annotations

from typing import Any

from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.kinds import Medium
from penstock.alicat.commands.command import CommandSpec
from penstock.alicat.errors import (
    AlicatFirmwareError,
    AlicatMediumMismatchError,
    AlicatMissingHardwareError,
    AlicatUnsupportedCommandError,
    ErrorContext,
)

__all__ = ["check_applies"]


def check_applies(command: CommandSpec[Any], info: DeviceInfo, context: ErrorContext) -> None:
    """Make sure that the instrument has the command.

    Raises:
        AlicatFirmwareError: its firmware does not.
        AlicatUnsupportedCommandError: its kind does not.
        AlicatMediumMismatchError: it is for gas and the command for liquid, or the other way round.
        AlicatMissingHardwareError: it is not known to have the hardware.
    """
    unit_id = info.unit_id
    if info.firmware not in command.firmware:
        known_family = info.firmware.family in command.firmware.families
        raise AlicatFirmwareError(
            f"unit {unit_id} has firmware {info.firmware}, which does not have "
            f"{command.name} ({command.token or 'poll'})",
            command=command.token,
            reason="firmware_out_of_range" if known_family else "family_not_supported",
            actual=info.firmware,
            required_min=command.firmware.first,
            required_max=command.firmware.last,
            context=context,
        )
    if info.kind not in command.device_kinds:
        kinds = " and ".join(sorted(kind.value for kind in command.device_kinds))
        raise AlicatUnsupportedCommandError(
            f"{command.name} is for {kinds}; unit {unit_id} is a {info.kind.value}",
            context=context,
        )
    if not command.media & info.media and info.media is not Medium.NONE:
        raise AlicatMediumMismatchError(
            f"{command.name} is for {command.media.name}, and unit {unit_id} is for "
            f"{info.media.name}: state assume_media=... if it is not",
            context=context,
        )
    missing = command.required_capabilities & ~info.capabilities
    if missing:
        raise AlicatMissingHardwareError(
            f"{command.name} needs {missing.name}, which unit {unit_id} is not known to have: if "
            f"it has it, open it with assume_capabilities=Capability.{missing.name}",
            context=context,
        )
