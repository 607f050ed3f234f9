"""Arrow tables as files in the formats of the sinks, for exports of a recording."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from penstock.record._columns.batch import SampleBatch, schema_from_arrow
from penstock.record._columns.row_text import (
    csv_bytes,
    csv_header,
    describe_columns,
    json_bytes,
    json_line,
    quoted,
)
from penstock.record._files.files import replace_file
from penstock.record._files.line_ends import sidecar_path
from penstock.record.arrow import (
    METADATA_KEY,
    is_number,
    iso_times,
    name_with_unit,
    pyarrow_module,
    units_of,
)
from penstock.record.errors import SinkDependencyError
from penstock.record.exported_netcdf import write_netcdf

__all__ = ["TABLE_WRITERS", "TableWriter", "describe_table", "described_in"]

_MOST_ROWS = 1_048_576
"""The most rows of a sheet, in all versions of Excel since 2007."""
_MOST_CHARACTERS = 32_767
_TIME_FORMAT = "yyyy-mm-dd hh:mm:ss.000"
_TIME_WIDTH = 24


def write_workbook(tables: Iterable[Any], schema: Any, file: Any) -> None:
    """Write tables of one schema to an open binary file.

    Times are UTC, to the millisecond: Excel knows no zone and no more digits. Behind a million rows
    a further sheet begins. The last sheet has the columns with their units, and the metadata.

    Raises:
        SinkDependencyError: without the package XlsxWriter.
        OSError: if the disk refuses.
    """
    try:
        library = importlib.import_module("xlsxwriter")
    except ImportError as error:
        raise SinkDependencyError(
            "a workbook needs the package XlsxWriter: install it with  pip install 'penstock[xlsx]'"
        ) from error
    options = {"constant_memory": True, "strings_to_numbers": False, "strings_to_formulas": False}
    options["strings_to_urls"] = False
    workbook = library.Workbook(file, options)
    bold = workbook.add_format({"bold": True})
    times = workbook.add_format({"num_format": _TIME_FORMAT})
    write = [_writer(field.type, times) for field in schema]
    sheets, row = 0, _MOST_ROWS
    sheet: Any = None
    for table in tables:
        for batch in table.to_batches(max_chunksize=4096):
            columns = [_cells(column) for column in batch.columns]
            for cells in zip(*columns, strict=True):
                if row == _MOST_ROWS:
                    sheets += 1
                    sheet, row = _begin(workbook, schema, sheets, bold), 1
                for number, cell in enumerate(cells):
                    if cell is not None:
                        write[number](sheet, row, number, cell)
                row += 1
    if sheet is None:
        _begin(workbook, schema, 1, bold)
    _describe(workbook, schema, bold)
    workbook.close()


def _begin(workbook: Any, schema: Any, number: int, bold: Any) -> Any:
    pa = pyarrow_module()
    sheet = workbook.add_worksheet("Samples" if number == 1 else f"Samples {number}")
    units = units_of(schema)
    for place, field in enumerate(schema):
        name = field.name
        is_time = pa.types.is_timestamp(field.type)
        unit = "UTC" if is_time else units.get(name)
        if isinstance(unit, str):
            name = name_with_unit(name, unit)
        sheet.write_string(0, place, name, bold)
        sheet.set_column(place, place, _TIME_WIDTH if is_time else max(10, len(name) + 1))
    sheet.freeze_panes(1, 0)
    return sheet


def _cells(column: Any) -> list[Any]:
    pa = pyarrow_module()
    if pa.types.is_timestamp(column.type):
        # Days since 1899-12-30, which Excel calls 0.
        return [
            None if t is None else 25_569 + t / 86_400e9
            for t in column.cast(pa.int64()).to_pylist()
        ]
    found: list[Any] = column.to_pylist()
    return found


def _writer(kind: Any, times: Any) -> Callable[[Any, int, int, Any], object]:
    pa = pyarrow_module()
    if pa.types.is_timestamp(kind):
        return lambda sheet, row, place, cell: sheet.write_number(row, place, cell, times)
    if pa.types.is_boolean(kind):
        return lambda sheet, row, place, cell: sheet.write_boolean(row, place, cell)
    if is_number(kind):
        return _write_number
    return lambda sheet, row, place, cell: sheet.write_string(
        row, place, str(cell)[:_MOST_CHARACTERS]
    )


def _write_number(sheet: Any, row: int, place: int, cell: Any) -> None:
    # Excel has neither NaN nor infinities, and would round larger integers.
    if math.isfinite(cell) and (isinstance(cell, float) or abs(cell) < 2**53):
        sheet.write_number(row, place, cell)
    else:
        sheet.write_string(row, place, str(cell))


def _describe(workbook: Any, schema: Any, bold: Any) -> None:
    sheet = workbook.add_worksheet("About")
    sheet.set_column(0, 0, 30)
    for place, text in enumerate(("column", "unit", "kind")):
        sheet.write_string(0, place, text, bold)
    units = units_of(schema)
    row = 1
    for field in schema:
        unit = units.get(field.name, "")
        text = unit if isinstance(unit, str) else ", ".join(f"{d}: {u}" for d, u in unit.items())
        for place, cell in enumerate((field.name, text, str(field.type))):
            sheet.write_string(row, place, cell)
        row += 1
    about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    for name, value in about.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        row += 1
        sheet.write_string(row, 0, str(name), bold)
        sheet.write_string(row, 1, text[:_MOST_CHARACTERS])


_ROWS_A_WRITE = 65_536
_ROWS_A_GROUP = 1 << 20
_TEXTS = (".csv", ".jsonl")  # formats that cannot hold the units themselves


def described_in(path: Path) -> Path:
    """The file that holds the units and metadata of ``path``: itself, or the one beside a text."""
    return sidecar_path(path) if path.suffix in _TEXTS else path


def describe_table(path: Path, schema: Any, rows: int, facts: Mapping[str, Any]) -> None:
    """Put units, metadata and ``facts`` beside a text, as its sink does; else do nothing.

    Raises:
        RecordError: if a column is of a kind that no recording has.
        OSError: if the disk refuses.
    """
    if path.suffix not in _TEXTS:
        return
    if _is_recording(schema):
        known = schema_from_arrow(schema)
        columns, about = describe_columns(known), json.loads(known.metadata)
    else:
        units = units_of(schema)
        columns = [{"name": name, "unit": units.get(name)} for name in schema.names]
        about = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    document = {
        "format": f"penstock {path.suffix[1:]} 1",
        "columns": columns,
        "recording": about,
        "rows": rows,
        **facts,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    replace_file(described_in(path), text.encode())


def _is_recording(schema: Any) -> bool:
    """Whether the rows are those of a recording; of a wide table, they are not."""
    return "device" in schema.names


def _write_csv(tables: Iterable[Any], schema: Any, file: Any) -> None:
    if not _is_recording(schema):
        file.write(csv_header(schema.names))
        for row in _rows(tables):
            file.write(",".join(quoted(_text(value)) for value in row.values()).encode() + b"\r\n")
        return
    file.write(csv_header(schema_from_arrow(schema).names))
    for batch in _batches(tables):
        file.write(csv_bytes(batch, 0, len(batch)))


def _write_lines(tables: Iterable[Any], schema: Any, file: Any) -> None:
    if not _is_recording(schema):
        for row in _rows(tables):
            plain = {name: _of_json(value) for name, value in row.items()}
            file.write(json_line(plain))
        return
    for batch in _batches(tables):
        file.write(json_bytes(batch, 0, len(batch)))


def _batches(tables: Iterable[Any]) -> Iterator[SampleBatch]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=_ROWS_A_WRITE):
            yield SampleBatch.from_arrow(batch)


def _rows(tables: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Rows as Python's values, times as texts."""
    pa = pyarrow_module()
    for table in tables:
        for number, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                table = table.set_column(number, field.name, iso_times(table[field.name]))
        for batch in table.to_batches(max_chunksize=_ROWS_A_WRITE):
            yield from batch.to_pylist()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _of_json(value: Any) -> Any:
    # JSON has neither NaN nor infinities.
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _write_parquet(tables: Iterable[Any], schema: Any, file: Any) -> None:
    parquet = pyarrow_module("pyarrow.parquet")
    with parquet.ParquetWriter(
        file, schema, compression="zstd", write_page_checksum=True
    ) as writer:
        for table in _grouped(tables):
            writer.write_table(table)


def _grouped(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in fewer tables: each becomes a row group."""
    pa = pyarrow_module()
    waiting: list[Any] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= _ROWS_A_GROUP:
            yield pa.concat_tables(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting)


def _write_arrow(tables: Iterable[Any], schema: Any, file: Any) -> None:
    with pyarrow_module("pyarrow.ipc").new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table)


TableWriter: TypeAlias = Callable[[Iterable[Any], Any, Any], None]

TABLE_WRITERS: Mapping[str, TableWriter] = MappingProxyType(
    {
        ".csv": _write_csv,
        ".parquet": _write_parquet,
        ".arrow": _write_arrow,
        ".jsonl": _write_lines,
        ".xlsx": write_workbook,
        ".nc": write_netcdf,
        ".h5": write_netcdf,
    }
)
"""By suffix: writes tables of one schema to an open binary file, one after the other.

RecordError for a column of no such kind, and where a package is missing (SinkDependencyError).
"""
