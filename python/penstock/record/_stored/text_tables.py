"""CSV and JSON Lines as Arrow tables: the rows that can be read, and what is wrong with others.

A whole CSV file is read by pyarrow at once. Where that fails, or a quote is in the wrong place, the
file is read row by row instead, as an editor or a damaged disk has left it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.record._sinks.line_ends import (
    Layout,
    TextRow,
    csv_layout,
    fault_of,
    fields_of,
    has_faulty_row,
    is_whole,
    json_object,
    rows_of,
)
from penstock.record._sinks.line_repair import HEAD_KEY, sidecar_path
from penstock.record._stored.parquet_pieces import Columns, chosen_columns
from penstock.record._stored.sound_tables import (
    check_complete,
    converted,
    described_schema,
    fixed_types,
    plain_schema,
)
from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.recorder_lock import is_being_recorded

__all__ = ["csv_pieces", "csv_table", "jsonl_table"]

_ROWS_AT_A_TIME = 4096
_PIECE_BYTES = 4 << 20
_MOST_LINES_BACK = 1000
_CELL = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): (.*)", re.DOTALL
)


# -- CSV --------------------------------------------------------------------------------------


def csv_table(path: Path, damages: DamageList) -> Any:
    """The rows of a CSV file; None if there is nothing in it yet."""
    return _csv_table(path, damages, _described_columns(path, damages) if _has(path) else None)


def csv_pieces(
    path: Path, damages: DamageList, columns: Columns = None
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The rows of a CSV file in pieces of some megabytes of text, with the names of all columns.

    Args:
        path: the file.
        damages: notes what cannot be read.
        columns: the columns that are needed, of those that there are.
    """
    if not _has(path):
        return
    plain = _described_columns(path, damages)
    with open(path, "rb") as file:
        head = file.readline()
        names = fields_of(head)
        if plain is None or not head.endswith(b"\n") or tuple(names) != tuple(plain.names):
            table = _csv_table(path, damages, plain)
            if table is not None:
                yield table, tuple(table.column_names)
            return
        layout = Layout(True, len(plain))
        chosen = chosen_columns(columns, plain)
        line, rest = 2, b""
        while block := file.read(_PIECE_BYTES):
            data = rest + block
            cut = _row_end(data)
            whole, rest = data[:cut], data[cut:]
            if not whole:
                continue
            try:
                yield _read_whole(whole, layout, plain, names, chosen), tuple(names)
            except UNREADABLE:
                yield _read_rows(path, whole, names, layout, plain, damages, line), tuple(names)
            line += whole.count(b"\n")
        if rest:
            yield _read_rows(path, rest, names, layout, plain, damages, line), tuple(names)


def _row_end(data: bytes) -> int:
    """Where the last whole row ends, as far as quotes show it; 0 if nowhere."""
    cut = data.rfind(b"\n") + 1
    odd = data.count(b'"', 0, cut) % 2
    for _ in range(_MOST_LINES_BACK):
        if not odd or not cut:
            return cut
        before = data.rfind(b"\n", 0, cut - 1) + 1
        odd ^= data.count(b'"', before, cut) % 2
        cut = before
    return 0


def _has(path: Path) -> bool:
    return path.stat().st_size > 0


def _csv_table(path: Path, damages: DamageList, plain: Any) -> Any:
    data = path.read_bytes()
    if not data:
        return None
    head, ended, rest = data.partition(b"\n")
    names = fields_of(head)
    layout = csv_layout(head) if plain is None else Layout(True, len(plain))
    if plain is None or tuple(names) == tuple(plain.names):
        whole = data
        if not data.endswith(b"\n") and not is_whole(data[data.rfind(b"\n") + 1 :], layout):
            whole = data[: data.rfind(b"\n") + 1]
        try:
            table = _read_whole(whole, layout, plain)
        except UNREADABLE:
            pass
        else:
            if len(whole) < len(data) and not is_being_recorded([path]):
                line = data.count(b"\n") + 1
                damages.note_end(path, f"line {line}", "the last row is not complete")
            return table
    elif not ended:
        damages.note_end(path, "line 1", "the header is not complete")
        return None
    else:
        damages.note(path, "line 1", "the header is not that of its description")
        names = list(plain.names)
    return _read_rows(path, rest, names, layout, plain, damages)


