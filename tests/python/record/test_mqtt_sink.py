"""The MQTT sink against mosquitto, which is killed and started again."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme

from penstock.record import MqttSink, SinkWriteError
from penstock.record._mqtt.packets import (
    Malformed,
    Packet,
    PacketParser,
    acknowledged,
    publish_packet,
    published,
    welcomed,
)
from tests.python.conftest import BACKENDS
from tests.python.integration.daemons import PATIENT
from tests.python.integration.mosquitto import Mosquitto, mosquitto
from tests.python.record.batches import flow_batch, typed_batch

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module", params=BACKENDS[-2:])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Two loops: the sinks have a loop of their own."""
    return request.param


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with mosquitto() as running:
        yield running


@pytest.fixture
def sink(broker: Mosquitto, tmp_path: Path) -> Any:
    def make(url: str | None = None, **options: Any) -> MqttSink:
        options = {"spool": tmp_path / "spool", "lag": 0.1, **PATIENT, **options}
        return MqttSink(url or broker.url("lab"), **options)

    return make


async def test_each_row_is_a_message(broker: Mosquitto, sink: Any, tmp_path: Path) -> None:
    # The broker keeps the state of each prefix.
    prefix = secrets.token_hex(4)
    with broker.subscriber(f"{prefix}/#") as subscriber:
        async with sink(broker.url(prefix)) as opened:
            await opened.write_batch(typed_batch())
            await opened.write_batch(flow_batch(2))
        rows = await anyio.to_thread.run_sync(subscriber.wait_for, 5, f"{prefix}/samples")
        states = await anyio.to_thread.run_sync(subscriber.wait_for, 2, f"{prefix}/status")
    assert not (tmp_path / "spool").exists()
    assert [state["status"] for state in states] == ["online", "offline"]
    assert [(row["device"], row["row"]) for row in rows] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("fuel", 0),
        ("fuel", 1),
    ]
    assert len({row["run"] for row in rows}) == 1
    assert rows[0]["Count"] == 2**53 + 1
    assert rows[0]["Calibrated"] == "2026-11-21T12:00:00.250000000Z"
    assert rows[3]["t_utc"] == "2026-11-21T12:00:00.004123000Z"
    assert (rows[3]["Gas"], rows[3]["error"]) == ("N2", None)


async def test_the_state_is_kept_for_later_subscribers(broker: Mosquitto, sink: Any) -> None:
    async with sink():
        with broker.subscriber("lab/status") as subscriber:
            [state] = await anyio.to_thread.run_sync(subscriber.wait_for, 1)
    assert state["status"] == "online"
    assert subscriber.messages[0][0]  # retained


async def test_a_check_beside_a_running_recorder_is_not_seen(broker: Mosquitto, sink: Any) -> None:
    url = broker.url(prefix := secrets.token_hex(4))
    with broker.subscriber(f"{prefix}/status") as subscriber:
        async with sink(url):
            await anyio.to_thread.run_sync(subscriber.wait_for, 1)
            await sink(url).check()
        states = await anyio.to_thread.run_sync(subscriber.wait_for, 2)
    assert [state["status"] for state in states] == ["online", "offline"]
    assert len({state["client"] for state in states}) == 1


async def test_rows_wait_while_the_broker_is_away(broker: Mosquitto, sink: Any) -> None:
    broker.kill()
    opened = sink()
    await opened.open()
    assert opened.trouble is not None
    await opened.write_batch(flow_batch(10))
    await opened.flush()
    assert (opened.rows_at_risk, opened.rows_waiting) == (0, 10)
    with pytest.raises(SinkWriteError, match="they wait in"):
        await opened.close()
    await anyio.to_thread.run_sync(broker.start)
    with broker.subscriber("lab/samples/#") as subscriber:
        async with sink() as again:
            await again.write_batch(flow_batch(10, 10))
        rows = await anyio.to_thread.run_sync(subscriber.wait_for, 20)
    assert [row["Mass_Flow"] for row in rows] == [float(n) for n in range(20)]
    assert [row["row"] for row in rows] == [*range(10), *range(10)]
    assert len({row["run"] for row in rows}) == 2


async def test_a_broker_that_is_killed_at_random_loses_no_row(tmp_path: Path) -> None:
    """The subscriber has each row at least once, and knows those that it has twice."""
    chance = random.Random(5)
    sent = 0
    keeping = (
        "persistence true",
        f"persistence_location {tmp_path}/",
        "autosave_on_changes true",
        "autosave_interval 1",
        "max_queued_messages 0",
    )
    with mosquitto(*keeping) as broker, broker.subscriber("#", lasting=True) as subscriber:
        # Much longer than the broker takes to save a message, on any machine.
        options: dict[str, Any] = {"lag": 5.0, "loss_interval": 0.02, **PATIENT}
        async with MqttSink(broker.url("lab"), spool=tmp_path / "spool", **options) as opened:
            for _ in range(3):
                for _ in range(4):
                    many = chance.randrange(1, 30)
                    await opened.write_batch(flow_batch(many, sent))
                    sent += many
                    await anyio.sleep(chance.choice([0, 0.01, 0.03]))
                await anyio.to_thread.run_sync(broker.kill)
                await anyio.to_thread.run_sync(broker.start)
        await anyio.to_thread.run_sync(subscriber.wait_for_rows, range(sent))
    assert not opened.rows_waiting


