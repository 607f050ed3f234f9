"""The identity of an instrument: its version line, its table and its hardware."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.kinds import (
    Capability,
    DeviceKind,
    FirmwareFamily,
    FirmwareVersion,
    Medium,
)
from penstock.alicat._instrument.setpoints import FullScaleValue
from penstock.alicat.errors import (
    AlicatCapabilityError,
    AlicatCommandRejectedError,
    AlicatMediumMismatchError,
    AlicatParseError,
    ErrorContext,
)
from penstock.alicat.registry import Statistic

if TYPE_CHECKING:
    from penstock.alicat._devices.device import Device
    from penstock.alicat._instrument.data_frame import DataFrameFormat


class CapabilityEvidence(StrEnum):
    """How it is known whether an instrument has a piece of hardware."""

    STATED = "stated"
    """The user stated it (``assume_capabilities``)."""
    DATA_FRAME = "data_frame"
    """Present: the data frame has a column of it."""
    PRESENT = "present"
    """Present: the instrument reported it when asked."""
    ABSENT = "absent"
    """Absent: the instrument reported it when asked."""


Report = Mapping[Capability, CapabilityEvidence]

_SECOND_PRESSURES = (
    Statistic.ABS_PRESS_SECOND,
    Statistic.GAUGE_PRESS_SECOND,
    Statistic.DIFF_PRESS_SECOND,
)
_TOTALS = frozenset({Statistic.TOT_VOL, Statistic.TOT_MASS})


def capabilities_of_columns(
    columns: DataFrameFormat | None, stated: Capability
) -> tuple[Capability, Report]:
    """What the user states and what the data frame shows, with the evidence for each."""
    report = dict.fromkeys(stated, CapabilityEvidence.STATED)
    statistics = {field.statistic for field in columns.fields} if columns else set()
    setpoint = columns.setpoint_field if columns else None
    shown = {
        Capability.BAROMETER: Statistic.BARO_PRESS in statistics,
        Capability.SECONDARY_PRESSURE: not statistics.isdisjoint(_SECOND_PRESSURES),
        Capability.TOTALIZER: columns is not None
        and any(
            field.statistic in _TOTALS or "total" in field.name.casefold()
            for field in columns.fields
        ),
        Capability.BIDIRECTIONAL: setpoint is not None
        and setpoint.minimum is not None
        and setpoint.minimum < 0,
    }
    for capability, is_shown in shown.items():
        if is_shown:
            report[capability] = CapabilityEvidence.DATA_FRAME
    return _together(report), MappingProxyType(report)


async def probe_capabilities(device: Device) -> Report:
    """Ask an instrument for its barometer, second pressure sensor and totalizer.

    Changes nothing. Missing hardware is recorded as absent, unless the user has stated that it is
    present. An instrument cannot be asked about other hardware.

    Raises:
        AlicatError: the instrument does not answer.
    """

    async def has_any(*statistics: Statistic) -> bool:
        for statistic in statistics:
            full_scale = await device.full_scale(statistic)
            if full_scale is not None and full_scale.value > 0:
                return True
        return False

    async def counts() -> bool:
        await device.totalizer_config()
        return True

    report = dict(device.info.probe_report)
    questions = {
        Capability.BAROMETER: lambda: has_any(Statistic.BARO_PRESS),
        Capability.SECONDARY_PRESSURE: lambda: has_any(*_SECOND_PRESSURES),
        Capability.TOTALIZER: counts,
    }
    for capability, ask in questions.items():
        if report.get(capability) is CapabilityEvidence.DATA_FRAME:
            continue
        try:
            there = await ask()
        except (AlicatCommandRejectedError, AlicatParseError):
            there = False
        except (AlicatCapabilityError, AlicatMediumMismatchError):
            continue  # its firmware cannot be asked
        if there:
            report[capability] = CapabilityEvidence.PRESENT
        elif report.get(capability) is not CapabilityEvidence.STATED:
            report[capability] = CapabilityEvidence.ABSENT
    device.session.learn_capabilities(_together(report), MappingProxyType(report))
    return device.info.probe_report


def _together(report: Report) -> Capability:
    found = Capability.NONE
    for capability, evidence in report.items():
        if evidence is not CapabilityEvidence.ABSENT:
            found |= capability
    return found


@dataclass(frozen=True, slots=True)
class ManufacturingInfo:
    """The manufacturing table, its labels removed.

    What the instrument does not state is ``None``.
    """

    unit_id: str
    by_code: Mapping[int, str]
    """The rows as they came, by their number."""
    manufacturer: str | None = None
    model: str | None = None
    serial: str | None = None
    manufactured: str | None = None
    calibrated: str | None = None
    calibrated_by: str | None = None
    software: str | None = None

    def get(self, code: int) -> str | None:
        """The text of row ``code``, with its label."""
        return self.by_code.get(code)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What is known of an instrument after it was opened."""

    unit_id: str
    manufacturer: str | None
    model: str | None
    serial: str | None
    manufactured: str | None
    """Date as printed by the instrument, month/day/year."""
    calibrated: str | None
    calibrated_by: str | None
    software: str
    """The firmware as the instrument spells it, with its revision (``10v20.0-R24``)."""
    firmware: FirmwareVersion
    firmware_date: date | None
    kind: DeviceKind
    media: Medium
    capabilities: Capability
    full_scale: Mapping[Statistic, FullScaleValue] = field(
        default_factory=lambda: MappingProxyType({})
    )
    probe_report: Mapping[Capability, CapabilityEvidence] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """The evidence for each capability; a missing one is unknown."""

    def error_context(self, port: str, **more: Any) -> ErrorContext:
        """Return the context of an error for this instrument on ``port``, with further fields."""
        return ErrorContext(
            unit_id=self.unit_id,
            port=port,
            firmware=self.firmware,
            device_kind=self.kind,
            device_media=self.media,
            **more,
        )

    def facts(self) -> dict[str, str]:
        """What identifies the instrument, as text by name; only facts that it reports."""
        known = {
            "unit_id": self.unit_id,
            "manufacturer": self.manufacturer,
            "model": self.model,
            "serial": self.serial,
            "manufactured": self.manufactured,
            "calibrated": self.calibrated,
            "calibrated_by": self.calibrated_by,
            "firmware": str(self.firmware),
            "firmware_date": None if self.firmware_date is None else str(self.firmware_date),
            "software": self.software,
            "kind": self.kind.value,
        }
        return {name: text for name, text in known.items() if text is not None}


