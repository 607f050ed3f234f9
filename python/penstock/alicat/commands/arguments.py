"""Writes arguments, and rejects those that no instrument accepts."""

from __future__ import annotations

from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.setpoints import decimal_text
from penstock.alicat.commands.command import (
    V10_ONLY,
    CommandContext,
    FirmwareRange,
    match_reply,
    reply_shape,
)
from penstock.alicat.errors import AlicatValidationError

__all__ = [
    "FROM_10V05",
    "NUMBER",
    "UNIT",
    "bounded",
    "decode_flag",
    "refuse_save_alone",
    "saving",
    "whole",
]

#: Most settings came with firmware 10v05.
FROM_10V05 = FirmwareRange(V10_ONLY, first=FirmwareVersion(FirmwareFamily.V10, 10, 5))

#: A number in an answer, and a unit's code and label.
NUMBER = rb"([+-]?\d+(?:\.\d*)?)"
UNIT = rb"(\d{1,3})\s+(\S+(?: \S+)?)"


_FLAG = reply_shape(rb"([01])")


def decode_flag(line: bytes, context: CommandContext, wanted: str) -> bool:
    """The answer of a setting that is on (1) or off (0).

    Raises:
        AlicatProtocolError: the line is no such answer; the class tells why.
    """
    return match_reply(_FLAG, line, context, wanted)[2] == b"1"


def saving(save: bool | None) -> tuple[str, ...]:
    """The argument that keeps a setting over a power cycle; left out where not stated."""
    return () if save is None else (str(int(save)),)


def refuse_save_alone(save: bool | None) -> tuple[str, ...]:
    """No argument; ``save`` without a value is a mistake.

    Raises:
        AlicatValidationError: ``save`` is stated.
    """
    if save is not None:
        raise AlicatValidationError("save=... keeps a new value: state the value as well")
    return ()


def whole(value: int, low: int, high: int, what: str) -> str:
    """A whole number from ``low`` to ``high``.

    Raises:
        AlicatValidationError: it is none, or outside.
    """
    number: object = value
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise AlicatValidationError(
            f"{what} must be a whole number from {low} to {high}, not {value!r}"
        )
    return str(int(value))


def bounded(value: float, low: float, high: float, what: str) -> str:
    """A number from ``low`` to ``high``, as a plain decimal.

    Raises:
        AlicatValidationError: it is no finite number, or outside.
    """
    text = decimal_text(value, what)
    if not low <= value <= high:
        raise AlicatValidationError(f"{what} must be from {low:g} to {high:g}, not {value!r}")
    return text
