"""The baud rate that an instrument talks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat.commands.command import (
    V10_ONLY,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    match_reply,
    parse_error,
    reply_shape,
)
from penstock.alicat.errors import AlicatValidationError

__all__ = ["BAUD_RATE", "BaudRateRequest"]

BAUD_RATES: Final = (2400, 9600, 19_200, 38_400, 57_600, 115_200)
#: BASIS instruments number theirs, from 0.
_BASIS_RATES: Final = (4800, 9600, 19_200, 38_400, 57_600, 115_200)


@dataclass(frozen=True, slots=True)
class BaudRateRequest:
    """Use ``baudrate`` from now on. Everything on the line must follow."""

    baudrate: int
    confirm: bool = False


_RATE = reply_shape(rb"(?:NCB\s+)?(\d{1,6})")


def _arguments(request: BaudRateRequest, context: CommandContext) -> tuple[str, ...]:
    is_basis = context.firmware.family is FirmwareFamily.BASIS
    rates = _BASIS_RATES if is_basis else BAUD_RATES
    if request.baudrate not in rates:
        raise AlicatValidationError(
            f"an instrument does not talk at {request.baudrate!r} baud: choose one of "
            f"{', '.join(map(str, rates))}"
        )
    return (str(rates.index(request.baudrate) if is_basis else request.baudrate),)


def _decode(line: bytes, request: BaudRateRequest, context: CommandContext) -> int:
    wanted = BAUD_RATE.wanted
    match = match_reply(_RATE, line, context, wanted)
    if match[2].decode() != _arguments(request, context)[0]:
        raise parse_error(line, context, wanted)
    return request.baudrate


BAUD_RATE: Command[BaudRateRequest, int] = Command(
    name="baud_rate",
    token="NCB",
    wanted="its new baud rate",
    arguments=_arguments,
    decode=_decode,
    firmware=FirmwareRange(
        V10_ONLY | {FirmwareFamily.BASIS}, first=FirmwareVersion(FirmwareFamily.V10, 10, 5)
    ),
    changes=always,
    saves=always,
    confirm=lambda request: (
        "" if request.confirm else "nothing else on the line can be asked until it follows"
    ),
)