_VERSION = re.compile(
    rb"([A-Z])\s+(?P<software>\d{1,3}v\d{1,3}[!-~]*|GP[!-~]*)"
    rb"(?:\s+(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2})\s+(?P<year>\d{4})(?:\s*,\s*[\d:]+)?)?$"
)
_MONTHS = {
    name: number
    for number, name in enumerate(
        b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), start=1
    )
}


# A unit answers with the same line whenever it is asked.
@lru_cache(maxsize=256)
def parse_version_line(line: bytes, unit_id: str) -> tuple[str, FirmwareVersion, date | None]:
    """The firmware as spelt, parsed, and its build date, of an answer to ``VE``.

    Raises:
        AlicatProtocolError: the line is not a version line of this unit; the class tells why.
    """
    match = _VERSION.match(line)
    if match is None or match[1] != unit_id.encode():
        refuse_line(line, unit_id, wanted="its firmware version")
    software = match["software"].decode("ascii")
    built: date | None = None
    if match["month"] is not None:
        try:
            built = date(int(match["year"]), _MONTHS[match["month"]], int(match["day"]))
        except (KeyError, ValueError):
            refuse_line(line, unit_id, wanted="its firmware version with a date")
    return software, FirmwareVersion.parse(software), built


_ROW = re.compile(rb"([A-Z])\s+M(\d{1,2})(?:\s+(.*))?$")
# The ninth row ends the table of every numbered firmware; GP counts with one digit, to 8.
_LAST_ROW = re.compile(rb"[A-Z]\s+M(?:09|8)(?:\s|$)")

