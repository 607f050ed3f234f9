"""``--unit``: columns of a recording in other units."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._stored.reading import units_by_device
from penstock.record.arrow import measured_numbers, pyarrow_module
from penstock.record.stored_parts import StoredPart


def conversion(text: str) -> tuple[str, str]:
    """The column and the unit of an option such as ``Mass_Flow=SLPM``; CommandError."""
    name, equals, unit = text.partition("=")
    if not (name and equals and unit):
        raise CommandError(
            f"--unit {text!r} is not a conversion; write a column and a unit, such as "
            "Mass_Flow=SLPM",
            ExitCode.USAGE,
        )
    return name, unit


def convert(
    part: StoredPart, wanted: Mapping[str, str], options: argparse.Namespace, notes: dict[str, str]
) -> None:
    """Convert the columns of ``part`` and put what was done into ``notes``."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    known = measured_numbers(part.table.schema)
    for name, unit in wanted.items():
        if name not in known:
            raise CommandError(
                f"{part.path} has no number column {name}; it has {', '.join(known) or 'none'}",
                ExitCode.USAGE,
            )
        units = units_by_device(part, name)
        values = part.table[name].cast(pa.float64())
        devices = part.table["device"].cast(pa.string())
        # The place in the list of devices that have a unit; null for others, such as an event's.
        position = compute.index_in(devices, value_set=pa.array(list(units), pa.string()))
        if compute.any(compute.and_(compute.is_valid(values), compute.is_null(position))).as_py():
            raise CommandError(
                f"{part.path} does not state the unit of {name} for every device; it cannot be "
                "converted",
                ExitCode.USAGE,
            )
        try:
            standard = parse_conditions(options.standard) if options.standard else None
            to = parse_conditions(options.to_standard) if options.to_standard else None
            factors = {
                before: convert_factor(before, unit, standard=standard, to=to)
                for before in dict.fromkeys(units.values())
            }
        except UnitError as error:
            raise CommandError(one_line(error), ExitCode.USAGE) from error
        factor, summand = (
            compute.take(
                pa.array([factors[before][which] for before in units.values()], pa.float64()),
                position,
            )
            for which in (0, 1)
        )
        field = pa.field(name, pa.float64(), metadata={"unit": unit})
        part.table = part.table.set_column(
            part.table.column_names.index(name),
            field,
            compute.add(compute.multiply(values, factor), summand),
        )
        conditions = "".join(
            f", {word} {each}" for word, each in (("from", standard), ("to", to)) if each
        )
        for before, (factor, _) in factors.items():
            text = f"{before} to {unit}, factor {factor:.9g}{conditions}"
            if text not in (known_texts := notes.get(name, "").split("; ")):
                notes[name] = "; ".join([*filter(None, known_texts), text])


# Conversion of units of flow, pressure and temperature, with stated standard conditions.
#
# A standard flow counts gas as if it were at standard conditions. 1 SCCM at 25 °C and 14.696 psia
# is less gas than 1 SCCM at 0 °C, so a conversion between two standard flows must know both
# conditions. By the law of the ideal gas, the number is proportional to T / p of the conditions.

# The litres a second, and the pascals, of each unit.
_LITRES_S = {"CCM": 1e-3 / 60, "CCS": 1e-3, "LPM": 1 / 60, "LPS": 1.0, "LPH": 1 / 3600}
_LITRES_S |= {"CFM": 28.316846592 / 60, "CFH": 28.316846592 / 3600, "M3H": 1000 / 3600}
_LITRES_S |= {"MLM": 1e-3 / 60, "ULM": 1e-6 / 60}
_PASCALS = {"PA": 1.0, "HPA": 100.0, "KPA": 1e3, "MPA": 1e6, "BAR": 1e5, "MBAR": 100.0}
_PASCALS |= {"PSI": 6894.757293168, "ATM": 101325.0, "TORR": 101325 / 760, "MMHG": 133.322387415}
_TEMPERATURES = {"C", "F", "K"}


class UnitError(ValueError):
    """A unit is not known, or two units do not measure the same."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Standard conditions: a temperature in kelvins and an absolute pressure in pascals."""

    kelvins: float
    pascals: float

    def __str__(self) -> str:
        return f"{self.kelvins - 273.15:g}C,{self.pascals / 1000:g}kPa"


