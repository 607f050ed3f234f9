"""Recording into an MQTT broker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock._record import json_rows
from penstock._renamed import renamed
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import TextColumn
from penstock.record._columns.row_text import row_columns
from penstock.record._mqtt.broker import Broker, RetainRefused
from penstock.record._mqtt.broker_login import BROKER_SECRETS, BrokerLogin
from penstock.record._mqtt.packets import LONGEST_TOPIC, Message
from penstock.record._network.kept_connection import KeptConnection
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.rows import RefusedRows, RowNumbers
from penstock.record._network.server import BrokerAddress
from penstock.record.addresses import scheme_of
from penstock.record.schema import beside
from penstock.record.sink import LossWindow

if TYPE_CHECKING:
    from penstock._record import Column

_PORTS = {"mqtt": 1883, "mqtts": 8883}


def is_mqtt(target: str) -> bool:
    """Whether ``target`` is a URL of a broker."""
    return scheme_of(target) in _PORTS


def mqtt_address(url: str) -> BrokerAddress:
    """The broker and the prefix of topics. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=BROKER_SECRETS)
    if any(character in address.name for character in "+#\0"):
        raise ValueError(f"the prefix {address.name!r} has a wildcard: leave + and # out")
    return address


class MqttSink(NetworkSink):
    """Publishes each row as a JSON message of QoS 1, by MQTT 5.

    A sample goes to ``PREFIX/samples/DEVICE``, an event to ``PREFIX/events/DEVICE``. The object has
    all columns, and before them ``run``, ``device`` and ``row``: a number that counts the rows of
    that device in this run. The retained message ``PREFIX/status`` says whether the sink is
    connected.

    Every row is first written to ``spool``, a folder on this machine, and sent from there to the
    broker in order, at least once. A broker may lose messages that it has acknowledged, so after a
    lost connection the sink sends the rows again that were acknowledged in the last ``lag``
    seconds. A reader drops rows whose run, device and row it has already; docs/mqtt.md describes
    what a broker guarantees.

    Args:
        url: ``mqtt://HOST[:1883]/PREFIX``, or ``mqtts://HOST[:8883]/PREFIX`` for TLS. Without a
            path the prefix is ``penstock``.
        password_file: a file with the password; by default MQTT_PASSWORD of the environment. The
            user is MQTT_USERNAME.
        ca_file: a file with the certificates (PEM) of a private certificate authority.
        spool: the folder; by default ``samples.mqtt-spool`` in the current folder.
        spool_bytes: the largest size of the spool. Beyond it, writing raises SinkWriteError.
        lag: seconds for which an acknowledged row stays in the spool. ``close`` waits as long.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits until the broker has taken the last rows.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    ``open`` raises SinkWriteError if the broker refuses the user. If the broker does not answer,
    ``open`` succeeds, and the sink goes on trying.

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
        transport = MqttTransport(
            address,
            BrokerLogin.of(address, password_file, ca_file, timeout),
            RefusedRows(folder.with_name(f"{folder.name}-refused.jsonl")),
            lag=lag,
        )
        file = SpooledFile(
            JsonMessages(address.name),
            transport,
            folder,
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))


# Messages of a spool to an MQTT broker.


class MqttTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of JSON messages of QoS 1.

    While the sink is connected, the retained message ``PREFIX/status`` is ``online``. When the
    connection ends, in whatever way, the broker publishes ``offline`` (a will message). A broker
    without retained messages sends both to the current subscribers only.
    """

    def __init__(
        self, address: BrokerAddress, login: BrokerLogin, refused: RefusedRows, *, lag: float
    ) -> None:
        self.lag = self.grace = lag
        self._address = address
        self._login = login
        self._refused = refused
        self._client = f"penstock-{secrets.token_hex(6)}"
        self._kept = KeptConnection(self._begin)

    def __str__(self) -> str:
        return str(self._address)

    def refusals(self) -> str:
        """Where the refused rows are, and why they were refused."""
        return f"those are in {self._refused.path} ({self._refused.reason})"

    async def check(self) -> None:
        await self._kept.get()

    async def probe(self) -> None:
        broker = await self._login.connect(self._client)
        await broker.close()

    async def send(self, payload: bytes) -> int:
        broker = await self._kept.get()
        messages = await asyncio.to_thread(messages_of, payload)
        # The head of a packet, its topic and its id take at most so much more.
        most = broker.maximum_size - 16
        large: list[bytes] = []
        fitting: list[tuple[bytes, bytes]] = []
        for topic, text in messages:
            if len(topic) + len(text) > most or len(topic) > LONGEST_TOPIC:
                large.append(text)
            else:
                fitting.append((topic, text))
        await broker.publish(fitting, self._login.timeout)
        if large:
            reason = (
                f"larger than the {broker.maximum_size} bytes that the broker takes, or its topic "
                f"longer than {LONGEST_TOPIC}"
            )
            await asyncio.to_thread(self._refused.add, large, reason)
        return len(large)

    async def close(self) -> None:
        broker = self._kept.release()
        if broker is not None:
            await broker.close(self._status("offline"))

    def _status(self, state: str) -> Message:
        text = json.dumps({"status": state, "client": self._client, "time": round(time.time(), 3)})
        return Message(f"{self._address.name}/status", text.encode(), 1, retain=True)

    async def _begin(self) -> Broker:
        will = self._status("offline")
        try:
            broker = await self._login.connect(self._client, will)
        except RetainRefused:
            broker = await self._login.connect(self._client, replace(will, retain=False))
        try:
            await broker.announce(self._status("online"))
        except BaseException:
            await broker.close()
            raise
        return broker


