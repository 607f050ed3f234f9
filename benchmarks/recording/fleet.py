"""Many instruments recorded into sinks by one process on one core.

    python benchmarks/recording/fleet.py --ports 8 --rate 200 --seconds 60 --sinks parquet,csv

The instruments are in another process on another core, and judge which polls were late.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.instruments.far_end import far_end
from benchmarks.instruments.libraries import PATIENCE
from benchmarks.instruments.slots import judge
from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import run
from benchmarks.serial_ports.ptys import other_core
from penstock.alicat import AlicatManager, ErrorPolicy, SerialSettings
from penstock.record import (
    AcquisitionSummary,
    Alignment,
    ArrowSink,
    CsvSink,
    JsonlSink,
    ParquetSink,
    SinkBase,
    SqliteSink,
    pipe,
    record,
)

BAUDRATE = 115_200


class NullSink(SinkBase):
    """Takes everything and keeps nothing."""

    async def open(self, schema: Any = None, metadata: Any = None) -> None:
        """Nothing to reserve."""

    async def write_batch(self, batch: Any) -> None:
        """Forget a batch."""

    async def close(self) -> None:
        """Nothing to finish."""


def make_sinks(names: list[str], folder: Path) -> list[Any]:
    """The sinks of these names, in ``folder``."""
    kinds: dict[str, Any] = {
        "csv": CsvSink,
        "jsonl": JsonlSink,
        "sqlite": SqliteSink,
        "arrow": ArrowSink,
        "parquet": ParquetSink,
    }
    return [NullSink() if n == "null" else kinds[n](folder / f"run.{n}") for n in names]


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def record_all(
    paths: list[str], options: argparse.Namespace, folder: Path, found: dict[str, Any]
) -> AcquisitionSummary:
    """Record the instruments of ``paths``; puts CPU and memory into ``found``."""
    async with (
        AlicatManager(error_policy=ErrorPolicy.RETURN) as manager,
        AsyncExitStack() as stack,
    ):
        for number, path in enumerate(paths):
            settings = SerialSettings(path, baudrate=BAUDRATE)
            await manager.add(f"d{number}", path, serial=settings, timeout=PATIENCE)
        sizes: list[tuple[float, int]] = []
        sinks = [
            await stack.enter_async_context(sink)
            for sink in make_sinks(options.sinks.split(","), folder)
        ]
        begin = time.monotonic()

        def look(batch: object) -> None:
            sizes.append((time.monotonic() - begin, resident_bytes()))

        cpu = time.process_time()
        async with record(
            manager,
            rate_hz=options.rate,
            duration=options.seconds,
            alignment=Alignment(options.alignment),
        ) as recording:
            summary = await pipe(recording, *sinks, on_batch=look)
        found["cpu_seconds"] = time.process_time() - cpu
        # The first tenth fills buffers and pools.
        steady = [size for at, size in sizes if at > options.seconds / 10]
        found["growth_bytes"] = steady[-1] - steady[0] if steady else 0
        found["resident_bytes"] = sizes[-1][1] if sizes else 0
        return summary


def main() -> None:
    """Record once."""
    parser = argparse.ArgumentParser(description="Many instruments recorded by one process")
    parser.add_argument("--ports", type=int, default=8)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sinks", default="parquet,csv")
    parser.add_argument("--alignment", default="start", choices=[a.value for a in Alignment])
    parser.add_argument("--loop", default="penstock")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        far_end(options.ports, other_core()) as there,
    ):

        async def program() -> AcquisitionSummary:
            return await record_all(there.paths, options, Path(folder), found)

        summary: AcquisitionSummary = run(options.loop, program)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    verdicts = [judge(polls, options.rate) for polls in there.polled_at]
    slots = sum(verdict.slots for verdict in verdicts)
    rows = summary.samples_emitted
    result = {
        "rows": rows,
        "errors": summary.errors,
        "late_percent": 100.0 * sum(verdict.late for verdict in verdicts) / slots,
        "skipped_percent": 100.0 * summary.samples_late / (rows + summary.samples_late),
        "cpu_percent": 100.0 * found["cpu_seconds"] / options.seconds,
        "cpu_us": found["cpu_seconds"] / rows * 1e6,
        "growth_bytes": found["growth_bytes"],
        "resident_bytes": found["resident_bytes"],
        "bytes_a_row": size / rows,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(exit_code(main))
