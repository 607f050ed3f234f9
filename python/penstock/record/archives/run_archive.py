"""One run of an archive: messages to Parquet files, and those into the manifest."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from penstock.record._nats.run_reader import StreamMessage
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record._stored.sound_tables import plain_schema
from penstock.record.archives.compaction import joined, mergeable
from penstock.record.archives.manifest import (
    FOLDER,
    ArchivedFile,
    DeviceMark,
    Manifest,
    load_manifest,
)
from penstock.record.archives.stores import Store
from penstock.record.arrow import pyarrow_module

__all__ = ["ROW_NUMBER", "RunArchive", "RunOptions"]

ROW_NUMBER = "archive_row"
"""The column with a row's number among those of its device in the run."""

_ROW_GROUP = 131_072
_ORPHAN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class RunOptions:
    """When a file is written, and when files are joined.

    Attributes:
        part_seconds: rows are in the archive after this time at the latest.
        part_bytes: messages of so many bytes are a file before that.
        file_bytes: small files are joined up to about this size.
        join: from how many small files on.
        grace: seconds for which a file stays that was joined with others, for who reads it now.
    """

    part_seconds: float = 60.0
    part_bytes: int = 8 << 20
    file_bytes: int = 64 << 20
    join: int = 16
    grace: float = 600.0


class RunArchive:
    """The archive of one run, by its one owner.

    ``add`` is for the loop; ``load``, ``write`` and ``tidy`` block, and are called one at a time.
    """

    def __init__(self, store: Store, run: str, options: RunOptions) -> None:
        self.run = run
        self.manifest: Manifest = Manifest(run)
        self._store = store
        self._options = options
        self._marks: dict[str, DeviceMark] = {}
        self._waiting: list[StreamMessage] = []
        self._refused: list[StreamMessage] = []
        self._bytes = 0
        self._since: float | None = None
        self._position = 0, ""
        self._prepared: tuple[list[tuple[str, bytes]], Manifest] | None = None
        self._tidied: Manifest | None = None

    @property
    def waiting(self) -> int:
        """The messages that are not yet written."""
        return len(self._waiting) + len(self._refused)

    @property
    def position(self) -> int:
        """The place in the stream of the last message that was read."""
        return self._position[0]

    def load(self) -> None:
        """Read the manifest, and remove files that none has ever named."""
        self.manifest = load_manifest(self._store, self.run)
        self._marks = dict(self.manifest.devices)
        self._position = self.manifest.sequence, self.manifest.message_id
        known = {each.name for each in self.manifest.files}
        known |= {name for name, _ in self.manifest.retired}
        for found in self._store.list(f"run={self.run}/"):
            if found.name not in known and found.modified < time.time() - _ORPHAN_SECONDS:
                self._store.delete(found.name)

    def start_over(self) -> None:
        """Expect the stream from its beginning."""
        self._position = 0, ""

    def add(self, message: StreamMessage) -> None:
        """Let a message wait; one that is archived already is dropped.

        Not between a ``write`` that has failed and the one that goes on.
        """
        assert self._prepared is None
        self._position = message.sequence, message.id
        _, device, part = _identity(message)
        if not part:
            self._refused.append(message)
        else:
            mark = self._marks.get(device, DeviceMark())
            if part <= mark.part:
                return
            missing = mark.missing + part - mark.part - 1
            self._marks[device] = DeviceMark(part, message.sequence, mark.rows, missing)
            self._waiting.append(message)
        self._bytes += len(message.payload)
        self._since = time.monotonic() if self._since is None else self._since

    def due_in(self) -> float:
        """Seconds until a file should be written; infinite while nothing waits."""
        if self._since is None:
            return float("inf")
        if self._bytes >= self._options.part_bytes:
            return 0.0
        return max(0.0, self._since + self._options.part_seconds - time.monotonic())

    def write(self) -> Manifest:
        """Write what waits, and commit it. After an ArchiveError the same call goes on.

        Raises:
            Fenced: the run has another owner. Nothing was changed, and this object is of no use.
            ArchiveError: the store does not take it now.
        """
        if self._prepared is None:
            self._prepared = self._prepare()
        objects, manifest = self._prepared
        for name, data in objects:
            self._store.put(name, data)
        self.manifest = manifest.commit(self._store, self.manifest)
        self._marks = dict(self.manifest.devices)
        self._prepared, self._waiting, self._refused = None, [], []
        self._bytes, self._since = 0, None
        return self.manifest

    def tidy(self, least: int | None = None) -> bool:
        """Join small files, or remove those that were joined long ago; whether it did.

        After an ArchiveError the same call goes on.

        Args:
            least: from how many small files on; by default that of the options.
        """
        if self._tidied is None:
            wanted = self._options.join if least is None else least
            self._tidied = self._without_old() or self._joined(wanted)
        if self._tidied is None:
            return False
        self.manifest = self._tidied.commit(self._store, self.manifest)
        self._tidied = None
        return True

    def _without_old(self) -> Manifest | None:
        """Without the files that were joined long ago, which are removed first."""
        until = time.time() - self._options.grace
        old = {name for name, when in self.manifest.retired if when <= until}
        for name in old:
            self._store.delete(name)
        kept = tuple(each for each in self.manifest.retired if each[0] not in old)
        return self._changed(retired=kept) if old else None

    def _joined(self, least: int) -> Manifest | None:
        """With one file in place of several small ones."""
        group = mergeable(self.manifest.files, least, self._options.file_bytes)
        if not group:
            return None
        first = group[0]
        table = joined(self._store, group)
        data = _parquet(table)
        folder, _, before = first.name.rpartition("/")
        name = f"{folder}/{before.partition('-')[0]}-{secrets.token_hex(6)}.parquet"
        self._store.put(name, data)
        new = ArchivedFile(name, table.num_rows, len(data), first.schema, first.day)
        files = [new if each == first else each for each in self.manifest.files]
        now = time.time()
        return self._changed(
            files=tuple(each for each in files if each not in group),
            retired=self.manifest.retired + tuple((each.name, now) for each in group),
        )

    def _changed(self, **changes: Any) -> Manifest:
        return replace(self.manifest, token=secrets.token_hex(8), **changes)

    def archived_subjects(self, prefix: str) -> dict[str, int]:
        """Each subject, with the place of its last message that is archived."""
        return {
            f"{prefix}.{self.run}.{device}": mark.sequence
            for device, mark in self.manifest.devices.items()
        }

    def _prepare(self) -> tuple[list[tuple[str, bytes]], Manifest]:
        groups: dict[tuple[int, str], list[Any]] = defaultdict(list)
        schemas = list(self.manifest.schemas)
        marks = dict(self._marks)
        refused = list(self._refused)
        first = self._waiting[0].sequence if self._waiting else 0
        for message in self._waiting:
            table = _table(message)
            if table is None:
                refused.append(message)
                continue
            key = _digest(table.schema)
            if key not in schemas:
                schemas.append(key)
            for day, rows in _by_day(table):
                groups[schemas.index(key) + 1, day].append(rows)
            _, device, _ = _identity(message)
            mark = marks[device]
            marks[device] = replace(mark, rows=mark.rows + table.num_rows)
        objects: list[tuple[str, bytes]] = []
        files = list(self.manifest.files)
        for (schema, day), tables in groups.items():
            table = pyarrow_module().concat_tables(tables)
            data = _parquet(table)
            folder = f"run={self.run}/schema={schema}/day={day}"
            name = f"{folder}/{first:012d}-{secrets.token_hex(6)}.parquet"
            objects.append((name, data))
            files.append(ArchivedFile(name, table.num_rows, len(data), schema, day))
        for message in refused:
            name = f"{FOLDER}/{self.run}/refused/{message.sequence:012d}.message"
            objects.append((name, message.payload))
        sequence, identity = self._position
        return objects, replace(
            self.manifest,
            token=secrets.token_hex(8),
            sequence=sequence,
            message_id=identity,
            devices=marks,
            schemas=tuple(schemas),
            files=tuple(files),
            refused=self.manifest.refused + len(refused),
        )


