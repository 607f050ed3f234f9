"""Settings of the Alicat part, as one object and from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["AlicatConfig", "config_from_env"]


@dataclass(frozen=True, slots=True)
class AlicatConfig:
    """How instruments are asked. All times are in seconds."""

    default_timeout_s: float = 0.5
    """For a one-line answer, from the sending of its command."""
    multiline_timeout_s: float = 1.0
    """Until the first row of a table."""
    write_timeout_s: float = 0.5
    """Until the port accepts a byte of a command."""
    default_baudrate: int = 19200
    drain_before_write: bool = False
    """Kept for programs that state it: a debt is settled by proof, not by draining."""
    save_rate_warn_per_min: int = 10
    """From this number of EEPROM writes within a minute on, each write logs a warning."""
    save_rate_limit_per_min: int = 60
    """The largest number of EEPROM writes within a minute; 0 for no limit."""
    eager_tasks: bool = False
    """Kept for programs that state it: polls run in the caller's task."""
    unit_check_s: float = 10.0
    """Readings carry no unit, so a session asks for it at this interval; 0: never."""
    silences_before_identifying: int = 3
    """After this number of unanswered requests in a row, the unit must identify itself again."""

    def replace(self, **changes: Any) -> AlicatConfig:
        """A copy with other values."""
        return replace(self, **changes)


_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def config_from_env(
    prefix: str = "ALICATLIB_", *, environ: Mapping[str, str] | None = None
) -> AlicatConfig:
    """The settings, with those that variables such as ``ALICATLIB_DEFAULT_TIMEOUT_S`` state.

    A value of the wrong kind is ignored: a program should not fail to start because of its
    environment.
    """
    source = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    for field in fields(AlicatConfig):
        text = source.get(prefix + field.name.upper())
        if text is None:
            continue
        value = _value(type(field.default), text.strip())
        if value is not None:
            found[field.name] = value
    return AlicatConfig(**found)


def _value(kind: type, text: str) -> bool | int | float | None:
    if kind is bool:
        lowered = text.casefold()
        return True if lowered in _TRUE else False if lowered in _FALSE else None
    try:
        value = int(text) if kind is int else float(text)
    except ValueError:
        return None
    # Also false for "nan".
    return value if 0 <= value < 1e9 else None
