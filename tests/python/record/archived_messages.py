"""Messages as a stream has them, and the rows of an archive."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.parquet

from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives import archive_files
from tests.python.record.batches import flow_batch

__all__ = ["message", "rows_of"]


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