# Rows as JSON messages, one a row, each with its topic.

# Beside the device, which is a column.
_IDENTITY = frozenset({"run", "row"})

# Besides those with a meaning in topics, characters for which a broker may end the connection
# (1.5.4): control characters, and those that Unicode has for nothing.
_ESCAPED = re.compile("[%/+#$\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")


def topic_level(name: str) -> str:
    """A name as one level of a topic: ``/`` is ``%2F``, no name ``-``, and ``-`` ``%2D``."""
    if name in ("", "-"):
        return "%2D" if name else "-"
    return _ESCAPED.sub(lambda match: quote(match[0], safe=""), name)


class JsonMessages:
    """An :class:`~penstock.record._network.protocol.Encoder`.

    A payload is compressed lines: a topic, a tabulator, an object. The object begins with ``run``,
    ``device`` and ``row``, the identity of its row.
    """

    kind = b"MQJ1"

    def __init__(self, prefix: str) -> None:
        self.size = 0
        self._prefix = prefix
        self._numbers = RowNumbers()
        self._pieces: list[bytes] = []
        self._rows = 0

    def add(self, batch: SampleBatch) -> None:
        if not len(batch):
            return
        devices = batch.raw("device")
        assert isinstance(devices, TextColumn)
        names = [name for name in batch.schema.names if name != "device"]
        numbers: Column = ("i", self._numbers.take(devices.codes, devices.table), None, None)
        columns = row_columns(batch, ["device", *names], json.dumps)
        labels = [f'{{"run": "{self._numbers.run}", "device": ', ', "row": ']
        labels += [f", {json.dumps(beside(name, _IDENTITY))}: " for name in names]
        lines = json_rows(
            [columns[0], numbers, *columns[1:]],
            [label.encode() for label in labels],
            0,
            len(batch),
        ).split(b"\n")
        topics = [self._topics(name) for name in devices.table]
        for code, event, line in zip(devices.codes, _are_events(batch), lines, strict=False):
            self._pieces.append(topics[code][event] + line)
            self.size += len(line)
        self._rows += len(batch)

    def take(self) -> list[tuple[int, bytes]]:
        if not self._rows:
            return []
        rows, text = self._rows, b"\n".join(self._pieces)
        self._pieces, self._rows, self.size = [], 0, 0
        return [(rows, zlib.compress(text, 1))]

    def _topics(self, device: str) -> tuple[bytes, bytes]:
        level = topic_level(device)
        return (
            f"{self._prefix}/samples/{level}\t".encode(),
            f"{self._prefix}/events/{level}\t".encode(),
        )


def _are_events(batch: SampleBatch) -> list[bool]:
    events = batch.raw("event") if batch.schema.kind_of("event") is not None else None
    if not isinstance(events, TextColumn):
        return [False] * len(batch)
    return [code >= 0 for code in events.codes]


def messages_of(payload: bytes) -> list[tuple[bytes, bytes]]:
    """The messages of a payload: topics and objects."""
    found = []
    for line in zlib.decompress(payload).split(b"\n"):
        topic, _, text = line.partition(b"\t")
        found.append((topic, text))
    return found
