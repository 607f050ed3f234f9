"""The columns of a data frame: an instrument's own table (``??D*``), and that of BASIS instruments.

Two dialects of the table are known, told apart by their first row. *Default*, firmware 6v21 to
10v20::

    A D00 ID_ NAME______________________ TYPE_______ WIDTH NOTES___________________
    A D02 002 Abs Press                  s decimal     7/2 010 02 PSIA
    A D09 702 *Status                    string          3 OPL

*Legacy*, 5v12 and GP, without statistic numbers but with ranges::

    A  D00 NAME_______ TYPE_____ MinVal_  MaxVal_  UNITS__
    A  D02 Pressure    signed    +000.00  +160.00     PSIA
    A  D09 Status      string         na      LCK       na

The firmware family does not determine the dialect, so the row decides.

BASIS instruments do not describe their frame. The BASIS 2 operating manual lists its columns::

    A +24.57 +100.0 +0021513.0 +100.0 +55.13     N2

The fields are unit id, temperature in °C, flow, total, for controllers also setpoint and valve
drive in percent, then the gas and the status codes. The units of flow and total are queried (``FPF
0``, ``FPF 1``).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Literal

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.reading import (
    Column,
    FieldSchema,
    FrameDecoder,
    ParsedFrame,
    has_columns,
)
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic, Unit
from penstock.alicat.registry.units import clean_unit_label, code_of_unit

if TYPE_CHECKING:
    from penstock.alicat._bus.client import AlicatProtocolClient


class DataFrameFormatFlavor(Enum):
    """The dialect of the describing table."""

    DEFAULT = "default"
    LEGACY = "legacy"
    FIXED = "fixed"
    """No table: the columns of BASIS instruments are those of their manual."""


@dataclass(frozen=True, slots=True)
class DataFrameField:
    """One column of the data frame. Unit id and status codes are not columns."""

    name: str
    """The name with underscores for spaces: ``Mass_Flow``."""
    raw_name: str
    type_name: str
    kind: Literal["float", "text"]
    statistic: Statistic | None
    unit_label: str | None
    """The unit beside the column (``PSIA``), with a real degree sign."""
    unit: Unit | None
    """The unit, if it is a known one (``Unit.PSI``)."""
    width: int | None
    """Characters of the column, as advertised."""
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    """Digits after the decimal point, as advertised."""
    unit_code: int | None = None
    """The number of the unit, as advertised."""

    @property
    def is_stated_twice(self) -> bool:
        """Whether the quantity and the unit are known, and number and name agree for both."""
        statistic, unit = self.statistic, self.unit
        if statistic is None or Statistic.from_name(self.name) is not statistic:
            return False
        if self.kind == "text":
            return self.unit_label is None
        return unit is not None and self.unit_code == code_of_unit(statistic, unit)


@dataclass(frozen=True, slots=True)
class DataFrameFormat:
    """The columns of an instrument's data frame, in order."""

    fields: tuple[DataFrameField, ...]
    flavor: DataFrameFormatFlavor
    status_codes: frozenset[str]
    """The codes that the instrument says it may append."""
    is_stated_twice: bool = dataclasses.field(init=False, repr=False, compare=False)
    """Whether the table states everything twice, so that each damaged byte is noticed."""
    _columns: tuple[Column, ...] = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(
            Column(f.name, f.kind, f.width, f.statistic is Statistic.FLUID_NAME, f.decimals)
            for f in self.fields
        )
        object.__setattr__(self, "_columns", columns)
        statistics = {field.statistic for field in self.fields}
        twice = len(statistics) == len(columns) and all(f.is_stated_twice for f in self.fields)
        object.__setattr__(self, "is_stated_twice", twice)

    def names(self) -> tuple[str, ...]:
        """The field names, in order."""
        return tuple(field.name for field in self.fields)

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field, in order."""
        return tuple(FieldSchema(f.name, f.kind, f.unit_label) for f in self.fields)

    def units(self) -> dict[str, str]:
        """Unit labels by field name, for fields that have one."""
        return {f.name: f.unit_label for f in self.fields if f.unit_label is not None}

    @property
    def characters(self) -> int:
        """The approximate length of a frame in characters, with its end."""
        return 2 + sum(1 + (field.width or _USUAL_WIDTH) for field in self.fields)

    @property
    def setpoint_field(self) -> DataFrameField | None:
        """The column that holds the setpoint; meters have none."""
        for field in self.fields:
            if field.statistic is not None and field.statistic.is_setpoint:
                return field
        for field in self.fields:
            if field.kind == "float" and "setp" in field.name.casefold():
                return field
        return None

    def decoder(self, unit_id: str, sample: bytes | None = None) -> FrameDecoder:
        """A decoder for frames of ``unit_id``; see :class:`FrameDecoder` for ``sample``."""
        return FrameDecoder(self._columns, unit_id, self.status_codes, sample)

    def fits(self, line: bytes, unit_id: str) -> bool:
        """Whether ``line`` is a frame of ``unit_id`` with these columns, of any width."""
        return has_columns(line, unit_id, self._columns)

    def parse(self, raw: bytes, unit_id: str | None = None) -> ParsedFrame:
        """Decode one frame. A poll keeps its decoder instead.

        Raises:
            AlicatProtocolError: the line is not a frame of this format (and unit, if given).
        """
        line = raw.strip()
        return self.decoder(unit_id or line[:1].decode("ascii", "replace"), line)(line)


_USUAL_WIDTH = 7
_TYPES = "decimal|integer|int|uint|float|double|string|text|char|signed|unsigned"
_DEFAULT_HEADER = re.compile(r"\S+\s+D0+\s+ID_\s+NAME")
_LEGACY_HEADER = re.compile(r"\S+\s+D0+\s+NAME_")
_DEFAULT_ROW = re.compile(
    rf"\S\s+D(?P<row>\d+)\s+(?P<statistic>\d+)\s+(?P<star>\*?)(?P<name>\S.*?)\s+"
    rf"(?P<type>(?:[su] )?(?:{_TYPES}))\s+(?P<width>\d+)(?:/(?P<decimals>\d+))?"
    r"(?:\s+(?P<notes>\S.*))?$"
)
_LEGACY_ROW = re.compile(
    rf"\S\s+D(?P<row>\d+)\s+(?P<name>\S.*?)\s+(?P<type>{_TYPES})\s+"
    r"(?P<minimum>\S+)\s+(?P<maximum>\S+)\s+(?P<unit>\S+)$"
)
_UNIT_NOTES = re.compile(r"(\d+)\s+\d+\s+(\S.*)$")
_TEXT_TYPES = frozenset({"string", "text", "char"})
_CODE = re.compile(r"[A-Z0-9]{3}$")
_ROW = re.compile(rb"[A-Z]\s+D\d+\s")
_LAST_DEFAULT = re.compile(rb"[A-Z]\s+D\d+\s+\d+\s+\*\S.*\sLCK$")
_BACKSPACE = 8
_LAST_LEGACY = re.compile(rb"[A-Z]\s+D\d+\s+Status\s.*\sMOV\s+\S+$")


def is_format_row(line: bytes) -> bool:
    """Whether a line can be a row of the table, of any unit."""
    return _ROW.match(line) is not None or _ROW.match(_without_padding(line)) is not None


def is_last_format_row(line: bytes) -> bool:
    """Whether a row is the one that ends every captured table of its dialect.

    A table that continues after it loses nothing important: status codes are known without a table,
    and all columns are before them.
    """
    # find() and a number, because `in` with bytes raises an error and clears it each time.
    if line.find(b"LCK") < 0 and line.find(b"MOV") < 0 and _BACKSPACE not in line:
        return False
    line = _without_padding(line)
    return _LAST_DEFAULT.match(line) is not None or _LAST_LEGACY.match(line) is not None


def parse_data_frame_format(lines: Sequence[bytes]) -> DataFrameFormat:
    """Make the format of the rows of a ``??D*`` table.

    Raises:
        AlicatParseError: a row is missing or not understood. A guess would put values under wrong
            names.
    """
    return _format_of(tuple(lines))


# A lost line is opened again by the same questions, and a table is parsed for longer than it comes.
@functools.lru_cache(maxsize=256)
def _format_of(lines: tuple[bytes, ...]) -> DataFrameFormat:
    rows = [text for text in (_text(line) for line in lines) if text]
    if not rows:
        raise _error("the data frame table is empty", b"")
    if _DEFAULT_HEADER.match(rows[0]):
        flavor, body = DataFrameFormatFlavor.DEFAULT, rows[1:]
    elif _LEGACY_HEADER.match(rows[0]):
        flavor, body = DataFrameFormatFlavor.LEGACY, rows[1:]
    else:
        raise _error("the data frame table does not begin with a known heading", rows[0])

    columns: list[DataFrameField] = []
    codes: set[str] = set()
    for number, row in enumerate(body, start=1):
        pattern = _DEFAULT_ROW if flavor is DataFrameFormatFlavor.DEFAULT else _LEGACY_ROW
        match = pattern.match(row)
        if match is None:
            raise _error("a row of the data frame table is not understood", row)
        if int(match["row"]) != number:
            raise _error(f"the data frame table lacks row D{number:02d}", row)
        if number == 1:
            continue  # the unit id itself
        code = _status_code_of(match, flavor)
        if code is not None:
            codes.add(code)
        elif flavor is DataFrameFormatFlavor.DEFAULT:
            columns.append(_default_field(match))
        else:
            columns.append(_legacy_field(match))
    if not columns:
        raise _error("the data frame table names no column", rows[-1])
    return DataFrameFormat(_with_distinct_names(columns), flavor, frozenset(codes))


def _status_code_of(match: re.Match[str], flavor: DataFrameFormatFlavor) -> str | None:
    """The code, if the row announces a condition and no column."""
    if flavor is DataFrameFormatFlavor.LEGACY:
        return match["maximum"] if match["name"] in ("Error", "Status") else None
    if not match["star"]:
        return None
    notes = (match["notes"] or "").strip()
    if match["type"] == "string" and _CODE.match(notes):
        return notes
    raise _error("a conditional column is not a status code", match.string)


def _default_field(match: re.Match[str]) -> DataFrameField:
    notes = _UNIT_NOTES.match(match["notes"] or "")
    statistic = Statistic.from_code(int(match["statistic"]))
    decimals = match["decimals"] if match["type"] not in _TEXT_TYPES else None
    return _field(
        match,
        notes[2] if notes else None,
        statistic,
        int(match["width"]),
        decimals=None if decimals is None else int(decimals),
        unit_code=int(notes[1]) if notes else None,
    )


def _legacy_field(match: re.Match[str]) -> DataFrameField:
    label = match["unit"]
    name = match["name"].casefold()
    if name == "pressure":
        statistic: Statistic | None = {
            "a": Statistic.ABS_PRESS,
            "g": Statistic.GAUGE_PRESS,
            "d": Statistic.DIFF_PRESS,
        }.get(label[-1:].casefold())
    else:
        statistic = _LEGACY_STATISTICS.get(name)
    if statistic is Statistic.TEMP_STREAM and len(label) == 1:
        label = f"°{label}"
    numeric = match["type"] not in _TEXT_TYPES
    return _field(
        match,
        None if label.casefold() == "na" else label,
        statistic,
        len(match["maximum"]) if numeric else None,
        _number_or_none(match["minimum"]) if numeric else None,
        _number_or_none(match["maximum"]) if numeric else None,
        len(match["maximum"].partition(".")[2]) if numeric else None,
    )


_LEGACY_STATISTICS = {
    "temperature": Statistic.TEMP_STREAM,
    "volumetric": Statistic.VOL_FLOW,
    "mass": Statistic.MASS_FLOW,
    "setpoint": Statistic.SETPT,
    "gas": Statistic.FLUID_NAME,
}


def _field(
    match: re.Match[str],
    label: str | None,
    statistic: Statistic | None,
    width: int | None,
    minimum: float | None = None,
    maximum: float | None = None,
    decimals: int | None = None,
    unit_code: int | None = None,
) -> DataFrameField:
    raw_name = match["name"].strip()
    label = clean_unit_label(label) if label else None
    return DataFrameField(
        name="_".join(raw_name.split()),
        raw_name=raw_name,
        type_name=match["type"],
        kind="text" if match["type"] in _TEXT_TYPES else "float",
        statistic=statistic,
        unit_label=label,
        unit=Unit.from_label(label) if label else None,
        width=width,
        minimum=minimum,
        maximum=maximum,
        decimals=decimals,
        unit_code=unit_code,
    )


def _with_distinct_names(columns: list[DataFrameField]) -> tuple[DataFrameField, ...]:
    seen: set[str] = set()
    distinct: list[DataFrameField] = []
    for column in columns:
        name, number = column.name, 2
        while name in seen:
            name, number = f"{column.name}_{number}", number + 1
        seen.add(name)
        distinct.append(column if name == column.name else replace(column, name=name))
    return tuple(distinct)


def _number_or_none(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[+-]?\d+(?:\.\d*)?", text) else None


def _without_padding(line: bytes) -> bytes:
    # GP instruments write backspaces into their tables, for terminals.
    return line.replace(b"\x08", b"").strip()


def _text(line: bytes) -> str:
    return _without_padding(line).decode("ascii", "replace")


def _error(message: str, row: str | bytes) -> AlicatParseError:
    raw = row.encode("ascii", "replace") if isinstance(row, str) else row
    return AlicatParseError(
        f"{message}: {row!r}" if row else message,
        field_name="data_frame_table",
        actual=row,
        context=ErrorContext(command_name="??D*", raw_response=raw),
    )


_FRAME = re.compile(rb"([A-Z])((?:\s+[+-]?\d+(?:\.\d*)?)+)\s+([A-Za-z]\S*)((?:\s+[A-Z]{3})*)$")
_FULL_SCALE = re.compile(rb"([A-Z])\s+([+-]?\d+(?:\.\d*)?)\s+([^\s\d]\S*)$")
_STATUS_CODES = frozenset({"TOV", "MOV", "OVR", "HLD", "VTM"})
_METER_NUMBERS = 3
_CONTROLLER_NUMBERS = 5


async def read_basis_columns(
    client: AlicatProtocolClient, unit_id: str, *, timeout: float, generation: int | None = None
) -> DataFrameFormat:
    """Ask for a frame and for the units of flow and total.

    Raises:
        AlicatParseError: the frame has another number of columns than the manual states.
        AlicatError: as for :func:`penstock.alicat._session.identification.identify`.
    """

    def sample_of(line: bytes) -> bytes:
        match = _FRAME.match(line)
        if (
            match is None
            or match[1] != unit_id.encode()
            or len(match[2].split()) not in (_METER_NUMBERS, _CONTROLLER_NUMBERS)
        ):
            refuse_line(line, unit_id, wanted="the data frame of a BASIS instrument")
        return line

    async def full_scale(quantity: int) -> tuple[float | None, str | None]:
        def decode(line: bytes) -> tuple[float, str]:
            match = _FULL_SCALE.match(line)
            if match is None or match[1] != unit_id.encode():
                refuse_line(line, unit_id, wanted="its full scale")
            return float(match[2]), clean_unit_label(match[3].decode("ascii", "replace"))

        command = f"{unit_id}FPF {quantity}\r".encode()
        try:
            exchange = await client.exchange(
                command, decode, timeout=timeout, generation=generation
            )
        except AlicatConnectionError:
            raise
        except AlicatError:
            return None, None
        return exchange.value

    sample = await client.exchange(
        f"{unit_id}\r".encode(), sample_of, timeout=timeout, generation=generation
    )
    match = _FRAME.match(sample.value)
    assert match is not None
    controls = len(match[2].split()) == _CONTROLLER_NUMBERS
    most, flow_unit = await full_scale(0)
    _, total_unit = await full_scale(1)
    fields = [
        _basis_field("Flow_Temp", Statistic.TEMP_STREAM, "°C"),
        _basis_field("Mass_Flow", Statistic.MASS_FLOW, flow_unit),
        _basis_field("Mass_Total", None, total_unit),
    ]
    if controls:
        fields.append(
            _basis_field("Mass_Flow_Setpt", Statistic.MASS_FLOW_SETPT, flow_unit, maximum=most)
        )
        fields.append(_basis_field("Valve_Drive", None, "%"))
    fields.append(_basis_field("Gas", Statistic.FLUID_NAME, None, kind="text"))
    return DataFrameFormat(tuple(fields), DataFrameFormatFlavor.FIXED, _STATUS_CODES)


def _basis_field(
    name: str,
    statistic: Statistic | None,
    label: str | None,
    *,
    kind: Literal["float", "text"] = "float",
    maximum: float | None = None,
) -> DataFrameField:
    return DataFrameField(
        name=name,
        raw_name=name.replace("_", " "),
        type_name="string" if kind == "text" else "decimal",
        kind=kind,
        statistic=statistic,
        unit_label=label,
        unit=Unit.from_label(label) if label else None,
        width=None,
        maximum=maximum,
    )