def _described_columns(path: Path, damages: DamageList) -> Any:
    """The Arrow schema that lies beside a text file; None without one that can be read."""
    beside = sidecar_path(path)
    if not beside.exists():
        return None
    try:
        described = json.loads(beside.read_bytes())
        schema = described_schema(described["columns"], described["recording"])
        return plain_schema(arrow_schema(schema))
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = reason_of(error) if beside.stat().st_size else "it is empty"
        damages.note(beside, "", f"the description cannot be read: {reason}")
        return None


def _read_whole(
    data: bytes,
    layout: Layout,
    plain: Any,
    names: list[str] | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """All rows at once; ValueError and others if anything is wrong with any of them.

    With ``names`` the data have no header; of ``columns``, only those that there are are read.
    """
    if has_faulty_row(data, layout):
        raise ValueError("a quote stands where none may stand")
    options = _convert_options(fixed_types() if plain is None else plain)
    csv = pyarrow_module("pyarrow.csv")
    if columns is not None:
        pa = pyarrow_module()
        plain = pa.schema([plain.field(n) for n in columns if n in plain.names], plain.metadata)
        options.include_columns = plain.names
    table = csv.read_csv(
        pyarrow_module().BufferReader(data),
        read_options=csv.ReadOptions(column_names=names),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    )
    return check_complete(_with_devices(table, plain), table.num_rows)


def _read_rows(
    path: Path,
    data: bytes,
    names: list[str],
    layout: Layout,
    plain: Any,
    damages: DamageList,
    line: int = 2,
) -> Any:
    """Row by row, in pieces; what is wrong with a row is noted. ``line`` is that of the first."""
    pa = pyarrow_module()
    csv = pyarrow_module("pyarrow.csv")
    types = fixed_types() if plain is None else plain

    def convert(rows: Sequence[TextRow]) -> Any:
        text = b"".join(row.data if row.ended else row.data + b"\n" for row in rows)
        table = csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=_convert_options(types),
        )
        return check_complete(_with_devices(table, plain), len(rows))

    def refuse(row: TextRow, reason: str) -> None:
        reason = fault_of(row.data, layout) or _plainly(reason, names)
        damages.note(path, f"line {row.line}", reason, 1)

    tables = []
    for rows in _pieces(path, rows_of(io.BytesIO(data), layout, line=line), layout, damages):
        tables += converted(rows, convert, refuse)
        if plain is None and tables:
            types = _types_of(tables[0], names)
    if not tables:
        if plain is not None:
            return plain.empty_table()
        return pa.table({name: pa.array([], types.get(name, pa.string())) for name in names})
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _pieces(
    path: Path, rows: Iterator[TextRow], layout: Layout, damages: DamageList
) -> Iterator[list[TextRow]]:
    """The rows whose form is good, some thousand at a time."""
    locked = False
    while piece := list(islice(rows, _ROWS_AT_A_TIME)):
        good = []
        for row in piece:
            if not row.data.strip():
                continue  # an empty line
            if not row.ended and not is_whole(row.data, layout):
                locked = locked or is_being_recorded([path])
                if not locked:
                    damages.note_end(path, f"line {row.line}", "the last row is not complete")
            elif row.fault:
                damages.note(path, f"line {row.line}", row.fault, 1)
            else:
                good.append(row)
        yield good


def _convert_options(types: Any) -> Any:
    return pyarrow_module("pyarrow.csv").ConvertOptions(
        column_types=types,
        strings_can_be_null=True,
        null_values=[""],
        true_values=["true"],
        false_values=["false"],
    )


