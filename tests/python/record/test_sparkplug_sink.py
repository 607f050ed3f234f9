"""The Sparkplug sink against mosquitto, and a host that checks each message by its rules."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    ColumnBuffer,
    Field,
    RecordSchema,
    SampleBatch,
    SinkWriteError,
    SparkplugSink,
)
from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.packets import Message
from penstock.record._mqtt.sparkplug_payload import DataType, Metric, encode_payload, fields_of
from tests.python.conftest import BACKENDS
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.mosquitto import Mosquitto, mosquitto

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module", params=BACKENDS[2:3])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """One loop: the host is of asyncio, and the sink has a loop of its own."""
    return request.param


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with mosquitto() as running:
        yield running


class Host:
    """A primary host: reads births and data, and checks them."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.rows: list[tuple[str, dict[str, Any], bool]] = []
        self.deaths: list[int] = []
        self.births: list[int] = []
        self._seq: int | None = None
        self._names: dict[int, tuple[str, str, int]] = {}
        self.units: dict[str, str] = {}
        self.failure: Exception | None = None

    def take(self, message: Message) -> None:
        try:
            self._take(message)
        except Exception as error:
            self.failure = self.failure or error

    def _take(self, message: Message) -> None:
        assert not message.retain
        namespace, group, kind, node, *device = message.topic.split("/")
        assert (namespace, group, node) == ("spBv1.0", "plant", "lab")
        if kind == "NCMD":
            return  # its own
        found: dict[int, list[Any]] = {}
        for tag, value in fields_of(message.payload):
            found.setdefault(tag, []).append(value)
        metrics = [dict(fields_of(each)) for each in found.get(2, ())]
        self.kinds.append(kind)
        if kind == "NDEATH":
            assert 3 not in found
            assert [each[1] for each in metrics] == [b"bdSeq"]
            self.deaths.append(metrics[0][11])
            return
        [seq] = found[3]
        assert len(found[1]) == 1
        if kind == "NBIRTH":
            assert seq == 0
            assert {each[1] for each in metrics} == {b"bdSeq", b"Node Control/Rebirth"}
            assert all(2 not in each for each in metrics)
            self.births.append(next(each[11] for each in metrics if each[1] == b"bdSeq"))
            self._names.clear()
        else:
            assert seq == (self._seq + 1) % 256 if self._seq is not None else False
        self._seq = seq
        if kind == "DBIRTH":
            for each in metrics:
                assert {1, 2, 3, 4} <= each.keys()
                owner = self._names.get(each[2])
                assert owner is None or owner[:2] == (device[0], each[1].decode())
                self._names[each[2]] = device[0], each[1].decode(), each[4]
                if 9 in each:
                    keys, values = zip(*fields_of(each[9]), strict=True)
                    assert keys == (1, 2)
                    assert values[0] == b"engUnit"
                    self.units[each[1].decode()] = dict(fields_of(values[1]))[8].decode()
        if kind == "DDATA":
            values: dict[str, Any] = {}
            for each in metrics:
                assert 1 not in each
                assert 3 in each
                owner_device, name, datatype = self._names[each[2]]
                assert owner_device == device[0]
                values[name] = self._value(each, datatype)
            self.rows.append((device[0], values, any(each.get(5) for each in metrics)))

    @staticmethod
    def _value(metric: dict[int, Any], datatype: int) -> Any:
        if metric.get(7):
            assert not {10, 11, 12, 13, 14, 15} & metric.keys()
            return None
        if datatype == DataType.DOUBLE:
            return struct.unpack("<d", metric[13])[0]
        if datatype == DataType.STRING:
            return metric[15].decode()
        if datatype == DataType.BOOLEAN:
            return bool(metric[14])
        value: int = metric[11]
        return value - (1 << 64) if value >> 63 else value


async def host_of(broker: Mosquitto, host: Host) -> Broker:
    return await broker.reader("spBv1.0/plant/#", host.take, client="host")


SCHEMA = RecordSchema((Field("Flow", "float", "SCCM"), Field("Count", "int"), Field("Gas", "text")))


def batch(*rows: tuple[str, dict[str, Any]], age_s: float = 0.0) -> SampleBatch:
    buffer = ColumnBuffer(SCHEMA)
    for device, values in rows:
        now = time.time_ns() - int(age_s * 1e9)
        buffer.append_row(device, "A", now, now, 1, 2, values, "", None)
    return SampleBatch.from_buffer(buffer)


def url(broker: Mosquitto) -> str:
    return f"sparkplug://127.0.0.1:{broker.port}/plant/lab"


