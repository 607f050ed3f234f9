"""Samples of a recording at equal steps: one row for each device and step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from penstock.cli._recordings.reading import samples_of
from penstock.record.arrow import is_number, pyarrow_module
from penstock.record.schema import LEADING_COLUMNS, TIME_COLUMNS
from penstock.record.stored_parts import plain_schema

__all__ = ["Method", "Resampler", "resample"]

Method = Literal["mean", "min", "max", "first", "last"]


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
            method if column.name not in fixed and is_number(column.type) else "last",
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


class Resampler:
    """:func:`resample` for tables that come one after the other.

    A step may begin in one table and end in a later one: the rows of each device's last step wait
    for those that follow.
    """

    def __init__(self, every_s: float, method: Method) -> None:
        self._every_s = every_s
        self._method: Method = method
        self._waiting: Any = None

    def of(self, table: Any) -> Iterator[Any]:
        """Tables of the steps that are complete."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        table = samples_of(table).cast(plain_schema(table.schema))
        if self._waiting is not None:
            if self._waiting.schema.equals(table.schema, check_metadata=True):
                table = pa.concat_tables([self._waiting, table])
                self._waiting = None
            else:
                yield from self.rest()
        step = round(self._every_s * 1e9)
        numbers = compute.divide(table["t_utc"].cast(pa.int64()), step)
        steps = pa.table({"device": table["device"], "step": numbers})
        lasts = steps.group_by("device").aggregate([("step", "max")])
        place = compute.index_in(table["device"], value_set=lasts["device"].combine_chunks())
        is_last = compute.equal(numbers, lasts["step_max"].take(place))
        self._waiting = table.filter(is_last)
        yield resample(table.filter(compute.invert(is_last)), self._every_s, self._method)

    def rest(self) -> Iterator[Any]:
        """The last steps."""
        if self._waiting is not None:
            yield resample(self._waiting, self._every_s, self._method)
            self._waiting = None
