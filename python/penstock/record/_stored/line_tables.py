"""CSV and JSON Lines as Arrow tables: the rows that can be read, and what is wrong with others."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from penstock._record import line_counts
from penstock.record._files.line_ends import (
    HEAD_KEY,
    Layout,
    TextRow,
    fault_of,
    fields_of,
    has_faulty_row,
    is_cut,
    is_whole,
    json_object,
    lines_of,
    rows_of,
    sidecar_path,
)
from penstock.record._stored.sound_tables import (
    check_complete,
    converted,
    described_schema,
    fixed_types,
    plain_schema,
)
from penstock.record._stored.table_files import Columns, chosen_columns
from penstock.record.arrow import arrow_schema, common_type, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.recorder_lock import is_being_recorded

# CSV as Arrow tables: the rows that can be read, and what is wrong with others.
#
# A piece of some megabytes is read by pyarrow at once. Where that fails, or a quote is in the wrong
# place, it is read row by row instead, as an editor or a damaged disk has left it.

_ROWS_AT_A_TIME = 4096
_PIECE_BYTES = 4 << 20
_LONGEST_HEAD = 1 << 20
_LARGEST_ROW = 16 << 20
_MOST_LINES_BACK = 1000
_ROW = re.compile(r"\bRow #(\d+): ")
_CELL = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to (.+?): (.*)", re.DOTALL
)


def csv_table(path: Path, damages: DamageList) -> Any:
    """The rows of a CSV file; None if there is nothing in it yet."""
    tables = [table for table, _ in csv_pieces(path, damages)]
    return pyarrow_module().concat_tables(tables) if tables else None


def csv_pieces(
    path: Path, damages: DamageList, columns: Columns = None
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The rows of a CSV file in pieces of some megabytes of text, with the names of all columns.

    A file without a description is read twice, as only all its rows tell the types.

    Args:
        path: the file.
        damages: notes what cannot be read.
        columns: the columns that are needed, of those that there are.
    """
    if not path.stat().st_size:
        return
    plain = described_columns(path, damages)
    with open(path, "rb") as file:
        head = file.readline(_LONGEST_HEAD)
    names = fields_of(head)
    if plain is None:
        plain = _shown_columns(path, len(head), names)
    elif tuple(names) != tuple(plain.names):
        if not head.endswith(b"\n"):
            damages.note_end(path, "line 1", "the header is not complete")
            return
        damages.note(path, "line 1", "the header is not that of its description")
        names = list(plain.names)
    layout = Layout(True, len(names))
    chosen = chosen_columns(columns, plain)
    empty = True
    for line, whole, is_rest in _texts(path, len(head), layout, damages):
        try:
            if is_rest:
                raise ValueError("its last row may be torn")
            yield _read_whole(whole, layout, plain, names, chosen), tuple(names)
        except UNREADABLE:
            yield _read_rows(path, whole, names, layout, plain, damages, line), tuple(names)
        empty = False
    if empty:
        yield plain.empty_table(), tuple(names)


def _texts(
    path: Path, begin: int, layout: Layout, damages: DamageList
) -> Iterator[tuple[int, bytes, bool]]:
    """Texts of whole rows, each with the number of its first line; what is left comes last."""
    line, rest, endless = 2, b"", False
    with open(path, "rb") as file:
        file.seek(begin)
        while block := file.read(_PIECE_BYTES):
            if endless:
                _, end, block = block.partition(b"\n")
                if not end:
                    continue
                line, endless = line + 1, False
            data = rest + block
            cut = _row_end(data, layout)
            whole, rest = data[:cut], data[cut:]
            if whole:
                yield line, whole, False
                line += line_counts(whole)[0]
            elif len(rest) >= _LARGEST_ROW:
                damages.note(path, f"line {line}", "it is longer than 16 MiB", 1)
                rest, endless = b"", True
    if rest:
        yield line, rest, True


def _row_end(data: bytes, layout: Layout) -> int:
    """Where the last whole row ends; 0 if nowhere."""
    last = cut = data.rfind(b"\n") + 1
    odd = line_counts(memoryview(data)[:cut])[1] % 2
    for _ in range(_MOST_LINES_BACK):
        if not odd or not cut:
            break
        before = data.rfind(b"\n", 0, cut - 1) + 1
        odd ^= data.count(b'"', before, cut) % 2
        cut = before
    if not odd and cut:
        return cut
    # A quote has been open for long: a stray one. Its row is judged by those after it.
    begin = 0
    for row in rows_of(io.BytesIO(data[:last]), layout):
        begin = row.start if row.is_open else last
    return begin if begin or len(data) < _LARGEST_ROW else last


