"""Sinks whose server cannot be reached: its network is cut and mended at random moments.

Nobody is told of the cut. A request may have arrived or not, and its answer is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pyarrow
import pyarrow.parquet
import pytest

from penstock.record import (
    InfluxSink,
    MqttSink,
    NatsSink,
    NetworkSink,
    PostgresSink,
    SinkWriteError,
)
from penstock.record.archives import (
    Archiver,
    ArchiverOptions,
    PostgresArchive,
    Store,
    archive_files,
    store_at,
    stores,
)
from penstock.record.archives.waiting_run import RunOptions
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.influx import influx_server
from tests.python.integration.mosquitto import mosquitto
from tests.python.integration.nats import NatsServer, nats_server
from tests.python.integration.partition import Network, network
from tests.python.integration.postgres import postgres_server
from tests.python.integration.seaweedfs import s3_server
from tests.python.record.batches import flow_batch

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_CUTS = 4


@pytest.fixture
def anyio_backend() -> str:
    """The sinks have a loop of their own."""
    return "asyncio"


async def record_through(cable: Network, make: Callable[..., NetworkSink], seed: int) -> int:
    """Record while the network is cut and mended; how many rows, all of which were taken."""
    chance = random.Random(seed)
    rows = 0

    async def write(opened: NetworkSink) -> None:
        nonlocal rows
        many = chance.randrange(1, 200)
        await opened.write_batch(flow_batch(many, rows))
        rows += many

    opened = make(timeout=0.5, close_timeout=1.0, loss_interval=0.02)
    await opened.open()
    for _ in range(_CUTS):
        for _ in range(chance.randrange(1, 5)):
            await write(opened)
            await anyio.sleep(chance.choice([0, 0.001, 0.02]))
        cable.cut()
        await write(opened)
        await opened.flush()  # durable, though nothing comes through
        assert opened.rows_at_risk == 0
        await until(lambda: opened.trouble is not None)
        cable.mend()
    # A loaded machine may answer too late for this one.
    with contextlib.suppress(SinkWriteError):
        await opened.close()
    async with make(**PATIENT):
        pass
    return rows


async def test_influxdb_has_each_row_once(tmp_path: Path) -> None:
    with network() as cable, influx_server(where=cable) as server:

        def make(**options: Any) -> InfluxSink:
            return InfluxSink(server.url(), spool=tmp_path / "spool", **options)

        rows = await record_through(cable, make, 1)
        found = await anyio.to_thread.run_sync(server.query, "SELECT Mass_Flow FROM samples")
    assert [row["Mass_Flow"] for row in found] == [float(n) for n in range(rows)]


async def test_a_stream_of_nats_has_each_row_once(tmp_path: Path) -> None:
    with network() as cable, nats_server(where=cable) as server:

        def make(**options: Any) -> NatsSink:
            return NatsSink(server.url(), spool=tmp_path / "spool", **options)

        rows = await record_through(cable, make, 2)
        found = await anyio.to_thread.run_sync(server.messages)
    flows = [flow for _, _, table in found for flow in table["Mass_Flow"].to_pylist()]
    assert flows == [float(n) for n in range(rows)]


async def test_a_broker_has_each_row_at_least_once(tmp_path: Path) -> None:
    with (
        network() as cable,
        mosquitto("max_queued_messages 0", where=cable) as broker,
        broker.subscriber("lab/samples/#") as subscriber,
    ):

        def make(**options: Any) -> MqttSink:
            return MqttSink(broker.url("lab"), spool=tmp_path / "spool", **options)

        rows = await record_through(cable, make, 3)
        await anyio.to_thread.run_sync(subscriber.wait_for_rows, range(rows))
    found = {(row["run"], row["row"]): row["Mass_Flow"] for row in subscriber.rows()}
    assert sorted(found.values()) == [float(n) for n in range(rows)]


async def test_a_table_has_each_row_once(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with network() as cable, postgres_server(where=cable) as server:

        def make(**options: Any) -> PostgresSink:
            spool = tmp_path / "spool"
            return PostgresSink(server.uri_by_tcp(), spool=spool, append=True, **options)

        rows = await record_through(cable, make, 4)
        with psycopg.connect(server.dsn()) as connection:
            text = 'SELECT "Mass_Flow" FROM samples ORDER BY t_mono_ns'
            found = connection.execute(text).fetchall()
    assert found == [(float(n),) for n in range(rows)]


async def archive_through(
    cable: Network, server: NatsServer, store: Store | PostgresArchive, spool: Path
) -> int:
    """Archive while the store is cut off; how many rows, all of which are archived."""
    told: list[str] = []
    options = ArchiverOptions(run=RunOptions(part_duration=0.05))
    archiver = Archiver(server.url(), store, options=options, told=told.append)
    archiving = asyncio.create_task(archiver.run())
    rows = 0
    async with NatsSink(server.url(), spool=spool, **PATIENT) as sink:
        for _ in range(2):
            for is_cut in (False, True):
                if is_cut:
                    told.clear()
                    cable.cut()
                await sink.write_batch(flow_batch(100, rows))
                await sink.flush()
                rows += 100
            await until(lambda: any(str(store) in text for text in told))
            cable.mend()
            await until(lambda: archiver.counts.rows == rows)  # noqa: B023
    archiver.stop()
    await archiving
    return rows


async def test_an_archive_in_a_bucket_has_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("obstore")
    monkeypatch.setattr(stores, "_CONNECT", timedelta(seconds=1))
    monkeypatch.setattr(stores, "_TIMEOUT", timedelta(seconds=1))
    target = "s3://lab/archive"
    with network() as cable, nats_server() as server, s3_server(where=cable) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        store = store_at(target)
        store.put("first", b"")  # which makes the bucket
        rows = await archive_through(cable, server, store, tmp_path / "spool")
        found: list[float] = []
        for name in await anyio.to_thread.run_sync(archive_files, target):
            data = store.read(name.removeprefix(f"{target}/"))
            table = pyarrow.parquet.read_table(pyarrow.BufferReader(data))
            found += table["Mass_Flow"].to_pylist()
    assert sorted(found) == [float(n) for n in range(rows)]


async def test_an_archive_in_tables_has_each_row_once(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    with network() as cable, nats_server() as server, postgres_server(where=cable) as database:
        archive = PostgresArchive(database.uri_by_tcp(), connect_timeout=2.0)
        rows = await archive_through(cable, server, archive, tmp_path / "spool")
        archive.close()
        with psycopg.connect(database.dsn()) as connection:
            text = 'SELECT archive_row, "Mass_Flow" FROM samples ORDER BY 1'
            found = connection.execute(text).fetchall()
    assert found == [(n, float(n)) for n in range(rows)]
