"""Recording instruments: a sampling clock, columns, and files that survive a crash.

::

    async with CsvSink("run.csv") as csv, ParquetSink("run.parquet") as parquet:
        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await manager.add("fuel", "/dev/ttyUSB0", unit_id="A")
            async with record(manager, rate_hz=20, duration=10) as recording:
                summary = await pipe(recording, csv, parquet)

Runs on every AnyIO backend. CSV needs nothing else; Parquet and Arrow need ``penstock[parquet]``.
"""

from __future__ import annotations

from .batch import SampleBatch
from .clock import Clock, SystemClock
from .columns import ColumnBuffer
from .csv_sink import CsvSink
from .errors import (
    RecordError,
    RecoveryError,
    SinkDependencyError,
    SinkError,
    SinkExistsError,
    SinkSchemaError,
    SinkWriteError,
)
from .memory_sink import InMemorySink
from .parquet_sink import ParquetSink
from .pipe import pipe
from .recorder import OverflowPolicy, Recording, record
from .recovery import Recovery, recover
from .sample import Sample
from .schema import Field, RecordSchema
from .sink import Sink, SinkBase
from .source import PollSource
from .summary import AcquisitionSummary, DeviceSummary

__all__ = [
    "AcquisitionSummary",
    "Clock",
    "ColumnBuffer",
    "CsvSink",
    "DeviceSummary",
    "Field",
    "InMemorySink",
    "OverflowPolicy",
    "ParquetSink",
    "PollSource",
    "RecordError",
    "RecordSchema",
    "Recording",
    "Recovery",
    "RecoveryError",
    "Sample",
    "SampleBatch",
    "Sink",
    "SinkBase",
    "SinkDependencyError",
    "SinkError",
    "SinkExistsError",
    "SinkSchemaError",
    "SinkWriteError",
    "SystemClock",
    "pipe",
    "record",
    "recover",
]
