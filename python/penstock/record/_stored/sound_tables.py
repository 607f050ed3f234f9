"""What makes a table that came from a file safe to use.

A damaged file can yield a table with anything in it: names that are not text, metadata that are not
JSON, rows without the columns that every row has. Each such thing is noted and taken out here,
once, so that no user of a table has to expect it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from penstock.record._columns.row_text import field_from_description
from penstock.record._parts.parts_folder import RUNS_KEY
from penstock.record.arrow import METADATA_KEY, arrow_schema, is_number, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.schema import LEADING_COLUMNS, TIME_COLUMNS, RecordSchema

Row = TypeVar("Row")

_REQUIRED = ("device", "t_utc", "t_mono_ns", "requested_at", "received_at", "latency_s")
_MOST_GUESSES = 24
_TEXTS = ("device", "unit_id", "status", "error", "event", "message", "error_code")


def described_schema(columns: list[dict[str, Any]], recording: dict[str, Any]) -> RecordSchema:
    """The schema of a part from the description that lies beside its rows."""
    if not isinstance(recording, dict):
        raise ValueError("the description of the recording is not a JSON object")
    names = [str(entry["name"]) for entry in columns]
    if tuple(names[: len(LEADING_COLUMNS)]) != LEADING_COLUMNS or len(set(names)) < len(names):
        raise ValueError("the described columns are not those of a recording")
    fields = [field_from_description(entry) for entry in columns]
    schema = RecordSchema(
        tuple(field for field in fields if field is not None),
        json.dumps(recording, ensure_ascii=False),
    )
    if schema.names != tuple(names):
        raise ValueError("the described columns are not those of a recording")
    arrow_schema(schema)  # raises for a kind or a unit that there is not
    return schema


def plain_schema(schema: Any) -> Any:
    """A schema whose text columns are not dictionaries, which differ from part to part."""
    pa = pyarrow_module()
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ],
        schema.metadata,
    )


def fixed_types() -> dict[str, Any]:
    """The types of the columns that every recording has, where nothing tells those of others."""
    pa = pyarrow_module()
    return {
        **dict.fromkeys(TIME_COLUMNS, pa.timestamp("ns", "UTC")),
        **dict.fromkeys(_TEXTS, pa.string()),
        "t_mono_ns": pa.int64(),
        "latency_s": pa.float64(),
    }


def converted(
    rows: Sequence[Row],
    convert: Callable[[Sequence[Row]], Any],
    refuse: Callable[[Row, str], None],
    suspect: Callable[[Exception], int | None] | None = None,
    guesses: int = _MOST_GUESSES,
) -> list[Any]:
    """Tables of the rows that ``convert`` takes; each of the others goes to ``refuse``.

    A failure may say nothing about which row it was: the rows are halved until it is one. A few
    damaged rows cost some dozen conversions then, and good ones only one.

    Args:
        rows: in order.
        convert: makes a table of all rows it is given, or fails.
        refuse: gets a row and what is wrong with it.
        suspect: the place of the row of which a failure tells; None if it tells of none. That row
            is tried alone, which saves most conversions. It may be wrong.
        guesses: how often it is asked: with many damaged rows, halves are better.
    """
    try:
        return [convert(rows)] if rows else []
    except UNREADABLE as error:
        if len(rows) == 1:
            refuse(rows[0], reason_of(error))
            return []
        found = suspect(error) if suspect is not None and guesses > 0 else None
    if found is not None and 0 <= found < len(rows):
        parts = [rows[:found], rows[found : found + 1], rows[found + 1 :]]
    else:
        half = len(rows) // 2
        parts = [rows[:half], rows[half:]]
    return [
        table for part in parts for table in converted(part, convert, refuse, suspect, guesses - 1)
    ]


def check_complete(table: Any, rows: int) -> Any:
    """The same table; ValueError if it has not ``rows`` rows with all that each row must have."""
    if table.num_rows != rows:
        raise ValueError(f"it has {table.num_rows} rows instead of {rows}")
    for name in _REQUIRED:
        if name in table.schema.names and table.column(name).null_count:
            raise ValueError(f"it has no {name}")
    return table


def sound_table(path: Path, table: Any, damages: DamageList) -> Any:
    """The same table without what cannot be used, which is noted."""
    pa = pyarrow_module()
    schema = table.schema
    named: list[tuple[str, dict[bytes, bytes]]] = []
    for number in range(len(schema)):
        field = schema.field(number)
        try:
            named.append((field.name, dict(field.metadata or {})))
        except UnicodeDecodeError:
            damages.note(path, f"column {number + 1}", "its name is not UTF-8")
            named.append((f"column_{number + 1}", {}))
    # Renamed first: a name that is not UTF-8 cannot be passed on, nor read.
    table = table.rename_columns([name for name, _ in named])
    fields, columns = [], []
    for number, (name, about) in enumerate(named):
        for key, kind in ((b"units", dict), (b"unit", str)):
            if key in about:
                try:
                    text = about[key].decode()
                    valid = isinstance(json.loads(text) if kind is dict else text, kind)
                except UNREADABLE:
                    valid = False
                if not valid:
                    damages.note(path, f"column {name}", "its unit cannot be read")
                    del about[key]
        column = usable_column(path, name, table.column(number), damages)
        if column is None:
            continue
        kind = column.type
        if pa.types.is_timestamp(kind) and not _has_known_zone(kind):
            damages.note(
                path, f"column {name}", "its time zone is unknown; its times are read as UTC"
            )
            kind = pa.timestamp(kind.unit, "UTC")
            column = pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
        fields.append(pa.field(name, kind, schema.field(number).nullable, about or None))
        columns.append(column)
    metadata = _sound_metadata(path, dict(schema.metadata or {}), table.num_rows, damages)
    table = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata or None))
    return complete_rows(path, table, damages)


def _has_known_zone(kind: Any) -> bool:
    try:
        return kind.tz in (None, "UTC") or bool(ZoneInfo(kind.tz))
    except UNREADABLE:
        return False


def _sound_metadata(
    path: Path, metadata: dict[bytes, bytes], rows: int, damages: DamageList
) -> dict[bytes, bytes]:
    if METADATA_KEY in metadata:
        try:
            about = json.loads(metadata[METADATA_KEY])
            valid = isinstance(about, dict) and _are_devices(about.get("devices", {}))
        except UNREADABLE:
            valid = False
        if not valid:
            damages.note(path, "metadata", "they cannot be read, except for the units of fields")
            del metadata[METADATA_KEY]
    if RUNS_KEY in metadata:
        try:
            runs = json.loads(metadata[RUNS_KEY])
            counts = [run["rows"] for run in runs if isinstance(run["recording"], dict)]
            valid = min(counts, default=0) >= 0 and sum(counts) == rows
            valid = valid and all(_are_devices(run["recording"].get("devices", {})) for run in runs)
        except UNREADABLE:
            valid = False
        if not valid:
            damages.note(path, "metadata", "the list of the runs in it does not fit its rows")
            del metadata[RUNS_KEY]
    return metadata


def _are_devices(devices: Any) -> bool:
    return isinstance(devices, dict) and all(isinstance(each, dict) for each in devices.values())


def complete_rows(path: Path, table: Any, damages: DamageList) -> Any:
    """The same table without the rows that lack what each row has; they are noted."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit != "ns":
            times = times_of_a_calendar(path, field.name, table.column(number), damages)
            table = table.set_column(number, field, times)
    for name in _REQUIRED:
        if table.schema.names.count(name) == 1 and (missing := table.column(name).null_count):
            damages.note(path, f"column {name}", "rows without it are left out", missing)
            table = table.filter(compute.is_valid(table.column(name)))
    return table