def _shown_columns(path: Path, begin: int, names: list[str]) -> Any:
    """The columns of a file without a description, by its rows."""
    pa = pyarrow_module()
    layout = Layout(True, len(names))
    kinds = dict.fromkeys(names, pa.null())
    quiet = DamageList(strict=False)
    for _, text, _ in _texts(path, begin, layout, quiet):
        try:
            table = _read_whole(text, layout, None, names)
        except UNREADABLE:
            table = _read_rows(path, text, names, layout, None, quiet)
        for field in table.schema if len(table) else ():
            kinds[field.name] = common_type(kinds[field.name], field.type)
    return pa.schema([(name, fixed_types().get(name, kinds[name])) for name in names])


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
        raise ValueError("a quote is in a place where none is allowed")
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
        tables += converted(rows, convert, refuse, _row_of)
        if plain is None and tables:
            types = types_of(tables[0], names)
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


def _row_of(error: Exception) -> int | None:
    """The place of the row of which an error of pyarrow's reader tells."""
    match = _ROW.search(str(error))
    return None if match is None else int(match[1]) - 1


def _plainly(reason: str, names: Sequence[str]) -> str:
    """What pyarrow says of a cell, with the name of its column instead of the number."""
    match = _CELL.fullmatch(reason)
    if match is None or int(match[1]) >= len(names):
        return reason
    return f"{names[int(match[1])]} is not a valid {match[2]}: {match[3]}"


# JSON Lines as Arrow tables: the rows that can be read, and what is wrong with others.


def jsonl_table(path: Path, damages: DamageList) -> Any:
    """The rows of a JSON Lines file; None if there is nothing in it yet."""
    tables = [table for table, _ in jsonl_pieces(path, damages)]
    if not tables:
        return None
    pa = pyarrow_module()
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def jsonl_pieces(
    path: Path, damages: DamageList, columns: Columns = None
) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """The rows of a JSON Lines file, some thousand at a time, with the names of all columns.

    Args:
        path: the file.
        damages: notes what cannot be read.
        columns: the columns that are needed, of those that there are.
    """
    # A file without a head, such as an export, may have its description beside it.
    plain: Any = described_columns(path, damages) if path.stat().st_size else None
    types: Any = None
    empty = True

    def convert(rows: Sequence[tuple[int, dict[str, Any]]]) -> Any:
        return check_complete(_of_objects([row for _, row in rows], plain, types), len(rows))

    def refuse(row: tuple[int, dict[str, Any]], reason: str) -> None:
        damages.note(path, f"line {row[0]}", reason, 1)

    for head, rows in _objects(path, plain, damages):
        plain = head
        for table in converted(rows, convert, refuse):
            if plain is None and types is None:
                types = types_of(table, table.schema.names)
            names = tuple(table.schema.names)
            chosen = chosen_columns(columns, table.schema)
            yield table if chosen is None else table.select(chosen), names
            empty = False
    if empty and plain is not None:
        yield plain.empty_table(), tuple(plain.names)


def _objects(
    path: Path, plain: Any, damages: DamageList
) -> Iterator[tuple[Any, list[tuple[int, dict[str, Any]]]]]:
    """The rows with the numbers of their lines, after the schema that the head states if any."""
    names = None if plain is None else set(plain.names)
    numbered: list[tuple[int, dict[str, Any]]] = []
    with open(path, "rb") as file:
        for number, line in enumerate(lines_of(file), 1):
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
                yield plain, numbered
                numbered = []
    yield plain, numbered


def _object_of(number: int, line: bytes, path: Path, damages: DamageList) -> dict[str, Any] | None:
    if not line.strip():
        return None
    if is_cut(line):
        damages.note(path, f"line {number}", "it is longer than 16 MiB", 1)
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


# The columns of a text file, as they lie described beside it, or as its first rows show them.


def described_columns(path: Path, damages: DamageList) -> Any:
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


def types_of(table: Any, names: list[str]) -> dict[str, Any]:
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
