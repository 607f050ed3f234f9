"""One polled data frame: its times, its status codes, and how it is decoded.

A frame is decoded by a plan that is made once. It carries no checksum. What can be checked is its
form, and the form is rich: the unit's letter, the number of columns, the digits of each, and their
fixed widths. One regular expression checks all of it and cuts the columns out in the same pass,
which is also the fastest way to read a frame in Python.

Widths catch the commonest damage on a serial line, a lost byte: ``+014.62`` without its zero is
still a number, but not a column of seven characters. The widths of every firmware are not known, so
a width is required only if a sample frame of the instrument has it. A column may become wider (a
reading beyond its digits) but never narrower.

The same holds for the digits after the decimal point. They also show a change of the unit at the
panel: 500 SCCM has two of them and 0.500 SLPM three, in columns of the same width.

A gas name has no such form: a damaged ``N2`` reads ``Nr``. Users name their own mixes, so a name
may be unknown. A name that is neither a known gas nor one that this instrument sent before is
accepted when it arrives twice in succession.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from penstock._record import filled, frame_values
from penstock.alicat._bus.replies import refuse_line
from penstock.alicat.errors import AlicatParseError, ErrorContext
from penstock.alicat.registry import Gas, Statistic


class StatusCode(StrEnum):
    """A condition that the instrument reports with every data frame while it lasts."""

    ADC = "ADC"
    """The analogue-to-digital converter does not answer."""
    EXH = "EXH"
    """The exhaust valve is held open by hand."""
    HLD = "HLD"
    """The valve drive is held where it is."""
    LCK = "LCK"
    """The buttons of the front panel are locked."""
    MOV = "MOV"
    """Mass flow is beyond the sensor's range."""
    OPL = "OPL"
    """The over-pressure limit is acting."""
    OVR = "OVR"
    """The totalizer rolled over or stands at its maximum."""
    POV = "POV"
    """Pressure is beyond the sensor's range."""
    P2O = "P2O"
    """The second pressure sensor is beyond its range."""
    TMF = "TMF"
    """The totalizer missed flow, usually while MOV or VOV was on."""
    TOV = "TOV"
    """Temperature is beyond the sensor's range."""
    VTM = "VTM"
    """BASIS: the valve is driven beyond its limit."""
    VOV = "VOV"
    """Volumetric flow is beyond the sensor's range."""
    COM = "COM"
    """Advertised by 10v firmware; the captures do not say more than that it concerns
    communication."""
    GTA = "GTA"
    """Advertised by 10v20 firmware; its meaning is not stated in the captures."""


NO_STATUS: frozenset[StatusCode] = frozenset()
STATUS_BY_TOKEN: dict[bytes, StatusCode] = {code.value.encode(): code for code in StatusCode}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_CODES: frozenset[str] = frozenset()


def slots_of(kind: type[Any]) -> tuple[Any, ...]:
    """The slots of a dataclass, in the order of its fields, for ``filled``."""
    return tuple(getattr(kind, field.name) for field in fields(kind))


