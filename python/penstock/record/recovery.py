"""Making a recording readable whose process was killed."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .arrow import pyarrow_module
from .csv_text import last_whole_line
from .errors import RecoveryError
from .files import explained, lock_file, sync_directory
from .journal import JournalContent, journal_path, read_journal
from .parquet_footer import MAGIC, ParquetFooter, footer_offset, split_file
from .parquet_sink import append_durably, encode_rows

__all__ = ["Recovery", "recover"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What :func:`recover` did: ``rows`` moved in from the journal, ``bytes_cut`` of a torn end."""

    path: Path
    rows: int = 0
    bytes_cut: int = 0

    @property
    def changed(self) -> bool:
        """False when the file was whole already."""
        return bool(self.rows or self.bytes_cut)


def recover(path: str | os.PathLike[str]) -> Recovery:
    """Make the file of a recording that was cut off whole again, in place.

    For ``run.parquet``: the rows in ``run.parquet.journal`` are added, a torn end is cut off, the
    journal is removed. For ``run.csv``: a torn last line is cut off. A file that is whole is left
    alone; recovering twice, or being killed while recovering, does no harm.

    RecoveryError when there is no such recording or its content cannot be understood;
    SinkWriteError when the disk refuses or another process is still recording to it;
    SinkDependencyError when Parquet needs pyarrow. Blocking; call it from a thread.
    """
    target = Path(path)
    if target.name.endswith(".journal"):
        target = target.with_name(target.name.removesuffix(".journal"))
    if not target.exists():
        raise RecoveryError(f"{target} does not exist: give the path of the recorded file")
    with explained("open", target):
        descriptor = os.open(target, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock_file(descriptor, target)
        if target.suffix == ".csv":
            return _recover_csv(target, descriptor)
        return _recover_parquet(target, descriptor)
    finally:
        os.close(descriptor)


def _recover_csv(path: Path, descriptor: int) -> Recovery:
    with explained("recover", path), open(path, "rb") as file:
        end, _ = last_whole_line(file)
        size = os.fstat(descriptor).st_size
        if end < size:
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
    return Recovery(path, bytes_cut=size - end)


def _recover_parquet(path: Path, descriptor: int) -> Recovery:
    pyarrow_module("pyarrow.parquet")
    journal = journal_path(path)
    size = os.fstat(descriptor).st_size
    content = read_journal(journal) if journal.exists() else None
    try:
        footer, end = _read_footer(descriptor, size), size
    except ValueError:
        # Cut off while a row group was being appended: the footer before it is still there.
        footer, end = _earlier_footer(path, descriptor, size, content)
    rows = 0
    with explained("recover", path):
        if end < size:
            os.ftruncate(descriptor, end)
        if content is not None:
            rows = _add_journal(path, descriptor, footer, end, content)
        os.fsync(descriptor)
        for leftover in (journal, journal.with_name(journal.name + ".new")):
            leftover.unlink(missing_ok=True)
        sync_directory(path)
    return Recovery(path, rows=rows, bytes_cut=size - end)


def _add_journal(
    path: Path, descriptor: int, footer: ParquetFooter, end: int, content: JournalContent
) -> int:
    # If the process ended between sealing a row group and beginning a new journal, the rows of
    # the old one are in the file already.
    sealed = footer.rows - content.sealed_rows
    if sealed < 0:
        raise RecoveryError(
            f"{path} holds {footer.rows} samples where its journal expects at least "
            f"{content.sealed_rows}: it is not the file that the journal belongs to"
        )
    missing = content.rows - sealed
    if missing <= 0:
        return 0
    pa = pyarrow_module()
    table: Any = pa.Table.from_batches(content.batches, schema=content.schema).slice(sealed)
    data, rows_footer = split_file(encode_rows(table, "zstd"))
    footer.append(rows_footer, end - len(MAGIC))
    footer.set_metadata("penstock.recovered_rows", str(missing))
    append_durably(descriptor, end, data + footer.encode())
    return missing


def _read_footer(descriptor: int, size: int) -> ParquetFooter:
    tail = os.pread(descriptor, 8, max(0, size - 8))
    start = footer_offset(tail, size)
    return ParquetFooter(os.pread(descriptor, size - 8 - start, start))


def _earlier_footer(
    path: Path, descriptor: int, size: int, content: JournalContent | None
) -> tuple[ParquetFooter, int]:
    if content is not None:
        with contextlib.suppress(ValueError):
            return _read_footer(descriptor, content.sealed_bytes), content.sealed_bytes
    # No journal to tell: look for the last place that reads as a footer.
    window, end = 1 << 20, size
    while end >= 2 * len(MAGIC):
        start = max(0, end - window)
        block = os.pread(descriptor, end - start, start)
        found = block.rfind(MAGIC)
        while found >= 0 and start + found > 0:
            with contextlib.suppress(ValueError):
                candidate = start + found + len(MAGIC)
                return _read_footer(descriptor, candidate), candidate
            found = block.rfind(MAGIC, 0, found + len(MAGIC) - 1)
        if start == 0:
            break
        end = start + len(MAGIC) - 1
    raise RecoveryError(f"{path} holds no complete Parquet footer: nothing can be recovered")
