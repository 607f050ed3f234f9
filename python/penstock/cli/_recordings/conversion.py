"""``--unit``: columns of a recording in other units."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._recordings.reading import units_by_device
from penstock.cli._recordings.units import UnitError, convert_factor, parse_conditions
from penstock.record.arrow import measured_numbers, pyarrow_module
from penstock.record.stored_parts import StoredPart

__all__ = ["conversion", "convert"]


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
        # Of the list of devices that have a unit, null for others, such as an event's.
        position = compute.index_in(devices, value_set=pa.array(list(units), pa.string()))
        if compute.any(compute.and_(compute.is_valid(values), compute.is_null(position))).as_py():
            raise CommandError(
                f"{part.path} does not tell the unit of {name} for every device; it cannot be "
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
