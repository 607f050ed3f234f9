"""The PostgreSQL sink against a real server, which is stopped and started."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

import penstock.record
from penstock.record import (
    Field,
    PostgresSink,
    RecordError,
    RecordSchema,
    SinkExistsError,
    SinkWriteError,
)
from penstock.record.postgres_server import PostgresServer as Connection
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.postgres import PostgresServer, postgres_server
from tests.python.record.batches import MASS_FLOW, flow_batch, typed_batch, write_at_random

psycopg = pytest.importorskip("psycopg")

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as running:
        yield running


@pytest.fixture
def sink(server: PostgresServer, tmp_path: Path) -> Iterator[Any]:
    """A maker of sinks for a database that is empty."""
    query(server, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def make(**options: Any) -> PostgresSink:
        options = {"spool": tmp_path / "spool", **PATIENT, **options}
        return PostgresSink(server.dsn(), **options)

    yield make
    assert not (tmp_path / "spool").exists()


def query(server: PostgresServer, text: str) -> list[Any]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def flows(server: PostgresServer, table: str = "samples") -> list[float]:
    return [row[0] for row in query(server, f'SELECT "Mass_Flow" FROM {table} ORDER BY t_mono_ns')]


async def test_rows_and_metadata_are_in_tables(server: PostgresServer, sink: Any) -> None:
    async with sink() as opened:
        await opened.open(MASS_FLOW, {"run_id": "r1"})
        await opened.write_batch(flow_batch(3))
        opened.add_metadata({"summary": {"errors": 0}})
    assert flows(server) == [0.0, 1.0, 2.0]
    [row] = query(server, "SELECT device, unit_id, t_utc, t_mono_ns, error FROM samples LIMIT 1")
    assert row[:2] == ("fuel", "A")
    assert row[2].isoformat() == "2026-11-21T12:00:00.004123+00:00"
    assert row[3:] == (4_123_456, None)
    [(columns, recording, facts)] = query(
        server, "SELECT columns, recording, facts FROM penstock_parts"
    )
    assert {"name": "Mass_Flow", "unit": "SCCM", "kind": "float"} in columns
    assert recording == {"rate_hz": 20, "run_id": "r1"}
    assert facts == {"rows": 3, "summary": {"errors": 0}}


async def test_psql_reads_the_table(server: PostgresServer, sink: Any) -> None:
    async with sink() as opened:
        await opened.write_batch(flow_batch(3))
    shown = subprocess.run(
        ["psql", server.dsn(), "-At", "-c", 'SELECT sum("Mass_Flow") FROM samples'],
        capture_output=True,
        text=True,
    )
    assert shown.stdout == "3\n", shown.stderr


async def test_a_recording_is_opened_by_its_uri(server: PostgresServer, sink: Any) -> None:
    pytest.importorskip("pyarrow")
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with sink() as opened:
        await opened.write_batch(flow_batch(3))
        await opened.write_batch(flow_batch(2, first=3, schema=litres))
    recording = penstock.record.open(server.uri())
    assert recording.to_arrow()["Mass_Flow"].to_pylist() == [float(n) for n in range(5)]
    assert [part.units for part in recording.parts()] == [
        {"Mass_Flow": "SCCM"},
        {"Mass_Flow": "SLPM"},
    ]
    assert recording.metadata == {"rate_hz": 20}
    assert str(recording.to_numpy()["t_utc"][0]) == "2026-11-21T12:00:00.004123000"
    with pytest.raises(RecordError, match="cannot read PostgreSQL at localhost:1/gone"):
        penstock.record.open("postgresql://me:secret@localhost:1/gone").to_arrow()


async def test_every_kind_of_field_comes_back(server: PostgresServer, sink: Any) -> None:
    batch = typed_batch()
    async with sink() as opened:
        await opened.write_batch(batch)
    rows = query(server, 'SELECT "Flow", "Count", "Open", "Gas" FROM samples')
    names = ("Flow", "Count", "Open", "Gas")
    assert rows == list(zip(*(batch.column(name) for name in names), strict=True))


async def test_a_table_that_is_there_is_refused_continued_or_replaced(
    server: PostgresServer, sink: Any
) -> None:
    async with sink() as opened:
        await opened.write_batch(flow_batch(2))
    with pytest.raises(SinkExistsError, match="append=True"):
        await sink().open()
    async with sink(append=True) as opened:
        await opened.write_batch(flow_batch(2, first=2))
    assert flows(server) == [0.0, 1.0, 2.0, 3.0]
    async with sink(overwrite=True) as opened:
        await opened.write_batch(flow_batch(1))
    assert flows(server) == [0.0]


async def test_a_recording_whose_name_begins_alike_is_another_one(
    server: PostgresServer, sink: Any
) -> None:
    """It is neither continued nor dropped nor read in place of the one that is meant."""
    async with sink() as opened:
        await opened.write_batch(flow_batch(2))
    async with sink(table="samples_lab") as opened:
        await opened.write_batch(flow_batch(3, first=7))
    async with sink(append=True) as opened:
        await opened.write_batch(flow_batch(2, first=2))
    assert flows(server) == [0.0, 1.0, 2.0, 3.0]
    async with sink(overwrite=True) as opened:
        await opened.write_batch(flow_batch(1))
    assert flows(server) == [0.0]
    assert flows(server, "samples_lab") == [7.0, 8.0, 9.0]
    recording = penstock.record.open(server.uri())
    assert recording.to_arrow()["Mass_Flow"].to_pylist() == [0.0]


async def test_another_unit_begins_a_table(server: PostgresServer, sink: Any) -> None:
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with sink() as opened:
        await opened.write_batch(flow_batch(2))
        await opened.write_batch(flow_batch(3, first=2, schema=litres))
    assert flows(server) + flows(server, "samples_2") == [float(n) for n in range(5)]


async def test_a_database_without_timescale_is_told_at_once(
    server: PostgresServer, sink: Any
) -> None:
    if query(server, "SELECT 1 FROM pg_available_extensions WHERE name = 'timescaledb'"):
        pytest.skip("this server has TimescaleDB")
    with pytest.raises(SinkWriteError, match=r"has no TimescaleDB .*or leave timescale=True out"):
        await sink(timescale=True).open()
    async with sink() as opened:  # a plain table
        await opened.write_batch(flow_batch(2))
    assert flows(server) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("version", "dimension", "schema"),
    [
        ("2.9.1", "t_utc", "public"),
        ("2.13.0", "range:t_utc", "public"),
        ("2.13.0", "range:t_utc", "elsewhere"),
    ],
)
async def test_where_timescale_is_there_tables_are_hypertables(
    server: PostgresServer, sink: Any, version: str, dimension: str, schema: str
) -> None:
    """With an extension of that name whose functions only note how they are called."""
    folder = server.extensions()
    if not os.access(folder, os.W_OK) or (folder / "timescaledb.control").exists():
        pytest.skip(f"no extension can be put into {folder}")
    control, script = folder / "timescaledb.control", folder / f"timescaledb--{version}.sql"
    control.write_text(f"default_version = '{version}'\nrelocatable = false\n")
    script.write_text(
        "CREATE TABLE hypertables (name text, dimension text);"
        "CREATE FUNCTION by_range(name) RETURNS text LANGUAGE sql AS $$ SELECT 'range:' || $1 $$;"
        "CREATE FUNCTION create_hypertable(regclass, text) RETURNS void LANGUAGE sql AS"
        " $$ INSERT INTO @extschema@.hypertables VALUES ($1::text, $2) $$;"
        "CREATE FUNCTION create_hypertable(regclass, name) RETURNS void LANGUAGE sql AS"
        " $$ INSERT INTO @extschema@.hypertables VALUES ($1::text, $2::text) $$;"
    )
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    try:
        if schema != "public":
            query(server, f"CREATE SCHEMA {schema}; CREATE EXTENSION timescaledb SCHEMA {schema}")
        async with sink(timescale=True) as opened:
            await opened.write_batch(flow_batch(2))
            await opened.write_batch(flow_batch(1, first=2, schema=litres))
        assert query(server, f"SELECT * FROM {schema}.hypertables ORDER BY name") == [
            ("samples", dimension),
            ("samples_2", dimension),
        ]
        async with sink(overwrite=True, timescale=False) as opened:
            await opened.write_batch(flow_batch(2))
        assert len(query(server, f"SELECT * FROM {schema}.hypertables")) == 2
    finally:
        query(server, "DROP EXTENSION IF EXISTS timescaledb CASCADE")
        query(server, "DROP SCHEMA IF EXISTS elsewhere")
        control.unlink()
        script.unlink()


async def test_a_table_in_chunks_is_read_in_the_order_of_recording(
    server: PostgresServer, sink: Any
) -> None:
    pytest.importorskip("pyarrow")
    async with sink() as opened:
        await opened.write_batch(flow_batch(6))
    # As a hypertable: chunks by time, each with places of its own for its rows.
    query(server, "ALTER TABLE samples RENAME TO plain")
    query(server, "CREATE TABLE samples (LIKE plain) PARTITION BY RANGE (t_mono_ns)")
    for number, (low, high) in enumerate(((0, 100_000_000), (100_000_000, 10**12))):
        query(
            server,
            f"CREATE TABLE chunk_{number} PARTITION OF samples FOR VALUES FROM ({low}) TO ({high})",
        )
    query(server, "INSERT INTO samples SELECT * FROM plain")
    found = penstock.record.open(server.uri()).to_arrow()
    assert found["Mass_Flow"].to_pylist() == [float(n) for n in range(6)]


async def test_what_the_server_has_no_character_for_holds_up_nothing(
    server: PostgresServer, sink: Any
) -> None:
    r"""An instrument whose serial number ends with a NUL; behind ``\\``, ``u0000`` is itself."""
    metadata = '{"serial": "00123\\u0000", "path": "C:\\\\u0000"}'
    schema = RecordSchema((Field("Mass_Flow", "float", "SC\0CM"), Field("Gas", "text")), metadata)
    async with sink() as opened:
        await opened.write_batch(flow_batch(2, schema=schema))
    assert flows(server) == [0.0, 1.0]
    [(serial, path)] = query(
        server, "SELECT recording->>'serial', recording->>'path' FROM penstock_parts"
    )
    assert (serial, path) == ("00123\\0", "C:\\u0000")


async def test_a_server_that_stops_and_starts_has_every_row_once(
    server: PostgresServer, sink: Any
) -> None:
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with sink(loss_rows=0, append=True) as opened:
        await opened.write_batch(flow_batch(10))
        await anyio.to_thread.run_sync(server.stop)
        try:
            for start in range(10, 50, 10):
                await opened.write_batch(flow_batch(10, first=start))
                assert opened.rows_at_risk == 0
            await opened.write_batch(flow_batch(3, first=50, schema=litres))
            await until(lambda: opened.trouble)
            assert opened.rows_waiting >= 43
        finally:
            await anyio.to_thread.run_sync(server.start)
        await opened.write_batch(flow_batch(10, first=53, schema=litres))
    assert flows(server) == [float(n) for n in range(50)]
    assert flows(server, "samples_2") == [float(n) for n in range(50, 63)]


async def test_a_server_that_is_killed_at_random_has_each_row_once(
    server: PostgresServer, sink: Any
) -> None:
    chance = random.Random(7)
    rows = 0
    async with sink(loss_interval=0.02) as opened:
        for _ in range(4):
            rows = await write_at_random(opened, chance, rows)
            await anyio.to_thread.run_sync(server.stop)
            await opened.write_batch(flow_batch(3, rows))
            rows += 3
            await anyio.to_thread.run_sync(server.start)
    assert flows(server) == [float(n) for n in range(rows)]
    [(noted,)] = query(server, "SELECT sum(rows) FROM penstock_batches")
    assert noted == rows


async def test_what_is_left_in_the_spool_is_sent_by_the_next_sink(
    server: PostgresServer, sink: Any, tmp_path: Path
) -> None:
    opened = sink(loss_rows=0)
    await opened.open()
    await opened.write_batch(flow_batch(10))
    await until(lambda: not opened.rows_waiting)
    await anyio.to_thread.run_sync(server.stop)
    try:
        await opened.write_batch(flow_batch(10, first=10))
        with pytest.raises(SinkWriteError, match="they wait in"):
            await opened.close()
    finally:
        await anyio.to_thread.run_sync(server.start)
    # A process that was killed after the server took the rows, and before it noted that.
    shutil.copytree(tmp_path / "spool", tmp_path / "before")
    async with sink(append=True):
        pass
    assert not (tmp_path / "spool").exists()
    (tmp_path / "before").rename(tmp_path / "spool")
    async with sink(append=True) as opened:
        await opened.write_batch(flow_batch(10, first=20))
    assert flows(server) == [float(n) for n in range(30)]


async def test_a_table_that_somebody_has_locked_delays_nobody(
    server: PostgresServer, sink: Any
) -> None:
    async with sink() as first:
        await first.write_batch(flow_batch(5))
    with psycopg.connect(server.dsn()) as other:
        other.execute("LOCK TABLE samples, penstock_batches IN ACCESS EXCLUSIVE MODE")
        opened = sink(timeout=0.2, append=True)
        await opened.open()
        await opened.write_batch(flow_batch(5, first=5))
        await opened.flush()
        assert opened.rows_at_risk == 0
        await until(lambda: opened.trouble)
        with pytest.raises(SinkWriteError, match="they wait in"):
            await opened.close()
    async with sink(append=True):
        pass
    assert flows(server) == [float(n) for n in range(10)]


async def test_a_server_that_hangs_delays_nobody(server: PostgresServer, tmp_path: Path) -> None:
    """It takes connections, and says nothing."""
    options: dict[str, Any] = {"spool": tmp_path / "spool", "append": True, "connect_timeout": 2}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"host=127.0.0.1 port={silent.getsockname()[1]} user=me dbname=lab"
        opened = PostgresSink(dsn, timeout=0.1, close_timeout=0.1, **options)
        await opened.open()
        assert "no answer within 0.1 s" in (opened.trouble or "")
        await opened.write_batch(flow_batch(5))
        await opened.flush()
        assert (opened.rows_at_risk, opened.rows_waiting) == (0, 5)
        with pytest.raises(SinkWriteError, match="they wait in"):
            await opened.close()


async def test_a_recording_begins_without_its_server(server: PostgresServer, sink: Any) -> None:
    await anyio.to_thread.run_sync(server.stop)
    try:
        opened = sink()
        await opened.open(MASS_FLOW, {"run_id": "r1"})
        assert opened.trouble is not None
        await opened.write_batch(flow_batch(3))
        await opened.flush()
        assert (opened.rows_at_risk, opened.rows_waiting) == (0, 3)
    finally:
        await anyio.to_thread.run_sync(server.start)
    await opened.close()
    assert flows(server) == [0.0, 1.0, 2.0]


async def test_what_the_server_refuses_for_good_is_told_at_once(
    server: PostgresServer, tmp_path: Path
) -> None:
    dsn = server.dsn().replace("dbname=postgres", "dbname=nowhere password=secret")
    with pytest.raises(SinkWriteError, match=r"database \"nowhere\" does not exist") as caught:
        await PostgresSink(dsn, spool=tmp_path / "spool").open()
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
    with pytest.raises(SinkWriteError, match="cannot write to PostgreSQL") as caught:
        await PostgresSink("no-dsn secret", spool=tmp_path / "spool").open()
    assert not (tmp_path / "spool").exists()


async def test_lists_that_could_not_be_made_are_made_by_the_next_attempt(
    server: PostgresServer, sink: Any
) -> None:
    """The connection was kept, and taken for one that is ready."""
    query(server, "CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA public TO clerk")
    dsn = psycopg.conninfo.make_conninfo(server.dsn(), user="clerk")
    connection = Connection(dsn, "samples", connect_timeout=60)
    try:
        with pytest.raises(psycopg.Error, match="permission denied"):
            connection.connect()
        query(server, "GRANT CREATE ON SCHEMA public TO clerk")
        connection.connect()
        assert query(server, "SELECT count(*) FROM penstock_batches") == [(0,)]
    finally:
        connection.disconnect()
        query(server, "DROP OWNED BY clerk; DROP ROLE clerk")


async def test_a_spool_of_an_earlier_version_is_left_as_it_is(sink: Any, tmp_path: Path) -> None:
    earlier = tmp_path / "earlier"
    earlier.write_bytes(b'{"run": "1"}\n')
    with pytest.raises(SinkWriteError, match="a spool is a folder"):
        await sink(spool=earlier).open()
    assert earlier.read_bytes() == b'{"run": "1"}\n'


async def test_a_check_makes_no_table(server: PostgresServer, sink: Any) -> None:
    await sink().check()
    assert query(server, "SELECT to_regclass('penstock_parts')") == [(None,)]
    async with sink() as opened:
        await opened.write_batch(flow_batch(1))
    with pytest.raises(SinkExistsError, match="append=True"):
        await sink().check()


async def test_a_table_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be named"):
        PostgresSink("", table="")
    with pytest.raises(ValueError, match="at most 55 bytes"):
        PostgresSink("", table="é" * 28)


async def test_a_transaction_whose_client_has_vanished_keeps_no_locks(
    server: PostgresServer,
) -> None:
    """The server does not hear of a client that is cut off."""
    client = Connection(server.dsn(), "samples", 10.0, patience=2.0)
    with pytest.raises(psycopg.Error), client.transaction() as connection:
        connection.execute("CREATE TABLE held (n int)")
        number = connection.info.backend_pid
        asked = f"SELECT 1 FROM pg_stat_activity WHERE pid = {number}"
        await until(lambda: not query(server, asked))
        connection.execute("SELECT 1")
    client.disconnect()
