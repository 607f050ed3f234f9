"""Recording as an edge node of Sparkplug B."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from penstock._durable_files import put_file, write_fully
from penstock._renamed import renamed
from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.broker_login import BROKER_SECRETS, BrokerLogin
from penstock.record._mqtt.mqtt_sink import topic_level
from penstock.record._mqtt.packets import Message
from penstock.record._mqtt.sparkplug_payload import (
    DataType,
    Metric,
    SparkplugRow,
    SparkplugRows,
    encode_payload,
    fields_of,
    rows_of,
)
from penstock.record._network.kept_connection import KeptConnection
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.server import BrokerAddress
from penstock.record.addresses import scheme_of
from penstock.record.sink import LossWindow

_PORTS = {"sparkplug": 1883, "sparkplugs": 8883}


def is_sparkplug(target: str) -> bool:
    """Whether ``target`` is a URL of an edge node."""
    return scheme_of(target) in _PORTS


def sparkplug_address(url: str) -> tuple[BrokerAddress, str, str]:
    """The broker, the group and the edge node. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="", secrets=BROKER_SECRETS)
    group, _, node = address.name.partition("/")
    if not group or not node or any(each in address.name for each in "+#\0") or "/" in node:
        raise ValueError(
            f"{address} does not name an edge node: write {address.scheme}://HOST/GROUP/NODE, no "
            "+ or #"
        )
    return address, group, node


