"""Columns and tables in the exact layout of the wire.

A data frame is the unit id and then columns of fixed width. ``??D*`` describes those columns,
``??M*`` names the instrument, ``??G*`` lists the gases: several lines each, none of them counted or
terminated, so a reader has to recognise the last line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from penstock.sim._physics.code_tables import GASES, SimulatedGas
from penstock.sim._physics.firmware import Firmware
from penstock.sim._physics.instrument import CONTROLLED, Measurand, Quantity


@dataclass(frozen=True, slots=True)
class Column:
    """One numeric column of a data frame: its statistic and its format."""

    statistic: int
    name: str
    legacy_name: str
    unit_code: int
    unit_label: str
    width: int
    precision: int
    signed: bool = True
    minimum: float = 0.0
    maximum: float = 0.0

    def format(self, value: float) -> str:
        return number(value, width=self.width, precision=self.precision, signed=self.signed)


def number(value: float, *, width: int, precision: int, signed: bool = True) -> str:
    """``value`` zero-padded to exactly ``width`` characters; what does not fit shows as the limit.

    An unsigned column prints no plus sign; a negative value takes a digit's place for its minus.
    """
    bottom, top, layout = _number_layout(width, precision, signed)
    return format(round(min(max(value, bottom), top), precision) + 0.0, layout)


@lru_cache(maxsize=64)
def _number_layout(width: int, precision: int, signed: bool) -> tuple[float, float, str]:
    """Lowest and highest value that fit, and the format specification."""
    digits = width - precision - signed - (1 if precision else 0)
    step = 10.0**-precision
    top = 10.0**digits - step
    bottom = -top if signed else -(10.0 ** (digits - 1) - step)
    return bottom, top, f"{'+' if signed else ''}0{width}.{precision}f"


def flow_column(full_scale: float, *, fewer_decimals: int = 0) -> tuple[int, int]:
    """Width and precision that show 128 % of ``full_scale`` with as many decimals as seven hold."""
    integer_digits = max(2, len(str(int(full_scale * 1.28))))
    return max(7, integer_digits + 1), max(0, 5 - integer_digits - fewer_decimals)


_NAMES: Final = {
    2: ("Abs Press", "Pressure"),
    3: ("Flow Temp", "Temperature"),
    4: ("Volu Flow", "Volumetric"),
    5: ("Mass Flow", "Mass"),
    6: ("Gauge Press", "Pressure"),
    7: ("Diff Press", "Pressure"),
    8: ("Tot Vol", "Total"),
    9: ("Tot Mass", "Total"),
    34: ("Abs Press Setpt", "SetPoint"),
    36: ("Volu Flow Setpt", "SetPoint"),
    37: ("Mass Flow Setpt", "SetPoint"),
    38: ("Gauge Press Setpt", "SetPoint"),
    39: ("Diff Press Setpt", "SetPoint"),
    344: ("Abs Press Second", "Pressure"),
    345: ("Abs Press Second Setpt", "SetPoint"),
    352: ("Gauge Press Second", "Pressure"),
    353: ("Gauge Press Second Setpt", "SetPoint"),
    360: ("Diff Press Second", "Pressure"),
    361: ("Diff Press Second Setpt", "SetPoint"),
}
_FIXED: Final = (2, 3, 6, 344, 352, 360)


def columns_of(
    quantities: Sequence[Quantity], measurand: Measurand, firmware: Firmware
) -> tuple[Column, ...]:
    """How a firmware prints what an instrument shows."""
    columns = []
    for quantity in quantities:
        statistic = quantity.statistic
        is_setpoint = statistic in CONTROLLED
        signed = firmware.signed_setpoint or not is_setpoint
        suffix = ""
        if quantity.totalizer is not None:
            which, digits, precision = quantity.totalizer
            width = 1 + digits + (precision > 0)
            suffix = "" if which == 1 else f" {which}"
        elif statistic in _FIXED and not measurand.is_pressure and quantity.maximum <= 300.0:
            width, precision = 7, 2
        else:
            width, precision = flow_column(quantity.maximum, fewer_decimals=firmware.fewer_decimals)
        name, legacy_name = _NAMES[statistic]
        columns.append(
            Column(
                statistic,
                name + suffix,
                legacy_name,
                quantity.unit.code,
                quantity.unit.label,
                width if signed else width - 1,
                precision,
                signed,
                quantity.minimum,
                quantity.maximum,
            )
        )
    return tuple(columns)


def data_format_table(
    unit: str, firmware: Firmware, columns: Sequence[Column], gases: tuple[str, str] | None
) -> list[str]:
    """The answer to ``??D*``.

    ``gases`` are the first and the last name of the gas list; None for an instrument whose frame
    has no gas column.
    """
    if firmware.legacy_table:
        return _legacy_table(unit, firmware, columns, gases)
    rows = [
        f"ID_ {'NAME':_<26} {'TYPE':_<11} WIDTH {'NOTES':_<24}",
        _default_row(700, "Unit ID", "string", "1"),
    ]
    rows += [
        _default_row(
            column.statistic,
            column.name,
            "s decimal" if column.signed else "decimal",
            f"{column.width}/{column.precision}",
            f" {column.unit_code:03} 02 {column.unit_label}",
        )
        for column in columns
    ]
    if gases is not None:
        rows.append(_default_row(703, "Gas", "string", str(firmware.gas_width)))
    rows.append(_default_row(701, "*Error", "string", "3", " ADC"))
    rows += [_default_row(702, "*Status", "string", "3", f" {c}") for c in firmware.statuses]
    return [f"{unit} D{index:02} {row}" for index, row in enumerate(rows)]


def _default_row(statistic: int, name: str, kind: str, width: str, notes: str = "") -> str:
    return f"{statistic:03} {name:<26} {kind:<11} {width:>5}{notes}"


def _legacy_table(
    unit: str, firmware: Firmware, columns: Sequence[Column], gases: tuple[str, str] | None
) -> list[str]:
    rows = [
        f"{'NAME':_<11} {'TYPE':_<9} {'MinVal':_<7}  {'MaxVal':_<7}  {'UNITS':_<7}",
        # As captured: the letters of this row are not aligned with a column.
        "Unit ID     char         A         Z         na",
    ]
    rows += [
        _legacy_row(
            column.legacy_name,
            "signed",
            number(column.minimum, width=7, precision=column.precision),
            number(column.maximum, width=7, precision=column.precision),
            column.unit_label.removeprefix("`"),
        )
        for column in columns
    ]
    if gases is not None:
        rows.append(_legacy_row("Gas", "string", *gases, "na"))
    rows.append(_legacy_row("Error", "string", "na", "ADC", "na"))
    rows += [_legacy_row("Status", "string", "na", code, "na") for code in firmware.statuses]
    padding = "\b " if firmware.gp_tables else ""
    return [f"{unit}  {padding}D{index:02} {row}" for index, row in enumerate(rows)]


def _legacy_row(name: str, kind: str, minimum: str, maximum: str, unit: str) -> str:
    return f"{name:<11} {kind:<9} {minimum:>7}  {maximum:>7}  {unit:>7}"


def manufacturing_table(
    unit: str, firmware: Firmware, *, model: str, serial_number: str
) -> list[str]:
    """The answer to ``??M*``."""
    if firmware.gp_tables:
        return _gp_manufacturing_table(unit, firmware, model, serial_number)
    rows = (
        "ALICAT SCIENTIFIC",
        "www.alicat.com",
        "Ph   520-290-6060",
        firmware.contact,
        f"{firmware.model_label}{model}",
        f"Serial Number {serial_number}",
        "Date Manufactured 03/02/2025",
        "Date Calibrated   03/02/2025",
        "Calibrated By     BL",
        f"Software Revision {firmware.name}",
    )
    return [f"{unit}  M{index:02} {row}" for index, row in enumerate(rows)]


def _gp_manufacturing_table(
    unit: str, firmware: Firmware, model: str, serial_number: str
) -> list[str]:
    rows = (
        "ALICAT SCIENTIFIC",
        "www.alicat.com",
        "Ph   520-290-6060",
        f"Mdl {model}",
        f"Serial No. {serial_number}",
        "Date Mfg. 03/02/2009",
        "Date Cal. 03/02/2009",
        "Cal. By BL",
        f"Software Rev. {firmware.name}",
    )
    return [f"{unit} \b M{index} {row}" for index, row in enumerate(rows)]


def gas_table(unit: str, firmware: Firmware, mixes: Iterable[SimulatedGas] = ()) -> list[str]:
    """The answer to ``??G*``: every gas that the firmware knows, and the user's mixes."""
    known = [gas for gas in GASES if gas.number <= firmware.last_gas]
    rows = [f"{unit} G{gas.number:02}  {gas.short:>7}" for gas in (*known, *mixes)]
    return ["  ".join(rows)] if firmware.gp_tables else rows