# One pattern for all labels: a row has one, and its name tells which.
_LABELLED = re.compile(
    r"(?:(?P<model>Model Number|Mdl\.?)|(?P<serial>Serial Number|Serial No\.?)"
    r"|(?P<manufactured>Date Manufactured|Date Mfg\.?)|(?P<calibrated>Date Calibrated|Date Cal\.?)"
    r"|(?P<calibrated_by>Calibrated By|Cal\. By)"
    r"|(?P<software>Software Revision|Software Rev\.?|Firmware))\s*(?P<rest>.*)$",
    re.IGNORECASE,
)


def is_manufacturing_row(line: bytes) -> bool:
    """Whether a line can be a row of the table, of any unit."""
    return _ROW.match(line) is not None or _ROW.match(_without_padding(line)) is not None


def is_last_manufacturing_row(line: bytes) -> bool:
    """Whether a row is the one that ends every captured table."""
    return _LAST_ROW.match(_without_padding(line)) is not None


def parse_manufacturing_info(lines: Sequence[bytes], unit_id: str) -> ManufacturingInfo:
    """Read the rows of a ``??M*`` table.

    Raises:
        AlicatProtocolError: a line is not a row of this unit, or a row came twice.
    """
    return _info_of(tuple(lines), unit_id)


# A lost line is opened again by the same questions.
@functools.lru_cache(maxsize=256)
def _info_of(lines: tuple[bytes, ...], unit_id: str) -> ManufacturingInfo:
    by_code: dict[int, str] = {}
    for raw in lines:
        line = _without_padding(raw)
        match = _ROW.match(line)
        if match is None or match[1] != unit_id.encode():
            refuse_line(line, unit_id, wanted="a row of its manufacturing table")
        code = int(match[2])
        if code in by_code:
            raise AlicatParseError(
                f"unit {unit_id}: row M{code:02d} of the manufacturing table arrived twice",
                field_name="manufacturing_info",
                actual=line,
                context=ErrorContext(command_name="??M*", unit_id=unit_id, raw_response=raw),
            )
        by_code[code] = (match[3] or b"").decode("ascii", "replace").strip()
    found: dict[str, str] = {}
    for text in by_code.values():
        labelled = _LABELLED.match(text)
        if labelled and (rest := labelled["rest"].strip()):
            name = next(name for name, label in labelled.groupdict().items() if label is not None)
            found.setdefault(name, rest)
    return ManufacturingInfo(
        unit_id,
        MappingProxyType(by_code),
        manufacturer=by_code.get(0) or None,
        **found,
    )


def _without_padding(line: bytes) -> bytes:
    # GP instruments write backspaces into their tables, for terminals.
    return line.replace(b"\x08", b"").strip()


_BASIS_SERIAL = re.compile(rb"([A-Z])\s+(?:SN\s+)?(B[0-9A-Z-]*\d[0-9A-Z-]*)$")
_BASIS_VERSION = re.compile(rb"([A-Z])\s+(?:VE\s+)?[vV]?((\d{1,3})\.(\d{1,3})[!-~]*)$")


def parse_basis_serial(line: bytes, unit_id: str) -> str:
    """The serial number of an answer to ``SN``; those of BASIS instruments begin with B.

    Raises:
        AlicatProtocolError: the line is not such an answer; the class says why.
    """
    match = _BASIS_SERIAL.match(line)
    if match is None or match[1] != unit_id.encode():
        refuse_line(line, unit_id, wanted="the serial number of a BASIS instrument")
    return match[2].decode()


def parse_basis_version(line: bytes, unit_id: str) -> FirmwareVersion:
    """The firmware of a BASIS instrument, of an answer to ``VE``.

    Raises:
        AlicatProtocolError: the line is not such an answer; the class says why.
    """
    match = _BASIS_VERSION.match(line)
    if match is None or match[1] != unit_id.encode():
        refuse_line(line, unit_id, wanted="the firmware version of a BASIS instrument")
    return FirmwareVersion(FirmwareFamily.BASIS, int(match[3]), int(match[4]), match[2].decode())
