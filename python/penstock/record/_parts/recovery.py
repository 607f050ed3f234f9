"""Makes the recording of a killed process readable."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from penstock._durable_files import find_leftovers
from penstock._torn_end import Cut, EndTooLargeError, check_size, keep_copy
from penstock.record._files.files import explained, lock_file, numbered_parts
from penstock.record._files.line_ends import RepairedLines, repair_lines
from penstock.record._files.sqlite_log import (
    keep_torn_log,
    log_path,
    read_log,
    release_lock,
    take_lock,
)
from penstock.record._parts.compaction import compact, sealed_table
from penstock.record._parts.journal import JournalContent, read_journal, remove_journal
from penstock.record._parts.part_writer import PartOptions, write_part
from penstock.record._parts.parts_folder import PART_KEY, RUN_KEY, PartsFolder, locked, parts_path
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat, TableFormat
from penstock.record._seals.digests import SigningKey, digest_name
from penstock.record._seals.part_list import file_digest, read_part_list
from penstock.record._seals.seal import seals_path
from penstock.record._seals.seal_check import check_file
from penstock.record._seals.seal_writer import seal_what_is_found
from penstock.record.addresses import refuse_url
from penstock.record.arrow import METADATA_KEY
from penstock.record.damage import UNREADABLE, reason_of, unreadable_is
from penstock.record.errors import RecordError, RecoveryError

_DATABASE = b"SQLite format 3\0"
_SUFFIXES = (".parquet", ".arrow", ".csv", ".jsonl", ".sqlite", ".sqlite3", ".db")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What :func:`recover` did.

    Attributes:
        path: the recording.
        rows: the number of rows added from the journal and from the parts of a single file.
        cuts: the torn ends that were cut off, and the files beside the recording that have them.
        row_ended: True if a line end was added to the last row of a text file.
        sealed: True if a file got a seal that was missing after a SIGKILL.
    """

    path: Path
    rows: int = 0
    cuts: tuple[Cut, ...] = ()
    row_ended: bool = False
    sealed: bool = False

    @property
    def bytes_cut(self) -> int:
        """How many bytes were cut off."""
        return sum(cut.size for cut in self.cuts)

    @property
    def changed(self) -> bool:
        """False when the recording was whole already."""
        return bool(self.rows or self.cuts or self.row_ended or self.sealed)


def recover(
    path: str | os.PathLike[str], *, force: bool = False, sign: SigningKey | None = None
) -> Recovery:
    """Repair a recording that was cut off, in place. Blocks: call it in a worker thread.

    A folder of parts gets the rows of its journal. So does a single Parquet or Arrow file, whose
    parts are then joined. The torn last row of a text file is cut off, and so is the torn log of an
    SQLite database. The bytes that were cut off are kept beside the file, as ``NAME.torn``, and
    listed in the result. A complete recording is not changed, and neither is a file that Penstock
    has not written. ``recover`` may be called again, even after it was killed.

    Args:
        path: the recording.
        force: cut off even an end that is longer than SIGKILL can tear: several rows, batches or
            transactions, or more than 64 KiB of a text. It is kept too.
        sign: the key of a signed recording. Without it, new seals have no signature: rows after the
            last seal of a text file stay unproven, and a part or a single file that is written here
            has digests only.

    Raises:
        RecordError: the seals of a text file are signed with another key.
        RecoveryError: there is no such recording, its content is not a recording's, or its end is
            too long for a torn one. The recording is then unchanged.
        SinkWriteError: the disk refuses, or another process is still recording.
        SinkDependencyError: Parquet needs pyarrow.
    """
    try:
        refuse_url(os.fspath(path), "give the path of a recorded file")
    except ValueError as error:
        raise RecoveryError(str(error)) from error
    target = Path(path)
    if target.suffix == ".parts":
        target = target.with_suffix("")
    table_format: TableFormat = ArrowFormat("zstd") if _is_arrow(target) else ParquetFormat("zstd")
    if target.is_dir():
        return _recover_folder(PartsFolder(target, table_format.suffix), table_format, force, sign)
    folder = PartsFolder(parts_path(target), table_format.suffix)
    if target.suffix == table_format.suffix and folder.path.is_dir():
        return _recover_single(target, folder, table_format, force, sign)
    if not target.exists():
        raise RecoveryError(f"{target} does not exist: give the path of the recorded file")
    if target.suffix in (".csv", ".jsonl"):
        return _recover_lines(target, force, sign)
    if target.suffix in (".sqlite", ".sqlite3", ".db"):
        return _recover_database(target, force)
    if target.suffix in (".parquet", ".arrow"):
        _check_readable(target, table_format)
    elif target.is_file() and not _stands_beside_a_recording(target):
        raise RecoveryError(
            f"{target} is not a recording: its name must end in one of {', '.join(_SUFFIXES)}. It "
            "was not changed"
        )
    return Recovery(target)


