"""Makes the recording of a killed process readable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock._durable_files import find_leftovers
from penstock.record._parts.compaction import compact
from penstock.record._parts.parts_folder import PartsFolder, locked, parts_path
from penstock.record._parts.parts_recovery import recover_folder
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._sinks.files import explained, lock_file, part_path
from penstock.record._sinks.line_ends import last_whole_line
from penstock.record.arrow import pyarrow_module
from penstock.record.errors import RecoveryError

__all__ = ["Recovery", "recover"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What :func:`recover` did.

    Attributes:
        path: the recording.
        rows: moved in from the journal and from the parts of a single file.
        bytes_cut: of a torn end.
    """

    path: Path
    rows: int = 0
    bytes_cut: int = 0

    @property
    def changed(self) -> bool:
        """False when the recording was whole already."""
        return bool(self.rows or self.bytes_cut)


def recover(path: str | os.PathLike[str]) -> Recovery:
    """Repair a recording that was cut off, in place.

    A folder of parts gets the rows of its journal. So does a single Parquet or Arrow file, whose
    parts are then joined. From a text file a torn last line is cut off. SQLite recovers by itself.
    A recording that is whole is left alone; recovering twice, or being killed while recovering,
    does no harm.

    RecoveryError when there is no such recording or its content cannot be understood;
    SinkWriteError when the disk refuses or another process is still recording to it;
    SinkDependencyError when Parquet needs pyarrow. Blocking; call it from a thread.
    """
    target = Path(path)
    if target.suffix == ".parts":
        target = target.with_suffix("")
    table_format: TableFormat = ArrowFormat("zstd") if _is_arrow(target) else ParquetFormat("zstd")
    if target.is_dir():
        return _recover_folder(PartsFolder(target, table_format.suffix), table_format)
    folder = PartsFolder(parts_path(target), table_format.suffix)
    if target.suffix == table_format.suffix and folder.path.is_dir():
        return _recover_single(target, folder, table_format)
    if not target.exists():
        raise RecoveryError(f"{target} does not exist: give the path of the recorded file")
    if target.suffix in (".csv", ".jsonl"):
        return _recover_lines(target)
    if target.suffix in (".parquet", ".arrow"):
        _check_readable(target, table_format)
    return Recovery(target)


def _check_readable(path: Path, table_format: TableFormat) -> None:
    table_format.load()
    with explained("read", path):
        try:
            table_format.read_schema(path)
        except pyarrow_module().ArrowException as error:
            raise RecoveryError(
                f"{path} cannot be read and has no parts beside it: nothing can be recovered"
            ) from error


def _is_arrow(path: Path) -> bool:
    return path.suffix == ".arrow" or (path.is_dir() and any(path.glob("part-*.arrow")))


def _recover_folder(folder: PartsFolder, table_format: TableFormat) -> Recovery:
    if not folder.exists():
        if not any(folder.path.iterdir()):
            return Recovery(folder.path)  # killed when it had just been created
        raise RecoveryError(f"{folder.path} is not the folder of a recording: it has no .penstock")
    table_format.load()
    with locked(folder):
        return Recovery(folder.path, recover_folder(folder, table_format))


def _recover_single(path: Path, folder: PartsFolder, table_format: TableFormat) -> Recovery:
    table_format.load()
    if not folder.exists() and not any(folder.path.iterdir()):
        folder.path.rmdir()
        return Recovery(path)
    with locked(folder):
        if not folder.has_begun():
            # Killed before the first row: only the name was reserved.
            folder.remove()
            return Recovery(path)
        before = _rows_in(path, table_format)
        recover_folder(folder, table_format)
        compact(folder, path, table_format, facts={}, overwrite=False, append=True)
        return Recovery(path, _rows_in(path, table_format) - before)


def _rows_in(path: Path, table_format: TableFormat) -> int:
    rows = 0
    number = 1
    while (part := part_path(path, number)).exists():
        rows += table_format.count_rows(part)
        number += 1
    return rows


def _recover_lines(path: Path) -> Recovery:
    with explained("open", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock_file(descriptor, path)
        with explained("recover", path), open(path, "rb") as file:
            end, _ = last_whole_line(file, quoted=path.suffix == ".csv")
            size = os.fstat(descriptor).st_size
            if end < size:
                os.ftruncate(descriptor, end)
                os.fsync(descriptor)
            for leftover in find_leftovers(os.fspath(path) + ".meta.json"):
                os.unlink(leftover)
    finally:
        os.close(descriptor)
    return Recovery(path, bytes_cut=size - end)