# Columns whose type is that of a recording, or can become it.
#
# A damaged schema turns a column of floats into one of half floats, dates, maps or anything else
# that Arrow has, and so does a foreign program. What computes with a column, or writes it
# elsewhere, knows the types of recordings alone. So a column of another type is converted here,
# once, or left out.

_FLOATS = ("latency_s", "late_s")
_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_NS = 2**63 - 1


def usable_column(path: Path, name: str, column: Any, damages: DamageList) -> Any:
    """The column as it is, or converted; None if nothing can be done with it.

    One that every recording has is null then, and its rows are left out for that.
    """
    pa = pyarrow_module()
    kind = column.type
    if pa.types.is_null(kind):
        return column
    if name in TIME_COLUMNS:
        fits, target = pa.types.is_timestamp(kind), pa.timestamp("ns", "UTC")
        candidates = []
    elif name == "t_mono_ns":
        fits, target = pa.types.is_integer(kind) and kind != pa.uint64(), pa.int64()
        candidates = [target] if pa.types.is_integer(kind) else []
    elif name in _FLOATS:
        fits, target = kind in (pa.float32(), pa.float64()), pa.float64()
        candidates = [target] if is_number(kind) else []
    elif name in _TEXTS:
        fits, target = _is_text(kind), pa.string()
        candidates = [target] if str(kind).endswith("string_view") else []
    else:
        fits, target = _is_of_a_field(kind), None
        candidates = [pa.int64(), pa.float64()] if is_number(kind) else []
    if fits:
        return column
    for candidate in candidates:
        try:
            return column.cast(candidate)
        except UNREADABLE:
            continue
    damages.note(path, f"column {name}", f"its type is {kind}, which no recording has there")
    return None if target is None else pa.chunked_array([pa.nulls(len(column), target)])


def times_of_a_calendar(path: Path, name: str, column: Any, damages: DamageList) -> Any:
    """The same times without those that are not nanoseconds of 64 bits since 1970."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    most = _MOST_NS * _A_SECOND[column.type.unit] // 10**9
    numbers = column.cast(pa.int64())
    known = compute.and_(
        compute.less_equal(numbers, most), compute.greater_equal(numbers, pa.scalar(-most))
    )
    far = int(compute.sum(compute.invert(known)).as_py() or 0)
    if not far:
        return column
    damages.note(path, f"column {name}", "times beyond the years 1677 to 2262", far)
    return compute.if_else(known, column, pa.scalar(None, column.type))


def _is_text(kind: Any) -> bool:
    types = pyarrow_module().types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(plain) or types.is_large_string(plain))


def _is_of_a_field(kind: Any) -> bool:
    pa = pyarrow_module()
    return not (
        kind in (pa.float16(), pa.uint64(), pa.month_day_nano_interval())
        or pa.types.is_union(kind)
        or pa.types.is_run_end_encoded(kind)
    )