def _stands_beside_a_recording(path: Path) -> bool:
    """Whether it is a file of a recording's, such as run.csv.seals: ``recover run/*`` names it."""
    return any(
        other.suffix in _SUFFIXES and path.name.startswith(other.name)
        for other in path.parent.iterdir()
    )


def _first_in(folder: Path) -> Path | None:
    recordings = (
        path.with_suffix("") if path.suffix == ".parts" else path
        for path in sorted(folder.iterdir())
        if path.suffix in (*_SUFFIXES, ".parts")
    )
    return next(recordings, None)


def _check_readable(path: Path, table_format: TableFormat) -> None:
    table_format.load()
    with explained("read", path):
        try:
            table_format.read_schema(path)
        except UNREADABLE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise RecoveryError(
                f"{path} cannot be read and has no parts next to it: nothing can be recovered "
                f"({reason_of(error)}). It was not changed"
            ) from error


def _is_arrow(path: Path) -> bool:
    return path.suffix == ".arrow" or (path.is_dir() and any(path.glob("part-*.arrow")))


def _recover_folder(
    folder: PartsFolder, table_format: TableFormat, force: bool, key: SigningKey | None
) -> Recovery:
    if not folder.exists():
        if not any(folder.path.iterdir()):
            return Recovery(folder.path)  # killed when it had just been created
        raise RecoveryError(
            f"{folder.path} is not the folder of a recording: it has no .penstock; name the "
            f"recordings in it, such as {_first_in(folder.path) or folder.path / 'samples.csv'}"
        )
    table_format.load()
    with locked(folder):
        found = recover_folder(folder, table_format, force=force, key=key)
    return Recovery(folder.path, found.rows, tuple(found.cuts))


def _recover_single(
    path: Path,
    folder: PartsFolder,
    table_format: TableFormat,
    force: bool,
    key: SigningKey | None,
) -> Recovery:
    table_format.load()
    if not folder.exists() and not any(folder.path.iterdir()):
        folder.path.rmdir()
        return Recovery(path)
    with locked(folder):
        if not (folder.has_begun() or folder.parts() or folder.journals()):
            # Killed before the first row: only the name was reserved. A folder that has rows but
            # no id is damaged, and stays.
            folder.remove()
            return Recovery(path)
        with unreadable_is(
            RecoveryError, path, f"what is whole is in the parts in {folder.path}, or in it"
        ):
            before = _rows_in(path, table_format)
            unsealed = [each for each in _files_of(path) if not seals_path(each).exists()]
            found = recover_folder(folder, table_format, path, force=force, key=key)
            compact(
                folder,
                path,
                table_format,
                facts={},
                overwrite=False,
                append=True,
                key=key,
                ended="cut off",
                force=force,
            )
            sealed = any(seals_path(each).exists() for each in unsealed)
            rows = _rows_in(path, table_format) - before
            return Recovery(path, rows, tuple(found.cuts), sealed=sealed)


def _rows_in(path: Path, table_format: TableFormat) -> int:
    return sum(map(table_format.count_rows, _files_of(path)))


def _files_of(path: Path) -> list[Path]:
    """Those after one that is missing too."""
    return [part for _, part in numbered_parts(path)]


def _recover_lines(path: Path, force: bool, key: SigningKey | None) -> Recovery:
    """Repair a text file and the parts that follow it: a resumed run is in another one."""
    found: list[RepairedLines] = []
    cuts: list[Cut] = []
    for part in _files_of(path):
        try:
            found.append(_repaired(part, force, key))
        except RecordError as error:
            if cuts:  # they are not undone, and nothing else would name their copies
                raise type(error)(f"{error}. Before it, {'; '.join(map(str, cuts))}") from error
            raise
        cuts += [cut for cut in (found[-1].cut,) if cut is not None]
    return Recovery(path, cuts=tuple(cuts), row_ended=any(each.ended for each in found))


