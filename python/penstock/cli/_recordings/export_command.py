"""``penstock export``: a recording in another format, at other steps, in other units."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file
from penstock.cli._errors import (
    CommandError,
    ExitCode,
    already_exists,
    explain_os_error,
    one_line,
)
from penstock.cli._recordings.reading import field_names, name_of, read_parts, units_by_device
from penstock.cli._recordings.resampling import resample
from penstock.cli._recordings.units import UnitError, convert_factor, parse_conditions
from penstock.record.arrow import pyarrow_module
from penstock.record.errors import RecordError
from penstock.record.exported_tables import TABLE_WRITERS, describe_table, described_in
from penstock.record.postgres_parts import is_postgres
from penstock.record.stored_parts import StoredPart
from penstock.record.view import joined

__all__ = ["run_export"]


def run_export(options: argparse.Namespace) -> int:
    """Write ``options.file`` to ``options.out`` in the format of its suffix."""
    if is_postgres(options.out):
        raise CommandError(
            "an export is written to a file, not to a PostgreSQL server; name a file such as "
            "run.parquet",
            ExitCode.USAGE,
        )
    out = Path(options.out)
    write = TABLE_WRITERS.get(out.suffix)
    if write is None:
        raise CommandError(
            f"{out} has no format that can be written; its suffix must be one of "
            f"{', '.join(TABLE_WRITERS)}",
            ExitCode.USAGE,
        )
    for taken in (out, described_in(out)):
        if os.path.lexists(taken) and not options.overwrite:
            raise CommandError(
                f"{taken} already exists; add --overwrite to replace it or choose another name",
                ExitCode.OUTPUT,
            )
    wanted = dict(_unit(text) for text in options.unit)
    tables = []
    notes: dict[str, str] = {}
    units: dict[tuple[str, str], str] = {}
    for part in read_parts(options.file, options.table, needs=("device", "t_utc")):
        _convert(part, wanted, options, notes)
        _refuse_mixed_units(part, units, name_of(options.file, options.table))
        if options.every is not None:
            part.table = resample(part.table, options.every, options.method)
        tables.append(part.table)
    # The units of a part without rows say nothing about the rows of the others.
    tables = [table for table in tables if table.num_rows] or tables[:1]
    table = joined(tables)
    table = table.replace_schema_metadata(
        {**(table.schema.metadata or {}), **_conversion_note(notes)}
    )
    try:
        os.close(put_file(out, partial(_write, table=table, write=write), overwrite=True))
        describe_table(out, table, {"converted": notes} if notes else {})
    except FileExistsError as error:
        raise already_exists(out) from error
    except OSError as error:
        raise explain_os_error(error, out, kind="file", option="OUT") from error
    except RecordError as error:  # a column of a kind that no recording has
        raise CommandError(f"cannot write {out}: {one_line(error)}", ExitCode.OUTPUT) from error
    if options.json:
        print(json.dumps({"file": str(out), "rows": len(table), "converted": notes}))
    else:
        print(f"wrote {out}: {len(table)} rows")
        for name, text in notes.items():
            print(f"  {name}: {text}")
    return ExitCode.OK


def _write(descriptor: int, *, table: Any, write: Callable[[Any, Any], None]) -> None:
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        write(table, file)


def _unit(text: str) -> tuple[str, str]:
    name, equals, unit = text.partition("=")
    if not (name and equals and unit):
        raise CommandError(
            f"--unit {text!r} is not a conversion; write a column and a unit, such as "
            "Mass_Flow=SLPM",
            ExitCode.USAGE,
        )
    return name, unit


def _convert(
    part: StoredPart, wanted: Mapping[str, str], options: argparse.Namespace, notes: dict[str, str]
) -> None:
    """Convert the columns of ``part`` and put what was done into ``notes``."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    known = field_names(part)
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


def _refuse_mixed_units(part: StoredPart, known: dict[tuple[str, str], str], file: str) -> None:
    """Refuse a part in which a device has another unit than in ``known``, of the parts before."""
    for name in field_names(part):
        for device, unit in units_by_device(part, name).items():
            before = known.setdefault((name, device), unit)
            if before != unit:
                raise CommandError(
                    f"{file}: {name} of {device} is in {before} and later in {unit}; add "
                    f"--unit {name}={unit} to have it in one unit",
                    ExitCode.USAGE,
                )


def _conversion_note(notes: Mapping[str, str]) -> dict[bytes, bytes]:
    return {b"penstock.converted": json.dumps(notes).encode()} if notes else {}
