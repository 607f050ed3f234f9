"""Samples of a recording at equal steps: one row for each device and step."""

from __future__ import annotations

from typing import Any, Literal

from penstock.cli._recordings.reading import samples_of
from penstock.record.arrow import pyarrow_module
from penstock.record.schema import LEADING_COLUMNS, TIME_COLUMNS

__all__ = ["Method", "resample"]

Method = Literal["mean", "min", "max", "first", "last"]


def _is_number(kind: Any) -> bool:
    pa = pyarrow_module()
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def resample(table: Any, every_s: float, method: Method) -> Any:
    """One row for each device and step of ``every_s`` seconds in which it has samples.

    Steps lie at whole multiples of ``every_s`` since 1970 UTC, so recordings of one moment have the
    same steps; ``t_utc`` is the beginning of the step. Numbers are taken by ``method`` over the
    step, everything else is that of its last sample. Events and failed polls are left out.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    table = samples_of(table)
    step = round(every_s * 1e9)
    moments = table["t_utc"].cast(pa.int64())
    number = compute.divide(moments, step)
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    decoded = pa.table(dict(zip(table.column_names, plain, strict=True)))
    work = decoded.append_column("__step", number)
    fixed = set(LEADING_COLUMNS)
    aggregations = [
        (
            column.name,
            method if column.name not in fixed and _is_number(column.type) else "last",
        )
        for column in decoded.schema
        if column.name != "device"
    ]
    grouped = work.group_by(["device", "__step"], use_threads=False).aggregate(aggregations)
    grouped = grouped.sort_by([("__step", "ascending"), ("device", "ascending")])
    begins = compute.multiply(grouped["__step"], step).cast(pa.timestamp("ns", "UTC"))
    columns = {}
    for column in table.schema:
        if column.name == "device":
            values = grouped["device"]
        elif column.name == "t_utc":
            values = begins
        else:
            aggregation = next(kind for name, kind in aggregations if name == column.name)
            values = grouped[f"{column.name}_{aggregation}"]
        columns[column.name] = values.cast(
            column.type if column.name in TIME_COLUMNS else values.type
        )
    fields = [
        pa.field(column.name, columns[column.name].type, metadata=column.metadata)
        for column in table.schema
    ]
    return pa.table(
        list(columns.values()), schema=pa.schema(fields, metadata=table.schema.metadata)
    )