NORMAL = Conditions(273.15, 101_325.0)
"""What the letter N of a unit such as NLPM states: 0 °C and 1 atm (DIN 1343)."""


def parse_conditions(text: str) -> Conditions:
    """Conditions written as ``25C,14.696psia`` or ``0C,101.325kPa``.

    Raises:
        UnitError: they are written otherwise.
    """
    match = re.fullmatch(
        r"\s*([-+]?[\d.]+)\s*([CFK])\s*,\s*([\d.]+)\s*([A-Za-z]+)\s*", text, re.IGNORECASE
    )
    pressure = _PASCALS.get(_bare_pressure(match[4])) if match else None
    if match is None or pressure is None:
        raise UnitError(
            f"{text!r} is not a pair of standard conditions; write it as 25C,14.696psia"
        )
    scale, shift = _to_kelvins(match[2].upper())
    kelvins, pascals = float(match[1]) * scale + shift, float(match[3]) * pressure
    if kelvins <= 0 or pascals <= 0:
        raise UnitError(f"{text!r} is out of range; write conditions such as 25C,14.696psia")
    return Conditions(kelvins, pascals)


def convert_factor(
    source: str, target: str, *, standard: Conditions | None, to: Conditions | None = None
) -> tuple[float, float]:
    """The factor and the summand that make a value in ``target`` of one in ``source``.

    ``standard`` are the standard conditions of ``source``, ``to`` those of ``target`` (by default
    the same). The letter N, as in NLPM, states its conditions by itself.

    Raises:
        UnitError: a unit is not known, the two do not measure the same, or conditions are needed
            and not stated.
    """
    if source == target and (to is None or to == standard):
        return 1.0, 0.0
    first, second = _flow(source), _flow(target)
    if first is not None and second is not None:
        factor = first[1] / second[1]
        if (first[0] == "") != (second[0] == ""):
            raise UnitError(
                f"{source} and {target} do not measure the same: one counts gas at standard "
                "conditions, the other at the conditions in the instrument"
            )
        if first[0] == "":
            return factor, 0.0
        before = NORMAL if first[0] == "N" else standard
        after = NORMAL if second[0] == "N" else to or standard
        if before == after:
            return factor, 0.0
        if before is None or after is None:
            raise UnitError(
                f"{source} to {target} needs the standard conditions of both; state those of the "
                "S unit with --standard, such as --standard 25C,14.696psia"
            )
        return factor * (after.kelvins / before.kelvins) * (before.pascals / after.pascals), 0.0
    one, other = _PASCALS.get(_bare_pressure(source)), _PASCALS.get(_bare_pressure(target))
    if one is not None and other is not None:
        if _pressure_kind(source) != _pressure_kind(target):
            raise UnitError(
                f"{source} and {target} do not measure the same: absolute, gauge and differential "
                "pressures differ by the atmospheric pressure"
            )
        return one / other, 0.0
    warm, cold = source.strip("`°").upper(), target.strip("`°").upper()
    if warm in _TEMPERATURES and cold in _TEMPERATURES:
        scale, shift = _to_kelvins(warm)
        scale_back, shift_back = _to_kelvins(cold)
        return scale / scale_back, (shift - shift_back) / scale_back
    raise UnitError(f"{source} cannot be converted to {target}; name a unit of the same quantity")


def _flow(unit: str) -> tuple[str, float] | None:
    """Whether a flow is standard (S), normal (N) or neither, and its litres a second."""
    upper = unit.upper().replace("/", "").replace("³", "3")
    for letter in ("S", "N", ""):
        litres = _LITRES_S.get(upper.removeprefix(letter)) if upper.startswith(letter) else None
        if litres is not None:
            return letter, litres
    return None


def _bare_pressure(unit: str) -> str:
    upper = unit.upper()
    if upper in _PASCALS:
        return upper
    return upper[:-1] if upper[-1:] in "AGD" else upper


def _pressure_kind(unit: str) -> str:
    upper = unit.upper()
    return "" if upper in _PASCALS else upper[-1:].replace("A", "")


def _to_kelvins(unit: str) -> tuple[float, float]:
    if unit == "C":
        return 1.0, 273.15
    return (5 / 9, 459.67 * 5 / 9) if unit == "F" else (1.0, 0.0)
