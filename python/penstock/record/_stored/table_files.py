"""Parquet and Arrow files and journals as Arrow tables, as far as they can be read.

Every batch is validated in full before anything uses it: what pyarrow reads from a damaged file may
have offsets out of its bounds, and the first access to those ends the process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.record._parts.journal import read_journal
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._stored.arrow_tables import arrow_schema_of, arrow_tables
from penstock.record._stored.parquet_tables import parquet_tables
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of
from penstock.record.errors import RecoveryError

__all__ = ["format_of", "journal_table", "table_of_file"]


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
        table = _sound_batches(path, damages)
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


def _sound_batches(path: Path, damages: DamageList) -> Any:
    pa = pyarrow_module()
    if path.suffix == ".arrow":
        schema, read = arrow_schema_of(path), arrow_tables
    else:
        schema, read = ParquetFormat("zstd").read_schema(path), parquet_tables
    batches = [batch for _, table in read(path, damages) for batch in table.to_batches()]
    return pa.Table.from_batches(batches, schema)
