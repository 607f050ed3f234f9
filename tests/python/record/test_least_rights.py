"""The rights that the page on security gives are enough, with real servers."""

from __future__ import annotations

import subprocess
import urllib.error
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import penstock.record
from penstock.record import InfluxSink, MqttSink, NatsSink, PostgresSink, SparkplugSink
from penstock.record.archives import Archiver, ArchiverOptions, store_at
from tests.python.documentation.page_steps import DOCS, blocks
from tests.python.integration.daemons import PATIENT, program_or_skip, until
from tests.python.integration.influx import influx_server
from tests.python.integration.mosquitto import mosquitto
from tests.python.integration.nats import nats_server
from tests.python.integration.postgres import postgres_server
from tests.python.record.archived_messages import rows_of
from tests.python.record.batches import flow_batch

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    """The sinks have a loop of their own."""
    return "asyncio"


def rights(server: str) -> str:
    """What the page tells a server."""
    [text] = [
        each.text for each in blocks(DOCS / "security.md") if each.mark == f"rights: {server}"
    ]
    return text


async def test_a_recorder_only_writes_into_influxdb_and_grafana_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with influx_server(auth=True) as server:
        server.query("CREATE USER admin WITH PASSWORD 'admin' WITH ALL PRIVILEGES")
        server.login = ("admin", "admin")
        server.query("CREATE DATABASE lab")
        for line in rights("influx").splitlines():
            server.query(line)
        monkeypatch.setenv("INFLUX_USERNAME", "recorder")
        monkeypatch.setenv("INFLUX_PASSWORD", "long and random")
        async with InfluxSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            await sink.write_batch(flow_batch(2))
        server.login = ("grafana", "another one")
        assert len(server.query("SELECT Mass_Flow FROM samples")) == 2
        with pytest.raises(urllib.error.HTTPError, match="403"):
            server.write("samples v=1 1")


@pytest.mark.parametrize(
    ("user", "kind", "prefix", "topics"),
    [
        ("recorder", MqttSink, "lab", ["lab/samples/fuel"] * 2),
        ("node", SparkplugSink, "plant/lab", ["spBv1.0/plant/DDATA/lab/fuel"] * 2),
    ],
)
async def test_a_recorder_only_publishes_below_its_prefix(
    user: str,
    kind: type[MqttSink | SparkplugSink],
    prefix: str,
    topics: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = program_or_skip("mosquitto_passwd", "mosquitto")
    passwords, listed = tmp_path / "passwords", tmp_path / "acl"
    subprocess.run([program, "-b", "-c", str(passwords), user, "secret"], check=True)
    # What is before the first user is for a reader without a name.
    listed.write_text(f"topic read #\n\n{rights('mosquitto')}")
    monkeypatch.setenv("MQTT_USERNAME", user)
    monkeypatch.setenv("MQTT_PASSWORD", "secret")
    came: list[str] = []
    with mosquitto(f"password_file {passwords}", f"acl_file {listed}") as broker:
        reader = await broker.reader("#", lambda message: came.append(message.topic))
        url = broker.url(prefix)
        if kind is SparkplugSink:
            url = url.replace("mqtt://", "sparkplug://")
        async with kind(url, spool=tmp_path / "spool", lag=0.1, **PATIENT) as sink:
            await sink.write_batch(flow_batch(2))
        await until(lambda: [topic for topic in came if topic in topics] == topics)
        await reader.close()


async def test_recorder_and_archiver_share_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORDER_PASSWORD", "one")
    monkeypatch.setenv("ARCHIVER_PASSWORD", "two")
    with nats_server(rights("nats")) as server:
        monkeypatch.setenv("NATS_USER", "recorder")
        monkeypatch.setenv("NATS_PASSWORD", "one")
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            for first in (0, 2):
                await sink.write_batch(flow_batch(2, first))
                await sink.flush()
        monkeypatch.setenv("NATS_USER", "archiver")
        monkeypatch.setenv("NATS_PASSWORD", "two")
        target = tmp_path / "archive"
        options = ArchiverOptions(purge=True)
        await Archiver(server.url(), store_at(str(target)), options=options).run(once=True)
    assert [row[2] for row in rows_of(target)] == [0, 1, 2, 3]


async def test_a_recorder_makes_tables_that_a_reader_reads(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as server:
        with psycopg.connect(server.dsn()) as connection:
            connection.execute(rights("postgres"))
        uri = server.uri().replace("penstock@", "recorder@")
        async with PostgresSink(uri, spool=tmp_path / "spool", **PATIENT) as sink:
            await sink.write_batch(flow_batch(2))
        recording = penstock.record.open(uri.replace("recorder@", "reader@"))
        assert await anyio.to_thread.run_sync(lambda: recording.to_arrow().num_rows) == 2
