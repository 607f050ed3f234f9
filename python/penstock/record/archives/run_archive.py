"""One run of an archive: messages to Parquet files, and those into the manifest."""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from penstock.record._nats.run_reader import StreamMessage
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record._stored.sound_tables import plain_schema
from penstock.record.archives.manifest import FOLDER, ArchivedFile, Manifest, load_manifest
from penstock.record.archives.stores import ArchiveError, Store
from penstock.record.archives.waiting_run import RunOptions, WaitingRun, identity_of
from penstock.record.arrow import pyarrow_module
from penstock.record.schema import beside

__all__ = ["DamagedFile", "RunArchive", "rows_of_message"]

_ROW_GROUP = 131_072
_NAME = re.compile(r"(\d{12,})-[0-9a-f]{12}\.parquet")
_ORPHAN_SECONDS = 3600.0
_JUDGED_ROWS = 4096


class DamagedFile(ArchiveError):
    """A file of an archive is not there, or is not what was written."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


_Prepared = tuple[list[tuple[str, bytes]], Manifest]
"""Files by their names, and the manifest that names them."""


class RunArchive(WaitingRun[_Prepared]):
    """The archive of one run in files of a store, by its one owner."""

    def __init__(self, store: Store, run: str, options: RunOptions) -> None:
        super().__init__(run, options)
        self._store = store
        self._tidied: Manifest | None = None
        self._damaged: set[str] = set()

    def load(self) -> None:
        """Read the manifest, and remove files that an owner left who was killed before it.

        Only those that can be of this manifest, with rows after its first ones. Where manifests
        were lost or removed, the files that they had named are all that is left of their rows.

        Raises:
            Fenced: the run has got another owner meanwhile.
            ArchiveError: the archive is away.
        """
        self._has_loaded(load_manifest(self._store, self.run))
        known = {each.name for each in self.manifest.files}
        known |= {name for name, _ in self.manifest.retired}
        first = min((place for name in known if (place := _place_of(name)) is not None), default=0)
        orphans = []
        for found in self._store.list(f"run={self.run}/") if known else ():
            place = _place_of(found.name)
            is_ours = found.name not in known and place is not None and place >= first
            if is_ours and found.modified < time.time() - _ORPHAN_SECONDS:
                orphans.append(found.name)
        if orphans:
            # Their writer may have been stopped before it could name them, or the clock of the
            # store is another one: after this version it cannot any more.
            self.manifest = self._changed().commit(self._store, self.manifest)
        for name in orphans:
            self._store.delete(name)

    def _commit(self, prepared: _Prepared) -> Manifest:
        objects, manifest = prepared
        for name, data in objects:
            self._store.put(name, data)
        return manifest.commit(self._store, self.manifest)

    def tidy(self, least: int | None = None) -> bool:
        """Join small files, or remove those that were joined long ago; whether it did.

        After an ArchiveError the same call goes on; after DamagedFile, without that file.

        Args:
            least: from how many small files on; by default that of the options.
        """
        if self._tidied is None:
            wanted = self._options.join if least is None else least
            self._tidied = self._without_old() or self._joined(wanted)
        if self._tidied is None:
            return False
        self.manifest: Manifest = self._tidied.commit(self._store, self.manifest)
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
        """With one file instead of several small ones."""
        sound = [each for each in self.manifest.files if each.name not in self._damaged]
        group = mergeable(sound, least, self._options.file_bytes)
        if not group:
            return None
        first = group[0]
        try:
            tables = joined(self._store, group)
        except DamagedFile as error:
            # Until the next archiver of this run: the rows that come do not wait for a mended copy.
            self._damaged.add(error.name)
            raise
        table = _by_device_again(tables)
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

    def _prepare(self) -> _Prepared:
        groups: dict[tuple[int, str], list[Any]] = defaultdict(list)
        schemas = list(self.manifest.schemas)
        marks = dict(self._marks)
        refused = list(self._refused)
        first = self._waiting[0].sequence if self._waiting else 0
        for message in self._waiting:
            table = rows_of_message(message)
            if table is None:
                refused.append(message)
                continue
            key = _digest(table.schema)
            if key not in schemas:
                schemas.append(key)
            for day, rows in _by_day(table):
                groups[schemas.index(key) + 1, day].append(rows)
            _, device, _ = identity_of(message)
            mark = marks[device]
            marks[device] = replace(mark, rows=mark.rows + table.num_rows)
        objects: list[tuple[str, bytes]] = []
        files = list(self.manifest.files)
        for (schema, day), tables in groups.items():
            table = _by_device(tables)
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


def _place_of(name: str) -> int | None:
    """The place in the stream of a file's first message; None for what is not of an archiver."""
    found = _NAME.fullmatch(name.rpartition("/")[2])
    return None if found is None else int(found[1])


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


def _by_device(tables: list[Any]) -> Any:
    """The rows of messages by device, so that a reader skips those of others.

    A message has one device, and those of a device come in order: so tables are put in order, and
    rows only where it is not a recorder's message.
    """
    compute = pyarrow_module("pyarrow.compute")
    ends = [compute.min_max(table["device"]).as_py() for table in tables]
    concatenated = pyarrow_module().concat_tables
    if any(each["min"] != each["max"] for each in ends):
        return _sorted(concatenated(tables))
    order = sorted(range(len(tables)), key=lambda place: ends[place]["min"] or "")
    return concatenated([tables[place] for place in order])


