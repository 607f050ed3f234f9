"""Setpoints on the wire: numbers that every firmware reads, their limits, and the answers.

The same number in another unit may be a thousand times the flow. So a number travels to the encoder
together with its unit and with the proof of that unit, as one immutable object, and nothing that
goes with it is looked up a second time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Complex, Real
from typing import SupportsFloat, SupportsIndex

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.reading import Reading
from penstock.alicat.errors import AlicatCommandRejectedError, AlicatValidationError, ErrorContext
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import are_same_unit, clean_unit_label


@dataclass(frozen=True, slots=True)
class FullScaleValue:
    """The largest value of a quantity that the instrument is made for."""

    statistic: Statistic
    value: float
    unit: Unit | None
    unit_label: str


@dataclass(frozen=True, slots=True)
class SetpointState:
    """The setpoint of a controller.

    ``requested`` is the commanded setpoint; ``current`` is the one that it follows at this moment,
    which differs during a ramp. If the firmware reports only one, both have that value.
    """

    unit_id: str
    current: float
    requested: float
    unit: Unit | None
    unit_label: str | None
    reading: Reading | None = None
    """The whole data frame, where the firmware answers with one."""
    commanded: float | None = None
    """The value that this call sent, ``None`` if it only asked."""
    resolution: float = 0.0
    """The step of the last digit that the instrument reports."""

    @property
    def accepted(self) -> bool:
        """Whether the instrument reports the commanded value as its setpoint.

        ``False`` usually means that its setpoint source is the analogue input: it then answers
        serial setpoints and ignores them.
        """
        if self.commanded is None:
            return True
        tolerance = 0.51 * self.resolution + 1e-6 * abs(self.commanded)
        return abs(self.requested - self.commanded) <= tolerance


_DIGITS = 9
_DECIMALS = 9
_LARGEST = 1e9


#: What can be passed as a number: int, float, Decimal, Fraction, and the scalars of numpy.
Number = SupportsFloat | SupportsIndex


def as_number(value: Number, what: str = "a setpoint") -> float:
    """A number as a float.

    Args:
        value: An integer, float, Decimal, Fraction, or another object that converts itself to a
            float. Truth values and strings are none: they are mistakes.
        what: The name of the number, for errors.

    Raises:
        AlicatValidationError: it is not a finite number below 10⁹, or not a number at all.
    """
    given: object = value
    kind = type(given).__name__
    number: float | None = None
    if kind not in ("bool", "bool_") and not (
        isinstance(given, Complex) and not isinstance(given, Real)
    ):
        try:
            if isinstance(given, SupportsFloat):
                number = float(given)
            elif isinstance(given, SupportsIndex):
                number = float(given.__index__())
        except OverflowError:
            number = math.inf if isinstance(given, int | Fraction) else None
        except (TypeError, ValueError):
            pass
    if number is None:
        raise AlicatValidationError(f"{what} must be a number, not {given!r}")
    if not math.isfinite(number) and not isinstance(given, int | Fraction):
        raise AlicatValidationError(f"{what} must be a finite number, not {given!r}")
    if abs(number) >= _LARGEST:
        raise AlicatValidationError(
            f"{what} of {given!r} is larger than any instrument's range: check the unit"
        )
    return number


def decimal_text(value: Number, what: str = "a setpoint") -> str:
    """A number as instruments read it: decimal, never with an exponent.

    At most nine significant digits, which distinguish all single-precision numbers (the instruments
    compute in single precision), and at most nine decimals.

    Args:
        value: As for :func:`as_number`.
        what: The name of the number, for errors.

    Raises:
        AlicatValidationError: it is not a finite number below 10⁹, or not a number at all.
    """
    number = as_number(value, what)
    exact = value if isinstance(value, Decimal) else Decimal(str(number))
    decimals = min(_DECIMALS, max(0, _DIGITS - 1 - exact.adjusted())) if exact else 0
    text = f"{exact:.{decimals}f}"
    if "." in text:
        text = text.rstrip("0")
        if text.endswith("."):
            text += "0"
    else:
        text += ".0"
    return "0.0" if float(text) == 0 else text


_REPLY = re.compile(
    rb"([A-Z])\s+([+-]?\d+(?:\.\d*)?)\s+([+-]?\d+(?:\.\d*)?)\s+(\d{1,3})\s+([^\s\d+-]\S*(?: \S+)?)$"
)
_FULL_SCALE = re.compile(rb"([A-Z])\s+([+-]?\d+(?:\.\d*)?)\s+(\d{1,3})\s+(\S+(?: \S+)?)$")
_LOOKS_LIKE_FRAME = re.compile(rb"[A-Z](?:\s+[+-]?\d+\.\d*){2,}(?:\s+\S+)*$")


def parse_setpoint_reply(line: bytes, unit_id: str) -> SetpointState:
    """Read an answer to ``LS``: ``A +078.95 +078.88 12 SCCM``.

    Raises:
        AlicatProtocolError: the line is none; the class tells why. A data frame instead of an
            answer is how older firmware refuses the command.
    """
    match = _REPLY.match(line)
    if match is None or match[1] != unit_id.encode():
        if line[:1] == unit_id.encode() and _LOOKS_LIKE_FRAME.match(line):
            raise AlicatCommandRejectedError(
                f"unit {unit_id} does not know LS: it answered with a data frame {line!r}",
                context=ErrorContext(command_name="LS", unit_id=unit_id, raw_response=line),
            )
        refuse_line(line, unit_id, wanted="its setpoint")
    label = clean_unit_label(match[5].decode("ascii", "replace"))
    return SetpointState(
        unit_id=unit_id,
        current=float(match[2]),
        requested=float(match[3]),
        unit=Unit.from_label(label),
        unit_label=label,
        resolution=_last_digit(match[3]),
    )


def parse_full_scale(line: bytes, unit_id: str, statistic: Statistic) -> FullScaleValue | None:
    """Read an answer to ``FPF``: ``A +500.00 12 SCCM``; ``None`` for a quantity it lacks.

    Raises:
        AlicatProtocolError: the line is not such an answer; the class says why.
    """
    match = _FULL_SCALE.match(line)
    if match is None or match[1] != unit_id.encode():
        refuse_line(line, unit_id, wanted="its full scale")
    if match[4].strip(b"-") == b"":
        return None
    label = clean_unit_label(match[4].decode("ascii", "replace"))
    return FullScaleValue(statistic, float(match[2]), Unit.from_label(label), label)


def _last_digit(number: bytes) -> float:
    return float(10.0 ** -len(number.partition(b".")[2]))


@dataclass(frozen=True, slots=True)
class ProvenNumber:
    """A number whose unit the instrument has confirmed.

    Made by :meth:`penstock.alicat._session.setpoint_proof.SetpointProof.prove`.
    """

    value: float
    unit_label: str | None
    """The unit, as the instrument has written it; ``None`` for an instrument that never states it.
    """
    quantity: Statistic | None
    """The setpoint that the unit belongs to, where the data frame names it."""
    generation: int
    """The generation of the proof. Whatever may change a unit begins a new one; a number of an
    older generation is not sent."""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:g}" if self.unit_label is None else f"{self.value:g} {self.unit_label}"


@dataclass(frozen=True, slots=True)
class SetpointLimits:
    """The lowest and highest setpoint that a program allows, in one unit of one quantity."""

    low: float | None
    high: float | None
    unit_label: str | None
    """``None``: the unit is unknown, and so must that of a setpoint be."""
    quantity: Statistic | None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise AlicatValidationError(
                f"the lower limit {self.low:g} is above the upper limit {self.high:g}"
            )

    def objection(self, number: ProvenNumber) -> str | None:
        """Why a number is not allowed; ``None`` if it is.

        A number in another unit or of another quantity cannot be compared, so it is not allowed.
        """
        if self.low is None and self.high is None:
            return None
        if not self._compares_with(number):
            return (
                f"setpoint {number} cannot be compared with the limits {self}: state limits in its "
                "unit with limit_setpoint(low, high, unit=...)"
            )
        low, high = self.low, self.high
        if (low is not None and number.value < low) or (high is not None and number.value > high):
            return (
                f"setpoint {number} is outside the limits that were set ({self}): change them "
                "with limit_setpoint()"
            )
        return None

    def _compares_with(self, number: ProvenNumber) -> bool:
        if self.quantity is not number.quantity:
            return False
        if self.unit_label is None or number.unit_label is None:
            return self.unit_label is number.unit_label
        return are_same_unit(self.unit_label, number.unit_label)

    def __str__(self) -> str:
        low = "any" if self.low is None else f"{self.low:g}"
        high = "any" if self.high is None else f"{self.high:g}"
        unit = "" if self.unit_label is None else f" {self.unit_label}"
        return f"{low} to {high}{unit}"
