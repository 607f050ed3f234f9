"""What a command must pass before it is sent: it applies, and spares the EEPROM."""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic
from typing import Any

from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.kinds import Medium
from penstock.alicat.commands.command import CommandSpec
from penstock.alicat.errors import (
    AlicatFirmwareError,
    AlicatMediumMismatchError,
    AlicatMissingHardwareError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
)


def check_applies(command: CommandSpec[Any], info: DeviceInfo) -> None:
    """Make sure that the instrument has the command.

    The caller adds the context to the error: to make one for each question costs more than the
    checks.

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
        )
    if info.kind not in command.device_kinds:
        kinds = " and ".join(sorted(kind.value for kind in command.device_kinds))
        raise AlicatUnsupportedCommandError(
            f"{command.name} is for {kinds}; unit {unit_id} is a {info.kind.value}",
        )
    if not command.media & info.media and info.media is not Medium.NONE:
        raise AlicatMediumMismatchError(
            f"{command.name} is for {command.media.name}, and unit {unit_id} is for "
            f"{info.media.name}: state assume_media=... if it is not",
        )
    missing = command.required_capabilities & ~info.capabilities
    if missing:
        raise AlicatMissingHardwareError(
            f"{command.name} needs {missing.name}, which unit {unit_id} is not known to have: if "
            f"it has it, open it with assume_capabilities=Capability.{missing.name}",
        )


class Admission:
    """Makes sure that an instrument has a command, once for each command.

    The checks combine flags and compare versions, which takes longer than the bus needs for a
    question. Their result holds until the instrument's facts are replaced.
    """

    def __init__(self) -> None:
        self._info: DeviceInfo | None = None
        # By identity: the hash of a command is made from all its fields. The value keeps the
        # command alive, so that no other one gets its identity.
        self._admitted: dict[int, CommandSpec[Any]] = {}

    def check(self, command: CommandSpec[Any], info: DeviceInfo) -> None:
        """Do what :func:`check_applies` does, and raise what it raises."""
        if info is not self._info:
            self._admitted.clear()
            self._info = info
        if id(command) not in self._admitted:
            check_applies(command, info)
            self._admitted[id(command)] = command


_log = logging.getLogger("penstock.alicat")
_WINDOW_S = 60.0


class EepromWearMonitor:
    """Counts the writes to one instrument's EEPROM, warns of many, and refuses too many.

    Args:
        warn_per_minute: From this number within a minute on, each write logs a warning.
        limit_per_minute: The largest number within a minute; 0 for no limit.
    """

    def __init__(self, *, warn_per_minute: int = 10, limit_per_minute: int = 60) -> None:
        self._warn = warn_per_minute
        self._limit = limit_per_minute
        self._recent: deque[float] = deque()
        self._total = 0

    @property
    def total(self) -> int:
        """Writes since the session began."""
        return self._total

    def record(self, command: str, unit_id: str, port: str) -> None:
        """Count one write that is about to be sent.

        Raises:
            AlicatValidationError: the limit of this minute is reached.
        """
        now = monotonic()
        recent = self._recent
        while recent and recent[0] <= now - _WINDOW_S:
            recent.popleft()
        if self._limit and len(recent) >= self._limit:
            raise AlicatValidationError(
                f"{command} would be write {len(recent) + 1} to the EEPROM of unit {unit_id} on "
                f"{port} within a minute, and {self._limit} are allowed: its cells wear out; send "
                "the setting without save, or raise save_rate_limit_per_min",
                context=ErrorContext(command_name=command, unit_id=unit_id, port=port),
            )
        recent.append(now)
        self._total += 1
        if len(recent) > self._warn:
            _log.warning(
                "unit %s on %s: %d writes to its EEPROM within a minute (now %s); its cells wear "
                "out",
                unit_id,
                port,
                len(recent),
                command,
            )
