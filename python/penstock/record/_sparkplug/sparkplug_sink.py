"""Recording as an edge node of Sparkplug B."""

from __future__ import annotations

import os
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.server import BrokerAddress, Secret, trusting
from penstock.record._sparkplug.rows import SparkplugRows
from penstock.record._sparkplug.sparkplug_transport import SparkplugTransport
from penstock.record.sink import LossWindow

__all__ = ["SparkplugSink", "is_sparkplug", "sparkplug_address"]

_PORTS = {"sparkplug": 1883, "sparkplugs": 8883}
_SECRETS = (
    "set MQTT_USERNAME and MQTT_PASSWORD in the environment, or name a file with password_file"
)


def is_sparkplug(target: str) -> bool:
    """Whether ``target`` is a URL of an edge node."""
    return target.partition("://")[0].lower() in _PORTS and "://" in target


def sparkplug_address(url: str) -> tuple[BrokerAddress, str, str]:
    """The broker, the group and the edge node. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="", secrets=_SECRETS)
    group, _, node = address.name.partition("/")
    if not group or not node or any(each in address.name for each in "+#\0") or "/" in node:
        raise ValueError(
            f"{address} names no edge node: write {address.scheme}://HOST/GROUP/NODE, no + or #"
        )
    return address, group, node


class SparkplugSink(NetworkSink):
    """Publishes rows as the data of an edge node of Sparkplug B 3.0, by MQTT 5.

    Each device of the recording is a device of the node, each field a metric with its unit as
    ``engUnit``, and beside them ``run`` and ``row``, the identity of the row, and ``t_utc_ns``,
    since Sparkplug's own stamps are milliseconds. Births and data have QoS 0, as the specification
    demands: nobody confirms them.

    Every row goes to ``spool`` first, a folder on this machine, and from there to the broker. Rows
    that waited longer than 5 s, and those of the last ``lag`` seconds before a connection was lost,
    are sent as historical values.

    Args:
        url: ``sparkplug://HOST[:1883]/GROUP/NODE``, ``sparkplugs://`` for TLS.
        password_file: a file with the password. Without it MQTT_PASSWORD counts; the user is
            MQTT_USERNAME.
        ca_file: certificates (PEM) of an authority of your own.
        spool: the folder; by default ``samples.sparkplug-spool`` in the current one. Beside it is a
            file with the number of the last connection.
        spool_bytes: its largest size. Beyond it, writing raises SinkWriteError.
        lag: seconds for which a row that was handed over is kept.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits for the last rows to be taken.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    ``open`` raises SinkWriteError where the broker refuses the user. A broker that does not answer
    is waited for.

    Raises:
        ValueError: the URL is malformed, or holds a password; ``ca_file`` cannot be read.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        url: str,
        *,
        password_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        lag: float = 5.0,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        address, group, node = sparkplug_address(url)
        folder = Path("samples.sparkplug-spool" if spool is None else spool)
        tls = trusting(ca_file) if address.scheme == "sparkplugs" else None
        transport = SparkplugTransport(
            str(address),
            address.host,
            address.port,
            tls,
            group,
            node,
            Secret(None, "MQTT_USERNAME"),
            Secret(None if password_file is None else Path(password_file), "MQTT_PASSWORD"),
            folder.with_name(f"{folder.name}-bdseq"),
            lag=lag,
            timeout=timeout,
        )
        file = SpooledFile(
            SparkplugRows(), transport, folder, most_bytes=spool_bytes, patience=close_timeout
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
