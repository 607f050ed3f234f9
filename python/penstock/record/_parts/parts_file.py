"""Recording into a folder of parts, and from it into single files.

The rows since the last seal are in memory, and from the first sync on also in a journal. A seal
writes the whole part again and replaces the earlier file: a reader sees one or the other. A part is
final at a certain size or age, and its journal is then removed. So at any time, a row is in its
part or in the journal of that part, and the journal has all rows of the part.

*Rejected:* one Parquet file to which row groups are appended. pyarrow cannot do it, and a footer
written by hand has to know what pyarrow's next version writes.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock._torn_end import Cut
from penstock.record._columns.batch import SampleBatch
from penstock.record._files.files import (
    check_no_part_missing,
    explained,
    numbered_parts,
    part_path,
)
from penstock.record._parts.compaction import compact, finish_compaction, sealed_table
from penstock.record._parts.continuation import check_last_file
from penstock.record._parts.journal import Journal, remove_journal
from penstock.record._parts.part_writer import (
    PartOptions,
    WrittenFile,
    check_described_devices,
    check_device_names,
    write_part,
)
from penstock.record._parts.parts_folder import PartsFolder, parts_path
from penstock.record._parts.recovery import recover_folder
from penstock.record._parts.table_formats import TableFormat
from penstock.record._seals.digests import SigningKey, digest_name
from penstock.record._seals.seal import end_by
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE
from penstock.record.errors import RecoveryError, SinkExistsError, SinkWriteError
from penstock.record.schema import RecordSchema

# From here on a sync writes the part itself: encoded it is smaller than as a journal.
_ROWS_WORTH_A_PART = 65_536


class PartsFile:
    """The synchronous half of the sinks that write Arrow tables.

    ``path`` with the format's suffix is a single file: its parts lie in ``path.parts`` until
    ``close`` joins them. Any other path is the folder of the parts.
    """

    def __init__(
        self,
        path: Path,
        table_format: TableFormat,
        options: PartOptions,
        *,
        overwrite: bool,
        append: bool,
        force: bool = False,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        if overwrite and append:
            raise ValueError("overwrite and append exclude each other: pass one of them")
        if sign is not None and not seals:
            raise ValueError("without seals nothing is signed: pass seals=True with sign")
        self.path = path
        self.single = path.suffix == table_format.suffix
        if self.single and options.partition_by:
            raise ValueError(
                f"partition_by needs a folder of parts: give a path without "
                f"{table_format.suffix}, not {path}"
            )
        self.folder = PartsFolder(parts_path(path) if self.single else path, table_format.suffix)
        self._format = table_format
        self._options = options
        self._overwrite = overwrite
        self._append = append
        self._force = force
        self._sealed = seals
        self._key = sign
        self.cuts: list[Cut] = []
        self._opened = self._created = False
        self._schema: RecordSchema | None = None
        self._run = ""
        self._number = 0
        self._journal: Journal | None = None
        self._rows: list[Any] = []  # of the growing part
        self._count = 0
        self._bytes = 0  # of them in memory
        self._unwritten = 0  # batches at the end of _rows that the journal does not have
        self._unwritten_rows = 0
        self._sealed_rows = 0
        self._began_at = self._sealed_at = 0.0
        self._paths: list[Path] = []
        self._failed = False
        self._ended = "closed"
        self._before: int | None = None  # rows that were there when it was opened
        self._taken = 0

    @property
    def paths(self) -> Sequence[Path]:
        """The single files of the recording, or the folder of its parts."""
        return tuple(self._paths)

    def open(self) -> None:
        # Before the file, and before any instrument is asked: the imports take half a second.
        self._format.load()
        folder = self.folder
        with explained("create", self.path):
            self._refuse_what_is_there()
            if self.single and self._append:
                check_no_part_missing(self.path)
                check_last_file(self.path)
            self._created = not folder.path.exists()
            folder.create()
            # Without the lock nothing is removed: another process may have begun in the folder.
            folder.lock()
        try:
            if self._append:
                # The rows of a run that was cut off come first, and only once.
                beside = self.path if self.single else None
                recovered = recover_folder(
                    folder, self._format, beside, force=self._force, key=self._key
                )
                self.cuts.extend(recovered.cuts)
                if self.single and folder.has_begun():
                    self._finish_earlier_run()
        except BaseException:
            folder.unlock()
            raise
        self._opened = True
        self._paths = [self.path]
        self._before = self._rows_there()

    def write(self, batch: SampleBatch) -> None:
        if self._failed or not self._opened:
            raise SinkWriteError(f"{self.path} accepts no more samples after an earlier error")
        try:
            self._write(batch)
        except BaseException as error:
            self._fail(error)
            raise

    def sync(self) -> None:
        if not self._opened or self._schema is None or self._failed:
            return
        try:
            if self._unwritten_rows >= _ROWS_WORTH_A_PART:
                self._end_part()
                return
            self._write_journal()
            if self._count > self._sealed_rows and self._is_due():
                if time.monotonic() - self._began_at >= self._options.part_duration:
                    self._end_part()
                else:
                    self._seal({})
        except BaseException as error:
            self._fail(error)
            raise

    def position(self) -> int | None:
        """The rows that are in the journal and in parts; None if the file replaces another."""
        if self._before is None:
            return None
        return self._before + self._taken - self._unwritten_rows

    def rows_behind(self, position: Any) -> int | None:
        if position is None or self._before is None:
            return None
        return int(self._before - position)

    def _fail(self, error: BaseException) -> None:
        self._failed = True
        self._ended = end_by(error)

    def _rows_there(self) -> int | None:
        """The rows of the recording that is continued, by the ends of its files; None: unknown."""
        if not self._append:
            return None if self._overwrite else 0
        files = [part for _, part in self.folder.parts()]
        if self.single:
            files += [part for _, part in numbered_parts(self.path)]
        try:
            return sum(self._format.count_rows(each) for each in files)
        except UNREADABLE:
            return None

    def close(self, facts: Mapping[str, Any]) -> None:
        if not self._opened:
            return
        self._opened = False
        try:
            if self._schema is None:
                self._remove_if_created()
                self._paths = []
                return
            self._finish(facts)
        finally:
            self._release_journal()
            self.folder.unlock()

    # -- opening ------------------------------------------------------------------------------

    def _refuse_what_is_there(self) -> None:
        if self._overwrite or self._append:
            return
        if self.single and self.path.exists():
            raise SinkExistsError(
                f"{self.path} already exists: choose another name, or pass overwrite=True to "
                f"replace it or append=True to continue it"
            )
        if self.folder.exists():
            if self.single:
                raise SinkExistsError(
                    f"{self.folder.path} is left from a recording that was cut off: run "
                    f"penstock recover {self.path} first, or choose another name"
                )
            raise SinkExistsError(
                f"{self.path} is a recording already: choose another name, or pass overwrite=True "
                f"to replace it or append=True to continue it"
            )
        if self.folder.path.exists() and (
            not self.folder.path.is_dir() or any(self.folder.path.iterdir())
        ):
            raise SinkExistsError(
                f"{self.folder.path} already exists and is not empty: choose another name"
            )

    def _finish_earlier_run(self) -> None:
        """Join the parts of a run that was cut off while it did so, and begin another folder."""
        if finish_compaction(self.folder, self.path, self._format, self._key):
            self.folder.unlock()
            with explained("create", self.path):
                self.folder.create()
                self.folder.lock()

    def _remove_if_created(self) -> None:
        """Remove the folder, whose lock is held until it has gone."""
        if self._created:
            with explained("remove", self.folder.path):
                self.folder.remove()

    # -- writing ------------------------------------------------------------------------------

    def _write(self, batch: SampleBatch) -> None:
        if "device" in self._options.partition_by and self._schema is None:
            check_described_devices(batch.schema, self.path)
        if self._schema is None:
            self._begin(batch.schema)
        elif (widened := self._schema.continued_by(batch.schema)) is not None:
            self._begin_schema(widened)
        assert self._schema is not None
        if not len(batch):
            return
        if "device" in self._options.partition_by:
            check_device_names(batch, self.path)
        if self._journal is None:
            self._begin_part()
        rows = batch.fitted(self._schema).to_arrow()
        self._rows.append(rows)
        self._count += len(batch)
        self._taken += len(batch)
        # nbytes asks each column and costs ten times as much. The buffers hold these rows alone.
        self._bytes += rows.get_total_buffer_size()
        self._unwritten += 1
        self._unwritten_rows += len(batch)
        options = self._options
        if self._count >= options.part_rows or self._bytes >= options.part_bytes:
            self._end_part()

    def _begin(self, schema: RecordSchema) -> None:
        with explained("write", self.path):
            if self._overwrite:
                self.folder.remove_content()
            self._run = self.folder.begin(self._options.partition_by)
            self._number = self.folder.next_number()
        self._schema = schema
        self._begin_part()

    def _begin_schema(self, schema: RecordSchema) -> None:
        if self.single:
            next_path = part_path(self.path, len(self._paths) + 1)
            if next_path.exists() and not self._overwrite:
                raise SinkExistsError(
                    f"{next_path} already exists: choose another name, or pass overwrite=True "
                    f"to replace it"
                )
            self._paths.append(next_path)
        self._end_part(keep_empty=True)
        self._schema = schema
        self._begin_part()

    def _begin_part(self) -> None:
        assert self._schema is not None
        schema = self._options.part_schema(self._schema, self._run, self._number)
        with explained("write", self.path):
            self._journal = Journal(
                self.folder.journal(self._number), schema, sealed=self._sealed, key=self._key
            )
        first = not self._began_at
        self._began_at = self._sealed_at = time.monotonic()
        if first:
            # Readers find the first part after the first sync.
            self._sealed_at = -math.inf

    def _write_journal(self) -> None:
        if not self._unwritten:
            return
        assert self._journal is not None
        with explained("write", self.path):
            self._journal.append(self._rows[-self._unwritten :])
        self._unwritten = self._unwritten_rows = 0

    def _is_due(self) -> bool:
        return time.monotonic() - self._sealed_at >= self._options.seal_interval

    def _seal(self, facts: Mapping[str, Any]) -> list[WrittenFile]:
        """Write the growing part with all its rows, instead of what it held before."""
        assert self._schema is not None
        pa = pyarrow_module()
        schema = self._options.part_schema(self._schema, self._run, self._number, facts)
        table = pa.Table.from_batches(
            [batch.replace_schema_metadata(schema.metadata) for batch in self._rows], schema=schema
        )
        table = sealed_table(table)
        with explained("write", self.path):
            files = write_part(
                self.folder,
                self._number,
                table,
                self._format,
                self._options,
                digest_name=digest_name(signed=self._key is not None) if self._sealed else None,
            )
        if not self._unwritten:
            # In one piece: small batches of an hour would take several times their memory.
            self._rows = table.to_batches()
        self._sealed_at = time.monotonic()
        self._sealed_rows = self._count
        return files

    def _end_part(
        self,
        facts: Mapping[str, Any] | None = None,
        *,
        keep_empty: bool = False,
        ended: str = "continued",
    ) -> None:
        """Seal the part for good and remove its journal."""
        if self._journal is None:
            return
        if self._count or keep_empty:
            files = self._seal(facts or {})
            with explained("write", self.path):
                self.folder.note(
                    self._number,
                    [(file.path, file.size, file.digest) for file in files],
                    self._count,
                    {**self._times(), "ended": ended},
                    self._key,
                )
        journal = self._journal.path
        self._release_journal()
        with explained("write", self.path):
            remove_journal(journal)
        self._number += 1
        self._rows = []
        self._count = self._bytes = self._sealed_rows = 0
        self._unwritten = self._unwritten_rows = 0

    def _times(self) -> dict[str, Any]:
        if not self._rows:
            return {}
        first, last = self._rows[0].column("t_utc"), self._rows[-1].column("t_utc")
        return {"first_unix_ns": first[0].value, "last_unix_ns": last[-1].value}

    def _release_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    # -- the end ------------------------------------------------------------------------------

    def _finish(self, facts: Mapping[str, Any]) -> None:
        in_json = {
            f"penstock.{key}": json.dumps(value, ensure_ascii=False) for key, value in facts.items()
        }
        failed = self._failed
        try:
            # As in sync(): the part itself makes many rows durable.
            if not self._failed and self._unwritten_rows < _ROWS_WORTH_A_PART:
                self._write_journal()
            if self._journal is not None:
                self._end_part(in_json, keep_empty=True, ended=self._ended)
            elif self._sealed and not self.single:
                # The last part was final before: a line without files tells the end of the run.
                with explained("write", self.path):
                    self.folder.note(self._number, [], 0, {"ended": self._ended}, self._key)
            if self.single:
                self._paths = compact(
                    self.folder,
                    self.path,
                    self._format,
                    facts=in_json,
                    overwrite=self._overwrite,
                    append=self._append,
                    sealed=self._sealed,
                    key=self._key,
                    ended=self._ended,
                    force=self._force,
                )
        except RecoveryError as error:
            raise SinkWriteError(
                f"{error}; penstock export {self.path} copies all that can be read"
            ) from error.__cause__
        except SinkWriteError as error:
            with contextlib.suppress(SinkWriteError):
                self._write_journal()
            if not self.folder.path.exists():
                raise
            # After an earlier error, batches were refused.
            complete = not self._unwritten_rows and not failed
            kept = "all samples" if complete else "the samples before"
            raise SinkWriteError(
                f"{error}; {kept} wait in {self.folder.path}: "
                f"run penstock recover {self.path} once there is room"
            ) from error.__cause__
