"""Recording into InfluxDB, and into those that take its lines."""

from __future__ import annotations

import os
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._influx.influx_address import InfluxAddress
from penstock.record._influx.influx_transport import InfluxTransport
from penstock.record._influx.line_encoder import LineEncoder
from penstock.record._network.http_post import HttpPost
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret, trusting
from penstock.record.sink import LossWindow

__all__ = ["InfluxSink"]


class InfluxSink(NetworkSink):
    """Writes to InfluxDB 1, 2 or 3, VictoriaMetrics or QuestDB, by the line protocol over HTTP.

    A sample is a point of ``measurement``, an event one of ``events``. The device is its only tag,
    its stamp ``t_utc`` in nanoseconds, moved to the next free one where a row of the same device
    has it already. All else that the row has is a field.

    Every row goes to ``spool`` first, a folder on this machine, and from there to the server, in
    order. So rows wait there while the server is away, and one that was sent before a kill may be
    sent again: for InfluxDB that is the same point. The spool of a process that was killed is sent
    by the next sink with the same ``spool``. What is still in it at ``close`` is an error, and
    stays there. A line that the server will never take goes to a file beside the spool, and the
    others are written; ``close`` then raises SinkWriteError, which names it.

    Args:
        url: ``influx://HOST:8086/DATABASE``, or ``.../ORGANISATION/BUCKET`` for InfluxDB 2;
            ``influxs://`` for TLS. ``?rp=NAME``, ``?api=1``, ``2`` or ``3``.
        measurement: of samples.
        events: the measurement of events; by default ``events``, or with another ``measurement``
            that name and ``_events``.
        token_file: a file with the token. Without it the environment is asked: INFLUX_TOKEN, or
            INFLUX_USERNAME and INFLUX_PASSWORD.
        ca_file: certificates (PEM) of an authority of your own.
        spool: the folder; by default ``MEASUREMENT.influx-spool`` in the current one.
        spool_bytes: its largest size. Beyond it, writing raises SinkWriteError.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits for the last rows to be taken.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    ``open`` raises SinkWriteError where the server refuses these rows for good: no such database,
    no permission. A server that does not answer at all is waited for.

    Raises:
        ValueError: the URL is malformed, or holds a password; a measurement has no name, or one
            that begins with ``#``, which makes its lines comments; ``ca_file`` cannot be read.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        url: str,
        *,
        measurement: str = "samples",
        events: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        address = InfluxAddress.parse(url)
        if events is None:
            events = "events" if measurement == "samples" else f"{measurement}_events"
        if not measurement or not events or measurement == events:
            raise ValueError(
                f"samples are in {measurement!r} and events in {events!r}: give each a name"
            )
        if measurement.startswith("#") or events.startswith("#"):
            raise ValueError(
                f"samples are in {measurement!r} and events in {events!r}, and the server takes "
                "lines that begin with # for comments: give each another name"
            )
        folder = Path(f"{measurement}.influx-spool" if spool is None else spool)
        tls = trusting(ca_file) if address.tls else None
        rejected = RefusedRows(folder.with_name(f"{folder.name}-refused.lp"))
        transport = InfluxTransport(
            address,
            HttpPost(address.host, address.port, tls, timeout),
            Secret(None if token_file is None else Path(token_file), "INFLUX_TOKEN"),
            Secret(None, "INFLUX_USERNAME"),
            Secret(None, "INFLUX_PASSWORD"),
            rejected,
        )
        file = SpooledFile(
            LineEncoder(measurement, events),
            transport,
            folder,
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
        self._rejected = rejected

    @property
    def refused_lines(self) -> Path:
        """The file of lines that the server refused; it is there once there is one."""
        return self._rejected.path