class SparkplugSink(NetworkSink):
    """Publishes rows as the data of an edge node of Sparkplug B 3.0, by MQTT 5.

    Each device of the recording is a device of the node. Each field is a metric with its unit as
    ``engUnit``. The metrics ``run`` and ``row`` identify the row; ``t_utc_ns`` has the nanoseconds,
    because Sparkplug's timestamps are milliseconds. Births and data have QoS 0, as the
    specification demands, so the broker does not acknowledge them.

    Every row is first written to ``spool``, a folder on this machine, and sent from there to the
    broker. Rows that were queued for more than 5 s, and those of the last ``lag`` seconds before a
    connection was lost, are sent as historical values.

    Args:
        url: ``sparkplug://HOST[:1883]/GROUP/NODE``, ``sparkplugs://`` for TLS.
        password_file: a file with the password; by default MQTT_PASSWORD of the environment. The
            user is MQTT_USERNAME.
        ca_file: a file with the certificates (PEM) of a private certificate authority.
        spool: the folder; by default ``samples.sparkplug-spool`` in the current folder. A file
            beside it has the number of the last connection.
        spool_bytes: the largest size of the spool. Beyond it, writing raises SinkWriteError.
        lag: seconds for which a row that was sent stays in the spool.
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
        lag: float = 5.0,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        address, group, node = sparkplug_address(url)
        folder = Path("samples.sparkplug-spool" if spool is None else spool)
        transport = SparkplugTransport(
            str(address),
            group,
            node,
            BrokerLogin.of(address, password_file, ca_file, timeout),
            folder.with_name(f"{folder.name}-bdseq"),
            lag=lag,
        )
        file = SpooledFile(
            SparkplugRows(), transport, folder, most_bytes=spool_bytes, patience=close_timeout
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))


# An edge node of Sparkplug B 3.0: births, data, deaths, and rebirths on request.
#
# The order of a connection: the subscription to commands, NBIRTH with seq 0, a DBIRTH for each
# device, data. A device or a metric that is new is born before its first value, with all metrics of
# its device. Data have aliases only. ``seq`` counts births and data of all devices, 0 to 255, and
# is taken when a message is made: after one that could not leave, all are born again, with seq 0.
# ``bdSeq`` counts connections, in a file, so that a host can tell the death of an old one.
#
# Data are of QoS 0, so says the specification: nobody confirms them. What was handed over in the
# last ``lag`` seconds before a connection was lost is sent again, as historical values.

_REBIRTH = "Node Control/Rebirth"
# A value that waited longer is not the present one.
_PRESENT_NS = 5_000_000_000
_MESSAGES_A_TURN = 256
# Not every broker tells of another client with the same name, which ends each session soon.
_BRIEF_S = 10.0
_MOST_BRIEF = 3


@dataclass(slots=True)
class _Known:
    """A metric of a device: what its birth says."""

    alias: int
    datatype: int
    unit: str | None
    value: Any = None
    t_ms: int = 0


@dataclass(slots=True)
class _Device:
    metrics: dict[str, _Known] = field(default_factory=dict)
    is_born: bool = False


class SparkplugTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of rows."""

    def __init__(
        self, shown: str, group: str, node: str, login: BrokerLogin, births: Path, *, lag: float
    ) -> None:
        self.lag = lag
        self.grace = 0.0
        self._shown = shown
        self._group = group
        self._node = node
        self._login = login
        self._births = births
        self._kept = KeptConnection(self._begin)
        self._began = 0.0
        self._brief = 0  # connections in a row that did not last
        self._devices: dict[str, _Device] = {}
        self._aliases = 0
        self._seq = 0
        self._bd_seq: int | None = None
        self._rebirth = False

    def __str__(self) -> str:
        return self._shown

    async def check(self) -> None:
        await self._connected()

    async def probe(self) -> None:
        # Under another client's name: with its own, the broker would end a running node's session.
        broker = await self._login.connect(f"{self._group}-{self._node}-{secrets.token_hex(6)}")
        await broker.close()

    async def send(self, payload: bytes) -> int:
        broker = await self._connected()
        rows = await asyncio.to_thread(list, rows_of(payload))
        try:
            for start in range(0, len(rows), _MESSAGES_A_TURN):
                messages: list[tuple[bytes, bytes]] = []
                for row in rows[start : start + _MESSAGES_A_TURN]:
                    if self._rebirth:
                        messages += self._born_again()
                    messages += self._messages(row)
                await broker.hand_over(messages, self._login.timeout)
            await broker.wait_until_read(self._login.timeout)
        except BaseException:
            # Births and numbers of messages that did not leave: a host would miss them.
            self._rebirth = True
            raise
        return 0

    async def close(self) -> None:
        broker = self._kept.release()
        if broker is not None:
            await broker.close(reason=0x04)  # the broker publishes the will, which is NDEATH

    async def _connected(self) -> Broker:
        try:
            return await self._kept.get()
        except Away as error:
            if error.lost_at is not None:
                is_brief = error.lost_at - self._began < _BRIEF_S
                self._brief = self._brief + 1 if is_brief else 0
            raise

    async def _begin(self) -> Broker:
        client = f"{self._group}-{self._node}"
        if self._brief >= _MOST_BRIEF:
            self._brief = 0
            raise Misconfigured(
                f"{_MOST_BRIEF} connections in a row have ended within {_BRIEF_S:g} s: if another "
                f"client has the name {client} too, give one of the two another name"
            )
        try:
            self._bd_seq = await asyncio.to_thread(self._next_bd_seq)
        except OSError as error:
            raise Misconfigured(
                f"{self._births}, which has the number of the last connection, cannot be read or "
                f"written: {error.strerror or error}; check its folder, and who may write there"
            ) from error
        number = Metric("bdSeq", None, None, DataType.INT64, self._bd_seq)
        death = encode_payload(None, [number], None)
        broker = await self._login.connect(
            client,
            Message(self._topic("NDEATH").decode(), death, 1),
            self._command,
        )
        # From here on: a session that ends while its births are on their way was a brief one.
        self._began = time.monotonic()
        try:
            await broker.subscribe(self._topic("NCMD").decode())
            await broker.hand_over(self._born_again(), self._login.timeout)
            await broker.wait_until_read(self._login.timeout)
        except BaseException:
            await broker.close(reason=0x04)
            raise
        return broker

    def _next_bd_seq(self) -> int:
        """Count a connection: 0 to 255, and on from the last one of an earlier process."""
        last = self._bd_seq
        if last is None:
            with contextlib.suppress(FileNotFoundError, ValueError):
                last = int(self._births.read_text())
        number = 0 if last is None else (last + 1) % 256
        # Whole, or as it was: a host takes a number that it has for an old session.
        text = f"{number}\n".encode()
        try:
            os.close(put_file(self._births, partial(write_fully, data=text), sync=False))
        except OSError as error:
            # The spool may have filled the disk, and only what is sent makes room again.
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        return number

    def _command(self, message: Message) -> None:
        """A command of a host: a rebirth is made before the next data."""
        try:
            for tag, metric in fields_of(message.payload):
                if tag == 2 and isinstance(metric, bytes):
                    found = dict(fields_of(metric))
                    if found.get(1) == _REBIRTH.encode() and found.get(14):
                        self._rebirth = True
        except ValueError:
            return  # not a payload of Sparkplug's

    def _topic(self, kind: str, device: str | None = None) -> bytes:
        below = "" if device is None else f"/{topic_id(device)}"
        return f"spBv1.0/{self._group}/{kind}/{self._node}{below}".encode()

    def _next_seq(self) -> int:
        seq, self._seq = self._seq, (self._seq + 1) % 256
        return seq

    def _born_again(self) -> list[tuple[bytes, bytes]]:
        """NBIRTH and the DBIRTHs of all devices."""
        self._rebirth = False
        self._seq = 0
        now = time.time_ns() // 1_000_000
        metrics = [
            Metric("bdSeq", None, now, DataType.INT64, self._bd_seq),
            Metric(_REBIRTH, None, now, DataType.BOOLEAN, False),
        ]
        messages = [(self._topic("NBIRTH"), encode_payload(now, metrics, self._next_seq()))]
        for name, device in self._devices.items():
            messages.append(self._birth(name, device))
        return messages

    def _birth(self, name: str, device: _Device) -> tuple[bytes, bytes]:
        now = time.time_ns() // 1_000_000
        metrics = [
            Metric(
                metric,
                known.alias,
                known.t_ms or now,
                known.datatype,
                known.value,
                properties={} if known.unit is None else {"engUnit": known.unit},
            )
            for metric, known in device.metrics.items()
        ]
        device.is_born = True
        return self._topic("DBIRTH", name), encode_payload(now, metrics, self._next_seq())

    def _messages(self, row: SparkplugRow) -> Iterable[tuple[bytes, bytes]]:
        """The data of a row, after the birth of what is new in it."""
        device = self._devices.setdefault(row.device, _Device())
        t_ms = row.t_utc_ns // 1_000_000
        is_old = time.time_ns() - row.t_utc_ns > _PRESENT_NS
        messages = []
        fresh = not device.is_born
        for name, (datatype, unit, value) in row.metrics.items():
            known = device.metrics.get(name)
            if known is None:
                self._aliases += 1
                known = device.metrics[name] = _Known(self._aliases, datatype, unit)
                fresh = True
            if (datatype, unit) != (known.datatype, known.unit):
                known.datatype, known.unit, fresh = datatype, unit, True
            if not is_old:
                known.value, known.t_ms = value, t_ms
        if fresh:
            messages.append(self._birth(row.device, device))
        metrics = [
            Metric(
                None,
                device.metrics[name].alias,
                t_ms,
                datatype,
                value,
                is_historical=is_old,
                with_type=False,
            )
            for name, (datatype, _, value) in row.metrics.items()
        ]
        payload = encode_payload(time.time_ns() // 1_000_000, metrics, self._next_seq())
        messages.append((self._topic("DDATA", row.device), payload))
        return messages


def topic_id(name: str) -> str:
    """A device's id in a topic, where ``/`` is ``%2F``; without a name, ``recording``."""
    return topic_level(name) if name else "recording"
