"""Recording instruments: a sampling clock, columns, and files that survive a crash.

::

    async with CsvSink("run.csv") as csv, ParquetSink("run.parquet") as parquet:
        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await manager.add("fuel", "/dev/ttyUSB0", unit_id="A")
            async with record(manager, rate_hz=20, duration=10) as recording:
                summary = await pipe(recording, csv, parquet)

Runs on every AnyIO backend. CSV needs nothing else; Parquet and Arrow need ``penstock[parquet]``.
Each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._public_names import on_demand

if TYPE_CHECKING:
    from penstock._torn_end import Cut
    from penstock.record._columns.batch import SampleBatch
    from penstock.record._columns.columns import ColumnBuffer
    from penstock.record._mqtt.mqtt_sink import MqttSink
    from penstock.record._mqtt.sparkplug_sink import SparkplugSink
    from penstock.record._nats.nats_sink import NatsSink
    from penstock.record._network.influx_sink import InfluxSink
    from penstock.record._network.network_sink import NetworkSink
    from penstock.record._parts.recovery import Recovery, recover
    from penstock.record._postgres_sink import PostgresSink
    from penstock.record._recording_check import check_seals
    from penstock.record._sample import PolledReading, PollResult, Sample, poll_timed
    from penstock.record._sampling.recorder import Alignment, OverflowPolicy, Recording, record
    from penstock.record._sampling.stream_source import StreamSource
    from penstock.record._sampling.summary import AcquisitionSummary, DeviceSummary, SinkSummary
    from penstock.record._seals.digests import PublicKey, SigningKey
    from penstock.record._seals.seal_check import SealFindings
    from penstock.record._sinks.line_sinks import CsvSink, JsonlSink
    from penstock.record._sinks.memory_sink import InMemorySink
    from penstock.record._sinks.pipe import BatchSource, pipe
    from penstock.record._sinks.sqlite_sink import SqliteSink
    from penstock.record._sinks.table_sinks import ArrowSink, ParquetSink
    from penstock.record._source import (
        DescribedSource,
        EventSource,
        FieldKind,
        FieldValue,
        GroupedPollSource,
        PollSource,
        PushSource,
        RatedSource,
        SchemaSource,
        SourceEvent,
    )
    from penstock.record.clock import Clock, SystemClock
    from penstock.record.damage import Damage, DamagedError
    from penstock.record.errors import (
        RecordError,
        RecoveryError,
        SinkDependencyError,
        SinkError,
        SinkExistsError,
        SinkSchemaError,
        SinkWriteError,
    )
    from penstock.record.failure_codes import FailureCode
    from penstock.record.schema import Field, RecordSchema
    from penstock.record.sink import LossWindow, Sink, SinkBase
    from penstock.record.view import StoredRecording
    from penstock.record.view import open_recording as open

__all__ = [
    "AcquisitionSummary",
    "Alignment",
    "ArrowSink",
    "BatchSource",
    "Clock",
    "ColumnBuffer",
    "CsvSink",
    "Cut",
    "Damage",
    "DamagedError",
    "DescribedSource",
    "DeviceSummary",
    "EventSource",
    "FailureCode",
    "Field",
    "FieldKind",
    "FieldValue",
    "GroupedPollSource",
    "InMemorySink",
    "InfluxSink",
    "JsonlSink",
    "LossWindow",
    "MqttSink",
    "NatsSink",
    "NetworkSink",
    "OverflowPolicy",
    "ParquetSink",
    "PollResult",
    "PollSource",
    "PolledReading",
    "PostgresSink",
    "PublicKey",
    "PushSource",
    "RatedSource",
    "RecordError",
    "RecordSchema",
    "Recording",
    "Recovery",
    "RecoveryError",
    "Sample",
    "SampleBatch",
    "SchemaSource",
    "SealFindings",
    "SigningKey",
    "Sink",
    "SinkBase",
    "SinkDependencyError",
    "SinkError",
    "SinkExistsError",
    "SinkSchemaError",
    "SinkSummary",
    "SinkWriteError",
    "SourceEvent",
    "SparkplugSink",
    "SqliteSink",
    "StoredRecording",
    "StreamSource",
    "SystemClock",
    "check_seals",
    "open",
    "pipe",
    "poll_timed",
    "record",
    "recover",
]

# Where the names are. Reading a recording needs no sinks, and a recorder no readers: all of them
# together take a quarter of a second.
_HOMES = {
    "penstock._torn_end": "Cut",
    "penstock.record._columns.batch": "SampleBatch",
    "penstock.record._columns.columns": "ColumnBuffer",
    "penstock.record._mqtt.mqtt_sink": "MqttSink",
    "penstock.record._mqtt.sparkplug_sink": "SparkplugSink",
    "penstock.record._nats.nats_sink": "NatsSink",
    "penstock.record._network.influx_sink": "InfluxSink",
    "penstock.record._network.network_sink": "NetworkSink",
    "penstock.record._parts.recovery": "Recovery recover",
    "penstock.record._postgres_sink": "PostgresSink",
    "penstock.record._recording_check": "check_seals",
    "penstock.record._sample": "PollResult PolledReading Sample poll_timed",
    "penstock.record._sampling.recorder": "Alignment OverflowPolicy Recording record",
    "penstock.record._sampling.stream_source": "StreamSource",
    "penstock.record._sampling.summary": "AcquisitionSummary DeviceSummary SinkSummary",
    "penstock.record._seals.digests": "PublicKey SigningKey",
    "penstock.record._seals.seal_check": "SealFindings",
    "penstock.record._sinks.line_sinks": "CsvSink JsonlSink",
    "penstock.record._sinks.memory_sink": "InMemorySink",
    "penstock.record._sinks.pipe": "BatchSource pipe",
    "penstock.record._sinks.sqlite_sink": "SqliteSink",
    "penstock.record._sinks.table_sinks": "ArrowSink ParquetSink",
    "penstock.record._source": (
        "DescribedSource EventSource FieldKind FieldValue GroupedPollSource PollSource PushSource "
        "RatedSource SchemaSource SourceEvent"
    ),
    "penstock.record.clock": "Clock SystemClock",
    "penstock.record.damage": "Damage DamagedError",
    "penstock.record.errors": (
        "RecordError RecoveryError SinkDependencyError SinkError SinkExistsError SinkSchemaError "
        "SinkWriteError"
    ),
    "penstock.record.failure_codes": "FailureCode",
    "penstock.record.schema": "Field RecordSchema",
    "penstock.record.sink": "LossWindow Sink SinkBase",
    "penstock.record.view": "StoredRecording open",
}

if not TYPE_CHECKING:  # a type checker would take every name for one of these
    __getattr__, __dir__ = on_demand(globals(), _HOMES, {"open": "open_recording"})
