"""The gas that a flow instrument is set to, and the mixes that users define."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.kinds import FirmwareFamily, FirmwareVersion, Medium
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat.commands.command import (
    ALL_FAMILIES,
    FLOW_KINDS,
    FROM_10V05,
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    TableCommand,
    always,
    match_reply,
    parse_error,
    refuse_save_alone,
    reply_shape,
    saving,
    whole,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Gas

__all__ = [
    "CREATE_MIX",
    "DELETE_MIX",
    "GAS_LIST",
    "GAS_SELECT",
    "GAS_SELECT_LEGACY",
    "MOST_GASES",
    "CreateMixRequest",
    "DeleteMixRequest",
    "GasListRequest",
    "GasMix",
    "GasSelectLegacyRequest",
    "GasSelectRequest",
    "GasState",
    "mix_number",
    "mix_parts",
]


_LAST_GAS_NUMBER = 255


@dataclass(frozen=True, slots=True)
class GasSelectRequest:
    """Select a gas by its name or by the number of a mix.

    ``None`` only reads the gas. ``save`` keeps the gas over a power cycle.
    """

    gas: Gas | str | int | None = None
    save: bool | None = None


@dataclass(frozen=True, slots=True)
class GasState:
    """The gas that an instrument is set to."""

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
    return _parse_gas_line(line, context.unit_id)


# A unit answers with the same line until its gas is changed.
@lru_cache(maxsize=256)
def _parse_gas_line(line: bytes, unit_id: str) -> GasState:
    match = _GAS.match(line)
    if match is None or match[1] != unit_id.encode():
        refuse_line(line, unit_id, wanted=GAS_SELECT.wanted)
    code = int(match[2])
    return GasState(
        unit_id,
        code,
        Gas.from_code(code),
        match[3].decode("ascii", "replace"),
        (match[4] or b"").decode("ascii", "replace"),
    )


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
    """Select a gas by its name or by the number of a mix."""

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


_FIRST_MIX, _LAST_MIX = 236, 255
_FEWEST_GASES = 2
MOST_GASES = 5
_NAME = re.compile(r"[!-~]{1,6}")
_MIXING = FirmwareRange(NUMERIC_FAMILIES, first=FirmwareVersion(FirmwareFamily.V1_V7, 5, 0))


@dataclass(frozen=True, slots=True)
class CreateMixRequest:
    """Store a mix under ``number`` (236 to 255). A mix with that number is replaced.

    ``gases`` are two to five gases, by name or number, with their percentages by volume; together
    100. ``name`` has one to six printable characters and no space.
    """

    number: int
    name: str
    gases: Mapping[Gas | str | int, float]


@dataclass(frozen=True, slots=True)
class DeleteMixRequest:
    """Delete the mix with ``number``."""

    number: int
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class GasMix:
    """A stored mix; select it by its number."""

    unit_id: str
    number: int


_MIX = reply_shape(rb"(\d{1,3})(?:\s.*)?")


def mix_number(number: int) -> str:
    """The number of a mix as it is written; raises :class:`AlicatValidationError`."""
    return whole(number, _FIRST_MIX, _LAST_MIX, "the number of a mix")


def _percentage(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _check_percentage(value: float) -> None:
    number: object = value
    if (
        isinstance(number, bool)
        or not isinstance(number, (int, float))
        or not 0 < value < 100
        or round(value, 2) != value
    ):
        raise AlicatValidationError(
            "the percentage of a gas must be between 0 and 100, with at most two decimals, not "
            f"{value!r}"
        )


def mix_parts(gases: Mapping[Gas | str | int, float]) -> dict[int, float]:
    """The percentages of a mix by the numbers of its gases.

    Raises:
        UnknownGasError: there is no gas of such a name.
        AlicatValidationError: number of gases, a percentage or their sum is not possible.
    """
    count = len(gases)
    if not _FEWEST_GASES <= count <= MOST_GASES:
        raise AlicatValidationError(f"a mix has {_FEWEST_GASES} to {MOST_GASES} gases, not {count}")
    parts: dict[int, float] = {}
    for gas, percentage in gases.items():
        code = whole(gas, 0, 255, "the number of a gas") if isinstance(gas, int) else ""
        _check_percentage(percentage)
        parts[int(code or Gas.coerce(gas).code)] = percentage
    if len(parts) < count:
        raise AlicatValidationError("a gas appears twice in the mix: state it once")
    total = math.fsum(gases.values())
    if abs(total - 100) > 1e-6:
        raise AlicatValidationError(f"the percentages of a mix must add up to 100, not {total:g}")
    return parts


def _create_arguments(request: CreateMixRequest, context: CommandContext) -> tuple[str, ...]:
    if not _NAME.fullmatch(request.name):
        raise AlicatValidationError(
            f"{request.name!r} is not a valid name for a mix: use one to six printable ASCII "
            "characters without spaces"
        )
    parts = mix_parts(request.gases)
    written = (text for code, part in parts.items() for text in (_percentage(part), str(code)))
    return request.name, mix_number(request.number), *written


def _decode(
    line: bytes, request: CreateMixRequest | DeleteMixRequest, context: CommandContext
) -> GasMix:
    wanted = CREATE_MIX.wanted
    match = match_reply(_MIX, line, context, wanted)
    if int(match[2]) != request.number:
        raise parse_error(line, context, wanted)
    return GasMix(context.unit_id, request.number)


CREATE_MIX: Command[CreateMixRequest, GasMix] = Command(
    name="create_mix",
    token="GM",
    wanted="the number of its mix",
    arguments=_create_arguments,
    decode=_decode,
    device_kinds=FLOW_KINDS,
    media=Medium.GAS,
    firmware=_MIXING,
    changes=always,
    saves=always,
)


DELETE_MIX: Command[DeleteMixRequest, GasMix] = Command(
    name="delete_mix",
    token="GD",
    wanted="the number of its mix",
    arguments=lambda request, context: (mix_number(request.number),),
    decode=_decode,
    device_kinds=FLOW_KINDS,
    media=Medium.GAS,
    firmware=_MIXING,
    changes=always,
    saves=always,
    confirm=lambda request: "" if request.confirm else "the mix is lost",
    event=EventKind.GAS,
)
