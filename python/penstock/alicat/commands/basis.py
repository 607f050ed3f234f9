"""The commands of BASIS instruments alone: gas numbers, tares, batches, gains and holds.

From the BASIS 2 operating manual (ASCII communication); no answer was captured from an instrument,
so each is accepted in the form that the manual or its examples show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.kinds import FirmwareFamily
from penstock.alicat._instrument.reading import ParsedFrame
from penstock.alicat._instrument.setpoints import decimal_text
from penstock.alicat.commands.command import (
    CONTROLLERS,
    FLOW_KINDS,
    NUMBER,
    Command,
    CommandContext,
    FirmwareRange,
    always,
    bounded,
    decode_flag,
    match_reply,
    parse_error,
    reply_shape,
    whole,
)
from penstock.alicat.commands.gas import GasState
from penstock.alicat.commands.polling import decode_frame
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Gas

__all__ = [
    "BASIS_AUTO_TARE",
    "BASIS_BATCH",
    "BASIS_GAINS",
    "BASIS_GAS",
    "BASIS_HOLD_VALVE",
    "BASIS_RESET_TOTAL",
    "BASIS_TARE",
    "BasisAutoTareRequest",
    "BasisBatch",
    "BasisBatchRequest",
    "BasisGains",
    "BasisGainsRequest",
    "BasisGasRequest",
    "BasisHoldValveRequest",
    "BasisResetTotalRequest",
    "BasisTareRequest",
]

_BASIS = FirmwareRange(frozenset({FirmwareFamily.BASIS}))
_HIGHEST_GAIN = 65_535
_LONGEST_TARE_MS = 32_767

#: The gases by their numbers, which are not those of other instruments.
GASES: Final = (
    Gas.AIR,
    Gas.AR,
    Gas.CO2,
    Gas.N2,
    Gas.O2,
    Gas.N2O,
    Gas.H2,
    Gas.HE,
    Gas.CH4,
)


@dataclass(frozen=True, slots=True)
class BasisGasRequest:
    """Compute with this gas, one of nine; ``None`` asks."""

    gas: Gas | str | None = None


_GAS = reply_shape(rb"(\d)\s+(\S+)(?:\s+(\S.*))?")


def _gas_arguments(request: BasisGasRequest, context: CommandContext) -> tuple[str, ...]:
    if request.gas is None:
        return ()
    gas = Gas.coerce(request.gas)
    if gas not in GASES:
        known = ", ".join(known.value for known in GASES)
        raise AlicatValidationError(f"a BASIS instrument knows {known}, and not {gas.value}")
    return (str(GASES.index(gas)),)


def _decode_gas(line: bytes, request: BasisGasRequest, context: CommandContext) -> GasState:
    wanted = BASIS_GAS.wanted
    match = match_reply(_GAS, line, context, wanted)
    code = int(match[2])
    if code >= len(GASES):
        raise parse_error(line, context, wanted)
    label = match[3].decode("ascii", "replace")
    long_name = (match[4] or b"").decode("ascii", "replace")
    return GasState(context.unit_id, code, GASES[code], label, long_name)


BASIS_GAS: Command[BasisGasRequest, GasState] = Command(
    name="basis_gas",
    token="GS",
    wanted="its gas",
    arguments=_gas_arguments,
    decode=_decode_gas,
    device_kinds=FLOW_KINDS,
    firmware=_BASIS,
    changes=lambda request: request.gas is not None,
    event=EventKind.GAS,
)


@dataclass(frozen=True, slots=True)
class BasisTareRequest:
    """Tare by the flow of the next ``duration_ms`` (1 to 32767). Nothing may flow."""

    duration_ms: int = 1000


BASIS_TARE: Command[BasisTareRequest, ParsedFrame] = Command(
    name="basis_tare",
    token="V",
    wanted="a data frame after the tare",
    arguments=lambda request, context: (
        whole(request.duration_ms, 1, _LONGEST_TARE_MS, "duration_ms"),
    ),
    decode=decode_frame,
    device_kinds=FLOW_KINDS,
    firmware=_BASIS,
    changes=always,
    event=EventKind.TARE,
    patience_s=lambda request: request.duration_ms / 1000,
)


@dataclass(frozen=True, slots=True)
class BasisAutoTareRequest:
    """Tare after two seconds at setpoint zero; ``None`` asks."""

    enable: bool | None = None


BASIS_AUTO_TARE: Command[BasisAutoTareRequest, bool] = Command(
    name="basis_auto_tare",
    token="ZCA",
    wanted="its automatic tare",
    arguments=lambda request, context: (
        () if request.enable is None else (str(int(request.enable)),)
    ),
    decode=lambda line, request, context: decode_flag(line, context, BASIS_AUTO_TARE.wanted),
    device_kinds=CONTROLLERS,
    firmware=_BASIS,
    changes=lambda request: request.enable is not None,
    saves=lambda request: request.enable is not None,
)


@dataclass(frozen=True, slots=True)
class BasisResetTotalRequest:
    """Reset the total to zero."""

    confirm: bool = False


BASIS_RESET_TOTAL: Command[BasisResetTotalRequest, ParsedFrame] = Command(
    name="basis_reset_total",
    token="T",
    wanted="a data frame after the reset",
    decode=decode_frame,
    device_kinds=FLOW_KINDS,
    firmware=_BASIS,
    changes=always,
    confirm=lambda request: "" if request.confirm else "the total is lost",
)


@dataclass(frozen=True, slots=True)
class BasisBatchRequest:
    """Let ``volume`` flow, in the unit of the total; 0 ends batching, ``None`` asks."""

    volume: float | None = None


@dataclass(frozen=True, slots=True)
class BasisBatch:
    """The volume of a batch, in the unit of the total."""

    unit_id: str
    volume: float
    """0: batching is off."""


_BATCH = reply_shape(NUMBER + rb"(?:\s+\S+){0,2}")


def _batch_arguments(request: BasisBatchRequest, context: CommandContext) -> tuple[str, ...]:
    if request.volume is None:
        return ()
    if request.volume < 0:
        raise AlicatValidationError(f"a batch must not be negative, as {request.volume!r} is")
    return (decimal_text(request.volume, "the volume of a batch"),)


def _decode_batch(line: bytes, request: BasisBatchRequest, context: CommandContext) -> BasisBatch:
    match = match_reply(_BATCH, line, context, BASIS_BATCH.wanted)
    return BasisBatch(context.unit_id, float(match[2]))


BASIS_BATCH: Command[BasisBatchRequest, BasisBatch] = Command(
    name="basis_batch",
    token="TB",
    wanted="the volume of its batch",
    arguments=_batch_arguments,
    decode=_decode_batch,
    device_kinds=CONTROLLERS,
    firmware=_BASIS,
    changes=lambda request: request.volume is not None,
)


@dataclass(frozen=True, slots=True)
class BasisGainsRequest:
    """Set both gains of the control loop (0 to 65535 each); without them, asks."""

    proportional: int | None = None
    integral: int | None = None


@dataclass(frozen=True, slots=True)
class BasisGains:
    """The gains of the control loop."""

    unit_id: str
    proportional: int
    integral: int


_GAINS = reply_shape(rb"(\d{1,5})\s+(\d{1,5})")


def _gains_arguments(request: BasisGainsRequest, context: CommandContext) -> tuple[str, ...]:
    gains = (request.proportional, request.integral)
    if gains == (None, None):
        return ()
    if request.proportional is None or request.integral is None:
        raise AlicatValidationError("both gains are set together: state proportional and integral")
    return (
        whole(request.proportional, 0, _HIGHEST_GAIN, "proportional"),
        whole(request.integral, 0, _HIGHEST_GAIN, "integral"),
    )


def _decode_gains(line: bytes, request: BasisGainsRequest, context: CommandContext) -> BasisGains:
    match = match_reply(_GAINS, line, context, BASIS_GAINS.wanted)
    return BasisGains(context.unit_id, int(match[2]), int(match[3]))


BASIS_GAINS: Command[BasisGainsRequest, BasisGains] = Command(
    name="basis_gains",
    token="LCG",
    wanted="the gains of its control loop",
    arguments=_gains_arguments,
    decode=_decode_gains,
    device_kinds=CONTROLLERS,
    firmware=_BASIS,
    changes=lambda request: request.proportional is not None,
    saves=lambda request: request.proportional is not None,
)


@dataclass(frozen=True, slots=True)
class BasisHoldValveRequest:
    """Hold the valve at ``drive`` percent (0 to 100) until the hold is cancelled."""

    drive: float
    confirm: bool = False


BASIS_HOLD_VALVE: Command[BasisHoldValveRequest, ParsedFrame] = Command(
    name="basis_hold_valve",
    token="HPUR",
    wanted="a data frame with its valve held",
    arguments=lambda request, context: (bounded(request.drive, 0, 100, "the drive of the valve"),),
    decode=decode_frame,
    device_kinds=CONTROLLERS,
    firmware=_BASIS,
    changes=always,
    confirm=lambda request: (
        "" if request.confirm or request.drive == 0 else "it opens the valve whatever the setpoint"
    ),
)
