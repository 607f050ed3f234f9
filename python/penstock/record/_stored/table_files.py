"""Parquet and Arrow files and journals as Arrow tables, as far as they can be read.

Every batch is validated in full before anything uses it: what pyarrow reads from a damaged file may
have offsets out of its bounds, and the first access to those ends the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.record._parts.journal import read_journal
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._stored.parquet_pieces import parquet_tables
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.errors import RecoveryError

__all__ = ["format_of", "journal_table", "table_of_file"]

_FIRST_MESSAGE = 8  # of an Arrow file, behind "ARROW1" and two zero bytes


def format_of(path: Path) -> TableFormat:
    """The format of a file, or of the parts of a folder."""
    if path.suffix == ".arrow" or (path.is_dir() and any(path.rglob("part-*.arrow"))):
        return ArrowFormat("zstd")
    return ParquetFormat("zstd")


def table_of_file(path: Path, damages: DamageList) -> Any:
    """The rows of a Parquet or Arrow file; None if none of them can be read.

    OSError where the system refuses to read the file.
    """
    table_format = format_of(path)
    try:
        return table_format.read(path)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = reason_of(error)
    before = damages.count
    try:
        if table_format.suffix == ".arrow":
            table = _arrow_batches(path, damages)
        else:
            table = _parquet_batches(path, damages)
    except UNREADABLE as error:
        damages.note(path, "", f"it cannot be read: {reason_of(error)}")
        return None
    if damages.count == before:
        # Piece by piece nothing was wrong: only together the pieces do not fit.
        damages.note(path, "", f"it cannot be read as a whole: {reason}")
    return table


def journal_table(path: Path, damages: DamageList, *, growing: bool) -> Any:
    """The rows of a journal; None if not even its head can be read.

    Args:
        path: the journal.
        damages: notes what cannot be read.
        growing: True while a recorder writes it: then its end is not torn.
    """
    try:
        content = read_journal(path)
    except RecoveryError as error:
        damages.note(path, "", reason_of(error))
        return None
    if content.fault and content.more:
        damages.note(path, f"byte {content.end}", f"{content.fault}; {content.more}")
    elif content.fault and not growing:
        damages.note_end(path, f"byte {content.end}", "the last batch is not complete")
    return content.table


def _parquet_batches(path: Path, damages: DamageList) -> Any:
    pa = pyarrow_module()
    with ParquetFormat("zstd").open(path) as file:
        schema = file.schema_arrow
    batches = [batch for _, table in parquet_tables(path, damages) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)


def _arrow_batches(path: Path, damages: DamageList) -> Any:
    """The batches that can be read, by the index at the file's end, or without it."""
    pa = pyarrow_module()
    try:
        reader = pa.ipc.open_file(pa.OSFile(str(path)))
    except UNREADABLE as error:
        damages.note(path, "the index at its end", reason_of(error))
        return _arrow_stream(path, damages)
    batches = []
    for number in range(reader.num_record_batches):
        try:
            batch = reader.get_batch(number)
            batch.validate(full=True)
        except UNREADABLE as error:
            damages.note(path, f"batch {number + 1}", reason_of(error))
        else:
            batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _arrow_stream(path: Path, damages: DamageList) -> Any:
    """The batches up to the first damaged one: a file is a stream with an index behind it."""
    pa = pyarrow_module()
    batches: list[Any] = []
    with open(path, "rb") as file:
        file.seek(_FIRST_MESSAGE)
        reader = pa.ipc.open_stream(file)
        try:
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
        except UNREADABLE as error:
            damages.note(path, f"batch {len(batches) + 1} and those behind it", reason_of(error))
        return pa.Table.from_batches(batches, reader.schema)
