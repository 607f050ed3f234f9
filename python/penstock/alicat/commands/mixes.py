"""Gas mixes that users define; the instrument stores them under the numbers 236 to 255."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.kinds import Medium
from penstock.alicat.commands.arguments import whole
from penstock.alicat.commands.command import (
    FLOW_KINDS,
    NUMERIC_FAMILIES,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    match_reply,
    parse_error,
    reply_shape,
)
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Gas

__all__ = [
    "CREATE_MIX",
    "DELETE_MIX",
    "MOST_GASES",
    "CreateMixRequest",
    "DeleteMixRequest",
    "GasMix",
    "mix_number",
    "mix_parts",
]

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
            f"the percentage of a gas must lie between 0 and 100, with at most two decimals, and "
            f"is {value!r}"
        )


def mix_parts(gases: Mapping[Gas | str | int, float]) -> dict[int, float]:
    """The percentages of a mix by the numbers of its gases.

    Raises:
        UnknownGasError: there is no gas of such a name.
        AlicatValidationError: number of gases, a percentage or their sum is not possible.
    """
    count = len(gases)
    if not _FEWEST_GASES <= count <= MOST_GASES:
        raise AlicatValidationError(
            f"a mix has {_FEWEST_GASES} to {MOST_GASES} gases, and not {count}"
        )
    parts: dict[int, float] = {}
    for gas, percentage in gases.items():
        code = whole(gas, 0, 255, "the number of a gas") if isinstance(gas, int) else ""
        _check_percentage(percentage)
        parts[int(code or Gas.coerce(gas).code)] = percentage
    if len(parts) < count:
        raise AlicatValidationError("a gas stands twice in the mix: state it once")
    total = math.fsum(gases.values())
    if abs(total - 100) > 1e-6:
        raise AlicatValidationError(
            f"the percentages of a mix must be 100 together, and are {total:g}"
        )
    return parts


def _create_arguments(request: CreateMixRequest, context: CommandContext) -> tuple[str, ...]:
    if not _NAME.fullmatch(request.name):
        raise AlicatValidationError(
            f"{request.name!r} is not a name for a mix: it has one to six printable ASCII "
            "characters and no space"
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