def _by_device_again(tables: list[Any]) -> Any:
    """The rows of files, by device and in order.

    A file has the rows of a device in one piece, so pieces are put in order, and rows only where
    the ends of the pieces tell that they are not as this module writes them.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    table = pa.concat_tables(tables)
    if ROW_NUMBER not in table.schema.names or not pa.types.is_int64(
        table.schema.field(ROW_NUMBER).type
    ):
        return _sorted(table)
    pieces: list[tuple[str, int, int, Any]] = []  # the device, the first row and the last
    for each in tables:
        device = each["device"].combine_chunks()
        runs = compute.run_end_encode(device)
        start = 0
        for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
            ends = each[ROW_NUMBER][start].as_py(), each[ROW_NUMBER][end - 1].as_py()
            if name is None or None in ends or ends[0] > ends[1]:
                return _sorted(table)
            pieces.append((name, *ends, each.slice(start, end - start)))
            start = end
    pieces.sort(key=lambda piece: piece[:2])
    for (name, _, last, _), (other, first, _, _) in pairwise(pieces):
        if name == other and last >= first:
            return _sorted(table)
    return pa.concat_tables([rows for *_, rows in pieces])


def _sorted(table: Any) -> Any:
    order = [("device", "ascending")]
    if ROW_NUMBER in table.schema.names:
        order.append((ROW_NUMBER, "ascending"))
    return table.sort_by(order)


def _unrepeated(table: Any) -> list[str]:
    """The numbers of which most occur once, as far as the first rows tell."""
    types, compute = pyarrow_module().types, pyarrow_module("pyarrow.compute")
    first = table.slice(0, _JUDGED_ROWS)
    return [
        field.name
        for field in table.schema
        if types.is_floating(field.type)
        and 2 * compute.count_distinct(first[field.name]).as_py() > first.num_rows
    ]


def _parquet(table: Any) -> bytes:
    pa = pyarrow_module()
    sink = pa.BufferOutputStream()
    slices = (table.slice(at, _ROW_GROUP) for at in range(0, table.num_rows, _ROW_GROUP))
    ParquetFormat("zstd", _unrepeated(table)).write(slices, table.schema, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


# Which small files become one.


def mergeable(files: Iterable[ArchivedFile], least: int, most_bytes: int) -> list[ArchivedFile]:
    """The files of one schema and day that should become one, in their order; none if too few.

    A file that has half of ``most_bytes`` is left alone, so each row is written again a few times
    at most.
    """
    groups: dict[tuple[int, str], list[ArchivedFile]] = defaultdict(list)
    for each in files:
        if each.size < most_bytes // 2:
            groups[each.schema, each.day].append(each)
    for group in groups.values():
        taken: list[ArchivedFile] = []
        size = 0
        for each in group:
            if taken and size + each.size > most_bytes:
                break
            taken.append(each)
            size += each.size
        if len(taken) >= max(2, least):
            return taken
    return []


def joined(store: Store, files: Iterable[ArchivedFile]) -> list[Any]:
    """The rows of files, a table each.

    Raises:
        DamagedFile: a file is not there, or has other rows than the manifest says.
        ArchiveError: the store does not answer.
    """
    pa = pyarrow_module()
    parquet = pyarrow_module("pyarrow.parquet")
    tables = []
    for each in files:
        data = store.read(each.name)
        where, reason = store.location(each.name), "it is gone, or has other rows than were written"
        table = None
        try:
            if data is not None:
                table = parquet.ParquetFile(pa.BufferReader(data)).read()
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
        if table is None or table.num_rows != each.rows:
            raise DamagedFile(
                each.name,
                f"{where} cannot be joined with others ({reason}): restore a copy of it",
            )
        tables.append(table)
    return tables


# The rows of a message of a stream.

ROW_NUMBER = "archive_row"
"""The column with a row's number among those of its device in the run."""

RUN_COLUMN = "archive_run"
"""The column with the run, where rows of all runs are in one table."""

# Those, and the folders of a file, which are columns for the readers of an archive.
_OWN = frozenset({ROW_NUMBER, RUN_COLUMN, "run", "schema", "day"})


def rows_of_message(message: StreamMessage) -> Any | None:
    """The rows of a message with their numbers; None if they are not rows of a recorder.

    A field that is called like a column of the archive has ``field_`` in front.
    """
    pa = pyarrow_module()
    ipc = pyarrow_module("pyarrow.ipc")
    try:
        options = ipc.IpcReadOptions(use_threads=False)  # columns are too small for threads
        with ipc.open_stream(message.payload, options=options) as stream:
            table = stream.read_all()
        table.validate(full=True)
        table = table.cast(plain_schema(table.schema))
    except (pa.ArrowException, OSError, ValueError):
        return None
    names = table.schema.names
    if "device" not in names or "t_utc" not in names:
        return None
    if not (
        pa.types.is_string(table.schema.field("device").type)
        and pa.types.is_timestamp(table.schema.field("t_utc").type)
    ):
        return None
    own = [beside(name, _OWN) for name in names]
    if own != names:
        fields = [field.with_name(name) for field, name in zip(table.schema, own, strict=True)]
        schema = pa.schema(fields, metadata=table.schema.metadata)
        table = pa.Table.from_arrays(table.columns, schema=schema)
    ones = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    # Not of a range of Python's, which takes as long as the rows themselves.
    numbers = pyarrow_module("pyarrow.compute").cumulative_sum(ones, start=message.row - 1)
    return table.append_column(ROW_NUMBER, numbers)