async def test_a_host_understands_all(broker: Mosquitto, tmp_path: Path) -> None:
    host = Host()
    connection = await host_of(broker, host)
    async with SparkplugSink(url(broker), spool=tmp_path / "spool", **PATIENT) as sink:
        for number in range(300):  # more than seq counts
            values = {"Flow": number / 4, "Count": -number, "Gas": "N2"}
            await sink.write_batch(batch(("fuel", values), ("a/b", {"Flow": 1.0})))
        await sink.write_batch(batch(("fuel", {"New": 5.0})))
        await sink.write_batch(batch(("fuel", {"Flow": 7.0}), age_s=60))
        await sink.flush()
        await until(lambda: len(host.rows) == 602 or host.failure)
        rebirth = Metric("Node Control/Rebirth", None, None, DataType.BOOLEAN, True)
        command = Message("spBv1.0/plant/NCMD/lab", encode_payload(1, [rebirth], None), 0)
        await connection.announce(command)
        await until(lambda: _asked(sink))
        await sink.write_batch(batch(("fuel", {"Flow": 8.0})))
    await until(lambda: len(host.deaths) == 1 or host.failure)
    await connection.close()
    if host.failure is not None:
        raise host.failure
    assert host.births == [0, 0]  # a rebirth repeats its number
    assert host.deaths == [0]
    fuel = [values for device, values, _ in host.rows if device == "fuel"]
    assert [row["Flow"] for row in fuel[:300]] == [number / 4 for number in range(300)]
    assert [row["Count"] for row in fuel[:300]] == [-number for number in range(300)]
    assert [row["row"] for row in fuel] == list(range(303))
    assert (fuel[300]["New"], fuel[300]["Flow"]) == (5.0, None)
    assert [historical for _, _, historical in host.rows].count(True) == 1
    assert "a%2Fb" in {device for device, _, _ in host.rows}
    assert host.units["Flow"] == "SCCM"
    assert (tmp_path / "spool-bdseq").read_text() == "0\n"


async def test_a_check_ends_no_session_of_a_running_node(broker: Mosquitto, tmp_path: Path) -> None:
    address = broker.url().replace("mqtt://", "sparkplug://") + "/checked/node"
    topics: list[str] = []

    def take(message: Message) -> None:
        topics.append(message.topic)

    reader = await broker.reader("spBv1.0/checked/#", take)
    await reader.publish([(b"spBv1.0/checked/BEGIN/node", b"")], 60)
    await until(lambda: topics)
    async with SparkplugSink(address, spool=tmp_path / "a", **PATIENT) as running:
        await SparkplugSink(address, spool=tmp_path / "b", **PATIENT).check()
        assert running.trouble is None
    await until(lambda: len(topics) >= 3)
    await reader.close()
    assert [topic.split("/")[2] for topic in topics] == ["BEGIN", "NBIRTH", "NDEATH"]


def _asked(sink: SparkplugSink) -> bool:
    return bool(sink._spooled.transport._rebirth)  # type: ignore[attr-defined]


async def test_two_recorders_that_are_one_node_are_told(broker: Mosquitto, tmp_path: Path) -> None:
    """Each would end the session of the other forever, and bear and bury the node each time."""
    address = broker.url().replace("mqtt://", "sparkplug://") + "/twice/node"
    sinks = [SparkplugSink(address, spool=tmp_path / name, **PATIENT) for name in "ab"]

    def is_told() -> bool:
        return any("give one of the two another name" in (each.trouble or "") for each in sinks)

    for each in sinks:
        await each.open()
    with anyio.fail_after(60):
        while not is_told():
            for each in sinks:
                await each.write_batch(batch(("fuel", {"Flow": 1.0})))
                await each.flush()
            await anyio.sleep(0.01)
    for each in sinks:
        with contextlib.suppress(SinkWriteError):  # it may be the one that waits
            await each.close()


async def test_a_lost_connection_is_a_new_birth(tmp_path: Path) -> None:
    with mosquitto() as broker:
        host = Host()
        async with SparkplugSink(url(broker), spool=tmp_path / "spool", **PATIENT) as sink:
            await sink.write_batch(batch(("fuel", {"Flow": 1.0})))
            await sink.flush()
            await until(lambda: not sink.rows_waiting)
            await anyio.to_thread.run_sync(broker.kill)
            await anyio.to_thread.run_sync(broker.start)
            connection = await host_of(broker, host)
            await sink.write_batch(batch(("fuel", {"Flow": 2.0})))
            await sink.flush()
            await until(lambda: len(host.rows) >= 2 or host.failure)
        await connection.close()
        if host.failure is not None:
            raise host.failure
        assert host.births == [1]
        # What the broker may have lost comes again, and is known by its row.
        assert [(row["row"], row["Flow"]) for _, row, _ in host.rows] == [(0, 1.0), (1, 2.0)]


@pytest.mark.parametrize("address", ["sparkplug://h/only", "sparkplug://h", "sparkplug://h/a/b/c"])
def test_an_address_without_a_node_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="does not name an edge node"):
        SparkplugSink(address)