def utc_from_unix_ns(unix_ns: int) -> datetime:
    """The UTC time of a count of nanoseconds since 1970, cut to microseconds, exactly.

    Not ``datetime.fromtimestamp``: a float of today's seconds has steps of 0.24 µs and rounds.
    """
    return _EPOCH + timedelta(microseconds=unix_ns // 1000)


class FieldSchema(NamedTuple):
    """One field of a device's readings, as known before the first of them."""

    name: str
    kind: Literal["float", "text"]
    unit: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The values of an instrument at one moment.

    Both stamps of each clock are taken in this process: the request's just before its first byte
    is handed to the port, the reception's just after its last byte was. The instrument measured
    between the two. Use the monotonic clock for intervals: the wall clock is set now and then.
    """

    unit_id: str
    values: Mapping[str, float | str]
    """Field name to value, in the order of the frame. A numeric field that the instrument
    reports as absent (dashes) is ``nan``."""
    units: Mapping[str, str]
    """Field name to the label of its unit, for fields that have one."""
    status: frozenset[StatusCode]
    requested_monotonic_ns: int
    requested_unix_ns: int
    monotonic_ns: int
    """Reception, on the monotonic clock."""
    received_unix_ns: int
    unknown_status: frozenset[str] = _NO_CODES
    """Codes that the instrument advertised and sent and that :class:`StatusCode` does not
    know."""
    names_by_statistic: Mapping[Statistic, str] | None = None

    @property
    def requested_at(self) -> datetime:
        """When the request was sent (UTC)."""
        return utc_from_unix_ns(self.requested_unix_ns)

    @property
    def received_at(self) -> datetime:
        """When the reply was complete (UTC)."""
        return utc_from_unix_ns(self.received_unix_ns)

    @property
    def received_monotonic_ns(self) -> int:
        """Reception, on the monotonic clock; the same as :attr:`monotonic_ns`."""
        return self.monotonic_ns

    @property
    def t_mono_ns(self) -> int:
        """Reception, on the monotonic clock; the same as :attr:`monotonic_ns`."""
        return self.monotonic_ns

    @property
    def latency_s(self) -> float:
        """Seconds from request to reception, on the monotonic clock."""
        return (self.monotonic_ns - self.requested_monotonic_ns) / 1e9

    def get_float(self, name: str) -> float | None:
        """The number in field ``name``, or ``None`` if there is no such field or no number."""
        value = self.values.get(name)
        return value if isinstance(value, float) else None

    def get_statistic(self, statistic: Statistic) -> float | str | None:
        """The value of a quantity, whatever this firmware calls its field; ``None`` if absent."""
        name = (self.names_by_statistic or {}).get(statistic)
        return None if name is None else self.values.get(name)

    def as_dict(self) -> dict[str, float | str]:
        """The values, ``status`` as ``"HLD,MOV"`` and ``received_at`` as ISO 8601 text."""
        return {
            **self.values,
            "status": ",".join(sorted({*self.status, *self.unknown_status})),
            "received_at": self.received_at.isoformat(),
        }


_NUMBER = rb"([+-]?\d+(?:\.\d*)?|-{2,})"
_NAN = float("nan")
_GASES = frozenset(gas.value.encode() for gas in Gas)


def _number_with(decimals: int | None) -> bytes:
    if decimals is None:
        return _NUMBER
    if decimals == 0:
        return rb"([+-]?\d+\.?|-{2,})"
    return rb"([+-]?\d+\.\d{%d}|-{2,})" % decimals


class Column(NamedTuple):
    """A column of a frame: its name, what it holds, and its advertised width if known."""

    name: str
    kind: Literal["float", "text"]
    width: int | None
    is_gas: bool = False
    decimals: int | None = None
    """Advertised digits after the decimal point, if known."""


@dataclass(frozen=True, slots=True)
class ParsedFrame:
    """The values of one frame, without times."""

    unit_id: str
    values: Mapping[str, float | str]
    status: frozenset[StatusCode]
    unknown_status: frozenset[str]


_SLOTS_OF_FRAME = slots_of(ParsedFrame)

_Plan = tuple[bytes, tuple[str, ...], tuple[int, ...], tuple[int, ...], int, dict[bytes, str]]


class UnseenGasError(AlicatParseError):
    """A gas name that needs a second frame to be accepted."""


@functools.lru_cache(maxsize=512)
def _pattern(
    unit_id: str,
    kinds: tuple[str, ...],
    widths: tuple[int | None, ...],
    decimals: tuple[int | None, ...],
) -> Callable[[bytes], re.Match[bytes] | None]:
    parts = [re.escape(unit_id.encode())]
    for kind, width, shown in zip(kinds, widths, decimals, strict=True):
        if kind == "float":
            ahead = b"" if width is None else b"(?=[^ ]{%d})" % width
            parts.append(b" +" + ahead + _number_with(shown))
        elif width is None:
            parts.append(b" +([!-~]+)")
        else:
            # Exactly the width, padded on the left; or longer, then without padding.
            parts.append(b" ((?=[ ]*[!-~])[ -~]{%d}(?= |\\Z)|[!-~]{%d,})" % (width, width))
    return re.compile(b"".join(parts) + rb"((?: +[A-Z0-9]{3})*)\Z").match


def _kinds(columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple([column.kind for column in columns])


def has_columns(line: bytes, unit_id: str, columns: tuple[Column, ...]) -> bool:
    """Whether ``line`` is a frame of a unit with these columns, whatever widths and decimals."""
    undecided = (None,) * len(columns)
    return _pattern(unit_id, _kinds(columns), undecided, undecided)(line) is not None


class FrameDecoder:
    """Decodes the data frames of one unit. A pure function of the line; reusable and cheap.

    Args:
        columns: The columns after the unit id, in order.
        unit_id: The letter that every frame must begin with.
        advertised: Status codes that the instrument announced.
        sample: A frame of this instrument. Widths and decimals that it confirms are required.
    """

    __slots__ = (
        "_advertised",
        "_confirmed_decimals",
        "_converters",
        "_gases",
        "_match",
        "_names",
        "_plan",
        "_texts",
        "_unseen_gas",
        "columns",
        "confirmed_widths",
        "unit_id",
    )

    def __init__(
        self,
        columns: tuple[Column, ...],
        unit_id: str,
        advertised: frozenset[str] = _NO_CODES,
        sample: bytes | None = None,
    ) -> None:
        self.columns: tuple[Column, ...] = columns
        self.unit_id: str = unit_id
        self.confirmed_widths: tuple[int | None, ...] = (None,) * len(columns)
        self._confirmed_decimals: tuple[int | None, ...] = (None,) * len(columns)
        self._advertised = advertised
        self._names = tuple(column.name for column in columns)
        self._texts: dict[bytes, str] = {}
        self._gases: dict[bytes, str] = {}
        self._unseen_gas: bytes | None = None
        self._converters = tuple(self._converter(column) for column in columns)
        self._match = self._compile()
        if sample is not None:
            self.confirmed_widths = self._confirm(sample)
            self._match = self._compile()
            match = self._match(sample)
            for column, text in zip(columns, match.groups() if match else (), strict=False):
                if column.is_gas:
                    self._gases[text] = self._text(text)
        self._plan = self._usual_plan()

    def __call__(self, line: bytes) -> ParsedFrame:
        """Decode ``line``, which has no surrounding white space.

        Raises:
            AlicatProtocolError: it is not a frame of this unit and format; the class tells why.
        """
        if self._plan is not None:
            usual = frame_values(*self._plan, line)
            if usual is not None:
                values = MappingProxyType(usual)
                return filled(
                    ParsedFrame, _SLOTS_OF_FRAME, self.unit_id, values, NO_STATUS, _NO_CODES
                )
        return self.by_pattern(line)

    def by_pattern(self, line: bytes) -> ParsedFrame:
        """Decode ``line`` by the regular expression alone: every frame, the usual ones too."""
        match = self._match(line)
        if match is None:
            refuse_line(line, self.unit_id, wanted=self._wanted())
        *texts, tail = match.groups()
        try:
            values = {
                name: convert(text)
                for name, convert, text in zip(self._names, self._converters, texts, strict=True)
            }
        except ValueError:
            values = self._with_absent(texts)
        if tail:
            status, unknown = self._codes(line, tail)
            return ParsedFrame(self.unit_id, MappingProxyType(values), status, unknown)
        return ParsedFrame(self.unit_id, MappingProxyType(values), NO_STATUS, _NO_CODES)

    def accepts(self, line: bytes) -> bool:
        """Whether ``line`` has the form of a frame of this unit."""
        return self._match(line) is not None

    @property
    def confirms_every_column(self) -> bool:
        """Whether the sample showed every width, and the decimals of every number."""
        return None not in self.confirmed_widths and not any(
            column.kind == "float" and decimals is None
            for column, decimals in zip(self.columns, self._confirmed_decimals, strict=True)
        )

    # -- the plan

    def _compile(self) -> Callable[[bytes], re.Match[bytes] | None]:
        return _pattern(
            self.unit_id, _kinds(self.columns), self.confirmed_widths, self._confirmed_decimals
        )

    def _usual_plan(self) -> _Plan | None:
        """What the extension needs for a frame without status codes, with at most a last text."""
        numbers = [column for column in self.columns if column.kind == "float"]
        rest = self.columns[len(numbers) :]
        if len(rest) > 1 or self.columns[: len(numbers)] != tuple(numbers):
            return None
        count = len(numbers)
        seen = self._gases if rest and rest[0].is_gas else self._texts
        return (
            self.unit_id.encode(),
            self._names,
            tuple(width or 0 for width in self.confirmed_widths[:count]),
            tuple(-1 if shown is None else shown for shown in self._confirmed_decimals[:count]),
            (self.confirmed_widths[count] or 0) if rest else 0,
            seen,
        )

    def _confirm(self, sample: bytes) -> tuple[int | None, ...]:
        """The widths that the sample shows, where they agree with what was advertised.

        Also sets the decimals that are required.
        """
        match = self._match(sample)
        if match is None:
            refuse_line(sample, self.unit_id, wanted=self._wanted())
        widths: list[int | None] = []
        decimals: list[int | None] = []
        for index, column in enumerate(self.columns, start=1):
            start, end = match.span(index)
            if column.kind == "text":
                # With its padding: back to the end of the column before, less one separator.
                before = match.end(index - 1) if index > 1 else len(self.unit_id)
                padded = end - before - 1
                widths.append(padded if column.width in (None, padded) else None)
                decimals.append(None)
            else:
                width = end - start
                # A legacy table counts the sign of its bounds; the column need not have one.
                unsigned = sample[start : start + 1].isdigit()
                agrees = column.width in ((width, width + 1) if unsigned else (width,))
                widths.append(width if agrees else None)
                shown = len(sample[start:end].partition(b".")[2])
                decimals.append(shown if agrees and shown == column.decimals else None)
        self._confirmed_decimals = tuple(decimals)
        return tuple(widths)

    def _wanted(self) -> str:
        return f"a data frame of {len(self.columns)} columns ({', '.join(self._names)})"

    def _converter(self, column: Column) -> Callable[[bytes], float | str]:
        if column.kind == "float":
            return float
        return self._gas if column.is_gas else self._text

    # -- the rarer contents

    def _gas(self, raw: bytes) -> str:
        gas = self._gases.get(raw)
        if gas is None:
            name = raw.lstrip(b" ")
            if name not in _GASES and name != self._unseen_gas:
                self._unseen_gas = name
                raise UnseenGasError(
                    f"unit {self.unit_id} reports the gas {name!r}, which is not a known gas and "
                    "is new for this instrument; it is accepted when it is reported again",
                    field_name="Gas",
                    actual=raw,
                    context=ErrorContext(unit_id=self.unit_id, raw_response=raw),
                )
            gas = self._text(raw)
            if len(self._gases) < 64:
                self._gases[raw] = gas
        return gas

    def _text(self, raw: bytes) -> str:
        text = self._texts.get(raw)
        if text is None:
            stripped = raw.lstrip(b" ")
            if b" " in stripped or stripped in STATUS_BY_TOKEN:
                raise self._misplaced(raw)
            text = stripped.decode("ascii")
            if len(self._texts) < 64:
                self._texts[raw] = text
        return text

    def _with_absent(self, texts: list[bytes]) -> dict[str, float | str]:
        values: dict[str, float | str] = {}
        for column, text in zip(self.columns, texts, strict=True):
            if column.kind == "text":
                values[column.name] = self._gas(text) if column.is_gas else self._text(text)
            else:
                values[column.name] = _NAN if text.startswith(b"--") else float(text)
        return values

    def _codes(self, line: bytes, tail: bytes) -> tuple[frozenset[StatusCode], frozenset[str]]:
        known: set[StatusCode] = set()
        unknown: set[str] = set()
        for token in tail.split():
            code = STATUS_BY_TOKEN.get(token)
            if code is not None:
                known.add(code)
            elif token.decode("ascii") in self._advertised:
                unknown.add(token.decode("ascii"))
            else:
                raise self._misplaced(line)
        return frozenset(known), frozenset(unknown)

    def _misplaced(self, raw: bytes) -> AlicatParseError:
        return AlicatParseError(
            f"unit {self.unit_id}: {raw!r} is not {self._wanted()}",
            field_name="data_frame",
            expected=self._wanted(),
            actual=raw,
            context=ErrorContext(unit_id=self.unit_id, raw_response=raw),
        )
