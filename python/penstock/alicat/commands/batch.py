"""Batches: let a set volume flow, then close the valve."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat._instrument.firmware import FirmwareFamily, FirmwareVersion
from penstock.alicat._instrument.kinds import DeviceKind
from penstock.alicat._instrument.setpoints import decimal_text
from penstock.alicat.commands.arguments import NUMBER, UNIT, whole
from penstock.alicat.commands.command import (
    V10_ONLY,
    Command,
    CommandContext,
    FirmwareRange,
    match_reply,
    parse_error,
    reply_shape,
)
from penstock.alicat.commands.totalizer import TotalizerId
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Unit
from penstock.alicat.registry.units import clean_unit_label

__all__ = ["TOTALIZER_BATCH", "TotalizerBatch", "TotalizerBatchRequest"]

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
