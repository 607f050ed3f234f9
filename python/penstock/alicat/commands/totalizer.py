"""Totalizers: what has flowed since a reset; batches, which close the valve at a volume."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from penstock.alicat._instrument.kinds import DeviceKind, FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat._instrument.setpoints import decimal_text
from penstock.alicat.commands.command import (
    FLOW_KINDS,
    FROM_10V05,
    NUMBER,
    UNIT,
    V8_AND_NEWER,
    V10_ONLY,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    decode_flag,
    match_reply,
    parse_error,
    refuse_save_alone,
    reply_shape,
    saving,
    whole,
)
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = [
    "TOTALIZER_BATCH",
    "TOTALIZER_CONFIG",
    "TOTALIZER_DISABLED_CODE",
    "TOTALIZER_RESET",
    "TOTALIZER_RESET_PEAK",
    "TOTALIZER_SAVE",
    "TotalizerBatch",
    "TotalizerBatchRequest",
    "TotalizerConfig",
    "TotalizerConfigRequest",
    "TotalizerId",
    "TotalizerLimitMode",
    "TotalizerMode",
    "TotalizerResetPeakRequest",
    "TotalizerResetRequest",
    "TotalizerSaveRequest",
    "TotalizerSaveState",
]


#: The statistic of a totalizer that is off.
TOTALIZER_DISABLED_CODE: Final = 1


class TotalizerId(IntEnum):
    """Which totalizer."""

    FIRST = 1
    SECOND = 2


class TotalizerMode(IntEnum):
    """Which flow is counted."""

    KEEP = -1
    POSITIVE_ONLY = 0
    NEGATIVE_ONLY = 1
    BIDIRECTIONAL = 2
    RESET_ON_STOP = 3


class TotalizerLimitMode(IntEnum):
    """What happens when the digits are full; the last two show the status TOV too."""

    KEEP = -1
    STOP_AT_MAX = 0
    ROLLOVER = 1
    STOP_AT_MAX_WITH_TOV = 2
    ROLLOVER_WITH_TOV = 3


@dataclass(frozen=True, slots=True)
class TotalizerConfigRequest:
    """Count ``flow_statistic_code`` (1: switch the totalizer off); ``None`` asks.

    A totalizer that counts needs all of ``mode``, ``limit_mode``, ``digits`` (7 to 10) and
    ``decimal_place`` (0 to 9).
    """

    totalizer: TotalizerId = TotalizerId.FIRST
    flow_statistic_code: int | None = None
    mode: TotalizerMode | None = None
    limit_mode: TotalizerLimitMode | None = None
    digits: int | None = None
    decimal_place: int | None = None


@dataclass(frozen=True, slots=True)
class TotalizerConfig:
    """What a totalizer counts, and how."""

    unit_id: str
    totalizer: TotalizerId
    flow_statistic_code: int
    mode: TotalizerMode
    limit_mode: TotalizerLimitMode
    digits: int
    decimal_place: int

    @property
    def flow_statistic(self) -> Statistic | None:
        """What it counts; ``None`` for a number that is not listed here."""
        return Statistic.from_code(self.flow_statistic_code)

    @property
    def enabled(self) -> bool:
        """Whether it counts."""
        return self.flow_statistic_code != TOTALIZER_DISABLED_CODE


_LAST_STATISTIC = 999
_NAMED = re.compile(rb"([A-Z])\s+(?:([12])\s+)?(\d{1,3})\s+(-?\d)\s+(-?\d)\s+(\d{1,2})\s+(\d)$")


def _config_arguments(request: TotalizerConfigRequest, context: CommandContext) -> tuple[str, ...]:
    number = str(TotalizerId(request.totalizer).value)
    rest = (request.mode, request.limit_mode, request.digits, request.decimal_place)
    if request.flow_statistic_code is None:
        if any(value is not None for value in rest):
            raise AlicatValidationError(
                "a totalizer's mode, limit_mode, digits and decimal_place belong to a "
                "flow_statistic_code: state it too"
            )
        return (number,)
    code = whole(request.flow_statistic_code, 1, _LAST_STATISTIC, "flow_statistic_code")
    if request.flow_statistic_code == TOTALIZER_DISABLED_CODE:
        return number, code
    mode, limit_mode, digits, decimal_place = rest
    if mode is None or limit_mode is None or digits is None or decimal_place is None:
        raise AlicatValidationError(
            "a totalizer that counts needs mode, limit_mode, digits and decimal_place"
        )
    return (
        number,
        code,
        str(TotalizerMode(mode).value),
        str(TotalizerLimitMode(limit_mode).value),
        whole(digits, 7, 10, "digits"),
        whole(decimal_place, 0, 9, "decimal_place"),
    )


def _decode_config(
    line: bytes, request: TotalizerConfigRequest, context: CommandContext
) -> TotalizerConfig:
    wanted = TOTALIZER_CONFIG.wanted
    match = match_reply(_NAMED, line, context, wanted)
    if match[2] is not None and int(match[2]) != request.totalizer:
        raise parse_error(line, context, wanted)
    try:
        return TotalizerConfig(
            context.unit_id,
            TotalizerId(request.totalizer),
            int(match[3]),
            TotalizerMode(int(match[4])),
            TotalizerLimitMode(int(match[5])),
            int(match[6]),
            int(match[7]),
        )
    except ValueError:
        raise parse_error(line, context, wanted) from None


TOTALIZER_CONFIG: Command[TotalizerConfigRequest, TotalizerConfig] = Command(
    name="totalizer_config",
    token="TC",
    wanted="what its totalizer counts",
    arguments=_config_arguments,
    decode=_decode_config,
    device_kinds=FLOW_KINDS,
    firmware=FirmwareRange(V10_ONLY),
    changes=lambda request: request.flow_statistic_code is not None,
    saves=lambda request: request.flow_statistic_code is not None,
    invalidates_format=lambda request: request.flow_statistic_code is not None,
)


@dataclass(frozen=True, slots=True)
class TotalizerResetRequest:
    """Reset the total to zero."""

    totalizer: TotalizerId = TotalizerId.FIRST
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class TotalizerResetPeakRequest:
    """Reset the peak."""

    totalizer: TotalizerId = TotalizerId.FIRST
    confirm: bool = False


def _totalizer_argument(
    request: TotalizerResetRequest | TotalizerResetPeakRequest, context: CommandContext
) -> tuple[str, ...]:
    # The number is never left out: without it the same letters are a tare.
    return (str(TotalizerId(request.totalizer).value),)


_RESETTING = FirmwareRange(V8_AND_NEWER)

TOTALIZER_RESET: Command[TotalizerResetRequest, ParsedFrame] = Command(
    name="totalizer_reset",
    token="T",
    wanted="a data frame after the reset",
    arguments=_totalizer_argument,
    decode=decode_frame,
    device_kinds=FLOW_KINDS,
    firmware=_RESETTING,
    changes=always,
    confirm=lambda request: "" if request.confirm else "the total is lost",
)

TOTALIZER_RESET_PEAK: Command[TotalizerResetPeakRequest, ParsedFrame] = Command(
    name="totalizer_reset_peak",
    token="TP",
    wanted="a data frame after the reset",
    arguments=_totalizer_argument,
    decode=decode_frame,
    device_kinds=FLOW_KINDS,
    firmware=_RESETTING,
    changes=always,
    confirm=lambda request: "" if request.confirm else "the peak is lost",
)


@dataclass(frozen=True, slots=True)
class TotalizerSaveRequest:
    """Keep the total over a power cycle; ``None`` asks."""

    enable: bool | None = None
    save: bool | None = None


@dataclass(frozen=True, slots=True)
class TotalizerSaveState:
    """Whether the total is kept over a power cycle."""

    unit_id: str
    enabled: bool


def _save_arguments(request: TotalizerSaveRequest, context: CommandContext) -> tuple[str, ...]:
    if request.enable is None:
        return refuse_save_alone(request.save)
    return (str(int(request.enable)), *saving(request.save))


def _decode_saved(
    line: bytes, request: TotalizerSaveRequest, context: CommandContext
) -> TotalizerSaveState:
    enabled = decode_flag(line, context, TOTALIZER_SAVE.wanted)
    return TotalizerSaveState(context.unit_id, enabled)


TOTALIZER_SAVE: Command[TotalizerSaveRequest, TotalizerSaveState] = Command(
    name="totalizer_save",
    token="TCR",
    wanted="whether it keeps its totals",
    arguments=_save_arguments,
    decode=_decode_saved,
    device_kinds=FLOW_KINDS,
    firmware=FROM_10V05,
    changes=lambda request: request.enable is not None,
    saves=lambda request: request.enable is not None,
)


_LAST_UNIT_CODE = 999


@dataclass(frozen=True, slots=True)
class TotalizerBatchRequest:
    """Let ``volume`` flow, counted by a totalizer; 0 ends batching, ``None`` asks.

    ``unit_code`` is the code of the unit of ``volume``; 0 is the unit that the totalizer has.
    """

    totalizer: TotalizerId = TotalizerId.FIRST
    volume: float | None = None
    unit_code: int = 0


@dataclass(frozen=True, slots=True)
class TotalizerBatch:
    """The volume of a batch."""

    unit_id: str
    totalizer: TotalizerId
    volume: float
    """0: batching is off."""
    unit_code: int
    unit: Unit | None
    unit_label: str


_BATCH = reply_shape(rb"([12])\s+" + NUMBER + rb"\s+" + UNIT)


def _arguments(request: TotalizerBatchRequest, context: CommandContext) -> tuple[str, ...]:
    totalizer = str(TotalizerId(request.totalizer).value)
    if request.volume is None:
        if request.unit_code:
            raise AlicatValidationError("unit_code=... belongs to a volume: state both")
        return (totalizer,)
    volume = decimal_text(request.volume, "the volume of a batch")
    if request.volume < 0:
        raise AlicatValidationError(f"a batch must not be negative, as {request.volume!r} is")
    return totalizer, volume, whole(request.unit_code, 0, _LAST_UNIT_CODE, "unit_code")


def _decode(line: bytes, request: TotalizerBatchRequest, context: CommandContext) -> TotalizerBatch:
    wanted = TOTALIZER_BATCH.wanted
    match = match_reply(_BATCH, line, context, wanted)
    if int(match[2]) != request.totalizer:
        raise parse_error(line, context, wanted)
    label = clean_unit_label(match[5].decode("ascii", "replace"))
    return TotalizerBatch(
        context.unit_id,
        TotalizerId(int(match[2])),
        float(match[3]),
        int(match[4]),
        Unit.from_label(label),
        label,
    )


TOTALIZER_BATCH: Command[TotalizerBatchRequest, TotalizerBatch] = Command(
    name="totalizer_batch",
    token="TB",
    wanted="the volume of its batch",
    arguments=_arguments,
    decode=_decode,
    device_kinds=frozenset({DeviceKind.FLOW_CONTROLLER}),
    firmware=FirmwareRange(V10_ONLY, first=FirmwareVersion(FirmwareFamily.V10, 10, 0)),
    changes=lambda request: request.volume is not None,
)
