"""The parts of a stored recording of any format, each read as an Arrow table."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.record._columns.describe_columns import field_from_description
from penstock.record._parts.journal import read_journal
from penstock.record._parts.parts_folder import RUNS_KEY, PartsFolder, parts_path
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._sinks.csv_sink import sidecar_path
from penstock.record._sinks.files import part_path
from penstock.record._sinks.jsonl_sink import HEAD_KEY
from penstock.record.arrow import METADATA_KEY, arrow_schema, pyarrow_module, units_of
from penstock.record.errors import RecordError
from penstock.record.schema import TIME_COLUMNS, RecordSchema

__all__ = [
    "StoredPart",
    "check_recording",
    "described_schema",
    "plain_schema",
    "stored_parts",
]

_SQLITE = (".sqlite", ".sqlite3", ".db")
# Where a folder has the same rows in several formats, those of the first one are read.
_SUFFIXES = (".parquet", ".arrow", ".csv", ".jsonl", *_SQLITE)
_TEXTS = ("device", "unit_id", "status", "error", "event", "message")


@dataclass(slots=True)
class StoredPart:
    """The rows of one part of a recording: of a file, a journal, or a table of a database.

    Attributes:
        path: its path; on a PostgreSQL server, the table.
        table: a ``pyarrow.Table`` with the units at its fields.
        metadata: what was known of the recording when the part began.
    """

    path: Path
    table: Any
    metadata: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.metadata = json.loads((self.table.schema.metadata or {}).get(METADATA_KEY, b"{}"))

    @property
    def units(self) -> dict[str, str]:
        """The unit of each field that has one for all its devices."""
        return {
            name: unit
            for name, unit in units_of(self.table.schema).items()
            if isinstance(unit, str)
        }


def check_recording(path: Path) -> None:
    """Refuse what is no recording; RecordError."""
    if _is_folder(path) or parts_path(path).is_dir() or (path.is_dir() and _recordings_in(path)):
        return
    if not path.exists():
        raise RecordError(f"{path} does not exist: give the path of a recording")
    if path.is_dir():
        raise RecordError(f"{path} is not the folder of a recording: it has no .penstock")
    if path.suffix not in _SUFFIXES:
        raise RecordError(
            f"{path} is of no known format: its name ends in none of {', '.join(_SUFFIXES)}"
        )


def stored_parts(path: Path, table: str) -> Iterator[StoredPart]:
    """The parts of the recording at ``path``, in the order of recording.

    Args:
        path: a file, a folder of parts, or a folder of recordings.
        table: of SQLite, the name given to the sink.
    """
    if _is_folder(path):
        yield from _parts_of_folder(path, path)
        return
    if path.is_dir():
        for recording in _recordings_in(path):
            yield from stored_parts(recording, table)
        return
    if path.suffix in _SQLITE:
        yield from _sqlite_parts(path, table)
        return
    number = 1
    while (part := part_path(path, number)).exists():
        yield from _runs_of(StoredPart(part, _table_of(part)))
        number += 1
    if parts_path(path).is_dir():
        yield from _parts_of_folder(parts_path(path), path)


def _runs_of(part: StoredPart) -> Iterator[StoredPart]:
    """A part for each run, of a file in which the rows of several were joined."""
    known = part.table.schema.metadata or {}
    if RUNS_KEY not in known:
        yield part
        return
    begin = 0
    for run in json.loads(known[RUNS_KEY]):
        table = part.table.slice(begin, run["rows"])
        about = json.dumps(run["recording"], ensure_ascii=False).encode()
        yield StoredPart(part.path, table.replace_schema_metadata({**known, METADATA_KEY: about}))
        begin += run["rows"]


def _is_folder(path: Path) -> bool:
    return (path / ".penstock").is_dir()


def _recordings_in(folder: Path) -> list[Path]:
    """The recordings of one format in a folder, such as ``penstock record`` fills."""
    found: dict[str, set[Path]] = {}
    for path in folder.iterdir():
        # A file that is not joined yet, or a further part of one that is there.
        recording = path.with_suffix("") if path.suffix == ".parts" else path
        stem, _, number = recording.stem.rpartition(".part")
        if stem and number.isdecimal() and recording.with_stem(stem).exists():
            continue
        if _is_folder(path) and path.suffix != ".parts":
            found.setdefault(".parquet", set()).add(path)
        elif recording.suffix in _SUFFIXES:
            found.setdefault(recording.suffix, set()).add(recording)
    return next((sorted(found[suffix]) for suffix in _SUFFIXES if suffix in found), [])


def _parts_of_folder(path: Path, recording: Path) -> Iterator[StoredPart]:
    table_format = _format_of(recording)
    folder = PartsFolder(path, table_format.suffix)
    journals = dict(folder.journals())
    parts: dict[int, list[Path]] = {}
    for number, part in folder.parts():
        parts.setdefault(number, []).append(part)
    for number in sorted({*parts, *journals}):
        if number in journals and journals[number].exists():
            # It has all rows of its part.
            table = read_journal(journals[number])
            if table.num_rows or number not in parts:
                yield StoredPart(journals[number], table)
                continue
        for part in parts[number]:
            yield StoredPart(part, _with_partition(table_format.read(part), part, path))


def _table_of(path: Path) -> Any:
    if path.suffix == ".csv":
        return _csv_table(path)
    if path.suffix == ".jsonl":
        return _jsonl_table(path)
    return _format_of(path).read(path)


def _format_of(path: Path) -> TableFormat:
    if path.suffix == ".arrow" or (path.is_dir() and any(path.rglob("part-*.arrow"))):
        return ArrowFormat("zstd")
    return ParquetFormat("zstd")


def _with_partition(table: Any, part: Path, folder: Path) -> Any:
    """Add the column that only the folder's name holds."""
    from urllib.parse import unquote

    pa = pyarrow_module()
    for name in part.relative_to(folder).parts[:-1]:
        key, _, value = name.partition("=")
        if key == "device" and "device" not in table.schema.names:
            column = pa.array([unquote(value)] * table.num_rows, pa.string())
            table = table.add_column(0, "device", column)
    return table


