"""Samples that a library makes itself, through its ``pipe()`` into a sink.

    python benchmarks/recording/synthetic.py --contender penstock --sink csv --samples 100000

The work is that of alicatlib's page: one device, one value, a sample each 100 µs with a latency of
5 ms, batches of 64, ``flush_interval`` 1.0. Making the samples is part of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.measure.processes import EXIT_UNAVAILABLE

BATCH = 64
STEP_NS, LATENCY_NS = 100_000, 5_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def value_of(number: int) -> float:
    """The flow of a sample."""
    return 10.0 + number % 1000 * 0.01


async def record_with_penstock(sink_name: str, path: Path, samples: int) -> float:
    """Seconds for all samples, by the recorder's own way from a result to a row."""
    import penstock.record as ours
    from penstock.record._sampling.source_set import SourceSet
    from penstock.record._sampling.summary import AcquisitionSummary
    from penstock.record._sampling.waiting_rows import WaitingRows

    class Source:
        source_id = "synthetic"
        names = ("fuel",)
        revision = 0

        def field_schemas(self) -> Mapping[str, Any]:
            return {"fuel": [ours.Field("Mass_Flow", "float", "SCCM")]}

        async def poll(self, names: Any = None) -> Mapping[str, Any]:
            return {}

    class Synthetic:
        """Rows as a recording makes them, as fast as they are taken."""

        schema_known = True

        def __init__(self) -> None:
            sources = SourceSet([Source()], None)
            fields = sources.known_fields()
            schema = ours.RecordSchema(
                sources.columns(fields),
                sources.describe(fields, run_id="", rate_hz=1.0, rates={}, started_at=START),
            )
            self.summary = AcquisitionSummary(START, devices={"fuel": ours.DeviceSummary()})
            self._rows = WaitingRows(schema, 65_536, ours.OverflowPolicy.BLOCK, self.summary)
            self._number = 0

        @property
        def schema(self) -> ours.RecordSchema:
            return self._rows.schema

        async def next_batch(
            self, min_rows: int = 1, max_wait: float | None = None
        ) -> ours.SampleBatch | None:
            await asyncio.sleep(0)
            rows, number = self._rows, self._number
            end = min(samples, number + min_rows)
            if number == end:
                return None
            utc = 1_767_225_600_000_000_000
            while number < end:
                asked = number * STEP_NS
                result = ours.PollResult(
                    ours.PolledReading({"Mass_Flow": value_of(number)}, frozenset()),
                    None,
                    asked,
                    utc + asked,
                    asked + LATENCY_NS,
                    utc + asked + LATENCY_NS,
                )
                rows.buffer.append_result("fuel", "A", result)
                number += 1
            self._number = number
            return rows.take()

        def take(self) -> ours.SampleBatch:
            return self._rows.take()

        def stop(self) -> None:
            """There is no instrument to leave."""

        async def wait_finished(self) -> None:
            """It has finished when it is asked for no more."""

    kinds: dict[str, Any] = {
        "csv": ours.CsvSink,
        "jsonl": ours.JsonlSink,
        "sqlite": ours.SqliteSink,
        "parquet": ours.ParquetSink,
    }
    sink = kinds[sink_name](path)
    begin = time.perf_counter()
    await ours.pipe(
        Synthetic(),
        sink,
        batch_size=BATCH,
        flush_interval=1.0,
        queue_overflow=ours.OverflowPolicy.BLOCK,
    )
    return time.perf_counter() - begin


async def record_with_alicatlib(sink_name: str, path: Path, samples: int) -> float:
    """Seconds for all samples, one in each item of the stream as its recorder makes them."""
    theirs = importlib.import_module("alicatlib")
    streaming = importlib.import_module("alicatlib.streaming")
    sinks = importlib.import_module("alicatlib.sinks")
    reading_module = importlib.import_module("alicatlib.devices.reading")
    statistic = theirs.Statistic.MASS_FLOW
    field = reading_module.DataFrameField(
        name="Mass_Flow",
        raw_name="Mass_Flow",
        type_name="decimal",
        statistic=statistic,
        unit=theirs.Unit.SCCM,
        conditional=False,
        parser=float,
    )
    reading_format = reading_module.DataFrameFormat(
        fields=(field,), flavor=reading_module.DataFrameFormatFlavor.DEFAULT
    )

    async def stream() -> AsyncIterator[Mapping[str, Any]]:
        for number in range(samples):
            asked = START + timedelta(microseconds=number * STEP_NS // 1000)
            received = asked + timedelta(microseconds=LATENCY_NS // 1000)
            value = value_of(number)
            reading = theirs.Reading(
                unit_id="A",
                reading_format=reading_format,
                values={"Mass_Flow": value},
                values_by_statistic={statistic: value},
                status=frozenset(),
                received_at=received,
                t_mono_ns=number * STEP_NS + LATENCY_NS,
            )
            sample = streaming.Sample(
                device="fuel",
                unit_id="A",
                t_mono_ns=number * STEP_NS + LATENCY_NS // 2,
                t_utc=asked + timedelta(microseconds=LATENCY_NS // 2000),
                requested_at=asked,
                received_at=received,
                latency_s=LATENCY_NS / 1e9,
                reading=reading,
            )
            yield {"fuel": sample}

    kinds = {
        "csv": sinks.CsvSink,
        "jsonl": sinks.JsonlSink,
        "sqlite": sinks.SqliteSink,
        "parquet": sinks.ParquetSink,
    }
    begin = time.perf_counter()
    async with kinds[sink_name](path) as sink:
        await sinks.pipe(stream(), sink, batch_size=BATCH, flush_interval=1.0)
    return time.perf_counter() - begin


def main() -> None:
    """Measure one contender with one sink."""
    parser = argparse.ArgumentParser(description="Samples through pipe() into a sink")
    parser.add_argument("--contender", required=True, choices=["penstock", "alicatlib"])
    parser.add_argument("--sink", required=True, choices=["csv", "jsonl", "sqlite", "parquet"])
    parser.add_argument("--samples", type=int, default=100_000)
    options = parser.parse_args()
    work = record_with_penstock if options.contender == "penstock" else record_with_alicatlib
    try:
        # What is imported late is not a part of the time.
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(work(options.sink, Path(folder) / f"run.{options.sink}", 1000))
    except ImportError as error:
        print(f"{options.contender} is not installed: {error}", file=sys.stderr)
        sys.exit(EXIT_UNAVAILABLE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run.{options.sink}"
        cpu = time.process_time()
        seconds = asyncio.run(work(options.sink, path, options.samples))
        cpu = time.process_time() - cpu
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    result = {
        "samples_a_second": options.samples / seconds,
        "cpu_us": cpu / options.samples * 1e6,
        "bytes_a_sample": size / options.samples,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