def _repaired(path: Path, force: bool, key: SigningKey | None) -> RepairedLines:
    with explained("open", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        lock_file(descriptor, path)
        with explained("recover", path):
            found = repair_lines(descriptor, path, quoted=path.suffix == ".csv", force=force)
            for leftover in find_leftovers(os.fspath(path) + ".meta.json"):
                os.unlink(leftover)
            seal_what_is_found(path, found.size, found.rows, key)
    finally:
        os.close(descriptor)
    return found


def _recover_database(path: Path, force: bool) -> Recovery:
    """Let SQLite take in its log, with what it will not read of it kept beside it."""
    if not path.stat().st_size and read_log(log_path(path)) is None:
        return Recovery(path)  # killed when it had just been created
    lock = take_lock(path)
    try:
        with explained("recover", path):
            if not _mentions(path, b"penstock_parts"):
                if _begins(path, _DATABASE) and not _mentions(path, b"CREATE "):
                    return Recovery(path)  # killed before the first table
                raise RecoveryError(
                    f"{path} was not written by Penstock, as far as can be seen: it has no table "
                    "penstock_parts. It was not changed; give the name of a recording"
                )
            cut = keep_torn_log(path, force=force)
            with unreadable_is(
                RecoveryError, path, "penstock export reads what is left of it into another file"
            ):
                with closing(sqlite3.connect(path, isolation_level=None)) as database:
                    ((found,), *_) = database.execute("PRAGMA quick_check(1)").fetchall()
                if found != "ok":
                    raise ValueError(found)
    finally:
        release_lock(path, lock)
    return Recovery(path, cuts=(cut,) if cut is not None else ())


def _mentions(path: Path, word: bytes) -> bool:
    """Whether a database or its log has ``word`` in it, without opening it by SQLite."""
    for file in (path, log_path(path)):
        if file.exists() and file.stat().st_size:
            with open(file, "rb") as opened, mmap(opened.fileno(), 0, access=ACCESS_READ) as data:
                if data.find(word) >= 0:
                    return True
    return False


def _begins(path: Path, head: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read(len(head)) == head


# A folder of parts made whole after its process was killed.


@dataclass(frozen=True, slots=True)
class RecoveredFolder:
    """What was done: the rows that were added, and the torn ends of journals that were kept."""

    rows: int
    cuts: list[Cut]


def recover_folder(
    folder: PartsFolder,
    table_format: TableFormat,
    beside: Path | None = None,
    *,
    force: bool,
    key: SigningKey | None = None,
) -> RecoveredFolder:
    """Write the part of each journal, and remove the journal.

    A journal with a torn end is kept: its end alone could not be read. Its copy lies beside the
    journal, or beside the file ``beside``, of which the folder is only a passing form.

    Being killed here, and recovering again, does no harm: a journal goes once its part is durable,
    and holds all rows of the part. The caller holds the folder's lock.

    Raises:
        RecoveryError: if a journal or a part cannot be read, or a journal has batches after its
            damaged place, without ``force``. Nothing was changed then.
        SinkWriteError: if the disk refuses.
    """
    added = 0
    cuts: list[Cut] = []
    with explained("recover", folder.path):
        contents = {journal: read_journal(journal) for _, journal in folder.journals()}
        for journal, content in contents.items():
            _check_end(journal, content, force=force)
        folder.clear_leftovers()
        kind = digest_name(signed=key is not None)
        parts = folder.parts()
        noted = {part.number for part in read_part_list(folder.list).parts}
        for number, journal in folder.journals():
            table = contents[journal].table
            mine = [path for part, path in parts if part == number]
            with unreadable_is(RecoveryError, folder.path, "nothing of its journal was removed"):
                there = sum(table_format.count_rows(path) for path in mine)
            if table.num_rows > there or not mine:
                metadata = table.schema.metadata or {}
                kept = {
                    key: metadata[key]
                    for key in (METADATA_KEY, RUN_KEY, PART_KEY)
                    if key in metadata
                }
                missing = table.num_rows - there
                kept[b"penstock.recovered_rows"] = str(missing).encode()
                rows = sealed_table(table.replace_schema_metadata(kept))
                options = PartOptions(partition_by=folder.partition_by())
                files = [
                    (file.path, file.size, file.digest)
                    for file in write_part(
                        folder, number, rows, table_format, options, digest_name=kind
                    )
                ]
                facts = _facts(journal, table, missing)
                folder.note(number, files, table.num_rows, facts, key)
                added += missing
            elif number not in noted:
                # Killed between the part and its line in the list.
                digests = [(path, *file_digest(path, kind)) for path in mine]
                folder.note(number, digests, there, _facts(journal, table, 0), key)
            if contents[journal].fault:
                cuts.append(_keep(journal, contents[journal], beside or journal))
            remove_journal(journal)
    return RecoveredFolder(added, cuts)


def _facts(journal: Path, table: Any, missing: int) -> dict[str, Any]:
    """What the list tells of a part that was made of a journal."""
    facts: dict[str, Any] = {}
    if missing:
        facts["recovered_rows"] = missing
    if table.num_rows:
        stamps = table.column("t_utc")
        facts |= {"first_unix_ns": stamps[0].value, "last_unix_ns": stamps[-1].value}
    sealed = check_file(journal)
    if sealed.problems:
        facts["journal"] = sealed.problems
    return {**facts, "ended": "cut off"}


def _check_end(journal: Path, content: JournalContent, *, force: bool) -> None:
    with open(journal, "rb") as file:
        try:
            check_size(
                file.fileno(),
                journal,
                content.end,
                content.size,
                force=force,
                more=content.more,
                most=content.size,
            )
        except EndTooLargeError as error:
            raise RecoveryError(str(error)) from error


def _keep(journal: Path, content: JournalContent, beside: Path) -> Cut:
    with open(journal, "rb") as file:
        kept_in = keep_copy(file.fileno(), beside, 0, content.size)
    return Cut(journal, content.size - content.end, kept_in)
