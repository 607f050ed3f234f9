"""Arrow tables as a workbook of Excel (.xlsx), written row by row in constant memory."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from penstock.record.arrow import (
    METADATA_KEY,
    is_number,
    name_with_unit,
    pyarrow_module,
    units_of,
)
from penstock.record.errors import SinkDependencyError

__all__ = ["write_workbook"]

_MOST_ROWS = 1_048_576
"""Of a sheet, in all versions of Excel since 2007."""
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
