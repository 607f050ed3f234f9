"""The sink for a path: its suffix tells the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._mqtt.mqtt_sink import MqttSink, is_mqtt, mqtt_address
from penstock.record._mqtt.sparkplug_sink import (
    SparkplugSink,
    is_sparkplug,
    sparkplug_address,
)
from penstock.record._nats.nats_sink import NatsSink, is_nats, nats_address
from penstock.record._network.influx_sink import InfluxAddress, InfluxSink, is_influx
from penstock.record._postgres_sink import PostgresSink
from penstock.record._seals.digests import SigningKey
from penstock.record._sinks.line_sinks import CsvSink, JsonlSink
from penstock.record._sinks.sqlite_sink import SqliteSink
from penstock.record._sinks.table_sinks import ArrowSink, ParquetSink
from penstock.record.addresses import refuse_url
from penstock.record.postgres_server import check_uri, is_postgres
from penstock.record.sink import ThreadedSink

__all__ = ["check_url", "sink_for"]

_FILES: dict[str, Callable[..., ThreadedSink]] = {
    ".csv": CsvSink,
    ".jsonl": JsonlSink,
    ".sqlite": SqliteSink,
    ".sqlite3": SqliteSink,
    ".db": SqliteSink,
    ".parquet": ParquetSink,
    ".arrow": ArrowSink,
}


@renamed(loss_seconds="loss_interval")
def sink_for(
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    append: bool = False,
    force: bool = False,
    loss_interval: float | None = 1.0,
    loss_rows: int | None = None,
    sign: SigningKey | None = None,
) -> ThreadedSink:
    """The sink that writes to ``target``.

    ``.csv``, ``.jsonl``, ``.sqlite``, ``.sqlite3``, ``.db``, ``.parquet`` and ``.arrow`` are
    files; a path without a suffix is a folder of Parquet parts; ``postgresql://`` is a server,
    where ``force`` and ``sign`` have no effect: it has no seals. ``influx://``,
    ``influxs://``, ``mqtt://``, ``mqtts://``, ``sparkplug://``, ``sparkplugs://``, ``nats://`` and
    ``natss://`` are servers of which nothing is overwritten or continued: their rows are added.

    Raises:
        ValueError: for another suffix, or another kind of URL.
    """
    text = os.fspath(target)
    if is_postgres(text):
        return PostgresSink(
            text,
            overwrite=overwrite,
            append=append,
            loss_interval=loss_interval,
            loss_rows=loss_rows,
        )
    if is_influx(text):
        return InfluxSink(text, loss_interval=loss_interval, loss_rows=loss_rows)
    if is_mqtt(text):
        return MqttSink(text, loss_interval=loss_interval, loss_rows=loss_rows)
    if is_nats(text):
        return NatsSink(text, loss_interval=loss_interval, loss_rows=loss_rows)
    if is_sparkplug(text):
        return SparkplugSink(text, loss_interval=loss_interval, loss_rows=loss_rows)
    refuse_url(text, "name a file, a folder, or a server of the kinds that sinks know")
    suffix = Path(text).suffix
    if suffix and suffix not in _FILES:
        raise ValueError(
            f"cannot tell the format of {text} from its name: end it in one of "
            f"{', '.join(_FILES)}, or leave the suffix out for a folder of parts"
        )
    return _FILES.get(suffix, ParquetSink)(
        text,
        overwrite=overwrite,
        append=append,
        force=force,
        loss_interval=loss_interval,
        loss_rows=loss_rows,
        sign=sign,
    )


def check_url(url: str) -> None:
    """Check the URL of a server without making its sink. ValueError, without a password."""
    if is_influx(url):
        InfluxAddress.parse(url)
    elif is_mqtt(url):
        mqtt_address(url)
    elif is_sparkplug(url):
        sparkplug_address(url)
    elif is_nats(url):
        nats_address(url)
    elif is_postgres(url):
        check_uri(url)