def _csv_table(path: Path) -> Any:
    csv = pyarrow_module("pyarrow.csv")
    plain = None
    if sidecar_path(path).exists():
        described = json.loads(sidecar_path(path).read_bytes())
        schema = described_schema(described["columns"], described["recording"])
        plain = plain_schema(arrow_schema(schema))
    options = csv.ConvertOptions(
        column_types=_fixed_types() if plain is None else plain,
        strings_can_be_null=True,
        null_values=[""],
        true_values=["true"],
        false_values=["false"],
    )
    table = csv.read_csv(
        path,
        read_options=csv.ReadOptions(),
        parse_options=csv.ParseOptions(newlines_in_values=True, invalid_row_handler=_skip),
        convert_options=options,
    )
    # The device of an event of the whole recording is an empty text, and reads as null.
    device = table.schema.get_field_index("device")
    if device >= 0:
        table = table.set_column(device, "device", table.column(device).fill_null(""))
    return table if plain is None else table.cast(plain)


def _fixed_types() -> dict[str, Any]:
    """The types of the columns that every recording has, where nothing tells those of others."""
    pa = pyarrow_module()
    return {
        **dict.fromkeys(TIME_COLUMNS, pa.timestamp("ns", "UTC")),
        **dict.fromkeys(_TEXTS, pa.string()),
        "t_mono_ns": pa.int64(),
        "latency_s": pa.float64(),
    }


def _skip(row: Any) -> str:
    return "skip"  # a torn last line


def _jsonl_table(path: Path) -> Any:
    schema: RecordSchema | None = None
    rows: list[dict[str, Any]] = []
    with path.open("rb") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # a torn last line
            if HEAD_KEY in row:
                head = row[HEAD_KEY]
                if "columns" in head:
                    schema = described_schema(head["columns"], head["recording"])
                continue
            rows.append(row)
    pa = pyarrow_module()
    if schema is None:
        return pa.Table.from_pylist(rows)
    plain = plain_schema(arrow_schema(schema))
    read_as = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in plain
        ]
    )
    return pa.Table.from_pylist(rows, schema=read_as).cast(plain)


def _sqlite_parts(path: Path, table: str) -> Iterator[StoredPart]:
    pa = pyarrow_module()
    # Without mode=ro if possible: only a writer reads a log that a killed process has left.
    mode = "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        database.execute("PRAGMA query_only = 1")
        if not database.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'penstock_parts'"
        ).fetchone():
            return  # cut off before the first table
        listed = database.execute(
            "SELECT name, columns, recording FROM penstock_parts ORDER BY part"
        ).fetchall()
        for name, columns, recording in listed:
            if name != table and not name.startswith(f"{table}_"):
                continue
            schema = plain_schema(
                arrow_schema(described_schema(json.loads(columns), json.loads(recording)))
            )
            quoted = '"' + name.replace('"', '""') + '"'
            found = database.execute(f"SELECT * FROM {quoted} ORDER BY rowid").fetchall()
            cells = list(zip(*found, strict=True)) if found else [()] * len(schema)
            arrays = [
                pa.array(column, _stored_type(pa, field.type)).cast(field.type)
                for column, field in zip(cells, schema, strict=True)
            ]
            yield StoredPart(path, pa.table(arrays, schema=schema))


def _stored_type(pa: Any, kind: Any) -> Any:
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind) else kind


def described_schema(columns: list[dict[str, Any]], recording: dict[str, Any]) -> RecordSchema:
    """The schema of a part from the description that lies beside its rows."""
    fields = [field_from_description(entry) for entry in columns]
    return RecordSchema(
        tuple(field for field in fields if field is not None),
        json.dumps(recording, ensure_ascii=False),
    )


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
