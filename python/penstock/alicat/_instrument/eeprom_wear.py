"""Counts the writes to an instrument's EEPROM, whose cells last about 100,000 writes."""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic

from penstock.alicat.errors import AlicatValidationError, ErrorContext

__all__ = ["EepromWearMonitor"]

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
