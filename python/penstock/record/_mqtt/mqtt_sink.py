"""Recording into an MQTT broker."""

from __future__ import annotations

import os
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._mqtt.json_messages import JsonMessages
from penstock.record._mqtt.mqtt_transport import MqttTransport
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import BrokerAddress, Secret, trusting
from penstock.record.sink import LossWindow

__all__ = ["MqttSink", "is_mqtt", "mqtt_address"]

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_SECRETS = (
    "set MQTT_USERNAME and MQTT_PASSWORD in the environment, or name a file with password_file"
)


def is_mqtt(target: str) -> bool:
    """Whether ``target`` is a URL of a broker."""
    return target.partition("://")[0].lower() in _PORTS and "://" in target


def mqtt_address(url: str) -> BrokerAddress:
    """The broker and the prefix of topics. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=_SECRETS)
    if any(character in address.name for character in "+#\0"):
        raise ValueError(f"the prefix {address.name!r} has a wildcard: leave + and # out")
    return address


class MqttSink(NetworkSink):
    """Publishes each row as a JSON message of QoS 1, by MQTT 5.

    A sample goes to ``PREFIX/samples/DEVICE``, an event to ``PREFIX/events/DEVICE``. The object has
    all columns, and before them ``run``, ``device`` and ``row``: a number that counts the rows of
    that device in this run. The retained message ``PREFIX/status`` says whether the sink is
    connected.

    Every row goes to ``spool`` first, a folder on this machine, and from there to the broker, in
    order, at least once. A broker acknowledges what it may still lose, so rows that it has
    acknowledged in the last ``lag`` seconds are sent again after a lost connection. A reader drops
    those whose run, device and row it has; docs/mqtt.md says what a broker promises.

    Args:
        url: ``mqtt://HOST[:1883]/PREFIX``, or ``mqtts://HOST[:8883]/PREFIX`` for TLS. The prefix is
            ``penstock`` without a path.
        password_file: a file with the password. Without it MQTT_PASSWORD counts; the user is
            MQTT_USERNAME.
        ca_file: certificates (PEM) of an authority of your own.
        spool: the folder; by default ``samples.mqtt-spool`` in the current one.
        spool_bytes: its largest size. Beyond it, writing raises SinkWriteError.
        lag: seconds for which an acknowledged row is kept. ``close`` waits as long.
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
        lag: float = 1.0,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        address = mqtt_address(url)
        folder = Path("samples.mqtt-spool" if spool is None else spool)
        tls = trusting(ca_file) if address.scheme == "mqtts" else None
        transport = MqttTransport(
            address,
            tls,
            Secret(None, "MQTT_USERNAME"),
            Secret(None if password_file is None else Path(password_file), "MQTT_PASSWORD"),
            RefusedRows(folder.with_name(f"{folder.name}-refused.jsonl")),
            lag=lag,
            timeout=timeout,
        )
        file = SpooledFile(
            JsonMessages(address.name),
            transport,
            folder,
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