async def test_the_connection_is_encrypted(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    with mosquitto(f"certfile {tmp_path}/cert", f"keyfile {tmp_path}/key") as broker:
        encrypted = broker.url("lab").replace("mqtt://", "mqtts://")
        with pytest.raises(SinkWriteError, match="certificate is not trusted"):
            await MqttSink(encrypted, spool=tmp_path / "spool").open()
        made = MqttSink(
            encrypted, spool=tmp_path / "spool", ca_file=tmp_path / "ca", lag=0, **PATIENT
        )
        async with made as opened:
            await opened.write_batch(flow_batch(3))
    assert opened.rows_waiting == 0


async def test_who_may_not_connect_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mosquitto("allow_anonymous false") as broker:
        monkeypatch.setenv("MQTT_USERNAME", "me")
        monkeypatch.setenv("MQTT_PASSWORD", "secret")
        with pytest.raises(SinkWriteError, match=r"not authorized|bad user name") as refused:
            await MqttSink(broker.url(), spool=tmp_path / "spool").open()
    assert "secret" not in str(refused.value)


async def test_a_broker_that_keeps_nothing_gets_the_rows(tmp_path: Path) -> None:
    with (
        mosquitto("retain_available false") as broker,
        broker.subscriber("lab/#") as subscriber,
    ):
        async with MqttSink(broker.url("lab"), spool=tmp_path / "spool", lag=0, **PATIENT) as sink:
            await sink.write_batch(flow_batch(3))
        rows = await anyio.to_thread.run_sync(subscriber.wait_for, 3, "lab/samples")
        states = await anyio.to_thread.run_sync(subscriber.wait_for, 2, "lab/status")
    assert [row["Mass_Flow"] for row in rows] == [0.0, 1.0, 2.0]
    assert [state["status"] for state in states] == ["online", "offline"]


async def test_a_row_that_the_broker_cannot_take_is_kept(tmp_path: Path) -> None:
    with mosquitto("max_packet_size 200") as broker:
        opened = MqttSink(broker.url(), spool=tmp_path / "spool", lag=0, **PATIENT)
        await opened.open()
        await opened.write_batch(flow_batch(1))
        with pytest.raises(SinkWriteError, match=r"refused 1 rows.*larger than the 200 bytes"):
            await opened.close()
    assert '"Mass_Flow": 0.0' in (tmp_path / "spool-refused.jsonl").read_text()


def test_packets_come_in_pieces_of_any_size() -> None:
    sizes = (0, 1, 127, 128, 16_383, 70_000)
    sent = [(b"a/b", b"x" * size, number) for number, size in enumerate(sizes)]
    data = b"".join(publish_packet(*each) for each in sent)
    for piece in (1, 7, 1000, len(data)):
        parser = PacketParser()
        found = [
            published(packet)
            for at in range(0, len(data), piece)
            for packet in parser.feed(data[at : at + piece])
        ]
        assert [(m.topic.encode(), m.payload, number) for m, number in found] == sent


def test_what_is_no_packet_is_refused() -> None:
    with pytest.raises(Malformed, match="more than four bytes"):
        list(PacketParser().feed(b"\x30\xff\xff\xff\xff\x01"))
    with pytest.raises(Malformed, match="has 2097152 bytes"):
        list(PacketParser().feed(b"\x30\x80\x80\x80\x01"))
    with pytest.raises(Malformed, match="not a CONNACK"):
        welcomed(Packet(3, 0, b"\0\0\0"))
    with pytest.raises(Malformed, match="no property 127"):
        welcomed(Packet(2, 0, b"\0\0\x01\x7f"))
    with pytest.raises(Malformed, match="longer than"):
        welcomed(Packet(2, 0, b"\0\0\x03\x21\0"))
    with pytest.raises(Malformed, match="no packet id"):
        acknowledged(Packet(4, 0, b"\0"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mqtt://me:secret@host/x", r"must not contain a user or a password.*MQTT_USERNAME"),
        ("mqtt://host/x?password=secret", "there are none"),
        ("mqtt:///x", "not the address of a broker"),
        ("mqtt://host/a/%23", "has a wildcard"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secret(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        MqttSink(url)
    assert "secret" not in str(refused.value).replace("secret_", "")
