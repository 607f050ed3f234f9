"""A row for each time, a column for each device and quantity, as spreadsheets want it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.cli._recordings.reading import samples_of
from penstock.record.arrow import pyarrow_module, unit_for, units_of
from penstock.record.schema import RESERVED_COLUMNS

__all__ = ["wide_table"]


def wide_table(tables: Iterable[Any], schema: Any, devices: Iterable[str]) -> Any:
    """One table with ``t_utc`` and a column ``DEVICE QUANTITY`` for each that has values.

    Rows have the times at which there are samples, in ascending order; a device that has none at
    a time is null there. Events and failed polls are left out. All rows are in the memory.

    Args:
        tables: the rows, of one schema.
        schema: theirs.
        devices: in the order of the columns.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    fields = [field for field in schema if field.name not in RESERVED_COLUMNS]
    names = ["device", "t_utc", *(field.name for field in fields)]
    parts = [samples_of(table).select(names) for table in tables]
    rows = (
        pa.concat_tables(parts)
        if parts
        else pa.schema([schema.field(name) for name in names]).empty_table()
    )
    times = compute.unique(rows["t_utc"].combine_chunks())
    times = times.take(compute.sort_indices(times))
    units = units_of(schema)
    columns = [times]
    described = [pa.field("t_utc", times.type)]
    for device in devices:
        own = rows.filter(compute.equal(rows["device"], device))
        # Of two rows of one device and time, which a clock that was set can make, the later counts.
        last = own.append_column("row", pa.array(range(own.num_rows), pa.int64()))
        last = last.group_by("t_utc").aggregate([("row", "max")])
        own = own.take(last["row_max"])
        place = compute.index_in(times, value_set=own["t_utc"].combine_chunks())
        for field in fields:
            column = own[field.name].take(place)
            if column.null_count == len(column):
                continue
            unit = unit_for(units, field.name, device)
            about = {"unit": unit} if unit is not None else None
            described.append(pa.field(f"{device} {field.name}", field.type, metadata=about))
            columns.append(column)
    return pa.table(columns, schema=pa.schema(described, schema.metadata))
