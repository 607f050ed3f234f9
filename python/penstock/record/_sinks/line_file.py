"""Recording into lines of text: the common part of CSV and JSON Lines.

A file is created exclusively, grows by whole lines, and is continued in another part when the
columns change or when it is rotated.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock._durable_files import sync_folder, write_fully
from penstock._torn_end import Cut
from penstock.record._columns.batch import SampleBatch
from penstock.record._files.files import (
    check_no_part_missing,
    check_not_removed,
    create_file,
    explain,
    explained,
    is_regular,
    numbered_parts,
    part_path,
    remove_parts,
)
from penstock.record._files.line_ends import (
    Layout,
    repair_lines,
    rows_of,
    rows_of_text,
    sidecar_path,
)
from penstock.record._seals.digests import SigningKey
from penstock.record._seals.line_end_changes import has_changed_line_ends
from penstock.record._seals.seal import end_by, seals_path
from penstock.record._seals.seal_writer import SealWriter
from penstock.record.errors import SinkExistsError, SinkWriteError
from penstock.record.schema import RecordSchema

# As text, a quarter of a megabyte: it is written and hashed while it is in the cache of one core.
# With 8192 rows, CSV takes 1.4 times as long, and JSON Lines 1.7 times; with 512, both 1.2 times.
_ROWS_A_WRITE = 2048


@dataclass(frozen=True, slots=True)
class Rotation:
    """When a text file is ended and continued in the next part; None never ends it."""

    bytes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.bytes is not None and self.bytes < 1:
            raise ValueError(f"rotate_bytes must be at least 1, not {self.bytes!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"rotate_interval must be more than 0, not {self.seconds!r}")


@dataclass(slots=True)
class _NewPart:
    """A part that is there, with what belongs beside it, and has nothing in it yet."""

    path: Path
    descriptor: int
    regular: bool
    created: list[Path]
    seals: SealWriter | None = None

    def remove(self) -> None:
        """Close it, and remove what was created and is of no use."""
        if self.seals is not None:
            self.seals.abandon()
        os.close(self.descriptor)
        for path in self.created:
            with explained("remove", path):
                path.unlink(missing_ok=True)


class LineFile(ABC):
    """The synchronous half of a sink that writes lines."""

    def __init__(
        self,
        path: Path,
        *,
        overwrite: bool,
        append: bool,
        force: bool,
        rotation: Rotation,
        metadata: bool,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        if overwrite and append:
            raise ValueError("overwrite and append exclude each other: pass one of them")
        if sign is not None and not seals:
            raise ValueError("without seals nothing is signed: pass seals=True with sign")
        self.path = path
        self.paths: list[Path] = []
        self.cuts: list[Cut] = []
        self._overwrite = overwrite
        self._append = append
        self._force = force
        self._rotation = rotation
        self._metadata = metadata
        self._descriptor = -1
        self._regular = True
        self._end = 0
        self._rows = 0
        self._began_at = 0.0
        self._failed = False
        self._sealed = seals
        self._key = sign
        self._seals: SealWriter | None = None
        self._ended = "closed"
        self._schema: RecordSchema | None = None
        self._created: list[Path] = []
        self._has_other_ends = False

    _quoted: ClassVar[bool]
    """Whether a line may hold line breaks inside quotes."""

    # -- what a format fills in ---------------------------------------------------------------

    @abstractmethod
    def _head(self, schema: RecordSchema) -> bytes:
        """The lines before the first row."""

    @abstractmethod
    def _lines(self, batch: SampleBatch, start: int, stop: int) -> bytes:
        """The rows ``start`` to ``stop`` of a batch, each a whole line."""

    @abstractmethod
    def _has_head(self, path: Path, schema: RecordSchema) -> bool:
        """True when the rows of ``schema`` may be appended to the part ``path``."""

    def _reserve(self, path: Path) -> list[Path]:
        """Create the files beside the part, and return them."""
        return []

    @abstractmethod
    def _describe(self, facts: Mapping[str, Any]) -> None:
        """Store the metadata of the present part outside of it, or ``facts`` at its end.

        There is no schema yet if the part is that of an earlier run, whose description stays.
        """

    # -- RecordFile ---------------------------------------------------------------------------

    def open(self) -> None:
        try:
            parts = numbered_parts(self.path)
        except OSError:
            parts = []  # the creation tells why
        if self._append and parts:
            self._reopen()
        else:
            if parts and not self._overwrite:
                taken = parts[0][1]
                raise SinkExistsError(
                    f"{taken} already exists, and would be read as a part of {self.path}: choose "
                    "another name, or pass overwrite=True to replace it"
                )
            self._take(self._create(self.path))

    def write(self, batch: SampleBatch) -> None:
        if self._failed or self._descriptor < 0:
            raise SinkWriteError(f"{self.path} accepts no more samples after an earlier error")
        if self._schema is None:
            self._begin(batch.schema)
        elif (widened := self._schema.continued_by(batch.schema)) is not None:
            self._begin_part(widened)
        elif len(batch) and self._is_full():
            self._begin_part(self._schema)
        assert self._schema is not None
        fitted = batch.fitted(self._schema)
        stamps = fitted.raw("t_utc")
        assert isinstance(stamps, array)
        for start in range(0, len(fitted), _ROWS_A_WRITE):
            stop = min(start + _ROWS_A_WRITE, len(fitted))
            outer = int(stamps[start]), int(stamps[stop - 1])
            self._put(self._lines(fitted, start, stop), stop - start, outer)

    def sync(self) -> None:
        if not self._regular or self._descriptor < 0:
            return
        try:
            with explained("sync", self.paths[-1]):
                os.fdatasync(self._descriptor)
                check_not_removed(self._descriptor, self.paths[-1])
            if self._seals is not None:
                with explained("seal", self.paths[-1]):
                    self._seals.seal()
        except SinkWriteError as error:
            self._ended = end_by(error)
            raise

    def close(self, facts: Mapping[str, Any]) -> None:
        if self._descriptor < 0:
            return
        if self._schema is None:
            self._discard()
            return
        try:
            self._finish_part(facts)
        finally:
            self._release()

    def position(self) -> tuple[int, int]:
        """The number of the part, and its rows."""
        return len(self.paths), self._rows

    def rows_behind(self, position: Any) -> int | None:
        part, rows = position
        if not self._regular:
            return None
        last = len(self.paths)
        behind = self._rows if last >= part else 0
        for number in range(part, last):
            with explained("read", self.paths[number - 1]):
                behind += rows_of_text(self.paths[number - 1], quoted=self._quoted)
        return int(behind - rows)

    # -- parts --------------------------------------------------------------------------------

    def _create(self, path: Path) -> _NewPart:
        with explained("create", path):
            existed = path.exists()
        descriptor = create_file(path, overwrite=self._overwrite)
        part = _NewPart(path, descriptor, is_regular(descriptor), [] if existed else [path])
        if part.regular:
            try:
                part.created += self._reserve(path)
                with explained("create", path):
                    if self._sealed and not existed:
                        part.seals = SealWriter.create(path, self._key, overwrite=self._overwrite)
                        part.created.append(part.seals.path)
                    sync_folder(os.fspath(path))
            except BaseException:
                part.remove()
                raise
        return part

    def _take(self, part: _NewPart) -> None:
        """Write into a part from here on."""
        self._descriptor = part.descriptor
        self._regular = part.regular
        self._created = part.created
        self._seals = part.seals
        self.paths.append(part.path)
        self._end = 0
        self._rows = 0

    def _reopen(self) -> None:
        """Continue the last existing part, without its torn end."""
        # Here, because it brings the formats of tables, which a new text file does not need.
        from penstock.record._parts.continuation import check_last_file

        check_last_file(self.path)
        self.paths += check_no_part_missing(self.path)
        path = self.paths[-1]
        self._descriptor = create_file(path, overwrite=True)
        self._regular = is_regular(self._descriptor)
        self._created = []
        if not self._regular:
            return
        try:
            with explained("continue", path):
                found = repair_lines(self._descriptor, path, quoted=self._quoted, force=self._force)
                os.lseek(self._descriptor, found.size, os.SEEK_SET)
            if self._sealed:
                with explained("seal", path):
                    self._has_other_ends = has_changed_line_ends(path)
                    if not self._has_other_ends:
                        self._seals = SealWriter.resume(path, found.size, found.rows, self._key)
        except BaseException:
            self._release()
            self.paths.clear()
            raise
        self._end = found.size
        self._rows = found.rows
        if found.cut is not None:
            self.cuts.append(found.cut)

    def _discard(self) -> None:
        """Nothing was recorded: remove what ``open`` has created."""
        self._release()
        for path in self._created:
            with explained("remove", path):
                path.unlink(missing_ok=True)
        self.paths.clear()

    def _release(self) -> None:
        if self._seals is not None:
            self._seals.abandon()
            self._seals = None
        os.close(self._descriptor)
        self._descriptor = -1

    def _begin(self, schema: RecordSchema) -> None:
        path = self.paths[-1]
        if self._append and self._end:
            # What an editor has changed keeps the seals that tell it: nothing follows in it.
            if self._has_other_ends or not self._has_head(path, schema):
                self._begin_part(schema)
                return
            self._schema = schema
            self._began_at = time.monotonic()
            return
        if self._regular:
            with explained("empty", path):
                if self._overwrite and len(self.paths) == 1:
                    remove_parts(self.path, 2, self._beside)
                if self._seals is None and self._sealed:
                    self._seals = SealWriter.create(path, self._key, overwrite=True)
                elif not self._sealed and self._overwrite:
                    seals_path(path).unlink(missing_ok=True)
                os.ftruncate(self._descriptor, 0)
        self._schema = schema
        self._began_at = time.monotonic()
        self._describe({})
        self._put(self._head(schema), 0)

    def _beside(self, path: Path) -> list[Path]:
        """The files that belong to a part and to nothing else."""
        return [seals_path(path), *([sidecar_path(path)] if self._quoted else [])]

    def _begin_part(self, schema: RecordSchema) -> None:
        following = part_path(self.path, len(self.paths) + 1)
        # In this order, a part that a kill leaves never names one that is not there, and has no
        # torn end with another part after it.
        self.sync()
        part = self._create(following)
        part.created.clear()  # it is named from here on, and stays whatever comes
        try:
            if not self._has_other_ends:
                self._finish_part({"continued_in": following.name})
        except BaseException:
            part.remove()
            raise
        self._has_other_ends = False
        self._release()
        self._take(part)
        self._begin(schema)

    def _finish_part(self, facts: Mapping[str, Any]) -> None:
        path = self.paths[-1]
        if self._regular:
            with explained("finish", path):
                os.fsync(self._descriptor)
                check_not_removed(self._descriptor, path)
                sync_folder(os.fspath(path))
            self._describe(facts)
            if self._seals is not None:
                with explained("seal", path):
                    os.fdatasync(self._descriptor)
                    self._seals.close(self._ended)

    def _is_full(self) -> bool:
        limit, age = self._rotation.bytes, self._rotation.seconds
        return self._regular and (
            (limit is not None and self._end >= limit)
            or (age is not None and time.monotonic() - self._began_at >= age)
        )

    # -- lines --------------------------------------------------------------------------------

    def _put(self, data: bytes, rows: int, stamps: tuple[int, int] = (0, 0)) -> None:
        if not len(data):
            return
        try:
            write_fully(self._descriptor, data)
        except OSError as error:
            self._failed = True
            self._ended = end_by(error)
            kept = self._cut_torn_line(stamps)
            failure = explain("write", self.paths[-1], error)
            raise SinkWriteError(f"{failure}; {kept}") from error
        self._end += len(data)
        self._rows += rows
        if self._seals is not None:
            self._seals.update(data, rows, *stamps)

    def _cut_torn_line(self, stamps: tuple[int, int]) -> str:
        """Truncate to whole lines after a failed write; return a description of the rest.

        What goes is of this write alone, whose rows nobody was told to be in the file.
        """
        if not self._regular:
            return "what was written before is unchanged"
        path = self.paths[-1]
        with explained("cut", path), open(path, "rb") as file:
            file.seek(self._end)
            rows = list(rows_of(file, Layout(self._quoted)))
            while rows and (rows[-1].is_open or not rows[-1].ended):
                rows.pop()
            kept = b"".join(row.data for row in rows)
            self._end += len(kept)
            self._rows += len(rows)
            os.ftruncate(self._descriptor, self._end)
            if self._seals is not None:
                self._seals.update(kept, len(rows), *stamps)
        return f"the {self._rows} samples written so far are kept as whole lines"
