"""Messages as a stream has them, and the rows of an archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives import Store, archive_files
from penstock.record.archives.manifest import Fenced
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.waiting_run import RunOptions
from tests.python.record.batches import flow_batch

__all__ = [
    "archived_run",
    "flows_of",
    "joined_by_one_of_two_owners",
    "loaded_run",
    "message",
    "rows_of",
]


def message(
    part: int, sequence: int, rows: int = 1, run: str = "r", device: str = "fuel"
) -> StreamMessage:
    """A message of ``rows`` rows, whose flow counts up from ``part`` times 10."""
    table = pyarrow.Table.from_batches([flow_batch(rows, part * 10).to_arrow()])
    place = table.schema.get_field_index("device")
    table = table.set_column(place, "device", pyarrow.array([device] * rows))
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data = sink.getvalue().to_pybytes()
    return StreamMessage(
        sequence, f"lab.{run}.{device}", f"{run}/{device}/{part}", part * rows, data
    )


def rows_of(target: Path) -> list[tuple[str, str, int, float]]:
    """Run, device, number and flow of each row, in the order of the archive."""
    found = []
    for name in archive_files(target):
        path = Path(name)
        table = pyarrow.parquet.ParquetFile(path).read()
        run = path.relative_to(target).parts[0].removeprefix("run=")
        columns = (table[each].to_pylist() for each in ("device", "archive_row", "Mass_Flow"))
        found += [(run, *row) for row in zip(*columns, strict=True)]
    return found


def flows_of(store: Store, name: str) -> list[float]:
    """The flows in a file of an archive."""
    data = store.read(name)
    assert data is not None
    found: list[float] = (
        pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read()["Mass_Flow"].to_pylist()
    )
    return found


def loaded_run(store: Store, run: str = "r", **options: Any) -> RunArchive:
    archive = RunArchive(store, run, RunOptions(**options))
    archive.load()
    return archive


def archived_run(store: Store, *messages: StreamMessage, run: str = "r") -> RunArchive:
    """The archive of a run that has written these messages."""
    archive = loaded_run(store, run)
    for each in messages:
        archive.add(each)
    archive.write()
    return archive


def joined_by_one_of_two_owners(store: Store, target: str) -> RunArchive:
    """Let two archivers take one run for theirs, and one of them join its files; that one."""
    first, second = (loaded_run(store, join=3, grace=0.0) for _ in range(2))
    for each in (first, second):
        each.add(message(1, 1))
    first.write()
    with pytest.raises(Fenced):
        second.write()
    for part in (2, 3):
        first.add(message(part, part, 2))
        first.write()
    assert len(archive_files(target)) == 3
    while first.tidy():
        pass
    return first
