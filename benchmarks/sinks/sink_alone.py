"""One sink alone: rows that are ready, from the first write until the file is closed.

python benchmarks/sinks/sink_alone.py --contender penstock --task many --sink parquet-zstd
python benchmarks/sinks/sink_alone.py --contender floor --task batch --sink csv
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import anyio

from benchmarks.measured_program import Unavailable, exit_code

MANY_ROWS = 64
BATCH_ROWS = 65_536
START = datetime(2026, 4, 17, tzinfo=UTC)
LATENCY = timedelta(milliseconds=5)


def moments(rows: int) -> list[datetime]:
    """The wall clock of alicatlib's synthetic workload: 100 µs from sample to sample."""
    return [START + timedelta(microseconds=100 * number) for number in range(rows)]


def our_samples(rows: int) -> list[Any]:
    """The workload as Penstock's samples."""
    from penstock.record import Sample

    return [
        Sample(
            device="bench",
            unit_id="A",
            t_utc=moment + LATENCY,
            t_mono_ns=100_000 * number,
            requested_at=moment,
            received_at=moment + LATENCY,
            latency_s=0.005,
            values={"Mass_Flow": 10.0 + (number % 1000) * 0.01},
            status="",
        )
        for number, moment in enumerate(moments(rows))
    ]


def their_samples(rows: int) -> list[Any]:
    """The workload as alicatlib's samples."""
    try:
        reading = importlib.import_module("alicatlib.devices.reading")
        sample = importlib.import_module("alicatlib.streaming.sample")
    except ImportError as error:
        raise Unavailable(f"alicatlib is not installed: {error}") from error
    layout = reading.DataFrameFormat(fields=(), flavor=reading.DataFrameFormatFlavor.DEFAULT)
    return [
        sample.Sample(
            device="bench",
            unit_id="A",
            t_mono_ns=100_000 * number,
            t_utc=moment + LATENCY / 2,
            requested_at=moment,
            received_at=moment + LATENCY,
            latency_s=0.005,
            reading=reading.Reading(
                unit_id="A",
                reading_format=layout,
                values={"Mass_Flow": 10.0 + (number % 1000) * 0.01},
                values_by_statistic={},
                status=frozenset(),
                received_at=moment + LATENCY,
                t_mono_ns=100_000 * number,
            ),
        )
        for number, moment in enumerate(moments(rows))
    ]


def our_sink(name: str, folder: Path, dsn: str) -> Any:
    """Penstock's sink, as it is without options."""
    import penstock.record as record

    kind, _, compression = name.partition("-")
    if kind == "parquet":
        return record.ParquetSink(folder / "run.parquet", compression=compression or "zstd")  # type: ignore[arg-type]
    if kind == "folder":
        return record.ParquetSink(folder / "run")
    if kind == "postgres":
        return record.PostgresSink(dsn, spool=folder / "spool", overwrite=True, close_timeout=600)
    kinds: dict[str, Callable[[Path], Any]] = {
        "csv": record.CsvSink,
        "jsonl": record.JsonlSink,
        "sqlite": record.SqliteSink,
        "arrow": record.ArrowSink,
    }
    return kinds[kind](folder / f"run.{kind}")


def their_sink(name: str, folder: Path) -> Any:
    """alicatlib's sink, as it is without options."""
    sinks = importlib.import_module("alicatlib.sinks")

    kind, _, compression = name.partition("-")
    if kind == "parquet":
        return sinks.ParquetSink(folder / "run.parquet", compression=compression)
    kinds = {"csv": sinks.CsvSink, "jsonl": sinks.JsonlSink, "sqlite": sinks.SqliteSink}
    return kinds[kind](folder / f"run.{kind}")


@dataclass(frozen=True)
class Spent:
    """Seconds by the clock, and of all cores."""

    wall: float
    cpu: float


class Watch:
    """Measures from its making on; what is imported and opened before does not count."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> Spent:
        """What has been spent."""
        return Spent(time.perf_counter() - self._wall, time.process_time() - self._cpu)


async def write_many(sink: Any, samples: Sequence[Any]) -> Spent:
    """Write samples in batches of 64; the time until all is in the closed file."""
    batches = [samples[n : n + MANY_ROWS] for n in range(0, len(samples), MANY_ROWS)]
    await sink.open()
    watch = Watch()
    for batch in batches:
        await sink.write_many(batch)
    await sink.close()
    return watch.stop()


async def write_batches(sink: Any, batch: Any, count: int) -> Spent:
    """Write a batch of 64 Ki rows again and again."""
    await sink.open()
    watch = Watch()
    for _ in range(count):
        await sink.write_batch(batch)
    await sink.close()
    return watch.stop()


def floor_batches(name: str, folder: Path, batch: Any, count: int) -> Spent:
    """The bulk writers of Arrow and of sqlite3, with the same rows and types."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch.to_arrow()])
    if name == "sqlite":
        return _floor_sqlite(folder, batch, count)
    watch = Watch()
    if name == "csv":
        import pyarrow.csv

        with pa.csv.CSVWriter(folder / "run.csv", table.schema) as writer:
            for _ in range(count):
                writer.write_table(table)
    elif name == "arrow":
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        plain = table.cast(
            pa.schema([f.with_type(getattr(f.type, "value_type", f.type)) for f in table.schema])
        )
        with pa.ipc.new_file(folder / "run.arrow", plain.schema, options=options) as writer:
            for _ in range(count):
                writer.write_table(plain)
    else:
        import pyarrow.parquet

        path = folder / "run.parquet"
        with pa.parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
            for _ in range(count):
                writer.write_table(table)
    return watch.stop()


def _floor_sqlite(folder: Path, batch: Any, count: int) -> Spent:
    import sqlite3

    names = batch.schema.names
    rows = list(zip(*(batch.column(name) for name in names), strict=True))
    database = sqlite3.connect(folder / "run.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"CREATE TABLE samples ({', '.join(names)})")
    watch = Watch()
    database.execute("BEGIN")
    for _ in range(count):
        database.executemany(f"INSERT INTO samples VALUES ({', '.join('?' * len(names))})", rows)
    database.execute("COMMIT")
    database.close()
    return watch.stop()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """One round."""
    name, rows = options.sink, options.rows
    if options.task == "many":
        if options.contender == "alicatlib":
            samples = their_samples(rows)
            sink = their_sink(name, folder)
        else:
            samples, sink = our_samples(rows), our_sink(name, folder, options.dsn)
        spent = anyio.run(write_many, sink, samples)
    else:
        from penstock.record import SampleBatch

        batch = SampleBatch.from_samples(our_samples(min(rows, BATCH_ROWS)))
        count = max(1, rows // BATCH_ROWS)
        rows = count * len(batch)
        if options.contender == "floor":
            spent = floor_batches(name.partition("-")[0], folder, batch, count)
        else:
            sink = our_sink(name, folder, options.dsn)
            spent = anyio.run(write_batches, sink, batch, count)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return {
        "rows_per_s": rows / spent.wall,
        "bytes_per_row": size / rows,
        "cpu_us": 1e6 * spent.cpu / rows,
    }


def main() -> None:
    """Measure one round and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", choices=["floor", "penstock", "alicatlib"], required=True)
    parser.add_argument("--task", choices=["many", "batch"], required=True)
    parser.add_argument("--sink", required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", default=None, help="where the files are written")
    parser.add_argument("--dsn", default="", help="of a PostgreSQL server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(json.dumps(measure(options, Path(folder))))


if __name__ == "__main__":
    sys.exit(exit_code(main))
