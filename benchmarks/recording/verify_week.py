"""What ``penstock verify`` needs for 2.4 million rows: a week of four devices at 1 Hz.

    python benchmarks/recording/verify_week.py

Records the rows into CSV and into Parquet by their sinks, with seals, checks each file, and prints
seconds of the wall clock, processor time and the peak of memory as JSON. The file must be found
complete and unchanged. ``--deep`` reads all columns too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import anyio

from benchmarks.recording.plot_month import DEVICES, schema, tables
from penstock.record.sink_choice import sink_for

ROWS = 7 * 86_400 * len(DEVICES)
ROWS_A_BATCH = 8192
NAMES = ("run.csv", "run.parquet")


async def make(path: Path, rows: int) -> None:
    """Record the rows."""
    async with sink_for(path) as sink:
        for table in tables(rows, schema()):
            for batch in table.to_batches(max_chunksize=ROWS_A_BATCH):
                await sink.write_batch(batch)


def measure(path: Path, *options: str) -> dict[str, float]:
    """Run ``penstock verify`` and measure it."""
    command = [sys.executable, "-m", "penstock.cli", "verify", str(path), *options]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or "complete and unchanged" not in printed:
        raise SystemExit(f"penstock verify ended with {process.returncode}: {printed}")
    return {
        "seconds": round(elapsed, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--deep", action="store_true", help="read all columns")
    parser.add_argument("--make", type=Path, help="only make this recording")
    options = parser.parse_args()
    if options.make is not None:
        anyio.run(make, options.make, options.rows)
        return
    found: dict[str, object] = {"rows": options.rows}
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            path = Path(folder, name)
            # In a process of its own: a child begins with the peak of its parent.
            maker = [sys.executable, __file__, "--rows", str(options.rows), "--make", str(path)]
            subprocess.run(maker, check=True)
            found[name] = measure(path, *(["--deep"] if options.deep else []))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
