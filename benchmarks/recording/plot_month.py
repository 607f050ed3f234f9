"""What ``penstock plot`` needs for a month: four devices at 10 Hz, 104 million rows in one file.

    python benchmarks/recording/plot_month.py --days 30

Makes the Parquet file that a recording of that length has, with all its columns, plots it, and
prints seconds of the wall clock, processor time and the peak of memory as JSON. In the middle of
the month one sample of one device is a spike; the picture and the terminal must show it. ``--file``
keeps the file, and uses it again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import numpy as np
import pyarrow as pa

from penstock.record import Field, RecordSchema
from penstock.record._parts.table_formats import ParquetFormat
from penstock.record.arrow import arrow_schema

DEVICES = ("fuel", "air", "argon", "vent")
RATE_HZ = 10
SPIKE = 400.0
START_NS = 1_790_000_000_000_000_000
BOOT_NS = 1_780_000_000_000_000_000
ROWS_A_GROUP = 1_048_576


def schema() -> Any:
    """The columns of a recording of mass flow controllers."""
    about = {
        "boot_id": "00000000-0000-0000-0000-000000000000",
        "rate_hz": RATE_HZ,
        "devices": {name: {"rate_hz": RATE_HZ} for name in DEVICES},
    }
    units = {"Abs_Press": "PSIA", "Flow_Temp": "`C", "Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM"}
    fields = [Field(name, "float", unit) for name, unit in units.items()]
    fields += [Field("late_s", "float", "s"), Field("event", "text"), Field("message", "text")]
    fields += [Field("error_code", "text")]
    return arrow_schema(RecordSchema(tuple(fields), json.dumps(about)))


def tables(rows: int, columns: Any) -> Iterator[Any]:
    """The rows, polled in turn, with the digits that instruments send."""
    rng = np.random.default_rng(1)
    spike = rows // 2 // len(DEVICES) * len(DEVICES)
    for begin in range(0, rows, ROWS_A_GROUP):
        number = np.arange(begin, min(rows, begin + ROWS_A_GROUP), dtype=np.int64)
        count = len(number)
        device = (number % len(DEVICES)).astype(np.int32)
        poll = number // len(DEVICES)
        t = (
            START_NS
            + poll * (10**9 // RATE_HZ)
            + device * 2_000_000
            + rng.integers(0, 200_000, count)
        )
        days = poll / (86_400 * RATE_HZ)
        flow = 50 + 20 * device + 5 * np.sin(days * 2 * np.pi) + rng.normal(0, 0.3, count)
        flow[number == spike] = SPIKE
        values: dict[str, Any] = {
            "device": pa.DictionaryArray.from_arrays(pa.array(device), DEVICES),
            "unit_id": pa.DictionaryArray.from_arrays(pa.array(device), list("ABCD")),
            "t_utc": pa.array(t),
            "t_mono_ns": pa.array(t - BOOT_NS),
            "requested_at": pa.array(t),
            "received_at": pa.array(t + 1_500_000),
            "latency_s": pa.array(np.full(count, 0.0015)),
            "Abs_Press": pa.array(np.round(14.7 + rng.normal(0, 0.01, count), 2)),
            "Flow_Temp": pa.array(np.round(23 + rng.normal(0, 0.02, count), 2)),
            "Mass_Flow": pa.array(np.round(flow, 2)),
            "Mass_Flow_Setpt": pa.array(50.0 + 20 * device),
            "late_s": pa.array(np.zeros(count)),
        }
        yield pa.table(
            [
                values[column.name].cast(column.type)
                if column.name in values
                else pa.nulls(count, column.type)
                for column in columns
            ],
            schema=columns,
        )


def measure(file: Path, *options: str) -> dict[str, float]:
    """Run ``penstock plot`` and measure it."""
    command = [sys.executable, "-m", "penstock.cli", "plot", str(file), *options]
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        printed = output.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"penstock plot ended with {process.returncode}")
    if "--out" not in options and f"{SPIKE:g} ┤" not in printed:
        raise SystemExit("the spike is not in the plot")
    return {
        "seconds": round(elapsed, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--file", type=Path, help="where the recording is kept")
    parser.add_argument("--picture", type=Path, help="where the picture is kept")
    parser.add_argument("--make", type=Path, help="only make the recording")
    options = parser.parse_args()
    rows = round(options.days * 86_400 * RATE_HZ) * len(DEVICES)
    if options.make is not None:
        columns = schema()
        ParquetFormat("zstd").write(tables(rows, columns), columns, options.make)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = options.file or Path(folder) / "month.parquet"
        if not file.exists():
            # In a process of its own: a child begins with the peak of its parent.
            maker = [sys.executable, __file__, "--days", str(options.days), "--make", str(file)]
            subprocess.run(maker, check=True)
        picture = options.picture or Path(folder) / "month.png"
        found = {
            "rows": rows,
            "megabytes": round(os.path.getsize(file) / 1e6),
            "png": measure(file, "--out", str(picture), "--overwrite"),
            "local": measure(file, "--out", str(picture), "--overwrite", "--time", "local"),
            "terminal": measure(file),
        }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
