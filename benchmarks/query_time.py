"""What ``penstock query`` adds to DuckDB's own time, on a generated Parquet recording.

Both run as processes in turn, ABBA, over one file: the mean of a field by device and minute. The
peer is a program of four lines with the same SQL, whose rows it prints as CSV too. The medians of
the paired ratios are printed, for the elapsed time and for the time of both processors.

    benchmarks/query_time.py --rows 100000000 --pairs 5
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_SQL = (
    "SELECT device, time_bucket(INTERVAL '1 minute', t_utc::TIMESTAMPTZ) AS minute, "
    "avg(Mass_Flow) AS flow FROM {source} GROUP BY ALL ORDER BY ALL"
)
_PEER = """
import duckdb, sys
duckdb.sql("SET TimeZone = 'UTC'")
duckdb.sql(sys.argv[1]).write_csv("/dev/stdout")
"""
_DEVICES = 10
_ROWS_A_GROUP = 131_072


def main() -> int:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the recording (10 M)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs (5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.parquet")
        generate(path, options.rows)
        ours = [sys.executable, "-m", "penstock.cli", "query", str(path)]
        ours += [_SQL.format(source="recording"), "--format", "csv"]
        peer = [sys.executable, "-c", _PEER, _SQL.format(source=f"read_parquet('{path}')")]
        for command in (ours, peer):
            _run(command)  # both find the file in the page cache
        ratios = []
        for number in range(options.pairs):
            order = [ours, peer] if number % 2 else [peer, ours]
            found = {id(command): _run(command) for command in order}
            one, other = found[id(ours)], found[id(peer)]
            print(
                f"penstock query {one[0]:.2f} s ({one[1]:.2f} s CPU), "
                f"DuckDB {other[0]:.2f} s ({other[1]:.2f} s CPU)",
                flush=True,
            )
            ratios.append((one[0] / other[0], one[1] / other[1]))
    for text, values in zip(("elapsed", "CPU"), zip(*ratios, strict=True), strict=True):
        print(
            f"{text}: {statistics.median(values):.3f} of DuckDB's own "
            f"({min(values):.3f} to {max(values):.3f}), {options.rows} rows"
        )
    return 0


def generate(path: Path, rows: int) -> None:
    """A recording of ten devices at 50 Hz each."""
    random = np.random.default_rng(1)
    names = pa.array([f"mfc{number}" for number in range(_DEVICES)])
    writer = None
    for first in range(0, rows, 1_000_000):
        count = min(1_000_000, rows - first)
        number = np.arange(first, first + count, dtype=np.int64)
        stamps = 1_795_262_400_000_000_000 + number * 2_000_000
        codes = pa.array((number % _DEVICES).astype(np.int32))
        table = pa.table(
            {
                "device": pa.DictionaryArray.from_arrays(codes, names),
                "t_utc": pa.array(stamps, pa.timestamp("ns", "UTC")),
                "Mass_Flow": np.round(random.normal(50, 1, count), 2),
                "Abs_Press": np.round(random.normal(14, 0.1, count), 2),
                "error": pa.nulls(count, pa.string()),
                "event": pa.nulls(count, pa.string()),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=_ROWS_A_GROUP)
    if writer is not None:
        writer.close()


def _run(command: list[str]) -> tuple[float, float]:
    """Elapsed seconds and CPU seconds of a process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:])}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    elapsed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return elapsed, cpu


if __name__ == "__main__":
    raise SystemExit(main())