def _identity(message: StreamMessage) -> tuple[str, str, int]:
    """Run, device and part number of a message; the part 0 if it is none of a recorder's."""
    words = message.id.split("/")
    if len(words) == 3 and words[2].isdigit() and message.subject.endswith(f".{words[1]}"):
        return words[0], words[1], int(words[2])
    return "", "", 0


def _table(message: StreamMessage) -> Any | None:
    """The rows of a message with their numbers; None if they are no rows of a recorder."""
    pa = pyarrow_module()
    ipc = pyarrow_module("pyarrow.ipc")
    try:
        with ipc.open_stream(message.payload) as stream:
            table = stream.read_all()
        table.validate(full=True)
        table = table.cast(plain_schema(table.schema))
    except (pa.ArrowException, OSError, ValueError):
        return None
    names = table.schema.names
    if "device" not in names or "t_utc" not in names:
        return None
    if not pa.types.is_timestamp(table.schema.field("t_utc").type):
        return None
    if ROW_NUMBER in names:
        return table  # a field of the user's, which stays
    numbers = pa.array(range(message.row, message.row + table.num_rows), pa.int64())
    return table.append_column(ROW_NUMBER, numbers)


def _digest(schema: Any) -> str:
    return hashlib.sha256(schema.serialize().to_pybytes()).hexdigest()[:16]


def _by_day(table: Any) -> list[tuple[str, Any]]:
    """The rows of each day (UTC), by the name of the day."""
    pa = pyarrow_module()
    compute = pyarrow_module("pyarrow.compute")
    days = compute.cast(table["t_utc"], pa.date32(), safe=False)
    names = compute.unique(days).to_pylist()
    if len(names) == 1:
        return [(str(names[0]), table)]
    return [
        (
            str(day),
            table.filter(compute.is_null(days) if day is None else compute.equal(days, day)),
        )
        for day in names
    ]


def _parquet(table: Any) -> bytes:
    """A file with the rows by device, so that a reader skips those of others."""
    pa = pyarrow_module()
    order = [("device", "ascending")]
    if ROW_NUMBER in table.schema.names:
        order.append((ROW_NUMBER, "ascending"))
    table = table.sort_by(order)
    sink = pa.BufferOutputStream()
    slices = (table.slice(at, _ROW_GROUP) for at in range(0, table.num_rows, _ROW_GROUP))
    ParquetFormat("zstd").write(slices, table.schema, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