def _with_devices(table: Any, plain: Any) -> Any:
    """The device of an event of the whole recording is an empty text, and reads as null."""
    if table.schema.names.count("device") == 1:
        device = table.schema.get_field_index("device")
        table = table.set_column(device, "device", table.column(device).fill_null(""))
    return table if plain is None else table.cast(plain)


def _plainly(reason: str, names: Sequence[str]) -> str:
    """What pyarrow says of a cell, with the name of its column in place of the number."""
    match = _CELL.fullmatch(reason)
    if match is None or int(match[1]) >= len(names):
        return reason
    return f"{names[int(match[1])]} is no {match[2]}: {match[3]}"


def _types_of(table: Any, names: list[str]) -> dict[str, Any]:
    """The types that the first rows show, of a file that does not tell them.

    Whole numbers say nothing: the first values of a float are often whole.
    """
    pa = pyarrow_module()
    types = fixed_types()
    for name in names:
        kind = table.schema.field(name).type
        if name not in types and not pa.types.is_null(kind):
            types[name] = pa.float64() if pa.types.is_integer(kind) else kind
    return types


# -- JSON Lines -------------------------------------------------------------------------------


def jsonl_table(path: Path, damages: DamageList) -> Any:
    """The rows of a JSON Lines file; None if there is nothing in it yet."""
    pa = pyarrow_module()
    if not path.stat().st_size:
        return None
    # A file without a head, such as an export, may have its description beside it.
    plain: Any = _described_columns(path, damages)
    names = None if plain is None else set(plain.names)
    types: Any = None
    tables: list[Any] = []
    numbered: list[tuple[int, dict[str, Any]]] = []

    def convert(rows: Sequence[tuple[int, dict[str, Any]]]) -> Any:
        return check_complete(_of_objects([row for _, row in rows], plain, types), len(rows))

    def refuse(row: tuple[int, dict[str, Any]], reason: str) -> None:
        damages.note(path, f"line {row[0]}", reason, 1)

    def flush() -> None:
        nonlocal types
        tables.extend(converted(numbered, convert, refuse))
        numbered.clear()
        if plain is None and types is None and tables:
            types = _types_of(tables[0], tables[0].schema.names)

    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            content = _object_of(number, line, path, damages)
            if content is None:
                continue
            if HEAD_KEY in content:
                head = content[HEAD_KEY]
                if number == 1 and isinstance(head, dict) and "columns" in head:
                    plain = _headed(head, path, damages)
                    names = None if plain is None else set(plain.names)
                continue
            if names is not None and content.keys() != names:
                damages.note(path, f"line {number}", "its columns are not those of the head", 1)
                continue
            numbered.append((number, content))
            if len(numbered) == _ROWS_AT_A_TIME:
                flush()
    flush()
    if tables:
        return pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    return plain.empty_table() if plain is not None else None


def _object_of(number: int, line: bytes, path: Path, damages: DamageList) -> dict[str, Any] | None:
    if not line.strip():
        return None
    content = json_object(line)
    if isinstance(content, dict):
        return content
    if line.endswith(b"\n"):
        damages.note(path, f"line {number}", content, 1)
    elif not is_being_recorded([path]):
        damages.note_end(path, f"line {number}", "the last row is not complete")
    return None


def _headed(head: Any, path: Path, damages: DamageList) -> Any:
    try:
        return plain_schema(arrow_schema(described_schema(head["columns"], head["recording"])))
    except UNREADABLE as error:
        damages.note(path, "line 1", f"the head cannot be read: {reason_of(error)}")
        return None


def _of_objects(rows: list[dict[str, Any]], plain: Any, types: Any) -> Any:
    pa = pyarrow_module()
    if plain is None:
        table = pa.Table.from_pylist(rows)
        kinds = fixed_types() if types is None else types
        fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema]
        return table.cast(pa.schema(fields))
    read_as = pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in plain
        ]
    )
    return pa.Table.from_pylist(rows, schema=read_as).cast(plain)
