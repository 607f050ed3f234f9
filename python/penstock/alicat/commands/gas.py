"""The gas that a flow instrument computes with, and the list of those that it knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.alicat._frames.frame_decoder import ParsedFrame
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.kinds import Medium
from penstock.alicat.commands.arguments import FROM_10V05, refuse_save_alone, saving, whole
from penstock.alicat.commands.command import (
    ALL_FAMILIES,
    FLOW_KINDS,
    Command,
    CommandContext,
    FirmwareRange,
    TableCommand,
    always,
    match_reply,
    reply_shape,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import UnknownGasError
from penstock.alicat.registry import Gas

__all__ = [
    "GAS_LIST",
    "GAS_SELECT",
    "GAS_SELECT_LEGACY",
    "GasListRequest",
    "GasSelectLegacyRequest",
    "GasSelectRequest",
    "GasState",
]

_LAST_GAS_NUMBER = 255


@dataclass(frozen=True, slots=True)
class GasSelectRequest:
    """Compute with this gas: a name, or the number of a mix.

    ``None`` asks. ``save`` keeps it over a power cycle.
    """

    gas: Gas | str | int | None = None
    save: bool | None = None


@dataclass(frozen=True, slots=True)
class GasState:
    """The gas that an instrument computes with."""

    unit_id: str
    code: int
    gas: Gas | None
    """``None`` for a mix, and for a gas that is not listed in :class:`Gas`."""
    label: str
    """The short name, as data frames carry it."""
    long_name: str


# The long name may have several words ("Carbon Dioxide"), or be absent for a mix.
_GAS = reply_shape(rb"(\d{1,3})\s+(\S+)(?:\s+(\S.*))?")


def _gas_number(gas: Gas | str | int) -> str:
    if isinstance(gas, int):
        return whole(gas, 0, _LAST_GAS_NUMBER, "the number of a gas")
    return str(Gas.coerce(gas).code)


def _select_arguments(request: GasSelectRequest, context: CommandContext) -> tuple[str, ...]:
    if request.gas is None:
        return refuse_save_alone(request.save)
    return (_gas_number(request.gas), *saving(request.save))


def _decode_gas(line: bytes, request: GasSelectRequest, context: CommandContext) -> GasState:
    match = match_reply(_GAS, line, context, GAS_SELECT.wanted)
    code = int(match[2])
    label = match[3].decode("ascii", "replace")
    try:
        gas: Gas | None = Gas.by_code(code)
    except UnknownGasError:
        gas = None
    return GasState(context.unit_id, code, gas, label, (match[4] or b"").decode("ascii", "replace"))


GAS_SELECT: Command[GasSelectRequest, GasState] = Command(
    name="gas_select",
    token="GS",
    wanted="its gas",
    arguments=_select_arguments,
    decode=_decode_gas,
    device_kinds=FLOW_KINDS,
    media=Medium.GAS,
    firmware=FROM_10V05,
    changes=lambda request: request.gas is not None,
    event=EventKind.GAS,
    saves=lambda request: bool(request.save),
)


@dataclass(frozen=True, slots=True)
class GasSelectLegacyRequest:
    """Compute with this gas (a name, or the number of a mix)."""

    gas: Gas | str | int


GAS_SELECT_LEGACY: Command[GasSelectLegacyRequest, ParsedFrame] = Command(
    name="gas_select_legacy",
    token="G",
    wanted="a data frame with its gas",
    arguments=lambda request, context: (_gas_number(request.gas),),
    decode=decode_frame,
    changes=always,
    event=EventKind.GAS,
    device_kinds=FLOW_KINDS,
    media=Medium.GAS,
    firmware=FirmwareRange(ALL_FAMILIES, last=FirmwareVersion(FirmwareFamily.V10, 10, 4)),
)


@dataclass(frozen=True, slots=True)
class GasListRequest:
    """Ask for the gases that the instrument knows."""


_ROW = re.compile(rb"[A-Z]\s+G(?:\d{1,3})\s")
# GP firmware writes the whole list in one line.
_ENTRY = re.compile(rb"G(\d{1,3})\s+(\S+)")


def _decode_list(rows: Sequence[bytes], context: CommandContext) -> dict[int, str]:
    return {
        int(number): name.decode("ascii", "replace")
        for row in rows
        for number, name in _ENTRY.findall(row.replace(b"\x08", b""))
    }


GAS_LIST: TableCommand[GasListRequest, dict[int, str]] = TableCommand(
    name="gas_list",
    token="??G*",
    wanted="a row of its list of gases",
    is_row=lambda line: _ROW.match(line) is not None,
    decode_rows=_decode_list,
    device_kinds=FLOW_KINDS,
    media=Medium.GAS,
)
